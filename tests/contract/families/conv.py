"""Convolutions over windows of neighbours."""

import torch
from common import SITE, Case, Twin
from torch import Tensor

from attentif.nn.mixers.conv import Conv, ConvConfig

CASES: dict[str, Case] = {
    "conv": (ConvConfig(), SITE),
    "conv-kim": (ConvConfig(windows=(3, 4, 5)), SITE),
    "conv-one": (ConvConfig(windows=(1,), activation="none"), SITE),
    "conv-causal": (ConvConfig(windows=(4,), activation="gelu", causal=True), SITE),
    "conv-causal-gated": (ConvConfig(windows=(2, 5), activation="glu", causal=True), SITE),
}


def conv_twin(mixer: Conv, x: Tensor, marks: Tensor | None = None) -> Tensor:
    """Token by token, window by window, tap by tap."""
    config, T, D = mixer.config, *x.shape
    rows = []
    for t in range(T):
        parts = []
        for window, linear in zip(config.windows, mixer.maps_of, strict=True):
            left = window - 1 if config.causal else (window - 1) // 2
            taps = linear.weight.view(-1, D, window)
            u = linear.bias
            for k in range(window):
                if 0 <= t + k - left < T:
                    u = u + taps[:, :, k] @ x[t + k - left]
            if config.activation == "glu":
                half = len(u) // 2
                u = u[:half] * torch.sigmoid(u[half:])
            elif config.activation == "relu":
                u = torch.where(u > 0, u, 0)
            elif config.activation == "gelu":
                u = u * 0.5 * (1 + torch.erf(u / 2**0.5))
            parts.append(u)
        rows.append(torch.cat(parts))
    return torch.stack(rows)


TWINS: dict[str, Twin] = {"conv": conv_twin}
