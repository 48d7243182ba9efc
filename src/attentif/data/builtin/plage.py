"""Ten sentences at the beach: a corpus that is too small, on purpose.

Word vectors fitted to it show what too little text gives: the neighbours of "plage" are chance. The sentences are this project's own,
in the spirit of the example that courses on word embeddings like to begin with.
"""

from attentif.data.builtin.registry import BuiltIn

TRAIN = [
    "le soleil se lève sur la plage déserte",
    "la mer est calme et claire ce matin",
    "les vagues arrivent doucement sur le sable",
    "des enfants construisent un château de sable",
    "le vent pousse les nuages vers la mer",
    "les mouettes crient au-dessus de la plage",
    "un bateau passe au loin sur la mer",
    "le parasol fait de l'ombre sur le sable chaud",
    "les vacanciers dorment sous un parasol",
    "le soir les vagues effacent le château des enfants",
]
VALID = ["le soleil est chaud sur le sable", "un bateau arrive sur la mer calme"]
TEST = ["les enfants dorment sur la plage", "le vent pousse les vagues sur le sable", "les mouettes passent au-dessus de la mer"]


def load(seed: int = 0) -> dict[str, dict[str, list[str]]]:  # noqa: ARG001 - nothing is drawn
    """The three splits, role `text`."""
    return {"train": {"text": TRAIN}, "valid": {"text": VALID}, "test": {"text": TEST}}


SET = BuiltIn(
    name="plage",
    roles=("text",),
    description="ten French sentences at the beach: too few words for word vectors, on purpose",
    size="10 train, 2 valid, 3 test sentences",
    synthetic=True,
    load=load,
)
