"""What mixers remember and choose: gates of recurrent cells, step sizes of Mamba, routes to experts. All of it comes from the tape."""

from typing import Any

import torch
from torch import Tensor

from attentif.errors import UsageError
from attentif.models import Batch, Model, evaluating
from attentif.nn.balance import Routing
from attentif.nn.mixer import Shown
from attentif.nn.mixers.experts import Experts
from attentif.nn.mixers.mamba import Mamba
from attentif.nn.mixers.mamba2 import Mamba2
from attentif.nn.recurrent import Gated
from attentif.nn.tape import record


def _recorded(model: Model, batch: Batch) -> dict[str, tuple[Shown, Any]]:
    """Every mixer that the tape heard of, with its last record, by its path."""
    with evaluating(model), record(model) as tape:
        model.hidden(batch)
    return {path: (tape.mixers[path], records[-1]) for path, records in tape.records.items()}


def _refuse_none(found: dict[str, Any], what: str) -> None:
    if not found:
        raise UsageError(f"this model has no {what}")


def gates(model: Model, batch: Batch) -> dict[str, dict[str, Tensor]]:
    """How far each gate of each gated recurrent layer is open, (B, T, N) by the gate's name, zero on padding.

    LSTM: input, forget, candidate, output, and cell; GRU: reset, update, candidate. A cell that reads backwards has them in that order.
    """
    found = {path: mixer.opened(kept) for path, (mixer, kept) in _recorded(model, batch).items() if isinstance(mixer, Gated)}
    _refuse_none(found, "gated recurrent layer")
    return found


def step_sizes(model: Model, batch: Batch) -> dict[str, Tensor]:
    """Mamba's Δ, (B, T, E), and Mamba-2's, (B, T, H): near zero a token is passed over, a large one replaces the state."""
    found = {path: mixer.step_sizes(kept) for path, (mixer, kept) in _recorded(model, batch).items() if isinstance(mixer, Mamba | Mamba2)}
    _refuse_none(found, "selective state space")
    return found


@torch.no_grad()
def implied_map(model: Model, batch: Batch, path: str, channel: int) -> Tensor:
    """(B, T, T): what each token's inner value weighs in what one channel gives later, y_t = Σ_s M[t, s] u_s (Ali et al. 2024)."""
    found = {own: (mixer, kept) for own, (mixer, kept) in _recorded(model, batch).items() if isinstance(mixer, Mamba)}
    _refuse_none(found, "Mamba layer")
    if path not in found:
        raise UsageError(f"there is no Mamba layer at {path!r}; there are: {', '.join(found)}")
    mixer, kept = found[path]
    if not 0 <= channel < mixer.inner:
        raise UsageError(f"{path} has channels 0 to {mixer.inner - 1}, not {channel}")
    return mixer.channel_maps(kept)(channel)


def routing(model: Model, batch: Batch) -> dict[str, Routing]:
    """Where each mixture of experts sends the tokens of the batch, in order, padding left out: `chosen`, `weights` (N, k), `shares`."""
    found = {path: kept for path, (mixer, kept) in _recorded(model, batch).items() if isinstance(mixer, Experts)}
    _refuse_none(found, "mixture of experts")
    return found
