"""The speech recipe as a user types it, on a few sounds."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import soundfile

from attentif.cli.main import run as attentif
from attentif.data.builtin.tones import dial

pytestmark = pytest.mark.system

SMALL = [
    "model.width=16",
    "model.layers=1",
    "train.epochs=0",
    "train.min_steps=0",
    "train.steps=3",
    "train.eval_every=3",
    "train.threads=1",
]


def sounds(folder: Path, count: int) -> Path:
    random = np.random.default_rng(0)
    rows = ["wav\ttranscript\tcaller"]
    for number in range(count):
        digits = "".join(random.choice(list("0123456789"), 3).tolist())
        soundfile.write(folder / f"{number}.wav", dial(digits, random, 15.0), 8000)
        rows.append(f"{number}.wav\t{' '.join(digits)}\t{'abcdef'[number % 6]}")
    (folder / "calls.tsv").write_text("\n".join(rows) + "\n")
    return folder / "calls.tsv"


def test_a_table_of_sounds_is_learned_answered_and_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    table, run = sounds(tmp_path, 24), str(tmp_path / "run")
    words = ["train", "speech", "--data", str(table), "--group", "caller", *SMALL, "--out", run]
    assert attentif(words) == 0, capsys.readouterr().err
    said = capsys.readouterr()
    assert "audio from column 'wav', text from column 'transcript', group from column 'caller'" in said.err
    for text in ("most frequent transcript", "word error rate", "report.html"):
        assert text in said.out
    report = Path(run, "report.html").read_text()
    assert "When the model heard what" in report or "Transcripts" in report
    assert attentif(["predict", run, str(tmp_path / "0.wav"), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 1
    assert attentif(["predict", run, "--file", str(table), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 24
    monkeypatch.chdir(tmp_path)
    assert attentif(["predict", run, "0.wav", "1.wav"]) == 0
    head, _, *rows = filter(None, map(str.strip, capsys.readouterr().out.splitlines()))
    assert head.split() == ["transcript", "sound"]
    assert [row.split()[-1] for row in rows] == ["0.wav", "1.wav"]
    assert attentif(["evaluate", run, "--data", str(table), "--json"]) == 0
    assert "wer" in capsys.readouterr().out
    assert attentif(["maps", run, str(tmp_path / "0.wav"), "--out", str(tmp_path / "maps.html")]) == 0
    assert attentif(["predict", run, str(tmp_path / "nothing.wav")]) == 1
    assert "nothing.wav: there is no such file" in capsys.readouterr().err


def test_sounds_are_labelled_as_a_whole_by_the_recipe_and_by_the_body_of_its_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The recipe's tokenizer, or that of the run begun with, has no use there, and is nothing that a user could take away."""
    table = sounds(tmp_path, 24)
    header, *rows = (line.split("\t") for line in table.read_text().splitlines())
    labelled = [[name, "even" if int(said[-1]) % 2 == 0 else "odd", caller] for name, said, caller in rows]
    table.write_text("\n".join("\t".join(row) for row in [header, *labelled]) + "\n")
    speech = ["train", "speech", "--data", str(table), *SMALL]
    assert attentif([*speech, "--out", str(tmp_path / "spelt")]) == 0, capsys.readouterr().err
    body = f"model.from={tmp_path / 'spelt'}"
    for place, words in {"fresh": [], "begun": [body]}.items():
        run = str(tmp_path / place)
        assert attentif([*speech, *words, "task.objective=label", "--out", run]) == 0, capsys.readouterr().err
        assert not Path(run, "tokenizer.json").exists()
        capsys.readouterr()
        assert attentif(["predict", run, str(tmp_path / "0.wav"), "--json"]) == 0
        assert len(json.loads(capsys.readouterr().out)[0]["scores"]) > 1
        assert attentif(["predict", run, str(tmp_path / "0.wav")]) == 0
        assert capsys.readouterr().out.split()[:3] == ["label", "probabilities", "sound"]
    assert attentif([*speech, "task.objective=label", "tokenizer.kind=char"]) == 2
    assert "reads no text: leave it out" in capsys.readouterr().err


def test_the_recipes_of_tones_run_with_both_kinds_of_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from attentif.data.builtin import BUILTIN, tones

    few = lambda seed: tones.load(seed, train=12, valid=4, test=6)
    monkeypatch.setitem(BUILTIN, "tones", type(tones.SET)(**{**vars(tones.SET), "load": few}))
    for recipe in ("tones", "tones-seq2seq"):
        assert attentif(["train", recipe, *SMALL, "--out", str(tmp_path / recipe), "--json"]) == 0, capsys.readouterr().err
        results = json.loads(capsys.readouterr().out)
        assert results["examples"] == 6
        assert {"wer", "cer", "exact_match"} <= set(results["scores"])


@pytest.mark.skipif("ATTENTIF_DATA" not in os.environ, reason="ATTENTIF_DATA does not name the folder of real data")
def test_real_recordings_are_read_by_the_names_of_their_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(os.environ["ATTENTIF_DATA"], "spoken_digits")
    recipe = Path(__file__).parents[2] / "benchmarks/real/spoken_digits.toml"
    words = ["train", str(recipe), "--data", f"{folder}/*_george_1?.wav", "--test", f"{folder}/*_jackson_1.wav"]
    assert attentif([*words, *SMALL, "--out", str(tmp_path / "run"), "--json"]) == 0, capsys.readouterr().err
    results = json.loads(capsys.readouterr().out)
    assert results["examples"] == 10
    assert [rival["name"]["en"] for rival in results["baselines"]][-1].startswith("nearest sound")
