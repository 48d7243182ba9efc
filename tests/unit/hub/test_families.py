"""What config.json says in older or other words, and what is refused before any weight is looked at."""

import re
from pathlib import Path
from typing import Any

import pytest

from attentif.errors import ConfigError
from attentif.hub.family import FAMILIES, family_of
from attentif.hub.files import modern
from attentif.hub.folder import configuration, describe_model
from attentif.hub.overview import family_table
from attentif.models import ModelConfig

SIZES: dict[str, Any] = {
    "vocab_size": 50,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 8,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
}


def read(kind: str, **config: Any) -> ModelConfig:
    family = family_of(kind, config.get("architectures"))
    return configuration({"model_type": kind} | config, family, family.head_of(config.get("architectures")))


def test_gemma_3_means_the_same_in_words_of_the_first_days_and_of_today() -> None:
    today = {
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 10_000.0},
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1_000_000.0},
        },
        "layer_types": ["sliding_attention"] * 5 + ["full_attention"] + ["sliding_attention"] * 2,
    }
    before = {
        "rope_theta": 1_000_000.0,
        "rope_local_base_freq": 10_000.0,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        "sliding_window_pattern": 6,
    }
    assert read("gemma3_text", **SIZES, **today) == read("gemma3_text", **SIZES, **before)
    blocks = read("gemma3_text", **SIZES, **today).decoder.blocks
    assert [block.repeat for block in blocks] == [5, 1]
    assert [block.sublayers["attn"].mixer.rotary.base for block in blocks] == [10_000.0, 1_000_000.0]
    assert [bool(block.sublayers["attn"].mixer.pattern) for block in blocks] == [True, False]


def test_rotary_positions_mean_the_same_in_words_of_all_days() -> None:
    """`rope_scaling` was there before `rope_theta` could be said; both were before they were one; Pythia had names of its own."""
    said = read("llama", **SIZES, rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 10_000.0})
    assert said == read("llama", **SIZES, rope_scaling={"type": "linear", "factor": 2.0})
    assert said == read("llama", **SIZES, rope_scaling={"type": "linear", "factor": 2.0}, rope_theta=10_000.0)
    assert read("llama", **SIZES) == read("llama", **SIZES, rope_scaling=None)
    sizes = {key: value for key, value in SIZES.items() if key != "num_key_value_heads"}
    half = read("gpt_neox", **sizes, rotary_pct=0.5, rotary_emb_base=500)
    assert half == read("gpt_neox", **sizes, partial_rotary_factor=0.5, rope_theta=500.0)
    assert half.decoder.block["both"].mixer.branches["attn"].mixer.rotary.fraction == 0.5


def test_scores_of_gemma_2_without_a_cap_can_be_said() -> None:
    model = read("gemma2", **SIZES, attn_logit_softcapping=None, final_logit_softcapping=None)
    assert model.head.softcap is None
    family = family_of("gemma2")
    assert describe_model(model, family, family.heads[0])["final_logit_softcapping"] is None
    assert read("gemma2", **SIZES).head.softcap == 30.0


def test_reformers_layers_are_the_shortest_turn_that_gives_them() -> None:
    layers = ["local", "local", "lsh", "local"] * 3
    named = {"is_decoder": True, "architectures": ["ReformerModelWithLMHead"]}
    model = read("reformer", vocab_size=50, hidden_size=256, attn_layers=layers, num_buckets=8, **named)
    assert [(block.repeat, block.sublayers["attn"].mixer.kind) for block in model.decoder.blocks] == [
        (2, "chunked"),
        (1, "reformer"),
        (1, "chunked"),
    ]
    family = family_of("reformer", ["ReformerModelWithLMHead"])
    assert describe_model(model, family, family.heads[0])["attn_layers"] == layers


def test_bigbird_counts_its_first_block_once_for_every_random_one() -> None:
    sizes = {key: value for key, value in SIZES.items() if key != "num_key_value_heads"}
    sparse, full = (read("big_bird", **sizes, attention_type=kind) for kind in ("block_sparse", "original_full"))
    window, first, last, short = sparse.encoder.block["attn"].mixer.pattern
    assert (window.block, first.first, first.weight, last.last, short.up_to) == (64, 1, 4.0, 1, 704)
    assert full.encoder.block["attn"].mixer.pattern == ()


