"""From a recipe, a TOML file or a table to the configuration of a run.

Layers, the last one winning: the model's preset (`model.base`, beneath the `model` table), or the run that it begins with (`model.from`)
· the recipe or file · options and `key=value` words. Each remembers its file, so that an error names the line that set the wrong value.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attentif.config import Document, Layer, did_you_mean, has
from attentif.data import DataConfig
from attentif.data.config import SPLITS
from attentif.data.in_memory import is_in_memory, replace_frames, save_frame
from attentif.errors import AttentifError, ConfigError, UsageError
from attentif.models import ModelConfig
from attentif.models.presets import preset_layer
from attentif.recipes import recipe_layer, recipe_names, recipes_of
from attentif.tasks.base import AnyTask
from attentif.text import TokenizerConfig
from attentif.toml import Keys, line_of
from attentif.training.backbone import Backbone, BackboneLayer, encoder_alone, make_backbone_layer
from attentif.training.config import FitConfig, RunConfig
from attentif.training.stored_config import is_imported, read_config_layer

Source = str | Path | Mapping[str, Any]  # a recipe's name, a TOML file, a run folder, or plain values
# a file of examples, several, values of [data], or a table in memory: a DataFrame, arrays (X, y), a list of dicts
Given = Any

# keys of [data] that belong to one origin of examples: an option that names another origin makes the recipe's void
COLUMNS = {"text", "label", "pair", "source", "target_column", "group", "columns"}
ORIGIN = COLUMNS | {"name", "train", "valid", "test", "target", "valid_target", "test_target"}


# what the options of `attentif train` are called here; those that steer gradients and devices have no place
OPTIONS = {"seed": "seed"}


@dataclass(frozen=True)
class PresetLayer(Layer):
    """A preset's values beneath `model`: its own file does not know that word."""

    def place(self, path: Keys) -> tuple[str, int | None]:
        return self.name, line_of(self.text or "", path[1:])


def load_config(source: Source, layers: Sequence[Layer] = ()) -> RunConfig | FitConfig:
    """Load the configuration of a trained or fitted run; ConfigError names file and line."""
    fitted = "fit" in source_layer(source).values
    return load_fit_config(source, layers) if fitted else load_run_config(source, layers)


def load_fit_config(source: Source, layers: Sequence[Layer] = ()) -> FitConfig:
    return resolve_layers(source_layer(source), [_rename_options(layer) for layer in layers]).build(FitConfig)


def _rename_options(layer: Layer) -> Layer:
    """`--seed 3` sets [train] elsewhere, [fit] here."""
    settings = layer.values.get("train")
    if not layer.name.startswith("option --") or not isinstance(settings, dict):
        return layer
    if unknown := [key for key in settings if key not in OPTIONS]:
        raise ConfigError(f"{layer.name}: what is fitted takes no such option; it runs on one core, and its keys are those of [fit]")
    return replace(layer, values={"fit": {OPTIONS[key]: value for key, value in settings.items()}} if not unknown else {})


def load_run_config(source: Source, layers: Sequence[Layer] = ()) -> RunConfig:
    """Load and validate the configuration of a trained run; ConfigError names file and line."""
    return run_config(source_layer(source), layers)


def run_config(first: Layer, layers: Sequence[Layer] = ()) -> RunConfig:
    """Validate the configuration of a source that has been read."""
    document = resolve_layers(first, layers)
    if "fit" in document.values:
        raise document.error(("fit",), "this is fitted, not trained step by step: there is no [model] in it")
    if is_imported(first) and not {"data", "train"} <= {*document.values}:
        where = Path(first.name).parent
        raise ConfigError(
            f"was imported, and has no training configuration: attentif train RECIPE --data FILE model.from={where}", file=where
        )
    if "model" not in document.values:
        way_out = "name what to begin with, a checkpoint's folder or a run (model.from=FOLDER), or a preset (model.base=NAME)"
        raise ConfigError(f"model: there is none; {way_out}", file=first.name)
    config = document.build(RunConfig)
    task = config.task.build()
    if not task.needs_tokenizer and not _asks_for_tokenizer(first, layers):
        config = config.replace(tokenizer=None)
    elif task.needs_tokenizer != (config.tokenizer is not None):
        why = "reads text and needs one" if task.needs_tokenizer else "reads no text: leave it out"
        raise document.error(("tokenizer",), f"the task {config.task.kind!r} {why}")
    elif config.tokenizer != _inherited_tokenizer(document, config):
        raise document.error(("tokenizer",), f"model.from keeps the vocabulary of {config.model.from_}, which is another; leave this out")
    try:
        model = _match_model(task, config.model)
    except ConfigError as error:  # a contradiction between task and model, or inside the model
        file, line = document.place(("model",))
        raise ConfigError(error.message, file=file, line=line) from None
    return config if model is config.model else config.replace(model=model)


def _match_model(task: AnyTask, model: ModelConfig) -> ModelConfig:
    """The model; of an encoder-decoder base model, its encoder if the task reads with one stack."""
    try:
        task.check(task.adapt(model))
    except ConfigError:
        if model.from_ is None or model.encoder is None or model.decoder is None:
            raise
        model = encoder_alone(model)
        task.check(task.adapt(model))
    return model


