"""What tasks with pictures share: the size and the colours that pictures are brought to, and the scale of their numbers."""

from typing import Annotated, Literal

from pydantic import Field

from attentif.config import Ints
from attentif.data.images import Fit, Frame, Resample
from attentif.errors import ConfigError
from attentif.models.frontends import FrontendConfig
from attentif.tasks.base import TaskConfig

Shares = Annotated[tuple[float, ...], Field(strict=False)]


class FramedConfig(TaskConfig):
    """Base of the tasks that bring pictures to one size."""

    height: int | None = Field(None, gt=0, description="height in pixels to resize to; by default that of the data, if all are equal")
    width: int | None = Field(None, gt=0, description="width in pixels to resize to")
    channels: Literal[1, 3] | None = Field(None, description="1: grey, 3: colour; by default colour if any picture has some")
    fit: Fit = Field("crop", description="how to fit another aspect ratio: crop, pad or stretch")
    resize: Ints = Field((), description="instead of `fit`: the shorter side, or height and width, before the middle is cut out")
    resample: Resample = Field("bilinear", description="how pixels are resized: bilinear, bicubic, nearest, lanczos, box, hamming")

    def check_frame(self) -> None:
        if (self.height is None) != (self.width is None):
            raise ConfigError("task: height and width go together")
        if self.resize and (len(self.resize) > 2 or self.height is None or self.width is None):
            raise ConfigError("task.resize: is one number or two, and needs height and width of the middle that is cut out")
        sides = (self.resize * 2)[:2]
        if any(side < cut for side, cut in zip(sides, (self.height or 0, self.width or 0), strict=False)):
            raise ConfigError(
                f"task.resize: {list(self.resize)} is smaller than what is cut out of it, {self.height} × {self.width} pixels"
            )

    def frame(self, frontend: FrontendConfig | None = None) -> Frame:
        """What pictures are brought to: the task's word, or that of the model's frontend."""
        channels, height, width = (getattr(self, key) or getattr(frontend, key, None) for key in ("channels", "height", "width"))
        return Frame(channels, height, width, self.fit, self.resize, self.resample)


class StandardisedConfig(FramedConfig):
    """Base of the tasks that read pictures as numbers of mean 0 and deviation 1."""

    mean: Shares = Field((), description="mean of each channel, white being 1; by default that of the training data")
    std: Shares = Field((), description="standard deviation of each channel; by default that of the training data")
