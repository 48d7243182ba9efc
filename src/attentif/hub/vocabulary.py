"""The tokenizer of a Hugging Face folder: `tokenizer.json`, or the older vocabulary files dressed as their class would.

    tokenizer = read_tokenizer(folder, config)            # None where the folder holds no vocabulary
    target = read_target_tokenizer(folder, config)        # Marian: the other language's; None for everybody else

Read beside it, where they are there: `tokenizer_config.json`, `special_tokens_map.json`, `added_tokens.json` (which token is [PAD],
which ones were added), and `generation_config.json` (which ones end a text).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, decoders, normalizers, processors
from tokenizers import Tokenizer as Rust

from attentif.errors import AttentifError, RunError
from attentif.hub.files import CONFIG, read_json
from attentif.hub.generation import read_decoding
from attentif.hub.pair_tokenizers import END, with_spaces
from attentif.hub.pieces import PieceKind
from attentif.hub.slow_tokenizers import Source, first_line
from attentif.hub.styles import OF_MODEL, SAME, STYLES, Style
from attentif.text import Tokenizer
from attentif.text.foreign import check_tokenizer

TOKENIZER, SAID, SPECIAL = "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"
ADDED = "added_tokens.json"
PARTS = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")  # in the order in which transformers adds them
ANY = ("PreTrainedTokenizer", "TokenizersBackend", "PythonBackend")  # classes that say nothing about the files
FLAGS = ("lstrip", "rstrip", "single_word", "normalized", "special")  # of an added token


def read_tokenizer(folder: Path, config: Mapping[str, Any]) -> Tokenizer | None:
    """The folder's tokenizer; `config` is its config.json. None where it holds no vocabulary at all."""
    said = _read_tokenizer_config(folder)
    style = STYLES.get(_class(said, config))
    if (file := folder / TOKENIZER).is_file():
        check_tokenizer(file)
        rust = Tokenizer.load(file).rust
        usual = {part: name for part, name in (style.names if style else {}).items() if rust.token_to_id(name) is not None}
        tokens = _special_tokens(said, None if style is None else replace(style, names=usual))
        _add(rust, said, tokens, _more(said), file)
        _change_first(rust, style, Source(said, {}))
        if getattr(rust.model, "end_of_word_suffix", None) == END and isinstance(rust.decoder, decoders.ByteLevel):
            with_spaces(rust)
        return _finish(rust, tokens, file, config, "vocab_size")
    files = _files(folder, style, said, config)
    return None if style is None or files is None else _from_files(style, said, files, config, "vocab_size")


def read_target_tokenizer(folder: Path, config: Mapping[str, Any]) -> Tokenizer | None:
    """The tokenizer of what is written, where it is not that of what is read."""
    said = _read_tokenizer_config(folder)
    style = STYLES["MarianTokenizer"]
    if (folder / TOKENIZER).is_file() or STYLES.get(_class(said, config)) is not style or not (folder / style.files[0]).is_file():
        return None
    files = [folder / "target.spm", folder / ("target_vocab.json" if said.get("separate_vocabs") else style.files[1])]
    if lost := [file for file in files if not file.is_file()]:
        raise RunError(f"is not there, beside {style.files[0]}", file=lost[0])
    return _from_files(style, said, files, config, "decoder_vocab_size" if config.get("decoder_vocab_size") else "vocab_size")


def _from_files(style: Style, said: Mapping[str, Any], files: Sequence[Path], config: Mapping[str, Any], size: str) -> Tokenizer:
    tokens = _special_tokens(said, style)
    names = {**style.names, **{part: token.content for part, token in tokens.items()}}
    source = Source(said, names)
    try:
        rust = style.make(source, files)
    except AttentifError:
        raise
    except Exception as error:  # the library raises nothing better
        raise RunError(f"is damaged: {first_line(error)}", file=files[0]) from None
    more = [
        *_of_pieces(source, files[0], rust),
        *_sentinels(rust),
        *(AddedToken(token, special=True) for token in style.more),
        *_more(said),
    ]
    _add(rust, said, tokens, more, files[0])
    _change_first(rust, style, source)
    _frame(rust, style, said, names | ({"lang": said.get("src_lang") or style.language} if style.language else {}))
    return _finish(rust, tokens, files[0], config, size)


# ------------------------------------------------------------------------------------------------------------------ what is there


