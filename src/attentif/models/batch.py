"""What a frontend reads and a task scores."""

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from attentif.nn.seq import Seq


@dataclass(frozen=True, slots=True)
class Input:
    """Sequences of one kind, as a frontend reads them."""

    data: Tensor  # token ids (B, T) or (N,), pixels (B, C, H, W), frames or measurements (B, T, C)
    seq: Seq
    segments: Tensor | None = None  # which text of a pair each token belongs to, shaped as `data`
    beside: "Input | None" = None  # data of another kind about the same examples, for a frontend that joins the two
    index: Tensor | None = None  # (B,): which of these each row of the batch reads, where several rows read one (questions about a picture)

    def to(self, device: torch.device | str) -> Self:
        segments = None if self.segments is None else self.segments.to(device, non_blocking=True)
        index = None if self.index is None else self.index.to(device, non_blocking=True)
        beside = None if self.beside is None else self.beside.to(device)
        data, seq = self.data.to(device, non_blocking=True), self.seq.to(device)
        return replace(self, data=data, seq=seq, segments=segments, beside=beside, index=index)


@dataclass(frozen=True, slots=True)
class Batch:
    """One step's worth of examples."""

    source: Input  # read by the only stack, or by the encoder
    target: Input | None = None  # read by the decoder of an encoder-decoder
    labels: Tensor | None = (
        None  # what the task scores: (B,) classes, (B, horizon, C) values, or shaped as the decoder's input; -100 is not scored
    )
    rows: tuple[int, ...] = ()  # which examples of the split these are
    offset: Tensor | None = None  # (B, C): what the head's logits are added to, where another model has answered before

    def to(self, device: torch.device | str) -> Self:
        return replace(
            self,
            source=self.source.to(device),
            target=None if self.target is None else self.target.to(device),
            labels=None if self.labels is None else self.labels.to(device, non_blocking=True),
            offset=None if self.offset is None else self.offset.to(device, non_blocking=True),
        )
