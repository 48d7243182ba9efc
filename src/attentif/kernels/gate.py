"""A gate: one branch multiplied by the silu of another.

    out = y ⊙ silu(z),     silu(z) = z σ(z),     silu'(z) = σ(z) + z σ(z) (1 − σ(z))

    dy = g ⊙ silu(z),     dz = g ⊙ y ⊙ silu'(z)          g  the gradient of out

torch takes two passes forwards and four backwards, each with a buffer; here it is one each way, and σ(z) is recomputed. Mamba's block ends
with it (Gu & Dao 2023).
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from attentif.kernels.exp import sigmoid
from attentif.kernels.jit import Array, jit, parallel_for
from attentif.kernels.operation import differentiate, empty_like, operation

BLOCK = 8192  # numbers of one piece of work
FEW = 4 * BLOCK  # numbers below which torch's two passes cost less than the call


def silu_gate_naive(y: Tensor, z: Tensor) -> Tensor:
    """The equation."""
    return y * z / (1 + torch.exp(-z))


def silu_gate(y: Tensor, z: Tensor) -> Tensor:
    """The same for equal shapes: a compiled loop on CPU, torch elsewhere and for small tensors."""
    if not y.is_cpu or y.numel() < FEW or y.dtype not in (torch.float32, torch.float64):
        return y * F.silu(z)
    gated: Tensor = _gate(y.contiguous(), z.contiguous())
    return gated


@operation("silu_gate", fake=lambda y, z: torch.empty_like(y))
def _gate(y: Tensor, z: Tensor) -> Tensor:
    out = torch.empty_like(y)
    parallel_for(_forward, _pieces(y), *(t.detach().view(-1).numpy() for t in (y, z, out)))
    return out


@operation("silu_gate_backward", fake=lambda y, z, g: empty_like(y, z))
def _gradients(y: Tensor, z: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    dy, dz = empty_like(y, z)
    parallel_for(_backward, _pieces(y), *(t.detach().view(-1).numpy() for t in (y, z, g, dy, dz)))
    return dy, dz


differentiate(_gate, _gradients, save=lambda y, z, out: (y, z))


def _pieces(y: Tensor) -> int:
    return -(-y.numel() // BLOCK)


@jit(fastmath={"contract"})
def _forward(start: int, stop: int, y: Array, z: Array, out: Array) -> None:
    low, high = start * BLOCK, min(stop * BLOCK, len(y))
    y_, z_, out_ = y[low:high], z[low:high], out[low:high]
    for i in range(high - low):
        out_[i] = y_[i] * (z_[i] * sigmoid(z_[i]))


@jit(fastmath={"contract"})
def _backward(start: int, stop: int, y: Array, z: Array, g: Array, dy: Array, dz: Array) -> None:
    low, high = start * BLOCK, min(stop * BLOCK, len(y))
    y_, z_, g_, dy_, dz_ = y[low:high], z[low:high], g[low:high], dy[low:high], dz[low:high]
    for i in range(high - low):
        s = sigmoid(z_[i])
        dy_[i] = g_[i] * (z_[i] * s)
        dz_[i] = g_[i] * (y_[i] * (s + z_[i] * (s - s * s)))
