"""What `attentif.load` gives of a run that was fitted, or of a file of word vectors: the answers of its family, and an honest refusal of
the others.
"""

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

from attentif.config import read_toml
from attentif.decode import Generated, Token
from attentif.decode.generate import collect, write
from attentif.errors import RunError, UsageError
from attentif.tasks.fitting import fitting_of
from attentif.tasks.language.language import generate_options
from attentif.tasks.language.ngrams import Writing
from attentif.tasks.task import Evaluation, Progress, Say, Tokenizers
from attentif.tasks.vectors.aligning import EMPTY, paired, word_names
from attentif.tasks.vectors.words import evaluate_judgements
from attentif.text import Tokenizer
from attentif.text.explain import is_byte_level, readable
from attentif.text.fitted import Fitted
from attentif.text.ibm1 import IBM1
from attentif.text.ngram import NGram
from attentif.text.vectors import WordVectors, read_vectors
from attentif.text.word2vec import FittedVectors, Word2VecConfig
from attentif.training.fitted import FitConfig, load_config
from attentif.training.load import Given, check_split, other_rows
from attentif.training.rundir import RunFolder, read_results
from attentif.view.blocks import AttentionMaps, Section, Table
from attentif.view.page import Fragment
from attentif.view.words import metric


def open_fitted(folder: RunFolder) -> "FittedRun | None":
    """The run of a folder, where it was fitted."""
    if "fit" not in read_toml(folder.config).values:
        return None
    config = load_config(folder.config)
    assert isinstance(config, FitConfig)
    return FittedRun(folder, config, config.fit.build().load(folder.path), folder.tokenizers(config.tokenizer))


