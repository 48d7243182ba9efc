"""A model, trained, fitted or imported, with all that goes with it: `attentif.Run`."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from attentif.bulk import Ahead, BulkResult, InputRows, answer_into, embed_into, open_questions
from attentif.data.answer_file import AnswerFile, check_unfinished, describe_job
from attentif.data.file_format import check_encoding, describe_file
from attentif.data.in_memory import name_frames, save_frame
from attentif.data.input_rows import SkippingTolerance, count_rows
from attentif.data.sentences import check_vectors_path, iterate_sentences
from attentif.data.vector_file import open_vector_file
from attentif.decode import Generated, Token
from attentif.errors import UsageError
from attentif.evaluation import read_training_table, score_run
from attentif.models import Model
from attentif.tasks import Evaluation, Task, TaskState
from attentif.tasks.answers import Predictions, RemoteMap, refuse_non_finite
from attentif.tasks.base import AnyBaseTask, AnyTask, Example, Progress, Say, Tokenizers
from attentif.tasks.batches import format_count, refuse_blank
from attentif.tasks.capabilities import CAPABILITIES, Aligner, Capability, Filler, Generator, Painter
from attentif.tasks.embeddings.pictures import embed_inputs, match_pictures
from attentif.tasks.embeddings.senses import Senses, find_senses
from attentif.tasks.explain import Explanation, explain_picture, explain_signal, explain_text, find_neighbours
from attentif.tasks.predictors import Ensemble, first_network
from attentif.tasks.pretraining.fill import Filled
from attentif.text import Tokenizer
from attentif.text.explain import format_token, is_byte_level
from attentif.text.vectors import WordVectors
from attentif.training.config import FitConfig, StoredConfig
from attentif.training.load import Given
from attentif.training.rundir import RunFolder, read_results
from attentif.training.vectors import embedding_vectors, is_word_level
from attentif.view.blocks import AttentionMaps, Cell
from attentif.view.maps import Maps, choose_layers
from attentif.view.notebook import WordNeighbours, show_run
from attentif.view.words import Text, count


class Run:
    """A model, trained, fitted or imported, with all that goes with it. What it can do is listed by `capabilities`."""

    def __init__(
        self,
        folder: RunFolder,
        config: StoredConfig | FitConfig | None,
        task: AnyBaseTask,
        state: TaskState,
        model: Any,
        tokenizers: Tokenizers,
        *,
        own_data: bool = True,
    ) -> None:
        self.folder, self.config, self.task, self.state, self.model, self.tokenizers = folder, config, task, state, model, tokenizers
        self.own_data = own_data  # whether its configuration names the data that it was trained on

    @property
    def path(self) -> Path:
        return self.folder.path

    @property
    def kind(self) -> str:
        """The task or the fitted model: "classify", "ngram"."""
        return self.task.config.kind

    @property
    def note(self) -> str:
        """Caveat shown with every answer; empty where answers are the model's own."""
        return self.task.caveat(self.model, self.state)

    @cached_property
    def capabilities(self) -> dict[str, Capability]:
        """What this run can do, by name, each with the types of its request and response."""
        names = self.task.capabilities(self.model.config)
        if isinstance(self.model, Model | Ensemble) and is_word_level(self.network, self.config):
            names = (*names, "neighbours")
        return {name: CAPABILITIES[name] for name in names}

    def require(self, capability: str) -> Any:
        """The task, if the run has this capability; UsageError otherwise."""
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
    def network(self) -> Model:
        """The plain network; of an ensemble, the first, which is the one looked into."""
        return first_network(self.model)

    @property
    def tokenizer(self) -> Tokenizer:
        """That of the texts, or of the source."""
        return self.tokenizers["tokenizer"]

    @cached_property
    def vectors(self) -> WordVectors:
        """Word vectors, fitted or of the embedding where tokens are words: `run.vectors.neighbours("plage")`."""
        if isinstance(self.model, Model | Ensemble):
            return embedding_vectors(self.network, self.config, self.tokenizers)
        self.require("neighbours")
        return cast("WordVectors", self.model.vectors)

    @cached_property
    def results(self) -> dict[str, Any]:
        """The final results; empty while the run is not finished."""
        return read_results(self.folder)

    # ------------------------------------------------------------------------------------------------------------- answers

    def predict(self, inputs: Any, **options: Any) -> Predictions:
        """A label with its probability, a translation or a continuation of each text.

        `inputs` are texts, rows by role, or a table in memory: a DataFrame, a Series, an array.
        """
        if isinstance(inputs, str):
            raise UsageError("predict takes a list of texts: predict([text])")
        task = self._answering()
        if not isinstance(inputs, list | tuple):
            with name_frames():
                inputs = [row.asked for row in self.questions(save_frame(inputs, task.reads)).rows]
        if not task.begins_texts:
            refuse_blank(inputs, task.reads)
        with np.errstate(invalid="ignore"):  # refused below, in one line
            found = task.predict(self.model, self.state, self.tokenizers, inputs, **options) if inputs else []
        refuse_non_finite(found)
        return Predictions(found)

    def _answering(self) -> AnyTask:
        """The task, which answers inputs; fitted models do not."""
        if not isinstance(self.task, Task):
            raise self._cannot("answer inputs")
        return self.task

    def paint(self, text: str, *, count: int = 16, **options: Any) -> NDArray[np.uint8]:
        """Pictures (count, H, W) or (count, H, W, 3) of what a text asks for; `options` are those of sampling, such as temperature=0.8."""
        painter: Painter = self.require("paint")
        refuse_blank([text], "text")
        return painter.paint(self.model, self.state, self.tokenizers, text, count, **options)

    def translate(self, texts: Sequence[str], **options: Any) -> list[str]:
        """The translations of texts; `options` are those of decoding, such as beams=4."""
        self.require("translate")
        return [answer.output for answer in self.predict(texts, **options)]

    def generate(self, prompt: str, *, alternatives: int | None = None, **options: Any) -> Generated:
        """The continuation of a prompt; `options` are those of `GenerateOptions`: max_tokens, temperature, top_k, beams, stop ..."""
        writer: Generator = self.require("generate")
        return writer.generate(self.model, self.tokenizers, prompt, writer.options(options), alternatives)

    def stream(self, prompt: str, *, alternatives: int | None = None, **options: Any) -> Iterator[Token]:
        """Stream the same token by token."""
        writer: Generator = self.require("generate")
        return writer.stream(self.model, self.tokenizers, prompt, writer.options(options), alternatives)

    def token_name(self, token: int) -> str:
        """A token as people read it."""
        return format_token(self.tokenizer.rust.id_to_token(token) or "?", is_byte_level(self.tokenizer))

    def fill(self, text: str, *, count: int = 5) -> Filled:
        """The likeliest words at the hidden places of a text: `[MASK]`, `<mask>` or `___`."""
        filler: Filler = self.require("fill")
        return cast("Filled", filler.fill(self.model, self.tokenizers, text, count))

    def neighbours(self, word: str, *, count: int = 10) -> WordNeighbours:
        """The words whose vectors are nearest to a word's, with their cosines."""
        return WordNeighbours(self.vectors.neighbours(word, count))

    def align(self, source: str, target: str) -> AttentionMaps:
        """Which source word each target word comes from: one map of one head, as attention's are shown."""
        aligner: Aligner = self.require("align")
        return aligner.align(self.model, self.tokenizers, source, target)

    def embed(
        self,
        texts: Sequence[str | Path],
        *,
        pooling: str | None = None,
        normalise: bool = True,
        say: Say | None = None,
        progress: Progress | None = None,
    ) -> NDArray[np.float32]:
        """(N, D): a vector for each text; for each picture, given as a `Path`, by a model that reads them (CLIP, DINOv2).

        `pooling` is mean, first (or cls), last or max; by default the checkpoint's own, or mean.
        """
        if isinstance(texts, str):
            raise UsageError("embed takes a list of texts: embed([text])")
        if not texts:
            raise UsageError("embed takes a text at least")
        refuse_blank([text for text in texts if isinstance(text, str)], "text")
        task = self.require("embed")
        return embed_inputs(task, self.network, self.tokenizers, texts, pooling=pooling, normalise=normalise, say=say, progress=progress)

    def match(self, pictures: Sequence[str | Path], texts: Sequence[str]) -> NDArray[np.float32]:
        """(pictures, texts): how probably each text describes each picture; CLIP chooses among the texts, SigLIP judges each alone."""
        shown, said = self.embed([Path(picture) for picture in pictures]), self.embed(texts)
        return match_pictures(self.network, shown, said)

    def embed_file(
        self,
        file: str | Path,
        out: str | Path,
        *,
        column: str | None = None,
        pooling: str | None = None,
        normalise: bool = True,
        resume: bool = False,
        force: bool = False,
        say: Say | None = None,
        progress: Progress | None = None,
        embed: Callable[[list[str]], NDArray[np.float32]] | None = None,
        see: Callable[[list[int], list[str], NDArray[np.float32]], None] | None = None,
    ) -> int:
        """Write the vector of every text of a file, however many, into another (.npz, .safetensors, .csv); the number of vectors.

        After an interruption the same call with `resume=True` goes on with the next text. `embed` computes a chunk in place of this
        run (on a cluster), `see` is shown each chunk.
        """
        path, target = Path(file), Path(out)
        check_vectors_path(target)
        check_unfinished(target, resume=resume, force=force)
        options = {"column": column, "pooling": pooling, "normalise": normalise, "suffix": target.suffix}
        job = describe_job(path, self.path, config=repr(self.config), **options)
        vectors = open_vector_file(target, job, resume=resume)
        if vectors is None:
            return 0
        with vectors as written:
            texts = iterate_sentences(path, column, after=written.journal.line)
            compute = embed or (lambda texts: self.embed(texts, pooling=pooling, normalise=normalise, say=say))
            targets = [written.append, *([] if see is None else [see])]
            blank = embed_into(texts, compute, *targets, done=written.journal.rows, total=count_rows(path), progress=progress)
            if blank and say is not None:
                say(f"{format_count(blank, 'blank line')} skipped")
            about = {"run": str(self.path), "pooling": pooling or "its own", "normalised": str(normalise).lower()}
            written.complete(about)
            return written.journal.rows

    def senses(self, word: str, sentences: Sequence[str], *, groups: int | None = None) -> Senses:
        """A word in several sentences: the vectors of its uses by layer, their cosines, the senses they fall into."""
        if isinstance(sentences, str):
            raise UsageError("senses takes a list of sentences: senses(word, [sentence, ...])")
        return find_senses(self.require("embed"), self.network, self.tokenizers, word, sentences, groups=groups)

    def questions(
        self,
        file: str | Path,
        column: str | None = None,
        *,
        encoding: str | None = None,
        keep: Sequence[str] | None = None,
        tolerance: SkippingTolerance | None = None,
    ) -> InputRows:
        """The rows of a file that are to be answered: its lines, or the rows of a table, whose column of texts is named or detected."""
        given = None if self.config is None else self.config.data
        path = describe_file(Path(file), check_encoding(encoding))
        return open_questions(self._answering(), path, column, given, keep=keep, tolerance=tolerance or SkippingTolerance(0, []))

    def predict_file(
        self,
        file: str | Path,
        out: str | Path,
        *,
        column: str | None = None,
        encoding: str | None = None,
        keep: Sequence[str] | None = None,
        skip_bad: int = 0,
        resume: bool = False,
        force: bool = False,
        say: Say | None = None,
        progress: Progress | None = None,
        ahead: Ahead | None = None,
        **options: Any,
    ) -> BulkResult:
        """Answer every row of a file, however many, into another: CSV or TSV by its name, else one JSON object a line.

        `keep` names the columns that are written beside the answers (by default all), `skip_bad` how many rows may be left out because
        they cannot be answered. After an interruption the same call with `resume=True` goes on with the next row.
        """
        path, target = Path(file), Path(out)
        check_unfinished(target, resume=resume, force=force)
        job = describe_job(
            path, self.path, config=repr(self.config), column=column, encoding=encoding, keep=keep, options=options, suffix=target.suffix
        )
        answers = AnswerFile.resume(target, job) if resume else None
        if resume and answers is None:
            return BulkResult(0, [])
        skipped, after = ([], 0) if answers is None else (answers.journal.skipped, answers.journal.line)
        asked = self.questions(path, column, encoding=encoding, keep=keep, tolerance=SkippingTolerance(skip_bad, skipped, after))
        with answers or AnswerFile.create(target, job) as written:
            return answer_into(asked, lambda rows: self.predict(rows, **options), written, progress=progress, say=say, ahead=ahead)

    # ---------------------------------------------------------------------------------------------------------- evaluation

    def evaluate(
        self,
        data: Given | None = None,
        *,
        split: str = "test",
        say: Say | None = None,
        progress: Progress | None = None,
        remote_map: RemoteMap | None = None,
    ) -> Evaluation:
        """Scores on a split of the run's own data, or on all rows of another file, of several, or of a table in memory.

        `remote_map` are the workers of a cluster (`remote.score_on`)."""
        said = say or (lambda _: None)
        return score_run(self, data, split=split, say=said, progress=progress, remote_map=remote_map)

    # ------------------------------------------------------------------------------------------------------------- looking

    def explain(
        self, given: str | Example, *, neighbours: int = 5, say: Say | None = None, progress: Progress | None = None
    ) -> Explanation:
        """Why this answer: what each word (square of a picture, stretch of a signal) did to it, and the nearest training rows."""
        task, answer = self._answering(), lambda inputs: self.predict(list(inputs))
        if task.reads == "image" and isinstance(given, str):
            return explain_picture(given, answer)
        if task.reads == "signal" and isinstance(given, str):
            return explain_signal(given, answer)
        if not self.tokenizers:
            raise self._cannot("explain its answers: texts, pictures and signals are explained")
        key = next((key for key in ("context", "text", "source") if key in given), "text") if isinstance(given, Mapping) else ""
        text, wrap = (given, str) if isinstance(given, str) else (given[key], lambda rest: {**given, key: rest})
        found = explain_text(text, answer, self.model, self.tokenizer, wrap)
        if neighbours and "embed" in self.capabilities and isinstance(self.config, StoredConfig):
            table = read_training_table(self, say or (lambda _: None))
            found = replace(found, neighbours=find_neighbours(text, table, self.embed, neighbours, progress))
        return found

    def maps(self, text: str, *, target: str | None = None, pair: str | None = None, layers: Collection[int] | None = None) -> Maps:
        """Attention weights of a text (and its translation, or the second text of a pair), by layer and head, counted from 1."""
        task: AnyTask = self.require("inspect")
        if target is not None and "target" not in task.optional_inputs:
            raise UsageError(f"a target goes with a translation, and this is a run of {self.kind}", file=self.path)
        if pair is not None and "pair" not in task.optional_inputs:
            raise UsageError(f"a pair goes with a model of pairs, and this is a run of {self.kind}", file=self.path)
        example: str | Example = text if target is None else {"source": text, "target": target}
        if pair is not None:
            example = {"text": text, "pair": pair}
        refuse_blank([example], task.reads)
        found = task.maps(self.model, self.state, self.tokenizers, [example])
        if layers is not None:
            found = [chosen for shown in found if (chosen := choose_layers(shown, layers)).weights]
        if not found:
            raise UsageError("there is no attention map to show: no such layer, or no mixer of this model has maps", file=self.path)
        return Maps(text, found)

    def _repr_html_(self) -> str:
        rows: list[list[Cell]] = [[Text("tâche", "task"), self.kind]]
        if isinstance(self.config, StoredConfig):
            rows.append([Text("modèle", "model"), self.config.model.base or "-"])
        rows.append([Text("paramètres", "parameters"), count(sum(self.model.sizes().values()))])
        return show_run(self.path, rows, self.results, self.folder.metrics.rows(), self.folder.report)

    def __repr__(self) -> str:
        return f"<Run {self.path}: {self.kind}, {sum(self.model.sizes().values()):,} parameters>"
