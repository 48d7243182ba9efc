"""Words in two languages: every label of a figure or a report is a `Text`, so that one page can show either language."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal, TypeVar

from attentif.french import typeset

Lang = Literal["fr", "en"]
LANGS: tuple[Lang, Lang] = ("fr", "en")

RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
THIN_SPACE = "\u202f"  # before a French % or unit and between French thousands; does not break
VOWELS = frozenset("aeiouàâäéèêëîïôöùûü")


@dataclass(frozen=True, slots=True)
class Text:
    """The same thing in French, set by `typeset`, and in English."""

    fr: str
    en: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "fr", typeset(self.fr))

    def __getitem__(self, lang: Lang) -> str:
        return self.fr if lang == "fr" else self.en

    def with_(self, **values: "Words") -> "Text":
        """The sentence with its `{names}` filled in, each in its own language."""
        fr, en = ({name: say(value, lang) for name, value in values.items()} for lang in LANGS)
        return Text(self.fr.format(**fr), self.en.format(**en))


@dataclass(frozen=True, slots=True)
class Number(Text):
    """A quantity written the way each language writes numbers; tables align it to the right."""


Words = Text | str  # a plain string is a name or a user's own text, the same in both languages
W = TypeVar("W", bound=Text | str)  # for the keys of mappings, in which Python's types tell str from Words
LOWER = Text("↓ : le plus bas est le meilleur", "↓: lower is better")
EXAMPLES, IN_TOKENS, IN_WORDS = Text("exemples", "examples"), Text("jetons", "tokens"), Text("mots", "words")  # what is counted


def say(words: Words, lang: Lang) -> str:
    return words if isinstance(words, str) else words[lang]


def _number(english: str, unit: str = "", french_unit: str | None = None) -> Number:
    french = english.replace(",", THIN_SPACE).replace(".", ",") + (unit if french_unit is None else french_unit)
    return Number(french.replace(" ", THIN_SPACE), english + unit)


def with_unit(value: Number, unit: str) -> Number:
    """42.1 ms, 12.3 M; in French no line ends between the two."""
    return Number(f"{value.fr}{THIN_SPACE}{unit}", f"{value.en} {unit}")


def number(value: float, digits: int = 4) -> Number:
    """A number with this many significant digits."""
    if not math.isfinite(value):
        return Number("—", "—") if math.isnan(value) else Number("∞", "∞") if value > 0 else Number("−∞", "−∞")
    if value == 0:
        return Number("0", "0")
    magnitude = math.floor(math.log10(abs(value)))
    if magnitude < -4:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return times_ten_to(mantissa.rstrip("0").rstrip("."), int(exponent))
    return with_decimals(value, max(0, digits - 1 - magnitude))


def times_ten_to(mantissa: str, exponent: int) -> Number:
    """4.2 × 10⁻⁷"""
    return _number(mantissa.replace("-", "−"), f" × 10{str(exponent).translate(RAISED)}")


def with_decimals(value: float, decimals: int = 1) -> Number:
    """A number with this many decimals."""
    return _number(f"{value:z,.{decimals}f}".replace("-", "−")) if math.isfinite(value) else number(value)  # z: no −0.0


def count(value: int) -> Number:
    return _number(f"{value:,}".replace("-", "−"))


def percent(share: float, digits: int = 1) -> Number:
    if not math.isfinite(share):
        return number(share)
    return _number(f"{100 * share:.{digits}f}".replace("-", "−"), "%", f"{THIN_SPACE}%")


def duration(seconds: float) -> Number:
    """Seconds under a minute and a half, then minutes, then hours."""
    if seconds < 90:
        return _number(f"{seconds:.1f}" if seconds < 10 else f"{seconds:.0f}", " s")
    minutes = round(seconds / 60)
    if minutes < 90:
        return _number(f"{minutes}", " min")
    return _number(f"{minutes // 60} h {minutes % 60:02d}", " min")


def size(byte_count: float) -> Number:
    """Decimal bytes: Mo in French, MB in English."""
    for factor, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if byte_count >= factor:
            return _number(f"{byte_count / factor:.3g}", f" {prefix}B", f" {prefix}o")
    return _number(f"{byte_count:.0f}", " B", " o")


@dataclass(frozen=True, slots=True)
class Metric:
    """What a score is called, how it is written, and which way is better."""

    key: str
    name: Text
    share: bool = False  # between 0 and 1, written as a percentage
    higher_is_better: bool = True

    @property
    def title(self) -> Text:
        """Its name, with a note if lower is better."""
        return self.name_with_direction(" ")

    def name_with_direction(self, between: str) -> Text:
        if self.higher_is_better:
            return self.name
        return Text(f"{self.name.fr}{between}(le plus bas est le meilleur)", f"{self.name.en}{between}(lower is better)")

    @property
    def head(self) -> Text:
        """The head of a column; `LOWER` explains its arrow."""
        return self.name if self.higher_is_better else Text(f"{self.name.fr} ↓", f"{self.name.en} ↓")

    def write(self, value: float) -> Number:
        return (percent if self.share else number)(value)

    def write_alike(self, values: Sequence[float]) -> list[Number]:
        """Values that stand together, such as a score and its interval, with the decimals of the largest."""
        largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
        if self.share or not 1e-4 <= largest < 1e6:
            return [self.write(value) for value in values]
        return [with_decimals(value, max(0, 3 - math.floor(math.log10(largest)))) for value in values]


METRICS: dict[str, Metric] = {
    m.key: m
    for m in (
        Metric("accuracy", Text("exactitude", "accuracy"), share=True),
        Metric("f1", Text("F1 (moyenne des classes)", "F1 (mean over classes)"), share=True),
        Metric("micro_f1", Text("F1 (toutes étiquettes ensemble)", "F1 (all labels together)"), share=True),
        Metric("network_accuracy", Text("exactitude du réseau seul", "accuracy of the network alone"), share=True),
        Metric("linear_accuracy", Text("exactitude du modèle linéaire seul", "accuracy of the linear model alone"), share=True),
        Metric("network_micro_f1", Text("F1 du réseau seul", "F1 of the network alone"), share=True),
        Metric("linear_micro_f1", Text("F1 du modèle linéaire seul", "F1 of the linear model alone"), share=True),
        Metric("precision", Text("précision", "precision"), share=True),
        Metric("recall", Text("rappel", "recall"), share=True),
        Metric("exact_match", Text("réponses exactes", "exact match"), share=True),
        Metric("recall_at_1", Text("trouvés du premier coup", "found first"), share=True),
        Metric("recall_at_5", Text("trouvés parmi les cinq premiers", "found among the first five"), share=True),
        Metric("token_accuracy", Text("exactitude par jeton", "token accuracy"), share=True),
        Metric("entity_f1", Text("F1 des entités", "entity F1"), share=True),
        Metric("entity_precision", Text("précision des entités", "entity precision"), share=True),
        Metric("entity_recall", Text("rappel des entités", "entity recall"), share=True),
        Metric("answer_f1", Text("F1 des mots de la réponse", "F1 of the answer's words"), share=True),
        Metric("rouge1", Text("ROUGE-1", "ROUGE-1"), share=True),
        Metric("rouge2", Text("ROUGE-2", "ROUGE-2"), share=True),
        Metric("rougeL", Text("ROUGE-L", "ROUGE-L"), share=True),
        Metric("bleu", Text("BLEU", "BLEU")),
        Metric("chrf", Text("chrF", "chrF")),
        Metric("wer", Text("taux d’erreur par mot", "word error rate"), share=True, higher_is_better=False),
        Metric("cer", Text("taux d’erreur par caractère", "character error rate"), share=True, higher_is_better=False),
        Metric("loss", Text("perte", "loss"), higher_is_better=False),
        Metric("mse", Text("erreur quadratique moyenne (MSE)", "mean squared error (MSE)"), higher_is_better=False),
        Metric("mae", Text("erreur absolue moyenne (MAE)", "mean absolute error (MAE)"), higher_is_better=False),
        Metric("rmse", Text("racine de l’erreur quadratique moyenne (RMSE)", "root mean squared error (RMSE)"), higher_is_better=False),
        Metric("r2", Text("variance expliquée (R²)", "variance explained (R²)")),
        Metric("mase", Text("erreur absolue relative à la saison (MASE)", "mean absolute scaled error (MASE)"), higher_is_better=False),
        Metric("pinball", Text("perte quantile", "quantile loss"), higher_is_better=False),
        Metric("coverage", Text("couverture de la bande", "coverage of the band"), share=True),
        Metric("balanced_accuracy", Text("exactitude équilibrée", "balanced accuracy"), share=True),
        Metric("average_precision", Text("précision moyenne (AP)", "average precision"), share=True),
        Metric("auc", Text("aire sous la courbe ROC", "area under the ROC curve"), share=True),
        Metric("follows", Text("exactitude de la phrase suivante", "next-sentence accuracy"), share=True),
        Metric("perplexity", Text("perplexité", "perplexity"), higher_is_better=False),
        Metric("together", Text("exactitude sur les paires de voisins", "accuracy on neighbouring pairs"), share=True),
        Metric("spearman", Text("corrélation avec les jugements humains (Spearman)", "correlation with human judgements (Spearman)")),
        Metric("analogies", Text("analogies résolues", "analogies solved"), share=True),
        Metric("asked", Text("part des questions dont tous les mots sont connus", "share of questions with known words"), share=True),
        Metric("recognised", Text("dessins reconnus", "drawings recognised"), share=True),
        Metric("bits_per_token", Text("bits par jeton", "bits per token"), higher_is_better=False),
        Metric("bits_per_byte", Text("bits par octet", "bits per byte"), higher_is_better=False),
        Metric("expert_entropy", Text("équilibre des experts", "balance of the experts"), share=True),
        Metric("ece", Text("erreur de calibration (ECE)", "calibration error (ECE)"), share=True, higher_is_better=False),
    )
}


def metric(key: str) -> Metric:
    """The metric of that name; a plug-in's own metric, unknown here, is called by its key."""
    name = key.replace("_", " ")
    return METRICS.get(key) or Metric(key, Text(name, name))


