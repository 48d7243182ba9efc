"""Attention over a part of the keys. At 33 tokens every one of these is computed by blocks: `test_patterns.py` makes sure of it."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from common import HEADS, SITE, Case
from families.attention import biased

from attentif.nn.bias import ALiBiConfig, RelativeConfig
from attentif.nn.mixer import Site
from attentif.nn.mixers import AttentionConfig
from attentif.nn.norm import RMSNormConfig
from attentif.nn.pattern import GlobalPattern, PatternConfig, RandomPattern, ShortPattern, WindowPattern
from attentif.nn.rotary import RotaryConfig

TABLE = tuple(tuple(((7 * b + 3 * h) % 17, (7 * b + 4 * h + 5) % 17)[: 1 + (b + h) % 2] for b in range(17)) for h in range(HEADS))


def _cases() -> Iterator[tuple[str, AttentionConfig, Site]]:
    def make(*pattern: PatternConfig, **values: object) -> AttentionConfig:
        return AttentionConfig.model_validate({"heads": HEADS, "pattern": pattern} | values)

    for causal in (True, False):
        way = "causal" if causal else "bidirectional"
        right = 0 if causal else 2
        window, ends = WindowPattern(left=3, right=right), GlobalPattern(first=1, last=0 if causal else 1)
        blocks, drawn = WindowPattern(left=1, right=0 if causal else 1, block=2), RandomPattern(blocks=2, block=2, seed=5)
        alibi = biased(ALiBiConfig(heads=HEADS))
        relative = biased(RelativeConfig(heads=HEADS, buckets=8, max_distance=20, bidirectional=not causal))
        everything = {"kv_heads": 2, "rotary": RotaryConfig(), "qk_norm": RMSNormConfig(), "causal": causal}
        yield f"pattern-window-grouped-{way}", make(window, causal=causal, kv_heads=2), SITE
        yield f"pattern-window-softcap-{way}", make(window, causal=causal, softcap=1.5), SITE
        yield f"pattern-window-alibi-{way}", make(window, causal=causal), alibi
        yield f"pattern-window-relative-grouped-{way}", make(window, causal=causal, kv_heads=1), relative
        yield f"pattern-windows-of-two-sizes-{way}", make(window, WindowPattern(left=1, right=4), causal=causal), SITE
        yield f"pattern-blocks-{way}", make(blocks, causal=causal), SITE
        yield (
            f"pattern-blocks-of-three-and-window-{way}",
            make(WindowPattern(left=1, right=0, block=3), WindowPattern(left=2), causal=causal),
            SITE,
        )
        yield f"pattern-global-ends-{way}", make(window, ends, causal=causal), SITE
        yield f"pattern-global-everything-{way}", make(window, GlobalPattern(at=(9,)), softcap=2.0, **everything), alibi
        yield f"pattern-global-relative-{way}", make(window, ends, causal=causal), relative
        yield f"pattern-global-alone-{way}", make(GlobalPattern(first=2), causal=causal), SITE
        yield f"pattern-random-{way}", make(blocks, drawn, causal=causal), replace(SITE, layer=3)
        yield f"pattern-random-and-window-{way}", make(window, drawn, causal=causal), SITE
        yield (
            f"pattern-random-twice-{way}",
            make(WindowPattern(left=0), drawn, RandomPattern(blocks=1, block=2, seed=1), causal=causal),
            SITE,
        )
        yield f"pattern-random-global-everything-{way}", make(blocks, drawn, ends, **everything), relative
        yield f"pattern-random-alibi-{way}", make(blocks, drawn, causal=causal, softcap=2.0), alibi
        yield f"pattern-random-table-{way}", make(window, RandomPattern(block=2, table=TABLE), causal=causal), SITE
        yield f"pattern-random-table-of-one-head-{way}", make(window, RandomPattern(block=2, table=TABLE[:1]), ends, causal=causal), SITE
    halves = WindowPattern(left=1, right=1, block=2), GlobalPattern(first=1, block=2, weight=3.0), GlobalPattern(last=1, block=2)
    yield "pattern-global-blocks-that-weigh", make(*halves), SITE
    yield "pattern-global-blocks-that-weigh-alibi", make(*halves), biased(ALiBiConfig(heads=HEADS))
    yield "pattern-short-rows-see-all", make(*halves, ShortPattern(up_to=8)), SITE
    yield "pattern-global-weight-causal", make(WindowPattern(left=3), GlobalPattern(at=(1,), weight=2.5), causal=True), SITE
    apart = {"global_projections": True}
    yield "pattern-global-projections", make(WindowPattern(left=2, right=2), GlobalPattern(at=(0,)), **apart), SITE
    yield (
        "pattern-global-projections-bigbird",
        make(WindowPattern(left=1, right=1, block=2), RandomPattern(blocks=1, block=2), ends, **apart),
        SITE,
    )
    everything |= {"causal": False, "softcap": 2.0} | apart
    yield (
        "pattern-global-projections-everything",
        make(WindowPattern(left=2, right=2), GlobalPattern(first=1), **everything),
        biased(RelativeConfig(heads=HEADS, buckets=8, max_distance=20)),
    )


torch.manual_seed(0)
CASES: dict[str, Case] = {name: (config, site) for name, config, site in _cases()}
TWINS: dict[str, object] = {}
