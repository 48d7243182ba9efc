"""Masked and replaced tokens: the tasks on a small text."""

import math

import numpy as np
import pytest
import torch

from attentif.data import DataConfig
from attentif.errors import ConfigError, DataError, UsageError
from attentif.models import Batch, resolve
from attentif.tasks.base import TASKS
from attentif.tasks.pretraining.masked import MaskedConfig
from attentif.tasks.pretraining.masking import Vocabulary
from attentif.tasks.pretraining.replaced import ReplacedConfig
from attentif.tasks.pretraining.replaced_report import rank_shares
from attentif.tasks.ragged import UNSCORED
from attentif.text import TOKENIZERS
from attentif.view.words import say

TINY = {"base": "bert-tiny", "width": 16, "layers": 1, "dropout": 0.0, "encoder": {"block": {"attn": {"mixer": {"heads": 2}}}}}


@pytest.fixture(scope="module")
def masked(read_by):
    return read_by(MaskedConfig(context=32), TINY)


@pytest.fixture(scope="module")
def pairs(read_by):
    return read_by(MaskedConfig(context=32, next_sentence=True), TINY)


@pytest.fixture(scope="module")
def replaced(read_by):
    return read_by(ReplacedConfig(context=32), TINY | {"base": "electra-tiny"})


def test_the_loss_is_the_cross_entropy_of_the_hidden_tokens(masked):
    task, prepared, model = masked
    batch = prepared.train.batch(range(40))
    loss, hidden, labels = task.step(model, batch), batch.source.data, batch.labels
    logits, _ = model(Batch(type(batch.source)(hidden, batch.source.seq)))
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=UNSCORED, reduction="sum")
    torch.testing.assert_close(loss.total, expected)
    assert loss.count == int((labels != UNSCORED).sum()) > 0


def test_the_mean_over_pairs_counts_as_much_as_the_mean_over_tokens(pairs):
    task, prepared, model = pairs
    batch = prepared.train.batch(range(40))
    loss, hidden, labels = task.step(model, batch), batch.source.data, batch.labels
    x, seq = model.hidden(Batch(type(batch.source)(hidden, batch.source.seq, batch.source.segments)))
    tokens = torch.nn.functional.cross_entropy(model.head(x, seq).flatten(0, 1), labels.flatten(), ignore_index=UNSCORED)
    follows = torch.nn.functional.cross_entropy(model.head.follow_scores(x, seq), batch.strange)
    torch.testing.assert_close(loss.total / loss.count, tokens + follows)


def test_the_loss_of_replaced_tokens_is_over_all_ordinary_ones(replaced):
    task, prepared, model = replaced
    batch = prepared.train.batch(range(40))
    loss, spoiled, labels = task.step(model, batch), batch.source.data, batch.labels
    logits = model(Batch(type(batch.source)(spoiled, batch.source.seq)))[0].squeeze(-1)
    asked = labels != UNSCORED
    expected = torch.nn.functional.binary_cross_entropy_with_logits(logits[asked], labels[asked].float(), reduction="sum")
    torch.testing.assert_close(loss.total, expected)
    assert loss.count == int((~Vocabulary(prepared.train.tokenizer).special[prepared.train.read(range(40)).source.data]).sum())


def test_replaced_is_what_differs_from_the_authors_token(replaced):
    _task, prepared, _ = replaced
    ids = prepared.train.read(range(len(prepared.train))).source.data
    spoiled, labels = prepared.train.noise(ids, torch.Generator().manual_seed(0))
    special = Vocabulary(prepared.train.tokenizer).special
    assert ((labels == UNSCORED) == special[ids]).all()
    assert ((labels == 1) == (spoiled != ids)).all()
    assert not special[spoiled[labels == 1]].any()
    share = float((labels == 1).sum() / (labels != UNSCORED).sum())
    assert 0.1 < share < 0.16  # 15 % are chosen, and nearly all of them become another token


def test_a_table_of_tokens_that_no_generator_fills_begins_as_word_vectors(read_by):
    task, prepared, model = read_by(ReplacedConfig(context=32), TINY | {"base": "electra-tiny"})
    table = model.frontend.tokens.weight
    fresh, said = table.detach().clone(), []
    task.init_weights(model, prepared, said.append)
    read = np.unique(np.concatenate(list(prepared.train.texts())))
    changed = (table != fresh).any(1).nonzero().squeeze(1).numpy()
    assert np.array_equal(changed, read)  # [CLS], [PAD] and what no text holds stay as they were drawn
    assert said == ["learning word vectors (skip-gram) from the training texts"]


def test_word_vectors_of_a_file_and_a_table_as_it_was_drawn_are_left_alone(read_by, tmp_path):
    given = TINY | {"base": "electra-tiny", "frontend": {"vectors": str(tmp_path / "mots.vec")}}
    for config, described in (
        (ReplacedConfig(context=32, vectors=False), TINY | {"base": "electra-tiny"}),
        (ReplacedConfig(context=32), given),
    ):
        task, prepared, model = read_by(config, described)
        before = model.frontend.tokens.weight.detach().clone()
        task.init_weights(model, prepared, lambda _: None)
        assert torch.equal(model.frontend.tokens.weight, before)


@pytest.mark.parametrize("name", ["masked", "pairs", "replaced"])
def test_gradients_reach_every_part_of_the_body(name, request):
    task, prepared, model = request.getfixturevalue(name)
    model.zero_grad()
    task.step(model, prepared.train.batch(range(40))).total.backward()
    still = [path for path, parameter in model.named_parameters() if parameter.grad is None or not parameter.grad.abs().sum() > 0]
    assert not still


