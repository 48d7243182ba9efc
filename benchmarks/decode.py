"""Decoding against transformers' `generate`, in float32, with random weights of equal shapes."""

from collections.abc import Callable, Iterator
from functools import partial

import torch
import transformers

from attentif.decode import GenerateOptions, generate
from attentif.lab.timing import interleave
from attentif.models import Model
from benchmarks.common import Result, Scale, alone
from benchmarks.models import Shape, gpt2, their_gpt2

TITLE = "Decoding"
PROMPT = 16
ABOUT = f"""
GPT-2's shape in float32, with random weights. Both sides get the same prompts of {PROMPT} tokens and write the same number of tokens;
the time includes reading the prompt.
"""
SHAPES = {
    "GPT-2, 124 M": Shape(width=768, heads=12, layers=12, vocab=50257, places=1024),
    "small": Shape(width=256, heads=4, layers=6, vocab=8000, places=1024),
    "tiny": Shape(width=128, heads=4, layers=4, vocab=8000, places=1024),
}
CASES = {"greedy, 1 row": (1, 1), "greedy, 8 rows": (8, 1), "4 beams, 1 row": (1, 4)}  # rows, beams


def run(scale: Scale) -> Iterator[Result | str]:
    tokens = scale.pick(64, 8)
    for name in scale.pick(list(SHAPES), ["tiny"]):
        shape = SHAPES[name]
        ours, peer = gpt2(shape).eval(), their_gpt2(shape).eval()
        for case in CASES:
            timing = interleave(contestants(shape, ours, peer, case, tokens), repeats=scale.pick(9, 2))
            goal = "transformers at least 1.5" if (name, case) == ("GPT-2, 124 M", "greedy, 1 row") else ""
            notes = {side: f"{1000 * timing.median(side) / tokens:.2f} ms a token" for side in timing.seconds}
            yield Result(f"{name}, {case}: {tokens} tokens; {shape}", timing, goal, notes)


def contestants(shape: Shape, ours: Model, peer: transformers.GPT2LMHeadModel, case: str, tokens: int) -> dict[str, Callable[[], object]]:
    rows, beams = CASES[case]
    prompts = torch.randint(1, shape.vocab, (rows, PROMPT))
    options = GenerateOptions(max_tokens=tokens, beams=beams)
    theirs = {"max_new_tokens": tokens, "min_new_tokens": tokens, "do_sample": False, "num_beams": beams, "pad_token_id": 0}
    return {
        "attentif": partial(generate, ours, prompts.tolist(), options),
        "transformers": partial(peer.generate, prompts, attention_mask=torch.ones_like(prompts), use_cache=True, **theirs),
    }


if __name__ == "__main__":
    alone(TITLE, ABOUT, run)
