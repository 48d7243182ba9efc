"""The frontend of sounds: what is beside a sound in a batch never reaches it, and lengths are what it says."""

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.testing import assert_close

from attentif.errors import ConfigError
from attentif.models import Input
from attentif.models.frontends.frames import Frames, FramesConfig, group_norm, normalise_features
from attentif.nn.seq import Seq

LENGTHS = (37, 8, 1, 64, 23)
KINDS = {
    "conformer": FramesConfig(mels=18, subsample="conformer", channels=5),
    "conformer-positions": FramesConfig.model_validate(
        {"mels": 18, "channels": 5, "position": {"kind": "learned", "max_len": 20}, "norm": {"kind": "layer"}}
    ),
    "stages": FramesConfig(mels=18, subsample="stages", stages=(4, 8, 12), normalise="mean"),
    "whisper": FramesConfig(mels=18, subsample="whisper", normalise="whisper"),
    "patches": FramesConfig(mels=18, subsample="patches", patch=(6, 8), stride=(4, 5)),
    "none": FramesConfig(mels=18, subsample="none", normalise="mean"),
}


def sounds() -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [3 * torch.randn(length, 18, dtype=torch.float64) - 5 for length in LENGTHS]


def built(name: str) -> Frames:
    torch.manual_seed(1)
    return KINDS[name].build(12, 0.0).double().eval()


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("fill", [0.0, 1e4, -1e4])
def test_a_sound_in_a_batch_is_what_it_is_alone(name: str, fill: float) -> None:
    frontend, rows = built(name), sounds()
    x, seq = frontend(Input(pad_sequence(rows, batch_first=True, padding_value=fill), Seq.from_padded(LENGTHS, max(LENGTHS))))
    wide = pad_sequence([*rows, torch.zeros(90, 18, dtype=torch.float64)], batch_first=True, padding_value=fill)[:-1]
    y, _ = frontend(Input(wide, Seq.from_padded(LENGTHS, 90)))
    for number, row in enumerate(rows):
        alone, own = frontend(Input(row[None], Seq.from_padded([len(row)])))
        assert own.dense
        assert alone.shape[1] == int(seq.lengths[number])
        for batch in (x, y):
            assert_close(batch[number, : alone.shape[1]], alone[0], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", KINDS)
def test_packed_sounds_are_the_padded_ones(name: str) -> None:
    frontend, rows = built(name), sounds()
    x, seq = frontend(Input(pad_sequence(rows, batch_first=True), Seq.from_padded(LENGTHS)))
    y, other = frontend(Input(torch.cat(rows), Seq.from_packed(LENGTHS)))
    assert torch.equal(seq.lengths, other.lengths)
    assert_close(x[seq.valid], y[other.valid])


@pytest.mark.parametrize("name", KINDS)
def test_no_gradient_reaches_the_padding(name: str) -> None:
    frontend = built(name)
    x = pad_sequence(sounds(), batch_first=True).requires_grad_()
    y, seq = frontend(Input(x, Seq.from_padded(LENGTHS)))
    (gradient,) = torch.autograd.grad(y[seq.valid].square().sum(), x)
    inside = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
    assert torch.count_nonzero(gradient[~inside]) == 0
    assert torch.count_nonzero(gradient[inside]) > 0


@pytest.mark.parametrize("name", KINDS)
def test_a_frontend_can_be_built_on_paper(name: str) -> None:
    with torch.device("meta"):
        assert next(KINDS[name].build(12, 0.0).parameters()).is_meta


def test_lengths_are_those_of_the_convolutions() -> None:
    frames = torch.tensor([1, 2, 3, 4, 5, 8, 9, 100])
    assert KINDS["conformer"].output_lengths(frames).tolist() == [1, 1, 1, 1, 2, 2, 3, 25]
    assert KINDS["stages"].output_lengths(frames).tolist() == [1, 1, 1, 1, 1, 1, 2, 13]
    assert KINDS["whisper"].output_lengths(frames).tolist() == [1, 1, 2, 2, 3, 4, 5, 50]
    assert KINDS["none"].output_lengths(frames).tolist() == frames.tolist()
    assert KINDS["patches"].output_lengths(torch.tensor([3, 6, 7, 10, 11])).tolist() == [3, 3, 6, 6, 9]  # three patches above one another


def test_the_longest_sound_is_what_its_positions_reach() -> None:
    config = KINDS["conformer-positions"]
    assert config.limit == 80
    assert int(config.output_lengths(torch.tensor(config.limit))) == 20
    learned = {"position": {"kind": "learned", "max_len": 30}}
    for subsample, most in (("stages", 240), ("whisper", 60), ("none", 30), ("patches", 42)):
        own = FramesConfig.model_validate({"mels": 18, "subsample": subsample, "patch": [6, 8], "stride": [4, 5], **learned})
        assert own.limit == most
        assert int(own.output_lengths(torch.tensor(most))) <= 30 < int(own.output_lengths(torch.tensor(most + 1)))
    assert KINDS["conformer"].limit is None


def test_the_norm_of_a_stage_is_torchs_of_each_sound_alone() -> None:
    torch.manual_seed(2)
    x, lengths = torch.randn(3, 8, 9, 5, dtype=torch.float64), torch.tensor([9, 4, 1])
    norm = torch.nn.GroupNorm(4, 8).double()
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    found = group_norm(x, lengths, norm)
    for row, length in enumerate(lengths.tolist()):
        assert_close(found[row, :, :length], norm(x[row : row + 1, :, :length])[0])


def test_each_sound_is_normalised_by_its_own_valid_frames() -> None:
    x = pad_sequence(sounds(), batch_first=True, padding_value=7.0)
    seq = Seq.from_padded(LENGTHS)
    y = normalise_features(x, seq, "mean-variance")
    own = y[0, :37]
    assert_close(own.mean(0), torch.zeros(18, dtype=torch.float64), atol=1e-12, rtol=0)
    assert_close(own.std(0, correction=0), torch.ones(18, dtype=torch.float64), atol=1e-4, rtol=0)
    assert torch.count_nonzero(y[0, 37:]) == 0
    assert_close(normalise_features(x, seq, "mean")[0, :37], x[0, :37] - x[0, :37].mean(0))


def test_what_cannot_be_read_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"bands.*frame"):
        FramesConfig().build(8, 0.0)
    with pytest.raises(ConfigError, match=r"6 channels.*4"):
        FramesConfig(mels=18, subsample="stages", stages=(4, 6)).build(8, 0.0)
    with pytest.raises(ConfigError, match=r"16 bands.*10"):
        FramesConfig(mels=10, subsample="patches").build(8, 0.0)
    with pytest.raises(ValueError, match=r"frames.*3.*18"):
        built("none")(Input(torch.zeros(1, 4, 3, dtype=torch.float64), Seq.from_padded([4])))


@pytest.mark.parametrize(("own", "models", "used"), [(None, 0.3, 0.3), (0.0, 0.3, 0.0), (0.4, 0.3, 0.4)])
def test_stages_drop_what_the_frontend_says_and_by_default_what_the_model_says(own: float | None, models: float, used: float) -> None:
    made = FramesConfig(mels=18, subsample="stages", stages=(4, 8), dropout=own).build(8, models)
    assert (made.dropout, made.subsample.dropout) == (used, used)
