"""Names: one public class a name in the package, and functions are verbs there, in docs/ and in benchmarks/."""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import attentif

SOURCE = Path(attentif.__file__).parent
ROOT = Path(__file__).parents[2]
PARTICIPLE = re.compile(
    "_?([a-z]{3,}ed|begun|chosen|drawn|found|given|heard|held|kept|known|made|said|seen|shown|spoken|taken|told|written)"
)
VERBS = {"embed", "feed", "need", "seed", "speed"}


@cache
def definitions(*folders: Path) -> list[tuple[str, ast.ClassDef | ast.FunctionDef]]:
    """Every class and function below the folders, with its file."""
    found = []
    for root, path in [(folder, path) for folder in folders for path in sorted(folder.rglob("*.py"))]:
        module, waiting = path.relative_to(root).as_posix(), list(ast.parse(path.read_text(encoding="utf-8")).body)
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


def test_a_public_class_name_is_defined_once() -> None:
    found = defaultdict(list)
    for module, node in definitions(SOURCE):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            found[node.name].append(module)
    assert {name: where for name, where in found.items() if len(where) > 1} == {}


def test_functions_are_not_named_by_participles() -> None:
    assert [(node.name, module) for module, node in definitions(SOURCE, ROOT / "docs", ROOT / "benchmarks") if is_participle(node)] == []
