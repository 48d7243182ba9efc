"""Jamba (Lieber et al. 2024): Mamba in most blocks, attention without places in some, experts in every other."""

from collections.abc import Iterator
from typing import Any

from attentif.errors import ConfigError
from attentif.hub.families.llama import ATTENTION, HARMLESS, KEYS, TEMPLATE, without_block
from attentif.hub.family import Family, register
from attentif.hub.heads import bare, classify_head, language
from attentif.hub.keys import Always, Key
from attentif.hub.layers import by_layer, layers_key
from attentif.hub.rows import Row, SplitParts, Squeezed, StackedTensors
from attentif.models import ModelConfig

BLOCK = TEMPLATE["decoder"]["block"]
SSM, DENSE, MOE = (f"decoder.block.{name}.mixer" for name in ("ssm", "ffn", "moe"))
MAMBA = {"kind": "mamba", "norm": {"kind": "rms"}}
DENSELY = BLOCK["ffn"]["mixer"] | {"activation": "swiglu"}
ROUTED = {"kind": "experts", "normalised": False}
PERIODS = {"attn": ("attn_layer_period", 8, "attn_layer_offset", 4), "moe": ("expert_layer_period", 2, "expert_layer_offset", 1)}


def older(config: dict[str, Any]) -> dict[str, Any]:
    """An entry for each layer: the names of its two sublayers."""
    layers, places = range(config.get("num_hidden_layers", 0)), {}
    for name, (period, every, offset, first) in PERIODS.items():
        every, first = config.pop(period, every), config.pop(offset, first)
        places[name] = [number for number in layers if number % every == first]
    if config.get("num_experts", 16) == 1:
        places["moe"] = []
    if config.get("mamba_dt_rank", "auto") == "auto":
        config["mamba_dt_rank"] = -(-int(config.get("hidden_size", 0)) // 16)
    kind = lambda number: ("attn" if number in places["attn"] else "ssm", "moe" if number in places["moe"] else "ffn")
    return config | {"blocks": [kind(number) for number in layers]}


def whole(config: dict[str, Any]) -> dict[str, Any]:
    blocks = config.pop("blocks")
    for name, (period, _, offset, _) in PERIODS.items():
        places = [number for number, block in enumerate(blocks) if name in block]
        first, second = (*places, len(blocks) + 1, len(blocks) + 2)[:2]
        every = max(second - first, first + 1) if len(places) > 1 else max(len(blocks) - first, first + 1) if places else first + 1
        if places != [number for number in range(len(blocks)) if number % every == first]:
            raise ConfigError(f"jamba cannot represent blocks with {name} at {places}: they must come in one period")
        config |= {period: every, offset: first}
    return config


def read_block(names: tuple[str, str]) -> dict[str, Any]:
    mixers = {"attn": BLOCK["attn"], "ssm": {"mixer": MAMBA}, "ffn": {"mixer": DENSELY}, "moe": {"mixer": ROUTED}}
    return {name: mixers[name] for name in names}


LAYER, INNER = "layers.{i}", "decoder.blocks.{i}"
FEED, SSM_OF, MOE_OF = f"{LAYER}.feed_forward", f"{INNER}.ssm.mixer", f"{INNER}.moe.mixer"
NAMES = {"gate_proj": "gate", "up_proj": "up", "down_proj": "out"}
SELECTED = {"x_proj.weight": "select.weight", "dt_proj.{p}": "step.{p}", "out_proj.{p}": "out.{p}", "A_log": "A_log", "D": "D"}
SELECTED |= {f"{part}_layernorm.weight": f"norms.{number}.weight" for number, part in enumerate(("dt", "b", "c"))}
ROWS = [
    *(row for row in ATTENTION if "norm" not in row.theirs),
    Row("final_layernorm.weight", "decoder.norm.weight"),
    *(Row(f"{LAYER}.input_layernorm.weight", f"{INNER}.{name}.norm_in.weight") for name in ("attn", "ssm")),
    *(Row(f"{LAYER}.pre_ff_layernorm.weight", f"{INNER}.{name}.norm_in.weight") for name in ("ffn", "moe")),
    Row(f"{LAYER}.mamba.in_proj.{{p}}", (f"{SSM_OF}.inp.{{p}}", f"{SSM_OF}.gate.{{p}}"), SplitParts(2)),
    Row(f"{LAYER}.mamba.conv1d.weight", f"{SSM_OF}.conv", Squeezed(1)),
    Row(f"{LAYER}.mamba.conv1d.bias", f"{SSM_OF}.conv_bias"),
    *(Row(f"{LAYER}.mamba.{theirs}", f"{SSM_OF}.{ours}") for theirs, ours in SELECTED.items()),
    Row(f"{FEED}.router.weight", f"{MOE_OF}.router.weight"),
    *(Row(f"{FEED}.{theirs}.weight", f"{INNER}.ffn.mixer.{ours}.weight") for theirs, ours in NAMES.items()),
]


def body(config: ModelConfig) -> Iterator[Row]:
    assert config.decoder is not None
    yield from ROWS
    routed = [kind["moe"].mixer.model_dump()["experts"] for kind in config.decoder.plan(config.layers) if "moe" in kind]
    for theirs, ours in NAMES.items() if routed else ():
        yield Row(f"{FEED}.experts.{{e}}.{theirs}.weight", f"{MOE_OF}.{ours}.weight", StackedTensors(routed[0]))


register(
    Family(
        kind="jamba",
        template=without_block(TEMPLATE),
        keys=[
            layers_key("decoder.blocks", read_block, lambda sublayers: tuple(sublayers)),
            *by_layer(key for key in KEYS if key.theirs not in ("rope_parameters", "head_dim", "hidden_act")),
            *by_layer(
                [
                    Key("intermediate_size", (f"{DENSE}.hidden", f"{MOE}.hidden")),
                    Key("num_experts", f"{MOE}.experts", 16),
                    Key("num_experts_per_tok", f"{MOE}.top_k", 2),
                    Key("mamba_d_state", f"{SSM}.state", 16),
                    Key("mamba_d_conv", f"{SSM}.conv", 4),
                    Key("mamba_expand", f"{SSM}.expand", 2),
                    Key("mamba_dt_rank", f"{SSM}.rank", None),
                    Key("mamba_conv_bias", f"{SSM}.conv_bias", True),
                    Key("mamba_proj_bias", f"{SSM}.bias", False),
                    Key("rms_norm_eps", ("decoder.norm.eps", f"{SSM}.norm.eps"), 1e-6),
                ]
            ),
            Always("hidden_act", "silu"),  # of Mamba's branches too
            Always("sliding_window", None),
        ],
        body=body,
        heads=[
            language("JambaForCausalLM"),
            classify_head("JambaForSequenceClassification", {"score": "out"}, (), pool="last", bias=False),
            bare("JambaModel", "last"),
        ],
        prefix="model.",
        tied=False,
        like=HARMLESS,
        harmless=(
            "output_router_logits", "router_aux_loss_coef", "use_associative_scan", "use_mamba_kernels", "use_mambapy",
            "calc_logits_for_entire_prompt", "num_logits_to_keep", "mamba_inner_layernorms", "attn_implementation", "n_ctx",
        ),
        aliases={"num_local_experts": "num_experts"},
        defaults={"num_key_value_heads": 8},
        older=older,
        whole=whole,
    )
)  # fmt: skip
