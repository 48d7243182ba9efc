"""Inputs of a model and batches of examples."""

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from attentif.nn.seq import Seq


@dataclass(frozen=True, slots=True)
class Input:
    """A batch of sequences of one modality, as a frontend reads them."""

    data: Tensor  # token ids (B, T) or (N,), pixels (B, C, H, W), frames or measurements (B, T, C)
    seq: Seq
    segments: Tensor | None = None  # which text of a pair each token belongs to, shaped as `data`
    beside: "Input | None" = None  # input of another modality for the same examples
    index: Tensor | None = None  # (B,): which input each row reads, if several rows share one (questions about a picture)

    def to(self, device: torch.device | str) -> Self:
        segments = None if self.segments is None else self.segments.to(device, non_blocking=True)
        index = None if self.index is None else self.index.to(device, non_blocking=True)
        beside = None if self.beside is None else self.beside.to(device)
        data, seq = self.data.to(device, non_blocking=True), self.seq.to(device)
        return replace(self, data=data, seq=seq, segments=segments, beside=beside, index=index)


@dataclass(frozen=True, slots=True)
class Batch:
    """The examples of one step."""

    source: Input  # read by the only stack, or by the encoder
    target: Input | None = None  # read by the decoder of an encoder-decoder
    labels: Tensor | None = (
        None  # what the task scores: (B,) classes, (B, horizon, C) values, or shaped as the decoder's input; -100 is not scored
    )
    rows: tuple[int, ...] = ()  # which examples of the split these are
    weights: Tensor | None = None  # (B,): what each example counts in the loss; by default the same

    def to(self, device: torch.device | str) -> Self:
        return replace(
            self,
            source=self.source.to(device),
            target=None if self.target is None else self.target.to(device),
            labels=None if self.labels is None else self.labels.to(device, non_blocking=True),
            weights=None if self.weights is None else self.weights.to(device, non_blocking=True),
        )
