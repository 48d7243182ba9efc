"""Pictures from words: what is asked for, what is scored, what is drawn, and how it is judged."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attentif.data import DataConfig
from attentif.errors import ConfigError, UsageError
from attentif.tasks.ragged import UNSCORED
from attentif.tasks.states import load_state, save_state
from attentif.tasks.vision.paint import BOLD, PLAIN, THIN, PaintConfig, PaintState
from attentif.tasks.vision.paint_report import Judge, distances, frequencies, sheet, write_sheet
from attentif.view.figures.drawings import drawings, png_size
from attentif.view.page import Page, render

DATA = {"name": "digits", "limit": 120}


@pytest.fixture
def painter(ready: Any) -> Any:
    return ready(PaintConfig(patch=2, codes=12, draws=5).build(), "paint-tiny", DATA)


def test_a_digit_is_asked_for_in_words() -> None:
    task = PaintConfig().build()
    assert task.prompts("7") == {"fr": ["un sept", "un sept fin", "un sept gras"], "en": ["a seven", "a thin seven", "a bold seven"]}
    assert [task.prompts(label)["en"][PLAIN] for label in ("8", "1")] == ["an eight", "a one"]
    assert task.prompts("chat")["fr"][BOLD] == "un chat gras"
    assert list(PaintConfig(languages=["en"]).build().prompts("7")) == ["en"]


def test_rows_are_words_then_patches_and_only_patches_are_scored(painter: Any) -> None:
    _, prepared, model = painter
    train, tokenizer = prepared.train, prepared.tokenizers["tokenizer"]
    batch = train.batch([0, 5])
    words = train.prompts.shape[1]
    assert tokenizer.decode(batch.source.data[0, :words].tolist()) == "un " + {"0": "zéro"}.get(*[train.pictures.table["label"][0]] * 2)
    assert batch.source.data.shape == (2, words + 16 - 1)
    assert (batch.labels != UNSCORED).sum(1).tolist() == [16, 16]
    picture = int(train.rows[5, 0])
    assert batch.labels[1, words - 1 :].tolist() == train.tokens[picture].tolist()
    assert int(train.tokens.min()) >= tokenizer.vocab
    assert model.config.frontend.vocab == tokenizer.vocab + 12


def test_thin_and_bold_are_the_outer_thirds_of_each_class(painter: Any) -> None:
    _, prepared, _ = painter
    train = prepared.train
    ink = train.pictures.pixels.reshape(len(train.pictures), -1).mean(1)
    labels = np.array(train.pictures.table["label"])
    for label in ("3", "7"):
        own = np.flatnonzero(labels == label)
        forms = {form: [p for p, prompt in train.rows.tolist() if p in own and prompt % 3 == form] for form in (THIN, BOLD)}
        assert max(ink[forms[THIN]]) < min(ink[forms[BOLD]])
        assert len(set(forms[THIN])) + len(set(forms[BOLD])) <= len(own)


def test_loss_is_a_sum_over_the_tokens_of_pictures_padded_or_packed(painter: Any) -> None:
    task, prepared, model = painter
    alone = [task.step(model, prepared.train.batch([row])) for row in (0, 9)]
    for packed in (False, True):
        loss = task.step(model, prepared.train.batch([0, 9], packed=packed))
        assert loss.count == 32
        assert loss.total.item() == pytest.approx(sum(one.total.item() for one in alone), rel=1e-5)


def test_evaluation_judges_and_says_how_near_training_pictures_are(painter: Any) -> None:
    task, prepared, model = painter
    quick = task.evaluate(model, prepared.state, prepared.valid, quick=True)
    assert set(quick.scores) == {"recognised", "bits_per_token"}
    full = task.evaluate(model, prepared.state, prepared.test)
    assert full.examples == 50
    assert full.scores["bits_per_token"] == pytest.approx(np.log2(model.config.frontend.vocab), rel=0.5)  # untrained: all tokens alike
    assert {entry["label"] for entry in full.details["by_class"]} == set("0123456789")
    json.dumps(full.details)
    page = render(Page("paint", task.sections(full)))
    for words in ("Dessine-t-il, ou recopie-t-il", "Does it draw, or does it copy?", "un sept", "data:image/png"):
        assert words in page
    found = task.baselines(prepared, lambda line: None)
    real, coded, alone = (baseline.scores["recognised"] for baseline in found)
    assert real > 0.7  # 120 pictures to learn from
    assert alone < real
    assert coded <= real + 0.1


def test_the_judge_and_the_distances_know_training_pictures(painter: Any) -> None:
    _, prepared, _ = painter
    pictures = prepared.train.pictures
    judge = Judge.fit(pictures)
    assert np.mean([a == b for a, b in zip(judge.labels(pictures.pixels), pictures.table["label"], strict=True)]) > 0.95
    near, which = distances(pictures.pixels[[5, 17]], pictures.pixels)
    assert near.tolist() == [0, 0]
    assert np.array_equal(pictures.pixels[which], pictures.pixels[[5, 17]])
    far, _ = distances(255 - pictures.pixels[:3], pictures.pixels)
    assert (far > 0.3).all()


def test_frequencies_are_probabilities_of_each_place() -> None:
    table = frequencies(np.array([[0, 1], [0, 2], [0, 1]]), 4)
    assert table.sum(1) == pytest.approx([1, 1])
    assert table[0, 0] == pytest.approx((3 + 0.25) / 4)
    assert table[1].tolist() == pytest.approx([0.0625, 0.5625, 0.3125, 0.0625])


def test_drawings_follow_the_seed(painter: Any) -> None:
    task, prepared, model = painter
    one, same, other = (task.paint(model, prepared.state, prepared.tokenizers, "un sept", 3, seed=seed) for seed in (1, 1, 2))
    assert one.shape == (3, 8, 8)
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
    assert not np.array_equal(one[0], one[1])
    greedy = task.paint(model, prepared.state, prepared.tokenizers, "a seven", 2, temperature=0.0)
    assert np.array_equal(greedy[0], greedy[1])


def test_what_is_asked_for_may_begin_with_a_capital(painter: Any) -> None:
    task, prepared, model = painter
    plain, capital = (task.paint(model, prepared.state, prepared.tokenizers, text, 1, seed=1) for text in ("un sept", "Un SEPT"))
    assert np.array_equal(plain, capital)


def test_words_never_asked_for_are_refused(painter: Any) -> None:
    task, prepared, model = painter
    with pytest.raises(UsageError, match=r"'onze'.*'un neuf'"):
        task.paint(model, prepared.state, prepared.tokenizers, "un onze", 1)
    with pytest.raises(UsageError, match="this model reads 1 to 3"):
        task.paint(model, prepared.state, prepared.tokenizers, "", 1)
    with pytest.raises(UsageError, match="this model reads 1 to 3"):
        task.paint(model, prepared.state, prepared.tokenizers, "un sept un sept", 1)


def test_a_run_keeps_its_codebook_and_other_pictures_can_be_scored(painter: Any, tmp_path: Path) -> None:
    task, prepared, model = painter
    save_state(tmp_path, prepared.state)
    again, state = task.config.build(), load_state(tmp_path, PaintState)
    assert np.array_equal(state.codebook.codes, prepared.state.codebook.codes)
    from PIL import Image

    for label in "37":
        (tmp_path / "data" / label).mkdir(parents=True)
        for number in range(3):
            Image.fromarray(prepared.test.pictures.to_image(number)).save(tmp_path / "data" / label / f"{number}.png")
    dataset = again.read(state, DataConfig(train=str(tmp_path / "data")), prepared.tokenizers, model.config, lambda line: None)
    found = again.evaluate(model, state, dataset)
    assert set(found.scores) == {"bits_per_token"}  # without the training pictures there is no judge


def test_what_cannot_paint_is_refused(small: Any) -> None:
    task = PaintConfig().build()
    for base in ("encoder-tiny", "transformer-tiny"):
        with pytest.raises(ConfigError, match="paint-tiny"):
            task.check(task.adapt(small(base)))
    with pytest.raises(ConfigError, match=r"task\.patch:.*3.*8"):
        PaintConfig(patch=3).build().prepare(DataConfig.model_validate(DATA), {}, small("paint-tiny"), lambda line: None)


def test_a_model_with_too_few_places_is_refused(ready: Any) -> None:
    with pytest.raises(ConfigError, match=r"10,.*picture.*21"):
        ready(
            PaintConfig(codes=12).build(), "paint-tiny", DATA, frontend={"kind": "tokens", "position": {"kind": "learned", "max_len": 10}}
        )


def test_a_sheet_is_a_grid_and_its_figure_names_the_rows(tmp_path: Path) -> None:
    from attentif.data.images import data_uri

    pixels = [np.full((8, 8), shade, np.uint8) for shade in (0, 100, 200)]
    whole = sheet(pixels, columns=2, side=16)
    assert whole.shape == (2 * 18 + 2, 2 * 18 + 2)
    assert whole[3, 3] == 0
    assert whole[3, 21] == 100
    uri = data_uri(whole)
    assert png_size(uri) == (38, 38)
    for lang in ("fr", "en"):
        fig = drawings([("un sept", uri), ("un <b>", uri)], lang=lang)
        assert fig.layout.yaxis.ticktext == ("un sept", "un &lt;b&gt;")
        assert len(fig.layout.images) == 2
    write_sheet(tmp_path / "a.png", pixels)
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def test_training_teaches_a_digit(ready: Any) -> None:
    """Overfitted on purpose on a few pictures: the likeliest drawing is one of them."""
    torch.manual_seed(0)
    task, prepared, model = ready(PaintConfig(patch=4, codes=8, languages=["fr"]).build(), "paint-tiny", DATA | {"limit": 50})
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    batch = prepared.train.batch(range(20))
    for _ in range(60):
        optimizer.zero_grad()
        loss = task.step(model, batch)
        (loss.total / loss.count).backward()
        optimizer.step()
    label = prepared.train.pictures.table["label"][0]
    drawn = task.paint(model, prepared.state, prepared.tokenizers, task.prompts(label)["fr"][PLAIN], 1, temperature=0.0)
    codes = prepared.state.codebook.encode(drawn[:, None])
    own = [row for row, other in enumerate(prepared.train.pictures.table["label"]) if other == label]
    assert codes[0].tolist() in (prepared.train.tokens[own] - prepared.tokenizers["tokenizer"].vocab).tolist()
