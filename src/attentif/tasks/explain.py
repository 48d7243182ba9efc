"""Explain an answer: the effect of each part of the input, and the nearest training rows.

    gradient    Σ over the part's tokens of  ∂ logit of the answer / ∂ embedding · embedding     (Shrikumar et al. 2016)
    removal     p(answer | input) − p(answer | input without the part)                           (Zeiler & Fergus 2014)

Parts are words, squares of a picture or stretches of a signal. Positive values speak for the answer. Both are measured on the model as
it answers; the first is a slope and cheap, the second is what happens, at the price of a forward pass for each part.
"""

import base64
import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from attentif.data.table import Table
from attentif.errors import UsageError
from attentif.extras import require_extra
from attentif.models import Batch
from attentif.tasks.answers import Prediction
from attentif.tasks.attention import influence
from attentif.tasks.base import Progress
from attentif.tasks.details import TagAnswer, details_of
from attentif.tasks.embeddings.sentences import nearest
from attentif.tasks.predictors import Predictor, first_network
from attentif.text import Tokenizer
from attentif.view.blocks import Block, Cell, Legend, Paragraph, Section, TableBlock, TokensBlock
from attentif.view.page import Fragment, Page, write
from attentif.view.words import Text, number, percent

MOST_WORDS = 400
MOST_NEIGHBOURS = 4000  # training rows among which the nearest are looked for
GRID = 7  # squares of a picture, in each direction
STRETCHES = 24  # of a signal
Answer = Callable[[Sequence[Any]], list[Prediction]]


@dataclass(frozen=True)
class ExplainedPart:
    """Effect of a word, a square or a stretch on the answer."""

    name: str
    removal: float  # how much less likely the answer is without it
    gradient: float | None = None  # gradient × input, where the model reads tokens


@dataclass(frozen=True)
class Neighbour:
    """A training row with a similar vector."""

    text: str
    label: str
    similarity: float  # cosine of the two vectors
    place: str  # file:line


@dataclass(frozen=True)
class Explanation:
    """What an answer rests on: `print(explanation)`, the last line of a notebook's cell, or `save("why.html")`."""

    input: str
    output: str
    probability: float | None
    parts: list[ExplainedPart]
    neighbours: list[Neighbour] = field(default_factory=list)

    def strongest(self, count: int = 10) -> list[ExplainedPart]:
        """The parts that moved the answer most, for it or against it."""
        return sorted(self.parts, key=lambda part: -abs(part.removal))[:count]

    def sections(self) -> list[Section]:
        sure = "" if self.probability is None else f" ({100 * self.probability:.0f} %)"
        said = Text(
            "Plus une partie est foncée, plus la réponse change quand on l’enlève.",
            "The darker a part, the more the answer changes when it is removed.",
        )
        body: list[Block] = [
            Paragraph(said, "note"),
            Legend(Text("parle pour la réponse", "speaks for the answer"), Text("parle contre", "speaks against it")),
            TokensBlock([f" {part.name}" for part in self.parts], [part.removal for part in self.parts]),
        ]
        if any(part.gradient is not None for part in self.parts):
            names = [f" {part.name}" for part in self.parts]
            body.append(TokensBlock(names, [part.gradient or 0.0 for part in self.parts], Text("gradient × entrée", "gradient × input")))
        found = [Section(f"« {self.input[:200]} » → {self.output}{sure}", body)]
        if self.neighbours:
            columns = [Text("ressemblance", "similarity"), Text("étiquette", "label"), Text("texte", "text"), Text("où", "where")]
            rows: list[list[Cell]] = [[number(one.similarity, 3), one.label, one.text, one.place] for one in self.neighbours]
            found.append(Section(Text("Les plus proches dans l’entraînement", "Nearest in training"), [TableBlock(columns, rows)]))
        return found

    def save(self, path: str | Path) -> Path:
        """Write one HTML page, in French and English."""
        write(Path(path), Page(Text("Pourquoi cette réponse ?", "Why this answer?"), self.sections(), []))
        return Path(path)

    def _repr_html_(self) -> str:
        return Fragment(self.sections())._repr_html_()

    def __str__(self) -> str:
        sure = "" if self.probability is None else f" ({percent(self.probability).en})"
        lines = [f"{self.output}{sure}"]
        lines += [f"{part.removal:+8.3f}  {part.name}" for part in self.strongest()]
        return "\n".join(lines)


def explain_text(
    text: str, answer: Answer, predictor: Predictor | None, tokenizer: Tokenizer | None, wrap: Callable[[str], Any] = lambda text: text
) -> Explanation:
    """Effect of each word of a text; `wrap` makes an input of a text (such as the passage of a question)."""
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    if not spans:
        raise UsageError("the text is empty: there is nothing to explain", code="empty")
    if len(spans) > MOST_WORDS:
        raise UsageError(f"the text has {len(spans):,} words, and up to {MOST_WORDS} are explained: make it shorter", code="too-long")
    with _watch_batch(predictor) as seen:
        (whole,) = answer([wrap(text)])
    without = [text[:start].rstrip() + " " + text[end:].lstrip() if start else text[end:].lstrip() for start, end in spans]
    moved = _removals(whole, [wrap(rest) for rest in without], answer)
    slopes = _slopes(text, spans, seen, predictor, tokenizer)
    parts = [ExplainedPart(text[a:b], removal, slope) for (a, b), removal, slope in zip(spans, moved, slopes, strict=True)]
    return Explanation(text, whole.output, whole.probability, parts)


