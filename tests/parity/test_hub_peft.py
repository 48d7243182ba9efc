"""Adapters of PEFT: read onto their base they give what transformers gives with W + s B A in the place of W; written, they are read back.

PEFT itself is not at hand: its equation (Hu et al. 2021, eq. 3) is applied to transformers' own weights.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hub_cases import CASES, VOCAB
from safetensors.torch import load_file, save_file
from torch.testing import assert_close

from attentif.errors import AttentifError
from attentif.hub import read_folder
from attentif.hub.peft.write import write_adapter
from attentif.hub.source import folder_of
from attentif.models import Batch, Input, Model
from attentif.nn.adapt import AdaptConfig, adapt
from attentif.nn.seq import Seq

pytestmark = pytest.mark.parity

SAID = {"peft_type": "LORA", "r": 3, "lora_alpha": 6, "base_model_name_or_path": "base", "bias": "none", "task_type": "CAUSAL_LM"}


def logits(model: Model) -> torch.Tensor:
    ids = torch.arange(3, 14)[None] % VOCAB
    return model(Batch(Input(ids, Seq.from_padded([11]))))[0]


def make_adapter(folder: Path, maps: dict[str, torch.Tensor], **said: Any) -> dict[str, torch.Tensor]:
    """An adapter of these maps (path: weight), and what it adds to each."""
    folder.mkdir()
    torch.manual_seed(1)
    tensors, changes, turned = {}, {}, any("transformer.h." in path for path in maps)  # GPT-2's, whatever fan_in_fan_out says
    for path, weight in maps.items():
        out, inp = weight.shape[::-1] if turned else weight.shape
        a, b = torch.randn(3, inp), torch.randn(out, 3)
        tensors |= {f"base_model.model.{path}.lora_A.weight": a, f"base_model.model.{path}.lora_B.weight": b}
        alpha = next((value for key, value in said.get("alpha_pattern", {}).items() if path.endswith(key)), (SAID | said)["lora_alpha"])
        strength = alpha / (3**0.5 if said.get("use_rslora") else 3)
        changes[path] = strength * (b @ a).T if turned else strength * b @ a
    save_file(tensors, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps(SAID | said))
    return changes


@pytest.mark.parametrize(
    ("name", "paths", "said"),
    [
        ("llama", ["model.layers.0.self_attn.q_proj", "model.layers.1.mlp.down_proj"], {}),
        ("llama", ["model.layers.1.self_attn.v_proj"], {"use_rslora": True, "lora_alpha": 2}),
        ("gpt2", ["transformer.h.0.attn.c_attn", "transformer.h.1.mlp.c_proj"], {"fan_in_fan_out": True}),
        ("gpt2", ["transformer.h.0.attn.c_proj"], {"fan_in_fan_out": False}),
        ("llama", ["model.layers.0.self_attn.q_proj"], {"fan_in_fan_out": True}),
        ("llama", ["model.layers.0.self_attn.q_proj"], {"alpha_pattern": {"layers.0.self_attn.q_proj": 21}}),
        ("llama", ["model.layers.0.self_attn.q_proj"], {"alpha_pattern": {"k_proj": 21}}),
        ("phi3", ["model.layers.0.self_attn.qkv_proj", "model.layers.1.mlp.gate_up_proj"], {}),
    ],
)
@torch.no_grad()
def test_an_adapter_is_read_onto_its_base(name: str, paths: list[str], said: dict[str, Any], tmp_path: Path) -> None:
    theirs = CASES[name].build(tmp_path / "base", torch.float32)
    changes = make_adapter(tmp_path / "adapter", {path: theirs.get_submodule(path).weight for path in paths}, **said)
    plain = logits(read_folder(tmp_path / "base").model)
    for path, change in changes.items():
        theirs.get_submodule(path).weight += change
    mine = logits(read_folder(folder_of(tmp_path / "adapter")).model)
    expected = theirs(torch.arange(3, 14)[None] % VOCAB).logits
    assert_close(mine, expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))
    assert not torch.allclose(mine, plain)


@pytest.mark.parametrize(
    ("base", "case", "task", "adapted"),
    [
        ("roberta ForMaskedLM", "roberta ForSequenceClassification", "SEQ_CLS", "roberta.encoder.layer.0.attention.self.query"),
        ("bert ForMaskedLM", "bert ForTokenClassification", "TOKEN_CLS", "bert.encoder.layer.1.attention.self.value"),
        ("llama", "Llama SequenceClassification", "SEQ_CLS", "model.layers.0.self_attn.q_proj"),
    ],
)
@torch.no_grad()
def test_an_adapter_may_bring_a_head_that_its_base_does_not_have(base: str, case: str, task: str, adapted: str, tmp_path: Path) -> None:
    plain = CASES[base].build(tmp_path / "base", torch.float32)
    theirs = CASES[case].build(tmp_path / "whole", torch.float32)
    body = f"{theirs.base_model_prefix}."
    theirs.load_state_dict({name: tensor for name, tensor in plain.state_dict().items() if name.startswith(body)}, strict=False)
    changes = make_adapter(tmp_path / "adapter", {adapted: theirs.get_submodule(adapted).weight}, task_type=task)
    head = {f"base_model.model.{name}": tensor for name, tensor in theirs.state_dict().items() if not name.startswith(body)}
    file = tmp_path / "adapter" / "adapter_model.safetensors"
    save_file(load_file(file) | head, file)
    theirs.get_submodule(adapted).weight += changes[adapted]
    found = read_folder(folder_of(tmp_path / "adapter"))
    assert found.head.architecture == CASES[case].architecture
    assert found.labels == ["LABEL_0", "LABEL_1", "LABEL_2"]
    ids = torch.arange(3, 14)[None] % VOCAB
    mine = found.model(Batch(Input(ids, Seq.from_padded([11]))))[0]
    assert_close(mine, theirs(ids).logits, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_an_adapter_for_another_task_without_its_head_is_refused(tmp_path: Path) -> None:
    theirs = CASES["llama"].build(tmp_path / "base", torch.float32)
    path = "model.layers.0.self_attn.q_proj"
    make_adapter(tmp_path / "adapter", {path: theirs.get_submodule(path).weight}, task_type="SEQ_CLS")
    with pytest.raises(AttentifError, match="holds no head"):
        folder_of(tmp_path / "adapter")


@torch.no_grad()
def test_an_adapted_model_is_written_and_read_back(tmp_path: Path) -> None:
    CASES["llama"].build(tmp_path / "base", torch.float32)
    found = read_folder(tmp_path / "base")
    adapt(found.model, AdaptConfig(rank=2, targets=("q", "ffn.up"), also=("decoder.norm",)))
    for parameter in found.model.parameters():
        if parameter.requires_grad:
            parameter.normal_(std=0.3)
    write_adapter(tmp_path / "adapter", found.model, family=found.family, head=found.head, base="base")
    said = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert said["modules_to_save"] == ["model.norm"]
    assert len(said["target_modules"]) == 4
    again = read_folder(folder_of(tmp_path / "adapter")).model
    expected = logits(found.model)
    assert_close(logits(again), expected, rtol=1e-4, atol=1e-4 * float(expected.abs().max()))


@torch.no_grad()
def test_maps_that_a_family_has_in_one_are_not_written_apart(tmp_path: Path) -> None:
    CASES["gpt2"].build(tmp_path / "base", torch.float32)
    found = read_folder(tmp_path / "base")
    adapt(found.model, AdaptConfig(rank=2, targets=("q",), also=()))
    with pytest.raises(AttentifError, match="map of its own"):
        write_adapter(tmp_path / "adapter", found.model, family=found.family, head=found.head, base="base")
    assert not (tmp_path / "adapter").exists()


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ({"use_dora": True}, "use_dora"),
        ({"peft_type": "IA3"}, "peft_type"),
        ({"init_lora_weights": "pissa"}, "init_lora_weights"),
        ({"base_model_name_or_path": None}, "base_model_name_or_path"),
    ],
)
def test_what_an_adapter_asks_for_and_is_not_understood_is_refused(said: dict[str, Any], word: str, tmp_path: Path) -> None:
    theirs = CASES["llama"].build(tmp_path / "base", torch.float32)
    make_adapter(tmp_path / "adapter", {"model.norm2": theirs.lm_head.weight}, **said)
    with pytest.raises(AttentifError, match=word):
        folder_of(tmp_path / "adapter")


def test_an_adapter_of_a_map_that_the_base_lacks_is_refused(tmp_path: Path) -> None:
    theirs = CASES["llama"].build(tmp_path / "base", torch.float32)
    make_adapter(tmp_path / "adapter", {"model.layers.7.mlp.up_proj": theirs.lm_head.weight})
    with pytest.raises(AttentifError, match="does not have"):
        read_folder(folder_of(tmp_path / "adapter"))
