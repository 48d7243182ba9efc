"""Attention maps and attributions for the report."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from attentif.models import Batch, eval_mode
from attentif.models.frontends import TokenFrontend
from attentif.nn.mixer import CrossMixer
from attentif.nn.tape import record
from attentif.tasks.batches import device_of
from attentif.tasks.predictors import Predictor, first_network
from attentif.text import Encoding, Tokenizer
from attentif.text.explain import format_token, is_byte_level
from attentif.view.blocks import AttentionMaps
from attentif.view.words import LANGS, Text, Words, quote, say

Weights = dict[str, NDArray[np.floating[Any]]]
PARTS = {
    "encoder": Text("l'encodeur lit la source", "the encoder reads the source"),
    "decoder": Text("le décodeur lit ce qui est écrit", "the decoder reads what is written"),
    "cross": Text("le décodeur regarde la source", "the decoder looks at the source"),
    "head": Text("ce que la réponse regarde", "what the answer looks at"),
}


def readable_tokens(tokenizer: Tokenizer, ids: Iterable[int]) -> list[str]:
    """Readable tokens for the axes of a map."""
    byte_level = is_byte_level(tokenizer)
    return [format_token(tokenizer.rust.id_to_token(int(token)) or "", byte_level) for token in ids]


def running_text(encoding: Encoding, *texts: str) -> list[str]:
    """Tokens as pieces of the text with their leading spaces; special tokens by name."""
    pieces: list[str] = []
    part, before = 0, 0  # which text, and how far it has been shown
    for token, (start, end) in zip(encoding.tokens, encoding.offsets, strict=True):
        if start == end:  # a special token: whatever follows it begins a text
            pieces.append(token)
            part, before = part + bool(before), 0
        else:
            pieces.append(texts[min(part, len(texts) - 1)][before:end])
            before = max(before, end)
    return pieces


def attention_maps(
    model: Predictor,
    batch: Batch,
    tokens: Sequence[str],
    *,
    source: Sequence[str] | None = None,
    writes: Sequence[str] = (),
    title: Words = "",
) -> list[AttentionMaps]:
    """The weights of one example. `tokens` are what the last stack reads; where it reads from an encoder too, `source` is what that
    one reads, and `writes` what the decoder writes at each place, which is what it looks at the source for; or the answer of a head that
    attends, whose map has that row alone. Of an ensemble, the first network is shown."""
    first = first_network(model)
    with eval_mode(first), record(first) as tape:
        first(batch.to(device_of(first)))
    found: dict[str, Weights] = {}
    for path in tape:
        part = "cross" if isinstance(tape.mixers[path], CrossMixer) else path.split(".")[0]
        found.setdefault(part, {})[layer_name(path)] = tape.maps(path)[0].float().cpu().numpy()
    maps = []
    for part, weights in found.items():
        if part == "head":
            maps.append(AttentionMaps(writes or ["→"], weights, tokens, _title_of_part(title, part)))
        elif source is None:
            maps.append(AttentionMaps(tokens, weights, title=title))
        else:
            rows, columns = {"encoder": (source, None), "decoder": (tokens, None), "cross": (writes, source)}[part]
            maps.append(AttentionMaps(rows, weights, columns, _title_of_part(title, part)))
    return maps


def _title_of_part(title: Words, part: str) -> Text:
    return Text(*(f"{say(title, lang)} — {PARTS[part][lang]}" for lang in LANGS))


def map_title(given: str, answer: Words = "") -> Text:
    """The title of a map: “what was given” → the answer."""
    shown = quote(given)
    return Text(*(f"{shown[lang]} → {say(answer, lang)}" for lang in LANGS)) if answer else shown


def layer_name(path: str) -> str:
    """ "encoder.blocks.0.attn" as "encoder 1 attn"."""
    return re.sub(r"\.?blocks\.(\d+)\.?", lambda match: f" {int(match[1]) + 1} ", path).replace(".", " ").strip()


def influence(predictor: Predictor, batch: Batch, wanted: Callable[[Tensor], Tensor]) -> Tensor | None:
    """(B, T): gradient × embedding of `wanted(logits)` for each token; None if the model reads no tokens."""
    model = first_network(predictor)
    frontend = model.frontend
    if not isinstance(frontend, TokenFrontend):
        return None
    kept: list[Tensor] = []

    def keep(module: nn.Module, given: Any, output: Tensor) -> Tensor:  # noqa: ARG001 - torch calls it so
        kept.append(output.detach().requires_grad_())
        return kept[-1]

    handle = frontend.tokens.register_forward_hook(keep)
    try:
        with eval_mode(model), torch.enable_grad():
            logits, _ = model(batch.to(device_of(model)))
            (slope,) = torch.autograd.grad(wanted(logits).sum(), kept[0])
    finally:
        handle.remove()
    return (slope * kept[0].detach()).sum(-1).cpu()
