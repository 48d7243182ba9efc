"""A model: frontend, one or two stacks of blocks, head. No architecture has a class of its own."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attentif.errors import ConfigError, within
from attentif.models.batch import Batch, Input
from attentif.models.bridge import transfer_states
from attentif.models.config import ModelConfig
from attentif.models.frontends import TokenFrontend
from attentif.nn.block import combine_caps
from attentif.nn.init import initialise, on_meta_device
from attentif.nn.mixer import Caps, share_module
from attentif.nn.seq import Seq, unpack
from attentif.nn.stack import Stack, StackConfig
from attentif.nn.state import StateTree


class EncoderOutput(NamedTuple):
    """The encoder's output, for `decode` and `init_state`."""

    x: Tensor  # (B, S, D), or packed (N, D)
    seq: Seq
    ended: StateTree | None = None  # final states of its mixers, for a bridge

    def repeat(self, index: Tensor) -> "EncoderOutput":
        """Select a row for each number of the index; rows may repeat."""
        x, lengths = unpack(self.x, self.seq) if self.seq.is_packed else self.x, self.seq.lengths.index_select(0, index)
        return EncoderOutput(
            x.index_select(0, index), Seq.from_padded(lengths, x.shape[1]), None if self.ended is None else self.ended.select(index)
        )


