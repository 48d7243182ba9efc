"""OPT (Zhang et al. 2022): GPT-2 with ReLU and places counted from row 2 of their table on.

OPT-350m alone normalises after its sublayers, and has embeddings of another width than the model's, with a map there and a map back.
"""

from typing import Any

from attentif.hub.families.bert import ACTIVATIONS
from attentif.hub.family import Family, register
from attentif.hub.heads import decoder_heads, language
from attentif.hub.keys import Always, Code, Key
from attentif.hub.rows import Row

ATTN, FFN = "decoder.block.attn.mixer", "decoder.block.ffn.mixer"
LAYER, BLOCK = "decoder.layers.{i}", "decoder.blocks.{i}"
PLACEMENTS, NORMS = {True: "pre", False: "post"}, ("norm_in", "norm_out")


def older(config: dict[str, Any]) -> dict[str, Any]:
    """Embeddings are as wide as the model where nothing else is said; norms before the sublayers end with a last one."""
    if (narrow := config.pop("word_embed_proj_dim", None)) not in (None, config.get("hidden_size")):
        config |= {"word_embed_proj_dim": narrow, "projects": "tokens"}
    if config.pop("_remove_final_layer_norm", False) and config.get("do_layer_norm_before", True):
        config["final_norm"] = False
    return config


def whole(config: dict[str, Any]) -> dict[str, Any]:
    removed = config.pop("final_norm") is False and config["do_layer_norm_before"]
    del config["projects"]
    return config | {"word_embed_proj_dim": config["word_embed_proj_dim"] or config["hidden_size"], "_remove_final_layer_norm": removed}


register(
    Family(
        kind="opt",
        template={
            "frontend": {"kind": "tokens", "position": {"kind": "learned", "offset": 2}, "dropout": 0.0},
            "decoder": {
                "norm": {"kind": "layer", "eps": 1e-5},
                "block": {"attn": {"mixer": {"kind": "attention", "causal": True}}, "ffn": {"mixer": {"kind": "feed-forward"}}},
            },
        },
        keys=[
            Key("vocab_size", "frontend.vocab"),
            Key("max_position_embeddings", "frontend.position.max_len", 2048),
            Key("hidden_size", "width"),
            Key("word_embed_proj_dim", ("frontend.embedding", "decoder.out"), None),
            Key("num_hidden_layers", "layers"),
            Key("num_attention_heads", f"{ATTN}.heads"),
            Key("ffn_dim", f"{FFN}.hidden"),
            Key("activation_function", f"{FFN}.activation", "relu", ACTIVATIONS),
            Key("dropout", "dropout", 0.1),
            Key("attention_dropout", f"{ATTN}.dropout", 0.0),
            Key("enable_bias", (f"{ATTN}.bias", f"{ATTN}.out_bias", f"{FFN}.bias"), True),
            Key("do_layer_norm_before", "decoder.placement", True, Code(PLACEMENTS.__getitem__, {"pre": True, "post": False}.__getitem__)),
            Key("final_norm", "decoder.final_norm", None),
            Key("projects", "frontend.projects", "sum"),
            Always("layer_norm_elementwise_affine", True),
            Always("activation_dropout", 0.0),
        ],
        body=[
            Row("decoder.embed_tokens.weight", "frontend.tokens.weight"),
            Row("decoder.embed_positions.weight", "frontend.position.table.weight"),
            Row("decoder.project_in.weight", "frontend.widen.weight"),
            *(Row(f"{LAYER}.self_attn_layer_norm.{{p}}", f"{BLOCK}.attn.{norm}.{{p}}") for norm in NORMS),
            *(Row(f"{LAYER}.self_attn.{part}_proj.{{p}}", f"{BLOCK}.attn.mixer.{part}.{{p}}") for part in ("q", "k", "v", "out")),
            *(Row(f"{LAYER}.final_layer_norm.{{p}}", f"{BLOCK}.ffn.{norm}.{{p}}") for norm in NORMS),
            Row(f"{LAYER}.fc1.{{p}}", f"{BLOCK}.ffn.mixer.up.{{p}}"),
            Row(f"{LAYER}.fc2.{{p}}", f"{BLOCK}.ffn.mixer.out.{{p}}"),
            Row("decoder.final_layer_norm.{p}", "decoder.norm.{p}"),
            Row("decoder.project_out.weight", "decoder.project.weight"),
        ],
        heads=[
            language("OPTForCausalLM"),
            *decoder_heads("OPT", answers=None, only=("ForSequenceClassification", "ForQuestionAnswering", "Model")),
        ],
        prefix="model.",
        harmless=("layerdrop", "init_std"),
        older=older,
        whole=whole,
    )
)
