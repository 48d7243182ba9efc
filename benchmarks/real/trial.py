"""`attentif train` as a user types it, and its results as a table.

Runs are kept (`$ATTENTIF_CACHE/real`) under a name made of what was typed and of the recipe or file it starts from: what an interruption
leaves unfinished goes on at the next call, and what is finished is not done again. To measure changed code, delete that folder first.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attentif.files import cache_folder
from attentif.recipes import FOLDER as RECIPES
from attentif.recipes import recipe_layer, recipe_names
from attentif.view.words import duration, metric

ROOT = Path(__file__).parents[2]
BESIDE = ("f1", "rouge1", "rouge2", "bleu", "chrf", "exact_match")  # scores shown beside the one that counts


@dataclass(frozen=True)
class Trial:
    """One `attentif train`, and what to compare its figures with."""

    name: str
    command: str  # after `attentif train`; $ATTENTIF_DATA and benchmarks/ are filled in
    about: str
    processes: int = 1  # by torchrun, with one thread each

    @property
    def typed(self) -> str:
        return f"{f'torchrun --nproc-per-node {self.processes} -m ' if self.processes > 1 else ''}attentif train {self.command}"


def train_run(command: str | Sequence[str], *, quick: bool, threads: int | None = None, processes: int = 1) -> dict[str, Any]:
    """The results of `attentif train`: read, or made, or gone on with. Quick runs are thrown away."""
    words = command.split() if isinstance(command, str) else list(command)
    if quick:
        with tempfile.TemporaryDirectory() as lost:
            return _run([*fill_paths(words), *shorten(words), "--out", f"{lost}/run"], Path(lost, "run"), threads, processes)
    folder = choose_folder(words)
    if (folder / "results.json").is_file():
        return _results(folder)
    begun = (folder / "config.toml").is_file()
    return _run(["--resume", str(folder)] if begun else [*fill_paths(words), "--out", str(folder)], folder, threads, processes)


def choose_folder(words: Sequence[str]) -> Path:
    source = RECIPES / f"{words[0]}.toml" if words[0] in recipe_names() else ROOT / words[0]
    key = hashlib.sha256("\n".join([*words, source.read_text(encoding="utf-8")]).encode()).hexdigest()[:12]
    return cache_folder() / "real" / f"{source.stem}-{key}"


def fill_paths(words: Sequence[str]) -> list[str]:
    data = os.environ.get("ATTENTIF_DATA", "")
    return [word.replace("$ATTENTIF_DATA", data).replace("benchmarks/", f"{ROOT}/benchmarks/") for word in words]


def shorten(words: Sequence[str]) -> list[str]:
    """What makes a run of these words a matter of seconds."""
    recipe = recipe_layer(words[0]).values if words[0] in recipe_names() else {}
    stepped = [] if "fit" in recipe else ["train.steps=2"]
    return ["data.limit=300", *stepped, *(["pretrain.steps=2"] if "pretrain" in recipe else [])]


def _run(words: Sequence[str], folder: Path, threads: int | None, processes: int) -> dict[str, Any]:
    own = os.environ | ({} if threads is None else {"OMP_NUM_THREADS": str(threads)})
    launcher = ["torch.distributed.run", "--nproc-per-node", str(processes), "-m"] if processes > 1 else []
    done = subprocess.run([sys.executable, "-m", *launcher, "attentif", "train", *words], env=own, stdout=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise SystemExit(f"attentif train {' '.join(words)} failed ({done.returncode})")
    return _results(folder)


def _results(folder: Path) -> dict[str, Any]:
    results: dict[str, Any] = json.loads((folder / "results.json").read_text(encoding="utf-8"))
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
        yield f"| {name} | " + " | ".join(format_score(key, scored) for key in keys) + " |"


def format_score(key: str, scored: Mapping[str, Any]) -> str:
    """ "91.9 % (90.1 % to 93.5 %)" """
    if (value := scored["scores"].get(key)) is None:
        return ""
    say = lambda number: metric(key).write(number).en
    low, high = scored["intervals"].get(key) or (None, None)
    return say(value) + ("" if low is None or high is None else f" ({say(low)} to {say(high)})")


def section(trial: Trial, *, quick: bool) -> str:
    """One trial: the command, what it is about, the table."""
    threads = 1 if trial.processes > 1 else None
    return describe_results(trial, train_run(trial.command, quick=quick, threads=threads, processes=trial.processes))


def describe_results(trial: Trial, results: Mapping[str, Any]) -> str:
    """The same of a trial whose results are known."""
    cost = results["cost"]
    size = f"{sum(cost['parameters'].values()) / 1e6:.2f} million parameters"
    facts = f"{results['examples']:,} test examples; {size}, {results['steps']:,} steps, {duration(cost['seconds']).en} of training."
    return "\n".join([f"### {trial.name}", "", f"`{trial.typed}`", "", f"{trial.about}", "", *table(results), "", facts, ""])
