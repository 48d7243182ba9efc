"""The table of families in docs/checkpoints.md, made from their pages: `python docs/checkpoints.py` writes it."""

from attentif.hub.family import FAMILIES, Family, HeadOf
from attentif.hub.gguf.tables import ARCHITECTURES, WRITTEN_AS

COLUMNS = ("masked", "causal", "seq2seq", "CTC", "classes", "tags", "answers", "pairs", "bare")
OF_HEAD = {"ctc": "CTC", "classify": "classes", "tokens": "tags", "span": "answers", "embed": "bare"}
HEADER = f"| `model_type` | {' | '.join(COLUMNS)} | GGUF | refused |"


def column(family: Family, head: HeadOf) -> str:
    """The column of a head."""
    if head.head.get("similarity"):
        return "pairs"
    both = {"encoder", "decoder"} <= {*family.template}
    words = "seq2seq" if both else "causal" if "decoder" in family.template else "masked"
    return OF_HEAD.get(head.head["kind"], words)


def gguf_of(kind: str) -> str:
    """The architecture of GGUF that a family is read from and written to."""
    name = next((table.name for table in ARCHITECTURES if table.kind == WRITTEN_AS.get(kind, kind)), None)
    return "" if name is None else f"`{name}`"


def family_row(kind: str) -> str:
    family = FAMILIES[kind]
    found = {column(form, head) for form in (family, *family.others) for head in form.heads}
    marks = ["✓" if name in found else "" for name in COLUMNS]
    read = {head.architecture for own in FAMILIES.values() for form in (own, *own.others) for head in form.heads}  # by another model_type
    cells = [f"`{kind}`", *marks, gguf_of(kind), ", ".join(f"`{name}`" for name in family.left_out if name not in read)]
    return f"| {' | '.join(cells)} |".replace("  ", " ")


def family_table() -> str:
    """Every family with its heads; all are written too."""
    return "\n".join([HEADER, "|---" * (len(COLUMNS) + 3) + "|", *map(family_row, sorted(FAMILIES))])
