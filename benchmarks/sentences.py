"""Vectors of texts of all lengths, against a pipeline of transformers that pools them.

python -m benchmarks.sentences [--quick]
"""

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

import attentif
from attentif.data import plan
from attentif.data.batching import padding_waste
from attentif.data.sentences import read_sentences
from attentif.lab.timing import interleave
from attentif.tasks.embeddings.sentences import BUDGET, read_texts
from attentif.text.kinds import WordPiece
from benchmarks.common import Result, Scale, alone
from benchmarks.models import Shape, their_bert
from benchmarks.weights import minilm

transformers.logging.disable_progress_bar()

TITLE = "Sentence embeddings"
SIZES = (1, 2, 4, 8, 16, 32, 64)  # rows in a batch of the pipeline's
ABOUT = f"""
Texts of `reviews_fr` in the order of their file, from text to vector: the mean of the last states of each, in float32. *transformers* is a
feature-extraction pipeline whose forward pools, so that nothing but vectors leaves it; it batches texts as they come and pads each batch to
its longest. Its best batch size is the fastest of {", ".join(map(str, SIZES))} in a run over the same texts before the turns begin.
*transformers, sorted* is the bare model over padded batches of similar length, with as many tokens as Attentif's: what it gains is sorting,
what is left is packing and code. All vectors are compared before anything is timed. Writing a text, row by row, is measured in *Decoding*.
"""
GOAL = "transformers at least 1.8 in batches of 32, and 1.3 at its best size"
BERT_BASE, TINY = Shape(width=768, heads=12, layers=12, vocab=8000, places=512), Shape(32, 2, 2, 8000, 512)


def run(scale: Scale) -> Iterator[Result | str]:
    data = os.environ.get("ATTENTIF_DATA")
    if not data:
        yield "Left out: the environment variable ATTENTIF_DATA does not name the folder of real data."
        return
    reviews = read_sentences(Path(data, "reviews_fr", "films_train.csv")).texts
    sentences = [part for review in reviews for part in re.split(r"(?<=[.!?…])\s+", review) if part.strip()]
    if (folder := minilm()) is None:
        yield "MiniLM is left out: `make weights` installs it."
    else:
        for name, texts in {"sentences": sentences[: scale.pick(512, 48)], "whole reviews": reviews[: scale.pick(128, 12)]}.items():
            yield compare_sentences(folder, f"all-MiniLM-L6-v2, {len(texts):,} {name}", texts, scale, GOAL if name == "sentences" else "")
    with tempfile.TemporaryDirectory() as place:
        shape = scale.pick(BERT_BASE, TINY)
        write_random(Path(place), shape, reviews)
        texts = sentences[: scale.pick(128, 48)]
        yield compare_sentences(Path(place), f"random weights in BERT-base's shape, {len(texts):,} sentences: {shape}", texts, scale, GOAL)


def write_random(folder: Path, shape: Shape, texts: Sequence[str]) -> None:
    """A folder with a bare BERT and a vocabulary of these texts."""
    tokenizer = WordPiece(vocab=shape.vocab).fit(texts)
    names = {f"{part}_token": str(tokenizer.rust.id_to_token(token)) for part, token in tokenizer.special.items()}
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer.rust, model_max_length=shape.places, **names).save_pretrained(folder)
    their_bert(replace(shape, vocab=tokenizer.vocab)).bert.save_pretrained(folder)


class Pooling(transformers.FeatureExtractionPipeline):
    """The mean of the last states of each text's own tokens."""

    def _forward(self, model_inputs: Any) -> dict[str, torch.Tensor]:
        return {"vectors": pool_mean(self.model(**model_inputs).last_hidden_state, model_inputs["attention_mask"])}

    def postprocess(self, model_outputs: Any, return_tensors: bool = False) -> torch.Tensor:
        return model_outputs["vectors"][0]


def pool_mean(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    weights = mask[..., None].to(states.dtype)
    return (states * weights).sum(1) / weights.sum(1)


def compare_sentences(folder: Path, case: str, texts: Sequence[str], scale: Scale, goal: str) -> Result:
    ours, theirs = contestants(folder, texts)
    pipes = {f"transformers, batches of {size}": partial(theirs, size) for size in scale.pick(SIZES, (8, 32))}
    first = interleave(pipes, repeats=1, warmup=0)  # the models have run before, to be compared
    best = min(pipes, key=first.median)
    sides: dict[str, Callable[[], object]] = {"attentif": ours, "transformers, batches of 32": pipes["transformers, batches of 32"]}
    sides |= {best: pipes[best], "transformers, sorted": make_sorted_batches(folder, texts)}
    timing = interleave(sides, repeats=scale.pick(5, 2))
    notes = {side: f"{len(texts) / timing.median(side):.1f} texts a second" for side in sides}
    notes[best] += ": its best size"
    run = attentif.load(folder)
    lengths = read_texts(run.task, run.model, run.tokenizers, texts).lengths
    in_order = [np.arange(start, min(start + 32, len(lengths))) for start in range(0, len(lengths), 32)]
    spread = (
        f"{lengths.min()} to {lengths.max()} tokens, {lengths.mean():.0f} on average; {padding_waste(lengths, in_order):.0%} padding by 32"
    )
    return Result(f"{case} ({spread})", timing, goal, notes)


def contestants(folder: Path, texts: Sequence[str]) -> tuple[Callable[[], object], Callable[[int], object]]:
    """Attentif, and the pipeline for a batch size; they must agree."""
    run = attentif.load(folder)
    pipe = Pooling(model=transformers.BertModel.from_pretrained(folder).eval(), tokenizer=tokenizer_of(folder, run))
    ours = partial(run.embed, list(texts), pooling="mean", normalise=False)
    theirs = lambda size: torch.stack(pipe(list(texts), batch_size=size, truncation=True)).numpy()
    np.testing.assert_allclose(ours(), theirs(32), atol=1e-4)
    return ours, theirs


def tokenizer_of(folder: Path, run: Any) -> Any:
    return transformers.AutoTokenizer.from_pretrained(folder, model_max_length=run.config.task.max_len)


def make_sorted_batches(folder: Path, texts: Sequence[str]) -> Callable[[], object]:
    """The model of transformers over batches of similar length, tokenization included."""
    run = attentif.load(folder)
    tokenizer, model = tokenizer_of(folder, run), transformers.BertModel.from_pretrained(folder).eval()

    def embed() -> torch.Tensor:
        ids = tokenizer(list(texts), truncation=True)["input_ids"]
        batches = plan(np.array([len(row) for row in ids]), BUDGET, seed=0, epoch=0, shuffle=False)
        found = torch.empty(len(ids), model.config.hidden_size)
        with torch.no_grad():
            for rows in batches:
                read = tokenizer.pad({"input_ids": [ids[row] for row in rows]}, return_tensors="pt")
                found[rows] = pool_mean(model(**read).last_hidden_state, read["attention_mask"])
        return found

    return embed


if __name__ == "__main__":
    alone(TITLE, ABOUT, run)
