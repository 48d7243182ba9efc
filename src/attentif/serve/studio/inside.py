"""What one part of a network computes on an input, with its numbers."""

from typing import Any

import torch
from torch import Tensor

from attentif import inspect
from attentif.api import Run
from attentif.errors import UsageError
from attentif.inspect.attention_steps import find_attention
from attentif.models import eval_mode
from attentif.models.frontends import TokenFrontend
from attentif.models.heads.horizon import HorizonHead
from attentif.nn.block import Sublayer
from attentif.nn.feature_attention import FeatureAttention
from attentif.nn.mixer import CrossMixer
from attentif.nn.mixers.experts import Experts
from attentif.nn.mixers.mamba import Mamba
from attentif.nn.mixers.mamba2 import Mamba2
from attentif.nn.recurrent import Gated
from attentif.nn.tape import record
from attentif.serve.studio.answers import reading_of, softmax_top
from attentif.serve.studio.messages import InputRequest, Lens, MapWeights, PartRequest, PartView, Tokens
from attentif.serve.studio.numbers import Numbers
from attentif.serve.studio.reading import Reading, labels_of, names_at, spans_of, token_names
from attentif.serve.studio.state_views import WIDEST, linear_attention_view, state_space_view

BEST = 16  # keys of each query of a longer one
UNITS = 64  # units of a recurrent layer
LENS = 5  # tokens of each place
TILE = 96  # rows and columns of a square of a long map
MOST_FRAMES = 2000  # of a sound


def tokens_of(run: Run, asked: InputRequest) -> Tokens:
    """Tokens of an input, and the parts whose weights can be shown."""
    reading = reading_of(run, asked)
    with eval_mode(reading.model), record(reading.model) as tape:
        reading.model.hidden(reading.batch)
    return Tokens(
        tokens=reading.tokens,
        source=reading.source,
        spans=spans_of(run, reading, asked.text) if asked.text else None,
        grid=None if reading.grid is None else list(reading.grid),
        first=reading.first,
        heads=inspect.count_heads(reading.model),
        maps=list(tape),
    )


def frames_of(run: Run, asked: InputRequest) -> Numbers:
    """What the first layer reads where that is numbers: the spectrogram of a sound (time, channels), the windows of a series."""
    data = reading_of(run, asked).batch.source.data
    if not data.is_floating_point() or data.dim() != 3:
        raise UsageError("this run reads tokens, not numbers")
    return Numbers.of(data[0, :MOST_FRAMES])


def maps_of(run: Run, asked: PartRequest) -> MapWeights:
    """The weights of one part: whole for short inputs, the largest of each query for long ones."""
    reading = reading_of(run, asked)
    with eval_mode(reading.model), record(reading.model) as tape:
        reading.model(reading.batch)
    heads = _heads(tape, asked.path)
    rows, columns = _axes(reading, tape.mixers[asked.path], asked.path)
    signed = isinstance(tape.mixers[asked.path], Mamba | Mamba2)
    if asked.tile is not None:
        first, left = (min(at, max(len(names) - TILE, 0)) for at, names in zip(asked.tile, (rows, columns), strict=True))
        part = tape.maps(asked.path, head=min(asked.head, heads - 1))[0, :, first : first + TILE, left : left + TILE]
        names = (rows[first : first + TILE], columns[left : left + TILE])
        return MapWeights(path=asked.path, rows=names[0], columns=names[1], weights=Numbers.of(part), tile=(first, left), signed=signed)
    if max(len(rows), len(columns)) <= WIDEST:
        weights = tape.maps(asked.path)[0]
        return MapWeights(path=asked.path, rows=rows, columns=columns, weights=Numbers.of(weights), signed=signed)
    best, places = [], []
    for head in range(heads):  # one head at a time: n² numbers are never held for all of them
        top = tape.maps(asked.path, head=head)[0, 0].abs().topk(min(BEST, len(columns)))
        best.append(top.values)
        places.append(top.indices)
    kept = torch.stack(best)
    return MapWeights(
        path=asked.path, rows=rows, columns=columns, weights=Numbers.of(kept), keys=Numbers.of(torch.stack(places)), signed=signed
    )


def _heads(tape: Any, path: str) -> int:
    return len(tape.maps(path)[0]) if path in tape.records and not hasattr(tape.mixers[path], "heads") else int(tape.mixers[path].heads)


