"""Base of trainable tokenizers: normalisation, special tokens, interruptible training."""

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
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

PIECE = 4096  # characters of a sampled text that are taken or left together


class TokenizerConfig(Config, ABC):
    """Base configuration of tokenizers."""

    kind: str

    @abstractmethod
    def fit(self, texts: Iterable[str]) -> Tokenizer:
        """Train a tokenizer; texts are read once (`wordpiece`: twice)."""

    def sample_texts(self, texts: Iterable[str], say: Callable[[str], None]) -> Iterable[str]:
        """Return what of the texts it is trained on; `say` tells if that is not all."""
        return texts

    def load(self, path: Path) -> Tokenizer:
        """Load the tokenizer from a file."""
        return Tokenizer.load(path)


TOKENIZERS: Registry[TokenizerConfig] = Registry("tokenizer")


class TrainedTokenizerConfig(TokenizerConfig):
    """Options of all trainable tokenizers."""

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
        return self._build_tokenizer(self._train_model(texts))

    @abstractmethod
    def _train_model(self, texts: Iterable[str]) -> Any:
        """Train the library's model; its vocabulary starts with the special tokens."""

    @abstractmethod
    def _make_pre_tokenizer(self) -> Any:
        """Return the pre-tokenizer, which splits text into words."""

    @abstractmethod
    def _make_decoder(self) -> Any:
        """Return the decoder, which joins tokens to text."""

    def _make_normalizer(self) -> Any:
        steps: list[Any] = [normalizers.NFC()] if self.nfc else []
        if self.lowercase:
            steps.append(normalizers.Lowercase())
        if self.strip_accents:
            steps += [normalizers.NFD(), normalizers.StripAccents(), normalizers.NFC()]
        return normalizers.Sequence(steps) if steps else None

    def _build_tokenizer(self, model: Any) -> Tokenizer:
        rust = Rust(model)
        for part, value in (
            ("normalizer", self._make_normalizer()),
            ("pre_tokenizer", self._make_pre_tokenizer()),
            ("decoder", self._make_decoder()),
        ):
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

    def _train(self, model: Any, trainer: Any, texts: Iterable[str]) -> dict[str, Any]:
        """Train with the library and return its model as plain data."""
        rust = Rust(model)
        if (normalizer := self._make_normalizer()) is not None:
            rust.normalizer = normalizer
        rust.pre_tokenizer = self._make_pre_tokenizer()
        _train_interruptibly(rust, trainer, texts)
        return dict(json.loads(rust.to_str())["model"])


class VocabularyConfig(TrainedTokenizerConfig):
    """A vocabulary of a chosen size."""

    vocab: int = Field(8000, gt=0, description="size of the vocabulary, special tokens included; less where the text is too small")
    min_count: int = Field(2, ge=1, description="what is seen less often in the training text does not enter the vocabulary")
    sample: int = Field(
        1_000_000_000, gt=0, description="characters of text to learn from at most, spread evenly over all of it: memory grows with them"
    )

    def sample_texts(self, texts: Iterable[str], say: Callable[[str], None]) -> Iterable[str]:
        texts = list(texts) if isinstance(texts, Iterator) else texts
        total = sum(map(len, texts))
        if total <= self.sample:
            return texts
        say(f"the tokenizer learns from {self.sample:,} of {total:,} characters, spread evenly over the text (tokenizer.sample)")
        return _Spread(texts, self.sample, total)

    @model_validator(mode="after")
    def _vocabulary_has_room(self) -> Self:
        fixed = self._count_reserved()
        if self.vocab <= fixed:
            raise ValueError(f"vocab: {self.vocab} is too small, {fixed} are taken before anything is learned")
        return self

    def _count_reserved(self) -> int:
        return len(self.specials)


class DigitsConfig(VocabularyConfig):
    """Tokenizers that can split numbers into digits."""

    split_digits: bool = Field(False, description="each digit is a token of its own, so that numbers are read digit by digit")

    def _digits(self, cutter: Any) -> Any:
        return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), cutter]) if self.split_digits else cutter


class _Spread(Iterable[str]):
    """Pieces spread evenly over texts of `total` characters, `most` characters of them at most."""

    def __init__(self, texts: Iterable[str], most: int, total: int) -> None:
        self.texts, self.most, self.total = texts, most, total
        self.piece = max(1, min(PIECE, most // 16))

    def __iter__(self) -> Iterator[str]:
        read = taken = 0
        for text in self.texts:
            for start in range(0, len(text), self.piece):
                piece = text[start : start + self.piece]
                read += len(piece)
                if taken + len(piece) <= read * self.most // self.total:
                    taken += len(piece)
                    yield piece


def _train_interruptibly(rust: Rust, trainer: Any, texts: Iterable[str]) -> None:
    """Train in a thread: the library blocks Ctrl-C until it returns, possibly for minutes."""
    done: Future[None] = Future()
    stopped = Event()

    def stop_on_request() -> Iterator[str]:
        for text in skip_empty(texts):
            if stopped.is_set():
                raise InterruptedError
            yield text

    def train() -> None:
        try:
            rust.train_from_iterator(stop_on_request(), trainer=trainer)
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


def skip_empty(texts: Iterable[str]) -> Iterator[str]:
    """Skip empty texts; raise if there are no others."""
    found = False
    for text in texts:
        if text and not text.isspace():
            found = True
            yield text
    if not found:
        raise DataError("no text to train a tokenizer on")
