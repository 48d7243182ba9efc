"""The configurations that people have: config.json of published checkpoints, old and new, each with the odd keys of its day.

`hub_published.json` holds them, written down by hand (a value may differ from today's file: what counts is that such keys are read):
without long lists of labels, and without the `auto_map` and the quantisation of DeepSeek's, which are refused. Ours must have as many
numbers to learn as transformers' model of the same file.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from attentif.hub.family import FAMILIES, family_of
from attentif.hub.folder import configuration, head_named
from attentif.models import build

pytestmark = pytest.mark.parity

PUBLISHED: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("hub_published.json").read_text(encoding="utf-8"))
# of theirs, by names that hold these: what nobody reads, what is for training alone
UNREAD = {
    "reformer": ("lm_head.bias",),
    "wav2vec2-conformer": ("pos_conv_embed.", "masked_spec_embed"),
    "marian": ("embed_positions.",),  # sinusoids
}
# of ours: a buffer there, or shared there until a file is read
OURS = {"bart": "head.bias", "marian": "head.bias", "t5": "head.linear.weight"}


def test_every_family_has_a_published_configuration_here() -> None:
    assert {config["model_type"] for config in PUBLISHED.values()} == {*FAMILIES}


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_configuration_is_read_as_transformers_reads_it(name: str) -> None:
    config = PUBLISHED[name]
    family = family_of(config["model_type"], config.get("architectures"))
    head = head_named(family, config)
    ours = build(configuration(config, family, head), device="meta")
    kind = getattr(transformers, head.architecture)
    with torch.device("meta"):
        theirs = kind(kind.config_class.from_dict(dict(config)))
    unread, alone = UNREAD.get(family.kind, ()), OURS.get(family.kind)
    expected = sum(tensor.numel() for name, tensor in theirs.named_parameters() if not any(part in name for part in unread))
    assert sum(tensor.numel() for name, tensor in ours.named_parameters() if name != alone) == expected
