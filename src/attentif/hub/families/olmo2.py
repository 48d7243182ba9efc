"""OLMo 2 (OLMo et al. 2025): LLaMA with norms after its sublayers, and queries and keys normalised over all heads at once."""

from dataclasses import replace

from attentif.hub.families.llama import ATTN, BIASES, ROWS, family, with_mixers
from attentif.hub.family import register
from attentif.hub.heads import decoder_heads, language
from attentif.hub.keys import Key
from attentif.hub.rows import Row

TEMPLATE = with_mixers({"qk_norm": {"kind": "rms"}, "qk_norm_of": "all"})
TEMPLATE |= {"decoder": TEMPLATE["decoder"] | {"placement": "branch"}}
NORMS = {"post_attention_layernorm": "attn.norm_out", "post_feedforward_layernorm": "ffn.norm_out"}
OWN_ROWS = [
    *(row for row in ROWS if "layernorm" not in row.theirs),
    *(Row(f"layers.{{i}}.{theirs}.weight", f"decoder.blocks.{{i}}.{ours}.weight") for theirs, ours in NORMS.items()),
]
EPS = Key("rms_norm_eps", ("decoder.norm.eps", f"{ATTN}.qk_norm.eps"), 1e-5)
OLMO2 = family("olmo2", "Olmo2", [EPS, *BIASES], TEMPLATE, OWN_ROWS)
register(
    replace(
        OLMO2,
        keys=[key for key in OLMO2.keys if key.theirs != "head_dim"],
        heads=[language("Olmo2ForCausalLM"), *decoder_heads("Olmo2", only=("ForSequenceClassification", "Model"))],
    )
)
