"""Quality on real data, by the commands as a user types them; each measurement writes its section of RESULTS.md (`make real`).

    python -m benchmarks.real [--quick] [--long] [NAME ...]

A module of this package is a measurement: TITLE, ABOUT, LONG (it takes more than half an hour: only `make real-long` runs it unasked)
and run(quick), which yields the lines of its section. Real data are in the folder that ATTENTIF_DATA names.
"""

import argparse
import os
import pkgutil
from datetime import date
from importlib import import_module
from types import ModuleType

from benchmarks import real
from benchmarks.common import environment
from benchmarks.page import put

TOOLS = ("__main__", "trial")  # what is not a measurement
NAMES: dict[str, ModuleType] = {
    found.name: import_module(f"{real.__name__}.{found.name}") for found in pkgutil.iter_modules(real.__path__) if found.name not in TOOLS
}


def measure(name: str, quick: bool) -> None:
    """One section, printed as it is measured, then put into the page."""
    module = NAMES[name]
    measured = f"Measured on {date.today().isoformat()} by `python -m benchmarks.real {name}`: {environment()}."
    parts = [f"## {module.TITLE}\n\n{module.ABOUT.strip()}\n\n{measured}\n"]
    print(parts[0], flush=True)
    for part in module.run(quick):
        print(part, flush=True)
        parts.append(part)
    if not quick:
        put(module.TITLE, "\n".join(parts))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.real", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"by default all that are not long: {', '.join(NAMES)}")
    parser.add_argument("--quick", action="store_true", help="two steps each, nothing written: only to see that everything runs")
    parser.add_argument("--long", action="store_true", help="the long ones too")
    options = parser.parse_args()
    if unknown := [name for name in options.names if name not in NAMES]:
        parser.error(f"no measurement is called {unknown[0]!r}; there are {', '.join(NAMES)}")
    if not os.environ.get("ATTENTIF_DATA"):
        parser.error("the environment variable ATTENTIF_DATA does not name the folder of real data")
    for name in options.names or [name for name, module in NAMES.items() if options.long or not module.LONG]:
        measure(name, options.quick)


if __name__ == "__main__":
    main()
