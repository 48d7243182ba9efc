"""ListOps: the value of nested operations on digits (Nangia & Bowman 2018), one of ten classes.

    max 2 9 min 4 7 end 0 end        ->        9

The grammar is that of the paper: at each place an operation with probability 1/4, else a digit, and never deeper than `depth`; an operation
has 2 to `arguments` arguments; max, min, the median (of an even number, the mean of the two middle ones, rounded down) and the
sum modulo 10. Brackets are the operation's name and `end`. The Long Range Arena (Tay et al. 2021) takes depth 10, arguments 10, and
rows of 500 to 2,000 tokens: `options = { depth = 10, arguments = 10, shortest = 500, longest = 2000 }`.
"""

from collections.abc import Iterator
from random import Random
from typing import Self

from pydantic import Field, model_validator

from attentif.data.builtin.registry import BuiltIn, Options, Splits
from attentif.errors import DataError

OPERATION = 0.25  # how often a place holds one
END = "end"
MOST_TRIES = 200_000  # draws without a row of the wanted length before giving up

Tree = int | tuple[str, list["Tree"]]  # a digit, or an operation and its arguments


class ListOpsOptions(Options):
    depth: int = Field(4, gt=0, description="operations inside one another, at most")
    arguments: int = Field(5, gt=1, description="of an operation, at most")
    shortest: int = Field(6, gt=0, description="tokens of the shortest row")
    longest: int = Field(64, gt=0, description="tokens of the longest row")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.shortest > self.longest:
            raise ValueError(f"shortest: {self.shortest} is above longest = {self.longest}")
        if self.shortest > _most(self.depth, self.arguments):
            raise ValueError(f"shortest: no row of this depth and so many arguments has {self.shortest} tokens")
        return self


def _most(depth: int, arguments: int) -> int:
    """Tokens of the largest tree."""
    return 1 if depth == 0 else 2 + arguments * _most(depth - 1, arguments)


def drawn(random: Random, depth: int, arguments: int, *, top: bool = True) -> Tree:
    """One tree; the topmost place always holds an operation."""
    if not top and (depth == 0 or random.random() >= OPERATION):
        return random.randrange(10)
    operation = random.choice(("max", "min", "med", "sum"))
    return operation, [drawn(random, depth - 1, arguments, top=False) for _ in range(random.randint(2, arguments))]


def value(tree: Tree) -> int:
    if isinstance(tree, int):
        return tree
    operation, arguments = tree
    values = sorted(map(value, arguments))
    if operation == "med":
        middle = len(values) // 2
        return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) // 2
    return {"max": values[-1], "min": values[0], "sum": sum(values) % 10}[operation]


def words(tree: Tree) -> Iterator[str]:
    if isinstance(tree, int):
        yield str(tree)
        return
    yield tree[0]
    for argument in tree[1]:
        yield from words(argument)
    yield END


def load(seed: int, options: ListOpsOptions = ListOpsOptions()) -> Splits:
    """Texts and labels, no text twice."""
    random = Random(f"listops {seed}")
    seen: set[str] = set()
    found: Splits = {}
    for split in ("train", "valid", "test"):
        columns: dict[str, list[str]] = {"text": [], "label": []}
        tries = 0
        while len(columns["text"]) < getattr(options, split):
            tree = drawn(random, options.depth, options.arguments)
            written = list(words(tree))
            text = " ".join(written)
            tries += 1
            if not options.shortest <= len(written) <= options.longest or text in seen:
                if tries > MOST_TRIES:
                    raise DataError(
                        "data.options: there are not so many different rows of these lengths; ask for fewer, or for other lengths"
                    )
                continue
            tries = 0
            seen.add(text)
            columns["text"].append(text)
            columns["label"].append(str(value(tree)))
        found[split] = columns
    return found


SET = BuiltIn(
    name="listops",
    roles=("text", "label"),
    description="nested max, min, median and sum of digits: the value, one of ten",
    size="10,000 train, 500 valid, 1,000 test rows of 6 to 64 tokens",
    synthetic=True,
    load=load,
    options=ListOpsOptions,
)
