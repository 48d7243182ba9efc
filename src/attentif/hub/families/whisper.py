"""Whisper (Radford et al. 2022): thirty seconds of sound in, a transcript out; BART's names, norms before the sublayers.

The range that Whisper's feature extractor brings its frames to is the frontend's here: it reads plain log-mel frames (`hub/sounds.py`).
The encoder's sinusoids are saved as a table, and read as one.
"""

from dataclasses import replace
from typing import Any

from attentif.hub.families.bart import ALIASES, SIZES, rows_of
from attentif.hub.family import Family, HeadOf, register
from attentif.hub.forms import encoder_of
from attentif.hub.heads import HALF, HEADLESS, classify_head
from attentif.hub.keys import Always, Key
from attentif.hub.rows import Row

FRONTEND: dict[str, Any] = {"kind": "frames", "subsample": "whisper", "normalise": "whisper", "position": {"kind": "learned"}}
HARMLESS = (
    "classifier_proj_size", "decoder_layerdrop", "encoder_layerdrop", "init_std", "is_multilingual",
    "median_filter_width", "num_hidden_layers", "scale_embedding", "use_weighted_layer_sum",
    "apply_spec_augment", "mask_time_prob", "mask_time_length", "mask_time_min_masks", "mask_feature_prob", "mask_feature_length",
    "mask_feature_min_masks", "forced_decoder_ids", "alignment_heads",
)  # fmt: skip


def stack(decoder: bool) -> dict[str, Any]:
    sublayers: dict[str, Any] = {"attn": {"mixer": {"kind": "attention", "causal": decoder, "key_bias": False}}}
    if decoder:
        sublayers["cross"] = {"mixer": {"kind": "cross-attention", "key_bias": False}}
    sublayers["ffn"] = {"mixer": {"kind": "feed-forward"}}
    return {"placement": "pre", "norm": {"kind": "layer"}, "block": sublayers}


SOURCE: list[Key | Always] = [
    Key("num_mel_bins", "frontend.mels", 80),
    Key("max_source_positions", "frontend.position.max_len", 1500),
]
ENCODER = [
    Row("encoder.conv1.{p}", "frontend.subsample.first.{p}"),
    Row("encoder.conv2.{p}", "frontend.subsample.second.{p}"),
    Row("encoder.layer_norm.{p}", "encoder.norm.{p}"),
    *rows_of("encoder", "norm_in"),
]
DECODER = [
    Row("decoder.embed_tokens.weight", "target.tokens.weight"),
    Row("decoder.layer_norm.{p}", "decoder.norm.{p}"),
    *rows_of("decoder", "norm_in"),
]
CLASSIFYING = classify_head(
    "WhisperForAudioClassification",
    {"projector": "hidden", "classifier": "out"},
    (Key("classifier_proj_size", "head.inner", 256), Always("use_weighted_layer_sum", False)),
    pool="mean",  # of projected vectors there, projected here once they are one: the same
    hidden=True,
    activation="none",
    dropout=0.0,
)
WHISPER = Family(
    kind="whisper",
    template={
        "frontend": FRONTEND,
        "target": {"kind": "tokens", "position": {"kind": "learned"}},
        "encoder": stack(decoder=False),
        "decoder": stack(decoder=True),
    },
    defaults={"dropout": 0.0},
    aliases=ALIASES | {"num_key_value_heads": "encoder_attention_heads"},
    keys=[*SOURCE, *SIZES, Key("vocab_size", "target.vocab"), Key("max_target_positions", "target.position.max_len", 448)],
    body=[*ENCODER, *DECODER],
    heads=[HeadOf("WhisperForConditionalGeneration", {"kind": "language"}, [Row("proj_out.weight", "head.linear.weight")], task="speech")],
    prefix="model.",
    harmless=HARMLESS,
    left_out={"WhisperForCausalLM": HALF, "WhisperModel": HEADLESS},
)
register(replace(WHISPER, others=[encoder_of(WHISPER, [CLASSIFYING], prefix="")]))
