"""The kinds of tokenizer and how each is trained.

| kind      | a token is                            | learned by                                                 | text comes back    |
|-----------|---------------------------------------|------------------------------------------------------------|--------------------|
| bpe       | a run of bytes                        | merging the most frequent pair, again and again            | exactly            |
| wordpiece | a word's beginning, or ##continuation | merges too; a word is then cut longest piece first         | but for spaces     |
| unigram   | a piece with a probability            | dropping, of many pieces, those the likelihood misses least | but for odd spaces |
| word      | a word or a punctuation mark          | counting                                                   | known words        |
| char      | a character                           | counting                                                   | known characters   |
| byte      | a byte                                | nothing to learn                                           | exactly            |
| given     | whatever its maker decided            | somebody else, with the model that it came with            | it depends         |

Sennrich et al. 2016 (BPE), Radford et al. 2019 (on bytes), Schuster & Nakajima 2012, Devlin et al. 2019 (WordPiece), Kudo 2018 (unigram).
"Exactly" is up to Unicode normalisation: é typed as e + accent becomes é unless `nfc = false`. Training gives the same tokenizer from
the same text, whatever the number of threads: where the library leaves something to chance, it is put in order here.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field
from tokenizers import Regex, decoders, models, pre_tokenizers, trainers

from attentif.errors import ConfigError, RunError
from attentif.text.learned import TOKENIZERS, DigitsConfig, TokenizerConfig, TrainedTokenizerConfig, VocabularyConfig, skip_empty
from attentif.text.tokenizer import SPECIAL_TOKENS, Tokenizer

UNKNOWN = "[UNK]"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]  # the library's names for bytes that stand in for an unknown character
MARK = r"(?!(?<=\p{L})-(?=\p{L}))[!-/:-@\[-`{-~\p{P}]"  # what BertPreTokenizer cuts out, but for a hyphen between letters
MOST_CHARACTERS = 1000  # of WordPiece's alphabet: rarer ones are unknown, or a page of Chinese would fill the vocabulary


@TOKENIZERS.register
class BPE(DigitsConfig):
    """Byte-pair encoding: merges learned in order, on bytes, so that no text is unknown."""

    kind: Literal["bpe"] = Field("bpe", description="byte-pair encoding: merges learned in order, on bytes")

    def _count_reserved(self) -> int:
        return len(self.specials) + 256

    def _make_pre_tokenizer(self) -> Any:
        return self._digits(pre_tokenizers.ByteLevel(add_prefix_space=False))

    def _make_decoder(self) -> Any:
        return decoders.ByteLevel()

    def _train_model(self, texts: Iterable[str]) -> Any:
        trainer = trainers.BpeTrainer(
            vocab_size=self.vocab,
            min_frequency=self.min_count,
            special_tokens=self.specials,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        model = self._train(models.BPE(), trainer, texts)
        return models.BPE(vocab=model["vocab"], merges=[tuple(pair) for pair in model["merges"]])


@TOKENIZERS.register
class Byte(TrainedTokenizerConfig):
    """Bytes: 256 symbols, nothing to learn, long sequences."""

    kind: Literal["byte"] = Field("byte", description="bytes: 256 symbols, nothing to learn")

    def _make_pre_tokenizer(self) -> Any:
        return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)

    def _make_decoder(self) -> Any:
        return decoders.ByteLevel()

    def _train_model(self, texts: Iterable[str]) -> Any:
        return models.BPE(vocab=_enumerate_tokens([*self.specials, *byte_symbols()]), merges=[])


@TOKENIZERS.register
class WordPiece(DigitsConfig):
    """WordPiece: BERT's tokens, `anti ##constitution ##nel`."""

    kind: Literal["wordpiece"] = Field("wordpiece", description="WordPiece: BERT's tokens")

    def _make_pre_tokenizer(self) -> Any:
        return self._digits(pre_tokenizers.BertPreTokenizer())

    def _make_decoder(self) -> Any:
        return _make_word_decoder("##")

    def _train_model(self, texts: Iterable[str]) -> Any:
        # The library numbers the continuations ##a, ##b, ... in the order of a hash table, and breaks ties by number: another
        # vocabulary at each run. Named beforehand, as if they were special tokens, they have the same numbers each time.
        texts = list(texts) if isinstance(texts, Iterator) else texts
        alphabet = self._alphabet(texts)
        trainer = trainers.WordPieceTrainer(
            vocab_size=self.vocab,
            min_frequency=self.min_count,
            special_tokens=[*self.specials, *(f"##{c}" for c in alphabet)],
            initial_alphabet=alphabet,
            limit_alphabet=len(alphabet),
            show_progress=False,
        )
        model = self._train(models.WordPiece(unk_token=UNKNOWN), trainer, texts)
        return models.WordPiece(vocab=model["vocab"], unk_token=UNKNOWN, max_input_chars_per_word=100)

    def _alphabet(self, texts: Iterable[str]) -> list[str]:
        """Return the most frequent characters, within a quarter of the vocabulary (a and ##a each)."""
        normalizer = self._make_normalizer()
        counts: Counter[str] = Counter()
        for text in skip_empty(texts):
            counts.update(normalizer.normalize_str(text) if normalizer else text)
        often = sorted((c for c in counts if not c.isspace()), key=lambda c: (-counts[c], c))
        return sorted(often[: min(MOST_CHARACTERS, max(1, (self.vocab - self._count_reserved()) // 4))])


@TOKENIZERS.register
class Unigram(DigitsConfig):
    """Unigram: the likeliest cut under a probability for each piece."""

    kind: Literal["unigram"] = Field("unigram", description="the likeliest cut under a probability for each piece")
    byte_fallback: bool = Field(True, description="spell unknown characters in bytes (256 more tokens) instead of [UNK]")

    def _count_reserved(self) -> int:
        return len(self.specials) + 256 * self.byte_fallback

    def _make_pre_tokenizer(self) -> Any:
        lines = pre_tokenizers.Split("\n", behavior="isolated")
        spaces = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first")
        return self._digits(pre_tokenizers.Sequence([lines, spaces]))

    def _make_decoder(self) -> Any:
        spaces = decoders.Metaspace(replacement="▁", prepend_scheme="first")
        return decoders.Sequence([decoders.ByteFallback(), spaces, decoders.Fuse()]) if self.byte_fallback else spaces

    def _train_model(self, texts: Iterable[str]) -> Any:
        trainer = trainers.UnigramTrainer(
            vocab_size=self.vocab - (self._count_reserved() - len(self.specials)),
            special_tokens=self.specials,
            unk_token=UNKNOWN,
            show_progress=False,
        )
        model = self._train(models.Unigram(), trainer, texts)
        pieces = _sort_pieces([(piece, score) for piece, score in model["vocab"] if piece not in self.specials])
        lowest = min((score for _, score in pieces), default=0.0)
        spelt = [(byte, lowest - 10.0) for byte in BYTES] if self.byte_fallback else []
        vocab = [*((token, 0.0) for token in self.specials), *spelt, *pieces]
        return models.Unigram(vocab, SPECIAL_TOKENS.index(UNKNOWN), self.byte_fallback)


@TOKENIZERS.register
class Word(DigitsConfig):
    """Words and punctuation marks, the most frequent ones; the others are [UNK]."""

    kind: Literal["word"] = Field("word", description="words and punctuation marks, the most frequent ones")
    hyphens: bool = Field(False, description="a hyphen between letters stays in its word: gratte-ciel, but dit-il too")

    def _make_pre_tokenizer(self) -> Any:
        spaces, marks = pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex(MARK), behavior="isolated")
        return self._digits(pre_tokenizers.Sequence([spaces, marks]) if self.hyphens else pre_tokenizers.BertPreTokenizer())

    def _make_decoder(self) -> Any:
        return _make_word_decoder("\0")  # no word begins so: nothing is glued

    def _train_model(self, texts: Iterable[str]) -> Any:
        return _train_word_level(self, texts)


@TOKENIZERS.register
class Char(VocabularyConfig):
    """Characters, the most frequent ones; the others are [UNK]."""

    kind: Literal["char"] = Field("char", description="characters, the most frequent ones")

    def _make_pre_tokenizer(self) -> Any:
        return pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")

    def _make_decoder(self) -> Any:
        return decoders.Fuse()

    def _train_model(self, texts: Iterable[str]) -> Any:
        return _train_word_level(self, texts)


@TOKENIZERS.register
class Given(TokenizerConfig):
    """A tokenizer imported with a checkpoint: used unchanged, never trained."""

    kind: Literal["given"] = Field("given", description="came with another model: used as is")
    roles: dict[str, str] = Field({}, description="its special tokens by part: pad, unk, cls, sep, mask, bos, eos")
    ends: list[str] = Field([], description="the tokens that end a text, where it is not `eos` alone")

    @classmethod
    def from_tokenizer(cls, tokenizer: Tokenizer) -> Self:
        """Store what the tokenizer's file does not contain."""
        name = lambda token: str(tokenizer.rust.id_to_token(token))
        roles = {part: name(token) for part, token in tokenizer.special.items()}
        ends = sorted(map(name, tokenizer.ends)) if "eos" in roles and tokenizer.ends != {tokenizer.eos} else []
        return cls(roles=roles, ends=ends)

    def fit(self, texts: Iterable[str]) -> Tokenizer:
        raise ConfigError("tokenizer.kind: 'given' is a tokenizer that came with a model (model.from), and none is trained")

    def load(self, path: Path) -> Tokenizer:
        rust = Tokenizer.load(path).rust
        known = rust.get_vocab(with_added_tokens=True)
        ids = {token: known.get(token, -1) for token in (*self.roles.values(), *self.ends)}
        if unknown := [token for token, number in ids.items() if number < 0]:
            raise RunError(f"has no token {unknown[0]!r}, which config.toml names", file=path)
        return Tokenizer(rust, {part: ids[token] for part, token in self.roles.items()}, [ids[token] for token in self.ends])


def _make_word_decoder(prefix: str) -> Any:
    """Join words by spaces, glue those that start with `prefix`, and tidy punctuation."""
    tidy = [(" ' ", "'"), (" ’ ", "’"), (" .", "."), (" ,", ","), ("( ", "("), (" )", ")")]
    steps = [decoders.WordPiece(prefix=prefix, cleanup=False), decoders.Fuse()]
    return decoders.Sequence([*steps, *(decoders.Replace(spaced, tight) for spaced, tight in tidy)])


def _train_word_level(config: Word | Char, texts: Iterable[str]) -> Any:
    trainer = trainers.WordLevelTrainer(
        vocab_size=config.vocab, min_frequency=config.min_count, special_tokens=config.specials, show_progress=False
    )
    model = config._train(models.WordLevel(unk_token=UNKNOWN), trainer, texts)
    return models.WordLevel(vocab=model["vocab"], unk_token=UNKNOWN)


def _sort_pieces(pieces: list[tuple[str, float]]) -> list[tuple[str, float]]:
    """Make Unigram's pieces reproducible.

    Letters that won no place of their own get the lowest score plus 0.0001, 0.0002, ... in the order of a hash table: here all get the
    lowest. The last bits of the other scores depend on how threads shared out a sum: here they are rounded.
    """
    letters = sum(len(piece) == 1 for piece, _ in pieces)
    lowest = min((score for _, score in pieces), default=0.0)
    added = lowest + 1e-4 * letters + 1e-6
    level = [(piece, round(lowest if len(piece) == 1 and score <= added else score, 6)) for piece, score in pieces]
    return sorted(level, key=lambda piece: (-piece[1], piece[0]))


def byte_symbols() -> list[str]:
    """Return the printable character of each byte in byte-level tokenizers (Radford 2019)."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    symbol = {byte: chr(byte) for byte in printable} | {byte: chr(256 + rank) for rank, byte in enumerate(others)}
    return [symbol[byte] for byte in range(256)]


def _enumerate_tokens(tokens: Iterable[str]) -> dict[str, int]:
    return {token: number for number, token in enumerate(tokens)}
