"""ESM-2 (Lin et al. 2023): an encoder with norms before each sublayer and rotary positions; made for proteins, and as good for words."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from attentif.errors import ConfigError
from attentif.hub.families.bert import ACTIVATIONS, ATTN, BLOCK, DENSE_HEAD, FFN, LAYER, classifier
from attentif.hub.family import Family, register
from attentif.hub.heads import bare, tag_head
from attentif.hub.keys import Always, Key
from attentif.hub.rows import Row


def spell_out(config: dict[str, Any]) -> dict[str, Any]:
    """What transformers would take by default: positions of ESM-1, and no norm of the embeddings."""
    return {"position_embedding_type": "absolute"} | config | {"emb_layer_norm_before": bool(config.get("emb_layer_norm_before"))}


def refuse_rounded_angles(tensors: Mapping[str, Tensor]) -> None:
    """Angles are worked out here; transformers turns by those of the file, which half precision rounds."""
    for name in (name for name in tensors if name.endswith("inv_freq")):
        angles = tensors[name].double()
        if not torch.allclose(angles, angles[-1] ** torch.linspace(0, 1, len(angles), dtype=torch.float64), rtol=1e-5, atol=0):
            raise ConfigError(f"{name}: holds rounded angles, by which transformers turns; save the model in float32, or leave it out")


register(
    Family(
        kind="esm",
        template={
            "frontend": {"kind": "tokens"},
            "encoder": {
                "placement": "pre",
                "norm": {"kind": "layer"},
                "block": {"attn": {"mixer": {"kind": "attention", "rotary": {}}}, "ffn": {"mixer": {"kind": "feed-forward"}}},
            },
        },
        keys=[
            Key("vocab_size", "frontend.vocab"),
            Key("hidden_size", "width"),
            Key("num_hidden_layers", "layers"),
            Key("num_attention_heads", f"{ATTN}.heads"),
            Key("intermediate_size", f"{FFN}.hidden"),
            Key("hidden_act", f"{FFN}.activation", "gelu", ACTIVATIONS),
            Key("hidden_dropout_prob", "dropout", 0.1),
            Key("attention_probs_dropout_prob", f"{ATTN}.dropout", 0.1),
            Key("layer_norm_eps", "encoder.norm.eps", 1e-12),
            Key("rope_theta", f"{ATTN}.rotary.base", 10000.0),
            Always("position_embedding_type", "rotary"),
            Always("emb_layer_norm_before", False),
            Always("token_dropout", False),
            Always("is_decoder", False),
        ],
        body=[
            Row("embeddings.word_embeddings.weight", "frontend.tokens.weight"),
            Row(f"{LAYER}.attention.LayerNorm.{{p}}", f"{BLOCK}.attn.norm_in.{{p}}"),
            Row(f"{LAYER}.attention.self.query.{{p}}", f"{BLOCK}.attn.mixer.q.{{p}}"),
            Row(f"{LAYER}.attention.self.key.{{p}}", f"{BLOCK}.attn.mixer.k.{{p}}"),
            Row(f"{LAYER}.attention.self.value.{{p}}", f"{BLOCK}.attn.mixer.v.{{p}}"),
            Row(f"{LAYER}.attention.output.dense.{{p}}", f"{BLOCK}.attn.mixer.out.{{p}}"),
            Row(f"{LAYER}.LayerNorm.{{p}}", f"{BLOCK}.ffn.norm_in.{{p}}"),
            Row(f"{LAYER}.intermediate.dense.{{p}}", f"{BLOCK}.ffn.mixer.up.{{p}}"),
            Row(f"{LAYER}.output.dense.{{p}}", f"{BLOCK}.ffn.mixer.out.{{p}}"),
            Row("encoder.emb_layer_norm_after.{p}", "encoder.norm.{p}"),
        ],
        heads=[
            classifier("EsmForSequenceClassification", DENSE_HEAD, keys=[Key("hidden_dropout_prob", "head.dropout", 0.1)]),
            tag_head("EsmForTokenClassification"),
            bare("EsmModel"),
        ],
        prefix="esm.",
        ignored=("rotary_embeddings.inv_freq", "contact_head.regression.weight", "contact_head.regression.bias"),
        harmless=("max_position_embeddings", "mask_token_id", "vocab_list", "esmfold_config", "is_folding_model", "emb_layer_norm_before"),
        older=spell_out,
        check=refuse_rounded_angles,
        left_out={"EsmForMaskedLM": "its head is not read yet"},
    )
)
