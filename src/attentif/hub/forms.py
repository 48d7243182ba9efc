"""Other forms of a family, made from its page: the encoder of an encoder-decoder alone, an encoder that writes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from attentif.hub.family import Family, HeadOf
from attentif.hub.keys import Always, Key

WRITING = ("decoder.", "target.")


def encoder_of(family: Family, heads: Sequence[HeadOf], prefix: str | None = None) -> Family:
    """What reads, without what writes: keys and tensors of the decoder are not asked for."""
    kept: list[Key | Always] = []
    for key in family.keys:
        if isinstance(key, Always):
            kept.append(key)
        elif places := tuple(place for place in key.places if not place.startswith(WRITING)):
            kept.append(replace(key, ours=places))
    template = {name: part for name, part in family.template.items() if name not in ("shared", "target", "decoder")}
    passed_over = {key.theirs for key in family.keys} - {key.theirs for key in kept}
    harmless = (*family.harmless, *passed_over)
    prefix = family.prefix if prefix is None else prefix
    return replace(family, template=template, keys=kept, heads=heads, harmless=harmless, prefix=prefix, others=())


def decoder_of(family: Family, heads: Sequence[HeadOf]) -> Family:
    """An encoder's blocks that look back only, one token after the other: BERT as a writer (`is_decoder`)."""
    assert not callable(family.body)
    template = {name: part for name, part in family.template.items() if name != "encoder"} | {"decoder": family.template["encoder"]}
    keys = [replace(key, ours=tuple(map(_to_decoder, key.places))) if isinstance(key, Key) else key for key in family.keys]
    keys = [key for key in keys if key.theirs != "is_decoder"]
    return replace(
        family,
        template=_make_causal(template),
        keys=[*keys, Always("is_decoder", True)],
        body=[
            replace(row, ours=_to_decoder(row.ours) if isinstance(row.ours, str) else tuple(map(_to_decoder, row.ours)))
            for row in family.body
        ],
        heads=heads,
        others=(),
    )


def _to_decoder(place: str) -> str:
    return f"decoder.{place.removeprefix('encoder.')}" if place.startswith("encoder.") else place


def _make_causal(template: dict[str, Any]) -> dict[str, Any]:
    stack = template["decoder"]
    attn = stack["block"]["attn"]
    block = stack["block"] | {"attn": attn | {"mixer": attn["mixer"] | {"causal": True}}}
    return template | {"decoder": stack | {"block": block}}
