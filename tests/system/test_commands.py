"""The commands as a user types them, on small files of each task."""

import csv
import io
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from terminal import Done

from attentif.api import load
from attentif.nn.mixer import MIXERS
from attentif.training.load import load_run_config
from attentif.training.manifest import accept_files

pytestmark = pytest.mark.system


# ----------------------------------------------------------------------------------------------------------------- train


def test_training_says_what_it_found_then_compares_with_the_baselines(trained: dict[str, Done]) -> None:
    done = trained["classify"]
    assert done.code == 0, done.err
    assert "text from column 'review', label from column 'polarity'" in done.err
    for words in ("majority class", "TF-IDF + logistic regression", "this run", "accuracy", "runs/classify/report.html"):
        assert words in done.out


def test_json_is_all_that_a_machine_gets(trained: dict[str, Done]) -> None:
    done = trained["translate"]
    assert (done.code, done.err) == (0, "")
    results = json.loads(done.out)
    assert results["run"] == "runs/translate"
    assert {"bleu", "chrf", "exact_match"} <= set(results["scores"])


def test_a_run_is_a_folder_with_everything_in_it(trained: dict[str, Done]) -> None:
    files = {
        "config.toml",
        "tokenizer.json",
        "model.safetensors",
        "metrics.jsonl",
        "results.json",
        "report.html",
        "README.md",
        "checkpoints",
    }
    for task in trained:
        assert files <= {path.name for path in Path("runs", task).iterdir()}


def test_an_existing_run_is_kept_unless_forced(typed: Callable[..., Done]) -> None:
    weights = Path("runs/classify/model.safetensors").read_bytes()
    done = typed("train", "classify.toml", "--out", "runs/classify")
    assert done.code == 2
    assert "exists" in done.err
    assert Path("runs/classify/model.safetensors").read_bytes() == weights
    assert typed("train", "classify.toml", "train.steps=1", "--out", "forced").code == 0
    assert typed("train", "classify.toml", "train.steps=2", "--out", "forced", "--force").code == 0
    assert json.loads(Path("forced/results.json").read_text())["steps"] == 2


