"""What a page of TOML, or the options of the command, make of a comparison; and what is refused, in one line with its place."""

from pathlib import Path
from typing import Any

import pytest

from attentif.config import Layer, override, read_toml
from attentif.errors import AttentifError, ConfigError
from attentif.lab.compare.suite import SearchConfig, Suite, is_suite, load_suite, suite_layer, suite_names
from attentif.recipes import recipe_names

PAGE = """\
# Who reads best?
recipe = "reviews"
models = ["lstm-tiny", { name = "deep", base = "encoder-tiny", layers = 4, lr = 1e-3 }]
seeds = 2
budget = "params=200k"
lr = { rates = [3e-3, 1e-3], share = 0.5 }
[change.train]
epochs = 2
"""


@pytest.fixture
def page(tmp_path: Path) -> Path:
    file = tmp_path / "suite.toml"
    file.write_text(PAGE)
    return file


def loaded(file: Path, *words: str) -> Suite:
    return load_suite([read_toml(file)], [override(word) for word in words], "suite")


def test_a_page_becomes_models_in_the_recipes_configuration(page: Path) -> None:
    suite = loaded(page)
    (part,) = suite.parts
    assert suite.about == "Who reads best?"
    assert [model.name for model in part.models] == ["lstm-tiny", "deep"]
    assert [model.config.model.layers for model in part.models] == [2, 4]
    assert [model.lr for model in part.models] == [None, 1e-3]
    assert {model.config.train.epochs for model in part.models} == {2}
    assert part.seeds == [0, 1]
    assert str(part.budget) == "200 k parameters"
    assert part.lr == SearchConfig(rates=(3e-3, 1e-3), share=0.5)


def test_words_of_the_command_change_all_models_alike(page: Path) -> None:
    (part,) = loaded(page, "train.epochs=1", "model.dropout=0.3").parts
    assert {(model.config.train.epochs, model.config.model.dropout) for model in part.models} == {(1, 0.3)}


def test_runs_spend_their_whole_budget_unless_early_stopping_is_asked_for(page: Path) -> None:
    assert [model.stops for model in loaded(page).parts[0].models] == [False, False]
    (asked,) = loaded(page, "train.patience=2", "train.eval_every=5").parts
    assert [(model.stops, model.evaluations) for model in asked.models] == [(True, None)] * 2


def test_a_linear_models_part_in_the_answers_is_left_out_unless_asked_for(page: Path) -> None:
    page.write_text(PAGE.replace('"reviews"', '"classify"'))
    (part,) = loaded(page).parts
    assert part.notes == ["answers are the network's own: the recipe's linear model is left out (task.linear = \"none\")"]
    assert {getattr(model.config.task, "linear", None) for model in part.models} == {"none"}
    (asked,) = loaded(page, "task.linear=stacked").parts
    assert {getattr(model.config.task, "linear", None) for model in asked.models} == {"stacked"}


def test_several_comparisons_take_what_they_do_not_say_from_the_page(tmp_path: Path) -> None:
    file = tmp_path / "two.toml"
    more = 'recipe = "numbers"\nmodels = ["transformer-tiny"]\nseeds = [4, 7]\n'
    file.write_text('models = ["lstm-tiny"]\nseeds = 1\n[[on]]\nrecipe = "stdlib"\n[[on]]\n' + more)
    first, second = loaded(file).parts
    assert (first.name, [model.name for model in first.models], first.seeds) == ("stdlib", ["lstm-tiny"], [0])
    assert (second.name, [model.name for model in second.models], second.seeds) == ("numbers", ["transformer-tiny"], [4, 7])


def test_a_run_folder_may_be_the_recipe(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.toml").write_text(
        'data.name = "reviews"\ntask.kind = "classify"\ntokenizer.kind = "word"\nmodel.base = "encoder-tiny"\ntrain.steps = 3\n'
        '[made]\nrecipe = "x"\nattentif = "0"\npython = "3"\ntorch = "2"\ndata = "0"\n'
    )
    (part,) = load_suite([Layer({"recipe": str(tmp_path / "run"), "models": ["lstm-tiny"]}, "comparison")]).parts
    assert part.models[0].config.model.base == "lstm-tiny"
    assert part.models[0].config.made is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"lstm-tiny"', '"lstm-tiy"', "suite.toml:3: models: lstm-tiy: .*no model preset is called 'lstm-tiy'; did you mean 'lstm-tiny'"),
        ('"lstm-tiny"', '"transformer-tiny"', "models: transformer-tiny: model: classify reads with one stack"),
        ("layers = 4", "layrs = 4", "suite.toml:3: models: deep: model.layrs: unknown key; did you mean 'layers'"),
        ('name = "deep", ', 'name = "lstm-tiny", ', "two models are called 'lstm-tiny'"),
        ('name = "deep", base = "encoder-tiny", ', "", "suite.toml:3: models.1: a model is a preset's name, or a table"),
        ("params=200k", "parms=200k", "suite.toml:5: budget: budget 'parms=200k' .*did you mean 'params'"),
        ("params=200k", "params=many", "suite.toml:5: budget: .*'many' is not an amount"),
        ("seeds = 2", "seeds = 0", "suite.toml:4: seeds: one seed at least"),
        ("seeds = 2", "seeds = [1, 1]", "suite.toml:4: seeds: seeds are different numbers"),
        ("[3e-3, 1e-3]", "[3e-3]", "suite.toml:6: lr"),
        ("epochs = 2", "epoch = 2", "suite.toml:8: models: lstm-tiny: train.epoch: unknown key; did you mean 'epochs'"),
        ('"reviews"', '"revews"', "no recipe or TOML file is called 'revews'; did you mean 'reviews'"),
        ('recipe = "reviews"\n', "", "recipe: give a recipe"),
        ('"lstm-tiny", {', '"a/b", {', "no model preset is called 'a/b'"),
        ('name = "deep"', 'name = "deep/er"', "suite.toml:3: models.1: 'deep/er' cannot name a folder"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_its_line(page: Path, old: str, new: str, message: str) -> None:
    assert old in PAGE
    page.write_text(PAGE.replace(old, new, 1))
    with pytest.raises(AttentifError, match=message) as caught:
        loaded(page)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)


