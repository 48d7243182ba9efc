"""BERT (Devlin et al. 2019) and those built like it: RoBERTa, CamemBERT (positions from row 2 on), ELECTRA (narrow embeddings)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from attentif.hub.family import Family, HeadOf, register
from attentif.hub.forms import decoder_of
from attentif.hub.heads import CHOICES, DROPOUT, answer_head, bare, classify_head, tag_head
from attentif.hub.keys import Always, Code, Key, words
from attentif.hub.rows import Row

ATTN, FFN = "encoder.block.attn.mixer", "encoder.block.ffn.mixer"
ACTIVATIONS = words(
    gelu="gelu",
    gelu_new="gelu-tanh",
    gelu_pytorch_tanh="gelu-tanh",
    gelu_fast="gelu-tanh",
    relu="relu",
    silu="silu",
    swish="silu",
    quick_gelu="gelu-quick",
)
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
MASKED_HEAD = {"kind": "language", "bias": True, "transform": {"kind": "layer"}}
MASKED_EPS = Key("layer_norm_eps", "head.transform.eps", 1e-12)
LIKE_THE_BLOCKS = Key("hidden_act", "head.activation", "gelu", ACTIVATIONS)  # the head has the blocks' non-linearity


def masked_head(architecture: str, rows: Sequence[Row], keys: Sequence[Key] = ()) -> HeadOf:
    """Files of pre-training hold the pooler too, and whether a text follows, which the masked words have no use for."""
    unused = tuple(f"{name}.{part}" for name in ("pooler.dense", "cls.seq_relationship") for part in ("weight", "bias"))
    return HeadOf(architecture, MASKED_HEAD, rows, [MASKED_EPS, *keys], task="masked", ignored=unused)


def pretraining_head(architecture: str, pooler: str) -> HeadOf:
    """Masked words, and whether the second text follows the first."""
    rows = [*PREDICTIONS, Row(f"{pooler}.{{p}}", "head.pooler.{p}"), Row("cls.seq_relationship.{p}", "head.follows.{p}")]
    return HeadOf(architecture, MASKED_HEAD | {"follows": True}, rows, [MASKED_EPS, LIKE_THE_BLOCKS], task="masked")


def common_heads(name: str) -> list[HeadOf]:
    """What all of them have: tagging, answering, the bare encoder."""
    return [tag_head(f"{name}ForTokenClassification"), answer_head(f"{name}ForQuestionAnswering"), bare(f"{name}Model")]


def refuse_choices(name: str) -> dict[str, str]:
    """The class that all of them have, and that is not read."""
    return {f"{name}ForMultipleChoice": CHOICES}


def classifier(architecture: str, rows: Mapping[str, str], activation: str = "tanh", keys: Sequence[Key] = (DROPOUT,)) -> HeadOf:
    """The first place, a linear map, a non-linearity, the scores."""
    return classify_head(architecture, rows, keys, pool="first", hidden=True, activation=activation)


PREDICTIONS = [
    Row("cls.predictions.transform.dense.{p}", "head.transform.{p}"),
    Row("cls.predictions.transform.LayerNorm.{p}", "head.norm.{p}"),
    Row("cls.predictions.decoder.weight", "head.linear.weight"),
    Row("cls.predictions.bias", "head.bias", untied="cls.predictions.decoder.bias"),
]
BERT_HEADS = [
    masked_head("BertForMaskedLM", PREDICTIONS, [LIKE_THE_BLOCKS]),
    pretraining_head("BertForPreTraining", "bert.pooler.dense"),
    classifier("BertForSequenceClassification", {"bert.pooler.dense": "hidden", "classifier": "out"}),
    classify_head(  # of a pair: the second text follows the first, or does not
        "BertForNextSentencePrediction",
        {"bert.pooler.dense": "hidden", "cls.seq_relationship": "out"},
        (),
        classes=2,
        pool="first",
        hidden=True,
        activation="tanh",
        dropout=0.0,
    ),
    *common_heads("Bert"),
]
IGNORED = ("embeddings.position_ids", "embeddings.token_type_ids")
HARMLESS = (
    "classifier_dropout", "summary_last_dropout", "embedding_size",
    # of the program that BERT was trained with: what its pooler might have been, which it never was
    "directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type",
)  # fmt: skip
DENSE_HEAD = {"classifier.dense": "hidden", "classifier.out_proj": "out"}


ROBERTA_HEAD = [
    Row("lm_head.dense.{p}", "head.transform.{p}"),
    Row("lm_head.layer_norm.{p}", "head.norm.{p}"),
    Row("lm_head.decoder.weight", "head.linear.weight"),
    Row("lm_head.bias", "head.bias", untied="lm_head.decoder.bias"),
]
ROBERTA_PLACES = Key("max_position_embeddings", "frontend.position.max_len", 512, Code(lambda rows: rows - 2, lambda places: places + 2))


def as_writer(family: Family, architecture: str) -> Family:
    """The family with a form that writes, its head that of the masked words."""
    masking = next(head for head in family.heads if head.architecture.endswith("ForMaskedLM"))
    return replace(family, others=[decoder_of(family, [replace(masking, architecture=architecture, task="language")])])


def roberta_like(kind: str, name: str) -> Family:
    """Places are counted from the padding's row on: two rows of their table are for nobody."""
    frontend = TEMPLATE["frontend"] | {"position": {"kind": "learned", "offset": 2}}
    family = Family(
        kind=kind,
        template=TEMPLATE | {"frontend": frontend},
        keys=[*KEYS, ROBERTA_PLACES, Always("pad_token_id", 1)],
        body=ROWS,
        heads=[
            masked_head(f"{name}ForMaskedLM", ROBERTA_HEAD),
            classifier(f"{name}ForSequenceClassification", DENSE_HEAD),
            *common_heads(name),
        ],
        prefix="roberta.",
        ignored=IGNORED,
        harmless=HARMLESS,
        left_out=refuse_choices(name),
    )
    return as_writer(family, f"{name}ForCausalLM")


def without_equal_embedding(config: dict[str, Any]) -> dict[str, Any]:
    """Embeddings as wide as the model need no map: ours has no key for them then."""
    if config.get("embedding_size", 128) == config.get("hidden_size"):
        config["embedding_size"] = None
    return config


def with_embedding(config: dict[str, Any]) -> dict[str, Any]:
    return config | {"embedding_size": config.get("embedding_size") or config["hidden_size"]}


BERT = Family(
    kind="bert",
    template=TEMPLATE,
    keys=[*KEYS, Key("max_position_embeddings", "frontend.position.max_len", 512)],
    body=ROWS,
    heads=BERT_HEADS,
    prefix="bert.",
    ignored=IGNORED,
    harmless=HARMLESS,
    left_out=refuse_choices("Bert"),
)
ELECTRA = Family(
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
            [LIKE_THE_BLOCKS],
            task="replaced",
        ),
        masked_head(
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
    left_out=refuse_choices("Electra"),
    older=without_equal_embedding,
    whole=with_embedding,
)
register(
    as_writer(BERT, "BertLMHeadModel"),
    roberta_like("roberta", "Roberta"),
    roberta_like("camembert", "Camembert"),
    roberta_like("xlm-roberta", "XLMRoberta"),
    as_writer(ELECTRA, "ElectraForCausalLM"),
)
