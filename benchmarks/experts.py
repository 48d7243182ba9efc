"""A mixture of experts against transformers' Mixtral, and the grouped computation against a loop over the experts."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor

from attentif.lab.timing import interleave
from attentif.models import Batch, Input, Model, build, resolve
from attentif.nn.mixer import Site
from attentif.nn.mixers.experts import Experts, ExpertsConfig
from attentif.nn.seq import Seq
from attentif.tasks.language.language import LanguageConfig
from attentif.training.config import TrainConfig
from attentif.training.loop import Step
from attentif.training.optim import optimizers
from benchmarks.common import Result, Scale, alone
from benchmarks.models import Shape
from benchmarks.train_step import their_step

TITLE = "Mixture of experts"
ABOUT = """
*A training step* is forward, backward and a fused AdamW step in float32, of a Mixtral with the loss that balances its experts, on both
sides. transformers has two forms of its experts for a CPU: `grouped_mm`, its default, and `eager`, the loop over experts of its source.
*One layer* is forward and backward of the experts alone, the router included, against a loop over experts with indices, as most
programs have it, and against a dense feed-forward network that does as much arithmetic for each token (k times as wide as an expert): what
sorting and cutting cost.
"""


def run(scale: Scale) -> Iterator[Result]:
    small, tiny = (Shape(256, 8, 4, 8000, 1024), 8, 512), (Shape(32, 2, 1, 101, 64), 4, 64)
    shape, experts, hidden = scale.pick(small, tiny)
    rows, width = scale.pick((8, 256), (2, 16))
    yield measure_training_step(shape, experts, hidden, rows, width, scale.repeats)
    layers = [(8, 2, 256, 512, 2048), (32, 2, 256, 256, 2048), (8, 2, 512, 1408, 2048)]
    for number, top_k, width, hidden, tokens in scale.pick(layers, [(4, 2, 32, 48, 64)]):
        yield one_layer(number, top_k, width, hidden, tokens, scale.repeats)


def measure_training_step(shape: Shape, experts: int, hidden: int, rows: int, width: int, repeats: int) -> Result:
    torch.manual_seed(0)
    text = torch.randint(0, shape.vocab, (rows, width + 1))
    batch = Batch(Input(text[:, :-1], Seq.from_padded([width] * rows)), labels=text[:, 1:])
    labels = text[:, 1:].contiguous()
    given: dict[str, Any] = {"input_ids": text[:, :-1], "labels": labels, "shift_labels": labels, "output_router_logits": True}
    contestants = {"attentif": our_step(mixtral(shape, experts, hidden), batch)}
    for form in ("grouped_mm", "eager"):
        contestants[f"transformers, {form}"] = their_step(their_mixtral(shape, experts, hidden, form), **given)
    case = f"A training step: {shape}; 2 of {experts} experts of inner width {hidden}; {rows} rows of {width} tokens"
    return Result(case, interleave(contestants, repeats), "transformers at least 1.0")


def mixtral(shape: Shape, experts: int, hidden: int) -> Model:
    mixers = {
        "attn": {"mixer": {"heads": shape.heads, "kv_heads": shape.heads // 2}},
        "ffn": {"mixer": {"experts": experts, "hidden": hidden}},
    }
    sizes = {"width": shape.width, "layers": shape.layers, "frontend": {"vocab": shape.vocab}, "decoder": {"block": mixers}}
    return build(resolve({"base": "mixtral-8x7b"} | sizes))


def their_mixtral(shape: Shape, experts: int, hidden: int, form: str) -> transformers.MixtralForCausalLM:
    config = transformers.MixtralConfig(
        vocab_size=shape.vocab,
        hidden_size=shape.width,
        intermediate_size=hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.heads // 2,
        num_local_experts=experts,
        router_aux_loss_coef=0.005,  # k times ours for one block
        use_cache=False,
        experts_implementation=form,
    )
    return transformers.MixtralForCausalLM(config)


def our_step(model: Model, batch: Batch) -> Callable[[], None]:
    """The step of the training loop, balance included."""
    step = Step(LanguageConfig().build(), model.train())
    (optimizer,) = optimizers(model, TrainConfig(steps=1))

    def work() -> None:
        objective, loss, _ = step(batch)
        (objective / loss.count).backward()
        optimizer.step()
        optimizer.zero_grad()

    return work


def one_layer(experts: int, top_k: int, width: int, hidden: int, tokens: int, repeats: int) -> Result:
    torch.manual_seed(0)
    layer = ExpertsConfig(experts=experts, top_k=top_k, hidden=hidden).build(Site(width=width))
    seq, x, probe = Seq.from_padded([tokens]), torch.randn(1, tokens, width), torch.randn(1, tokens, width)
    dense = [torch.randn(top_k * hidden, width), torch.randn(top_k * hidden, width), torch.randn(width, top_k * hidden)]
    gate, up, out = (weight.div_(16).requires_grad_() for weight in dense)

    def both_ways(forward: Callable[[Tensor], Tensor]) -> Callable[[], None]:
        def work() -> None:
            (forward(x.clone().requires_grad_()) * probe).sum().backward()
            layer.zero_grad()
            gate.grad = up.grad = out.grad = None

        return work

    contestants = {
        "grouped": both_ways(lambda given: layer(given, seq)),
        "loop over experts": both_ways(lambda given: loop_over_experts(layer, given[0])[None]),
        "dense, equal arithmetic": both_ways(lambda given: F.linear(F.silu(F.linear(given, gate)) * F.linear(given, up), out)),
    }
    case = f"One layer: {top_k} of {experts} experts, width {width}, inner width {hidden}, {tokens} tokens"
    return Result(case, interleave(contestants, repeats))


def loop_over_experts(layer: Experts, x: Tensor) -> Tensor:
    """For each expert: find its tokens, take them out, compute, add them back."""
    routing = layer.route(x)
    assert layer.gate is not None
    y = torch.zeros_like(x)
    for expert in range(layer.config.experts):
        tokens, choice = (routing.chosen == expert).nonzero(as_tuple=True)
        own = x[tokens]
        inner = F.silu(own @ layer.gate.weight[expert].mT) * (own @ layer.up.weight[expert].mT)
        y = y.index_add(0, tokens, inner @ layer.out.weight[expert].mT * routing.weights[tokens, choice, None])
    return y


if __name__ == "__main__":
    alone(TITLE, ABOUT, run)
