"""The examples of docs/inspection.md run, one after the other, as the page says."""

import re
from pathlib import Path

import pytest

from attentif import inspect
from attentif.errors import UsageError

PAGE = Path(__file__).parents[3] / "docs" / "inspection.md"


def test_every_example_of_the_page_runs() -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(examples) == 16
    names: dict[str, object] = {}
    for example in examples:
        exec(compile(example, str(PAGE), "exec"), names)  # our own page


def test_an_empty_batch_is_refused() -> None:
    for rows in ([], [[]], [[1], []]):
        with pytest.raises(UsageError, match="batch needs"):
            inspect.make_batch(rows)
    assert inspect.make_batch([[1, 2], [3]], [[4], [5]]).target is not None
