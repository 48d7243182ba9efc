"""Beam search: the likeliest texts found by following several at once.

    score(y) = log P(y | x) / n^α             n  tokens of y, the stop token counted;  α  `length_penalty`

At each step every live beam is continued by every token, and the best continuations by log P are looked at in order. Among the
first `beams` of them, those that end with a stop token are complete and are kept by their score; the first `beams` of those that do not
end are the next live beams. A prompt's search ends when as many texts are complete as there are beams and no live one can still do
better: since log P only falls, a beam's best hope is log P / m^α, with m its longest possible length if α > 0 and its present one
otherwise. With `early_stopping` it ends as soon as that many texts are complete.

Graves 2012; Sutskever et al. 2014, section 3.2; the length in the score as in fairseq and transformers (GNMT divides by ((5+n)/6)^α).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch

from attentif.decode.limits import NEVER, Limiter
from attentif.decode.options import GenerateOptions
from attentif.decode.session import Session, check_prompts
from attentif.models import Input, Model, eval_mode


@dataclass(frozen=True, slots=True)
class Hypothesis:
    tokens: list[int]  # without the stop token
    score: float  # log_prob / n^α
    log_prob: float  # of all tokens, the stop token too
    finish: Literal["token", "length", "limit"]


@dataclass(frozen=True, slots=True)
class Node:
    """A continuation that was looked at; together they are the tree of the search."""

    parent: int  # its place in the list of nodes; -1: the prompt
    depth: int  # tokens from the prompt to it
    token: int
    log_prob: float  # from the prompt to it
    fate: Literal["kept", "complete", "dropped"]


@dataclass(frozen=True, slots=True)
class Beam:
    """A live text."""

    row: int  # in the session
    tokens: tuple[int, ...] = ()
    log_prob: float = 0.0
    node: int = -1


@dataclass(slots=True)
class BeamSearch:
    """The search from one prompt."""

    room: int  # tokens that may be written
    room_finish: Literal["length", "limit"]  # what it means to have written them
    live: list[Beam]
    complete: list[Hypothesis] = field(default_factory=list)  # best first, at most `beams`
    tree: list[Node] | None = None

    def extend(self, rows: list[list[tuple[float, int]]], stop_tokens: Collection[int], options: GenerateOptions) -> None:
        """One step: `rows` has the likeliest (log-probability, token) pairs of each session row."""
        candidates = [(beam.log_prob + log_prob, beam, token) for beam in self.live for log_prob, token in rows[beam.row]]
        candidates = [candidate for candidate in candidates if candidate[0] > NEVER] or candidates  # one goes on where none may
        candidates.sort(key=lambda candidate: -candidate[0])
        depth = len(self.live[0].tokens) + 1
        looked_at = candidates[: options.beams * max(2, 1 + len(stop_tokens))]  # enough for `beams` that do not end
        following: list[Beam] = []
        for rank, (log_prob, beam, token) in enumerate(looked_at):
            fate: Literal["kept", "complete", "dropped"] = "dropped"
            stops = token in stop_tokens
            if stops or depth == self.room:
                if rank < options.beams:
                    fate = "complete"
                    tokens = [*beam.tokens] if stops else [*beam.tokens, token]
                    score = log_prob / depth**options.length_penalty
                    self.complete.append(Hypothesis(tokens, score, log_prob, "token" if stops else self.room_finish))
            elif len(following) < options.beams:
                fate = "kept"
                following.append(Beam(beam.row, (*beam.tokens, token), log_prob, len(self.tree) if self.tree is not None else -1))
            if self.tree is not None:
                self.tree.append(Node(beam.node, depth, token, log_prob, fate))
        self.complete.sort(key=lambda hypothesis: -hypothesis.score)
        del self.complete[options.beams :]
        self.live = [] if self._over(following, options) else following

    def _over(self, following: list[Beam], options: GenerateOptions) -> bool:
        if not following or len(self.complete) < options.beams:
            return not following
        if options.early_stopping:
            return True
        length = self.room if options.length_penalty > 0 else len(following[0].tokens)
        return following[0].log_prob / length**options.length_penalty <= self.complete[-1].score


def search_trees(
    model: Model,
    prompts: Sequence[Sequence[int]],
    options: GenerateOptions,
    *,
    source: Input | None = None,
    stop_tokens: Collection[int] = (),
    tree: bool = False,
) -> list[BeamSearch]:
    """The finished searches of all prompts, side by side in one batch; with `tree`, every continuation they looked at."""
    check_prompts(model, prompts, source)
    if not prompts:
        return []
    with eval_mode(model):
        session = Session(model, prompts, options.max_tokens, source)
        searches = []
        for row, prompt in enumerate(prompts):
            room = options.max_tokens if session.limit is None else min(options.max_tokens, session.limit - len(prompt))
            finish: Literal["length", "limit"] = "length" if room == options.max_tokens else "limit"
            searches.append(BeamSearch(room, finish, [Beam(row)], tree=[] if tree else None))
        wanted = min(options.beams * max(2, 1 + len(stop_tokens)), session.logits.shape[1])
        limiter = Limiter(options, options.max_tokens, stop_tokens, session.logits.shape[1])
        while True:
            live = [(prompt, beam) for prompt, search in zip(prompts, searches, strict=True) for beam in search.live]
            texts = [(*prompt, *beam.tokens) for prompt, beam in live]
            top = limiter(session.logits.log_softmax(-1), texts, len(live[0][1].tokens)).topk(wanted)
            rows = [list(zip(*pair, strict=True)) for pair in zip(top.values.tolist(), top.indices.tolist(), strict=True)]
            for search in searches:
                if search.live:
                    search.extend(rows, stop_tokens, options)
            going = [beam for search in searches for beam in search.live]
            if not going:
                return searches
            session.select([beam.row for beam in going])
            session.read(torch.tensor([beam.tokens[-1] for beam in going], device=session.device))
            numbers = iter(range(len(going)))
            for search in searches:
                search.live = [Beam(next(numbers), beam.tokens, beam.log_prob, beam.node) for beam in search.live]


def beam_search(
    model: Model,
    prompts: Sequence[Sequence[int]],
    options: GenerateOptions,
    *,
    source: Input | None = None,
    stop_tokens: Collection[int] = (),
) -> list[list[Hypothesis]]:
    """For each prompt the `beams` best texts found, best first."""
    return [search.complete for search in search_trees(model, prompts, options, source=source, stop_tokens=stop_tokens)]
