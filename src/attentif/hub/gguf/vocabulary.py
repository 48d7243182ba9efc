"""The vocabulary of a GGUF file as a tokenizer, and back.

    gpt2     byte-level BPE: tokens, merges, and by `pre` how a text is cut into words
    llama    SentencePiece BPE: tokens with scores and kinds
    bert     WordPiece: a token that begins a word has a ▁ before it, the others have lost their ##
    t5       SentencePiece unigram: tokens with scores, the table of characters

What stands around a text is said by add_bos_token and add_eos_token; llama and t5 have a default of their own. llama.cpp does not read
them of bert, where bos_token_id and seperator_token_id always stand around a text.
"""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Rust

from attentif.errors import ConfigError
from attentif.hub.pieces import BPE, UNIGRAM, Piece, PieceKind, Pieces
from attentif.hub.slow_tokenizers import SPACE, Source, llama, qwen_form, unigram
from attentif.text import Tokenizer

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = map(int, PieceKind)
LLAMA3_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# GGUF's name of a special token: ours
SPECIAL = {"bos": "bos", "eos": "eos", "unknown": "unk", "seperator": "sep", "padding": "pad", "cls": "cls", "mask": "mask"}


def _bytes(*before: Any, use_regex: bool = True) -> Any:
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)
    return pre_tokenizers.Sequence([*before, last]) if before else last


# how texts are cut into words, by llama.cpp's names
WORDS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "gpt-2": lambda: (None, _bytes()),
    "smollm": lambda: (None, _bytes(pre_tokenizers.Digits(individual_digits=True))),
    "llama-bpe": lambda: (None, _bytes(pre_tokenizers.Split(Regex(LLAMA3_WORDS), behavior="isolated"), use_regex=False)),
    "qwen2": lambda: qwen_form(add_prefix_space=False),
}
SAME_WORDS = {"llama-v3": "llama-bpe", "llama3": "llama-bpe", "mpt": "gpt-2", "olmo": "gpt-2", "roberta-bpe": "gpt-2", "phi-2": "gpt-2"}


@dataclass(frozen=True)
class Listed:
    """The lists of a file: its tokens, what each is for, the special ones by part, and the other keys."""

    tokens: list[str]
    kinds: list[int]
    names: dict[str, str]
    metadata: Mapping[str, Any]

    def find(self, key: str, default: Any = None) -> Any:
        return self.metadata.get(f"tokenizer.ggml.{key}", default)

    def is_id(self, number: Any) -> bool:
        return isinstance(number, int) and 0 <= number < len(self.tokens)

    def scores(self) -> list[float]:
        scores = self.find("scores")
        if not isinstance(scores, list) or len(scores) != len(self.tokens):
            raise ConfigError("tokenizer.ggml.scores: is missing, or not as long as the tokens")
        return [float(score) for score in scores]


def read_vocabulary(metadata: Mapping[str, Any]) -> tuple[Rust, dict[str, str]] | None:
    """The tokenizer and the names of its special tokens by part; None where the file has no vocabulary."""
    find = lambda key, default=None: metadata.get(f"tokenizer.ggml.{key}", default)
    kind = find("model", "none")
    if kind in ("none", "no_vocab"):
        return None
    if kind not in MAKERS:
        raise ConfigError(f"tokenizer.ggml.model: {kind!r} is not understood (only {', '.join(MAKERS)})")
    tokens, kinds = find("tokens"), find("token_type")
    if not isinstance(tokens, list) or not tokens or not all(isinstance(token, str) for token in tokens):
        raise ConfigError("tokenizer.ggml.tokens: is missing, or no list of texts")
    kinds = kinds if isinstance(kinds, list) else [NORMAL] * len(tokens)
    if len(kinds) != len(tokens):
        raise ConfigError(f"tokenizer.ggml.token_type: has {len(kinds):,} entries for {len(tokens):,} tokens")
    tokens = _unique(tokens)
    listed = Listed(tokens, kinds, {}, metadata)
    names = {ours: tokens[number] for theirs, ours in SPECIAL.items() if listed.is_id(number := find(f"{theirs}_token_id"))}
    listed.names.update(names)
    rust = MAKERS[kind](listed)
    special = [AddedToken(token, special=True, normalized=False) for token, own in zip(tokens, kinds, strict=True) if own == CONTROL]
    user = [AddedToken(token, normalized=False) for token, own in zip(tokens, kinds, strict=True) if own == USER]
    rust.add_tokens([*user, *special])
    _frame(rust, kind, listed)
    return rust, names


