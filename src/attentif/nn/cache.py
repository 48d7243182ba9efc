"""Key-value caches of attention: of all tokens, or of those inside a sliding window.

`extend` writes the new keys and returns those the queries of this call may attend to, with their positions. Entries that no query may see
(empty, or read before a roll-back) may be among them: masks are computed from the positions.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from attentif.errors import AttentifError
from attentif.nn.seq import Seq
from attentif.nn.state import State


@dataclass(slots=True)
class KeyValueState(State):
    """Keys and values of every token read so far; index p of a row is its token p."""

    k: Tensor  # (B, G, capacity, K)
    v: Tensor  # (B, G, capacity, K)

    def extend(self, k: Tensor, v: Tensor, seq: Seq) -> tuple[Tensor, Tensor, Tensor]:
        """Write keys and values (B, G, T, K) at their positions; return the cache up to the last one.

        Entries beyond it are empty or older than a roll-back: no query of this call may see them.
        """
        _check_capacity(self.k.shape[2], seq)
        self.k, self.v = write_at(self.k, k, seq, time=2), write_at(self.v, v, seq, time=2)
        return self.k[:, :, : seq.end], self.v[:, :, : seq.end], torch.arange(seq.end, device=k.device)[None]


@dataclass(slots=True)
class WindowState(State):
    """Ring buffer of the last `window` keys and values: token p is at index p mod R, R ≤ window."""

    k: Tensor  # (B, G, R, K)
    v: Tensor  # (B, G, R, K)
    window: int  # tokens a query sees, itself included

    def extend(self, k: Tensor, v: Tensor, seq: Seq) -> tuple[Tensor, Tensor, Tensor]:
        """Write keys and values (B, G, T, K) into the ring; return those these queries may see.

        For one token that is the ring as stored; for more, the window before them in order, then the new ones. Keys before the start of
        a row have negative positions.
        """
        ring = self.k.shape[2]
        if ring < self.window:  # capacity smaller than the window
            _check_capacity(ring, seq)
        if k.shape[2] == 1:
            self._write(k, v, seq)
            last = seq.shared_pos  # (1 or B, 1)
            places = last - (last - torch.arange(ring, device=k.device)) % ring
            filled = ring if seq.offset is None else min(seq.offset + 1, ring)
            return self.k[:, :, :filled], self.v[:, :, :filled], places[:, :filled]
        if seq.offset == 0:
            self._write(k, v, seq)
            return k, v, seq.shared_pos
        before = seq.shared_pos[:, :1] + torch.arange(1 - self.window, 0, device=k.device)  # (1 or B, window − 1)
        old_k, old_v = (self._in_order(t, before % ring) for t in (self.k, self.v))
        self._write(k, v, seq)
        return torch.cat([old_k, k], 2), torch.cat([old_v, v], 2), torch.cat([before, seq.shared_pos], 1)

    @staticmethod
    def _in_order(ring: Tensor, at: Tensor) -> Tensor:
        if len(at) == 1:
            return ring.index_select(2, at[0])
        return ring.gather(2, at[:, None, :, None].expand(-1, ring.shape[1], -1, ring.shape[3]))

    def _write(self, k: Tensor, v: Tensor, seq: Seq) -> None:
        """Write in place without gradients, into a new buffer with them; keep the last that fit."""
        ring = self.k.shape[2]
        if seq.offset is not None and k.shape[2] == 1 and seq.dense and not torch.is_grad_enabled():
            self.k[:, :, seq.offset % ring], self.v[:, :, seq.offset % ring] = k[:, :, 0], v[:, :, 0]
            return
        self.k, self.v = write_ring(self.k, k, seq), write_ring(self.v, v, seq)


def write_at(old: Tensor, new: Tensor, seq: Seq, time: int = 1) -> Tensor:
    """Write `new` at its positions along the axis `time`; in place only without gradients."""
    if seq.offset is not None and seq.dense:
        if torch.is_grad_enabled():
            return torch.cat([old.narrow(time, 0, seq.offset), new, old.narrow(time, seq.end, old.shape[time] - seq.end)], time)
        old.narrow(time, seq.offset, new.shape[time]).copy_(new)
        return old
    return _scatter(old, new, seq.valid, seq.row, seq.pos, time)  # padding is not written


def write_ring(old: Tensor, new: Tensor, seq: Seq) -> Tensor:
    """Write (B, G, T, K) into a ring (B, G, R, K), token p at index p mod R; keep the last that fit."""
    ring = old.shape[2]
    ends = seq.lengths if seq.start is None else seq.start + seq.lengths
    kept = seq.valid & (seq.pos >= (ends - ring)[:, None])
    return _scatter(old, new, kept, seq.row, seq.pos % ring, 2)


def _check_capacity(capacity: int, seq: Seq) -> None:
    if seq.end > capacity:
        raise AttentifError(f"{seq.end} tokens do not fit in a state made for {capacity}: give init_state a larger capacity")


def _scatter(old: Tensor, new: Tensor, kept: Tensor, rows: Tensor, places: Tensor, time: int) -> Tensor:
    """Write the kept entries of `new` at (row, position); in place only without gradients."""
    at = (rows[kept], places[kept])
    by_place, values = old.transpose(1, time), new.transpose(1, time)[kept]
    if torch.is_grad_enabled():
        return by_place.index_put(at, values).transpose(1, time)
    by_place[at] = values
    return old
