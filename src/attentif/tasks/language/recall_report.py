"""What the report says of answers at places: which of them are right, by their order, by length, and the rows that went wrong."""

from functools import partial
from typing import TypedDict

from attentif.tasks.answers import Evaluation
from attentif.tasks.details import Sliced, details_of
from attentif.tasks.metrics import Slice
from attentif.tasks.report import WHERE, slices
from attentif.view.blocks import Block, Cell, FigureBlock, Section, TableBlock
from attentif.view.words import Text, metric


class RecallError(TypedDict):
    text: str
    wanted: str
    given: str


class RecallDetails(Sliced):
    by_order: list[Slice]  # by the position of the answer in its text
    errors: list[RecallError]


def recall_sections(evaluation: Evaluation) -> list[Section]:
    if (details := details_of(evaluation, RecallDetails)) is None:
        return []
    found: list[Block] = [_by_order(details["by_order"])] if len(details["by_order"]) > 1 else []
    found += slices(details, "exact_match")
    sections = [Section(WHERE, found)] if found else []
    if details["errors"]:
        rows: list[list[Cell]] = [[entry["text"], entry["given"], entry["wanted"]] for entry in details["errors"]]
        heads = [Text("texte", "text"), Text("réponses du modèle", "the model's answers"), Text("réponses justes", "right answers")]
        sections.append(Section(Text("Erreurs", "Errors"), [TableBlock(heads, rows)]))
    return sections


def _by_order(parts: list[Slice]) -> FigureBlock:
    from attentif.view.figures import Axis, Band, banded_curves

    low, high = ([part["interval"][end] for part in parts] for end in (0, 1))
    right = Band(metric("accuracy").name, [part["low"] for part in parts], [part["value"] for part in parts], low, high)
    which = Axis(Text("la combientième réponse du texte", "which answer of the text"))
    about = Text("La bande est l'intervalle à 95 %.", "The band is the 95 % interval.")
    title = Text("Réponse par réponse", "Answer by answer")
    return FigureBlock(title, partial(banded_curves, [right], which, Axis.of(metric("accuracy"))), about)
