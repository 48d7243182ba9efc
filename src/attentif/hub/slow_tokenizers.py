"""The slow tokenizer classes of transformers: how each normalises a text, cuts it, and puts it together again.

Older folders hold only the vocabulary (`vocab.txt`, `vocab.json` + `merges.txt`, a SentencePiece `.model`); the rest was code. Here it
is a function a class, from files to the library's tokenizer; `styles.py` says which class is which.

    WordPiece              BERT, DistilBERT, ELECTRA                       vocab.txt
    byte-level BPE         GPT-2, RoBERTa, BART, Qwen, Whisper             vocab.json + merges.txt
    SentencePiece unigram  T5, CamemBERT, XLM-R, BigBird, Marian,          *.model, *.spm
                           ALBERT, DeBERTa, Pegasus, mBART
    SentencePiece BPE      LLaMA, Mistral, Gemma, Reformer, NLLB           *.model
    characters             wav2vec 2.0                                     vocab.json
"""

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Rust

from attentif.errors import RunError
from attentif.hub.files import read_json
from attentif.hub.pieces import UNIGRAM, Piece, PieceKind, Pieces, read_pieces

SPACE = "▁"  # SentencePiece's

QWEN_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)  # words, digits one by one, signs, line ends, blanks


@dataclass(frozen=True)
class Source:
    """What a tokenizer is made of beside its files: what tokenizer_config.json says, the names of its special tokens by part."""

    said: Mapping[str, Any]
    names: Mapping[str, str]
    _read: dict[Path, Pieces] = field(default_factory=dict)

    def pieces(self, path: Path) -> Pieces:
        """A SentencePiece model, read once."""
        if path not in self._read:
            self._read[path] = read_pieces(path)
        return self._read[path]

    def flag(self, key: str, default: bool) -> bool:
        value = self.said.get(key)
        return default if value is None else bool(value)


# ---------------------------------------------------------------------------------------------------------------------- WordPiece


def wordpiece(source: Source, files: Sequence[Path]) -> Rust:
    vocab = models.WordPiece.read_file(str(files[0]))
    unknown = source.names["unk"]
    if unknown not in vocab:
        raise RunError(f"has no {unknown}, which stands for unknown words", file=files[0])
    rust = Rust(models.WordPiece(vocab, unk_token=unknown))
    rust.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=source.flag("tokenize_chinese_chars", True),
        strip_accents=source.said.get("strip_accents"),  # None: where letters are made small
        lowercase=source.flag("do_lower_case", True),
    )
    rust.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    rust.decoder = decoders.WordPiece(prefix="##")
    return rust


# ----------------------------------------------------------------------------------------------------------------- byte-level BPE


def byte_level(source: Source, files: Sequence[Path]) -> Rust:
    rust = bpe(files[1], tokens_of(files[0]), merges_of(files[1]), continuing_subword_prefix="", end_of_word_suffix="")
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=source.flag("add_prefix_space", False))
    rust.decoder = decoders.ByteLevel()
    return rust


def neox(source: Source, files: Sequence[Path]) -> Rust:
    rust = byte_level(source, files)
    rust.normalizer = normalizers.NFC()
    return rust


def qwen(source: Source, files: Sequence[Path]) -> Rust:
    rust = byte_level(source, files)
    rust.normalizer, rust.pre_tokenizer = qwen_form(add_prefix_space=source.flag("add_prefix_space", False))
    return rust


def qwen_steps() -> dict[str, Any]:
    """How Qwen brings text to one form and cuts it, as tokenizer.json has it."""
    rust = Rust(models.BPE())
    rust.normalizer, rust.pre_tokenizer = qwen_form(add_prefix_space=False)
    return {step: json.loads(rust.to_str())[step] for step in ("normalizer", "pre_tokenizer")}


def qwen_form(*, add_prefix_space: bool) -> tuple[Any, Any]:
    words = pre_tokenizers.Split(Regex(QWEN_WORDS), behavior="isolated")
    return normalizers.NFC(), pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space, use_regex=False)])


# ------------------------------------------------------------------------------------------------------------------ SentencePiece


