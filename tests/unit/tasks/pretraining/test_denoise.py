import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attentif.errors import ConfigError, DataError, UsageError
from attentif.tasks import Evaluation
from attentif.tasks.pretraining.corruption import count_hidden
from attentif.tasks.pretraining.denoise import DenoiseConfig
from attentif.tasks.ragged import UNSCORED
from attentif.view.page import Page, render

TEXT = "le chat noir dort sur le tapis rouge et la souris grise court dans le grand jardin vert . "
WORDS = {"kind": "word", "vocab": 100, "min_count": 1}


@pytest.fixture
def pieces(tmp_path: Path, ready: Any) -> Any:
    (tmp_path / "texte.txt").write_text("\n".join(TEXT + str(n) for n in range(60)) + "\n", encoding="utf-8")
    return ready(DenoiseConfig(context=40).build(), "t5-tiny", {"train": str(tmp_path / "texte.txt")}, WORDS)


def test_it_needs_an_encoder_and_a_decoder(small: Any) -> None:
    with pytest.raises(ConfigError, match=r"denoise.*encoder"):
        DenoiseConfig().build().check(small("decoder-tiny"))


def test_the_tokenizer_gets_the_sentinels_that_a_piece_needs(pieces: Any) -> None:
    _task, prepared, _ = pieces
    hidden, spans = count_hidden(40, 0.15, 3.0)
    assert (hidden, spans) == (6, 2)
    assert len(prepared.train.marks.sentinels) == spans
    tokenizer = prepared.tokenizers["tokenizer"]
    assert tokenizer.decode(prepared.train.marks.sentinels) == ""  # special tokens: they are no text
    assert not set(tokenizer.ids_batch(["le <extra_id_0> chat"])[0].tolist()) & set(prepared.train.marks.sentinels.tolist())


def test_gaps_of_the_training_split_are_drawn_anew_in_every_batch_from_the_loops_seed(pieces: Any) -> None:
    task, prepared, model = pieces
    torch.manual_seed(5)
    losses = [task.step(model, prepared.train.batch([0, 1])).total.item() for _ in range(3)]
    torch.manual_seed(5)
    assert [task.step(model, prepared.train.batch([0, 1])).total.item() for _ in range(3)] == losses
    assert len(set(losses)) == 3


def whole_text(pieces: Any) -> Any:
    return replace(pieces, live=False)


@pytest.mark.parametrize("packed", [False, True])
def test_hidden_tokens_are_to_be_written_and_the_others_are_read(pieces: Any, packed: bool) -> None:
    _task, prepared, _ = pieces
    rows = [0, len(prepared.train) - 1]  # a whole piece and the shorter one at the end
    gaps = prepared.train.hide(whole_text(prepared.train).batch(rows, packed=packed), np.random.default_rng(0))
    read, written = gaps.source.seq.lengths.tolist(), gaps.target.seq.lengths.tolist()
    assert [list(both) for both in zip(read, written, strict=True)] == prepared.train.lengths[rows].tolist()
    scored = gaps.labels[gaps.labels != UNSCORED]
    assert len(scored) == sum(written)
    sentinels = set(prepared.train.marks.sentinels.tolist()) | {
        prepared.train.marks.eos,
        prepared.train.marks.bos,
        prepared.train.marks.pad,
    }
    kept = [t for t in gaps.source.data.flatten().tolist() if t not in sentinels] + [t for t in scored.tolist() if t not in sentinels]
    whole = [token for row in rows for token in prepared.train.tokens(row).tolist() if token not in sentinels]
    assert sorted(kept) == sorted(whole)


def test_an_evaluation_hides_the_same_tokens_whatever_the_batches(pieces: Any) -> None:
    task, prepared, model = pieces
    one, other = (task.evaluate(model, prepared.state, prepared.test, budget=budget, quick=True).scores for budget in (64, 4096))
    assert one == pytest.approx(other, rel=1e-5)
    together = prepared.test.hide(prepared.test.batch([0, 1]))
    alone = prepared.test.hide(prepared.test.batch([1]))
    assert together.source.data[1].tolist() == alone.source.data[0].tolist()