def find_neighbours(
    text: str, table: Table | None, embed: Callable[..., NDArray[np.float32]], count: int, progress: Progress | None = None
) -> list[Neighbour]:
    """The training rows whose vectors are nearest to a text's, among the first few thousand."""
    if table is None or "text" not in table.columns:
        return []
    texts = table["text"][:MOST_NEIGHBOURS]
    near = nearest(embed([text])[0], embed(texts, progress=progress), count)
    labels = table.columns.get("label") or table.columns.get("labels") or [""] * len(texts)
    return [Neighbour(texts[row], labels[row], similarity, table.place(row)) for row, similarity in near]


def explain_picture(source: str, answer: Answer) -> Explanation:
    """Effect of each square of a picture, when filled with the picture's mean colour."""
    require_extra("PIL")
    from PIL import Image

    (whole,) = answer([source])
    data = base64.b64decode(source.partition(",")[2]) if source.startswith("data:") else Path(source).read_bytes()
    with Image.open(io.BytesIO(data)) as opened:
        pixels = np.asarray(opened.convert("RGB"))
    rows, columns = (min(GRID, size) for size in pixels.shape[:2])
    edges = [np.linspace(0, size, count + 1).astype(int) for size, count in zip(pixels.shape[:2], (rows, columns), strict=True)]
    mean = pixels.reshape(-1, 3).mean(0).astype(np.uint8)
    hidden, names = [], []
    for row in range(rows):
        for column in range(columns):
            changed = pixels.copy()
            changed[edges[0][row] : edges[0][row + 1], edges[1][column] : edges[1][column + 1]] = mean
            written = io.BytesIO()
            Image.fromarray(changed).save(written, "PNG")
            hidden.append(f"data:image/png;base64,{base64.b64encode(written.getvalue()).decode()}")
            names.append(f"row {row + 1} column {column + 1}")
    parts = [ExplainedPart(name, removal) for name, removal in zip(names, _removals(whole, hidden, answer), strict=True)]
    return Explanation(whole.input, whole.output, whole.probability, parts)


def explain_signal(signal: str, answer: Answer) -> Explanation:
    """Effect of each stretch of a signal, when replaced by the signal's mean."""
    (whole,) = answer([signal])
    values = np.array(signal.split(), dtype=np.float64)
    edges = np.linspace(0, len(values), min(STRETCHES, len(values)) + 1).astype(int)
    hidden, names = [], []
    for start, end in pairwise(edges):
        changed = values.copy()
        changed[start:end] = values.mean()
        hidden.append(" ".join(map(repr, changed.tolist())))
        names.append(f"steps {start + 1} to {end}")
    parts = [ExplainedPart(name, removal) for name, removal in zip(names, _removals(whole, hidden, answer), strict=True)]
    return Explanation(f"{len(values)} values", whole.output, whole.probability, parts)


def _removals(whole: Prediction, hidden: Sequence[Any], answer: Answer) -> list[float]:
    """How much of the answer each hidden part takes away."""
    asked = [given for given in hidden if not isinstance(given, str) or given.strip()]
    found = iter(answer(asked) if asked else [])
    before = _support(whole, whole)
    return [before - (_support(next(found), whole) if not isinstance(given, str) or given.strip() else 0.0) for given in hidden]


def _support(found: Prediction, whole: Prediction) -> float:
    """How much an answer says what the first one said: its probability; of tags and texts, the share of words that are the same."""
    if whole.output in found.scores:
        return found.scores[whole.output]
    if whole.probability is not None:
        return float(found.probability or 0.0) if found.output == whole.output else 0.0
    said, first = (_claims(one) for one in (found, whole))
    kept = sum(min(said.count(word), first.count(word)) for word in {*first})
    return kept / max(len(first), 1)


def _claims(one: Prediction) -> list[str]:
    """The tags that name something, or the words of a text."""
    tagged = details_of(one, TagAnswer)
    return one.output.split() if tagged is None else [tag for tag in tagged["tags"] if tag != "O"]


class _watch_batch:  # noqa: N801 - used as a function is
    """Note the last batch that a network reads."""

    def __init__(self, predictor: Predictor | None) -> None:
        self.predictor, self.batches = predictor, list[Batch]()

    def __enter__(self) -> list[Batch]:
        if self.predictor is not None:
            self.handle = first_network(self.predictor).register_forward_pre_hook(self._note)
        return self.batches

    def _note(self, module: nn.Module, given: tuple[Any, ...]) -> None:
        if given and isinstance(given[0], Batch):
            self.batches[:] = [given[0]]

    def __exit__(self, *_: object) -> None:
        if self.predictor is not None:
            self.handle.remove()


def _slopes(
    text: str, spans: Sequence[tuple[int, int]], seen: Sequence[Batch], predictor: Predictor | None, tokenizer: Tokenizer | None
) -> list[float] | list[None]:
    """Gradient × input of each word; None where the model reads no tokens, or not one for one those of the text."""
    if not seen or predictor is None or tokenizer is None:
        return [None] * len(spans)
    moved = influence(predictor, seen[0], _largest)
    encoding = tokenizer.encode(text)
    if moved is None or moved.ndim != 2 or moved.shape[0] != 1 or moved.shape[1] != len(encoding.ids):
        return [None] * len(spans)
    values = moved[0].tolist()
    return [
        sum(value for value, (a, b) in zip(values, encoding.offsets, strict=True) if max(a, start) < min(b, end)) for start, end in spans
    ]


def _largest(logits: Tensor) -> Tensor:
    """The logit of what is answered."""
    return logits.flatten(1).max(1).values
