"""What is compared: a page of TOML that a teacher could write, or the options of `attentif compare`.

    recipe = "reviews"                                   # the data, the task, the training: the same for all
    models = ["lstm-tiny", "encoder-tiny", { name = "deep", base = "encoder-tiny", layers = 8 }]
    seeds = 3
    budget = "params=1M"                                 # every model is sized to it
    lr.rates = [1e-3, 3e-3, 1e-2]                        # the same small search for each model
    change.train.epochs = 3                              # over the recipe, for all

Several comparisons in one suite are tables `[[on]]` with keys of the same names, each over those above.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, field_validator

from attentif.config import VERSION, Config, Document, Layer, has, inside, problems_of, read_toml
from attentif.errors import AttentifError, ConfigError
from attentif.lab.budget import Budget
from attentif.models.presets import ALIASES, preset_names
from attentif.toml import Keys
from attentif.training.config import RunConfig
from attentif.training.load import require_own_data, run_config, source_layer, source_name

FOLDER = Path(str(files("attentif.lab.compare"))) / "suites"
SEEDS, EVALUATIONS, SHARE = 3, 10, 0.25
# what the bare name of a family stands for, where no preset is called so: the first that can do the task (by default its small preset)
FAMILIES = {"transformer": ("transformer-tiny", "encoder-tiny", "decoder-tiny")}


class SearchConfig(Config):
    """The same small search of the learning rate for every model: short runs of one seed, judged on validation."""

    rates: Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(strict=False)] = Field(
        description="learning rates to try, the same for all models"
    )
    share: float = Field(SHARE, gt=0, le=1, description="length of a trial, as a share of a whole run")
    warmups: Annotated[tuple[Annotated[float, Field(ge=0, lt=1)], ...], Field(strict=False)] = Field(
        (), description="warm-ups to try beside the recipe's own, at the rate chosen; shares of the run"
    )

    @field_validator("rates")
    @classmethod
    def _check_rates(cls, rates: tuple[float, ...]) -> tuple[float, ...]:
        if len(set(rates)) < 2:
            raise ValueError("a search tries two rates at least; one for all models is lr = 0.003")
        return rates


class PartConfig(Config):
    """One comparison: a recipe, and the models that are to do it."""

    name: str | None = Field(None, description="what to call it; by default the recipe's name")
    recipe: str | None = Field(None, description="a recipe, a TOML file or a run's folder: data, task and training for all models")
    change: dict[str, Any] | None = Field(None, description="changes to the recipe, the same for all models: change.train.epochs = 3")
    models: list[str | dict[str, Any]] | None = Field(None, description="presets, or tables { name, base, ... } that change one")
    seeds: int | list[int] | None = Field(None, description=f"how many ({SEEDS}), or which; of the weights, the order of the data, dropout")
    budget: str | None = Field(None, description="params=1M, flops=2M, memory=500MB, seconds=60, tokens=3M; none: models as they are")
    lr: float | SearchConfig | None = Field(
        None, description="a rate for all, or { rates, share, warmups } to be tried for each; none: the recipe's"
    )
    evaluations: int | None = Field(None, gt=0, description=f"on validation along each run ({EVALUATIONS}): the points of the curves")

    # values of several shapes are looked at here: of those that fit none, pydantic would report every shape that it tried

    @field_validator("models", mode="before")
    @classmethod
    def _check_models(cls, models: Any) -> Any:
        if models is not None and not (isinstance(models, list) and all(isinstance(one, str | Mapping) for one in models)):
            raise ValueError('must be a list of presets, "lstm-tiny", and of tables that change one, { name = "deep", base = ... }')
        return models

    @field_validator("seeds", mode="before")
    @classmethod
    def _check_seeds(cls, seeds: Any) -> Any:
        whole = lambda value: isinstance(value, int) and not isinstance(value, bool)
        if seeds is not None and not whole(seeds) and not (isinstance(seeds, list) and all(map(whole, seeds))):
            raise ValueError(f"must be how many, or which ones, [0, 1, 2], not {seeds!r}")
        return seeds

    @field_validator("lr", mode="before")
    @classmethod
    def _check_rate(cls, lr: Any) -> Any:
        if isinstance(lr, Mapping):
            try:
                return SearchConfig.model_validate(dict(lr))
            except ValidationError as error:
                raise inside(problems_of(error, SearchConfig)) from None
        number = isinstance(lr, int | float) and not isinstance(lr, bool) and lr > 0
        if lr is not None and not number and not isinstance(lr, SearchConfig):
            raise ValueError(f"must be a rate above 0, or a table of those to try, {{ rates = [1e-3, 3e-3] }}, not {lr!r}")
        return lr


class SuiteConfig(PartConfig):
    """One comparison, or several `[[on]]` different recipes."""

    version: int = Field(VERSION, description="of this format")
    on: list[PartConfig] | None = Field(None, description="several comparisons: what each says stands over what is said above")


@dataclass(frozen=True)
class Contestant:
    """A model under its name, in the recipe's configuration, before any budget."""

    name: str
    config: RunConfig
    lr: float | None = None  # its own, where one was given
    evaluations: int | None = None  # along a run; None where the recipe's changes ask for their own
    stops: bool = False  # early, where the changes ask for it


