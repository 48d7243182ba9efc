"""What all kinds of tokenizer share that are learned from texts: normal forms, special tokens, training that hears Ctrl-C."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path
from threading import Event, Thread
from typing import Any, Self

from pydantic import Field, model_validator
from tokenizers import AddedToken, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Rust

from attentif.config import Config, Registry
from attentif.errors import DataError
from attentif.text.tokenizer import SPECIAL_TOKENS, Tokenizer


class TokenizerConfig(Config, ABC):
    """Where a tokenizer comes from."""

    kind: str

    @abstractmethod
    def fit(self, texts: Iterable[str]) -> Tokenizer:
        """A tokenizer learned from texts: read once, except by `wordpiece`, which reads them twice."""

    def load(self, path: Path) -> Tokenizer:
        """The tokenizer that was kept in a file."""
        return Tokenizer.load(path)


TOKENIZERS: Registry[TokenizerConfig] = Registry("tokenizer")


class Learned(TokenizerConfig):
    """What all kinds share that are learned from texts."""

    lowercase: bool = Field(False, description="write everything in lower case first")
    strip_accents: bool = Field(False, description="remove accents first: é becomes e")
    nfc: bool = Field(True, description="bring accents to their composed form first (Unicode NFC), so that é is one é however it was typed")
    special: list[str] = Field([], description="more special tokens, after " + " ".join(SPECIAL_TOKENS))

    @model_validator(mode="after")
    def _special_tokens_are_new(self) -> Self:
        seen = set(SPECIAL_TOKENS)
        for token in self.special:
            if not token.strip() or token in seen:
                raise ValueError(f"special: {token!r} is {'there already' if token in seen else 'empty'}")
            seen.add(token)
        return self

    @property
    def specials(self) -> list[str]:
        return [*SPECIAL_TOKENS, *self.special]

    def fit(self, texts: Iterable[str]) -> Tokenizer:
        return self._dressed(self._learned(texts))

    @abstractmethod
    def _learned(self, texts: Iterable[str]) -> Any:
        """The library's model, its vocabulary beginning with the special tokens."""

    @abstractmethod
    def _cutter(self) -> Any:
        """What cuts text into words, inside which the model works."""

    @abstractmethod
    def _decoder(self) -> Any:
        """What makes text of tokens again."""

    def _normalizer(self) -> Any:
        steps: list[Any] = [normalizers.NFC()] if self.nfc else []
        if self.lowercase:
            steps.append(normalizers.Lowercase())
        if self.strip_accents:
            steps += [normalizers.NFD(), normalizers.StripAccents(), normalizers.NFC()]
        return normalizers.Sequence(steps) if steps else None

    def _dressed(self, model: Any) -> Tokenizer:
        rust = Rust(model)
        for part, value in (("normalizer", self._normalizer()), ("pre_tokenizer", self._cutter()), ("decoder", self._decoder())):
            if value is not None:
                setattr(rust, part, value)
        rust.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in self.specials])
        # for those who read the file with another library: the same as `encode(..., wrap="cls")`
        rust.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[(token, rust.token_to_id(token)) for token in ("[CLS]", "[SEP]")],
        )
        return Tokenizer(rust)

    def _trained(self, model: Any, trainer: Any, texts: Iterable[str]) -> dict[str, Any]:
        """Train by the library; its model as plain data."""
        rust = Rust(model)
        if (normalizer := self._normalizer()) is not None:
            rust.normalizer = normalizer
        rust.pre_tokenizer = self._cutter()
        _train_interruptibly(rust, trainer, texts)
        return dict(json.loads(rust.to_str())["model"])


class Counted(Learned):
    """A vocabulary of a chosen size."""

    vocab: int = Field(8000, gt=0, description="size of the vocabulary, special tokens included; less where the text is too small")
    min_count: int = Field(2, ge=1, description="what is seen less often in the training text does not enter the vocabulary")

    @model_validator(mode="after")
    def _vocabulary_has_room(self) -> Self:
        fixed = self._fixed()
        if self.vocab <= fixed:
            raise ValueError(f"vocab: {self.vocab} is too small, {fixed} are taken before anything is learned")
        return self

    def _fixed(self) -> int:
        return len(self.specials)


class Digits(Counted):
    """Kinds that can be told to read numbers digit by digit."""

    split_digits: bool = Field(False, description="each digit is a token of its own, so that numbers are read digit by digit")

    def _digits(self, cutter: Any) -> Any:
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), cutter]) if self.split_digits else cutter


def _train_interruptibly(rust: Rust, trainer: Any, texts: Iterable[str]) -> None:
    """Train in a thread of its own: the library hears no Ctrl-C until it has done, which may take minutes."""
    done: Future[None] = Future()
    stopped = Event()

    def heeding() -> Iterator[str]:
        for text in not_nothing(texts):
            if stopped.is_set():
                raise InterruptedError
            yield text

    def train() -> None:
        try:
            rust.train_from_iterator(heeding(), trainer=trainer)
            done.set_result(None)
        except BaseException as error:
            done.set_exception(error)

    thread = Thread(target=train, daemon=True)
    try:
        thread.start()  # a Ctrl-C may arrive here already
        done.result()
    except BaseException:
        stopped.set()
        if thread.ident is not None:
            thread.join(1.0)  # time to stop if it is reading; what it is learning is nobody's any more
        raise


def not_nothing(texts: Iterable[str]) -> Iterator[str]:
    """The texts that are not empty; an error where there are none."""
    found = False
    for text in texts:
        if text and not text.isspace():
            found = True
            yield text
    if not found:
        raise DataError("there is no text to train a tokenizer on")
