"""The report's part of classifications, drawn from details alone."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NotRequired, TypedDict

import numpy as np

from attentif.tasks.answers import Evaluation
from attentif.tasks.details import Sliced, details_of
from attentif.tasks.metrics import Interval, f1_by_class, never_answered
from attentif.tasks.report import WHERE_WRONG, WORST_ERRORS, slices
from attentif.view.blocks import Block, Cell, FigureBlock, Legend, Paragraph, Section, TableBlock, TokensBlock
from attentif.view.words import Text, Words, count, metric, number, percent

MAX_CHARACTERS = 1200  # of a text shown among the worst errors


class CalibrationBins(TypedDict):
    edges: list[float | None]
    counts: list[float | None]
    confidence: list[float | None]
    accuracy: list[float | None]


class CalibrationError(TypedDict):
    """Expected calibration error: as trained, of the calibrated network, of the answers given."""

    before: float
    network: float
    after: float


class ValidationChoice(TypedDict):
    """What was chosen on validation."""

    temperature: float
    chosen_on: int


class PartScores(TypedDict):
    scores: dict[str, float]
    intervals: dict[str, Interval]


class Parts(TypedDict):
    """An average of a network and a linear model: the network's weight, and each alone."""

    weight: float
    network: PartScores
    linear: PartScores


class TextError(TypedDict):
    """A wrong answer, and what each token contributed to it."""

    text: str
    true: str
    predicted: str
    probability: float
    place: str
    tokens: list[str]
    values: list[float]


class Correction(TypedDict):
    """A text that the linear model gets wrong and the network right."""

    true: str
    linear: str
    probability: float
    place: str
    tokens: list[str]
    values: list[float]


class Corrections(TypedDict):
    counts: dict[str, int]  # texts by who is right: both, network, linear, neither
    examples: list[Correction]


class TextDetails(Sliced):
    """Details of texts with labels."""

    labels: list[str]
    worst: list[TextError]
    answers: NotRequired[ValidationChoice]
    ece: NotRequired[CalibrationError]
    parts: NotRequired[Parts]
    overturned: NotRequired[Corrections]


class ClassDetails(TextDetails):
    """Details where every input has one label."""

    confusion: list[list[int]]
    calibration: CalibrationBins
    precision_recall: dict[str, list[list[float]]]  # (recall, precision, threshold) by class


class LabelDetails(TextDetails):
    """Details where a text may have several labels."""

    by_label: dict[str, list[int]]
    thresholds: list[float]


def classify_sections(evaluation: Evaluation) -> list[Section]:
    if (details := details_of(evaluation, ClassDetails)) is None:
        return []
    sections = [
        *_parts(details, evaluation.scores),
        *_corrections(details),
        Section(Text("Classe par classe", "Class by class"), _classes(details)),
        Section(Text("Le modèle sait-il quand il se trompe ?", "Does the model know when it is wrong?"), _calibration(details)),
    ]
    if found := slices(details, "accuracy"):
        sections.append(Section(WHERE_WRONG, found))
    if details["worst"]:
        sections.append(Section(WORST_ERRORS, _worst(details["worst"])))
    return sections


def multi_label_sections(evaluation: Evaluation) -> list[Section]:
    """Where a text may have several labels at once."""
    if (details := details_of(evaluation, LabelDetails)) is None:
        return []
    sections = [*_parts(details, evaluation.scores), Section(Text("Étiquette par étiquette", "Label by label"), _labels(details))]
    if found := slices(details, "exact_match"):
        sections.append(Section(WHERE_WRONG, found))
    if details["worst"]:
        sections.append(Section(WORST_ERRORS, _worst(details["worst"])))
    return sections


