"""GGUF files that are damaged, hostile or unusual: one line each, never a crash."""

import random
import struct
from pathlib import Path
from typing import Any

import pytest
import torch

import attentif
from attentif.api import import_model
from attentif.errors import AttentifError, ConfigError, RunError
from attentif.hub.gguf.blocks import F32, Q8_0
from attentif.hub.gguf.file import GgufFile, write_file
from attentif.hub.gguf.read import is_gguf, unpack_gguf

TOKENS = ["<unk>", "<s>", "</s>", "\u2581", "a", "b", "\u2581a", "ab"]
METADATA: dict[str, Any] = {
    "general.architecture": "llama",
    "llama.block_count": 1,
    "llama.context_length": 32,
    "llama.embedding_length": 32,
    "llama.feed_forward_length": 32,
    "llama.attention.head_count": 2,
    "llama.attention.head_count_kv": 1,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "llama.rope.freq_base": 10000.0,
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.tokens": TOKENS,
    "tokenizer.ggml.scores": [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0, -2.0],
    "tokenizer.ggml.token_type": [2, 3, 3, 1, 1, 1, 1, 1],
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
    "tokenizer.ggml.unknown_token_id": 0,
    "tokenizer.chat_template": "{{ messages[0].content }}",
}
SHAPES = {
    "token_embd.weight": (8, 32),
    "output_norm.weight": (32,),
    "blk.0.attn_norm.weight": (32,),
    "blk.0.attn_q.weight": (32, 32),
    "blk.0.attn_k.weight": (16, 32),
    "blk.0.attn_v.weight": (16, 32),
    "blk.0.attn_output.weight": (32, 32),
    "blk.0.ffn_norm.weight": (32,),
    "blk.0.ffn_gate.weight": (32, 32),
    "blk.0.ffn_up.weight": (32, 32),
    "blk.0.ffn_down.weight": (32, 32),
}


def write(path: Path, metadata: dict[str, Any] = METADATA, shapes: dict[str, tuple[int, ...]] = SHAPES) -> Path:
    torch.manual_seed(0)
    kinds = {name: (shape, F32 if len(shape) == 1 else Q8_0) for name, shape in shapes.items()}
    write_file(path, metadata, kinds, (torch.randn(shape) for shape in shapes.values()))
    return path


def test_a_file_is_a_run_with_tokenizer_and_chat_template(tmp_path: Path) -> None:
    run = attentif.load(write(tmp_path / "model.gguf"))
    assert run.tokenizer.rust.encode("ab a").ids == [1, 6, 5, 6]
    assert run.model.config.decoder is not None
    assert "chat" in run.capabilities
    assert (run.path / "chat_template.jinja").read_text() == METADATA["tokenizer.chat_template"]


def test_a_file_is_imported_from_the_command_line_path(tmp_path: Path) -> None:
    found = attentif.load(import_model(write(tmp_path / "model.gguf"), tmp_path / "run"))
    assert found.model.config == attentif.load(tmp_path / "model.gguf").model.config


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"general.architecture": "rwkv6"}, "general.architecture: 'rwkv6' is not understood"),
        ({"llama.logit_scale": 2.0}, "llama.logit_scale: this key is not understood"),
        ({"llama.rope.dimension_count": 8}, "rope.dimension_count"),
        ({"llama.rope.scaling.type": "su", "llama.rope.scaling.factor": 2.0}, "rope.scaling.type"),
        ({"tokenizer.ggml.model": "rwkv"}, "tokenizer.ggml.model: 'rwkv' is not understood"),
        ({"tokenizer.ggml.scores": [0.0]}, "tokenizer.ggml.scores"),
        ({"tokenizer.ggml.token_type": [1]}, "tokenizer.ggml.token_type"),
        ({"split.count": 2}, "one part of several"),
        ({"llama.block_count": 10**9}, "blocks"),
    ],
)
def test_what_is_not_understood_is_refused_by_its_key(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(AttentifError, match=message):
        attentif.load(write(tmp_path / "model.gguf", METADATA | change))


def test_a_tensor_that_nothing_reads_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"blk\.0\.extra\.weight"):
        attentif.load(write(tmp_path / "model.gguf", shapes=SHAPES | {"blk.0.extra.weight": (32,)}))


@pytest.mark.parametrize("version", [1, 4])
def test_other_versions_are_refused(version: int, tmp_path: Path) -> None:
    path = write(tmp_path / "model.gguf")
    data = bytearray(path.read_bytes())
    data[4:8] = struct.pack("<I", version)
    path.write_bytes(data)
    with pytest.raises(RunError, match="version"):
        GgufFile(path)


def test_another_file_is_no_gguf(tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(b"PK")
    assert not is_gguf(tmp_path / "model.gguf")
    (tmp_path / "model.gguf").write_bytes(b"XXXXXXXX")
    with pytest.raises(RunError, match=r"begin.*GGUF"):
        GgufFile(tmp_path / "model.gguf")


def test_damaged_files_are_one_line_or_read(tmp_path: Path) -> None:
    """Bytes changed, counts and lengths made huge, ends cut off: 400 damaged files, and no error but ours."""
    whole = write(tmp_path / "whole.gguf").read_bytes()
    drawn, path, refused = random.Random(0), tmp_path / "model.gguf", list[str]()
    for number in range(400):
        data = bytearray(whole)
        if number % 4 == 0:
            data = data[: drawn.randrange(len(data))]
        elif number % 4 == 1:  # a length or an offset
            place = drawn.randrange(8, 1500)
            data[place : place + 8] = struct.pack("<Q", drawn.choice([2**64 - 1, 2**63, 2**40, 2**31, len(data), 0]))
        else:
            for _ in range(drawn.choice([1, 3, 20])):
                data[drawn.randrange(min(len(data), 1800))] = drawn.randrange(256)
        path.write_bytes(data)
        try:
            file = GgufFile(path)
            for name in file:
                assert file[name].shape == file.shape(name)
            unpack_gguf(path)
        except (RunError, ConfigError) as error:
            refused.append(str(error))
    assert len(refused) > 200
    assert all("\n" not in line and "model.gguf" in line for line in refused)
