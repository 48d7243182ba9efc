"""Mamba (Gu & Dao 2023) and Mamba-2 (Dao & Gu 2024)."""

import math
from collections.abc import Iterator
from typing import Any

from attentif.errors import ConfigError
from attentif.hub.family import Family, register
from attentif.hub.heads import bare, language
from attentif.hub.keys import Always, Key
from attentif.hub.rows import Row, SplitBySize, SplitParts, Squeezed
from attentif.models import ModelConfig

SSM = "decoder.block.ssm.mixer"
LAYER, BLOCK = "layers.{i}", "decoder.blocks.{i}.ssm"
KEYS: list[Key | Always] = [
    Key("vocab_size", "frontend.vocab"),
    Key("hidden_size", "width"),
    Key("num_hidden_layers", "layers"),
    Key("state_size", f"{SSM}.state"),
    Key("expand", f"{SSM}.expand", 2),
    Key("conv_kernel", f"{SSM}.conv", 4),
    Key("use_bias", f"{SSM}.bias", False),
    Key("use_conv_bias", f"{SSM}.conv_bias", True),
    Always("hidden_act", "silu"),
]
# how weights began, which of their own loops they use, and how residuals are rounded in half precision
HARMLESS = (
    "chunk_size", "intermediate_size", "rescale_prenorm_residual", "residual_in_fp32", "rms_norm", "time_step_floor",
    "time_step_init_scheme", "time_step_max", "time_step_min", "time_step_rank", "time_step_scale",
    "use_associative_scan", "use_mambapy", "d_inner", "d_model", "fused_add_norm", "n_layer", "pad_vocab_size_multiple", "ssm_cfg",
)  # fmt: skip
OUTER = [
    Row("embeddings.weight", "frontend.tokens.weight"),
    Row("norm_f.weight", "decoder.norm.weight"),
    Row(f"{LAYER}.norm.weight", f"{BLOCK}.norm_in.weight"),
    Row(f"{LAYER}.mixer.conv1d.weight", f"{BLOCK}.mixer.conv", Squeezed(1)),
    Row(f"{LAYER}.mixer.conv1d.bias", f"{BLOCK}.mixer.conv_bias"),
    Row(f"{LAYER}.mixer.A_log", f"{BLOCK}.mixer.A_log"),
    Row(f"{LAYER}.mixer.D", f"{BLOCK}.mixer.D"),
    Row(f"{LAYER}.mixer.out_proj.{{p}}", f"{BLOCK}.mixer.out.{{p}}"),
]
MAMBA = [
    *OUTER,
    Row(f"{LAYER}.mixer.in_proj.{{p}}", (f"{BLOCK}.mixer.inp.{{p}}", f"{BLOCK}.mixer.gate.{{p}}"), SplitParts(2)),
    Row(f"{LAYER}.mixer.x_proj.weight", f"{BLOCK}.mixer.select.weight"),
    Row(f"{LAYER}.mixer.dt_proj.{{p}}", f"{BLOCK}.mixer.step.{{p}}"),
]


def mamba2(config: ModelConfig) -> Iterator[Row]:
    """Gate, input with what is written and read, and step sizes come out of one matrix."""
    assert config.decoder is not None
    mixer = config.decoder.block["ssm"].mixer.model_dump()
    inner = mixer["expand"] * config.width
    sizes = (inner, inner + 2 * mixer["groups"] * mixer["state"], inner // mixer["head_width"])
    parts = tuple(f"{BLOCK}.mixer.{part}.weight" for part in ("gate", "inp", "step"))
    yield from OUTER
    yield Row(f"{LAYER}.mixer.in_proj.weight", parts, SplitBySize(sizes))
    yield Row(f"{LAYER}.mixer.dt_bias", f"{BLOCK}.mixer.step.bias")
    yield Row(f"{LAYER}.mixer.norm.weight", f"{BLOCK}.mixer.norm.weight")


def template(kind: str) -> dict[str, Any]:
    ssm = {"placement": "pre", "norm": {"kind": "rms"}, "block": {"ssm": {"mixer": {"kind": kind}}}}
    return {"dropout": 0.0, "frontend": {"kind": "tokens"}, "decoder": ssm}


def with_rank(config: dict[str, Any]) -> dict[str, Any]:
    """The rank of step sizes is "auto" in old files: a sixteenth of the width, as it is by default here."""
    if config.get("time_step_rank") in ("auto", None):
        config["time_step_rank"] = -(-int(config.get("hidden_size", 0)) // 16)
    return config


def without_limit(config: dict[str, Any]) -> dict[str, Any]:
    """Step sizes could be kept within limits; JSON has no infinity, and transformers two ways to write one."""
    limit = config.pop("time_step_limit", None) or [0.0, math.inf]
    ends = [math.inf if end in ("Infinity", {"__float__": "Infinity"}) else end for end in limit]
    if ends != [0.0, math.inf]:
        raise ConfigError(f"time_step_limit: {limit!r} is not understood (only 0 and infinity)")
    return config


def with_heads(config: dict[str, Any]) -> dict[str, Any]:
    """transformers wants the number of heads beside their width."""
    return config | {"num_heads": config["expand"] * config["hidden_size"] // config["head_dim"]}


register(
    Family(
        kind="mamba",
        template=template("mamba"),
        keys=[*KEYS, Key("layer_norm_epsilon", "decoder.norm.eps", 1e-5), Key("time_step_rank", f"{SSM}.rank", None)],
        body=MAMBA,
        heads=[language("MambaForCausalLM"), bare("MambaModel", "last")],
        prefix="backbone.",
        harmless=HARMLESS,
        older=with_rank,
    ),
    Family(
        kind="mamba2",
        template=template("mamba2"),
        keys=[
            *KEYS,
            Key("layer_norm_epsilon", ("decoder.norm.eps", f"{SSM}.eps"), 1e-5),
            Key("head_dim", f"{SSM}.head_width", 64),
            Key("n_groups", f"{SSM}.groups", 8),
        ],
        body=mamba2,
        heads=[language("Mamba2ForCausalLM"), bare("Mamba2Model", "last")],
        prefix="backbone.",
        harmless=(*HARMLESS, "num_heads", "norm_before_gate"),
        tied=False,
        older=without_limit,
        whole=with_heads,
    ),
)
