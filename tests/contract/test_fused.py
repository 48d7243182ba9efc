"""What holds for every mixer that offers a fused decoding step: it equals `forward`, whatever rows stand beside each other."""

import numpy as np
import pytest
import torch
from cases import CAPS, CASES, CROSS_CASES, SELF_CASES, built, built_mixer, padded, rows
from common import MEMORY_WIDTH, WIDTH
from torch import Tensor
from torch.testing import assert_close

from attentif.decode.engine import lower_experts, lower_recall  # noqa: F401  register their mixers
from attentif.decode.engine.lower import lower_mixer
from attentif.decode.engine.plan import MixerInput, Plan, Sink, UnsupportedError
from attentif.decode.engine.runner import ProgramRunner
from attentif.nn.mixer import CrossMixer, Mixer
from attentif.nn.seq import Seq
from attentif.nn.state import State, StateTree

pytestmark = pytest.mark.contract

# float32: sums of a few dozen terms in two orders; the parameters are drawn so that outputs are near 1
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
CAPACITY, PREFIX, STEPS = 20, (3, 9, 1, 6), 7
KINDS = {
    *("attention", "cross-attention", "experts", "feed-forward", "gated-linear", "gru", "latent", "linear", "lstm", "mamba", "mamba2"),
    *("parallel", "rwkv-channel", "rwkv-time", "rwkv7-time"),
}  # that must offer one in their plain form


class Fused:
    """The program of one mixer alone."""

    def __init__(self, mixer: Mixer | CrossMixer) -> None:
        self.plan = Plan(CAPACITY)
        self.x, self.y = self.plan.buffer(WIDTH), self.plan.buffer(WIDTH)
        lower_mixer(self.plan, mixer, "mixer", MixerInput(self.x), Sink(self.y))
        self.runner = ProgramRunner(self.plan)

    def step(self, x: Tensor, places: Tensor, states: list[State | StateTree]) -> Tensor:
        self.x.data[: len(x)] = x
        self.runner.run(len(x), places.numpy().astype(np.int64), self.runner.bind([{"mixer": state} for state in states]))
        return self.y.data[: len(x)].clone()


def fused(name: str) -> Fused | None:
    try:
        return Fused(built(name).float())
    except UnsupportedError:
        return None


UNFUSED = (  # these take the plain path
    *("distances-causal", "global-causal", "sinks-causal", "sinks-window", "chunks", "sharpened"),
    *("own-bias-causal", "relative-2d-causal"),  # encoders of pictures have these, and decode nothing
    *("alibi-rounded-causal", "qk-norm-own-causal"),
)
OFFERED = [name for name in SELF_CASES if CAPS[name].streaming != "none" and fused(name) is not None]
EXACT = [name for name in OFFERED if CAPS[name].streaming == "exact"]  # a text read in pieces is the text read at once
TO_MEMORY = [name for name in CROSS_CASES if fused(name) is not None]


def state_of(mixer: Mixer, x: Tensor, lengths: tuple[int, ...]) -> State | StateTree:
    state = mixer.init_state(len(lengths), CAPACITY, device=torch.device("cpu"), dtype=torch.float32)
    mixer(x, Seq.from_padded(lengths), state)
    return state


def test_the_plain_form_of_every_fused_kind_is_offered() -> None:
    assert {CASES[name][0].kind for name in (*OFFERED, *TO_MEMORY)} == KINDS
    every = {name for name in SELF_CASES if name.startswith("attention-") and CAPS[name].streaming != "none"}
    assert every - set(OFFERED) == {f"attention-{kind}" for kind in UNFUSED}


@pytest.mark.parametrize("name", OFFERED)
def test_a_fused_step_equals_forward_for_ragged_rows(name: str) -> None:
    mixer, engine = built_mixer(name).float(), fused(name)
    assert engine is not None
    prompts = padded([x.float() for x in rows(PREFIX)])
    with torch.no_grad():
        ours, theirs, places = state_of(mixer, prompts, PREFIX), state_of(mixer, prompts, PREFIX), torch.tensor(PREFIX)
        for number in range(STEPS):
            x = torch.stack(rows((1,) * len(PREFIX), seed=10 + number)).float()
            expected = mixer(x, Seq.from_padded([1] * len(PREFIX), start=places), theirs)[:, 0]
            assert_close(engine.step(x[:, 0], places, [ours]), expected, **CLOSE)
            places = places + 1


@pytest.mark.parametrize("name", EXACT)
def test_rows_that_join_and_leave_step_as_if_alone(name: str) -> None:
    mixer, engine = built_mixer(name).float(), fused(name)
    assert engine is not None
    inputs = [x.float() for x in rows((CAPACITY,) * 3)]
    with torch.no_grad():
        expected = [mixer(x[None], Seq.from_padded([CAPACITY]))[0] for x in inputs]
        states = [state_of(mixer, x[None, :n], (n,)) for x, n in zip(inputs, (4, 2, 7), strict=True)]
        places = [4, 2, 7]
        for company in ([0], [0, 1], [2, 0, 1], [1, 2], [2], [0, 2]):
            x = torch.stack([inputs[row][places[row]] for row in company])
            y = engine.step(x, torch.tensor([places[row] for row in company]), [states[row] for row in company])
            for row, found in zip(company, y, strict=True):
                assert_close(found, expected[row][places[row]], **CLOSE)
                places[row] += 1


@pytest.mark.parametrize("beams", [1, 2])
@pytest.mark.parametrize("name", TO_MEMORY)
def test_a_fused_step_to_a_memory_equals_forward(name: str, beams: int) -> None:
    """Ragged sources, of longer memories than the text has places; beams share a source; rows leave."""
    mixer, engine = built(name).float(), fused(name)
    assert engine is not None
    assert isinstance(mixer, CrossMixer)
    lengths = (5, 2 * CAPACITY, 9)
    with torch.no_grad():
        memory = padded([x.float() for x in rows(lengths, MEMORY_WIDTH)])
        state = mixer.init_state(memory, Seq.from_padded(lengths)).select(torch.arange(3 * beams) // beams)
        for kept in (range(3 * beams), range(2 * beams), [0]):
            state = state.select(torch.tensor(list(kept)))
            x, places = torch.stack(rows((1,) * len(kept), seed=7)).float(), torch.arange(len(kept))
            expected = mixer(x, Seq.from_padded([1] * len(kept), start=places), None, None, state)[:, 0]
            assert_close(engine.step(x[:, 0], places, [state]), expected, **CLOSE)
