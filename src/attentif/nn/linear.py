"""The linear map of every mixer and head: torch's parameters, and the kernel that suits the number of rows."""

import torch
from torch import Tensor, nn

from attentif.kernels.grouped import grouped_linear
from attentif.kernels.linear import linear


class Linear(nn.Linear):
    """nn.Linear in all but speed: decoding steps (few rows, no gradients) read the weight on all cores."""

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)


class StackedLinear(nn.Module):
    """Many linear maps in one tensor, each for some of the rows."""

    def __init__(self, maps: int, in_features: int, out_features: int, *, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(maps, out_features, in_features))
        self.bias = nn.Parameter(torch.empty(maps, out_features)) if bias else None
        bound = in_features**-0.5  # as torch begins its own
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, rows: Tensor, sizes: list[int]) -> Tensor:
        """Rows (M, in), those of the first map first: `sizes` says how many each has."""
        return grouped_linear(rows, self.weight, self.bias, sizes)
