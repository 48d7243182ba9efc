"""What an attention remembers of the tokens it has read: the keys and values of all of them, or of those that a window still sees.

Both put new keys at their places and answer with the keys that queries of this call may see, and the place of each. Places that no
query may see (empty, or read before a roll-back) may be among them: masks are made from the places.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from attentif.errors import AttentifError
from attentif.nn.seq import Seq
from attentif.nn.state import State


@dataclass(slots=True)
class KeyValueState(State):
    """Keys and values of every token read so far; place p of a row is its token p."""

    k: Tensor  # (B, G, capacity, K)
    v: Tensor  # (B, G, capacity, K)

    def extend(self, k: Tensor, v: Tensor, seq: Seq) -> tuple[Tensor, Tensor, Tensor]:
        """Put (B, G, T, K) keys and values at their places and return those of every place up to the furthest of these.

        Places beyond it are empty, or hold what was read before a roll-back: no query of this call may see them.
        """
        _refuse_beyond(self.k.shape[2], seq)
        self.k, self.v = put(self.k, k, seq, time=2), put(self.v, v, seq, time=2)
        return self.k[:, :, : seq.end], self.v[:, :, : seq.end], torch.arange(seq.end, device=k.device)[None]


@dataclass(slots=True)
class WindowState(State):
    """Keys and values of the last `window` tokens read: token p stands at place p mod R of a ring of R, R = window at most."""

    k: Tensor  # (B, G, R, K)
    v: Tensor  # (B, G, R, K)
    window: int  # tokens that a query sees, itself among them

    def extend(self, k: Tensor, v: Tensor, seq: Seq) -> tuple[Tensor, Tensor, Tensor]:
        """Put (B, G, T, K) keys and values into the ring and return those that these queries may see.

        For one token that is the ring as it stands; for more, the window before them in its order, then they themselves. Keys before
        the beginning of a row have negative places.
        """
        ring = self.k.shape[2]
        if ring < self.window:  # made for fewer tokens than the window sees
            _refuse_beyond(ring, seq)
        if k.shape[2] == 1:
            self._put(k, v, seq)
            last = seq.places  # (1 or B, 1)
            places = last - (last - torch.arange(ring, device=k.device)) % ring
            filled = ring if seq.offset is None else min(seq.offset + 1, ring)
            return self.k[:, :, :filled], self.v[:, :, :filled], places[:, :filled]
        if seq.offset == 0:
            self._put(k, v, seq)
            return k, v, seq.places
        before = seq.places[:, :1] + torch.arange(1 - self.window, 0, device=k.device)  # (1 or B, window − 1)
        old_k, old_v = (self._in_order(t, before % ring) for t in (self.k, self.v))
        self._put(k, v, seq)
        return torch.cat([old_k, k], 2), torch.cat([old_v, v], 2), torch.cat([before, seq.places], 1)

    @staticmethod
    def _in_order(ring: Tensor, at: Tensor) -> Tensor:
        if len(at) == 1:
            return ring.index_select(2, at[0])
        return ring.gather(2, at[:, None, :, None].expand(-1, ring.shape[1], -1, ring.shape[3]))

    def _put(self, k: Tensor, v: Tensor, seq: Seq) -> None:
        """In place without gradients, in a new buffer with them; of many tokens, the last that fit."""
        ring = self.k.shape[2]
        if seq.offset is not None and k.shape[2] == 1 and seq.dense and not torch.is_grad_enabled():
            self.k[:, :, seq.offset % ring], self.v[:, :, seq.offset % ring] = k[:, :, 0], v[:, :, 0]
            return
        self.k, self.v = put_in_ring(self.k, k, seq), put_in_ring(self.v, v, seq)


def put(old: Tensor, new: Tensor, seq: Seq, time: int = 1) -> Tensor:
    """`new` at its places of `old`, along the axis `time`: in place without gradients, in a new buffer with them."""
    if seq.offset is not None and seq.dense:
        if torch.is_grad_enabled():
            return torch.cat([old.narrow(time, 0, seq.offset), new, old.narrow(time, seq.end, old.shape[time] - seq.end)], time)
        old.narrow(time, seq.offset, new.shape[time]).copy_(new)
        return old
    return _scatter(old, new, seq.valid, seq.row, seq.pos, time)  # padding is written nowhere


def put_in_ring(old: Tensor, new: Tensor, seq: Seq) -> Tensor:
    """(B, G, T, K) into a ring (B, G, R, K), token p at place p mod R: of many tokens, the last that fit."""
    ring = old.shape[2]
    ends = seq.lengths if seq.start is None else seq.start + seq.lengths
    kept = seq.valid & (seq.pos >= (ends - ring)[:, None])
    return _scatter(old, new, kept, seq.row, seq.pos % ring, 2)


def _refuse_beyond(capacity: int, seq: Seq) -> None:
    if seq.end > capacity:
        raise AttentifError(f"{seq.end} tokens do not fit in a state made for {capacity}: give init_state a larger capacity")


def _scatter(old: Tensor, new: Tensor, kept: Tensor, rows: Tensor, places: Tensor, time: int) -> Tensor:
    """Some of `new` put at (row, place) of `old`; in place without gradients, in a new buffer with them."""
    at = (rows[kept], places[kept])
    by_place, values = old.transpose(1, time), new.transpose(1, time)[kept]
    if torch.is_grad_enabled():
        return by_place.index_put(at, values).transpose(1, time)
    by_place[at] = values
    return old
