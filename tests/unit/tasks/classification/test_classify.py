import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attentif.data import DataConfig
from attentif.errors import ConfigError, DataError, UsageError
from attentif.models import ModelConfig
from attentif.models.heads import ClassifyHeadConfig
from attentif.tasks import ClassifyConfig, Evaluation, Prepared, Sizes
from attentif.tasks.attention import influence, running_text
from attentif.tasks.classification.classify import Classify, ClassifyState
from attentif.tasks.states import load_state, save_state
from attentif.view.page import Page, render

GOOD = ["quel beau film", "très beau jeu et belle musique", "un film magnifique", "beau , beau , beau"]
BAD = ["quel ennui", "un film raté et un jeu raté", "nul", "c'est long , trop long"]
ROWS = [{"text": f"{text} {n}", "label": label} for n in range(8) for label, texts in (("oui", GOOD), ("non", BAD)) for text in texts]


@pytest.fixture
def reviews(write_csv: Any, ready: Any) -> tuple[Classify, Prepared, Any]:
    return ready(ClassifyConfig().build(), "encoder-tiny", {"train": write_csv("avis.csv", ROWS)})


def test_a_decoder_gets_a_head_that_reads_its_last_token(small: Callable[..., ModelConfig]) -> None:
    head = ClassifyConfig().build().adapt(small("decoder-tiny")).head
    assert isinstance(head, ClassifyHeadConfig)
    assert head.pool == "last"


def test_a_head_of_classes_is_left_as_it_is(small: Callable[..., ModelConfig]) -> None:
    given = small("encoder-tiny", head={"kind": "classify", "pool": "first"})
    assert ClassifyConfig().build().adapt(given) == given


def test_models_that_cannot_classify_are_refused_before_any_data(small: Callable[..., ModelConfig]) -> None:
    task = ClassifyConfig().build()
    with pytest.raises(ConfigError, match=r"encoder.*decoder"):
        task.check(small("transformer-tiny"))
    with pytest.raises(ConfigError, match=r"first.*causal"):
        task.check(small("decoder-tiny", head={"kind": "classify", "pool": "first"}))


def test_classes_go_into_the_state_that_is_saved_and_not_into_the_configuration(reviews: Any) -> None:
    task, prepared, _ = reviews
    assert prepared.state.labels == ("non", "oui")
    assert prepared.sizes.classes == 2
    assert task.config.labels == []


def test_a_label_that_the_model_does_not_know_is_named_with_its_place(write_csv: Any, ready: Any, small: Any) -> None:
    task = ClassifyConfig(labels=["non", "peut-être"]).build()
    with pytest.raises(DataError, match=r"avis\.csv:\d+:.*'oui'"):
        ready(task, "encoder-tiny", {"train": write_csv("avis.csv", ROWS)})


def test_cut_texts_are_counted_and_said(write_csv: Any, ready: Any) -> None:
    _, prepared, _ = ready(ClassifyConfig(max_len=5).build(), "encoder-tiny", {"train": write_csv("avis.csv", ROWS)})
    assert int(prepared.train.lengths.max()) == 5
    assert any(note.startswith("train: ") and "cut to 5 tokens" in note for note in prepared.notes)


def test_texts_are_cut_to_what_the_model_can_read(write_csv: Any, ready: Any) -> None:
    frontend = {"kind": "tokens", "position": {"kind": "learned", "max_len": 6}}
    _, prepared, _ = ready(ClassifyConfig().build(), "encoder-tiny", {"train": write_csv("avis.csv", ROWS)}, frontend=frontend)
    assert int(prepared.train.lengths.max()) == 6


def test_a_run_s_own_tokenizer_is_used_again(reviews: Any, write_csv: Any, small: Any) -> None:
    task, prepared, model = reviews
    again = task.prepare(DataConfig(train=write_csv("autre.csv", ROWS[:40])), prepared.tokenizers, model.config, print)
    assert again.tokenizers["tokenizer"] is prepared.tokenizers["tokenizer"]


def test_loss_is_a_sum_over_examples_padded_or_packed(reviews: Any) -> None:
    task, prepared, model = reviews
    rows = range(10)
    alone = sum(task.step(model, prepared.train.batch([row])).total.item() for row in rows)
    for packed in (False, True):
        loss = task.step(model, prepared.train.batch(rows, packed=packed))
        assert loss.count == 10
        assert loss.total.item() == pytest.approx(alone, rel=1e-5)
        assert 0 <= float(loss.metrics["accuracy"]) <= 10


