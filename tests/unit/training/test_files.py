import os
import stat
import subprocess
import sys
from contextlib import suppress

import pytest
import torch
from torch import nn

from attentif.errors import RunError
from attentif.files import replace_atomically, write_json, write_text, writer_name
from attentif.training.weights import read_weights, write_weights


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "old")
    with suppress(RuntimeError), replace_atomically(path) as temporary:
        temporary.write_text("new, half-writ")
        raise RuntimeError
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_what_a_killed_writer_of_a_file_left_is_removed_by_the_next_one(tmp_path):
    killed = subprocess.Popen([sys.executable, "-c", ""])
    killed.wait()
    host = writer_name().partition("@")[2]
    left, living, other = (f".a.gguf.{killed.pid}@{host}.tmp", f".a.gguf.{os.getppid()}@{host}.tmp", f".b.gguf.{killed.pid}@{host}.tmp")
    for name in (left, living, other):
        (tmp_path / name).touch()
    write_text(tmp_path / "a.gguf", "whole")
    assert sorted(os.listdir(tmp_path)) == sorted([living, other, "a.gguf"])


def test_infinity_is_null_in_json(tmp_path):
    write_json(tmp_path / "a.json", {"a": float("inf"), "b": [float("nan"), 1.5], 3: "é"})
    assert (tmp_path / "a.json").read_text().split() == ["{", '"a":', "null,", '"b":', "[", "null,", "1.5", "],", '"3":', '"é"', "}"]


def test_weights_come_back_and_others_may_read_them(tmp_path):
    one, other = nn.Linear(3, 2), nn.Linear(3, 2)
    write_weights(tmp_path / "w.safetensors", one)
    read_weights(tmp_path / "w.safetensors", other)
    assert torch.equal(one.weight, other.weight)
    assert stat.S_IMODE((tmp_path / "w.safetensors").stat().st_mode) == 0o644


def test_weights_that_do_not_fit_are_an_error_with_the_file(tmp_path):
    path = tmp_path / "w.safetensors"
    with pytest.raises(RunError, match="no such file"):
        read_weights(path, nn.Linear(3, 2))
    write_weights(path, nn.Linear(3, 2))
    with pytest.raises(RunError, match=r"w\.safetensors"):
        read_weights(path, nn.Linear(4, 2))
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(RunError, match=r"w\.safetensors"):
        read_weights(path, nn.Linear(3, 2))
