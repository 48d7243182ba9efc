"""Complete runs by name, one TOML file each: data + task + model + training; the first comment says what it shows."""

from importlib.resources import files
from pathlib import Path

from attentif.config import Layer, did_you_mean, read_toml
from attentif.errors import ConfigError

FOLDER = Path(str(files(__name__)))


def recipe_names() -> list[str]:
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def recipe_layer(name: str) -> Layer:
    """The values of a recipe."""
    known = recipe_names()
    if name not in known:
        raise ConfigError(f"no recipe is called {name!r}{did_you_mean(name, known)}; `attentif list recipes` shows them")
    return read_toml(FOLDER / f"{name}.toml", f"recipe {name}")


def recipe_description(name: str) -> str:
    """The first comment of a recipe's file."""
    return recipe_layer(name).about


def recipes_of(task: str) -> list[str]:
    """The recipes that train a task."""
    tasks = {name: recipe_layer(name).values.get("task", {}) for name in recipe_names()}
    return [name for name, own in tasks.items() if own.get("kind") == task]
