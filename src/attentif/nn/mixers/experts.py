"""A mixture of experts: many feed-forward networks, of which a router lets each token use a few.

    y_t = Σ_{i ∈ top-k} w_ti f_i(x_t) + s(x_t)          p_t = softmax(W_r x_t), or sigmoid(W_r x_t)

    f_i      expert i, a feed-forward network, plain or gated
    p_t      what the router gives to each expert; the k largest are chosen
    w_ti     the p_ti of the chosen experts: as they are (Fedus et al. 2021, k = 1), or divided by their sum (Jiang et al. 2024, Mixtral)
    s        shared experts, which every token uses (DeepSeek-AI 2024)

The idea is older (Jacobs et al. 1991; Shazeer et al. 2017). With `groups`, experts are chosen within the best groups only, a group being
scored by the sum of its best members. `nn/balance.py` has the losses that keep the experts evenly used. Nothing limits how many tokens an
expert takes, so none is dropped; padding reaches neither the router nor its statistics.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from attentif.errors import ConfigError
from attentif.kernels.dropout import dropout
from attentif.kernels.grouped import mixture
from attentif.nn.aside import Counting, listener
from attentif.nn.balance import Balance, BalanceLoss, BiasConfig, Routing, SwitchConfig, evenness
from attentif.nn.ffn import ACTIVATIONS, GATED, FeedForwardConfig
from attentif.nn.linear import Linear, StackedLinear
from attentif.nn.mixer import MIXERS, Caps, Mixer, MixerConfig, Site, refuse_unreadable
from attentif.nn.reversible import decided
from attentif.nn.seq import Seq
from attentif.nn.state import NoState, State
from attentif.nn.tape import tape_for

PER_EXPERT = ("router", "up", "gate", "out", "choice_bias")  # parts of `Experts` whose tensors have the experts as their first axis


@MIXERS.register
class ExpertsConfig(MixerConfig):
    """Many feed-forward networks, of which each token uses a few."""

    cost: ClassVar[str] = "T"

    kind: Literal["experts"] = Field("experts", description="many feed-forward networks, of which a router lets each token use a few")
    experts: int = Field(8, gt=0, description="how many there are")
    top_k: int = Field(2, gt=0, description="how many a token uses")
    hidden: int | None = Field(
        None, gt=0, description="inner width of each; by default 4 times the model's, or 8/3 for gated forms (equal parameters)"
    )
    activation: Literal["relu", "gelu", "gelu-tanh", "silu", "reglu", "geglu", "geglu-tanh", "swiglu"] = Field(
        "swiglu", description="relu, gelu, gelu-tanh, silu; gated: reglu, geglu, geglu-tanh, swiglu"
    )
    bias: bool = Field(False, description="biases in the experts' linear maps")
    dropout: float = Field(0.0, ge=0, lt=1, description="dropped inner units")
    scores: Literal["softmax", "sigmoid"] = Field("softmax", description="what the router's logits become: softmax or sigmoid")
    normalised: bool = Field(True, description="the weights of a token's experts sum to 1")
    scale: float = Field(1.0, gt=0, description="factor on these weights")
    groups: int = Field(1, gt=0, description="groups that the experts form, one after the other")
    top_groups: int | None = Field(None, gt=0, description="groups that a token's experts are chosen from; by default all")
    group_best: int = Field(2, gt=0, description="members of a group whose best scores, summed, are the group's")
    shared: int = Field(0, ge=0, description="experts that every token uses besides: one feed-forward network, so many times as wide")
    router_bias: bool = Field(False, description="a bias in the router")
    jitter: float = Field(0.0, ge=0, lt=1, description="in training, the router's input is multiplied by noise within 1 ± this")
    balance: Balance = Field(
        (SwitchConfig(),), description="what keeps the experts evenly used: any of kl, switch, z, bias; empty: nothing"
    )

    def build(self, site: Site) -> "Experts":
        return Experts(self, site)


class Experts(Mixer, Counting):
    caps = Caps(causal=True, bidirectional=False, streaming="exact")

    def __init__(self, config: ExpertsConfig, site: Site) -> None:
        super().__init__()
        refuse_contradictions(config)
        self.config = config
        gated = config.activation in GATED
        hidden = config.hidden or (8 * site.width // 3 if gated else 4 * site.width)
        self.activation = ACTIVATIONS[GATED.get(config.activation, config.activation)]
        self.router = Linear(site.width, config.experts, bias=config.router_bias)
        self.up = StackedLinear(config.experts, site.width, hidden, bias=config.bias)
        self.gate = StackedLinear(config.experts, site.width, hidden, bias=config.bias) if gated else None
        self.out = StackedLinear(config.experts, hidden, site.width, bias=config.bias)
        together = (
            FeedForwardConfig(hidden=config.shared * hidden, activation=config.activation, bias=config.bias, dropout=config.dropout)
            if config.shared
            else None
        )
        self.shared = together.build(site) if together else None
        self.numbers = config.experts + 1  # choices of each expert, and tokens
        self.losses = [entry for entry in config.balance if isinstance(entry, BalanceLoss)]
        self.rates = [entry.rate for entry in config.balance if isinstance(entry, BiasConfig)]
        self.choice_bias: Tensor | None
        self.register_buffer("choice_bias", torch.zeros(config.experts) if self.rates else None)

    def init_state(self, batch: int, capacity: int, *, device: torch.device, dtype: torch.dtype) -> State:
        return NoState()

    def forward(self, x: Tensor, seq: Seq, state: State | None = None) -> Tensor:
        if state is not None:
            refuse_unreadable(seq)
        if seq.dense:
            return self.mix(x.reshape(-1, x.shape[-1]), seq).view_as(x)
        tokens = seq.valid.flatten().nonzero().squeeze(1)
        y = self.mix(x.flatten(0, 1).index_select(0, tokens), seq)
        return y.new_zeros(seq.valid.numel(), y.shape[-1]).index_copy(0, tokens, y).view_as(x)

    def mix(self, x: Tensor, seq: Seq) -> Tensor:
        """Tokens (N, D), none of them padding."""
        routing = self.route(x)
        y = mixture(x, routing.chosen, routing.weights, self.config.experts, self.experts)
        self.tell(routing)
        return y if self.shared is None else y + self.shared(x, seq)

    def experts(self, rows: Tensor, sizes: list[int]) -> Tensor:
        """Rows sorted by expert, `sizes` of them each."""
        up = self.up(rows, sizes)
        inner = self.activation(up) if self.gate is None else self.activation(self.gate(rows, sizes)) * up
        y: Tensor = self.out(dropout(inner, self.config.dropout, self.training), sizes)
        return y

    def route(self, x: Tensor) -> Routing:
        config = self.config
        if self.training and config.jitter:
            noise = torch.empty_like(x).uniform_(1 - config.jitter, 1 + config.jitter)
            logits = self.router(x * noise)
        else:
            logits = self.router(x)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        if config.scores == "softmax":
            scores = probabilities = logits.softmax(-1)
        else:
            scores = logits.sigmoid()
            probabilities = scores / scores.sum(-1, keepdim=True)
        chosen = decided(lambda: self.choose(scores.detach()))
        weights = scores.gather(-1, chosen)
        if config.normalised:
            weights = weights / weights.sum(-1, keepdim=True)
        if config.scale != 1.0:
            weights = weights * config.scale
        return Routing(logits, probabilities, chosen, weights.to(x.dtype))

    def choose(self, scores: Tensor) -> Tensor:
        """(N, k): the experts of each token, the best first."""
        config = self.config
        if self.choice_bias is not None:
            scores = scores + self.choice_bias
        if config.top_groups is not None:
            by_group = scores.unflatten(-1, (config.groups, -1))
            worth = by_group.topk(config.group_best, -1).values.sum(-1)
            allowed = torch.zeros_like(worth, dtype=torch.bool).scatter_(-1, worth.topk(config.top_groups, -1).indices, True)
            scores = by_group.masked_fill(~allowed[..., None], -torch.inf).flatten(-2)
        return scores.topk(config.top_k, -1).indices

    def tell(self, routing: Routing) -> None:
        """Hand over what the tape and the training want to know."""
        if (tape := tape_for(self)) is not None:
            tape.keep(self, routing.detach())
        if (aside := listener()) is not None:
            losses = [entry.weight * entry.loss(routing) for entry in self.losses]
            tokens = routing.chosen.new_tensor([len(routing.chosen)])
            aside.say(self, losses, torch.cat([routing.counts, tokens]))

    @torch.no_grad()
    def learn(self, counts: Sequence[float]) -> None:
        if self.choice_bias is not None:
            used = self.choice_bias.new_tensor(counts[:-1])
            for rate in self.rates:
                self.choice_bias += rate * torch.sign(used.mean() - used)

    def describe(self, counts: Sequence[float]) -> dict[str, float | list[float]]:
        *used, tokens = counts
        shares = [count / max(sum(used), 1.0) for count in used]
        dropped = 1 - sum(used) / max(tokens * self.config.top_k, 1.0) if tokens else 0.0
        return {"expert_shares": shares, "expert_entropy": evenness(shares), "expert_dropped": dropped}

    def residual_outputs(self) -> list[Linear | StackedLinear]:
        return [self.out, *([] if self.shared is None else [self.shared.out])]


def refuse_contradictions(config: ExpertsConfig) -> None:
    if config.top_k > config.experts:
        raise ConfigError(f"top_k = {config.top_k} is more than experts = {config.experts}")
    if config.experts % config.groups:
        raise ConfigError(f"experts = {config.experts} is not a multiple of groups = {config.groups}")
    if config.top_groups is None:
        if config.groups > 1:
            raise ConfigError("groups need top_groups: the number of groups that a token's experts are chosen from")
        return
    members = config.experts // config.groups
    if config.top_groups > config.groups:
        raise ConfigError(f"top_groups = {config.top_groups} is more than groups = {config.groups}")
    if config.group_best > members:
        raise ConfigError(f"group_best = {config.group_best} is more than the {members} experts of a group")
    if config.top_k > config.top_groups * members:
        raise ConfigError(
            f"top_k = {config.top_k} is more than the {config.top_groups * members} experts of top_groups = {config.top_groups} groups"
        )
