"""Vocabularies of other people: what is wrong with one is said in one line that names the file, and what is text stays text."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import sentencepiece
from tokenizers import Tokenizer as Rust
from tokenizers import models, pre_tokenizers, trainers

from attentif.errors import AttentifError, ConfigError, DataError, RunError
from attentif.hub.pieces import BPE, UNIGRAM, PieceKind, read_pieces
from attentif.hub.tokenizer_files import write_tokenizer_files
from attentif.hub.vocabulary import read_target_tokenizer, read_tokenizer
from attentif.text import TOKENIZERS

TEXT = ["le chat est sur la table et la table est dans le jardin", "il était une fois un roi </s> et une reine <s> qui riaient"] * 20


def put(folder: Path, **files: Any) -> Path:
    """Files by name: text, bytes, or a table that becomes JSON; `vocab__txt` is vocab.txt."""
    folder.mkdir(exist_ok=True)
    for name, value in files.items():
        data = value if isinstance(value, bytes) else (value if isinstance(value, str) else json.dumps(value)).encode()
        (folder / name.replace("__", ".")).write_bytes(data)
    return folder


def pieces(folder: Path, name: str, **options: Any) -> Path:
    folder.mkdir(exist_ok=True)
    with (folder / name).open("wb") as file:
        usual = {"vocab_size": 60, "minloglevel": 2, "hard_vocab_limit": False}
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(TEXT), model_writer=file, **usual | options)
    return folder


@pytest.fixture
def gpt2(tmp_path: Path) -> Path:
    rust = Rust(models.BPE())
    rust.pre_tokenizer = pre_tokenizers.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    rust.train_from_iterator(
        TEXT, trainers.BpeTrainer(vocab_size=290, initial_alphabet=alphabet, special_tokens=["<|endoftext|>"], show_progress=False)
    )
    rust.model.save(str(tmp_path))
    return tmp_path


BERT = {"model_type": "bert"}
WORDS = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nle\nchat\n##s\n"


def test_a_vocabulary_without_a_pad_pads_with_its_end(gpt2: Path) -> None:
    """Llama 3's: nobody looks at padding, but a batch needs some."""
    put(gpt2, tokenizer_config__json={"eos_token": "<|end_of_text|>", "bos_token": "<|begin|>", "unk_token": None})
    for file in ("vocab.json", "merges.txt"):
        (gpt2 / file).write_text((gpt2 / file).read_text().replace("<|endoftext|>", "<|end_of_text|>"))
    found = read_tokenizer(gpt2, {"model_type": "gpt2"})
    assert found is not None
    assert found.pad == found.eos == found.id_of("<|end_of_text|>")


def test_a_special_token_without_a_vector_is_left_out(tmp_path: Path) -> None:
    """<mask> of a BART that learned to summarise: a text that holds it is a text. [SEP], which is put around texts, cannot be."""
    words = "[PAD]\n[UNK]\n[CLS]\nle\nchat\n[SEP]\n[MASK]\n"
    folder = put(tmp_path / "bert", vocab__txt=words)
    whole, cut = (read_tokenizer(folder, BERT | {"vocab_size": size}) for size in (7, 6))
    assert whole is not None
    assert cut is not None
    assert (whole.vocab, cut.vocab) == (7, 6)
    assert (whole.special["mask"], "mask" in cut.special) == (6, False)
    assert whole.encode("le chat [MASK]", specials_in_text=True).ids == [2, 3, 4, 6, 5]
    assert cut.encode("le chat [MASK]", specials_in_text=True).ids == [2, 3, 4, 1, 1, 1, 5]
    assert cut.encode("le chat").ids == whole.encode("le chat").ids
    with pytest.raises(RunError, match=r"7.*\(the.*'\[MASK\]'\),.*5"):
        read_tokenizer(folder, BERT | {"vocab_size": 5})


def test_a_folder_without_a_vocabulary_has_no_tokenizer(tmp_path: Path) -> None:
    assert read_tokenizer(tmp_path, {"model_type": "vit"}) is None
    assert read_target_tokenizer(tmp_path, {"model_type": "marian"}) is None


