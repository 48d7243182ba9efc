"""A mixture of experts: a router sends each token to a few of many feed-forward networks.

    y_t = Σ_{i ∈ top-k} w_ti f_i(x_t) + s(x_t)          p_t = softmax(W_r x_t), or sigmoid(W_r x_t)

    f_i      expert i, a feed-forward network, plain or gated
    p_t      what the router gives to each expert; the k largest are chosen
    w_ti     the p_ti of the chosen experts: as they are (Fedus et al. 2021, k = 1), or divided by their sum (Jiang et al. 2024, Mixtral)
    s        shared experts, which every token uses (DeepSeek-AI 2024), or σ(g·x_t) times them (Qwen Team 2024)

After Jacobs et al. 1991 and Shazeer et al. 2017. With `groups`, experts are chosen from the best groups, ranked by the sum of their best
members. Where the weights multiply inputs, y_t = Σ f_i(w_ti x_t) (Llama 4). Load-balancing losses are in `nn/balance.py`. Experts have no
capacity limit, so no token is dropped; padding is not routed.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from attentif.errors import ConfigError
from attentif.kernels.dropout import dropout
from attentif.kernels.grouped import mixture
from attentif.nn.auxiliary import CountingModule, current_auxiliary
from attentif.nn.balance import Balance, BalanceLoss, RouterBiasConfig, Routing, SwitchConfig, evenness
from attentif.nn.ffn import ACTIVATIONS, GATED, Activation, FeedForward, FeedForwardConfig, gate_units
from attentif.nn.linear import Linear, StackedLinear
from attentif.nn.mixer import MIXERS, Caps, Mixer, MixerConfig, Site, check_streamable
from attentif.nn.reversible import reuse_choice
from attentif.nn.seq import Seq
from attentif.nn.state import NoState, State
from attentif.nn.tape import tape_for

PER_EXPERT = ("router", "up", "gate", "out", "choice_bias")  # parts of `Experts` whose tensors have the experts as their first axis


@MIXERS.register
class ExpertsConfig(MixerConfig):
    """Many feed-forward networks, of which each token uses a few."""

    cost: ClassVar[str] = "T"

    kind: Literal["experts"] = Field("experts", description="many feed-forward networks, of which a router lets each token use a few")
    experts: int = Field(8, gt=0, description="number of experts")
    top_k: int = Field(2, gt=0, description="experts per token")
    hidden: int | None = Field(None, gt=0, description="inner width of each; by default 4 times the model's, 8/3 if gated")
    activation: Activation = Field(
        "swiglu", description="relu, gelu, gelu-tanh, gelu-quick, silu; gated: reglu, geglu, geglu-tanh, swiglu, swiglu-clamped"
    )
    bias: bool = Field(False, description="biases in the experts' linear maps")
    dropout: float = Field(0.0, ge=0, lt=1, description="dropout on the inner units")
    scores: Literal["softmax", "sigmoid"] = Field("softmax", description="router scores: softmax or sigmoid of its logits")
    normalised: bool = Field(True, description="normalise the weights of a token's experts to sum 1")
    scale: float = Field(1.0, gt=0, description="factor on these weights")
    weighs: Literal["outputs", "inputs"] = Field("outputs", description="what they multiply: outputs of the experts, or inputs (Llama 4)")
    groups: int = Field(1, gt=0, description="groups of consecutive experts")
    top_groups: int | None = Field(None, gt=0, description="groups a token's experts are chosen from; by default all")
    group_best: int = Field(2, gt=0, description="best experts of a group whose scores are summed to rank it")
    shared: int = Field(0, ge=0, description="shared experts, as one feed-forward network of this many times the width")
    shared_gate: bool = Field(False, description="weigh the shared experts by a sigmoid of each token (Qwen 1.5)")
    router_bias: bool = Field(False, description="a bias in the router")
    jitter: float = Field(0.0, ge=0, lt=1, description="in training, multiply the router's input by noise in 1 ± jitter")
    balance: Balance = Field((SwitchConfig(),), description="load balancing: any of kl, switch, z, bias; empty: none")


class Experts(Mixer, CountingModule, config=ExpertsConfig):
    caps = Caps(causal=True, bidirectional=False, streaming="exact")

    def __init__(self, config: ExpertsConfig, site: Site) -> None:
        super().__init__()
        check_config(config)
        self.config = config
        gated = config.activation in GATED
        hidden = config.hidden or (8 * site.width // 3 if gated else 4 * site.width)
        self.router = Linear(site.width, config.experts, bias=config.router_bias)
        self.up = StackedLinear(config.experts, site.width, hidden, bias=config.bias)
        self.gate = StackedLinear(config.experts, site.width, hidden, bias=config.bias) if gated else None
        self.out = StackedLinear(config.experts, hidden, site.width, bias=config.bias)
        options: dict[str, Any] = {"activation": config.activation, "bias": config.bias, "dropout": config.dropout}
        self.shared = FeedForward(FeedForwardConfig(hidden=config.shared * hidden, **options), site) if config.shared else None
        self.shared_gate = Linear(site.width, 1, bias=False) if config.shared_gate else None
        self.numbers = config.experts + 1  # choices of each expert, and tokens
        self.losses = [entry for entry in config.balance if isinstance(entry, BalanceLoss)]
        self.rates = [entry.rate for entry in config.balance if isinstance(entry, RouterBiasConfig)]
        self.choice_bias: Tensor | None
        self.register_buffer("choice_bias", torch.zeros(config.experts) if self.rates else None)

    def init_state(self, batch: int, capacity: int, *, device: torch.device, dtype: torch.dtype) -> State:
        return NoState()

    def forward(self, x: Tensor, seq: Seq, state: State | None = None) -> Tensor:
        check_streamable(seq, state)
        if seq.dense:
            return self.mix(x.reshape(-1, x.shape[-1]), seq).view_as(x)
        tokens = seq.valid.flatten().nonzero().squeeze(1)
        y = self.mix(x.flatten(0, 1).index_select(0, tokens), seq)
        return y.new_zeros(seq.valid.numel(), y.shape[-1]).index_copy(0, tokens, y).view_as(x)

    def mix(self, x: Tensor, seq: Seq) -> Tensor:
        """Route and transform tokens (N, D), none of them padding."""
        routing = self.route(x)
        y = self.mix_experts(x, routing)
        self.report_routing(routing)
        if self.shared is None:
            return y
        shared: Tensor = self.shared(x, seq)
        return y + (shared if self.shared_gate is None else self.shared_gate(x).sigmoid() * shared)

    def mix_experts(self, x: Tensor, routing: Routing) -> Tensor:
        """The weighted sum of each token's experts, or the sum of what they make of the weighted token."""
        if self.config.weighs == "outputs":
            return mixture(x, routing.chosen, routing.weights, self.config.experts, self.apply_experts)
        weighted = (x[:, None] * routing.weights[..., None]).flatten(0, 1)
        y = mixture(weighted, routing.chosen.view(-1, 1), torch.ones_like(weighted[:, :1]), self.config.experts, self.apply_experts)
        return y.unflatten(0, routing.chosen.shape).sum(1)

    def apply_experts(self, rows: Tensor, sizes: list[int]) -> Tensor:
        """Apply each expert to its `sizes[i]` of the sorted rows."""
        up = self.up(rows, sizes)
        name = self.config.activation
        inner = ACTIVATIONS[name](up) if self.gate is None else gate_units(name, self.gate(rows, sizes), up)
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
        chosen = reuse_choice(lambda: self.choose(scores.detach()))
        weights = scores.gather(-1, chosen)
        if config.normalised:
            weights = weights / weights.sum(-1, keepdim=True)
        if config.scale != 1.0:
            weights = weights * config.scale
        return Routing(logits, probabilities, chosen, weights.to(x.dtype))

    def choose(self, scores: Tensor) -> Tensor:
        """(N, k): the experts of each token, best first."""
        config = self.config
        if self.choice_bias is not None:
            scores = scores + self.choice_bias
        if config.top_groups is not None:
            by_group = scores.unflatten(-1, (config.groups, -1))
            worth = by_group.topk(config.group_best, -1).values.sum(-1)
            allowed = torch.zeros_like(worth, dtype=torch.bool).scatter_(-1, worth.topk(config.top_groups, -1).indices, True)
            scores = by_group.masked_fill(~allowed[..., None], -torch.inf).flatten(-2)
        return scores.topk(config.top_k, -1).indices

    def report_routing(self, routing: Routing) -> None:
        """Pass the routing to the tape, and losses and counts to the trainer."""
        if (tape := tape_for(self)) is not None:
            tape.keep(self, routing.detach())
        if (auxiliary := current_auxiliary()) is not None:
            losses = [entry.weight * entry.loss(routing) for entry in self.losses]
            tokens = routing.chosen.new_tensor([len(routing.chosen)])
            auxiliary.add(self, losses, torch.cat([routing.counts, tokens]))

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


def check_config(config: ExpertsConfig) -> None:
    if config.shared_gate and not config.shared:
        raise ConfigError("shared_gate needs shared experts: give shared, or leave it out")
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
