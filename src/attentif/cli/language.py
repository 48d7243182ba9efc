"""The language of tables and everyday lines: `ATTENTIF_LANG`, else the locale; English where neither says French."""

import os
from typing import TYPE_CHECKING

from attentif.errors import UsageError

if TYPE_CHECKING:
    from attentif.view.words import Lang, Words

KNOWN = ("en", "fr")


def choose_language() -> "Lang":
    """ "fr" or "en"."""
    if own := os.environ.get("ATTENTIF_LANG", "").strip().lower():
        if own[:2] not in KNOWN:
            raise UsageError(f"the environment variable ATTENTIF_LANG is {own!r}; fr and en are known", code="language")
        return "fr" if own[:2] == "fr" else "en"
    locale = next((value for name in ("LC_ALL", "LC_MESSAGES", "LANG") if (value := os.environ.get(name))), "")
    return "fr" if locale.startswith("fr") else "en"


def translate(words: "Words") -> str:
    """The text in the chosen language."""
    from attentif.view.words import say

    return say(words, choose_language())


def pick(french: str, english: str) -> str:
    return french if choose_language() == "fr" else english
