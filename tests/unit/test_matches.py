"""Tests match the code or key words of an error, so that its wording can improve."""

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
MOST = 4  # plain words: names of files and keys, values and numbers do not count


def count_plain_words(pattern: str) -> int:
    return sum(re.fullmatch(r"\^?[A-Za-zÀ-ÿ][A-Za-zÀ-ÿ'-]*[,;:.]?\$?", word) is not None for word in re.split(r" |\.\*", pattern))


def patterns(file: Path) -> list[str]:
    """What `pytest.raises(match=...)` says in a file, values left out."""
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.keyword) and node.arg == "match":
            parts = node.value.values if isinstance(node.value, ast.JoinedStr) else [node.value]
            found.append("".join(part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "…" for part in parts))
    return found


@pytest.mark.parametrize("folder", sorted(path.name for path in TESTS.iterdir() if path.is_dir() and path.name != "__pycache__"))
def test_no_test_matches_a_whole_sentence(folder: str) -> None:
    long = [f"{file.name}: {text}" for file in (TESTS / folder).rglob("*.py") for text in patterns(file) if count_plain_words(text) > MOST]
    assert not long
