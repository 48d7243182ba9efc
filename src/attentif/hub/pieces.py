"""A SentencePiece `.model`: its pieces with their scores, read from the bytes of the file, and written.

The file is one message of Protocol Buffers: a run of fields, each a key (number · 8 + how it is written) and a value. Of the hundred
fields that there are, these are read:

    1 piece        { 1 text, 2 score, 3 type }                            again and again, one for each id
    2 training     { 3 algorithm, 35 bytes for unknown characters }
    3 normaliser   { 2 the compiled table of characters }
"""

import math
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from attentif.errors import RunError
from attentif.files import replace_atomically

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5  # how a value is written
UNIGRAM, BPE = 1, 2
TIKTOKEN = re.compile(rb"[A-Za-z0-9+/]+={0,2} \d+\r?\n")  # the first line of another kind of file with the same name


class PieceKind(IntEnum):
    """What a piece is for."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3  # <s>, </s>: never found in a text
    USER = 4  # found in a text before anything else
    UNUSED = 5
    BYTE = 6  # <0x0A>


@dataclass(frozen=True, slots=True)
class Piece:
    """A token of the vocabulary; its id is its place."""

    text: str
    score: float
    kind: PieceKind


@dataclass(frozen=True, slots=True)
class Pieces:
    """What a `.model` says."""

    pieces: list[Piece]
    algorithm: int  # UNIGRAM or BPE
    byte_fallback: bool  # unknown characters are spelt in bytes
    characters: bytes  # the compiled table that brings text to one form (NFKC and the like); nothing: text is left alone
    ranked: bool = False  # merges are in the order of the scores, not of the ids

    @property
    def scores(self) -> list[tuple[str, float]]:
        return [(piece.text, piece.score) for piece in self.pieces]

    def merges(self) -> list[tuple[str, str]]:
        """The merges that BPE must have learned: every way to make a piece of two others, the lowest id first.

        What no text can contain (control pieces, bytes) is no merge, though its letters may be pieces.
        """
        known = {piece.text for piece in self.pieces}
        ordered = sorted(self.pieces, key=lambda piece: -piece.score) if self.ranked else self.pieces
        merged = [piece.text for piece in ordered if piece.kind in (PieceKind.NORMAL, PieceKind.USER)]
        return [
            (text[:place], text[place:])
            for text in merged
            for place in range(1, len(text))
            if text[:place] in known and text[place:] in known
        ]


def read_pieces(path: Path) -> Pieces:
    """A whole `.model`; anything else is one honest line."""
    try:
        return _check(path, path.read_bytes())
    except FileNotFoundError:
        raise RunError("no such file", file=path) from None
    except OSError as error:
        raise RunError(f"cannot be read: {error.strerror}", file=path) from None


def write_pieces(path: Path, found: Pieces) -> None:
    """A `.model` that SentencePiece reads: the rest is as its trainer leaves it (a blank before every text, no doubled ones)."""
    pieces = (
        _encode_field(1, _encode_field(1, piece.text.encode()) + _key(2, FIXED32) + struct.pack("<f", piece.score) + _number(3, piece.kind))
        for piece in found.pieces
    )
    training = _number(3, found.algorithm) + (_number(35, 1) if found.byte_fallback else b"")
    with replace_atomically(path) as temporary:
        temporary.write_bytes(b"".join(pieces) + _encode_field(2, training) + _encode_field(3, _encode_field(2, found.characters)))


def _key(number: int, written: int) -> bytes:
    return _as_varint(number << 3 | written)


def _number(number: int, value: int) -> bytes:
    return _key(number, VARINT) + _as_varint(value)


def _encode_field(number: int, value: bytes) -> bytes:
    return _key(number, BYTES) + _as_varint(len(value)) + value


def _as_varint(value: int) -> bytes:
    groups = [value >> shift & 0x7F for shift in range(0, max(value.bit_length(), 1), 7)]
    return bytes([*(group | 0x80 for group in groups[:-1]), groups[-1]])


def _check(path: Path, data: bytes) -> Pieces:
    if TIKTOKEN.match(data):
        raise RunError("is a list of tokens (tiktoken), not a SentencePiece model: its tokenizer.json is needed", file=path)
    try:
        found = _model(data)
    except (ValueError, IndexError, TypeError, struct.error):
        raise RunError("is damaged: not a whole SentencePiece model", file=path) from None
    if not found.pieces or not all(math.isfinite(piece.score) for piece in found.pieces):
        raise RunError("is damaged: it holds no pieces, or scores that are no numbers", file=path)
    if found.algorithm not in (UNIGRAM, BPE):
        raise RunError("is a SentencePiece model of words or characters; unigram and BPE are read", file=path)
    if len({piece.text for piece in found.pieces}) < len(found.pieces):
        raise RunError("is damaged: it holds a piece twice", file=path)
    return found


def _model(data: bytes) -> Pieces:
    pieces: list[Piece] = []
    algorithm, byte_fallback, characters = UNIGRAM, False, b""
    for number, value in _fields(data):
        if number == 1:
            own = dict(_fields(_bytes(value)))
            (score,) = struct.unpack("<f", _bytes(own.get(2, bytes(4))))
            pieces.append(Piece(_bytes(own[1]).decode() if 1 in own else "", score, PieceKind(int(own.get(3, PieceKind.NORMAL)))))
        elif number == 2:
            training = dict(_fields(_bytes(value)))
            algorithm, byte_fallback = int(training.get(3, UNIGRAM)), bool(training.get(35, 0))
        elif number == 3:
            characters = _bytes(dict(_fields(_bytes(value))).get(2, b""))
    return Pieces(pieces, algorithm, byte_fallback, characters)


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message: whole numbers, or bytes for everything else."""
    place, end = 0, len(data)
    while place < end:
        key, place = _varint(data, place)
        number, written = key >> 3, key & 7
        if written == VARINT:
            value, place = _varint(data, place)
            yield number, value
            continue
        if written == BYTES:
            size, place = _varint(data, place)
        elif written in (FIXED32, FIXED64):
            size = 4 if written == FIXED32 else 8
        else:
            raise ValueError("a field of no known kind")
        if place + size > end:
            raise ValueError("a field that ends behind the file")
        yield number, data[place : place + size]
        place += size


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """A whole number, seven bits a byte, the lowest first; and the place behind it."""
    if (value := data[place]) < 0x80:  # nearly all of them
        return value, place + 1
    value = 0
    for shift in range(0, 70, 7):
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
    raise ValueError("a number of too many bytes")


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise TypeError("a number where bytes belong")
    return value
