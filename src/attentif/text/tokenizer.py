"""A tokenizer: text to ids and back.

The work is done by the `tokenizers` library; what is added here is a name for each special token, and the rule that *text is text*:
somebody who writes "[SEP]" in a review gets the letters of it, never the special token, unless the caller asks (`specials_in_text`).

A saved `tokenizer.json` is the library's own format, readable by everything that reads those.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import tokenizers

from attentif.errors import DataError, RunError, UsageError
from attentif.files import write_text

IntArray = npt.NDArray[np.int32]
FILE = "tokenizer.json"

# The special tokens of every tokenizer trained here, at ids 0, 1, 2, ...; then the names that other people's files use for the same
# part. The first name found wins, so the last ones are stand-ins: GPT-2 has one token for everything, BERT begins with [CLS].
SPECIALS: dict[str, tuple[str, ...]] = {
    "pad": ("[PAD]", "<pad>", "<|endoftext|>", "</s>"),
    "unk": ("[UNK]", "<unk>"),
    "cls": ("[CLS]", "<s>", "<|endoftext|>"),
    "sep": ("[SEP]", "</s>", "<|endoftext|>"),
    "mask": ("[MASK]", "<mask>"),
    "bos": ("[BOS]", "<s>", "<|begin_of_text|>", "<|endoftext|>", "[CLS]"),
    "eos": ("[EOS]", "</s>", "<|end_of_text|>", "<|endoftext|>", "[SEP]"),
}
SPECIAL_TOKENS = tuple(names[0] for names in SPECIALS.values())

# What stands before the first text, and after each: "cls" makes [CLS] a [SEP], and [CLS] a [SEP] b [SEP] of a pair; of a file that says
# itself what a text is framed with (<s> a </s></s> b </s>, or nothing at all), it is that.
Wrap = Literal["cls", "bos-eos", "bos", "eos", "none"]
WRAPS: dict[Wrap, tuple[str | None, str | None]] = {
    "cls": ("cls", "sep"),
    "bos-eos": ("bos", "eos"),
    "bos": ("bos", None),
    "eos": (None, "eos"),
    "none": (None, None),
}
HIDDEN = "\U0010ffff"  # no character, so that no text holds it
CHUNK = 4096  # texts given to the library at once where only ids are kept: its own record of a token takes about 100 bytes


@dataclass(frozen=True, slots=True)
class SpecialTokens:
    """The special tokens around a text, and around the two texts of a pair."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    pair: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]  # before, between and after
    marked: bool = True  # the second text of a pair, and what follows it, are segment 1

    def around(self, *, pair: bool) -> tuple[tuple[int, ...], ...]:
        return self.pair if pair else (self.before, self.after)

    @classmethod
    def from_tokenizer(cls, rust: tokenizers.Tokenizer) -> "SpecialTokens | None":
        """Read the tokens a file's post-processor adds; None if it has none."""
        if rust.post_processor is None:
            return None
        one, two = rust.encode("a"), rust.encode("a", "a")
        before, after = _split_specials(one.ids, one.sequence_ids, 1)
        first, second, third = _split_specials(two.ids, two.sequence_ids, 2)
        return cls(before, after, (first, second, third), 1 in two.type_ids)


def _split_specials(ids: list[int], owners: list[int | None], texts: int) -> list[tuple[int, ...]]:
    """Return the special tokens before, between and after the texts."""
    parts: list[list[int]] = [[] for _ in range(texts + 1)]
    place = 0
    for token, owner in zip(ids, owners, strict=True):
        if owner is None:
            parts[place].append(token)
        else:
            place = owner + 1
    return [tuple(part) for part in parts]


@dataclass(frozen=True, slots=True)
class Encoding:
    """The tokens of one text or pair of texts."""

    ids: list[int]
    segments: list[int]  # 0 in the first text and the special tokens around it, 1 in the second (0 where pairs are not told apart so)
    parts: tuple[Any, ...]  # the library's encodings, and (token, id) for each special one between them

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def tokens(self) -> list[str]:
        return [token for part in self.parts for token in (part[:1] if isinstance(part, tuple) else part.tokens)]

    @property
    def offsets(self) -> list[tuple[int, int]]:
        """Character span of each token in its own text; (0, 0) for special tokens."""
        return [span for part in self.parts for span in ([(0, 0)] if isinstance(part, tuple) else part.offsets)]


