"""Int8 weights with a scale per block of 32, as GGUF's Q8_0.

    w ≈ s_b q,     q = round(w / s_b) in −127 … 127,     s_b = max |w| over the block / 127, as a float16

    q, s         what is stored                                            (O, I) int8, (O, ⌈I/32⌉) float16
    packed       what is computed with: 16 outputs interleaved             (⌈O/16⌉, ⌈I/32⌉, 544) bytes

Each packed block holds 16 scales, then four adjacent weights of each of the 16 outputs, then the next four: a register holds four weights
of every output, to be multiplied with four numbers of x without sums across it. Weights are unsigned (q + 128), as the instruction needs.
"""

import numpy as np
import torch
from torch import Tensor

BLOCK, GROUP = 32, 16
BLOCK_BYTES = 2 * GROUP + BLOCK * GROUP


def quantize_blocks(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Quantise (O, I) weights to int8 q (O, I) and scales (O, ⌈I/32⌉)."""
    padded = torch.nn.functional.pad(weight.detach().float(), (0, -weight.shape[1] % BLOCK)).unflatten(1, (-1, BLOCK))
    scale = (padded.abs().amax(-1) / 127).half()
    divisor = scale.float().masked_fill(scale == 0, 1.0)[..., None]
    q = (padded / divisor).round().clamp(-127, 127).to(torch.int8)
    return q.flatten(1)[:, : weight.shape[1]].contiguous(), scale


def dequantize_blocks(q: Tensor, scale: Tensor) -> Tensor:
    """Return the weights (O, I)."""
    return q.float() * scale.float().repeat_interleave(BLOCK, 1)[:, : q.shape[1]]


def pack_blocks(q: Tensor, scale: Tensor) -> Tensor:
    """Interleave int8 weights and scales, zero-padded to whole blocks."""
    rows, blocks = -q.shape[0] % GROUP, scale.shape[1]
    q = torch.nn.functional.pad(q, (0, blocks * BLOCK - q.shape[1], 0, rows))
    scale = torch.nn.functional.pad(scale, (0, 0, 0, rows))
    groups = len(q) // GROUP
    packed = np.empty((groups, blocks, BLOCK_BYTES), np.uint8)
    by_group = scale.numpy().reshape(groups, GROUP, blocks).transpose(0, 2, 1)
    packed[:, :, : 2 * GROUP] = np.ascontiguousarray(by_group).view(np.uint8).reshape(groups, blocks, 2 * GROUP)
    fours = q.numpy().reshape(groups, GROUP, blocks, BLOCK // 4, 4).transpose(0, 2, 3, 1, 4)
    packed[:, :, 2 * GROUP :] = fours.reshape(groups, blocks, BLOCK * GROUP).view(np.uint8) ^ 128
    return torch.from_numpy(packed)


def unpack_blocks(packed: Tensor, out_features: int, in_features: int) -> tuple[Tensor, Tensor]:
    """Return the int8 weights and scales of the packed form."""
    data = packed.numpy()
    groups, blocks, _ = data.shape
    scale = np.ascontiguousarray(data[:, :, : 2 * GROUP]).view(np.float16).reshape(groups, blocks, GROUP).transpose(0, 2, 1)
    fours = (data[:, :, 2 * GROUP :] ^ 128).view(np.int8).reshape(groups, blocks, BLOCK // 4, GROUP, 4).transpose(0, 3, 1, 2, 4)
    q = fours.reshape(groups * GROUP, blocks * BLOCK)[:out_features, :in_features]
    return torch.from_numpy(np.ascontiguousarray(q)), torch.from_numpy(np.ascontiguousarray(scale.reshape(-1, blocks)[:out_features]))


def linear_int8_naive(x: Tensor, q: Tensor, scale: Tensor, bias: Tensor | None = None) -> Tensor:
    """The equation; x is quantised by blocks too."""
    xq, xs = _round_rows(x.reshape(-1, x.shape[-1]))
    y = ((xq * xs[..., None]).flatten(1)[:, : x.shape[-1]] @ dequantize_blocks(q, scale).mT).unflatten(0, x.shape[:-1])
    return y if bias is None else y + bias


def _round_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    padded = torch.nn.functional.pad(x.float(), (0, -x.shape[1] % BLOCK)).unflatten(1, (-1, BLOCK))
    scale = padded.abs().amax(-1) / 127
    return (padded / scale.masked_fill(scale == 0, 1.0)[..., None]).round(), scale


def linear_int8(x: Tensor, packed: Tensor, out_features: int, bias: Tensor | None = None) -> Tensor:
    """The same from the packed form, on all cores: (..., I) to (..., O)."""
    from attentif.kernels.fused.rows import multiply_rows

    rows = x.reshape(-1, x.shape[-1]).float().contiguous()
    y = rows.new_empty(len(rows), out_features)
    multiply_rows(rows, packed, None if bias is None else bias.float(), y)
    return y.unflatten(0, x.shape[:-1]).to(x.dtype)
