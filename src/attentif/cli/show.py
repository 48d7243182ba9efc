"""`attentif show`: the whole of a configuration, every key explained."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from attentif.cli.options import Force, Json, complete_names
from attentif.cli.out import check_out, print_json, say

if TYPE_CHECKING:
    from attentif.config import Config
    from attentif.models import ModelConfig
    from attentif.training.load import Source
    from attentif.view.words import Lang


def show(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A recipe, a model preset, a TOML file or a run's folder.",
            show_default=False,
            autocompletion=complete_names,
        ),
    ],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Configuration changes, as for `train`.", show_default=False)
    ] = None,
    diagram: Annotated[Path | None, typer.Option(metavar="FILE.svg", help="Draw the architecture to this file instead.")] = None,
    lang: Annotated[Literal["en", "fr"], typer.Option(help="Language of the diagram.")] = "en",
    force: Force = False,
    json: Json = False,
) -> None:
    """Print a complete configuration with every key explained.

    The output is a valid TOML file for `train`. NAME may also be a Hugging Face folder or a run imported from one; train from those
    with model.from.

    For example: attentif show gpt2 model.layers=6; attentif show transformer-base --diagram transformer.svg
    """
    from attentif.config import override, to_toml
    from attentif.plugin import load_installed
    from attentif.training.load import load_config

    load_installed()
    config = _load_imported(name)
    about = ""
    if config is None:
        source, about = _source(name)
        config = load_config(source, [override(word) for word in overrides or ()])
    if diagram is not None:
        _draw(config, diagram, lang, force)
    elif json:
        print_json(config.model_dump(mode="json", by_alias=True))
    else:
        print(to_toml(config, comments=True, header=_with_capabilities(about, config, Path(name))), end="")


def _draw(config: "Config", out: Path, lang: "Lang", force: bool) -> None:
    from attentif.errors import UsageError
    from attentif.files import write_text
    from attentif.view.diagram import draw_model

    model: ModelConfig | None = getattr(config, "model", None)
    if model is None:
        raise UsageError("only networks have an architecture to draw; this is a fitted model")
    if out.suffix.lower() != ".svg":
        raise UsageError(f"--diagram: the file must end in .svg, not {out.name!r}")
    check_out(out, force)
    write_text(out, draw_model(model, lang=lang))
    say("architecture drawn to:")
    print(out)


def _with_capabilities(about: str, config: "Config", path: Path) -> str:
    """The header, with the capabilities of a run."""
    from attentif.tasks.fitted import build_fitted
    from attentif.training.config import FitConfig, StoredConfig
    from attentif.training.imported import is_foreign

    if not (path / "config.toml").is_file() and not is_foreign(path):
        return about
    if isinstance(config, FitConfig):
        names = build_fitted(config.fit).capabilities(None)
    else:
        assert isinstance(config, StoredConfig)
        names = config.task.build().capabilities(config.model)
    return "\n".join(line for line in (about, f"This run can: {', '.join(['evaluate', *names])}.") if line)


def _load_imported(name: str) -> "Config | None":
    """The configuration of somebody else's model, as a folder of theirs or as a run."""
    from attentif.config import read_toml
    from attentif.training.imported import is_foreign, open_folder
    from attentif.training.stored_config import is_imported, read_run_config

    path = Path(name)
    if is_foreign(path):
        return open_folder(path).config
    if (path / "config.toml").is_file() and is_imported(read_toml(path / "config.toml")):
        return read_run_config(path)
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
    "convolutions": ("digits-cnn", "captions"),
    "tubes": ("video", "video"),
    "joined": ("vision-language", "vision-language"),
    "modalities": ("contrastive", "contrastive"),
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
