"""Vision transformers against transformers' own: parameters counted, logits and attention maps with the same weights."""

from pathlib import Path

import pytest
import torch
from torch.testing import assert_close
from transformers import ViTConfig, ViTForImageClassification
from transformers.utils import logging

from attentif.hub import read_folder
from attentif.models import Batch, Input, build, resolve
from attentif.nn.seq import Seq
from attentif.nn.tape import record

pytestmark = pytest.mark.parity
logging.disable_progress_bar()

CLOSE = {"rtol": 1e-5, "atol": 1e-5}  # float32 on both sides, the same sums in another order


@pytest.mark.parametrize(("name", "width", "heads"), [("vit-b16", 768, 12), ("vit-s16", 384, 6)])
def test_a_preset_has_the_parameters_of_transformers(name: str, width: int, heads: int) -> None:
    config = ViTConfig(hidden_size=width, num_attention_heads=heads, intermediate_size=4 * width, num_labels=1000)
    with torch.device("meta"):
        theirs = sum(parameter.numel() for parameter in ViTForImageClassification(config).parameters())
    ours = build(resolve({"base": name}).with_sizes(classes=1000), device="meta")
    assert sum(parameter.numel() for parameter in ours.parameters()) == theirs


def test_logits_and_maps_agree_with_the_same_weights(tmp_path: Path) -> None:
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "image_size": 24}
    theirs = ViTForImageClassification(ViTConfig(**sizes, patch_size=8, num_labels=5, attn_implementation="eager"))
    for parameter in theirs.parameters():  # an initial model is nearly linear, and its biases are zero
        torch.nn.init.normal_(parameter, std=0.3)
    theirs.eval().save_pretrained(tmp_path)
    config = resolve(
        {
            "base": "vit-b16",
            "width": 32,
            "layers": 2,
            "frontend": {"size": 8, "height": 24, "width": 24, "position": {"max_len": 10}},
            "encoder": {"block": {"attn": {"mixer": {"heads": 4}}, "ffn": {"mixer": {"hidden": 48}}}},
            "head": {"classes": 5},
        }
    )
    model = build(config).eval()
    model.load_state_dict(read_folder(tmp_path).model.state_dict())
    pictures = torch.randn(3, 3, 24, 24)
    with torch.no_grad(), record(model) as tape:
        logits, _ = model(Batch(Input(pictures, Seq.from_padded([10] * 3))))
        expected = theirs(pictures, output_attentions=True)
    assert_close(logits, expected.logits, **CLOSE)
    for path, weights in zip(tape, expected.attentions, strict=True):
        assert_close(tape.maps(path), weights, **CLOSE)
