"""The speech task: what it learns from, how it scores, what it refuses."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from torch.testing import assert_close

from attentif.data import DataConfig
from attentif.data.builtin.tones import dial
from attentif.errors import ConfigError, DataError
from attentif.models import Batch, Input, Model, ModelConfig, build
from attentif.models.config import resolve
from attentif.tasks.base import Prepared
from attentif.tasks.speech.augment import SoundAugment, SoundAugmentConfig
from attentif.tasks.speech.data import FeaturesConfig
from attentif.tasks.speech.scores import speech_scores
from attentif.tasks.speech.speech import Speech, SpeechConfig, SpeechState
from attentif.text import TOKENIZERS

SMALL: dict[str, Any] = {"width": 16, "layers": 1, "dropout": 0.0}
TEXTS = ["4", "1 7", "0", "9 9", "3 5", "7", "2 8", "6 0", "5", "1 4"]


def said(text: str) -> None:
    """Nobody listens."""


def model_config(base: str = "conformer-tiny", **changes: Any) -> ModelConfig:
    heads = {"mixer": {"heads": 2}}
    parts: dict[str, Any] = {"encoder": {"block": {"attn": heads}}}
    if base == "whisper-micro":
        parts["decoder"] = {"block": {"attn": heads, "cross": heads}}
    return resolve({"base": base} | SMALL | parts | changes)


def clips(folder: Path, texts: list[str] = TEXTS) -> Path:
    """A table of dialled numbers."""
    rows = ["audio,text"]
    for number, text in enumerate(texts):
        soundfile.write(
            folder / f"{number}.wav", dial("".join(filter(str.isdigit, text)) or "5", np.random.default_rng(number), 20.0), 8000
        )
        rows.append(f"{number}.wav,{text}")
    (folder / "clips.csv").write_text("\n".join(rows) + "\n")
    return folder / "clips.csv"


def prepared(task: Speech, model: ModelConfig, file: Path, **data: Any) -> Prepared:
    text: Any = TOKENIZERS["char"](min_count=1) if task.needs_tokenizer else {}
    given = {"train": str(file), "valid": str(file), "test": str(file)} | data
    return task.prepare(DataConfig.model_validate(given), text, task.adapt(model), said)


def trained(objective: str, file: Path) -> tuple[Speech, Prepared, Model]:
    task = Speech(SpeechConfig.model_validate({"objective": objective, "features": {"mels": 24}}))
    config = model_config("whisper-micro" if objective == "seq2seq" else "conformer-tiny")
    found = prepared(task, config, file)
    torch.manual_seed(0)
    return task, found, build(found.sizes.fill(task.adapt(config)))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return clips(tmp_path)


# ----------------------------------------------------------------------------------------------------------------- tasks


@pytest.mark.parametrize("objective", ["ctc", "seq2seq", "label"])
def test_each_objective_learns_scores_and_answers(objective: str, table: Path) -> None:
    task, ready, model = trained(objective, table)
    batch = ready.train.batch(range(10))
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    losses = []
    for step in range(12):
        torch.manual_seed(step)
        loss = task.step(model.train(), batch)
        (loss.total / loss.count).backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss.total.detach()) / loss.count)
    assert losses[-1] < losses[0]
    found = task.evaluate(model, ready.state, ready.test)
    assert {"wer", "cer", "exact_match", "loss"} <= set(found.scores)
    assert found.scores["wer"] >= 0
    low, high = found.intervals["wer"]
    assert low <= found.scores["wer"] <= high
    quick = task.evaluate(model, ready.state, ready.valid, quick=True)
    assert quick.scores == pytest.approx({key: found.scores[key] for key in quick.scores})
    answers = task.predict(model, ready.state, ready.tokenizers, [str(table.parent / "0.wav")])
    assert isinstance(answers[0].output, str)
    assert task.sections(found)
    assert task.maps(model, ready.state, ready.tokenizers, task.examples(ready))


def test_training_twice_from_one_seed_is_bitwise_the_same(table: Path) -> None:
    task, ready, model = trained("ctc", table)
    losses = []
    for seed in (5, 5, 6):
        torch.manual_seed(seed)
        losses.append(task.step(model.train(), ready.train.batch(range(6))).total.detach())
    assert torch.equal(losses[0], losses[1])
    assert not torch.equal(losses[0], losses[2])


def test_a_batch_without_padding_of_its_own_has_the_sum_of_the_losses(table: Path) -> None:
    task, ready, model = trained("ctc", table)
    model.eval()  # no dropout
    train = replace(ready.train, augment=None)
    together = task.step(model, train.batch(range(10))).total.detach()
    alone = sum(task.step(model, train.batch([row])).total.detach() for row in range(10))
    assert_close(together, alone, rtol=1e-4, atol=1e-4)
    assert_close(task.step(model, train.batch(range(10), packed=True)).total.detach(), together, rtol=1e-4, atol=1e-4)


def test_settings_of_the_data_are_kept_in_the_task(table: Path) -> None:
    task = Speech(SpeechConfig(objective="label"))
    ready = prepared(task, model_config(), table)
    assert ready.state == SpeechState(8000, tuple(sorted(set(TEXTS))))
    assert ready.sizes.head == {"classes": len(set(TEXTS))}
    assert not task.needs_tokenizer


# --------------------------------------------------------------------------------------------------------------- bad data


def test_a_transcript_longer_than_ctc_can_align_is_told(tmp_path: Path) -> None:
    file = clips(tmp_path, ["4", "1 7"])
    file.write_text("audio,text\n0.wav,4\n1.wav," + "1" * 60 + "\n")
    with pytest.raises(DataError, match=r"clips.csv:3:.*60.*119.*\d\.\d\d"):
        prepared(Speech(SpeechConfig()), model_config(), file)
    ready = prepared(Speech(SpeechConfig()), model_config(), file, skip_bad=1)
    assert len(ready.train) == 1
    assert len(ready.test) == 2  # what is scored is never left out
    assert any("1 bad row skipped" in note for note in ready.notes)


def test_scored_transcripts_longer_than_ctc_can_align_are_said_and_have_no_loss(tmp_path: Path) -> None:
    train, hard = clips(tmp_path), tmp_path / "hard.csv"
    hard.write_text("audio,text\n0.wav,4\n1.wav," + "1" * 60 + "\n")
    (tmp_path / "easy.csv").write_text("audio,text\n0.wav,4\n")
    task, found, model = trained("ctc", train)
    notes: list[str] = []
    files = DataConfig(train=str(train), valid=str(hard), test=str(train))
    model_read = task.adapt(model_config())
    assert len(task.prepare(files, found.tokenizers, model_read, notes.append, found.state).valid) == 2
    scored = task.read(found.state, DataConfig(train=str(hard)), found.tokenizers, model_read, notes.append)
    for name in ("valid", scored.name):
        (note,) = [note for note in notes if note.startswith(f"{name}: 1 transcript of 2 cannot be written by CTC")]
        assert f"({hard}:3: a transcript of 60 tokens needs 119 frames of the model, and" in note
        assert note.endswith("errors, whatever is answered, and no loss")
    alone = task.evaluate(
        model, found.state, task.read(found.state, DataConfig(train=str(tmp_path / "easy.csv")), found.tokenizers, model_read, said)
    )
    both = task.evaluate(model, found.state, scored)
    assert both.examples == 2
    assert both.scores["loss"] == pytest.approx(alone.scores["loss"], rel=1e-4)


def test_characters_too_rare_to_be_known_are_told_and_unseen_ones_counted(tmp_path: Path) -> None:
    train = clips(tmp_path, ["44", "4é", "44"])
    (tmp_path / "test.csv").write_text("audio,text\n0.wav,4ß\n")
    task, char = Speech(SpeechConfig()), TOKENIZERS["char"]
    rare = DataConfig(train=str(train), valid=str(train), test=str(train))
    with pytest.raises(DataError, match=r"clips\.csv:3:.*'é'"):
        task.prepare(rare, char(min_count=2), task.adapt(model_config()), said)
    unseen = DataConfig(train=str(train), valid=str(train), test=str(tmp_path / "test.csv"))
    notes = task.prepare(unseen, char(min_count=1), task.adapt(model_config()), said).notes
    assert any("test: 1 transcript of 1 hold what training has not ('ß')" in note for note in notes)


def test_one_answer_for_all_sounds_is_refused(tmp_path: Path) -> None:
    train = str(clips(tmp_path, ["4", "4", "4"]))
    task = Speech(SpeechConfig(objective="label"))
    with pytest.raises(DataError, match=r"clips\.csv:.*'4'"):
        task.prepare(DataConfig(train=train, valid=train, test=train), {}, task.adapt(model_config()), said)


def test_an_answer_that_training_has_not_is_refused(tmp_path: Path) -> None:
    train = clips(tmp_path, ["4", "1"])
    (tmp_path / "test.csv").write_text("audio,text\n0.wav,7\n")
    task = Speech(SpeechConfig(objective="label"))
    with pytest.raises(DataError, match=r"test.csv:2: '7'.*2.*\(1, 4\)"):
        task.prepare(DataConfig(train=str(train), valid=str(train), test=str(tmp_path / "test.csv")), {}, task.adapt(model_config()), said)


def test_sounds_longer_than_the_model_reads_are_left_out_of_training_and_cut_elsewhere(tmp_path: Path) -> None:
    file = clips(tmp_path, ["4", "1 7 3 5 9 0"])
    config = model_config(frontend={"position": {"kind": "learned", "max_len": 16}})
    task = Speech(SpeechConfig())
    ready = prepared(task, config, file)
    assert (len(ready.train), len(ready.test)) == (1, 2)
    assert int(ready.test.lengths.max()) == 64
    assert any("train: 1 sound of 2 longer than 0.64 s, all that the model reads, left out" in note for note in ready.notes)


@pytest.mark.parametrize(
    ("task", "base", "message"),
    [
        ({"objective": "seq2seq"}, "conformer-tiny", "'seq2seq' with a model that has no decoder"),
        ({"objective": "ctc"}, "whisper-micro", "'ctc' with a model that has a decoder; say task.objective"),
        ({}, "encoder-tiny", "speech is read from frames of sound"),
    ],
)
def test_contradictions_are_refused_before_any_sound_is_read(task: dict[str, Any], base: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Speech(SpeechConfig.model_validate(task)).check(resolve({"base": base}))


def test_frames_and_samples_are_not_mixed_up() -> None:
    with pytest.raises(ConfigError, match=r"task\.features\.kind: 'samples'"):
        Speech(SpeechConfig(features=FeaturesConfig(kind="samples"))).check(model_config())


def test_stretched_sounds_are_not_spelt_out() -> None:
    task = Speech(SpeechConfig.model_validate({"features": {"frames_each": 32}}))
    with pytest.raises(ConfigError, match="frames_each"):
        task.check(model_config())


# ------------------------------------------------------------------------------------------------------- scores


def test_word_errors_are_counted_over_the_whole_split_and_marked_where_they_are() -> None:
    found = speech_scores(["one two three", "four"], ["one too three three", ""])
    assert found.scores["wer"] == pytest.approx((1 + 1 + 1) / 4)
    assert found.scores["exact_match"] == 0
    assert found.scores["cer"] == pytest.approx((1 + 6 + 4) / 17)
    (words, missed), (heard, wrong) = found.mark_errors(0)
    assert (words, heard) == (["one", "two", "three"], ["one", "too", "three", "three"])
    assert sum(missed) == 1
    assert sum(wrong) == -2
    assert found.of(np.array([1]))["wer"] == 1


def test_the_frontend_reads_augmented_sounds_of_new_lengths(table: Path) -> None:
    _, ready, model = trained("ctc", table)
    source = ready.train.batch(range(3)).source
    augment = SoundAugment(SoundAugmentConfig(speed=0.3, time_masks=0, band_masks=0), 24, 0.0, 4000.0, "htk")
    changed = Input(*augment(source.data, source.seq))
    logits, seq = model.eval()(Batch(changed))
    assert logits.shape[1] == seq.max_len
    assert seq.lengths.tolist() == [((n + 1) // 2 + 1) // 2 for n in changed.seq.lengths.tolist()]
