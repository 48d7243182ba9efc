"""That the benchmarks run and count rightly; no test looks at a time."""

import importlib
import pkgutil
from collections.abc import Iterator

import benchmarks
import pytest
import torch
from benchmarks.common import QUICK, Result
from benchmarks.page import replace_section

from attentif.lab.timing import Timing, interleave

pytestmark = pytest.mark.filterwarnings("ignore")  # transformers' own


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", ["train_step", "recording", "decode", "experts", "gated"])
def test_every_case_of_a_benchmark_is_measured(name: str) -> None:
    for result in importlib.import_module(f"benchmarks.{name}").run(QUICK):
        assert all(len(seconds) == QUICK.repeats for seconds in result.timing.seconds.values())
        assert (
            "| transformers" in result.markdown()
            or "recording" in result.markdown()
            or "output_attentions" in result.markdown()
            or "loop over" in result.markdown()
        )


def test_an_epoch_without_the_data_says_why_it_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ATTENTIF_DATA", raising=False)
    (reason,) = importlib.import_module("benchmarks.epoch").run(QUICK)
    assert "ATTENTIF_DATA" in reason


def test_a_ratio_is_the_median_of_the_ratios_within_rounds() -> None:
    timing = Timing({"ours": [1.0, 2.0, 4.0], "peer": [3.0, 4.0, 4.0]})
    assert timing.ratio("peer", "ours").median == 2.0
    assert "| peer | 4.00 s | 3.50 s to 4.00 s | 2.00 (1.50 to 2.50) | slow |" in Result("case", timing, notes={"peer": "slow"}).markdown()


def test_contestants_take_turns() -> None:
    order: list[str] = []
    interleave({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, repeats=2, warmup=0)
    assert order == ["a", "b", "b", "a"]


def test_a_section_is_measured_again_without_touching_the_others() -> None:
    page = replace_section("", "Decoding", "## Decoding\n\n17 ms\n")
    page = replace_section(page, "A training step", "## A training step\n\nstep\n")
    assert page.index("## Decoding") < page.index("## A training step")
    again = replace_section(page, "Decoding", "## Decoding\n\n23 ms\n")
    assert "23 ms" in again
    assert "17 ms" not in again
    assert again.count("step\n") == page.count("step\n")
    assert replace_section(again, "Decoding", "## Decoding\n\n23 ms\n") == again


def test_every_benchmark_can_be_imported() -> None:
    for found in pkgutil.walk_packages(benchmarks.__path__, "benchmarks."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
