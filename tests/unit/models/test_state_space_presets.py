"""Presets of state spaces have the sizes that were published."""

import pytest
from transformers import Mamba2Config, Mamba2ForCausalLM, MambaConfig, MambaForCausalLM

from attentif.models import ModelConfig, build, resolve
from attentif.nn.init import on_meta_device


def parameters(config: ModelConfig) -> int:
    with on_meta_device():
        return sum(p.numel() for p in build(config).parameters())


def theirs(family: str) -> int:
    """transformers' count for the configuration that was released with the weights."""
    with on_meta_device():
        if family == "mamba-130m":
            config = MambaConfig(vocab_size=50280, hidden_size=768, num_hidden_layers=24, state_size=16)
            return sum(p.numel() for p in MambaForCausalLM(config).parameters())
        heads = {"num_heads": 24, "head_dim": 64, "n_groups": 1, "state_size": 128}
        config2 = Mamba2Config(vocab_size=50288, hidden_size=768, num_hidden_layers=24, tie_word_embeddings=True, **heads)
        return sum(p.numel() for p in Mamba2ForCausalLM(config2).parameters())


@pytest.mark.parametrize("name", ["mamba-130m", "mamba2-130m"])
def test_as_many_parameters_as_the_released_models(name: str) -> None:
    count = parameters(resolve({"base": name}))
    assert count == theirs(name)
    assert 128_900_000 < count < 129_200_000


def test_the_hybrid_has_seven_mamba_to_one_attention() -> None:
    plan = resolve({"base": "hybrid"}).decoder.plan(16)
    assert [number for number, block in enumerate(plan) if "attn" in block] == [4, 12]  # the fifth of every eight, as in Jamba
    assert all("ssm" in block or "attn" in block for block in plan)
