"""Questions about pictures: what is read, what is scored, both designs, tables of one's own, and what is wrong with them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attentif.data import DataConfig, plan
from attentif.data.builtin import scenes
from attentif.data.images import data_uri
from attentif.errors import ConfigError, DataError, UsageError
from attentif.models import ModelConfig
from attentif.tasks.ragged import UNSCORED
from attentif.tasks.vision.vision_language import VisionLanguageConfig
from attentif.tasks.vision.vision_language_data import AskedPictures
from attentif.view.page import Page, render

DESIGNS = ("vision-language-tiny", "one-encoder-tiny")


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    for split, count in (("train", 30), ("valid", 4), ("test", 6)):
        monkeypatch.setitem(scenes.SCENES, split, count)


@pytest.fixture(params=DESIGNS)
def both(request: Any, ready: Any) -> Any:
    return ready(VisionLanguageConfig().build(), request.param, {"name": "scenes"}, {"kind": "bpe", "vocab": 300})


@pytest.fixture
def crossing(ready: Any) -> Any:
    return ready(VisionLanguageConfig().build(), DESIGNS[0], {"name": "scenes"}, {"kind": "bpe", "vocab": 300})


@pytest.fixture
def write_table(tmp_path: Path, write_csv: Any) -> Callable[..., str]:
    """A table of small pictures beside it: two questions about each."""
    from PIL import Image

    def write(name: str = "questions.csv", count: int = 12, **changes: str) -> str:
        (tmp_path / "pictures").mkdir(exist_ok=True)
        rows = []
        for number in range(count):
            pixels = np.full((8, 8), 10 * number, np.uint8)
            Image.fromarray(pixels).save(tmp_path / "pictures" / f"{number}.png")
            for question, answer in (("Fait-il clair ?", "oui" if number % 2 else "non"), ("Combien ?", "un" if number % 3 else "deux")):
                rows.append({"image": f"pictures/{number}.png", "question": question, "answer": answer} | changes)
        return str(write_csv(name, rows))

    return write


def test_the_loss_is_that_of_the_answer_alone(crossing: Any) -> None:
    task, prepared, model = crossing
    batch = prepared.train.batch([0])
    tokenizer, table = prepared.tokenizers["tokenizer"], prepared.train.questions.table
    for row, question in enumerate(prepared.train.questions_about([0]).tolist()):
        scored = batch.labels[row][batch.labels[row] != UNSCORED]
        assert scored[-1] == tokenizer.eos
        assert tokenizer.decode(scored.tolist()) == table["answer"][question]
        assert tokenizer.decode(batch.target.data[row].tolist()).startswith(table["question"][question])
    loss = task.step(model, batch)
    logits, _ = model(batch)
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch.labels.flatten(), reduction="sum", ignore_index=UNSCORED)
    assert loss.total.item() == pytest.approx(expected.item(), rel=1e-5)
    assert loss.count == int((batch.labels != UNSCORED).sum())


def test_a_batch_of_pictures_is_the_sum_of_its_pictures(both: Any) -> None:
    task, prepared, model = both
    alone = [task.step(model, prepared.train.batch([row])) for row in (3, 0, 7)]
    for packed in (False, True):
        loss = task.step(model, prepared.train.batch([3, 0, 7], packed=packed))
        assert loss.count == sum(one.count for one in alone)
        assert loss.total.item() == pytest.approx(sum(one.total.item() for one in alone), rel=1e-4)


def test_batches_are_not_sorted_by_the_number_of_digits(both: Any) -> None:
    """A batch of scenes with as many digits each would teach to count without looking."""
    _, prepared, _ = both
    asked = np.bincount(prepared.train.questions.picture)
    assert len(set(asked.tolist())) > 1
    assert len(np.unique(prepared.train.lengths, axis=0)) == 1
    batches = plan(prepared.train.lengths, 8 * int(prepared.train.lengths[0].sum()), seed=0, epoch=0)
    assert all(len(set(asked[rows].tolist())) > 1 for rows in batches if len(rows) == 8)


def test_pictures_are_changed_in_training_and_only_there(both: Any) -> None:
    task, prepared, model = both
    batch = prepared.train.batch([0, 1, 2])
    losses = []
    for training in (True, True, False, False):
        torch.manual_seed(len(losses) % 2)
        losses.append(task.step(model.train(training), batch).total.item())
    assert losses[0] != losses[1]  # another draw, and no dropout in these models
    assert losses[2] == losses[3]
    with pytest.raises(ConfigError, match=r"question.*pictures"):
        VisionLanguageConfig(augment={"mixup": 0.2}).build().check(model.config)


def test_the_answer_depends_on_the_picture_and_on_the_question(both: Any) -> None:
    """In the gradient: neither design may forget one of the two."""
    task, prepared, model = both
    batch = prepared.train.batch([0, 1])
    pictures = batch.source if batch.target is not None else batch.source.beside
    pictures.data.requires_grad_()
    task.step(model, batch).total.backward()
    assert pictures.data.grad.abs().amax((1, 2, 3)).min() > 0
    embedding = (model.target or model.frontend.text).tokens
    assert embedding.weight.grad is not None
    assert embedding.weight.grad.abs().sum() > 0


def test_quick_scores_are_those_of_the_answers_as_written(both: Any) -> None:
    """Teacher forcing and greedy writing agree on what is exactly right."""
    task, prepared, model = both
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(15):  # until some answers are right and some are not
        optimizer.zero_grad()
        loss = task.step(model.train(), prepared.train.batch(range(15)))
        (loss.total / loss.count).backward()
        optimizer.step()
    model.eval()
    quick = task.evaluate(model, prepared.state, prepared.train, quick=True)
    full = task.evaluate(model, prepared.state, prepared.train)
    assert 0 < full.scores["exact_match"] < 1
    assert quick.scores["exact_match"] == full.scores["exact_match"]
    low, high = full.intervals["exact_match"]
    assert low <= full.scores["exact_match"] <= high
    assert sum(entry["examples"] for entry in full.details["by_kind"]) == full.examples == len(prepared.train.questions.table)
    json.dumps(full.details)


def test_the_report_shows_kinds_and_wrong_answers_in_both_languages(both: Any) -> None:
    task, prepared, model = both
    found = task.evaluate(model, prepared.state, prepared.test)
    page = render(Page("scenes", task.sections(found)))
    for words in ("la somme", "the sum", "Réponses fausses", "Wrong answers", "data:image/png"):
        assert words in page


def test_baselines_see_only_one_of_the_two(both: Any) -> None:
    task, prepared, _ = both
    lines: list[str] = []
    found = task.baselines(prepared, lines.append)
    assert [baseline.name.en.split(" (")[0] for baseline in found] == [
        "most frequent answer",
        "the question without the picture",
        "the picture without the question",
    ]
    assert all(0 <= baseline.scores["exact_match"] <= 1 for baseline in found)
    assert len(lines) == 3


def test_answers_to_new_questions(both: Any) -> None:
    task, prepared, model = both
    picture = data_uri(prepared.test.questions.pixels[0, 0])
    examples = [{"image": picture, "question": "Combien y a-t-il de chiffres ?"}, {"image": picture, "question": "Y a-t-il un 3 ?"}]
    found = task.predict(model, prepared.state, prepared.tokenizers, examples)
    assert len(found) == 2
    typed = task.predict(model, prepared.state, prepared.tokenizers, [json.dumps(examples[0])])
    assert typed[0].output == found[0].output
    if model.decoder is None:
        assert sum(found[0].scores.values()) == pytest.approx(1)


@pytest.mark.parametrize("given", ["Combien ?", '{"question": "Combien ?"}', "[1]", {"question": "Combien ?"}])
def test_a_question_without_a_picture_is_refused(both: Any, given: Any) -> None:
    task, prepared, model = both
    with pytest.raises(UsageError, match=r'"image": "scene\.png"'):
        task.predict(model, prepared.state, prepared.tokenizers, [given])


def test_maps_show_words_over_the_picture(both: Any) -> None:
    task, prepared, model = both
    maps = task.maps(model, prepared.state, prepared.tokenizers, task.examples(prepared)[:1])
    first = maps[0]
    assert first.picture is not None
    assert first.picture.grid == (6, 6)
    assert first.columns is not None
    assert len(first.columns) == 36
    assert "gauche" in "".join(first.rows)
    for weights in first.weights.values():
        assert weights.shape[1:] == (len(first.rows), 36)


def test_only_models_that_see_and_read_are_taken(small: Callable[..., ModelConfig]) -> None:
    task = VisionLanguageConfig().build()
    for base in ("encoder-tiny", "decoder-tiny", "transformer-tiny"):
        with pytest.raises(ConfigError, match=r"vision-language-tiny|one-encoder-tiny"):
            task.check(task.adapt(small(base)))
    with pytest.raises(ConfigError, match=r"height.*together"):
        VisionLanguageConfig(height=8).build().check(small(DESIGNS[0]))


# ------------------------------------------------------------------------------------------------------- tables of one's own


def test_a_table_of_paths_questions_and_answers(ready: Any, write_table: Any) -> None:
    task, prepared, model = ready(VisionLanguageConfig().build(), DESIGNS[0], {"train": write_table()})
    parts = (prepared.train, prepared.valid, prepared.test)
    assert sum(len(part) for part in parts) == 12
    names = [set(part.questions.table["image"]) for part in parts]
    assert not names[0] & names[1]  # questions about one picture stay together
    assert not names[0] & names[2]
    assert all(len(part.questions.table) == 2 * len(part) for part in parts)
    assert prepared.train.questions.pixels.shape[1:] == (1, 8, 8)
    assert task.evaluate(model, prepared.state, prepared.test).details["by_kind"][0]["kind"] in ("fait", "combien")


def test_a_trained_model_is_scored_and_asked_on_other_tables(ready: Any, write_table: Any) -> None:
    task, prepared, model = ready(VisionLanguageConfig().build(), DESIGNS[1], {"train": write_table()})
    table = write_table("others.csv")
    dataset = task.read(prepared.state, DataConfig(train=table), prepared.tokenizers, model.config, lambda line: None)
    assert isinstance(dataset, AskedPictures)
    assert len(dataset) == 12
    asked = task.inputs(Path(table), None)
    assert len(asked) == 24
    assert Path(asked[0]["image"]).is_file()
    assert len(task.predict(model, prepared.state, prepared.tokenizers, asked)) == 24


def test_an_answer_that_training_never_gives_counts_as_wrong(ready: Any, write_table: Any) -> None:
    data = {"train": write_table(), "valid": write_table("v.csv"), "test": write_table("t.csv", answer="sept")}
    task, prepared, model = ready(VisionLanguageConfig().build(), DESIGNS[1], data)
    assert any("24 questions with an answer that training never gives" in note for note in prepared.notes)
    assert any("12 of 12 test pictures are in train too" in note for note in prepared.notes)
    assert task.evaluate(model, prepared.state, prepared.test, quick=True).scores["exact_match"] == 0


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "pictures" / "3.png").unlink(), r"questions\.csv:8: .*3\.png: no such file"),
        (lambda folder: (folder / "pictures" / "3.png").write_bytes(b"no picture"), r"questions\.csv:8: .*3\.png: .*readable picture"),
        (
            lambda folder: (folder / "pictures" / "3.png").write_bytes((folder / "pictures" / "2.png").read_bytes()[:50]),
            r"questions\.csv:8: .*3\.png: is (a damaged|no) picture",
        ),
        (lambda folder: (folder / "questions.csv").write_text("image,question\na.png,Quoi ?\n"), "no column looks like the answer"),
        (lambda folder: (folder / "questions.csv").write_text("image,question,answer\na.png,,oui\n"), r":2: the question is empty"),
    ],
)
def test_what_is_wrong_with_a_table_is_said_in_one_line(
    spoil: Any, message: str, tmp_path: Path, write_table: Any, small: Callable[..., ModelConfig]
) -> None:
    table = write_table()
    spoil(tmp_path)
    task = VisionLanguageConfig().build()
    with pytest.raises(DataError, match=message):
        task.prepare(DataConfig(train=table), {}, small(DESIGNS[0]), lambda line: None)


def test_one_answer_to_all_questions_is_refused(write_table: Any, small: Callable[..., ModelConfig]) -> None:
    task = VisionLanguageConfig().build()
    with pytest.raises(DataError, match=r"questions\.csv:.*'oui'"):
        task.prepare(DataConfig(train=write_table(answer="oui")), {}, small(DESIGNS[1]), lambda line: None)


def test_unreadable_pictures_can_be_left_out(ready: Any, tmp_path: Path, write_table: Any) -> None:
    table = write_table()
    (tmp_path / "pictures" / "3.png").unlink()
    _, prepared, _ = ready(VisionLanguageConfig().build(), DESIGNS[0], {"train": table, "skip_bad": 2})
    assert any("2 bad rows skipped" in note for note in prepared.notes)
    assert any("cut from train by picture" in note for note in prepared.notes)
    assert sum(len(part) for part in (prepared.train, prepared.valid, prepared.test)) == 11


def test_pictures_of_different_sizes_need_one(ready: Any, tmp_path: Path, write_table: Any, small: Callable[..., ModelConfig]) -> None:
    from PIL import Image

    table = write_table()
    Image.new("L", (12, 10)).save(tmp_path / "pictures" / "3.png")
    task = VisionLanguageConfig().build()
    with pytest.raises(DataError, match=r"task\.height=8 task\.width=8|10 × 12"):
        task.prepare(DataConfig(train=table), {}, small(DESIGNS[0]), lambda line: None)
    _, prepared, _ = ready(VisionLanguageConfig(height=8, width=8).build(), DESIGNS[0], {"train": table})
    assert prepared.train.questions.pixels.shape[1:] == (1, 8, 8)


@pytest.mark.parametrize("design", DESIGNS)
def test_pictures_that_patches_do_not_divide_are_refused(
    design: str, ready: Any, write_table: Any, small: Callable[..., ModelConfig]
) -> None:
    refused = r"^model\.frontend\.stride: steps of \d pixels do not divide the pictures' height of [89]$"
    with pytest.raises(ConfigError, match=refused):
        VisionLanguageConfig(height=9, width=9).build().check(small(design))
    with pytest.raises(ConfigError, match=refused):
        ready(VisionLanguageConfig().build(), design, {"train": write_table()}, frontend={"size": 3, "stride": 3})
