"""LLaMA and those built like it: Mistral (windows), Qwen 2 (biases), Qwen 3 (normalised queries and keys), Mixtral (experts),
Qwen 3 with experts."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attentif.errors import ConfigError
from attentif.hub.family import Family, register
from attentif.hub.heads import decoder_heads, language
from attentif.hub.keys import Always, Code, Key, words
from attentif.hub.layers import by_layer, layers_key
from attentif.hub.rows import Row, StackedTensors
from attentif.models import ModelConfig

ATTN, FFN = "decoder.block.attn.mixer", "decoder.block.ffn.mixer"
SLIDING, FULL = "sliding_attention", "full_attention"  # words of layer_types
# our scaling, and its keys by the names that `rope_parameters` has for them
SCALINGS: dict[str, dict[str, str]] = {
    "linear": {"factor": "factor"},
    "llama3": {
        "factor": "factor",
        "trained": "original_max_position_embeddings",
        "low": "low_freq_factor",
        "high": "high_freq_factor",
    },
    "dynamic": {"factor": "factor", "trained": "original_max_position_embeddings"},
    "longrope": {
        "factor": "factor",
        "trained": "original_max_position_embeddings",
        "short": "short_factor",
        "long": "long_factor",
        "sharpen": "attention_factor",
    },
    "yarn": {
        "factor": "factor",
        "trained": "original_max_position_embeddings",
        "fast": "beta_fast",
        "slow": "beta_slow",
        "rounded": "truncate",
        "sharpen": "attention_factor",
    },
}


NAMES = {"dynamic": "ntk"}  # ours, where it is another


def sharpness(factor: float, share: float) -> float:
    """How much YaRN sharpens a softmax that reads `factor` times as far, by this share of it."""
    return 0.1 * share * math.log(factor) + 1.0 if factor > 1 else 1.0


def read_rotary(rope: Mapping[str, Any] | None) -> dict[str, Any]:
    """Our rotary positions from `rope_parameters` (or `rope_scaling` with `rope_theta`, as it was before)."""
    rope = dict(rope or {})
    kind = rope.pop("rope_type", rope.pop("type", "default"))
    rotary: dict[str, Any] = {"base": float(rope.pop("rope_theta", 10000.0))}
    if kind == "default":
        rope.pop("partial_rotary_factor", None)
        return rotary
    if kind not in SCALINGS:
        raise ConfigError(f"rope_type {kind!r} is not understood (only default, {', '.join(SCALINGS)})")
    numerator, denominator = rope.pop("mscale", None), rope.pop("mscale_all_dim", None)
    scaling = {ours: rope.pop(theirs) for ours, theirs in SCALINGS[kind].items() if theirs in rope}
    scaling = {key: value for key, value in scaling.items() if value is not None}
    if kind == "yarn" and numerator and denominator:
        scaling.setdefault("sharpen", sharpness(scaling["factor"], numerator) / sharpness(scaling["factor"], denominator))
    elif numerator or denominator:
        raise ConfigError(f"mscale and mscale_all_dim are understood together, and with rope_type 'yarn' only, not {kind!r}")
    if rope:
        raise ConfigError(f"{next(iter(rope))} is not understood with rope_type {kind!r}")
    if "trained" in SCALINGS[kind] and "trained" not in scaling:
        raise ConfigError(f"max_position_embeddings: is missing, which rope_type {kind!r} depends on")
    whole = ("trained", "rounded")
    numbers = {key: float(value) if isinstance(value, int) and key not in whole else value for key, value in scaling.items()}
    return rotary | {"scaling": {"kind": NAMES.get(kind, kind)} | numbers}


def write_rotary(rotary: Mapping[str, Any]) -> dict[str, Any]:
    written: dict[str, Any] = {"rope_theta": rotary["base"], "rope_type": "default"}
    if scaling := rotary.get("scaling"):
        kind = next((theirs for theirs, ours in NAMES.items() if ours == scaling["kind"]), scaling["kind"])
        written["rope_type"] = kind
        written |= {theirs: scaling[ours] for ours, theirs in SCALINGS[kind].items() if scaling[ours] is not None}
    return written


def with_rope(config: dict[str, Any]) -> dict[str, Any]:
    """`rope_theta` and `rope_scaling` were keys of their own, the second older than the first, or not there."""
    scaling = config.pop("rope_scaling", None) or config.get("rope_parameters")
    apart = {key: value for key in ("rope_theta", "partial_rotary_factor") if (value := config.pop(key, None)) is not None}
    rope = apart | dict(scaling or {})
    kind, longest = rope.get("rope_type", rope.get("type", "default")), config.get("max_position_embeddings")
    if kind == "dynamic" and longest is not None:
        rope["original_max_position_embeddings"] = longest
    elif kind in ("llama3", "yarn", "longrope") and longest is not None:
        trained = config.pop("original_max_position_embeddings", None) or rope.get("original_max_position_embeddings")
        if kind == "longrope" and rope.get("factor") is None:
            rope["factor"] = longest / (trained or longest)
        rope["original_max_position_embeddings"] = trained or longest
    config["rope_parameters"] = rope
    return config


def with_length(config: dict[str, Any]) -> dict[str, Any]:
    """The longest text, where a scaling depends on it."""
    rope = config["rope_parameters"]
    if rope["rope_type"] == "dynamic":
        config["max_position_embeddings"] = rope.pop("original_max_position_embeddings")
    elif rope["rope_type"] == "longrope":
        config["max_position_embeddings"] = round(rope["factor"] * rope["original_max_position_embeddings"])
    return config


def older(config: dict[str, Any]) -> dict[str, Any]:
    config = with_rope(config)
    if set(config.get("layer_types") or ()) == {FULL}:
        del config["layer_types"]
    return config


def older_qwen(config: dict[str, Any]) -> dict[str, Any]:
    """Qwen says three times over which blocks have windows."""
    config = with_rope(config)
    layers, first = config.get("num_hidden_layers", 0), config.pop("max_window_layers", 28)
    used, window = config.pop("use_sliding_window", False), config.pop("sliding_window", None)
    first = 0 if config["model_type"] == "qwen3_moe" else first
    types = config.pop("layer_types", None) or [FULL if number < first or not used else SLIDING for number in range(layers)]
    config["blocks"] = windows_of(types, window if used else None)
    if config["model_type"] == "qwen3_moe":
        config.pop("intermediate_size", None)  # of dense blocks, of which there are none
        config["num_experts"] = config.pop("num_local_experts", config.get("num_experts", 128))
    return config


def windows_of(types: Sequence[str], window: int | None) -> list[int | None]:
    """How far each block sees, from `layer_types`."""
    if odd := next((kind for kind in types if kind not in (SLIDING, FULL)), None):
        raise ConfigError(f"layer_types: {odd!r} is not understood (only {SLIDING}, {FULL})")
    return [window if kind == SLIDING else None for kind in types]


def types_of(windows: Sequence[int | None]) -> dict[str, Any]:
    """`layer_types` and the window of those that have one."""
    if len(sizes := {window for window in windows if window is not None}) > 1:
        raise ConfigError(f"windows of several sizes ({', '.join(map(str, sorted(sizes)))})")
    return {"layer_types": [FULL if window is None else SLIDING for window in windows], "sliding_window": next(iter(sizes), None)}


def with_windows(config: dict[str, Any]) -> dict[str, Any]:
    """Qwen's way to say which blocks have windows."""
    config = with_length(config)
    said = types_of(windows := config.pop("blocks"))
    first = next((number for number, window in enumerate(windows) if window is not None), len(windows))
    return config | said | {"use_sliding_window": first < len(windows), "max_window_layers": first}


