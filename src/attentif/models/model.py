"""A model: frontend, one or two stacks of blocks, head. No architecture has a class of its own.

    z = 1/M Σ_m z_m        M members, which learn side by side and know nothing of each other (Lakshminarayanan et al. 2017)

For classes, softmax(z) is the normalised geometric mean of what the members answer. Most models are their only member.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor, nn

from attentif.errors import ConfigError, within
from attentif.models.batch import Batch, Input
from attentif.models.bridge import carried
from attentif.models.config import ModelConfig
from attentif.models.frontends import Tokens
from attentif.nn.block import combined
from attentif.nn.init import initialise, on_paper
from attentif.nn.mixer import Caps, refer
from attentif.nn.seq import Seq, unpack
from attentif.nn.stack import Stack, StackConfig
from attentif.nn.state import StateTree


class Memory(NamedTuple):
    """What an encoder made of a source, for `decode` and `init_state`."""

    x: Tensor  # (B, S, D), or packed (N, D)
    seq: Seq
    ended: StateTree | None = None  # the states in which its mixers ended, where a bridge leads on from them

    def repeated(self, index: Tensor) -> "Memory":
        """A row for each number of the index: rows that read one source share what was made of it."""
        x, lengths = unpack(self.x, self.seq) if self.seq.is_packed else self.x, self.seq.lengths.index_select(0, index)
        return Memory(x.index_select(0, index), Seq.padded(lengths, x.shape[1]), None if self.ended is None else self.ended.select(index))


class Model(nn.Module):
    """What a `ModelConfig` builds: a batch through the frontend, the encoder, the decoder, whichever there are, and the head.

    Where it has several members, its own parts are the first one's, and who looks inside looks at that one; `forward` asks all.
    """

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
            assert isinstance(self.frontend, Tokens)
            assert isinstance(self.target, Tokens)
            if self.frontend.tokens.num_embeddings != self.target.tokens.num_embeddings:
                raise ConfigError("shared = true, but source and target have vocabularies of different sizes")
            del self.target.tokens
            refer(self.target, "tokens", self.frontend.tokens)
            reads = self.frontend
        last = self.decoder or self.encoder
        assert last is not None
        self.head = config.head.build(last.width, reads.tokens if isinstance(reads, Tokens) else None, config.dropout)
        self.of_a_member = config if config.members == 1 else config.changed(members=1)
        self.others = nn.ModuleList(Model(self.of_a_member) for _ in range(config.members - 1))

    def _stack(self, config: StackConfig | None, memory_width: int | None) -> Stack | None:
        return None if config is None else self.config.stack(config, memory_width)

    def forward(self, batch: Batch, state: StateTree | None = None) -> tuple[Tensor, Seq]:
        """The head's logits, and the Seq of what they stand for; the mean over the members."""
        if self.others:
            if state is not None:
                raise ValueError("members that are averaged answer at once: they take no state")
            answers = [member(batch) for member in self.members]
            return torch.stack([logits for logits, _ in answers]).mean(0), answers[0][1]
        x, seq = self.hidden(batch, state)
        logits = self.head(x, seq)
        return logits if batch.offset is None else logits + batch.offset, seq

    @property
    def members(self) -> list["Model"]:
        """The networks whose answers are averaged, each a model by itself over the same weights."""
        if not self.others:
            return [self]
        first = copy(self)
        first.config = self.of_a_member
        first._modules = self._modules | {"others": nn.ModuleList()}
        return [first, *self.others]

    def hidden(self, batch: Batch, state: StateTree | None = None) -> tuple[Tensor, Seq]:
        """The last stack's vectors."""
        if self.decoder is None:
            if state is not None:
                raise ValueError("an encoder reads a sequence at once: it takes no state")
            return self.encode(batch.source)[:2]
        if self.encoder is None:
            return self.decode(batch.source, state=state)
        if batch.target is None:
            raise ValueError("an encoder-decoder needs a target to read")
        if state is not None:
            return self.decode(batch.target, state=state)
        return self.decode(batch.target, *self.encode(batch.source))

    def encode(self, source: Input) -> Memory:
        """The encoder's output: the memory that a decoder reads."""
        if self.encoder is None:
            raise ValueError("this model has no encoder")
        x, seq = self.frontend(source)
        ended = None
        if self.config.bridge:
            if seq.is_packed:  # a state reads padded rows
                x, seq = unpack(x, seq), Seq.padded(seq.lengths)
            ended = self.encoder.init_state(seq.batch, seq.max_len, device=x.device, dtype=x.dtype)
        if self.config.reverse:
            memory = Memory(seq.mirrored(self.encoder(seq.mirrored(x), seq, state=ended)), seq, ended)
        else:
            memory = Memory(self.encoder(x, seq, state=ended), seq, ended)
        return memory if source.index is None else memory.repeated(source.index)

    def decode(
        self,
        target: Input,
        memory: Tensor | None = None,
        memory_seq: Seq | None = None,
        ended: StateTree | None = None,
        *,
        state: StateTree | None = None,
    ) -> tuple[Tensor, Seq]:
        """The decoder's vectors, after what `state` has read; a state made from the memory makes the memory unnecessary."""
        if self.decoder is None:
            raise ValueError("this model has no decoder")
        x, seq = (self.target or self.frontend)(target)
        if state is not None or not self.config.bridge:
            return self.decoder(x, seq, memory, memory_seq, state), seq
        state = self.init_state(seq.batch, seq.max_len, memory, memory_seq, ended)
        if not seq.is_packed:
            return self.decoder(x, seq, state=state), seq
        y = self.decoder(unpack(x, seq), Seq.padded(seq.lengths), state=state)
        return y.flatten(0, 1).index_select(0, seq.cells(seq.max_len)), seq

    def init_state(
        self,
        batch: int,
        capacity: int,
        memory: Tensor | None = None,
        memory_seq: Seq | None = None,
        ended: StateTree | None = None,
    ) -> StateTree:
        """An empty state for `batch` sequences of at most `capacity` tokens; an encoder-decoder's is made from what `encode` gave."""
        if self.decoder is None:
            raise ConfigError("this model has no decoder: it reads, it does not write")
        if self.others:
            raise ConfigError("this model is an average of several, which answer at once: it does not write")
        weight = next(self.decoder.parameters())
        state = self.decoder.init_state(batch, capacity, memory, memory_seq, device=weight.device, dtype=weight.dtype)
        if not self.config.bridge:
            return state
        if ended is None or self.encoder is None:
            raise ValueError("the state of a bridged decoder is made from the states in which its encoder ended: give all that encode gave")
        return carried(self.encoder, self.decoder, self.config.bridge, ended, state)

    @property
    def caps(self) -> Caps:
        """What the whole can do; of an encoder-decoder, what its decoder can."""
        stack = self.decoder or self.encoder
        assert stack is not None
        limit = (self.config.target or self.config.frontend).limit
        return combined([stack.caps, Caps(causal=True, bidirectional=False, streaming="exact", max_len=limit)])

    @property
    def checkpointing(self) -> bool:
        """Recompute blocks in the backward pass instead of keeping their activations."""
        return any(stack.checkpointing for stack in (self.encoder, self.decoder) if stack is not None)

    @checkpointing.setter
    def checkpointing(self, value: bool) -> None:
        for member in self.members:
            for stack in (member.encoder, member.decoder):
                if stack is not None:
                    stack.checkpointing = value

    def sizes(self) -> dict[str, int]:
        """Parameters by part, of all members; `embedding` is every table of tokens and places, whatever it is shared with."""
        tables = {id(module.weight) for module in self.modules() if isinstance(module, nn.Embedding)}
        parts: dict[str, int] = {"embedding": 0}
        for name, parameter in chain.from_iterable(member.named_parameters() for member in self.members):
            part = "embedding" if id(parameter) in tables else name.split(".")[0]
            parts[part] = parts.get(part, 0) + parameter.numel()
        return parts


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """Eval mode without gradients; training mode comes back where it was."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)


def build(config: ModelConfig, *, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32) -> Model:
    """A model with fresh weights, drawn from torch's current random state. On `meta` it has shapes and no weights."""
    if torch.device(device).type == "meta":
        with on_paper():
            return Model(config).to(dtype)
    with torch.device(device):
        model = Model(config).to(dtype)
    for member in model.members:
        initialise(member, config.init)
    return model
