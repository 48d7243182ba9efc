"""The Python interface, on a run small enough to be trained here."""

import os
import shutil
from pathlib import Path

import pytest
import torch

import attentif
from attentif import ConfigError, RunError, UsageError
from attentif.training.progress import Silent

GOOD, BAD = ("superbe", "touchant", "drôle"), ("ennuyeux", "raté", "creux")
TINY = {
    "task": {"kind": "classify"},
    "tokenizer": {"kind": "word"},
    "model": {"base": "encoder-tiny", "width": 16, "layers": 2},
    "train": {"steps": 2, "threads": 1},
}


@pytest.fixture(scope="module")
def avis(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "avis.csv"
    rows = [f"film {n} vraiment {word},{'oui' if word in GOOD else 'non'}" for n in range(10) for word in (*GOOD, *BAD)]
    path.write_text("text,label\n" + "\n".join(rows) + "\n")
    return path


@pytest.fixture(scope="module")
def run(avis: Path, tmp_path_factory: pytest.TempPathFactory) -> attentif.Run:
    return attentif.train(TINY, avis, out=tmp_path_factory.mktemp("runs") / "one", watch=Silent())


def test_training_returns_the_run_that_load_opens(run: attentif.Run) -> None:
    again = attentif.load(run.path)
    assert again.config == run.config
    assert again.tokenizer.digest == run.tokenizer.digest
    for name, tensor in run.model.state_dict().items():
        assert torch.equal(again.model.state_dict()[name], tensor)
    assert not again.model.training


def test_tables_given_by_name_change_the_configuration(avis: Path, tmp_path: Path) -> None:
    changed = attentif.train(TINY, {"train": str(avis), "valid_fraction": 0.2}, out=tmp_path / "r", watch=Silent(), train={"seed": 7})
    assert changed.config.data.valid_fraction == 0.2
    assert changed.config.train.seed == 7
    assert changed.config.train.steps == 2  # the rest of the table is kept


def test_a_wrong_argument_is_named(avis: Path) -> None:
    with pytest.raises(ConfigError, match=r"model\.layres:.*'layers'"):
        attentif.train(TINY, avis, model={"layres": 3})


def test_runs_are_numbered_where_no_place_is_given(avis: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert [attentif.train(TINY, avis, watch=Silent()).path for _ in range(2)] == [Path("runs/run-1"), Path("runs/run-2")]


def test_predictions_carry_the_probability_of_every_class(run: attentif.Run) -> None:
    answers = run.predict(["film 3 vraiment superbe", {"text": "raté"}])
    assert [answer.input for answer in answers] == ["film 3 vraiment superbe", "raté"]
    for answer in answers:
        assert set(answer.scores) == {"oui", "non"}
        assert answer.probability == max(answer.scores.values())
    assert run.predict([]) == []
    with pytest.raises(UsageError, match="a list of texts"):
        run.predict("raté")


def test_evaluation_of_the_test_split_gives_the_results_of_the_run(run: attentif.Run, avis: Path) -> None:
    assert run.evaluate().scores == pytest.approx(run.results["scores"])
    assert run.evaluate(avis).examples == 60
    with pytest.raises(UsageError, match="no split 'all'"):
        run.evaluate(split="all")


def test_a_file_of_one_class_can_be_scored(run: attentif.Run, tmp_path: Path) -> None:
    file = tmp_path / "praise.csv"
    file.write_text("text,label\nfilm superbe,oui\nvraiment superbe,oui\n")
    assert run.evaluate(file).examples == 2


def test_data_that_have_changed_are_not_taken_for_those_of_the_run(avis: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(avis.read_text())
    run = attentif.train(TINY, file, out=tmp_path / "run", watch=Silent())
    file.write_text(avis.read_text() + "encore un film,oui\n")
    with pytest.raises(RunError, match="its data have changed"):
        run.evaluate()
    assert run.evaluate(file).examples == 61


def test_what_the_task_cannot_do_is_refused(run: attentif.Run) -> None:
    for ask in (lambda: run.generate("a"), lambda: run.stream("a"), lambda: run.translate(["a"]), lambda: run.maps("a", target="b")):
        with pytest.raises(UsageError, match=r"run of classify|classify run"):
            ask()


def test_maps_are_shown_in_a_notebook_and_saved(run: attentif.Run, tmp_path: Path) -> None:
    maps = run.maps("film vraiment superbe", layers=[2])
    assert [list(shown.weights) for shown in maps.maps] == [["encoder 2 attn"]]
    assert maps.maps[0].weights["encoder 2 attn"].sum(-1) == pytest.approx(1, abs=1e-5)
    assert "encoder 2 attn" in maps._repr_html_()
    assert "superbe" in maps.save(tmp_path / "maps.html").read_text()
    with pytest.raises(UsageError, match="no attention map"):
        run.maps("film", layers=[3])


def test_a_run_shows_its_scores_in_a_notebook(run: attentif.Run) -> None:
    shown = run._repr_html_()
    assert "classify" in shown
    assert "accuracy" in shown
    assert "classify" in repr(run)


def test_recording_leaves_the_predictions_as_they_are(run: attentif.Run) -> None:
    before = run.predict(["film vraiment creux"])
    with attentif.record(run.model) as tape:
        assert run.predict(["film vraiment creux"]) == before
    assert list(tape) == ["encoder.blocks.0.attn", "encoder.blocks.1.attn"]


def test_a_run_without_final_weights_is_opened_at_its_checkpoint(run: attentif.Run, tmp_path: Path) -> None:
    shutil.copytree(run.path, tmp_path / "going-on")
    for name in ("model.safetensors", "manifest.json", "results.json"):
        os.unlink(tmp_path / "going-on" / name)
    again = attentif.load(tmp_path / "going-on")
    assert again.results == {}
    assert again.predict(["film vraiment creux"]) == run.predict(["film vraiment creux"])
