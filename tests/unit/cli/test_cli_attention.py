"""`attentif attention`: the worked example of the course, its numbers those of the equation."""

import json
import math

import pytest

from attentif.cli.main import run

VECTORS = "1,0,1;0,2,0;1,1,1"


def numbers(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, list[float]]:
    assert run(["attention", VECTORS, *words, "--json"]) == 0
    found: dict[str, list[float]] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize(("option", "scale"), [("--scaled", math.sqrt(3)), ("--unscaled", 1.0)])
def test_the_numbers_are_those_worked_out_by_hand(capsys: pytest.CaptureFixture[str], option: str, scale: float) -> None:
    found = numbers(capsys, option)
    assert found["dots"] == [2, 0, 2]
    parts = [math.exp(dot / scale) for dot in (2, 0, 2)]
    weights = [part / sum(parts) for part in parts]
    assert found["weights"] == pytest.approx(weights)
    assert found["z"] == pytest.approx([weights[0] + weights[2], 2 * weights[1] + weights[2], weights[0] + weights[2]])


def test_keys_and_values_may_be_others(capsys: pytest.CaptureFixture[str]) -> None:
    found = numbers(capsys, "--query", "2", "--keys", "0,1,0;0,1,0", "--values", "4;8")
    assert found["dots"] == [2, 2]
    assert found["z"] == pytest.approx([6.0])


def test_what_is_printed_has_every_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["attention", VECTORS]) == 0
    out = capsys.readouterr().out
    assert all(word in out for word in ("q·k", "softmax", "x3", "z ="))


@pytest.mark.parametrize(
    "words", [["1,0;a"], ["1,0;1"], [VECTORS, "--query", "9"], [VECTORS, "--keys", "1,2"], [VECTORS, "--values", "1"], ["nan,1"]]
)
def test_what_does_not_fit_is_refused(words: list[str]) -> None:
    assert run(["attention", *words]) == 2
