"""The type that a model's linear maps are multiplied in. Parameters, norms, softmaxes, recurrences and sums stay float32.

    float32    as they are
    bf16       8 bits of exponent, 8 of fraction: about twice as many products a second where a processor has instructions for it
    fp16       5 and 11: for GPUs; gradients need a scale (`training/precision.py`)

A mixer's own kernels never see the shorter type: what a map reads and writes is float32. To answer, weights may be kept shorter too: in
bf16, or in bytes (`models/int8.py`).
"""

import time
from collections.abc import Callable
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import nn

from attentif.errors import UsageError
from attentif.kernels.measured import choose_fastest
from attentif.models.heads import LanguageHead
from attentif.models.int8 import is_int8, linear_maps, quantize, replace_map
from attentif.nn.bf16 import Bf16Linear
from attentif.nn.linear import Linear, StackedLinear

Products = Literal["float32", "bf16", "fp16"]
Precision = Literal["float32", "bf16", "int8", "auto"]  # of a run that answers
Say = Callable[[str], None]
DTYPES: dict[str, torch.dtype | None] = {"float32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
ROWS, SIDE, ROUNDS = 512, 1024, 5  # of the products that are timed
GAIN = 1.15  # how much faster they must be to be chosen


def set_products(model: nn.Module, precision: str) -> None:
    """Multiply the linear maps of a model's mixers and language heads in this type; routers, whose choices are close, in float32."""
    for path, module in model.named_modules():
        if isinstance(module, Linear | StackedLinear | LanguageHead) and not path.endswith(".router"):
            module.products = DTYPES[precision]


def choose_products(asked: str, device: torch.device, say: Say) -> Products:
    """The type to multiply in. `auto` measures once on the machine and says what it chose."""
    if asked != "auto":
        return "bf16" if asked == "bf16" else "fp16" if asked == "fp16" else "float32"
    choice = choose_fastest("products", device, lambda: time_products(device), prefer="float32", gain=GAIN)
    ratio = choice.seconds["float32"] / choice.seconds["bf16"]
    when = "measured earlier" if choice.remembered else "measured now"
    say(f"precision: {choice.name} (products in bf16 are {ratio:.2g} times as fast as in float32 on this machine, {when})")
    return "bf16" if choice.name == "bf16" else "float32"


def check_precision(precision: str, device: str) -> None:
    """Refuse a precision that no run can be opened with."""
    if precision not in get_args(Precision):
        raise UsageError(f"precision: {precision!r} is none; choose {', '.join(get_args(Precision))}")
    if precision == "int8" and device not in ("auto", "cpu"):
        raise UsageError(f"int8 is for a CPU, not for {device}: leave one of the two out")


def shorten_weights(model: nn.Module, precision: str, *, source: str, say: Say) -> None:
    """Convert a model's linear maps to int8 or bf16; `auto`: bf16 if faster. int8 models stay int8."""
    if is_int8(model):
        return
    if precision == "auto":
        precision = choose_products("auto", next(model.parameters()).device, say)
        if precision == "bf16":
            keep_bf16(model)
        return
    if precision in ("int8", "bf16") and not (quantize if precision == "int8" else keep_bf16)(model):
        raise UsageError(f"has no linear map large enough to gain from {precision}", file=source)


def keep_bf16(model: nn.Module) -> list[str]:
    """Keep the linear maps of a model's mixers and language heads in bf16, in place; their paths. The model no longer learns.

    Maps whose inner width is no multiple of 16, which the fused step wants, stay as they are, and so do routers.
    """
    found = []
    for path, module in linear_maps(model).items():
        if module.in_features % 16 == 0 and not path.endswith(".router"):
            replace_map(model, path, Bf16Linear(module.weight, module.bias))
            found.append(path)
    for path, module in list(model.named_modules()):
        if isinstance(module, LanguageHead) and module.rounded is None and module.weight.shape[1] % 16 == 0:
            module.bf16 = Bf16Linear(module.weight, module.bias)
            found.append(f"{path}.bf16")
    model.requires_grad_(False)
    return found


@torch.no_grad()
def time_products(device: torch.device) -> dict[str, float]:
    """Seconds that a map of a training step takes in each type: the median of a few rounds, in turns. Weights are rounded each time."""
    x, weight = torch.randn(ROWS, SIDE, device=device), torch.randn(SIDE, SIDE, device=device)
    taken: dict[str, list[float]] = {"float32": [], "bf16": []}
    for _ in range(ROUNDS + 1):  # the first of each prepares its kernels
        for name, seconds in taken.items():
            dtype = DTYPES[name] or torch.float32
            _wait(device)
            begin = time.perf_counter()
            for _ in range(4):
                F.linear(x.to(dtype), weight.to(dtype)).float()
            _wait(device)
            seconds.append(time.perf_counter() - begin)
    return {name: sorted(seconds[1:])[ROUNDS // 2] for name, seconds in taken.items()}


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