def unigram(vocab: Sequence[tuple[str, float]], unknown: int, found: Pieces) -> Rust:
    """Words between blanks, each with a ▁ before it, cut into the likeliest pieces."""
    rust = Rust(models.Unigram(list(vocab), unknown, byte_fallback=False))
    if found.characters:
        rust.normalizer = normalizers.Precompiled(found.characters)
    spaces = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always")
    rust.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), spaces])
    rust.decoder = decoders.Metaspace(replacement=SPACE, prepend_scheme="always")
    return rust


def t5(source: Source, files: Sequence[Path]) -> Rust:
    """`extra_ids` sentinels stand behind the pieces, the last first."""
    found = _unigram_pieces(source, files[0])
    extra = source.said.get("extra_ids", 100)
    sentinels = [(f"<extra_id_{number}>", 0.0) for number in reversed(range(extra if isinstance(extra, int) else 100))]
    return unigram([*found.scores, *sentinels], _place(files[0], found, source.names["unk"]), found)


def camembert(source: Source, files: Sequence[Path]) -> Rust:
    """fairseq's ids: four tokens of its own before the pieces, the file's <unk> (its first) out of use, <mask> behind."""
    found, names = _unigram_pieces(source, files[0]), source.names
    first = [("<s>NOTUSED", 0.0), (names["pad"], 0.0), ("</s>NOTUSED", 0.0), (names["unk"], 0.0), ("<unk>NOTUSED", -100.0)]
    return unigram([*first, *found.scores[1:], (names["mask"], 0.0)], 3, found)


def xlm_roberta(source: Source, files: Sequence[Path]) -> Rust:
    """fairseq's ids: <s> <pad> </s> <unk> in the place of the file's <unk> <s> </s>, <mask> behind."""
    found, names = _unigram_pieces(source, files[0]), source.names
    first = [(names[part], 0.0) for part in ("bos", "pad", "eos", "unk")]
    return unigram([*first, *found.scores[3:], (names["mask"], 0.0)], 3, found)


def albert(source: Source, files: Sequence[Path]) -> Rust:
    """Words in small letters without accents, unless the files say otherwise, and two kinds of quotes as one."""
    found = _unigram_pieces(source, files[0])
    rust = unigram(found.scores, _place(files[0], found, source.names["unk"]), found)
    steps: list[Any] = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    steps += [] if source.flag("keep_accents", False) else [normalizers.NFKD(), normalizers.StripAccents()]
    steps += [normalizers.Lowercase()] if source.flag("do_lower_case", True) else []
    rust.normalizer = normalizers.Sequence(steps + ([normalizers.Precompiled(found.characters)] if found.characters else []))
    scheme = "always" if source.flag("add_prefix_space", True) else "never"
    spaces = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme=scheme)
    rust.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), spaces])
    rust.decoder = decoders.Metaspace(replacement=SPACE, prepend_scheme=scheme)
    return rust


def deberta(source: Source, files: Sequence[Path]) -> Rust:
    """Text is left in its letters: the table of forms that the file holds is not used, as by transformers."""
    found = _unigram_pieces(source, files[0])
    steps: list[Any] = [normalizers.Lowercase()] if source.flag("do_lower_case", False) else []
    steps += [normalizers.Replace(Regex(r"\s{2,}|[\n\r\t]"), " "), normalizers.NFC(), normalizers.Strip(left=False, right=True)]
    rust = _build_metaspace(found.scores, _place(files[0], found, source.names["unk"]), steps, blank=source.flag("add_prefix_space", True))
    if source.flag("split_by_punct", False):
        rust.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Punctuation(behavior="isolated"), rust.pre_tokenizer])
    return rust


def pegasus(source: Source, files: Sequence[Path]) -> Rust:
    """`offset` tokens of training before the pieces, the first two of which are other programs' <pad> and </s>."""
    found, names, said = _unigram_pieces(source, files[0]), source.names, source.said
    masks = [str(said.get(f"mask_token{end}") or default) for end, default in (("", "<mask_1>"), ("_sent", "<mask_2>"))]
    first = [names["pad"], names["eos"], *dict.fromkeys(masks)]
    trained = [(f"<unk_{number}>", -100.0) for number in range(2, int(said.get("offset", 103)))]
    vocab = [*((token, 0.0) for token in first), *trained, *found.scores[2:]]
    return _build_metaspace(vocab, [token for token, _ in vocab].index(names["unk"]), _one_blank(found))


