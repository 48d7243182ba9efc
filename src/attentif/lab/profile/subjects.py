"""What is profiled: a mixer alone, or a preset's stacks, all of one width, reading one row of `length` tokens.

A subject gives three jobs: reading (a forward pass), training (forward and backward), and a decoding step after so many tokens.
"""

import tomllib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from attentif.config import Document, Layer, did_you_mean
from attentif.errors import AttentifError, UsageError
from attentif.models import Batch, Input, Model, build, preset_names, resolve
from attentif.models.presets import ALIASES
from attentif.nn.mixer import MIXERS, Mixer, MixerConfig, Site
from attentif.nn.seq import Seq
from attentif.nn.stack import StackConfig
from attentif.nn.state import State, StateTree

Job = Callable[[], object]
VOCAB = 256
PIECE = 2048  # tokens that a state reads at a time before the steps are measured


@dataclass(frozen=True)
class DecodingStep:
    """A decoding step after `length` tokens, to be run again and again at the same place."""

    step: Job
    state: State | StateTree


class Subject(ABC):
    """One contestant."""

    def __init__(self, name: str, kind: Literal["mixer", "preset"], module: nn.Module, parameters: int) -> None:
        self.name, self.kind, self.module, self.parameters = name, kind, module, parameters

    longest: int | None  # tokens that it can read
    streams: bool  # whether it can decode

    @abstractmethod
    def read(self, length: int) -> Callable[[], Tensor]:
        """A forward pass over one row of random data."""

    @abstractmethod
    def decoding(self, length: int) -> DecodingStep: ...

    def forward(self, length: int) -> Job:
        read = self.read(length)

        @torch.no_grad()
        def once() -> None:
            self.module.eval()
            read()

        return once

    def training(self, length: int) -> Job:
        """Forward and backward with any gradient of the output; gradients are dropped, as an optimiser's step would."""
        read = self.read(length)
        probe: Tensor | None = None

        def once() -> None:
            nonlocal probe
            self.module.train()
            y = read()
            probe = torch.randn_like(y) if probe is None else probe
            y.backward(probe)
            self.module.zero_grad()

        return once


class MixerSubject(Subject):
    def __init__(self, name: str, config: MixerConfig, width: int) -> None:
        torch.manual_seed(0)
        mixer = config.build(Site(width=width, memory_width=width))
        if not isinstance(mixer, Mixer):
            raise UsageError(f"{name} reads a memory beside its sequence: profile a preset that has it")
        super().__init__(name, "mixer", mixer, _size(mixer))
        self.mixer, self.width, self.config = mixer, width, config
        self.longest, self.streams = mixer.caps.max_len, mixer.caps.streaming != "none"

    def read(self, length: int) -> Callable[[], Tensor]:
        x = self._vectors(length).requires_grad_()
        seq = Seq.from_padded([length])

        def once() -> Tensor:
            x.grad = None
            return self.mixer(x, seq)

        return once

    def empty(self, capacity: int) -> State | StateTree:
        return self.mixer.init_state(1, capacity, device=torch.device("cpu"), dtype=torch.float32)

    @torch.no_grad()
    def decoding(self, length: int) -> DecodingStep:
        state, mixer = self.empty(length + 1), self.mixer.eval()
        for start in range(0, length, PIECE):
            width = min(PIECE, length - start)
            mixer(self._vectors(width, start), Seq.from_padded([width], start=start), state)
        x, seq = self._vectors(1, length), Seq.from_padded([1], start=length)
        return DecodingStep(torch.no_grad()(lambda: mixer(x, seq, state)), state)

    def _vectors(self, length: int, seed: int = 0) -> Tensor:
        return torch.randn(1, length, self.width, generator=torch.Generator().manual_seed(seed))


