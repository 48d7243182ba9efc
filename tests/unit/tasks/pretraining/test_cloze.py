"""Every token from its two sides: nothing of the token itself may reach its own prediction."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from attentif.errors import ConfigError
from attentif.models import Batch, Input, Model, resolve
from attentif.nn.seq import Seq
from attentif.tasks.base import Prepared
from attentif.tasks.pretraining.cloze import Cloze, ClozeConfig, join_neighbours
from attentif.tasks.pretraining.masking import Vocabulary
from attentif.tasks.ragged import UNSCORED

SMALL = {"base": "bi-lstm-attention-tiny", "width": 16, "dropout": 0.0}
Ready = tuple[Cloze, Prepared, Model]


@pytest.fixture(scope="module")
def ready(read_by: Any) -> Ready:
    task, prepared, model = read_by(ClozeConfig(context=32), SMALL)
    return task, prepared, model.eval()


def seen(task: Cloze, model: Model, ids: torch.Tensor, lengths: list[int]) -> torch.Tensor:
    with torch.no_grad():
        return task.hidden_states(model, Batch(Input(ids, Seq.from_padded(lengths, ids.shape[1]))))[0]


def test_a_token_is_told_from_all_others_and_not_from_itself(ready: Ready) -> None:
    task, _, model = ready
    ids, lengths = torch.randint(8, 60, (2, 9)), [9, 6]
    before = seen(task, model, ids, lengths)
    for place in range(6):
        other = ids.clone()
        other[:, place] = (ids[:, place] + 1) % 50 + 8
        changed = (seen(task, model, other, lengths) != before).any(-1)
        assert not changed[:, place].any()
        assert changed[0, [p for p in range(9) if p != place]].all()
        assert changed[1, [p for p in range(6) if p != place]].all()


def test_beyond_the_ends_of_a_sequence_there_is_nothing_padded_or_packed() -> None:
    x = torch.randn(2, 4, 6)
    found = join_neighbours(x, Seq.from_padded([4, 2], 4))
    assert not found[:, 0, :3].any()
    assert not found[0, 3, 3:].any()
    assert not found[1, 1, 3:].any()
    torch.testing.assert_close(found[0, 1], torch.cat([x[0, 0, :3], x[0, 2, 3:]]))
    packed = join_neighbours(torch.cat([x[0], x[1, :2]]), Seq.from_packed([4, 2]))
    torch.testing.assert_close(packed, torch.cat([found[0], found[1, :2]]))


def test_the_loss_is_the_cross_entropy_of_the_tokens_asked_for(ready: Ready) -> None:
    task, prepared, model = ready
    batch = prepared.train.batch(range(40))
    loss = task.step(model, batch)
    ids, labels = batch.source.data, batch.labels
    assert torch.equal(ids, prepared.train.read(range(40)).source.data)
    x, seq = task.hidden_states(model, batch)
    expected = F.cross_entropy(model.head(x, seq).flatten(0, 1), labels.flatten(), ignore_index=UNSCORED, reduction="sum")
    torch.testing.assert_close(loss.total, expected)
    asked, special = labels != UNSCORED, Vocabulary(prepared.train.tokenizer).special[ids]
    assert loss.count == int(asked.sum())
    assert not (asked & special).any()
    assert asked.sum() / (~special).sum() == pytest.approx(task.config.share, abs=0.08)


def test_it_learns_and_fills_in(ready: Ready) -> None:
    task, prepared, model = ready
    model.train()
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-2)
    torch.manual_seed(0)
    for _ in range(60):
        loss = task.step(model, prepared.train.batch(range(80)))
        optimiser.zero_grad()
        (loss.total / loss.count).backward()
        optimiser.step()
    model.eval()
    evaluation = task.evaluate(model, prepared.state, prepared.test)
    commonest = task.baselines(prepared, lambda _: None)[0]
    assert evaluation.scores["loss"] < commonest.scores["loss"]
    assert task.fill(model, prepared.tokenizers, "Le film [MASK] bon.").places[0][0].word == "est"
    said = task.sections(evaluation)[0].body[0]
    assert "had read only what stands before it" in said.text.en  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "model",
    [
        {"base": "encoder-tiny"},
        {"base": "bi-lstm-attention-tiny", "layers": 2},
        {"base": "bi-lstm-attention-tiny", "encoder": {"block": {"cell": {"mixer": {"join": "sum"}}}}},
        {"base": "bi-lstm-attention-tiny", "encoder": {"block": {"cell": {"residual": True}}}},
        {"base": "bi-lstm-attention-tiny", "encoder": {"placement": "post"}},
        {"base": "bi-lstm-attention-tiny", "encoder": {"placement": "pre"}},
    ],
)
def test_models_whose_directions_mix_are_refused(model: dict[str, object]) -> None:
    task = ClozeConfig().build()
    with pytest.raises(ConfigError, match=r"directions.*apart"):
        task.check(task.adapt(resolve(model | {"frontend": {"kind": "tokens", "vocab": 50}})))
