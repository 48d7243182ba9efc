"""The configurations that people have: config.json of published checkpoints, old and new, each with the odd keys of its day.

`hub_published.json` holds them, written down by hand (a value may differ from today's file: what counts is that such keys are read):
without long lists of labels, and without the `auto_map` and the quantisation of DeepSeek's. `hub_found.json` holds those of files that lie
in public repositories, with where each was `found` (long lists cut short) and, where it is `refused`, by which word. Ours must have as
many numbers to learn as transformers' model of the same file. `hub_sizes.json` holds others of the same makers, by what they differ in from
one of those (sizes, classes, what is said of writing): they are understood, every key, or refused by the word that stands there.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from attentif.errors import ConfigError
from attentif.hub.family import FAMILIES, family_of
from attentif.hub.files import text_of
from attentif.hub.folder import configuration, family_in, head_named, unread
from attentif.models import build, resolve

pytestmark = pytest.mark.parity

read_facts = lambda name: json.loads(Path(__file__).with_name(name).read_text(encoding="utf-8"))
FACTS: dict[str, dict[str, Any]] = read_facts("hub_published.json") | read_facts("hub_found.json")
SIZES: dict[str, dict[str, Any]] = read_facts("hub_sizes.json")


def published(name: str) -> dict[str, Any]:
    """config.json of a checkpoint; `like` names another, from which it differs in what stands beside it."""
    facts = {key: value for key, value in (FACTS.get(name) or SIZES[name]).items() if key not in ("found", "refused")}
    return {**published(facts.pop("like")), **facts} if "like" in facts else facts


REFUSED = {name: facts["refused"] for name, facts in (FACTS | SIZES).items() if "refused" in facts}
PUBLISHED = {name: text_of(published(name)) for name in FACTS if name not in REFUSED}
# of theirs, by names that hold these: what nobody reads, what is for training alone
UNREAD = {
    "reformer": ("lm_head.bias",),
    "esm": ("contact_head.",),  # of contacts between residues
    "wav2vec2-conformer": ("pos_conv_embed.", "masked_spec_embed"),
    **dict.fromkeys(("wav2vec2", "hubert"), ("masked_spec_embed",)),  # of training
    "marian": ("embed_positions.",),  # sinusoids
    **dict.fromkeys(("dinov2", "dinov2_with_registers"), ("mask_token",)),
    "pegasus": ("embed_positions.",),
}
# of ours: a buffer there, or shared there until a file is read
OURS = {
    "bart": "head.bias",
    "led": "head.bias",
    "marian": "head.bias",
    "mbart": "head.bias",
    "pegasus": "head.bias",
    "t5": "head.linear.weight",
}


def test_every_family_has_a_published_configuration_here() -> None:
    alone = {"siglip_text_model"}  # SigLIP's texts are published beside its pictures
    understood = {text_of(published(name))["model_type"] for name in [*PUBLISHED, *SIZES]}
    assert understood | alone == {*FAMILIES}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_configuration_is_read_as_transformers_reads_it(name: str) -> None:
    config = PUBLISHED[name]
    family = family_in(config)
    head = head_named(family, config)
    ours = build(configuration(config, family, head), device="meta")
    kind = getattr(transformers, head.architecture)
    with torch.device("meta"):
        theirs = kind(kind.config_class.from_dict(dict(config)))
    bare = ("pooler.",) if head.head["kind"] == "embed" else ()
    unread, alone = (*UNREAD.get(family.kind, ()), *bare), OURS.get(family.kind)
    expected = sum(tensor.numel() for name, tensor in theirs.named_parameters() if not any(part in name for part in unread))
    shared = re.compile(r"\.blocks\.[1-9]") if family.kind == "albert" else re.compile("^$")  # one block there, as many as are used here
    found = sum(tensor.numel() for name, tensor in ours.named_parameters() if name != alone and not shared.search(name))
    assert found == expected


# families of which fewer than ten are written down: no more were published, or none whose configuration was certain
FEW = {
    "beit", "big_bird", "clip_text_model", "clip_vision_model", "deepseek_v2", "deepseek_v3", "deit", "dinov2", "dinov2_with_registers",
    "falcon", "gemma3_text", "gpt_oss", "gptj", "jamba", "led", "llama4_text", "longformer", "mamba", "mamba2", "mpnet", "phi3",
    "qwen2_moe", "reformer", "siglip_text_model", "siglip_vision_model", "smollm3", "wav2vec2-conformer",
}  # fmt: skip


def test_ten_published_configurations_of_each_family_are_known() -> None:
    counts = Counter(published(name)["model_type"] for name in [*FACTS, *SIZES] if "model_type" in published(name))
    counts["gemma3_text"] += counts.pop("gemma3")
    counts["llama4_text"] = counts.pop("llama4")
    assert {kind: counts[kind] for kind in FAMILIES if counts[kind] < 10 and kind not in FEW} == {}


@pytest.mark.parametrize("name", [name for name, facts in SIZES.items() if "refused" not in facts])
def test_every_key_of_another_published_configuration_is_understood(name: str) -> None:
    config = text_of(published(name))
    family = family_in(config)
    head = head_named(family, config)
    assert configuration(config, family, head).width > 0
    assert unread(config, family, head) == unread(text_of(published(SIZES[name].get("like", name))), family, head)


@pytest.mark.parametrize("name", REFUSED)
def test_a_published_configuration_that_is_not_read_is_refused_by_a_key(name: str) -> None:
    config = published(name)
    with pytest.raises(ConfigError, match=REFUSED[name]):
        configuration(config, family := family_in(config), head_named(family, config))


@pytest.mark.parametrize(
    "name", ["Llama-2-7b", "Llama-3.2-1B", "Mistral-7B", "Mixtral-8x7B", "Qwen2.5-0.5B", "Qwen3-0.6B", "DeepSeek-V2-Lite", "DeepSeek-V3"]
)
def test_a_preset_is_the_published_configuration(name: str) -> None:
    published = next(config for key, config in PUBLISHED.items() if key.startswith(name))
    family = family_of(published["model_type"], published.get("architectures"))
    theirs = configuration(published, family, head_named(family, published))
    ours = resolve({"base": name.lower()})
    shapes = [{key: tensor.shape for key, tensor in build(config, device="meta").state_dict().items()} for config in (ours, theirs)]
    assert shapes[0] == shapes[1]
    said, read = dict(leaves(ours.replace(base=None).model_dump())), dict(leaves(theirs.model_dump()))
    both = {key for key in said.keys() & read.keys() if said[key] is not None and read[key] is not None}  # None: a default, said there
    assert {key: said[key] for key in both} == {key: read[key] for key in both}
    assert {key.rpartition(".")[2] for key in said.keys() ^ read.keys()} <= {"dropout"}


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a configuration with its path."""
    if not isinstance(value, dict | list | tuple):
        yield path, value
        return
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield from leaves(item, f"{path}.{key}")
