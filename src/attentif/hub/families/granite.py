"""Granite 3 (IBM 2024): LLaMA with factors on embeddings, scores of attention, branches and logits."""

from dataclasses import replace

from attentif.hub.families.llama import ATTN, BIASES, EPS, FFN, family
from attentif.hub.family import register
from attentif.hub.heads import bare, language
from attentif.hub.keys import Code, Key

INVERSE = Code(lambda divisor: 1.0 / divisor, lambda factor: round(1.0 / factor, 6))
AS_FLOAT = Code(float, float)
GRANITE = family(
    "granite",
    "Granite",
    [
        EPS,
        *BIASES,
        Key("mlp_bias", f"{FFN}.bias", False),
        Key("embedding_multiplier", "frontend.factor", 1.0, AS_FLOAT),
        Key("attention_multiplier", f"{ATTN}.scale", 1.0, AS_FLOAT),
        Key("residual_multiplier", ("decoder.block.attn.weight", "decoder.block.ffn.weight"), 1.0, AS_FLOAT),
    ],
)
register(
    replace(
        GRANITE,
        keys=[key for key in GRANITE.keys if key.theirs != "head_dim"],
        heads=[language("GraniteForCausalLM", keys=[Key("logits_scaling", "head.factor", 1.0, INVERSE)]), bare("GraniteModel", "last")],
        harmless=(*GRANITE.harmless, "logits_scaling"),
    )
)