def test_a_batch_in_which_nothing_is_hidden_is_no_error(read_by):
    task, prepared, model = read_by(MaskedConfig(context=32, share=1e-9), TINY)
    loss = task.step(model, prepared.train.batch([0]))
    loss.total.backward()
    assert (float(loss.total.detach()), loss.count) == (0.0, 0)


@pytest.mark.parametrize("name", ["masked", "pairs", "replaced"])
def test_two_evaluations_ask_the_same_and_the_batches_do_not_matter(name, request):
    task, prepared, model = request.getfixturevalue(name)
    torch.manual_seed(1)
    first = task.evaluate(model, prepared.state, prepared.test, budget=64)
    torch.manual_seed(2)
    second = task.evaluate(model, prepared.state, prepared.test, budget=4096)
    assert first.scores == pytest.approx(second.scores, rel=1e-5)
    assert first.examples == second.examples > 0


def test_a_model_that_knows_nothing_is_as_surprised_as_chance(masked):
    task, prepared, model = masked
    for parameter in model.head.parameters():
        torch.nn.init.zeros_(parameter)
    scores = task.evaluate(model, prepared.state, prepared.test).scores
    assert scores["loss"] == pytest.approx(math.log(prepared.sizes.vocab))


def test_the_report_shows_what_was_hidden_and_guessed(read_by):
    task, prepared, model = read_by(MaskedConfig(context=32), TINY)
    evaluation = task.evaluate(model, prepared.state, prepared.test)
    shown = evaluation.details["hidden"][0]
    assert len(shown["true"]) == len(shown["places"]) == len(shown["guesses"])
    (section,) = task.sections(evaluation)
    assert say(section.title, "fr") == "Ce que le modèle devine"
    for guesses in shown["guesses"]:
        assert not {"[MASK]", "[PAD]"} & set(guesses)


def test_baselines_are_measured_on_the_same_hidden_tokens(masked, replaced):
    for task, prepared, model in (masked, replaced):
        evaluation = task.evaluate(model, prepared.state, prepared.test)
        rivals = task.baselines(prepared, lambda _: None)
        assert len(rivals) == 2
        for rival in rivals:
            assert 0 <= rival.scores[task.metric] <= 1
        assert evaluation.scores.keys() >= rivals[0].scores.keys()
    common = task.baselines(prepared, lambda _: None)[0]
    assert common.scores["auc"] == pytest.approx(0.5)


def test_the_area_under_the_curve_is_a_probability():
    rng = np.random.default_rng(0)
    ours, theirs = rng.integers(0, 6, 40).astype(float), rng.integers(0, 6, 50).astype(float)
    expected = np.mean([(a > b) + 0.5 * (a == b) for a in ours for b in theirs])
    assert rank_shares(ours, theirs).mean() == pytest.approx(expected)


def test_predict_fills_in_the_mask(masked):
    task, prepared, model = masked
    (answer,) = task.predict(model, prepared.state, prepared.tokenizers, ["Le film est [MASK]."])
    assert "[MASK]" not in answer.output
    assert answer.output.startswith("Le film est")
    assert sum(answer.scores.values()) <= 1 + 1e-6
    with pytest.raises(UsageError, match=r"write \[MASK\]"):
        task.predict(model, prepared.state, prepared.tokenizers, ["Le film est bon."])


def test_predict_names_the_suspects(replaced):
    task, prepared, model = replaced
    (answer,) = task.predict(model, prepared.state, prepared.tokenizers, ["Le film est bon."])
    assert answer.output in {"Le", "film", "est", "bon", "."}


@pytest.mark.parametrize("kind", ["masked", "replaced"])
@pytest.mark.parametrize(("base", "words"), [("decoder-tiny", "left to right"), ("transformer-tiny", "an encoder and a decoder")])
def test_models_that_do_not_read_both_sides_are_refused(kind, base, words):
    task = TASKS[kind].model_validate({"kind": kind}).build()
    with pytest.raises(ConfigError, match=words):
        task.check(task.adapt(resolve({"base": base})))


def read_plain(task, path):
    model = task.adapt(resolve(TINY))
    tokenizer = TOKENIZERS["wordpiece"].model_validate({"kind": "wordpiece", "vocab": 120, "min_count": 1})
    return task.prepare(DataConfig(train=str(path)), tokenizer, model, lambda _: None), model


def test_blank_lines_part_the_documents_of_pairs_and_of_nothing_else(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("\n".join(f"Le film {number:02} est bon.\nLe récit est long.\n" for number in range(60)))
    task = MaskedConfig(context=32, next_sentence=True).build()
    prepared, model = read_plain(task, path)
    assert len(np.unique(prepared.train.documents)) == 48
    assert any("blank lines part its documents" in note for note in prepared.notes)
    scored = task.read(prepared.state, DataConfig(train=str(path)), prepared.tokenizers, model, lambda _: None)
    assert len(np.unique(scored.documents)) == 60
    alone, _ = read_plain(MaskedConfig(context=32).build(), path)
    assert len(np.unique(alone.train.documents)) == 1


def test_pairs_of_one_text_without_blank_lines_are_refused_with_the_way_out(tmp_path):
    path = tmp_path / "corpus.txt"
    path.write_text("".join(f"Le film {number} est bon.\n" for number in range(60)))
    with pytest.raises(DataError, match=r"document.*between"):
        read_plain(MaskedConfig(context=32, next_sentence=True).build(), path)


def test_pairs_give_the_body_segments_and_a_head_of_two():
    task = MaskedConfig(next_sentence=True).build()
    model = task.adapt(resolve({"base": "encoder-tiny"}))
    assert (model.frontend.segments, model.head.follows, model.head.transform is not None) == (2, True, True)
    assert task.adapt(model) == model
