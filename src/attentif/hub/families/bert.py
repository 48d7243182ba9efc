"""BERT (Devlin et al. 2019) and those built like it: RoBERTa, CamemBERT (positions from row 2 on), ELECTRA (narrow embeddings)."""

from collections.abc import Mapping, Sequence
from typing import Any

from attentif.hub.family import Family, HeadOf, register
from attentif.hub.keys import Always, Code, Key, words
from attentif.hub.rows import Row

ATTN, FFN = "encoder.block.attn.mixer", "encoder.block.ffn.mixer"
ACTIVATIONS = words(gelu="gelu", gelu_new="gelu-tanh", gelu_pytorch_tanh="gelu-tanh", relu="relu", silu="silu", swish="silu")
KEYS: list[Key | Always] = [
    Key("vocab_size", "frontend.vocab"),
    Key("hidden_size", "width"),
    Key("num_hidden_layers", "layers"),
    Key("num_attention_heads", f"{ATTN}.heads"),
    Key("intermediate_size", f"{FFN}.hidden"),
    Key("hidden_act", f"{FFN}.activation", "gelu", ACTIVATIONS),
    Key("hidden_dropout_prob", "dropout", 0.1),
    Key("attention_probs_dropout_prob", f"{ATTN}.dropout", 0.1),
    Key("type_vocab_size", "frontend.segments", 2),
    Key("layer_norm_eps", ("frontend.norm.eps", "encoder.norm.eps"), 1e-12),
    Always("position_embedding_type", "absolute"),
    Always("is_decoder", False),
    Always("add_cross_attention", False),
]
TEMPLATE: dict[str, Any] = {
    "frontend": {"kind": "tokens", "position": {"kind": "learned"}, "norm": {"kind": "layer"}},
    "encoder": {
        "placement": "post",
        "norm": {"kind": "layer"},
        "block": {"attn": {"mixer": {"kind": "attention"}}, "ffn": {"mixer": {"kind": "feed-forward"}}},
    },
}
EMBEDDINGS = [
    Row("embeddings.word_embeddings.weight", "frontend.tokens.weight"),
    Row("embeddings.position_embeddings.weight", "frontend.position.table.weight"),
    Row("embeddings.token_type_embeddings.weight", "frontend.segments.weight"),
    Row("embeddings.LayerNorm.{p}", "frontend.norm.{p}"),
    Row("embeddings_project.{p}", "frontend.project.{p}"),
]
LAYER, BLOCK = "encoder.layer.{i}", "encoder.blocks.{i}"
ROWS = [
    *EMBEDDINGS,
    Row(f"{LAYER}.attention.self.query.{{p}}", f"{BLOCK}.attn.mixer.q.{{p}}"),
    Row(f"{LAYER}.attention.self.key.{{p}}", f"{BLOCK}.attn.mixer.k.{{p}}"),
    Row(f"{LAYER}.attention.self.value.{{p}}", f"{BLOCK}.attn.mixer.v.{{p}}"),
    Row(f"{LAYER}.attention.output.dense.{{p}}", f"{BLOCK}.attn.mixer.out.{{p}}"),
    Row(f"{LAYER}.attention.output.LayerNorm.{{p}}", f"{BLOCK}.attn.norm_out.{{p}}"),
    Row(f"{LAYER}.intermediate.dense.{{p}}", f"{BLOCK}.ffn.mixer.up.{{p}}"),
    Row(f"{LAYER}.output.dense.{{p}}", f"{BLOCK}.ffn.mixer.out.{{p}}"),
    Row(f"{LAYER}.output.LayerNorm.{{p}}", f"{BLOCK}.ffn.norm_out.{{p}}"),
]
DROPOUT = Key("classifier_dropout", "head.dropout", None)
MASKED_HEAD = {"kind": "language", "bias": True, "transform": {"kind": "layer"}}
MASKED_EPS = Key("layer_norm_eps", "head.transform.eps", 1e-12)


def masked(architecture: str, rows: Sequence[Row]) -> HeadOf:
    return HeadOf(architecture, MASKED_HEAD, rows, [MASKED_EPS], task="masked")


def common_heads(name: str) -> list[HeadOf]:
    """What all of them have: tagging, answering, the bare encoder."""
    tags = HeadOf(
        f"{name}ForTokenClassification", {"kind": "tokens", "classes": None}, [Row("classifier.{p}", "head.out.{p}")], [DROPOUT], task="tag"
    )
    spans = HeadOf(f"{name}ForQuestionAnswering", {"kind": "span"}, [Row("qa_outputs.{p}", "head.out.{p}")], task="answer")
    # the bare encoder is pooled by its user; BERT's own pooler was trained for next sentences and is left out
    bare = HeadOf(f"{name}Model", {"kind": "embed", "pool": "mean"}, prefix="", ignored=("pooler.dense.weight", "pooler.dense.bias"))
    return [tags, spans, bare]


