"""The tokenizers of models that compare texts with pictures: CLIP's byte-level BPE with a mark at the ends of words, SigLIP's pieces."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from tokenizers import Regex, decoders, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Rust

from attentif.hub.slow_tokenizers import Source, bpe, merges_of, t5, tokens_of

END = "</w>"  # of a word
CLIP_WORDS = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
ENDS = r"\A[\s\x1c-\x1f]+|[\s\x1c-\x1f]+\z"  # blanks around a text, as Python strips them
PUNCTUATION = r"[!-/:-@\[-`{-~]"  # of ASCII


def clip(source: Source, files: Sequence[Path]) -> Rust:
    options = {"continuing_subword_prefix": "", "end_of_word_suffix": END, "unk_token": source.names["unk"]}
    rust = bpe(files[1], tokens_of(files[0]), merges_of(files[1]), **options)
    rust.normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    words = pre_tokenizers.Split(Regex(CLIP_WORDS), behavior="removed", invert=True)
    rust.pre_tokenizer = pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    return with_spaces(rust)


def with_spaces(rust: Rust) -> Rust:
    """A blank where a word ends; what transformers does in its own program, and CLIP's tokenizer.json does not say."""
    rust.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Replace(END, " "), decoders.Replace(Regex(ENDS), "")])
    return rust


def siglip(source: Source, files: Sequence[Path]) -> Rust:
    return t5(replace(source, said={"extra_ids": 0, **source.said}), files)


def canonical(source: Source) -> list[normalizers.Normalizer]:
    """What SigLIP's tokenizer does to a text before it cuts it, and its tokenizer.json does not say."""
    small = [normalizers.Lowercase()] if source.flag("do_lower_case", True) else []
    return [*small, normalizers.Replace(Regex(PUNCTUATION), ""), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Strip()]
