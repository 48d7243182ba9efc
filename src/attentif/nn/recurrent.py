"""Base of the recurrent mixers: layout of a layer, initialisation, state, and calls of the kernels.

a = W x + b          the input's part of every gate, one product for all tokens
y_t, s_t = cell(a_t, s_{t-1})
y = W_o y + b_o      where the cell's width differs from the output's (Sak et al. 2014), or if `project`
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch._higher_order_ops.scan import scan

from attentif.errors import ConfigError
from attentif.nn.linear import Linear
from attentif.nn.mixer import Caps, Mixer, MixerConfig, Site, check_streamable
from attentif.nn.seq import Seq, unpack
from attentif.nn.state import State
from attentif.nn.tape import tape_for


class RecurrentConfig(MixerConfig):
    """Options of every recurrent mixer."""

    cost: ClassVar[str] = "T"

    hidden: int | None = Field(None, gt=0, description="width of the cell; by default the model's")
    project: bool | None = Field(None, description="an output projection; by default only if widths differ")


@dataclass(slots=True)
class HiddenState(State):
    """The last output."""

    h: Tensor  # (B, N)


@dataclass(slots=True)
class CellState(HiddenState):
    """The last output and the cell behind it."""

    c: Tensor  # (B, N)


@dataclass(frozen=True, slots=True)
class GatesRecord:
    """Inputs from which the gates of one call are computed."""

    gates: Tensor  # (B, T, G·N), or (N, G·N) where the call was packed: the input's part
    state: Sequence[Tensor]  # before the call
    seq: Seq


class Recurrent(Mixer):
    """A recurrent cell. Subclasses define `step`, `run` and the number of `gates`.

    Initialisation per gate: input weights xavier (Glorot & Bengio 2010), state weights orthogonal (Saxe et al. 2014), biases 0.
    """

    caps = Caps(causal=True, bidirectional=False, streaming="exact")
    gates: ClassVar[int]
    state_class: ClassVar[type[HiddenState]] = HiddenState

    def __init__(self, config: RecurrentConfig, site: Site) -> None:
        super().__init__()
        self.out_width = site.out_width or site.width
        self.hidden = config.hidden or self.out_width
        project = self.hidden != self.out_width if config.project is None else config.project
        if not project and self.hidden != self.out_width:
            raise ConfigError(f"hidden = {self.hidden} without a projection does not give width {self.out_width}; drop project = false")
        self.x = Linear(site.width, self.gates * self.hidden)
        self.w_h = nn.Parameter(torch.empty(self.gates * self.hidden, self.hidden))
        self.out = Linear(self.hidden, self.out_width) if project else None

    @torch.no_grad()
    def init_weights(self) -> None:
        if self.w_h.is_meta:
            return
        for of_input, of_state in zip(self.x.weight.chunk(self.gates), self.w_h.chunk(self.gates), strict=True):
            nn.init.xavier_uniform_(of_input)
            nn.init.orthogonal_(of_state)
        nn.init.zeros_(self.x.bias)

    def step(self, gates: Tensor, state: Sequence[Tensor]) -> Sequence[Tensor]:
        """Step every row, (B, G·N); return the new state, whose first tensor is the output."""
        raise NotImplementedError

    def run(self, gates: Tensor, state: Sequence[Tensor], begin: Tensor, lengths: Tensor) -> Sequence[Tensor]:
        """Run whole sequences, (M, G·N): outputs at every position, then the final states."""
        raise NotImplementedError

    def init_state(self, batch: int, capacity: int, *, device: torch.device, dtype: torch.dtype) -> HiddenState:
        return self.state_class(*(torch.zeros(batch, self.hidden, device=device, dtype=dtype) for _ in fields(self.state_class)))

    def forward(self, x: Tensor, seq: Seq, state: HiddenState | None = None) -> Tensor:
        check_streamable(seq, state)
        gates = self.x(x)
        held = state or self.init_state(seq.batch, 0, device=gates.device, dtype=gates.dtype)
        old = [getattr(held, field.name) for field in fields(held)]
        if (tape := tape_for(self)) is not None:
            tape.keep(self, GatesRecord(gates.detach(), [before.detach() for before in old], seq))
        if torch.compiler.is_exporting():
            y = scan_steps(self.step, gates, old, seq.valid)
            return y if self.out is None else self.out(y)
        if not seq.is_packed and x.shape[1] == 1:  # a decoding step
            new = self.step(gates[:, 0], old)
            if not seq.dense:
                new = [torch.where(seq.valid, after, before) for after, before in zip(new, old, strict=True)]
            y = new[0][:, None]
        else:
            flat, *new = self.run(gates.flatten(0, -2), old, seq.first(), seq.lengths)
            y = flat.view(*x.shape[:-1], self.hidden)
        for field, value in zip(fields(held), new, strict=True):
            setattr(held, field.name, value)
        return y if self.out is None else self.out(y)


def scan_steps(step: Callable[[Tensor, Sequence[Tensor]], Sequence[Tensor]], gates: Tensor, state: list[Tensor], valid: Tensor) -> Tensor:
    """Step padded rows (B, T, G·N) by torch's `scan`, which other programs than ours can run; outputs (B, T, N), zero on padding."""

    def one(before: list[Tensor], now: tuple[Tensor, Tensor]) -> tuple[list[Tensor], Tensor]:
        gates, alive = now
        after = [torch.where(alive, new, old) for new, old in zip(step(gates, before), before, strict=True)]
        return after, torch.where(alive, after[0], 0.0)

    _, y = scan(one, state, (gates.transpose(0, 1), valid.T[..., None]))
    return y.transpose(0, 1)


class Gated(Recurrent):
    """A cell whose gates can be inspected."""

    gate_names: ClassVar[tuple[str, ...]]

    def step_with_gates(self, gates: Tensor, state: Sequence[Tensor]) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """Step every row; return its gates (B, N), in the order of `gate_names`, and the new state."""
        raise NotImplementedError

    @torch.no_grad()
    def compute_gates(self, record: GatesRecord) -> dict[str, Tensor]:
        """Recompute the gates (B, T, N) by name from a record, zero on padding."""
        seq, gates, state = record.seq, record.gates, record.state
        if seq.is_packed:
            gates = unpack(gates, seq)
        steps = []
        for now in gates.unbind(1):
            shown, state = self.step_with_gates(now, state)
            steps.append(torch.stack(list(shown)))
        over_time = torch.stack(steps, 2) * seq.padded_mask()[..., None]  # (gates, B, T, N)
        return dict(zip(self.gate_names, over_time.unbind(0), strict=True))
