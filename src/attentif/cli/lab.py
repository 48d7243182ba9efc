"""`attentif lab`: the claims of the course, measured."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attentif.cli.options import ClusterAddress, Json, Threads
from attentif.cli.out import print_json, print_table
from attentif.errors import UsageError

if TYPE_CHECKING:
    from attentif.lab.experiment import Experiment
    from attentif.lab.results import Result

CHANGED = "changed since"  # measured by other sources of the program


def lab(
    what: Annotated[
        list[str] | None,
        typer.Argument(metavar="L4|all|book", help="Experiments to run; by default list them.", show_default=False),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Full size: longer, with more seeds.")] = False,
    minutes: Annotated[
        float, typer.Option(metavar="N", min=0, help="Add seeds while a part is undecided, for N minutes each at most.")
    ] = 0,
    seed: Annotated[int, typer.Option(metavar="N", min=0, help="Random seed.")] = 0,
    again: Annotated[bool, typer.Option("--again", help="With all: repeat finished experiments too.")] = False,
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Output folder; by default runs/lab.")] = None,
    json: Json = False,
    cluster: ClusterAddress = None,
    threads: Threads = 0,
) -> None:
    """Run the experiments of the course, one per claim.

    \b
    For example:
    attentif lab            list the experiments
    attentif lab L4         run one
    attentif lab all        run all and write the book

    `lab all` stores each result and resumes where it was interrupted; `lab book` writes the book from stored results.
    """
    from attentif.cluster import open_cluster
    from attentif.lab.book import write_book, write_one
    from attentif.lab.experiment import Settings
    from attentif.lab.experiments import EXPERIMENTS
    from attentif.lab.results import PLACE, load_result, measure_all, measure_all_on
    from attentif.runtime import set_threads
    from attentif.training.progress import display

    place = out or PLACE
    if not what:
        _list(list(EXPERIMENTS.values()), place, json)
        return
    if len(what) > 1 and {"all", "book"} & set(what):
        raise UsageError("`all` and `book` stand alone")
    set_threads(threads)
    watch = display(machine=json)
    settings = Settings(size="full" if full else "normal", seed=seed, minutes=minutes)
    if what == ["book"]:
        found = [result for one in EXPERIMENTS.values() if (result := load_result(one, place)) is not None]
        for stale in (result for result in found if not result.fresh):
            watch.say(f"{stale.experiment.name} was measured by other sources and is left out; `attentif lab all` measures it again")
        results = [result for result in found if result.fresh]
        if not results:
            raise UsageError("nothing has been measured here yet; `attentif lab all` does", file=place)
    else:
        everything = what == ["all"]
        chosen = list(EXPERIMENTS.values()) if everything else [_find_experiment(word, EXPERIMENTS) for word in what]
        again = again or not everything
        if cluster is None:
            results = measure_all(chosen, settings, place, watch, again=again)
        else:
            with open_cluster(cluster) as workers:
                results = measure_all_on(workers, chosen, settings, place, watch, again=again)
    if what[0] in ("all", "book"):
        pages = [place / "book.html"]
        write_book(pages[0], results)
    else:
        pages = [place / f"{result.experiment.name}.html" for result in results]
        for page, result in zip(pages, results, strict=True):
            write_one(page, result)
    _show(results, pages, json)


def _find_experiment(word: str, known: "dict[str, Experiment]") -> "Experiment":
    if (found := known.get(word.upper())) is None:
        raise UsageError(f"there is no experiment {word!r}; there are {', '.join(known)}")
    return found


def _list(experiments: "list[Experiment]", place: Path, json: bool) -> None:
    from attentif.lab.experiment import words
    from attentif.lab.results import load_result

    rows = []
    for one in experiments:
        last = load_result(one, place)
        verdict = "" if last is None else str(last.verdict.outcome) if last.fresh else CHANGED
        row = {"name": one.name, "claim": one.claim.en, "verdict": verdict, "measured": "" if last is None else last.date[:10]}
        rows.append(row | ({"claim": words(one.claim)} if json else {}))
    if json:
        print_json(rows)
        return
    print_table(["", "claim", "last verdict", "measured"], [[str(cell) for cell in row.values()] for row in rows])
    print("measure one: attentif lab L4    all, as one book: attentif lab all")


def _show(results: "list[Result]", pages: list[Path], json: bool) -> None:
    if json:
        print_json({"results": [result.as_data() for result in results], "pages": [str(page) for page in pages]})
        return
    for result in results:
        verdict = result.verdict
        print(f"{result.experiment.name}  {verdict.outcome}: {result.experiment.claim.en}")
        for part in verdict.parts:
            print(f"    {part.sentence.en}")
        for control in verdict.controls:
            print(f"    control: {control.sentence.en}")
        if verdict.remark:
            print(f"    {verdict.remark.en}")
        for choice in result.experiment.choices:
            print(f"    {choice.en}")
    for page in pages:
        print(f"page  {page}")
