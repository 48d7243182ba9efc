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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentif.config import Layer
from attentif.data import Roles
from attentif.data.columns import ASKED, OPTIONS, find_columns
from attentif.data.readers import PlainText, Reader, Row, Tolerance, open_reader
from attentif.decode import Generated, GenerateOptions, Token, generate, stream
from attentif.errors import DataError, RunError, UsageError
from attentif.hub.source import folder_of
from attentif.models import Model
from attentif.nn.tape import record
from attentif.plugin import load_installed
from attentif.runtime import set_threads
from attentif.tasks import Evaluation, Language, Prediction, Translate
from attentif.tasks.feed import refuse_blank
from attentif.tasks.labels.classify import Classify
from attentif.tasks.pictures.paint import Paint
from attentif.tasks.pretraining.fill import Filled
from attentif.tasks.pretraining.masked import Masked
from attentif.tasks.task import Example, Progress, Say, Tokenizers, refuse_non_finite
from attentif.tasks.vectors.senses import Senses, senses
from attentif.tasks.vectors.sentences import embed
from attentif.tasks.writing.text_to_text import TextToText
from attentif.text import Tokenizer
from attentif.text.explain import is_byte_level, readable
from attentif.text.vectors import WordVectors
from attentif.training import run as training
from attentif.training.config import KeptConfig
from attentif.training.distributed import device_of
from attentif.training.export import Exported, export_run
from attentif.training.fitted import FitConfig, fit, load_config
from attentif.training.fitted_run import VectorsFile, open_fitted
from attentif.training.imported import import_folder, is_foreign, open_folder
from attentif.training.kept import kept_config
from attentif.training.load import Given, Source, check_brought, check_split, data_table, other_rows, source_name
from attentif.training.progress import Display, display
from attentif.training.rundir import RunFolder, read_results
from attentif.training.vectors import embedding_vectors
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


def load(source: str | Path, *, device: str = "auto", threads: int = 0, **changes: Any) -> Any:
    """Open a run: its weights (of its newest checkpoint, while it goes on), its tokenizers, its configuration.

    Or a Hugging Face folder, or a model's name there (`org/name`), which is opened as it lies and answers as its maker meant it to.
    A `Run`, or, where it was fitted and not trained step by step (word vectors, n-grams), a `FittedRun` with what that can do; so has a
    file of word vectors in the formats of word2vec or GloVe. `changes` are of what a run reads, and how: `task={"fill": "linear"}`, or
    `data={"options": {"length": 1024}}` to score it on longer rows than it was trained on.
    """
    return reopen(source, _tables(changes), device=device, threads=threads)


def reopen(source: str | Path, changes: Sequence[Layer], *, device: str = "auto", threads: int = 0) -> Any:
    """The same, with changes that remember where they were made."""
    load_installed()
    path = folder_of(source)
    if changes and (is_foreign(path) or not (path / "config.toml").is_file()):
        raise UsageError("has no configuration to change: a run has one (`attentif import` makes one of a checkpoint)", file=path)
    if path.is_file():
        return VectorsFile(path)
    set_threads(threads)
    if is_foreign(path):
        opened = open_folder(path, str(source))
        for note in opened.notes:
            log.warning("%s: %s", source, note)
        return Run(RunFolder(path), opened.config, opened.model.to(device_of(device)), opened.tokenizers)
    folder = RunFolder.open(path)
    folder.verify()
    if (fitted := open_fitted(folder)) is not None:
        if changes:
            raise UsageError("was fitted, and is used as it was: it takes no changes", file=path)
        return fitted
    config = kept_config(folder.path, changes)
    model = training.opened(folder, config, device_of(device))
    own = not any("data" in layer.values for layer in changes)
    return Run(folder, config, model, folder.tokenizers(config.tokenizer), own_data=own)


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
    if not isinstance(run, Run):
        raise UsageError("was fitted, not trained step by step: no family at Hugging Face is built so", file=str(source))
    return export_run(run.folder, run.config, run.model, run.tokenizers, Path(out), family=family, force=force)


