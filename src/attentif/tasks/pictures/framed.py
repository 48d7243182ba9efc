"""What tasks with pictures share: the size and the colours that pictures are brought to, and the scale of their numbers."""

from typing import Annotated, Literal

from pydantic import Field

from attentif.data.images import Fit, Frame
from attentif.errors import ConfigError
from attentif.models.frontends import FrontendConfig
from attentif.tasks.task import TaskConfig

Shares = Annotated[tuple[float, ...], Field(strict=False)]


class FramedConfig(TaskConfig):
    """Base of the tasks that bring pictures to one size."""

    height: int | None = Field(None, gt=0, description="pixels that pictures are brought to; by default their own, if all have the same")
    width: int | None = Field(None, gt=0, description="the same across")
    channels: Literal[1, 3] | None = Field(None, description="1: grey, 3: colour; by default colour where any picture has some")
    fit: Fit = Field("crop", description="where sides have another ratio: crop the longer, pad the shorter, or stretch")

    def check_frame(self) -> None:
        if (self.height is None) != (self.width is None):
            raise ConfigError("task: height and width go together")

    def frame(self, frontend: FrontendConfig | None = None) -> Frame:
        """What pictures are brought to: the task's word, or that of the model's frontend."""
        sizes = {key: getattr(self, key) or getattr(frontend, key, None) for key in ("channels", "height", "width")}
        return Frame(**sizes, fit=self.fit)


class StandardisedConfig(FramedConfig):
    """Base of the tasks that read pictures as numbers of mean 0 and deviation 1."""

    mean: Shares = Field((), description="subtracted from each channel, white being 1; by default the mean of the training data")
    std: Shares = Field((), description="what each channel is then divided by; by default the deviation of the training data")