def _read_tokenizer_config(folder: Path) -> dict[str, Any]:
    """tokenizer_config.json, with what older versions wrote in files of their own."""
    optional = lambda name: read_json(folder / name) if (folder / name).is_file() else {}
    said = optional(SAID)
    if "auto_map" in said:
        raise RunError("asks for code that comes with the vocabulary (auto_map): Attentif runs none", file=folder / SAID)
    if "added_tokens_decoder" not in said:
        said |= {key: value for key, value in optional(SPECIAL).items() if value}
        special = {token.content for token in [*_special_tokens(said, None).values(), *_more(said)]}
        said["added_tokens_decoder"] = {
            str(number): {"content": token, "normalized": token not in special, "special": token in special}
            for token, number in optional(ADDED).items()
        }
    added = said["added_tokens_decoder"]
    if not isinstance(added, dict) or not all(str(number).isdecimal() and isinstance(token, dict) for number, token in added.items()):
        raise RunError("the added tokens are no table from ids to tokens", file=folder / (SAID if (folder / SAID).is_file() else ADDED))
    return said


def _class(said: Mapping[str, Any], config: Mapping[str, Any]) -> str:
    """The class of transformers that the vocabulary was written for."""
    asked = str(said.get("tokenizer_class") or config.get("tokenizer_class") or "").removesuffix("Fast")
    return SAME.get(asked, asked) if asked and asked not in ANY else OF_MODEL.get(str(config.get("model_type")), "")


def _files(folder: Path, style: Style | None, said: Mapping[str, Any], config: Mapping[str, Any]) -> list[Path] | None:
    """The files that the class reads; None where there are no vocabulary files at all."""
    there = sorted(path.name for pattern in ("vocab.*", "merges.txt", "*.model", "*.spm") for path in folder.glob(pattern))
    if not there:
        return None
    if style is None:
        who = _class(said, config) or f"model of type {config.get('model_type')!r}"
        raise RunError(f"has no {TOKENIZER}, and how a {who} reads {there[0]} is not known here", file=folder)
    files = [_alias(folder, name) for name in style.files]
    if lost := [file for file in files if not file.is_file()]:
        raise RunError(f"is not there, beside {there[0]}; nor is {TOKENIZER}", file=lost[0])
    return files


def _alias(folder: Path, name: str) -> Path:
    """A SentencePiece model goes by several names; where there is only one, it is that."""
    if not (folder / name).is_file() and name.endswith(".model") and len(others := sorted(folder.glob("*.model"))) == 1:
        return others[0]
    return folder / name


# ----------------------------------------------------------------------------------------------------------------- special tokens


def _special_tokens(said: Mapping[str, Any], style: Style | None) -> dict[str, AddedToken]:
    """The special token of each part: as the files say, or as the class has it."""
    known = {token.content: token for token in _read_added_tokens(said).values()}
    found = {}
    for part in PARTS:
        value = said.get(f"{part}_token", style.names.get(part) if style else None)
        if value is None:
            continue
        token = _token(value)
        if isinstance(value, str) and style is not None:
            token = AddedToken(value, special=True, lstrip=part in style.swallows, normalized=style.normalised)
        found[part] = known.get(token.content, token)
    return found


def _read_added_tokens(said: Mapping[str, Any]) -> dict[int, AddedToken]:
    """The added tokens by their ids."""
    return {
        int(number): _token(token) for number, token in sorted(said.get("added_tokens_decoder", {}).items(), key=lambda own: int(own[0]))
    }


def _more(said: Mapping[str, Any]) -> list[AddedToken]:
    """Special tokens that play no part of their own."""
    more = said.get("extra_special_tokens") or said.get("additional_special_tokens") or []
    return [_token(token) for token in (more.values() if isinstance(more, dict) else more)]


def _of_pieces(source: Source, path: Path, rust: Rust) -> list[AddedToken]:
    """The pieces of a SentencePiece model that are no part of words."""
    if path.suffix not in (".model", ".spm"):
        return []
    own = [piece for piece in source.pieces(path).pieces if piece.kind in (PieceKind.CONTROL, PieceKind.USER)]
    tokens = [AddedToken(piece.text, normalized=False, special=piece.kind == PieceKind.CONTROL) for piece in own]
    return [token for token in tokens if rust.token_to_id(token.content) is not None]


def _sentinels(rust: Rust) -> list[AddedToken]:
    """T5's, which stand for what was cut out of a text."""
    names: list[str] = []
    while rust.token_to_id(name := f"<extra_id_{len(names)}>") is not None:
        names.append(name)
    return [AddedToken(name, special=True) for name in names]


def _token(value: Any) -> AddedToken:
    if isinstance(value, dict):
        return AddedToken(str(value.get("content", "")), **{flag: bool(value[flag]) for flag in FLAGS if flag in value})
    return AddedToken(str(value), special=True)


