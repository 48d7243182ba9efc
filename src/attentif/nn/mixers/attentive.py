"""A recurrent decoder with attention to the memory: stacked cells and their attention, one mixer.

    feeding = "context"     c_t = read(s_{t-1})      s_t = cell([x_t; c_t], s_{t-1})         y_t = out(s_t, c_t)
    feeding = "input"       s_t = cell([x_t; y_{t-1}], s_{t-1})      c_t = read(s_t)         y_t = out(s_t, c_t)
    feeding = "none"        s_t = cell(x_t, s_{t-1})                 c_t = read(s_t)         y_t = out(s_t, c_t)

    read(s) = Σ_j α_j m_j,   α = softmax_j(score(s, m_j))         `kernels/scores.py` has the scores
    out     = tanh(W [c; s])                                       "tanh"
            = max over pairs of components of W [s; c; x]          "maxout"

    x_t, y_t     input and output                  (B, D); y_0 = 0
    s_t          state of the topmost cell         (B, N); those below carry x_t (and what is fed) up to it
    m_j          the memory at position j          (B, S, M)

The first is Bahdanau et al. 2015, the second Luong et al. 2015 (input feeding). The initial states are zero, tanh(W m) with m the memory's
first position, last position or mean, or the encoder's final states (the model's `bridge`).

The time loop runs in torch, since the input of a step depends on the one before; input gates, keys and, without input feeding, outputs are
computed for all steps at once. Cells are initialised as in `lstm` and `gru`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import torch
from pydantic import Field
from torch import Tensor, nn

from attentif.errors import ConfigError
from attentif.kernels.cells import gru_step, lstm_step, rnn_step
from attentif.kernels.dropout import dropout
from attentif.kernels.scores import align
from attentif.nn.alignment import Alignment, Score
from attentif.nn.linear import Linear
from attentif.nn.mixer import MIXERS, Caps, CrossMixer, MixerConfig, Site, check_streamable
from attentif.nn.seq import Seq, unpack
from attentif.nn.state import State, select_sources
from attentif.nn.tape import tape_for

CellKind = Literal["rnn", "lstm", "gru"]
GATES: dict[CellKind, int] = {"rnn": 1, "lstm": 4, "gru": 3}


@MIXERS.register
class AttentiveConfig(MixerConfig):
    """Recurrent cells with attention to the memory (Bahdanau 2015, Luong 2015)."""

    cost: ClassVar[str] = "T·S"

    kind: Literal["attentive-recurrence"] = Field("attentive-recurrence", description="recurrent cells with attention to the memory")
    cell: CellKind = Field("gru", description="rnn (tanh), lstm or gru")
    hidden: int | None = Field(None, gt=0, description="width of a cell's state; by default width")
    layers: int = Field(1, gt=0, description="stacked cells; the topmost attends to the memory")
    score: Score = Field("additive", description="how positions are scored: additive, general, dot, location, cosine or scaled-dot")
    score_width: int | None = Field(None, gt=0, description="hidden width of the additive score; by default hidden")
    places: int = Field(64, gt=0, description="number of memory positions the location score covers")
    feeding: Literal["context", "input", "none"] = Field("context", description="cell input besides x: context, last output or none")
    start: Literal["zero", "first", "last", "mean"] = Field("zero", description="initial state: zero, or from this memory position")
    readout: Literal["tanh", "maxout"] = Field("tanh", description="output from state and context: tanh (Luong), maxout (Bahdanau)")
    dropout: float | None = Field(None, ge=0, lt=1, description="dropout between layers of cells; by default the model's")


class Cell(nn.Module):
    """One recurrent cell: weights and step."""

    def __init__(self, kind: CellKind, inputs: int, width: int) -> None:
        super().__init__()
        self.kind = kind
        self.w_x = Linear(inputs, GATES[kind] * width)
        self.w_h = nn.Parameter(torch.empty(GATES[kind] * width, width))
        self.b_h = nn.Parameter(torch.empty(width)) if kind == "gru" else None

    @torch.no_grad()
    def init_weights(self) -> None:
        for of_input, of_state in zip(self.w_x.weight.chunk(GATES[self.kind]), self.w_h.chunk(GATES[self.kind]), strict=True):
            nn.init.xavier_uniform_(of_input)
            nn.init.orthogonal_(of_state)
        if self.kind == "lstm":
            nn.init.ones_(self.w_x.bias.chunk(4)[1])  # forget gate
        if self.b_h is not None:
            nn.init.zeros_(self.b_h)

    def step(self, gates: Tensor, h: Tensor, c: Tensor | None) -> tuple[Tensor, Tensor | None]:
        if c is not None:
            return lstm_step(gates, h, c, self.w_h)
        return (rnn_step(gates, h, self.w_h) if self.b_h is None else gru_step(gates, h, self.w_h, self.b_h)), None


@dataclass(slots=True)
class AttentiveState(State):
    """Cell states, fed-back output and projected memory; `fanout` beams share a memory row."""

    h: Tensor  # (B, layers, N)
    c: Tensor | None  # (B, layers, N), LSTM only
    y: Tensor | None  # (B, D): the output before, input feeding only
    keys: Tensor | None  # (B / fanout, S, ·); None: the values
    values: Tensor  # (B / fanout, S, M): the memory, zero on its padding
    mask: Tensor | None  # (B / fanout, 1, S): −∞ on padding; None: no padding
    fanout: int = 1

    def select(self, rows: Tensor) -> Self:
        """Select beams; those of one source share its memory, so only their own states are copied."""
        sources, fanout = select_sources(rows, self.fanout, len(self.values))

        def pick(t: Tensor | None, by: Tensor | None) -> Any:
            return t if t is None or by is None else t.index_select(0, by)

        own = {name: pick(getattr(self, name), rows) for name in ("h", "c", "y")}
        memory = {name: pick(getattr(self, name), sources) for name in ("keys", "values", "mask")}
        return replace(self, **own, **memory, fanout=fanout)

    def snapshot(self) -> Self:
        return replace(self)  # steps replace tensors and never write into them


@dataclass(frozen=True, slots=True)
class AlignmentRecord:
    weights: Tensor  # (B, T, S)
    seq: Seq
    mask: Tensor | None  # (B, 1, S)


class AttentiveRecurrence(CrossMixer, config=AttentiveConfig):
    caps = Caps(causal=True, bidirectional=False, streaming="exact", maps=True)

    def __init__(self, config: AttentiveConfig, site: Site) -> None:
        super().__init__()
        if site.memory_width is None:
            raise ConfigError("attentive-recurrence needs a memory: use it in the decoder of an encoder-decoder")
        D, M, N = site.width, site.memory_width, config.hidden or site.width
        self.config, self.hidden, self.layers = config, N, config.layers
        self.dropout = site.dropout if config.dropout is None else config.dropout
        self.score = Alignment(config.score, N, M, hidden=config.score_width or N, places=config.places)
        self.cells = nn.ModuleList(Cell(config.cell, D if layer == 0 else N, N) for layer in range(config.layers))
        fed = {"context": M, "input": D}.get(config.feeding)
        self.feed = Linear(fed, GATES[config.cell] * N, bias=False) if fed else None
        states = config.layers * N * (2 if config.cell == "lstm" else 1)
        self.start = Linear(M, states) if config.start != "zero" else None
        self.out = Linear(N + M + D, 2 * D) if config.readout == "maxout" else Linear(M + N, D)

    @torch.no_grad()
    def init_weights(self) -> None:
        if self.feed is not None:
            for gate in self.feed.weight.chunk(GATES[self.config.cell]):
                nn.init.xavier_uniform_(gate)

    def init_state(self, memory: Tensor, memory_seq: Seq) -> AttentiveState:
        if memory_seq.is_packed:
            memory, memory_seq = unpack(memory, memory_seq), Seq.from_padded(memory_seq.lengths)
        mask = None
        if not memory_seq.dense:
            memory = memory.masked_fill(~memory_seq.valid[..., None], 0.0)
            empty = memory_seq.lengths == 0  # no source: the context is zero
            mask = torch.zeros_like(memory[..., 0]).masked_fill(~memory_seq.valid & ~empty[:, None], float("-inf"))[:, None]
        states = self._initial_states(memory, memory_seq).chunk(2 if self.config.cell == "lstm" else 1, 1)
        y = memory.new_zeros(len(memory), self.out.out_features // (2 if self.config.readout == "maxout" else 1))
        return AttentiveState(
            h=states[0],
            c=states[1] if self.config.cell == "lstm" else None,
            y=y if self.config.feeding == "input" else None,
            keys=self.score.keys(memory),
            values=memory,
            mask=mask,
        )

    def _initial_states(self, memory: Tensor, seq: Seq) -> Tensor:
        """Initial states (B, layers, N); for an LSTM (B, 2 layers, N), cells after outputs."""
        layers = self.layers * (2 if self.config.cell == "lstm" else 1)
        if self.start is None or not memory.shape[1]:
            return memory.new_zeros(len(memory), layers, self.hidden)
        if self.config.start == "mean":
            m = memory.sum(1) / seq.lengths[:, None].clamp(min=1)
        else:
            last = seq.first() + (seq.lengths - 1).clamp(min=0)  # an empty row is read at its first position, which is zero
            m = memory[:, 0] if self.config.start == "first" else memory.flatten(0, 1)[last]
        return torch.tanh(self.start(m)).unflatten(1, (layers, self.hidden))

    def resume(self, state: AttentiveState, ended: Sequence[Any]) -> AttentiveState:
        """Initialise the cells from the encoder's final states, one layer each."""
        if self.start is not None:
            raise ConfigError(
                f"start = {self.config.start!r} takes the initial state from the memory: leave it out to begin from the bridge"
            )
        if len(ended) != self.layers:
            raise ConfigError(f"a bridge to {self.layers} layers of cells needs as many in the encoder, which has {len(ended)}")

        def stack_layers(name: str) -> Tensor | None:
            layers = [t for layer in ended if (t := getattr(layer, name, None)) is not None and t.shape[1:] == (self.hidden,)]
            return torch.stack(layers, 1) if len(layers) == len(ended) else None

        h, c = stack_layers("h"), stack_layers("c")
        if h is None or (c is None) != (state.c is None):
            raise ConfigError(f"a bridge to this mixer needs {self.config.cell} cells with hidden = {self.hidden} in the encoder")
        return replace(state, h=h, c=c)

    def forward(self, x: Tensor, seq: Seq, memory: Tensor | None, memory_seq: Seq | None, state: AttentiveState | None = None) -> Tensor:
        if state is not None:
            check_streamable(seq, state)
        elif memory is None or memory_seq is None:
            raise ValueError("attentive-recurrence needs either the memory and its Seq or a state made from them")
        else:
            state = self.init_state(memory, memory_seq)
        if not x.numel():
            return x
        gates = self._cell(0).w_x(x)
        padded = Seq.from_padded(seq.lengths) if seq.is_packed else seq
        if seq.is_packed:
            gates, x = unpack(gates, seq), unpack(x, seq)
        y, weights = self._run(gates, x, padded, state)
        if (tape := tape_for(self)) is not None:
            mask = None if state.mask is None else state.mask.repeat_interleave(state.fanout, 0)
            tape.keep(self, AlignmentRecord(torch.cat(weights, 1).detach(), padded, mask))
        return y.flatten(0, 1).index_select(0, seq.padded_index(seq.max_len)) if seq.is_packed else y

    def _run(self, gates: Tensor, x: Tensor, seq: Seq, state: AttentiveState) -> tuple[Tensor, list[Tensor]]:
        """Run all steps: outputs (B, T, D) and weights (B, ·, S); `state` is updated."""
        h, c, y = list(state.h.unbind(1)), [None] * self.layers if state.c is None else list(state.c.unbind(1)), state.y
        tops, contexts, outputs, weights = [], [], [], []
        shortest = gates.shape[1] if seq.dense else int(seq.lengths.min())
        for t, (now, x_t, valid) in enumerate(zip(gates.unbind(1), x.unbind(1), seq.valid.unbind(1), strict=True)):
            before = h, c, y
            if self.config.feeding == "context":
                context, w = self._attend(h[-1][:, None], state)
                contexts.append(context)
                weights.append(w)
                now = now + self._project_feed(context[:, 0])
            elif y is not None:
                now = now + self._project_feed(y)
            h, c = self._step_cells(now, h, c)
            tops.append(h[-1])
            if y is not None:
                context, w = self._attend(h[-1][:, None], state)
                y = self._readout(h[-1], context[:, 0], x_t)
                outputs.append(y)
                weights.append(w)
            if t >= shortest:  # keep the state of rows that have ended
                h, c, y = _keep_finished(valid, (h, c, y), before)
        state.h, state.c, state.y = torch.stack(h, 1), None if c[0] is None else torch.stack(c, 1), y
        if outputs:
            return torch.stack(outputs, 1), weights
        top = torch.stack(tops, 1)
        if self.config.feeding == "context":
            return self._readout(top, torch.cat(contexts, 1), x), weights
        context, w = self._attend(top, state)
        return self._readout(top, context, x), [w]

    def _cell(self, layer: int) -> Cell:
        cell = self.cells[layer]
        assert isinstance(cell, Cell)
        return cell

    def _project_feed(self, what: Tensor) -> Tensor:
        assert self.feed is not None
        gates: Tensor = self.feed(what)
        return gates

    def _step_cells(self, gates: Tensor, h: list[Tensor], c: list[Any]) -> tuple[list[Tensor], list[Any]]:
        """Step every cell, from the lowest up."""
        after_h: list[Tensor] = []
        after_c: list[Any] = []
        for layer in range(self.layers):
            if layer:
                gates = self._cell(layer).w_x(dropout(after_h[-1], self.dropout, self.training))
            new_h, new_c = self._cell(layer).step(gates, h[layer], c[layer])
            after_h.append(new_h)
            after_c.append(new_c)
        return after_h, after_c

    def _attend(self, s: Tensor, state: AttentiveState) -> tuple[Tensor, Tensor]:
        """Contexts (B, T, M) and weights (B, T, S) for states (B, T, N); beams are read as one row."""
        B, T = s.shape[:2]
        if state.fanout > 1:
            s = s.reshape(B // state.fanout, state.fanout * T, -1)
        scores = self.score(s, state.values if state.keys is None else state.keys)
        context, weights = align(scores, state.values, state.mask)
        return (context, weights) if state.fanout == 1 else (context.reshape(B, T, -1), weights.reshape(B, T, -1))

    def _readout(self, s: Tensor, context: Tensor, x: Tensor) -> Tensor:
        if self.config.readout == "tanh":
            return torch.tanh(self.out(torch.cat([context, s], -1)))
        return self.out(torch.cat([s, context, x], -1)).unflatten(-1, (-1, 2)).amax(-1)

    def maps(self, record: AlignmentRecord, head: int | None = None, rows: Tensor | None = None) -> Tensor:
        """The alignment weights, as one head."""
        weights = record.weights.masked_fill(~record.seq.valid[..., None], 0.0)
        if record.mask is not None:
            weights = weights.masked_fill(record.mask == float("-inf"), 0.0)
        return (weights if rows is None else weights[rows])[:, None]


def _keep_finished(valid: Tensor, after: tuple[Any, Any, Any], before: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    """Keep the old state of rows that have ended."""

    def choose(new: Any, old: Any) -> Any:
        if isinstance(new, list):
            return [choose(*pair) for pair in zip(new, old, strict=True)]
        return None if new is None else torch.where(valid[:, None], new, old)

    h, c, y = (choose(*pair) for pair in zip(after, before, strict=True))
    return h, c, y