@pytest.mark.parametrize(
    ("files", "config", "file", "said"),
    [
        ({"vocab__txt": "le\nchat\n"}, BERT, "vocab.txt", "has no [UNK]"),
        ({"vocab__txt": b"[UNK]\n\xff\xfe\n"}, BERT, "vocab.txt", "is damaged"),
        ({"vocab__json": {"a": 0}}, {"model_type": "gpt2"}, "merges.txt", "is not there, beside vocab.json"),
        ({"merges__txt": "a b\n"}, {"model_type": "gpt2"}, "vocab.json", "is not there, beside merges.txt"),
        ({"vocab__json": "{", "merges__txt": ""}, {"model_type": "gpt2"}, "vocab.json:1", "is damaged: not JSON"),
        ({"vocab__json": {"a": "b"}, "merges__txt": ""}, {"model_type": "gpt2"}, "vocab.json", "the id of 'a' is no whole number"),
        ({"vocab__json": {"a": 0}, "merges__txt": "#version: 0.2\na\n"}, {"model_type": "gpt2"}, "merges.txt:2", "is no pair of tokens"),
        ({"vocab__json": {"a": 0}, "merges__txt": "a b\n"}, {"model_type": "gpt2"}, "merges.txt", "out of vocabulary"),
        ({"vocab__txt": WORDS}, {"model_type": "xlnet"}, "", "has no tokenizer.json, and how a model of type 'xlnet' reads vocab.txt"),
        ({"vocab__txt": WORDS, "tokenizer_config__json": {"tokenizer_class": "XTokenizer"}}, BERT, "", "how a XTokenizer reads vocab.txt"),
        ({"vocab__txt": WORDS, "tokenizer_config__json": {"auto_map": {}}}, BERT, "tokenizer_config.json", "runs none"),
        ({"vocab__txt": WORDS}, BERT | {"vocab_size": 7}, "vocab.txt", "has 8 tokens (the last is '##s'), and the model 7"),
        ({"vocab__txt": WORDS, "added_tokens__json": {"[X]": 9}}, BERT, "vocab.txt", "has 8 tokens before '[X]'"),
        ({"vocab__txt": WORDS, "added_tokens__json": {"[X]": "y"}}, BERT, "added_tokens.json", "no table from ids to tokens"),
        ({"vocab__txt": WORDS, "tokenizer_config__json": "[]"}, BERT, "tokenizer_config.json", "holds a list"),
        ({"tokenizer__json": "{}"}, BERT, "tokenizer.json", "is not a tokenizer"),
        ({"tokenizer__model": b"IQ== 0\nIg== 1\n"}, {"model_type": "llama"}, "tokenizer.model", "tiktoken"),
        ({"tokenizer__model": b""}, {"model_type": "llama"}, "tokenizer.model", "it holds no pieces"),
        ({"spiece__model": b"\x0a\xff\xff"}, {"model_type": "t5"}, "spiece.model", "not a whole SentencePiece model"),
    ],
)
def test_what_is_wrong_is_one_line_that_names_the_file(
    files: dict[str, Any], config: dict[str, Any], file: str, said: str, tmp_path: Path
) -> None:
    folder = put(tmp_path / "here", **files)
    with pytest.raises(AttentifError) as error:
        read_tokenizer(folder, config)
    assert str(error.value).startswith(f"{folder / file}: " if file else f"{folder}: ")
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_damaged_files_of_every_kind_are_refused_or_read_and_nothing_else(tmp_path: Path, gpt2: Path) -> None:
    t5 = pieces(tmp_path / "t5", "spiece.model", pad_id=0, eos_id=1, unk_id=2, bos_id=-1)
    llama = pieces(tmp_path / "llama", "tokenizer.model", model_type="bpe", byte_fallback=True, vocab_size=340)
    draw = random.Random(0)
    refused = 0
    for folder, kind, name in ((t5, "t5", "spiece.model"), (llama, "llama", "tokenizer.model"), (gpt2, "gpt2", "merges.txt")):
        whole = (folder / name).read_bytes()
        for trial in range(40):
            data = bytearray(whole[: draw.randrange(len(whole))] if trial % 2 else whole)
            for _ in range(3):
                data[draw.randrange(len(data))] = draw.randrange(256)
            (folder / name).write_bytes(data)
            try:
                tokenizer = read_tokenizer(folder, {"model_type": kind})
            except RunError:
                refused += 1
            else:
                assert tokenizer is not None
                tokenizer.decode(tokenizer.encode("le chat 你", "</s>").ids)
    assert refused > 60


