"""A model's architecture, read from its configuration: parts in order, with sizes and parameters.

architecture(config).stacks[0].blocks[0].sublayers[0].parameters
"""

from dataclasses import dataclass, field
from typing import Any

from attentif.models import Model, ModelConfig, build
from attentif.nn.block import Sublayer
from attentif.nn.mixer import CrossMixer, MixerConfig
from attentif.nn.stack import Stack, StackConfig

NORM_BEFORE = ("pre", "both", "sandwich")
NORM_AFTER = ("post", "both", "branch", "sandwich")


@dataclass(frozen=True, slots=True)
class ModelPart:
    """A frontend or a head."""

    path: str  # "frontend", "target", "head"
    kind: str
    parameters: int
    sizes: dict[str, int] = field(default_factory=dict)  # "vocab", "width", "classes" ...
    notes: tuple[str, ...] = ()  # kinds of what is added: positions


@dataclass(frozen=True, slots=True)
class SublayerPart:
    """One residual sublayer."""

    path: str  # "encoder.blocks.0.attn"
    name: str
    kind: str  # of its mixer
    parameters: int
    norm: str | None  # kind of its norm, where it has one
    norm_before: bool
    norm_after: bool
    residual: bool
    cross: bool  # whether it reads the encoder's output
    sizes: dict[str, int] = field(default_factory=dict)  # heads, hidden, experts ...
    notes: tuple[str, ...] = ()  # "causal", "rotary", the activation, a pattern


@dataclass(frozen=True, slots=True)
class BlockPart:
    """Blocks with the same sublayers; `numbers` are their indices in the stack."""

    numbers: tuple[int, ...]
    sublayers: tuple[SublayerPart, ...]  # of the first of them


@dataclass(frozen=True, slots=True)
class StackPart:
    path: str  # "encoder" or "decoder"
    layers: int
    blocks: tuple[BlockPart, ...]  # each different kind once, in order of appearance
    norm: str | None  # after the last block


@dataclass(frozen=True, slots=True)
class ModelArchitecture:
    """A model's parts, from input to output."""

    width: int
    parameters: int
    frontend: ModelPart
    target: ModelPart | None
    stacks: tuple[StackPart, ...]
    head: ModelPart


def architecture(config: ModelConfig) -> ModelArchitecture:
    """Describe a model; sizes that only the data decide are left out."""
    model = build(config.with_any_size(), device="meta")
    stacks = [_stack(name, stack, built) for name, stack, built in _stacks(config, model)]
    return ModelArchitecture(
        width=config.width,
        parameters=sum(model.sizes().values()),
        frontend=_part("frontend", config.frontend, model.frontend),
        target=_part("target", config.target, model.target) if config.target else None,
        stacks=tuple(stacks),
        head=_part("head", config.head, model.head),
    )


def _stacks(config: ModelConfig, model: Model) -> list[tuple[str, StackConfig, Stack]]:
    both = (("encoder", config.encoder, model.encoder), ("decoder", config.decoder, model.decoder))
    return [(name, stack, built) for name, stack, built in both if stack is not None and built is not None]


def _count(module: Any) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _sizes(config: Any, *names: str) -> dict[str, int]:
    found = {name: getattr(config, name, None) for name in names}
    return {name: value for name, value in found.items() if isinstance(value, int) and not isinstance(value, bool)}


def _part(path: str, config: Any, module: Any) -> ModelPart:
    position = getattr(config, "position", None)
    notes = () if position is None else (position.kind,)
    return ModelPart(path, config.kind, _count(module), _sizes(config, "vocab", "classes", "size", "horizon"), notes)


def _stack(path: str, config: StackConfig, built: Stack) -> StackPart:
    norm = config.norm.kind if any(True for _ in built.norm.parameters()) else None
    groups: dict[Any, list[int]] = {}
    plan = config.plan(len(built.blocks))
    for number, sublayers in enumerate(plan):
        key = next((key for key in groups if plan[key] == sublayers), number)
        groups.setdefault(key, []).append(number)
    modules = dict(built.sublayers())
    blocks = []
    for first, numbers in groups.items():
        parts = [
            _sublayer(f"{path}.blocks.{first}.{name}", name, sublayer.mixer, modules[f"blocks.{first}.{name}"], config)
            for name, sublayer in plan[first].items()
        ]
        blocks.append(BlockPart(tuple(numbers), tuple(parts)))
    return StackPart(path, len(built.blocks), tuple(blocks), norm)


def _sublayer(path: str, name: str, mixer: MixerConfig, module: Sublayer, stack: StackConfig) -> SublayerPart:
    inner = getattr(mixer, "mixer", mixer)  # of a mixer that reads in both directions
    sizes = _sizes(inner, "heads", "kv_heads", "hidden", "experts", "top_k", "state", "conv", "kernel", "features", "rank")
    sizes |= _sizes(module.mixer, "head_width", "inner")
    notes = [note for note in ("causal", "peepholes") if getattr(inner, note, False)]
    notes += ["rotary"] if getattr(inner, "rotary", None) is not None else []
    notes += [stack.bias.kind] if stack.bias is not None and "attention" in inner.kind and not isinstance(module.mixer, CrossMixer) else []
    notes += [entry.kind for entry in getattr(inner, "pattern", ())]
    notes += [activation] if isinstance(activation := getattr(inner, "activation", None), str) else []
    before, after = module.placement in NORM_BEFORE, module.placement in NORM_AFTER
    return SublayerPart(
        path=path,
        name=name,
        kind=mixer.kind if inner is mixer else f"{mixer.kind} {inner.kind}",
        parameters=_count(module),
        norm=stack.norm.kind if before or after else None,
        norm_before=before,
        norm_after=after,
        residual=module.residual,
        cross=isinstance(module.mixer, CrossMixer),
        sizes=sizes,
        notes=tuple(dict.fromkeys(notes)),
    )
