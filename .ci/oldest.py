"""Print a pip constraints file with the lowest version that pyproject.toml allows of each dependency of users.

PyTorch is left out: its oldest builds for a CPU are not on the package index."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
extras = project["optional-dependencies"]
needed = [*project["dependencies"], *(line for extra, lines in extras.items() if extra not in ("test", "check") for line in lines)]
for line in sorted(set(needed)):
    if (found := re.match(r"([\w-]+)>=([\w.]+)", line)) and found[1] != "torch":
        print(f"{found[1]}=={found[2]}")
