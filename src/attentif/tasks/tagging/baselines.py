"""What tagging is measured against: each word's most frequent tag, and a logistic regression over the word and its neighbours."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from attentif.tasks.answers import Baseline
from attentif.tasks.base import Say
from attentif.tasks.baselines import measure_time
from attentif.tasks.metrics import share
from attentif.tasks.text_metrics import entity_counts, entity_f1, entity_intervals
from attentif.view.words import Text

MOST_WORDS = 100_000  # of the training split that the regression is fitted on
Tags = list[list[str]]


@dataclass(frozen=True, slots=True)
class Tagged:
    """Sentences in words, and their tags."""

    words: Sequence[Sequence[str]]
    tags: Sequence[Sequence[str]]


def tagging_baselines(train: Tagged, test: Tagged, *, entities: bool, say: Say) -> list[Baseline]:
    systems: list[tuple[Text, Callable[[Tagged, Tagged], Tags]]] = [
        (Text("étiquette la plus fréquente du mot", "most frequent tag of the word"), _most_frequent),
        (Text("régression logistique sur le mot et ses voisins", "logistic regression on the word and its neighbours"), _regression),
    ]
    baselines = []
    for name, tag in systems:
        with measure_time() as clock:
            found = tag(train, test)
        right = sum(a == b for own, answer in zip(test.tags, found, strict=True) for a, b in zip(own, answer, strict=True))
        accuracy, around = share(right, sum(map(len, found)))
        scores, intervals, said = {"accuracy": accuracy}, {"accuracy": around}, f"accuracy {100 * accuracy:.1f} %"
        if entities:
            counts = entity_counts(test.tags, found)
            scores = entity_f1(counts) | scores
            intervals |= entity_intervals(counts)
            said = f"entity F1 {100 * scores['entity_f1']:.1f} %"
        baselines.append(Baseline(name, scores, intervals, clock.seconds))
        say(f"baseline {name.en}: {said} ({clock.seconds:.1f} s)")
    return baselines


def _most_frequent(train: Tagged, test: Tagged) -> Tags:
    """Of a word that training never has, the most frequent tag of all."""
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    for words, tags in zip(train.words, train.tags, strict=True):
        for word, tag in zip(words, tags, strict=True):
            seen[word][tag] += 1
    often = {word: counts.most_common(1)[0][0] for word, counts in seen.items()}
    usual = sum(seen.values(), Counter[str]()).most_common(1)[0][0]
    return [[often.get(word, usual) for word in words] for words in test.words]


def _regression(train: Tagged, test: Tagged) -> Tags:
    from sklearn.feature_extraction import FeatureHasher

    known = [tag for tags in train.tags for tag in tags][:MOST_WORDS]
    names = sorted(set(known))
    if len(names) == 1:
        return [names * len(words) for words in test.words]
    hasher = FeatureHasher(n_features=2**18, input_type="string", alternate_sign=False)
    features = [row for words in train.words for row in _features(words)][:MOST_WORDS]
    x, z = hasher.transform(features), hasher.transform(row for words in test.words for row in _features(words))
    from sklearn.linear_model import LogisticRegression

    labels = np.array([names.index(tag) for tag in known])
    # one tag against the rest, each by a solver that needs no tuning
    fit = lambda own: LogisticRegression(C=1.0, solver="liblinear", random_state=0).fit(x, own).decision_function(z)
    best = np.stack([fit((labels == c).astype(np.int64)) for c in range(len(names))]).argmax(0)
    ends = accumulate((len(words) for words in test.words), initial=0)
    return [[names[c] for c in best[a:b]] for a, b in pairwise(ends)]


def _features(words: Sequence[str]) -> Iterator[list[str]]:
    """What is known about each word of a sentence: itself, its ends, its shape, and the same of its neighbours."""
    around = ["", "", *words, "", ""]
    for place in range(2, len(around) - 2):
        word = around[place]
        own = [f"w={word}", f"lower={word.lower()}", f"begin={word[:3]}", f"end={word[-3:]}", f"end2={word[-2:]}", f"shape={_shape(word)}"]
        near = [f"{step}:{around[place + step].lower()}" for step in (-2, -1, 1, 2)]
        shapes = [f"{step}s:{_shape(around[place + step])}" for step in (-1, 1)]
        yield [*own, *near, *shapes, f"first={place == 2}", f"-1w:{around[place - 1].lower()}|{_shape(word)}"]


def _shape(word: str) -> str:
    """ "Xx", "XX", "x", "9", "" and what else: case and digits, without the letters."""
    return "".join(sorted({"9" if c.isdigit() else "X" if c.isupper() else "x" if c.isalpha() else c for c in word}))
