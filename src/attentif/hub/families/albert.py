"""ALBERT (Lan et al. 2020): BERT whose blocks are all the same one, with narrow embeddings.

Its block is read as many times as it is used, each with weights of its own: a run that is trained further has blocks that differ, and is no
ALBERT any more.
"""

from collections.abc import Iterator
from dataclasses import replace

from attentif.hub.families.bert import EMBEDDINGS, KEYS, LIKE_THE_BLOCKS, TEMPLATE, classifier, masked_head, refuse_choices
from attentif.hub.family import Family, register
from attentif.hub.heads import NO_TASK, answer_head, bare, tag_head
from attentif.hub.keys import Always, Key
from attentif.hub.rows import Repeated, Row
from attentif.models import ModelConfig

ONE = "encoder.albert_layer_groups.0.albert_layers.0"
PARTS = {
    "attention.query": "attn.mixer.q",
    "attention.key": "attn.mixer.k",
    "attention.value": "attn.mixer.v",
    "attention.dense": "attn.mixer.out",
    "attention.LayerNorm": "attn.norm_out",
    "ffn": "ffn.mixer.up",
    "ffn_output": "ffn.mixer.out",
    "full_layer_layer_norm": "ffn.norm_out",
}
DROPOUT = Key("classifier_dropout_prob", "head.dropout", 0.1)
PREDICTIONS = [
    Row("predictions.dense.{p}", "head.transform.{p}"),
    Row("predictions.LayerNorm.{p}", "head.norm.{p}"),
    Row("predictions.decoder.weight", "head.linear.weight"),
    Row("predictions.bias", "head.bias", untied="predictions.decoder.bias"),
]


def body(config: ModelConfig) -> Iterator[Row]:
    yield from (row for row in EMBEDDINGS if row.theirs != "embeddings_project.{p}")
    yield Row("encoder.embedding_hidden_mapping_in.{p}", "frontend.project.{p}")
    for theirs, ours in PARTS.items():
        every = tuple(f"encoder.blocks.{block}.{ours}.{{p}}" for block in range(config.layers))
        yield Row(f"{ONE}.{theirs}.{{p}}", every, Repeated(config.layers))


MASKED = masked_head("AlbertForMaskedLM", PREDICTIONS, [LIKE_THE_BLOCKS])
BARE = bare("AlbertModel")
POOLER = ("pooler.weight", "pooler.bias")
register(
    Family(
        kind="albert",
        template=TEMPLATE,
        keys=[
            *KEYS,
            Key("embedding_size", "frontend.embedding", 128),
            Key("max_position_embeddings", "frontend.position.max_len", 512),
            Always("num_hidden_groups", 1),
            Always("inner_group_num", 1),
        ],
        body=body,
        heads=[
            replace(MASKED, ignored=(*MASKED.ignored, *POOLER, "sop_classifier.classifier.weight", "sop_classifier.classifier.bias")),
            classifier("AlbertForSequenceClassification", {"albert.pooler": "hidden", "classifier": "out"}, keys=[DROPOUT]),
            tag_head("AlbertForTokenClassification", keys=[DROPOUT]),
            answer_head("AlbertForQuestionAnswering"),
            replace(BARE, ignored=POOLER),
        ],
        prefix="albert.",
        ignored=("embeddings.position_ids", "embeddings.token_type_ids"),
        harmless=(
            "classifier_dropout_prob",
            "classifier_dropout",
            "down_scale_factor",
            "gap_size",
            "net_structure_type",
            "num_memory_blocks",
        ),
        defaults={"hidden_act": "gelu_new", "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0},
        left_out={**refuse_choices("Albert"), "AlbertForPreTraining": NO_TASK},
    )
)