def mbart(source: Source, files: Sequence[Path]) -> Rust:
    """fairseq's ids, and the codes of the languages before <mask>; text is left in its form."""
    found = _unigram_pieces(source, files[0])
    return unigram(_with_languages(source, found, MBART), 3, replace(found, characters=b""))


def mbart_50(source: Source, files: Sequence[Path]) -> Rust:
    found = _unigram_pieces(source, files[0])
    return _build_metaspace(_with_languages(source, found, MBART_50), 3, _one_blank(found))


def nllb(source: Source, files: Sequence[Path]) -> Rust:
    """BPE with fairseq's ids; the codes of the languages are additional special tokens."""
    if source.flag("legacy_behaviour", False):
        raise RunError("legacy_behaviour: the language behind the text is not read", file=files[0])
    found = source.pieces(files[0])
    tokens = dict.fromkeys([*(source.names[part] for part in ("bos", "pad", "eos", "unk")), *(piece.text for piece in found.pieces)])
    vocab = {token: number for number, token in enumerate(tokens)}
    rust = bpe(files[0], vocab, found.merges(), unk_token=source.names["unk"], fuse_unk=True, byte_fallback=False)
    if found.characters:
        rust.normalizer = normalizers.Sequence(_one_blank(found))
    rust.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always")
    rust.decoder = decoders.Metaspace(replacement=SPACE, prepend_scheme="always")
    return rust


def big_bird(source: Source, files: Sequence[Path]) -> Rust:
    found = _unigram_pieces(source, files[0])
    rust = Rust(models.Unigram(found.scores, _place(files[0], found, source.names["unk"]), byte_fallback=False))
    rust.normalizer = normalizers.Replace(Regex(r" {2,}"), SPACE)
    scheme = "always" if source.flag("add_prefix_space", True) else "never"
    rust.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme=scheme)
    rust.decoder = decoders.Metaspace(replacement=SPACE, prepend_scheme=scheme)
    return rust


def llama(source: Source, files: Sequence[Path]) -> Rust:
    """`legacy`: every text between two special tokens begins with a blank; otherwise the first one only."""
    rust = _build_bpe(source, files[0], byte_fallback=True)
    blank = source.flag("add_prefix_space", True)
    scheme = ("always" if source.flag("legacy", False) else "first") if blank else "never"
    rust.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme=scheme, split=False)
    rust.decoder = decoders.Sequence([*_byte_fallback_decoders(), *([decoders.Strip(content=" ", left=1)] if blank else [])])
    return rust


def gemma(source: Source, files: Sequence[Path]) -> Rust:
    rust = _build_bpe(source, files[0], byte_fallback=True)
    rust.normalizer = normalizers.Replace(" ", SPACE)
    rust.pre_tokenizer = pre_tokenizers.Split(" ", behavior="merged_with_previous")
    rust.decoder = decoders.Sequence(_byte_fallback_decoders())
    return rust


def reformer(source: Source, files: Sequence[Path]) -> Rust:
    rust = _build_bpe(source, files[0], byte_fallback=False)
    if characters := source.pieces(files[0]).characters:
        rust.normalizer = normalizers.Sequence([normalizers.Precompiled(characters), normalizers.Replace(Regex(" {2,}"), " ")])
    rust.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme="always")
    rust.decoder = decoders.Metaspace(replacement=SPACE, prepend_scheme="always")
    return rust


MBART = [
    "ar_AR",
    "cs_CZ",
    "de_DE",
    "en_XX",
    "es_XX",
    "et_EE",
    "fi_FI",
    "fr_XX",
    "gu_IN",
    "hi_IN",
    "it_IT",
    "ja_XX",
    "kk_KZ",
    "ko_KR",
    "lt_LT",
    "lv_LV",
    "my_MM",
    "ne_NP",
    "nl_XX",
    "ro_RO",
    "ru_RU",
    "si_LK",
    "tr_TR",
    "vi_VN",
    "zh_CN",
]
MBART_50 = [
    *MBART,
    *[
        "af_ZA",
        "az_AZ",
        "bn_IN",
        "fa_IR",
        "he_IL",
        "hr_HR",
        "id_ID",
        "ka_GE",
        "km_KH",
        "mk_MK",
        "ml_IN",
        "mn_MN",
        "mr_IN",
        "pl_PL",
        "ps_AF",
        "pt_XX",
        "sv_SE",
        "sw_KE",
        "ta_IN",
        "te_IN",
    ],
    *["th_TH", "tl_XX", "uk_UA", "ur_PK", "xh_ZA", "gl_ES", "sl_SI"],
]


