"""A state of the studio, and waiting for it."""

import time
import urllib.parse
from typing import Any


def state(*parts: str, **query: Any) -> str:
    words = urllib.parse.urlencode(query, quote_via=urllib.parse.quote)
    return "#/" + "/".join(urllib.parse.quote(part, safe="") for part in parts) + (f"?{words}" if words else "")


def until(page: Any, condition: str, seconds: float = 20) -> None:
    """Wait for a condition. The page's policy forbids `eval`, which Playwright's own waiting needs."""
    deadline = time.monotonic() + seconds
    while not page.evaluate(condition):
        assert time.monotonic() < deadline, condition
        page.wait_for_timeout(30)


def settled(page: Any) -> Any:
    until(page, "!document.querySelector('[aria-busy]')")
    return page
