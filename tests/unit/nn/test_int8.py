"""A linear map in bytes: many rows are multiplied in bytes or in float32, whichever a short measurement finds faster."""

import json

import pytest
import torch
from torch.testing import assert_close

from attentif.nn import int8
from attentif.nn.int8 import MANY, Int8Linear


@pytest.mark.parametrize(("kind", "close"), [("bytes", 0.3), ("floats", 1e-4), ("bf16", 0.3)])
def test_many_rows_are_the_weights_that_the_bytes_stand_for(monkeypatch, kind, close):
    monkeypatch.setattr(int8, "fastest_of_many", lambda threads: kind)
    torch.manual_seed(0)
    linear, x = Int8Linear.from_weight(torch.randn(48, 64), torch.randn(48)), torch.randn(2, MANY, 64)
    expected = torch.nn.functional.linear(x, linear.weight, linear.bias)
    # in bytes x is rounded to 1/127 of each block's largest number, in bf16 both factors to 8 bits
    assert_close(linear(x), expected, rtol=close / 10, atol=close)
    assert (linear.copy is None) == (kind == "bytes")


def test_the_choice_is_measured_once_and_remembered(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTENTIF_CACHE", str(tmp_path))
    int8.fastest_of_many.cache_clear()
    first = int8.fastest_of_many(1)
    known = json.loads((tmp_path / "measured.json").read_text())
    (own,) = (key for key in known if key.startswith("int8"))
    assert known[own].keys() == {"bytes", "floats", "bf16"}
    (tmp_path / "measured.json").write_text(json.dumps(known | {own: {"bytes": 2.0, "floats": 1.0, "bf16": 3.0}}))
    assert int8.fastest_of_many(1) == first  # of this process
    int8.fastest_of_many.cache_clear()
    assert int8.fastest_of_many(1) == "floats"
    int8.fastest_of_many.cache_clear()