def _with_languages(source: Source, found: Pieces, codes: Sequence[str]) -> list[tuple[str, float]]:
    first = [source.names[part] for part in ("bos", "pad", "eos", "unk")]
    return [*((token, 0.0) for token in first), *found.scores[3:], *((token, 0.0) for token in (*codes, source.names["mask"]))]


def _one_blank(found: Pieces) -> list[Any]:
    """The table of forms of a file, then every run of blanks as one."""
    forms = [normalizers.Precompiled(found.characters)] if found.characters else [normalizers.Replace(Regex(r"\n"), " ")]
    return [*forms, normalizers.Replace(Regex(r" {2,}"), " ")]


def _build_metaspace(vocab: Sequence[tuple[str, float]], unknown: int, steps: Sequence[Any], *, blank: bool = True) -> Rust:
    """The likeliest pieces of a text cut at its blanks, after these steps of normalisation."""
    rust = Rust(models.Unigram(list(vocab), unknown, byte_fallback=False))
    scheme = "always" if blank else "first"
    rust.normalizer = normalizers.Sequence(list(steps))
    rust.pre_tokenizer = pre_tokenizers.Metaspace(replacement=SPACE, prepend_scheme=scheme)
    rust.decoder = decoders.Metaspace(replacement=SPACE, prepend_scheme=scheme)
    return rust


FOREIGN = "\0"  # before pieces that only the other language's .spm cuts: no text holds it, and decoding takes it away
CODE = re.compile(r">>.+<<")  # the language that is asked for, before a text: ">>fra<< Good morning"
RARE = 10.0  # how much less likely than all others SentencePiece takes a character to be that it does not know


def marian(source: Source, files: Sequence[Path]) -> Rust:
    """Two SentencePiece models, one for each language, and one vocabulary: the pieces of `files[0]` at the ids of vocab.json.

    Characters that only the other language's model knows are found where nothing else fits; its longer pieces can be read from ids,
    never found in a text. Pieces that vocab.json lacks are left out of the cutting.
    """
    found, ids = _unigram_pieces(source, files[0]), tokens_of(files[1])
    if source.names["unk"] not in ids:
        raise RunError(f"has no {source.names['unk']}, which stands for unknown words", file=files[1])
    if sorted(ids.values()) != list(range(len(ids))):
        raise RunError("has gaps: its ids are not 0, 1, 2, ...", file=files[1])
    own = dict(found.scores) | dict.fromkeys(source.names.values(), 0.0)
    rare = min(own.values()) - RARE
    tokens = sorted(ids, key=ids.__getitem__)
    found_in_texts = lambda token: token in own or len(token) == 1 or CODE.fullmatch(token)
    pieces = [(token if found_in_texts(token) else FOREIGN + token, own.get(token, rare)) for token in tokens]
    rust = unigram(pieces, ids[source.names["unk"]], found)
    rust.decoder = decoders.Sequence([decoders.Replace(FOREIGN, ""), decoders.Metaspace(replacement=SPACE, prepend_scheme="always")])
    rust.add_tokens([AddedToken(token, normalized=False) for token in tokens if CODE.fullmatch(token)])
    return rust


