"""ListOps: the value of nested operations on digits (Nangia & Bowman 2018), one of ten classes.

    max 2 9 min 4 7 end 0 end        ->        9

The grammar is that of the paper: at each place an operation with probability 1/4, else a digit, and never deeper than `depth`; an operation
has 2 to `arguments` arguments; max, min, the median (of an even number, the mean of the two middle ones, rounded down) and the
sum modulo 10. Brackets are the operation's name and `end`. The Long Range Arena (Tay et al. 2021) takes depth 10, arguments 10, and
rows of 500 to 2,000 tokens: `options = { depth = 10, arguments = 10, shortest = 500, longest = 2000 }`.

Rows that are too short or too long are drawn again. Where that would be most of them, lengths are drawn first, and then trees of these
lengths, by the exact probabilities of both: the same rows come as often as they would otherwise.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache
from math import inf
from random import Random
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from attentif.data.builtin.registry import BuiltIn, Options, Splits
from attentif.errors import DataError

OPERATION = 0.25  # how often a place holds one
END = "end"
MOST_TRIES = 200_000  # draws without a new row before giving up
MOST_TOKENS = 8192  # of rows whose length is drawn first: working out how probable each is takes the square of that
MOST_WASTE = 10  # longest rows' worth of tokens drawn for each row that is kept

Tree = int | tuple[str, list["Tree"]]  # a digit, or an operation and its arguments


class ListOpsOptions(Options):
    depth: int = Field(4, gt=0, le=100, description="maximum nesting depth")
    arguments: int = Field(5, gt=1, description="maximum arguments of an operation")
    shortest: int = Field(6, gt=0, description="minimum tokens of a row")
    longest: int = Field(64, gt=0, description="maximum tokens of a row")

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.shortest > self.longest:
            raise ValueError(f"shortest: {self.shortest} is above longest = {self.longest}")
        if self.shortest > _most(self.depth, self.arguments):
            raise ValueError(f"shortest: no row of this depth and so many arguments has {self.shortest} tokens")
        longest = min(self.longest, _most(self.depth, self.arguments))
        lengths = lengths_of(self.depth, self.arguments, self.shortest, min(longest, MOST_TOKENS))
        if longest > MOST_TOKENS and lengths.waste > MOST_WASTE:
            raise ValueError(f"longest: rows of such lengths are rare, and are drawn up to {MOST_TOKENS:,} tokens: longest = {MOST_TOKENS}")
        if not lengths.share:
            raise ValueError(f"longest: no row of this depth and so many arguments has {self.shortest} to {self.longest} tokens")
        return self


def _most(depth: int, arguments: int) -> int:
    """Tokens of the largest tree."""
    return 1 if depth == 0 else 2 + arguments * _most(depth - 1, arguments)


def draw_tree(random: Random, depth: int, arguments: int, *, top: bool = True) -> Tree:
    """One tree; the topmost place always holds an operation."""
    if not top and (depth == 0 or random.random() >= OPERATION):
        return random.randrange(10)
    operation = random.choice(("max", "min", "med", "sum"))
    return operation, [draw_tree(random, depth - 1, arguments, top=False) for _ in range(random.randint(2, arguments))]


class Lengths:
    """How probable each length of a row is, and rows of the wanted lengths.

        p_0 = δ_1,    q_d = mean over k of δ_2 * p_{d-1}^{*k},    p_d = ¾ δ_1 + ¼ q_d

    p_d(n): a place `d` operations deep at most holds n tokens; q_d(n): an operation does; *: convolution, as arguments follow each other.
    """

    def __init__(self, depth: int, arguments: int, shortest: int, longest: int) -> None:
        self.depth, self.longest = depth, longest
        place = np.eye(1, longest + 1, 1)[0]
        self.together: list[list[NDArray[np.float64]]] = []  # by depth, then by number: so many tokens of so many places
        tokens = mean = 1.0  # of an operation, and of a place, on average
        for _ in range(depth):
            sums = [np.eye(1, longest + 1)[0], place]
            for _ in range(2, arguments + 1):
                sums.append(np.convolve(sums[-1], place)[: longest + 1])
            self.together.append(sums)
            operation = np.concatenate([np.zeros(2), np.mean(sums[2:], axis=0)])[: longest + 1]
            place = OPERATION * operation
            place[1] += 1 - OPERATION
            tokens = 2 + (2 + arguments) / 2 * mean
            mean = 1 - OPERATION + OPERATION * tokens
        self.wanted = np.where(np.arange(longest + 1) >= shortest, operation, 0.0)
        self.share = float(self.wanted.sum())  # of drawn rows, those of a wanted length
        self.waste = tokens / longest / self.share if self.share else inf  # longest rows' worth of tokens, for each of them

    def draw(self, random: Random) -> Tree:
        """A tree of a wanted length."""
        return self._operation(random, self.depth, _choose(random, self.wanted))

    def _operation(self, random: Random, depth: int, tokens: int) -> Tree:
        operation, left = random.choice(("max", "min", "med", "sum")), tokens - 2
        together = self.together[depth - 1]
        count = 2 + _choose(random, np.array([sums[left] for sums in together[2:]]))
        arguments: list[Tree] = []
        for others in reversed(range(count)):
            own = 1 if left == others + 1 else _choose(random, together[1][: left + 1] * together[others][left::-1])
            arguments.append(random.randrange(10) if own == 1 else self._operation(random, depth - 1, own))
            left -= own
        return operation, arguments


@lru_cache(maxsize=4)
def lengths_of(depth: int, arguments: int, shortest: int, longest: int) -> Lengths:
    return Lengths(depth, arguments, shortest, longest)


def _choose(random: Random, weights: NDArray[np.float64]) -> int:
    sums = weights.cumsum()
    return int(sums.searchsorted(random.random() * sums[-1], side="right"))  # random() stays below 1


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
    longest = min(options.longest, _most(options.depth, options.arguments), MOST_TOKENS)
    lengths = lengths_of(options.depth, options.arguments, options.shortest, longest)
    draw: Callable[[Random], Tree] = lambda random: draw_tree(random, options.depth, options.arguments)
    if lengths.waste > MOST_WASTE:
        draw = lengths.draw
    seen: set[str] = set()
    found: Splits = {}
    for split in ("train", "valid", "test"):
        columns: dict[str, list[str]] = {"text": [], "label": []}
        tries = 0
        while len(columns["text"]) < getattr(options, split):
            tree = draw(random)
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