class Run:
    """A trained model and all that goes with it."""

    def __init__(self, folder: RunFolder, config: KeptConfig, model: Model, tokenizers: Tokenizers, *, own_data: bool = True) -> None:
        self.folder, self.config, self.model, self.tokenizers = folder, config, model, tokenizers
        self.own_data = own_data  # whether its configuration names the data that it was trained on
        self.task = config.task.build()
        self.task.recall(folder.path)

    @property
    def path(self) -> Path:
        return self.folder.path

    @property
    def note(self) -> str:
        """What somebody who reads its answers must know, in a line; nothing where they are the model's own."""
        return self.task.caveat(self.model)

    @property
    def tokenizer(self) -> Tokenizer:
        """That of the texts, or of the source."""
        return self.tokenizers["tokenizer"]

    @cached_property
    def vectors(self) -> WordVectors:
        """The embedding as word vectors, where tokens are words: `run.vectors.neighbours("plage")`."""
        return embedding_vectors(self.model, self.config, self.tokenizers)

    @cached_property
    def results(self) -> dict[str, Any]:
        """What was measured at the end of training; nothing while the run goes on."""
        return read_results(self.folder)

    # ------------------------------------------------------------------------------------------------------------- answers

    def predict(self, inputs: Sequence[str | Example], **options: Any) -> list[Prediction]:
        """A label with its probability, a translation or a continuation of each text."""
        if isinstance(inputs, str):
            raise UsageError("predict takes a list of texts: predict([text])")
        if not self.task.begins_texts:
            refuse_blank(inputs, self.task.reads)
        with np.errstate(invalid="ignore"):  # refused below, in one line
            found = self.task.predict(self.model, self.tokenizers, inputs, **options) if inputs else []
        refuse_non_finite(found)
        return found

    def paint(self, text: str, *, count: int = 16, **options: Any) -> NDArray[np.uint8]:
        """Pictures (count, H, W) or (count, H, W, 3) of what a text asks for; `options` are those of drawing, such as temperature=0.8."""
        if not isinstance(self.task, Paint):
            raise UsageError(f"this run does not paint: its task is {self.config.task.kind}", file=self.path)
        refuse_blank([text], "text")
        return self.task.paint(self.model, self.tokenizers, text, count, **options)

    def translate(self, texts: Sequence[str], **options: Any) -> list[str]:
        """The translations of texts; `options` are those of decoding, such as beams=4."""
        if not isinstance(self.task, Translate | TextToText):
            raise UsageError(f"this run does not translate: its task is {self.config.task.kind}", file=self.path)
        return [answer.output for answer in self.predict(texts, **options)]

    def generate(self, prompt: str, *, alternatives: int | None = None, **options: Any) -> Generated:
        """The continuation of a prompt; `options` are those of `GenerateOptions`: max_tokens, temperature, top_k, beams, stop ..."""
        return generate(self.model, self._prompt(prompt), self._options(options), alternatives=alternatives, **self._ends())[0]

    def stream(self, prompt: str, *, alternatives: int | None = None, **options: Any) -> Iterator[Token]:
        """The same token by token, as soon as each is chosen."""
        return stream(self.model, self._prompt(prompt), self._options(options), alternatives=alternatives, **self._ends())

    def _options(self, given: dict[str, Any]) -> GenerateOptions:
        assert isinstance(self.task, Language)
        return self.task.options(given)

    def _prompt(self, prompt: str) -> list[list[int]]:
        if not isinstance(self.task, Language):
            raise UsageError(f"this run does not go on with a text: its task is {self.config.task.kind}; use predict", file=self.path)
        return [self.task.prompt(self.tokenizers, prompt)]

    def _ends(self) -> dict[str, Any]:
        return {"stop_tokens": self.tokenizer.ends, "decode": self.tokenizer.decode}

    def token_name(self, token: int) -> str:
        """A token as people read it."""
        return readable(self.tokenizer.rust.id_to_token(token) or "?", is_byte_level(self.tokenizer))

    def fill(self, text: str, *, count: int = 5) -> Filled:
        """The likeliest words at the hidden places of a text: `[MASK]`, `<mask>` or `___`."""
        if not isinstance(self.task, Masked):
            raise UsageError(f"this run fills in no hidden words: its task is {self.config.task.kind}, not masked", file=self.path)
        return self.task.fill(self.model, self.tokenizers, text, count)

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
        return embed(*(self.task, self.model, self.tokenizers, texts), pooling=pooling, normalise=normalise, say=say, progress=progress)

    def senses(self, word: str, sentences: Sequence[str], *, groups: int | None = None) -> Senses:
        """A word in several sentences: the vectors of its uses by layer, their cosines, the senses they fall into."""
        if isinstance(sentences, str):
            raise UsageError("senses takes a list of sentences: senses(word, [sentence, ...])")
        return senses(self.task, self.model, self.tokenizers, word, sentences, groups=groups)

    def read(self, file: str | Path, column: str | None = None) -> list[str | Example]:
        """The inputs that a file holds: its lines, or the rows of a table, whose column of texts is named or detected."""
        if (own := self.task.inputs(Path(file), column)) is not None:
            return own
        role = self.task.reads
        reader = open_reader(Path(file), Tolerance())
        if isinstance(reader, PlainText):
            return [values[0] for _, values in self._asked(reader, [role])]
        config = other_rows(self.config.data, {"train": str(file)} | ({role: column} if column else {}))
        beside = self.task.beside
        roles = Roles((role,), optional=beside, ways={role: ASKED, **{other: f"--set {OPTIONS[other]}" for other in beside}})
        names = find_columns(reader.columns, Path(file), config, roles)
        return [dict(zip(names, values, strict=True)) for _, values in self._asked(reader, list(names.values()))]

    def _asked(self, reader: Reader, columns: Sequence[str]) -> Iterator[Row]:
        """The rows of a file, each of which asks for something."""
        for line, values in reader.rows(columns):
            if not self.task.begins_texts and not all(value.strip() for value in values):
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
        said = say or (lambda _: None)
        budget = self.config.train.batch_tokens if self.config.train is not None else BUDGET
        if data is not None:
            dataset = self.task.read(other_rows(self.config.data, data), self.tokenizers, self.config.model, said)
        elif self.config.data is None:
            raise UsageError("was imported, and its maker's data are not known: name a file to score it on (--data FILE)", file=self.path)
        else:
            prepared = self.task.prepare(self.config.data, self.tokenizers, self.config.model, said)
            if self.own_data and self.config.made is not None and prepared.digest != self.config.made.data:
                raise RunError("its data have changed since it was trained: score other rows by naming their file (--data)", file=self.path)
            dataset = getattr(prepared, split)
        return self.task.evaluate(self.model, dataset, budget=budget, progress=progress)

    # ------------------------------------------------------------------------------------------------------------- looking

    def maps(self, text: str, *, target: str | None = None, pair: str | None = None, layers: Collection[int] | None = None) -> "Maps":
        """Attention weights of a text (and its translation, or the second text of a pair), by layer and head, counted from 1."""
        if target is not None and not isinstance(self.task, Translate):
            raise UsageError(f"a target goes with a translation, and this run's task is {self.config.task.kind}", file=self.path)
        if pair is not None and not isinstance(self.task, Classify):
            raise UsageError(f"a pair goes with a model of pairs, and this run's task is {self.config.task.kind}", file=self.path)
        example: str | Example = text if target is None else {"source": text, "target": target}
        if pair is not None:
            example = {"text": text, "pair": pair}
        refuse_blank([example], self.task.reads)
        found = self.task.maps(self.model, self.tokenizers, [example])
        if layers is not None:
            found = [chosen for shown in found if (chosen := _only(shown, layers)).weights]
        if not found:
            raise UsageError("there is no attention map to show: no such layer, or no mixer of this model has maps", file=self.path)
        return Maps(text, found)

    def _repr_html_(self) -> str:
        results = self.results
        rows: list[list[Cell]] = [[Text("tâche", "task"), self.config.task.kind], [Text("modèle", "model"), self.config.model.base or "-"]]
        rows.append([Text("paramètres", "parameters"), count(sum(self.model.sizes().values()))])
        scores = results.get("scores", {}).items()
        rows += [[metric(key).name, "-" if value is None else metric(key).write(value)] for key, value in scores]
        return Fragment([Section(str(self.path), [Table(["", ""], rows)])])._repr_html_()

    def __repr__(self) -> str:
        return f"<Run {self.path}: {self.config.task.kind}, {sum(self.model.sizes().values()):,} parameters>"


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
