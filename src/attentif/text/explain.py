"""What a tokenizer learned and how it splits a word, for the command line, report and studio.

`learned` gives what training found, in order: BPE's merges, or the pieces of the other kinds.
`walk` gives the cutting of a text, word by word, as the steps that the algorithm takes:

    bpe        the merge of the lowest rank among neighbours is applied, until none is left
    wordpiece  the longest known piece is taken from the left, until nothing is left
    unigram    the cut whose pieces have the highest sum of log-probabilities, beside the next best ones
    others     looked up
"""

import json
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from attentif.text.kinds import byte_symbols
from attentif.text.tokenizer import Tokenizer

BYTE_OF = {symbol: byte for byte, symbol in enumerate(byte_symbols())}
UNKNOWN_PENALTY = 10.0  # the library's: an unknown character costs this much more than the rarest piece


@dataclass(frozen=True, slots=True)
class LearnedToken:
    """A learned merge of two symbols, or a learned piece."""

    rank: int  # 0 is the first
    result: str
    pair: tuple[str, str] | None = None  # bpe
    score: float | None = None  # unigram: log-probability


@dataclass(frozen=True, slots=True)
class TokenizationStep:
    """The word after one step; `said` describes the step."""

    symbols: tuple[str, ...]
    said: str
    rank: int | None = None  # bpe: of the merge applied,
    pair: tuple[str, str] | None = None  # and what it merged


@dataclass(frozen=True, slots=True)
class Tokenization:
    """How one word is split into tokens."""

    word: str
    steps: tuple[TokenizationStep, ...]
    tokens: tuple[str, ...]


