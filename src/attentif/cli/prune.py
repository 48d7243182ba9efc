"""`attentif prune`: remove experts that are hardly used."""

from dataclasses import asdict
from typing import Annotated

import typer

from attentif.cli.options import Json, NewRun, OwnRun, Replace
from attentif.cli.out import print_json, print_table


def prune(
    run: OwnRun,
    out: NewRun,
    experts: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Experts to keep in each mixture; by default all but one.", show_default=False)
    ] = None,
    force: Replace = False,
    json: Json = False,
) -> None:
    """Remove the least used experts of a mixture of experts.

    Usage is counted on the run's validation rows; nothing is trained. Scores are printed before and after; the rest is a new run.

    For example: attentif prune runs/mixture-1 runs/smaller --experts 6
    """
    from attentif.plugin import load_installed
    from attentif.training.progress import display
    from attentif.training.rewrite import prune_run
    from attentif.view.words import count, metric

    load_installed()
    watch = display(machine=json)
    try:
        found = prune_run(run, out, experts=experts, force=force, display=watch)
    finally:
        watch.close()
    if json:
        print_json({**asdict(found), "folder": str(found.folder.path)})
        return
    gone = lambda shares: ", ".join(f"{expert} ({share:.1%} of the choices)" for expert, share in shares.items())
    print_table(["mixture", "experts removed"], [[path, gone(shares)] for path, shares in found.removed.items()])
    of = metric(found.metric)
    rows = [[f"{of.title.en}, {split}", of.write(found.before[split]).en, of.write(found.after[split]).en] for split in found.before]
    rows.append(["parameters", *(count(number).en for number in found.parameters)])
    print_table(["", "before", "after"], rows)
    print(f"run     {found.folder.path}")
