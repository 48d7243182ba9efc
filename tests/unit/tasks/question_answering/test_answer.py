import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from attentif.errors import ConfigError, UsageError
from attentif.models import ModelConfig
from attentif.tasks import Evaluation
from attentif.tasks.question_answering.answer import AnswerConfig, AnswerState, parse_question
from attentif.tasks.question_answering.report import _passage, closest_sentence, new_words
from attentif.tasks.question_answering.spans import Span
from attentif.view.page import Page, render

NAMES, TOWNS = ["Zoé", "Paul", "Inès", "Marc"], ["Nice", "Brest", "Lens", "Dole"]


def squad(count: int, start: int, *, impossible: bool = True) -> dict[str, Any]:
    """Two people and their towns; one is asked for, or somebody of whom nothing is said."""
    paragraphs = []
    for n in range(start, start + count):
        one, other = NAMES[n % 4], NAMES[(n + 1 + n // 4 % 3) % 4]
        here, there = TOWNS[n // 2 % 4], TOWNS[(n // 2 + 1 + n % 3) % 4]
        context = f"Le {n} mai , {one} vit à {here} . {other} vit à {there} ."
        asked, answer = (other, there) if n % 2 else (one, here)
        answers = [{"text": answer, "answer_start": context.rindex(answer) if n % 2 else context.index(answer)}]
        if impossible and n % 5 == 0:
            asked, answers = next(name for name in NAMES if name not in (one, other)), []
        paragraphs.append({"context": context, "qas": [{"id": str(n), "question": f"Où vit {asked} ?", "answers": answers}]})
    return {"version": "v2.0", "data": [{"title": "t", "paragraphs": paragraphs}]}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    found = {}
    for split, (count, start) in {"train": (40, 0), "valid": (6, 50), "test": (10, 60)}.items():
        (tmp_path / f"{split}.json").write_text(json.dumps(squad(count, start), ensure_ascii=False))
        found[split] = str(tmp_path / f"{split}.json")
    return found


@pytest.fixture(params=[False, True], ids=["alone", "match"])
def asked(request: pytest.FixtureRequest, files: Any, ready: Any) -> Any:
    task = AnswerConfig(max_len=64, stride=4, max_question=8, match=request.param).build()
    return ready(task, "encoder-tiny", files, frontend={"segments": 2})


def test_a_model_that_cannot_answer_is_refused_before_data_are_read(small: Callable[..., ModelConfig]) -> None:
    task = AnswerConfig().build()
    for base, message in (("transformer-tiny", "one stack"), ("decoder-tiny", "left to right only")):
        with pytest.raises(ConfigError, match=message):
            task.check(task.adapt(small(base)))
    with pytest.raises(ConfigError, match=r"task\.stride: 64.*29"):
        AnswerConfig(max_len=96).build().check(task.adapt(small("encoder-tiny")))


def test_labels_are_the_answers_places_and_cls_where_there_is_none(asked: Any) -> None:
    _task, prepared, _ = asked
    tokenizer = prepared.tokenizers["tokenizer"]
    batch = prepared.train.batch(range(12))
    for row, (first, last) in enumerate(batch.labels.tolist()):
        references = prepared.train.references[row]
        if references:
            assert tokenizer.decode(batch.source.data[row, first : last + 1]) == references[0]
            assert batch.source.segments[row, first] == 1
        else:
            assert (first, last) == (0, 0)
    assert prepared.state.impossible is True
    assert any("40 questions, 8 of them without an answer" in note for note in prepared.notes)


def test_loss_is_a_sum_over_windows_padded_or_packed(asked: Any) -> None:
    task, prepared, model = asked
    alone = [task.step(model, prepared.train.batch([row])) for row in (0, 3, 7)]
    for packed in (False, True):
        loss = task.step(model, prepared.train.batch([0, 3, 7], packed=packed))
        assert loss.count == 3
        assert_close(loss.total, sum(one.total for one in alone), rtol=1e-5, atol=1e-5)


def test_what_question_and_passage_share_is_read_where_it_is_asked_for(asked: Any) -> None:
    task, prepared, model = asked
    batch = prepared.train.batch([0, 1])
    told = batch.source.beside
    assert (told is not None) == task.config.match
    if told is not None:
        none = replace(batch, source=replace(batch.source, beside=replace(told, data=torch.zeros_like(told.data))))
        assert not torch.allclose(task._scores(model, batch), task._scores(model, none))


def test_no_answer_stands_in_the_question_on_padding_or_on_the_last_separator(asked: Any) -> None:
    task, prepared, model = asked
    batch = prepared.train.batch([0, 1])
    scores = task._scores(model, batch)
    possible = scores[:, 0].isfinite()
    for row, window in enumerate(prepared.train.windows[:2]):
        length = len(prepared.train.ids[row])
        expected = [place == 0 or window.begin <= place < length - 1 for place in range(scores.shape[-1])]
        assert possible[row].tolist() == expected


def test_a_model_learns_to_answer_and_to_be_silent(asked: Any, teach: Any) -> None:
    task, prepared, model = asked
    teach(task, prepared, model, steps=120, lr=5e-3)
    found = task.evaluate(model, prepared.state, prepared.train)
    assert found.scores["exact_match"] > 0.9
    assert found.details["impossible"]["rightly_silent"] >= 6
    context = prepared.train.table["context"][1]
    (answer,) = task.predict(
        model, prepared.state, prepared.tokenizers, [{"question": prepared.train.table["question"][1], "context": context}]
    )
    assert answer.output == prepared.train.references[1][0] == context[answer.details["start"] : answer.details["end"]]
    (none,) = task.predict(
        model, prepared.state, prepared.tokenizers, [{role: prepared.train.table[role][0] for role in ("question", "context")}]
    )
    assert none.output == ""
    assert none.probability > 0.5  # how sure it is of its silence, not of what it did not say


def test_silence_is_given_where_it_scores_better_by_the_threshold() -> None:
    span = Span(0, 3, score=1.0, nothing=2.0, total=2.5)
    text = lambda impossible, **options: AnswerConfig(**options).build()._text(AnswerState(impossible), span, "Zoé dort")
    assert text(True) == ""
    assert text(True, threshold=1.5) == "Zoé"
    assert text(False) == "Zoé"


def test_data_without_impossible_questions_are_always_answered(tmp_path: Path, ready: Any) -> None:
    (tmp_path / "a.json").write_text(json.dumps(squad(40, 0, impossible=False)))
    task, prepared, model = ready(
        AnswerConfig(max_len=64, stride=4, max_question=8).build(), "encoder-tiny", {"train": str(tmp_path / "a.json")}
    )
    assert prepared.state.impossible is False
    assert task.evaluate(model, prepared.state, prepared.test).details["impossible"]["silent"] == 0
    (tmp_path / "b.json").write_text(json.dumps(squad(40, 0)))
    with pytest.raises(ConfigError, match="training questions"):
        ready(
            AnswerConfig(max_len=64, stride=4, max_question=8, impossible=False).build(),
            "encoder-tiny",
            {"train": str(tmp_path / "b.json")},
        )


def test_long_passages_are_answered_from_all_their_windows(asked: Any) -> None:
    task, prepared, model = asked
    long = " . ".join(prepared.train.table["context"][:12])
    example = {"question": "Où vit Zoé ?", "context": long}
    dataset = task._read_inputs(model, prepared.tokenizers, [example])
    assert len(dataset) > 2
    assert int(dataset.lengths.max()) <= 64
    (answer,) = task.predict(model, prepared.state, prepared.tokenizers, [example])
    assert answer.output == "" or answer.output == long[answer.details["start"] : answer.details["end"]]


def test_inputs_are_tables_json_texts_or_squad_files(asked: Any, files: Any, tmp_path: Path) -> None:
    task, _prepared, _model = asked
    assert parse_question('{"question": "Où ?", "context": "Ici."}') == {"question": "Où ?", "context": "Ici."}
    for wrong in ("Où ?", '{"question": "Où ?"}', '["a"]', '{"question": "Où ?", "context": " "}'):
        with pytest.raises(UsageError, match=r"question.*passage"):
            parse_question(wrong)
    found = task.inputs(Path(files["test"]), None)
    assert len(found) == 10
    assert set(found[0]) == {"question", "context"}
    with pytest.raises(UsageError, match="SQuAD's form"):
        task.inputs(tmp_path / "a.csv", None)


def test_a_silent_answer_shades_nothing_of_the_passage() -> None:
    entry = {"context": "Zoé dort .", "span": [0, 0]}
    shown = _passage(entry, right=True)
    assert (list(shown.tokens), list(shown.values)) == (["Zoé dort ."], [0.0])


def test_details_are_plain_data_from_which_the_report_can_be_drawn_again(asked: Any) -> None:
    task, prepared, model = asked
    found = task.evaluate(model, prepared.state, prepared.test)
    stored = json.loads(json.dumps(found.details, allow_nan=False))
    page = render(Page("essai", AnswerConfig().build().sections(Evaluation(found.scores, details=stored))))
    assert "Does it know when to be silent?" in page
    assert task.maps(model, prepared.state, prepared.tokenizers, task.examples(prepared, 1))


def test_baselines_look_for_the_sentence_that_shares_most_words(asked: Any) -> None:
    task, prepared, _ = asked
    context = "Le 3,5 km à pied. Paul vit à Dole en 1972. Zoé dort à Lens."
    assert closest_sentence("Où vit Paul ?", context, "fr") == "Paul vit à Dole en 1972."
    assert new_words("Où vit Paul ?", context, "fr") == "à Dole en 1972."
    sentence, rest = task.baselines(prepared, lambda line: None)
    assert 0 < sentence.scores["answer_f1"] < 1
    assert 0 < rest.scores["answer_f1"] < 1
