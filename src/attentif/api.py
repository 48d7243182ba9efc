"""What Python users import: `attentif.train`, `attentif.load`, `attentif.record`. The command line calls the same functions.

run = attentif.train("reviews", data="avis.csv", model={"layers": 4}, train={"epochs": 3})
run.predict(["Quel film !"])                 # [Prediction(output="positif", probability=0.98, ...)]
run.maps("Quel film !").save("maps.html")    # or the last line of a notebook's cell
"""

import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from attentif.config import Layer, read_toml
from attentif.data import Roles
from attentif.data.columns import ASKED, OPTIONS, find_columns
from attentif.data.readers import PlainText, Reader, Row, Tolerance, open_reader
from attentif.decode import Generated, Token
from attentif.errors import DataError, RunError, UsageError
from attentif.hub.source import folder_of
from attentif.models import Model
from attentif.nn.tape import record
from attentif.plugin import load_installed
from attentif.runtime import set_threads
from attentif.tasks import Evaluation, Prediction, Task
from attentif.tasks.capabilities import CAPABILITIES, Aligner, Capability, Filler, Generator, Painter
from attentif.tasks.feed import refuse_blank
from attentif.tasks.fitting import Fitting, fitting_of
from attentif.tasks.pretraining.fill import Filled
from attentif.tasks.task import Example, Progress, Say, Tokenizers, refuse_non_finite
from attentif.tasks.vectors.senses import Senses, senses
from attentif.tasks.vectors.sentences import embed
from attentif.text import Tokenizer
from attentif.text.explain import is_byte_level, readable
from attentif.text.vectors import WordVectors
from attentif.text.word2vec import Word2VecConfig
from attentif.training import run as training
from attentif.training.config import KeptConfig
from attentif.training.distributed import device_of
from attentif.training.export import Exported, export_run
from attentif.training.fitted import FitConfig, fit, load_config
from attentif.training.imported import import_folder, is_foreign, open_folder
from attentif.training.kept import kept_config
from attentif.training.load import Given, Source, check_brought, check_split, data_table, other_rows, source_name
from attentif.training.progress import Display, display
from attentif.training.rundir import RunFolder, read_results
from attentif.training.vectors import embedding_vectors, is_word_level
from attentif.training.vectors_file import JudgedWords, VectorsFile
from attentif.view.blocks import AttentionMaps, Cell, Section, Table
from attentif.view.maps import maps_page
from attentif.view.page import Fragment
from attentif.view.words import Text, count, metric

BUDGET = 8192  # tokens read at once while scoring, where no training says how many

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
) -> "Run":
    """Train a recipe (its name), a TOML file or a table of values, and open the run.

    `data` is a file of examples, a list of files, or a table with the keys of `[data]`. `overrides` are tables of the configuration, as
    far as they differ: `model={"layers": 4}, train={"epochs": 3, "seed": 1}`. The run is kept in `out`, by default `runs/<recipe>-<n>`.
    """
    layers = [*_tables({"data": data_table(data)} if data is not None else {}), *_tables(overrides)]
    return load(start(source, layers, out=out, force=force, watch=watch or display()))


def _tables(arguments: Mapping[str, Any]) -> list[Layer]:
    """Tables of a configuration that were given as arguments, each of which can be named in an error."""
    return [Layer({key: value}, f"argument {key}") for key, value in arguments.items()]


def start(source: Source, layers: Sequence[Layer], *, out: str | Path | None = None, force: bool = False, watch: Display) -> Path:
    """Train what `source` says, `layers` of options over it; the folder of the run."""
    load_installed()
    config = load_config(source, layers)
    check_brought(source, config.data)
    place = Path(out) if out is not None else None
    if isinstance(config, FitConfig):
        return fit(config, name=source_name(source), out=place, force=force, display=watch).path
    return training.train(config, name=source_name(source), out=place, force=force, display=watch).path


def resume(run: str | Path, *, watch: Display) -> Path:
    """Go on with a run that was stopped."""
    load_installed()
    return training.resume(Path(run), display=watch).path


def load(source: str | Path, *, device: str = "auto", threads: int = 0, **changes: Any) -> "Run":
    """Open a run: its weights (of its newest checkpoint, while it goes on), its tokenizers, its configuration.

    Or a Hugging Face folder, or a model's name there (`org/name`), which is opened as it lies and answers as its maker meant it to.
    A file of word vectors, in the formats of word2vec or GloVe, opens too. `run.capabilities` lists what a run can do.
    `changes` are of what a run reads, and how: `task={"fill": "linear"}`, or `data={"options": {"length": 1024}}` to score it on longer
    rows than it was trained on.
    """
    return reopen(source, _tables(changes), device=device, threads=threads)


