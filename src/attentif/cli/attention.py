"""`attentif attention`: one query of attention, step by step."""

from typing import TYPE_CHECKING, Annotated

import typer

from attentif.cli.options import Device, Json
from attentif.cli.out import print_json, print_table
from attentif.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor


def attention(
    source: Annotated[str, typer.Argument(metavar='"1,0;0,2;1,1" | RUN', help="Vectors x₁; x₂; ..., or a run.", show_default=False)],
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help="Input text of the run.", show_default=False)] = None,
    query: Annotated[int, typer.Option(metavar="N", min=1, help="Position of the query, counted from 1.")] = 1,
    keys: Annotated[str | None, typer.Option(metavar="VECTORS", help="Keys; by default the vectors themselves.")] = None,
    values: Annotated[str | None, typer.Option(metavar="VECTORS", help="Values; by default the vectors themselves.")] = None,
    scaled: Annotated[bool, typer.Option("--scaled/--unscaled", help="Divide the scores by √d_k.")] = True,
    at: Annotated[str, typer.Option(metavar="PATH", help="Attention sublayer of the run.")] = "encoder.blocks.0.attn",
    head: Annotated[int, typer.Option(metavar="N", min=1, help="Head, counted from 1.")] = 1,
    json: Json = False,
    device: Device = "auto",
) -> None:
    """Compute attention step by step for one query.

    On given vectors or in a head of a run: q·k, scaled scores, softmax, weighted sum z.

    For example: attentif attention "1,0,1;0,2,0;1,1,1" --query 1; attentif attention runs/reviews-1 "Quel film !" --head 2
    """
    if text is None:
        q = parse_vectors("VECTORS", source)
        k, v = (q if words is None else parse_vectors(name, words) for name, words in (("--keys", keys), ("--values", values)))
        names = [f"x{number}" for number in range(1, len(k) + 1)]
        dots, scores, weights, z = attend_one_query(q, k, v, query - 1, scaled)
    else:
        names, dots, scores, weights, v, z = _of_run(source, text, at, head, query, device)
    if json:
        print_json({name: part.tolist() for name, part in (("dots", dots), ("scores", scores), ("weights", weights), ("z", z))})
        return
    rows = [
        [name, f"{dot:.4f}", f"{score:.4f}", f"{weight:.4f}", _format_vector(value)]
        for name, dot, score, weight, value in zip(names, dots, scores, weights, v, strict=True)
    ]
    print_table(["key", "q·k", "score", "softmax", "value"], rows, title=f"query {query}")
    print(f"z = Σ softmax · value = {_format_vector(z)}")


def parse_vectors(name: str, words: str) -> "Tensor":
    """Vectors written as "1,0;0,2"."""
    import torch

    try:
        rows = [[float(number) for number in row.split(",")] for row in words.split(";")]
    except ValueError:
        raise UsageError(f'{name}: vectors are written as "1,0;0,2;1,1", not {words!r}; to look at a run give a text too') from None
    if len({len(row) for row in rows}) > 1:
        raise UsageError(f"{name}: the vectors have {', '.join(str(len(row)) for row in rows)} components: all must have as many")
    found = torch.tensor(rows, dtype=torch.float64)
    if not found.isfinite().all():
        raise UsageError(f"{name}: all numbers must be finite")
    return found


def attend_one_query(q: "Tensor", k: "Tensor", v: "Tensor", query: int, scaled: bool) -> "tuple[Tensor, Tensor, Tensor, Tensor]":
    """q·k, the scores, their softmax, and the weighted sum, for one query."""
    if not 0 <= query < len(q):
        raise UsageError(f"--query: there are {len(q)} vectors, not {query + 1}")
    if q.shape[1] != k.shape[1]:
        raise UsageError(f"--keys: queries have {q.shape[1]} components and keys {k.shape[1]}: q·k needs as many")
    if len(k) != len(v):
        raise UsageError(f"--values: there are {len(k)} keys and {len(v)} values: each key has one")
    dots = k @ q[query]
    scores = dots / k.shape[1] ** 0.5 if scaled else dots
    weights = scores.softmax(0)
    return dots, scores, weights, weights @ v


def _of_run(
    source: str, text: str, at: str, head: int, query: int, device: str
) -> "tuple[list[str], Tensor, Tensor, Tensor, Tensor, Tensor]":
    from attentif import inspect
    from attentif.api import load

    run = load(source, device=device)
    encoded = run.tokenizer.encode(text)
    steps = inspect.attention_steps(run.model, inspect.make_batch([encoded.ids]), at, head=head - 1, query=query - 1)
    names = [f"{number} {token}" for number, token in enumerate(encoded.tokens, 1)]
    return names, steps.dots, steps.scores, steps.weights, steps.v, steps.mixed


def _format_vector(vector: "Tensor") -> str:
    shown = ", ".join(f"{float(number):.4g}" for number in vector[:6])
    return f"({shown}{', ...' if len(vector) > 6 else ''})"
