"""Questions about pictures: the systems that see only one of the two, and the task's part of the report."""

import re
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypedDict

import numpy as np
from numpy.typing import NDArray

from attentif.data import Table as Rows
from attentif.data.images import as_shown, data_uri
from attentif.data.questions import Questions
from attentif.tasks.answers import Baseline, Evaluation
from attentif.tasks.base import Say
from attentif.tasks.details import details_of
from attentif.tasks.metrics import mean_interval
from attentif.tasks.report import NOTHING
from attentif.tasks.vision.image import make_thumbnail
from attentif.view.blocks import Block, Contender, FigureBlock, Paragraph, Score, Section, TableBlock
from attentif.view.words import Text, Words, count, metric, percent

WRONG = 16  # wrong answers shown in the report
MOST_FITTED = 20_000  # training questions that a linear baseline is fitted on
MOST_PIXELS = 1_024  # of a picture, for the baseline that sees nothing else

KINDS: dict[str, Text] = {
    "left": Text("à gauche de", "left of"),
    "right": Text("à droite de", "right of"),
    "above": Text("au-dessus de", "above"),
    "below": Text("au-dessous de", "below"),
    "sum": Text("la somme", "the sum"),
    "count": Text("combien", "how many"),
    "there": Text("y a-t-il", "is there"),
    "largest": Text("le plus grand", "the largest"),
    "smallest": Text("le plus petit", "the smallest"),
    "1 digit": Text("1 chiffre", "1 digit"),
    **{f"{n} digits": Text(f"{n} chiffres", f"{n} digits") for n in (2, 3, 4)},
}


class KindScore(TypedDict):
    kind: str
    examples: int
    exact_match: float
    interval: list[float]
    most_frequent: float  # how often the most frequent answer is right


class WrongAnswer(TypedDict):
    picture: str  # a data URI
    question: str
    answer: str
    written: str
    place: str


class QuestionDetails(TypedDict):
    by_kind: list[KindScore]
    wrong: list[WrongAnswer]
    pictures: int


def kinds_of(table: Rows) -> list[str]:
    """The kind of each question: its column, or the first word of the question."""
    if "kind" in table.columns:
        return table["kind"]
    return [(re.findall(r"\w+", question) or ["?"])[0].casefold() for question in table["question"]]


# ---------------------------------------------------------------------------------------------------------------- scores


def over_pictures(questions: Questions, right: NDArray[np.bool_]) -> tuple[float, float]:
    """The interval of the share of right answers; pictures are drawn again, for questions about one stand and fall together."""
    counts = np.bincount(questions.picture, minlength=len(questions.pixels))
    totals = np.bincount(questions.picture, weights=right, minlength=len(questions.pixels))
    return mean_interval(totals[counts > 0], counts[counts > 0])


def by_kind(questions: Questions, right: NDArray[np.bool_]) -> list[KindScore]:
    """The share of exact answers for each kind of question, and how often its most frequent answer is right."""
    kinds, answers = np.array(kinds_of(questions.table)), np.array(questions.table["answer"])
    found: list[KindScore] = []
    for kind in dict.fromkeys(kinds.tolist()):
        rows = np.flatnonzero(kinds == kind)
        part = Questions(questions.table, questions.pixels, questions.picture[rows])
        frequent = float(np.unique(answers[rows], return_counts=True)[1].max() / len(rows))
        found.append(
            {
                "kind": kind,
                "examples": len(rows),
                "exact_match": float(right[rows].mean()),
                "interval": [*over_pictures(part, right[rows])],
                "most_frequent": frequent,
            }
        )
    return sorted(found, key=lambda entry: -entry["examples"])[:20]


def wrong_answers(questions: Questions, right: NDArray[np.bool_], written: Sequence[str]) -> list[WrongAnswer]:
    """Wrong answers, spread over the split, with their pictures."""
    table, wrong = questions.table, np.flatnonzero(~right)
    chosen = wrong[np.unique(np.linspace(0, len(wrong) - 1, WRONG).astype(np.int64))] if len(wrong) else wrong
    return [
        {
            "picture": data_uri(make_thumbnail(as_shown(questions.pixels[questions.picture[row]]))),
            "question": table["question"][row],
            "answer": table["answer"][row],
            "written": written[row],
            "place": table.place(row),
        }
        for row in chosen.tolist()
    ]


# ------------------------------------------------------------------------------------------------------------- baselines


def answer_baselines(train: Questions, test: Questions, say: Say) -> list[Baseline]:
    """The most frequent answer, the question without its picture, and the picture without its question."""
    systems: list[tuple[Text, Callable[[Questions, Questions], Sequence[str]]]] = [
        (Text("réponse la plus fréquente", "most frequent answer"), _most_frequent),
        (Text("la question sans l'image (logistique)", "the question without the picture (logistic)"), _question_only),
        (Text("l'image sans la question (linéaire)", "the picture without the question (linear)"), _picture_only),
    ]
    found = []
    for name, answer in systems:
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The number of unique classes")  # answers may be sentences, nearly all different
            right = np.array([a == b for a, b in zip(answer(train, test), test.table["answer"], strict=True)])
        seconds, share = time.perf_counter() - started, float(right.mean())
        found.append(Baseline(name, {"exact_match": share}, {"exact_match": over_pictures(test, right)}, seconds))
        say(f"baseline {name.en}: {100 * share:.1f} % exact answers ({seconds:.1f} s)")
    return found


