"""Token shards: a corpus of any size as ids on disk, read back through the memory map.

A folder of the cache, named by the content of the corpus and of the tokenizer, holds

    00000.bin, 00001.bin, ...   ids, little-endian, 16 bits where the vocabulary allows it, else 32
    documents.bin               64 bits of a hash of each document
    manifest.json               sizes and SHA-256 of each, and what was counted on the way

Documents follow one another, each ended by [EOS]. The folder is written under another name and renamed when it is whole, so that a
killed run leaves nothing half-made and two runs at once do not disturb each other; a damaged one is set aside and made again.
"""

import hashlib
import json
import os
import shutil
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
import numpy.typing as npt

from attentif.data.corpus import Corpus, Piece
from attentif.data.table import digest_of
from attentif.errors import DataError, RunError
from attentif.files import cache_folder
from attentif.text import Tokenizer
from attentif.text.encoder_pool import count_cores, encode_batches

FORMAT = "2"  # of the shards; part of their folder's name
SHARD = 1 << 25  # tokens in a shard
BATCH = 64  # blocks of 64 Ki characters encoded at once
WORTH = 1 << 24  # bytes of text for which another process is worth starting
STALE = 24 * 3600  # seconds after which an unfinished folder is taken as left behind by a killed run

Tokens = npt.NDArray[np.unsignedinteger[Any]]  # 16 or 32 bits
Progress = Callable[[int], None]  # called with the bytes of text done so far


class TokenStream:
    """All the tokens of a corpus, end to end."""

    def __init__(self, shards: Sequence[Tokens], contents: npt.NDArray[np.uint64], text_bytes: int) -> None:
        self._shards = shards
        self._starts = [0, *accumulate(len(shard) for shard in shards)]
        self.contents = contents  # a hash of each document
        self.text_bytes = text_bytes  # of the text that the tokens stand for, in UTF-8: for bits per byte

    def __len__(self) -> int:
        return self._starts[-1]

    @property
    def documents(self) -> int:
        return len(self.contents)

    def window(self, start: int, length: int) -> Tokens:
        """`length` tokens from `start` on, a copy."""
        stop = start + length
        if not 0 <= start <= stop <= len(self):
            raise IndexError(f"tokens {start} to {stop} of {len(self)}")
        parts = []
        for shard in range(bisect_right(self._starts, start) - 1, len(self._shards)):
            low, high = self._starts[shard], self._starts[shard + 1]
            if low >= stop:
                break
            parts.append(self._shards[shard][max(start - low, 0) : min(stop, high) - low])
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.uint16)