def test_a_dry_run_says_what_it_would_take_and_writes_nothing(typed: Callable[..., Done]) -> None:
    before = sorted(Path().rglob("*"))
    done = typed("train", "classify.toml", "train.steps=0", "train.epochs=3.0", "--dry-run", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert sum(found["examples"].values()) == 270
    assert found["steps"] == 3  # one batch holds the whole set
    assert found["memory"]["optimizer"] == pytest.approx(2 * found["memory"]["weights"], rel=0.01)
    assert found["memory"]["activations"] > 0
    assert "estimate" in typed("train", "language.toml", "--dry-run").out
    assert sorted(Path().rglob("*")) == before


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_stopped_run_goes_on_to_the_end(typed: Callable[..., Done], tmp_path: Path, number: signal.Signals, code: int) -> None:
    words = [sys.executable, "-m", "attentif", "train", "classify.toml", "train.eval_every=1", "--out", str(tmp_path / "run")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith("step 2:"):
                process.send_signal(number)
                break
        rest = process.stderr.read()
    assert process.returncode == code
    assert f"attentif train --resume {tmp_path / 'run'}" in rest
    assert "error" not in rest
    done = typed("train", "--resume", str(tmp_path / "run"))
    assert done.code == 0, done.err
    assert "this run" in done.out
    assert "is finished" in typed("train", "--resume", str(tmp_path / "run")).err


# ------------------------------------------------------------------------------------------------------------- using runs


def test_evaluating_again_gives_the_scores_of_the_run(typed: Callable[..., Done]) -> None:
    for task in ("classify", "translate", "language"):
        done = typed("evaluate", f"runs/{task}", "--json")
        assert done.code == 0, done.err
        expected = json.loads(Path("runs", task, "results.json").read_text())["scores"]
        assert json.loads(done.out)["scores"] == pytest.approx(expected, rel=1e-5)


def test_other_files_are_scored_whole(typed: Callable[..., Done]) -> None:
    Path("autres.csv").write_text("critique;note\nle film numéro 1 est superbe;positif\nce roman numéro 2 est raté;négatif\n")
    done = typed("evaluate", "runs/classify", "--data", "autres.csv", "--json")
    assert json.loads(done.out)["examples"] == 2
    done = typed("evaluate", "runs/classify", "--data", "autres.csv", "--text", "critique", "--label", "note")
    assert "text from column 'critique'" in done.err
    assert "accuracy" in done.out
    done = typed("evaluate", "runs/classify", "--data", "autres.csv", "--data", "avis.csv")
    rows = len(Path("avis.csv").read_text().splitlines()) + 1
    assert f"autres.csv and avis.csv: {rows} examples" in done.out
    done = typed("evaluate", "runs/translate", "--data", "mots.fr", "--target", "mots.en", "--json")
    assert json.loads(done.out)["examples"] == 216


def test_columns_are_named_the_way_that_the_error_says(typed: Callable[..., Done], tmp_path: Path) -> None:
    """Of a run of a built-in set too, whose own data have no columns to name."""
    run, table = tmp_path / "run", tmp_path / "t.csv"
    shutil.copytree("runs/translate", run)
    text, own_files = (run / "config.toml").read_text(), 'train = "mots.fr"\ntarget = "mots.en"\n'
    assert own_files in text
    (run / "config.toml").write_text(text.replace(own_files, 'name = "numbers"\n'))
    accept_files(run)
    table.write_text("a,b\nun deux trois,one two three\n")
    assert "name it: data.source=NAME" in typed("evaluate", str(run), "--data", str(table)).err
    assert typed("evaluate", str(run), "--data", str(table), "data.source=a", "data.target_column=b").code == 0
    assert "no column looks like the source; name it: --text NAME" in typed("predict", str(run), "--file", str(table)).err
    assert typed("predict", str(run), "--file", str(table), "--text", "a").code == 0


def test_predictions_of_texts_files_and_pipes_agree(typed: Callable[..., Done], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    texts = ["le film numéro 3 est superbe", "le film numéro 3 est raté"]
    done = typed("predict", "runs/classify", *texts, "--json")
    answers = json.loads(done.out)
    assert [answer["input"] for answer in answers] == texts
    for answer in answers:
        assert sum(answer["scores"].values()) == pytest.approx(1)
        assert answer["output"] == next(iter(answer["scores"]))
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(texts) + "\n"))
    assert json.loads(typed("predict", "runs/classify", "-", "--json").out) == answers
    (tmp_path / "lignes.txt").write_text("\n".join(texts) + "\n")
    assert json.loads(typed("predict", "runs/classify", "--file", str(tmp_path / "lignes.txt"), "--json").out) == answers
    (tmp_path / "t.csv").write_text("id,avis\n" + "".join(f"{n},{text}\n" for n, text in enumerate(texts)))
    out = tmp_path / "answers.jsonl"
    assert typed("predict", "runs/classify", "--file", str(tmp_path / "t.csv"), "--out", str(out)).code == 0
    kept = [{"id": str(n), "avis": text} for n, text in enumerate(texts)]
    assert [json.loads(line) for line in out.read_text().splitlines()] == [row | answer for row, answer in zip(kept, answers, strict=True)]
    table = tmp_path / "answers.csv"
    assert typed("predict", "runs/classify", *texts, "--out", str(table)).code == 0
    with table.open(newline="") as file:
        for row, answer in zip(csv.DictReader(file), answers, strict=True):
            assert (row["input"], row["output"]) == (answer["input"], answer["output"])
            assert {label: float(row[f"p({label})"]) for label in answer["scores"]} == answer["scores"]
    assert answers[0]["output"] in typed("predict", "runs/classify", *texts).out


@pytest.mark.parametrize("blank", ["", "  \t"])
def test_an_empty_text_is_refused_and_an_empty_row_named(typed: Callable[..., Done], tmp_path: Path, blank: str) -> None:
    told = "error: the text is empty: there is nothing to read\n"
    for words in (("predict", "runs/classify", blank), ("maps", "runs/classify", blank, "--out", str(tmp_path / "maps.html"))):
        assert typed(*words) == Done(2, "", told)
    assert typed("predict", "runs/classify", "superbe", blank).err == told.replace("the text", "input 2: the text")
    assert typed("embed", "runs/classify", "superbe", blank).err == told.replace("the text", "input 2: the text")
    (tmp_path / "lignes.txt").write_text(f"superbe\n{blank}\nraté\n")
    (tmp_path / "t.csv").write_text(f'avis,id\nsuperbe,1\n"{blank}",2\n')
    for file, line in (("lignes.txt", 2), ("t.csv", 3)):
        done = typed("predict", "runs/classify", "--file", str(tmp_path / file), "--out", str(tmp_path / "answers.jsonl"))
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith(f"error: {tmp_path / file}:{line}: the text is empty")
        assert not (tmp_path / "answers.jsonl").exists()


def test_an_empty_prompt_is_the_beginning_of_a_text(typed: Callable[..., Done], tmp_path: Path) -> None:
    (answer,) = json.loads(typed("predict", "runs/language", "", "--json").out)
    assert answer["input"] == ""
    (tmp_path / "lignes.txt").write_text("le film\n\n")
    assert len(json.loads(typed("predict", "runs/language", "--file", str(tmp_path / "lignes.txt"), "--json").out)) == 2


def test_a_pair_is_typed_as_a_text_and_its_second(typed: Callable[..., Done], tmp_path: Path) -> None:
    rows = [f"il pleut {n},il {verb} {n},{'oui' if verb == 'pleut' else 'non'}" for n in range(20) for verb in ("pleut", "neige")]
    (tmp_path / "paires.csv").write_text("\n".join(["text,pair,label", *rows]) + "\n")
    run = str(tmp_path / "run")
    assert typed("train", "classify.toml", "--data", str(tmp_path / "paires.csv"), "train.steps=1", "--out", run).code == 0
    (answer,) = json.loads(typed("predict", run, "il pleut", "--pair", "il neige", "--json").out)
    assert answer["input"] == "il pleut / il neige"
    assert set(answer["scores"]) == {"oui", "non"}
    (tmp_path / "autre.csv").write_text("text,pair\nil pleut,il neige\n")
    assert json.loads(typed("predict", run, "--file", str(tmp_path / "autre.csv"), "--keep", "", "--json").out) == [answer]
    (same,) = load(run).predict([{"text": "il pleut", "pair": "il neige"}])
    assert (same.output, same.probability) == (answer["output"], answer["probability"])
    assert typed("predict", run, "il pleut", "--pair", " ") == Done(2, "", "error: the pair is empty: there is nothing to read\n")
    for words in (("il pleut",), ("il pleut", "il neige")):
        alone = typed("predict", run, *words)
        assert alone.code == 2
        assert alone.err.endswith("reads pairs, and input 1 is one text: give both, by --pair TEXT or in a file\n")
    page = tmp_path / "maps.html"
    assert typed("maps", run, "il pleut", "--pair", "il neige", "--out", str(page)).code == 0
    assert "il pleut / il neige" in page.read_text()
    assert "goes with a model of pairs" in typed("maps", "runs/language", "bonjour", "--pair", "salut", "--out", str(page), "--force").err


def test_translations_are_lines_that_can_be_piped_on(typed: Callable[..., Done]) -> None:
    done = typed("predict", "runs/translate", "un deux", "trois")
    assert done.code == 0
    assert len(done.out.splitlines()) == 2


def test_what_is_streamed_is_what_is_written_as_json(typed: Callable[..., Done]) -> None:
    words = ("generate", "runs/language", "le film", "--max-tokens", "12", "--temperature", "0.9", "--top-k", "8", "--seed", "3")
    streamed, whole = typed(*words), typed(*words, "--json", "--probabilities")
    found = json.loads(whole.out)
    assert streamed.out == f"le film{found['text']}\n"
    assert 0 < len(found["steps"]) <= 12
    for step in found["steps"]:
        assert 0 < step["probability"] <= max(step["likeliest"].values()) + 1e-9
    assert "likeliest" in typed(*words, "--probabilities").out
    assert typed("generate", "runs/language", "le", "--beams", "2", "--length-penalty", "0", "--max-tokens", "4").code == 0


def test_a_file_of_prompts_is_continued_row_by_row(typed: Callable[..., Done], tmp_path: Path) -> None:
    prompts, out = tmp_path / "prompts.txt", tmp_path / "texts.jsonl"
    prompts.write_text("le film\nun rôle\nle film\n")
    words = ("generate", "runs/language", "--file", str(prompts), "--max-tokens", "4")
    assert typed(*words, "--out", str(out)).code == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["input"] for row in rows] == ["le film", "un rôle", "le film"]
    alone = load("runs/language")
    assert [row["output"] for row in rows] == [alone.generate(row["input"], max_tokens=4).text for row in rows]
    for wrong in (words, ("generate", "runs/language"), (*words, "le film"), ("generate", "runs/language", "le", "--resume")):
        assert typed(*wrong).code == 2