def classifier(architecture: str, rows: Mapping[str, str], activation: str = "tanh", keys: Sequence[Key] = ()) -> HeadOf:
    """The first place, a linear map, a non-linearity, the scores."""
    head = {"kind": "classify", "classes": None, "pool": "first", "hidden": True, "activation": activation}
    return HeadOf(architecture, head, [Row(theirs, ours) for theirs, ours in rows.items()], [DROPOUT, *keys], task="classify")


BERT_HEADS = [
    masked(
        "BertForMaskedLM",
        [
            Row("cls.predictions.transform.dense.{p}", "head.transform.{p}"),
            Row("cls.predictions.transform.LayerNorm.{p}", "head.norm.{p}"),
            Row("cls.predictions.decoder.weight", "head.linear.weight"),
            Row("cls.predictions.bias", "head.bias"),
        ],
    ),
    classifier("BertForSequenceClassification", {"bert.pooler.dense.{p}": "head.hidden.{p}", "classifier.{p}": "head.out.{p}"}),
    *common_heads("Bert"),
]
IGNORED = ("embeddings.position_ids", "embeddings.token_type_ids", "cls.predictions.decoder.bias", "lm_head.decoder.bias")
HARMLESS = ("classifier_dropout", "summary_last_dropout", "embedding_size", "gradient_checkpointing")
DENSE_HEAD = {"classifier.dense.{p}": "head.hidden.{p}", "classifier.out_proj.{p}": "head.out.{p}"}


ROBERTA_HEAD = [
    Row("lm_head.dense.{p}", "head.transform.{p}"),
    Row("lm_head.layer_norm.{p}", "head.norm.{p}"),
    Row("lm_head.decoder.weight", "head.linear.weight"),
    Row("lm_head.bias", "head.bias"),
]
ROBERTA_PLACES = Key("max_position_embeddings", "frontend.position.max_len", 514, Code(lambda rows: rows - 2, lambda places: places + 2))


def roberta_like(kind: str, name: str) -> Family:
    """Places are counted from the padding's row on: two rows of their table are for nobody."""
    frontend = TEMPLATE["frontend"] | {"position": {"kind": "learned", "offset": 2}}
    return Family(
        kind=kind,
        template=TEMPLATE | {"frontend": frontend},
        keys=[*KEYS, ROBERTA_PLACES, Always("pad_token_id", 1)],
        body=ROWS,
        heads=[
            masked(f"{name}ForMaskedLM", ROBERTA_HEAD),
            classifier(f"{name}ForSequenceClassification", DENSE_HEAD),
            *common_heads(name),
        ],
        prefix="roberta.",
        ignored=IGNORED,
        harmless=HARMLESS,
    )


def without_equal_embedding(config: dict[str, Any]) -> dict[str, Any]:
    """Embeddings as wide as the model need no map: ours has no key for them then."""
    if config.get("embedding_size", 128) == config.get("hidden_size"):
        config["embedding_size"] = None
    return config


def with_embedding(config: dict[str, Any]) -> dict[str, Any]:
    return config | {"embedding_size": config["embedding_size"] or config["hidden_size"]}


register(
    Family(
        kind="bert",
        template=TEMPLATE,
        keys=[*KEYS, Key("max_position_embeddings", "frontend.position.max_len", 512)],
        body=ROWS,
        heads=BERT_HEADS,
        prefix="bert.",
        ignored=IGNORED,
        harmless=HARMLESS,
    ),
    roberta_like("roberta", "Roberta"),
    roberta_like("camembert", "Camembert"),
    Family(
        kind="electra",
        template=TEMPLATE,
        keys=[
            *KEYS,
            Key("max_position_embeddings", "frontend.position.max_len", 512),
            Key("embedding_size", "frontend.embedding", 128),
        ],
        body=ROWS,
        heads=[
            HeadOf(
                "ElectraForPreTraining",
                {"kind": "tokens", "classes": 1, "hidden": True, "dropout": 0.0},
                [
                    Row("discriminator_predictions.dense.{p}", "head.hidden.{p}"),
                    Row("discriminator_predictions.dense_prediction.{p}", "head.out.{p}"),
                ],
                task="replaced",
            ),
            masked(
                "ElectraForMaskedLM",
                [
                    Row("generator_predictions.dense.{p}", "head.transform.{p}"),
                    Row("generator_predictions.LayerNorm.{p}", "head.norm.{p}"),
                    Row("generator_lm_head.weight", "head.linear.weight"),
                    Row("generator_lm_head.bias", "head.bias"),
                ],
            ),
            classifier("ElectraForSequenceClassification", DENSE_HEAD, "gelu"),
            *common_heads("Electra"),
        ],
        prefix="electra.",
        ignored=IGNORED,
        harmless=HARMLESS,
        older=without_equal_embedding,
        whole=with_embedding,
    ),
)