class Tokenizer:
    """Text to ids and back, with named special tokens: `pad`, `unk`, `cls`, `sep`, `mask`, `bos`, `eos`."""

    def __init__(self, rust: tokenizers.Tokenizer, special: Mapping[str, int] | None = None, ends: Iterable[int] = ()) -> None:
        """`special` maps parts to ids where names differ; `ends` are end tokens besides [EOS]."""
        rust.no_padding()  # other people's files may carry both; here they are the caller's business
        rust.no_truncation()
        rust.encode_special_tokens = True  # in the library's words: special tokens are encoded as any text
        self.rust = rust
        known = rust.get_vocab(with_added_tokens=True)
        self.vocab = max(known.values(), default=-1) + 1
        self.special = {part: known[name] for part, names in SPECIALS.items() for name in reversed(names) if name in known}
        self.special |= special or {}
        self._ends = frozenset(ends)

    def _id(self, part: str) -> int:
        if part not in self.special:
            raise UsageError(f"this tokenizer has no {SPECIALS[part][0]} token")
        return self.special[part]

    @property
    def pad(self) -> int:
        return self._id("pad")

    @property
    def unk(self) -> int | None:
        return self.special.get("unk")

    @property
    def cls(self) -> int:
        return self._id("cls")

    @property
    def sep(self) -> int:
        return self._id("sep")

    @property
    def mask(self) -> int:
        return self._id("mask")

    @property
    def bos(self) -> int:
        return self._id("bos")

    @property
    def eos(self) -> int:
        return self._id("eos")

    def id_of(self, token: str) -> int:
        """Return the id of a token."""
        number = self.rust.token_to_id(token)
        if number is None:
            raise UsageError(f"this tokenizer has no token {token!r}")
        return int(number)

    @property
    def ends(self) -> frozenset[int]:
        """Tokens that end a text; some checkpoints have several."""
        return self._ends or frozenset({self.eos})

    @cached_property
    def frame(self) -> SpecialTokens | None:
        """The special tokens that the file itself adds."""
        return SpecialTokens.from_tokenizer(self.rust)

    def frame_for(self, wrap: Wrap) -> SpecialTokens:
        """Return the special tokens that `wrap` stands for."""
        if wrap == "cls" and self.frame is not None:
            return self.frame
        before, after = ((self._id(part),) if part else () for part in WRAPS[wrap])
        return SpecialTokens(before, after, (before, after, after))

    # ------------------------------------------------------------------------------------------------------------ encoding

    def encode(self, text: str, pair: str | None = None, **options: Any) -> Encoding:
        """Encode a text or a pair, with the options of `encode_batch`."""
        return self.encode_batch([text], None if pair is None else [pair], **options)[0]

    def encode_batch(
        self,
        texts: Sequence[str],
        pairs: Sequence[str] | None = None,
        *,
        wrap: Wrap = "cls",
        max_len: int | None = None,
        specials_in_text: bool = False,
    ) -> list[Encoding]:
        """Encode texts on all cores; `max_len` counts special tokens, of a pair the longer is cut."""
        rust, frame = self._marked if specials_in_text else self._plain, self.frame_for(wrap)
        around = [[(str(self.rust.id_to_token(token)), token) for token in some] for some in frame.around(pair=pairs is not None)]
        encodings = []
        for texts_of_one in self._in_rust(rust.encode_batch, texts, pairs, frame, max_len):
            parts = tuple(part for text, after in zip(texts_of_one, around[1:], strict=True) for part in (text, *after))
            parts = (*around[0], *parts)
            ids: list[int] = [number for part in parts for number in (part[1:] if isinstance(part, tuple) else part.ids)]
            one = len(around[0]) + len(texts_of_one[0]) + len(around[1])
            encodings.append(Encoding(ids, [0] * one + [int(frame.marked)] * (len(ids) - one), parts))
        return encodings

    def ids_batch(
        self, texts: Sequence[str], pairs: Sequence[str] | None = None, *, wrap: Wrap = "cls", max_len: int | None = None
    ) -> list[IntArray]:
        """Encode to ids only, as small arrays; `segments` recovers the segments of pairs."""
        frame = self.frame_for(wrap)
        first_of, *others_of = ([*some] for some in frame.around(pair=pairs is not None))
        arrays: list[IntArray] = []
        for start in range(0, len(texts), CHUNK):
            some, others = texts[start : start + CHUNK], None if pairs is None else pairs[start : start + CHUNK]
            for found in self._in_rust(self._plain.encode_batch_fast, some, others, frame, max_len):
                ids = first_of.copy()
                for text, after in zip(found, others_of, strict=True):
                    ids += text.ids + after
                arrays.append(np.array(ids, dtype=np.int32))
        return arrays

    def segments(self, ids: IntArray) -> IntArray:
        """Return segment ids of `ids_batch(..., wrap="cls")`, by counting [SEP] before each token."""
        if not self.frame_for("cls").marked:
            return np.zeros_like(ids)
        separators = np.asarray(ids) == self.sep
        return (np.cumsum(separators) - separators).astype(np.int32)

    def _in_rust(
        self, encode: Any, texts: Sequence[str], pairs: Sequence[str] | None, frame: SpecialTokens, max_len: int | None
    ) -> Iterator[tuple[Any, ...]]:
        """Encode texts (and partners) without special tokens, truncated to the remaining room."""
        if pairs is not None and len(pairs) != len(texts):
            raise ValueError(f"{len(texts)} texts and {len(pairs)} partners")
        room = None if max_len is None else max_len - sum(map(len, frame.around(pair=pairs is not None)))
        if room is not None and room < (1 if pairs is None else 2):
            raise UsageError(f"max_len {max_len} leaves no room for text between the special tokens")
        sides = [_encode_texts(encode, side) for side in (texts, pairs) if side is not None]
        for found in zip(*sides, strict=True):
            if room is not None:
                for part, share in zip(found, _split_room(len(found[0]), len(found[1]) if len(found) > 1 else 0, room), strict=False):
                    if len(part) > share:
                        part.truncate(share)
            yield found

    @cached_property
    def _marked(self) -> tokenizers.Tokenizer:
        """A copy that recognises special tokens written in the text ("Le [MASK] est bleu")."""
        return tokenizers.Tokenizer.from_str(self.rust.to_str())

    @cached_property
    def _plain(self) -> tokenizers.Tokenizer:
        """A copy that recognises no special tokens in text; only unigram models need one."""
        if type(self.rust.model).__name__ != "Unigram":
            return self.rust
        said = json.loads(self.rust.to_str())
        special = {token["content"] for token in said["added_tokens"] if token["special"]}
        unknown = said["model"]["unk_id"]
        for number, piece in enumerate(said["model"]["vocab"]):
            if piece[0] in special and number != unknown:
                piece[0] = HIDDEN + piece[0]
        said["added_tokens"] = [token for token in said["added_tokens"] if not token["special"]]
        return tokenizers.Tokenizer.from_str(json.dumps(said))

    # ------------------------------------------------------------------------------------------------------------ decoding

    def decode(self, ids: Iterable[int], skip_special: bool = True) -> str:
        """Decode ids to text; incomplete UTF-8 becomes �."""
        return str(self.rust.decode([int(i) for i in ids], skip_special_tokens=skip_special))

    def decode_batch(self, rows: Iterable[Iterable[int]]) -> list[str]:
        return list(self.rust.decode_batch([[int(i) for i in ids] for ids in rows]))

    # --------------------------------------------------------------------------------------------------------------- files

    @cached_property
    def json(self) -> str:
        return str(self.rust.to_str(pretty=True))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the tokenizer: the same digest, the same ids."""
        return hashlib.sha256(self.json.encode()).hexdigest()

    def save(self, path: Path) -> None:
        """Write the file atomically."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, self.json + "\n")

    @classmethod
    def load(cls, path: Path) -> "Tokenizer":
        """Load a `tokenizer.json`, or the one in a run folder."""
        file = path / FILE if path.is_dir() else path
        try:
            return cls(tokenizers.Tokenizer.from_str(file.read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise RunError("no such file", file=file) from None
        except OSError as error:
            raise RunError(f"cannot be read: {error.strerror}", file=file) from None
        except Exception as error:  # the library raises bare Exception, and ValueError for text that is not UTF-8
            raise RunError(f"is not a tokenizer: {str(error).splitlines()[0]}", file=file) from None


def _encode_texts(encode: Any, texts: Sequence[str]) -> list[Any]:
    try:
        return list(encode(texts, add_special_tokens=False))
    except TypeError:
        for number, text in enumerate(texts, 1):
            if isinstance(text, str) and not _is_unicode(text):
                raise DataError(f"text {number} is not valid Unicode (half of a surrogate pair): {text[:40]!a}") from None
        raise
    except BaseException as error:  # bare Exception for a character without a token, and no Exception at all for a panic in Rust
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise DataError(f"the tokenizer cannot encode this text: {str(error).splitlines()[0]}") from None


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _split_room(first: int, second: int, room: int) -> tuple[int, int]:
    """Return the lengths two texts are truncated to: the longer is cut first."""
    if first + second <= room:
        return first, second
    half = room // 2
    if second <= half:
        return room - second, second
    return (first, room - first) if first <= room - half else (room - half, half)
