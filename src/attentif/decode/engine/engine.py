"""A model's decoding step as a program, for rows that each have a state of their own or stand in one together.

    engine = find_engine(model, capacity)          # None where a part of the model has no fused instructions
    logits = engine.step(tokens, places, engine.bind([state]))

The states are the model's own (`model.init_state`), filled by `forward` or by earlier steps: a text may be read by either, token by token.
Weights are used where they lie. Steps of all engines of a process take turns.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from attentif.models import Input, Model
from attentif.models.frontends import TokenFrontend
from attentif.models.heads import LanguageHead
from attentif.nn.bf16 import Bf16Linear
from attentif.nn.int8 import Int8Linear
from attentif.nn.seq import Seq
from attentif.nn.state import StateTree

if TYPE_CHECKING:  # it imports numba
    from attentif.decode.engine.runner import Binding

MOST_ROWS = 16  # of a step


class Engine:
    """The program of a model. Build it with `find_engine`."""

    def __init__(self, model: Model, capacity: int, *, one_text: bool = False) -> None:
        from attentif.decode.engine import lower_experts, lower_recall  # noqa: F401  register their mixers
        from attentif.decode.engine.lower import lower_sublayer
        from attentif.decode.engine.lower_tokens import lower_tokens
        from attentif.decode.engine.pages import use_huge_pages
        from attentif.decode.engine.plan import MixerInput, Plan, Sink, UnsupportedError
        from attentif.decode.engine.runner import ProgramRunner

        if model.decoder is None or model.decoder.reversible or not isinstance(model.head, LanguageHead):
            raise UnsupportedError("not a decoder of tokens")
        reads = model.target or model.frontend
        if not isinstance(reads, TokenFrontend):
            raise UnsupportedError("reads something else than tokens")
        self.model: Model | None = model
        self.reads, self.capacity = reads, capacity
        plan = Plan(capacity, one_text=one_text)
        self.x = plan.buffer(model.config.width)
        self.lines = lower_tokens(plan, reads, self.x)
        for path, sublayer in model.decoder.sublayers():
            lower_sublayer(plan, sublayer, path, MixerInput(self.x))
        last = MixerInput(self.x, model.decoder.norm)
        if not isinstance(model.decoder.project, nn.Identity):
            self.last = plan.buffer(model.decoder.width)
            plan.linear(last, [(model.decoder.project, self.last)])
            last = MixerInput(self.last)
        else:
            self.last = self.x
        self.head = _head_map(model.head)
        if self.head is not None:
            logits = plan.buffer(_outputs(self.head))
            plan.linear(last, [(self.head, logits)])
            self.logits = logits.data.numpy()
        elif not isinstance(last.norm, nn.Identity):
            plan.norm(last.norm, self.last, Sink(self.last))
        use_huge_pages(plan.kept)
        self.runner = ProgramRunner(plan)

    def bind(self, states: Sequence[StateTree], times: int = 1) -> "Binding":
        """Look up where the states lie: of several rows each, in order, each so many times. It holds until a state is replaced."""
        return self.runner.bind(states, times)

    def step(self, tokens: Tensor, seq: Seq, binding: "Binding") -> Tensor:
        """Read a token (R,) of each row at its place; the logits (R, V) of what follows."""
        rows = len(tokens)
        if rows > MOST_ROWS:
            raise ValueError(f"{rows} rows; a step reads at most {MOST_ROWS}")
        places = np.empty(rows, np.int64)
        places[:] = seq.pos.numpy()[:, 0]
        if self.lines is None:
            x, _ = self.reads(Input(tokens[:, None], seq))
            self.x.data[:rows] = x[:, 0]
        else:
            for lookup, numbers in zip(self.lines, (tokens.numpy(), places), strict=False):
                lookup.point(binding.slots, numbers)
        self.runner.run(rows, places, binding)
        head = None if self.model is None else self.model.head
        assert isinstance(head, LanguageHead)
        if self.head is None:
            found: Tensor = head(self.last.data[:rows, None], seq)[:, 0]
            return found
        logits = torch.from_numpy(self.logits[:rows].copy())  # numpy's calls cost less than torch's
        logits = logits if head.scale == 1.0 else head.scale * logits
        return logits if head.softcap is None else head.softcap * torch.tanh(logits / head.softcap)


def find_engine(model: Model, capacity: int, *, one_text: bool = False) -> Engine | None:
    """The engine of a model, or None where it has to decode by its `forward`.

    With `one_text` the rows of a step are neighbouring tokens of one text: what drafts are verified with.
    """
    from attentif.decode.engine.plan import UnsupportedError

    if not is_fusible(model):
        return None
    try:
        return Engine(model, capacity, one_text=one_text)
    except UnsupportedError:
        return None


def is_fusible(model: Model) -> bool:
    """Whether a model is where, and in the state, that its parts may have fused instructions in."""
    weight = next(model.parameters())
    return weight.is_cpu and weight.dtype is torch.float32 and not model.training


def _head_map(head: LanguageHead) -> Any:
    """The head as one linear map; None where it is more than that."""
    from attentif.decode.engine.plan import Matrix

    if head.transform is not None or (head.scale != 1.0 and head.bias is not None):
        return None
    return head.rounded or Matrix(head.weight, head.bias)


def _outputs(module: nn.Module) -> int:
    if isinstance(module, Int8Linear | Bf16Linear):
        return module.out_features
    weight: Any = module.weight
    return len(weight)
