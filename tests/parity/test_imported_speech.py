"""Imported models that hear write what transformers' `generate` and its processors make of the same file."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
import transformers
from foreign_sounds import clip, conformer, whisper
from transformers.utils import logging

import attentif
from attentif.api import export_model, import_model
from attentif.data.audio import read_sound
from attentif.errors import ConfigError, UsageError

pytestmark = pytest.mark.parity
logging.disable_progress_bar()
logging.set_verbosity_error()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sounds")
    whisper(folder / "whisper")
    conformer(folder / "conformer")
    conformer(folder / "plain", normalise=False)
    clip(folder / "clip.wav")
    clip(folder / "other.wav", "91", 16000)
    return folder


def their_whisper(folder: Path, file: Path, **options: Any) -> str:
    model = transformers.WhisperForConditionalGeneration.from_pretrained(folder).eval()
    processor = transformers.AutoProcessor.from_pretrained(folder)
    heard = processor(read_sound(file, 16000), sampling_rate=16000, return_tensors="pt").input_features
    return str(processor.batch_decode(model.generate(heard, **options), skip_special_tokens=True)[0])


def their_ctc(folder: Path, file: Path) -> str:
    model = transformers.Wav2Vec2ConformerForCTC.from_pretrained(folder).eval()
    processor = transformers.Wav2Vec2Processor.from_pretrained(folder)
    with torch.no_grad():
        logits = model(processor(read_sound(file, 16000), sampling_rate=16000, return_tensors="pt").input_values).logits
    return str(processor.batch_decode(logits.argmax(-1))[0])


@pytest.mark.parametrize("file", ["clip.wav", "other.wav"])
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({"language": "fr"}, {"language": "fr"}),
        ({"language": "en", "task": "translate"}, {"language": "en", "task": "translate"}),
        ({}, {"task": "transcribe"}),  # the language is heard
        ({"language": "fr", "beams": 3}, {"language": "fr", "num_beams": 3, "early_stopping": "never"}),
    ],
)
def test_whisper_writes_what_generate_writes(place: Path, file: str, ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    written = attentif.load(place / "whisper").predict([str(place / file)], **ours)[0].output
    assert written
    assert written == their_whisper(place / "whisper", place / file, **theirs).strip()


def test_what_whisper_writes_depends_on_what_it_hears_and_it_is_told_in_their_order(place: Path) -> None:
    run = attentif.load(place / "whisper")
    assert len({answer.output for answer in run.predict([str(place / "clip.wav"), str(place / "other.wav")])}) == 2
    ids = transformers.AutoTokenizer.from_pretrained(place / "whisper").convert_tokens_to_ids
    told = ["<|startoftranscript|>", "<|fr|>", "<|translate|>", "<|notimestamps|>"]
    assert run.config.task.opening.override("fr", "translate").ids(run.tokenizer) == ids(told)


@pytest.mark.parametrize("change", [{"no_repeat_ngram_size": -1}, {"forced_decoder_ids": [1, 2]}, {"language": "xx"}, {"lang_to_id": [1]}])
def test_customs_that_cannot_be_are_one_line(place: Path, tmp_path: Path, change: dict[str, Any]) -> None:
    shutil.copytree(place / "whisper", tmp_path / "odd")
    file = tmp_path / "odd" / "generation_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(ConfigError, match=r"generation_config\.json: "):
        attentif.load(tmp_path / "odd")


def test_openings_of_older_and_newer_folders_are_read(tmp_path: Path, place: Path) -> None:
    ids = transformers.AutoTokenizer.from_pretrained(place / "whisper").convert_tokens_to_ids
    older = [[1, None], [2, ids("<|translate|>")]]
    for name, customs, expected in (
        ("forced", {"forced_decoder_ids": [[1, ids("<|fr|>")], [2, ids("<|translate|>")]]}, ("fr", "translate")),
        ("heard", {"forced_decoder_ids": older}, (None, "translate")),
        ("said", {"language": "<|en|>", "task": "transcribe", "forced_decoder_ids": older}, ("en", "transcribe")),
    ):
        whisper(tmp_path / name, **customs)
        run = attentif.load(tmp_path / name)
        assert (run.config.task.opening.language, run.config.task.opening.task) == expected
        assert run.predict([str(place / "clip.wav")])[0].output == their_whisper(tmp_path / name, place / "clip.wav").strip()


@pytest.mark.parametrize("name", ["conformer", "plain"])
@pytest.mark.parametrize("file", ["clip.wav", "other.wav"])
def test_a_conformer_spells_what_their_processor_reads(place: Path, name: str, file: str) -> None:
    run = attentif.load(place / name)
    assert run.config.task.features.normalise == (name == "conformer")
    written = run.predict([str(place / file)])[0].output
    assert written
    assert written == their_ctc(place / name, place / file)


@pytest.mark.parametrize("name", ["whisper", "conformer"])
def test_runs_and_exported_folders_write_the_same(place: Path, tmp_path: Path, name: str) -> None:
    file = place / "clip.wav"
    run = import_model(place / name, tmp_path / "run")
    expected = attentif.load(place / name).predict([str(file)])[0].output
    assert attentif.load(run).predict([str(file)])[0].output == expected
    out = export_model(run, tmp_path / "out").path
    again, first = attentif.load(out), attentif.load(place / name)
    assert again.config.task == first.config.task
    assert again.predict([str(file)])[0].output == expected
    theirs = their_whisper(out, file) if name == "whisper" else their_ctc(out, file)
    assert theirs.strip() == expected


def test_a_long_sound_is_heard_piece_by_piece(place: Path, tmp_path: Path) -> None:
    parts = [read_sound(place / name, 16000) for name in ("clip.wav", "other.wav")]
    wholes = [np.pad(part[:32000], (0, 32000 - len(part[:32000]))) for part in parts]
    for number, part in enumerate(wholes):
        soundfile.write(tmp_path / f"{number}.wav", part, 16000, subtype="FLOAT")
    soundfile.write(tmp_path / "both.wav", np.concatenate(wholes), 16000, subtype="FLOAT")
    run = attentif.load(place / "whisper")
    one, two, both = (found.output for found in run.predict([str(tmp_path / f"{name}.wav") for name in ("0", "1", "both")]))
    assert both == f"{one} {two}"


def test_what_cannot_be_told_is_refused(place: Path) -> None:
    with pytest.raises(UsageError, match="language: 'de' is not known"):
        attentif.load(place / "whisper").predict([str(place / "clip.wav")], language="de")
    with pytest.raises(UsageError, match="is told no language"):
        attentif.load(place / "conformer").predict([str(place / "clip.wav")], language="fr")


def table(folder: Path) -> Path:
    numbers = ("407", "91", "5", "23", "860", "1", "77", "40")
    rows = ["audio,text", *(f"{clip(folder / f'{number}.wav', number)},{number}" for number in numbers)]
    (folder / "clips.csv").write_text("\n".join(rows) + "\n")
    return folder / "clips.csv"


@pytest.mark.parametrize("name", ["whisper", "conformer"])
def test_a_run_goes_on_with_what_a_folder_heard(place: Path, tmp_path: Path, name: str) -> None:
    file = str(table(tmp_path))
    more = {"model": {"from": str(place / name)}, "train": {"steps": 3, "lr": 1e-3}}
    source: dict[str, Any] = {"version": 1, "task": {"kind": "speech"}}
    if name == "whisper":
        with pytest.raises(ConfigError, match=r"task\.opening\.language: say which language"):
            attentif.train(source, file, out=tmp_path / "no", **more)
        source["task"]["opening"] = {"language": "fr"}
    run = attentif.train(source, file, out=tmp_path / "run", **more)
    task = run.config.task
    assert (task.features, task.objective) == (
        attentif.load(place / name).config.task.features,
        "seq2seq" if name == "whisper" else "ctc",
    )
    assert isinstance(run.predict([str(place / "clip.wav")])[0].output, str)
    assert "wer" in run.evaluate(file).scores
    out = export_model(run.path, tmp_path / "out").path
    theirs = their_whisper(out, place / "clip.wav") if name == "whisper" else their_ctc(out, place / "clip.wav")
    assert run.predict([str(place / "clip.wav")])[0].output == theirs.strip()
