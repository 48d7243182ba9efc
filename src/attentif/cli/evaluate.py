"""`attentif evaluate`: the scores of a run, on its own data or on other files."""

from contextlib import ExitStack
from dataclasses import asdict
from enum import StrEnum
from json import dumps
from pathlib import Path
from typing import Annotated

import typer

from attentif.cli.options import ClusterAddress, Device, Encoding, Json, LabelColumn, Precision, RunPath, Target, TextColumn, Threads
from attentif.cli.out import announce_loading, print_json, say, show_progress
from attentif.cli.scores import print_classes, print_scores, title_of
from attentif.cli.train import one_or_all
from attentif.errors import UsageError
from attentif.french import pick


class SplitName(StrEnum):
    test = "test"
    valid = "valid"
    train = "train"


def evaluate(
    run: RunPath,
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Changes of task and data: data.options.length=1024", show_default=False),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(metavar="FILE", help="Score all rows of this file instead (repeatable).", show_default=False),
    ] = None,
    target: Target = None,
    text: TextColumn = None,
    label: LabelColumn = None,
    encoding: Encoding = None,
    split: Annotated[SplitName | None, typer.Option(help="Split of the run's own data; by default test.", show_default=False)] = None,
    json: Json = False,
    cluster: ClusterAddress = None,
    device: Device = "auto",
    threads: Threads = 0,
    precision: Precision = "float32",
) -> None:
    """Score a run, on a split of its own data or on another file.

    \b
    For example:
    attentif evaluate runs/reviews-1 --data autres.csv
    attentif evaluate runs/induction-1 data.options.length=4096
    """
    file = one_or_all(data if data is None or cluster is None else [str(Path(name).resolve()) for name in data])
    options = {"train": file, "target": target, "text": text, "label": label, "encoding": encoding}
    files = {key: value for key, value in options.items() if value is not None}
    if data is not None and split is not None:
        raise UsageError("--split is of the run's own data: it does not go with --data")
    if files and data is None:
        raise UsageError("--target, --text and --label go with --data")
    with announce_loading():
        from attentif.api import reopen
    from attentif.config import merge, override
    from attentif.files import finite
    from attentif.tasks.details import OverlapDetails, details_of

    kept = changes or []
    if data is not None:  # what is said of data is said of this file
        for layer in [override(word) for word in kept]:
            files = merge(files, layer.values.get("data", {}))
        kept = [word for word in kept if "data" not in override(word).values]
    with show_progress("loading the model", machine=json):
        loaded = reopen(run, [override(word) for word in kept], device=device, threads=threads, precision=precision)
    chosen = (split or SplitName.test).value
    with show_progress("reading the data", machine=json) as watch, ExitStack() as stack:
        remote_map = None
        if cluster is not None:
            from attentif.cluster import open_cluster
            from attentif.remote import RemoteRun, RemoteSplit, score_on

            remote = RemoteRun.of(run, kept, device=device, precision=precision)
            remote_map = score_on(stack.enter_context(open_cluster(cluster)), RemoteSplit(remote, dumps(files or None), chosen))
        work = lambda done, total: watch.work("evaluate", done, total)
        found = loaded.evaluate(files or None, split=chosen, say=watch.say, progress=work, remote_map=remote_map)
    if loaded.note:
        say(loaded.note)
    for warning in loaded.task.warnings(found):
        say(pick(f"attention : {warning.fr}", f"warning: {warning.en}"))
    metric = loaded.task.metric_for(loaded.state)
    metric = metric if metric in found.scores else next(iter(found.scores))  # other files may ask other questions
    if json:
        print_json(finite({"run": str(run), "data": one_or_all(data), "metric": metric, **asdict(found)}))
    else:
        unit = asdict(loaded.task.scored_unit or loaded.task.unit)
        title = title_of(pick(" et ", " and ").join(data or [chosen]), found.examples, unit)
        print_scores(found.scores, found.intervals, metric=metric, title=title)
        print_classes(found.details)
        if (overlap := details_of(found, OverlapDetails)) and (unseen := overlap["unseen"]):
            rest = pick("les lignes qui n'ont servi ni à apprendre ni à choisir", "the rows that were not trained on or chosen by")
            title = title_of(rest, unseen["examples"])
            print_scores(unseen["scores"], unseen["intervals"], metric=metric, title=title)
