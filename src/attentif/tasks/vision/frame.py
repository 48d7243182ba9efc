"""What tasks with pictures share: the size and the colours that pictures are brought to, and the scale of their numbers."""

from typing import Annotated, Literal

from pydantic import Field

from attentif.data.images import Fit, Frame
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

    def check_frame(self) -> None:
        if (self.height is None) != (self.width is None):
            raise ConfigError("task: height and width go together")

    def frame(self, frontend: FrontendConfig | None = None) -> Frame:
        """What pictures are brought to: the task's word, or that of the model's frontend."""
        channels, height, width = (getattr(self, key) or getattr(frontend, key, None) for key in ("channels", "height", "width"))
        return Frame(channels, height, width, self.fit)


class StandardisedConfig(FramedConfig):
    """Base of the tasks that read pictures as numbers of mean 0 and deviation 1."""

    mean: Shares = Field((), description="mean of each channel, white being 1; by default that of the training data")
    std: Shares = Field((), description="standard deviation of each channel; by default that of the training data")
