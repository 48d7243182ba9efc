"""RWKV-4 (Peng et al. 2023)."""

from typing import Any

from attentif.errors import ConfigError
from attentif.hub.family import Family, register
from attentif.hub.heads import bare, language
from attentif.hub.keys import Always, Key
from attentif.hub.rows import Reshaped, Row

LAYER, BLOCK = "blocks.{i}", "decoder.blocks.{i}"
TIME, CHANNEL = f"{BLOCK}.time.mixer", f"{BLOCK}.channel.mixer"
USUAL = 6  # blocks after which RWKV's own program halves the residual stream
SHARE = Reshaped(theirs_shape=(1, 1, -1), ours_shape=(-1,))


def without_rescaling(config: dict[str, Any]) -> dict[str, Any]:
    """Halving the residual stream every six blocks keeps half precision in range; the next norm undoes it but for its epsilon."""
    every = config.pop("rescale_every", USUAL)
    if 0 < every < USUAL and every < config.get("num_hidden_layers", 0):
        raise ConfigError(f"rescale_every: {every} would make the epsilon of later norms count (only 0, and {USUAL} or more)")
    return config


register(
    Family(
        kind="rwkv",
        template={
            "dropout": 0.0,
            "frontend": {"kind": "tokens", "norm": {"kind": "layer", "eps": 1e-5}},
            "decoder": {
                "placement": "pre",
                "norm": {"kind": "layer", "eps": 1e-5},
                "block": {"time": {"mixer": {"kind": "rwkv-time"}}, "channel": {"mixer": {"kind": "rwkv-channel"}}},
            },
        },
        keys=[
            Key("vocab_size", "frontend.vocab"),
            Key("hidden_size", "width"),
            Key("num_hidden_layers", "layers"),
            Key("attention_hidden_size", "decoder.block.time.mixer.hidden", None),
            Key("intermediate_size", "decoder.block.channel.mixer.hidden", None),
            Always("layer_norm_epsilon", 1e-5),  # their last norm has this one whatever is said
        ],
        body=[
            Row("embeddings.weight", "frontend.tokens.weight"),
            Row("blocks.0.pre_ln.{p}", "frontend.norm.{p}"),
            Row("ln_out.{p}", "decoder.norm.{p}"),
            Row(f"{LAYER}.ln1.{{p}}", f"{BLOCK}.time.norm_in.{{p}}"),
            Row(f"{LAYER}.ln2.{{p}}", f"{BLOCK}.channel.norm_in.{{p}}"),
            Row(f"{LAYER}.attention.time_decay", f"{TIME}.decay"),
            Row(f"{LAYER}.attention.time_first", f"{TIME}.bonus"),
            Row(f"{LAYER}.attention.time_mix_key", f"{TIME}.mix_k", SHARE),
            Row(f"{LAYER}.attention.time_mix_value", f"{TIME}.mix_v", SHARE),
            Row(f"{LAYER}.attention.time_mix_receptance", f"{TIME}.mix_r", SHARE),
            Row(f"{LAYER}.attention.key.weight", f"{TIME}.k.weight"),
            Row(f"{LAYER}.attention.value.weight", f"{TIME}.v.weight"),
            Row(f"{LAYER}.attention.receptance.weight", f"{TIME}.r.weight"),
            Row(f"{LAYER}.attention.output.weight", f"{TIME}.out.weight"),
            Row(f"{LAYER}.feed_forward.time_mix_key", f"{CHANNEL}.mix_k", SHARE),
            Row(f"{LAYER}.feed_forward.time_mix_receptance", f"{CHANNEL}.mix_r", SHARE),
            Row(f"{LAYER}.feed_forward.key.weight", f"{CHANNEL}.k.weight"),
            Row(f"{LAYER}.feed_forward.receptance.weight", f"{CHANNEL}.r.weight"),
            Row(f"{LAYER}.feed_forward.value.weight", f"{CHANNEL}.out.weight"),
        ],
        heads=[language("RwkvForCausalLM", "head"), bare("RwkvModel", "last")],
        prefix="rwkv.",
        tied=False,
        harmless=("context_length",),
        aliases={"max_position_embeddings": "context_length"},
        older=without_rescaling,
        whole=lambda config: config | {"rescale_every": 0},
    )
)
