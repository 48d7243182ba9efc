"""The page of a profile, and its table."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median

from attentif.lab.profile.crossings import Quantity, sentence
from attentif.lab.profile.measure import PHASES, Phase
from attentif.lab.profile.report import QUANTITIES, Fit, Profile
from attentif.lab.timing import middle_half
from attentif.view.blocks import Block, Cell, FigureBlock, Paragraph, Score, Section, TableBlock
from attentif.view.figures.axes import BYTES, LENGTH, SECONDS
from attentif.view.figures.scaling import Growth, Law, scaling
from attentif.view.page import Page, write
from attentif.view.words import Number, Text, Words, count, number, size, with_decimals, with_unit

TITLE = Text("Temps et mémoire selon la longueur", "Time and memory against length")
NAMES: dict[Phase, Text] = {
    "forward": Text("Lecture", "Reading (forward)"),
    "training": Text("Apprentissage", "Training (forward and backward)"),
    "decoding": Text("Un pas de génération", "A decoding step"),
}
QUANTITY_NAMES: dict[Quantity, Text] = {"seconds": Text("temps", "time"), "bytes": Text("mémoire", "memory")}
AXES = {"seconds": SECONDS, "bytes": BYTES}
HOW = Text(
    "Une ligne de jetons, en float32, sur le processeur. Le temps est la médiane des tours, où chaque longueur de chaque modèle passe "
    "une fois ; les traits donnent leur moitié centrale. La mémoire est celle que le système d’exploitation compte au plus haut pendant "
    "un passage, au-dessus de ce qui était tenu avant (les poids et l’entrée) ; pour la génération s’y ajoute l’état, compté. "
    "L’exposant est ajusté sur la moitié la plus longue des longueurs, avec son intervalle à 95 %.",
    "One row of tokens, in float32, on the processor. Time is the median of the rounds, in each of which every length of every model runs "
    "once; whiskers give their middle half. Memory is what the operating system counts at the peak of one pass, above what was held before "
    "(weights and input); for decoding the state, counted, comes on top. The exponent is fitted to the longer half of the lengths, with "
    "its 95% interval.",
)
READING = Text(
    "Deux axes logarithmiques : une droite de pente 1 est linéaire, de pente 2 quadratique. En tirets, la loi ajustée.",
    "Both axes are logarithmic: a line of slope 1 is linear, of slope 2 quadratic. Dashed: the fitted law.",
)


def milliseconds(seconds: float) -> Number:
    """Three digits: 0.0421 s is 42.1 ms."""
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= factor or unit == "µs":
            return with_unit(number(seconds / factor, 3), unit)
    raise AssertionError


def format_fit(fit: Fit | None) -> Number | None:
    """ "1.98 [1.95; 2.01]" """
    if fit is None:
        return None
    value, low, high = (with_decimals(bound, 2) for bound in (fit.law.exponent, fit.law.low, fit.law.high))
    return Number(f"{value.fr} [{low.fr} ; {high.fr}]", f"{value.en} [{low.en}; {high.en}]")


def table(profile: Profile, phase: Phase, quantity: Quantity) -> tuple[list[Words], list[list[Cell]]]:
    """A row a subject, a column a length, then the exponent."""
    write_value = milliseconds if quantity == "seconds" else size
    rows: list[list[Cell]] = []
    for name in profile.subjects:
        rounds = profile.rounds(name, phase, quantity)
        if rounds:
            cells: list[Cell] = [write_value(median(rounds[n])) if n in rounds else None for n in profile.settings.lengths]
            rows.append([name, *cells, format_fit(profile.fit(name, phase, quantity))])
    return ["", *(count(n) for n in profile.settings.lengths), Text("exposant", "exponent")], rows


def growths(profile: Profile, phase: Phase, quantity: Quantity) -> list[Growth]:
    found = []
    for name in profile.subjects:
        rounds = profile.rounds(name, phase, quantity)
        fit = profile.fit(name, phase, quantity)
        if rounds:
            law = None if fit is None else Law(fit.law.factor, fit.law.exponent, *fit.lengths)
            found.append(Growth(name, [(n, _score(values)) for n, values in sorted(rounds.items())], law))
    return found


def _score(values: Sequence[float]) -> Score:
    if len(values) < 2:
        return Score(values[0])
    found = middle_half(list(values))
    return Score(found.median, found.low, found.high)


def sections(profile: Profile) -> list[Section]:
    axis = LENGTH.logarithmic(profile.settings.lengths)
    parts = []
    for phase in PHASES:
        measured = [quantity for quantity in QUANTITIES if growths(profile, phase, quantity)]
        figures: list[Block] = [
            FigureBlock(QUANTITY_NAMES[quantity], partial(scaling, growths(profile, phase, quantity), axis, AXES[quantity]), READING)
            for quantity in measured
        ]
        tables = [TableBlock(*table(profile, phase, quantity), QUANTITY_NAMES[quantity]) for quantity in measured]
        words = [Paragraph(sentence(one)) for quantity in measured for one in profile.against_the_first(phase, quantity)]
        if measured:
            parts.append(Section(NAMES[phase], [*figures, *tables, *words]))
    return [*parts, *_about(profile)]


def _about(profile: Profile) -> list[Section]:
    parts = []
    if profile.left_out:
        columns = [Text("quoi", "what"), Text("étape", "phase"), Text("à partir de", "from"), Text("pourquoi", "why")]
        rows: list[list[Cell]] = [[one.subject, NAMES[one.phase], count(one.length), one.reason] for one in profile.left_out]
        parts.append(Section(Text("Ce qui n’a pas été mesuré", "What was left out"), [TableBlock(columns, rows)]))
    sizes: list[list[Cell]] = [[name, one["kind"], one["parameters"]] for name, one in profile.subjects.items()]
    what = TableBlock([Text("nom", "name"), Text("sorte", "kind"), Text("paramètres", "parameters")], sizes)
    machine = Text("Machine : {machine}. Largeur {width}, {n} tours.", "Machine: {machine}. Width {width}, {n} rounds.").with_(
        machine=profile.machine, width=count(profile.settings.width), n=count(profile.settings.repeats)
    )
    return [*parts, Section(Text("Comment c’est mesuré", "How it is measured"), [Paragraph(HOW), Paragraph(machine), what])]


def profile_page(path: Path, profile: Profile) -> None:
    """Where one overtakes another first, then the figures."""
    of_time = [one for phase in PHASES for one in profile.against_the_first(phase)]
    overtaking = [one for one in of_time if one.since is not None]
    warned = [] if (doubt := profile.warning()) is None else [Paragraph(doubt, "warning")]
    write(path, Page(TITLE, sections(profile), [*warned, *(Paragraph(sentence(one)) for one in overtaking or of_time)]))
