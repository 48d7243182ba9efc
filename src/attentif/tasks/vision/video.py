"""Classification of films: a label for each, read as tubes of pixels (Arnab et al. 2021), frame after frame or all at once."""

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from attentif.data.images import Frame
from attentif.errors import ConfigError
from attentif.models import ModelConfig
from attentif.models.frontends import FrontendConfig
from attentif.models.frontends.tubes import TubesConfig
from attentif.tasks.base import TASKS
from attentif.tasks.vision.image import Image, ImageConfig


@TASKS.register
class VideoConfig(ImageConfig):
    """A label for a film."""

    kind: Literal["video"] = Field("video", description="a label for a film")  # type: ignore[assignment]
    frames: int = Field(8, gt=1, description="frames that are read of each film, from its beginning to its end at even distances")

    def build(self) -> "Video":
        return Video(self)

    def frame(self, frontend: FrontendConfig | None = None) -> Frame:
        size = super().frame(frontend)
        return replace(size, frames=self.frames)


class Video(Image):
    """Films are pictures of `frames` times as many channels; a film is shown as its frames, one below the other."""

    config: VideoConfig

    def check(self, model: ModelConfig) -> None:
        if not isinstance(model.frontend, TubesConfig):
            raise ConfigError('model.frontend: video reads films, by a frontend of kind "tubes"; use for example video-tiny')
        if model.frontend.frames not in (None, self.config.frames):
            raise ConfigError(f"task.frames: {self.config.frames}, and model.frontend.frames is {model.frontend.frames}; leave one out")
        super().check(model)

    @property
    def frames(self) -> int:  # type: ignore[override]
        return self.config.frames

    def lay_out(self, pixels: NDArray[np.uint8], model: ModelConfig) -> NDArray[np.uint8]:
        """The first frame of each tube, one below the other: its places are the tubes in their order."""
        assert isinstance(model.frontend, TubesConfig)
        films = pixels.reshape(self.frames, -1, *pixels.shape[1:])[:: model.frontend.depth]
        return np.concatenate(list(films), axis=1)