def read_window(window: int | None) -> list[dict[str, Any]]:
    """A query of Mistral sees `window` tokens, itself among them."""
    return [] if window is None else [{"kind": "window", "left": window - 1}]


def write_window(pattern: Any) -> int | None:
    return pattern[0]["left"] + 1 if pattern else None


GATES = words(silu="swiglu", gelu="geglu", gelu_pytorch_tanh="geglu-tanh", relu="reglu")
KEYS = [
    Key("vocab_size", "frontend.vocab"),
    Key("hidden_size", "width"),
    Key("num_hidden_layers", "layers"),
    Key("num_attention_heads", f"{ATTN}.heads"),
    Key("num_key_value_heads", f"{ATTN}.kv_heads", None),
    Key("head_dim", f"{ATTN}.head_width", None),
    Key("hidden_act", f"{FFN}.activation", "silu", GATES),
    Key("attention_dropout", f"{ATTN}.dropout", 0.0),
    Key("rope_parameters", f"{ATTN}.rotary", None, Code(read_rotary, write_rotary)),
]
HARMLESS = {"max_position_embeddings": 131072}  # a limit on paper: rotary positions have none
EPS = Key("rms_norm_eps", "decoder.norm.eps", 1e-6)
BIASES = [Key("attention_bias", (f"{ATTN}.bias", f"{ATTN}.out_bias"), False)]
TEMPLATE: dict[str, Any] = {
    "dropout": 0.0,
    "frontend": {"kind": "tokens"},
    "decoder": {
        "placement": "pre",
        "norm": {"kind": "rms"},
        "block": {
            "attn": {"mixer": {"kind": "attention", "causal": True, "bias": False, "out_bias": False}},
            "ffn": {"mixer": {"kind": "feed-forward", "bias": False}},
        },
    },
}


