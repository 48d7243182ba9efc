"""What a run's network reads for an input: the batch itself, taken on its way into the model, and names for its tokens.

No task is asked how it encodes: whatever it hands to the model is what is looked at.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, cast

from torch import nn

from attentif.api import Run
from attentif.errors import UsageError
from attentif.inspect import make_batch
from attentif.models import Batch, Model
from attentif.models.frontends import TokenFrontend
from attentif.models.frontends.pictures import PictureConfig
from attentif.tasks.predictors import Predictor, first_network
from attentif.text import Tokenizer
from attentif.text.explain import format_token, is_byte_level

MOST_TOKENS = 4096


class _ReadError(Exception):
    """The batch is known: the forward pass need not go on."""


@dataclass(frozen=True)
class Reading:
    """One input as the network reads it."""

    model: Model  # of several members, the first
    batch: Batch
    tokens: list[str]  # what the last stack reads
    source: list[str] | None  # what the encoder reads, where a decoder reads it
    grid: tuple[int, int] | None = None  # rows and columns of patches
    first: int = 0  # the place of the first patch
    ids: tuple[int, ...] = ()  # tokens that the first stack reads


def network_of(run: Run) -> Model:
    """The run's network; UsageError where it has none (an n-gram, word vectors)."""
    if not isinstance(run.model, nn.Module):
        raise UsageError(f"a {run.kind} model has no layers to look into")
    return first_network(cast("Predictor", run.model))


def read_input(run: Run, example: str | Mapping[str, str]) -> Reading:
    """The padded batch that reaches the network, with names for its tokens."""
    model = network_of(run)
    is_decoder = "generate" in run.capabilities and model.target is None
    batch = _prompt(run, model, example) if is_decoder and isinstance(example, str) else _intercept(run, model, example)
    last = batch.source if batch.target is None else batch.target
    length = int(last.seq.lengths[0])
    if max(length, int(batch.source.seq.lengths[0])) > MOST_TOKENS:
        raise UsageError(f"the input has more than {MOST_TOKENS} tokens; make it shorter")
    source, target = run.tokenizers.get("tokenizer"), run.tokenizers.get("target", run.tokenizers.get("tokenizer"))
    ids = (
        () if batch.source.data.is_floating_point() else tuple(batch.source.data[0, : int(batch.source.seq.lengths[0])].flatten().tolist())
    )
    if batch.target is not None:
        return Reading(model, batch, _names(target, batch.target), _names(source, batch.source), ids=ids)
    if isinstance(model.config.frontend, PictureConfig):
        frontend = model.config.frontend
        rows, columns = frontend.grid
        first = len(frontend.names_before)
        names = frontend.names_before + [f"{r}·{c}" for r in range(1, rows + 1) for c in range(1, columns + 1)]
        return Reading(model, batch, names, None, frontend.grid, first)
    if not isinstance(model.frontend, TokenFrontend):
        return Reading(model, batch, [str(place) for place in range(1, length + 1)], None)
    return Reading(model, batch, _names(source, batch.source), None, ids=ids)


def _prompt(run: Run, model: Model, text: str) -> Batch:
    """A language model's whole prompt: maps of the task leave out what is long."""
    ids = run.require("generate").prompt(run.tokenizers, text)
    limit = min(model.caps.max_len or MOST_TOKENS, MOST_TOKENS)
    if len(ids) > limit:
        raise UsageError(f"the input has {len(ids):,} tokens, and {limit:,} can be shown; make it shorter")
    return make_batch([ids])


def _intercept(run: Run, model: Model, example: str | Mapping[str, str]) -> Batch:
    """Hand an input to the run's task and keep the batch on its way into the network."""
    kept: list[Batch] = []

    def keep(_: nn.Module, given: tuple[Any, ...]) -> None:
        if isinstance(given[0], Batch) and not given[0].source.seq.is_packed:
            kept.append(given[0])
            raise _ReadError

    hook = model.register_forward_pre_hook(keep)
    try:
        with suppress(_ReadError):
            run.require("inspect").maps(run.model, run.state, run.tokenizers, [example])
    finally:
        hook.remove()
    if not kept:
        raise UsageError(f"a run of {run.kind} does not show what its network reads")
    return kept[0]


def _names(tokenizer: Tokenizer | None, source: Any) -> list[str]:
    length = int(source.seq.lengths[0])
    if tokenizer is None or source.data.dim() != 2 or source.data.is_floating_point():
        return [str(place) for place in range(1, length + 1)]
    return token_names(tokenizer, source.data[0, :length].tolist())


def names_at(reading: Reading, path: str) -> list[str]:
    """Names of the tokens that a part reads."""
    return reading.source if path.startswith("encoder") and reading.source is not None else reading.tokens


def labels_of(run: Run) -> list[str]:
    """Names of the classes, where the data taught some."""
    return [str(label) for label in getattr(run.state, "labels", ()) or ()]


def spans_of(run: Run, reading: Reading, text: str) -> list[tuple[int, int] | None] | None:
    """The characters of the text that each token read covers; None where the text was changed before it was cut."""
    if "tokenizer" not in run.tokenizers or not reading.ids:
        return None
    encoding = run.tokenizer.rust.encode(text, add_special_tokens=False)
    own, count = tuple(encoding.ids), len(encoding.ids)
    start = next((start for start in range(len(reading.ids) - count + 1) if reading.ids[start : start + count] == own), None)
    if start is None or not count:
        return None
    return [None] * start + list(encoding.offsets) + [None] * (len(reading.ids) - start - count)


def roles_of(run: Run) -> dict[str, Any]:
    """The role of what the run reads, and of what may be given beside it."""
    reads = getattr(run.task, "reads", "text")
    optional = getattr(run.task, "optional_inputs", ())
    asked_of = ("context",) if reads == "question" and "answer" in run.capabilities else ()
    return {"reads": reads, "beside": [role for role in (*asked_of, *optional) if role in ("context", "pair")]}


def token_names(tokenizer: Tokenizer, ids: list[int]) -> list[str]:
    """Tokens as people read them."""
    byte_level = is_byte_level(tokenizer)
    return [format_token(tokenizer.rust.id_to_token(token) or "?", byte_level) for token in ids]
