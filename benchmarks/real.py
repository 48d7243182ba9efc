"""What the default recipes reach, on real data and on the built-in sets, by the commands as a user types them.

    python -m benchmarks.real [--quick] [--only NAME]

Real data are in the folder that ATTENTIF_DATA names; what needs them is left out where it is not set. Writes REAL.md (`make real`).
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from attentif.view.words import duration, metric
from benchmarks.common import environment

HERE = Path(__file__).parent
REVIEWS, MULTI30K = "$ATTENTIF_DATA/reviews_fr", "$ATTENTIF_DATA/multi30k"
HEADER = """# What the recipes reach
Written by `make real` (`python -m benchmarks.real`) on {day}.

{environment}

Every figure is on test examples that training never saw, with a 95 % bootstrap interval; baselines are fitted and scored on the same
splits by the same command.
"""


@dataclass(frozen=True)
class Trial:
    """One `attentif train`, and what to compare its figures with."""

    name: str
    command: str  # after `attentif train`
    about: str


TRIALS = [
    Trial("reviews", "reviews", "The built-in synthetic reviews. Goal: above 97 %, TF-IDF at least 5 points below."),
    Trial("numbers", "numbers", "The built-in French numbers, translated to English. Goal: 99 % of unseen numbers exactly right."),
    Trial(
        "series",
        f"reviews --data {REVIEWS}/series.csv --group series",
        "Reviews of television series, split by series. TF-IDF + logistic regression reached 91.9 % on a split of the same kind.",
    ),
    Trial("films", f"reviews --data {REVIEWS}/films_train.csv", "Two thousand film reviews: few, for a model that starts from nothing."),
    Trial(
        "multi30k",
        f"benchmarks/multi30k.toml --data {MULTI30K}/train.en.gz --target {MULTI30K}/train.fr.gz"
        f" --valid {MULTI30K}/val.en.gz data.valid_target={MULTI30K}/val.fr.gz"
        f" --test {MULTI30K}/test_2016_flickr.en.gz data.test_target={MULTI30K}/test_2016_flickr.fr.gz",
        "English captions to French, test_2016_flickr.",
    ),
]


def trained(command: str, *, quick: bool) -> dict[str, Any]:
    """The results of `attentif train`, in a folder that is thrown away."""
    data = os.environ.get("ATTENTIF_DATA", "")
    words = [word.replace("$ATTENTIF_DATA", data).replace("benchmarks/", f"{HERE}{os.sep}") for word in command.split()]
    short = ["train.epochs=0", "train.steps=2", "data.limit=300"] if quick else []
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
        *(key for key in ("f1", "bleu", "chrf", "exact_match") if key != results["metric"] and key in results["scores"]),
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
    results = trained(trial.command, quick=quick)
    cost = results["cost"]
    size = f"{sum(cost['parameters'].values()) / 1e6:.2f} million parameters"
    facts = f"{results['examples']:,} test examples; {size}, {results['steps']:,} steps, {duration(cost['seconds']).en} of training."
    return "\n".join(
        [f"## {trial.name}", "", f"`attentif train {trial.command}`", "", f"{trial.about}", "", *table(results), "", facts, ""]
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two steps each, nothing written: only to see that everything runs")
    parser.add_argument("--only", choices=[trial.name for trial in TRIALS], help="one of them, nothing written")
    options = parser.parse_args()
    page = [HEADER.format(day=date.today().isoformat(), environment=environment("scikit-learn", "sacrebleu"))]
    for trial in TRIALS:
        if options.only not in (None, trial.name):
            continue
        if "$ATTENTIF_DATA" in trial.command and not os.environ.get("ATTENTIF_DATA"):
            page.append(f"## {trial.name}\n\nLeft out: the environment variable ATTENTIF_DATA does not name the folder of real data.\n")
        else:
            page.append(section(trial, quick=options.quick))
        print(page[-1], flush=True)
    if not (options.quick or options.only):
        HERE.joinpath("REAL.md").write_text("\n".join(page), encoding="utf-8")


if __name__ == "__main__":
    main()
