"""Reformer: LSH attention against attention over all keys and against two other programs, and what a reversible stack keeps."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import transformers
from reformer_pytorch import LSHSelfAttention
from torch import Tensor, nn

from attentif.lab.profile.subjects import MixerSubject
from attentif.lab.timing import interleave
from attentif.nn.mixer import MIXERS
from attentif.nn.reversible import BlockInputs
from attentif.nn.reversible import run as run_keeping
from attentif.nn.seq import Seq
from attentif.nn.stack import Stack, StackConfig
from benchmarks.common import Result, Scale, alone, format_seconds
from benchmarks.lengths import LINEAR, WIDTH, exponent, table

TITLE = "Reformer"
ABOUT = f"""
One causal layer of width {WIDTH}, 4 heads, chunks of 64, 4 rounds, projections included: forward and backward in float32, one row. New
directions are drawn each time by all. transformers' layer recomputes nothing here; both peers gather copies of queries, keys and values
for every round and hold each round's (64, 128) weights of all chunks. *Kept* is what autograd holds of one forward pass, parameters not
counted, and of a reversible stack the order in which each hash put the tokens.
"""
HEADS, CHUNK, ROUNDS = 4, 64, 4


def run(scale: Scale) -> Iterator[Result | str]:
    for length in scale.pick((2048, 8192), (128,)):
        yield against_peers(length, scale)
    yield against_all_keys(scale)
    yield depth(scale)


def build_subject(kind: str, **values: Any) -> MixerSubject:
    return MixerSubject(kind, MIXERS[kind].model_validate({"kind": kind, "heads": HEADS, "causal": True} | values), WIDTH)


def lsh() -> MixerSubject:
    return build_subject("reformer", chunk=CHUNK, rounds=ROUNDS, redraw=True)


def against_peers(length: int, scale: Scale) -> Result:
    theirs = LSHSelfAttention(WIDTH, heads=HEADS, bucket_size=CHUNK, n_hashes=ROUNDS, causal=True)
    contestants = {
        "attentif": lsh().training(length),
        "reformer-pytorch": make_pass(theirs.train(), length, lambda y: y),
        "transformers": make_pass(their_layer(length), length, lambda y: y.hidden_states),
    }
    return Result(f"LSH attention, {length:,} tokens", interleave(contestants, scale.repeats))


def their_layer(length: int) -> nn.Module:
    config = transformers.ReformerConfig(
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        attention_head_size=WIDTH // HEADS,
        attn_layers=["lsh"],
        lsh_attn_chunk_length=CHUNK,
        num_hashes=ROUNDS,
        axial_pos_embds=False,
        max_position_embeddings=length,
        hidden_dropout_prob=0.0,
        is_decoder=True,
    )
    return transformers.ReformerModel(config).train().encoder.layers[0].attention


def make_pass(layer: nn.Module, length: int, output: Callable[[Any], Tensor]) -> Callable[[], None]:
    generator = torch.Generator().manual_seed(0)
    x, probe = (torch.randn(1, length, WIDTH, generator=generator) for _ in range(2))
    x.requires_grad_()

    def run_once() -> None:
        output(layer(x)).backward(probe)
        layer.zero_grad()
        x.grad = None

    return run_once


def against_all_keys(scale: Scale) -> str:
    lengths = scale.pick((512, 1024, 2048, 4096, 8192, 16384), (128, 256, 512))
    layers = {"reformer": lsh(), "chunked": build_subject("chunked", chunk=CHUNK), "all keys (SDPA)": build_subject("attention")}
    rows = []
    timings = {name: interleave({length: layer.training(length) for length in lengths}, scale.pick(5, 2)) for name, layer in layers.items()}
    for name, timing in timings.items():
        slope = exponent(timing, [length for length in lengths if length >= scale.pick(2048, 128)])
        goal = "" if name.startswith("all") else f"at most {LINEAR}"
        rows.append([name, *(format_seconds(timing.median(length)) for length in lengths), str(slope), goal])
    return table(["one layer", *(f"{length:,}" for length in lengths), "exponent", "goal"], rows)


def depth(scale: Scale) -> str:
    """Bytes and time of a training pass of a whole stack, reversible and not."""
    length, layers = scale.pick((2048, (2, 4, 8, 16)), (128, (2, 4)))
    rows = []
    for count in layers:
        stack, seq = reversible(count), Seq.from_padded([length])
        x = torch.randn(1, length, WIDTH).requires_grad_()

        def run_kept(stack: Stack = stack, x: Tensor = x, seq: Seq = seq) -> Tensor:
            first, second = run_keeping(stack.blocks, (x, x), BlockInputs(seq))  # type: ignore[arg-type]
            return (first + second) / 2

        ways = {"reversible": lambda stack=stack, x=x, seq=seq: stack(x, seq), "kept": run_kept}
        orders = 4 * count * length * HEADS * ROUNDS  # which a reversible stack keeps beside autograd: a hash must not fall otherwise again
        sizes = [f"{(measure_kept(stack, way) + orders * (name == 'reversible')) / 2**20:.1f} MB" for name, way in ways.items()]
        timing = interleave({name: lambda way=way: way().sum().backward() for name, way in ways.items()}, scale.pick(5, 2))
        rows.append([str(count), *sizes, *(format_seconds(timing.median(name)) for name in ways), str(timing.ratio("reversible", "kept"))])
    heads = ["blocks", "kept by a reversible stack", "by the same, not reversible", "its time", "the other's", "ratio"]
    return f"{length:,} tokens, attention by hashes and a feed-forward network in every block:\n\n" + table(heads, rows)


def reversible(layers: int) -> Stack:
    attention = {"mixer": {"kind": "reformer", "heads": HEADS, "causal": True, "chunk": CHUNK, "rounds": ROUNDS}}
    block = {"attn": attention, "ffn": {"mixer": {"kind": "feed-forward"}}}
    torch.manual_seed(0)
    return Stack(StackConfig.model_validate({"reversible": True, "block": block}), width=WIDTH, layers=layers, dropout=0.0).train()


def measure_kept(stack: Stack, way: Callable[[], Tensor]) -> int:
    sizes: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        way()
    own = {parameter.untyped_storage().data_ptr() for parameter in stack.parameters()}
    return sum(size for pointer, size in sizes.items() if pointer not in own)


if __name__ == "__main__":
    alone(TITLE, ABOUT, run)