def _most_frequent(train: Questions, test: Questions) -> Sequence[str]:
    answers, counts = np.unique(np.array(train.table["answer"]), return_counts=True)
    return [str(answers[counts.argmax()])] * len(test.table)


def _pick_rows(questions: Questions) -> NDArray[np.int64]:
    """Rows spread over the split."""
    return np.unique(np.linspace(0, len(questions.table) - 1, MOST_FITTED).astype(np.int64))


def _question_only(train: Questions, test: Questions) -> Sequence[str]:
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression

    rows = _pick_rows(train).tolist()
    texts, answers = ([train.table[role][row] for row in rows] for role in ("question", "answer"))
    if len(set(answers)) == 1:
        return _most_frequent(train, test)
    vectorizer = CountVectorizer(ngram_range=(1, 2), binary=True, token_pattern=r"\w+", max_features=5_000)
    x, z = vectorizer.fit_transform(texts), vectorizer.transform(test.table["question"])
    fitted = LogisticRegression(max_iter=300, tol=1e-2).fit(x, answers)
    return [str(answer) for answer in fitted.predict(z)]


def _picture_only(train: Questions, test: Questions) -> Sequence[str]:
    from sklearn.linear_model import RidgeClassifier

    rows = _pick_rows(train)
    answers = np.array(train.table["answer"])[rows]
    if len(set(answers.tolist())) == 1:
        return _most_frequent(train, test)
    fitted = RidgeClassifier(alpha=10.0).fit(_pixels(train)[train.picture[rows]], answers)
    return [str(answer) for answer in fitted.predict(_pixels(test)[test.picture])]


def _pixels(questions: Questions) -> NDArray[np.float32]:
    """(P, pixels), every so many of large pictures."""
    pixels = questions.pixels
    step = max(1, round(float(np.sqrt(pixels[0].size / MOST_PIXELS))))
    return pixels[:, :, ::step, ::step].reshape(len(pixels), -1).astype(np.float32) / np.float32(255)


# ---------------------------------------------------------------------------------------------------------------- report


def vision_sections(evaluation: Evaluation) -> list[Section]:
    if (details := details_of(evaluation, QuestionDetails)) is None:
        return []
    sections = [Section(Text("Question par question", "Question by question"), _kinds(details["by_kind"]))]
    if details["wrong"]:
        sections.append(Section(Text("Réponses fausses", "Wrong answers"), _wrong_answers(details["wrong"])))
    return sections


def _kinds(kinds: Sequence[KindScore]) -> list[Block]:
    from attentif.view.figures import contenders
    from attentif.view.figures.scores import format_score

    name = lambda entry: KINDS.get(entry["kind"], entry["kind"])
    score = lambda entry: Score(entry["exact_match"], *entry["interval"])
    bars = [Contender(name(entry), {"exact_match": score(entry)}, ours=True) for entry in kinds]
    about = Text(
        "La part de réponses exactes selon ce que l'on demande, avec son intervalle : les images sont tirées à nouveau, car les questions "
        "sur une même image vont ensemble.",
        "The share of exact answers by what is asked, with its interval: pictures are drawn again, for questions about one go together.",
    )
    heads: list[Words] = [
        Text("question", "question"),
        metric("exact_match").name,
        Text("réponse la plus fréquente", "most frequent answer"),
        Text("exemples", "examples"),
    ]
    of = metric("exact_match")
    rows = [[name(entry), format_score(score(entry), of), percent(entry["most_frequent"]), count(entry["examples"])] for entry in kinds]
    note = Text(
        "« Réponse la plus fréquente » : ce que vaudrait toujours la même réponse à ces questions, sans regarder.",
        "“Most frequent answer”: what the same answer to all these questions would be worth, without looking.",
    )
    title = Text("Exactitude par genre de question", "Exact answers by kind of question")
    return [FigureBlock(title, partial(contenders, of.key, bars), about), TableBlock(heads, rows, note)]


def _wrong_answers(wrong: Sequence[WrongAnswer]) -> list[Block]:
    from attentif.view.figures.pictures import Shown, gallery

    about = Text(
        "Des images dont une question a reçu une réponse fausse ; le tableau dit laquelle. Certaines sont ambiguës pour l'œil aussi.",
        "Pictures about which a question got a wrong answer; the table says which one. Some are doubtful to the eye too.",
    )
    shown = [Shown(entry["picture"], f"{number}", place=entry["place"]) for number, entry in enumerate(wrong, 1)]
    heads: list[Words] = ["", Text("question", "question"), Text("réponse", "answer"), Text("réponse du modèle", "the model's answer")]
    rows = [[str(number), entry["question"], entry["answer"], entry["written"] or NOTHING] for number, entry in enumerate(wrong, 1)]
    return [Paragraph(about), FigureBlock(Text("Les images", "The pictures"), partial(gallery, shown)), TableBlock(heads, rows)]