def test_pieces_are_those_that_sentencepiece_reads(tmp_path: Path) -> None:
    for name, algorithm, options in (
        ("a.model", UNIGRAM, {"user_defined_symbols": "<u>"}),
        ("b.model", BPE, {"model_type": "bpe", "byte_fallback": True, "vocab_size": 340, "control_symbols": "<c>"}),
    ):
        found = read_pieces(pieces(tmp_path, name, **options) / name)
        reference = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / name))
        numbers = range(reference.GetPieceSize())
        assert found.algorithm == algorithm
        assert found.byte_fallback == ("byte_fallback" in options)
        assert found.scores == [(reference.IdToPiece(number), reference.GetScore(number)) for number in numbers]
        for test, kind in (("IsControl", PieceKind.CONTROL), ("IsUnknown", PieceKind.UNKNOWN), ("IsByte", PieceKind.BYTE)):
            assert [piece.kind == kind for piece in found.pieces] == [getattr(reference, test)(number) for number in numbers]
    with pytest.raises(RunError, match="words or characters"):
        read_pieces(pieces(tmp_path, "w.model", model_type="word", vocab_size=20) / "w.model")


def test_a_special_token_that_is_typed_is_letters(tmp_path: Path) -> None:
    folder = pieces(tmp_path / "llama", "tokenizer.model", model_type="bpe", byte_fallback=True, vocab_size=340)
    tokenizer = read_tokenizer(folder, {"model_type": "llama"})
    assert tokenizer is not None
    assert tokenizer.eos not in tokenizer.encode("un roi </s> et", wrap="none").ids
    assert tokenizer.eos in tokenizer.encode("un roi </s> et", wrap="none", specials_in_text=True).ids
    unigram = read_tokenizer(pieces(tmp_path / "t5", "spiece.model", pad_id=0, eos_id=1, unk_id=2, bos_id=-1), {"model_type": "t5"})
    assert unigram is not None
    typed = unigram.encode("un roi </s> <extra_id_0> <pad>", wrap="none").ids
    assert not {unigram.eos, unigram.pad, unigram.id_of("<extra_id_0>")} & set(typed)


def test_bytes_that_are_no_text_are_replaced_before_and_half_a_character_is_refused(gpt2: Path) -> None:
    tokenizer = read_tokenizer(gpt2, {"model_type": "gpt2"})
    assert tokenizer is not None
    text = b"caf\xe9".decode("utf-8", errors="replace")
    assert tokenizer.decode(tokenizer.encode(text).ids) == "caf\ufffd"
    with pytest.raises(DataError, match="surrogate"):
        tokenizer.encode("caf\udce9")


def test_every_end_that_the_generation_config_names_is_one(gpt2: Path) -> None:
    put(gpt2, generation_config__json={"eos_token_id": [0, 5]})
    tokenizer = read_tokenizer(gpt2, {"model_type": "gpt2"})
    assert tokenizer is not None
    assert tokenizer.ends == {0, 5}


def test_marian_without_its_other_half_is_refused(tmp_path: Path) -> None:
    folder = pieces(tmp_path / "marian", "source.spm")
    names = [piece.text for piece in read_pieces(folder / "source.spm").pieces]
    put(folder, vocab__json={name: number for number, name in enumerate([*names, "<pad>"])})
    with pytest.raises(RunError, match=r"target\.spm: is not there, beside source\.spm"):
        read_target_tokenizer(folder, {"model_type": "marian"})
    put(folder, vocab__json={"<unk>": 0, "a": 5})
    with pytest.raises(RunError, match=r"vocab\.json: has gaps"):
        read_tokenizer(folder, {"model_type": "marian"})


def test_a_cut_that_transformers_would_change_is_not_written(tmp_path: Path) -> None:
    tokenizer = TOKENIZERS["bpe"](vocab=300).fit(TEXT)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="choose another family"):
        write_tokenizer_files(tmp_path, tokenizer, family="qwen2")
    assert not list(tmp_path.iterdir())
