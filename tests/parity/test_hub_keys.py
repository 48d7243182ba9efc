"""A key of config.json that changes what transformers computes changes our model too, or is refused: no key is passed over in silence.

For one class of each family, every key of its configuration is given another value. The weights stay the same: where the logits, or the
shapes of the weights, do not, our reading of the two configurations must differ.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import transformers
from hub_cases import CASES, VOCAB, Case
from pydantic import ValidationError

from attentif.errors import ConfigError
from attentif.hub.family import FAMILIES, Family
from attentif.hub.folder import configuration

pytestmark = pytest.mark.parity
transformers.logging.set_verbosity_error()

ACTS = ["gelu", "relu", "silu", "gelu_new"]
WORDS = {
    **dict.fromkeys(("activation", "activation_function", "hidden_act", "hidden_activation", "feat_extract_activation"), ACTS),
    "dense_act_fn": ["relu", "silu"],
    "feed_forward_proj": ["relu", "gated-gelu", "gated-silu"],
    "feat_extract_norm": ["group", "layer"],
    "position_embeddings_type": ["relative", "rotary"],
    "attention_type": ["original_full", "block_sparse"],
    "topk_method": ["greedy", "group_limited_greedy"],
}
SAID_ELSEWHERE = {"id2label", "label2id", "num_labels", "dtype", "architectures", "task_specific_params"}
PASSED_OVER = {
    ("clip", "eos_token_id"),  # compared with the tokenizer's (`task_values.py`)
    ("clip_text_model", "eos_token_id"),
    ("dinov2", "use_mask_token"),  # of training
    ("beit", "use_mask_token"),
    ("mamba", "intermediate_size"),  # follows from `expand`; weights of another shape are named when they are read
    ("pegasus", "max_position_embeddings"),  # the same
    ("falcon", "output_attentions"),  # which makes their attention see what follows, where no mask is given
    ("marian", "max_position_embeddings"),  # rows of a table of sinusoids, of which there are as many here as are asked for
    ("wav2vec2-conformer", "num_conv_pos_embeddings"),  # of a convolution that nobody reads, and so are its groups
    ("wav2vec2-conformer", "num_conv_pos_embedding_groups"),
    ("t5", "is_encoder_decoder"),  # of a class that can be nothing else
    ("mt5", "is_encoder_decoder"),
    ("rwkv", "rescale_every"),  # halves are taken back by the next norm, but for what it adds to the variance
}


def others(value: Any, key: str) -> list[Any]:
    """Values that it is not."""
    if isinstance(value, bool) or value is None:
        return [not value]
    if isinstance(value, str):
        return [word for word in WORDS.get(key, []) if word != value]
    if isinstance(value, list | tuple) and all(isinstance(item, int | float) for item in value):
        return [[item + 1 for item in value]]
    return [value + 1, 2 * value + 3] if isinstance(value, int) else [0.5 * value + 0.11] if isinstance(value, float) else []


def built(case: Case, **changed: Any) -> tuple[Any, Any]:
    config = getattr(transformers, case.config)(**special(case) | case.sizes | changed)
    torch.manual_seed(0)
    return config, getattr(transformers, case.architecture)(config).eval()


def special(case: Case) -> dict[str, int]:
    return {} if case.kind in ("image", "pair") else {"vocab_size": VOCAB, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def given(case: Case) -> dict[str, torch.Tensor]:
    torch.manual_seed(5)
    ids = torch.randint(3, VOCAB, (1, 23))
    return {
        "image": {"pixel_values": torch.randn(1, 3, 12, 12)},
        "waves": {"input_values": torch.randn(1, 200)},
        "frames": {"input_features": torch.rand(1, 20, 100), "decoder_input_ids": ids},
        "seq2seq": {"input_ids": ids, "decoder_input_ids": ids},
        "pair": {"input_ids": torch.cat([ids, torch.tensor([[VOCAB]])], 1), "pixel_values": torch.randn(1, 3, 12, 12)},
    }.get(case.kind, {"input_ids": ids})


def ours(family: Family, config: Any) -> Any:
    """None where it is refused."""
    try:
        return configuration(json.loads(json.dumps(config.to_dict(), default=str)), family, family.heads[0])
    except (ConfigError, ValidationError):
        return None


@pytest.mark.parametrize("kind", FAMILIES)
@torch.no_grad()
def test_no_key_that_changes_numbers_is_passed_over(kind: str) -> None:
    family = FAMILIES[kind]
    case = next(case for case in CASES.values() if case.architecture == family.heads[0].architecture)
    config, model = built(case)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.normal_(0, 0.3)
    weights, read = model.state_dict(), given(case)
    expected, mine = answer(model(**read)), ours(family, config)
    assert mine is not None
    silent, compared = set(), 0
    for key, value, change in entries(case, config.to_dict()):
        for other in others(value, key) if key not in SAID_ELSEWHERE else []:
            try:
                changed, variant = built(case, **change(other))
                same = shapes(variant.state_dict()) == shapes(weights)
                if same:
                    variant.load_state_dict(weights)
                    same = torch.allclose(answer(variant(**read)), expected, atol=1e-5)
            except Exception:  # a value that their model cannot have
                continue
            compared += 1
            if not same and ours(family, changed) == mine:
                silent.add((kind, key))
    assert compared > 15
    assert silent <= PASSED_OVER


def entries(case: Case, config: dict[str, Any]) -> Iterator[tuple[str, Any, Callable[[Any], dict[str, Any]]]]:
    """Every key with its value, and what builds the same configuration with another; those of tables in it, too."""
    for key, value in config.items():
        yield key, value, lambda other, key=key: {key: other}
        if key.endswith("_config") and isinstance(value, dict):
            said = case.sizes[key]
            yield from (
                (inner, own, lambda other, key=key, inner=inner, said=said: {key: said | {inner: other}}) for inner, own in value.items()
            )


def answer(found: Any) -> torch.Tensor:
    """Logits, scores of pairs, or vectors."""
    keys = ("logits", "logits_per_text", "text_embeds", "image_embeds", "pooler_output", "last_hidden_state")
    return next(found[key] for key in keys if key in found)


def shapes(weights: dict[str, torch.Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in weights.items()}
