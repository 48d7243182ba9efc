"""T5 (Raffel et al. 2020), version 1.1, FLAN and mT5 (Xue et al. 2021): an encoder-decoder with one relative bias a stack."""

from dataclasses import replace
from typing import Any

from attentif.errors import ConfigError
from attentif.hub.family import Family, HeadOf, register
from attentif.hub.forms import encoder_of
from attentif.hub.heads import HEADLESS, answer_head, bare, ends_classified, tag_head
from attentif.hub.keys import Always, Key, words
from attentif.hub.rows import Row
from attentif.models import ModelConfig

MIXERS = ("encoder.block.attn.mixer", "decoder.block.attn.mixer", "decoder.block.cross.mixer")
FFNS = ("encoder.block.ffn.mixer", "decoder.block.ffn.mixer")
BIASES = ("encoder.bias", "decoder.bias")
STACKS = {
    "encoder": {"attn": "SelfAttention", "ffn": "DenseReluDense"},
    "decoder": {"attn": "SelfAttention", "cross": "EncDecAttention", "ffn": "DenseReluDense"},
}


def rows_of(stack: str, gated: bool) -> list[Row]:
    """Sublayers are numbered within a block; the bias lies in the first block's attention."""
    rows = [
        Row(f"{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight", f"{stack}.bias.table.weight"),
        Row(f"{stack}.final_layer_norm.weight", f"{stack}.norm.weight"),
    ]
    for number, (ours, theirs) in enumerate(STACKS[stack].items()):
        layer, mine = f"{stack}.block.{{i}}.layer.{number}", f"{stack}.blocks.{{i}}.{ours}"
        rows.append(Row(f"{layer}.layer_norm.weight", f"{mine}.norm_in.weight"))
        if ours == "ffn":
            names = {"wi_0": "gate", "wi_1": "up", "wo": "out"} if gated else {"wi": "up", "wo": "out"}
        else:
            names = {"q": "q", "k": "k", "v": "v", "o": "out"}
        rows += [Row(f"{layer}.{theirs}.{part}.weight", f"{mine}.mixer.{own}.weight") for part, own in names.items()]
    return rows


def body(config: ModelConfig) -> list[Row]:
    assert config.encoder is not None
    gated = "glu" in config.encoder.block["ffn"].mixer.model_dump()["activation"]
    return [Row("shared.weight", "frontend.tokens.weight"), *rows_of("encoder", gated), *rows_of("decoder", gated)]


def older(config: dict[str, Any]) -> dict[str, Any]:
    """Vectors were scaled wherever the output shares the embedding, before there was a key for it; the activation is said in three."""
    gated, _, name = str(config.get("feed_forward_proj", "relu")).rpartition("-")
    follows = {"is_gated_act": gated == "gated", "dense_act_fn": "gelu_new" if (gated, name) == ("gated", "gelu") else name}
    for key, usual in follows.items():
        if (found := config.pop(key, usual)) != usual:
            raise ConfigError(f"{key}: {found!r} is not understood with feed_forward_proj {config.get('feed_forward_proj', 'relu')!r}")
    config.setdefault("scale_decoder_outputs", config.get("tie_word_embeddings", True))
    config["num_decoder_layers"] = config.get("num_decoder_layers") or config.get("num_layers")
    return config


def stack(bidirectional: bool) -> dict[str, Any]:
    attention = {"scale": 1.0, "bias": False, "out_bias": False}
    sublayers: dict[str, Any] = {"attn": {"mixer": {"kind": "attention", **attention, "causal": not bidirectional}}}
    if not bidirectional:
        sublayers["cross"] = {"mixer": {"kind": "cross-attention", **attention}}
    sublayers["ffn"] = {"mixer": {"kind": "feed-forward", "bias": False}}
    return {
        "placement": "pre",
        "norm": {"kind": "rms"},
        "bias": {"kind": "relative", "bidirectional": bidirectional},
        "block": sublayers,
    }


T5 = Family(
    kind="t5",
    template={
        "shared": True,
        "frontend": {"kind": "tokens"},
        "target": {"kind": "tokens"},
        "encoder": stack(bidirectional=True),
        "decoder": stack(bidirectional=False),
    },
    keys=[
        Key("vocab_size", ("frontend.vocab", "target.vocab")),
        Key("d_model", "width"),
        Key("d_kv", tuple(f"{mixer}.head_width" for mixer in MIXERS)),
        Key("d_ff", tuple(f"{mixer}.hidden" for mixer in FFNS)),
        Key("num_layers", ("layers", "encoder.layers")),
        Key("num_decoder_layers", "decoder.layers"),
        Key("num_heads", tuple(f"{part}.heads" for part in (*MIXERS, *BIASES))),
        Key("relative_attention_num_buckets", tuple(f"{bias}.buckets" for bias in BIASES), 32),
        Key("relative_attention_max_distance", tuple(f"{bias}.max_distance" for bias in BIASES), 128),
        Key("dropout_rate", ("dropout", *(f"{mixer}.dropout" for mixer in (*MIXERS, *FFNS))), 0.1),
        Key("layer_norm_epsilon", ("encoder.norm.eps", "decoder.norm.eps"), 1e-6),
        Key(
            "feed_forward_proj",
            tuple(f"{mixer}.activation" for mixer in FFNS),
            "relu",
            words(relu="relu", gelu="gelu", **{"gated-gelu": "geglu-tanh", "gated-silu": "swiglu"}),
        ),
        Always("is_decoder", False),
    ],
    body=body,
    heads=[
        HeadOf(
            "T5ForConditionalGeneration",
            {"kind": "language"},
            [Row("lm_head.weight", "head.linear.weight")],
            [Key("scale_decoder_outputs", "head.scaled", True)],
            task="text-to-text",
        ),
        answer_head("T5ForQuestionAnswering"),
    ],
    ignored=("EncDecAttention.relative_attention_bias.weight",),  # in old files
    embeddings=("encoder.embed_tokens.weight", "decoder.embed_tokens.weight"),
    harmless=("classifier_dropout", "initializer_factor", "n_positions", "scale_decoder_outputs"),
    aliases={"hidden_size": "d_model", "num_attention_heads": "num_heads", "num_hidden_layers": "num_layers", "head_dim": "d_kv"},
    older=older,
    left_out={"T5Model": HEADLESS},
)
INSIDE = "transformer."  # before the tensors of a body that a classifier was put on
CLASSIFYING = [ends_classified("T5ForSequenceClassification")]
T5_FORMS = replace(
    T5,
    others=[
        replace(T5, heads=CLASSIFYING, prefix=INSIDE),
        encoder_of(T5, [bare("T5EncoderModel")]),
        encoder_of(T5, [tag_head("T5ForTokenClassification", keys=[Key("classifier_dropout", "head.dropout", 0.0)])], prefix=INSIDE),
    ],
)


def older_mt5(config: dict[str, Any]) -> dict[str, Any]:
    """Its files say that nothing is tied, and transformers ties whatever the file holds once; scores are never scaled."""
    return older({"feed_forward_proj": "gated-gelu"} | config | {"tie_word_embeddings": True})


def as_mt5(form: Family) -> Family:
    heads = [replace(head, architecture=f"M{head.architecture}") for head in form.heads]
    unscaled = [replace(head, head={**head.head, "scaled": False}, keys=()) if head.head["kind"] == "language" else head for head in heads]
    refused = {f"M{name}": why for name, why in form.left_out.items()}
    return replace(form, kind="mt5", heads=unscaled, left_out=refused, older=older_mt5, others=[*map(as_mt5, form.others)])


register(T5_FORMS, as_mt5(T5_FORMS))