def test_vectors_of_a_file_are_written_and_searched(typed: Callable[..., Done], tmp_path: Path) -> None:
    texts, out = tmp_path / "texts.txt", tmp_path / "vectors.npz"
    texts.write_text("superbe\n\nennuyeux\nun film superbe\n")
    both = typed("embed", "runs/classify", str(texts), "--out", str(out), "--near", "superbe", "--json")
    near = [row["line"] for row in json.loads(both.out.partition("\n")[2])]
    assert near[0] == 1
    assert np.load(out)["lines"].tolist() == [1, 3, 4]
    alone = typed("embed", "runs/classify", str(texts), "--near", "superbe", "--json")
    assert [row["line"] for row in json.loads(alone.out)] == near
    assert typed("embed", "runs/classify", str(texts), "--near", "superbe", "--resume").code == 2
    assert typed("embed", "runs/classify", "superbe", "ennuyeux", "--out", str(tmp_path / "two.csv")).code == 0


def test_maps_are_one_page_that_needs_no_network(typed: Callable[..., Done], tmp_path: Path) -> None:
    page = tmp_path / "maps.html"
    done = typed("maps", "runs/language", "le film", "--layers", "2", "--out", str(page))
    assert (done.code, done.out) == (0, f"{page}\n")
    text = page.read_text()
    assert "decoder 2 attn" in text
    assert "decoder 1 attn" not in text
    assert 'src="http' not in text
    assert typed("maps", "runs/language", "le film", "--out", str(page)).code == 2  # it is there
    assert typed("maps", "runs/translate", "un deux", "--target", "one two", "--out", str(page), "--force").code == 0


