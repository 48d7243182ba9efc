import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attentif.data import DataConfig
from attentif.errors import ConfigError, UsageError
from attentif.models import ModelConfig
from attentif.tasks import Evaluation, LanguageConfig
from attentif.view.page import Page, render

TEXT = "".join(f"la ligne {n} dit que la mer est calme et que le vent se lève à l'est .\n" for n in range(120))
BYTES = {"kind": "byte"}


@pytest.fixture
def text(tmp_path: Path, ready: Any) -> Any:
    (tmp_path / "texte.txt").write_text(TEXT, encoding="utf-8")
    return ready(LanguageConfig(context=32).build(), "decoder-tiny", {"train": str(tmp_path / "texte.txt")}, BYTES)


def test_a_model_that_sees_both_sides_is_refused(small: Callable[..., ModelConfig]) -> None:
    task = LanguageConfig().build()
    with pytest.raises(ConfigError, match=r"model.*see"):
        task.check(task.adapt(small("encoder-tiny")))
    with pytest.raises(ConfigError, match="this one has two"):
        task.check(small("transformer-tiny"))


def test_every_token_is_predicted_exactly_once_from_the_one_before(text: Any) -> None:
    _, prepared, _ = text
    test = prepared.test
    batches = [test.batch([row]) for row in range(len(test))]
    labels = np.concatenate([batch.labels[0].numpy() for batch in batches])
    read = np.concatenate([batch.source.data[0].numpy() for batch in batches])
    stream = test.stream.window(0, len(test.stream))
    assert np.array_equal(labels, stream)
    assert np.array_equal(read[1:], stream[:-1])
    assert read[0] == test.tokenizer.eos


def test_the_stream_holds_the_text_and_its_bytes_are_counted(text: Any) -> None:
    _, prepared, _ = text
    streams = [getattr(prepared, name).stream for name in ("train", "valid", "test")]
    decoded = "".join(prepared.tokenizers["tokenizer"].decode(stream.window(0, len(stream))) for stream in streams)
    assert decoded == TEXT
    assert sum(stream.text_bytes for stream in streams) == len(TEXT.encode())


def test_packed_and_padded_windows_give_the_same_sum(text: Any) -> None:
    task, prepared, model = text
    rows = [0, len(prepared.train) - 1]  # the last is shorter
    padded, packed = (task.step(model, prepared.train.batch(rows, packed=side)) for side in (False, True))
    assert padded.count == packed.count == int(prepared.train.lengths[rows].sum())
    assert padded.total.item() == pytest.approx(packed.total.item(), rel=1e-5)


def test_a_model_that_knows_nothing_scores_the_logarithm_of_its_vocabulary(text: Any) -> None:
    task, prepared, model = text
    with torch.no_grad():
        model.head.weight.zero_()
    test = prepared.test
    scores = task.evaluate(model, prepared.state, test).scores
    vocab = prepared.sizes.vocab
    assert scores["loss"] == pytest.approx(math.log(vocab), rel=1e-5)
    assert scores["perplexity"] == pytest.approx(vocab, rel=1e-4)
    assert scores["bits_per_byte"] == pytest.approx(math.log2(vocab) * len(test.stream) / test.stream.text_bytes, rel=1e-5)


def test_the_score_does_not_depend_on_the_batches(text: Any) -> None:
    task, prepared, model = text
    found = [task.evaluate(model, prepared.state, prepared.test, budget=budget).scores["loss"] for budget in (32, 100, 8192)]
    assert found == pytest.approx([found[0]] * 3, rel=1e-5)
    low, high = task.evaluate(model, prepared.state, prepared.test).intervals["loss"]
    assert low <= found[0] <= high


def test_a_quick_evaluation_scores_a_part(text: Any) -> None:
    _, prepared, model = text
    task = LanguageConfig(context=32, eval_tokens=96).build()
    whole = len(prepared.valid.stream)
    assert 0 < task.evaluate(model, prepared.state, prepared.valid, quick=True).examples <= 96 < whole
    assert task.evaluate(model, prepared.state, prepared.valid).examples == whole


def test_windows_are_no_longer_than_the_model_can_read(tmp_path: Path, ready: Any) -> None:
    (tmp_path / "texte.txt").write_text(TEXT, encoding="utf-8")
    frontend = {"kind": "tokens", "position": {"kind": "learned", "max_len": 16}}
    task = LanguageConfig(context=32).build()
    _, prepared, _ = ready(task, "decoder-tiny", {"train": str(tmp_path / "texte.txt")}, BYTES, frontend=frontend)
    assert int(prepared.train.lengths.max()) == 16
    assert any("the longest that the model can read" in note for note in prepared.notes)


def test_a_prompt_begins_where_a_document_does(text: Any) -> None:
    task, prepared, _ = text
    tokenizer = prepared.tokenizers["tokenizer"]
    assert task.prompt(prepared.tokenizers, "la")[0] == tokenizer.eos
    assert tokenizer.decode(task.prompt(prepared.tokenizers, "la mer")) == "la mer"


def test_continuations_follow_the_options(text: Any) -> None:
    task, prepared, model = text
    drawn = [
        task.predict(model, prepared.state, prepared.tokenizers, ["la mer", "le"], max_tokens=5, temperature=1.0, seed=3) for _ in range(2)
    ]
    assert drawn[0] == drawn[1]
    assert [answer.input for answer in drawn[0]] == ["la mer", "le"]
    with pytest.raises(UsageError, match=r"max_token:.*'max_tokens'"):
        task.predict(model, prepared.state, prepared.tokenizers, ["la mer"], max_token=5)


