"""MPNet (Song et al. 2020): BERT with RoBERTa's places, no segments, and T5's buckets of distances in the scores of all blocks."""

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
from attentif.hub.keys import Always, Key
from attentif.hub.rows import Row

LAYER, BLOCK = "encoder.layer.{i}.attention", "encoder.blocks.{i}.attn"
ATTENTION = [
    Row("encoder.relative_attention_bias.weight", "encoder.bias.table.weight"),
    *(Row(f"{LAYER}.attn.{part}.{{p}}", f"{BLOCK}.mixer.{part}.{{p}}") for part in "qkv"),
    Row(f"{LAYER}.attn.o.{{p}}", f"{BLOCK}.mixer.out.{{p}}"),
    Row(f"{LAYER}.LayerNorm.{{p}}", f"{BLOCK}.norm_out.{{p}}"),
]
register(
    Family(
        kind="mpnet",
        template=TEMPLATE
        | {
            "frontend": TEMPLATE["frontend"] | {"position": {"kind": "learned", "offset": 2}},
            "encoder": TEMPLATE["encoder"] | {"bias": {"kind": "relative", "buckets": 32, "max_distance": 128}},
        },
        keys=[
            *(key for key in KEYS if key.theirs not in ("type_vocab_size", "num_attention_heads")),
            Key("num_attention_heads", ("encoder.block.attn.mixer.heads", "encoder.bias.heads")),
            ROBERTA_PLACES,
            Always("relative_attention_num_buckets", 32),  # the size of the table alone: distances fall into 32 whatever is said here
            Always("pad_token_id", 1),
        ],
        body=[*(row for row in ROWS if ".attention." not in row.theirs and "token_type" not in row.theirs), *ATTENTION],
        heads=[
            masked_head("MPNetForMaskedLM", ROBERTA_HEAD),
            classifier("MPNetForSequenceClassification", DENSE_HEAD),
            *common_heads("MPNet"),
        ],
        prefix="mpnet.",
        ignored=IGNORED,
        harmless=("classifier_dropout",),
        left_out=refuse_choices("MPNet"),
    )
)
