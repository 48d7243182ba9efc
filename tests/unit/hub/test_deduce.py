"""The family that can say a model is found by trying; what none can say is one line."""

import pytest

from attentif.errors import ConfigError
from attentif.hub.deduce import deduce_family
from attentif.models import ModelConfig, resolve


def preset(base: str, **changes: object) -> ModelConfig:
    return resolve({"base": base, "frontend": {"vocab": 50}, **changes})


@pytest.mark.parametrize(
    ("base", "family", "architecture"),
    [
        ("gpt2", "gpt2", "GPT2LMHeadModel"),
        ("bert-base", "bert", "BertForMaskedLM"),
        ("roberta-base", "roberta", "RobertaForMaskedLM"),  # CamemBERT is built alike
        ("mixtral-8x7b", "mixtral", "MixtralForCausalLM"),
        ("mamba-130m", "mamba", "MambaForCausalLM"),
    ],
)
def test_a_preset_of_ours_is_said_by_its_family(base: str, family: str, architecture: str) -> None:
    found, head = deduce_family(preset(base))
    assert (found.kind, head.architecture) == (family, architecture)


def test_the_likely_family_comes_first() -> None:
    assert deduce_family(preset("roberta-base"), likely="camembert")[0].kind == "camembert"
    assert deduce_family(preset("roberta-base"), family="roberta")[0].kind == "roberta"


def test_what_no_family_can_say_names_the_nearest() -> None:
    odd = preset("gpt2", decoder={"placement": "sandwich"})
    with pytest.raises(ConfigError, match=r"architecture"):
        deduce_family(odd)
    with pytest.raises(ConfigError, match=r"^gpt2 cannot represent decoder\.placement = 'sandwich'"):
        deduce_family(odd, family="gpt2")


def test_special_tokens_that_change_the_places_are_refused() -> None:
    """RoBERTa counts its places from the id of [PAD] on."""
    with pytest.raises(ConfigError, match="roberta cannot represent pad_token_id = 0"):
        deduce_family(preset("roberta-base"), family="roberta", special={"pad_token_id": 0})
