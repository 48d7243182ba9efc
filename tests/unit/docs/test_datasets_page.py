"""The page of the built-in data sets names all of them."""

import re
from pathlib import Path

from attentif.data.builtin import BUILTIN

PAGE = Path(__file__).parents[3] / "docs" / "datasets.md"


def test_the_table_has_every_built_in_set() -> None:
    table = PAGE.read_text(encoding="utf-8").split("|---|---|---|---|\n", 1)[1].split("\n\n", 1)[0]
    cells = [line.split("|")[1] for line in table.splitlines()]
    assert {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)} == set(BUILTIN)
