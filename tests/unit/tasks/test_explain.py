"""An explanation says what removing each part does, neither more nor less."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from attentif.errors import UsageError
from attentif.tasks.base import Prediction
from attentif.tasks.details import TagAnswer
from attentif.tasks.explain import GRID, explain_picture, explain_signal, explain_text


def answer_with(support):
    def answer(inputs):
        found = []
        for given in inputs:
            p = support(given)
            found.append(Prediction(str(given)[:20], "oui", p, {"oui": p, "non": 1 - p}))
        return found

    return answer


def test_the_removal_of_a_word_is_the_probability_that_it_brought():
    found = explain_text(
        "un film superbe mais long", answer_with(lambda text: 0.5 + 0.4 * ("superbe" in text) - 0.1 * ("long" in text)), None, None
    )
    removals = {part.name: round(part.removal, 6) for part in found.parts}
    assert removals == {"un": 0.0, "film": 0.0, "superbe": 0.4, "mais": 0.0, "long": -0.1}
    assert [part.name for part in found.strongest(2)] == ["superbe", "long"]
    assert found.output == "oui"
    assert "superbe" in str(found).splitlines()[1]


def test_an_answer_that_changes_altogether_loses_all_its_support():
    answer = lambda inputs: [Prediction(text, "Sète" if "Sète" in text else "Lyon", 0.9) for text in inputs]
    found = explain_text("Zoé vit à Sète", answer, None, None)
    assert [round(part.removal, 6) for part in found.parts] == [0.0, 0.0, 0.0, 0.9]


def test_tags_are_compared_word_by_word():
    def answer(inputs):
        tags = lambda text: ["PER" if word == "Zoé" and "vit" in text else "O" for word in text.split()]
        return [Prediction(text, text, details=TagAnswer(entities=[], words=text.split(), tags=tags(text))) for text in inputs]

    found = explain_text("Zoé vit ici", answer, None, None)
    by_name = {part.name: part.removal for part in found.parts}
    assert by_name["vit"] > by_name["ici"]


def test_the_square_that_decides_is_found():
    pixels = np.zeros((28, 28, 3), np.uint8)
    pixels[8:12, 16:20] = 255  # the third row of squares, the fifth column
    written = io.BytesIO()
    Image.fromarray(pixels).save(written, "PNG")
    source = f"data:image/png;base64,{base64.b64encode(written.getvalue()).decode()}"

    def support(given):
        with Image.open(io.BytesIO(base64.b64decode(given.partition(",")[2]))) as picture:
            return float(np.asarray(picture).max()) / 255 * 0.9

    found = explain_picture(source, answer_with(support))
    assert len(found.parts) == GRID**2
    assert found.strongest(1)[0].name == "row 3 column 5"


def test_the_stretch_that_decides_is_found():
    values = np.zeros(48)
    values[10] = 5.0
    found = explain_signal(" ".join(map(str, values)), answer_with(lambda text: min(1.0, max(map(float, text.split())) / 5)))
    assert found.strongest(1)[0].name == "steps 11 to 12"


def test_what_cannot_be_explained_is_refused():
    for text, code in ((" ", "empty"), ("mot " * 500, "too-long")):
        with pytest.raises(UsageError) as error:
            explain_text(text, answer_with(lambda _: 0.5), None, None)
        assert error.value.code == code
