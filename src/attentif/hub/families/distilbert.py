"""DistilBERT (Sanh et al. 2019): half of BERT's blocks, no segments, no pooler."""

from typing import Any

from attentif.hub.families.bert import ACTIVATIONS, MASKED_HEAD, TEMPLATE, classifier, common_heads, refuse_choices
from attentif.hub.family import Family, HeadOf, register
from attentif.hub.keys import Always, Key
from attentif.hub.rows import Row

ATTN, FFN = "encoder.block.attn.mixer", "encoder.block.ffn.mixer"
LAYER, BLOCK = "transformer.layer.{i}", "encoder.blocks.{i}"
NORM = {"kind": "layer", "eps": 1e-12}  # not a key of config.json
DISTILLED: dict[str, Any] = TEMPLATE | {
    "frontend": TEMPLATE["frontend"] | {"norm": NORM},
    "encoder": TEMPLATE["encoder"] | {"norm": NORM},
}

register(
    Family(
        kind="distilbert",
        template=DISTILLED,
        keys=[
            Key("vocab_size", "frontend.vocab"),
            Key("max_position_embeddings", "frontend.position.max_len", 512),
            Key("dim", "width"),
            Key("n_layers", "layers"),
            Key("n_heads", f"{ATTN}.heads"),
            Key("hidden_dim", f"{FFN}.hidden"),
            Key("activation", f"{FFN}.activation", "gelu", ACTIVATIONS),
            Key("dropout", "dropout", 0.1),
            Key("attention_dropout", f"{ATTN}.dropout", 0.1),
            Always("sinusoidal_pos_embds", False),  # the table is saved either way, but trained in one of them only
        ],
        body=[
            Row("embeddings.word_embeddings.weight", "frontend.tokens.weight"),
            Row("embeddings.position_embeddings.weight", "frontend.position.table.weight"),
            Row("embeddings.LayerNorm.{p}", "frontend.norm.{p}"),
            Row(f"{LAYER}.attention.q_lin.{{p}}", f"{BLOCK}.attn.mixer.q.{{p}}"),
            Row(f"{LAYER}.attention.k_lin.{{p}}", f"{BLOCK}.attn.mixer.k.{{p}}"),
            Row(f"{LAYER}.attention.v_lin.{{p}}", f"{BLOCK}.attn.mixer.v.{{p}}"),
            Row(f"{LAYER}.attention.out_lin.{{p}}", f"{BLOCK}.attn.mixer.out.{{p}}"),
            Row(f"{LAYER}.sa_layer_norm.{{p}}", f"{BLOCK}.attn.norm_out.{{p}}"),
            Row(f"{LAYER}.ffn.lin1.{{p}}", f"{BLOCK}.ffn.mixer.up.{{p}}"),
            Row(f"{LAYER}.ffn.lin2.{{p}}", f"{BLOCK}.ffn.mixer.out.{{p}}"),
            Row(f"{LAYER}.output_layer_norm.{{p}}", f"{BLOCK}.ffn.norm_out.{{p}}"),
        ],
        heads=[
            HeadOf(
                "DistilBertForMaskedLM",
                MASKED_HEAD | {"transform": NORM},
                [
                    Row("vocab_transform.{p}", "head.transform.{p}"),
                    Row("vocab_layer_norm.{p}", "head.norm.{p}"),
                    Row("vocab_projector.weight", "head.linear.weight"),
                    Row("vocab_projector.bias", "head.bias"),
                ],
                [Key("activation", "head.activation", "gelu", ACTIVATIONS)],
                task="masked",
            ),
            classifier(
                "DistilBertForSequenceClassification",
                {"pre_classifier": "hidden", "classifier": "out"},
                "relu",
                [Key("seq_classif_dropout", "head.dropout", 0.2)],
            ),
            *common_heads("DistilBert"),
        ],
        prefix="distilbert.",
        ignored=("embeddings.position_ids",),
        harmless=("qa_dropout", "seq_classif_dropout", "tie_weights_", "classifier_dropout"),
        aliases={"hidden_size": "dim", "num_attention_heads": "n_heads", "num_hidden_layers": "n_layers"},
        left_out=refuse_choices("DistilBert"),
    )
)
