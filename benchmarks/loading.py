"""Opening a checkpoint: time up to and including the first forward, and the memory that it takes, against `from_pretrained`.

python -m benchmarks.loading [--quick]
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from attentif.files import write_json
from attentif.hub.family import family_of
from attentif.hub.folder import configuration, deepest, describe_model
from attentif.hub.rows import match, theirs_from
from attentif.hub.stream import on_meta, write_stream
from attentif.lab.timing import Timing
from attentif.models import build
from benchmarks.common import Result, Scale, alone

TITLE = "Opening a checkpoint"
ABOUT = """
A Llama shape of random float32 weights in one safetensors file, which lies in the page cache: from the folder to the logits of 32 tokens.
Every opening is in a process of its own that has imported its library before the clock starts; the two take turns. `peak` is the largest
resident memory of that process beyond what it had after the imports, as a share of the file; mapped pages count as soon as they are read.
`own` is the part of it that is no page of the file.
"""
GOAL = "faster than transformers, and a peak of at most 1.2 times the file"
TOKENS = 32
CONTESTANTS = ("attentif", "transformers")


def run(scale: Scale) -> Iterator[Result | str]:
    if not Path("/proc/self/status").is_file():
        yield "Left out: resident memory is read from /proc, which this system does not have."
        return
    width, layers, vocab = scale.pick((1024, 18, 32_000), (256, 4, 8_000))
    rounds = scale.pick(7, 2)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_random(folder, width, layers, vocab)
        size = (folder / "model.safetensors").stat().st_size
        found: dict[str, list[dict[str, float]]] = {name: [] for name in CONTESTANTS}
        for number in range(-1, rounds):  # the first round is to warm up
            for name in CONTESTANTS if number % 2 else CONTESTANTS[::-1]:
                opened = in_child(name, folder)
                if number >= 0:
                    found[name].append(opened)
    notes = {name: format_memory(rows, size) for name, rows in found.items()}
    timing = Timing({name: [row["seconds"] for row in rows] for name, rows in found.items()})
    yield Result(f"Llama, width {width}, {layers} blocks: {size / 1e6:,.0f} MB", timing, GOAL, notes)


def format_memory(rows: list[dict[str, float]], size: int) -> str:
    peak, own = (max(row[key] for row in rows) / size for key in ("peak", "own"))
    return f"peak {peak:.2f} × the file, own {own:.2f}"


def write_random(folder: Path, width: int, layers: int, vocab: int) -> None:
    """A folder as transformers writes it; never more than one tensor of it is in memory."""
    family = family_of("llama")
    head = family.heads[0]
    sizes = {
        "model_type": family.kind,
        "vocab_size": vocab,
        "hidden_size": width,
        "intermediate_size": 11 * width // 4,
        "num_hidden_layers": layers,
    }
    places = {"num_attention_heads": width // 64, "num_key_value_heads": width // 64, "max_position_embeddings": 2048, "rms_norm_eps": 1e-5}
    config = configuration(sizes | places | {"tie_word_embeddings": True}, family, head)
    state = on_meta(build(config, device="meta").state_dict())
    table = family.rows(head, config)
    names = [name for row in table for theirs, _ in row.pairs(deepest(config)) for name in theirs]
    shapes = dict(theirs_from(match(table, names, state, deepest(config)), state))
    write_json(folder / "config.json", describe_model(config, family, head) | {"max_position_embeddings": 2048})
    write_stream(folder / "model.safetensors", shapes, draw_tensors(shapes))


def draw_tensors(shapes: dict[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    for name, shape in shapes.items():
        yield name, torch.randn(shape.shape) * 0.02 if shape.ndim > 1 else torch.ones(shape.shape)


def in_child(name: str, folder: Path) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.loading", "--open", name, str(folder)], check=True, capture_output=True, text=True
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def open_one(name: str, folder: Path) -> dict[str, float]:
    """Open the folder once and read some tokens: seconds, and bytes of memory beyond those of the imports."""
    ids = torch.arange(TOKENS)[None]
    if name == "attentif":
        from attentif.hub import read_folder
        from attentif.models import Batch, Input
        from attentif.nn.seq import Seq

        forward = lambda: read_folder(folder).model(Batch(Input(ids, Seq.from_padded([TOKENS]))))[0]
    else:
        import transformers

        kind = transformers.LlamaForCausalLM
        transformers.logging.disable_progress_bar()
        forward = lambda: kind.from_pretrained(folder)(input_ids=ids).logits
    before, own = memory("VmHWM"), memory("RssAnon")
    begin = time.perf_counter()
    with torch.no_grad():
        logits = forward()
    seconds = time.perf_counter() - begin
    assert bool(logits.isfinite().all())
    return {"seconds": seconds, "peak": memory("VmHWM") - before, "own": memory("RssAnon") - own}


def memory(key: str) -> int:
    """A line of /proc/self/status, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key + ":"))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--open"]:
        print(json.dumps(open_one(sys.argv[2], Path(sys.argv[3]))))
    else:
        alone(TITLE, ABOUT, run)
