"""The linear map of every mixer and head: torch's parameters, and the kernel that suits the number of rows."""

from torch import Tensor, nn

from attentif.kernels.linear import linear


class Linear(nn.Linear):
    """nn.Linear in all but speed: decoding steps (few rows, no gradients) read the weight on all cores."""

    def forward(self, input: Tensor) -> Tensor:
        return linear(input, self.weight, self.bias)
