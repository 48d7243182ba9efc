"""Every tensor of a folder is accounted for before any of them is read: what is missing, left over or of another shape is named.

A matrix that the output shares with the embedding is saved once, or twice by some programs: a copy is passed over.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from torch import Tensor

from attentif.errors import RunError
from attentif.hub.files import CONFIG, Tensors
from attentif.hub.gguf.read import GgufTensors
from attentif.hub.peft.read import AdaptedTensors
from attentif.hub.rows import Matched, Row, match
from attentif.hub.stream import on_meta
from attentif.hub.tying import OUTPUT

SHOWN = 4  # names in an error


def match_tensors(
    folder: Path,
    table: Sequence[Row],
    tensors: Tensors | GgufTensors | AdaptedTensors,
    own: Mapping[str, Tensor],
    layers: int,
    ignored: Iterable[str],
) -> Matched:
    """The tensors of the folder and those of a model of `layers` blocks, in pairs; one line about all that is wrong with them."""
    matched = match(table, tensors, own, layers, ignored)
    copies = {row.theirs for row in table if row.ours == OUTPUT}  # left over where ours shares the embedding
    wrong = {
        "lacks": matched.missing,
        "holds, and nothing here reads,": [name for name in matched.unexpected if name not in copies],
        "does not fill": matched.unmet,
        f"holds in another shape than {CONFIG} asks for": list(_misshapen(matched, tensors, own)),
    }
    if problems := [f"{what} {shorten_list(names)}" for what, names in wrong.items() if names]:
        raise RunError("; it ".join(problems), file=folder)
    return matched


def shorten_list(names: Sequence[str]) -> str:
    """The first of them, and how many more there are."""
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def _misshapen(matched: Matched, tensors: Tensors | GgufTensors | AdaptedTensors, own: Mapping[str, Tensor]) -> Iterator[str]:
    on_paper = on_meta(own)
    for their_names, our_names, operation in matched.pairs:
        asked = operation.write([on_paper[name] for name in our_names]) if our_names else []
        for name, tensor in zip(their_names, asked, strict=bool(our_names)):
            if (found := tensors.shape(name)) != tuple(tensor.shape):
                yield f"{name} ({found} for {tuple(tensor.shape)})"
