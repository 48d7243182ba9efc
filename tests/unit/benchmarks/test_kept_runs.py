"""Measurements on real data keep their runs: made once, gone on with after an interruption, made again for other words."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from benchmarks.real.trial import Trial, train_run

launched: list[list[str]] = []  # what stood before `train`, of the same calls


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What is typed after `attentif train`; each call that is not interrupted leaves results behind."""
    calls: list[list[str]] = []
    launched.clear()

    def run(call: list[str], **settings: Any) -> subprocess.CompletedProcess[str]:
        words = call[call.index("train") + 1 :]
        calls.append(words)
        launched.append(call[1 : call.index("train")])
        folder = Path(words[words.index("--resume" if "--resume" in words else "--out") + 1])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.toml").touch()
        if "killed" in words and "--resume" not in words:
            return subprocess.CompletedProcess(call, 130)
        (folder / "results.json").write_text(json.dumps({"call": len(calls), "threads": settings["env"].get("OMP_NUM_THREADS")}))
        return subprocess.CompletedProcess(call, 0)

    monkeypatch.setenv("ATTENTIF_CACHE", str(tmp_path))
    monkeypatch.setenv("ATTENTIF_DATA", "/data")
    monkeypatch.setattr(subprocess, "run", run)
    return calls


def test_a_finished_run_is_read_and_other_words_make_another(typed: list[list[str]]) -> None:
    first = train_run("reviews --data $ATTENTIF_DATA/a.csv", quick=False, threads=1)
    assert (first["call"], first["threads"]) == (1, "1")
    assert train_run(("reviews", "--data", "$ATTENTIF_DATA/a.csv"), quick=False) == first
    assert train_run("reviews --data $ATTENTIF_DATA/b.csv", quick=False)["call"] == 2
    assert [words[:3] for words in typed] == [["reviews", "--data", "/data/a.csv"], ["reviews", "--data", "/data/b.csv"]]


def test_an_interrupted_run_is_gone_on_with(typed: list[list[str]]) -> None:
    with pytest.raises(SystemExit, match="failed"):
        train_run("benchmarks/real/ett.toml killed", quick=False)
    assert train_run("benchmarks/real/ett.toml killed", quick=False)["call"] == 2
    assert typed[1][0] == "--resume"
    assert typed[1][1] == typed[0][typed[0].index("--out") + 1]


def test_a_quick_run_is_short_and_not_kept(typed: list[list[str]], tmp_path: Path) -> None:
    train_run("reviews", quick=True)
    assert "train.steps=2" in typed[0]
    assert list(tmp_path.iterdir()) == []


def test_several_processes_are_started_by_torchrun(typed: list[list[str]]) -> None:
    train_run("reviews", quick=False, processes=2)
    train_run("numbers", quick=False)
    assert launched == [["-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "attentif"], ["-m", "attentif"]]
    assert Trial("a", "reviews", "", processes=2).typed == "torchrun --nproc-per-node 2 -m attentif train reviews"
    assert Trial("a", "reviews", "").typed == "attentif train reviews"
