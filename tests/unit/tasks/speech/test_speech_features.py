"""What a model reads of a sound: frames or samples, trimmed, stretched, made to last as long as others."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from attentif.errors import ConfigError
from attentif.tasks.speech.data import FeaturesConfig, sound_input


def test_features_that_cannot_be_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"200.*frequency.*256"):
        FeaturesConfig(rate=8000, mels=200).filters()
    with pytest.raises(ConfigError, match=r"between.*4000"):
        FeaturesConfig(rate=8000, high=5000.0).filters()
    with pytest.raises(ConfigError, match=r"128.*200 samples"):
        FeaturesConfig(rate=8000, fft=128).filters()


def test_every_sound_can_be_made_to_last_as_long() -> None:
    features = FeaturesConfig(rate=8000, seconds=0.5, fft=256)
    waves = [np.full(size, 0.1, dtype=np.float32) for size in (1000, 4000, 9000)]
    assert [len(frames) for frames in features.frames(waves)] == [50, 50, 50]
    assert torch.equal(features.frames(waves[:1])[0], features.frames([np.pad(waves[0], (0, 3000))])[0])


def test_samples_are_read_as_they_are_or_to_unit_variance() -> None:
    wave = np.array([1.0, 3.0, 5.0, 7.0], dtype=np.float32)
    plain = FeaturesConfig(kind="samples", rate=8000)
    assert plain.frames([wave])[0].tolist() == wave.tolist()
    unit = plain.replace(normalise=True).frames([wave])[0]
    assert unit.mean().abs() < 1e-6
    assert abs(float(unit.var(correction=0)) - 1) < 1e-5
    assert plain.step == 1 / 8000


def test_silence_after_a_sound_is_taken_off_and_put_back_exactly() -> None:
    features = FeaturesConfig(rate=8000, mels=20, seconds=0.5)
    whole = features.frames([np.sin(np.arange(1600, dtype=np.float32))])[0]
    heard = features.strip_padding(whole)
    assert 20 <= len(heard) < 30 < len(whole) == features.whole
    assert torch.equal(sound_input([heard], whole=features.whole).data[0], whole)


def test_a_long_sound_falls_into_pieces_that_last_as_long() -> None:
    features = FeaturesConfig(rate=100, seconds=1.0)
    assert [len(part) for part in features.windows(np.zeros(250, dtype=np.float32))] == [100, 100, 50]
    assert len(FeaturesConfig(rate=100).windows(np.zeros(250, dtype=np.float32))) == 1


def test_quiet_ends_are_cut_off_and_what_is_far_below_the_loudest_counts_as_no_quieter() -> None:
    random = np.random.default_rng(0)
    said_loud = (0.3 * np.sin(2 * np.pi * 440 * np.arange(2400) / 8000)).astype(np.float32)
    hush = (1e-4 * random.standard_normal(1600)).astype(np.float32)
    plain, cut = (FeaturesConfig(rate=8000, mels=24, trim=trim) for trim in (0.0, 30.0))
    sound = np.concatenate([hush, said_loud, hush])
    assert_close(cut.frames([sound]), plain.frames([said_loud]))
    assert_close(cut.frames([said_loud]), plain.frames([said_loud]))
    assert len(cut.frames([np.zeros(1600, np.float32)])[0]) == 20  # all of it is as loud
    assert len(cut.frames([said_loud[:40]])[0]) == 1  # shorter than a hop
    (whole,), (narrow,) = plain.frames([sound]), FeaturesConfig(rate=8000, mels=24, range=20.0).frames([sound])
    lowest = whole.max() - 20 * np.log(10) / 10
    assert_close(narrow, whole.clamp(min=float(lowest)))
    assert (whole < lowest).any()


def test_stretched_sounds_have_as_many_frames_whatever_they_last() -> None:
    slow = FeaturesConfig(rate=8000, mels=24, frames_each=32)
    waves = [np.random.default_rng(size).standard_normal(size).astype(np.float32) for size in (100, 2560, 9000)]
    found = slow.frames(waves)
    assert [tuple(own.shape) for own in found] == [(32, 24)] * 3
    assert_close(found[1], FeaturesConfig(rate=8000, mels=24).frames(waves[1:2])[0])  # 32 hops: as it was


@pytest.mark.parametrize(
    "changes", [{"kind": "samples", "trim": 30.0}, {"kind": "samples", "range": 30.0}, {"frames_each": 32, "seconds": 2.0}]
)
def test_features_that_contradict_each_other_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(key for key in ("trim", "range", "frames_each") if key in changes)):
        FeaturesConfig.model_validate(changes)