def _unique(tokens: Sequence[str]) -> list[str]:
    """Unused places often hold the same filling: each becomes a token of its own."""
    seen: set[str] = set()
    found = []
    for number, token in enumerate(tokens):
        found.append(token if token not in seen else f"{token}<{number}>")
        seen.add(found[-1])
    return found


def _make_gpt2(listed: Listed) -> Rust:
    merges, cut = listed.find("merges"), listed.find("pre", "default")
    if not isinstance(merges, list) or not all(isinstance(pair, str) and pair.count(" ") == 1 for pair in merges):
        raise ConfigError("tokenizer.ggml.merges: is missing, or no list of pairs")
    cut = SAME_WORDS.get(cut, cut)
    if cut not in WORDS:
        raise ConfigError(f"tokenizer.ggml.pre: {cut!r} is not understood (only {', '.join([*WORDS, *SAME_WORDS])})")
    pairs = [(left, right) for left, _, right in (pair.partition(" ") for pair in merges)]
    vocab = {token: number for number, token in enumerate(listed.tokens)}
    try:
        rust = Rust(models.BPE(vocab, pairs, ignore_merges=cut == "llama-bpe"))
    except Exception as error:  # a merge of tokens that the vocabulary lacks
        raise ConfigError(f"tokenizer.ggml.merges: {error}") from None
    rust.normalizer, rust.pre_tokenizer = WORDS[cut]()
    rust.decoder = decoders.ByteLevel()
    return rust


def _make_llama(listed: Listed) -> Rust:
    known = {int(kind) for kind in PieceKind}
    scored = zip(listed.tokens, listed.scores(), listed.kinds, strict=True)
    pieces = [Piece(token, score, PieceKind(kind if kind in known else NORMAL)) for token, score, kind in scored]
    path, said = Path("tokenizer.model"), {"add_prefix_space": bool(listed.find("add_space_prefix", True))}
    source = Source(said, {"unk": "<unk>"} | listed.names, {path: Pieces(pieces, BPE, True, b"", ranked=True)})
    return llama(source, [path])


def _make_bert(listed: Listed) -> Rust:
    def plain(token: str, kind: int) -> str:
        if kind in (CONTROL, UNKNOWN, UNUSED) or token in listed.names.values():
            return token
        return token.removeprefix(SPACE) if token.startswith(SPACE) else f"##{token}"

    vocab = {plain(token, kind): number for number, (token, kind) in enumerate(zip(listed.tokens, listed.kinds, strict=True))}
    unknown = listed.names.get("unk", "[UNK]")
    if unknown not in vocab or len(vocab) != len(listed.tokens):
        raise ConfigError(f"tokenizer.ggml.tokens: hold a word twice, or no {unknown}")
    rust = Rust(models.WordPiece(vocab, unk_token=unknown))
    rust.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=True)
    rust.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    rust.decoder = decoders.WordPiece(prefix="##")
    return rust


def _make_t5(listed: Listed) -> Rust:
    unknown = next((number for number, kind in enumerate(listed.kinds) if kind == UNKNOWN), listed.find("unknown_token_id"))
    if not listed.is_id(unknown):
        raise ConfigError("tokenizer.ggml.unknown_token_id: is missing")
    characters = bytes(value & 255 for value in listed.find("precompiled_charsmap", []))
    pieces = list(zip(listed.tokens, listed.scores(), strict=True))
    return unigram(pieces, int(unknown), Pieces([], UNIGRAM, False, characters))


