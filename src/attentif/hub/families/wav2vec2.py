"""wav2vec 2.0 (Baevski et al. 2020) and HuBERT (Hsu et al. 2021): samples in, positions by a convolution, CTC scores out."""

from collections.abc import Iterator, Mapping
from typing import Any

from attentif.hub.families.bert import ACTIVATIONS
from attentif.hub.families.wav2vec2_conformer import HARMLESS
from attentif.hub.families.wav2vec2_conformer import KEYS as CONFORMER_KEYS
from attentif.hub.family import Family, HeadOf, register
from attentif.hub.heads import NO_TASK, bare, classify_head, tag_head
from attentif.hub.keys import Always, Code, Key
from attentif.hub.rows import Row
from attentif.models import ModelConfig

ATTN, FFN = "encoder.block.attn.mixer", "encoder.block.ffn.mixer"
LAYER, BLOCK = "encoder.layers.{i}", "encoder.blocks.{i}"
PLACES = "encoder.pos_conv_embed.conv"
# keys that its Conformer reads as it does
SAME = {
    "add_adapter", "conv_bias", "conv_dim", "conv_kernel", "conv_stride", "feat_extract_activation", "feat_extract_norm",
    "feat_proj_dropout", "use_weighted_layer_sum",
}  # fmt: skip


def older(config: dict[str, Any]) -> dict[str, Any]:
    """The convolution of positions; what it gives is normalised where the blocks are not (`do_stable_layer_norm`)."""
    config = dict(config)
    norm = None if config.get("do_stable_layer_norm", False) else config.get("layer_norm_eps", 1e-5)
    kernel, groups = config.pop("num_conv_pos_embeddings", 128), config.pop("num_conv_pos_embedding_groups", 16)
    return config | {"places": {"kernel": kernel, "groups": groups, "norm": norm}}


def whole(config: dict[str, Any]) -> dict[str, Any]:
    places = config.pop("places")
    return config | {"num_conv_pos_embeddings": places["kernel"], "num_conv_pos_embedding_groups": places["groups"]}


def read_places(said: Mapping[str, Any]) -> dict[str, Any]:
    return {**said, "norm": None if said["norm"] is None else {"kind": "layer", "eps": said["norm"]}}


def write_places(places: Mapping[str, Any]) -> dict[str, Any]:
    return {**places, "norm": places["norm"]["eps"] if places["norm"] else None}


def body(config: ModelConfig) -> Iterator[Row]:
    frontend = config.frontend.model_dump()
    for number in range(len(frontend["channels"])):
        theirs = f"feature_extractor.conv_layers.{number}"
        yield Row(f"{theirs}.conv.{{p}}", f"frontend.convs.{number}.{{p}}")
        if number == 0 or frontend["conv_norm"] == "layer":
            yield Row(f"{theirs}.layer_norm.{{p}}", f"frontend.norms.{number}.{{p}}")
    yield Row("feature_projection.layer_norm.{p}", "frontend.norm.{p}")
    yield Row("feature_projection.projection.{p}", "frontend.project.{p}")
    yield Row(f"{PLACES}.bias", "frontend.places.bias")
    yield Row(f"{PLACES}.parametrizations.weight.original0", "frontend.places.gain")
    yield Row(f"{PLACES}.parametrizations.weight.original1", "frontend.places.direction")
    stable = config.encoder is not None and config.encoder.placement == "pre"
    norm = "norm_in" if stable else "norm_out"
    yield Row("encoder.layer_norm.{p}", "encoder.norm.{p}" if stable else "frontend.places.norm.{p}")
    for part in ("q", "k", "v", "out"):
        yield Row(f"{LAYER}.attention.{part}_proj.{{p}}", f"{BLOCK}.attn.mixer.{part}.{{p}}")
    yield Row(f"{LAYER}.layer_norm.{{p}}", f"{BLOCK}.attn.{norm}.{{p}}")
    yield Row(f"{LAYER}.feed_forward.intermediate_dense.{{p}}", f"{BLOCK}.ffn.mixer.up.{{p}}")
    yield Row(f"{LAYER}.feed_forward.output_dense.{{p}}", f"{BLOCK}.ffn.mixer.out.{{p}}")
    yield Row(f"{LAYER}.final_layer_norm.{{p}}", f"{BLOCK}.ffn.{norm}.{{p}}")


def family(kind: str, name: str, more: list[HeadOf], keys: list[Key | Always], left_out: dict[str, str]) -> Family:
    return Family(
        kind=kind,
        template={
            "frontend": {"kind": "waves", "norm": {"kind": "layer"}},
            "encoder": {
                "norm": {"kind": "layer"},
                "block": {"attn": {"mixer": {"kind": "attention"}}, "ffn": {"mixer": {"kind": "feed-forward"}}},
            },
        },
        keys=[
            *(key for key in CONFORMER_KEYS if key.theirs in SAME),
            Key("hidden_size", "width"),
            Key("num_hidden_layers", "layers"),
            Key("num_attention_heads", f"{ATTN}.heads"),
            Key("intermediate_size", f"{FFN}.hidden"),
            Key("hidden_act", f"{FFN}.activation", "gelu", ACTIVATIONS),
            Key("hidden_dropout", "dropout", 0.1),
            Key("activation_dropout", f"{FFN}.dropout", 0.1),
            Key("attention_dropout", f"{ATTN}.dropout", 0.1),
            Key("do_stable_layer_norm", "encoder.placement", False, Code(lambda on: "pre" if on else "post", lambda where: where == "pre")),
            Key("layer_norm_eps", ("encoder.norm.eps", "frontend.norm.eps"), 1e-5),
            Key("places", "frontend.places", code=Code(read_places, write_places)),
            *keys,
        ],
        body=body,
        heads=[
            HeadOf(
                f"{name}ForCTC",
                {"kind": "ctc"},
                [Row("lm_head.{p}", "head.out.{p}")],
                [Key("vocab_size", "head.vocab"), Key("final_dropout", "head.dropout", 0.1), Always("pad_token_id", 0)],  # 0 is the blank
                task="speech",
            ),
            classify_head(
                f"{name}ForSequenceClassification",
                {"projector": "hidden", "classifier": "out"},
                (Key("classifier_proj_size", "head.inner", 256),),
                pool="mean",
                hidden=True,
                activation="none",
                dropout=0.0,
            ),
            *more,
            bare(f"{name}Model"),
        ],
        prefix=f"{kind}.",
        ignored=("masked_spec_embed",),
        like={"apply_spec_augment": False, "mask_time_prob": 0.0, "mask_feature_prob": 0.0},
        harmless=tuple(word for word in HARMLESS if word != "do_stable_layer_norm"),
        older=older,
        whole=whole,
        left_out=left_out,
    )


register(
    family(
        "wav2vec2",
        "Wav2Vec2",
        [tag_head("Wav2Vec2ForAudioFrameClassification", keys=(), dropout=0.0)],
        [Always("adapter_attn_dim", None)],
        {"Wav2Vec2ForPreTraining": NO_TASK, "Wav2Vec2ForXVector": NO_TASK},
    ),
    family("hubert", "Hubert", [], [Always("feat_proj_layer_norm", True), Always("conv_pos_batch_norm", False)], {}),
)