def read_model(tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the model inside `tokenizer.json`: its type, vocabulary, merges."""
    return dict(json.loads(tokenizer.json)["model"])


def is_byte_level(tokenizer: Tokenizer) -> bool:
    return '"ByteLevel"' in json.dumps(json.loads(tokenizer.json)["decoder"])


def format_token(token: str, byte_level: bool) -> str:
    """Format a token for display: spaces as ␣, line ends as ⏎, incomplete bytes as ⟨E9⟩."""
    if byte_level and all(symbol in BYTE_OF for symbol in token):
        raw = bytes(BYTE_OF[symbol] for symbol in token)
        token = raw.decode("utf-8", errors="surrogateescape")
    return "".join(_format_character(character) for character in token)


def _format_character(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # where Python puts bytes that it could not decode
        return f"⟨{code - 0xDC00:02X}⟩"
    shown = {" ": "␣", "▁": "␣", "\n": "⏎", "\t": "⇥"}.get(character, character)
    return shown if shown.isprintable() else f"⟨{code:02X}⟩"


def list_learned(tokenizer: Tokenizer, count: int = 20) -> list[LearnedToken]:
    """Return the first `count` learned merges or pieces, in order."""
    model = read_model(tokenizer)
    if model["type"] == "BPE":
        pairs = [tuple(pair.split(" ")) if isinstance(pair, str) else tuple(pair) for pair in model["merges"][:count]]
        return [LearnedToken(rank, left + right, (left, right)) for rank, (left, right) in enumerate(pairs)]
    known = set(tokenizer.rust.get_added_tokens_decoder())
    vocab = model["vocab"]
    if isinstance(vocab, list):  # unigram: pieces with their score
        pieces = [(piece, score) for number, (piece, score) in enumerate(vocab) if number not in known and not _is_byte(piece)]
        return [LearnedToken(rank, piece, score=score) for rank, (piece, score) in enumerate(pieces[:count])]
    words = sorted((token for token, number in vocab.items() if number not in known), key=vocab.__getitem__)
    if model["type"] == "WordPiece":  # its letters were not learned: they were there before the first merge
        words = [word for word in words if len(word.removeprefix("##")) > 1]
    return [LearnedToken(rank, word) for rank, word in enumerate(words[:count])]


def walk(tokenizer: Tokenizer, text: str) -> list[Tokenization]:
    """Split each word of a text, with all steps."""
    model = read_model(tokenizer)
    rust = tokenizer.rust
    normal = rust.normalizer.normalize_str(text) if rust.normalizer else text
    words = [word for word, _ in rust.pre_tokenizer.pre_tokenize_str(normal)] if rust.pre_tokenizer else [normal]
    if model["type"] == "BPE":
        ranks = {tuple(pair.split(" ")) if isinstance(pair, str) else tuple(pair): rank for rank, pair in enumerate(model["merges"])}
        return [_walk_bpe(word, ranks) for word in words]
    if model["type"] == "WordPiece":
        return [_walk_wordpiece(word, model) for word in words]
    if model["type"] == "Unigram":
        scores = dict(model["vocab"])
        return [_walk_unigram(word, scores) for word in words]
    return [_walk_lookup(word, model) for word in words]


def _walk_bpe(word: str, ranks: dict[tuple[str, ...], int]) -> Tokenization:
    symbols = list(word)
    steps = [TokenizationStep(tuple(symbols), "one symbol a byte")]
    while len(symbols) > 1:
        rank, place = min((ranks.get(pair, len(ranks)), place) for place, pair in enumerate(pairwise(symbols)))
        if rank == len(ranks):
            break
        left, right = symbols[place : place + 2]
        symbols[place : place + 2] = [left + right]
        steps.append(TokenizationStep(tuple(symbols), f"merge {rank + 1}", rank, (left, right)))
    return Tokenization(word, tuple(steps), tuple(symbols))


def _walk_wordpiece(word: str, model: dict[str, Any]) -> Tokenization:
    vocab, prefix = model["vocab"], model["continuing_subword_prefix"]
    unknown = Tokenization(
        word, (TokenizationStep((model["unk_token"],), "no known piece fits: the whole word is unknown"),), (model["unk_token"],)
    )
    if len(word) > model["max_input_chars_per_word"]:
        return unknown
    taken: list[str] = []
    steps = [TokenizationStep((word,), "the whole word")]
    start = 0
    while start < len(word):
        lead = prefix if start else ""
        stop = next((stop for stop in range(len(word), start, -1) if lead + word[start:stop] in vocab), None)
        if stop is None:
            return unknown
        taken.append(lead + word[start:stop])
        start = stop
        rest = (f"{prefix}{word[start:]}",) if start < len(word) else ()
        steps.append(TokenizationStep((*taken, *rest), f"the longest known piece is {taken[-1]!r}"))
    return Tokenization(word, tuple(steps), tuple(taken))


def _walk_unigram(word: str, scores: dict[str, float], best: int = 4) -> Tokenization:
    """Return the `best` segmentations, from the left; the first is Viterbi's."""
    unknown = min(scores.values()) - UNKNOWN_PENALTY
    longest = max(map(len, scores))
    ways: list[list[tuple[float, tuple[str, ...]]]] = [[(0.0, ())]]
    for stop in range(1, len(word) + 1):
        found = []
        for start in range(max(0, stop - longest), stop):
            piece = word[start:stop]
            score = scores.get(piece, unknown if len(piece) == 1 else None)
            if score is not None:
                found += [(before + score, (*pieces, piece)) for before, pieces in ways[start]]
        ways.append(sorted(found, key=lambda way: -way[0])[:best])
    steps = [TokenizationStep(pieces, f"log-probability {total:.2f}") for total, pieces in ways[-1]]
    return Tokenization(word, tuple(steps), ways[-1][0][1])


def _walk_lookup(word: str, model: dict[str, Any]) -> Tokenization:
    token = word if word in model["vocab"] else model["unk_token"]
    return Tokenization(word, (TokenizationStep((token,), "known" if token == word else "not in the vocabulary"),), (token,))


def _is_byte(piece: str) -> bool:
    return len(piece) == 6 and piece.startswith("<0x") and piece.endswith(">")