def _axes(reading: Reading, mixer: Any, path: str) -> tuple[list[str], list[str]]:
    if path.startswith("head"):
        return ["→"], reading.tokens
    if isinstance(mixer, CrossMixer):
        return reading.tokens, reading.source or reading.tokens
    names = reading.source if path.startswith("encoder") and reading.source is not None else reading.tokens
    return names, names


def lens_of(run: Run, asked: InputRequest) -> Lens:
    """What the model would answer after every sublayer."""
    reading = reading_of(run, asked)
    if isinstance(reading.model.head, HorizonHead):
        raise UsageError("this model answers with numbers, not with tokens or classes that a layer could be read by")
    found = inspect.logit_lens(reading.model, reading.batch)
    language = found.logits.shape[-1] > 1 and "tokenizer" in run.tokenizers and not hasattr(reading.model.head, "pool")
    tokenizer = run.tokenizers.get("target", run.tokenizers.get("tokenizer"))
    labels = labels_of(run)
    names, probabilities = [], []
    for layer in found.logits:
        tops = [softmax_top(place, LENS) for place in layer]
        probabilities.append([p for _, p in tops])
        if language and tokenizer is not None and not labels:
            names.append([token_names(tokenizer, ids) for ids, _ in tops])
        else:
            names.append([[labels[number] if number < len(labels) else str(number) for number in ids] for ids, _ in tops])
    places = reading.tokens if found.logits.shape[1] == len(reading.tokens) else ["→"]
    return Lens(paths=found.paths, tokens=places, names=names, probabilities=probabilities)


def part_of(run: Run, asked: PartRequest) -> PartView:
    """The actual computation of one part."""
    reading = reading_of(run, asked)
    if asked.path in ("frontend", "target"):
        return _frontend(reading, asked.path)
    if asked.path == "head":
        return _head(run, reading)
    if asked.path in ("encoder.norm", "decoder.norm"):
        return _norm(reading, asked)
    modules = {name: module for name, module in reading.model.named_modules() if isinstance(module, Sublayer)}
    sublayer = modules.get(asked.path)
    mixer = None if sublayer is None else sublayer.mixer
    if mixer is not None and any(isinstance(module, Gated) for module in mixer.modules()):
        return _gates(reading, asked.path)
    if isinstance(mixer, Mamba | Mamba2):
        return state_space_view(reading, asked)
    if isinstance(mixer, FeatureAttention):
        return linear_attention_view(reading, asked)
    if isinstance(mixer, Experts):
        return _routes(reading, asked.path)
    if mixer is not None and hasattr(mixer, "up"):
        return _feed_forward(reading, asked)
    find_is_softmax = mixer is not None and mixer.caps.maps and hasattr(mixer, "scale")
    if find_is_softmax or mixer is None:
        return _attention(reading, asked)
    return _stream(reading, asked.path, type(mixer).__name__)


def _attention(reading: Reading, asked: PartRequest) -> PartView:
    _, mixer = find_attention(reading.model, asked.path)
    rows, keys = _axes(reading, mixer, asked.path)
    query = min(asked.query, len(rows) - 1)
    steps = inspect.attention_steps(reading.model, reading.batch, asked.path, head=asked.head, query=query)
    names = ("before", "normed", "q", "k", "v", "dots", "scores", "weights", "mixed", "joined", "out", "after")
    values = {name: Numbers.of(getattr(steps, name)) for name in names} | {"allowed": Numbers.of(steps.allowed.float())}
    facts = {"scale": steps.scale, "heads": steps.heads, "head": asked.head, "query": query, "head_width": len(steps.q)}
    return PartView(path=asked.path, kind="attention", tokens=rows, keys=keys, values=values, facts=facts)


def _frontend(reading: Reading, path: str) -> PartView:
    module, source = (reading.model.frontend, reading.batch.source) if path == "frontend" else (reading.model.target, reading.batch.target)
    assert module is not None
    assert source is not None
    with eval_mode(reading.model):
        x, seq = module(source)
        values = {"sum": Numbers.of(x[0])}
        if isinstance(module, TokenFrontend):
            values["ids"] = Numbers.of(source.data[0].float())
            values["embedding"] = Numbers.of(module.tokens(source.data)[0] * module.scale)
            if module.position is not None:
                values["position"] = Numbers.of(module.position(seq.shared_pos, x.dtype).expand(x.shape)[0])
    names = reading.source if path == "frontend" and reading.source is not None else reading.tokens
    return PartView(path=path, kind="frontend", tokens=names, values=values)


