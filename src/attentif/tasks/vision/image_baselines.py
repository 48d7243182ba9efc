"""Simple systems for pictures, fitted on the same training split and scored on the same test split.

Majority class; logistic regression and the 3 nearest neighbours on pixels; a small convolutional network (LeCun et al. 1998, with ReLU,
batch norm and a mean over places at its end), which is what a vision transformer must be compared with. Each has a budget that depends on
the data alone, so that the same data give the same figures.
"""

import time
import warnings
from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from attentif.tasks.answers import Baseline
from attentif.tasks.base import Say
from attentif.tasks.metrics import classification_scores, confusion
from attentif.tasks.ragged import Ints
from attentif.view.words import Text

Bytes = NDArray[np.uint8]
Fitted = Callable[[Bytes, Ints, Bytes], Ints]  # training pictures and labels, test pictures -> answers

SIDE = 32  # pixels, of the side that linear models and neighbours see at most
MOST_ROWS = 60_000  # training pictures that they see at most
NEIGHBOURS = 3
SEEN = 170_000_000  # pixels that the convolutional network is trained on, four passes over MNIST: about a minute
MOST_EPOCHS = 40
BATCH = 64
CHANNELS = 16  # of its first stage


def picture_baselines(train: Bytes, labels: Ints, test: Bytes, true: Ints, classes: int, say: Say) -> list[Baseline]:
    systems: list[tuple[Text, Fitted]] = [
        (Text("classe majoritaire", "majority class"), _majority),
        (Text("régression logistique", "logistic regression"), _logistic),
        (Text(f"{NEIGHBOURS} plus proches voisins", f"{NEIGHBOURS} nearest neighbours"), _neighbours),
        (Text("petit réseau convolutif", "small convolutional network"), convolutional),
    ]
    found = []
    for name, fit in systems:
        say(f"baseline {name.en}")
        began = time.perf_counter()
        answers = fit(train, labels, test)
        seconds = time.perf_counter() - began
        scores, intervals = classification_scores(confusion(true, answers, classes))
        found.append(Baseline(name, scores, intervals, seconds))
        say(f"baseline {name.en}: accuracy {100 * scores['accuracy']:.1f} % ({seconds:.1f} s)")
    return found


def _majority(_: Bytes, labels: Ints, test: Bytes) -> Ints:
    return np.full(len(test), np.bincount(labels).argmax())


def _logistic(train: Bytes, labels: Ints, test: Bytes) -> Ints:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    x, z = vectors(train[:MOST_ROWS]), vectors(test)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a hundred passes are its budget
        model = LogisticRegression(C=10.0 / np.sqrt(x.shape[1]), max_iter=100).fit(x, labels[:MOST_ROWS])
    return np.asarray(model.predict(z), dtype=np.int64)


def _neighbours(train: Bytes, labels: Ints, test: Bytes) -> Ints:
    from sklearn.neighbors import KNeighborsClassifier

    x, z = vectors(train[:MOST_ROWS]), vectors(test)
    model = KNeighborsClassifier(min(NEIGHBOURS, len(x)), algorithm="brute").fit(x, labels[:MOST_ROWS])
    return np.asarray(model.predict(z), dtype=np.int64)


def vectors(pixels: Bytes) -> NDArray[np.float32]:
    """Pixels as vectors, white being 1; large pictures by the means of squares."""
    x = torch.from_numpy(pixels).float() / 255
    if max(x.shape[2:]) > SIDE:
        x = F.adaptive_avg_pool2d(x, (min(SIDE, x.shape[2]), min(SIDE, x.shape[3])))
    return x.flatten(1).numpy()


def convolutional(train: Bytes, labels: Ints, test: Bytes) -> Ints:
    """A convolutional network trained with a seed of its own, which leaves torch's generator as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        channels, height, width = train.shape[1:]
        model = network(channels, min(height, width), int(labels.max()) + 1)
        epochs = max(1, min(MOST_EPOCHS, round(SEEN / (len(train) * height * width))))
        x, y = torch.from_numpy(train), torch.from_numpy(labels)
        mean, std = float(train.mean()), max(float(train.std()), 1.0)
        ready = lambda rows: (x[rows].float() - mean) / std
        steps = epochs * -(-len(x) // BATCH)
        optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=steps)
        model.train()
        for _ in range(epochs):
            for rows in torch.randperm(len(x)).split(BATCH):
                F.cross_entropy(model(_shift(ready(rows))), y[rows]).backward()
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            parts = [model((part.float() - mean) / std).argmax(1) for part in torch.from_numpy(test).split(512)]
    return torch.cat(parts).numpy()


def network(channels: int, side: int, classes: int) -> nn.Sequential:
    """Stages of a 5 × 5 convolution, each half as fine as the one before, until few pixels are left."""
    layers: list[nn.Module] = []
    width = CHANNELS
    while True:
        layers += [nn.Conv2d(channels, width, 5, padding=2, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        channels = width
        if side < 8:
            break
        layers.append(nn.MaxPool2d(2))
        side, width = side // 2, min(2 * width, 128)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def _shift(pictures: Tensor) -> Tensor:
    """Each picture shifted by a pixel or two: the network is given what the transformer is."""
    height, width = pictures.shape[2:]
    most = max(1, round(0.07 * min(height, width)))
    padded = F.pad(pictures, (most,) * 4, mode="replicate")
    rows, columns = torch.randint(0, 2 * most + 1, (2,)).tolist()
    return padded[:, :, rows : rows + height, columns : columns + width]
