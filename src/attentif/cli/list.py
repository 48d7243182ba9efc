"""`attentif list`: the names that commands accept."""

import re
import sys
from collections.abc import Callable
from dataclasses import asdict, fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attentif.cli.options import Json
from attentif.cli.out import is_narrow, print_json, print_table, say, translate
from attentif.errors import UsageError
from attentif.french import localize

if TYPE_CHECKING:
    from attentif.config import Registry
    from attentif.nn.mixer import CrossMixer, Mixer, MixerConfig
    from attentif.nn.state import State, StateTree

Entry = dict[str, Any]
WIDTH = 256  # of the model that a mixer's state is shown for


class What(StrEnum):
    recipes = "recipes"
    models = "models"
    tasks = "tasks"
    fitted = "fitted"
    mixers = "mixers"
    data = "data"
    tokenizers = "tokenizers"
    suites = "suites"
    runs = "runs"


def list_(
    what: Annotated[
        What | None, typer.Argument(metavar="WHAT", help=f"{', '.join(What)}; by default all but runs.", show_default=False)
    ] = None,
    folder: Annotated[Path | None, typer.Option(metavar="DIR", help="With runs: their folder; by default runs/.")] = None,
    json: Json = False,
) -> None:
    """List recipes, models, tasks, mixers, data sets or runs.

    Also fitted models, tokenizers, and the suites of `compare`. `attentif list runs` prints your runs, newest first, with score, data
    and date.

    For example: attentif list models
    """
    if what is What.runs:
        _list_runs(folder, json)
        return
    if folder is not None:
        raise UsageError("--folder goes with `attentif list runs`")
    from attentif.plugin import load_installed

    load_installed()
    wanted = [what] if what else [kind for kind in What if kind is not What.runs]
    found = {kind.value: LISTERS[kind]() for kind in wanted}
    if json:
        print_json(found[what] if what else found)
        return
    for kind, entries in found.items():
        if is_narrow():
            entries = [_in_two(entry) for entry in entries]
        columns = list(entries[0]) if entries else ["name"]
        rows = [[localize(str(entry[column])) for column in columns] for entry in entries]
        print_table([*map(localize, columns)], rows, title=localize(TITLES.get(kind, kind)))


def _list_runs(folder: Path | None, json: bool) -> None:
    from attentif.training.run_list import list_runs
    from attentif.training.rundir import RUNS
    from attentif.view.words import say as in_words

    found = list_runs(folder or RUNS)
    if json:
        print_json([asdict(run) | {"score": in_words(run.score, "en")} for run in found])
        return
    if not found:
        say(f"there are no runs in {folder or RUNS}: `attentif train RECIPE` makes one, --folder DIR looks elsewhere")
        return
    rows = [[str(run.path), run.kind, translate(run.score), localize(run.data), run.date, localize(run.state)] for run in found]
    print_table([*map(localize, ("run", "task", "score", "data", "date", "state"))], rows)


def _in_two(entry: Entry) -> Entry:
    """Its name, and beside it a line for each of the rest."""
    (key, name), *rest = entry.items()
    rest.sort(key=lambda item: item[0] != "description")
    return {key: name, "description": "\n".join(value if of == "description" else f"{of}: {value}" for of, value in rest)}


def _recipes() -> list[Entry]:
    from attentif.recipes import recipe_description, recipe_names

    return [{"name": name, "description": recipe_description(name)} for name in recipe_names()]


def _models() -> list[Entry]:
    from attentif.models.presets import preset_description, preset_names

    return [{"name": name, "description": preset_description(name)} for name in preset_names()]


def _tasks() -> list[Entry]:
    from attentif.tasks import TASKS

    return _kinds(TASKS)


def _fitted_models() -> list[Entry]:
    import attentif.tasks  # noqa: F401  registers them
    from attentif.text.fitted import FITTED

    return _kinds(FITTED)


def _tokenizers() -> list[Entry]:
    from attentif.text import TOKENIZERS

    return _kinds(TOKENIZERS)


def _kinds(registry: "Registry[Any]") -> list[Entry]:
    return [{"kind": kind, "description": _first_line(registry[kind])} for kind in registry]


def _suites() -> list[Entry]:
    from attentif.lab.compare.suite import suite_layer, suite_names

    return [{"name": name, "description": suite_layer(name).about} for name in suite_names()]


