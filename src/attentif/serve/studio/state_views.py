"""Parts that keep a state instead of a softmax: a channel of a state space, a head of linear attention, with their numbers."""

from torch import Tensor

from attentif import inspect
from attentif.inspect.state_steps import find_state_space
from attentif.models import eval_mode
from attentif.nn.mixers.mamba import Mamba
from attentif.nn.mixers.mamba2 import Mamba2
from attentif.nn.tape import record
from attentif.serve.studio.messages import PartRequest, PartView
from attentif.serve.studio.numbers import Numbers
from attentif.serve.studio.reading import Reading, names_at

WIDEST = 256  # queries and keys of a map, tokens of a recurrence, that are sent whole
OF_TOKENS = ("u", "delta", "decay", "B", "C", "state", "y", "gate", "gated")  # one row each token
OF_QUERY = ("before", "normed", "A", "out", "after")


def state_space_view(reading: Reading, asked: PartRequest) -> PartView:
    """One channel of Mamba or Mamba-2 over the tokens; of a long text, over those up to the chosen one."""
    names = names_at(reading, asked.path)
    _, mixer = find_state_space(reading.model, asked.path)
    query, channel = min(asked.query, len(names) - 1), min(asked.channel, mixer.inner - 1)
    steps = inspect.state_space_steps(reading.model, reading.batch, asked.path, channel=channel, query=query)
    first = 0 if len(names) <= WIDEST else max(0, query + 1 - WIDEST)
    shown = slice(first, first + WIDEST)
    values = {name: Numbers.of(getattr(steps, name)[shown]) for name in OF_TOKENS}
    values |= {name: Numbers.of(getattr(steps, name)) for name in OF_QUERY}
    values["kept"] = Numbers.of(steps.decay[query] * (steps.state[query - 1] if query else 0))
    values["written"] = Numbers.of(steps.delta[query] * steps.u[query] * steps.B[query])
    if len(names) <= WIDEST:
        values["map"] = Numbers.of(_implied_map(reading, mixer, asked.path, channel, steps.head))
    facts = {"channels": steps.channels, "channel": channel, "head": steps.head, "query": query, "first": first, "skip": steps.skip}
    return PartView(path=asked.path, kind="state-space", tokens=names[shown], values=values, facts=facts)


def _implied_map(reading: Reading, mixer: Mamba | Mamba2, path: str, channel: int, head: int) -> Tensor:
    """(T, T): the matrix that the channel's recurrence is; in Mamba-2, that of its head."""
    if isinstance(mixer, Mamba):
        return inspect.implied_map(reading.model, reading.batch, path, channel)[0]
    with eval_mode(reading.model), record(reading.model) as tape:
        reading.model.hidden(reading.batch)
    return tape.maps(path, head=head)[0, 0]


def linear_attention_view(reading: Reading, asked: PartRequest) -> PartView:
    """One query of one head of linear attention."""
    names = names_at(reading, asked.path)
    query = min(asked.query, len(names) - 1)
    steps = inspect.linear_attention_steps(reading.model, reading.batch, asked.path, head=asked.head, query=query)
    parts = ("before", "normed", "q", "k", "v", "q_features", "k_features", "sums", "total", "denominator", "weights", "mixed")
    values = {name: Numbers.of(getattr(steps, name)) for name in (*parts, "joined", "out", "after")}
    values |= {"seen": Numbers.of(steps.seen.float()), "dots": Numbers.of(steps.k_features @ steps.q_features)}
    facts = {"heads": steps.heads, "head": asked.head, "query": query, "eps": steps.eps}
    return PartView(path=asked.path, kind="linear", tokens=names, keys=names, values=values, facts=facts)
