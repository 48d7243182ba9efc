"""Letters of DNA: does a sequence hold a promoter? Written by chance and two motifs: synthetic, seeded.

A bacterial promoter has two boxes, TTGACA and, 16 to 18 letters further on, TATAAT (Hawley & McClure 1983); on the other strand it is
read backwards in complementary letters: ATTATA, 16 to 18 letters, TGTCAA. Here a box may have one wrong letter. Most decoys have the
same boxes, so that counting short words does not solve it: too near or too far, or in the wrong order; others have one box, or none.
`group` tells the kinds apart.
"""

from random import Random

from attentif.data.builtin.registry import BuiltIn

LETTERS = "ACGT"
FIRST, SECOND = "TTGACA", "TATAAT"
COMPLEMENT = str.maketrans("ACGT", "TGCA")
GAPS = (16, 17, 18)
WRONG_GAPS = (*range(6, 13), *range(22, 29))
WRONG_LETTER = 0.1  # how often a box has one
LABELS = ("promoteur", "leurre")


def load(seed: int = 0, *, train: int = 8_000, valid: int = 800, test: int = 1_000) -> dict[str, dict[str, list[str]]]:
    """The three splits, roles `text` and `label`, both labels as frequent; `test` also has `group`."""
    rng = Random(f"dna {seed}")
    splits = {}
    for split, size in (("train", train), ("valid", valid), ("test", test)):
        rows = [sequence(rng, promoter=row % 2 == 0) for row in range(size)]
        rng.shuffle(rows)
        splits[split] = {"text": [text for text, _, _ in rows], "label": [label for _, label, _ in rows]}
        if split == "test":
            splits[split]["group"] = [kind for _, _, kind in rows]
    return splits


def sequence(rng: Random, *, promoter: bool) -> tuple[str, str, str]:
    """Letters, label, kind."""
    boxes, gap, kind = [FIRST, SECOND], rng.choice(GAPS), "promoter"
    if not promoter:
        kind = rng.choice(("wrong distance", "wrong distance", "wrong order", "one box", "no box"))
        if kind == "wrong distance":
            gap = rng.choice(WRONG_GAPS)
        elif kind == "wrong order":
            boxes = [SECOND, FIRST]
        elif kind == "one box":
            boxes[rng.randrange(2)] = _chance(rng, len(FIRST))
        else:
            boxes = [_chance(rng, len(FIRST)), _chance(rng, len(FIRST))]
    motif = _mutate(rng, boxes[0]) + _chance(rng, gap) + _mutate(rng, boxes[1])
    if rng.random() < 0.5:
        motif = reverse_complement(motif)
        kind = f"{kind}, other strand"
    text = _chance(rng, rng.randrange(5, 25)) + motif + _chance(rng, rng.randrange(5, 25))
    return text, LABELS[not promoter], kind


def reverse_complement(letters: str) -> str:
    """The other strand, in its own direction."""
    return letters.translate(COMPLEMENT)[::-1]


def _mutate(rng: Random, box: str) -> str:
    if rng.random() >= WRONG_LETTER:
        return box
    place = rng.randrange(len(box))
    return box[:place] + rng.choice([letter for letter in LETTERS if letter != box[place]]) + box[place + 1 :]


def _chance(rng: Random, length: int) -> str:
    return "".join(rng.choice(LETTERS) for _ in range(length))


SET = BuiltIn(
    name="dna",
    roles=("text", "label"),
    description="letters of DNA that hold a promoter, on either strand, or a decoy with the same boxes",
    size="8,000 train, 800 valid, 1,000 test sequences",
    synthetic=True,
    load=load,
)
