"""Conformer's convolution module."""

import torch
import torch.nn.functional as F
from common import SITE, Case, Twin
from torch import Tensor

from attentif.nn.mixers.conformer_conv import ConformerConv, ConformerConvConfig

CASES: dict[str, Case] = {
    "conformer-conv": (ConformerConvConfig(kernel=7), SITE),
    "conformer-conv-layer": (ConformerConvConfig(kernel=31, norm="layer"), SITE),
    "conformer-conv-group": (ConformerConvConfig(kernel=3, norm="group", groups=4, bias=False), SITE),
    "conformer-conv-gelu": (ConformerConvConfig(kernel=5, norm="layer", activation="gelu"), SITE),
}


def twin(mixer: ConformerConv, x: Tensor, marks: Tensor | None = None) -> Tensor:
    first, gate = (x @ mixer.up.weight.T + (0 if mixer.up.bias is None else mixer.up.bias)).chunk(2, -1)
    gated = first * torch.sigmoid(gate)
    reach = mixer.config.kernel // 2
    rows = []
    for t in range(len(x)):
        near = sum(mixer.taps[:, k] * gated[t + k - reach] for k in range(mixer.config.kernel) if 0 <= t + k - reach < len(x)) + (
            0 if mixer.taps_bias is None else mixer.taps_bias
        )
        rows.append(near)
    y = torch.stack(rows)
    norm = mixer.norm
    if mixer.config.norm == "batch":
        y = (y - norm.mean) / (norm.var + norm.eps).sqrt() * norm.weight + norm.bias
    else:
        groups = y.unflatten(-1, (mixer.config.groups if mixer.config.norm == "group" else 1, -1))
        spread = groups.var(-1, correction=0, keepdim=True)
        y = ((groups - groups.mean(-1, keepdim=True)) / (spread + 1e-5).sqrt()).flatten(-2) * norm.weight + norm.bias
    y = y * (torch.sigmoid(y) if mixer.config.activation == "silu" else (1 + torch.erf(y / 2**0.5)) / 2)
    return F.linear(y, mixer.out.weight, mixer.out.bias)


TWINS: dict[str, Twin] = {"conformer-conv": twin}