def _parts(details: TextDetails, scores: Mapping[str, float]) -> list[Section]:
    """Where answers are an average: what each part is worth alone."""
    if "parts" not in details or "answers" not in details:
        return []
    parts = details["parts"]
    about = Text(
        "Les réponses de ce modèle sont une moyenne : {network} des probabilités du réseau et {linear} de celles d'un modèle linéaire qui "
        "compte les mots, appris sur les mêmes textes. Le poids a été choisi sur {valid} exemples de validation.",
        "This run's answers are an average: {network} of the network's probabilities and {linear} of those of a linear model that counts "
        "words, fitted on the same texts. The weight was chosen on {valid} validation examples.",
    ).with_(network=percent(parts["weight"]), linear=percent(1 - parts["weight"]), valid=count(details["answers"]["chosen_on"]))
    keys = list(parts["network"]["scores"])
    heads: list[Words] = [Text("part", "part"), *(metric(key).name for key in keys)]
    names = Text("le réseau seul", "the network alone"), Text("le modèle linéaire seul", "the linear model alone")
    scored = [
        (names[0], parts["network"]["scores"]),
        (names[1], parts["linear"]["scores"]),
        (Text("leur moyenne", "their average"), scores),
    ]
    rows: list[list[Cell]] = [[name, *(metric(key).write(own[key]) for key in keys)] for name, own in scored]
    return [
        Section(
            Text("Une moyenne de deux modèles", "An average of two models"),
            [Paragraph(about), TableBlock(heads, rows, strong={len(rows) - 1})],
        )
    ]


def _corrections(details: TextDetails) -> list[Section]:
    """Where the network reads what a linear model says: what it makes of that."""
    if "overturned" not in details:
        return []
    counts, examples = details["overturned"]["counts"], details["overturned"]["examples"]
    about = Text(
        "À côté de chaque mot, le réseau lit ce qu'en dit un modèle linéaire qui compte les mots, et ajoute ses scores aux siens. "
        "Des réponses fausses du modèle linéaire, il corrige {mended} ; de ses réponses justes, il perd {lost}.",
        "Beside each word, the network reads what a linear model that counts words says of it, and adds its scores to that model's. "
        "Of the linear model's wrong answers it mends {mended}; of its right ones it loses {lost}.",
    ).with_(
        mended=Text("{n} sur {all}", "{n} of {all}").with_(n=count(counts["network"]), all=count(counts["network"] + counts["neither"])),
        lost=Text("{n} sur {all}", "{n} of {all}").with_(n=count(counts["linear"]), all=count(counts["linear"] + counts["both"])),
    )
    blocks: list[Block] = [Paragraph(about)]
    if examples:
        shading = Text(
            "Textes que le réseau classe bien, là où le modèle linéaire se trompait avec le plus d'assurance.",
            "Texts that the network classifies correctly, where the linear model was most confidently wrong.",
        )
        heads: list[Words] = [
            Text("vraie classe, et réponse", "true class, and answer"),
            Text("modèle linéaire", "linear model"),
            Text("confiance", "confidence"),
            Text("texte", "text"),
            Text("où", "where"),
        ]
        rows = [[e["true"], e["linear"], percent(e["probability"]), shade(e["tokens"], e["values"]), e["place"]] for e in examples]
        legend = Legend(
            Text("parle pour la réponse du réseau", "speaks for the network's answer"), Text("parle contre", "speaks against it")
        )
        blocks += [Paragraph(shading, "note"), legend, TableBlock(heads, rows)]
    return [Section(Text("Ce que le réseau change au modèle linéaire", "What the network makes of the linear model"), blocks)]


def _labels(details: LabelDetails) -> list[Block]:
    counts = {key: np.asarray(values) for key, values in details["by_label"].items()}
    right, true, predicted = counts["right"], counts["true"], counts["predicted"]
    shares = right / np.maximum(predicted, 1), right / np.maximum(true, 1), 2 * right / np.maximum(true + predicted, 1)
    heads: list[Words] = [
        Text("étiquette", "label"),
        *(metric(key).name for key in ("precision", "recall")),
        "F1",
        Text("seuil", "threshold"),
        Text("exemples", "examples"),
    ]
    rows: list[list[Cell]] = [
        [label, *map(percent, values), percent(threshold), count(int(n))]
        for label, *values, threshold, n in zip(details["labels"], *shares, details["thresholds"], true, strict=True)
    ]
    about = Text(
        "Une étiquette est donnée quand sa probabilité atteint son seuil, choisi sur la validation là où F1 est le meilleur.",
        "A label is given where its probability reaches its threshold, chosen on validation where F1 is best.",
    )
    return [Paragraph(about), TableBlock(heads, rows), *_calibration_note(details)]


