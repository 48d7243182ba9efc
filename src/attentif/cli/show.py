"""`attentif show`: the whole of a configuration, every key explained."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attentif.cli.options import Json
from attentif.cli.out import print_json

if TYPE_CHECKING:
    from attentif.config import Config
    from attentif.models import ModelConfig
    from attentif.training.load import Source


def show(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A recipe, a model preset, a TOML file or a run's folder.", show_default=False)
    ],
    overrides: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Changes, as for `train`.", show_default=False)] = None,
    json: Json = False,
) -> None:
    """Print a complete configuration, every key explained.

    What is printed can be saved as a TOML file, and trained as it is. NAME may be a Hugging Face folder too, or a run imported from one:
    those are not trained as they are, but begun with (model.from).

    For example: attentif show gpt2 model.layers=6
    """
    from attentif.config import override, to_toml
    from attentif.plugin import load_installed
    from attentif.training.fitted import load_config

    load_installed()
    config = _imported(name)
    about = ""
    if config is None:
        source, about = _source(name)
        config = load_config(source, [override(word) for word in overrides or ()])
    if json:
        print_json(config.model_dump(mode="json", by_alias=True))
    else:
        print(to_toml(config, comments=True, header=_with_capabilities(about, config, Path(name))), end="")


def _with_capabilities(about: str, config: "Config", path: Path) -> str:
    """The header, with what a run can do where this is one."""
    from attentif.tasks.fitting import fitting_of
    from attentif.training.config import KeptConfig
    from attentif.training.fitted import FitConfig
    from attentif.training.imported import is_foreign

    if not (path / "config.toml").is_file() and not is_foreign(path):
        return about
    if isinstance(config, FitConfig):
        names = fitting_of(config.fit).capabilities(None)
    else:
        assert isinstance(config, KeptConfig)
        names = config.task.build().capabilities(config.model)
    return "\n".join(line for line in (about, f"This run can: {', '.join(['evaluate', *names])}.") if line)


def _imported(name: str) -> "Config | None":
    """The configuration of somebody else's model, as a folder of theirs or as a run."""
    from attentif.config import read_toml
    from attentif.training.imported import is_foreign, open_folder
    from attentif.training.kept import is_imported, kept_config

    path = Path(name)
    if is_foreign(path):
        return open_folder(path).config
    if (path / "config.toml").is_file() and is_imported(read_toml(path / "config.toml")):
        return kept_config(path)
    return None


def _source(name: str) -> "tuple[Source, str]":
    """What to resolve, and a line on it. A preset is only a model: the recipe that fits it makes it a run."""
    from attentif.config import did_you_mean
    from attentif.errors import UsageError
    from attentif.models import preset_description, preset_names, resolve
    from attentif.models.presets import ALIASES
    from attentif.recipes import recipe_layer, recipe_names
    from attentif.training.load import is_source, source_layer

    if is_source(name):
        return name, source_layer(name).about
    presets = [*preset_names(), *ALIASES]
    if name not in presets:
        close = did_you_mean(name, [*recipe_names(), *presets])
        raise UsageError(f"no recipe, model preset, file or run is called {name!r}{close}; `attentif list` shows the names")
    recipe = _recipe_for(resolve({"base": name}))
    about = f"{preset_description(name)}\nThe model preset {name} in the recipe {recipe}."
    return {**recipe_layer(recipe).values, "model": {"base": ALIASES.get(name, name)}}, about


# by what is read, of a model with one stack, and of an encoder-decoder
RECIPES = {
    "patches": ("digits", "vision-language"),
    "joined": ("vision-language", "vision-language"),
    "frames": ("tones", "tones-seq2seq"),
    "series": ("forecast", "forecast"),
}
HEADS = {"language": "masked", "tokens": "replaced"}  # of an encoder of tokens; any other head gives labels


def _recipe_for(model: "ModelConfig") -> str:
    """The recipe whose task such a model can do."""
    both = model.encoder is not None and model.decoder is not None
    if model.frontend.kind in RECIPES:
        return RECIPES[model.frontend.kind][both]
    if both:
        return "numbers"
    if model.decoder is not None and model.head.kind == "language":
        return "stdlib"
    return HEADS.get(model.head.kind, "reviews")
