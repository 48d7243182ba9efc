"""`attentif list` and `attentif show`: everything that has a name, and what it stands for."""

import json
import re
import sys
import tomllib
from pathlib import Path

import pytest

from attentif.cli.main import run
from attentif.models import preset_names
from attentif.recipes import recipe_description, recipe_names
from attentif.training.load import load_config


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(list(words)) == 0
    return capsys.readouterr().out


def test_each_list_describes_what_it_names(capsys: pytest.CaptureFixture[str]) -> None:
    everything = json.loads(printed(capsys, "list", "--json"))
    assert list(everything) == ["recipes", "models", "tasks", "fitted", "mixers", "data", "tokenizers", "suites"]
    for kind, entries in everything.items():
        assert entries, kind
        assert json.loads(printed(capsys, "list", kind, "--json")) == entries
        for entry in entries:
            assert all(entry[column] for column in entry if column != "paper"), entry
    assert {entry["name"] for entry in everything["models"]} == set(preset_names())


def test_mixers_say_what_they_can_do_and_where_they_come_from(capsys: pytest.CaptureFixture[str]) -> None:
    mixers = {entry["kind"]: entry for entry in json.loads(printed(capsys, "list", "mixers", "--json"))}
    assert mixers["attention"]["abilities"] == "causal, bidirectional, streaming, packed, maps"
    assert "Vaswani et al. 2017" in mixers["attention"]["paper"]
    assert "maps" not in mixers["feed-forward"]["abilities"]
    assert mixers["parallel"]["abilities"] == mixers["parallel"]["state"] == "of its parts"


def test_mixers_say_what_they_cost_and_keep(capsys: pytest.CaptureFixture[str]) -> None:
    """From the states themselves, at width 256: keys and values of every token; of the memory's; nothing."""
    mixers = {entry["kind"]: (entry["cost"], entry["state"]) for entry in json.loads(printed(capsys, "list", "mixers", "--json"))}
    assert mixers["attention"][0].startswith("T²")
    assert mixers["attention"][1] == "512·T"
    assert mixers["cross-attention"][1] == "512·S"
    assert mixers["feed-forward"] == mixers["experts"] == ("T", "0")
    assert all(re.fullmatch(r"[\d,]+( \+ [\d,]+·[TS])?|[\d,]+·[TS]|cannot stream|of its parts", state) for _, state in mixers.values())
    assert "at width 256" in printed(capsys, "list", "mixers")


def test_a_list_that_is_piped_has_no_colours(capsys: pytest.CaptureFixture[str]) -> None:
    shown = printed(capsys, "list", "recipes")
    assert "\x1b" not in shown
    assert recipe_description("reviews") in shown


@pytest.mark.parametrize("what", ["mixers", "data"])
def test_names_stay_whole_in_a_terminal_of_eighty_columns(
    what: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = json.loads(printed(capsys, "list", what, "--json"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    shown = re.sub(r"\x1b\[[\d;]*m", "", printed(capsys, "list", what))
    assert max(map(len, shown.splitlines())) <= 80
    assert "…" not in shown
    for entry in entries:
        assert next(iter(entry.values())) in shown


BEGUN = "camembert-allocine"  # a recipe for a checkpoint of the user's


def test_a_recipe_without_a_model_says_what_to_give(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", BEGUN]) == 2
    assert f"error: recipe {BEGUN}: model: there is none; name what to begin with" in capsys.readouterr().err


@pytest.mark.parametrize("name", [name for name in recipe_names() if name != BEGUN])
def test_what_is_shown_of_a_recipe_is_the_recipe(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "shown.toml"
    file.write_text(printed(capsys, "show", name))
    assert load_config(file) == load_config(name)
    assert file.read_text().startswith(f"# {recipe_description(name)}")


@pytest.mark.parametrize("name", [*preset_names(), "vaswani-2017"])
def test_a_preset_is_shown_as_a_whole_run(name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "shown.toml"
    file.write_text(printed(capsys, "show", name))
    config = load_config(file)
    assert config.task.build().adapt(config.model).head == config.model.head  # the recipe wants what the preset gives
    assert config.model.base == {"vaswani-2017": "transformer-base"}.get(name, name)


def test_every_key_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    for line in printed(capsys, "show", "reviews").splitlines():
        if "=" in line and not line.startswith("#"):
            assert "  # " in line, line


def test_changes_are_shown_too(capsys: pytest.CaptureFixture[str]) -> None:
    shown = tomllib.loads(printed(capsys, "show", "reviews", "model.layers=7", "train.lr=0.5"))
    assert (shown["model"]["layers"], shown["train"]["lr"]) == (7, 0.5)
    assert json.loads(printed(capsys, "show", "reviews", "model.layers=7", "--json"))["model"]["layers"] == 7


def test_show_draws_the_architecture_and_writes_over_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert printed(capsys, "show", "reviews", "model.base=mamba-tiny", "--diagram", "m.svg", "--lang", "fr") == "m.svg\n"
    assert "Mamba" in (tmp_path / "m.svg").read_text(encoding="utf-8")
    assert run(["show", "gpt2", "--diagram", "m.svg"]) == 2
    assert run(["show", "word2vec", "--diagram", "w.svg"]) == 2
    assert not (tmp_path / "w.svg").exists()
