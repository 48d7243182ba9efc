"""The tasks' own parts of the report, drawn from an evaluation's details alone, without the model."""

from functools import partial
from typing import Any

import numpy as np

from attentif.tasks.metrics import f1_by_class
from attentif.tasks.task import Evaluation
from attentif.view.blocks import Block, Cell, Code, FigureBlock, Paragraph, Score, Section, Table, Tokens
from attentif.view.words import Text, Words, count, metric, percent

MOST_CHARACTERS = 1200  # of a text shown among the worst errors


def classify_sections(evaluation: Evaluation) -> list[Section]:
    details = evaluation.details
    if "confusion" not in details:
        return []
    sections = [
        Section(Text("Classe par classe", "Class by class"), _classes(details)),
        Section(Text("Le modèle sait-il quand il se trompe ?", "Does the model know when it is wrong?"), _calibration(details)),
    ]
    if slices := _slices(details):
        sections.append(Section(Text("Où il se trompe", "Where it is wrong"), slices))
    if details["worst"]:
        sections.append(Section(Text("Les pires erreurs", "The worst errors"), _worst(details["worst"])))
    return sections


def _classes(details: dict[str, Any]) -> list[Block]:
    from attentif.view.figures import confusion_matrix

    table, labels = np.asarray(details["confusion"]), details["labels"]
    right, true, predicted = np.diagonal(table), table.sum(1), table.sum(0)
    precision, recall = right / np.maximum(predicted, 1), right / np.maximum(true, 1)
    rows = [
        [label, percent(p), percent(r), percent(f), count(int(n))]
        for label, p, r, f, n in zip(labels, precision, recall, f1_by_class(table), true, strict=True)
    ]
    heads: list[Words] = [
        Text("classe", "class"),
        *(metric(key).name for key in ("precision", "recall")),
        "F1",
        Text("exemples", "examples"),
    ]
    about = Text(
        "Une ligne par vraie classe : ce que le modèle en a fait. La diagonale est juste.",
        "A row per true class: what the model made of it. The diagonal is right.",
    )
    drawn = FigureBlock(Text("Matrice de confusion", "Confusion matrix"), partial(confusion_matrix, table, labels), about)
    return [drawn, Table(heads, rows)]


def _calibration(details: dict[str, Any]) -> list[Block]:
    from attentif.view.figures import Reliability, calibration

    stored = details["calibration"]
    bins = Reliability(
        *(np.array([np.nan if v is None else v for v in stored[key]]) for key in ("edges", "counts", "confidence", "accuracy"))
    )
    about = Text(
        "Parmi les réponses annoncées à 90 %, 90 % devraient être justes : sous la diagonale, le modèle est trop sûr de lui.",
        "Of the answers announced at 90%, 90% should be right: below the diagonal, the model is too sure of itself.",
    )
    return [FigureBlock(Text("Calibration", "Calibration"), partial(calibration, bins), about)]


def _slices(details: dict[str, Any]) -> list[Block]:
    blocks: list[Block] = []
    if len(details["by_length"]) > 1:
        blocks.append(length_figure("accuracy", details["by_length"]))
    if len(details.get("by_group", [])) > 1:
        blocks.append(group_table(details["by_group"]))
    return blocks


def _worst(errors: list[dict[str, Any]]) -> list[Block]:
    about = Text(
        "Les erreurs dont le modèle était le plus sûr. Ce qui a parlé pour la réponse donnée est d'une couleur, ce qui a parlé pour la "
        "vraie classe de l'autre (gradient × vecteur du jeton). Certaines étiquettes sont peut-être fausses : c'est ici qu'on les voit.",
        "The errors that the model was surest of. What spoke for its answer has one colour, what spoke for the true class the other "
        "(gradient × token vector). Some labels may be wrong themselves: this is where one sees them.",
    )
    heads = [
        Text("vraie classe", "true class"),
        Text("réponse", "answer"),
        Text("sûr à", "sure at"),
        Text("texte", "text"),
        Text("où", "where"),
    ]
    rows = [[e["true"], e["predicted"], percent(e["probability"]), _shaded(e["tokens"], e["values"]), e["place"]] for e in errors]
    return [Paragraph(about), Table(heads, rows)]


