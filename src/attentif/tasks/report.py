"""The tasks' own parts of the report, drawn from an evaluation's details alone, without the model."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from attentif.tasks.metrics import f1_by_class
from attentif.tasks.task import Evaluation
from attentif.view.blocks import Block, Cell, Code, FigureBlock, Paragraph, Score, Section, Table, Tokens
from attentif.view.words import IN_TOKENS, Text, Words, count, metric, number, percent

MOST_CHARACTERS = 1200  # of a text shown among the worst errors
NOTHING = "∅"  # how an answer without a word is shown

# titles and heads that several tasks have
WHERE = Text("Où il réussit, où il échoue", "Where it succeeds, where it fails")
WHERE_WRONG = Text("Où il se trompe", "Where it is wrong")
WORST_ERRORS = Text("Les pires erreurs", "The worst errors")
LENGTHS, GROUP = Text("Selon la longueur", "By length"), Text("groupe", "group")


def classify_sections(evaluation: Evaluation) -> list[Section]:
    details = evaluation.details
    if "confusion" not in details:
        return []
    sections = [
        *_parts(evaluation),
        *_overturned(details),
        Section(Text("Classe par classe", "Class by class"), _classes(details)),
        Section(Text("Le modèle sait-il quand il se trompe ?", "Does the model know when it is wrong?"), _calibration(details)),
    ]
    if found := slices(details, "accuracy"):
        sections.append(Section(WHERE_WRONG, found))
    if details["worst"]:
        sections.append(Section(WORST_ERRORS, _worst(details["worst"])))
    return sections


def several_sections(evaluation: Evaluation) -> list[Section]:
    """Where a text may have several labels at once."""
    details = evaluation.details
    if "by_label" not in details:
        return []
    sections = [*_parts(evaluation), Section(Text("Étiquette par étiquette", "Label by label"), _labels(details))]
    if found := slices(details, "exact_match"):
        sections.append(Section(WHERE_WRONG, found))
    if details["worst"]:
        sections.append(Section(WORST_ERRORS, _worst(details["worst"])))
    return sections


def _parts(evaluation: Evaluation) -> list[Section]:
    """Where answers are an average: what each part is worth alone."""
    details = evaluation.details
    if "parts" not in details:
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
    names = (
        ("network", Text("le réseau seul", "the network alone")),
        ("linear", Text("le modèle linéaire seul", "the linear model alone")),
    )
    scored = [(name, parts[part]["scores"]) for part, name in names] + [(Text("leur moyenne", "their average"), evaluation.scores)]
    rows: list[list[Cell]] = [[name, *(metric(key).write(scores[key]) for key in keys)] for name, scores in scored]
    return [
        Section(
            Text("Une moyenne de deux modèles", "An average of two models"), [Paragraph(about), Table(heads, rows, strong={len(rows) - 1})]
        )
    ]


def _overturned(details: dict[str, Any]) -> list[Section]:
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
            "Textes où le modèle linéaire se trompait le plus sûrement, et que le réseau lit bien. Ce qui parlait pour sa réponse est d'une"
            " couleur, ce qui parlait contre elle de l'autre.",
            "Texts that the linear model was most surely wrong about, and the network reads rightly. What spoke for its answer has "
            "one colour, what spoke against it the other.",
        )
        heads: list[Words] = [
            Text("vraie classe, et réponse", "true class, and answer"),
            Text("modèle linéaire", "linear model"),
            Text("sûr à", "sure at"),
            Text("texte", "text"),
            Text("où", "where"),
        ]
        rows = [[e["true"], e["linear"], percent(e["probability"]), _shaded(e["tokens"], e["values"]), e["place"]] for e in examples]
        blocks += [Paragraph(shading, "note"), Table(heads, rows)]
    return [Section(Text("Ce que le réseau change au modèle linéaire", "What the network makes of the linear model"), blocks)]


def _labels(details: dict[str, Any]) -> list[Block]:
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
    return [Paragraph(about), Table(heads, rows), *_calibrated(details)]


def _calibrated(details: dict[str, Any]) -> list[Block]:
    """What calibration has changed, where there was any."""
    temperature = details.get("answers", {}).get("temperature", 1.0)
    if temperature == 1.0:
        return []
    about = Text(
        "Erreur de calibration (ECE) sur le test : {before} pour le réseau tel qu'il a appris, {network} après division de ses scores par "
        "une température de {temperature} choisie sur la validation, {after} pour les réponses données.",
        "Calibration error (ECE) on the test: {before} for the network as trained, {network} once its scores are divided by a temperature "
        "of {temperature} chosen on validation, {after} for the answers given.",
    ).with_(temperature=number(temperature, 3), **{name: percent(value) for name, value in details["ece"].items()})
    return [Paragraph(about, "note")]


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
    drawn: list[Block] = [FigureBlock(Text("Calibration", "Calibration"), partial(calibration, bins), about)]
    return drawn + _calibrated(details)


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


# -------------------------------------------------------------------------------------------------------- written answers


def written_sections(evaluation: Evaluation, key: str, title: Text, heads: Sequence[Words], groups: Text = GROUP) -> list[Section]:
    """Of tasks whose answer is a text: scores by length and group, errors, and the answers that `details` calls `key`."""
    details = evaluation.details
    if key not in details:
        return []
    sections = []
    if found := slices(details, details["by_length_metric"], groups=groups):
        sections.append(Section(WHERE, found))
    for name, shown in (("wrong", Text("Erreurs", "Errors")), (key, title)):
        if details[name]:
            rows = [[entry["source"], entry["written"] or NOTHING, entry["reference"]] for entry in details[name]]
            sections.append(Section(shown, [Table(heads, rows)]))
    tool = "sacrebleu: " if "bleu" in details["signatures"] else ""
    signatures = tool + ", ".join(f"{name} {value}" for name, value in details["signatures"].items())
    sections[-1] = Section(sections[-1].title, [*sections[-1].body, Paragraph(signatures, "note")])
    return sections


# --------------------------------------------------------------------------------------------------------------- slices


def slices(details: dict[str, Any], key: str, lengths: Text = LENGTHS, groups: Text = GROUP, unit: Text = IN_TOKENS) -> list[Block]:
    """The score `key` of short and of long examples, and of each group, where there are several."""
    blocks: list[Block] = []
    if len(details["by_length"]) > 1:
        blocks.append(length_figure(key, details["by_length"], lengths, unit))
    if len(details.get("by_group", [])) > 1:
        blocks.append(group_table(details["by_group"], groups))
    return blocks


def length_figure(key: str, parts: list[dict[str, Any]], title: Text = LENGTHS, unit: Text = IN_TOKENS) -> FigureBlock:
    """The score of short and of long examples; `parts` is what `metrics.by_length` returns, of lengths in `unit`."""
    from attentif.view.figures import Bucket, by_length

    buckets = [Bucket(part["low"], part["high"], Score(part["value"], *part["interval"]), part["examples"]) for part in parts]
    return FigureBlock(title, partial(by_length, key, buckets, unit))


def group_table(groups: list[dict[str, Any]], head: Text = GROUP) -> Table:
    """Scores by group; `groups` is what `metrics.by_group` returns."""
    keys = [key for key in groups[0] if key not in ("group", "examples")]
    heads = [head, *(metric(key).name for key in keys), Text("exemples", "examples")]
    rows = [[group_name(entry["group"]), *(metric(key).write(entry[key]) for key in keys), count(entry["examples"])] for entry in groups]
    return Table(heads, rows)


# what the built-in sets call their groups, in French; the groups of a file are called as they are
GROUPS = {
    "known names": "noms connus",
    "new names": "noms nouveaux",
    "same words": "mêmes mots",
    "other words": "autres mots",
    "pronoun": "pronom",
    "no answer": "sans réponse",
    "unseen number": "nombre jamais vu",
    "unseen combination": "combinaison jamais vue",
    "quiet line": "ligne calme",
    "noisy line": "ligne bruyante",
    "the beginning": "le début",
    "the middle": "le milieu",
    "the end": "la fin",
    "promoter": "promoteur",
    "wrong distance": "mauvaise distance",
    "wrong order": "mauvais ordre",
    "one box": "une seule boîte",
    "no box": "aucune boîte",
    "other strand": "autre brin",
}


def group_name(name: str) -> Words:
    parts = name.split(", ")
    return Text(", ".join(GROUPS[part] for part in parts), name) if GROUPS.keys() >= set(parts) else name
