"""Pictures, texts and sounds by themselves, for one stack that reads all kinds (VATT, Akbari et al. 2021; LIMoE, Mustafa et al. 2022).

    x = [W · patch_i + b + p_i + k_0]          of a picture
    x = [E[w_t] + q_t + k_1]                   of a text
    x = [stages of convolutions(frames)_t + s_t + k_2]          of a sound

An input is of one kind, told by what it holds: token ids, pixels (B, C, H, W) or frames (B, T, mels). Every kind has a frontend of its own
and a learned vector k; the stack behind them is the same.
"""

from typing import Literal, Self

import torch
from pydantic import Field
from torch import Tensor, nn

from attentif.config import Ints
from attentif.kernels.dropout import dropout
from attentif.models.batch import Input
from attentif.models.frontends.base import ANY_SIZE, FRONTENDS
from attentif.models.frontends.frames import FramesConfig
from attentif.models.frontends.joined import PICTURE, TEXT, PictureTextConfig
from attentif.nn.position import Position
from attentif.nn.seq import Seq

SOUND = 2  # row of the table of kinds


@FRONTENDS.register
class ModalitiesConfig(PictureTextConfig):
    """A picture, a text or a sound, each by a frontend of its own, for one stack."""

    kind: Literal["modalities"] = Field("modalities", description="pictures, texts and sounds, each by itself")
    from_data = (*PictureTextConfig.from_data, "mels")
    mels: int | None = Field(None, gt=0, description="bands of a frame of sound; by default the data's")
    stages: Ints = Field((16, 32), min_length=1, description="channels of the sound's convolutions; each halves frames and bands")
    sound_position: Position | None = Field(None, description="positions added to what the frames become")

    @property
    def frames(self) -> FramesConfig:
        """The configuration of the sound frontend."""
        return FramesConfig(mels=self.mels, subsample="stages", stages=self.stages, dropout=0.0, position=self.sound_position)

    def build(self, width: int, dropout: float) -> "Modalities":
        return Modalities(self, width, dropout)

    def with_any_size(self) -> Self:
        return super().with_any_size().replace(mels=self.mels or ANY_SIZE)


class Modalities(nn.Module):
    def __init__(self, config: ModalitiesConfig, width: int, dropout: float) -> None:
        super().__init__()
        self.picture, self.text, self.sound = (part.build(width, 0.0) for part in (config.patches, config.tokens, config.frames))
        self.kinds = nn.Embedding(3, width)
        self.norm = config.norm.build(width) if config.norm else nn.Identity()
        self.dropout = dropout if config.dropout is None else config.dropout

    def forward(self, source: Input) -> tuple[Tensor, Seq]:
        kind, frontend = self.choose(source.data)
        x, seq = frontend(source)
        return dropout(self.norm(x + self.kinds.weight[kind]), self.dropout, self.training), seq

    def choose(self, data: Tensor) -> tuple[int, nn.Module]:
        """The kind of an input, and what reads it."""
        if not torch.is_floating_point(data):
            return TEXT, self.text
        return (PICTURE, self.picture) if data.ndim == 4 else (SOUND, self.sound)
