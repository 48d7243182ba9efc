"""What Python users import: `attentif.train`, `attentif.load`, `attentif.record`. The command line calls the same functions.

run = attentif.train("reviews", data="avis.csv", model={"layers": 4}, train={"epochs": 3})
run.predict(["Quel film !"])                 # [Prediction(output="positif", probability=0.98, ...)]
run.maps("Quel film !").save("maps.html")    # or the last line of a notebook's cell
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from attentif.config import Layer, read_toml
from attentif.data.in_memory import name_frames
from attentif.errors import UsageError
from attentif.hub.files import refuse_outer_links
from attentif.hub.source import folder_of
from attentif.models.precision import Precision, check_precision, shorten_weights
from attentif.nn.tape import record
from attentif.plugin import load_installed
from attentif.run import Run
from attentif.runtime import set_threads
from attentif.tasks import TaskState
from attentif.tasks.base import Say
from attentif.tasks.fitted import build_fitted
from attentif.text.vectors_file import VectorsFile
from attentif.training import run as training
from attentif.training.config import FitConfig, StoredConfig
from attentif.training.distributed import device_of
from attentif.training.export import Exported, export_run
from attentif.training.export_gguf import export_gguf
from attentif.training.export_onnx import export_onnx
from attentif.training.fitted import fit
from attentif.training.imported import import_folder, is_foreign, open_folder
from attentif.training.lengthen import lengthen_run
from attentif.training.load import Given, Source, data_table, load_config, load_fit_config, require_own_data, source_name
from attentif.training.network_alone import leave_network
from attentif.training.progress import Display, display
from attentif.training.rundir import RunFolder
from attentif.training.stored_config import read_run_config, read_state
from attentif.view.maps import Maps

__all__ = ["Maps", "Run", "load", "record", "resume", "start", "train"]

log = logging.getLogger("attentif")


def train(
    source: Source,
    data: Given | None = None,
    *,
    out: str | Path | None = None,
    force: bool = False,
    watch: Display | None = None,
    **overrides: Any,
) -> Run:
    """Train a recipe (its name), a TOML file or a table of values, and open the run.

    `data` is a file of examples, a list of files, a table in memory (a pandas or polars DataFrame, a `datasets.Dataset`, a list of
    dicts, arrays `(X, y)`), or a dict with the keys of `[data]`: `{"train": df, "test": other, "text": "avis"}`.
    `overrides` are tables of the configuration, as far as they differ: `model={"layers": 4}, train={"epochs": 3, "seed": 1}`.
    The run is kept in `out`, by default `runs/<recipe>-<n>`.
    """
    layers = [*_tables({"data": data_table(data)} if data is not None else {}), *_tables(overrides)]
    with name_frames():
        return load(start(source, layers, out=out, force=force, watch=watch or display()))


def _tables(arguments: Mapping[str, Any]) -> list[Layer]:
    """Tables of a configuration that were given as arguments, each of which can be named in an error."""
    return [Layer({key: value}, f"argument {key}") for key, value in arguments.items()]


def start(source: Source, layers: Sequence[Layer], *, out: str | Path | None = None, force: bool = False, watch: Display) -> Path:
    """Train `source` with `layers` of options over it; return the folder of the run."""
    load_installed()
    config = load_config(source, layers)
    require_own_data(source, config.data)
    place = Path(out) if out is not None else None
    if isinstance(config, FitConfig):
        return fit(config, name=source_name(source), out=place, force=force, display=watch).path
    return training.train(config, name=source_name(source), out=place, force=force, display=watch).path


def resume(run: str | Path, changes: Sequence[Layer] = (), *, watch: Display) -> Path:
    """Resume an interrupted run; changes of `train.epochs`, `steps`, `minutes` or `patience` extend a run, finished or not."""
    load_installed()
    if changes:
        lengthen_run(Path(run), changes, watch.say)
    return training.resume(Path(run), display=watch).path


def load(source: str | Path, *, device: str = "auto", threads: int = 0, precision: Precision = "float32", **changes: Any) -> Run:
    """Open a run: its weights (of its newest checkpoint, while it goes on), its tokenizers, its configuration.

    Or a Hugging Face folder, or a model's name there (`org/name`), which is opened as it lies and answers as its maker meant it to.
    A file of word vectors, in the formats of word2vec or GloVe, opens too. `run.capabilities` lists what a run can do.
    `changes` are of what a run reads, and how: `task={"fill": "linear"}`, or `data={"options": {"length": 1024}}` to score it on longer
    rows than it was trained on. `precision="int8"` rounds its linear maps to bytes, for a CPU (`attentif quantize` keeps them so), "bf16"
    keeps them in 16 bits, and "auto" does so where a short measurement, once on a machine, finds that faster.
    """
    return reopen(
        source, _tables(changes), device="cpu" if precision == "int8" and device == "auto" else device, threads=threads, precision=precision
    )


def reopen(
    source: str | Path, changes: Sequence[Layer], *, device: str = "auto", threads: int = 0, precision: Precision = "float32"
) -> Run:
    """Load a run with changes as layers, which errors can name."""
    check_precision(precision, device)
    run = _open(source, changes, device="cpu" if precision == "int8" else device, threads=threads)
    if precision != "float32" and isinstance(run.model, nn.Module):
        shorten_weights(run.model, precision, source=str(source), say=log.info)
    return run


def _open(source: str | Path, changes: Sequence[Layer], *, device: str, threads: int) -> Run:
    load_installed()
    path = folder_of(source)
    if changes and (is_foreign(path) or not (path / "config.toml").is_file()):
        raise UsageError("has no configuration to change: a run has one (`attentif import` makes one of a checkpoint)", file=path)
    if path.is_file():
        vectors = VectorsFile(path)
        return Run(RunFolder(path), None, build_fitted(vectors.config), TaskState(), vectors, {})
    set_threads(threads)
    if is_foreign(path):
        opened = open_folder(path, str(source))
        for note in opened.notes:
            log.warning("%s: %s", source, note)
        network = opened.model.to(device_of(device))
        return Run(RunFolder(path), opened.config, opened.config.task.build(), opened.state, network, opened.tokenizers)
    folder = RunFolder.open(path)
    folder.verify()
    if "fit" in read_toml(folder.config).values:
        if changes:
            raise UsageError("was fitted, and is used as it was: it takes no changes", file=path)
        fitted = load_fit_config(folder.config)
        fitted_model = fitted.fit.build().load(path)
        return Run(folder, fitted, build_fitted(fitted.fit), TaskState(), fitted_model, folder.tokenizers(fitted.tokenizer))
    config = read_run_config(folder.path, changes)
    task = config.task.build()
    model = training.open_model(folder, config, device_of(device))
    own = not any("data" in layer.values for layer in changes)
    return Run(folder, config, task, read_state(folder.path, task), model, folder.tokenizers(config.tokenizer), own_data=own)


def import_model(source: str | Path, out: str | Path, *, force: bool = False, say: Say | None = None) -> Path:
    """Import a Hugging Face folder, or a model by its name there, as a run; return its folder."""
    load_installed()
    path = folder_of(source)
    if not is_foreign(path):
        what = "is a run already" if (path / "config.toml").is_file() else "is no Hugging Face folder: it has no config.json"
        raise UsageError(what, file=path)
    if Path(source).is_dir():
        refuse_outer_links(Path(source))
    return import_folder(path, Path(out), name=str(source), force=force, say=say or (lambda _: None)).path


def export_model(
    source: str | Path,
    out: str | Path,
    *,
    family: str | None = None,
    network_alone: bool = False,
    force: bool = False,
    say: Say | None = None,
) -> Exported:
    """Write a run as a Hugging Face folder that transformers loads as it is.

    `network_alone` leaves out the linear model that a network is stacked on, and says what that costs."""
    run, config = _load_network(source, "no Hugging Face architecture can represent it")
    if not network_alone:
        return export_run(run.folder, config, run.state, run.model, run.tokenizers, Path(out), family=family, force=force)
    alone = leave_network(run.folder, config, run.model, run.tokenizers, say or (lambda _: None))
    parts = (run.folder, alone.config, alone.state, alone.model, run.tokenizers, Path(out))
    return export_run(*parts, family=family, note=alone.note, force=force)


def export_to_onnx(
    source: str | Path, out: str | Path, *, network_alone: bool = False, force: bool = False, say: Say | None = None
) -> Exported:
    """Write a run as an ONNX graph with its tokenizer and labels; the options are those of `export_model`."""
    run, config = _load_network(source, "ONNX cannot represent it")
    if not network_alone:
        return export_onnx(run.folder, config, run.state, run.model, run.tokenizers, Path(out), force=force)
    alone = leave_network(run.folder, config, run.model, run.tokenizers, say or (lambda _: None))
    return export_onnx(run.folder, alone.config, alone.state, alone.model, run.tokenizers, Path(out), note=alone.note, force=force)


def export_to_gguf(source: str | Path, out: str | Path, *, stored: str = "f16", force: bool = False) -> Exported:
    """Write a run as a GGUF file that llama.cpp opens; `stored`: f32, f16 or q8_0."""
    run, config = _load_network(source, "GGUF cannot represent it")
    return export_gguf(run.folder, config, run.state, run.model, run.tokenizers, Path(out), stored=stored, force=force)


def _load_network(source: str | Path, why: str) -> tuple[Run, StoredConfig]:
    """A run whose model is a network; `why` a fitted one is refused."""
    run = load(source, device="cpu")
    if not isinstance(run.config, StoredConfig):
        raise UsageError(f"was fitted, not trained: {why}", file=str(source), code="fitted")
    return run, run.config
