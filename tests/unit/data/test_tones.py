import numpy as np

from attentif.data.builtin.tones import HIGH, KEYS, LOW, NOISY, QUIET, RATE, dial, load


def test_a_dialled_digit_sounds_at_its_two_frequencies() -> None:
    for digit, (low, high) in KEYS.items():
        wave = dial(digit, np.random.default_rng(int(digit)), noise_db=40.0)
        power = np.abs(np.fft.rfft(wave * np.hanning(len(wave)))) ** 2
        hz = np.fft.rfftfreq(len(wave), 1 / RATE)
        loud = lambda f, hz=hz, power=power: power[(hz > 0.97 * f) & (hz < 1.03 * f)].sum()
        assert int(np.argmax([loud(f) for f in LOW])) == low
        assert int(np.argmax([loud(f) for f in HIGH])) == high


def test_the_set_is_a_function_of_its_seed() -> None:
    first, again, other = (load(seed, train=5, valid=2, test=4) for seed in (0, 0, 1))
    assert first["train"]["text"] == again["train"]["text"] != other["train"]["text"]
    assert all(np.array_equal(a, b) for a, b in zip(first["test"]["audio"], again["test"]["audio"], strict=True))
    assert {len(split["text"]) for split in first.values()} == {5, 2, 4}
    assert set(load(0, train=1, valid=1, test=40)["test"]["group"]) == {QUIET, NOISY}


def test_noise_is_as_far_below_the_tones_as_asked() -> None:
    silence = dial("", np.random.default_rng(0), noise_db=100.0)
    noise = dial("", np.random.default_rng(0), noise_db=0.0) - silence
    assert 0.1 * 0.4 < noise.std() < 0.8 * 0.6  # a gain of 0.1 to 0.8 times half, the tones' own level
