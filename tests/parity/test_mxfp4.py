"""gpt-oss as it is published, its experts in MXFP4: the numbers are those that transformers unpacks, and so are the logits."""

import json
from pathlib import Path

import pytest
import torch
from hub_cases import CASES, SINKS, Case
from safetensors.torch import load_file, save_file
from test_hub import CLOSE, ours, tokens
from torch.testing import assert_close
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

from attentif.errors import ConfigError
from attentif.hub import read_folder
from attentif.hub.mxfp4 import decode_mxfp4

pytestmark = pytest.mark.parity
QUANTISED = {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router"]}


def packed(experts: int, rows: int, columns: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Bytes and exponents of matrices (experts, rows, columns)."""
    blocks = torch.randint(0, 256, (experts, rows, columns // 32, 16), dtype=torch.uint8)
    return blocks, torch.randint(120, 127, blocks.shape[:3], dtype=torch.uint8)


def test_four_bits_and_an_exponent_are_the_number_that_transformers_unpacks() -> None:
    torch.manual_seed(0)
    blocks, scales = packed(2, 6, 64)
    assert torch.equal(decode_mxfp4(blocks, scales), convert_moe_packed_tensors(blocks, scales, dtype=torch.bfloat16))


@torch.no_grad()
def test_a_folder_with_packed_experts_is_read_as_the_unpacked_one(tmp_path: Path) -> None:
    case = CASES["gpt_oss"]
    theirs = Case(case.architecture, case.config, SINKS | {"intermediate_size": 32}).build(tmp_path, torch.float32)
    tensors, weights = load_file(tmp_path / "model.safetensors"), theirs.state_dict()
    for name in [name for name in tensors if name.endswith(("gate_up_proj", "down_proj"))]:
        experts, columns, rows = tensors.pop(name).shape
        blocks, scales = packed(experts, rows, columns)
        tensors |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
        weights[name].copy_(convert_moe_packed_tensors(blocks, scales, dtype=torch.bfloat16))
    save_file(tensors, tmp_path / "model.safetensors", {"format": "pt"})
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    (tmp_path / "config.json").write_text(json.dumps(config | {"quantization_config": QUANTISED}), encoding="utf-8")
    ids = tokens()[1:2]
    assert_close(ours(read_folder(tmp_path).model, ids, [ids.shape[1]]), theirs(ids).logits, **CLOSE[torch.float32])
    (tmp_path / "config.json").write_text(json.dumps(config | {"quantization_config": {"quant_method": "fp8"}}), encoding="utf-8")
    with pytest.raises(ConfigError, match="quantization_config"):
        read_folder(tmp_path)
