"""What the files of a checkpoint say and our configuration has no key for: an export says it again.

architecture                     the class of the head, where several classes have heads of our kind
limits                           of config.json, on paper alone: max_position_embeddings of a model with rotary positions
model_max_length, padding_side   of tokenizer_config.json
"""

from pathlib import Path
from typing import Any

from attentif.hub.files import read_json
from attentif.hub.folder import Imported
from attentif.hub.vocabulary import SAID

LONGEST = 2**53  # larger ones say that there is no limit
SIDES = ("padding_side", "truncation_side")


def read_origin(folder: Path, found: Imported) -> dict[str, Any]:
    said = read_json(folder / SAID) if (folder / SAID).is_file() else {}
    limits = {key: value for key in found.family.like if isinstance(value := found.config.get(key), int) and not isinstance(value, bool)}
    origin: dict[str, Any] = {"architecture": found.head.architecture, "limits": limits}
    origin |= {key: said[key] for key in SIDES if said.get(key) in ("left", "right")}
    longest = said.get("model_max_length")
    return origin | ({"model_max_length": longest} if isinstance(longest, int) and 0 < longest < LONGEST else {})