SPLITS = {
    "train": Text("apprentissage", "training"),
    "valid": Text("validation", "validation"),
    "test": Text("test", "test"),
}


def split_name(split: str) -> Words:
    return SPLITS.get(split, split)


PARTS = {
    "embedding": "plongements",
    "frontend": "entrée",
    "encoder": "encodeur",
    "decoder": "décodeur",
    "head": "tête",
    "linear": "linéaire",
}


def part_name(name: str) -> Text:
    """A part of a model: "encoder 1 attn"."""
    first, *rest = name.split(" ")
    return Text(" ".join([PARTS.get(first, first), *rest]), name)


MONTHS = ["janvier", "février", "mars", "avril", "mai", "juin", "juillet", "août", "septembre", "octobre", "novembre", "décembre"]


def day(when: date) -> Text:
    """ "1 May 2026" """
    return Text(f"{'1er' if when.day == 1 else when.day} {MONTHS[when.month - 1]} {when.year}", f"{when.day} {when:%B %Y}")


Writer = Callable[[float], Number]
UNITS: dict[str, tuple[Text, Writer]] = {
    "parameters": (Text("paramètres", "parameters"), lambda value: count(round(value))),
    "seconds": (Text("secondes", "seconds"), duration),
    "bytes": (Text("mémoire", "memory"), size),
}
Unit = Literal["parameters", "seconds", "bytes"]


def quote(text: str) -> Text:
    return Text(f"« {text} »", f"“{text}”")


def join_names(names: Sequence[Words]) -> Text:
    """ "a, b and c" """
    parts = []
    for lang, last in (("fr", " et "), ("en", " and ")):
        said = [say(name, lang) for name in names]  # type: ignore[arg-type]
        parts.append(last.join([", ".join(said[:-1]), said[-1]]) if len(said) > 1 else "".join(said))
    return Text(*parts)


def than(name: str) -> Text:
    """ "than mamba"; French drops its vowel before another: "que mamba", "qu’attention" """
    que = "qu’" if name[:1].lower() in VOWELS else "que "
    return Text(f"{que}{name}", f"than {name}")


def big(value: float) -> Number:
    """12.3 M"""
    for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return with_unit(number(value / factor, 3), prefix)
    return number(value, 3)


def plural(number_of: int, noun: Text) -> Text:
    many = "s" if number_of > 1 else ""
    amount: Number = count(number_of)
    return Text(f"{amount.fr} {noun.fr}{many}", f"{amount.en} {noun.en}{many}")
