"""Pictures of several handwritten digits, and questions about them, answered in words: what looking together with reading is for.

    Qu'y a-t-il juste à gauche du 7 ?  ->  trois           Quelle est la somme des chiffres ?  ->  dix-sept
    Combien y a-t-il de chiffres ?     ->  quatre          Y a-t-il un 3 ?                     ->  oui

A scene is a dark canvas of 24 × 24 pixels with one to four different digits, each a picture of scikit-learn's digits (8 × 8, people's own
handwriting), at places drawn at random, without overlap. Scenes of train, valid and test are drawn from disjoint originals: a digit of the
test was never seen in training, wherever it stands.

No question can be answered better from its words alone than the frequency of its answers allows: numbers of digits are equally frequent,
"is there" is answered yes as often as no, and the digit that a relation asks for may be any. Nor from the picture alone: what is left of
the 7 is another digit than what is left of the 2, or nothing. A relation is asked for only where the eye cannot doubt it: just left of
a digit is the one that shares at least half of its rows, where no second one shares any; nothing is, where no digit is on that side at all.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attentif.data.builtin.numbers import english, french
from attentif.data.builtin.registry import BuiltIn, Columns, Splits

Language = Literal["fr", "en"]
SIDE, DIGIT = 24, 8  # of the canvas and of a digit, in pixels
BORDER, STEP = 2, 4  # pixels around the places where a digit may stand, and between them: four across and four down
FEWEST, MOST = 1, 4  # digits of a scene; alone, a digit teaches what it is
HALF = DIGIT // 2  # what two digits share of their rows, or columns, at least, to stand beside each other
NOTHING = 1 / 2  # how often a relation is also asked about a digit that has nothing on that side, where the scene has one
TRIES = 40  # to find a free place, before a scene is begun again
SCENES = {"train": 10_000, "valid": 250, "test": 500}
ORIGINALS = {"valid": 180, "test": 360}  # of the 1,797 digits; the rest are for train

RELATIONS = ("left", "right", "above", "below")
ASKED: dict[Language, dict[str, tuple[str, ...]]] = {
    "fr": {
        "left": ("Qu'y a-t-il juste à gauche du {digit} ?", "Que vois-tu juste à gauche du {digit} ?"),
        "right": ("Qu'y a-t-il juste à droite du {digit} ?", "Que vois-tu juste à droite du {digit} ?"),
        "above": ("Qu'y a-t-il juste au-dessus du {digit} ?", "Que vois-tu juste au-dessus du {digit} ?"),
        "below": ("Qu'y a-t-il juste au-dessous du {digit} ?", "Que vois-tu juste au-dessous du {digit} ?"),
        "sum": ("Quelle est la somme des chiffres ?", "Combien font les chiffres en tout ?"),
        "count": ("Combien y a-t-il de chiffres ?", "Combien de chiffres vois-tu ?"),
        "there": ("Y a-t-il un {digit} ?", "Vois-tu un {digit} ?"),
        "largest": ("Quel est le plus grand chiffre ?",),
        "smallest": ("Quel est le plus petit chiffre ?",),
    },
    "en": {
        "left": ("What is just left of the {digit}?", "What do you see just left of the {digit}?"),
        "right": ("What is just right of the {digit}?", "What do you see just right of the {digit}?"),
        "above": ("What is just above the {digit}?", "What do you see just above the {digit}?"),
        "below": ("What is just below the {digit}?", "What do you see just below the {digit}?"),
        "sum": ("What is the sum of the digits?", "How much are the digits in all?"),
        "count": ("How many digits are there?", "How many digits do you see?"),
        "there": ("Is there a {digit}?", "Do you see a {digit}?"),
        "largest": ("Which is the largest digit?",),
        "smallest": ("Which is the smallest digit?",),
    },
}
YES_NO: dict[Language, tuple[str, str]] = {"fr": ("oui", "non"), "en": ("yes", "no")}
NONE: dict[Language, str] = {"fr": "rien", "en": "nothing"}
SPELLED: dict[Language, Callable[[int], str]] = {"fr": french, "en": english}


@dataclass(frozen=True, slots=True)
class Placed:
    """A digit of a scene, the pixel of its upper left corner, and which original it is."""

    digit: int
    x: int
    y: int
    original: int


Ask = Callable[[list[Placed], Random, Language], Iterator[tuple[str, str, str]]]  # a scene to rows: kind, question, answer


def load(seed: int = 0, *, language: Language = "fr", scenes: dict[str, int] = SCENES, ask: Ask | None = None) -> Splits:
    """The three splits; roles `image` (24 × 24 bytes), `question`, `answer`, `kind`. Rows about one scene share its picture."""
    from sklearn.datasets import load_digits

    pixels, digits = load_digits(return_X_y=True)
    inks = np.rint(pixels.reshape(-1, DIGIT, DIGIT) * (255 / 16)).astype(np.uint8)
    order = Random(f"scenes originals {seed}").sample(range(len(digits)), len(digits))
    first, second = ORIGINALS["test"], ORIGINALS["test"] + ORIGINALS["valid"]
    originals = {"test": order[:first], "valid": order[first:second], "train": order[second:]}
    splits: Splits = {}
    for split, count in scenes.items():
        rng = Random(f"scenes {split} {seed}")
        by_digit = [[one for one in originals[split] if digits[one] == digit] for digit in range(10)]
        columns: Columns = {"image": [], "question": [], "answer": [], "kind": []}
        for _ in range(count):
            scene = draw_scene(rng, by_digit)
            picture = render_scene(scene, inks)
            for kind, question, answer in (ask or ask_questions)(scene, rng, language):
                for role, value in (("image", picture), ("question", question), ("answer", answer), ("kind", kind)):
                    columns[role].append(value)
        splits[split] = columns
    return splits


def draw_scene(rng: Random, by_digit: list[list[int]]) -> list[Placed]:
    """Different digits, anywhere without overlap."""
    chosen = rng.sample(range(10), rng.randint(FEWEST, MOST))
    scene: list[Placed] = []
    tries = 0
    while len(scene) < len(chosen):
        x, y = (BORDER + STEP * rng.randrange((SIDE - 2 * BORDER - DIGIT) // STEP + 1) for _ in range(2))
        if all(abs(x - other.x) >= DIGIT or abs(y - other.y) >= DIGIT for other in scene):
            digit = chosen[len(scene)]
            scene.append(Placed(digit, x, y, rng.choice(by_digit[digit])))
        elif (tries := tries + 1) % TRIES == 0:  # the first ones may have left no room
            scene.clear()
    return scene


def render_scene(scene: list[Placed], inks: NDArray[np.uint8]) -> NDArray[np.uint8]:
    canvas = np.zeros((SIDE, SIDE), np.uint8)
    for one in scene:
        canvas[one.y : one.y + DIGIT, one.x : one.x + DIGIT] = inks[one.original]
    return canvas


def ask_questions(scene: list[Placed], rng: Random, language: Language) -> Iterator[tuple[str, str, str]]:
    """One question of each kind that the scene allows, and each relation about every digit that has another there: kind, question, answer.

    Asked about one digit alone, relations are a third of the questions, and a small model answers them by the most frequent answer for
    thousands of steps; about all of them, it begins to look beside the digit within a thousand.
    """
    spelled, (yes, no) = SPELLED[language], YES_NO[language]
    shown = [one.digit for one in scene]
    hidden = [digit for digit in range(10) if digit not in shown]
    mentioned = rng.choice(rng.choice([shown, hidden]))
    answers: list[tuple[str, int, str]] = [  # the kind, the digit that the question names, where it does, and the answer
        ("sum", 0, spelled(sum(shown))),
        ("count", 0, spelled(len(shown))),
        ("there", mentioned, yes if mentioned in shown else no),
        ("largest", 0, spelled(max(shown))),
        ("smallest", 0, spelled(min(shown))),
    ]
    for kind in RELATIONS:
        beside = {one.digit: found for one in scene if (found := _ask_side(kind, one, scene)) is not None}
        bare, pairs = ([digit for digit, found in beside.items() if len(found) == count] for count in (0, 1))
        answers += [(kind, digit, spelled(beside[digit][0])) for digit in pairs]
        if pairs and bare and rng.random() < NOTHING:  # without pairs, the picture alone would tell: nothing is beside anything
            answers.append((kind, rng.choice(bare), NONE[language]))
    for kind, digit, answer in answers:
        yield kind, rng.choice(ASKED[language][kind]).format(digit=digit), answer


def _ask_side(kind: str, one: Placed, scene: list[Placed]) -> list[int] | None:
    """The digit just on that side of one, or none at all; None where it could be doubted."""
    across, ahead = kind in ("left", "right"), 1 if kind in ("right", "below") else -1
    places = [(other.digit, *((other.x - one.x, other.y - one.y) if across else (other.y - one.y, other.x - one.x))) for other in scene]
    that_side = [(digit, abs(shift)) for digit, distance, shift in places if ahead * distance > 0]
    sharing = [(digit, shift) for digit, shift in that_side if shift < DIGIT]
    if not that_side:
        return []
    return [sharing[0][0]] if len(sharing) == 1 and sharing[0][1] <= HALF else None


def _set(name: str, language: Language, tongue: str) -> BuiltIn:
    return BuiltIn(
        name=name,
        roles=("image", "question", "answer"),
        description=f"pictures of several handwritten digits and questions about them in {tongue}, answered in words",
        size="about 92,000 train, 2,300 valid, 4,800 test questions about 10,750 pictures",
        synthetic=True,
        load=lambda seed: load(seed, language=language),
    )


SET = _set("scenes", "fr", "French")


def english_set() -> BuiltIn:
    return _set("scenes-en", "en", "English")
