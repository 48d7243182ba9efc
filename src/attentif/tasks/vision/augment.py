"""Small changes that leave a picture what it is, drawn anew each time it is seen.

    x'(p) = x(A p + t + e(p)),   A = R(θ) · [[1, tan σ], [0, 1]] / s        p: a pixel's place, the picture's middle being 0

    θ        rotation, σ shear (degrees), s scale, t shift: each uniform within its bound, one draw a picture
    e        elastic: a coarse field of random arrows, smooth in between (Simard et al. 2003)
    erase    a rectangle of 2 to 20 % of the picture becomes the mean (Zhong et al. 2020)
    mixup    x' = λ x_i + (1 - λ) x_j, and so the loss; λ ~ Beta(a, a) (Zhang et al. 2018)

Beyond its border a picture goes on with its border. Draws come from torch's generator: a run that is resumed makes the same ones.
"""

import math

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor

from attentif.config import Config

COARSE = 4  # arrows along a side of the elastic field
LEAST_ERASED, MOST_ERASED = 0.02, 0.2


class AugmentConfig(Config):
    """How pictures are changed in training; by default lightly, and never mirrored."""

    shift: float = Field(0.07, ge=0, lt=1, description="maximum translation, as a share of the side")
    rotate: float = Field(10.0, ge=0, le=180, description="maximum rotation in degrees")
    scale: float = Field(0.1, ge=0, lt=1, description="maximum relative change of size")
    shear: float = Field(5.0, ge=0, lt=80, description="maximum shear in degrees")
    elastic: float = Field(0.0, ge=0, lt=1, description="maximum elastic displacement, as a share of the side")
    flip: bool = Field(False, description="random horizontal flip; not for letters and digits")
    erase: float = Field(0.0, ge=0, le=1, description="probability of random erasing")
    mixup: float = Field(0.0, ge=0, description="mixup with weights from Beta(mixup, mixup) (0: off)")

    @property
    def moves(self) -> bool:
        return bool(self.shift or self.rotate or self.scale or self.shear or self.elastic or self.flip)


def augment(pictures: Tensor, config: AugmentConfig) -> Tensor:
    """Pictures (B, C, H, W), each changed in its own way."""
    if config.moves:
        grid = F.affine_grid(_maps(len(pictures), config, pictures), list(pictures.shape), align_corners=False)
        if config.elastic:
            grid = grid + _elastic_field(pictures, config.elastic)
        pictures = F.grid_sample(pictures, grid, padding_mode="border", align_corners=False)
    return _erase(pictures, config.erase) if config.erase else pictures


def _maps(count: int, config: AugmentConfig, like: Tensor) -> Tensor:
    """(B, 2, 3): where each pixel of the new picture is read in the old one."""
    draw = lambda bound: (2 * torch.rand(count, device=like.device) - 1) * bound
    angle, slant = draw(math.radians(config.rotate)), torch.tan(draw(math.radians(config.shear)))
    larger = 1 + draw(config.scale)
    x, y = draw(2 * config.shift), draw(2 * config.shift)  # a side is 2 long
    side = 1 - 2 * (torch.rand(count, device=like.device) < 0.5).to(like.dtype) if config.flip else torch.ones(count, device=like.device)
    cos, sin = angle.cos() / larger, angle.sin() / larger
    first = torch.stack([side * cos, side * (cos * slant - sin), x], 1)
    second = torch.stack([sin, sin * slant + cos, y], 1)
    return torch.stack([first, second], 1)


def _elastic_field(pictures: Tensor, most: float) -> Tensor:
    """(B, H, W, 2)."""
    arrows = (2 * torch.rand(len(pictures), 2, COARSE, COARSE, device=pictures.device) - 1) * 2 * most
    return F.interpolate(arrows, size=pictures.shape[2:], mode="bicubic", align_corners=True).permute(0, 2, 3, 1)


def _erase(pictures: Tensor, share: float) -> Tensor:
    count, _, height, width = pictures.shape
    draw = lambda: torch.rand(count, 1, device=pictures.device)
    area = LEAST_ERASED + (MOST_ERASED - LEAST_ERASED) * draw()
    ratio = torch.exp((2 * draw() - 1) * math.log(3))
    inside = []
    for side, length in ((height, (area * ratio).sqrt()), (width, (area / ratio).sqrt())):
        at = (torch.arange(side, device=pictures.device) + 0.5) / side
        middle = draw()
        inside.append((at - middle).abs() < length / 2)
    chosen = draw() < share
    hole = inside[0][:, :, None] & inside[1][:, None, :] & chosen[..., None]
    return pictures.masked_fill(hole[:, None], 0.0)


def mix_pairs(pictures: Tensor, strength: float) -> tuple[Tensor, Tensor, float]:
    """λ x + (1 - λ) x[order], the order, and λ, which is at least ½: the first picture is the one that shows most."""
    concentration = torch.tensor(strength)
    share = float(torch.distributions.Beta(concentration, concentration).sample())
    share = max(share, 1 - share)
    order = torch.randperm(len(pictures), device=pictures.device)
    return share * pictures + (1 - share) * pictures[order], order, share
