"""LED (Beltagy et al. 2020): BART whose encoder sees neighbours, and a few global tokens, as Longformer's does.

Which tokens are global is a choice of the program that reads: without one, transformers takes none, and so is it here; a task marks them.
"""

from dataclasses import replace
from typing import Any

from attentif.hub.families.bart import SIZES, classes_and_answers, family
from attentif.hub.families.longformer import window
from attentif.hub.family import register
from attentif.hub.keys import Key
from attentif.hub.rows import Row

SELF, MIXER = "encoder.layers.{i}.self_attn", "encoder.blocks.{i}.attn.mixer"
NAMES = {"query": "q", "key": "k", "value": "v"}
READING = [
    *(Row(f"{SELF}.longformer_self_attn.{theirs}.{{p}}", f"{MIXER}.{ours}.{{p}}") for theirs, ours in NAMES.items()),
    *(Row(f"{SELF}.longformer_self_attn.{theirs}_global.{{p}}", f"{MIXER}.{ours}_global.{{p}}") for theirs, ours in NAMES.items()),
    Row(f"{SELF}.output.{{p}}", f"{MIXER}.out.{{p}}"),
]


def template(of: dict[str, Any]) -> dict[str, Any]:
    """BART's, with projections of their own for global tokens."""
    block = of["encoder"]["block"]
    attn = {"mixer": block["attn"]["mixer"] | {"global_projections": True}}
    return of | {"encoder": of["encoder"] | {"block": block | {"attn": attn}}}


LED = family(
    "led",
    "LEDForConditionalGeneration",
    {"position": {"kind": "learned"}, "norm": {"kind": "layer"}},
    [],
    [head for head in classes_and_answers("LED") if "Sequence" not in head.architecture],
)
assert not callable(LED.body)
register(
    replace(
        LED,
        template=template(dict(LED.template)),
        keys=[
            *SIZES,
            Key("vocab_size", ("frontend.vocab", "target.vocab")),
            Key("max_encoder_position_embeddings", "frontend.position.max_len", 16384),
            Key("max_decoder_position_embeddings", "target.position.max_len", 1024),
            window(first=0),
        ],
        body=[*(row for row in LED.body if not row.theirs.startswith(f"{SELF}.")), *READING],
        prefix="led.",
        aliases={**LED.aliases, "attention_probs_dropout_prob": "attention_dropout", "initializer_range": "init_std"},
        harmless=(*LED.harmless, "max_position_embeddings", "scale_embedding", "normalize_before", "normalize_embedding"),
    )
)