def _shaded(tokens: list[str], values: list[float]) -> Cell:
    shown: list[str] = []
    length = 0
    for token in tokens:
        length += len(token)
        if length > MOST_CHARACTERS:
            return Tokens([*shown, " …"], [*values[: len(shown)], 0.0])
        shown.append(token)
    return Tokens(shown, values)


# ------------------------------------------------------------------------------------------------------------- language


def language_sections(evaluation: Evaluation) -> list[Section]:
    details = evaluation.details
    if "excerpt" not in details:
        return []
    sections = [Section(Text("Ce qui surprend le modèle", "What surprises the model"), _surprise(details))]
    if details["samples"]:
        sections.append(Section(Text("Ce que le modèle écrit", "What the model writes"), _samples(details["samples"])))
    return sections


def _surprise(details: dict[str, Any]) -> list[Block]:
    about = Text(
        "Un passage du test. Plus un jeton est foncé, moins le modèle l'attendait, en bits : 1 bit, il hésitait entre deux jetons ; "
        "10 bits, entre mille.",
        "A passage of the test. The darker a token, the less the model expected it, in bits: 1 bit, it wavered between two tokens; "
        "10 bits, between a thousand.",
    )
    blocks: list[Block] = [Paragraph(about), Tokens(details["excerpt"]["tokens"], details["excerpt"]["bits"], whole=12.0)]
    if len(details["by_place"]) > 1:
        title = Text("Plus le modèle a lu, moins il se trompe ?", "The more it has read, the less it errs?")
        blocks.append(length_figure("loss", details["by_place"], title))
    return blocks


def _samples(samples: list[dict[str, str]]) -> list[Block]:
    about = Text(
        "Après un passage du test, le modèle continue (température 0,8).",
        "After a passage of the test, the model goes on (temperature 0.8).",
    )
    blocks: list[Block] = [Paragraph(about)]
    for sample in samples:
        blocks += [
            Code(sample["prompt"], caption=Text("le début", "the beginning")),
            Code(sample["written"], caption=Text("la suite", "the rest")),
        ]
    return blocks


# ---------------------------------------------------------------------------------------------------------- translation


def translate_sections(evaluation: Evaluation) -> list[Section]:
    details = evaluation.details
    if "translations" not in details:
        return []
    sections = []
    slices: list[Block] = []
    if len(details["by_length"]) > 1:
        slices.append(length_figure(details["by_length_metric"], details["by_length"]))
    if len(details.get("by_group", [])) > 1:
        slices.append(group_table(details["by_group"]))
    if slices:
        sections.append(Section(Text("Où il réussit, où il échoue", "Where it succeeds, where it fails"), slices))
    for key, title in (("wrong", Text("Erreurs", "Errors")), ("translations", Text("Traductions", "Translations"))):
        if details[key]:
            heads: list[Words] = [
                Text("source", "source"),
                Text("traduction du modèle", "the model's translation"),
                Text("référence", "reference"),
            ]
            rows = [[entry["source"], entry["written"], entry["reference"]] for entry in details[key]]
            sections.append(Section(title, [Table(heads, rows)]))
    signatures = ", ".join(f"{key} {value}" for key, value in details["signatures"].items())
    sections[-1] = Section(sections[-1].title, [*sections[-1].body, Paragraph(f"sacrebleu: {signatures}", "note")])
    return sections


# --------------------------------------------------------------------------------------------------------------- slices


def length_figure(key: str, parts: list[dict[str, Any]], title: Text = Text("Selon la longueur", "By length")) -> FigureBlock:
    """The score of short and of long examples; `parts` is what `metrics.by_length` returns."""
    from attentif.view.figures import Bucket, by_length

    buckets = [Bucket(part["low"], part["high"], Score(part["value"], *part["interval"]), part["examples"]) for part in parts]
    return FigureBlock(title, partial(by_length, key, buckets))


def group_table(groups: list[dict[str, Any]]) -> Table:
    """Scores by group; `groups` is what `metrics.by_group` returns."""
    keys = [key for key in groups[0] if key not in ("group", "examples")]
    heads = [Text("groupe", "group"), *(metric(key).name for key in keys), Text("exemples", "examples")]
    rows = [[entry["group"], *(metric(key).write(entry[key]) for key in keys), count(entry["examples"])] for entry in groups]
    return Table(heads, rows)
