"""Samples of sound: rows that do not hear each other, lengths, and what is refused."""

import pytest
import torch
from pydantic import ValidationError
from torch.testing import assert_close

from attentif.errors import AttentifError
from attentif.models import Input
from attentif.models.frontends.waves import WavesConfig
from attentif.nn.seq import Seq

SIZES = {"channels": (4, 6), "kernels": (5, 3), "strides": (3, 2)}
LENGTHS = [40, 11, 27]


@pytest.mark.parametrize("norm", ["group", "layer"])
def test_a_ragged_batch_and_a_packed_one_are_each_sound_alone(norm: str) -> None:
    torch.manual_seed(0)
    config = WavesConfig.model_validate(SIZES | {"conv_norm": norm})
    frontend = config.build(8, 0.0).double().eval()
    waves = [torch.randn(length, dtype=torch.float64) for length in LENGTHS]
    padded = torch.nn.utils.rnn.pad_sequence(waves, batch_first=True, padding_value=9.0)
    both = [frontend(Input(padded, Seq.from_padded(LENGTHS))), frontend(Input(torch.cat(waves), Seq.from_packed(LENGTHS)))]
    for row, wave in enumerate(waves):
        alone, seq = frontend(Input(wave[None], Seq.from_padded([len(wave)])))
        assert int(seq.lengths[0]) == alone.shape[1] == int(config.output_lengths(torch.tensor(len(wave))))
        for x, seq in both:
            assert_close(x[row, : int(seq.lengths[row])], alone[0])


def test_a_sound_shorter_than_one_vector_is_refused() -> None:
    config = WavesConfig.model_validate(SIZES)
    assert config.shortest == 11
    assert config.output_lengths(torch.tensor([10, 11, 16, 17])).tolist() == [0, 1, 1, 2]
    with pytest.raises(AttentifError, match=r"10 samples.*11"):
        config.build(8, 0.0)(Input(torch.zeros(1, 10), Seq.from_padded([10])))


def test_as_many_of_each_are_wanted() -> None:
    with pytest.raises(ValidationError, match="2 channels, 2 kernels and 1 strides"):
        WavesConfig.model_validate(SIZES | {"strides": (3,)})
