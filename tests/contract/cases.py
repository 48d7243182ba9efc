"""Every mixer in every variant that the contract is checked for. A new mixer adds its cases here, and its naive twin to `twins.py`."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn

import attentif.models  # noqa: F401  registers every kind
from attentif.nn.bias import ALiBiConfig, RelativeConfig
from attentif.nn.block import ParallelConfig, SublayerConfig
from attentif.nn.ffn import ACTIVATIONS, GATED, FeedForwardConfig
from attentif.nn.mixer import MIXERS, CrossMixer, Mixer, MixerConfig, Site
from attentif.nn.mixers import AttentionConfig, CrossAttentionConfig
from attentif.nn.norm import LayerNormConfig, RMSNormConfig
from attentif.nn.pattern import Global, Window
from attentif.nn.rotary import LinearScaling, Llama3Scaling, NTKScaling, RotaryConfig, YarnScaling
from attentif.nn.seq import Seq
from attentif.plugin import load_plugin

load_plugin(Path(__file__).parents[2] / "docs" / "examples" / "shift.py")  # what the documentation shows keeps the contract too

WIDTH, HEADS, MEMORY_WIDTH = 16, 4, 12
LENGTHS = (7, 19, 1, 33)  # several groups of similar length, one of them a single token
SOURCE_LENGTHS = (5, 1, 21, 9)

# Everything is compared in float64. Two orders of the same sums of a few dozen terms near 1 differ by some 1e-15; what the contract
# forbids (a token too many, a wrong place) shows at 1e-3 and more, so 1e-11 tells them apart with room on both sides.
CLOSE = {"rtol": 1e-11, "atol": 1e-11}

Case = tuple[MixerConfig, Site]
SITE = Site(width=WIDTH)


def _biased(bias: ALiBiConfig | RelativeConfig) -> Site:
    torch.manual_seed(0)
    return replace(SITE, bias=bias.build().double())


def _attention_cases() -> Iterator[tuple[str, AttentionConfig, Site]]:
    def make(**values: object) -> AttentionConfig:
        return AttentionConfig.model_validate({"heads": HEADS} | values)

    for causal in (True, False):
        way = "causal" if causal else "bidirectional"
        yield f"attention-{way}", make(causal=causal), SITE
        yield f"attention-grouped-{way}", make(causal=causal, kv_heads=2), SITE
        yield f"attention-multi-query-{way}", make(causal=causal, kv_heads=1), SITE
        yield f"attention-qk-norm-{way}", make(causal=causal, qk_norm=RMSNormConfig()), SITE
        yield f"attention-softcap-{way}", make(causal=causal, softcap=1.5), SITE
        yield f"attention-alibi-{way}", make(causal=causal), _biased(ALiBiConfig(heads=HEADS))
        relative = RelativeConfig(heads=HEADS, buckets=8, max_distance=20, bidirectional=not causal)
        yield f"attention-relative-{way}", make(causal=causal), _biased(relative)
        window = Window(left=4, right=0 if causal else 2)
        yield f"attention-window-{way}", make(causal=causal, pattern=(window,)), SITE
        yield f"attention-global-{way}", make(causal=causal, pattern=(window, Global(at=(0, 3)))), SITE
        yield f"attention-rotary-{way}", make(causal=causal, rotary=RotaryConfig()), SITE
    yield "attention-window-both-ways", make(pattern=(Window(left=2, right=5),)), SITE
    yield "attention-no-bias", make(causal=True, bias=False, out_bias=False), SITE
    yield "attention-head-width", make(causal=True, heads=3, head_width=6, scale=0.7), SITE
    scalings = {
        "linear": LinearScaling(factor=4.0),
        "ntk": NTKScaling(factor=2.0, trained=8),
        "yarn": YarnScaling(factor=4.0, trained=8),
        "llama3": Llama3Scaling(factor=8.0, trained=8),
    }
    for name, scaling in scalings.items():
        yield f"attention-rotary-{name}", make(causal=True, rotary=RotaryConfig(scaling=scaling, base=100.0)), SITE
    yield "attention-rotary-ntk-bidirectional", make(rotary=RotaryConfig(scaling=scalings["ntk"])), SITE
    yield "attention-rotary-adjacent", make(causal=True, rotary=RotaryConfig(pairs="adjacent")), SITE
    yield "attention-rotary-half-of-it", make(causal=True, rotary=RotaryConfig(fraction=0.5)), SITE
    everything = make(causal=True, kv_heads=2, softcap=2.0, qk_norm=LayerNormConfig(), rotary=RotaryConfig(), pattern=(Window(left=6),))
    yield "attention-everything-at-once", everything, _biased(ALiBiConfig(heads=HEADS))


def _parallel(causal: bool) -> ParallelConfig:
    attention = SublayerConfig(mixer=AttentionConfig(heads=HEADS, causal=causal), placement="pre")
    ffn = SublayerConfig(mixer=FeedForwardConfig(activation="silu"), placement="sandwich", weight=0.5)
    return ParallelConfig(branches={"attn": attention, "ffn": ffn})


CASES: dict[str, Case] = {
    **{name: (config, site) for name, config, site in _attention_cases()},
    **{f"feed-forward-{activation}": (FeedForwardConfig(activation=activation), SITE) for activation in (*ACTIVATIONS, *GATED)},
    "shift": (MIXERS["shift"](kind="shift"), SITE),
    "parallel-causal": (_parallel(causal=True), SITE),
    "parallel-bidirectional": (_parallel(causal=False), SITE),
    "cross-attention": (CrossAttentionConfig(heads=HEADS), replace(SITE, memory_width=MEMORY_WIDTH)),
    "cross-attention-head-width": (CrossAttentionConfig(heads=3, head_width=6, bias=False), replace(SITE, memory_width=MEMORY_WIDTH)),
}


def built(name: str) -> Mixer | CrossMixer:
    """The mixer of a case in float64, with every parameter (gains and biases too) drawn at random so that none goes unseen."""
    config, site = CASES[name]
    torch.manual_seed(1)
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


SELF_CASES = [name for name in CASES if not is_cross(name)]
CROSS_CASES = [name for name in CASES if is_cross(name)]
STREAMING_CASES = [name for name in SELF_CASES if built_mixer(name).caps.streaming == "exact"]


def rows(lengths: tuple[int, ...] = LENGTHS, width: int = WIDTH, seed: int = 2) -> list[Tensor]:
    """A sequence of vectors (T, D) for each length."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(length, width, dtype=torch.float64, generator=generator) for length in lengths]


def padded(sequences: list[Tensor], fill: float = 0.0) -> Tensor:
    return nn.utils.rnn.pad_sequence(sequences, batch_first=True, padding_value=fill)


def reads_marks(name: str) -> bool:
    """Whether the case lets marked tokens be seen by all."""
    return any(isinstance(entry, Global) for entry in getattr(CASES[name][0], "pattern", ()))


def marks(name: str, pos: Tensor) -> Tensor | None:
    """Marks that depend on the place alone, so that a row has the same ones wherever it stands."""
    return (pos % 5 == 2) if reads_marks(name) else None


def alone(name: str, length: int) -> Seq:
    return Seq.padded([length], marks=marks(name, torch.arange(length)[None]))


def together(name: str, lengths: tuple[int, ...] = LENGTHS, width: int | None = None) -> Seq:
    width = width or max(lengths)
    return Seq.padded(lengths, width, marks=marks(name, torch.arange(width).expand(len(lengths), width)))


def end_to_end(name: str, lengths: tuple[int, ...] = LENGTHS) -> Seq:
    return Seq.packed(lengths, marks=marks(name, Seq.packed(lengths).pos))