def test_an_empty_list_of_models_is_refused(page: Path) -> None:
    page.write_text("recipe = 'reviews'\nmodels = []\n")
    with pytest.raises(ConfigError, match=r"suite.toml:2"):
        loaded(page)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("lr = { rates = [1e-3] }", r"suite.toml:3: lr.rates: a search tries two rates at least; one for all models is lr = 0.003$"),
        ("lr = { rates = [1e-3, 3e-3], part = 0.5 }", r"suite.toml:3: lr.part: unknown key"),
        ("lr = { rates = [0.0, 3e-3] }", r"suite.toml:3: lr.rates.0: must be greater than 0"),
        ("lr = -1", r"suite.toml:3: lr: must be a rate above 0, or a table of those to try"),
        ('lr = "fast"', r"suite.toml:3: lr: must be a rate above 0, or a table of those to try"),
        ('seeds = "three"', r"suite.toml:3: seeds: must be how many, or which ones, \[0, 1, 2\], not 'three'$"),
        ('[[on]]\nmodels = "gru-tiny"', r"suite.toml:4: on.0.models: must be a list of presets"),
    ],
)
def test_a_value_of_no_known_shape_gets_one_line_on_what_it_may_be(page: Path, line: str, message: str) -> None:
    page.write_text(f"recipe = 'reviews'\nmodels = ['lstm-tiny']\n{line}\n")
    with pytest.raises(ConfigError, match=message):
        loaded(page)


def test_an_encoder_for_a_language_task_is_refused_by_name() -> None:
    values: dict[str, Any] = {"recipe": "stdlib", "models": ["lstm-tiny", "bert-tiny"]}
    with pytest.raises(ConfigError, match=r"bert-tiny:.*language"):
        load_suite([Layer(values, "option --models")])


def test_an_error_names_the_option_that_set_the_models() -> None:
    layers = [
        Layer({"recipe": "stdlib"}, "comparison"),
        Layer({"models": ["bert-tiny"]}, "option --models"),
        Layer({"seeds": 2}, "option --seeds"),
    ]
    with pytest.raises(ConfigError, match=r"^option --models: models: bert-tiny: "):
        load_suite(layers)


@pytest.mark.parametrize(
    ("recipe", "names"), [("reviews", ["lstm", "encoder-tiny", "mamba-tiny"]), ("stdlib", ["lstm", "decoder-tiny", "mamba-tiny"])]
)
def test_the_bare_name_of_a_family_is_its_small_preset_that_can_do_the_task(recipe: str, names: list[str]) -> None:
    values: dict[str, Any] = {"recipe": recipe, "models": ["lstm", "transformer", "mamba"]}
    (part,) = load_suite([Layer(values, "option --models")]).parts
    assert [model.name for model in part.models] == names
    assert [model.config.model.base for model in part.models] == names


def test_a_family_keeps_the_name_that_a_table_gives_it() -> None:
    values: dict[str, Any] = {"recipe": "reviews", "models": [{"name": "deep", "base": "transformer", "layers": 8}]}
    (part,) = load_suite([Layer(values, "option --models")]).parts
    assert (part.models[0].name, part.models[0].config.model.base) == ("deep", "encoder-tiny")


def test_suites_that_come_along_say_what_they_ask_and_hide_no_recipe() -> None:
    assert suite_names()
    assert not set(suite_names()) & set(recipe_names())
    for name in suite_names():
        layer = suite_layer(name)
        assert len(layer.about) > 40
        alone = [Layer(layer.values | {"on": [part]}, layer.name) for part in layer.values.get("on", [])]
        for one in alone or [layer]:
            assert len(load_suite([one]).parts[0].models) >= 4


def test_a_recipes_file_is_no_suite(page: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('data.name = "reviews"\n')
    assert is_suite(page)
    assert is_suite(suite_names()[0])
    assert not is_suite(recipe)
    assert not is_suite("reviews")
