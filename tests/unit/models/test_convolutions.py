"""Convolutional networks for pictures: the numbers of LeNet-5 and ResNet, each picture by itself, and what cannot be read."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from transformers import ResNetConfig
from transformers.models.resnet.modeling_resnet import ResNetStage

from attentif.errors import ConfigError
from attentif.models import Batch, Input, Model
from attentif.models import build as build_model
from attentif.models.config import resolve
from attentif.models.frontends.convolutions import Stage, StageConfig
from attentif.nn.norm import BatchNormConfig
from attentif.nn.seq import Seq
from attentif.nn.tape import record


def build(base: str, side: int, channels: int, **frontend: Any) -> Model:
    torch.manual_seed(0)
    values = {"base": base, "frontend": {"channels": channels, "height": side, "width": side, **frontend}, "head": {"classes": 10}}
    return Model(resolve(values)).eval()


def classify(model: Model, pixels: torch.Tensor) -> torch.Tensor:
    tokens = model.config.frontend.tokens_per_picture  # type: ignore[attr-defined]
    return model(Batch(Input(pixels, Seq.from_padded([tokens] * len(pixels)))))[0]


def test_lenet_is_the_network_of_1998() -> None:
    model, pixels = build("lenet-5", 28, 1), torch.randn(3, 1, 28, 28)
    assert sum(parameter.numel() for parameter in model.parameters()) == 61_706
    plain = nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 16, 5), nn.Tanh(), nn.AvgPool2d(2)),
        *(nn.Conv2d(16, 120, 5), nn.Tanh(), nn.Flatten(), nn.Linear(120, 84), nn.Tanh(), nn.Linear(84, 10)),
    )
    for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        theirs.data.copy_(ours.data)
    assert_close(classify(model, pixels), plain(pixels), rtol=1e-5, atol=1e-6)  # float32, the same products


@pytest.mark.parametrize("stride", [1, 2])
def test_residual_stages_are_those_of_transformers(stride: int) -> None:
    torch.manual_seed(0)
    before, channels = (16, 16) if stride == 1 else (16, 32)
    ours = Stage(StageConfig(channels=channels, residual=True, repeat=2, stride=stride, norm=BatchNormConfig()), before).eval()
    theirs = ResNetStage(ResNetConfig(layer_type="basic"), before, channels, stride=stride, depth=2).eval()
    for pair, layer in zip(ours.layers, theirs.layers, strict=True):
        sides = [(pair.first, layer.layer[0]), (pair.second, layer.layer[1]), (pair.shortcut, layer.shortcut)]
        for mine, other in sides:
            if isinstance(mine, nn.Identity):
                continue
            other.convolution.weight.data.copy_(mine.conv.weight.data)
            for name, value in (("mean", "running_mean"), ("var", "running_var")):
                getattr(mine.norm, name).uniform_(0.5, 1.5)
                getattr(other.normalization, value).copy_(getattr(mine.norm, name))
    x = torch.randn(2, before, 8, 8)
    assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-5)  # float32, four layers


def test_resnet_20_has_the_weights_of_the_paper_and_a_map_of_8_by_8() -> None:
    model = build("resnet-20", 32, 3)
    assert sum(parameter.numel() for parameter in model.parameters()) == 272_474
    assert model.config.frontend.grid == (8, 8)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("base", "side", "channels"), [("lenet-5", 28, 1), ("resnet-tiny", 8, 3)])
def test_a_picture_is_read_by_itself(base: str, side: int, channels: int) -> None:
    model, pixels = build(base, side, channels), torch.randn(4, channels, side, side)
    assert_close(classify(model, pixels)[:1], classify(model, pixels[:1]), rtol=1e-5, atol=1e-6)


def test_pictures_of_which_nothing_is_left_are_refused() -> None:
    with pytest.raises(ConfigError, match="nothing is left"):
        build("lenet-5", 12, 1)


def test_residual_pairs_keep_the_size() -> None:
    with pytest.raises(ConfigError, match="residual"):
        build("resnet-tiny", 8, 1, stages=[{"channels": 4, "residual": True, "padding": 0}])


def test_a_decoder_attends_to_the_places_of_the_map() -> None:
    """Xu et al. 2015: one annotation vector a place, weights over them at each word."""
    frontend = {"channels": 1, "height": 24, "width": 24}
    model = build_model(resolve({"base": "show-attend-tell-tiny", "frontend": frontend, "target": {"vocab": 20}})).eval()
    batch = Batch(Input(torch.randn(1, 1, 24, 24), Seq.from_padded([36])), Input(torch.randint(20, (1, 5)), Seq.from_padded([5])))
    with record(model) as tape:
        model(batch)
        (path,) = tape
        weights = tape.maps(path)
    assert weights.shape[-2:] == (5, 36)
    assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
