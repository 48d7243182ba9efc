"""How a continuation is chosen."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from attentif.decode.limits import Limits


class GenerateOptions(Limits):
    """Greedy by default; drawn with a temperature; searched with beams."""

    max_tokens: int = Field(128, gt=0, description="most tokens to write")
    temperature: float = Field(0.0, ge=0, description="how freely to draw: 0 always takes the likeliest token, 1 draws as the model says")
    top_k: int | None = Field(None, gt=0, description="draw among the k likeliest tokens")
    top_p: float | None = Field(None, gt=0, le=1, description="draw among the likeliest tokens that together have this probability")
    min_p: float | None = Field(None, ge=0, le=1, description="draw among tokens at least this probable beside the likeliest")
    repetition_penalty: float = Field(1.0, gt=0, description="above 1: tokens that are in the text already become less likely")
    beams: int = Field(1, gt=0, description="continuations searched side by side; 1: no search")
    length_penalty: float = Field(1.0, description="α of a beam's score log P / n^α: 0 favours short texts, 1 is the mean of a token")
    early_stopping: bool = Field(False, description="end a search with the first `beams` complete texts, even if a better one may follow")
    lookup: bool = Field(True, description="verify guesses copied from the text, several at once: the same tokens, sooner (one text, CPU)")
    stop: Annotated[tuple[str, ...], Field(strict=False)] = Field((), description="texts to stop before")
    seed: int | None = Field(None, ge=0, description="of the draws; by default different each time")

    @model_validator(mode="after")
    def _coherent(self) -> Self:
        filters = [name for name in ("top_k", "top_p", "min_p") if getattr(self, name) is not None]
        if self.beams > 1 and (filters or self.temperature or self.repetition_penalty != 1 or self.stop):
            raise ValueError("beam search draws nothing: it takes no temperature, top_k, top_p, min_p, repetition_penalty or stop texts")
        if filters and not self.temperature:
            raise ValueError(f"{filters[0]} narrows a draw, and temperature = 0 draws nothing: give a temperature")
        if "" in self.stop:
            raise ValueError("stop: an empty text would stop everything")
        return self
