"""A tokenizer as transformers reads it: `tokenizer.json`, `tokenizer_config.json`, `special_tokens_map.json`.

The class that is named, `PreTrainedTokenizerFast`, takes tokenizer.json as it is: the classes of the models (`BertTokenizer`) would dress
its vocabulary anew.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Rust

from attentif.errors import ConfigError
from attentif.files import write_json, write_text
from attentif.hub.pieces import write_pieces
from attentif.hub.slow_tokenizers import qwen_steps, split_marian
from attentif.hub.vocabulary import PARTS, SAID, SPECIAL, TOKENIZER
from attentif.text import Tokenizer
from attentif.text.chat_template import FILE as CHAT_TEMPLATE

CLASS = "PreTrainedTokenizerFast"
CHARACTERS, WHISPER = "Wav2Vec2CTCTokenizer", "WhisperTokenizer"  # what their processors know how to read transcripts with


def write_tokenizer_files(
    folder: Path,
    tokenizer: Tokenizer,
    *,
    family: str | None = None,
    segments: int = 0,
    max_len: int | None = None,
    sides: Mapping[str, str] | None = None,
    chat_template: str | None = None,
) -> None:
    """Write the files of a tokenizer into a folder, such that AutoTokenizer gives the same tokens.

    `family` is the model's (config.json: model_type), `segments` how many texts its embedding tells apart, `max_len` the longest text that
    it can hold, `sides` where texts are padded and cut. What stands around a text is what its own file says (its post-processor).
    """
    rust = tokenizer.rust
    if family == "qwen2":
        _refuse_another_cut(rust)
    added = {token.content for token in rust.get_added_tokens_decoder().values()}
    own = {part: str(rust.id_to_token(tokenizer.special[part])) for part in PARTS if part in tokenizer.special}
    names = {f"{part}_token": name for part, name in own.items() if name in added}  # others are letters to our tokenizer
    inputs = ["input_ids", *(["token_type_ids"] if segments > 1 else []), "attention_mask"]
    said: dict[str, Any] = {"tokenizer_class": CLASS, "clean_up_tokenization_spaces": False, "model_input_names": inputs} | names
    said |= dict(sides or {})
    if max_len is not None:
        said["model_max_length"] = max_len
    folder.mkdir(parents=True, exist_ok=True)
    if family in ("wav2vec2", "wav2vec2-conformer", "hubert"):
        said |= {"tokenizer_class": CHARACTERS, **_spelling(rust)}
        write_json(folder / "vocab.json", dict(sorted(rust.get_vocab().items(), key=lambda own: own[1])))
    else:
        tokenizer.save(folder / TOKENIZER)
    if family == "whisper" and type(rust.model).__name__ == "BPE" and "ByteLevel" in str(type(rust.pre_tokenizer)):
        said["tokenizer_class"] = WHISPER
    write_json(folder / SAID, said)
    write_json(folder / SPECIAL, names)
    if chat_template is not None:
        write_text(folder / CHAT_TEMPLATE, chat_template)


def write_two_tokenizers(folder: Path, reading: Tokenizer, writing: Tokenizer, *, max_len: int) -> None:
    """Marian's files: a SentencePiece model for each language, one vocabulary."""
    source, target = split_marian(reading.rust), split_marian(writing.rust)
    if source is None or target is None or source[1] != target[1]:
        raise ConfigError(
            "this run has a tokenizer for each side (task.separate_vocab), and Marian, the only family with two, "
            "has SentencePiece models that share one vocabulary"
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_pieces(folder / "source.spm", source[0])
    write_pieces(folder / "target.spm", target[0])
    write_json(folder / "vocab.json", source[1])
    names = {f"{part}_token": str(reading.rust.id_to_token(number)) for part, number in reading.special.items()}
    write_json(folder / SAID, {"tokenizer_class": "MarianTokenizer", "separate_vocabs": False, "model_max_length": max_len} | names)
    write_json(folder / SPECIAL, names)


def _spelling(rust: Rust) -> dict[str, Any]:
    """How characters are read, as `slow_tokenizers.characters` dresses them; that class has no other way."""
    said = json.loads(rust.to_str())
    steps = (said["normalizer"] or {}).get("normalizers") or [{}]
    if said["model"]["type"] != "WordLevel" or (steps[0].get("pattern") or {}).get("String") != " ":
        raise ConfigError("wav2vec2 spells transcripts in characters with a sign between words, and this tokenizer does not")
    return {"word_delimiter_token": steps[0]["content"], "do_lower_case": len(steps) > 1}


def _refuse_another_cut(rust: Rust) -> None:
    """transformers 5 gives every model of type qwen2 Qwen's own way of cutting, whatever tokenizer.json says."""
    said, needed = json.loads(rust.to_str()), qwen_steps()
    if any(said[step] != value for step, value in needed.items()):
        raise ConfigError("transformers cuts the texts of a qwen2 model as Qwen does, and this tokenizer does not: choose another family")
