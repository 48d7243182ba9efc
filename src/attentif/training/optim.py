"""Optimisers, and which of them takes which parameter.

AdamW      θ ← θ - η (m̂ / (√v̂ + ε) + λθ)                                         (Loshchilov & Hutter 2019), torch's fused kernel
Adafactor  v of a matrix is kept as its row and column means                     (Shazeer & Stern 2018), torch's
Muon       M ← μM + (1 - μ)G,  θ ← θ - η (0.2 √max(A, B) · UVᵀ + λθ)             (Jordan 2024; scale of Liu 2025, eq. 4)

η: learning rate, λ: weight decay, μ: momentum, A × B: shape of θ. UVᵀ is the orthogonal matrix nearest to μM + (1 - μ)G, found by five
Newton-Schulz iterations X ← aX + (bXXᵀ + c(XXᵀ)²)X. With that scale an update has the size of AdamW's, so one lr and one decay serve both.

With `layer_decay` d, a block learns at d times the rate of the block above it (Howard & Ruder 2018, discriminative fine-tuning):

    η_l = η · d^(n-1-l) for block l of n, counted from the bottom of its stack;  η · dⁿ for what reads the input;  η for norm and head

Weight decay is for matrices: biases, gains of norms (1-D) and embedding tables are left alone, a table's rare rows most of all: they
would shrink at every step and be lifted by few. Muon takes the matrices of the hidden layers; the head's and the tables stay with AdamW.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adafactor, AdamW, Optimizer

from attentif.nn.stack import Stack
from attentif.tasks.predictors import Ensemble
from attentif.training.config import TrainConfig
from attentif.training.sharding import Layout

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
TOGETHER = 1 << 20  # numbers that are made orthogonal at once: a copy of so many gradients, and no more


class Muon(Optimizer):
    """Momentum, orthogonalised. `torch.optim.Muon` does the same in bfloat16, which takes 100 times as long on a CPU without it."""

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float,
        weight_decay: float = 0.0,
        momentum: float = 0.95,
        steps: int = 5,
        layout: Layout | None = None,
    ) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "steps": steps})
        self.layout = layout  # where each parameter is some rows of a matrix that several processes hold

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None
        for group in self.param_groups:
            for some in alike([parameter for parameter in group["params"] if parameter.grad is not None], self._shape):
                self._update(some, group)

    def _shape(self, parameter: Tensor) -> torch.Size:
        return parameter.shape if self.layout is None else self.layout.shape(parameter)

    def _update(self, parameters: list[Tensor], group: Mapping[str, Any]) -> None:
        """Of matrices of one shape."""
        ahead = []
        for parameter in parameters:
            state, gradient = self.state[parameter], parameter.grad
            assert gradient is not None
            if not state:
                state["momentum"] = torch.zeros_like(parameter)
            momentum = state["momentum"].lerp_(gradient, 1 - group["momentum"])
            ahead.append(torch.lerp(gradient, momentum, group["momentum"]))  # Nesterov's look ahead
        shape, work = self._shape(parameters[0]), lambda matrices: orthogonal(matrices, group["steps"])
        directions = work(torch.stack(ahead)) if self.layout is None else self.layout.orthogonalise(ahead, shape, work)
        for parameter, direction in zip(parameters, directions, strict=True):
            parameter.mul_(1 - group["lr"] * group["weight_decay"])
            parameter.add_(direction, alpha=-group["lr"] * 0.2 * max(shape) ** 0.5)


def alike(parameters: Iterable[Tensor], shape_of: Callable[[Tensor], torch.Size]) -> Iterator[list[Tensor]]:
    """Matrices of one shape, as many as make small products worth several threads."""
    shapes: dict[torch.Size, list[Tensor]] = {}
    for parameter in parameters:
        shapes.setdefault(shape_of(parameter), []).append(parameter)
    for shape, some in shapes.items():
        most = max(1, TOGETHER // shape.numel())
        for first in range(0, len(some), most):
            yield some[first : first + most]


def orthogonal(matrices: Tensor, steps: int) -> Tensor:
    """Nearly UVᵀ of each one's singular value decomposition: singular values end between 0.7 and 1.2."""
    a, b, c = NEWTON_SCHULZ
    x = matrices.bfloat16() if matrices.is_cuda else matrices  # (matrices, A, B)
    tall = x.shape[1] > x.shape[2]
    x = x.mT if tall else x
    x = x / torch.linalg.matrix_norm(x, keepdim=True).clamp(min=1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return (x.mT if tall else x).to(matrices.dtype)


def optimizers(model: nn.Module, config: TrainConfig, layout: Layout | None = None) -> list[Optimizer]:
    """One optimiser, or two where Muon leaves parameters to AdamW. A group has one weight decay, and one share of the learning rate."""
    tables = {id(parameter) for module in model.modules() if isinstance(module, nn.Embedding) for parameter in module.parameters()}
    shares = rate_shares(model, config.layer_decay)
    found: dict[tuple[str, float], list[Tensor]] = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        if parameter.ndim < 2 or name.endswith(".bias") or id(parameter) in tables:  # stacked biases have two axes
            kind = "spared"
        elif config.optimizer == "muon" and parameter.ndim == 2 and "head" not in name.split("."):
            kind = "hidden"
        else:
            kind = "decayed"
        found.setdefault((kind, shares[name]), []).append(parameter if layout is None else layout.own(parameter))

    def groups(wanted: str, weight_decay: float) -> list[dict[str, Any]]:
        return [{"params": some, "weight_decay": weight_decay, "share": share} for (kind, share), some in found.items() if kind == wanted]

    hidden, others = groups("hidden", config.weight_decay), groups("decayed", config.weight_decay) + groups("spared", 0.0)
    if config.optimizer == "adafactor":
        return [Adafactor(others, lr=config.lr)]
    muon: list[Optimizer] = [Muon(hidden, lr=config.lr, layout=layout)] if hidden else []
    return muon + ([AdamW(others, lr=config.lr, betas=config.betas, fused=True)] if others else [])


def rate_shares(model: nn.Module, decay: float) -> dict[str, float]:
    """The share of the learning rate that each parameter learns at, by its name; the same for all networks of an ensemble."""
    if isinstance(model, Ensemble):
        one = rate_shares(model.networks[0], decay)
        return {f"members.{number}.{name}": share for number in range(len(model.members)) for name, share in one.items()}
    depths = {part: len(stack.blocks) for part, stack in model.named_children() if isinstance(stack, Stack)}
    reads = {"frontend": next(iter(depths.values()), 0), "target": depths.get("decoder", 0)}  # the depth of what each of them feeds

    def below_the_top(name: str) -> int:
        part, *rest = name.split(".")
        if part in reads:
            return reads[part]
        if part in depths and rest[0] == "blocks":
            return depths[part] - 1 - int(rest[1])
        return depths[part] - 1 if part in depths and rest[0] == "bias" else 0  # positions, which the lowest block reads first

    return {name: decay ** below_the_top(name) for name, _ in model.named_parameters()}


def set_rate(found: Iterable[Optimizer], lr: float) -> None:
    for optimizer in found:
        for group in optimizer.param_groups:
            group["lr"] = lr * group["share"]


def state_of(found: Iterable[Optimizer]) -> dict[str, Tensor]:
    """The optimisers' state as named tensors: `<optimiser>.<parameter>.<name>`."""
    return {
        f"{place}.{index}.{name}": value
        for place, optimizer in enumerate(found)
        for index, memory in optimizer.state_dict()["state"].items()
        for name, value in memory.items()
    }


def load_state(found: Iterable[Optimizer], state: Mapping[str, Tensor]) -> None:
    memories: dict[int, dict[int, dict[str, Tensor]]] = {}
    for key, value in state.items():
        owner, index, name = key.split(".", 2)
        memories.setdefault(int(owner), {}).setdefault(int(index), {})[name] = value.clone()
    for place, optimizer in enumerate(found):
        optimizer.load_state_dict({"state": memories.get(place, {}), "param_groups": optimizer.state_dict()["param_groups"]})