@pytest.mark.parametrize("packed", [False, True])
def test_the_second_text_of_a_pair_has_the_second_segment(write_csv: Any, ready: Any, packed: bool) -> None:
    rows = [{"text": f"un deux {n}", "text2": "trois", "label": "ab"[n % 2]} for n in range(40)]
    frontend = {"kind": "tokens", "segments": 2}
    _, prepared, model = ready(ClassifyConfig().build(), "encoder-tiny", {"train": write_csv("paires.csv", rows)}, frontend=frontend)
    source = prepared.train.batch([0, 1], packed=packed).source
    assert source.segments is not None
    assert source.segments.reshape(2, -1).tolist() == [[0, 0, 0, 0, 0, 1, 1]] * 2  # [CLS] un deux n [SEP] trois [SEP]
    assert model(prepared.train.batch([0, 1], packed=packed))[0].shape == (2, 2)


def test_scores_are_those_of_the_predictions_whatever_the_batches(reviews: Any) -> None:
    task, prepared, model = reviews
    test = prepared.test
    answers = task.predict(model, prepared.state, prepared.tokenizers, test.table["text"])
    right = np.mean([answer.output == label for answer, label in zip(answers, test.table["label"], strict=True)])
    loss = -np.mean([np.log(answer.scores[label]) for answer, label in zip(answers, test.table["label"], strict=True)])
    for budget in (1, 16, 8192):
        found = task.evaluate(model, prepared.state, test, budget=budget)
        assert found.scores["accuracy"] == pytest.approx(right)
        assert found.scores["loss"] == pytest.approx(loss, rel=1e-5)
    assert task.evaluate(model, prepared.state, test, quick=True).scores["accuracy"] == pytest.approx(right)


def test_label_smoothing_changes_the_training_loss_only(reviews: Any, teach: Any) -> None:
    task, prepared, model = reviews
    teach(task, prepared, model, steps=30)
    smooth = task.config.replace(label_smoothing=0.2).build()
    batch = prepared.train.batch(range(10))
    assert smooth.step(model, batch).total.item() > task.step(model, batch).total.item()
    assert smooth.evaluate(model, prepared.state, prepared.test).scores == task.evaluate(model, prepared.state, prepared.test).scores


def test_words_are_hidden_in_training_alone_and_never_what_frames_a_text(write_csv: Any, ready: Any) -> None:
    _, prepared, _ = ready(ClassifyConfig(word_dropout=0.5).build(), "encoder-tiny", {"train": write_csv("avis.csv", ROWS)})
    tokenizer = prepared.tokenizers["tokenizer"]
    every = range(len(prepared.train))
    whole = replace(prepared.train, word_dropout=0.0).batch(every)
    spoiled = prepared.train.batch(every).source.data
    words = whole.source.seq.valid & (whole.source.data != tokenizer.cls) & (whole.source.data != tokenizer.sep)
    changed = spoiled != whole.source.data
    assert not (changed & ~words).any()
    assert (spoiled[changed] == tokenizer.unk).all()
    assert float(changed.sum() / words.sum()) == pytest.approx(0.5, abs=0.1)
    assert torch.equal(prepared.valid.batch([0]).source.data, prepared.valid.batch([0]).source.data)


def test_evaluation_leaves_the_model_as_it_was(reviews: Any) -> None:
    task, prepared, model = reviews
    model.train()
    task.evaluate(model, prepared.state, prepared.test)
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_worst_errors_are_errors_the_surest_first(reviews: Any) -> None:
    task, prepared, model = reviews
    worst = task.evaluate(model, prepared.state, prepared.test).details["worst"]
    assert worst
    assert all(error["true"] != error["predicted"] for error in worst)
    assert [e["probability"] for e in worst] == sorted((e["probability"] for e in worst), reverse=True)
    assert all(len(error["tokens"]) == len(error["values"]) for error in worst)
    assert worst[0]["place"].rsplit(":", 1)[0].endswith("avis.csv")


def test_influence_is_how_fast_the_answer_moves_when_a_token_grows(reviews: Any) -> None:
    _, prepared, model = reviews
    batch = prepared.test.batch([0])
    wanted = lambda logits: logits[:, 0] - logits[:, 1]
    found = influence(model, batch, wanted)
    assert found is not None
    for place in range(found.shape[1]):
        ends = []
        for factor in (0.99, 1.01):
            scale = torch.ones(1, found.shape[1], 1)
            scale[:, place] = factor
            handle = model.frontend.tokens.register_forward_hook(lambda module, given, output, scale=scale: output * scale)
            with torch.no_grad():
                ends.append(float(wanted(model(batch)[0])))
            handle.remove()
        assert (ends[1] - ends[0]) / 0.02 == pytest.approx(float(found[0, place]), abs=1e-3)


