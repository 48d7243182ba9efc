"""Variants of every family, drawn from a grid of the keys that change numbers: read as transformers computes them, or refused.

Each variant changes a few keys of a small model at once: sizes, biases, activations, ties, windows, rotary positions; some are stored in
bfloat16, some in shards, some with keys left out that have their default. None is silently different: float32 within 1e-4 of the largest
number, which is what two programs that add in another order may differ by. What is read is written back, and loads as the same numbers.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from hub_cases import CASES, VOCAB, Case
from test_hub import known as known_text
from test_hub import ours, pooled
from transformers.utils import logging

from attentif.decode import GenerateOptions, generate
from attentif.errors import AttentifError
from attentif.hub import FAMILIES, Imported, read_folder, write_folder
from attentif.models import Batch, Input
from attentif.nn.seq import Seq

pytestmark = pytest.mark.parity
logging.disable_progress_bar()
logging.set_verbosity_error()

VARIANTS, LENGTHS = 8, [9, 4]
ACTIVATIONS = ("gelu", "relu", "silu", "gelu_new")
ROPES: list[dict[str, Any]] = [
    {"rope_type": "default", "rope_theta": 500.0},
    {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0},
    {"rope_type": "llama3", "rope_theta": 1000.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    | {"original_max_position_embeddings": 16},
    {"rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0, "original_max_position_embeddings": 16},
]
# other values of keys, whatever the family; a model that cannot have one of them is drawn again
GRID: dict[str, Sequence[Any]] = {
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "dim"), (16, 48)),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "num_layers", "encoder_layers", "n_layers"), (1, 3)),
    **dict.fromkeys(("decoder_layers", "num_decoder_layers"), (1, 3)),
    **dict.fromkeys(("num_attention_heads", "n_head", "num_heads", "encoder_attention_heads", "n_heads"), (2, 8)),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads"), (1, 4)),
    **dict.fromkeys(("head_dim", "d_kv"), (8, 12)),
    **dict.fromkeys(
        ("intermediate_size", "n_inner", "ffn_dim", "d_ff", "hidden_dim", "ffn_hidden_size", "moe_intermediate_size"), (20, 72)
    ),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), (20, 72)),
    **dict.fromkeys(("hidden_act", "activation_function", "activation", "hidden_activation", "classifier_activation"), ACTIVATIONS),
    **dict.fromkeys(("layer_norm_eps", "rms_norm_eps", "layer_norm_epsilon", "norm_eps"), (1e-3, 1e-2)),
    **dict.fromkeys(("sliding_window", "local_attention"), (4, 6)),
    **dict.fromkeys(("embedding_multiplier", "logits_scaling", "residual_multiplier", "attention_multiplier"), (0.5, 2.0)),
    **dict.fromkeys(("attn_logit_softcapping", "final_logit_softcapping"), (1.5, None)),
    "image_size": [8, 16, [8, 12]],
    "patch_size": [2, 4],
    "num_channels": [1, 3],
    "mlp_ratio": [2, 3],
    "num_register_tokens": [0, 2],
    **dict.fromkeys(("layer_scale_init_value", "layerscale_value"), (0.0, 0.7)),
    "max_window_layers": [0, 1],
    "embedding_size": [16, 32],
    "type_vocab_size": [1, 3],
    "rope_parameters": ROPES,
    "relative_attention_num_buckets": [8, 16],
    "relative_attention_max_distance": [6, 40],
    "feed_forward_proj": ["relu", "gated-gelu", "gated-silu"],
    "position_buckets": [4, 8],
    "max_relative_positions": [5, 40],
    "rotary_dim": [4, 8],
    "no_rope_layer_interval": [1, 2],
    "classifier_pooling": ["cls", "mean"],
    "num_experts_per_tok": [1, 3],
    **dict.fromkeys(("state_size", "mamba_d_state"), (4, 8)),
    **dict.fromkeys(("attention_window", "attention_chunk_size", "floor_scale"), (2, 6)),
    "attn_scale": [0.3, 1.0],
    "interleave_moe_layer_step": [1, 2],
    "intermediate_size_mlp": [20, 72],
    "attn_layer_period": [2, 4],
    "expert_layer_period": [2, 3],
    "mamba_dt_rank": [2, "auto"],
    "mamba_expand": [1, 3],
    **dict.fromkeys(("max_encoder_position_embeddings", "max_decoder_position_embeddings"), (30, 50)),
}
NOT_DRAWN = {  # of training, of other classes, of shape alone, or of what is said elsewhere
    "add_cross_attention", "is_decoder", "is_encoder_decoder", "output_attentions", "output_hidden_states", "return_dict", "use_cache",
    "tie_encoder_decoder", "torchscript", "output_router_logits", "chunk_size_feed_forward", "summary_use_proj", "use_return_dict",
}  # fmt: skip


def known(case: Case, model: Any, given: torch.Tensor) -> torch.Tensor:
    return pooled(case, model(given)) if case.kind == "image" else known_text(case, model, given)


def drawn(case: Case, config: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """A few keys of a configuration with other values; of both towers where there are two."""
    if case.kind == "pair":
        tables = {key: value for key, value in case.sizes.items() if key.endswith("_config")}
        tower = replace(case, kind="decoder")
        changed = {key: table | drawn(tower, config[key] | table, chance) for key, table in tables.items()}
        if case.config == "SiglipConfig":  # texts and pictures have vectors of one width
            changed["text_config"]["projection_size"] = changed["vision_config"]["hidden_size"]
        return changed
    keys = [key for key, value in config.items() if key in GRID or (isinstance(value, bool) and key not in NOT_DRAWN)]
    chosen = chance.sample(sorted(keys), min(len(keys), chance.randint(1, 4)))
    return {key: chance.choice(GRID[key]) if key in GRID else not config[key] for key in chosen}


def variant(case: Case, changed: dict[str, Any], folder: Path, number: int) -> Any:
    """transformers' model of a changed case, saved in one of several ways; None where it cannot be."""
    try:
        model = Case(case.architecture, case.config, case.sizes | changed, case.kind, spread=3.0).build(folder, torch.float32)
        assert case.kind == "pair" or known(case, model, given(case, model)[0]).isfinite().all()
    except Exception:
        return None
    if number % 4 == 1 and case.config != "PegasusConfig":  # whose sinusoids would be rounded, too
        model.to(torch.bfloat16).save_pretrained(folder)
        model = type(model).from_pretrained(folder, dtype=torch.float32).eval()  # angles are worked out anew
    elif number % 4 == 2:
        (folder / "model.safetensors").unlink()
        model.save_pretrained(folder, max_shard_size="20KB")
    elif number % 4 == 3:  # as small files are written: what has its default is left out
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        (folder / "config.json").write_text(
            json.dumps(model.config.to_diff_dict() | {"architectures": config["architectures"]}, default=str)
        )
    return model


