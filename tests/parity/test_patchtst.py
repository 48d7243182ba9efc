"""PatchTST of transformers against ours: patches, channels apart, instance normalisation, post-norm blocks, the flattened head.

float32 on both sides, added in another order: 1e-5 of values near 1.
"""

import pytest
import torch
from torch.testing import assert_close
from transformers import PatchTSTConfig, PatchTSTForPrediction

from attentif.models import Input, build, resolve
from attentif.nn.seq import Seq
from attentif.tasks.series.rollout import predict_direct

pytestmark = pytest.mark.parity

WIDTH, HEADS, HIDDEN, LAYERS = 16, 4, 32, 2
STEPS, HORIZON, CHANNELS = 50, 7, 3
ROWS = {
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "out": "self_attn.out_proj",
}


@pytest.mark.parametrize(("patch", "stride"), [(8, 4), (12, 12), (16, 7)])
@pytest.mark.parametrize("scaling", ["std", None])
def test_forecasts_are_those_of_transformers(patch: int, stride: int, scaling: str | None) -> None:
    torch.manual_seed(0)
    theirs = PatchTSTForPrediction(
        PatchTSTConfig(
            num_input_channels=CHANNELS, context_length=STEPS, prediction_length=HORIZON, patch_length=patch, patch_stride=stride,
            d_model=WIDTH, num_attention_heads=HEADS, ffn_dim=HIDDEN, num_hidden_layers=LAYERS, norm_type="layernorm", pre_norm=False,
            scaling=scaling, loss="mse", share_embedding=True, share_projection=True, positional_encoding_type="random",
            use_cls_token=False, pooling_type=None,
        )
    ).eval()  # fmt: skip
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    config = resolve(
        {
            "base": "patchtst-tiny",
            "width": WIDTH,
            "layers": LAYERS,
            "frontend": {"patch": patch, "stride": stride, "normalise": "window" if scaling else "none"},
            "encoder": {"block": {"attn": {"mixer": {"heads": HEADS}}, "ffn": {"mixer": {"hidden": HIDDEN}}}},
        }
    )
    count = config.frontend.tokens(STEPS)  # type: ignore[attr-defined]
    sizes = {"horizon": HORIZON, "channels": 1, "places": count, "quantiles": 1}
    ours = build(config.with_sizes(frontend={"channels": CHANNELS}, head=sizes)).eval()
    copied(theirs, ours)
    values = 3 + 2 * torch.randn(4, STEPS, CHANNELS)
    with torch.no_grad():
        expected = theirs(past_values=values).prediction_outputs
        found = predict_direct(ours, Input(values, Seq.from_padded([STEPS] * 4)))[..., 0]
    assert_close(found, expected, rtol=1e-5, atol=2e-5)


def copied(theirs: PatchTSTForPrediction, ours: torch.nn.Module) -> None:
    """Every weight of theirs, by the name it has here."""
    old, new = theirs.state_dict(), ours.state_dict()
    rows = {"frontend.patch": "model.encoder.embedder.input_embedding", "head.out": "head.projection"}
    for layer in range(LAYERS):
        here, there = f"encoder.blocks.{layer}", f"model.encoder.layers.{layer}"
        rows |= {f"{here}.attn.mixer.{name}": f"{there}.{name_there}" for name, name_there in ROWS.items()}
        rows |= {f"{here}.attn.norm_out": f"{there}.norm_sublayer1", f"{here}.ffn.norm_out": f"{there}.norm_sublayer3"}
        rows |= {f"{here}.ffn.mixer.{name}": f"{there}.ff.{place}" for name, place in (("up", 0), ("out", 3))}
    tensors = {f"{here}.{kind}": old[f"{there}.{kind}"] for here, there in rows.items() for kind in ("weight", "bias")}
    positions = "model.encoder.positional_encoder.position_enc"
    table = new["frontend.position.table.weight"].clone()
    table[: len(old[positions])] = old[positions]
    tensors["frontend.position.table.weight"] = table
    assert set(tensors) == set(new), set(new) ^ set(tensors)
    ours.load_state_dict(tensors)
