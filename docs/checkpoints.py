"""Write the table of families into docs/checkpoints.md: python docs/checkpoints.py"""

import re
from pathlib import Path

import attentif.hub  # noqa: F401  (registers the families)
from attentif.hub.overview import family_table

PAGE = Path(__file__).with_suffix(".md")

if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(re.sub(r"\| `model_type` \|.*?\n(?=\n)", lambda _: family_table() + "\n", text, flags=re.DOTALL), encoding="utf-8")