def texts(length: int) -> torch.Tensor:
    return torch.randint(3, VOCAB, (1, length), generator=torch.Generator().manual_seed(length))


def given(case: Case, model: Any) -> list[torch.Tensor]:
    """Rows of texts, or pictures of the size that the model reads."""
    if case.kind != "image":
        return [texts(length) for length in LENGTHS]
    size, random = model.config.image_size, torch.Generator().manual_seed(1)
    height, width = size if isinstance(size, list | tuple) else (size, size)
    return [torch.randn(count, model.config.num_channels, height, width, generator=random) for count in (1, 3)]


def close(mine: torch.Tensor, theirs: torch.Tensor) -> bool:
    return mine.shape == theirs.shape and bool((mine - theirs).abs().max() <= 1e-4 * theirs.abs().max().clamp(min=1))


def compare(case: Case, theirs: Any, folder: Path) -> bool:
    """Whether what is read is the same model; an assertion where it is not; False where it is refused."""
    try:
        found = read_folder(folder)
    except AttentifError:
        return False
    if case.kind == "pair":
        return compare_pairs(case, theirs, found, folder)
    rows = given(case, theirs)
    if case.kind == "image":
        for pictures in rows:
            mine = found.model(Batch(Input(pictures, Seq.from_padded([1] * len(pictures)))))[0]
            assert close(mine, known(case, theirs, pictures))
        return written_back(case, theirs, found, folder, rows[0])
    together = torch.cat([torch.nn.functional.pad(row, (0, max(LENGTHS) - row.shape[1])) for row in rows])
    if case.kind != "seq2seq":
        ragged = ours(found.model, together, LENGTHS)
        for number, (row, length) in enumerate(zip(rows, LENGTHS, strict=True)):
            expected = known(case, theirs, row)
            own = ragged[number : number + 1]
            assert close(own[:, :length] if expected.shape[1] == length and own.shape[1] == together.shape[1] else own, expected)
    else:
        assert close(ours(found.model, rows[0], LENGTHS[:1]), known(case, theirs, rows[0]))
    if case.writes:
        whole = rows[0]
        written = generate(found.model, [rows[0][0].tolist()], GenerateOptions(max_tokens=20, temperature=0.0))[0].tokens
        for token in written:  # greedy: each is the best after those before it, or as good within a rounding
            scores = theirs(whole).logits[0, -1]
            assert scores[token] >= scores.max() - 1e-4 * scores.abs().max()
            whole = torch.cat([whole, torch.tensor([[token]])], 1)
    return written_back(case, theirs, found, folder, rows[0])


