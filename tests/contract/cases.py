"""Every mixer in every variant that the contract is checked for. A family of mixers has a file of its own in `families/`:

CASES     name -> (configuration, site)
TWINS     kind -> the definition for one sequence alone: no masks, no batch, no kernel, no cache. Slow and plain on purpose.
MAPS      kind -> its weights (heads, T, T), or (heads, T, S) of a cross mixer, for kinds that show them; arguments as of the twin
ROUNDED   kinds in which what a token must not see may move the last bit of its output: an FFT mixes all of them, or the number of rows
          in a product decides how it is summed (optional)
SORTED    kinds that choose what a token sees by the directions of all tokens: content never comes from later, choices may (optional)
"""

import pkgutil
from importlib import import_module
from pathlib import Path

import torch
from common import LENGTHS, WIDTH, Case, Twin
from torch import Tensor, nn

import attentif.models  # noqa: F401  registers every kind
from attentif.nn.mixer import CrossMixer, Mixer
from attentif.nn.pattern import GlobalPattern
from attentif.nn.seq import Seq

CASES: dict[str, Case] = {}
TWINS: dict[str, Twin] = {}
MAPS: dict[str, Twin] = {}
ROUNDED: set[str] = set()
SORTED: set[str] = set()
for module in pkgutil.iter_modules([str(Path(__file__).parent / "families")]):
    family = import_module(f"families.{module.name}")
    assert not CASES.keys() & family.CASES.keys(), module.name
    CASES.update(family.CASES)
    TWINS.update(family.TWINS)
    MAPS.update(getattr(family, "MAPS", {}))
    ROUNDED.update(getattr(family, "ROUNDED", ()))
    SORTED.update(getattr(family, "SORTED", ()))


def built(name: str) -> Mixer | CrossMixer:
    """The mixer of a case in float64, with every parameter (gains and biases too) drawn at random so that none goes unseen."""
    config, site = CASES[name]
    torch.default_generator.manual_seed(1)  # torch.manual_seed would note the whole stack for a GPU to come, a thousand times over
    mixer = config.build(site).double().eval()
    for parameter in mixer.parameters():
        nn.init.normal_(parameter, std=0.4)
    return mixer


def built_mixer(name: str) -> Mixer:
    mixer = built(name)
    assert isinstance(mixer, Mixer)
    return mixer


def is_cross(name: str) -> bool:
    return CASES[name][1].memory_width is not None


CAPS = {name: built(name).caps for name in CASES}
SELF_CASES = [name for name in CASES if not is_cross(name)]
CROSS_CASES = [name for name in CASES if is_cross(name)]
STREAMING_CASES = [name for name in SELF_CASES if CAPS[name].streaming == "exact"]


def rows(lengths: tuple[int, ...] = LENGTHS, width: int = WIDTH, seed: int = 2) -> list[Tensor]:
    """A sequence of vectors (T, D) for each length."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(length, width, dtype=torch.float64, generator=generator) for length in lengths]


def padded(sequences: list[Tensor], fill: float = 0.0) -> Tensor:
    return nn.utils.rnn.pad_sequence(sequences, batch_first=True, padding_value=fill)


def reads_marks(name: str) -> bool:
    """Whether the case lets marked tokens be seen by all."""
    return any(isinstance(entry, GlobalPattern) for entry in getattr(CASES[name][0], "pattern", ()))


def marks(name: str, pos: Tensor) -> Tensor | None:
    """Marks that depend on the place alone, so that a row has the same ones wherever it stands."""
    return (pos % 5 == 2) if reads_marks(name) else None


def alone(name: str, length: int) -> Seq:
    return Seq.from_padded([length], marks=marks(name, torch.arange(length)[None]))


def together(name: str, lengths: tuple[int, ...] = LENGTHS, width: int | None = None) -> Seq:
    width = width or max(lengths)
    return Seq.from_padded(lengths, width, marks=marks(name, torch.arange(width).expand(len(lengths), width)))


def end_to_end(name: str, lengths: tuple[int, ...] = LENGTHS) -> Seq:
    return Seq.from_packed(lengths, marks=marks(name, Seq.from_packed(lengths).pos))
