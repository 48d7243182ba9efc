"""Heads that several families have, by the names that most of them use for their tensors."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from attentif.hub.family import HeadOf
from attentif.hub.keys import Always, Key
from attentif.hub.rows import Row

DROPOUT = Key("classifier_dropout", "head.dropout", None)
# why a class of transformers is not read
CHOICES = "it chooses among several texts, and there is no such task here"
HALF = "it is the half of an encoder-decoder that writes, without what it would read"
HEADLESS = "it is an encoder-decoder that writes nothing"
NO_TASK = "there is no task here that it is for"


def language(architecture: str, theirs: str = "lm_head", keys: Sequence[Key | Always] = (), **head: Any) -> HeadOf:
    """The next token, at every place."""
    return HeadOf(architecture, {"kind": "language", **head}, [Row(f"{theirs}.weight", "head.linear.weight")], keys, task="language")


def classify_head(architecture: str, rows: Mapping[str, str], keys: Sequence[Key | Always] = (DROPOUT,), **head: Any) -> HeadOf:
    """A class for the whole; `rows` are their names of the head's linear maps and ours."""
    table = [Row(f"{theirs}.{{p}}", f"head.{ours}.{{p}}") for theirs, ours in rows.items()]
    return HeadOf(architecture, {"kind": "classify", "classes": None} | head, table, keys, task="classify")


def tag_head(architecture: str, theirs: str = "classifier", keys: Sequence[Key | Always] = (DROPOUT,), **head: Any) -> HeadOf:
    return HeadOf(architecture, {"kind": "tokens", "classes": None, **head}, [Row(f"{theirs}.{{p}}", "head.out.{p}")], keys, task="tag")


def answer_head(architecture: str, prefix: str | None = None, theirs: str = "qa_outputs") -> HeadOf:
    return HeadOf(architecture, {"kind": "span"}, [Row(f"{theirs}.{{p}}", "head.out.{p}")], task="answer", prefix=prefix)


def bare(architecture: str, pool: str = "mean", keys: Sequence[Key | Always] = ()) -> HeadOf:
    """No head: what the last block gives, pooled into one vector. A pooler of theirs was trained for next sentences, and is left out."""
    return HeadOf(architecture, {"kind": "embed", "pool": pool}, keys=keys, prefix="", ignored=("pooler.dense.weight", "pooler.dense.bias"))


def ends_classified(architecture: str) -> HeadOf:
    """A class from where an encoder-decoder ends reading the text that it was also given to write (it is the [EOS] there)."""
    rows = {"classification_head.dense": "hidden", "classification_head.out_proj": "out"}
    keys = [Key("classifier_dropout", "head.dropout", 0.0)]
    return replace(classify_head(architecture, rows, keys, pool="last", hidden=True, activation="tanh"), task=None)


def decoder_heads(name: str, *, tags: str = "score", answers: str | None = "transformer.", only: Sequence[str] = ()) -> list[HeadOf]:
    """What decoders have besides the language head: classes and vectors from the last place, tags, answers.

    `tags`: the name of the tagger's map; `answers`: the prefix of the body's tensors where answers are looked for; `only`: endings of the
    classes that there are, by default all.
    """
    heads = [
        classify_head(f"{name}ForSequenceClassification", {"score": "out"}, (), pool="last", bias=False),
        tag_head(f"{name}ForTokenClassification", tags, (Key("classifier_dropout", "head.dropout", 0.1),)),
        answer_head(f"{name}ForQuestionAnswering", answers),
        bare(f"{name}Model", "last"),
    ]
    return [head for head in heads if not only or head.architecture.removeprefix(name) in only]