MAKERS = {"gpt2": _make_gpt2, "llama": _make_llama, "bert": _make_bert, "t5": _make_t5}


def _frame(rust: Rust, kind: str, listed: Listed) -> None:
    """What stands around a text; the defaults are llama.cpp's."""
    names, find = listed.names, listed.find
    if kind == "bert":
        first, last = names.get("cls", names.get("bos")), names.get("sep", names.get("eos"))
    else:
        bos = find("add_bos_token", kind == "llama" or find("pre") in ("llama-bpe", "llama3", "llama-v3"))
        first = names.get("bos") if bos else None
        last = names.get("eos") if find("add_eos_token", kind == "t5") else None
    around = lambda text, number: [f"{first}:{number}"] * bool(first) + [f"{text}:{number}"] + [f"{last}:{number}"] * bool(last)
    pair = around("$B", 1)[1 if kind == "bert" and first else 0 :]
    ids = [(token, rust.token_to_id(token)) for token in dict.fromkeys((first, last)) if token]
    rust.post_processor = processors.TemplateProcessing(single=around("$A", 0), pair=[*around("$A", 0), *pair], special_tokens=ids)


# ---------------------------------------------------------------------------------------------------------------------- writing


def write_vocabulary(tokenizer: Tokenizer, size: int) -> dict[str, Any]:
    """The metadata of a tokenizer; ConfigError where llama.cpp has no way to cut texts as it does."""
    said = json.loads(tokenizer.rust.to_str())
    model, kind = said["model"], said["model"]["type"]
    tokens = {number: token for token, number in tokenizer.rust.get_vocab().items()}
    names = [tokens.get(number, f"[PAD{number}]") for number in range(size)]
    special = {token["id"] for token in said["added_tokens"] if token["special"]}
    user = {token["id"] for token in said["added_tokens"]} - special
    unused = set(range(size)) - tokens.keys()
    kinds = [CONTROL if n in special else USER if n in user else UNUSED if n in unused else NORMAL for n in range(size)]
    if kind == "BPE" and model.get("byte_fallback"):
        found = _write_llama(said, names, kinds)
    elif kind == "BPE":
        found = _write_gpt2(said, names)
    elif kind == "WordPiece":
        found = _write_bert(said, names, kinds)
    elif kind == "Unigram":
        found = _write_t5(said, names, kinds)
    else:
        raise ConfigError(f"llama.cpp has no tokenizer of the kind {kind}")
    ids = {f"{theirs}_token_id": tokenizer.special[ours] for theirs, ours in SPECIAL.items() if ours in tokenizer.special}
    found |= {"token_type": kinds} | ids | _describe_frame(tokenizer, kind)
    return {f"tokenizer.ggml.{key}": value for key, value in found.items()}


def _describe_frame(tokenizer: Tokenizer, kind: str) -> dict[str, Any]:
    """What stands around a text; a run trained here begins one with [EOS], which is then llama.cpp's bos."""
    plain = tokenizer.frame is None and "cls" not in tokenizer.special  # nothing stands around its texts
    (before, after), wordpiece = ((), ()) if plain else tokenizer.frame_for("cls").around(pair=False), kind == "WordPiece"
    most, least = max(len(before), len(after)), min(len(before), len(after))
    if most > 1 or (wordpiece and least == 0):
        one = "one token before a text and one after it" if wordpiece else "at most one token before a text and one after it"
        around = " ".join(str(tokenizer.rust.id_to_token(token)) for token in (*before, *after))
        raise ConfigError(f"llama.cpp puts {one}, of a {kind} tokenizer; here texts stand with {around or 'nothing'} around them")
    first, last = (("bos", "cls"), "seperator") if wordpiece else (("bos",), "eos")
    ids = {f"{name}_token_id": token for name in first for token in before} | {f"{last}_token_id": token for token in after}
    return {"add_bos_token": bool(before), "add_eos_token": bool(after), **ids}


