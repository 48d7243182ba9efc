"""Signals and texts side by side (L26): equal sizes, what is asked for, and the difference that decides."""

import numpy as np
import pytest

from attentif.lab.budget.sizes import build_on_meta, parameters
from attentif.lab.experiments.l26_signals import STATE_SPACES, TEXTS, contestants, differences
from attentif.lab.signals import LEVELS, SIGNALS, source


@pytest.mark.parametrize("name", [*SIGNALS, *TEXTS])
def test_every_model_has_as_many_parameters(name: str) -> None:
    sizes = [parameters(build_on_meta(model)).body for model in contestants(source(name, 16), 32, 2).values()]
    assert len(sizes) == 1 + len(STATE_SPACES)
    assert max(sizes) < 1.01 * min(sizes)


@pytest.mark.parametrize("name", SIGNALS)
def test_of_a_signal_the_interval_of_the_next_value_is_asked_for(name: str) -> None:
    values, asked = source(name, 32).train(400, 5)
    assert values.shape == (400, 32, 1)
    seen, levels = values[:, 1:, 0].flatten(), asked[:, :-1].flatten()
    assert (np.diff(levels[np.argsort(seen, kind="stable")]) >= 0).all()
    assert np.bincount(levels, minlength=LEVELS).min() > 0
    assert abs(float(values.mean())) < 0.2
    assert float(values.std()) == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize("name", TEXTS)
def test_of_a_text_the_next_character_is_asked_for(name: str) -> None:
    read = source(name, 32)
    tokens, asked = read.train(50, 5)
    assert (tokens[:, 1:] == asked[:, :-1]).all()
    assert tokens.max() < read.symbols


def test_what_decides_is_the_lead_on_signals_less_the_lead_on_texts() -> None:
    lost = {"attention": [3.0, 2.0], "s4d": [2.6, 1.8], "mamba": [3.0, 2.0]}  # ahead by 0.4 and 0.2
    even = {name: [1.0, 1.0] for name in lost}
    found = {"nats": {name: lost if name == "tones" else even for name in (*SIGNALS, *TEXTS)}}
    assert differences(found, "s4d") == pytest.approx([0.2, 0.1])
    assert differences(found, "mamba") == [0.0, 0.0]
    found["nats"]["sources"] = lost
    assert differences(found, "s4d") == pytest.approx([0.0, 0.0])
