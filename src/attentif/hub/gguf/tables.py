"""Architectures of GGUF as tables: which key is which of config.json, which tensor is which of a Hugging Face folder.

A GGUF file is read as the folder that it was converted from, and written from it: everything else is the families' business.
RWKV-4 is not in the format (only versions 6 and 7 are), nor are windows of LLaMA-type models.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from attentif.errors import ConfigError
from attentif.hub.rows import Names, Row, Same, Transposed, _OneName

Config = dict[str, Any]


@dataclass(frozen=True)
class Interleaved(_OneName):
    """Queries and keys of llama's rotary positions: GGUF has the two components of a pair next to each other, LLaMA half a head apart."""

    heads: int

    def read(self, theirs: Sequence[Tensor]) -> list[Tensor]:
        return [tensor.unflatten(0, (self.heads, -1, 2)).transpose(1, 2).flatten(0, 2) for tensor in theirs]

    def write(self, ours: Sequence[Tensor]) -> list[Tensor]:
        return [tensor.unflatten(0, (self.heads, 2, -1)).transpose(1, 2).flatten(0, 2) for tensor in ours]


@dataclass(frozen=True)
class Unstacked(_OneName):
    """Experts: one tensor here, one each in the folder."""

    def read(self, theirs: Sequence[Tensor]) -> list[Tensor]:
        return list(theirs[0].unbind(0))

    def write(self, ours: Sequence[Tensor]) -> list[Tensor]:
        return [torch.stack(list(ours))]


@dataclass(frozen=True)
class Decay(_OneName):
    """A = -exp(A_log) of state spaces."""

    def read(self, theirs: Sequence[Tensor]) -> list[Tensor]:
        return [torch.log(-tensor) for tensor in theirs]

    def write(self, ours: Sequence[Tensor]) -> list[Tensor]:
        return [-torch.exp(tensor) for tensor in ours]


@dataclass(frozen=True)
class Middle(_OneName):
    """A dimension of one entry in the middle, which GGUF leaves out."""

    def read(self, theirs: Sequence[Tensor]) -> list[Tensor]:
        return [tensor.unsqueeze(1) for tensor in theirs]

    def write(self, ours: Sequence[Tensor]) -> list[Tensor]:
        return [tensor.squeeze(1) for tensor in ours]


@dataclass(frozen=True)
class Architecture:
    """One architecture of GGUF, as a `model_type` of Hugging Face."""

    name: str
    kind: str
    head: str  # the class of transformers
    keys: Mapping[str, str]  # of the metadata, behind the architecture's name: those of config.json
    rows: Callable[[Config], list[Row]]
    fixed: Mapping[str, Any] = field(default_factory=dict)  # of config.json: the only values that llama.cpp computes with
    read: Callable[[Config, Mapping[str, Any], Mapping[str, Tensor]], Config] = lambda config, *_: config
    write: Callable[[Config], dict[str, Any]] = lambda _: {}  # metadata beside the keys
    unread: tuple[str, ...] = ()  # keys of the metadata that say nothing new


OUTER = {
    "block_count": "num_hidden_layers",
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
}
LLAMA_KEYS = OUTER | {
    "attention.head_count_kv": "num_key_value_heads",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
    "attention.key_length": "head_dim",
    "rope.freq_base": "rope_theta",
}
ROTARY = (
    "rope.dimension_count", "rope.scaling.type", "rope.scaling.factor", "rope.scaling.original_context_length", "rope.scale_linear",
    "rope.scaling.finetuned", "rope.scaling.attn_factor", "rope.scaling.yarn_log_multiplier",
)  # fmt: skip
GENERAL = ("vocab_size", "attention.value_length", "tensor_data_layout", "attention.causal", "pooling_type")


def head_width(config: Config) -> int:
    return int(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])