def reopen(source: str | Path, changes: Sequence[Layer], *, device: str = "auto", threads: int = 0) -> "Run":
    """The same, with changes that remember where they were made."""
    load_installed()
    path = folder_of(source)
    if changes and (is_foreign(path) or not (path / "config.toml").is_file()):
        raise UsageError("has no configuration to change: a run has one (`attentif import` makes one of a checkpoint)", file=path)
    if path.is_file():
        return Run(RunFolder(path), None, JudgedWords(Word2VecConfig()), VectorsFile(path), {})
    set_threads(threads)
    if is_foreign(path):
        opened = open_folder(path, str(source))
        for note in opened.notes:
            log.warning("%s: %s", source, note)
        return Run(RunFolder(path), opened.config, opened.config.task.build(), opened.model.to(device_of(device)), opened.tokenizers)
    folder = RunFolder.open(path)
    folder.verify()
    if "fit" in read_toml(folder.config).values:
        if changes:
            raise UsageError("was fitted, and is used as it was: it takes no changes", file=path)
        fitted = load_config(folder.config)
        assert isinstance(fitted, FitConfig)
        return Run(folder, fitted, fitting_of(fitted.fit), fitted.fit.build().load(path), folder.tokenizers(fitted.tokenizer))
    config = kept_config(folder.path, changes)
    task = config.task.build()
    task.recall(folder.path)
    model = training.open_model(folder, config, device_of(device))
    own = not any("data" in layer.values for layer in changes)
    return Run(folder, config, task, model, folder.tokenizers(config.tokenizer), own_data=own)


def import_model(source: str | Path, out: str | Path, *, force: bool = False, say: Say | None = None) -> Path:
    """Make a run of a Hugging Face folder, or of a model's name there; its folder."""
    load_installed()
    path = folder_of(source)
    if not is_foreign(path):
        what = "is a run already" if (path / "config.toml").is_file() else "is no Hugging Face folder: it has no config.json"
        raise UsageError(what, file=path)
    return import_folder(path, Path(out), name=str(source), force=force, say=say or (lambda _: None)).path


def export_model(source: str | Path, out: str | Path, *, family: str | None = None, force: bool = False) -> Exported:
    """Write a run as a Hugging Face folder that transformers loads as it is."""
    run = load(source, device="cpu")
    if not isinstance(run.config, KeptConfig):
        raise UsageError("was fitted, not trained: no Hugging Face architecture can represent it", file=str(source))
    return export_run(run.folder, run.config, run.model, run.tokenizers, Path(out), family=family, force=force)


