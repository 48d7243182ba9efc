"""BigBird (Zaheer et al. 2020): BERT whose tokens see blocks of neighbours, and the first and the last block.

Its random blocks are drawn in training only. In evaluation transformers puts the first block in their place, which every ordinary query
then counts once for each of them and once for itself: that is what is read here, as the first block's weight. Texts of few blocks are read
by plain attention.

Answers are looked for behind one more block, which has no attention. As a writer it sees all that came before, or is refused: the pattern
sees the last block of a text, and so what is still to be written.
"""

from collections.abc import Iterator
from dataclasses import replace
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
    as_writer,
    classifier,
    masked_head,
    pretraining_head,
    refuse_choices,
)
from attentif.hub.family import Family, register
from attentif.hub.heads import DROPOUT, answer_head, bare, tag_head
from attentif.hub.keys import Code, Key
from attentif.hub.rows import Row
from attentif.models import ModelConfig

ATTN, BLOCK = "encoder.block.attn.mixer", "encoder.block."
SPARSE, FULL = "block_sparse", "original_full"


def pattern(block: int, drawn: int) -> list[dict[str, Any]]:
    return [
        {"kind": "window", "left": 1, "right": 1, "block": block},
        {"kind": "global", "first": 1, "block": block, "weight": 1.0 + drawn, "marked": False},
        {"kind": "global", "last": 1, "block": block, "marked": False},
        {"kind": "short", "up_to": (5 + 2 * drawn) * block},
    ]


def with_pattern(config: dict[str, Any]) -> dict[str, Any]:
    kind, block, drawn = config.pop("attention_type", SPARSE), config.pop("block_size", 64), config.pop("num_random_blocks", 3)
    if kind not in (SPARSE, FULL):
        raise ConfigError(f"attention_type: {kind!r} is not understood (only {SPARSE}, {FULL})")
    return {"hidden_act": "gelu_new"} | config | {"pattern": pattern(block, drawn) if kind == SPARSE else []}


def make_causal(config: dict[str, Any]) -> dict[str, Any]:
    if config.get("attention_type", SPARSE) == SPARSE:
        raise ConfigError(f"attention_type: {SPARSE!r} sees what is still to be written, in long texts (only {FULL!r} writes)")
    return with_pattern(config)


def without_pattern(config: dict[str, Any]) -> dict[str, Any]:
    entries = config.pop("pattern")
    if not entries:
        return config | {"attention_type": FULL}
    block, weight = entries[0].get("block", 1), max(entry.get("weight") or 1.0 for entry in entries)
    return config | {"attention_type": SPARSE, "block_size": block, "num_random_blocks": round(weight) - 1}


def with_a_block_more(family: Family) -> Family:
    """The form whose last block is a feed-forward network alone, and which looks for answers."""
    encoder = family.template["encoder"]
    blocks = [{"sublayers": encoder["block"]}, {"sublayers": {"ffn": encoder["block"]["ffn"]}}]
    stack = {key: value for key, value in encoder.items() if key != "block"} | {"blocks": blocks}
    layers = [
        Key("num_hidden_layers", "encoder.blocks.0.repeat"),
        Key("num_hidden_layers", "layers", code=Code(lambda own: own + 1, lambda all_: all_ - 1)),
    ]
    kept = [key for key in family.keys if key.theirs != "num_hidden_layers"]
    return replace(
        family,
        template={**family.template, "encoder": stack},
        keys=[*layers, *(replace(key, ours=in_turns(key)) if isinstance(key, Key) else key for key in kept)],
        body=body_and_block,
        heads=[answer_head("BigBirdForQuestionAnswering", theirs="qa_classifier.qa_outputs")],
        prefix="",
        others=(),
    )


def in_turns(key: Key) -> tuple[str, ...]:
    """The places of a key where there are two kinds of block, the second without attention."""
    first = [place.replace(BLOCK, "encoder.blocks.0.sublayers.") for place in key.places]
    second = [place.replace(BLOCK, "encoder.blocks.1.sublayers.") for place in key.places if place.startswith(f"{BLOCK}ffn.")]
    return (*first, *second)


def body_and_block(config: ModelConfig) -> Iterator[Row]:
    last = config.layers - 1
    yield from (replace(row, theirs=f"bert.{row.theirs}", blocks=range(last)) for row in ROWS)
    ours = f"encoder.blocks.{last}.ffn"
    yield Row("qa_classifier.intermediate.dense.{p}", f"{ours}.mixer.up.{{p}}")
    yield Row("qa_classifier.output.dense.{p}", f"{ours}.mixer.out.{{p}}")
    yield Row("qa_classifier.output.LayerNorm.{p}", f"{ours}.norm_out.{{p}}")


BIG_BIRD = Family(
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
        masked_head("BigBirdForMaskedLM", PREDICTIONS, [LIKE_THE_BLOCKS]),
        pretraining_head("BigBirdForPreTraining", "bert.pooler"),
        classifier("BigBirdForSequenceClassification", DENSE_HEAD, keys=[DROPOUT, LIKE_THE_BLOCKS]),
        tag_head("BigBirdForTokenClassification"),
        bare("BigBirdModel"),
    ],
    prefix="bert.",
    ignored=(*IGNORED, "pooler.weight", "pooler.bias"),
    harmless=HARMLESS,
    older=with_pattern,
    whole=without_pattern,
    left_out=refuse_choices("BigBird"),
)
WRITING = as_writer(BIG_BIRD, "BigBirdForCausalLM").others[0]
register(replace(BIG_BIRD, others=[replace(WRITING, older=make_causal), with_a_block_more(BIG_BIRD)]))