def _calibration_note(details: TextDetails) -> list[Block]:
    """What calibration has changed, where there was any."""
    if "answers" not in details or "ece" not in details or (temperature := details["answers"]["temperature"]) == 1.0:
        return []
    errors = details["ece"]
    about = Text(
        "Erreur de calibration (ECE) sur le test : {before} pour le réseau tel qu'il a appris, {network} après division de ses scores par "
        "une température de {temperature} choisie sur la validation, {after} pour les réponses données.",
        "Calibration error (ECE) on the test: {before} for the network as trained, {network} once its scores are divided by a temperature "
        "of {temperature} chosen on validation, {after} for the answers given.",
    ).with_(
        temperature=number(temperature, 3),
        before=percent(errors["before"]),
        network=percent(errors["network"]),
        after=percent(errors["after"]),
    )
    return [Paragraph(about, "note")]


def _classes(details: ClassDetails) -> list[Block]:
    from attentif.view.figures import confusion_matrix

    table, labels = np.asarray(details["confusion"]), details["labels"]
    right, true, predicted = np.diagonal(table), table.sum(1), table.sum(0)
    precision, recall = right / np.maximum(predicted, 1), right / np.maximum(true, 1)
    rows: list[list[Cell]] = [
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
    warned: list[Block] = [Paragraph(warning, "note") for warning in never_answered(details)]
    return [*warned, drawn, TableBlock(heads, rows), *_curves(details)]


def _curves(details: ClassDetails) -> list[Block]:
    """What another threshold would find, and at which price."""
    from attentif.view.figures.classify import precision_recall

    if not details.get("precision_recall"):
        return []
    about = Text(
        "À chaque seuil, la part des exemples de la classe qui sont trouvés (rappel), et la part de ce qui "
        "est trouvé qui en est (précision).",
        "At each threshold, the share of the class's examples that are found (recall), and of what is found that "
        "belongs to it (precision).",
    )
    title = Text("Précision et rappel selon le seuil", "Precision and recall by threshold")
    return [FigureBlock(title, partial(precision_recall, details["precision_recall"]), about)]


def _calibration(details: ClassDetails) -> list[Block]:
    from attentif.view.figures import Reliability, calibration

    stored = details["calibration"]
    values = stored["edges"], stored["counts"], stored["confidence"], stored["accuracy"]
    bins = Reliability(*(np.array([np.nan if value is None else value for value in own]) for own in values))
    about = Text(
        "Parmi les réponses annoncées à 90 %, 90 % devraient être justes : sous la diagonale, le modèle est trop sûr de lui.",
        "Of the answers announced at 90%, 90% should be right: below the diagonal, the model is too sure of itself.",
    )
    drawn: list[Block] = [FigureBlock(Text("Calibration", "Calibration"), partial(calibration, bins), about)]
    return drawn + _calibration_note(details)


def _worst(errors: Sequence[TextError]) -> list[Block]:
    about = Text(
        "Les erreurs dont le modèle était le plus sûr, et ce que chaque mot y a fait (gradient × vecteur du jeton). Certaines étiquettes "
        "sont peut-être fausses : c'est ici qu'on les voit.",
        "The most confident errors, and what each word did (gradient × token vector). Some labels may be wrong themselves: this is where "
        "one sees them.",
    )
    heads = [
        Text("vraie classe", "true class"),
        Text("réponse", "answer"),
        Text("confiance", "confidence"),
        Text("texte", "text"),
        Text("où", "where"),
    ]
    rows: list[list[Cell]] = [
        [e["true"], e["predicted"], percent(e["probability"]), shade(e["tokens"], e["values"]), e["place"]] for e in errors
    ]
    legend = Legend(
        Text("parle pour la réponse donnée", "speaks for the answer given"), Text("parle pour la vraie classe", "speaks for the true class")
    )
    return [Paragraph(about), legend, TableBlock(heads, rows)]


def shade(tokens: list[str], values: list[float]) -> Cell:
    shown: list[str] = []
    length = 0
    for token in tokens:
        length += len(token)
        if length > MAX_CHARACTERS:
            return TokensBlock([*shown, " …"], [*values[: len(shown)], 0.0])
        shown.append(token)
    return TokensBlock(shown, values)
