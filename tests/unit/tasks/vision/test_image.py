"""Classification of pictures: what is refused before data are read, what is learned from, what is answered and shown."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image as Pillow

from attentif.data import DataConfig
from attentif.data.images import Frame, load_pictures
from attentif.errors import ConfigError, DataError
from attentif.models import Model, ModelConfig, build, resolve
from attentif.tasks.base import Prepared
from attentif.tasks.vision.image import Image, ImageConfig, LabelledPictures, channel_scale, make_thumbnail
from attentif.view.blocks import FigureBlock

TINY = {"base": "vit-tiny", "width": 32, "layers": 2, "frontend": {"size": 2}}
QUIET = {"shift": 0.0, "rotate": 0.0, "scale": 0.0, "shear": 0.0}
say: Callable[[str], None] = lambda line: None


@pytest.fixture(scope="module")
def digits() -> tuple[Image, Prepared, Model]:
    torch.manual_seed(0)
    task = Image(ImageConfig())
    model = task.adapt(resolve(TINY))
    prepared = task.prepare(DataConfig(name="digits", limit=200), {}, model, say)
    return task, prepared, build(prepared.sizes.fill(model)).eval()


def test_the_data_decide_sizes_classes_and_the_scale_of_pixels(digits: tuple[Image, Prepared, Model]) -> None:
    _task, prepared, _ = digits
    assert prepared.sizes.frontend == {"channels": 1, "height": 8, "width": 8}
    assert prepared.sizes.max_len == 17
    assert prepared.state.labels == tuple(str(digit) for digit in range(10))
    train = prepared.train
    assert isinstance(train, LabelledPictures)
    data = train.batch(np.arange(200)).source.data
    assert data.shape == (200, 1, 8, 8)
    assert float(data.mean()) == pytest.approx(0, abs=1e-4)
    assert float(data.std()) == pytest.approx(1, abs=1e-3)


def test_a_run_that_is_taken_up_again_reads_the_same_pictures(digits: tuple[Image, Prepared, Model]) -> None:
    task, prepared, model = digits
    again = task.prepare(DataConfig(name="digits", limit=200), {}, model.config, say, prepared.state)
    assert again.digest == prepared.digest
    assert again.state == prepared.state


def test_mean_and_deviation_are_those_of_numpy() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (20, 3, 5, 4), dtype=np.uint8)
    mean, std = channel_scale(pixels)
    assert mean == pytest.approx(pixels.mean((0, 2, 3)) / 255, abs=1e-6)
    assert std == pytest.approx(pixels.std((0, 2, 3)) / 255, abs=1e-6)
    assert channel_scale(np.zeros((2, 1, 3, 3), np.uint8)) == ((0.0,), (pytest.approx(1 / 255, abs=1e-6),))


def test_only_training_changes_pictures(digits: tuple[Image, Prepared, Model]) -> None:
    task, prepared, model = digits
    batch = prepared.train.batch(range(32))
    loss = lambda: float(task.step(model, batch).total.detach())
    assert loss() == loss()
    model.train()
    try:
        torch.manual_seed(1)
        first, second = loss(), loss()
        torch.manual_seed(1)
        assert loss() == first  # the loop seeds every step, and so a run goes on as it would have
        assert first != second
    finally:
        model.eval()


def test_mixed_pictures_are_scored_by_their_shares(digits: tuple[Image, Prepared, Model]) -> None:
    _, prepared, model = digits
    task = Image(ImageConfig.model_validate({"augment": QUIET | {"mixup": 0.4}}))
    batch = prepared.train.batch(range(16))
    model.train()
    try:
        torch.manual_seed(0)
        total = task.step(model, batch).total
        torch.manual_seed(0)
        share = float(torch.distributions.Beta(torch.tensor(0.4), torch.tensor(0.4)).sample())
        share = max(share, 1 - share)
        order = torch.randperm(16)
        data = share * batch.source.data + (1 - share) * batch.source.data[order]
        logits, _ = model(type(batch)(type(batch.source)(data, batch.source.seq)))
        log_p = logits.log_softmax(-1)
        own, other = (log_p.gather(1, labels[:, None]).sum() for labels in (batch.labels, batch.labels[order]))  # type: ignore[index]
        torch.testing.assert_close(total, -(share * own + (1 - share) * other))
    finally:
        model.eval()


def test_an_evaluation_counts_what_predict_answers(digits: tuple[Image, Prepared, Model], tmp_path: Path) -> None:
    task, prepared, model = digits
    found = task.evaluate(model, prepared.state, prepared.test)
    assert isinstance(prepared.test, LabelledPictures)
    paths = []
    for row in range(40):
        paths.append(str(tmp_path / f"{row}.png"))
        Pillow.fromarray(prepared.test.pictures.to_image(row)).save(paths[-1])
    answers = task.predict(model, prepared.state, {}, paths)
    table = np.asarray(found.details["confusion"])
    assert table.sum() == len(prepared.test)
    batch = prepared.test.batch(range(40))
    with torch.no_grad():
        expected = model(batch)[0].argmax(1).tolist()
    assert [answer.output for answer in answers] == [str(label) for label in expected]
    assert answers[0].input == paths[0]
    assert sum(answers[0].scores.values()) == pytest.approx(1)


def test_the_surest_errors_are_shown_as_pictures(digits: tuple[Image, Prepared, Model]) -> None:
    task, prepared, model = digits
    found = task.evaluate(model, prepared.state, prepared.test)
    worst = found.details["worst_pictures"]
    assert 0 < len(worst) <= 24
    sure = [entry["probability"] for entry in worst]
    assert sure == sorted(sure, reverse=True)
    assert all(entry["true"] != entry["predicted"] for entry in worst)
    titles = [section.title.en for section in task.sections(found)]  # type: ignore[union-attr]
    assert titles[0] == "Class by class"
    gallery = task.sections(found)[-1].body[0]
    assert isinstance(gallery, FigureBlock)
    assert len(gallery.draw(lang="fr").layout.images) == len(worst)


def test_maps_stand_on_the_picture(digits: tuple[Image, Prepared, Model]) -> None:
    task, prepared, model = digits
    examples = task.examples(prepared, 2)
    maps = task.maps(model, prepared.state, {}, examples)
    assert len(maps) == 2
    assert maps[0].picture is not None
    assert maps[0].picture.grid == (4, 4)
    assert maps[0].picture.first == 1
    assert maps[0].rows[:3] == ["[CLS]", "1·1", "1·2"]
    assert set(maps[0].weights) == {"encoder 1 attn", "encoder 2 attn"}
    assert "data:" not in str(maps[0].title)


def test_thumbnails_of_tiny_pictures_grow_and_of_large_ones_shrink() -> None:
    assert make_thumbnail(np.zeros((8, 8), np.uint8)).shape == (96, 96)
    assert max(make_thumbnail(np.zeros((500, 300, 3), np.uint8)).shape) <= 96


@pytest.mark.parametrize(
    ("model", "task", "message"),
    [
        ({"base": "encoder-tiny"}, {}, 'frontend of kind "patches"'),
        (TINY, {"height": 9, "width": 9}, r"^model\.frontend\.size: patches of 2 pixels do not divide the pictures' height of 9"),
        (TINY, {"height": 8}, "height and width go together"),
        (TINY | {"frontend": {"size": 2, "channels": 3}}, {"channels": 1}, "task.channels: 1, and model.frontend.channels is 3"),
        (TINY, {"mean": [0.5]}, "mean and std go together"),
    ],
)
def test_contradictions_are_refused_before_any_data_are_read(model: dict[str, Any], task: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Image(ImageConfig.model_validate(task)).check(resolve(model))


def test_a_causal_body_reads_its_last_patch() -> None:
    task = Image(ImageConfig())
    decoder: dict[str, Any] = resolve({"base": "decoder-tiny"}).model_dump()
    config = ModelConfig.model_validate(decoder | {"frontend": {"kind": "patches", "size": 2}})
    adapted = task.adapt(config)
    task.check(adapted)
    assert getattr(adapted.head, "pool", None) == "last"


def test_pictures_that_patches_do_not_divide_are_refused(digits: tuple[Image, Prepared, Model]) -> None:
    task = Image(ImageConfig())
    with pytest.raises(ConfigError, match=r"^model\.frontend\.size:.*3.*8"):
        task.prepare(DataConfig(name="digits"), {}, resolve(TINY | {"frontend": {"size": 3}}), say)


def test_a_label_that_the_model_does_not_know_is_named(digits: tuple[Image, Prepared, Model], tmp_path: Path) -> None:
    task, prepared, model = digits
    (tmp_path / "ten").mkdir()
    Pillow.fromarray(np.zeros((8, 8), np.uint8)).save(tmp_path / "ten" / "a.png")
    with pytest.raises(DataError, match=r"a.png:.*'ten'.*\(0, 1"):
        task.read(prepared.state, DataConfig(train=str(tmp_path)), {}, model.config, say)


def test_what_predict_cannot_open_is_named(digits: tuple[Image, Prepared, Model], tmp_path: Path) -> None:
    task, prepared, model = digits
    (tmp_path / "a.png").write_text("no picture")
    with pytest.raises(DataError, match=f"{tmp_path}/a.png"):
        task.predict(model, prepared.state, {}, [str(tmp_path / "a.png")])
    with pytest.raises(DataError, match=r"b\.png: no such file"):
        task.predict(model, prepared.state, {}, [str(tmp_path / "b.png")])


def test_the_digits_are_the_same_for_a_seed_and_stand_in_one_split() -> None:
    first, again, other = (load_pictures(DataConfig(name="digits", seed=seed), Frame()) for seed in (0, 0, 1))
    assert first.digest == again.digest
    assert first.digest != other.digest
    assert [len(part) for part in (first.train, first.valid, first.test)] == [1295, 143, 359]
    assert not any("rows are in" in note for note in first.notes)
