"""config.json says little: what it leaves out is what transformers' class of that family takes, and every key of that class is known."""

import json
from typing import Any

import pytest
import transformers

from attentif.errors import ConfigError
from attentif.hub.family import FAMILIES, Family
from attentif.hub.folder import configuration, fill_derived, unread

pytestmark = pytest.mark.parity
transformers.logging.set_verbosity_error()

# what a default configuration lacks to be a model
NEEDED: dict[str, dict[str, Any]] = {
    "deepseek_v2": {"first_k_dense_replace": 1, "num_experts_per_tok": 6},
    "deberta-v2": {"relative_attention": True},
    "esm": {"position_embedding_type": "rotary", "vocab_size": 33},
    "reformer": {"num_buckets": 64, "is_decoder": True},
}


def config_class(family: Family) -> Any:
    return getattr(transformers, family.heads[0].architecture).config_class


def full(family: Family) -> dict[str, Any]:
    """The default configuration of the class, every key written down."""
    return json.loads(json.dumps(config_class(family)(**NEEDED.get(family.kind, {})).to_dict(), default=str))


def read(family: Family, config: dict[str, Any]) -> Any:
    return fill_derived(configuration(config, family, family.heads[0]).model_dump())


def read_or_ask(family: Family, config: dict[str, Any]) -> Any:
    """None where a key is asked for."""
    try:
        return read(family, config)
    except ConfigError as error:
        if "is missing" in error.message:
            return None
        raise


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_missing_key_has_the_default_of_its_family_or_is_asked_for(kind: str) -> None:
    family, config = FAMILIES[kind], full(FAMILIES[kind])
    expected, left_out = read(family, config), dict(config)
    for key in config.keys() - {"model_type"} - NEEDED.get(kind, {}).keys():
        without = {name: value for name, value in config.items() if name != key}
        if (found := read_or_ask(family, without)) is not None:
            assert found == expected, key
            del left_out[key]
    assert read(family, left_out) == expected  # all at once


@pytest.mark.parametrize("kind", [kind for kind in FAMILIES if "rope_parameters" in full(FAMILIES[kind])])
def test_rotary_keys_without_a_base_have_that_of_the_family(kind: str) -> None:
    family, config = FAMILIES[kind], full(FAMILIES[kind])
    rope = config["rope_parameters"]
    if kind != "gemma3_text":  # nested by kind of block
        config["rope_parameters"] = {key: value for key, value in rope.items() if key != "rope_theta"}
        assert read(family, config) == read(family, full(family))


@pytest.mark.parametrize("kind", FAMILIES)
def test_every_key_and_alias_of_the_class_is_known(kind: str) -> None:
    family = FAMILIES[kind]
    assert unread(full(family), family, family.heads[0]) == []
    assert dict(family.aliases) == config_class(family).attribute_map


def test_keys_that_nobody_reads_are_noted_and_others_refused() -> None:
    family = FAMILIES["llama"]
    # of the published SmolLM2-135M-Instruct, and of programs that save models
    odd = {"is_llama_config": True, "rope_interleaved": False, "transformers.js_config": {"dtype": "q4"}, "unsloth_version": "2025.1"}
    assert unread(full(family) | odd, family, family.heads[0]) == sorted(odd)
    assert read(family, full(family) | odd) == read(family, full(family))
    with pytest.raises(ConfigError, match="quantization_config"):
        read(family, full(family) | {"quantization_config": {"bits": 4}})


def test_heads_by_two_names_that_contradict_each_other_are_refused() -> None:
    family = FAMILIES["gpt2"]
    with pytest.raises(ConfigError, match="contradicts n_head"):
        read(family, full(family) | {"num_attention_heads": 6})
