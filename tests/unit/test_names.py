"""Names in the package: one public class a name, and functions are verbs. The lists of exceptions may only become shorter."""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import attentif

SOURCE = Path(attentif.__file__).parent
CORE = ("kernels", "nn", "models", "text", "inspect")  # without exceptions
PARTICIPLE = re.compile(
    "_?([a-z]{3,}ed|begun|chosen|drawn|found|given|heard|held|kept|known|made|said|seen|shown|spoken|taken|told|written)"
)
VERBS = {"embed", "feed", "need", "seed", "speed"}

TWICE = {
    "Alignment", "Answer", "Call", "Choice", "Code", "DamagedError", "Decoding", "Difference", "Document", "Drawn", "Entry", "Estimate",
    "Examples", "ExpertOff", "Frame", "Guess", "HeadEffect", "HeadsOff", "Hypothesis", "Job", "Kind", "Limits", "Linear", "Lines",
    "Maps", "Metrics", "NeighboursRequest", "Outcome", "Pairs", "Part", "PartOff", "Piece", "Pieces", "Plan", "PrefixCache",
    "Questions", "Reader", "Reading", "Ready", "Result", "Runner", "Search", "Seen", "Settings", "Sizes", "Source", "Split", "Stacked",
    "Step", "Table", "Task", "TokenVector", "Tokens", "Trial", "Use", "Vocabulary", "Windows", "Words", "Writer", "Writing",
}  # fmt: skip
PARTICIPLES = set()


@cache
def definitions() -> list[tuple[str, ast.ClassDef | ast.FunctionDef]]:
    """Every class and function of the package, with its module."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        module, waiting = path.relative_to(SOURCE).as_posix(), list(ast.parse(path.read_text(encoding="utf-8")).body)
        while waiting:  # statements alone: expressions define nothing
            node = waiting.pop()
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                found.append((module, node))
            waiting += [child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt)]
    return found


def is_participle(node: ast.AST) -> bool:
    """Whether a function is named by a participle, as properties and questions (`-> bool`) may be."""
    if not isinstance(node, ast.FunctionDef) or not PARTICIPLE.fullmatch(node.name) or node.name.strip("_") in VERBS:
        return False
    decorators = " ".join(ast.unparse(decorator) for decorator in node.decorator_list)
    returns = "" if node.returns is None else ast.unparse(node.returns)
    return "property" not in decorators and not returns.startswith(("bool", "TypeGuard"))


def is_core(module: str) -> bool:
    return module.split("/")[0] in CORE


def test_a_public_class_name_is_defined_once() -> None:
    found = defaultdict(list)
    for module, node in definitions():
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            found[node.name].append(module)
    assert {name: where for name, where in found.items() if len(where) > 1 and name not in TWICE} == {}
    assert {name: where for name, where in found.items() if sum(map(is_core, where)) > 1} == {}


def test_functions_are_not_named_by_participles() -> None:
    found = [(node.name, module) for module, node in definitions() if is_participle(node)]
    assert [(name, module) for name, module in found if name not in PARTICIPLES or is_core(module)] == []
