"""A dialogue in the form that its model was trained on: messages with roles, written down by a chat template.

The whole conversation is rendered anew at every turn, as transformers' `apply_chat_template` would; as long as the new text begins with the
old one, only the rest is read. What somebody types stays text: "<|im_end|>" in a message is seven letters and signs, not the end of it.
"""

import re
from collections.abc import Sequence

from attentif.errors import AttentifError, UsageError
from attentif.text import Tokenizer
from attentif.text.chat_template import ChatTemplate

OPEN, CLOSE = "\U000f0000", "\U000f0001"  # around special tokens that were typed: characters of no language, which nobody types
ANSWER = "Zq8answer8qZ"  # found again in what the template makes of it


class Turns:
    """Messages in turn, after a `system` message where there is one."""

    def __init__(self, template: ChatTemplate, tokenizer: Tokenizer, system: str | None = None) -> None:
        self.template, self.tokenizer = template, tokenizer
        self.messages = [] if system is None else [{"role": "system", "content": system}]
        name = lambda token: str(tokenizer.rust.id_to_token(token))
        self.names = {f"{part}_token": name(token) for part, token in tokenizer.special.items()}
        self.typed = _compile_special(tokenizer, template)
        self.ends, self.stop = self._ends()
        self._rendered: list[int] | None = None

    def hear(self, line: str) -> None:
        self._add("user", line)

    def say(self, tokens: Sequence[int], text: str) -> None:
        self._add("assistant", text)

    def _add(self, role: str, text: str) -> None:
        self.messages.append({"role": role, "content": text})
        self._rendered = None

    def prompt(self) -> list[int]:
        if self._rendered is None:
            marked = [message | {"content": self._mark(message["content"])} for message in self.messages]
            self._rendered = self._ids(self.template.render(marked, self.names))
        return self._rendered

    def forget(self, room: int) -> None:
        """Leave out the oldest question and its answer, again and again; never the system message."""
        first = int(bool(self.messages) and self.messages[0]["role"] == "system")
        while (size := len(self.prompt())) > room:
            if len(self.messages) - first < 3:
                self.messages.pop()
                self._rendered = None
                raise UsageError(f"this message takes {size:,} tokens with what stands around it, and there is room for {max(room, 0):,}")
            del self.messages[first : first + 2]
            self._rendered = None

    def _mark(self, text: str) -> str:
        return self.typed.sub(rf"{OPEN}\g<0>{CLOSE}", text.replace(OPEN, "").replace(CLOSE, ""))

    def _ids(self, text: str) -> list[int]:
        """The tokens of a rendered text: special ones where the template wrote them, letters where somebody typed them."""
        ids: list[int] = []
        for place, piece in enumerate(re.split(f"{OPEN}(.*?){CLOSE}", text)):
            if piece:
                ids += self.tokenizer.encode(piece, wrap="none", specials_in_text=place % 2 == 0).ids
        return ids

    def _ends(self) -> tuple[frozenset[int], tuple[str, ...]]:
        """What ends an answer, beside the tokenizer's own ends: whatever the template writes behind one."""
        question, answer = {"role": "user", "content": "?"}, {"role": "assistant", "content": ANSWER}
        try:
            after = self.template.render([*self.messages, question, answer], self.names, answer=False).partition(ANSWER)[2]
        except AttentifError:  # a template that wants something else of a conversation says so when there is one
            after = ""
        following = self.tokenizer.encode(after.lstrip(), wrap="none", specials_in_text=True).ids
        added = self.tokenizer.rust.get_added_tokens_decoder()
        if following and following[0] in added:
            return self.tokenizer.ends | {following[0]}, ()
        return self.tokenizer.ends, (after,) if after.strip() else ()


def _compile_special(tokenizer: Tokenizer, template: ChatTemplate) -> re.Pattern[str]:
    """What must not pass for a token where it is typed: special tokens, and those that the template writes."""
    added = tokenizer.rust.get_added_tokens_decoder().values()
    names = {token.content for token in added if token.special or (token.content.strip() and token.content in template.source)}
    return re.compile("|".join(re.escape(name) for name in sorted(names, key=len, reverse=True)) or r"(?!)")
