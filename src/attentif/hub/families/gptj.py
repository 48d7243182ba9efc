"""GPT-J (Wang & Komatsuzaki 2021): attention and feed-forward read the same normalised input; neighbouring components turn together."""

from typing import Any

from attentif.hub.families.bert import ACTIVATIONS
from attentif.hub.family import Family, HeadOf, register
from attentif.hub.heads import decoder_heads
from attentif.hub.keys import Key
from attentif.hub.rows import Row

BRANCHES = "decoder.block.both.mixer.branches"
ATTN, FFN = f"{BRANCHES}.attn.mixer", f"{BRANCHES}.ffn.mixer"
LAYER, BLOCK = "h.{i}", "decoder.blocks.{i}.both"


def older(config: dict[str, Any]) -> dict[str, Any]:
    """`rotary_dim` components of each head are turned: all of them where it is null."""
    width = config["n_embd"] // config["n_head"] if {"n_embd", "n_head"} <= {*config} else 64
    return config | {"fraction": (config.pop("rotary_dim", 64) or width) / width}


def whole(config: dict[str, Any]) -> dict[str, Any]:
    return config | {"rotary_dim": round(config.pop("fraction") * (config["n_embd"] // config["n_head"]))}


register(
    Family(
        kind="gptj",
        template={
            "frontend": {"kind": "tokens"},
            "decoder": {
                "placement": "pre",
                "norm": {"kind": "layer"},
                "block": {
                    "both": {
                        "dropout": 0.0,
                        "mixer": {
                            "kind": "parallel",
                            "branches": {
                                "attn": {
                                    "mixer": {
                                        "kind": "attention",
                                        "causal": True,
                                        "bias": False,
                                        "out_bias": False,
                                        "rotary": {"pairs": "adjacent"},
                                    }
                                },
                                "ffn": {"mixer": {"kind": "feed-forward"}},
                            },
                        },
                    }
                },
            },
        },
        keys=[
            Key("vocab_size", "frontend.vocab"),
            Key("n_embd", "width"),
            Key("n_layer", "layers"),
            Key("n_head", f"{ATTN}.heads"),
            Key("fraction", f"{ATTN}.rotary.fraction"),
            Key("n_inner", f"{FFN}.hidden", None),
            Key("activation_function", f"{FFN}.activation", "gelu_new", ACTIVATIONS),
            Key("resid_pdrop", ("dropout", f"{BRANCHES}.attn.dropout", f"{BRANCHES}.ffn.dropout"), 0.0),
            Key("embd_pdrop", "frontend.dropout", 0.0),
            Key("attn_pdrop", f"{ATTN}.dropout", 0.0),
            Key("layer_norm_epsilon", "decoder.norm.eps", 1e-5),
        ],
        body=[
            Row("wte.weight", "frontend.tokens.weight"),
            Row(f"{LAYER}.ln_1.{{p}}", f"{BLOCK}.norm_in.{{p}}"),
            *(
                Row(f"{LAYER}.attn.{part}_proj.weight", f"{BLOCK}.mixer.branches.attn.mixer.{part}.weight")
                for part in ("q", "k", "v", "out")
            ),
            Row(f"{LAYER}.mlp.fc_in.{{p}}", f"{BLOCK}.mixer.branches.ffn.mixer.up.{{p}}"),
            Row(f"{LAYER}.mlp.fc_out.{{p}}", f"{BLOCK}.mixer.branches.ffn.mixer.out.{{p}}"),
            Row("ln_f.{p}", "decoder.norm.{p}"),
        ],
        heads=[
            HeadOf(
                "GPTJForCausalLM",
                {"kind": "language", "bias": True},
                [Row("lm_head.weight", "head.linear.weight"), Row("lm_head.bias", "head.bias")],
                task="language",
            ),
            *decoder_heads("GPTJ", answers=None, only=("ForSequenceClassification", "ForQuestionAnswering", "Model")),
        ],
        prefix="transformer.",
        ignored=(".attn.bias", ".attn.masked_bias"),
        tied=False,
        like={"n_positions": 2048},
        aliases={
            "max_position_embeddings": "n_positions",
            "hidden_size": "n_embd",
            "num_attention_heads": "n_head",
            "num_hidden_layers": "n_layer",
        },
        harmless=("rotary", "n_ctx", "scale_attn_weights", "rotary_dim"),
        older=older,
        whole=whole,
    )
)