@dataclass(frozen=True)
class SuitePart:
    """One comparison, checked as far as can be without data."""

    name: str
    recipe: str
    models: list[Contestant]
    seeds: list[int]
    budget: Budget | None
    lr: float | SearchConfig | None
    notes: list[str]


@dataclass(frozen=True)
class Suite:
    name: str
    about: str
    parts: list[SuitePart]
    values: dict[str, Any]  # as given


def suite_names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def suite_layer(name: str | Path) -> Layer:
    """A suite that comes with Attentif, or a file."""
    if str(name) in suite_names():
        return read_toml(FOLDER / f"{name}.toml", f"suite {name}")
    return read_toml(Path(name))


def is_suite(source: str | Path) -> bool:
    """Whether this names a suite: a built-in one, or a TOML file with a list of models (a recipe has none)."""
    if str(source) in suite_names():
        return True
    path = Path(source)
    return path.suffix == ".toml" and path.is_file() and bool({"models", "on"} & read_toml(path).values.keys())


def load_suite(layers: Sequence[Layer], changes: Sequence[Layer] = (), name: str = "") -> Suite:
    """The suite that the layers make, and `changes` (options and key=value words) over every recipe in it."""
    document = Document(layers)
    config = document.build(SuiteConfig)
    tables = document.values.get("on") or [{}]
    parts = [_part(document, config, place, changes) for place in range(len(tables))]
    if clash := _find_duplicate(part.name for part in parts):
        raise document.error(("on",), f"two comparisons are called {clash!r}: give one of them a name")
    return Suite(config.name or name, layers[0].about, parts, document.values)


def _part(document: Document, suite: SuiteConfig, place: int, changes: Sequence[Layer]) -> SuitePart:
    own = suite.on[place] if suite.on else suite
    where = lambda key: ("on", place, key) if suite.on and getattr(own, key) is not None else (key,)
    chosen = lambda key: value if (value := getattr(own, key)) is not None else getattr(suite, key)
    recipe, models = chosen("recipe"), chosen("models")
    if recipe is None:
        raise document.error(where("recipe"), "give a recipe, a TOML file or a run's folder: the data and the task of the comparison")
    first, notes = _base(document, where("recipe"), recipe)
    if not models:
        none = "none are named: give --models lstm-tiny,mamba-tiny, or a suite that lists them"
        why = none if models is None else "the list of models is empty"
        raise document.error(where("models"), f"{why}; `attentif list models` shows the presets")
    budget = _budget(document, where("budget"), chosen("budget"))
    common = [*notes[1], *_changes(document, suite, own, place), *changes]
    contestants = [_contestant(document, (*where("models"), number), first, common, given) for number, given in enumerate(models)]
    if clash := _find_duplicate(model.name for model in contestants):
        raise document.error(where("models"), f"two models are called {clash!r}: give one of them a name of its own")
    require_own_data(recipe, contestants[0].config.data)
    lr, seeds = chosen("lr"), _seeds(document, where("seeds"), chosen("seeds"))
    asked = _changed_keys(common, {"seed": "seeds = [3, 4] (--seeds 3,4)"} | ({} if lr is None else {"lr": "lr (--lr)"}))
    evaluations = None if "eval_every" in asked else chosen("evaluations") or EVALUATIONS
    contestants = [replace(model, evaluations=evaluations, stops="patience" in asked) for model in contestants]
    _check_sizes(document, where("models"), contestants, budget)
    name = own.name or (suite.name if not suite.on and suite.name else source_name(recipe))
    return SuitePart(_check_name(document, where("name"), name), str(recipe), contestants, seeds, budget, lr, notes[0])


# ------------------------------------------------------------------------------------------------------------ its parts


def _base(document: Document, path: Keys, recipe: str) -> tuple[Layer, tuple[list[str], list[Layer]]]:
    """The recipe without its model. A linear model's part in the answers would hide what the networks are worth: left out, unless asked."""
    try:
        layer = source_layer(recipe)
    except ConfigError as error:
        _, line = document.place(path)
        raise error if line is None else document.error(path, str(error)) from None  # a recipe that no suite's file names was typed
    first = replace(layer, values={key: value for key, value in layer.values.items() if key not in ("model", "made")})
    task = first.values.get("task")
    if not isinstance(task, Mapping) or task.get("linear", "none") == "none":
        return first, ([], [])
    note = "answers are the network's own: the recipe's linear model is left out (task.linear = \"none\")"
    return first, ([note], [Layer({"task": {"linear": "none"}}, "comparison")])


