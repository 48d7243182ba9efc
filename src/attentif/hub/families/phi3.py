"""Phi-3 and Phi-4 (Abdin et al. 2024): LLaMA with one matrix for queries, keys and values, and one for both halves of the feed-forward."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from attentif.hub.families.gpt_neox import read_partial, write_partial
from attentif.hub.families.llama import ATTENTION, ATTN, EPS, KEYS, WINDOW, family, with_length, with_rope
from attentif.hub.family import register
from attentif.hub.heads import decoder_heads, language
from attentif.hub.keys import Always, Code, Key
from attentif.hub.rows import Row, SplitBySize, SplitParts
from attentif.models import ModelConfig

LAYER, BLOCK = "layers.{i}", "decoder.blocks.{i}"
FUSED = ("q_proj", "k_proj", "v_proj")


def body(config: ModelConfig) -> Iterator[Row]:
    assert config.decoder is not None
    attn = config.decoder.block["attn"].mixer.model_dump()
    width = attn["head_width"] or config.width // attn["heads"]
    groups = (attn["kv_heads"] or attn["heads"]) * width
    yield from (row for row in ATTENTION if not any(name in row.theirs for name in FUSED))
    qkv = tuple(f"{BLOCK}.attn.mixer.{part}.weight" for part in "qkv")
    yield Row(f"{LAYER}.self_attn.qkv_proj.weight", qkv, SplitBySize((attn["heads"] * width, groups, groups)))
    yield Row(f"{LAYER}.mlp.gate_up_proj.weight", (f"{BLOCK}.ffn.mixer.gate.weight", f"{BLOCK}.ffn.mixer.up.weight"), SplitParts(2))
    yield Row(f"{LAYER}.mlp.down_proj.weight", f"{BLOCK}.ffn.mixer.out.weight")


def older(config: dict[str, Any]) -> dict[str, Any]:
    """`su` and `yarn` were other names of longrope; the length that a model was trained on is a key of its own."""
    config = with_rope(config)
    rope = config["rope_parameters"]
    kind = rope.pop("type", None)
    kind = rope.get("rope_type", kind or "default")
    if kind in ("su", "yarn"):
        trained = config.get("original_max_position_embeddings", 4096)
        rope |= {"original_max_position_embeddings": trained}
        rope.setdefault("factor", config.get("max_position_embeddings", 4096) / trained)
    rope["rope_type"] = "longrope" if kind in ("su", "yarn") else kind
    return config


def whole(config: dict[str, Any]) -> dict[str, Any]:
    trained = config["rope_parameters"].get("original_max_position_embeddings")
    return with_length(config) | ({"original_max_position_embeddings": trained} if trained else {})


PARTIAL = Key("rope_parameters", f"{ATTN}.rotary", None, Code(read_partial, write_partial))
DROPS: list[Key | Always] = [Key("resid_pdrop", "dropout", 0.0), Key("embd_pdrop", "frontend.dropout", 0.0)]
PHI3 = family("phi3", "Phi3", [EPS, *WINDOW, *DROPS], rows=body, defaults={"rms_norm_eps": 1e-5, "max_position_embeddings": 4096})
register(
    replace(
        PHI3,
        keys=[PARTIAL if key.theirs == "rope_parameters" else key for key in PHI3.keys if key not in KEYS or key.theirs != "head_dim"],
        heads=[
            language("Phi3ForCausalLM"),
            *decoder_heads("Phi3", only=("ForSequenceClassification", "ForTokenClassification", "Model")),
        ],
        like={"max_position_embeddings": 4096},
        harmless=(*PHI3.harmless, "original_max_position_embeddings"),
        older=older,
        whole=whole,
    )
)