def compare_pairs(case: Case, theirs: Any, found: Imported, folder: Path) -> bool:
    """Both towers: the scores of texts, alone and ragged, beside pictures."""
    end, sizes = theirs.config.text_config.eos_token_id, theirs.config.vision_config
    rows = [torch.cat([texts(length), torch.tensor([[end]])], 1) for length in LENGTHS]
    random = torch.Generator().manual_seed(1)
    pictures = torch.randn(2, sizes.num_channels, sizes.image_size, sizes.image_size, generator=random)
    expected = torch.cat([theirs(input_ids=row, pixel_values=pictures).logits_per_text for row in rows])
    together = torch.cat([torch.nn.functional.pad(row, (0, max(LENGTHS) + 1 - row.shape[1])) for row in rows])
    assert found.model.tower is not None
    seen = found.model.tower(Batch(Input(pictures, Seq.from_padded([1, 1]))))[0]
    head: Any = found.model.head
    assert close(head.scores(ours(found.model, together, [length + 1 for length in LENGTHS]), seen), expected)
    back = folder / "back"
    write_folder(back, found.model, family=found.family.kind, special=found.special)
    again = type(theirs).from_pretrained(back, dtype=torch.float32).eval()
    assert close(torch.cat([again(input_ids=row, pixel_values=pictures).logits_per_text for row in rows]), expected)
    return True


def written_back(case: Case, theirs: Any, found: Imported, folder: Path, row: torch.Tensor) -> bool:
    back = folder / "back"
    write_folder(back, found.model, family=found.family.kind, architecture=case.architecture, labels=found.labels, special=found.special)
    again = getattr(transformers, case.architecture).from_pretrained(back, dtype=torch.float32).eval()
    assert close(known(case, again, row), known(case, theirs, row))
    return True


def case_of(kind: str) -> Case | None:
    family = FAMILIES[kind]
    return next((case for case in CASES.values() if case.architecture == family.heads[0].architecture), None)


KINDS = ("encoder", "decoder", "seq2seq", "image", "pair")  # the others are read from a sound
READ = [kind for kind in FAMILIES if (case := case_of(kind)) is not None and case.single and case.kind in KINDS]


@pytest.mark.parametrize("kind", READ)
@torch.no_grad()
def test_no_variant_is_silently_different(kind: str, tmp_path: Path) -> None:
    case, chance = case_of(kind), random.Random(kind)
    assert case is not None
    config, compared, refused = getattr(transformers, case.config)(**case.sizes).to_dict(), 0, 0
    for number in range(60):
        if compared + refused >= VARIANTS and compared >= VARIANTS // 2:
            break
        changed, folder = drawn(case, config, chance), tmp_path / str(number)
        if (theirs := variant(case, changed, folder, compared + refused)) is None:
            continue
        print(f"{kind} with {changed}")  # shown where it differs
        agreed = compare(case, theirs, folder)
        compared, refused = compared + agreed, refused + (not agreed)
    assert compared >= VARIANTS // 2, (compared, refused)
