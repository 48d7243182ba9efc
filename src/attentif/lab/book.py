"""Pages of experiments: one, or the whole course, measured."""

from collections.abc import Sequence
from pathlib import Path

from attentif.lab.documents import DOCUMENTS
from attentif.lab.experiment import Outcome, Part, capital
from attentif.lab.results import Result
from attentif.view.blocks import Block, Cell, Paragraph, Section, TableBlock
from attentif.view.page import Page, write
from attentif.view.words import Text, Words, duration

TITLE = Text("Le cours, mesuré", "The course, measured")
LEAD = Text(
    "Ce que disent cinq documents de cours sur les transformers, mesuré sur un ordinateur ordinaire. Chaque verdict est calculé à partir "
    "des nombres, avec des seuils écrits d’avance ; il peut contredire le document.",
    "What five course documents say about transformers, measured on an ordinary computer. Each verdict is computed from the numbers, with "
    "limits written down beforehand; it may contradict the document.",
)
MARKS = {Outcome.HOLDS: "●", Outcome.IN_PART: "◐", Outcome.NOT: "○", Outcome.OPEN: "?"}
MANY = {  # in a count of them
    Outcome.HOLDS: Text("vérifiées", "hold"),
    Outcome.IN_PART: Text("vérifiées en partie", "hold in part"),
    Outcome.NOT: Text("non vérifiées", "do not hold"),
    Outcome.OPEN: Text("indécises", "undecided"),
}
FOUND, EXPECTED = Text("trouvé", "found"), Text("attendu", "expected")
CONTROLS = Text(
    "Contrôles : ils disent si la mesure est valable, et ne décident pas de l’affirmation.",
    "Controls: they say whether the measurement is sound, and do not decide the claim.",
)
CLAIM, VERDICT = Text("affirmation", "claim"), Text("verdict", "verdict")


def write_one(path: Path, result: Result) -> None:
    """The page of one experiment."""
    head, *rest = _blocks(result)
    write(path, Page(_title(result), [Section(Text("Mesure", "Measurement"), rest), _documents()], [head]))


def write_book(path: Path, results: Sequence[Result]) -> None:
    """All of them on one page, the verdicts first."""
    rows: list[list[Cell]] = [
        [result.experiment.name, capital(result.experiment.claim), mark_outcome(result.verdict.outcome)] for result in results
    ]
    lead: list[Block] = [Paragraph(LEAD, "lead"), TableBlock(["", CLAIM, VERDICT], rows), Paragraph(_totals(results), "note")]
    sections = [Section(_title(result), _blocks(result)) for result in results]
    write(path, Page(TITLE, [*sections, _documents()], lead))


def _documents() -> Section:
    """What the numbers in brackets stand for."""
    rows: list[list[Cell]] = [[f"[{number}]", title] for number, title in DOCUMENTS.items()]
    return Section(Text("Les documents", "The documents"), [TableBlock(["", Text("titre", "title")], rows)])


def mark_outcome(outcome: Outcome) -> Text:
    """The verdict with a symbol, readable without colours."""
    return Text(*(f"{MARKS[outcome]} {outcome.words[lang]}" for lang in ("fr", "en")))


def _title(result: Result) -> Text:
    name, title = result.experiment.name, result.experiment.title
    return Text(f"{name} · {title.fr}", f"{name} · {title.en}")


def _totals(results: Sequence[Result]) -> Text:
    counts = {outcome: sum(result.verdict.outcome is outcome for result in results) for outcome in Outcome}
    fr, en = (", ".join(f"{count} {MANY[outcome][lang]}" for outcome, count in counts.items()) for lang in ("fr", "en"))
    return Text(f"{len(results)} affirmations : {fr}.", f"{len(results)} claims: {en}.")


def _blocks(result: Result) -> list[Block]:
    """Verdict first, then what it rests on."""
    experiment, verdict = result.experiment, result.verdict
    outcome = mark_outcome(verdict.outcome)
    lead = capital(Text(f"{experiment.claim.fr} — {outcome.fr}.", f"{experiment.claim.en} — {outcome.en}."))
    found: list[Block] = [Paragraph(lead, "lead"), _table(verdict.parts)]
    if verdict.controls:
        found += [Paragraph(CONTROLS, "note"), _table(verdict.controls)]
    if verdict.remark:
        found.append(Paragraph(verdict.remark, "note"))
    found += [Paragraph(choice, "warning") for choice in experiment.choices]
    found += experiment.figures(result.measurements)
    found.append(Paragraph(experiment.method))
    if experiment.says:
        quotes: list[list[Cell]] = [[f"[{number}]", words] for number, words in experiment.says.items()]
        found.append(TableBlock([Text("document", "document"), Text("ce qu’il dit", "what it says")], quotes))
    if experiment.erratum:
        found.append(Paragraph(experiment.erratum, "warning"))
    found += [Paragraph(remark, "note") for remark in experiment.remarks]
    if experiment.papers:
        found.append(Paragraph(Text(f"Voir : {' ; '.join(experiment.papers)}.", f"See: {'; '.join(experiment.papers)}."), "note"))
    return [*found, Paragraph(_describe_origin(result), "note")]


def _table(parts: Sequence[Part]) -> TableBlock:
    rows: list[list[Cell]] = [[capital(part.found), capital(part.expected), capital(part.decided)] for part in parts]
    return TableBlock([FOUND, EXPECTED, Text("décision", "decision")], rows)


def _describe_origin(result: Result) -> Words:
    """Date, machine and versions of the measurement."""
    took, size, seeds = duration(result.duration), Text(*SIZES[result.settings.size]), describe_seeds(result)
    tools = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    threads = result.machine["threads"]
    where = f"{result.machine['processor']} ({threads} thread{'s' if threads > 1 else ''})"
    return Text(
        f"Mesuré le {result.date[:10]} en {took.fr} (taille {size.fr}, graine {result.settings.seed}){seeds.fr} : {tools} ; {where}.",
        f"Measured on {result.date[:10]} in {took.en} ({size.en} size, seed {result.settings.seed}){seeds.en}: {tools}; {where}.",
    )


def describe_seeds(result: Result) -> Text:
    """What was added because fewer seeds had left a part undecided: an interval looked at twice errs a little more often than 5 %."""
    more = result.settings.more
    if more == 1:
        return Text("", "")
    return Text(
        f", avec {more} fois plus de graines que d’ordinaire, car moins laissaient une partie indécise",
        f", with {more} times the usual seeds, for fewer had left a part undecided",
    )


SIZES = {"tiny": ("d’essai", "tiny"), "normal": ("normale", "normal"), "full": ("complète", "full")}