def _asks_for_tokenizer(first: Layer, layers: Sequence[Layer]) -> bool:
    """Whether a tokenizer is configured for this very task; that of another task or head is of no use."""
    asked_anew = any("task" in layer.values for layer in layers)
    return any("tokenizer" in layer.values for layer in (layers if asked_anew else [first, *layers]))


def _inherited_tokenizer(document: Document, config: RunConfig) -> TokenizerConfig | None:
    """The tokenizer of the run that this one starts from, or else its own."""
    beneath = document.layers[0]
    return beneath.tokenizer if isinstance(beneath, BackboneLayer) else config.tokenizer


def resolve_layers(first: Layer, others: Sequence[Layer] = ()) -> Document:
    """The layers as one document, over the preset of `model.base` or the model of `model.from`."""
    began = any(has(layer.values, ("model", "from")) for layer in others)
    first = _without_origin(first) if any(map(_has_origin, others)) else first
    layers = [_without_model(first) if began else first, *others]
    document = Document(layers)
    model = document.values.get("model")
    if not isinstance(model, Mapping) or ("made" in first.values and not began):
        return document  # the configuration that a run wrote is complete, whatever has become of preset and run since
    base, run = model.get("base"), model.get("from")
    if base is not None and run is not None:
        raise document.error(("model", "base"), f"model.from brings the model of {run}: leave one of the two out")
    if run is not None:
        return Document([_make_model_layer(document, run), *layers])
    if base is None:
        return document
    if not isinstance(base, str):
        raise document.error(("model", "base"), f"must be a preset's name, not {base!r}")
    try:
        preset = preset_layer(base)
    except ConfigError as error:
        raise document.error(("model", "base"), error.message) from None
    return Document([PresetLayer({"model": preset.values}, preset.name, preset.text), *layers])


def _make_model_layer(document: Document, run: Any) -> Layer:
    """The values of the model that `model.from` names."""
    place = ("model", "from")
    if not isinstance(run, str):
        raise document.error(place, f"must be the folder of a run or of a Hugging Face model, not {run!r}")
    try:
        base = Backbone.of(run)
    except AttentifError as error:
        raise document.error(place, str(error)) from None
    task = document.values.get("task")
    return make_backbone_layer(base.layer, base.config, task.get("kind") if isinstance(task, Mapping) else None)


def source_layer(source: Source) -> Layer:
    """The recipe, file, run folder or table that a run starts from."""
    if isinstance(source, Mapping):
        return Layer(dict(source), "configuration")
    name, path = str(source), Path(source)
    if not is_source(source):
        own = recipes_of(name)
        close = f"; it is a task, with the recipes {', '.join(own)}" if own else did_you_mean(name, recipe_names())
        raise ConfigError(f"no recipe or TOML file is called {name!r}{close}; `attentif list recipes` shows the recipes")
    if name in recipe_names():  # even beside a folder of that name: ./reviews means the folder
        return recipe_layer(name)
    return read_config_layer(path / "config.toml" if path.is_dir() else path)


def require_own_data(source: Source, data: DataConfig) -> None:
    """Refuse a recipe whose data file is only a placeholder for the user's own."""
    if str(source) not in recipe_names() or recipe_layer(str(source)).values.get("data", {}).get("train") != data.train:
        return
    if missing := [file for file in data.files("train") if not Path(file).exists()]:
        raise ConfigError(f"the recipe {source} brings no data ({missing[0]} stands for yours): give them with --data")


def is_source(source: str | Path) -> bool:
    """Whether this names a recipe or looks like a file or a folder, which need not exist."""
    path = Path(source)
    return str(source) in recipe_names() or path.suffix == ".toml" or path.exists() or len(path.parts) > 1


def source_name(source: Source) -> str:
    """What to call a run that starts from `source`."""
    return "run" if isinstance(source, Mapping) else Path(source).stem


def data_table(data: Given) -> dict[str, Any]:
    """A file or files of examples, or a table with the keys of `[data]`, as such a table."""
    if is_in_memory(data):
        return {"train": str(save_frame(data))}
    if isinstance(data, Mapping):
        return replace_frames(data)
    return {"train": str(data) if isinstance(data, str | Path) else [str(file) for file in data]}


def other_rows(config: DataConfig | None, data: Given) -> DataConfig:
    """Data configuration for other files; settings of the run's own columns apply to them too."""
    named = {key: value for key in (*COLUMNS, "normalise_labels") if config is not None and (value := getattr(config, key))}
    return Document([Layer(named, "data"), Layer(data_table(data), "data")]).build(DataConfig)


def check_split(name: str) -> None:
    if name not in SPLITS:
        raise UsageError(f"there is no split {name!r}: there are {', '.join(SPLITS)}")


def _has_origin(layer: Layer) -> bool:
    data = layer.values.get("data")
    return isinstance(data, Mapping) and ("name" in data or "train" in data)


def _without_origin(layer: Layer) -> Layer:
    """`--data avis.csv` over a recipe of the built-in reviews means avis.csv, not both."""
    data = layer.values.get("data")
    if not isinstance(data, Mapping):
        return layer
    return replace(layer, values=layer.values | {"data": {key: value for key, value in data.items() if key not in ORIGIN}})


def _without_model(layer: Layer) -> Layer:
    """`model.from=RUN` over a recipe means that run's model and vocabulary, not the recipe's."""
    return replace(layer, values={key: value for key, value in layer.values.items() if key not in ("model", "tokenizer")})