def _data() -> list[Entry]:
    from attentif.data.builtin import BUILTIN

    return [
        {
            "name": entry.name,
            "columns": ", ".join(entry.roles),
            "description": entry.description + (" (synthetic)" if entry.synthetic else ""),
            "size": entry.size,
            "options": ", ".join(f"{key}={of.default}" for key, of in entry.options.model_fields.items()) if entry.options else "none",
        }
        for entry in BUILTIN.values()
    ]


def _mixers() -> list[Entry]:
    import attentif.models  # noqa: F401  registers them
    from attentif.nn.mixer import MIXERS

    return [_mixer(kind, MIXERS[kind]) for kind in MIXERS]


def _mixer(kind: str, cls: "type[MixerConfig]") -> Entry:
    built = _variants(cls)
    return {
        "kind": kind,
        "description": _first_line(cls),
        "abilities": _abilities(built) if built else OF_ITS_PARTS,
        "cost": cls.cost or "not said",
        "state": _state(built[-1]) if built else OF_ITS_PARTS,
        "paper": _papers(cls),
    }


def _variants(cls: "type[MixerConfig]") -> "list[Mixer | CrossMixer]":
    """A mixer of this kind by its defaults; two where it may be causal or not; none where it is made of others.

    With real weights: some states are made by them, and to do that on `meta` torch would import its compiler (seconds).
    """
    from pydantic import ValidationError

    from attentif.nn.bias import BIASES
    from attentif.nn.mixer import Site

    variants = [{"causal": False}, {"causal": True}] if "causal" in cls.model_fields else [{}]
    try:
        configs = [cls.model_validate({"kind": cls.model_fields["kind"].default} | values) for values in variants]
        bias = BIASES[cls.reads_bias].model_validate({"kind": cls.reads_bias, "width": WIDTH}).build() if cls.reads_bias else None
        return [config.build(Site(width=WIDTH, memory_width=WIDTH, bias=bias)) for config in configs]
    except ValidationError:
        return []


def _state(mixer: "Mixer | CrossMixer") -> str:
    """How many numbers one row keeps between two tokens, from states of two sizes: what stays the same, and what grows with T (or S)."""
    import torch

    from attentif.errors import ConfigError
    from attentif.nn.mixer import Mixer
    from attentif.nn.seq import Seq

    if mixer.caps.streaming == "none":
        return "cannot stream"
    letter, sizes = "T", (1 << 14, 1 << 15)  # beyond every window: a state that stops growing has stopped
    with torch.no_grad():
        if isinstance(mixer, Mixer):
            try:
                states = [mixer.init_state(1, size, device=torch.device("cpu"), dtype=torch.float32) for size in sizes]
            except ConfigError:  # a plug-in that says it streams and has no state: the list still shows the others
                return "it has none"
        else:  # made from a memory
            letter, sizes = "S", (8, 16)
            states = [mixer.init_state(torch.zeros(1, size, WIDTH), Seq.from_padded([size])) for size in sizes]
    first, second = (_numbers(state) for state in states)
    growth = (second - first) // (sizes[1] - sizes[0])
    fixed = first - growth * sizes[0]
    parts = [f"{fixed:,}"] * bool(fixed) + [f"{growth:,}·{letter}"] * bool(growth)
    return " + ".join(parts) or "0"


def _numbers(state: "State | StateTree") -> int:
    import torch

    from attentif.nn.state import StateTree

    if isinstance(state, StateTree):
        return sum(_numbers(part) for part in state.values())
    tensors = [value for part in fields(state) if isinstance(value := getattr(state, part.name), torch.Tensor)]
    return sum(tensor.numel() * (2 if tensor.is_complex() else 1) for tensor in tensors)


def _abilities(built: "list[Mixer | CrossMixer]") -> str:
    """What the mixers of this kind can do, by their own declaration."""
    caps = [mixer.caps for mixer in built]
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


OF_ITS_PARTS = "of its parts"
TITLES = {
    "fitted": "fitted models (without gradient descent)",
    "mixers": f"mixers (state: numbers per row, at width {WIDTH})",
}
LISTERS: dict[What, Callable[[], list[Entry]]] = {
    What.recipes: _recipes,
    What.models: _models,
    What.tasks: _tasks,
    What.fitted: _fitted_models,
    What.mixers: _mixers,
    What.data: _data,
    What.tokenizers: _tokenizers,
    What.suites: _suites,
}
