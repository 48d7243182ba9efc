"""ESM-2 (Lin et al. 2023) and ESM-1b (Rives et al. 2021): encoders of proteins with norms before each sublayer, and rotary or learned
positions; as good for words. What stands for [MASK] is hidden from them (`token_dropout`)."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from attentif.errors import ConfigError
from attentif.hub.families.bert import ACTIVATIONS, ATTN, BLOCK, DENSE_HEAD, FFN, LAYER, MASKED_EPS, MASKED_HEAD, classifier
from attentif.hub.family import Family, HeadOf, register
from attentif.hub.heads import bare, tag_head
from attentif.hub.keys import Always, Key
from attentif.hub.rows import Row

HEAD = [
    Row("lm_head.dense.{p}", "head.transform.{p}"),
    Row("lm_head.layer_norm.{p}", "head.norm.{p}"),
    Row("lm_head.decoder.weight", "head.linear.weight"),
    Row("lm_head.bias", "head.bias"),
]


def spell_out(config: dict[str, Any]) -> dict[str, Any]:
    """Positions, the norm of the embeddings and what becomes of [MASK], as they are built of several keys."""
    kind, eps = config.get("position_embedding_type", "absolute"), config.get("layer_norm_eps", 1e-12)
    if kind not in ("absolute", "rotary"):
        raise ConfigError(f"position_embedding_type: {kind!r} is not understood (only absolute, rotary)")
    rows, hides = config.get("max_position_embeddings", 1026), config.get("token_dropout", False)
    if kind == "absolute" and config.get("pad_token_id", 1) != 1:
        raise ConfigError(f"pad_token_id: {config['pad_token_id']!r} is not understood (only 1, behind which places are counted)")
    if hides and not isinstance(config.get("mask_token_id"), int):
        raise ConfigError("mask_token_id: is missing, and token_dropout asks for it")
    rotary = {"base": config.get("rope_theta", 10000.0)} if kind == "rotary" else None
    return config | {
        "rotary": rotary,
        "position": None if rotary else {"kind": "learned", "offset": 2, "max_len": rows - 2},
        "first_norm": {"kind": "layer", "eps": eps} if config.get("emb_layer_norm_before") else None,
        "hidden_masks": {"token": config["mask_token_id"]} if hides else None,
    }


def write_out(config: dict[str, Any]) -> dict[str, Any]:
    """The same back."""
    rotary, position, norm, hidden = (config.pop(key) for key in ("rotary", "position", "first_norm", "hidden_masks"))
    said = {"emb_layer_norm_before": norm is not None, "token_dropout": hidden is not None}
    said |= {} if hidden is None else {"mask_token_id": hidden["token"]}
    if position is None:
        return config | said | {"position_embedding_type": "rotary", "rope_theta": (rotary or {}).get("base")}
    return config | said | {"position_embedding_type": "absolute", "max_position_embeddings": position["max_len"] + 2}


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
                "block": {"attn": {"mixer": {"kind": "attention"}}, "ffn": {"mixer": {"kind": "feed-forward"}}},
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
            Key("rotary", f"{ATTN}.rotary"),
            Key("position", "frontend.position"),
            Key("first_norm", "frontend.norm"),
            Key("hidden_masks", "frontend.mask_dropout"),
            Always("is_decoder", False),
        ],
        body=[
            Row("embeddings.word_embeddings.weight", "frontend.tokens.weight"),
            Row("embeddings.position_embeddings.weight", "frontend.position.table.weight"),
            Row("embeddings.layer_norm.{p}", "frontend.norm.{p}"),
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
            HeadOf(
                "EsmForMaskedLM",
                MASKED_HEAD,
                HEAD,
                [MASKED_EPS, Always("is_folding_model", False)],
                task="masked",
                ignored=("pooler.dense.weight", "pooler.dense.bias"),
            ),
            classifier("EsmForSequenceClassification", DENSE_HEAD, keys=[Key("hidden_dropout_prob", "head.dropout", 0.1)]),
            tag_head("EsmForTokenClassification"),
            bare("EsmModel"),
        ],
        prefix="esm.",
        ignored=("rotary_embeddings.inv_freq", "contact_head.regression.weight", "contact_head.regression.bias"),
        harmless=(
            "max_position_embeddings", "mask_token_id", "vocab_list", "esmfold_config", "is_folding_model", "emb_layer_norm_before",
            "position_embedding_type", "token_dropout", "rope_theta", "classifier_dropout",
        ),
        older=spell_out,
        whole=write_out,
        check=refuse_rounded_angles,
    )
)  # fmt: skip