def with_mixers(attn: Mapping[str, Any] | None = None, ffn: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The template with other values in its two mixers."""
    block = TEMPLATE["decoder"]["block"]
    mixers = {"attn": {"mixer": block["attn"]["mixer"] | dict(attn or {})}, "ffn": {"mixer": dict(ffn or block["ffn"]["mixer"])}}
    return TEMPLATE | {"decoder": TEMPLATE["decoder"] | {"block": mixers}}


ATTENTION = [
    Row("embed_tokens.weight", "frontend.tokens.weight"),
    Row("layers.{i}.input_layernorm.weight", "decoder.blocks.{i}.attn.norm_in.weight"),
    Row("layers.{i}.self_attn.q_proj.{p}", "decoder.blocks.{i}.attn.mixer.q.{p}"),
    Row("layers.{i}.self_attn.k_proj.{p}", "decoder.blocks.{i}.attn.mixer.k.{p}"),
    Row("layers.{i}.self_attn.v_proj.{p}", "decoder.blocks.{i}.attn.mixer.v.{p}"),
    Row("layers.{i}.self_attn.o_proj.{p}", "decoder.blocks.{i}.attn.mixer.out.{p}"),
    Row("layers.{i}.self_attn.q_norm.weight", "decoder.blocks.{i}.attn.mixer.q_norm.weight"),
    Row("layers.{i}.self_attn.k_norm.weight", "decoder.blocks.{i}.attn.mixer.k_norm.weight"),
    Row("layers.{i}.post_attention_layernorm.weight", "decoder.blocks.{i}.ffn.norm_in.weight"),
    Row("norm.weight", "decoder.norm.weight"),
]
ROWS = [
    *ATTENTION,
    Row("layers.{i}.mlp.gate_proj.{p}", "decoder.blocks.{i}.ffn.mixer.gate.{p}"),
    Row("layers.{i}.mlp.up_proj.{p}", "decoder.blocks.{i}.ffn.mixer.up.{p}"),
    Row("layers.{i}.mlp.down_proj.{p}", "decoder.blocks.{i}.ffn.mixer.out.{p}"),
]


def experts(block: str, names: Mapping[str, str]) -> Callable[[ModelConfig], Iterator[Row]]:
    """Rows of a mixture: `names` are theirs of gate, up and down, the experts numbered."""

    def rows(config: ModelConfig) -> Iterator[Row]:
        assert config.decoder is not None
        count = config.decoder.plan(1)[0]["ffn"].mixer.model_dump()["experts"]
        yield from ATTENTION
        yield Row(f"layers.{{i}}.{block}.gate.weight", "decoder.blocks.{i}.ffn.mixer.router.weight")
        for theirs, ours in names.items():
            stacked = f"decoder.blocks.{{i}}.ffn.mixer.{ours}.weight"
            yield Row(f"layers.{{i}}.{block}.experts.{{e}}.{theirs}.weight", stacked, StackedTensors(count))

    return rows


def window_key(template: Mapping[str, Any]) -> Key:
    """The key that says how far each block sees, the blocks all alike but for that."""
    block = template["decoder"]["block"]
    attn = block["attn"]
    seeing = lambda window: {**block, "attn": {**attn, "mixer": {**attn["mixer"], "pattern": read_window(window)}}}
    return layers_key("decoder.blocks", seeing, lambda sublayers: write_window(sublayers["attn"]["mixer"]["pattern"]))


def without_block(template: Mapping[str, Any]) -> dict[str, Any]:
    """The template of a page that makes the blocks itself."""
    return {**template, "decoder": {key: value for key, value in template["decoder"].items() if key != "block"}}


def family(
    kind: str,
    name: str,
    keys: list[Key | Always],
    template: Mapping[str, Any] = TEMPLATE,
    rows: Any = ROWS,
    hidden: str = "intermediate_size",
    answers: str | None = "transformer.",
    defaults: Mapping[str, Any] | None = None,
    aliases: Mapping[str, str] | None = None,
) -> Family:
    keys, mixed = [*KEYS, Key(hidden, f"{FFN}.hidden"), *keys], kind in ("qwen2", "qwen3", "qwen3_moe")
    return Family(
        kind=kind,
        template=without_block(template) if mixed else template,
        keys=[window_key(template), *by_layer(keys)] if mixed else keys,
        body=rows,
        heads=[language(f"{name}ForCausalLM"), *decoder_heads(name, answers=answers)],
        prefix="model.",
        ignored=("rotary_emb.inv_freq",),
        tied=False,
        like=HARMLESS,
        harmless=("output_router_logits", "router_aux_loss_coef", "router_jitter_noise"),  # of training
        defaults=defaults or {},
        aliases=aliases or {},
        older=older_qwen if mixed else older,
        whole=with_windows if mixed else with_length,
    )


WINDOW: list[Key | Always] = [Key("sliding_window", f"{ATTN}.pattern", None, Code(read_window, write_window))]
register(
    family("llama", "Llama", [EPS, *BIASES, Key("mlp_bias", f"{FFN}.bias", False)]),
    family("mistral", "Mistral", [EPS, *WINDOW], answers=None, defaults={"num_key_value_heads": 8, "sliding_window": 4096}),
    family("qwen2", "Qwen2", [EPS, Always("use_mrope", False)], with_mixers({"bias": True})),
    family(
        "qwen3",
        "Qwen3",
        [Key("rms_norm_eps", ("decoder.norm.eps", f"{ATTN}.qk_norm.eps"), 1e-6), *BIASES],
        with_mixers({"qk_norm": {"kind": "rms"}}),
    ),
    family(
        "mixtral",
        "Mixtral",
        [
            EPS,
            *WINDOW,
            Key("num_local_experts", f"{FFN}.experts", 8),
            Key("num_experts_per_tok", f"{FFN}.top_k", 2),
        ],
        with_mixers(ffn={"kind": "experts"}),
        experts("block_sparse_moe", {"w1": "gate", "w3": "up", "w2": "out"}),
        answers=None,
        defaults={"num_key_value_heads": 8, "rms_norm_eps": 1e-5, "rope_theta": 1_000_000.0},
        aliases={"num_experts": "num_local_experts"},
    ),
    family(
        "qwen3_moe",
        "Qwen3Moe",
        [
            Key("rms_norm_eps", ("decoder.norm.eps", f"{ATTN}.qk_norm.eps"), 1e-6),
            *BIASES,
            Key("num_experts", f"{FFN}.experts", 128),
            Key("num_experts_per_tok", f"{FFN}.top_k", 8),
            Key("norm_topk_prob", f"{FFN}.normalised", False),
            Always("decoder_sparse_step", 1),
            Always("mlp_only_layers", []),
        ],
        with_mixers({"qk_norm": {"kind": "rms"}}, {"kind": "experts"}),
        experts("mlp", {"gate_proj": "gate", "up_proj": "up", "down_proj": "out"}),
        hidden="moe_intermediate_size",
        defaults={"num_key_value_heads": 4},
        aliases={"num_experts": "num_local_experts"},
    ),
)
