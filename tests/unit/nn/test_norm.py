"""Batch norm as a norm of the stack: over valid tokens alone, padded as packed, running means in evaluation."""

from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import nn
from torch.testing import assert_close

from attentif.models import Batch, Input, build, resolve
from attentif.models.frontends import TokensConfig
from attentif.nn.auxiliary import collect_auxiliary
from attentif.nn.norm import BatchNorm
from attentif.nn.seq import Seq, pack
from attentif.nn.stack import Stack, StackConfig

LENGTHS, WIDTH = (5, 2, 7), 8
BLOCK = {"attn": {"mixer": {"kind": "attention", "heads": 2}}, "ffn": {"mixer": {"kind": "feed-forward"}}}


def stack(**values: Any) -> Stack:
    torch.manual_seed(0)
    config = StackConfig.model_validate({"norm": {"kind": "batch"}, "block": BLOCK} | values)
    return Stack(config, width=WIDTH, layers=2, dropout=0.0).double()


def rows(padding: float) -> tuple[torch.Tensor, Seq]:
    generator = torch.Generator().manual_seed(1)
    drawn = [torch.randn(length, WIDTH, dtype=torch.float64, generator=generator) for length in LENGTHS]
    return nn.utils.rnn.pad_sequence(drawn, batch_first=True, padding_value=padding), Seq.from_padded(LENGTHS)


@pytest.mark.parametrize("placement", ["pre", "post", "sandwich"])
@pytest.mark.parametrize("training", [True, False])
def test_padding_changes_nothing_and_packed_equals_padded(placement: str, training: bool) -> None:
    module = stack(placement=placement).train(training)
    (x, seq), (other, _) = rows(0.0), rows(1e3)
    y = module(x, seq)[seq.valid]
    assert_close(module(other, seq)[seq.valid], y)
    assert_close(module(*pack(x, seq)), y)


def test_a_token_depends_on_the_rest_of_the_batch_in_training_only() -> None:
    module, (x, seq) = stack(), rows(0.0)
    alone = Seq.from_padded(LENGTHS[:1])
    assert not torch.allclose(module(x, seq)[0, :5], module(x[:1, :5], alone)[0])
    module.eval()
    assert_close(module(x, seq)[0, :5], module(x[:1, :5], alone)[0])


def test_the_final_norm_is_torchs_batch_norm_and_its_running_means_move_by_learn() -> None:
    module, (x, seq) = stack(block={"ffn": {"mixer": {"kind": "feed-forward"}, "weight": 0.0}}), rows(7.0)
    theirs = nn.BatchNorm1d(WIDTH).double()
    with collect_auxiliary() as auxiliary:
        y = module(x, seq)
    assert_close(y[seq.valid], theirs(x[seq.valid]))
    assert isinstance(module.norm, BatchNorm)
    for norm, counts in auxiliary.counts.items():
        norm.learn(counts.tolist())
    assert_close(module.norm.mean, theirs.running_mean)
    assert_close(module.norm.var, theirs.running_var)


def test_any_preset_takes_it_and_gradients_reach_every_weight() -> None:
    stacks = {"decoder": {"norm": {"kind": "batch"}}}
    config = resolve({"base": "decoder-tiny", "width": 16, "layers": 1, **stacks}).with_sizes(vocab=11)
    model = build(config).train()
    logits, _ = model(Batch(Input(torch.tensor([[1, 2, 3]]), Seq.from_padded([3]))))
    logits.square().sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_where_no_padding_is_known_it_is_refused() -> None:
    with pytest.raises(ValidationError, match="batch"):
        TokensConfig.model_validate({"kind": "tokens", "norm": {"kind": "batch"}})
