"""Simple systems for signals: the majority, the spectrum, random convolutions.

spectrum            log(1 + |FFT(x)|) of each channel, logistic regression
random convolutions ROCKET (Dempster, Petitjean & Webb 2020): for each of many random kernels k, of random length, bias and dilation,
                    max_t (k ∗ x)_t and the share of t at which (k ∗ x)_t > 0; ridge regression on both
"""

from collections.abc import Callable, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from attentif.tasks.answers import Baseline
from attentif.tasks.base import Say
from attentif.tasks.baselines import measure_time
from attentif.tasks.metrics import classification_scores, confusion
from attentif.tasks.ragged import Ints
from attentif.view.words import Text

KERNELS = 500
Floats32 = NDArray[np.float32]


def signal_baselines(
    train: Sequence[Floats32], known: Ints, test: Sequence[Floats32], true: Ints, classes: int, say: Say
) -> list[Baseline]:
    """Scored on the test signals; shorter ones are filled up with zeros."""
    longest = max(len(signal) for signal in (*train, *test))
    seen, asked = (_fill(signals, longest) for signals in (train, test))
    systems: list[tuple[Text, Callable[[], Ints]]] = [
        (Text("classe majoritaire", "majority class"), lambda: np.full(len(true), np.bincount(known, minlength=classes).argmax())),
        (Text("spectre + régression logistique", "spectrum + logistic regression"), lambda: _spectrum(seen, known, asked)),
        (Text("convolutions aléatoires (ROCKET) + ridge", "random convolutions (ROCKET) + ridge"), lambda: _rocket(seen, known, asked)),
    ]
    found = []
    for name, predict in systems:
        with measure_time() as clock:
            predicted = predict()
        scores, intervals = classification_scores(confusion(true, predicted, classes))
        found.append(Baseline(name, scores, intervals, clock.seconds))
        say(f"baseline {name.en}: accuracy {100 * scores['accuracy']:.1f} % ({clock.seconds:.1f} s)")
    return found


def _fill(signals: Sequence[Floats32], longest: int) -> Floats32:
    """(n, channels, steps)"""
    whole = np.zeros((len(signals), signals[0].shape[1], longest), dtype=np.float32)
    for row, signal in enumerate(signals):
        whole[row, :, : len(signal)] = signal.T
    return whole


def _spectrum(seen: Floats32, known: Ints, asked: Floats32) -> Ints:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    features = lambda x: np.log1p(np.abs(np.fft.rfft(x, axis=-1))).reshape(len(x), -1)
    fitted = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=1000)).fit(features(seen), known)
    return np.asarray(fitted.predict(features(asked)), dtype=np.int64)


def _rocket(seen: Floats32, known: Ints, asked: Floats32) -> Ints:
    from sklearn.linear_model import RidgeClassifierCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    kernels = random_kernels(seen.shape[1], seen.shape[2])
    fitted = make_pipeline(StandardScaler(), RidgeClassifierCV(alphas=np.logspace(-2, 4, 7)))
    fitted.fit(convolve(seen, kernels), known)
    return np.asarray(fitted.predict(convolve(asked, kernels)), dtype=np.int64)


Kernel = tuple[torch.Tensor, float, int, int]  # weights (1, channels, length), bias, dilation, padding


def random_kernels(channels: int, steps: int, count: int = KERNELS) -> list[Kernel]:
    """Lengths 7, 9 or 11, weights N(0, 1) less their mean, bias U(−1, 1), dilation 2^U(0, log₂ (steps − 1)/(length − 1)), padded or not."""
    random = np.random.default_rng(0)
    found = []
    for _ in range(count):
        length = int(min(random.choice([7, 9, 11]), steps))
        weights = random.normal(size=(1, channels, length))
        dilation = int(2 ** random.uniform(0, np.log2(max(1, (steps - 1) / max(1, length - 1)))))
        padding = (length - 1) * dilation // 2 if random.random() < 0.5 else 0
        found.append((torch.from_numpy((weights - weights.mean()).astype(np.float32)), float(random.uniform(-1, 1)), dilation, padding))
    return found


def convolve(signals: Floats32, kernels: Sequence[Kernel]) -> Floats32:
    """(n, 2 · kernels): the maximum and the share above 0 of each."""
    x = torch.from_numpy(signals)
    features = []
    with torch.no_grad():
        for weights, bias, dilation, padding in kernels:
            y = F.conv1d(x, weights, padding=padding, dilation=dilation)[:, 0] + bias
            features += [y.amax(1), (y > 0).float().mean(1)]
    return torch.stack(features, 1).numpy()