def test_details_are_plain_data_from_which_the_report_can_be_drawn_again(reviews: Any) -> None:
    task, prepared, model = reviews
    found = task.evaluate(model, prepared.state, prepared.test)
    stored = json.loads(json.dumps(found.details, allow_nan=False))
    sections = ClassifyConfig(labels=["non", "oui"]).build().sections(Evaluation(found.scores, found.intervals, details=stored))
    page = render(Page("essai", sections))
    assert "Matrice de confusion" in page
    assert "Confusion matrix" in page
    assert found.details["worst"][0]["place"] in page


def test_predictions_carry_every_class_the_likeliest_first(reviews: Any) -> None:
    task, prepared, model = reviews
    (answer,) = task.predict(model, prepared.state, prepared.tokenizers, ["quel beau film"])
    assert sum(answer.scores.values()) == pytest.approx(1.0)
    assert next(iter(answer.scores)) == answer.output
    assert answer.probability == max(answer.scores.values())


def test_an_empty_text_gets_an_answer_too(reviews: Any) -> None:
    task, prepared, model = reviews
    assert task.predict(model, prepared.state, prepared.tokenizers, [""])[0].output in {"oui", "non"}


def test_where_the_answer_alone_attends_its_map_has_one_row(write_csv: Any, ready: Any, teach: Any) -> None:
    task, prepared, model = ready(ClassifyConfig().build(), "bi-lstm-attention-tiny", {"train": write_csv("avis.csv", ROWS)})
    teach(task, prepared, model, steps=30)
    (maps,) = task.maps(model, prepared.state, prepared.tokenizers, ["quel beau film"])
    ((name, weights),) = maps.weights.items()
    assert (list(maps.rows), list(maps.keys), name) == (["oui"], ["[CLS]", "quel", "beau", "film", "[SEP]"], "head pool")
    assert weights.shape == (1, 1, 5)
    assert weights.sum() == pytest.approx(1)


def test_maps_have_a_row_and_a_column_for_each_token(reviews: Any) -> None:
    task, prepared, model = reviews
    (maps,) = task.maps(model, prepared.state, prepared.tokenizers, ["quel beau film"])
    assert list(maps.rows) == ["[CLS]", "quel", "beau", "film", "[SEP]"]
    ((name, weights),) = maps.weights.items()
    assert name == "encoder 1 attn"
    assert weights.shape == (4, 5, 5)
    assert np.allclose(weights.sum(-1), 1, atol=1e-5)


def test_examples_to_look_at_come_from_each_class(reviews: Any) -> None:
    task, prepared, _ = reviews
    labels = dict(zip(prepared.test.table["text"], prepared.test.table["label"], strict=True))
    assert {labels[example["text"]] for example in task.examples(prepared, 2)} == {"oui", "non"}


def test_running_text_is_the_text_itself(reviews: Any) -> None:
    _, prepared, _ = reviews
    tokenizer = prepared.tokenizers["tokenizer"]
    pieces = running_text(tokenizer.encode("un  film, raté !", "beau"), "un  film, raté !", "beau")
    assert pieces[0] == "[CLS]"
    assert "".join(piece for piece in pieces if piece not in ("[CLS]", "[SEP]")) == "un  film, raté !beau"


def test_sizes_that_the_data_outgrow_are_refused(small: Callable[..., ModelConfig]) -> None:
    with pytest.raises(ConfigError, match=r"model\.frontend\.vocab: 10.*400"):
        Sizes(400, classes=2).fill(small("encoder-tiny", frontend={"kind": "tokens", "vocab": 10}))
    with pytest.raises(ConfigError, match=r"model\.head\.classes: 2 is too small"):
        Sizes(400, classes=3).fill(small("encoder-tiny", head={"kind": "classify", "classes": 2}))


def test_a_task_of_one_s_own_is_one_class(tmp_path: Path, reviews: Any) -> None:
    class Careful(Classify):
        metric = "ece"

    _, prepared, model = reviews
    task = Careful(ClassifyConfig())
    assert task.metric in task.evaluate(model, prepared.state, prepared.test).scores


def test_another_file_is_scored_as_it_is_even_with_one_class_only(reviews: Any, write_csv: Any) -> None:
    task, prepared, model = reviews
    rows = [{"text": text, "label": "oui"} for text in GOOD]
    other = task.read(prepared.state, DataConfig(train=write_csv("autres.csv", rows)), prepared.tokenizers, model.config, lambda line: None)
    assert len(other) == len(GOOD)
    assert task.evaluate(model, prepared.state, other).examples == len(GOOD)


# ----------------------------------------------------------------------------------------------- pairs, averages, word vectors

PAIRS = [{"text": f"il pleut {n}", "text2": f"il {verb} {n}", "label": verb} for n in range(40) for verb in ("pleut", "neige")]