def token_stream(
    corpus: Corpus, tokenizer: Tokenizer, *, cache: Path | None = None, progress: Progress | None = None, processes: int = 0
) -> TokenStream:
    """The corpus in tokens: from the cache where it is there, whole and sound; else made by `processes` (0: as many as cores, where it is
    large), and kept there."""
    key = digest_of([FORMAT, corpus.digest, tokenizer.digest])[:32]
    folder = (cache or cache_folder()) / "shards" / key
    if (stream := _open_folder(folder)) is None:
        try:
            _make(corpus, tokenizer, folder, progress, processes or max(1, min(count_cores(), corpus.size // WORTH)))
        except OSError as error:
            way_out = "make room, or set ATTENTIF_CACHE to another folder"
            raise RunError(f"the token cache cannot be written: {error.strerror or error}; {way_out}", file=folder.parent) from None
        stream = _open_folder(folder)
    if stream is None:
        raise RunError("the token cache was damaged as soon as it was written; is the disk sound?", file=folder)
    return stream


def _open_folder(folder: Path) -> TokenStream | None:
    """The shards of a folder; None where there are none, or damaged ones, which are set aside."""
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        shards = [_map_array(folder, entry, manifest["dtype"]) for entry in manifest["shards"]]
        return TokenStream(shards, _map_array(folder, manifest["documents"], "<u8"), manifest["text_bytes"])
    except (OSError, ValueError, KeyError, TypeError):
        _set_aside(folder)
        return None


def _map_array(folder: Path, entry: dict[str, Any], dtype: str) -> npt.NDArray[Any]:
    file = folder / entry["file"]
    if _sha256(file) != entry["sha256"]:
        raise ValueError(f"{file} is damaged")
    return np.memmap(file, dtype=np.dtype(dtype), mode="r")


def _make(corpus: Corpus, tokenizer: Tokenizer, folder: Path, progress: Progress | None, processes: int) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    _sweep(folder.parent)
    temporary = folder.parent / f".{folder.name}.{uuid4().hex}"
    temporary.mkdir()
    try:
        _write(corpus, tokenizer, temporary, progress, processes)
        try:
            os.rename(temporary, folder)
        except OSError:
            if not folder.is_dir():  # else another process was faster, with the same content
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write(corpus: Corpus, tokenizer: Tokenizer, folder: Path, progress: Progress | None, processes: int) -> None:
    dtype = np.dtype("<u2" if tokenizer.vocab <= 1 << 16 else "<u4")
    eos = np.array([tokenizer.eos], dtype=dtype).tobytes()
    text_bytes, content, contents = 0, hashlib.blake2b(digest_size=8), bytearray()
    shards: list[dict[str, Any]] = []
    waiting: list[bytes] = []
    held = 0  # bytes of `waiting`

    def flush() -> None:
        nonlocal held
        if held:
            shards.append(_write_shard(waiting, folder / f"{len(shards):05}.bin"))
            waiting.clear()
            held = 0

    for pieces, encoded in encode_batches(_batches(corpus), tokenizer, dtype, processes):
        parts: list[bytes] = []
        for ids, (text, ends) in zip(encoded, pieces, strict=True):
            parts.append(ids)
            raw = text.encode()
            text_bytes += len(raw)
            content.update(raw)
            if ends:
                parts.append(eos)
                contents += content.digest()
                content = hashlib.blake2b(digest_size=8)
        waiting.append(b"".join(parts))
        held += len(waiting[-1])
        if held >= SHARD * dtype.itemsize:
            flush()
        if progress:
            progress(text_bytes)
    flush()
    if not shards:
        raise DataError("no text to tokenize")
    documents = _write_shard([bytes(contents)], folder / "documents.bin")
    manifest = {"dtype": dtype.str, "text_bytes": text_bytes, "documents": documents, "shards": shards}
    _write_synced(folder / "manifest.json", [(json.dumps(manifest, indent=1) + "\n").encode()])


def _batches(corpus: Corpus) -> Iterator[list[Piece]]:
    """Pieces by the dozen; short documents by the thousand, so that each call has enough to share out."""
    pieces: list[Piece] = []
    characters = 0
    for piece in corpus:
        pieces.append(piece)
        characters += len(piece[0])
        if characters >= BATCH << 16:
            yield pieces
            pieces, characters = [], 0
    if pieces:
        yield pieces


def _write_shard(parts: Sequence[bytes], file: Path) -> dict[str, Any]:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    _write_synced(file, parts)
    return {"file": file.name, "bytes": sum(map(len, parts)), "sha256": digest.hexdigest()}


def _write_synced(file: Path, parts: Sequence[bytes]) -> None:
    with file.open("wb") as out:
        out.writelines(parts)
        out.flush()
        os.fsync(out.fileno())


def _sha256(file: Path) -> str:
    with file.open("rb") as raw:
        return hashlib.file_digest(raw, "sha256").hexdigest()


def _set_aside(folder: Path) -> None:
    """Rename first, then remove: another process may be reading it."""
    doomed = folder.parent / f".{folder.name}.{uuid4().hex}"
    try:
        os.rename(folder, doomed)
    except OSError:
        return  # not there, or somebody else was faster
    shutil.rmtree(doomed, ignore_errors=True)


def _sweep(parent: Path) -> None:
    """Remove what killed runs left behind."""
    for left in parent.glob(".*"):
        try:
            stale = time.time() - left.stat().st_mtime > STALE
        except OSError:
            continue
        if stale:
            shutil.rmtree(left, ignore_errors=True)