def test_what_show_prints_can_be_trained_as_it_is(typed: Callable[..., Done], tmp_path: Path) -> None:
    for name in ("classify.toml", "translate.toml", "language.toml", "runs/classify"):
        printed = tmp_path / "printed.toml"
        printed.write_text(typed("show", name).out)
        assert load_run_config(printed) == load_run_config(name)
    assert typed("train", str(printed), "train.steps=1", "--out", str(tmp_path / "again")).code == 0


def test_a_plug_in_brings_its_own_mixer(typed: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MIXERS, "classes", dict(MIXERS.classes))
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        """
from typing import Literal
from torch import Tensor
from attentif.nn.mixer import MIXERS, Caps, Mixer, MixerConfig

@MIXERS.register
class HalfConfig(MixerConfig):
    '''Half of everything (Nobody 2026).'''
    kind: Literal["half"] = "half"
    def build(self, site):
        return Half()

class Half(Mixer):
    caps = Caps(causal=True, bidirectional=False, streaming="exact")
    def forward(self, x, seq, state=None):
        return x / 2
"""
    )
    mixer = 'model.encoder.block.attn.mixer={kind = "half"}'
    train = ("train", "classify.toml", "train.steps=1", "--out", str(tmp_path / "run"), mixer)
    done = subprocess.run([sys.executable, "-m", "attentif", *train], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no mixer is called 'half'" in done.stderr
    assert typed("--plugin", str(plugin), *train).code == 0
    assert typed("predict", str(tmp_path / "run"), "bonjour", "--plugin", str(plugin)).code == 0
    assert "Nobody 2026" in typed("list", "mixers").out
