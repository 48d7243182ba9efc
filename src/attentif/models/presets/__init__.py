"""Model presets, one TOML file each; the first comment names what it reproduces and the paper."""

from importlib.resources import files
from pathlib import Path

from attentif.config import Layer, did_you_mean, read_toml
from attentif.errors import ConfigError

FOLDER = Path(str(files(__name__)))
ALIASES = {
    "gpt2-small": "gpt2",
    "vaswani-2017": "transformer-base",
    "window-mlp": "bengio-2003",
    "camembert-tiny": "roberta-tiny",
    "llama": "llama-2-7b",
    "mistral": "mistral-7b",
}


def preset_names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def preset_layer(name: str) -> Layer:
    """Return the values of a preset; presets do not inherit from one another."""
    known = preset_names()
    stem = ALIASES.get(name, name)
    if stem not in known:
        raise ConfigError(f"no model preset is called {name!r}{did_you_mean(name, [*known, *ALIASES])}; `attentif list models` shows them")
    layer = read_toml(FOLDER / f"{stem}.toml", f"preset {stem}")
    return Layer(layer.values | {"base": stem}, layer.name, layer.text)


def preset_description(name: str) -> str:
    """Return the first comment of a preset's file."""
    return preset_layer(name).about
