"""A command as it is typed, and what comes of it."""

import io
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

from attentif.cli.main import run


class Done(NamedTuple):
    code: int
    out: str
    err: str


def typed(*words: str) -> Done:
    """`typed("list", "models")`: exit code, stdout, stderr."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(list(words))
    return Done(code, out.getvalue(), err.getvalue())
