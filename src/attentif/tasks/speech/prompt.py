"""What a decoder is told before it writes a transcript (Whisper, Radford et al. 2022, section 2.3):

    <|startoftranscript|> <|fr|> <|transcribe|> <|notimestamps|>          first, language, task, last

Where the language is not said, it is heard: the likeliest of the languages after the first token.
"""

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from attentif.config import Config, did_you_mean, problems_of
from attentif.decode.session import Session
from attentif.errors import UsageError
from attentif.models import Input, Model, eval_mode
from attentif.text import Tokenizer


class OpeningConfig(Config):
    """The tokens before a transcript: first, language, task, last."""

    first: list[str] = Field(description="first tokens of the prompt")
    languages: list[str] = Field([], description="languages of the model: en, fr ... for <|en|>, <|fr|>")
    language: str | None = Field(None, description="language of the sounds; by default detected for each")
    tasks: list[str] = Field([], description="tasks of the model: transcribe, translate")
    task: str | None = Field(None, description="one of `tasks`")
    last: list[str] = Field([], description="last tokens of the prompt: <|notimestamps|>")

    @model_validator(mode="after")
    def _check_options(self) -> Self:
        for key, value, known in (("language", self.language, self.languages), ("task", self.task, self.tasks)):
            if value is not None and value not in known:
                there = f"there are {', '.join(known[:10])}{' ...' if len(known) > 10 else ''}" if known else "this model has none"
                raise ValueError(f"{key}: {value!r} is not known{did_you_mean(value, known)} ({there})")
        return self

    @property
    def listens(self) -> bool:
        """Whether the language is to be heard."""
        return bool(self.languages) and self.language is None

    def override(self, language: str | None = None, task: str | None = None) -> "OpeningConfig":
        """The same with another language or task; a wrong one is a UsageError."""
        try:
            return type(self).model_validate(
                self.model_dump() | ({"language": language} if language else {}) | ({"task": task} if task else {})
            )
        except ValidationError as error:
            raise UsageError(problems_of(error, type(self))[0][1]) from None

    def ids(self, tokenizer: Tokenizer) -> list[int]:
        said = [mark_token(word) for word in (self.language, self.task) if word is not None]
        return [tokenizer.id_of(token) for token in (*self.first, *said, *self.last)]


def mark_token(word: str) -> str:
    return f"<|{word}|>"


def build_prompts(opening: OpeningConfig | None, model: Model, tokenizer: Tokenizer, source: Input) -> list[list[int]]:
    """The tokens that each transcript begins with."""
    rows = source.seq.batch
    if opening is None:
        return [[tokenizer.bos]] * rows
    if not opening.listens:
        return [opening.ids(tokenizer)] * rows
    tokens = [tokenizer.id_of(mark_token(language)) for language in opening.languages]
    first = [tokenizer.id_of(token) for token in opening.first]
    with eval_mode(model):
        scores = Session(model, [first] * rows, 1, source).logits[:, tokens]
    return [opening.override(opening.languages[place]).ids(tokenizer) for place in scores.argmax(-1).tolist()]


def transcript_ids(opening: OpeningConfig | None, tokenizer: Tokenizer, texts: Sequence[str]) -> list[NDArray[np.int32]]:
    """Targets: [BOS] y [EOS], or the opening in the place of [BOS]."""
    if opening is None:
        return tokenizer.ids_batch(texts, wrap="bos-eos")
    first = opening.ids(tokenizer)
    return [np.array([*first, *ids, tokenizer.eos], dtype=np.int32) for ids in tokenizer.ids_batch(texts, wrap="none")]
