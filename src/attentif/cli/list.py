"""`attentif list`: what there is to be named."""

import re
import sys
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attentif.cli.out import Json, print_json, print_table

if TYPE_CHECKING:
    from attentif.nn.mixer import MixerConfig

Entry = dict[str, Any]


class What(StrEnum):
    recipes = "recipes"
    models = "models"
    tasks = "tasks"
    mixers = "mixers"
    data = "data"
    tokenizers = "tokenizers"


def list_(
    what: Annotated[What | None, typer.Argument(help="Only this; by default everything.", show_default=False)] = None, json: Json = False
) -> None:
    """List recipes, model presets, tasks, mixers, data sets and tokenizers, with a line on each."""
    from attentif.plugin import load_installed

    load_installed()
    wanted = [what] if what else list(What)
    found = {kind.value: LISTERS[kind]() for kind in wanted}
    if json:
        print_json(found[what] if what else found)
        return
    for kind, entries in found.items():
        columns = list(entries[0]) if entries else ["name"]
        print_table(columns, [[str(entry[column]) for column in columns] for entry in entries], title=kind)


def _recipes() -> list[Entry]:
    from attentif.recipes import recipe_description, recipe_names

    return [{"name": name, "description": recipe_description(name)} for name in recipe_names()]


def _models() -> list[Entry]:
    from attentif.models.presets import preset_description, preset_names

    return [{"name": name, "description": preset_description(name)} for name in preset_names()]


def _tasks() -> list[Entry]:
    from attentif.tasks import TASKS

    return [{"kind": kind, "description": _first_line(TASKS[kind])} for kind in TASKS]


def _tokenizers() -> list[Entry]:
    from attentif.text import TOKENIZERS

    return [{"kind": kind, "description": _first_line(TOKENIZERS[kind])} for kind in TOKENIZERS]


def _data() -> list[Entry]:
    from attentif.data.builtin import BUILTIN

    return [
        {
            "name": entry.name,
            "columns": ", ".join(entry.roles),
            "description": entry.description + (" (synthetic)" if entry.synthetic else ""),
            "size": entry.size,
        }
        for entry in BUILTIN.values()
    ]


def _mixers() -> list[Entry]:
    import attentif.models  # noqa: F401  registers them
    from attentif.nn.mixer import MIXERS

    return [
        {"kind": kind, "description": _first_line(MIXERS[kind]), "abilities": _abilities(MIXERS[kind]), "paper": _papers(MIXERS[kind])}
        for kind in MIXERS
    ]


def _abilities(cls: "type[MixerConfig]") -> str:
    """What the mixers of this kind can do, by their own declaration."""
    import torch
    from pydantic import ValidationError

    from attentif.nn.mixer import Site

    variants = [{"causal": False}, {"causal": True}] if "causal" in cls.model_fields else [{}]
    try:
        with torch.device("meta"):
            caps = [
                cls.model_validate({"kind": cls.model_fields["kind"].default} | v).build(Site(width=64, memory_width=64)).caps
                for v in variants
            ]
    except ValidationError:
        return "those of its parts"
    words = ["causal"] * any(c.causal for c in caps) + ["bidirectional"] * any(c.bidirectional for c in caps)
    if (streaming := caps[-1].streaming) != "none":
        words.append("streaming" if streaming == "exact" else "streaming (approximate)")
    words += ["packed"] * all(c.packed for c in caps) + ["maps"] * all(c.maps for c in caps)
    return ", ".join(words)


def _papers(cls: type) -> str:
    """The papers that the docstrings of the class and of its file cite: (Author year)."""
    text = " ".join(f"{cls.__doc__} {sys.modules[cls.__module__].__doc__}".split())
    return "; ".join(dict.fromkeys(re.findall(r"\(([A-Z][^()]*\b(?:19|20)\d\d)\b[^()]*\)", text)))


def _first_line(cls: type) -> str:
    return (cls.__doc__ or "").strip().partition("\n")[0]


LISTERS: dict[What, Callable[[], list[Entry]]] = {
    What.recipes: _recipes,
    What.models: _models,
    What.tasks: _tasks,
    What.mixers: _mixers,
    What.data: _data,
    What.tokenizers: _tokenizers,
}
