"""Layers of a run's configuration: preset, recipe or file, options, words."""

from pathlib import Path

import pytest

import attentif
from attentif.config import Layer, override, to_toml
from attentif.errors import ConfigError, DataError
from attentif.training.load import data_table, load_run_config, source_name

TOML = """\
version = 1
[data]
name = "reviews"
[task]
kind = "classify"
[tokenizer]
kind = "bpe"
[model]
base = "encoder-tiny"
layers = 3
[train]
epochs = 1.0
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my.toml"
    path.write_text(TOML)
    return path


def test_words_win_over_the_file_and_the_file_over_the_preset(file: Path) -> None:
    config = load_run_config(file, [override("model.dropout=0.2"), override("train.lr=3e-4")])
    assert config.model.width == 128  # the preset's
    assert config.model.layers == 3
    assert config.model.dropout == 0.2
    assert config.train.lr == 3e-4


def test_a_recipe_and_a_table_of_values_are_sources_too() -> None:
    recipe = load_run_config("reviews")
    assert recipe.task.kind == "classify"
    table = {
        "data": {"name": "reviews"},
        "task": {"kind": "classify"},
        "tokenizer": {"kind": "char"},
        "model": {"base": "encoder-tiny"},
        "train": {"steps": 5},
    }
    assert load_run_config(table).train.steps == 5


def test_data_of_ones_own_replace_the_recipes(tmp_path: Path) -> None:
    config = load_run_config("reviews", [Layer({"data": {"train": "avis.csv"}}, "option --data"), override("data.text=avis")])
    assert (config.data.name, config.data.train, config.data.text) == (None, "avis.csv", "avis")
    with pytest.raises(ConfigError, match="goes with files"):
        load_run_config("reviews", [override("data.train=avis.csv"), override("data.name=numbers")])


def test_a_file_several_files_or_a_table_are_data() -> None:
    assert data_table(Path("a.csv")) == {"train": "a.csv"}
    assert data_table(["a.csv", Path("b.csv")]) == {"train": ["a.csv", "b.csv"]}
    assert data_table({"train": "a.csv", "label": "note"}) == {"train": "a.csv", "label": "note"}


def test_a_recipes_tokenizer_goes_with_the_task_that_needs_it(file: Path) -> None:
    assert load_run_config("speech").tokenizer is not None
    assert load_run_config("speech", [override("task.objective=label")]).tokenizer is None
    with pytest.raises(ConfigError, match=r"tokenizer.kind=bpe.*the.*'speech'"):
        load_run_config("speech", [override("task.objective=label"), override("tokenizer.kind=bpe")])
    file.write_text(TOML.replace('"classify"', '"speech"\nobjective = "label"').replace("encoder-tiny", "conformer-tiny"))
    with pytest.raises(ConfigError, match=r"my\.toml:7:.*'speech'"):
        load_run_config(file)


@pytest.mark.parametrize("recipe", ["translate", "speech", "mnist"])
def test_a_recipe_that_brings_no_data_says_so(recipe: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=rf"{recipe}.*--data"):
        attentif.train(recipe)
    with pytest.raises(DataError, match=r"none\.tsv: no such file"):
        attentif.train(recipe, "none.tsv")
    assert list(tmp_path.iterdir()) == []


def test_columns_of_the_recipes_own_files_do_not_follow_to_others(file: Path) -> None:
    file.write_text(TOML.replace('name = "reviews"', 'train = "a.csv"\ntext = "avis"\nvalid_fraction = 0.2'))
    config = load_run_config(file, [override("data.name=reviews")])
    assert (config.data.train, config.data.text, config.data.valid_fraction) == (None, None, 0.2)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("layers = 3", "layres = 3", r"my\.toml:10: model\.layres: unknown key; did you mean 'layers'\?"),
        ("layers = 3", 'layers = "3"', r"my\.toml:10: model\.layers: must be a whole number"),
        ("encoder-tiny", "encoder-tin", r"my\.toml:9: model\.base: no model preset .* did you mean 'encoder-tiny'\?"),
        ('"encoder-tiny"', "7", r"my\.toml:9: model\.base: must be a preset's name, not 7"),
        ("encoder-tiny", "transformer-tiny", r"my\.toml:8: model: classify reads with one stack"),
        ('kind = "classify"', 'kind = "clasify"', r"my\.toml:4: task.*did you mean 'classify'\?"),
        ("[data]", "[data", r"my\.toml:2: is not valid TOML"),
        ("version = 1", "version = 99", r"my\.toml:1: version 99 is newer"),
    ],
)
def test_what_is_wrong_is_named_with_its_file_and_line(file: Path, before: str, after: str, expected: str) -> None:
    file.write_text(TOML.replace(before, after))
    with pytest.raises(ConfigError) as caught:
        load_run_config(file)
    assert caught.match(r"^" + str(file.parent) + "/" + expected)


def test_a_wrong_value_that_meets_the_preset_is_blamed_on_the_word() -> None:
    with pytest.raises(ConfigError, match=r"^option 'model\.encoder\.placement=sideways': model\.encoder\.placement: must be"):
        load_run_config("reviews", [override("model.encoder.placement=sideways")])


def test_the_ways_of_pooling_are_named_in_one_breath() -> None:
    with pytest.raises(ConfigError, match=r"model\.head\.pool: must be 'first', 'last', 'mean'.* or 'attention', not 'atention'$"):
        load_run_config("reviews", [override("model.head.pool=atention")])


def test_a_model_that_cannot_be_built_is_refused_without_data() -> None:
    with pytest.raises(ConfigError, match=r"model\.encoder\.block\.attn.*:.*= 130.*= 4"):
        load_run_config("reviews", [override("model.base=encoder-tiny"), override("model.width=130")])


def test_a_preset_with_a_mistake_is_named_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    preset = Layer({"width": 128, "layers": "two"}, "preset mine", "width = 128\nlayers = 'two'\n")
    monkeypatch.setattr("attentif.training.load.preset_layer", lambda name: preset)
    with pytest.raises(ConfigError, match=r"mine:2: model\.layers"):
        load_run_config("reviews", [override("model.base=mine")])


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("reviws", "'reviws'.*'reviews'"),
        ("image", "'image'.*recipes digits"),
        ("none.toml", r"none\.toml: no such file"),
        ("folder/none", "folder/none: no such file"),
    ],
)
def test_unknown_sources_are_refused(source: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        load_run_config(source)


def test_what_a_run_wrote_is_complete_whatever_becomes_of_its_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = load_run_config("reviews")
    made = '[made]\nrecipe = "reviews"\nattentif = "0"\npython = "3"\ntorch = "2"\ndata = "d"\n'
    (tmp_path / "config.toml").write_text(to_toml(config) + made)
    monkeypatch.setattr("attentif.training.load.preset_layer", lambda name: pytest.fail("the preset was asked for"))
    assert load_run_config(tmp_path).model == config.model


def test_a_run_is_called_after_its_source() -> None:
    assert [source_name(source) for source in ("reviews", Path("deep/my.toml"), {})] == ["reviews", "my", "run"]