def test_a_model_that_has_learned_its_text_fills_its_gaps(pieces: Any, teach: Any) -> None:
    task, prepared, model = pieces
    teach(task, prepared, model, steps=60, lr=5e-3)
    found = task.evaluate(model, prepared.state, prepared.test)
    usual, following = (baseline.scores["token_accuracy"] for baseline in task.baselines(prepared, lambda line: None))
    assert found.scores["token_accuracy"] > usual
    assert following > usual
    (answer,) = task.predict(model, prepared.state, prepared.tokenizers, ["la souris grise court dans ___ jardin vert ."])
    assert answer.output == f"la souris grise court dans {answer.details['gaps'][0]} jardin vert ."
    stored = json.loads(json.dumps(found.details, allow_nan=False))
    assert "The gaps of the text" in render(Page("essai", task.sections(Evaluation(found.scores, details=stored))))


def test_pieces_are_shown_with_a_mark_between_documents(tmp_path: Path, ready: Any) -> None:
    rows = [f"le chat numéro {n} dort" for n in range(60)]
    (tmp_path / "textes.csv").write_text("\n".join(["text", *rows]), encoding="utf-8")
    task, prepared, model = ready(DenoiseConfig(context=40).build(), "t5-tiny", {"train": str(tmp_path / "textes.csv")}, WORDS)
    piece, *_ = task.evaluate(model, prepared.state, prepared.test).details["gaps"]
    true = [fill["true"] for fill in piece["fills"]]
    whole = " ".join(part for pair in zip(piece["texts"], [*true, ""], strict=True) for part in pair)
    documents = int((prepared.test.tokens(0) == prepared.tokenizers["tokenizer"].sep).sum())
    assert whole.count("¶") == documents > 1


def test_a_text_without_gaps_or_with_too_many_is_refused(pieces: Any) -> None:
    task, prepared, model = pieces
    with pytest.raises(UsageError, match=r"___.*missing"):
        task.predict(model, prepared.state, prepared.tokenizers, ["le chat"])
    with pytest.raises(UsageError, match=r"3.*model.*2"):
        task.predict(model, prepared.state, prepared.tokenizers, ["a ___ b ___ c __ d"])


def test_pieces_that_need_more_sentinels_than_a_run_has_are_refused(pieces: Any) -> None:
    _, prepared, model = pieces
    task = DenoiseConfig(context=128).build()
    with pytest.raises(UsageError, match=r"6 sentinels,.*2"):
        task.read(prepared.state, None, prepared.tokenizers, model.config, lambda line: None)


def test_pieces_that_need_more_sentinels_than_the_vocabulary_has_room_for_are_refused(tmp_path: Path, ready: Any) -> None:
    (tmp_path / "texte.txt").write_text(TEXT * 60, encoding="utf-8")
    said = r"task\.context: pieces of 4000 tokens need 200 sentinels, and tokenizer\.vocab: 100 is too small, .*; shorten the pieces"
    with pytest.raises(ConfigError, match=said):
        ready(DenoiseConfig(context=4000).build(), "t5-tiny", {"train": str(tmp_path / "texte.txt")}, WORDS)


def test_a_text_too_small_to_be_cut_is_refused_before_a_tokenizer_is_trained(tmp_path: Path, ready: Any) -> None:
    (tmp_path / "texte.txt").write_text("une seule ligne", encoding="utf-8")
    with pytest.raises(DataError, match=r"texte\.txt"):
        ready(DenoiseConfig().build(), "t5-tiny", {"train": str(tmp_path / "texte.txt")}, WORDS | {"min_count": 100})


def test_maps_show_what_is_read_and_what_is_written(pieces: Any) -> None:
    task, prepared, model = pieces
    maps = task.maps(model, prepared.state, prepared.tokenizers, task.examples(prepared, 1))
    assert {len(shown.weights) > 0 for shown in maps} == {True}