def _changed_keys(common: Sequence[Layer], own: Mapping[str, str]) -> set[str]:
    """The keys of `train` that changes set; those of which the comparison decides, `own`, are said as it says them."""
    asked: set[str] = set()
    for layer in common:
        found = layer.values.get("train", {})
        if clash := next((key for key in found if key in own), None):
            file, line = layer.place(("train", clash))
            raise ConfigError(f"train.{clash}: the comparison decides it for every run: {own[clash]} says which", file=file, line=line)
        asked |= found.keys()
    return asked


def _changes(document: Document, suite: SuiteConfig, own: PartConfig, place: int) -> list[Layer]:
    """`change` of the suite, then that of the part; each keeps its place in the file."""
    paths: list[Keys] = [("change",)] if suite.change else []
    if own is not suite and own.change:
        paths.append(("on", place, "change"))
    return [_nest(document, path) for path in paths]


@dataclass(frozen=True)
class NestedLayer(Layer):
    """Values that stand under a path of a suite's file: the file does not know the words of a recipe by themselves."""

    prefix: Keys = ()
    dropped: int = 0  # first steps of a path that are not in the file: `model` of a model's own table

    def place(self, path: Keys) -> tuple[str, int | None]:
        return super().place((*self.prefix, *path[self.dropped :]))


def _nest(document: Document, path: Keys, values: Mapping[str, Any] | None = None, dropped: int = 0) -> Layer:
    found: Any = document.values
    for step in path:
        found = found[step]
    source = next(layer for layer in reversed(document.layers) if has(layer.values, path))
    return NestedLayer(dict(found if values is None else values), source.name, source.text, path, dropped)


def _contestant(document: Document, path: Keys, first: Layer, common: list[Layer], given: str | dict[str, Any]) -> Contestant:
    table = {"base": given} if isinstance(given, str) else dict(given)
    own, lr = table.pop("name", None), table.pop("lr", None)
    name = table.get("base") if own is None else own
    if not isinstance(name, str):
        raise document.error(path, "a model is a preset's name, or a table with a `base` and a `name`")
    if lr is not None and not (isinstance(lr, int | float) and lr > 0):
        raise document.error((*path, "lr"), f"must be a number above 0, not {lr!r}")
    failed: ConfigError | None = None
    for base in _members(table.get("base")):
        changed = table if base is None else table | {"base": base}
        try:
            config = run_config(first, [*common, _nest(document, path, {"model": changed}, dropped=1)])
        except ConfigError as error:
            failed = failed or ConfigError(f"models: {name}: {error.message}", file=error.file, line=error.line)
        else:
            return Contestant(_check_name(document, path, own or base or name), config, lr)
    assert failed is not None
    raise failed


def _members(base: Any) -> Sequence[str | None]:
    """The presets that a name may stand for; the name itself where it is one, or none at all."""
    known = preset_names()
    if not isinstance(base, str) or base in known or base in ALIASES:
        return [base]
    return [name for name in FAMILIES.get(base, (f"{base}-tiny",)) if name in known] or [base]


def _check_sizes(document: Document, path: Keys, models: Sequence[Contestant], budget: Budget | None) -> None:
    for number, model in enumerate(models):
        if budget is not None and budget.kind != "tokens" and model.config.model.from_ is not None:
            message = f"{model.name} begins with the weights of a run: its size is given, and no budget can change it"
            raise document.error((*path, number), message)


def _budget(document: Document, path: Keys, given: str | None) -> Budget | None:
    if given is None:
        return None
    try:
        return Budget.parse(given)
    except AttentifError as error:
        raise document.error(path, error.message) from None


def _seeds(document: Document, path: Keys, given: int | list[int] | None) -> list[int]:
    seeds = list(range(given)) if isinstance(given, int) else given if given is not None else list(range(SEEDS))
    if not seeds:
        raise document.error(path, "one seed at least is needed, and three to say how far results vary")
    if any(seed < 0 for seed in seeds) or len(set(seeds)) < len(seeds):
        raise document.error(path, f"seeds are different numbers from 0 on, not {seeds}")
    return seeds


def _find_duplicate(names: Any) -> str | None:
    seen: set[str] = set()
    return next((name for name in names if name in seen or seen.add(name)), None)  # type: ignore[func-returns-value]


def _check_name(document: Document, path: Keys, name: str) -> str:
    """A name that can be a folder's."""
    if not re.fullmatch(r"[\w .+()-]{1,60}", name) or name.startswith("."):
        raise document.error(path, f"{name!r} cannot name a folder: use letters, digits, spaces and . - + ( )")
    return name
