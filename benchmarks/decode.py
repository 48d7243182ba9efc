"""Decoding against transformers' `generate`, in float32, with random weights of equal shapes.

    python -m benchmarks.decode [--repeats 9] [--tokens 64] [--threads 2] [--shape gpt2] [--case "greedy, 1 row"]

Both sides get the same prompts of 16 tokens and write the same number of tokens; the time includes reading the prompt.
"""

import argparse
from collections.abc import Callable, Collection, Iterator
from functools import partial

import torch
import transformers

from attentif.decode import GenerateOptions, generate
from attentif.models import Model
from benchmarks.common import environment, interleave
from benchmarks.models import Shape, gpt2, their_gpt2

PROMPT = 16
SHAPES = {
    "gpt2": Shape(width=768, heads=12, layers=12, vocab=50257, places=1024),
    "small": Shape(width=256, heads=4, layers=6, vocab=8000, places=1024),
    "tiny": Shape(width=128, heads=4, layers=4, vocab=8000, places=1024),
}
CASES = {"greedy, 1 row": (1, 1), "greedy, 8 rows": (8, 1), "4 beams, 1 row": (1, 4)}  # rows, beams


def contestants(shape: Shape, ours: Model, peer: transformers.GPT2LMHeadModel, case: str, tokens: int) -> dict[str, Callable[[], object]]:
    rows, beams = CASES[case]
    prompts = torch.randint(1, shape.vocab, (rows, PROMPT))
    options = GenerateOptions(max_tokens=tokens, beams=beams)
    theirs = {"max_new_tokens": tokens, "min_new_tokens": tokens, "do_sample": False, "num_beams": beams, "pad_token_id": 0}
    return {
        "ours": partial(generate, ours, prompts.tolist(), options),
        "peer": partial(peer.generate, prompts, attention_mask=torch.ones_like(prompts), use_cache=True, **theirs),
    }


def table(
    shapes: Collection[str] = tuple(SHAPES), cases: Collection[str] = tuple(CASES), *, repeats: int = 9, tokens: int = 64
) -> Iterator[str]:
    """The lines of a Markdown table, as they are measured."""
    yield f"| shape | case | ours, ms a step | transformers, ms a step | times faster (quartiles of {repeats} rounds) |"
    yield "|---|---|---|---|---|"
    for name in shapes:
        shape = SHAPES[name]
        ours, peer = gpt2(shape).eval(), their_gpt2(shape).eval()
        for case in cases:
            timing = interleave(contestants(shape, ours, peer, case, tokens), repeats=repeats)
            own, theirs = (timing.median(side) / tokens * 1000 for side in ("ours", "peer"))
            yield f"| {name} | {case} | {own:.2f} | {theirs:.2f} | {timing.ratio()} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9, help="rounds")
    parser.add_argument("--tokens", type=int, default=64, help="tokens to write")
    parser.add_argument("--threads", type=int, default=2, help="of torch, on both sides")
    parser.add_argument("--shape", choices=list(SHAPES), action="append", help="by default all of them")
    parser.add_argument("--case", choices=list(CASES), action="append", help="by default all of them")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    transformers.logging.set_verbosity_error()
    print(environment("transformers"), end="\n\n")
    for line in table(args.shape or list(SHAPES), args.case or list(CASES), repeats=args.repeats, tokens=args.tokens):
        print(line, flush=True)


if __name__ == "__main__":
    main()
