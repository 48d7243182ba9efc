"""The corpus of a configuration as three token streams."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from attentif.data import Corpus, DataConfig, TokenStream, file_corpus, load_corpora, token_stream
from attentif.data.config import SPLITS
from attentif.data.progress import Pulse
from attentif.tasks.base import Say
from attentif.tasks.batches import format_count
from attentif.tasks.tokenizers import Again, TokenizerSource, fit_tokenizer
from attentif.text import Tokenizer

BLOCK = 1 << 22  # tokens looked through at once


@dataclass(frozen=True)
class Streams:
    """Token streams of the three splits, their tokenizer, and notes."""

    train: TokenStream
    valid: TokenStream
    test: TokenStream
    tokenizer: Tokenizer
    digest: str
    notes: list[str]


def read_streams(data: DataConfig, text: TokenizerSource, say: Say, *, blank_lines: bool = False) -> Streams:
    """Train the tokenizer on the training split, or use a run's, and make tokens of the three splits; `blank_lines` part documents."""
    corpora = load_corpora(data, blank_lines=blank_lines)
    for held_out in (corpora.valid, corpora.test):
        any(text.strip() for text in held_out.texts())  # one without text says so, before a tokenizer is trained for nothing
    say(f"reading {corpora.train.size / 1e6:,.1f} MB of text")
    tokenizer = fit_tokenizer(text, "tokenizer", Again(corpora.train.texts), say)
    notes = list(corpora.notes)
    streams: dict[str, TokenStream] = {}
    for name in SPLITS:
        corpus: Corpus = getattr(corpora, name)
        streams[name] = token_stream(corpus, tokenizer, progress=_report_progress(say, name, corpus))
        notes += [*corpus.notes, _contents(name, streams[name])]
    return Streams(**streams, tokenizer=tokenizer, digest=corpora.digest, notes=notes + _note_repeats(streams))


def read_stream(data: DataConfig, tokenizer: Tokenizer, say: Say, *, blank_lines: bool = False) -> TokenStream:
    """Read other files as one stream, to be scored."""
    corpus = file_corpus(data.files("train"), data.text, data.skip_bad, blank_lines=blank_lines)
    stream = token_stream(corpus, tokenizer, progress=_report_progress(say, "test", corpus))
    for note in [*corpus.notes, _contents("test", stream)]:
        say(note)
    return stream


def _contents(name: str, stream: TokenStream) -> str:
    return f"{name}: {format_count(stream.documents, 'document')}, {format_count(len(stream), 'token')}, {stream.text_bytes:,} bytes"


def _report_progress(say: Say, name: str, corpus: Corpus) -> Callable[[int], None]:
    """Report the progress of tokenisation."""
    pulse = Pulse(say)
    return lambda done: pulse(lambda: f"making tokens of {name}: {done / 1e6:,.0f} of {corpus.size / 1e6:,.0f} MB")


def _note_repeats(streams: dict[str, TokenStream]) -> list[str]:
    """Notes on documents that occur in two splits."""
    notes = []
    for later, earlier in (("valid", "train"), ("test", "train"), ("test", "valid")):
        if same := int(np.isin(streams[later].contents, streams[earlier].contents).sum()):
            notes.append(f"{same:,} of {format_count(streams[later].documents, f'{later} document')} are in {earlier} too")
    return notes


def note_ends(test: TokenStream, tokenizer: Tokenizer) -> list[str]:
    """Say that the ends of documents count: other programs' perplexities may leave them out."""
    name, found = tokenizer.rust.id_to_token(tokenizer.eos), format_count(test.documents, "token")
    return [f"the scores count the {name} that ends each document like any other token ({found} of {len(test):,})"]


def note_unknown(test: TokenStream, tokenizer: Tokenizer) -> list[str]:
    """Note that unknown tokens flatter bits per byte: predicting [UNK] does not say which word."""
    starts = range(0, len(test), BLOCK)
    found = sum(int((test.window(start, min(BLOCK, len(test) - start)) == tokenizer.unk).sum()) for start in starts)
    if tokenizer.unk is None or not found:
        return []
    share = (
        f"test: {format_count(found, 'token')} of {len(test):,} ({100 * found / len(test):.1f} %) {'is' if found == 1 else 'are'} unknown"
    )
    return [
        f"{share}, and what stands there is not counted: bits per byte look better than those of a tokenizer that knows every text (bpe)"
    ]
