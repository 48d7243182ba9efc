"""Question answering's baselines and its part of the report."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, TypedDict

import numpy as np

from attentif.tasks.answers import Baseline, Evaluation
from attentif.tasks.base import Say
from attentif.tasks.baselines import measure_time
from attentif.tasks.details import Sliced, details_of
from attentif.tasks.report import WHERE, slices
from attentif.tasks.text_metrics import Language, answer_f1, answer_scores, exact_match, normalise_answer
from attentif.view.blocks import Block, Cell, FigureBlock, Paragraph, Section, TableBlock, TokensBlock
from attentif.view.words import IN_WORDS, Text, Words, percent

SENTENCE = re.compile(r"[^.!?]+(?:[.!?]+(?=\s|$)|[.!?](?!\s|$)|$)*")
AROUND = 160  # characters of a passage shown on either side of an answer


# ------------------------------------------------------------------------------------------------------------ baselines


def answer_baselines(
    questions: Sequence[str], contexts: Sequence[str], references: Sequence[Sequence[str]], language: Language, say: Say
) -> list[Baseline]:
    """The sentence that shares most words with the question, and what it says beyond the question's words."""
    systems = [
        (Text("phrase la plus proche de la question", "sentence closest to the question"), closest_sentence),
        (Text("mots nouveaux de la phrase la plus proche", "new words of the closest sentence"), new_words),
    ]
    found = []
    for name, answer in systems:
        with measure_time() as clock:
            answers = [answer(q, c, language) for q, c in zip(questions, contexts, strict=True)]
        score = lambda of, answers=answers: np.array([of(a, own, language) for a, own in zip(answers, references, strict=True)])
        scores, intervals = answer_scores(score(exact_match), score(answer_f1))
        found.append(Baseline(name, scores, intervals, clock.seconds))
        say(f"baseline {name.en}: F1 {100 * scores['answer_f1']:.1f} % ({clock.seconds:.1f} s)")
    return found


def closest_sentence(question: str, context: str, language: Language) -> str:
    """The first of the sentences with the largest share of words that are the question's."""
    asked = set(normalise_answer(question, language).split())
    sentences = [sentence for sentence in (match.group().strip() for match in SENTENCE.finditer(context)) if sentence] or [context]
    return max(sentences, key=lambda sentence: len(asked & set(normalise_answer(sentence, language).split())))


def new_words(question: str, context: str, language: Language) -> str:
    """The longest run of words of the closest sentence of which the question has none."""
    asked = set(normalise_answer(question, language).split())
    runs: list[list[str]] = [[]]
    for word in closest_sentence(question, context, language).split():
        if asked & set(normalise_answer(word, language).split()):
            runs.append([])
        else:
            runs[-1].append(word)
    longest = max(map(len, runs))
    return " ".join(next(run for run in runs if len(run) == longest))


# --------------------------------------------------------------------------------------------------------------- report


class ShownAnswer(TypedDict):
    question: str
    context: str
    answer: str
    references: list[str]
    span: list[int]  # first character of the answer, and one past its last
    probability: float
    place: str


class Silence(TypedDict):
    """Questions by whether they have an answer, and whether one was given."""

    answered: int
    silent: int
    made_up: int
    rightly_silent: int


class AnswerDetails(Sliced):
    impossible: Silence
    right: list[ShownAnswer]
    wrong: list[ShownAnswer]


def answer_sections(evaluation: Evaluation) -> list[Section]:
    if (details := details_of(evaluation, AnswerDetails)) is None:
        return []
    sections = []
    silent = details["impossible"]
    found: list[Block] = [_silence(silent)] if silent["made_up"] + silent["rightly_silent"] else []
    found += slices(details, "answer_f1", Text("Selon la longueur du passage", "By length of the passage"), unit=IN_WORDS)
    if found:
        sections.append(Section(WHERE, found))
    for entries, title in ((details["wrong"], Text("Erreurs", "Errors")), (details["right"], Text("Réponses exactes", "Exact answers"))):
        if entries:
            sections.append(Section(title, _answers(entries, right=entries is details["right"])))
    return sections


def _silence(counts: Silence) -> FigureBlock:
    from attentif.view.figures import confusion_matrix

    table = [[counts["answered"], counts["silent"]], [counts["made_up"], counts["rightly_silent"]]]

    def draw(*, lang: Any) -> Any:
        names = [Text("le passage répond", "the passage answers"), Text("il ne répond pas", "it does not")]
        return confusion_matrix(table, [name[lang] for name in names], lang=lang)

    about = Text(
        "Une ligne selon que le passage répond ou non ; une colonne selon que le modèle a donné une réponse ou s'est tu.",
        "A row by whether the passage answers or not; a column by whether the model gave an answer or said nothing.",
    )
    return FigureBlock(Text("Sait-il quand se taire ?", "Does it know when to be silent?"), partial(draw), about)


def _answers(entries: Sequence[ShownAnswer], *, right: bool) -> list[Block]:
    heads: list[Words] = [
        Text("question", "question"),
        Text("passage et réponse du modèle", "passage and the model's answer"),
        Text("référence", "reference"),
        Text("confiance", "confidence"),
        Text("où", "where"),
    ]
    none = Text("(sans réponse)", "(no answer)")
    rows: list[list[Cell]] = []
    for entry in entries:
        reference: Cell = " / ".join(dict.fromkeys(entry["references"])) or none
        rows.append([entry["question"], _passage(entry, right=right), reference, percent(entry["probability"]), entry["place"]])
    about = Text(
        "La réponse du modèle est teintée dans le passage ; sans teinte, il a dit qu'il n'y en avait pas.",
        "The model's answer is shaded in the passage; where nothing is, it said that there was none.",
    )
    return [Paragraph(about), TableBlock(heads, rows)]


def _passage(entry: ShownAnswer, *, right: bool) -> Cell:
    context, (start, end) = entry["context"], entry["span"]
    low, high = max(0, start - AROUND), min(len(context), (end or 2 * AROUND) + AROUND)
    before, after = ("… " if low else "") + context[low:start], context[end:high] + (" …" if high < len(context) else "")
    parts = [(before, 0.0), (context[start:end], 0.8 if right else -0.8), (after, 0.0)]
    tokens, shades = zip(*(part for part in parts if part[0]), strict=True)
    return TokensBlock(tokens, shades, whole=1.0)
