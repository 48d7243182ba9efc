"""The text of a configuration as three streams of tokens, for every model that reads one token after the other."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from attentif.data import Corpus, DataConfig, TokenStream, file_corpus, load_corpora, token_stream
from attentif.data.config import SPLITS
from attentif.data.pulse import Pulse
from attentif.tasks.feed import Again, counted, fitted
from attentif.tasks.task import Say, Tokenizers
from attentif.text import Tokenizer, TokenizerConfig

BLOCK = 1 << 22  # tokens looked through at once


@dataclass(frozen=True)
class Streams:
    """What was read, and what there is to say about it."""

    train: TokenStream
    valid: TokenStream
    test: TokenStream
    tokenizer: Tokenizer
    digest: str
    notes: list[str]


def read_streams(data: DataConfig, text: TokenizerConfig | Tokenizers, say: Say, *, blank_lines: bool = False) -> Streams:
    """Train the tokenizer on the training split, or use a run's, and make tokens of the three splits; `blank_lines` part documents."""
    corpora = load_corpora(data, blank_lines=blank_lines)
    for held_out in (corpora.valid, corpora.test):
        any(text.strip() for text in held_out.texts())  # one without text says so, before a tokenizer is trained for nothing
    say(f"reading {corpora.train.size / 1e6:,.1f} MB of text")
    tokenizer = fitted(text, "tokenizer", Again(corpora.train.texts), say)
    notes = list(corpora.notes)
    streams: dict[str, TokenStream] = {}
    for name in SPLITS:
        corpus: Corpus = getattr(corpora, name)
        streams[name] = token_stream(corpus, tokenizer, progress=_told(say, name, corpus))
        notes += [*corpus.notes, _contents(name, streams[name])]
    return Streams(**streams, tokenizer=tokenizer, digest=corpora.digest, notes=notes + _repeated(streams))


def read_stream(data: DataConfig, tokenizer: Tokenizer, say: Say, *, blank_lines: bool = False) -> TokenStream:
    """All the text of other files, to be scored."""
    corpus = file_corpus(data.files("train"), data.text, data.skip_bad, blank_lines=blank_lines)
    stream = token_stream(corpus, tokenizer, progress=_told(say, "test", corpus))
    for note in [*corpus.notes, _contents("test", stream)]:
        say(note)
    return stream


def _contents(name: str, stream: TokenStream) -> str:
    return f"{name}: {counted(stream.documents, 'document')}, {counted(len(stream), 'token')}, {stream.text_bytes:,} bytes"


def _told(say: Say, name: str, corpus: Corpus) -> Callable[[int], None]:
    """Progress of the making of tokens."""
    pulse = Pulse(say)
    return lambda done: pulse(lambda: f"making tokens of {name}: {done / 1e6:,.0f} of {corpus.size / 1e6:,.0f} MB")


def _repeated(streams: dict[str, TokenStream]) -> list[str]:
    """What to say about documents that stand in two splits."""
    notes = []
    for later, earlier in (("valid", "train"), ("test", "train"), ("test", "valid")):
        if same := int(np.isin(streams[later].contents, streams[earlier].contents).sum()):
            notes.append(f"{same:,} of {counted(streams[later].documents, f'{later} document')} are in {earlier} too")
    return notes


def flattered(test: TokenStream, tokenizer: Tokenizer) -> list[str]:
    """What to say about bits per byte where the vocabulary lacks words: who predicts "some unknown word" has not said which."""
    starts = range(0, len(test), BLOCK)
    found = sum(int((test.window(start, min(BLOCK, len(test) - start)) == tokenizer.unk).sum()) for start in starts)
    if tokenizer.unk is None or not found:
        return []
    share = f"test: {counted(found, 'token')} of {len(test):,} ({100 * found / len(test):.1f} %) {'is' if found == 1 else 'are'} unknown"
    return [
        f"{share}, and what stands there is not counted: bits per byte look better than those of a tokenizer that knows every text (bpe)"
    ]
