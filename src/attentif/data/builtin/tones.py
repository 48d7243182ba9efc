"""Dialled numbers: what a telephone's keys sound like, over a bad line.

    key          1     2     3     4     5     6     7     8     9     0
    low, Hz    697   697   697   770   770   770   852   852   852   941       two sines at once (DTMF, ITU-T Q.23)
    high, Hz  1209  1336  1477  1209  1336  1477  1209  1336  1477  1336

A number has 1 to 8 digits. Tones last 60 to 200 ms and stand 40 to 150 ms apart, each caller at a speed of their own; the two sines may
differ by 6 dB; the line adds noise 3 to 25 dB below the tones, a hum, and silence before and after. Test rows say in the role `group` how
noisy they are. Sounds have 8,000 samples a second; the transcript is the digits with spaces between: "4 0 7".
"""

import numpy as np
from numpy.typing import NDArray

from attentif.data.builtin.registry import BuiltIn

RATE = 8000
LOW, HIGH = (697.0, 770.0, 852.0, 941.0), (1209.0, 1336.0, 1477.0)
KEYS = {"1": (0, 0), "2": (0, 1), "3": (0, 2), "4": (1, 0), "5": (1, 1), "6": (1, 2), "7": (2, 0), "8": (2, 1), "9": (2, 2), "0": (3, 1)}
LONGEST = 8  # digits
NOISE_DB = (3.0, 25.0)
QUIET, NOISY = "quiet line", "noisy line"
TURN = 12.0  # decibels: noise nearer than this makes a line noisy


def dial(digits: str, random: np.random.Generator, noise_db: float) -> NDArray[np.float32]:
    """The sound of a number, dialled by somebody drawn from `random`."""
    speed = random.uniform(0.8, 1.25)
    between = lambda low, high: np.zeros(round(RATE * random.uniform(low, high)))
    pieces = [between(0.05, 0.25)]
    for digit in digits:
        pieces += [_tone(digit, random.uniform(0.06, 0.2) / speed, random), between(0.04 / speed, 0.15 / speed)]
    pieces.append(between(0.02, 0.2))
    sound = np.concatenate(pieces)
    time = np.arange(len(sound)) / RATE
    noise = random.normal(0, 0.5 * 10 ** (-noise_db / 20), len(sound))  # two sines of amplitude ½ have a power of ¼
    hum = random.uniform(0, 0.1) * np.sin(2 * np.pi * random.choice([50.0, 60.0]) * time + random.uniform(0, 2 * np.pi))
    return (random.uniform(0.1, 0.8) * (sound + noise + hum)).astype(np.float32)


def _tone(digit: str, seconds: float, random: np.random.Generator) -> NDArray[np.float64]:
    time = np.arange(round(RATE * seconds)) / RATE
    twist = 10 ** (random.uniform(-3, 3) / 20)
    low, high = (LOW[KEYS[digit][0]], HIGH[KEYS[digit][1]])
    drift = random.uniform(0.985, 1.015, 2)  # keys are not tuned exactly
    sines = [np.sin(2 * np.pi * hz * d * time + random.uniform(0, 2 * np.pi)) for hz, d in zip((low, high), drift, strict=True)]
    ramp = np.minimum(1.0, np.minimum(time, time[::-1]) / 0.004)
    return ramp * (twist * sines[0] + sines[1] / twist) / 2


def load(seed: int = 0, *, train: int = 1500, valid: int = 150, test: int = 400) -> dict[str, dict[str, list[object]]]:
    """The three splits: roles `audio` (arrays), `text`, `rate`; `test` also has `group`. No number stands in two splits but by chance."""
    splits: dict[str, dict[str, list[object]]] = {}
    for place, (split, count) in enumerate((("train", train), ("valid", valid), ("test", test))):
        random = np.random.default_rng((seed, place))
        columns: dict[str, list[object]] = {"audio": [], "text": [], "rate": [RATE] * count, "group": []}
        for _ in range(count):
            digits = "".join(random.choice(list(KEYS), random.integers(1, LONGEST + 1)).tolist())
            noise_db = float(random.uniform(*NOISE_DB))
            columns["audio"].append(dial(digits, random, noise_db))
            columns["text"].append(" ".join(digits))
            columns["group"].append(NOISY if noise_db < TURN else QUIET)
        splits[split] = columns if split == "test" else {role: values for role, values in columns.items() if role != "group"}
    return splits


SET = BuiltIn(
    name="tones",
    roles=("audio", "text"),
    description="numbers dialled on a telephone, over a noisy line: sounds and their digits",
    size="1,500 train, 150 valid, 400 test sounds of 1 to 8 digits",
    synthetic=True,
    load=load,
)
