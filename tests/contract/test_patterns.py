"""What holds for every pattern: long rows, computed by blocks, are what the whole mask would give."""

import pytest
import torch
from cases import CASES, alone, built_mixer, padded, rows, together
from common import CLOSE, LENGTHS
from torch.testing import assert_close

from attentif.nn.mixers import Attention
from attentif.nn.sparse import Sparse

pytestmark = pytest.mark.contract

PATTERNS = [name for name in CASES if getattr(CASES[name][0], "pattern", ())]
LONG = (130, 1, 57)
every_pattern = pytest.mark.parametrize("name", PATTERNS)


def attention(name: str) -> Attention:
    mixer = built_mixer(name)
    assert isinstance(mixer, Attention)
    return mixer


@every_pattern
def test_the_rows_of_the_contract_are_long_enough_for_blocks(name: str) -> None:
    assert attention(name).sparse.pays(max(LENGTHS))
    assert not attention(name).sparse.pays(4)


@pytest.mark.parametrize("name", [name for name in PATTERNS if "table" not in name])
def test_blocks_equal_the_whole_mask_in_output_and_gradients(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mixer, sequences = attention(name), rows(LONG)
    probe = padded(rows(LONG, seed=3))
    x = padded(sequences).requires_grad_()
    wanted = [x, *mixer.parameters()]
    assert mixer.sparse.pays(max(LONG))
    blocks = mixer(x, together(name, LONG))
    gradients = torch.autograd.grad((blocks * probe).sum(), wanted)
    monkeypatch.setattr(Sparse, "pays", lambda self, length: False)
    whole = mixer(x, together(name, LONG))
    for row, length in enumerate(LONG):
        assert_close(blocks[row, :length], whole[row, :length], **CLOSE)
    assert_close(gradients, torch.autograd.grad((whole * probe).sum(), wanted), **CLOSE)


@every_pattern
def test_no_matrix_of_all_pairs_is_made(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`allowed` makes it, and only rows that are too short for blocks ask for it."""
    import attentif.nn.mixers.attention as module

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the whole mask was made")

    monkeypatch.setattr(module, "compute_batch_mask", refuse)
    monkeypatch.setattr(module, "compute_mask", refuse)
    (x,) = rows((33,))
    assert attention(name)(x[None], alone(name, 33)).isfinite().all()
