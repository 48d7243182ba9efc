"""Gates of recurrent cells, step sizes of Mamba, routing of experts; all read from the tape."""

from typing import Any

import torch
from torch import Tensor

from attentif.errors import UsageError
from attentif.models import Batch, Model, eval_mode
from attentif.nn.balance import Routing
from attentif.nn.mixer import Recordable
from attentif.nn.mixers.experts import Experts
from attentif.nn.mixers.mamba import Mamba
from attentif.nn.mixers.mamba2 import Mamba2
from attentif.nn.recurrent import Gated
from attentif.nn.tape import record


def _last_records(model: Model, batch: Batch) -> dict[str, tuple[Recordable, Any]]:
    """Return every recorded mixer with its last record, by path."""
    with eval_mode(model), record(model) as tape:
        model.hidden(batch)
    return {path: (tape.mixers[path], records[-1]) for path, records in tape.records.items()}


def _require(found: dict[str, Any], what: str) -> None:
    if not found:
        raise UsageError(f"this model has no {what}")


def gates(model: Model, batch: Batch) -> dict[str, dict[str, Tensor]]:
    """Return the gates (B, T, N) of each gated recurrent layer by name, zero on padding.

    LSTM: input, forget, candidate, output, and cell; GRU: reset, update, candidate. A cell that reads backwards has them in that order.
    """
    found = {path: mixer.compute_gates(kept) for path, (mixer, kept) in _last_records(model, batch).items() if isinstance(mixer, Gated)}
    _require(found, "gated recurrent layer")
    return found


def step_sizes(model: Model, batch: Batch) -> dict[str, Tensor]:
    """Return Δ of Mamba (B, T, E) and Mamba-2 (B, T, H): near 0 skips a token, large resets the state."""
    found = {
        path: mixer.step_sizes(kept) for path, (mixer, kept) in _last_records(model, batch).items() if isinstance(mixer, Mamba | Mamba2)
    }
    _require(found, "selective state space")
    return found


@torch.no_grad()
def implied_map(model: Model, batch: Batch, path: str, channel: int) -> Tensor:
    """(B, T, T): implied attention of one Mamba channel, y_t = Σ_s M[t, s] u_s (Ali et al. 2024)."""
    found = {own: (mixer, kept) for own, (mixer, kept) in _last_records(model, batch).items() if isinstance(mixer, Mamba)}
    _require(found, "Mamba layer")
    if path not in found:
        raise UsageError(f"there is no Mamba layer at {path!r}; there are: {', '.join(found)}")
    mixer, kept = found[path]
    if not 0 <= channel < mixer.inner:
        raise UsageError(f"{path} has channels 0 to {mixer.inner - 1}, not {channel}")
    return mixer.channel_maps(kept)(channel)


def routing(model: Model, batch: Batch) -> dict[str, Routing]:
    """Return the routing of each mixture of experts: `chosen`, `weights` (N, k), `shares`; no padding."""
    found = {path: kept for path, (mixer, kept) in _last_records(model, batch).items() if isinstance(mixer, Experts)}
    _require(found, "mixture of experts")
    return found
