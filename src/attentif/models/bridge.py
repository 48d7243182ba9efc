"""A bridge from the encoder's final states to the decoder's initial ones (Sutskever et al. 2014).

    bridge = ["rnn"]        # decoder sublayers of this name start from the encoder's final states

The encoder's sublayers of a name are assigned to the decoder's in order: one each if both have equally many, several to a mixer with
several layers of cells.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from attentif.errors import ConfigError
from attentif.nn.seq import Seq
from attentif.nn.stack import Stack
from attentif.nn.state import StateTree


def match_sublayers(encoder: Stack, decoder: Stack, names: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Pair each bridged decoder sublayer with the encoder sublayers that initialise it."""
    for name in names:
        paths = [[path for path, _ in stack.sublayers() if path.rsplit(".", 1)[1] == name] for stack in (encoder, decoder)]
        above, below = paths
        if not above or not below:
            raise ConfigError(f"the {'decoder' if above else 'encoder'} has no sublayer called {name!r}")
        if len(above) % len(below):
            raise ConfigError(f"{len(above)} sublayers {name!r} of the encoder cannot be dealt out to {len(below)} of the decoder")
        share = len(above) // len(below)
        yield from ((path, above[place * share : (place + 1) * share]) for place, path in enumerate(below))


def transfer_states(encoder: Stack, decoder: Stack, names: Sequence[str], ended: StateTree, state: StateTree) -> StateTree:
    """Return `state` with the bridged sublayers initialised from the encoder's final states."""
    result = StateTree(state)
    mixers = {path: sublayer.mixer for path, sublayer in decoder.sublayers()}
    for path, above in match_sublayers(encoder, decoder, names):
        result[path] = mixers[path].resume(state[path], [ended[path_] for path_ in above])
    return result


def check_bridge(encoder: Stack, decoder: Stack, names: Sequence[str], memory_width: int) -> None:
    """Refuse a bridge between incompatible stacks; the stacks need no weights."""
    if encoder.caps.streaming == "none":
        raise ConfigError("the encoder is bidirectional and has no last state; a mixer that starts from the memory needs no bridge")
    meta: dict[str, Any] = {"device": torch.device("meta"), "dtype": torch.float32}
    with torch.device("cpu"):
        seq = Seq.from_padded([2]).to("meta")
    empty = decoder.init_state(1, 3, torch.empty(1, 2, memory_width, device="meta"), seq, **meta)
    transfer_states(encoder, decoder, names, encoder.init_state(1, 2, **meta), empty)
