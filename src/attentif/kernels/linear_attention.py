"""Linear attention: a product of features replaces the softmax, a fixed-size state the past.

    y_t = φ(q_t)ᵀ S_t / (φ(q_t)ᵀ z_t + ε),     S_t = S_{t-1} + φ(k_t) v_tᵀ,     z_t = z_{t-1} + φ(k_t)

    q, k     features φ of queries and keys, not negative; a key of zeros (padding) is not seen     (B, H, T, F)
    v        values                                                                                 (B, H, T, K)
    S, z     state; one tensor [S z] here: z is what S would be for a value that is always 1        (B, H, F, K + 1)
    ε        keeps a query that has seen nothing from dividing by zero

Katharopoulos et al. 2020, eq. 16 to 20. Bidirectionally, S and z are the sums over the whole sequence. `by_feature` divides each
feature of the keys by its own sum instead, φ(q_t)ᵀ diag(z_t + ε)⁻¹ S_t: efficient attention (Shen et al. 2021).

The causal form works on chunks of C tokens: (C, C) weights within a chunk, plus the state at its start. The backward pass needs these T / C
states again.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

Map = Callable[[Tensor, Tensor | None], Tensor]  # φ of (B, H, T, K) vectors, zeros where not valid (B, T)
SEGMENT = 512  # tokens whose features are computed at once, if there are many
CHUNK = 128  # tokens; fastest on CPU for features of width 64 to 256


def linear_attention_weights(q: Tensor, k: Tensor, mask: Tensor | None = None, *, eps: float, by_feature: bool = False) -> Tensor:
    """The implied (B, H, T, S) matrix; `mask` (B, 1, T, S) limits the keys."""
    if by_feature:
        z = k.sum(2, keepdim=True) if mask is None else mask.to(k.dtype) @ k
        q = q / (z + eps)
    weights = q @ k.mT
    if mask is not None:
        weights = weights * mask
    return weights if by_feature else weights / (weights.sum(-1, keepdim=True) + eps)


def linear_attention_naive(
    q: Tensor, k: Tensor, v: Tensor, state: Tensor | None = None, *, causal: bool, eps: float, by_feature: bool = False
) -> tuple[Tensor, Tensor]:
    """The recurrence, token by token; if not causal, all queries read the last state."""
    v = _with_ones(v)
    S = q.new_zeros(*k.shape[:2], k.shape[3], v.shape[3]) if state is None else state
    states = []
    for key, value in zip(k.unbind(2), v.unbind(2), strict=True):
        S = S + key[..., :, None] * value[..., None, :]
        states.append(S)
    read = torch.stack(states, 2) if causal else S.unsqueeze(2)  # (B, H, T or 1, F, K + 1)
    sums, z = read[..., :-1], read[..., -1:]
    if by_feature:
        return (q.unsqueeze(-2) @ (sums / (z + eps))).squeeze(-2), S
    return ((q.unsqueeze(-2) @ sums) / (q.unsqueeze(-2) @ z + eps)).squeeze(-2), S


def linear_attention(
    q: Tensor, k: Tensor, v: Tensor, state: Tensor | None = None, *, causal: bool, eps: float, by_feature: bool = False
) -> tuple[Tensor, Tensor]:
    """The same in linear time: y (B, H, T, K) and the final state."""
    if by_feature:
        return _by_feature(q, k, v, state, causal, eps)
    if causal:
        sums, state = causal_sums(q, k, _with_ones(v), state)
        return sums[..., :-1] / (sums[..., -1:] + eps), state
    state = _whole(k, v)
    return read_state(q, state, eps), state


def feature_map_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    state: Tensor | None = None,
    *,
    maps: tuple[Map, Map],
    valid: Tensor | None = None,
    causal: bool,
    eps: float,
) -> tuple[Tensor, Tensor]:
    """The same from queries, keys and their feature maps, for many features.

    Features are made segment by segment, which keeps them in the cache until they are used.
    """
    of_queries, of_keys = maps
    queries, keys, values = (t.split(SEGMENT, 2) for t in (q, k, v))
    valids: Sequence[Tensor | None] = [None] * len(keys) if valid is None else valid.split(SEGMENT, 1)
    parts = []
    if causal:
        for q_, k_, v_, valid_ in zip(queries, keys, values, valids, strict=True):
            y, state = linear_attention(of_queries(q_, None), of_keys(k_, valid_), v_, state, causal=True, eps=eps)
            parts.append(y)
    else:
        state = k.new_zeros(())
        for k_, v_, valid_ in zip(keys, values, valids, strict=True):
            state = state + _whole(of_keys(k_, valid_), v_)
        parts = [read_state(of_queries(q_, None), state, eps) for q_ in queries]
    assert state is not None
    return parts[0] if len(parts) == 1 else torch.cat(parts, 2), state


def _by_feature(q: Tensor, k: Tensor, v: Tensor, state: Tensor | None, causal: bool, eps: float) -> tuple[Tensor, Tensor]:
    if not causal:
        state = _whole(k, v)
        return q @ (state[..., :-1] / (state[..., -1:] + eps)), state
    z = k.cumsum(2)
    if state is not None:
        z = z + state[..., -1].unsqueeze(2)
    sums, state = causal_sums(q / (z + eps), k, _with_ones(v), state)
    return sums[..., :-1], state


def causal_sums(q: Tensor, k: Tensor, v: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Σ_{s ≤ t} (q_t·k_s) v_s + q_tᵀ S_0 for every t, and the last state S_0 + Σ k_s v_sᵀ."""
    B, H, T, F = k.shape
    if state is None:
        state = k.new_zeros(B, H, F, v.shape[3])
    if T == 1:  # a decoding step
        state = state + k.mT @ v
        return q @ state, state
    y, last = _CausalSums.apply(*(t.reshape(B * H, *t.shape[2:]) for t in (q, k, v, state)))
    return y.unflatten(0, (B, H)), last.unflatten(0, (B, H))