class PresetSubject(Subject):
    """The stacks of a model, from embeddings to the last vectors: no head, whose cost is the vocabulary's."""

    def __init__(self, name: str, model: Model) -> None:
        stacks = [stack for stack in (model.encoder, model.decoder) if stack is not None]
        super().__init__(name, "preset", model, sum(map(_size, stacks)))
        self.model, config = model, model.config
        self.longest = min((limit for limit in (config.max_len, config.max_target_len) if limit is not None), default=None)
        self.streams = model.decoder is not None and model.caps.streaming != "none"

    def read(self, length: int) -> Callable[[], Tensor]:
        source = _tokens(length)
        batch = Batch(source, None if self.model.target is None else source)
        return lambda: self.model.hidden(batch)[0]

    @torch.no_grad()
    def decoding(self, length: int) -> DecodingStep:
        model = self.model.eval()
        memory = () if model.encoder is None else model.encode(_tokens(length))
        state = model.init_state(1, length + 1, *memory)
        for start in range(0, length, PIECE):
            model.decode(_tokens(min(PIECE, length - start), start), state=state)
        last = _tokens(1, length)
        return DecodingStep(torch.no_grad()(lambda: model.decode(last, state=state)), state)


def _tokens(length: int, start: int = 0) -> Input:
    ids = torch.randint(VOCAB, (1, length), generator=torch.Generator().manual_seed(start))
    return Input(ids, Seq.from_padded([length], start=start))


def _size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def subject(given: str | Mapping[str, Any], *, width: int, longest: int, causal: bool = True, layers: int | None = None) -> Subject:
    """What a word of the command line names, or a table of values of a mixer: `{kind = "attention", causal = true}`."""
    values = _table(given) if isinstance(given, str) else dict(given)
    if values is not None:
        name = str(values.pop("name", "") or _name(values))
        return MixerSubject(name, mixer_config(values, name=name, longest=longest, causal=causal), width)
    assert isinstance(given, str)
    name = given.removeprefix("mixer:").removeprefix("preset:")
    presets = [*preset_names(), *ALIASES]
    if name in MIXERS and not given.startswith("preset:"):
        return MixerSubject(name, mixer_config({"kind": name}, name=name, longest=longest, causal=causal), width)
    if name in presets and not given.startswith("mixer:"):
        return PresetSubject(name, preset_model(name, width, layers))
    hint = did_you_mean(name, [*MIXERS, *presets])
    raise UsageError(f"there is no mixer or preset {given!r}{hint}; `attentif list mixers` and `attentif list models` show them")


def _table(word: str) -> dict[str, Any] | None:
    """An inline table of TOML, or None for a name."""
    if not word.lstrip().startswith("{"):
        return None
    try:
        values = tomllib.loads(f"mixer = {word}")["mixer"]
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f'{word}: not a table such as {{kind = "attention", causal = true}}: {error}') from None
    return dict(values)


def _name(values: Mapping[str, Any]) -> str:
    """ "attention, causal = false" """
    return ", ".join([str(values.get("kind", "")), *(f"{key} = {value}".lower() for key, value in values.items() if key != "kind")])


def mixer_config(values: Mapping[str, Any], *, name: str, longest: int, causal: bool) -> MixerConfig:
    """The mixer's configuration; what it leaves open and profiling must know is filled in: the direction, and the longest row."""
    kind = str(values.get("kind", ""))
    if kind not in MIXERS:
        raise UsageError(f"there is no mixer {kind!r}{did_you_mean(kind, list(MIXERS))}; `attentif list mixers` shows them")
    fields = MIXERS[kind].model_fields
    filled = {key: value for key, value in (("causal", causal), ("max_len", longest)) if key in fields} | dict(values)
    return Document([Layer(filled, f"mixer {name}")]).build(MIXERS[kind])


def preset_model(name: str, width: int, layers: int | None = None) -> Model:
    """A preset at another width, with `layers` blocks in each stack, by default one of each kind that it has."""
    plain = resolve({"base": name})
    if {part.kind for part in (plain.frontend, plain.target) if part is not None} != {"tokens"}:
        raise UsageError(f"{name} reads {plain.frontend.kind}: only models that read tokens are profiled")
    values: dict[str, Any] = {"base": name, "width": width, "frontend": {"vocab": VOCAB}}
    if plain.target is not None:
        values["target"] = {"vocab": VOCAB}
    for side in ("encoder", "decoder"):
        stack: StackConfig | None = getattr(plain, side)
        if stack is not None:
            values[side] = {"layers": layers or sum(kind.repeat for kind in stack.blocks) or 1}
    try:
        config = resolve(values).with_any_size()
    except AttentifError as error:
        raise UsageError(f"{name} cannot be built at width {width}: {error.message}") from None
    torch.manual_seed(0)
    return build(config)
