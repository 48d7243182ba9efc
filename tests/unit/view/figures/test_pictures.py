"""Pictures in figures: galleries, shades over patches, attention followed through the layers."""

import base64
import io
import json

import numpy as np
import pytest
from PIL import Image

from attentif.view.blocks import AttentionMaps, Picture
from attentif.view.figures.pictures import Shown, from_the_first, gallery, overlay, overlay_blocks, rollout, rollout_overlay, word_overlay
from attentif.view.render import block

GRID = (2, 3)
PIXELS = np.full((4, 6), 100, np.uint8)
RANDOM = np.random.default_rng(0)
SELF = {f"encoder {layer} attn": RANDOM.dirichlet(np.ones(7), size=(2, 7)) for layer in (1, 2)}  # a class token and six patches


def drawn(figure) -> np.ndarray:
    """The picture that a mosaic holds."""
    (trace,) = figure.data
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(trace.source.partition(",")[2]))))


def test_a_gallery_shows_each_picture_with_its_caption_and_its_place() -> None:
    shown = [Shown("data:image/png;base64,AA==", f"{n} → <b>", 0.9, f"a/{n}.png") for n in range(10)]
    fig = gallery(shown, lang="fr")
    assert len(fig.layout.images) == 10
    assert fig.layout.annotations[0].text == "0 → &lt;b&gt;<br>90,0\u202f%"
    assert list(fig.data[0].text)[9] == "a/9.png"


def test_the_class_tokens_row_is_laid_over_the_picture_patch_by_patch() -> None:
    weights = {"encoder 1 attn": np.zeros((1, 7, 7))}
    weights["encoder 1 attn"][0, 0, 1 + 4] = 1.0  # the second patch of the second row
    weights["encoder 1 attn"][0, 1:, 1] = 1.0  # what patches look at is not asked for
    picture = drawn(overlay(Picture(PIXELS, GRID, first=1), weights))
    height, width = (side - 4 for side in picture.shape[:2])
    middle = lambda row, column: picture[(2 * row + 1) * height // 4, (2 * column + 1) * width // 6, :3].tolist()
    assert middle(1, 1) != [100, 100, 100]
    assert all(middle(row, column) == [100, 100, 100] for row in range(2) for column in range(3) if (row, column) != (1, 1))


def test_without_a_class_token_all_rows_are_averaged() -> None:
    weights = {"encoder 1 attn": RANDOM.dirichlet(np.ones(6), size=(1, 6))}
    alike = {"encoder 1 attn": np.repeat(weights["encoder 1 attn"].mean(1, keepdims=True), 6, 1)}
    picture = Picture(PIXELS, GRID)
    assert np.array_equal(drawn(overlay(picture, weights)), drawn(overlay(picture, alike)))


def test_rollout_is_the_product_of_half_attention_and_half_identity() -> None:
    first, second = rollout(SELF)
    a, b = (0.5 * weights.mean(0) + 0.5 * np.eye(7) for weights in SELF.values())
    np.testing.assert_allclose(first, a)
    np.testing.assert_allclose(second, b @ a)
    np.testing.assert_allclose(second.sum(1), 1)


def test_rollout_is_shown_only_where_all_layers_are() -> None:
    assert from_the_first(["encoder 1 attn", "encoder 2 attn"])
    assert not from_the_first(["encoder 2 attn"])
    titles = lambda weights: [
        shown.title.en for shown in overlay_blocks(AttentionMaps("abcdefg", weights, picture=Picture(PIXELS, GRID, first=1)))
    ]
    assert titles(SELF) == ["Attention over the picture", "From layer to layer"]
    assert titles({"encoder 2 attn": SELF["encoder 2 attn"]}) == ["Attention over the picture"]


def test_words_are_laid_over_the_picture_they_look_at() -> None:
    words = ["which", "is", "left"] * 4
    cross = {"cross 1": RANDOM.dirichlet(np.ones(6), size=(2, 12))}
    fig = word_overlay(Picture(PIXELS, GRID), words, cross, lang="fr")
    assert [note.text for note in fig.layout.annotations] == words
    maps = AttentionMaps(words, cross, [str(patch) for patch in range(6)], picture=Picture(PIXELS, GRID))
    assert [shown.title.en for shown in overlay_blocks(maps)] == ["Words over the picture"]


@pytest.mark.parametrize("lang", ["fr", "en"])
def test_figures_are_plain_data_in_both_languages(lang) -> None:
    colour = Picture(RANDOM.integers(0, 256, (224, 224, 3), dtype=np.uint8), GRID, first=1)
    for draw in (overlay, rollout_overlay):
        figure = json.loads(draw(colour, SELF, lang=lang).to_json())
        assert figure["layout"]["xaxis"]["title"]["text"] in ("tête", "head", "couche", "layer")


def test_maps_with_a_picture_come_after_its_figures() -> None:
    html = block(AttentionMaps(list("abcdefg"), SELF, title="t", picture=Picture(PIXELS, GRID, first=1)))
    assert html.index('class="plot"') < html.index('class="maps"')
    assert html.count('class="plot"') == 2
    inside = html[html.index('class="maps"') :]
    assert inside.count("<script") == 1
