"""From the encoder's last state to the decoder's first: an encoder-decoder through one summary (Sutskever et al. 2014).

    bridge = ["rnn"]        # the decoder's sublayers of this name go on from the states in which the encoder's ended

The encoder's sublayers of a name are dealt out to the decoder's in their order: one each where both have as many, several to a mixer
that holds several layers of cells.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch

from attentif.errors import ConfigError
from attentif.nn.seq import Seq
from attentif.nn.stack import Stack
from attentif.nn.state import StateTree


def crossings(encoder: Stack, decoder: Stack, names: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Each of the decoder's sublayers that are bridged, with the encoder's that lead to it, by path."""
    for name in names:
        paths = [[path for path, _ in stack.sublayers() if path.rsplit(".", 1)[1] == name] for stack in (encoder, decoder)]
        above, below = paths
        if not above or not below:
            raise ConfigError(f"the {'decoder' if above else 'encoder'} has no sublayer called {name!r}")
        if len(above) % len(below):
            raise ConfigError(f"{len(above)} sublayers {name!r} of the encoder cannot be dealt out to {len(below)} of the decoder")
        share = len(above) // len(below)
        yield from ((path, above[place * share : (place + 1) * share]) for place, path in enumerate(below))


def carried(encoder: Stack, decoder: Stack, names: Sequence[str], ended: StateTree, state: StateTree) -> StateTree:
    """`state`, the decoder's and still empty, with what the encoder's states `ended` in put where the bridge leads."""
    result = StateTree(state)
    mixers = {path: sublayer.mixer for path, sublayer in decoder.sublayers()}
    for path, above in crossings(encoder, decoder, names):
        result[path] = mixers[path].resume(state[path], [ended[path_] for path_ in above])
    return result


def check_bridge(encoder: Stack, decoder: Stack, names: Sequence[str], memory_width: int) -> None:
    """Refuse what cannot be carried across. The stacks need no weights; a state that grows with its capacity does not fit either."""
    if encoder.caps.streaming == "none":
        raise ConfigError("the encoder looks both ways and has no last state; a mixer that starts from the memory needs no bridge")
    meta: dict[str, Any] = {"device": torch.device("meta"), "dtype": torch.float32}
    with torch.device("cpu"):
        seq = Seq.padded([2]).to("meta")
    empty = decoder.init_state(1, 3, torch.empty(1, 2, memory_width, device="meta"), seq, **meta)
    carried(encoder, decoder, names, encoder.init_state(1, 2, **meta), empty)
