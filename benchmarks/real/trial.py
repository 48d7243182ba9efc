"""`attentif train` as a user types it, and its results as a table."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attentif.recipes import recipe_layer, recipe_names
from attentif.view.words import duration, metric

HERE = Path(__file__).parent
BESIDE = ("f1", "rouge1", "rouge2", "bleu", "chrf", "exact_match")  # scores shown beside the one that counts


@dataclass(frozen=True)
class Trial:
    """One `attentif train`, and what to compare its figures with."""

    name: str
    command: str  # after `attentif train`; $ATTENTIF_DATA and benchmarks/ are filled in
    about: str


def trained(command: str, *, quick: bool) -> dict[str, Any]:
    """The results of `attentif train`, in a folder that is thrown away."""
    data = os.environ.get("ATTENTIF_DATA", "")
    words = [word.replace("$ATTENTIF_DATA", data).replace("benchmarks/", f"{HERE.parent}{os.sep}") for word in command.split()]
    short = ["train.steps=2", "data.limit=300"] if quick else []
    if quick and words[0] in recipe_names() and "pretrain" in recipe_layer(words[0]).values:
        short.append("pretrain.steps=2")
    with tempfile.TemporaryDirectory() as folder:
        call = [sys.executable, "-m", "attentif", "train", *words, *short, "--out", f"{folder}/run", "--json"]
        done = subprocess.run(call, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"attentif train {command} failed ({done.returncode})")
    results: dict[str, Any] = json.loads(done.stdout)
    return results


def table(results: Mapping[str, Any]) -> Iterator[str]:
    """The run beside its baselines, the score that counts first."""
    keys = [
        results["metric"],
        *(key for key in BESIDE if key != results["metric"] and key in results["scores"]),
    ]
    yield "| | " + " | ".join(metric(key).title.en for key in keys) + " |"
    yield "|---" * (len(keys) + 1) + "|"
    rivals = [(rival["name"]["en"], rival) for rival in results["baselines"]]
    for name, scored in [*rivals, ("**this run**", results)]:
        yield f"| {name} | " + " | ".join(written(key, scored) for key in keys) + " |"


def written(key: str, scored: Mapping[str, Any]) -> str:
    """ "91.9 % (90.1 % to 93.5 %)" """
    if (value := scored["scores"].get(key)) is None:
        return ""
    say = lambda number: metric(key).write(number).en
    low, high = scored["intervals"].get(key) or (None, None)
    return say(value) + ("" if low is None or high is None else f" ({say(low)} to {say(high)})")


def section(trial: Trial, *, quick: bool) -> str:
    """One trial: the command, what it is about, the table."""
    return told(trial, trained(trial.command, quick=quick))


def told(trial: Trial, results: Mapping[str, Any]) -> str:
    """The same of a trial whose results are known."""
    cost = results["cost"]
    size = f"{sum(cost['parameters'].values()) / 1e6:.2f} million parameters"
    facts = f"{results['examples']:,} test examples; {size}, {results['steps']:,} steps, {duration(cost['seconds']).en} of training."
    return "\n".join(
        [f"### {trial.name}", "", f"`attentif train {trial.command}`", "", f"{trial.about}", "", *table(results), "", facts, ""]
    )