def test_details_are_plain_data_from_which_the_report_can_be_drawn_again(text: Any) -> None:
    task, prepared, model = text
    found = task.evaluate(model, prepared.state, prepared.test)
    stored = json.loads(json.dumps(found.details, allow_nan=False))
    assert sum(part["examples"] for part in stored["by_place"]) == len(prepared.test.stream)
    assert len(stored["samples"]) == 3
    page = render(Page("essai", LanguageConfig().build().sections(Evaluation(found.scores, details=stored))))
    assert "What surprises the model" in page


def test_maps_show_what_each_token_looks_back_at(text: Any) -> None:
    task, prepared, model = text
    (maps,) = task.maps(model, prepared.state, prepared.tokenizers, ["la mer"])
    (weights,) = maps.weights.values()
    assert list(maps.rows) == ["[EOS]", "l", "a", "␣", "m", "e", "r"]
    assert np.all(np.triu(weights, 1) == 0)


def test_frequencies_and_trigrams_are_reported_in_the_same_units(text: Any) -> None:
    task, prepared, _ = text
    single, trigrams = task.baselines(prepared, lambda line: None)
    assert trigrams.scores["bits_per_byte"] < single.scores["bits_per_byte"] < 8


def test_another_file_is_scored_whole(text: Any, tmp_path: Path) -> None:
    task, prepared, model = text
    (tmp_path / "autre.txt").write_text("le vent se lève .\n", encoding="utf-8")
    said: list[str] = []
    other = task.read(prepared.state, DataConfig(train=str(tmp_path / "autre.txt")), prepared.tokenizers, model.config, said.append)
    assert "[EOS] that ends each document" in " ".join(said)  # whether it counts changes a perplexity
    assert len(other.stream) == len("le vent se lève .\n".encode()) + 1  # and [EOS]


def test_documents_that_stand_in_two_splits_are_said(tmp_path: Path, ready: Any) -> None:
    def write(name: str, texts: list[str]) -> str:
        file = tmp_path / f"{name}.jsonl"
        file.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
        return str(file)

    files = {
        "train": write("train", [f"texte {n}" for n in range(30)]),
        "valid": write("valid", ["texte 3", "autre", "texte 4"]),
        "test": write("test", ["autre", "encore un"]),
    }
    _, prepared, _ = ready(LanguageConfig(context=32).build(), "decoder-tiny", files, BYTES)
    assert "2 of 3 valid documents are in train too" in prepared.notes
    assert "1 of 2 test documents are in valid too" in prepared.notes
    assert not any("test documents are in train" in note for note in prepared.notes)


def test_unknown_words_of_the_test_are_said_to_flatter_bits_per_byte(tmp_path: Path, ready: Any) -> None:
    files = {name: str(tmp_path / f"{name}.txt") for name in ("train", "valid", "test")}
    for name, line in (("train", "la mer est calme\n"), ("valid", "la mer est calme\n"), ("test", "la mer est agitée\n")):
        Path(files[name]).write_text(20 * line, encoding="utf-8")
    said = lambda kind: [
        note for note in ready(LanguageConfig(context=32).build(), "decoder-tiny", files, {"kind": kind})[1].notes if "are unknown" in note
    ]
    (note,) = said("word")
    assert note.startswith("test: 20 tokens of 81 (24.7 %) are unknown, and what stands there is not counted")
    assert not said("byte")


@pytest.mark.parametrize("base", ["lstm-tiny", "gru-tiny", "mamba-tiny", "decoder-tiny"])
def test_truncated_back_propagation_learns_in_pieces_with_the_state_carried_on(base: str, tmp_path: Path, ready: Any) -> None:
    """The loss is that of the whole window; a gradient goes back to the beginning of its piece, and no further."""
    (tmp_path / "texte.txt").write_text(TEXT, encoding="utf-8")
    task = LanguageConfig(context=32, truncate=8).build()
    task, prepared, model = ready(task, base, {"train": str(tmp_path / "texte.txt")}, BYTES)
    model.eval()  # without dropout
    batch = prepared.train.batch([0, 1, len(prepared.train) - 1])
    whole, pieces = LanguageConfig(context=32).build().step(model, batch), task.step(model, batch)
    assert pieces.count == whole.count
    # float32, summed in other pieces
    assert float(pieces.total.detach()) == pytest.approx(float(whole.total.detach()), rel=1e-5)

    x = []
    hook = model.frontend.register_forward_hook(lambda *args: x.append(args[2][0]) or args[2][0].retain_grad())
    late = torch.full_like(batch.labels, -100)
    late[:, 12:16] = batch.labels[:, 12:16]  # scored in the second piece alone
    task.step(model, replace(batch, labels=late)).total.backward()
    hook.remove()
    reached = [piece.grad is not None and bool(piece.grad.abs().max() > 0) for piece in x]
    assert reached == [False, True, False, False]


def test_pieces_need_an_exact_state(small: Callable[..., ModelConfig]) -> None:
    with pytest.raises(ConfigError, match="truncate"):
        LanguageConfig(truncate=8).build().check(small("reformer-tiny", layers=2))
