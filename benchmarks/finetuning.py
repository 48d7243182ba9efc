"""What freezing and adapters spare of a training step."""

from collections.abc import Iterator

import torch

from attentif.lab.timing import interleave
from attentif.models import Batch, Input, Model, build, resolve
from attentif.nn.adapt import AdaptConfig, adapt, freeze
from attentif.nn.seq import Seq
from attentif.tasks.classification.classify import ClassifyConfig
from benchmarks.common import Result, Scale, alone
from benchmarks.train_step import our_step

TITLE = "Fine-tuning in full, in part, by adapters"
ABOUT = """
Forward, backward and a fused AdamW step of CamemBERT's shape under a head of two classes, in float32 and in train mode: all parameters, the
upper half of the blocks and the head, adapters of rank 8 on queries and values, adapters on every linear map (`docs/finetuning.md`).
"""


def run(scale: Scale) -> Iterator[Result]:
    layers, width, rows, tokens = scale.pick((12, 768, 16, 128), (2, 48, 2, 16))
    ways = {
        "in full": Way(layers, width),
        "lower half frozen": Way(layers, width, frozen=("frontend", f"encoder.0-{layers // 2 - 1}")),
        "adapters on q, v": Way(layers, width, adapted=AdaptConfig(rank=8)),
        "adapters on all": Way(layers, width, adapted=AdaptConfig(rank=8, targets=("*",))),
    }
    batch = Batch(Input(torch.randint(5, 1000, (rows, tokens)), Seq.from_padded([tokens] * rows)), labels=torch.arange(rows) % 2)
    task = ClassifyConfig(labels=["neg", "pos"]).build()
    contestants = {name: our_step(task, way.model, batch) for name, way in ways.items()}
    case = f"{layers} blocks of width {width}; {rows} rows of {tokens} tokens"
    yield Result(case, interleave(contestants, scale.repeats), notes={name: f"{way.learning:.2%} learn" for name, way in ways.items()})


class Way:
    """A model, and what of it learns."""

    def __init__(self, layers: int, width: int, *, frozen: tuple[str, ...] = (), adapted: AdaptConfig | None = None) -> None:
        sizes = {"width": width, "layers": layers, "frontend": {"vocab": 32005}, "head": {"kind": "classify", "classes": 2}}
        self.model: Model = build(resolve({"base": "camembert-base"} | sizes))
        if adapted is not None:
            adapt(self.model, adapted)
        elif frozen:
            freeze(self.model, frozen)

    @property
    def learning(self) -> float:
        sizes = {learns: sum(p.numel() for p in self.model.parameters() if p.requires_grad == learns) for learns in (True, False)}
        return sizes[True] / sum(sizes.values())


if __name__ == "__main__":
    alone(TITLE, ABOUT, run)