def _add(rust: Rust, said: Mapping[str, Any], tokens: Mapping[str, AddedToken], more: Iterable[AddedToken], file: Path) -> None:
    """Tell the library which tokens are special; those that the vocabulary lacks get the next ids, which must be those that were said."""
    decoded = _read_added_tokens(said)
    named = {token.content for token in tokens.values()}
    there = rust.get_added_tokens_decoder().values()
    as_said = {repr(token) for token in there}
    new = [token for token in decoded.values() if repr(token) not in as_said]
    known = {token.content for token in (*there, *decoded.values())}
    new += [token for token in (*tokens.values(), *more) if token.content not in known]  # a later one with other flags replaces a former
    for token in new:
        token.special = token.special or token.content in named
    rust.add_tokens(new)
    for number, token in decoded.items():
        if rust.token_to_id(token.content) != number:
            own = rust.token_to_id(token.content)
            raise RunError(f"has {own} tokens before {token.content!r}, which {SAID} or {ADDED} puts at {number}", file=file)


# ---------------------------------------------------------------------------------------------------------------------- the whole


def _change_first(rust: Rust, style: Style | None, source: Source) -> None:
    """Bring texts to the form that the class brings them to before anything else."""
    if style is not None and style.before is not None:
        rust.normalizer = normalizers.Sequence([*style.before(source), *([] if rust.normalizer is None else [rust.normalizer])])


def _frame(rust: Rust, style: Style, said: Mapping[str, Any], names: Mapping[str, str]) -> None:
    """What stands around one text, and around two."""
    if style.trims:
        sep, cls = ((names[part], _id(rust, names[part])) for part in ("sep", "cls"))
        blank = bool(said.get("add_prefix_space", False))
        rust.post_processor = processors.RobertaProcessing(sep, cls, bool(said.get("trim_offsets", True)), blank)
        return
    if style.frame is None:
        bos, eos = (bool(said.get(f"add_{part}_token", False)) and names.get(part) is not None for part in ("bos", "eos"))
        one = (*("bos",) * bos, "A", *("eos",) * eos)
        frame = one, (*one, *(f"{part}:1" for part in (*("bos",) * bos, "B", *("eos",) * eos)))
    else:
        frame = style.frame
    around = [[_item(item, names) for item in items] for items in frame]
    special = {item.rsplit(":", 1)[0] for item in around[1] if not item.startswith("$")}
    ids = [(token, rust.token_to_id(token)) for token in sorted(special)]
    if all(number is not None for _, number in ids):
        rust.post_processor = processors.TemplateProcessing(single=around[0], pair=around[1], special_tokens=ids)


def _id(rust: Rust, token: str) -> int:
    number = rust.token_to_id(token)
    assert number is not None, token  # it was added
    return int(number)


def _item(item: str, names: Mapping[str, str]) -> str:
    """An item of a frame as the library writes it: "sep:1" is `[SEP]:1`, "A" is `$A:0`."""
    part, _, segment = item.partition(":") if not item.startswith("<") else (item, "", "")
    token = f"${part}" if part in ("A", "B") else names.get(part, part)
    return f"{token}:{segment or 0}"


def _finish(rust: Rust, tokens: Mapping[str, AddedToken], file: Path, config: Mapping[str, Any], size: str) -> Tokenizer:
    """The tokenizer, none of whose ids is larger than the model's embedding."""
    text = config.get("text_config")
    rows = config.get(size) or (text.get(size) if isinstance(text, dict) else None)
    rust = _within(rust, rows) if isinstance(rows, int) else rust
    special = {part: number for part, token in tokens.items() if (number := rust.token_to_id(token.content)) is not None}
    tokenizer = Tokenizer(rust, special, read_decoding(file.parent, config, two_stacks=False).ends)
    if isinstance(rows, int) and tokenizer.vocab > rows:
        largest = rust.id_to_token(tokenizer.vocab - 1)
        raise RunError(f"has {tokenizer.vocab:,} tokens (the last is {largest!r}), and the model {rows:,} ({CONFIG}: {size})", file=file)
    if "eos" in tokenizer.special:
        tokenizer.special.setdefault("pad", tokenizer.special["eos"])  # Llama 3 has none; nobody looks at it
    return tokenizer


def _within(rust: Rust, rows: int) -> Rust:
    """Without special tokens at the end that the model has no vector for: the <mask> of a BART that learned to summarise, a [PAD] that
    somebody added. No text becomes one of them; where what is put around a text does, or others lack a vector too, all stay."""
    beyond = {token: number for token, number in rust.get_vocab().items() if number >= rows}
    special = {number for number, token in rust.get_added_tokens_decoder().items() if token.special}
    said = json.loads(rust.to_str()) if beyond and special.issuperset(beyond.values()) else {}
    if not said or any(json.dumps(token) in json.dumps(said["post_processor"]) for token in beyond):
        return rust
    said["added_tokens"] = [token for token in said["added_tokens"] if token["id"] < rows]
    vocab = said["model"]["vocab"]
    said["model"]["vocab"] = vocab[:rows] if isinstance(vocab, list) else {token: id_ for token, id_ in vocab.items() if id_ < rows}
    return Rust.from_str(json.dumps(said))