class FittedRun:
    """A fitted model and all that goes with it."""

    def __init__(self, folder: RunFolder, config: FitConfig, model: Fitted[Any], tokenizers: Tokenizers) -> None:
        self.folder, self.config, self.model, self.tokenizers = folder, config, model, tokenizers
        self.task = fitting_of(config.fit)

    @property
    def path(self) -> Path:
        return self.folder.path

    @property
    def note(self) -> str:
        return self.task.note

    @property
    def tokenizer(self) -> Tokenizer:
        """That of the texts, or of the source."""
        return self.tokenizers["tokenizer"]

    @cached_property
    def results(self) -> dict[str, Any]:
        """What was measured when it was fitted."""
        return read_results(self.folder)

    def evaluate(
        self,
        data: Given | None = None,
        *,
        split: str = "test",
        say: Say | None = None,
        progress: Progress | None = None,
    ) -> Evaluation:
        """Scores on a split of the run's own data, or on another file: text, pairs, or judgements of word vectors."""
        check_split(split)
        said = say or (lambda _: None)
        if data is not None:
            examples = self.task.read(other_rows(self.config.data, data), self.tokenizers, said)
        else:
            material = self.task.prepare(self.config.data, self.tokenizers, said)
            if self.config.made is not None and material.digest != self.config.made.data:
                raise RunError("its data have changed since it was fitted: score other rows by naming their file (--data)", file=self.path)
            examples = getattr(material, split)
        return self.task.evaluate(self.model, examples, self.tokenizers, progress)

    # --------------------------------------------------------------------------------------------------------------- words

    @property
    def vectors(self) -> WordVectors:
        """The vectors of its words: `run.vectors.neighbours("plage")`, `.analogy("roi", "homme", "femme")`."""
        if not isinstance(self.model, FittedVectors):
            self.refuse("has no word vectors")
        return self.model.vectors

    # ------------------------------------------------------------------------------------------------------------- writing

    def generate(self, prompt: str, *, alternatives: int | None = None, **options: Any) -> Generated:
        """The continuation of a prompt; `options` are those of `GenerateOptions`."""
        return collect(self.stream(prompt, alternatives=alternatives, **options), 1, with_text=True)[0]

    def stream(self, prompt: str, *, alternatives: int | None = None, **options: Any) -> Iterator[Token]:
        """The same token by token."""
        if not isinstance(self.model, NGram):
            self.refuse("does not go on with a text")
        chosen = generate_options(options)
        if chosen.beams > 1:
            raise UsageError("n-grams are drawn from, or taken greedily: beams are for neural models")
        ids = [[self.tokenizer.eos, *self.tokenizer.ids_batch([prompt], wrap="none")[0].tolist()]]
        decode, ends = self.tokenizer.decode, {self.tokenizer.eos}
        return write(Writing(self.model, ids), ids, chosen, stop_tokens=ends, decode=decode, alternatives=alternatives)

    def token_name(self, token: int) -> str:
        """A token as people read it."""
        return readable(self.tokenizer.rust.id_to_token(token) or "?", is_byte_level(self.tokenizer))

    # ------------------------------------------------------------------------------------------------------------ aligning

    def align(self, source: str, target: str) -> AttentionMaps:
        """Which source word, or the empty one, each target word comes from: one map of one head, as attention's are shown."""
        if not isinstance(self.model, IBM1):
            self.refuse("aligns no sentences")
        f, e = paired(source, target, self.tokenizers)
        if not len(f) or not len(e):
            raise UsageError("an alignment needs words on both sides")
        columns = [EMPTY, *word_names(self.tokenizers["tokenizer"], f)]
        return AttentionMaps(word_names(self.tokenizers["target"], e), {"ibm1": self.model.align(f, e)[None]}, columns, "IBM 1")

    # ------------------------------------------------------------------------------------------------------- what it is not

    def predict(self, *given: Any, **options: Any) -> NoReturn:
        self.refuse("answers no inputs")

    def translate(self, *given: Any, **options: Any) -> NoReturn:
        self.refuse("does not translate")

    def maps(self, *given: Any, **options: Any) -> NoReturn:
        self.refuse("has no attention maps")

    def fill(self, *given: Any, **options: Any) -> NoReturn:
        self.refuse("fills in no hidden words")

    def embed(self, *given: Any, **options: Any) -> NoReturn:
        self.refuse("has no vectors of texts")

    def senses(self, *given: Any, **options: Any) -> NoReturn:
        self.refuse("reads no word in its context")

    def read(self, *given: Any, **options: Any) -> NoReturn:
        self.refuse("answers no inputs")

    def paint(self, *given: Any, **options: Any) -> NoReturn:
        self.refuse("draws no pictures")

    def refuse(self, what: str) -> NoReturn:
        """Say that a run of this family cannot be asked for that, and what it can be asked for."""
        use = {"words": "neighbours, analogy, vectors", "language": "generate, chat", "alignment": "align"}.get(self.config.fit.family, "")
        raise UsageError(f"this run {what}: it is a fitted {self.config.fit.kind}; what it can do: evaluate, {use}", file=self.path)

    def _repr_html_(self) -> str:
        scores = self.results.get("scores", {}).items()
        rows = [[metric(key).name, "-" if value is None else metric(key).write(value)] for key, value in scores]
        return Fragment([Section(f"{self.path}: {self.config.fit.kind}", [Table(["", ""], rows)])])._repr_html_()

    def __repr__(self) -> str:
        return f"<FittedRun {self.path}: {self.config.fit.kind}>"


class VectorsFile(FittedRun):
    """A file of word vectors, this program's or another's: all that a run of them answers without the text that it was fitted to."""

    def __init__(self, file: Path) -> None:
        words = Word2VecConfig()
        self.folder, self.model, self.tokenizers, self.task = RunFolder(file), words.build(), {}, fitting_of(words)

    @cached_property
    def _vectors(self) -> WordVectors:
        return read_vectors(self.path)

    @property
    def vectors(self) -> WordVectors:
        return self._vectors

    @property
    def results(self) -> dict[str, Any]:
        return {}

    def evaluate(self, data: Given | None = None, *, say: Say | None = None, **options: Any) -> Evaluation:
        """Scores against people's judgement: pairs of words, or analogies."""
        if data is None:
            raise UsageError("word vectors alone have no text to be scored on: name judgements or analogies (--data)", file=self.path)
        return evaluate_judgements(self.vectors, self.task.read(other_rows(None, data), {}, say or (lambda _: None)).of)

    def refuse(self, what: str) -> NoReturn:
        able = "evaluate --data, neighbours, analogy, vectors"
        raise UsageError(f"is no run, which would be a folder; of a file, word vectors are read: {able}", file=self.path)

    def _repr_html_(self) -> str:
        shape = f"{len(self.vectors):,} × {self.vectors.size}"
        return Fragment([Section(str(self.path), [Table(["", ""], [["vectors", shape]])])])._repr_html_()

    def __repr__(self) -> str:
        return f"<VectorsFile {self.path}>"
