"""Generation speed at batch 1, and the size of the state."""

import time
from pathlib import Path
from typing import Any

import torch

from attentif.decode.session import Session
from attentif.models import Input, Model, eval_mode
from attentif.models.frontends import TokensConfig
from attentif.models.heads import LanguageHead
from attentif.nn.seq import Seq

WRITTEN, REPEATS, SOURCE = 64, 5, 32  # tokens of one measurement, measurements, tokens of an encoder's source


def writes(model: Model) -> bool:
    """Whether the model can generate token by token."""
    reads_tokens = isinstance(model.config.frontend, TokensConfig)
    return model.decoder is not None and isinstance(model.head, LanguageHead) and model.caps.streaming != "none" and reads_tokens


def source_of(model: Model, length: int = SOURCE) -> Input | None:
    """A dummy source for models with an encoder; its content does not affect the time."""
    if model.encoder is None:
        return None
    length = min(length, model.config.max_len or length)
    return Input(torch.ones(1, length, dtype=torch.long), Seq.from_padded([length]))


def decoding_speed(run: Path, *, threads: int) -> dict[str, Any] | None:
    """The middle of several measurements of one row, and all of them; None where the model does not write."""
    from attentif.api import load

    model = load(run, threads=threads).model
    if not writes(model):
        return None
    tokens = min(WRITTEN, (model.caps.max_len or WRITTEN + 1) - 1)
    with eval_mode(model):
        found = sorted(_once(model, tokens) for _ in range(REPEATS + 1))[1:]  # without the slowest, which has compiled
    return {"tokens_per_second": found[len(found) // 2], "measured": found, "tokens": tokens}


def _once(model: Model, tokens: int) -> float:
    session = Session(model, [[0]], tokens, source_of(model))
    began = time.perf_counter()
    for _ in range(tokens):
        session.read(session.logits.argmax(-1))
    if session.device.type == "cuda":
        torch.cuda.synchronize(session.device)
    return tokens / (time.perf_counter() - began)


def state_bytes(model: Model, length: int) -> int | None:
    """Bytes that one row of `length` tokens keeps between two of them; None where the model does not write."""
    if not writes(model):
        return None
    capacity = min(length, model.caps.max_len or length)
    with eval_mode(model):
        source = source_of(model, length)
        memory = () if source is None else model.encode(source)
        return model.init_state(1, capacity, *memory).bytes()
