"""wav2vec 2.0 with Conformer blocks (Wang et al. 2020, fairseq): samples in, CTC scores out.

Positions are relative (Transformer-XL's), rotary (of the blocks' input, before queries and keys are projected from it), or none. The
convolution of positions that its files hold is read by nothing, there or here.
"""

from collections.abc import Iterator
from typing import Any

import torch

from attentif.errors import ConfigError
from attentif.hub.families.bert import ACTIVATIONS
from attentif.hub.family import Family, HeadOf, register
from attentif.hub.heads import NO_TASK, bare, classify_head, tag_head
from attentif.hub.keys import Always, Key
from attentif.hub.rows import Made, Row, Squeezed
from attentif.models import ModelConfig

ATTN, CONV = "encoder.block.attn.mixer", "encoder.block.conv.mixer"
FFNS = ("encoder.block.ffn1.mixer", "encoder.block.ffn2.mixer")
LAYER, BLOCK = "encoder.layers.{i}", "encoder.blocks.{i}"
RELATIVE, ROTARY = "relative", "rotary"


def older(config: dict[str, Any]) -> dict[str, Any]:
    """The kind of positions as values of ours."""
    kind, base = config.pop("position_embeddings_type", RELATIVE), float(config.pop("rotary_embedding_base", 10000))
    if kind not in (RELATIVE, ROTARY, None):
        raise ConfigError(f"position_embeddings_type: {kind!r} is not understood (only {RELATIVE}, {ROTARY}, null)")
    places = {"distances": {} if kind == RELATIVE else None, "rotary": {"base": base, "of": "input"} if kind == ROTARY else None}
    return config | places


def whole(config: dict[str, Any]) -> dict[str, Any]:
    distances, rotary = config.pop("distances"), config.pop("rotary")
    kind = RELATIVE if distances else ROTARY if rotary else None
    base = rotary["base"] if rotary else 10000.0
    unread = {"num_conv_pos_embeddings": 1, "num_conv_pos_embedding_groups": config["hidden_size"]}  # as small as it can be
    return config | unread | {"position_embeddings_type": kind, "rotary_embedding_base": int(base) if base == int(base) else base}


def body(config: ModelConfig) -> Iterator[Row]:
    frontend = config.frontend.model_dump()
    layers, group = len(frontend["channels"]), frontend["conv_norm"] == "group"
    for number in range(layers):
        theirs = f"feature_extractor.conv_layers.{number}"
        yield Row(f"{theirs}.conv.{{p}}", f"frontend.convs.{number}.{{p}}")
        if number == 0 or not group:
            yield Row(f"{theirs}.layer_norm.{{p}}", f"frontend.norms.{number}.{{p}}")
    yield Row("feature_projection.layer_norm.{p}", "frontend.norm.{p}")
    yield Row("feature_projection.projection.{p}", "frontend.project.{p}")
    yield Row("encoder.layer_norm.{p}", "encoder.norm.{p}")
    for number in (1, 2):
        yield Row(f"{LAYER}.ffn{number}_layer_norm.{{p}}", f"{BLOCK}.ffn{number}.norm_in.{{p}}")
        yield Row(f"{LAYER}.ffn{number}.intermediate_dense.{{p}}", f"{BLOCK}.ffn{number}.mixer.up.{{p}}")
        yield Row(f"{LAYER}.ffn{number}.output_dense.{{p}}", f"{BLOCK}.ffn{number}.mixer.out.{{p}}")
    yield Row(f"{LAYER}.final_layer_norm.{{p}}", f"{BLOCK}.ffn2.norm_out.{{p}}")
    yield Row(f"{LAYER}.self_attn_layer_norm.{{p}}", f"{BLOCK}.attn.norm_in.{{p}}")
    for part in ("q", "k", "v", "out"):
        yield Row(f"{LAYER}.self_attn.linear_{part}.{{p}}", f"{BLOCK}.attn.mixer.{part}.{{p}}")
    yield Row(f"{LAYER}.self_attn.linear_pos.weight", f"{BLOCK}.attn.mixer.distances.project.weight")
    yield Row(f"{LAYER}.self_attn.pos_bias_u", f"{BLOCK}.attn.mixer.distances.key_bias")
    yield Row(f"{LAYER}.self_attn.pos_bias_v", f"{BLOCK}.attn.mixer.distances.distance_bias")
    theirs, ours = f"{LAYER}.conv_module", f"{BLOCK}.conv"
    yield Row(f"{theirs}.layer_norm.{{p}}", f"{ours}.norm_in.{{p}}")
    yield Row(f"{theirs}.pointwise_conv1.weight", f"{ours}.mixer.up.weight", Squeezed(2))
    yield Row(f"{theirs}.depthwise_conv.weight", f"{ours}.mixer.taps", Squeezed(1))
    yield Row(f"{theirs}.batch_norm.{{p}}", f"{ours}.mixer.norm.{{p}}")
    yield Row(f"{theirs}.batch_norm.running_mean", f"{ours}.mixer.norm.mean")
    yield Row(f"{theirs}.batch_norm.running_var", f"{ours}.mixer.norm.var")
    yield Row(f"{theirs}.batch_norm.num_batches_tracked", (), Made(lambda: torch.tensor(0)))
    yield Row(f"{theirs}.pointwise_conv2.weight", f"{ours}.mixer.out.weight", Squeezed(2))
    unread = "encoder.pos_conv_embed.conv"
    yield Row(f"{unread}.bias", (), Made(lambda: torch.zeros(config.width)))
    yield Row(f"{unread}.parametrizations.weight.original0", (), Made(lambda: torch.ones(1, 1, 1)))
    yield Row(f"{unread}.parametrizations.weight.original1", (), Made(lambda: torch.ones(config.width, 1, 1)))
    assert config.encoder is not None
    attn = config.encoder.block["attn"].mixer.model_dump()
    if attn["rotary"]:
        width, base = config.width // attn["heads"], attn["rotary"]["base"]
        frequencies = lambda: 1.0 / (base ** (torch.arange(0, width, 2).float() / width))
        yield Row("encoder.embed_positions.inv_freq", (), Made(frequencies))


