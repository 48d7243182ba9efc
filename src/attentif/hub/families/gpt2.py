"""GPT-2 (Radford et al. 2019): matrices stored (in, out), queries, keys and values in one."""

from attentif.hub.family import Family, register
from attentif.hub.heads import CHOICES, decoder_heads, language
from attentif.hub.keys import Always, Key, words
from attentif.hub.rows import Row, SplitParts, Transposed

ATTN, FFN = "decoder.block.attn", "decoder.block.ffn"
KEYS: list[Key | Always] = [
    Key("vocab_size", "frontend.vocab"),
    Key("n_positions", "frontend.position.max_len"),
    Key("n_embd", "width"),
    Key("n_layer", "layers"),
    Key("n_head", f"{ATTN}.mixer.heads"),
    Key("n_inner", f"{FFN}.mixer.hidden", None),
    Key("activation_function", f"{FFN}.mixer.activation", "gelu_new", words(gelu_new="gelu-tanh", gelu="gelu", relu="relu", silu="silu")),
    Key("resid_pdrop", "dropout", 0.1),
    Key("embd_pdrop", "frontend.dropout", 0.1),
    Key("attn_pdrop", f"{ATTN}.mixer.dropout", 0.1),
    Key("layer_norm_epsilon", "decoder.norm.eps", 1e-5),
    Always("scale_attn_weights", True),
    Always("scale_attn_by_inverse_layer_idx", False),
    Always("reorder_and_upcast_attn", False),
]


QKV = tuple(f"decoder.blocks.{{i}}.attn.mixer.{part}.{{p}}" for part in "qkv")
ROWS = [
    Row("wte.weight", "frontend.tokens.weight"),
    Row("wpe.weight", "frontend.position.table.weight"),
    Row("h.{i}.ln_1.{p}", "decoder.blocks.{i}.attn.norm_in.{p}"),
    Row("h.{i}.attn.c_attn.{p}", QKV, SplitParts(transposed=True)),
    Row("h.{i}.attn.c_proj.{p}", "decoder.blocks.{i}.attn.mixer.out.{p}", Transposed()),
    Row("h.{i}.ln_2.{p}", "decoder.blocks.{i}.ffn.norm_in.{p}"),
    Row("h.{i}.mlp.c_fc.{p}", "decoder.blocks.{i}.ffn.mixer.up.{p}", Transposed()),
    Row("h.{i}.mlp.c_proj.{p}", "decoder.blocks.{i}.ffn.mixer.out.{p}", Transposed()),
    Row("ln_f.{p}", "decoder.norm.{p}"),
]


register(
    Family(
        kind="gpt2",
        template={
            "frontend": {"kind": "tokens", "position": {"kind": "learned"}},
            "decoder": {
                "placement": "pre",
                "norm": {"kind": "layer"},
                "block": {"attn": {"mixer": {"kind": "attention", "causal": True}}, "ffn": {"mixer": {"kind": "feed-forward"}}},
            },
        },
        keys=KEYS,
        body=ROWS,
        prefix="transformer.",
        heads=[
            language("GPT2LMHeadModel"),
            *decoder_heads("GPT2", tags="classifier", answers=None),
        ],
        ignored=(".attn.bias", ".attn.masked_bias"),
        harmless=("n_ctx", "classifier_dropout"),  # as many as n_positions, once
        aliases={
            "hidden_size": "n_embd",
            "max_position_embeddings": "n_positions",
            "num_attention_heads": "n_head",
            "num_hidden_layers": "n_layer",
        },
        left_out={"GPT2DoubleHeadsModel": CHOICES},
    )
)
