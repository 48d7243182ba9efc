"""Sounds changed in training: faster, higher, noisier, in part hidden, their ends moved."""

from typing import Any

import torch
from torch.testing import assert_close

from attentif.nn.seq import Seq
from attentif.tasks.speech.augment import SoundAugment, SoundAugmentConfig, WaveAugment, change_speed, mask, recut


def frames(*lengths: int) -> tuple[torch.Tensor, Seq]:
    torch.manual_seed(3)
    return torch.randn(len(lengths), max(lengths), 20), Seq.from_padded(lengths)


def test_a_faster_sound_is_shorter_and_the_same_at_its_own_rate() -> None:
    x, seq = frames(30, 17)
    same, again = change_speed(x, seq, torch.ones(2))
    assert_close(same[again.valid], x[seq.valid])
    ramp = torch.arange(30.0)[None, :, None].expand(2, 30, 20)
    y, shorter = change_speed(ramp, seq, torch.tensor([2.0, 0.5]))
    assert shorter.lengths.tolist() == [15, 34]
    assert_close(y[0, :15, 0], torch.arange(0.0, 30.0, 2.0))
    assert_close(y[1, :33, 0], torch.arange(0.0, 16.5, 0.5))
    assert float(y[1, 33, 0]) == 16  # never past its own end


def augment(**values: Any) -> SoundAugment:
    nothing = {"speed": 0.0, "pitch": 0.0, "noise": 0.0, "time_masks": 0, "band_masks": 0}
    return SoundAugment(SoundAugmentConfig.model_validate(nothing | values), 20, 0.0, 4000.0, "htk")


def test_nothing_asked_for_changes_nothing() -> None:
    x, seq = frames(30, 17)
    y, same = augment()(x, seq)
    assert torch.equal(x, y)
    assert same.lengths.tolist() == [30, 17]


def test_a_higher_voice_moves_its_bands_up() -> None:
    x = torch.zeros(2, 5, 20)
    x[:, :, 8] = 1.0
    y = augment(pitch=0.3).stretch_pitch(x, torch.tensor([1.0, 1.25]))
    assert_close(y[0], x[0])
    assert int(y[1, 0].argmax()) > 8


def test_noise_adds_power_as_far_below_as_asked() -> None:
    x, seq = torch.zeros(400, 40, 20), Seq.from_padded([40] * 400)
    torch.manual_seed(0)
    louder = augment(noise=1.0, noise_db=(10.0, 10.0)).add_noise(x, seq).exp().mean() - 1
    assert 0.1 < float(louder) < 0.25  # a tenth, times the mean of e^tilt
    torch.manual_seed(0)
    share = (augment(noise=0.5, noise_db=(0.0, 0.0)).add_noise(x, seq) != x).flatten(1).any(1).float().mean()
    assert 0.4 < float(share) < 0.6


def test_masks_hide_runs_and_put_the_mean_there() -> None:
    x, seq = frames(30, 17)
    config = SoundAugmentConfig(time_masks=1, time_width=0.4, band_masks=0)
    torch.manual_seed(1)
    y = mask(x, seq, config)
    changed = (y != x).any(2)
    for row, length in enumerate((30, 17)):
        at = changed[row].nonzero().flatten()
        assert 0 < len(at) <= 0.4 * length + 1
        assert torch.equal(at, torch.arange(int(at[0]), int(at[-1]) + 1))
        assert int(at[-1]) < length
        assert_close(y[row, int(at[0])], x[row, :length].mean(0))


def test_samples_are_changed_and_stay_silent_behind_their_end() -> None:
    torch.manual_seed(0)
    x, seq = torch.randn(3, 400), Seq.from_padded([400, 300, 200])
    x = x.masked_fill(~seq.valid, 0)
    nothing = WaveAugment(SoundAugmentConfig(speed=0, noise=0, time_masks=0))
    assert torch.equal(nothing(x, seq)[0], x)
    changed, lengths = WaveAugment(SoundAugmentConfig(noise=1.0))(x, seq)
    assert changed.shape[1] == lengths.max_len
    assert changed[~lengths.valid].abs().sum() == 0


def test_moved_ends_keep_the_length_and_repeat_what_stands_at_the_edge() -> None:
    x = torch.arange(9.0, dtype=torch.float64)[None, :, None].repeat(3, 1, 2)
    seq = Seq.from_padded([9, 9, 5], 9)
    found = recut(x, seq, torch.tensor([0.0, -0.25, 0.5]), torch.tensor([0.0, 0.25, 0.0]))
    assert_close(found[0], x[0])
    assert_close(found[1, :, 0], torch.tensor([0, 0, 1, 2.5, 4, 5.5, 7, 8, 8], dtype=torch.float64))
    assert_close(found[2, :5, 0], torch.tensor([2, 2.5, 3, 3.5, 4], dtype=torch.float64))
    changed, same = SoundAugment(
        SoundAugmentConfig(speed=0, ends=0.2, pitch=0, noise=0, time_masks=0, band_masks=0), 2, 0.0, 4000.0, "htk"
    )(x, seq)
    assert same is seq
    assert not torch.equal(changed, x)
