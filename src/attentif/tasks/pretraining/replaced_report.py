"""How well replaced tokens are told from the author's: the scores, the baselines, the report's page.

AUC = P(a replaced token gets a higher score than one of the author's)        ties count for a half
"""

from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from attentif.tasks.answers import Baseline, Evaluation
from attentif.tasks.base import Say
from attentif.tasks.baselines import measure_time
from attentif.tasks.details import details_of
from attentif.tasks.metrics import Interval, mean_interval
from attentif.tasks.pretraining.base import Spoiled
from attentif.tasks.pretraining.neighbours import Neighbours
from attentif.tasks.ragged import UNSCORED
from attentif.view.blocks import Block, Cell, Paragraph, Section, TableBlock, TokensBlock
from attentif.view.words import Text, Words, percent

Floats = NDArray[np.float64]


def detection_scores(logits: Floats, spoiled: Spoiled) -> tuple[dict[str, float], dict[str, Interval]]:
    """Scores of log-odds for each place; intervals by drawing passages."""
    labels = spoiled.labels.flat
    asked = labels != UNSCORED
    row = np.repeat(np.arange(len(spoiled)), spoiled.lengths)[asked]
    logits, replaced = logits[asked], labels[asked] == 1
    right = ((logits > 0) == replaced).astype(np.float64)
    nats = np.logaddexp(0, np.where(replaced, -logits, logits))
    wins = rank_shares(logits[replaced], logits[~replaced])
    by_row = lambda values, rows: np.bincount(rows, weights=values, minlength=len(spoiled))
    hits, tokens = by_row(wins, row[replaced]), by_row(np.ones_like(wins), row[replaced])
    everything = by_row(np.ones_like(right), row)
    scores = {
        "auc": float(wins.mean()) if len(wins) else 0.5,
        "accuracy": float(right.mean()),
        "recall": float((logits > 0)[replaced].mean()) if len(wins) else 0.0,
        "loss": float(nats.mean()),
    }
    intervals = {"accuracy": mean_interval(by_row(right, row), everything), "loss": mean_interval(by_row(nats, row), everything)}
    return scores, intervals | ({"auc": mean_interval(hits, tokens)} if len(wins) else {})


def rank_shares(scores: Floats, others: Floats) -> Floats:
    """For each score, the share of the others that lie below it, ties by half."""
    ranked = np.sort(others)
    return (np.searchsorted(ranked, scores, side="left") + np.searchsorted(ranked, scores, side="right")) / (2 * max(len(ranked), 1))


def replaced_baselines(counts: Neighbours, test: Spoiled, say: Say) -> list[Baseline]:
    """Nothing was replaced; and what is rare between its neighbours was."""
    ids, labels = test.ids.flat.astype(np.int64), test.labels.flat
    share = float((labels[labels != UNSCORED] == 1).mean())
    nothing = np.full(len(ids), np.log(max(share, 1e-9) / (1 - share)))
    systems: list[tuple[Text, Floats, float]] = [(Text("rien n'est remplacé", "nothing is replaced"), nothing, 0.0)]
    with measure_time() as clock:
        places = np.flatnonzero(labels != UNSCORED)
        surprise = np.zeros(len(ids))
        surprise[places] = -np.log(counts.probability(ids[places - 1], ids[places], ids[places + 1]))
        cut = np.quantile(surprise[places], 1 - share)
    systems.append((Text("ce qui est rare entre ses voisins", "what is rare between its neighbours"), surprise - cut, clock.seconds))
    found = []
    for name, logits, seconds in systems:
        scores, intervals = detection_scores(logits, test)
        found.append(
            Baseline(
                name,
                {k: scores[k] for k in ("auc", "accuracy", "recall")},
                {k: intervals[k] for k in ("auc", "accuracy") if k in intervals},
                seconds,
            )
        )
        say(f"baseline {name.en}: area under the ROC curve {100 * scores['auc']:.1f} % ({seconds:.1f} s)")
    return found


class ReplacedPassage(TypedDict):
    """A passage, which of its tokens were replaced, and what the model thinks of each."""

    tokens: list[str]
    probability: list[float]
    places: list[int]
    true: list[str]


class ReplacedDetails(TypedDict):
    replaced: list[ReplacedPassage]


def replaced_sections(evaluation: Evaluation) -> list[Section]:
    if not (details := details_of(evaluation, ReplacedDetails)) or not details["replaced"]:
        return []
    about = Text(
        "Des passages du test dont quelques jetons ont été remplacés. Un jeton est d'autant plus foncé que le modèle le croit remplacé ; "
        "le tableau donne ceux qui l'étaient.",
        "Passages of the test in which some tokens were replaced. A token is the darker, the likelier the model holds it to be replaced; "
        "the table gives those that were.",
    )
    body: list[Block] = [Paragraph(about)]
    heads: list[Words] = [
        Text("jeton lu", "token read"),
        Text("jeton de l'auteur", "the author's token"),
        Text("cru remplacé à", "held to be replaced at"),
    ]
    for passage in details["replaced"]:
        body.append(_passage(passage))
        rows: list[list[Cell]] = [
            [passage["tokens"][place], true, percent(passage["probability"][place])]
            for place, true in zip(passage["places"], passage["true"], strict=True)
        ]
        found = [row for row, place in enumerate(passage["places"]) if passage["probability"][place] > 0.5]
        body.append(TableBlock(heads, rows, strong=found))
    return [Section(Text("Ce que le modèle soupçonne", "What the model suspects"), body)]


def _passage(passage: ReplacedPassage) -> TokensBlock:
    tokens = [token.replace("␣", " ").replace("⏎", "⏎\n") for token in passage["tokens"]]
    return TokensBlock(tokens, passage["probability"], whole=1.0)
