"""The size of the code: `python benchmarks/code_size.py [FOLDER]` prints it for a checkout, as a Markdown table.

`attentif --help` is timed with this Python, the sources of the checkout first on its path: the middle of five.
"""

import ast
import os
import statistics
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

APART = ("serve", "hub", "decode", "lab")
REPEATS = 5


def functions(file: Path) -> Iterator[tuple[int, str]]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield (node.end_lineno or node.lineno) - node.lineno + 1, f"{file.name}:{node.name}"


def count_names(file: Path, name: str) -> int:
    return sum(isinstance(node, ast.Name) and node.id == name for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))))


def time_help(root: Path) -> float:
    command = [sys.executable, "-m", "attentif", "--help"]
    seconds = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"PYTHONPATH": str(root / "src")})
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)


def main() -> None:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent)
    package = root / "src" / "attentif"
    files = sorted(package.rglob("*.py"))
    lines = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in files}
    longest = max(lines, key=lambda file: lines[file])
    most, function = max(found for file in files for found in functions(file))
    rest = sum(count for file, count in lines.items() if file.relative_to(package).parts[0] not in APART)
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    rows = {
        "lines in src": f"{sum(lines.values()):,}",
        f"lines without {', '.join(APART)}": f"{rest:,}",
        "files": f"{len(files):,}",
        "longest file": f"{lines[longest]:,} ({longest.relative_to(package)})",
        "longest function": f"{most} ({function})",
        "isinstance": f"{sum(count_names(file, 'isinstance') for file in files):,}",
        "Any": f"{sum(count_names(file, 'Any') for file in files):,}",
        "mandatory dependencies": f"{len(project['dependencies'])}",
        "seconds of `attentif --help`": f"{time_help(root):.2f}",
    }
    for part in sorted(path.name for path in package.iterdir() if path.is_dir() and path.name != "__pycache__"):
        rows[f"lines in {part}"] = f"{sum(count for file, count in lines.items() if file.relative_to(package).parts[0] == part):,}"
    print("| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items()), sep="\n")


if __name__ == "__main__":
    main()