def test_an_encoder_alone_asks_for_nothing_of_the_decoder() -> None:
    sizes = {"vocab_size": 50, "d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 2, "num_decoder_layers": 3, "num_heads": 4}
    model = read("t5", **sizes, architectures=["T5EncoderModel"])
    assert model.decoder is None
    assert model.target is None
    assert model.encoder.layers == 2


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
LATENT = {
    "first_k_dense_replace": 1,
    "qk_nope_head_dim": 4,
    "qk_rope_head_dim": 4,
    "v_head_dim": 4,
    "kv_lora_rank": 4,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 8,
}


def test_yarn_is_as_sharp_as_its_shares_say() -> None:
    rope = YARN | {"mscale": 1.0, "mscale_all_dim": 1.0}
    assert read("llama", **SIZES, rope_parameters=rope).decoder.block["attn"].mixer.rotary.scaling.sharpen == 1.0
    assert read("llama", **SIZES, rope_parameters=YARN).decoder.block["attn"].mixer.rotary.scaling.sharpen is None


@pytest.mark.parametrize(
    ("kind", "config", "message"),
    [
        ("gemma2", {"layer_types": ["full_attention"] * 2 + ["sliding_attention"] * 6}, "layer_types: only so many sliding_attention"),
        ("gemma", {"use_bidirectional_attention": True}, "use_bidirectional_attention: True is not understood"),
        ("qwen2", {"is_causal": False}, "is_causal: False is not understood"),
        ("bloom", {"slow_but_exact": True, "pretraining_tp": 2}, "slow_but_exact: transformers leaves out biases"),
        ("gemma3_text", {"use_bidirectional_attention": True}, "use_bidirectional_attention: True is not understood"),
        ("gemma3_text", {"rope_parameters": {"full": {}}}, "rope_parameters: 'full' is not understood"),
        ("gemma3_text", {"attn_logit_softcapping": 50.0}, "attn_logit_softcapping: 50.0 is not understood"),
        ("llama", {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}}, "max_position_embeddings: is missing"),
        ("llama", {"rope_parameters": {"rope_type": "proportional", "factor": 2.0}}, "rope_type 'proportional' is not understood"),
        ("llama", {"rope_parameters": YARN | {"mscale": 1.0}}, "mscale and mscale_all_dim are understood together"),
        ("llama", {"rope_parameters": YARN | {"truncated": False}}, "truncated is not understood with rope_type 'yarn'"),
        ("qwen2", {"layer_types": ["chunked_attention"] * 2}, "layer_types: 'chunked_attention' is not understood"),
        ("big_bird", {"attention_type": "sparse"}, "attention_type: 'sparse' is not understood"),
        ("big_bird", {"architectures": ["BigBirdForCausalLM"], "is_decoder": True}, "'block_sparse' sees what is still to be written"),
        ("bart", {"architectures": ["BartForCausalLM"]}, "'BartForCausalLM' is not read here: it is the half of an encoder-decoder"),
        (
            "t5",
            {"feed_forward_proj": "gated-gelu", "dense_act_fn": "relu"},
            "dense_act_fn: 'relu' is not understood with feed_forward_proj",
        ),
        ("t5", {"is_gated_act": True}, "is_gated_act: True is not understood with feed_forward_proj 'relu'"),
        ("mamba2", {"state_size": 8, "time_step_limit": [0.01, 0.1]}, r"time_step_limit: \[0.01, 0.1\] is not understood"),
        ("reformer", {"num_chunks_before": 2}, "num_chunks_before: 2 is not understood"),
        ("qwen2", {"use_mrope": True}, "use_mrope: True is not understood"),
        ("deepseek_v3", {"topk_method": "greedy"} | LATENT, "topk_method: 'greedy' is not understood"),
        ("deepseek_v2", {"topk_method": "best"} | LATENT, "topk_method: 'best' is not understood"),
        ("deepseek_v2", {"scoring_func": "sigmoid"} | LATENT, "scoring_func: 'sigmoid' is not understood"),
        ("bert", {"architectures": ["BertLMHeadModel"]}, "is_decoder: False is not understood"),
        ("bert", {"architectures": ["BertForMaskedLm"]}, "did you mean 'BertForMaskedLM'"),
        ("reformer", {}, "num_buckets: null"),
        ("reformer", {"num_buckets": 8, "lsh_attn_chunk_length": 32}, "lsh_attn_chunk_length: transformers fills texts"),
        ("reformer", {"num_buckets": 8, "local_num_chunks_after": 1}, "counts a chunk twice"),
        ("rwkv", {"rescale_every": 2}, "rescale_every: 2"),
        ("deepseek_v2", {"norm_topk_prob": True} | LATENT, "norm_topk_prob: True"),
        ("reformer", {"attn_layers": ["global"]}, "attn_layers: 'global' is not understood"),
        ("wav2vec2-conformer", {"position_embeddings_type": "absolute"}, "position_embeddings_type: 'absolute' is not understood"),
        ("wav2vec2-conformer", {"hidden_act": "mish"}, "hidden_act: 'mish' is not understood"),
        ("wav2vec2-conformer", {"hidden_act": "swish", "pad_token_id": 3, "vocab_size": 9}, "pad_token_id: 3 is not understood"),
    ],
)
def test_what_changes_the_mathematics_and_is_not_understood_is_refused(kind: str, config: dict[str, Any], message: str) -> None:
    config = {"is_decoder": False} | config if kind == "bert" else config
    with pytest.raises(ConfigError, match=message):
        read(kind, **SIZES | config)


def test_norms_of_old_files_have_their_names_of_today() -> None:
    assert modern("bert.embeddings.LayerNorm.gamma") == "bert.embeddings.LayerNorm.weight"
    assert modern("bert.embeddings.LayerNorm.beta") == "bert.embeddings.LayerNorm.bias"
    assert modern("bert.pooler.dense.bias") == "bert.pooler.dense.bias"


def test_a_body_saved_without_its_prefix_is_found() -> None:
    model = read("gpt2", vocab_size=50, n_positions=8, n_embd=16, n_layer=2, n_head=2)
    family = FAMILIES["gpt2"]
    assert family.rows(family.heads[0], model)[0].theirs == "transformer.wte.weight"
    assert family.rows(family.heads[0], model, ["wte.weight", "wpe.weight"])[0].theirs == "wte.weight"


def test_the_page_has_the_table_of_the_code() -> None:
    page = (Path(__file__).parents[3] / "docs" / "checkpoints.md").read_text(encoding="utf-8")
    assert family_table() in page, "run: python docs/checkpoints.py"
    assert "| `llama` | | ✓ | | | ✓ | ✓ | ✓ | | ✓ | `llama` | |" in page


@pytest.mark.parametrize("page", ["README.md", "README.fr.md"])
def test_the_readme_counts_the_families(page: str) -> None:
    text = (Path(__file__).parents[3] / page).read_text(encoding="utf-8")
    found = re.search(r"(\d+) famil", text)
    assert found is not None
    assert int(found[1]) == len(FAMILIES)
