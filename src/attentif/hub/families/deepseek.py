"""DeepSeek-V2 and V3 (DeepSeek-AI 2024): latent attention, shared experts beside routed ones, the first blocks dense."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from attentif.errors import ConfigError
from attentif.hub.families.llama import GATES, older, read_rotary, sharpness, write_rotary
from attentif.hub.family import Family, register
from attentif.hub.heads import decoder_heads, language
from attentif.hub.keys import Always, Code, Key
from attentif.hub.rows import Row, SplitByHead, StackedTensors
from attentif.models import ModelConfig

DENSE, SPARSE = "decoder.blocks.0", "decoder.blocks.1"
ATTNS = (f"{DENSE}.sublayers.attn.mixer", f"{SPARSE}.sublayers.attn.mixer")
FFN, MOE = f"{DENSE}.sublayers.ffn.mixer", f"{SPARSE}.sublayers.ffn.mixer"
LAYER, BLOCK = "layers.{i}", "decoder.blocks.{i}"


def both(key: str) -> tuple[str, str]:
    """The place of a key in the attention of either kind of block."""
    return f"{ATTNS[0]}.{key}", f"{ATTNS[1]}.{key}"


def read_adjacent(rope: Any) -> dict[str, Any]:
    return read_rotary(rope) | {"pairs": "adjacent"}


KEYS: list[Key | Always] = [
    Key("vocab_size", "frontend.vocab"),
    Key("hidden_size", "width"),
    Key("num_hidden_layers", "layers"),
    Key("first_k_dense_replace", f"{DENSE}.repeat"),
    Key("sparse_blocks", f"{SPARSE}.repeat"),  # what is left of the layers
    Key("num_attention_heads", both("heads")),
    Key("qk_nope_head_dim", both("head_width")),
    Key("qk_rope_head_dim", both("rotary_width")),
    Key("v_head_dim", both("value_width")),
    Key("kv_lora_rank", both("kv_rank")),
    Key("q_lora_rank", both("q_rank"), None),
    Key("attention_bias", (*both("bias"), *both("out_bias")), False),
    Key("rope_parameters", both("rotary"), None, Code(read_adjacent, write_rotary)),
    Key("scale", both("scale"), None),
    Key("rms_norm_eps", "decoder.norm.eps", 1e-6),  # the norms of the latents have 1e-6 whatever is said here
    Key("intermediate_size", f"{FFN}.hidden"),
    Key("hidden_act", (f"{FFN}.activation", f"{MOE}.activation"), "silu", GATES),
    Key("n_routed_experts", f"{MOE}.experts"),
    Key("num_experts_per_tok", f"{MOE}.top_k"),
    Key("moe_intermediate_size", f"{MOE}.hidden"),
    Key("n_shared_experts", f"{MOE}.shared"),
    Key("routed_scaling_factor", f"{MOE}.scale", 1.0, Code(float, float)),
    Key("n_group", f"{MOE}.groups", 1),
    Key("topk_group", f"{MOE}.top_groups", None),
    Always("attention_dropout", 0.0),
    Always("moe_layer_freq", 1),
]
GREEDY, GROUPED, NOAUX = METHODS = ("greedy", "group_limited_greedy", "noaux_tc")
NAMES = {"gate_proj": "gate", "up_proj": "up", "down_proj": "out"}


def body(config: ModelConfig) -> Iterator[Row]:
    assert config.decoder is not None
    dense, sparse = config.decoder.blocks
    attn, moe = (sparse.sublayers[name].mixer.model_dump() for name in ("attn", "ffn"))
    yield Row("embed_tokens.weight", "frontend.tokens.weight")
    yield Row("norm.weight", "decoder.norm.weight")
    yield Row(f"{LAYER}.input_layernorm.weight", f"{BLOCK}.attn.norm_in.weight")
    yield Row(f"{LAYER}.post_attention_layernorm.weight", f"{BLOCK}.ffn.norm_in.weight")
    mine, theirs = f"{BLOCK}.attn.mixer", f"{LAYER}.self_attn"
    if attn["q_rank"]:
        yield Row(f"{theirs}.q_a_proj.{{p}}", f"{mine}.q_down.{{p}}")
        yield Row(f"{theirs}.q_a_layernorm.weight", f"{mine}.q_norm.weight")
    yield Row(f"{theirs}.{'q_b_proj' if attn['q_rank'] else 'q_proj'}.weight", f"{mine}.q.weight")
    yield Row(f"{theirs}.kv_a_proj_with_mqa.{{p}}", f"{mine}.kv_down.{{p}}")
    yield Row(f"{theirs}.kv_a_layernorm.weight", f"{mine}.kv_norm.weight")
    widths = (attn["head_width"], attn["value_width"])
    yield Row(f"{theirs}.kv_b_proj.weight", (f"{mine}.k.weight", f"{mine}.v.weight"), SplitByHead(attn["heads"], widths))
    yield Row(f"{theirs}.o_proj.{{p}}", f"{mine}.out.{{p}}")
    below, above = range(dense.repeat), range(dense.repeat, config.layers)
    for part, own in NAMES.items():
        yield Row(f"{LAYER}.mlp.{part}.weight", f"{BLOCK}.ffn.mixer.{own}.weight", blocks=below)
        yield Row(f"{LAYER}.mlp.shared_experts.{part}.weight", f"{BLOCK}.ffn.mixer.shared.{own}.weight", blocks=above)
        stacked = f"{BLOCK}.ffn.mixer.{own}.weight"
        yield Row(f"{LAYER}.mlp.experts.{{e}}.{part}.weight", stacked, StackedTensors(moe["experts"]), blocks=above)
    yield Row(f"{LAYER}.mlp.gate.weight", f"{BLOCK}.ffn.mixer.router.weight", blocks=above)
    yield Row(f"{LAYER}.mlp.gate.e_score_correction_bias", f"{BLOCK}.ffn.mixer.choice_bias", blocks=above)


def template(**moe: Any) -> dict[str, Any]:
    attn = {"mixer": {"kind": "latent", "norm": {"kind": "rms", "eps": 1e-6}}}
    dense = {"attn": attn, "ffn": {"mixer": {"kind": "feed-forward", "bias": False}}}
    sparse = {"attn": attn, "ffn": {"mixer": {"kind": "experts", **moe}}}
    stack = {"placement": "pre", "norm": {"kind": "rms"}, "blocks": [{"sublayers": dense}, {"sublayers": sparse}]}
    return {"dropout": 0.0, "frontend": {"kind": "tokens"}, "decoder": stack}


def older_deepseek(config: dict[str, Any]) -> dict[str, Any]:
    """Groups are none in the small V2, which chooses among all; what follows the dense blocks has experts."""
    config = older(config)
    if (method := config.get("topk_method")) not in (None, *METHODS):
        raise ConfigError(f"topk_method: {method!r} is not understood (only {', '.join(METHODS)})")
    config["sparse_blocks"] = config.get("num_hidden_layers", 0) - config.get("first_k_dense_replace", 0)
    if method == GREEDY or config.get("n_group") is None:
        config |= {"n_group": 1, "topk_group": None}
    return config | with_scale(dict(config.get("rope_parameters") or {}), head_width(config))


def head_width(config: dict[str, Any]) -> int:
    return int(config.get("qk_nope_head_dim", 0)) + int(config.get("qk_rope_head_dim", 0))


def with_scale(rope: dict[str, Any], width: int) -> dict[str, Any]:
    """YaRN sharpens the whole head here, by `mscale_all_dim`, where elsewhere it turns sharper queries and keys alone."""
    share = rope.get("mscale_all_dim")
    if not share or rope.get("rope_type", rope.get("type", "default")) == "default":
        return {"scale": None, "rope_parameters": rope}
    if rope.get("attention_factor") is not None or not rope.get("mscale"):
        rope = {key: value for key, value in rope.items() if not key.startswith("mscale")}
    return {"scale": width**-0.5 * sharpness(rope["factor"], share) ** 2, "rope_parameters": rope}


def whole_v2(config: dict[str, Any]) -> dict[str, Any]:
    return whole_v3(config) | {"topk_method": GREEDY if config["n_group"] == 1 else GROUPED}


def whole_v3(config: dict[str, Any]) -> dict[str, Any]:
    del config["sparse_blocks"]
    if (scale := config.pop("scale")) is not None:
        share = (math.sqrt(scale * math.sqrt(head_width(config))) - 1) / (0.1 * math.log(config["rope_parameters"].get("factor", math.e)))
        config["rope_parameters"]["mscale_all_dim"] = round(share, 6)
    one_head = {"num_key_value_heads": config["num_attention_heads"], "head_dim": config["qk_rope_head_dim"]}
    return config | one_head | {"topk_group": config["topk_group"] or config["n_group"]}


def family(
    kind: str,
    name: str,
    moe: dict[str, Any],
    extra: list[Key | Always],
    whole: Any,
    heads: Sequence[str],
    defaults: dict[str, Any],
    aliases: dict[str, str],
) -> Family:
    return Family(
        kind=kind,
        template=template(**moe),
        keys=[*KEYS, *extra],
        body=body,
        heads=[language(f"{name}ForCausalLM"), *decoder_heads(name, only=heads)],
        prefix="model.",
        ignored=("rotary_emb.inv_freq",),
        tied=False,
        like={"max_position_embeddings": 163840},
        harmless=(
            "num_key_value_heads", "head_dim", "qk_head_dim", "output_router_logits", "num_nextn_predict_layers", "aux_loss_alpha",
            "seq_aux", "ep_size", "topk_method", "router_aux_loss_coef", "n_mtp_modules",
        ),
        defaults=defaults,
        aliases=aliases,
        older=older_deepseek,
        whole=whole,
    )  # fmt: skip


register(
    family(
        "deepseek_v2",
        "DeepseekV2",
        {"group_best": 1, "normalised": False},
        # transformers never normalises the weights of the experts that it chose, whatever norm_topk_prob says
        [Always("mlp_bias", False), Always("scoring_func", "softmax"), Always("norm_topk_prob", False)],
        whole_v2,
        ("ForSequenceClassification", "Model"),
        {"q_lora_rank": 1536, "n_shared_experts": 2, "first_k_dense_replace": 0, "topk_method": GREEDY},
        {"num_experts": "n_routed_experts"},
    ),
    family(
        "deepseek_v3",
        "DeepseekV3",
        {"scores": "sigmoid", "balance": [{"kind": "bias"}]},
        [
            Key("norm_topk_prob", f"{MOE}.normalised", True),
            Always("rope_interleave", True),
            Always("scoring_func", "sigmoid"),
            Always("topk_method", NOAUX),
        ],
        whole_v3,
        ("ForSequenceClassification", "ForTokenClassification", "Model"),
        {
            "q_lora_rank": 1536,
            "n_shared_experts": 1,
            "first_k_dense_replace": 3,
            "routed_scaling_factor": 2.5,
            "n_group": 8,
            "topk_group": 4,
        },
        {"num_local_experts": "n_routed_experts", "num_mtp_layers": "num_nextn_predict_layers"},
    ),
)
