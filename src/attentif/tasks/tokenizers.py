"""Sources of tokenizers: those of a run, or new ones trained on the training split."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from attentif.errors import ConfigError
from attentif.text import Tokenizer, TokenizerConfig

Tokenizers = Mapping[str, Tokenizer]  # "tokenizer", and "target" where the target has its own


class Again(Iterable[str]):
    """Texts that can be iterated over repeatedly without being held in memory: `Again(corpus.texts)`."""

    def __init__(self, start: Callable[[], Iterator[str]]) -> None:
        self._start = start

    def __iter__(self) -> Iterator[str]:
        return self._start()


@dataclass(frozen=True)
class TextRecorder:
    """A tokenizer source that records the training texts for a first stage; `more` texts train the tokenizer alone."""

    source: TokenizerConfig | Tokenizers
    more: Iterable[str] = ()
    texts: list[Iterable[str]] = field(default_factory=list)  # one for each tokenizer that was asked for


TokenizerSource = TokenizerConfig | Tokenizers | TextRecorder


def fit_tokenizer(source: TokenizerSource, name: str, texts: Iterable[str], say: Callable[[str], None]) -> Tokenizer:
    """Return the run's own tokenizer of that name, or train one on these texts."""
    if isinstance(source, TextRecorder):
        source.texts.append(texts)
        return fit_tokenizer(source.source, name, Again(lambda: chain(texts, source.more)), say)
    if isinstance(source, Mapping):
        if name not in source:
            raise ConfigError(f"model.from: that run has no tokenizer of its own for the {name}: it cannot be begun with here")
        return source[name]
    say(f"training the {source.kind} tokenizer")
    return source.fit(source.sample_texts(texts, say))