class _CausalSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        y, S, before = torch.empty_like(v), state.clone(), []
        for at in _chunks(q.shape[1]):
            q_, k_, v_ = q[:, at], k[:, at], v[:, at]
            if any(ctx.needs_input_grad):
                before.append(S.clone())
            torch.baddbmm(q_ @ S, (q_ @ k_.mT).tril_(), v_, out=y[:, at])
            S.baddbmm_(k_.mT, v_)
        ctx.save_for_backward(q, k, v, *before)
        return y, S

    @staticmethod
    def backward(ctx: Any, dy: Tensor, dS: Tensor) -> tuple[Tensor, ...]:
        q, k, v, *before = ctx.saved_tensors
        dy, dS = dy.contiguous(), dS.clone()  # dS: of the state after the chunk
        dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        for at, S in zip(reversed(_chunks(q.shape[1])), reversed(before), strict=True):
            q_, k_, v_, dy_ = q[:, at], k[:, at], v[:, at], dy[:, at]
            weights, dweights = (q_ @ k_.mT).tril_(), (dy_ @ v_.mT).tril_()
            torch.baddbmm(dy_ @ S.mT, dweights, k_, out=dq[:, at])
            torch.baddbmm(v_ @ dS.mT, dweights.mT, q_, out=dk[:, at])
            torch.baddbmm(k_ @ dS, weights.mT, dy_, out=dv[:, at])
            dS.baddbmm_(q_.mT, dy_)
        return dq, dk, dv, dS


def _chunks(T: int) -> list[slice]:
    return [slice(start, min(start + CHUNK, T)) for start in range(0, T, CHUNK)]


def _whole(k: Tensor, v: Tensor) -> Tensor:
    """[S z] of a whole sequence."""
    return torch.cat([k.mT @ v, k.sum(2).unsqueeze(-1)], -1)


def read_state(q: Tensor, state: Tensor, eps: float) -> Tensor:
    return (q @ state[..., :-1]) / (q @ state[..., -1:] + eps)


def _with_ones(v: Tensor) -> Tensor:
    return torch.cat([v, v.new_ones(*v.shape[:-1], 1)], -1)
