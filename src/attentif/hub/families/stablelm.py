"""StableLM (Stability AI 2023): LLaMA with LayerNorm, a part of each head turned, and biases in queries, keys and values if asked for."""

from attentif.hub.families.gpt_neox import read_partial, write_partial
from attentif.hub.families.llama import ATTN, KEYS, ROWS, TEMPLATE, with_length, with_rope
from attentif.hub.family import Family, register
from attentif.hub.heads import decoder_heads, language
from attentif.hub.keys import Always, Code, Key
from attentif.hub.rows import Row

OWN = ("rope_parameters", "head_dim")


def with_quarter(config: dict[str, object]) -> dict[str, object]:
    """A quarter of each head is turned where nothing is said; `rope_pct` is an older name."""
    config = with_rope(config)
    rope = config["rope_parameters"]
    assert isinstance(rope, dict)
    rope.setdefault("partial_rotary_factor", config.pop("rope_pct", 0.25))
    return config


register(
    Family(
        kind="stablelm",
        template=TEMPLATE | {"decoder": TEMPLATE["decoder"] | {"norm": {"kind": "layer"}}},
        keys=[
            *(key for key in KEYS if key.theirs not in OWN),
            Key("intermediate_size", "decoder.block.ffn.mixer.hidden"),
            Key("rope_parameters", f"{ATTN}.rotary", None, Code(read_partial, write_partial)),
            Key("layer_norm_eps", "decoder.norm.eps", 1e-5),
            Key("use_qkv_bias", f"{ATTN}.bias", False),
            Key("hidden_dropout", "decoder.block.ffn.dropout", 0.0),
            Always("qk_layernorm", False),
            Always("use_parallel_residual", False),
        ],
        body=[
            *(
                Row(row.theirs.replace(".weight", ".{p}"), str(row.ours).replace(".weight", ".{p}")) if "norm" in row.theirs else row
                for row in ROWS
            ),
        ],
        heads=[
            language("StableLmForCausalLM"),
            *decoder_heads("StableLm", only=("ForSequenceClassification", "ForTokenClassification", "Model")),
        ],
        prefix="model.",
        ignored=("rotary_emb.inv_freq",),
        tied=False,
        like={"max_position_embeddings": 4096},
        harmless=("classifier_dropout",),
        defaults={"num_key_value_heads": 32},
        older=with_quarter,
        whole=with_length,
    )
)
