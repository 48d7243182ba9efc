"""The fixed window: a network over the last tokens, side by side."""

import torch
from common import SITE, Case, Twin
from torch import Tensor

from attentif.nn.mixers.window_mlp import WindowMLP, WindowMLPConfig

CASES: dict[str, Case] = {
    "window-mlp": (WindowMLPConfig(window=4), SITE),
    "window-mlp-direct": (WindowMLPConfig(window=3, hidden=5, direct=True), SITE),
    "window-mlp-of-one": (WindowMLPConfig(window=1), SITE),
    "window-mlp-wider-than-a-row": (WindowMLPConfig(window=20), SITE),
}


def window_twin(mixer: WindowMLP, x: Tensor, marks: Tensor | None = None) -> Tensor:
    steps = []
    for t in range(len(x)):
        seen = torch.cat([x[t - back] if t >= back else torch.zeros_like(x[0]) for back in range(mixer.config.window)])
        y = mixer.out.weight @ torch.tanh(mixer.up.weight @ seen + mixer.up.bias) + mixer.out.bias
        steps.append(y if mixer.direct is None else y + mixer.direct.weight @ seen)
    return torch.stack(steps)


TWINS: dict[str, Twin] = {"window-mlp": window_twin}
