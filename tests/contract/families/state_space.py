"""State spaces: fixed (S4D, S4), selective (Mamba), by heads (Mamba-2)."""

import math

import torch
from common import SITE, Case, Twin, make
from torch import Tensor

from attentif.nn.channels import MAP_HEADS
from attentif.nn.mixers.mamba import Mamba, MambaConfig
from attentif.nn.mixers.mamba2 import Mamba2, Mamba2Config
from attentif.nn.mixers.s4_dplr import S4DPLR, S4DPLRConfig
from attentif.nn.mixers.s4d import S4D, S4DConfig

CASES: dict[str, Case] = {
    "s4d": (make(S4DConfig, state=8), SITE),
    "s4d-steps": (make(S4DConfig, state=2, step_min=0.1, step_max=0.5), SITE),
    "s4-dplr": (make(S4DPLRConfig, state=8), SITE),
    "s4-dplr-steps": (make(S4DPLRConfig, state=2, step_min=0.1, step_max=0.5), SITE),
    "mamba": (make(MambaConfig, state=4), SITE),
    "mamba-biases": (make(MambaConfig, state=3, expand=1, bias=True, rank=2, conv=2), SITE),
    "mamba-norms": (make(MambaConfig, state=4, norm={"kind": "rms"}), SITE),
    "mamba-no-conv": (make(MambaConfig, state=1, conv=1, conv_bias=False), SITE),
    "mamba2": (make(Mamba2Config, state=4, head_width=8), SITE),
    "mamba2-groups": (make(Mamba2Config, state=3, head_width=4, groups=2, bias=True, conv=3), SITE),
    "mamba2-no-conv-bias": (make(Mamba2Config, state=2, head_width=16, expand=1, conv=1, conv_bias=False, eps=1e-3), SITE),
}
ROUNDED = {"s4d", "s4-dplr"}


def silu(x: Tensor) -> Tensor:
    return x / (1 + torch.exp(-x))


def softplus(x: Tensor) -> Tensor:
    return torch.log1p(torch.exp(x))


def s4d_twin(mixer: S4D, x: Tensor, marks: Tensor | None = None) -> Tensor:
    step = torch.exp(mixer.log_step)[:, None]
    A = torch.complex(-torch.exp(mixer.log_decay), mixer.frequency)
    C = torch.complex(mixer.C[..., 0], mixer.C[..., 1])
    decay = torch.exp(step * A)
    h, steps = torch.zeros_like(A), []
    for now in x:
        h = decay * h + (decay - 1) / A * now[:, None]
        y = 2 * (C * h).real.sum(-1) + mixer.D * now
        value, gate = (mixer.out.weight @ (0.5 * y * (1 + torch.erf(y / math.sqrt(2)))) + mixer.out.bias).chunk(2)
        steps.append(value / (1 + torch.exp(-gate)))
    return torch.stack(steps)


def s4_dplr_twin(mixer: S4DPLR, x: Tensor, marks: Tensor | None = None) -> Tensor:
    """A by itself, real: [Re h; Im h] moves by Λ − P · 2 Re(P* h), and the bilinear rule inverts it."""
    step, parts = torch.exp(mixer.log_step), lambda t: torch.cat([t[..., 0], t[..., 1]], -1)
    decay, turn, P, B = torch.diag_embed(-torch.exp(mixer.log_decay)), torch.diag_embed(mixer.frequency), parts(mixer.P), parts(mixer.B)
    A = torch.cat([torch.cat([decay, -turn], 2), torch.cat([turn, decay], 2)], 1) - 2 * P[:, :, None] * P[:, None]
    half, unit = step[:, None, None] / 2 * A, torch.eye(A.shape[-1], dtype=x.dtype)
    back = torch.linalg.inv(unit - half)
    h, steps = torch.zeros_like(B), []
    for now in x:
        h = (back @ ((unit + half) @ h[..., None] + (step * now)[:, None, None] * B[..., None]))[..., 0]
        real, imaginary = h.chunk(2, -1)
        y = 2 * (mixer.C[..., 0] * real - mixer.C[..., 1] * imaginary).sum(-1) + mixer.D * now
        value, gate = (mixer.out.weight @ (0.5 * y * (1 + torch.erf(y / math.sqrt(2)))) + mixer.out.bias).chunk(2)
        steps.append(value / (1 + torch.exp(-gate)))
    return torch.stack(steps)


