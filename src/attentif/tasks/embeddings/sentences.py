"""One vector for a text, by any model that reads texts (Reimers & Gurevych 2019).

v = pool(h_1 … h_T),  h the last states of the only stack, or of the encoder;  v / |v| where lengths are not to count.

Texts of similar length are read together, in batches of so many tokens, the longest first; vectors come back in the order of the texts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from attentif.errors import NonFiniteError, UsageError
from attentif.models import Batch, Input, Model, eval_mode
from attentif.models.frontends import TokenFrontend
from attentif.models.heads.embed import EmbedHead
from attentif.models.heads.pooling import pool_sequence
from attentif.nn.seq import Seq
from attentif.nn.stack import Stack
from attentif.tasks.answers import EvalOptions
from attentif.tasks.base import AnyTask, Progress, Say, Tokenizers
from attentif.tasks.batches import format_count, iterate_batches
from attentif.tasks.language.language import Language
from attentif.tasks.language.recall import Recall
from attentif.tasks.pretraining.denoise import Denoise
from attentif.tasks.ragged import Ints, Ragged, Rows
from attentif.tasks.seq2seq.base import Seq2Seq
from attentif.text import Tokenizer
from attentif.text.tokenizer import SpecialTokens

Pooling = Literal["mean", "first", "last", "max"]
ALIASES = {"cls": "first"}  # BERT's name for it
BUDGET = 2048  # tokens in a batch: on two cores more is slower, for what it computes no longer stays in their caches
Vectors = NDArray[np.float32]


def parse_pooling(name: str) -> Pooling:
    found = ALIASES.get(name, name)
    for known in get_args(Pooling):
        if found == known:
            return known
    raise UsageError(f"pooling must be one of {', '.join((*get_args(Pooling), *ALIASES))}, not {name!r}")


@dataclass(frozen=True)
class Texts:
    """Texts in tokens, to be read and not scored."""

    ids: Ragged
    pad: int
    name: str = "texts"

    @property
    def lengths(self) -> Ints:
        return self.ids.lengths

    def __len__(self) -> int:
        return len(self.ids)

    def batch(self, rows: Rows, *, packed: bool = False) -> Batch:
        return Batch(self.ids.input(rows, packed=packed, pad=self.pad), rows=tuple(np.asarray(rows, dtype=np.int64).tolist()))

    def place(self, row: int) -> str:
        return f"text {row + 1:,}"


def frame_of(task: AnyTask, tokenizer: Tokenizer) -> SpecialTokens:
    """What stands around a text where this task's model reads one."""
    if isinstance(task, Language) and task.config.prompt == "eos":  # a text follows another
        return SpecialTokens((tokenizer.eos,), (), ((), (), ()))
    if isinstance(task, Denoise) or (isinstance(task, Seq2Seq) and not task.config.start):
        return tokenizer.frame_for("eos")
    return tokenizer.frame_for("none" if isinstance(task, Recall) else "cls")


def longest_of(task: AnyTask, model: Model) -> int | None:
    """Tokens of the longest text that the task gives to the model."""
    limits = [getattr(task.config, key, None) for key in ("max_len", "context")] + [model.config.max_len]
    return min((limit for limit in limits if limit is not None), default=None)


def refuse_no_words(model: Model, tokenizers: Tokenizers) -> None:
    if not isinstance(model.frontend, TokenFrontend) or "tokenizer" not in tokenizers:
        raise UsageError("this run reads no texts, which is what vectors are made of here")


def read_texts(task: AnyTask, model: Model, tokenizers: Tokenizers, texts: Sequence[str], say: Say | None = None) -> Texts:
    """Texts as the model reads them, cut to the longest it can read."""
    refuse_no_words(model, tokenizers)
    tokenizer, longest = tokenizers["tokenizer"], longest_of(task, model)
    frame = frame_of(task, tokenizer)
    before, after = (np.array(part, dtype=np.int32) for part in (frame.before, frame.after))
    room = None if longest is None else longest - len(before) - len(after)
    pad, fill = tokenizer.special.get("pad", 0), getattr(task.config, "pad_to", None) or 0
    found, cut = [], 0
    for number, ids in enumerate(tokenizer.ids_batch(texts, wrap="none"), 1):
        cut += room is not None and len(ids) > room
        whole = np.concatenate([before, ids[:room], after])
        found.append(np.pad(whole, (0, max(fill - len(whole), 0)), constant_values=pad) if len(whole) else whole)
        if not len(found[-1]):
            raise UsageError(f"text {number:,} is empty: it has no vector")
    if cut and say is not None:
        say(f"{format_count(cut, 'text')} cut to the {longest:,} tokens that the model reads")
    return Texts(Ragged.of(found), pad)


def reading_stack(model: Model) -> Stack:
    """The encoder where there is one."""
    stack = model.encoder or model.decoder
    assert stack is not None
    return stack


def last_states(model: Model, source: Input) -> tuple[Tensor, Seq]:
    """The vector of each token."""
    return model.decode(source) if model.encoder is None else model.encode(source)[:2]


def sentence_vectors(
    model: Model, texts: Texts, pool: Pooling, *, normalise: bool = True, budget: int = BUDGET, progress: Progress | None = None
) -> Vectors:
    """(N, D), in the order of the texts."""
    parts: list[Vectors] = []
    order: list[int] = []
    with eval_mode(model):
        for batch in iterate_batches(model, texts, EvalOptions(budget, progress=progress), packed=reading_stack(model).caps.packed):
            x, seq = last_states(model, batch.source)
            if isinstance(model.head, EmbedHead):
                vectors = model.head.vectors(x, seq, pool, normalise=normalise)
            else:
                vectors = pool_sequence(x, seq, pool)
                vectors = F.normalize(vectors, dim=-1) if normalise else vectors
            parts.append(vectors.float().cpu().numpy())
            order += batch.rows
    together = np.concatenate(parts)
    found = np.empty_like(together)
    found[order] = together
    return found


def embed(
    task: AnyTask,
    model: Model,
    tokenizers: Tokenizers,
    texts: Sequence[str],
    *,
    pooling: str | None = None,
    normalise: bool = True,
    say: Say | None = None,
    progress: Progress | None = None,
) -> Vectors:
    """Vectors of texts, pooled as the checkpoint asks, or by the mean where it asks for nothing."""
    own: Pooling = model.head.pool if isinstance(model.head, EmbedHead) else "mean"
    pool = own if pooling is None else parse_pooling(pooling)
    read = read_texts(task, model, tokenizers, texts, say)
    vectors = sentence_vectors(model, read, pool, normalise=normalise, progress=progress)
    if not np.isfinite(vectors).all():
        raise NonFiniteError
    return vectors


def cosines(vectors: Vectors) -> NDArray[np.float64]:
    """(N, N): cos(a, b) = a·b / |a||b|; 0 beside a vector of zeros."""
    unit = _unit(vectors.astype(np.float64))
    return np.clip(unit @ unit.T, -1.0, 1.0)


def nearest(question: Vectors, vectors: Vectors, count: int) -> list[tuple[int, float]]:
    """The rows nearest to a question, with their cosines, nearest first."""
    near = _unit(vectors) @ _unit(question)
    return [(int(row), float(near[row])) for row in np.argsort(-near, kind="stable")[:count]]


def _unit(vectors: NDArray[Any]) -> NDArray[Any]:
    """The same of length 1; zeros stay."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-30)