class Run:
    """A model, trained, fitted or imported, with all that goes with it. What it can do is listed by `capabilities`."""

    def __init__(
        self,
        folder: RunFolder,
        config: KeptConfig | FitConfig | None,
        task: Task | Fitting,
        model: Any,
        tokenizers: Tokenizers,
        *,
        own_data: bool = True,
    ) -> None:
        self.folder, self.config, self.task, self.model, self.tokenizers = folder, config, task, model, tokenizers
        self.own_data = own_data  # whether its configuration names the data that it was trained on

    @property
    def path(self) -> Path:
        return self.folder.path

    @property
    def kind(self) -> str:
        """What it was trained or fitted as: "classify", "ngram"."""
        return self.task.config.kind

    @property
    def note(self) -> str:
        """Caveat shown with every answer; empty where answers are the model's own."""
        return self.task.caveat(self.model)

    @cached_property
    def capabilities(self) -> dict[str, Capability]:
        """What this run can do, by name, each with the types of its request and response."""
        names = self.task.capabilities(self.model.config)
        if isinstance(self.model, Model) and is_word_level(self.model, self.config):
            names = (*names, "neighbours")
        return {name: CAPABILITIES[name] for name in names}

    def require(self, capability: str) -> Any:
        """The task, which has this capability; UsageError where it has not."""
        if capability not in self.capabilities:
            raise self._cannot(CAPABILITIES[capability].does)
        return self.task

    def _cannot(self, what: str) -> UsageError:
        """An error that says what this run is, and what it can do."""
        kind = f"a fitted {self.kind}" if isinstance(self.config, FitConfig) else f"a run of {self.kind}"
        if self.config is None:
            kind = "a file of word vectors and no run, which would be a folder"
        able = ", ".join(["evaluate", *self.capabilities])
        return UsageError(f"this run cannot {what}: it is {kind}; what it can do: {able}", file=self.path)

    @property
    def tokenizer(self) -> Tokenizer:
        """That of the texts, or of the source."""
        return self.tokenizers["tokenizer"]

    @cached_property
    def vectors(self) -> WordVectors:
        """Word vectors, fitted or of the embedding where tokens are words: `run.vectors.neighbours("plage")`."""
        if isinstance(self.model, Model):
            return embedding_vectors(self.model, self.config, self.tokenizers)
        self.require("neighbours")
        return cast("WordVectors", self.model.vectors)

    @cached_property
    def results(self) -> dict[str, Any]:
        """What was measured at the end of training; nothing while the run goes on."""
        return read_results(self.folder)

    # ------------------------------------------------------------------------------------------------------------- answers

    def predict(self, inputs: Sequence[str | Example], **options: Any) -> list[Prediction]:
        """A label with its probability, a translation or a continuation of each text."""
        if isinstance(inputs, str):
            raise UsageError("predict takes a list of texts: predict([text])")
        task = self._answering()
        if not task.begins_texts:
            refuse_blank(inputs, task.reads)
        with np.errstate(invalid="ignore"):  # refused below, in one line
            found = task.predict(self.model, self.tokenizers, inputs, **options) if inputs else []
        refuse_non_finite(found)
        return found

    def _answering(self) -> Task:
        """The task, which answers inputs; fitted models do not."""
        if not isinstance(self.task, Task):
            raise self._cannot("answer inputs")
        return self.task

    def paint(self, text: str, *, count: int = 16, **options: Any) -> NDArray[np.uint8]:
        """Pictures (count, H, W) or (count, H, W, 3) of what a text asks for; `options` are those of sampling, such as temperature=0.8."""
        painter: Painter = self.require("paint")
        refuse_blank([text], "text")
        return painter.paint(self.model, self.tokenizers, text, count, **options)

    def translate(self, texts: Sequence[str], **options: Any) -> list[str]:
        """The translations of texts; `options` are those of decoding, such as beams=4."""
        self.require("translate")
        return [answer.output for answer in self.predict(texts, **options)]

    def generate(self, prompt: str, *, alternatives: int | None = None, **options: Any) -> Generated:
        """The continuation of a prompt; `options` are those of `GenerateOptions`: max_tokens, temperature, top_k, beams, stop ..."""
        writer: Generator = self.require("generate")
        return writer.generate(self.model, self.tokenizers, prompt, writer.options(options), alternatives)

    def stream(self, prompt: str, *, alternatives: int | None = None, **options: Any) -> Iterator[Token]:
        """The same token by token, as soon as each is chosen."""
        writer: Generator = self.require("generate")
        return writer.stream(self.model, self.tokenizers, prompt, writer.options(options), alternatives)

    def token_name(self, token: int) -> str:
        """A token as people read it."""
        return readable(self.tokenizer.rust.id_to_token(token) or "?", is_byte_level(self.tokenizer))

    def fill(self, text: str, *, count: int = 5) -> Filled:
        """The likeliest words at the hidden places of a text: `[MASK]`, `<mask>` or `___`."""
        filler: Filler = self.require("fill")
        return cast("Filled", filler.fill(self.model, self.tokenizers, text, count))

    def neighbours(self, word: str, *, count: int = 10) -> list[Any]:
        """The words whose vectors are nearest to a word's, with their cosines."""
        return self.vectors.neighbours(word, count)

    def align(self, source: str, target: str) -> AttentionMaps:
        """Which source word each target word comes from: one map of one head, as attention's are shown."""
        aligner: Aligner = self.require("align")
        return aligner.align(self.model, self.tokenizers, source, target)

    def embed(
        self,
        texts: Sequence[str],
        *,
        pooling: str | None = None,
        normalise: bool = True,
        say: Say | None = None,
        progress: Progress | None = None,
    ) -> NDArray[np.float32]:
        """(N, D): a vector for each text. `pooling` is mean, first (or cls), last or max; by default the checkpoint's own, or mean."""
        if isinstance(texts, str):
            raise UsageError("embed takes a list of texts: embed([text])")
        if not texts:
            raise UsageError("embed takes a text at least")
        refuse_blank(texts, "text")
        task = self.require("embed")
        return embed(*(task, self.model, self.tokenizers, texts), pooling=pooling, normalise=normalise, say=say, progress=progress)

    def senses(self, word: str, sentences: Sequence[str], *, groups: int | None = None) -> Senses:
        """A word in several sentences: the vectors of its uses by layer, their cosines, the senses they fall into."""
        if isinstance(sentences, str):
            raise UsageError("senses takes a list of sentences: senses(word, [sentence, ...])")
        return senses(self.require("embed"), self.model, self.tokenizers, word, sentences, groups=groups)

    def read(self, file: str | Path, column: str | None = None) -> list[str | Example]:
        """The inputs that a file holds: its lines, or the rows of a table, whose column of texts is named or detected."""
        task = self._answering()
        if (own := task.inputs(Path(file), column)) is not None:
            return own
        role = task.reads
        reader = open_reader(Path(file), Tolerance())
        if isinstance(reader, PlainText):
            return [values[0] for _, values in self._asked(reader, [role])]
        config = other_rows(self.config.data if self.config else None, {"train": str(file)} | ({role: column} if column else {}))
        beside = task.beside
        roles = Roles((role,), optional=beside, ways={role: ASKED, **{other: f"--set {OPTIONS[other]}" for other in beside}})
        names = find_columns(reader.columns, Path(file), config, roles)
        return [dict(zip(names, values, strict=True)) for _, values in self._asked(reader, list(names.values()))]

    def _asked(self, reader: Reader, columns: Sequence[str]) -> Iterator[Row]:
        """The rows of a file, each of which asks for something."""
        for line, values in reader.rows(columns):
            if not self._answering().begins_texts and not all(value.strip() for value in values):
                raise DataError("the text is empty: there is nothing to read", file=reader.path, line=line)
            yield line, values

    # ---------------------------------------------------------------------------------------------------------- evaluation

    def evaluate(
        self,
        data: Given | None = None,
        *,
        split: str = "test",
        say: Say | None = None,
        progress: Progress | None = None,
    ) -> Evaluation:
        """Scores on a split of the run's own data, or on all rows of another file, or of several."""
        check_split(split)
        said, config = say or (lambda _: None), self.config
        own_data = None if config is None else config.data
        budget = config.train.batch_tokens if isinstance(config, KeptConfig) and config.train is not None else BUDGET
        if data is not None:
            dataset = self.task.read(other_rows(own_data, data), self.tokenizers, self.model.config, said)
        elif config is None or own_data is None:
            raise UsageError(
                "was imported: the data that it was trained on are not known; name a file to score it on (--data FILE)", file=self.path
            )
        else:
            prepared = self.task.prepare(own_data, self.tokenizers, self.model.config, said)
            if self.own_data and config.made is not None and prepared.digest != config.made.data:
                raise RunError("its data have changed since it was trained: score other rows by naming their file (--data)", file=self.path)
            dataset = getattr(prepared, split)
        return self.task.evaluate(self.model, cast("Any", dataset), budget=budget, progress=progress)

    # ------------------------------------------------------------------------------------------------------------- looking

    def maps(self, text: str, *, target: str | None = None, pair: str | None = None, layers: Collection[int] | None = None) -> "Maps":
        """Attention weights of a text (and its translation, or the second text of a pair), by layer and head, counted from 1."""
        task: Task = self.require("inspect")
        if target is not None and "target" not in task.optional_inputs:
            raise UsageError(f"a target goes with a translation, and this is a run of {self.kind}", file=self.path)
        if pair is not None and "pair" not in task.optional_inputs:
            raise UsageError(f"a pair goes with a model of pairs, and this is a run of {self.kind}", file=self.path)
        example: str | Example = text if target is None else {"source": text, "target": target}
        if pair is not None:
            example = {"text": text, "pair": pair}
        refuse_blank([example], task.reads)
        found = task.maps(self.model, self.tokenizers, [example])
        if layers is not None:
            found = [chosen for shown in found if (chosen := _only(shown, layers)).weights]
        if not found:
            raise UsageError("there is no attention map to show: no such layer, or no mixer of this model has maps", file=self.path)
        return Maps(text, found)

    def _repr_html_(self) -> str:
        rows: list[list[Cell]] = [[Text("tâche", "task"), self.kind]]
        if isinstance(self.config, KeptConfig):
            rows.append([Text("modèle", "model"), self.config.model.base or "-"])
        rows.append([Text("paramètres", "parameters"), count(sum(self.model.sizes().values()))])
        scores = self.results.get("scores", {}).items()
        rows += [[metric(key).name, "-" if value is None else metric(key).write(value)] for key, value in scores]
        return Fragment([Section(str(self.path), [Table(["", ""], rows)])])._repr_html_()

    def __repr__(self) -> str:
        return f"<Run {self.path}: {self.kind}, {sum(self.model.sizes().values()):,} parameters>"


@dataclass(frozen=True)
class Maps:
    """Attention maps of a text: shown by a notebook, or saved as one HTML file."""

    text: str
    maps: list[AttentionMaps]

    def save(self, path: str | Path) -> Path:
        maps_page(Path(path), self.maps, title=self.text)
        return Path(path)

    def _repr_html_(self) -> str:
        return Fragment([Section(shown.title, [shown]) for shown in self.maps])._repr_html_()


def _only(shown: AttentionMaps, layers: Collection[int]) -> AttentionMaps:
    """The weights of some layers; their names hold their numbers: "encoder 1 attn"."""
    weights = {name: value for name, value in shown.weights.items() if (n := re.search(r" (\d+)( |$)", name)) and int(n[1]) in layers}
    return replace(shown, weights=weights)