def convolved(u: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """silu of each channel's sum over the tokens just read."""
    steps = []
    for t in range(len(u)):
        total = torch.zeros_like(u[0]) if bias is None else bias
        for k in range(min(weight.shape[1], t + 1)):
            total = total + weight[:, -1 - k] * u[t - k]
        steps.append(silu(total))
    return torch.stack(steps)


def mamba_parts(mixer: Mamba, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """u after the convolution, Δ, B and C."""
    u = convolved(mixer.inp(x), mixer.conv, mixer.conv_bias)
    S = mixer.config.state
    selected = u @ mixer.select.weight.T
    rank, B, C = selected[:, : -2 * S], selected[:, -2 * S : -S], selected[:, -S:]
    if mixer.norms is not None:
        rank, B, C = (norm(part) for norm, part in zip(mixer.norms, (rank, B, C), strict=True))
    return u, softplus(rank @ mixer.step.weight.T + mixer.step.bias), B, C


def mamba_twin(mixer: Mamba, x: Tensor, marks: Tensor | None = None) -> Tensor:
    u, step, B, C = mamba_parts(mixer, x)
    A, h, steps = -torch.exp(mixer.A_log), torch.zeros_like(mixer.A_log), []
    for t in range(len(x)):
        h = torch.exp(step[t, :, None] * A) * h + (step[t] * u[t])[:, None] * B[t]
        steps.append(h @ C[t] + mixer.D * u[t])
    return mixer.out(torch.stack(steps) * silu(mixer.gate(x)))


def mamba_maps(mixer: Mamba, x: Tensor, marks: Tensor | None = None) -> Tensor:
    _, step, B, C = mamba_parts(mixer, x)
    T, A = len(x), -torch.exp(mixer.A_log)
    channels = x.new_zeros(mixer.inner, T, T)
    for t in range(T):
        for s in range(t + 1):
            passed = step[s + 1 : t + 1].sum(0)[:, None]
            channels[:, t, s] = step[s] * (torch.exp(A * passed) * B[s] * C[t]).sum(-1) + (mixer.D if s == t else 0)
    return torch.stack([group.mean(0) for group in channels.tensor_split(MAP_HEADS)])


def mamba2_parts(mixer: Mamba2, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """u (T, H, K), Δ (T, H), B and C (T, H, S)."""
    config, E = mixer.config, mixer.inner
    mixed = convolved(mixer.inp(x), mixer.conv, mixer.conv_bias)
    wide = lambda t: t.view(len(x), config.groups, config.state).repeat_interleave(mixer.heads // config.groups, 1)
    u, B, C = mixed[:, :E].view(len(x), mixer.heads, -1), *(wide(t) for t in mixed[:, E:].chunk(2, -1))
    return u, softplus(mixer.step(x)), B, C


def mamba2_twin(mixer: Mamba2, x: Tensor, marks: Tensor | None = None) -> Tensor:
    u, step, B, C = mamba2_parts(mixer, x)
    A, steps = -torch.exp(mixer.A_log), []
    h = x.new_zeros(mixer.heads, mixer.config.state, u.shape[-1])
    for t in range(len(x)):
        new = B[t][:, :, None] * (step[t][:, None] * u[t])[:, None]
        h = torch.exp(step[t] * A)[:, None, None] * h + new
        steps.append((torch.einsum("hs,hsk->hk", C[t], h) + mixer.D[:, None] * u[t]).flatten())
    y = torch.stack(steps) * silu(mixer.gate(x))
    groups = y.unflatten(-1, (mixer.config.groups, -1))
    return mixer.out((groups / (groups.square().mean(-1, keepdim=True) + mixer.config.eps).sqrt()).flatten(-2) * mixer.norm.weight)


def mamba2_maps(mixer: Mamba2, x: Tensor, marks: Tensor | None = None) -> Tensor:
    _, step, B, C = mamba2_parts(mixer, x)
    T, A = len(x), -torch.exp(mixer.A_log)
    maps = x.new_zeros(mixer.heads, T, T)
    for t in range(T):
        for s in range(t + 1):
            weight = (C[t] * B[s]).sum(-1) * torch.exp(A * step[s + 1 : t + 1].sum(0)) * step[s]
            maps[:, t, s] = weight + (mixer.D if s == t else 0)
    return maps


TWINS: dict[str, Twin] = {"s4d": s4d_twin, "s4-dplr": s4_dplr_twin, "mamba": mamba_twin, "mamba2": mamba2_twin}
MAPS: dict[str, Twin] = {"mamba": mamba_maps, "mamba2": mamba2_maps}
