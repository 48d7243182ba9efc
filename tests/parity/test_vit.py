"""Vision transformers against transformers' own: parameters counted, logits and attention maps with the same weights."""

from pathlib import Path

import pytest
import torch
from tables import Table, saved
from torch.testing import assert_close
from transformers import ViTConfig, ViTForImageClassification
from transformers.utils import logging

from attentif.models import Batch, Input, build, resolve
from attentif.nn.seq import Seq
from attentif.nn.tape import record

pytestmark = pytest.mark.parity
logging.disable_progress_bar()

CLOSE = {"rtol": 1e-5, "atol": 1e-5}  # float32 on both sides, the same sums in another order
VIT: Table = {
    "vit.embeddings.cls_token": "frontend.class_token",
    "vit.embeddings.position_embeddings": "frontend.position.table.weight",
    "vit.embeddings.patch_embeddings.projection.{p}": "frontend.patch.{p}",
    "vit.encoder.layer.{i}.layernorm_before.{p}": "encoder.blocks.{i}.attn.norm_in.{p}",
    "vit.encoder.layer.{i}.attention.attention.query.{p}": "encoder.blocks.{i}.attn.mixer.q.{p}",
    "vit.encoder.layer.{i}.attention.attention.key.{p}": "encoder.blocks.{i}.attn.mixer.k.{p}",
    "vit.encoder.layer.{i}.attention.attention.value.{p}": "encoder.blocks.{i}.attn.mixer.v.{p}",
    "vit.encoder.layer.{i}.attention.output.dense.{p}": "encoder.blocks.{i}.attn.mixer.out.{p}",
    "vit.encoder.layer.{i}.layernorm_after.{p}": "encoder.blocks.{i}.ffn.norm_in.{p}",
    "vit.encoder.layer.{i}.intermediate.dense.{p}": "encoder.blocks.{i}.ffn.mixer.up.{p}",
    "vit.encoder.layer.{i}.output.dense.{p}": "encoder.blocks.{i}.ffn.mixer.out.{p}",
    "vit.layernorm.{p}": "encoder.norm.{p}",
    "classifier.{p}": "head.out.{p}",
}


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
    tensors = saved(tmp_path, VIT, layers=2)
    model.load_state_dict({name: tensor.reshape(model.state_dict()[name].shape) for name, tensor in tensors.items()})
    pictures = torch.randn(3, 3, 24, 24)
    with torch.no_grad(), record(model) as tape:
        logits, _ = model(Batch(Input(pictures, Seq.padded([10] * 3))))
        expected = theirs(pictures, output_attentions=True)
    assert_close(logits, expected.logits, **CLOSE)
    for path, weights in zip(tape, expected.attentions, strict=True):
        assert_close(tape.maps(path), weights, **CLOSE)
