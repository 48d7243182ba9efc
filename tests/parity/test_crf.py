"""The CRF head against pytorch-crf (log-likelihood, its gradients, Viterbi) and against the definition, all sequences enumerated."""

from itertools import product

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from attentif.models.heads.crf import CRFHead, CRFHeadConfig

pytestmark = pytest.mark.parity
LENGTHS, CLASSES = [4, 1, 6, 3], 5


@pytest.fixture
def head() -> CRFHead:
    torch.manual_seed(0)
    made = CRFHead(CRFHeadConfig(classes=CLASSES), width=8, dropout=0.0)
    for parameter in (made.start, made.end, made.transitions):
        torch.nn.init.normal_(parameter)
    return made


def sentences() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(1)
    scores = 2 * torch.randn(len(LENGTHS), max(LENGTHS), CLASSES)
    return scores, torch.randint(CLASSES, scores.shape[:2]), torch.tensor(LENGTHS)


def test_it_agrees_with_pytorch_crf_gradients_included(head: CRFHead) -> None:
    from torchcrf import CRF

    theirs = CRF(CLASSES, batch_first=True)
    pairs = ((theirs.start_transitions, head.start), (theirs.end_transitions, head.end), (theirs.transitions, head.transitions))
    for their, own in pairs:
        their.data.copy_(own.data)
    e, tags, lengths = sentences()
    mask = torch.arange(e.shape[1]) < lengths[:, None]
    left, right = (e.clone().requires_grad_() for _ in range(2))
    expected = theirs(left, tags, mask=mask, reduction="none")
    found = head.log_likelihood(right, tags, lengths)
    assert_close(found, expected)
    expected.sum().backward()
    found.sum().backward()
    assert_close(right.grad, left.grad)
    for their, own in pairs:
        assert_close(own.grad, their.grad)
    best = head.best(e, lengths).tolist()
    assert [own[:length] for own, length in zip(best, LENGTHS, strict=True)] == theirs.decode(e, mask=mask)


def test_it_is_the_definition_all_sequences_enumerated(head: CRFHead) -> None:
    e, _, lengths = sentences()
    for row, length in enumerate(LENGTHS):
        every = torch.tensor(list(product(range(CLASSES), repeat=length)))
        own = e[row, :length].gather(1, every.T).sum(0) + head.start[every[:, 0]] + head.end[every[:, -1]]
        own = own + head.transitions[every[:, :-1], every[:, 1:]].sum(1)
        assert_close(head.log_total(e, lengths)[row], own.logsumexp(0))
        assert head.best(e, lengths)[row, :length].tolist() == every[own.argmax()].tolist()
        chosen = every[:50]
        repeated = e[row : row + 1].expand(len(chosen), -1, -1)
        padded = torch.nn.functional.pad(chosen, (0, e.shape[1] - length), value=CLASSES - 1)  # what stands on padding does not count
        assert_close(head.score(repeated, padded, torch.full((len(chosen),), length)), own[:50])
        assert_close(head.log_likelihood(repeated, padded, torch.full((len(chosen),), length)), own[:50] - own.logsumexp(0))