class Model(nn.Module):
    """A frontend, an encoder and/or a decoder, and a head, built from a `ModelConfig`."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        with within("frontend."):
            self.frontend = config.frontend.build(config.width, config.dropout)
        with within("target."):
            self.target = config.target.build(config.width, config.dropout) if config.target else None
        with within("encoder."):
            self.encoder = self._stack(config.encoder, None)
        with within("decoder."):
            self.decoder = self._stack(config.decoder, self.encoder.width if self.encoder else None)
        reads = self.target or self.frontend
        if config.shared:
            assert isinstance(self.frontend, TokenFrontend)
            assert isinstance(self.target, TokenFrontend)
            if self.frontend.tokens.num_embeddings != self.target.tokens.num_embeddings:
                raise ConfigError("shared = true, but source and target have vocabularies of different sizes")
            del self.target.tokens
            share_module(self.target, "tokens", self.frontend.tokens)
            reads = self.frontend
        last = self.decoder or self.encoder
        assert last is not None
        self.head = config.head.build(last.width, reads.tokens if isinstance(reads, TokenFrontend) else None, config.dropout)
        with within("tower."):
            self.tower = Model(config.tower) if config.tower else None

    def _stack(self, config: StackConfig | None, memory_width: int | None) -> Stack | None:
        return None if config is None else self.config.stack(config, memory_width)

    def forward(self, batch: Batch, state: StateTree | None = None) -> tuple[Tensor, Seq]:
        """Return the head's logits and their Seq."""
        x, seq = self.hidden(batch, state)
        return self.head(x, seq), seq

    def hidden(self, batch: Batch, state: StateTree | None = None) -> tuple[Tensor, Seq]:
        """Return the vectors of the last stack and their Seq."""
        if self.decoder is None:
            if state is not None:
                raise ValueError("an encoder takes no state")
            return self.encode(batch.source)[:2]
        if self.encoder is None:
            return self.decode(batch.source, state=state)
        if batch.target is None:
            raise ValueError("an encoder-decoder needs a target to read")
        if state is not None:
            return self.decode(batch.target, state=state)
        return self.decode(batch.target, *self.encode(batch.source))

    def encode(self, source: Input) -> EncoderOutput:
        """Run the frontend and the encoder."""
        if self.encoder is None:
            raise ValueError("this model has no encoder")
        x, seq = self.frontend(source)
        ended = None
        if self.config.bridge:
            if seq.is_packed:  # states need padded rows
                x, seq = unpack(x, seq), Seq.from_padded(seq.lengths)
            ended = self.encoder.init_state(seq.batch, seq.max_len, device=x.device, dtype=x.dtype)
        if self.config.reverse:
            memory = EncoderOutput(seq.reverse(self.encoder(seq.reverse(x), seq, state=ended)), seq, ended)
        else:
            memory = EncoderOutput(self.encoder(x, seq, state=ended), seq, ended)
        return memory if source.index is None else memory.repeat(source.index)

    def decode(
        self,
        target: Input,
        memory: Tensor | None = None,
        memory_seq: Seq | None = None,
        ended: StateTree | None = None,
        *,
        state: StateTree | None = None,
    ) -> tuple[Tensor, Seq]:
        """Run the decoder after `state`; a state made from the memory replaces the memory."""
        if self.decoder is None:
            raise ValueError("this model has no decoder")
        x, seq = (self.target or self.frontend)(target)
        if state is not None or not self.config.bridge:
            return self.decoder(x, seq, memory, memory_seq, state), seq
        state = self.init_state(seq.batch, seq.max_len, memory, memory_seq, ended)
        if not seq.is_packed:
            return self.decoder(x, seq, state=state), seq
        y = self.decoder(unpack(x, seq), Seq.from_padded(seq.lengths), state=state)
        return y.flatten(0, 1).index_select(0, seq.padded_index(seq.max_len)), seq

    def init_state(
        self,
        batch: int,
        capacity: int,
        memory: Tensor | None = None,
        memory_seq: Seq | None = None,
        ended: StateTree | None = None,
    ) -> StateTree:
        """Return an empty state; an encoder-decoder's is made from what `encode` returned."""
        if self.decoder is None:
            raise ConfigError("this model has no decoder")
        weight = next(self.decoder.parameters())
        state = self.decoder.init_state(batch, capacity, memory, memory_seq, device=weight.device, dtype=weight.dtype)
        if not self.config.bridge:
            return state
        if ended is None or self.encoder is None:
            raise ValueError("the state of a bridged decoder needs the encoder's final states: give all that encode gave")
        return transfer_states(self.encoder, self.decoder, self.config.bridge, ended, state)

    @property
    def caps(self) -> Caps:
        """Capabilities of the model; of an encoder-decoder, those of its decoder."""
        stack = self.decoder or self.encoder
        assert stack is not None
        limit = (self.config.target or self.config.frontend).limit
        return combine_caps([stack.caps, Caps(causal=True, bidirectional=False, streaming="exact", max_len=limit)])

    @property
    def checkpointing(self) -> bool:
        """Whether blocks are recomputed in the backward pass instead of storing activations."""
        return any(stack.checkpointing for stack in (self.encoder, self.decoder) if stack is not None)

    @checkpointing.setter
    def checkpointing(self, value: bool) -> None:
        for stack in (self.encoder, self.decoder):
            if stack is not None:
                stack.checkpointing = value

    def sizes(self) -> dict[str, int]:
        """Count parameters by part; `embedding` counts all tables of tokens and positions."""
        tables = {id(module.weight) for module in self.modules() if isinstance(module, nn.Embedding)}
        parts: dict[str, int] = {"embedding": 0}
        for name, parameter in self.named_parameters():
            part = "embedding" if id(parameter) in tables else name.split(".")[0]
            parts[part] = parts.get(part, 0) + parameter.numel()
        return parts


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Switch to eval mode without gradients; restore the mode afterwards."""
    training = [module for module in model.modules() if module.training]  # none where a server answers: nothing is switched
    for module in training:
        module.training = False
    try:
        with torch.no_grad():
            yield
    finally:
        for module in training:
            module.training = True


def build(config: ModelConfig, *, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32) -> Model:
    """Build a model with fresh weights; on `meta` it has shapes and no weights."""
    if torch.device(device).type == "meta":
        with on_meta_device():
            return Model(config).to(dtype)
    with torch.device(device):
        model = Model(config).to(dtype)
    initialise(model, config.init)
    return model