TEMPLATE: dict[str, Any] = {
    "frontend": {"kind": "waves"},
    "encoder": {
        "placement": "pre",
        "norm": {"kind": "layer"},
        "block": {
            "ffn1": {"mixer": {"kind": "feed-forward"}, "weight": 0.5},
            "attn": {"mixer": {"kind": "attention"}},
            "conv": {"mixer": {"kind": "conformer-conv", "norm": "batch", "bias": False}},
            "ffn2": {"mixer": {"kind": "feed-forward"}, "weight": 0.5, "placement": "both"},
        },
    },
}
KEYS: list[Key | Always] = [
    Key("hidden_size", "width"),
    Key("num_hidden_layers", "layers"),
    Key("num_attention_heads", f"{ATTN}.heads"),
    Key("intermediate_size", tuple(f"{ffn}.hidden" for ffn in FFNS)),
    Key("hidden_act", tuple(f"{mixer}.activation" for mixer in (*FFNS, CONV)), "gelu", ACTIVATIONS),
    Key("hidden_dropout", "dropout", 0.1),
    Key("activation_dropout", tuple(f"{ffn}.dropout" for ffn in FFNS), 0.1),
    Key("attention_dropout", f"{ATTN}.dropout", 0.1),
    Key("conformer_conv_dropout", "encoder.block.conv.dropout", 0.1),
    Key("feat_proj_dropout", "frontend.dropout", 0.0),
    Key("conv_dim", "frontend.channels", [512] * 7),
    Key("conv_kernel", "frontend.kernels", [10, 3, 3, 3, 3, 2, 2]),
    Key("conv_stride", "frontend.strides", [5, 2, 2, 2, 2, 2, 2]),
    Key("conv_bias", "frontend.conv_bias", False),
    Key("feat_extract_norm", "frontend.conv_norm", "group"),
    Key("conv_depthwise_kernel_size", f"{CONV}.kernel", 31),
    Key("distances", f"{ATTN}.distances", None),
    Key("rotary", f"{ATTN}.rotary", None),
    Always("feat_extract_activation", "gelu"),
    Always("layer_norm_eps", 1e-5),
    Always("add_adapter", False),
    Always("use_weighted_layer_sum", False),
]
# how it is pre-trained, masked in training, what other heads than these are made of, and what wav2vec 2.0 without Conformer blocks read
HARMLESS = (
    "adapter_kernel_size", "adapter_stride", "classifier_proj_size", "codevector_dim", "contrastive_logits_temperature",
    "ctc_loss_reduction", "ctc_zero_infinity", "diversity_loss_weight", "do_stable_layer_norm", "feat_extract_dropout",
    "feat_quantizer_dropout", "final_dropout", "hidden_dropout_prob", "layerdrop",
    "mask_channel_length", "mask_channel_min_space", "mask_channel_other", "mask_channel_prob", "mask_channel_selection",
    "mask_feature_length", "mask_feature_min_masks", "mask_time_length", "mask_time_min_masks", "mask_time_min_space", "mask_time_other",
    "mask_time_selection", "max_source_positions", "num_adapter_layers", "num_codevector_groups", "num_codevectors_per_group",
    "num_conv_pos_embedding_groups", "num_conv_pos_embeddings", "num_feat_extract_layers", "num_negatives", "output_hidden_size",
    "proj_codevector_dim", "tdnn_dilation", "tdnn_dim", "tdnn_kernel", "vocab_size", "xvector_output_dim",
)  # fmt: skip
POSITIONS = ("encoder.pos_conv_embed.conv.weight_g", "encoder.pos_conv_embed.conv.weight_v")  # in old files
register(
    Family(
        kind="wav2vec2-conformer",
        template=TEMPLATE,
        keys=KEYS,
        body=body,
        heads=[
            HeadOf(
                "Wav2Vec2ConformerForCTC",
                {"kind": "ctc"},
                [Row("lm_head.{p}", "head.out.{p}")],
                [Key("vocab_size", "head.vocab"), Key("final_dropout", "head.dropout", 0.1), Always("pad_token_id", 0)],  # 0 is the blank
                task="speech",
            ),
            classify_head(
                "Wav2Vec2ConformerForSequenceClassification",
                {"projector": "hidden", "classifier": "out"},
                (Key("classifier_proj_size", "head.inner", 256),),
                pool="mean",
                hidden=True,
                activation="none",
                dropout=0.0,
            ),
            tag_head("Wav2Vec2ConformerForAudioFrameClassification", keys=(), dropout=0.0),
            bare("Wav2Vec2ConformerModel"),
        ],
        prefix="wav2vec2_conformer.",
        ignored=("masked_spec_embed", *POSITIONS),
        like={"apply_spec_augment": False, "mask_time_prob": 0.0, "mask_feature_prob": 0.0},
        harmless=HARMLESS,
        left_out={"Wav2Vec2ConformerForPreTraining": NO_TASK, "Wav2Vec2ConformerForXVector": NO_TASK},
        older=older,
        whole=whole,
    )
)
