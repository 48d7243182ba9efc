"""Linear layers that choose the fastest kernel for the number of rows."""

import torch
from torch import Tensor, nn

from attentif.kernels.grouped import grouped_linear
from attentif.kernels.linear import linear


class Linear(nn.Linear):
    """nn.Linear whose decoding steps (few rows, no gradients) read the weight on all cores."""

    products: torch.dtype | None = None  # what is multiplied, where that is not the weight's own type: see `set_products`

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias, self.products)


class StackedLinear(nn.Module):
    """Several linear maps in one tensor, each applied to some of the rows."""

    products: torch.dtype | None = None

    def __init__(self, maps: int, in_features: int, out_features: int, *, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(maps, out_features, in_features))
        self.bias = nn.Parameter(torch.empty(maps, out_features)) if bias else None
        bound = in_features**-0.5  # as torch begins its own
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -bound, bound)

    def forward(self, rows: Tensor, sizes: list[int]) -> Tensor:
        """Apply map i to the next `sizes[i]` rows of (M, in)."""
        return grouped_linear(rows, self.weight, self.bias, sizes, self.products)