def _head(run: Run, reading: Reading) -> PartView:
    with eval_mode(reading.model):
        logits = reading.model(reading.batch)[0][0]
    if isinstance(reading.model.head, HorizonHead):  # numbers, which no softmax makes probabilities
        rows = logits.reshape(len(logits), -1)[:, :UNITS]
        return PartView(path="head", kind="numbers", tokens=[str(row + 1) for row in range(len(rows))], values={"out": Numbers.of(rows)})
    last = logits[-1] if logits.dim() == 2 else logits
    ids, p = softmax_top(last, 12)
    tokenizer = run.tokenizers.get("target", run.tokenizers.get("tokenizer"))
    labels = labels_of(run)
    names = [labels[i] for i in ids] if len(labels) == len(last) else token_names(tokenizer, ids) if tokenizer else [str(i) for i in ids]
    values = {"logits": Numbers.of(last[ids]), "probabilities": Numbers.of(p)}
    return PartView(path="head", kind="head", tokens=reading.tokens, values=values, names={"answers": names})


def _norm(reading: Reading, asked: PartRequest) -> PartView:
    """The last norm of a stack: what enters and what leaves."""
    kept: dict[str, Tensor] = {}

    def keep(_: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        kept["before"], kept["normed"] = inputs[0], output

    hook = reading.model.get_submodule(asked.path).register_forward_hook(keep)
    try:
        with eval_mode(reading.model):
            reading.model.hidden(reading.batch)
    finally:
        hook.remove()
    place = min(asked.query, kept["before"].shape[1] - 1)
    values = {name: Numbers.of(tensor[0, place]) for name, tensor in kept.items()}
    return PartView(path=asked.path, kind="norm", tokens=names_at(reading, asked.path), values=values, facts={"query": float(place)})


def _gates(reading: Reading, path: str) -> PartView:
    found = {own: gates for own, gates in inspect.gates(reading.model, reading.batch).items() if own == path or own.startswith(f"{path}.")}
    values = {}
    for own, gates in found.items():
        prefix = own.removeprefix(path).strip(".")
        for name, gate in gates.items():
            values[f"{prefix}.{name}" if prefix else name] = Numbers.of(gate[0, :, :UNITS])
    return PartView(path=path, kind="gates", tokens=names_at(reading, path), values=values, facts={"units": UNITS})


def _routes(reading: Reading, path: str) -> PartView:
    routing = inspect.routing(reading.model, reading.batch)[path]
    values = {
        "probabilities": Numbers.of(routing.probabilities),
        "chosen": Numbers.of(routing.chosen.float()),
        "weights": Numbers.of(routing.weights),
    }
    facts = {"experts": float(routing.probabilities.shape[1])}
    return PartView(path=path, kind="experts", tokens=names_at(reading, path), values=values, facts=facts)


def _feed_forward(reading: Reading, asked: PartRequest) -> PartView:
    kept: dict[str, Tensor] = {}
    modules = dict(reading.model.named_modules())
    out = modules[f"{asked.path}.mixer.out"]

    def keep(_: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        kept["inner"], kept["out"] = inputs[0], output

    hook = out.register_forward_hook(keep)
    try:
        flow = inspect.activations(reading.model, reading.batch)[asked.path]
    finally:
        hook.remove()
    place = min(asked.query, flow.stream.shape[1] - 1)
    inner = kept["inner"][0]
    values = {
        "inner": Numbers.of(inner[place]),
        "all": Numbers.of(inner[:, :UNITS]),
        "out": Numbers.of(kept["out"][0, place]),
        "after": Numbers.of(flow.stream[0, place]),
    }
    facts = {"hidden": float(inner.shape[-1]), "active": float((inner[place] > 0).float().mean()), "query": float(place)}
    return PartView(path=asked.path, kind="feed-forward", tokens=names_at(reading, asked.path), values=values, facts=facts)


def _stream(reading: Reading, path: str, kind: str) -> PartView:
    """Of any other mixer: what it adds to the stream."""
    flow = inspect.activations(reading.model, reading.batch)[path]
    values = {"out": Numbers.of(flow.branch[0, :, :UNITS]), "after": Numbers.of(flow.stream[0, :, :UNITS])}
    return PartView(path=path, kind=kind, tokens=names_at(reading, path), values=values)