def read_rope(config: Config, metadata: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Config:
    """Scalings are keys, or factors for each frequency in a tensor of their own (Llama 3)."""
    name = metadata["general.architecture"]
    turned = metadata.get(f"{name}.rope.dimension_count", head_width(config))
    if turned != head_width(config):
        raise ConfigError(f"{name}.rope.dimension_count: {turned} of {head_width(config)} components are turned, which is not read here")
    kind, factor = metadata.get(f"{name}.rope.scaling.type", "none"), metadata.get(f"{name}.rope.scaling.factor")
    for key in ("rope.scaling.attn_factor", "rope.scaling.yarn_log_multiplier", "rope.scale_linear"):
        if metadata.get(f"{name}.{key}", 1.0) not in (0.0, 1.0):
            raise ConfigError(f"{name}.{key}: {metadata[f'{name}.{key}']} is not understood")
    rope: Config = {}
    if "rope_freqs.weight" in tensors:
        factors = tensors["rope_freqs.weight"].tolist()
        rope = {"rope_type": "longrope", "short_factor": factors, "long_factor": factors, "attention_factor": 1.0, "factor": 1.0}
    elif kind in ("linear", "yarn") and factor is not None:
        trained = metadata.get(f"{name}.rope.scaling.original_context_length")
        rope = {"rope_type": kind, "factor": factor} | ({"original_max_position_embeddings": trained} if kind == "yarn" else {})
    elif kind != "none":
        raise ConfigError(f"{name}.rope.scaling.type: {kind!r} is not understood (only none, linear, yarn)")
    return config | ({"rope_scaling": rope} if rope else {})


def write_rope(config: Config) -> dict[str, Any]:
    rope = config.get("rope_parameters") or {}
    kind = rope.get("rope_type", "default")
    found: dict[str, Any] = {"rope.dimension_count": head_width(config), "attention.value_length": head_width(config)}
    if kind in ("linear", "yarn"):
        found |= {"rope.scaling.type": kind, "rope.scaling.factor": float(rope["factor"])}
    if kind == "yarn":
        if any(rope.get(key) not in (None, usual) for key, usual in (("beta_fast", 32.0), ("beta_slow", 1.0), ("attention_factor", None))):
            raise ConfigError("GGUF has no keys for beta_fast, beta_slow and attention_factor of YaRN")
        found["rope.scaling.original_context_length"] = rope["original_max_position_embeddings"]
    return found


def rope_factors(config: Config) -> Tensor | None:
    """What frequencies are divided by, where that differs from one to the next and no key can say it: Llama 3's, and longrope's."""
    rope = config.get("rope_parameters") or {}
    kind, width = rope.get("rope_type", "default"), head_width(config)
    if kind == "longrope":
        if rope["short_factor"] != rope["long_factor"] or rope.get("attention_factor", 1.0) != 1.0:
            raise ConfigError("GGUF's llama has one list of rope factors, for texts of any length")
        return torch.tensor(rope["short_factor"])
    if kind != "llama3":
        return None
    kept = rope["rope_theta"] ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    turns = rope["original_max_position_embeddings"] * kept / (2 * math.pi)
    smooth = ((turns - rope["low_freq_factor"]) / (rope["high_freq_factor"] - rope["low_freq_factor"])).clamp(0, 1)
    return (1 / ((1 - smooth) / rope["factor"] + smooth)).float()


def llama_write(config: Config) -> dict[str, Any]:
    window = config.get("sliding_window")
    if window is not None and window < config["max_position_embeddings"]:
        raise ConfigError(f"llama.cpp computes no windows for this architecture, and this model sees {window} tokens")
    return write_rope(config)


def decoder_rows(config: Config, *, interleaved: bool) -> list[Row]:
    heads = config["num_attention_heads"]
    q, k = (Interleaved(heads), Interleaved(config.get("num_key_value_heads") or heads)) if interleaved else (Same(), Same())
    theirs, ours = "blk.{i}", "model.layers.{i}"
    return [
        Row("token_embd.weight", "model.embed_tokens.weight"),
        Row("output_norm.weight", "model.norm.weight"),
        Row("output.weight", "lm_head.weight"),
        Row(f"{theirs}.attn_norm.weight", f"{ours}.input_layernorm.weight"),
        Row(f"{theirs}.attn_q.{{p}}", f"{ours}.self_attn.q_proj.{{p}}", q),
        Row(f"{theirs}.attn_k.{{p}}", f"{ours}.self_attn.k_proj.{{p}}", k),
        Row(f"{theirs}.attn_v.{{p}}", f"{ours}.self_attn.v_proj.{{p}}"),
        Row(f"{theirs}.attn_output.{{p}}", f"{ours}.self_attn.o_proj.{{p}}"),
        Row(f"{theirs}.attn_q_norm.weight", f"{ours}.self_attn.q_norm.weight"),
        Row(f"{theirs}.attn_k_norm.weight", f"{ours}.self_attn.k_norm.weight"),
        Row(f"{theirs}.ffn_norm.weight", f"{ours}.post_attention_layernorm.weight"),
        Row(f"{theirs}.ffn_gate.{{p}}", f"{ours}.mlp.gate_proj.{{p}}"),
        Row(f"{theirs}.ffn_up.{{p}}", f"{ours}.mlp.up_proj.{{p}}"),
        Row(f"{theirs}.ffn_down.{{p}}", f"{ours}.mlp.down_proj.{{p}}"),
    ]


def expert_rows(config: Config, count: str, block: str, names: Names) -> list[Row]:
    """`names`: of gate, up and down in the folder."""
    theirs, ours = "blk.{i}", f"model.layers.{{i}}.{block}"
    rows = [Row(f"{theirs}.ffn_gate_inp.weight", f"{ours}.gate.weight")]
    for part, name in zip(("gate", "up", "down"), names, strict=True):
        each = tuple(f"{ours}.experts.{number}.{name}.weight" for number in range(config[count]))
        rows.append(Row(f"{theirs}.ffn_{part}_exps.weight", each, Unstacked()))
    return rows


def gpt2_rows(_: Config) -> list[Row]:
    theirs, ours = "blk.{i}", "transformer.h.{i}"
    names = {"attn_qkv": "attn.c_attn", "attn_output": "attn.c_proj", "ffn_up": "mlp.c_fc", "ffn_down": "mlp.c_proj"}
    return [
        Row("token_embd.weight", "transformer.wte.weight"),
        Row("position_embd.weight", "transformer.wpe.weight"),
        Row("output_norm.{p}", "transformer.ln_f.{p}"),
        Row("output.weight", "lm_head.weight"),
        Row(f"{theirs}.attn_norm.{{p}}", f"{ours}.ln_1.{{p}}"),
        Row(f"{theirs}.ffn_norm.{{p}}", f"{ours}.ln_2.{{p}}"),
        *(Row(f"{theirs}.{part}.{{p}}", f"{ours}.{name}.{{p}}", Transposed()) for part, name in names.items()),
    ]


def bert_rows(_: Config) -> list[Row]:
    theirs, ours = "blk.{i}", "encoder.layer.{i}"
    names = {
        "attn_q": "attention.self.query", "attn_k": "attention.self.key", "attn_v": "attention.self.value",
        "attn_output": "attention.output.dense", "attn_output_norm": "attention.output.LayerNorm", "ffn_up": "intermediate.dense",
        "ffn_down": "output.dense", "layer_output_norm": "output.LayerNorm",
    }  # fmt: skip
    return [
        Row("token_embd.weight", "embeddings.word_embeddings.weight"),
        Row("position_embd.weight", "embeddings.position_embeddings.weight"),
        Row("token_types.weight", "embeddings.token_type_embeddings.weight"),
        Row("token_embd_norm.{p}", "embeddings.LayerNorm.{p}"),
        *(Row(f"{theirs}.{part}.{{p}}", f"{ours}.{name}.{{p}}") for part, name in names.items()),
    ]


def bert_read(config: Config, metadata: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Config:
    if metadata.get("bert.attention.causal", False):
        raise ConfigError("bert.attention.causal: true is not understood")
    types = tensors["token_types.weight"].shape[0] if "token_types.weight" in tensors else 0
    return config | {"type_vocab_size": types}


def t5_rows(config: Config) -> list[Row]:
    rows = [Row("token_embd.weight", "shared.weight"), Row("output.weight", "lm_head.weight")]
    gated = {"ffn_gate": "wi_0", "ffn_up": "wi_1", "ffn_down": "wo"}
    plain = {"ffn_up": "wi", "ffn_down": "wo"}
    ffn = gated if "gated" in str(config.get("feed_forward_proj", "relu")) else plain
    attention = {"attn_q": "q", "attn_k": "k", "attn_v": "v", "attn_o": "o"}
    for short, stack in {"enc": "encoder", "dec": "decoder"}.items():
        theirs, ours = f"{short}.blk.{{i}}", f"{stack}.block.{{i}}.layer"
        last = 2 if short == "dec" else 1
        rows += [
            Row(f"{short}.output_norm.weight", f"{stack}.final_layer_norm.weight"),
            Row(f"{short}.blk.0.attn_rel_b.weight", f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"),
            Row(f"{theirs}.attn_norm.weight", f"{ours}.0.layer_norm.weight"),
            *(Row(f"{theirs}.{part}.weight", f"{ours}.0.SelfAttention.{name}.weight") for part, name in attention.items()),
            Row(f"{theirs}.ffn_norm.weight", f"{ours}.{last}.layer_norm.weight"),
            *(Row(f"{theirs}.{part}.weight", f"{ours}.{last}.DenseReluDense.{name}.weight") for part, name in ffn.items()),
        ]
        if short == "dec":
            rows.append(Row(f"{theirs}.cross_attn_norm.weight", f"{ours}.1.layer_norm.weight"))
            rows += [Row(f"{theirs}.cross_{part}.weight", f"{ours}.1.EncDecAttention.{name}.weight") for part, name in attention.items()]
    return rows


def t5_read(config: Config, _: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Config:
    gated = "enc.blk.0.ffn_gate.weight" in tensors
    return config | {"feed_forward_proj": "gated-gelu" if gated else "relu"}


def t5_write(config: Config) -> dict[str, Any]:
    if config.get("relative_attention_max_distance", 128) != 128 or config.get("feed_forward_proj", "relu") not in ("relu", "gated-gelu"):
        raise ConfigError("llama.cpp computes distances of T5 up to 128, and the activations relu and gated-gelu")
    return {"attention.value_length": config["d_kv"], "attention.layer_norm_epsilon": float(config["layer_norm_epsilon"])}


def mamba_rows(_: Config) -> list[Row]:
    theirs, ours = "blk.{i}", "backbone.layers.{i}"
    names = {"ssm_in": "in_proj", "ssm_x": "x_proj", "ssm_dt": "dt_proj", "ssm_out": "out_proj"}
    return [
        Row("token_embd.weight", "backbone.embeddings.weight"),
        Row("output_norm.weight", "backbone.norm_f.weight"),
        Row("output.weight", "lm_head.weight"),
        Row(f"{theirs}.attn_norm.weight", f"{ours}.norm.weight"),
        Row(f"{theirs}.ssm_conv1d.weight", f"{ours}.mixer.conv1d.weight", Middle()),
        Row(f"{theirs}.ssm_conv1d.bias", f"{ours}.mixer.conv1d.bias"),
        Row(f"{theirs}.ssm_a", f"{ours}.mixer.A_log", Decay()),
        Row(f"{theirs}.ssm_d", f"{ours}.mixer.D"),
        *(Row(f"{theirs}.{part}.{{p}}", f"{ours}.mixer.{name}.{{p}}") for part, name in names.items()),
    ]


def mamba_read(config: Config, metadata: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Config:
    inner = metadata.get("mamba.ssm.inner_size")
    if inner is None or inner % config["hidden_size"]:
        raise ConfigError(f"mamba.ssm.inner_size: {inner} is no multiple of the width")
    return config | {"expand": inner // config["hidden_size"], "use_conv_bias": "blk.0.ssm_conv1d.bias" in tensors}


def mamba_write(config: Config) -> dict[str, Any]:
    return {
        "ssm.inner_size": config["expand"] * config["hidden_size"],
        "feed_forward_length": 0,
        "attention.head_count": 0,
        "context_length": 1 << 20,
    }


EXPERTS = {"expert_count": "num_local_experts", "expert_used_count": "num_experts_per_tok"}
ARCHITECTURES = [
    Architecture(
        "llama", "llama", "LlamaForCausalLM", LLAMA_KEYS, lambda config: decoder_rows(config, interleaved=True), {"hidden_act": "silu"},
        read_rope, llama_write, ROTARY,
    ),
    Architecture(
        "llama", "mixtral", "MixtralForCausalLM", LLAMA_KEYS | EXPERTS,
        lambda config: [
            *decoder_rows(config, interleaved=True),
            *expert_rows(config, "num_local_experts", "block_sparse_moe", ("w1", "w3", "w2")),
        ],
        {"hidden_act": "silu"}, lambda config, *rest: read_rope(config, *rest) | {"sliding_window": None}, llama_write, ROTARY,
    ),
    Architecture(
        "qwen2", "qwen2", "Qwen2ForCausalLM", LLAMA_KEYS, lambda config: decoder_rows(config, interleaved=False), {"hidden_act": "silu"},
        read_rope, llama_write, ROTARY,
    ),
    Architecture(
        "qwen3", "qwen3", "Qwen3ForCausalLM", LLAMA_KEYS, lambda config: decoder_rows(config, interleaved=False), {"hidden_act": "silu"},
        read_rope, llama_write, ROTARY,
    ),
    Architecture(
        "qwen3moe", "qwen3_moe", "Qwen3MoeForCausalLM",
        LLAMA_KEYS | EXPERTS | {"expert_count": "num_experts", "expert_feed_forward_length": "moe_intermediate_size"},
        lambda config: [
            *decoder_rows(config, interleaved=False),
            *expert_rows(config, "num_experts", "mlp", ("gate_proj", "up_proj", "down_proj")),
        ],
        {"hidden_act": "silu", "norm_topk_prob": True}, read_rope, llama_write, ROTARY,
    ),
    Architecture(
        "gpt2", "gpt2", "GPT2LMHeadModel",
        {
            "block_count": "n_layer", "context_length": "n_positions", "embedding_length": "n_embd", "feed_forward_length": "n_inner",
            "attention.head_count": "n_head", "attention.layer_norm_epsilon": "layer_norm_epsilon",
        },
        gpt2_rows, {"activation_function": "gelu_new"},
    ),
    Architecture(
        "bert", "bert", "BertModel", OUTER | {"attention.layer_norm_epsilon": "layer_norm_eps"}, bert_rows, {"hidden_act": "gelu"},
        bert_read,
        lambda config: {"attention.causal": False, "pooling_type": config.get("pooling_type", 1)},
    ),
    Architecture(
        "t5", "t5", "T5ForConditionalGeneration",
        {
            "block_count": "num_layers", "decoder_block_count": "num_decoder_layers", "context_length": "n_positions",
            "embedding_length": "d_model", "feed_forward_length": "d_ff", "attention.head_count": "num_heads",
            "attention.key_length": "d_kv",
            "attention.layer_norm_rms_epsilon": "layer_norm_epsilon",
            "attention.relative_buckets_count": "relative_attention_num_buckets", "decoder_start_token_id": "decoder_start_token_id",
        },
        t5_rows, {}, t5_read, t5_write, ("attention.layer_norm_epsilon",),
    ),
    Architecture(
        "mamba", "mamba", "MambaForCausalLM",
        {
            "block_count": "num_hidden_layers", "embedding_length": "hidden_size", "ssm.conv_kernel": "conv_kernel",
            "ssm.state_size": "state_size", "ssm.time_step_rank": "time_step_rank",
            "attention.layer_norm_rms_epsilon": "layer_norm_epsilon",
        },
        mamba_rows, {"hidden_act": "silu"}, mamba_read, mamba_write,
        ("context_length", "feed_forward_length", "attention.head_count", "ssm.inner_size", "ssm.dt_b_c_rms"),
    ),
]  # fmt: skip
WRITTEN_AS = {"mistral": "llama"}  # a Mistral without windows is a LLaMA


def architecture_of(metadata: Mapping[str, Any]) -> Architecture:
    """The table of a file."""
    name = metadata.get("general.architecture")
    sparse = bool(metadata.get(f"{name}.expert_count"))
    for found in ARCHITECTURES:
        if found.name == name and ("expert_count" in found.keys) == sparse:
            return found
    known = sorted({found.name for found in ARCHITECTURES})
    raise ConfigError(f"general.architecture: {name!r} is not understood (only {', '.join(known)})")


def architecture_for(kind: str) -> Architecture:
    """The table that a `model_type` is written by."""
    for found in ARCHITECTURES:
        if found.kind == WRITTEN_AS.get(kind, kind):
            return found
    known = sorted({*(found.kind for found in ARCHITECTURES), *WRITTEN_AS})
    raise ConfigError(f"GGUF: a model of type {kind!r} is not written (only {', '.join(known)})")
