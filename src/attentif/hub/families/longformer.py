"""Longformer (Beltagy et al. 2020): RoBERTa whose tokens see their neighbours, and a few global ones, projected apart, see all."""

from typing import Any

from attentif.errors import ConfigError
from attentif.hub.families.bert import (
    DENSE_HEAD,
    IGNORED,
    KEYS,
    ROBERTA_HEAD,
    ROBERTA_PLACES,
    ROWS,
    TEMPLATE,
    classifier,
    common_heads,
    masked_head,
    refuse_choices,
)
from attentif.hub.family import Family, register
from attentif.hub.heads import DROPOUT
from attentif.hub.keys import Always, Code, Key
from attentif.hub.rows import Row

PATTERN = "encoder.block.attn.mixer.pattern"
SELF, MIXER = "encoder.layer.{i}.attention.self", "encoder.blocks.{i}.attn.mixer"
APART = [
    Row(f"{SELF}.query_global.{{p}}", f"{MIXER}.q_global.{{p}}"),
    Row(f"{SELF}.key_global.{{p}}", f"{MIXER}.k_global.{{p}}"),
    Row(f"{SELF}.value_global.{{p}}", f"{MIXER}.v_global.{{p}}"),
]


def window(first: int) -> Key:
    """Half of the window on each side; `first` tokens are global besides those that a task marks."""

    def read(given: int | list[int]) -> list[dict[str, Any]]:
        widths = {given} if isinstance(given, int) else set(given)
        if len(widths) != 1:
            raise ConfigError(f"windows that differ from block to block ({given}) are not understood")
        side = widths.pop() // 2
        return [{"kind": "window", "left": side, "right": side}, {"kind": "global", "first": first}]

    return Key("attention_window", PATTERN, 512, Code(read, lambda pattern: 2 * pattern[0]["left"]))


TABLE = TEMPLATE["encoder"]["block"]
BLOCK = TABLE | {"attn": {"mixer": TABLE["attn"]["mixer"] | {"global_projections": True}}}
register(
    Family(
        kind="longformer",
        template=TEMPLATE
        | {
            "frontend": TEMPLATE["frontend"] | {"position": {"kind": "learned", "offset": 2}},
            "encoder": TEMPLATE["encoder"] | {"block": BLOCK},
        },
        keys=[*KEYS, ROBERTA_PLACES, Always("pad_token_id", 1), window(first=0)],
        body=[*ROWS, *APART],
        heads=[
            masked_head("LongformerForMaskedLM", ROBERTA_HEAD),
            classifier("LongformerForSequenceClassification", DENSE_HEAD, keys=[DROPOUT, window(first=1)]),
            *common_heads("Longformer"),  # of which answers want a question whose tokens are marked, and so global
        ],
        prefix="longformer.",
        ignored=IGNORED,
        harmless=("classifier_dropout", "ignore_attention_mask", "attention_mode", "onnx_export"),
        left_out=refuse_choices("Longformer"),
    )
)