def split_marian(rust: Rust) -> tuple[Pieces, dict[str, int]] | None:
    """What `marian` made a tokenizer of, a `.spm` and a vocab.json; None where it is another's."""
    said = json.loads(rust.to_str())
    model, before, after = said["model"], said["normalizer"], said["decoder"]
    parts = (after or {}).get("decoders") or [{}]
    if model["type"] != "Unigram" or (parts[0].get("pattern") or {}).get("String") != FOREIGN:
        return None
    special = {token["content"] for token in said["added_tokens"]}
    normal = [(text, score) for text, score in model["vocab"] if not text.startswith(FOREIGN) and text not in special]
    floor = min(score for _, score in normal)
    known = [score for _, score in normal if score > floor]
    foreign = bool(known) and min(known) - floor >= RARE - 1e-3  # characters of the other language alone stand so far below
    unknown = model["vocab"][model["unk_id"]][0]
    own = [Piece(text, score, PieceKind.NORMAL) for text, score in normal if not (foreign and score == floor) and text != unknown]
    first = [Piece(unknown, 0.0, PieceKind.UNKNOWN), *(Piece(text, 0.0, PieceKind.CONTROL) for text in ("<s>", "</s>"))]
    characters = base64.b64decode(before["precompiled_charsmap"]) if before else b""
    ids = {text.removeprefix(FOREIGN): number for number, (text, _) in enumerate(model["vocab"])}
    return Pieces([*first, *own], UNIGRAM, False, characters), ids


# --------------------------------------------------------------------------------------------------------------------- characters


def characters(source: Source, files: Sequence[Path]) -> Rust:
    """A character is a token, and `|` the space between words (Baevski et al. 2020). Repetitions and blanks are CTC's business."""
    ids, gap = tokens_of(files[0]), str(source.said.get("word_delimiter_token") or "|")
    small = {token.lower(): token for token in ids if len(token) == 1 and token.lower() != token}
    small = small if source.flag("do_lower_case", False) else {}  # a vocabulary of capitals, read and written in small letters
    rust = Rust(models.WordLevel(ids, unk_token=source.names["unk"]))
    rust.normalizer = normalizers.Sequence([normalizers.Replace(" ", gap), *(normalizers.Replace(*pair) for pair in small.items())])
    rust.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    steps = [decoders.Replace(capital, letter) for letter, capital in small.items()]
    rust.decoder = decoders.Sequence([*steps, decoders.Replace(gap, " "), decoders.Fuse()])
    return rust


# ------------------------------------------------------------------------------------------------------------------------ helpers


def merges_of(path: Path) -> list[tuple[str, str]]:
    """Pairs of tokens, one a line, in the order in which they were learned."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError):
        raise RunError("is damaged: not a text in UTF-8", file=path) from None
    pairs = []
    for number, line in enumerate(lines, 1):
        if line.startswith("#version") or (number == len(lines) and not line):
            continue
        left, _, right = line.removesuffix("\r").partition(" ")
        if not left or not right or " " in right:
            raise RunError(f"is damaged: {line[:40]!r} is no pair of tokens", file=path, line=number)
        pairs.append((left, right))
    return pairs


def bpe(path: Path, vocab: Mapping[str, int], merges: Sequence[tuple[str, str]], **options: Any) -> Rust:
    try:
        return Rust(models.BPE(vocab=dict(vocab), merges=list(merges), **options))
    except Exception as error:  # a merge of tokens that the vocabulary lacks
        raise RunError(f"is damaged: {first_line(error)}", file=path) from None


def _build_bpe(source: Source, path: Path, *, byte_fallback: bool) -> Rust:
    """BPE as SentencePiece does it: on characters, what is unknown spelt in bytes."""
    found = source.pieces(path)
    vocab = {piece.text: number for number, piece in enumerate(found.pieces)}
    _place(path, found, source.names["unk"])
    return bpe(path, vocab, found.merges(), unk_token=source.names["unk"], fuse_unk=True, byte_fallback=byte_fallback)


def _byte_fallback_decoders() -> list[Any]:
    return [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]


def _unigram_pieces(source: Source, path: Path) -> Pieces:
    found = source.pieces(path)
    if found.algorithm != UNIGRAM:
        raise RunError("was made by BPE, where this tokenizer needs a unigram model", file=path)
    return found


def _place(path: Path, found: Pieces, token: str) -> int:
    for number, piece in enumerate(found.pieces):
        if piece.text == token:
            return number
    raise RunError(f"has no {token}, which stands for unknown characters", file=path)


def tokens_of(path: Path) -> dict[str, int]:
    """A JSON table from tokens to ids."""
    ids = read_json(path)
    if odd := [token for token, number in ids.items() if not isinstance(number, int) or isinstance(number, bool) or number < 0]:
        raise RunError(f"is damaged: the id of {odd[0]!r} is no whole number", file=path)
    return ids


def first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:160]
