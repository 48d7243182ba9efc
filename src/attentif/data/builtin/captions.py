"""Pictures of several handwritten digits, told in words: from one picture to a sequence (Xu et al. 2015).

    [picture]  Que montre l'image ?  ->  un sept en haut à gauche, un deux en bas à droite

The scenes are those of `scenes`, drawn from the same disjoint originals. A caption names the digits row by row, as one reads, and the
quarter of the canvas in which each has its centre. The question is always the same: all that a model can know is in the picture.
"""

from collections.abc import Iterator
from random import Random

from attentif.data.builtin.registry import BuiltIn
from attentif.data.builtin.scenes import DIGIT, SIDE, SPELLED, Language, Placed, load

QUESTION: dict[Language, str] = {"fr": "Que montre l'image ?", "en": "What does the picture show?"}
QUARTERS: dict[Language, dict[tuple[bool, bool], str]] = {  # (below, right)
    "fr": {
        (False, False): "en haut à gauche",
        (False, True): "en haut à droite",
        (True, False): "en bas à gauche",
        (True, True): "en bas à droite",
    },
    "en": {
        (False, False): "at the top left",
        (False, True): "at the top right",
        (True, False): "at the bottom left",
        (True, True): "at the bottom right",
    },
}
ARTICLE: dict[Language, str] = {"fr": "un", "en": "a"}


def describe_scene(scene: list[Placed], _: Random, language: Language) -> Iterator[tuple[str, str, str]]:
    """The number of digits, the question, and the caption."""
    parts = []
    for one in sorted(scene, key=lambda one: (one.y, one.x)):
        quarter = (one.y + DIGIT / 2 > SIDE / 2, one.x + DIGIT / 2 > SIDE / 2)
        article = "an" if language == "en" and one.digit == 8 else ARTICLE[language]
        parts.append(f"{article} {SPELLED[language](one.digit)} {QUARTERS[language][quarter]}")
    yield f"{len(scene)} digits" if len(scene) > 1 else "1 digit", QUESTION[language], ", ".join(parts)


def english_set() -> BuiltIn:
    return _set("captions-en", "en", "English")


def _set(name: str, language: Language, tongue: str) -> BuiltIn:
    return BuiltIn(
        name=name,
        roles=("image", "question", "answer"),
        description=f"pictures of several handwritten digits, told in {tongue}: which digits, and where",
        size="10,000 train, 250 valid, 500 test pictures",
        synthetic=True,
        load=lambda seed: load(seed, language=language, ask=describe_scene),
    )


SET = _set("captions", "fr", "French")
