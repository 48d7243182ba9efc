"""Scores of tagged, extracted and summarised text, each by the field's own definition.

    entity F1 = 2PR / (P + R)     P right entities among those found, R among those there are; right: same type, same first and last word
                                  (as the conlleval script of Tjong Kim Sang & De Meulder 2003, and seqeval)
    exact match, answer F1        of normalised answers, by SQuAD's rules (Rajpurkar et al. 2016); the best of several references counts
    ROUGE-1, -2, -L               F of common words, pairs of words, longest common subsequence (Lin 2004), by rouge-score

ROUGE's words are runs of letters and digits in lower case, accents included (the library's own rule would drop every é); no stemming.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attentif.data.conll import find_entities
from attentif.extras import require_extra
from attentif.tasks.metrics import Floats, Interval, TextScores, interval

ROUGE = ("rouge1", "rouge2", "rougeL")
Language = Literal["fr", "en"]
ARTICLES: dict[Language, re.Pattern[str]] = {
    "en": re.compile(r"\b(a|an|the)\b"),
    "fr": re.compile(r"\b(le|la|les|l|un|une|des|du)\b"),
}
DRAWS = 500


def bootstrap_mean(values: Floats, draws: int) -> Interval:
    """The 95 % interval of the mean of values between 0 and 1, one an example, where examples are drawn with replacement."""
    rng = np.random.default_rng(0)
    return interval([values[rng.integers(0, len(values), len(values))].mean() for _ in range(draws)], len(values))


# ------------------------------------------------------------------------------------------------------------- entities


def entity_counts(true: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> NDArray[np.int64]:
    """(sentences, 3): entities that are right, that were found, that there are."""
    rows = []
    for own, answer in zip(true, found, strict=True):
        known, given = set(find_entities(own)), set(find_entities(answer))
        rows.append((len(known & given), len(given), len(known)))
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def entity_f1(counts: NDArray[np.int64]) -> dict[str, float]:
    """Precision, recall and F1 of summed counts; 0 where there is nothing to divide by."""
    right, found, there = counts.reshape(-1, 3).sum(0).tolist()
    return {
        "entity_f1": 2 * right / max(found + there, 1),
        "entity_precision": right / max(found, 1),
        "entity_recall": right / max(there, 1),
    }


def entity_intervals(counts: NDArray[np.int64], draws: int = DRAWS) -> dict[str, Interval]:
    """Of the three scores, drawing sentences, within which entities are not independent."""
    rng = np.random.default_rng(0)
    drawn = [entity_f1(counts[rng.integers(0, len(counts), len(counts))]) for _ in range(draws)]
    telling = int(counts.any(1).sum())  # sentences with an entity, true or found
    return {key: interval([scores[key] for scores in drawn], telling) for key in drawn[0]}


# -------------------------------------------------------------------------------------------------------------- answers


def normalise_answer(answer: str, language: Language = "en") -> str:
    """Lower case, without punctuation, articles and doubled spaces. English is SQuAD's own rule; in French l' is an article too."""
    text = answer.lower()
    if language == "fr":
        text = re.sub(r"['’]", " ", text)
        text = "".join(c if c.isalnum() or c.isspace() or c == "-" else " " for c in text)
    else:
        text = "".join(c for c in text if c not in string.punctuation)
    return " ".join(ARTICLES[language].sub(" ", text).split())


def exact_match(answer: str, references: Sequence[str], language: Language = "en") -> float:
    """1 where the answer is one of the references, or is empty as there is none."""
    return float(normalise_answer(answer, language) in [normalise_answer(one, language) for one in references or [""]])


def answer_f1(answer: str, references: Sequence[str], language: Language = "en") -> float:
    """The best F1 of the words in common with a reference."""
    return max(_words_f1(normalise_answer(answer, language).split(), normalise_answer(one, language).split()) for one in references or [""])


def _words_f1(answer: list[str], reference: list[str]) -> float:
    if not answer or not reference:
        return float(answer == reference)
    common = sum((Counter(answer) & Counter(reference)).values())
    return 2 * common / (len(answer) + len(reference))


def answer_scores(hits: Floats, shares: Floats, draws: int = DRAWS) -> tuple[dict[str, float], dict[str, Interval]]:
    """Exact match and F1 over questions, with their intervals where draws are asked for."""
    scores = {"exact_match": float(hits.mean()), "answer_f1": float(shares.mean())}
    if not draws:
        return scores, {}
    return scores, {key: bootstrap_mean(own, draws) for key, own in zip(scores, (hits, shares), strict=True)}


# ------------------------------------------------------------------------------------------------------------ summaries


class RougeWords:
    """What rouge-score asks of a tokenizer."""

    def tokenize(self, text: str) -> list[str]:
        return re.findall(r"\w+", text.lower())


def rouge_rows(written: Sequence[str], references: Sequence[str]) -> dict[str, Floats]:
    """The F of each answer."""
    require_extra("rouge_score")
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(list(ROUGE), tokenizer=RougeWords())
    rows = [scorer.score(reference, answer) for answer, reference in zip(written, references, strict=True)]
    return {key: np.array([row[key].fmeasure for row in rows]) for key in ROUGE}


def rouge_scores(written: Sequence[str], references: Sequence[str], *, draws: int = 0) -> TextScores:
    """ROUGE averaged over summaries, and those that are exactly right."""
    rows = rouge_rows(written, references)
    rows["exact_match"] = np.array([float(a.split() == b.split()) for a, b in zip(written, references, strict=True)])
    around = {key: bootstrap_mean(own, draws) for key, own in rows.items()} if draws else {}
    from importlib.metadata import version

    signature = {"rouge": f"rouge-score {version('rouge-score')}, F, words \\w+ in lower case, no stemming"}
    return TextScores({key: float(own.mean()) for key, own in rows.items()}, around, signature)
