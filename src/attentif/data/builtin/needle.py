"""A needle in a text: one sentence among many says somebody's colour, and the last asks for it. French, synthetic.

    ... la pluie tombe sur le port . la couleur de zoé est le vert . un chien dort près du four . quelle est la couleur de zoé ?   ->   vert

Others have a colour too (`decoys`), so that the name must be matched. `group` says where the needle lies: at the beginning, in the middle,
at the end.
"""

from random import Random
from typing import Self

from pydantic import Field, model_validator

from attentif.data.builtin.lists import phrases, words
from attentif.data.builtin.registry import BuiltIn, Options, Splits

COLOURS = words("rouge vert bleu jaune noir blanc gris rose")
PEOPLE = words("zoé paul lina marc jeanne tom salma karim louise rémi nora victor clara jules sara basile")
WHO = phrases("la pluie | un chien | le facteur | une voisine | le vent | un marin | la boulangère | un enfant | le train | une mouette")
DOES = phrases("tombe | dort | passe | attend | revient | chante | s'arrête | tourne | rit | repart")
WHERE = phrases(
    "sur le port | près du four | devant la mairie | au bord du canal | sous le pont | dans la cour | derrière l'église | au marché"
)
PARTS = ("the beginning", "the middle", "the end")


class NeedleOptions(Options):
    sentences: int = Field(12, gt=0, description="sentences of a text, without the question")
    decoys: int = Field(2, ge=0, lt=len(PEOPLE), description="sentences about other people's colours")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.decoys >= self.sentences:
            raise ValueError(f"decoys: {self.decoys} and the needle do not fit in {self.sentences} sentences (sentences)")
        return self


def load(seed: int, options: NeedleOptions = NeedleOptions()) -> Splits:
    """Texts, and the colour asked for as the label."""
    random = Random(f"needle {seed}")
    found: Splits = {}
    for split in ("train", "valid", "test"):
        columns: dict[str, list[str]] = {"text": [], "label": [], "group": []}
        for _ in range(getattr(options, split)):
            text, colour, place = _row(random, options)
            columns["text"].append(text)
            columns["label"].append(colour)
            columns["group"].append(PARTS[3 * place // options.sentences])
        found[split] = columns if split == "test" else {role: columns[role] for role in ("text", "label")}
    return found


def _row(random: Random, options: NeedleOptions) -> tuple[str, str, int]:
    """A text, the colour, and the place of the sentence that says it."""
    sentences = [f"{random.choice(WHO)} {random.choice(DOES)} {random.choice(WHERE)} ." for _ in range(options.sentences)]
    people = random.sample(PEOPLE, 1 + options.decoys)
    places = random.sample(range(options.sentences), len(people))
    colours = [random.choice(COLOURS) for _ in people]
    for person, place, colour in zip(people, places, colours, strict=True):
        sentences[place] = f"la couleur de {person} est le {colour} ."
    return " ".join([*sentences, f"quelle est la couleur de {people[0]} ?"]), colours[0], places[0]


SET = BuiltIn(
    name="needle",
    roles=("text", "label"),
    description="a colour stated once in a French text and asked for at its end: a needle in a haystack",
    size="10,000 train, 500 valid, 1,000 test texts of 12 sentences",
    synthetic=True,
    load=load,
    options=NeedleOptions,
)
