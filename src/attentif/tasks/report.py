"""What the tasks' parts of the report share: titles, scores by length and by group. Drawn from details, without the model."""

from collections.abc import Sequence
from functools import partial

from attentif.tasks.details import Sliced
from attentif.tasks.metrics import GroupScores, Slice
from attentif.view.blocks import Block, FigureBlock, Legend, Score, TableBlock
from attentif.view.words import IN_TOKENS, Text, Words, count, metric

NOTHING = "∅"  # how an answer without a word is shown
WHERE = Text("Où il réussit, où il échoue", "Where it succeeds, where it fails")
WHERE_WRONG = Text("Où il se trompe", "Where it is wrong")
WORST_ERRORS = Text("Les pires erreurs", "The worst errors")
RIGHT_OR_WRONG = Legend(Text("juste", "right"), Text("faux", "wrong"))
LENGTHS, GROUP = Text("Selon la longueur", "By length"), Text("groupe", "group")


def slices(details: Sliced, key: str, lengths: Text = LENGTHS, groups: Text = GROUP, unit: Text = IN_TOKENS) -> list[Block]:
    """The score `key` of short and of long examples, and of each group, where there are several."""
    blocks: list[Block] = []
    if len(details["by_length"]) > 1:
        blocks.append(length_figure(key, details["by_length"], lengths, unit))
    if len(found := details.get("by_group", [])) > 1:
        blocks.append(group_table(found, groups))
    return blocks


def length_figure(key: str, parts: Sequence[Slice], title: Text = LENGTHS, unit: Text = IN_TOKENS) -> FigureBlock:
    """The score of short and of long examples; `parts` is what `metrics.by_length` returns, of lengths in `unit`."""
    from attentif.view.figures import Bucket, by_length

    buckets = [Bucket(part["low"], part["high"], Score(part["value"], *part["interval"]), part["examples"]) for part in parts]
    return FigureBlock(title, partial(by_length, key, buckets, unit))


def group_table(groups: Sequence[GroupScores], head: Text = GROUP) -> TableBlock:
    """Scores by group; `groups` is what `metrics.by_group` returns."""
    keys = [key for key in groups[0] if key not in ("group", "examples")]
    heads = [head, *(metric(key).name for key in keys), Text("exemples", "examples")]
    rows = [[group_name(entry["group"]), *(metric(key).write(entry[key]) for key in keys), count(entry["examples"])] for entry in groups]
    return TableBlock(heads, rows)


# what the built-in sets call their groups, in French; the groups of a file are called as they are
GROUPS = {
    "known names": "noms connus",
    "new names": "noms nouveaux",
    "same words": "mêmes mots",
    "other words": "autres mots",
    "pronoun": "pronom",
    "no answer": "sans réponse",
    "unseen number": "nombre jamais vu",
    "unseen combination": "combinaison jamais vue",
    "quiet line": "ligne calme",
    "noisy line": "ligne bruyante",
    "the beginning": "le début",
    "the middle": "le milieu",
    "the end": "la fin",
    "promoter": "promoteur",
    "wrong distance": "mauvaise distance",
    "wrong order": "mauvais ordre",
    "one box": "une seule boîte",
    "no box": "aucune boîte",
    "other strand": "autre brin",
}


def group_name(name: str) -> Words:
    parts = name.split(", ")
    return Text(", ".join(GROUPS[part] for part in parts), name) if GROUPS.keys() >= set(parts) else name
