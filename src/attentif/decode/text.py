"""Tokens to text as they come, up to a stop text.

A character may need several tokens and a stop text may begin in one token and end in another, so text is given out only once no later
token can change it or turn it into part of a stop text.
"""

from collections.abc import Callable, Sequence

Decode = Callable[[Sequence[int]], str]  # a tokenizer's: token ids to text

UNFINISHED = "\ufffd"  # what a decoder puts where the bytes of a character are not all there yet


class Writer:
    def __init__(self, decode: Decode, stops: Sequence[str] = ()) -> None:
        self.decode, self.stops = decode, stops
        self.tokens: list[int] = []
        self.window = 0  # tokens from here on are decoded together: how one looks may depend on the one before
        self.known = 0  # of these, so many have been turned into text
        self.held = ""  # text that may be the beginning of a stop text
        self.stopped = False

    def push(self, token: int) -> str:
        """The text that this token makes certain; `stopped` once a stop text is complete."""
        self.tokens.append(token)
        fresh = self._fresh()
        if fresh.endswith(UNFINISHED):
            return ""
        self._accept(fresh)
        return self._release(fresh)

    def finish(self) -> str:
        """What was held back, once no token follows."""
        if self.stopped:
            return ""
        ready = self._release(self._fresh())
        self.known = len(self.tokens)
        rest, self.held = self.held, ""
        return ready if self.stopped else ready + rest

    def _fresh(self) -> str:
        before = self.decode(self.tokens[self.window : self.known])
        return self.decode(self.tokens[self.window :])[len(before) :]

    def _accept(self, fresh: str) -> None:
        if fresh:
            self.window, self.known = self.known, len(self.tokens)

    def _release(self, fresh: str) -> str:
        text = self.held + fresh
        found = [place for stop in self.stops if (place := text.find(stop)) >= 0]
        if found:
            self.stopped, self.held = True, ""
            return text[: min(found)]
        hold = max((_overlap(text, stop) for stop in self.stops), default=0)
        self.held = text[len(text) - hold :]
        return text[: len(text) - hold]


def _overlap(text: str, stop: str) -> int:
    """How many last characters of `text` are the first of `stop`."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)
