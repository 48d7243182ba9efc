"""Six architectures, the same parameters, on each of the real sets: one table with intervals, and what each costs."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attentif.view.verdict import conclusion
from attentif.view.words import duration, metric
from benchmarks.real.comparison import QUICK, write_part

TITLE = "Real data: six architectures"
ABOUT = """
Each set is a suite of `attentif compare` (benchmarks/real/six/NAME.toml): the same data, the same number of parameters, a learning rate
searched for each model (with the next ones beyond where the best is at the edge), three seeds, one thread a run. What stands in the place
of attention is all that differs; recurrences and state spaces read both ways where a whole text, picture or sound is classified. Intervals
are 95 % over seeds (Student's t). Runs are short, and settings modest: the sections of each set have what the toolkit reaches with its own
recipes. The linear part of forecasts, pre-trained vectors and augmentation of pictures are left out: only the architectures are compared.
"""
LONG = True
SUITES = Path(__file__).parent / "six"
SETS = {
    "reviews": "French reviews of series, series apart",
    "forecasts": "ETTh1, 96 hours ahead",
    "pictures": "MNIST, 10,000 pictures",
    "speech": "spoken digits, a speaker never heard",
    "theatre": "French theatre, 1,200 steps",
    "translation": "Multi30k, English to French, four passes",
}
ROOT = Path("runs/six")


def run(quick: bool) -> Iterator[str]:
    """Interrupted, the same measurement goes on; what is only to be seen running is thrown away."""
    with tempfile.TemporaryDirectory() as scratch:
        parts = {name: compare(name, Path(scratch) if quick else ROOT, QUICK if quick else ()) for name in SETS}
    yield from write_page(parts)


def compare(name: str, root: Path, words: tuple[str, ...]) -> dict[str, Any]:
    """The results of one suite, its paths filled in."""
    root.mkdir(parents=True, exist_ok=True)
    suite = root / f"{name}.toml"
    text = (SUITES / f"{name}.toml").read_text(encoding="utf-8")
    suite.write_text(
        text.replace("$ATTENTIF_DATA", os.environ["ATTENTIF_DATA"]).replace("$BENCHMARKS", str(SUITES.parent)), encoding="utf-8"
    )
    done = subprocess.run([sys.executable, "-m", "attentif", "compare", str(suite), "--out", str(root / name), *words], check=False)
    if done.returncode:
        raise SystemExit(f"attentif compare {suite} failed ({done.returncode})")
    return read_part(root / name)


def read_part(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "compare.json").read_text(encoding="utf-8"))["comparisons"][0]
    return found


def write_page(parts: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """The one table, the costs, and each set by itself."""
    yield "\n".join(table("score, mean over seeds and 95 % interval", parts, score)) + "\n"
    yield "\n".join(table("seconds of a run, one thread, and operations a token", parts, cost, rival=False)) + "\n"
    for name, part in parts.items():
        named = {**part, "name": SETS[name], "recipe": SETS[name]}
        yield write_part({**named, "conclusion": {"en": conclusion(named).en}})


def table(what: str, parts: Mapping[str, Mapping[str, Any]], cell: Any, *, rival: bool = True) -> Iterator[str]:
    names = [model["name"] for model in next(iter(parts.values()))["models"]]
    heads = [what, *names, *(["best simple system"] if rival else [])]
    yield f"| {' | '.join(heads)} |"
    yield "|---" * len(heads) + "|"
    for name, part in parts.items():
        of = metric(part["metric"])
        said = f"{SETS[name]}: {of.title.en}"
        cells = [said, *(cell(part, one) for one in names), *([best_baseline(part)] if rival else [])]
        yield f"| {' | '.join(cells)} |"


def score(part: Mapping[str, Any], name: str) -> str:
    """ "91.2% [90.1; 92.3]", in bold where no other mean is better."""
    of, means = metric(part["metric"]), part["statistics"]["scores"]
    if name not in means:
        return "failed"
    best = (max if of.higher_is_better else min)(one["value"] for one in means.values())
    own = means[name]
    bounds = "" if own.get("low") is None else f" [{of.write(own['low']).en}; {of.write(own['high']).en}]"
    said = f"{of.write(own['value']).en}{bounds}"
    return f"**{said}**" if own["value"] == best else said


def cost(part: Mapping[str, Any], name: str) -> str:
    model = next(one for one in part["models"] if one["name"] == name)
    return f"{duration(model['timing']['seconds']).en}, {model['flops_per_token'] / 1e6:.2f} M"


def best_baseline(part: Mapping[str, Any]) -> str:
    of = metric(part["metric"])
    known = [(rival["scores"][of.key], rival["name"]["en"]) for rival in part["baselines"] if of.key in rival["scores"]]
    if not known:
        return ""
    value, name = (max if of.higher_is_better else min)(known)
    return f"{of.write(value).en}, {name}"