def test_a_model_of_pairs_answers_pairs_and_says_so_to_others(write_csv: Any, ready: Any) -> None:
    task, prepared, model = ready(ClassifyConfig().build(), "encoder-tiny", {"train": write_csv("paires.csv", PAIRS)})
    assert prepared.state.pairs
    assert any("told apart by [SEP] alone" in note for note in prepared.notes)
    rows = [{"text": "il pleut", "pair": "il neige"}, {"text": "il pleut", "pair": "il pleut"}]
    answers = task.predict(model, prepared.state, prepared.tokenizers, rows)
    assert [answer.input for answer in answers] == ["il pleut / il neige", "il pleut / il pleut"]
    with pytest.raises(UsageError, match=r"2.*--pair"):
        task.predict(model, prepared.state, prepared.tokenizers, [rows[0], "il pleut"])
    with pytest.raises(DataError, match="reads pairs"):
        task.read(prepared.state, DataConfig(train=write_csv("avis.csv", ROWS)), prepared.tokenizers, model.config, print)


def test_a_model_of_single_texts_refuses_pairs(reviews: Any) -> None:
    task, prepared, model = reviews
    with pytest.raises(UsageError, match=r"single.*1"):
        task.predict(model, prepared.state, prepared.tokenizers, [{"text": "beau", "pair": "film"}])


def test_baselines_tell_the_texts_of_a_pair_apart(write_csv: Any, ready: Any) -> None:
    rows = [{"text": a, "text2": b, "label": a} for n in range(40) for a, b in ((f"oui {n}", f"non {n}"), (f"non {n}", f"oui {n}"))]
    rows = [row | {"label": row["text"].split()[0]} for row in rows]  # the same words on both sides: only the side says which
    task, prepared, _ = ready(ClassifyConfig().build(), "encoder-tiny", {"train": write_csv("paires.csv", rows)})
    _, tfidf, weighted = task.baselines(prepared, lambda line: None)
    assert tfidf.scores["accuracy"] == weighted.scores["accuracy"] == 1.0


def test_an_average_is_kept_scored_part_by_part_and_found_again(write_csv: Any, ready: Any, tmp_path: Path) -> None:
    data = {"train": write_csv("avis.csv", ROWS), "valid_fraction": 0.4}
    _, prepared, model = ready(ClassifyConfig().build(), "encoder-tiny", data)
    task = ClassifyConfig(linear="averaged").build()
    state = task.finalize(model, prepared, budget=4096, say=lambda line: None)
    found = task.evaluate(model, state, prepared.test)
    parts = found.details["parts"]
    assert parts["network"]["scores"]["accuracy"] == task.evaluate(model, prepared.state, prepared.test).scores["accuracy"]
    assert found.scores["linear_accuracy"] == parts["linear"]["scores"]["accuracy"] == 1.0
    save_state(tmp_path, state)
    again = load_state(tmp_path, ClassifyState)
    assert task.evaluate(model, again, prepared.test).scores == found.scores
    answers = lambda own: [answer.scores for answer in task.predict(model, own, prepared.tokenizers, GOOD)]
    assert answers(again) == answers(state)
    assert task.caveat(model, again) == task.caveat(model, state) != ""
    page = render(Page("essai", task.sections(found)))
    assert "Une moyenne de deux modèles" in page
    assert "Calibration error (ECE) on the test" in page


@pytest.mark.parametrize(("sureness", "said"), [(0.1, "whose loss goes from 0."), (9.0, "with room for errors that they do not show")])
def test_calibration_says_its_effect_on_validation(
    sureness: float, said: str, write_csv: Any, ready: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task, prepared, model = ready(ClassifyConfig().build(), "encoder-tiny", {"train": write_csv("avis.csv", ROWS), "valid_fraction": 0.4})
    right = sureness * np.eye(2)[prepared.valid.labels]
    monkeypatch.setattr("attentif.tasks.classification.classify.all_logits", lambda *given: right)
    lines: list[str] = []
    task.finalize(model, prepared, budget=4096, say=lines.append)
    assert said in lines[-1]


def test_the_table_of_tokens_begins_as_word_vectors_of_the_training_texts(reviews: Any) -> None:
    _, prepared, model = reviews
    task = ClassifyConfig(vectors=True).build()
    table = model.frontend.tokens.weight
    fresh = table.detach().clone()
    task.init_weights(model, prepared, lambda line: None)
    seen = torch.zeros(len(table), dtype=torch.bool)
    seen[torch.from_numpy(np.unique(prepared.train.ids.flat).astype(np.int64))] = True
    assert (table[~seen] == fresh[~seen]).all()  # [PAD], [MASK]: no text holds them
    assert (table[seen] != fresh[seen]).any(1).all()
    assert table[seen].std().item() == pytest.approx(fresh.std().item(), rel=1e-3)
    first = table.detach().clone()
    with torch.no_grad():
        table.copy_(fresh)
    task.init_weights(model, prepared, lambda line: None)
    assert torch.equal(table, first)
