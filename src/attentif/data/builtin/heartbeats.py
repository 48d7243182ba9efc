"""Signals like electrocardiograms, generated: a regular rhythm, premature beats, fibrillation. For learning only, never for medicine.

A beat is a sum of bumps, one for each of its waves, placed from its R peak (after McSharry et al. 2003):

    s(t) = Σ_beats Σ_{w ∈ P, Q, R, S, T} a_w exp(−(t − t_R − d_w)² / 2 b_w²)       + slow wandering of the base line + noise

    normal         beats follow one another evenly, but for breathing, which lengthens and shortens them by up to 8 %
    premature      now and then a wide beat without P wave comes early, and a pause follows it (ventricular extrasystole)
    fibrillation   the distance between beats is drawn anew each time, no P waves, a fine trembling of the base line

Neither the rate (drawn from the same range for all three) nor the mean nor the spread of a signal tells them apart: what tells is the order
of events, over several beats.
"""

import numpy as np

from attentif.data.builtin.registry import BuiltIn, Columns, Splits

RATE = 64  # samples a second
SECONDS = 6
LABELS = ("normal", "premature", "fibrillation")
ROWS = {"train": 2400, "valid": 300, "test": 600}
# height, seconds from the R peak, width in seconds
WAVES = {"P": (0.16, -0.17, 0.025), "Q": (-0.12, -0.03, 0.010), "R": (1.0, 0.0, 0.012), "S": (-0.22, 0.03, 0.011), "T": (0.30, 0.24, 0.050)}
WIDE = {"R": (1.05, 0.0, 0.045), "S": (-0.45, 0.10, 0.045), "T": (-0.30, 0.28, 0.060)}


def load(seed: int = 0) -> Splits:
    """Signals of 6 seconds, 64 numbers a second, and their labels, as many of each."""
    random = np.random.default_rng([seed, 1903])
    return {split: _rows(random, rows) for split, rows in ROWS.items()}


def _rows(random: np.random.Generator, rows: int) -> Columns:
    labels = [LABELS[row % len(LABELS)] for row in range(rows)]
    random.shuffle(labels)
    return {"signal": [" ".join(f"{value:.3f}" for value in signal(label, random)) for label in labels], "label": labels}


def signal(label: str, random: np.random.Generator) -> np.ndarray:
    """One signal of that kind."""
    times = np.arange(RATE * SECONDS) / RATE
    beat = 60 / random.uniform(58, 100)  # seconds from one to the next
    waves = {name: (height * random.uniform(0.7, 1.3), place, width) for name, (height, place, width) in WAVES.items()}
    values = np.zeros_like(times)
    for peak, wide in _peaks(label, beat, random):
        shape = WIDE if wide else {name: wave for name, wave in waves.items() if name != "P" or label != "fibrillation"}
        for height, place, width in shape.values():
            values += height * np.exp(-0.5 * ((times - peak - place) / width) ** 2)
    if label == "fibrillation":
        values += 0.03 * sum(np.sin(2 * np.pi * (random.uniform(4, 9) * times + random.uniform())) for _ in range(3))
    wander = random.uniform(0.02, 0.15) * np.sin(2 * np.pi * (random.uniform(0.1, 0.4) * times + random.uniform()))
    return random.uniform(0.7, 1.4) * (values + wander) + random.normal(0, random.uniform(0.03, 0.12), len(times))


def _peaks(label: str, beat: float, random: np.random.Generator) -> list[tuple[float, bool]]:
    """R peaks from before the beginning to after the end, and whether each is a wide one."""
    peaks: list[tuple[float, bool]] = []
    now = random.uniform(-beat, 0.0)
    breath = random.uniform(0, 2 * np.pi)
    early_at = random.uniform(1.0, SECONDS - 2.0)  # a premature beat is always inside, with its pause
    early = label == "premature"
    while now < SECONDS + 1:
        peaks.append((now, False))
        if label == "fibrillation":
            now += beat * random.uniform(0.6, 1.5)
            continue
        step = beat * (1 + 0.08 * np.sin(2 * np.pi * now / 4 + breath) + random.normal(0, 0.01))
        if early and now + step > early_at:
            peaks.append((now + step * random.uniform(0.55, 0.7), True))
            now += 2 * step  # the beat that should have come is left out
            early = random.random() < 0.3
            early_at = now + 1.5
        else:
            now += step
    return peaks


SET = BuiltIn(
    name="heartbeats",
    roles=("signal", "label"),
    description="signals like electrocardiograms: normal, premature beats, fibrillation",
    size="2,400 train, 300 valid, 600 test signals of 384 numbers",
    synthetic=True,
    load=load,
)
