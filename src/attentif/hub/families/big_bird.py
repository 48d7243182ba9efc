"""BigBird (Zaheer et al. 2020): BERT whose tokens see blocks of neighbours, and the first and the last block.

Its random blocks are drawn in training only. In evaluation transformers puts the first block in their place, which every ordinary query
then counts once for each of them and once for itself: that is what is read here, as the first block's weight. Texts of few blocks are read
by plain attention.
"""

from typing import Any

from attentif.errors import ConfigError
from attentif.hub.families.bert import (
    DENSE_HEAD,
    HARMLESS,
    IGNORED,
    KEYS,
    LIKE_THE_BLOCKS,
    PREDICTIONS,
    ROWS,
    TEMPLATE,
    classifier,
    masked,
    pretraining,
)
from attentif.hub.family import Family, register
from attentif.hub.heads import DROPOUT, bare, tagging
from attentif.hub.keys import Key

ATTN = "encoder.block.attn.mixer"
SPARSE, FULL = "block_sparse", "original_full"


def pattern(block: int, drawn: int) -> list[dict[str, Any]]:
    return [
        {"kind": "window", "left": 1, "right": 1, "block": block},
        {"kind": "global", "first": 1, "block": block, "weight": 1.0 + drawn},
        {"kind": "global", "last": 1, "block": block},
        {"kind": "short", "up_to": (5 + 2 * drawn) * block},
    ]


def with_pattern(config: dict[str, Any]) -> dict[str, Any]:
    kind, block, drawn = config.pop("attention_type", SPARSE), config.pop("block_size", 64), config.pop("num_random_blocks", 3)
    if kind not in (SPARSE, FULL):
        raise ConfigError(f"attention_type: {kind!r} is not understood (only {SPARSE}, {FULL})")
    return {"hidden_act": "gelu_new"} | config | {"pattern": pattern(block, drawn) if kind == SPARSE else []}


def without_pattern(config: dict[str, Any]) -> dict[str, Any]:
    entries = config.pop("pattern")
    if not entries:
        return config | {"attention_type": FULL}
    block, weight = entries[0].get("block", 1), max(entry.get("weight") or 1.0 for entry in entries)
    return config | {"attention_type": SPARSE, "block_size": block, "num_random_blocks": round(weight) - 1}


register(
    Family(
        kind="big_bird",
        template=TEMPLATE,
        keys=[
            *KEYS,
            Key("max_position_embeddings", "frontend.position.max_len", 4096),
            Key("rescale_embeddings", "frontend.scale", False),
            Key("use_bias", f"{ATTN}.bias", True),
            Key("pattern", f"{ATTN}.pattern"),
        ],
        body=ROWS,
        heads=[
            masked("BigBirdForMaskedLM", PREDICTIONS, [LIKE_THE_BLOCKS]),
            pretraining("BigBirdForPreTraining", "bert.pooler"),
            classifier("BigBirdForSequenceClassification", DENSE_HEAD, keys=[DROPOUT, LIKE_THE_BLOCKS]),
            tagging("BigBirdForTokenClassification"),
            bare("BigBirdModel"),
        ],
        prefix="bert.",
        ignored=(*IGNORED, "pooler.weight", "pooler.bias"),
        harmless=HARMLESS,
        older=with_pattern,
        whole=without_pattern,
    )
)
