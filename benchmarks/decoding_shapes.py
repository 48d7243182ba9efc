"""Decoding at the sizes of well-known models, with random weights: one text, greedily, in float32 and in int8 (q8_0).

llama.cpp (the package `xllamacpp`) opens the same weights as a GGUF file that `attentif export --to gguf` writes. It has no RWKV-4 and no
LSTM: these are held against the time that reading their weights once takes, which no step can beat once they exceed the caches.
"""

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import tokenizers
import torch

from attentif.decode import GenerateOptions, generate
from attentif.decode.engine.pages import use_huge_pages
from attentif.hub.deduce import deduce_family
from attentif.hub.folder import describe_model, match_own
from attentif.hub.gguf.write import write_gguf
from attentif.hub.rows import theirs_from
from attentif.kernels.jit import jit, parallel_for
from attentif.lab.timing import interleave
from attentif.models import Model, build, resolve
from attentif.models.int8 import quantize
from attentif.text import Tokenizer
from benchmarks.common import Result, Scale, alone
from benchmarks.decoding import LlamaCpp, instruction_sets, settle

TITLE = "Decoding at the sizes of well-known models"
ABOUT = f"""
{(__doc__ or "").strip()} Threads: as many on both sides. Command: `python -m benchmarks.decoding_shapes`.
"""
PROMPT, NEW = 16, 32
LINE = 4096  # bytes that are summed in one loop, from a place that vectors can be read at
SMALL_LLAMA = {
    "base": "llama-tiny", "width": 288, "layers": 8,
    "decoder": {"block": {"attn": {"mixer": {"heads": 6, "kv_heads": 6}}, "ffn": {"mixer": {"hidden": 768}}}},
}  # fmt: skip
SHAPES: dict[str, tuple[dict[str, Any], int, bool]] = {  # configuration, tokens in the vocabulary, whether llama.cpp has it
    "GPT-2, 124 M": ({"base": "gpt2"}, 50257, True),
    "LLaMA, 10 M": (SMALL_LLAMA, 8000, True),
    "Mamba, 129 M": ({"base": "mamba-130m"}, 50280, True),
    "RWKV-4, 169 M": ({"base": "rwkv-169m"}, 50277, False),
    "LSTM, 20 M": ({"base": "lstm"}, 10000, False),
}


def run(scale: Scale) -> Iterator[Result | str]:
    yield f"Instruction sets: {', '.join(instruction_sets())}."
    for name, (values, vocab, known) in SHAPES.items():
        torch.manual_seed(0)
        model = build(resolve(values).with_sizes(vocab=vocab)).eval()
        prompt = torch.randint(300, vocab, (1, PROMPT), generator=torch.Generator().manual_seed(0)).tolist()
        options = GenerateOptions(max_tokens=scale.pick(NEW, 4), lookup=False)
        with tempfile.TemporaryDirectory() as folder:
            for precision, stored in (("float32", "f32"), ("int8", "q8_0")):
                path = write_model(model, Path(folder), stored, vocab) if known else None
                if precision == "int8":
                    quantize(model)
                contestants: dict[str, Callable[[], object]] = {"attentif": partial(generate, model, prompt, options)}
                if path is not None:
                    contestants["llama.cpp"] = partial(LlamaCpp(path, 1).write, prompt, options.max_tokens)
                size, reader = make_reader(model, options.max_tokens)
                contestants["reading the weights"] = reader
                timing = interleave(contestants, repeats=scale.pick(7, 2), after=settle)
                each = {side: f"{1000 * timing.median(side) / options.max_tokens:.2f} ms a token" for side in contestants}
                each["reading the weights"] += f", {size / 1e6:.0f} MB"
                goal = "llama.cpp at least 1.0" if known else ""
                if name.split(",")[0] in ("Mamba", "RWKV-4", "LSTM"):
                    goal = f"{goal}{' and ' if goal else ''}reading at least 0.77"
                yield Result(f"{name}, {precision}, 1 row, prompt of {PROMPT}, {options.max_tokens} new tokens", timing, goal, each)


def write_model(model: Model, folder: Path, stored: str, vocab: int) -> Path:
    """The model as a GGUF file, with a tokenizer whose tokens are never joined."""
    rust = tokenizers.Tokenizer(tokenizers.models.BPE(names(vocab), []))
    rust.pre_tokenizer, rust.decoder = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False), tokenizers.decoders.ByteLevel()
    family, head = deduce_family(model.config)
    values = {"max_position_embeddings": 1024} | describe_model(model.config, family, head)
    own = model.state_dict()
    tensors = dict(theirs_from(match_own(family, head, model.config, own), own))
    path = folder / f"{stored}.gguf"
    write_gguf(path, values, tensors, Tokenizer(rust, {"bos": 0, "eos": 1}), name="shape", stored=stored)
    return path


def names(vocab: int) -> dict[str, int]:
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    return {name: number for number, name in enumerate([*letters, *(f"t{number}" for number in range(len(letters), vocab))])}


def make_reader(model: Model, times: int) -> tuple[int, Callable[[], object]]:
    """Bytes that a step reads, and a function that reads as many from memory, on all threads, so many times."""
    head = getattr(model.head, "rounded", None)
    embedded = {id(module.weight) for module in model.modules() if isinstance(module, torch.nn.Embedding)}
    tied = getattr(model.head, "embedding", None) is not None
    size = sum(parameter.nbytes for parameter in model.parameters() if id(parameter) not in embedded or (tied and head is None))
    size += sum(buffer.nbytes for name, buffer in model.named_buffers() if name.endswith("packed"))
    memory, threads = torch.ones(size // LINE, LINE // 8, dtype=torch.int64), torch.get_num_threads()
    use_huge_pages([memory])  # as the engine's
    numbers, sums = memory.numpy(), torch.zeros(threads, dtype=torch.int64).numpy()

    def read() -> None:
        for _ in range(times):
            parallel_for(_add, threads, numbers, sums)

    return size, read


@jit(fastmath={"contract"})
def _add(start: int, stop: int, numbers: Any, sums: Any) -> None:
    threads = len(sums)
    for piece in range(start, stop):
        total = 0
        for line in range(piece * len(numbers) // threads, (piece + 1) * len(numbers) // threads):
            for i in range(numbers.shape[1]):
                total += numbers[line, i]
        sums[piece] = total


if __name__ == "__main__":
    alone(TITLE, ABOUT, run)