def _write_gpt2(said: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
    own = _words(said["normalizer"], said["pre_tokenizer"])
    cut = next((name for name, make in WORDS.items() if _words(*_json_of(*make())) == own), None)
    if cut is None:
        raise ConfigError(f"llama.cpp cuts texts into words in ways of its own ({', '.join(WORDS)} here), and this tokenizer in another")
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in said["model"]["merges"]]
    return {"model": "gpt2", "pre": cut, "tokens": names, "merges": merges}


def _json_of(normalizer: Any, cutter: Any) -> tuple[Any, Any]:
    rust = Rust(models.BPE())
    rust.normalizer, rust.pre_tokenizer = normalizer, cutter
    said = json.loads(rust.to_str())
    return said["normalizer"], said["pre_tokenizer"]


def _words(normalizer: Any, cutter: Any) -> str:
    """How texts are cut, without what changes no token: NFC, which texts nearly always are in, and how offsets are counted."""
    normal = (
        None if normalizer is None or normalizer.get("type") == "NFC" or normalizer.get("normalizers") == [{"type": "NFC"}] else normalizer
    )
    steps = cutter["pretokenizers"] if cutter is not None and cutter["type"] == "Sequence" else [cutter]
    return json.dumps([normal, [{key: value for key, value in (step or {}).items() if key != "trim_offsets"} for step in steps]])


def _write_llama(said: Mapping[str, Any], names: list[str], kinds: list[int]) -> dict[str, Any]:
    """A piece is scored by the rank of the merge that makes it: the earlier, the better."""
    cutter, before = said["pre_tokenizer"] or {}, said["normalizer"] or {}
    if cutter.get("type") != "Metaspace" and "Prepend" not in json.dumps(before) and "Replace" not in json.dumps(before):
        raise ConfigError("llama.cpp reads SentencePiece tokenizers whose blanks are ▁, and this one has others")
    ranks: dict[str, int] = {}
    for rank, pair in enumerate(said["model"]["merges"]):
        left, right = pair.split(" ") if isinstance(pair, str) else pair
        ranks.setdefault(left + right, rank)
    scores = [-float(ranks.get(name, len(ranks) if len(name) > 1 else 0)) for name in names]
    for number, name in enumerate(names):
        if len(name) == 6 and name.startswith("<0x"):
            kinds[number] = BYTE
        elif name == said["model"].get("unk_token"):
            kinds[number] = UNKNOWN
    prefix = cutter.get("prepend_scheme", "always") != "never" if cutter else "Prepend" in json.dumps(before)
    return {"model": "llama", "pre": "default", "tokens": names, "scores": scores, "add_space_prefix": prefix}


def _write_bert(said: Mapping[str, Any], names: list[str], kinds: list[int]) -> dict[str, Any]:
    before = said["normalizer"] or {}
    if not before.get("lowercase") or before.get("strip_accents") is False:
        raise ConfigError("llama.cpp makes letters small and takes accents away where words are cut by WordPiece; this tokenizer does not")
    written = [
        name if kinds[number] != NORMAL else name.removeprefix("##") if name.startswith("##") else SPACE + name
        for number, name in enumerate(names)
    ]
    return {"model": "bert", "pre": "default", "tokens": written, "token_type_count": 2}


def _write_t5(said: Mapping[str, Any], names: list[str], kinds: list[int]) -> dict[str, Any]:
    scores = {token: float(score) for token, score in said["model"]["vocab"]}
    kinds[said["model"]["unk_id"]] = UNKNOWN
    steps = said["normalizer"] or {}
    table = next((step["precompiled_charsmap"] for step in [steps, *steps.get("normalizers", [])] if "precompiled_charsmap" in step), None)
    found: dict[str, Any] = {
        "model": "t5",
        "pre": "default",
        "tokens": names,
        "scores": [scores.get(name, 0.0) for name in names],
        "add_space_prefix": True,
    }
    if table:
        found["precompiled_charsmap"] = base64.b64decode(table)
    return found | {"remove_extra_whitespaces": True}
