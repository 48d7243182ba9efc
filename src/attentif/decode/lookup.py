"""Prompt lookup: tokens that followed the same words earlier are guessed to follow again, and verified several at once.

    session = PromptLookup(Session(model, [prompt], 64), prompt)         # where `PromptLookup.suits(session)`

A step reads all weights for one token; for the token and a few guesses it takes hardly longer. Texts that repeat their prompt (a summary, a
correction, code, a table) so gain several tokens a step. What is written is what would have been: a guess only fills in logits ahead of
time, for whichever token is then chosen, greedily or drawn. (Saxena 2023; Leviathan et al. 2022 for drafts in general.)

Guesses switch themselves off while they are wrong: after `TRIES` that brought fewer tokens than `WORTH` each, the next come after a pause
that doubles each time. The rule counts tokens and not time, so that a text does not depend on how busy the machine is.
"""

from collections.abc import Sequence

from torch import Tensor

from attentif.decode.session import Session
from attentif.nn.tape import is_recording

DRAFTS = 7  # guesses of a step: with the token itself, eight rows
GRAMS = (4, 3, 2)  # tokens that must have stood before, the longest first
TRIES, WORTH, PAUSE = 8, 1.0, 16


class PromptLookup:
    """A session of one row that reads ahead. `logits` (1, V) are the scores of the next token."""

    def __init__(self, session: Session, prompt: Sequence[int]) -> None:
        self.session, self.text = session, list(prompt)
        self.limit, self.device, self.logits = session.limit, session.device, session.logits
        self.read_before = len(prompt)  # tokens of the text that the state holds for good
        self.ahead: list[tuple[int, Tensor]] = []  # guesses not yet reached, and the logits behind each
        self.index: list[dict[tuple[int, ...], int]] = [{} for _ in GRAMS]  # where a gram was last followed by something
        self.indexed = 0
        self.steps, self.passes, self.taken = 0, 0, 0  # tokens read, readings of the weights, guesses that were right
        self.tries, self.right = 0, 0  # of the present period
        self.pause, self.wait = PAUSE, 0

    @staticmethod
    def suits(session: Session) -> bool:
        """Whether a session can read ahead: one row, on a processor, of a model whose state forgets by itself what lies ahead."""
        return len(session.logits) == 1 and not is_recording() and session.stepper.drafting is not None

    def read(self, tokens: Tensor) -> None:
        """One more token (1,)."""
        token = int(tokens[0])
        self.text.append(token)
        self.steps += 1
        if self.ahead and self.ahead[0][0] == token:
            self.logits = self.ahead.pop(0)[1]
            self.read_before += 1
            self.taken += 1
            self.right += 1
            return
        self.ahead = []
        self.passes += 1
        drafts = self._guess()
        if self.session.upcoming.offset != self.read_before:
            self.session.go_to(self.read_before)
        if not drafts:
            self.session.read(tokens)
            self.logits = self.session.logits
        else:
            logits = self.session.verify([token, *drafts])
            self.logits = logits[:1]
            self.ahead = [(draft, logits[place : place + 1]) for place, draft in enumerate(drafts, 1)]
        self.read_before += 1

    def extend(self, tokens: Sequence[int]) -> None:
        """Several more tokens, read at once."""
        self.ahead = []
        self.text += tokens
        self.session.go_to(self.read_before)
        self.session.extend(tokens)
        self.read_before += len(tokens)
        self.logits = self.session.logits

    def select(self, rows: Sequence[int]) -> None:
        """Its only row stays."""
        assert list(rows) == [0]

    def _guess(self) -> list[int]:
        """What followed the last tokens where they last stood; nothing while guesses do not pay."""
        if self.wait:
            self.wait -= 1
            return []
        if self.tries == TRIES:
            if self.right < WORTH * self.tries:
                self.wait, self.pause = self.pause, 2 * self.pause
            else:
                self.pause = PAUSE
            self.tries, self.right = 0, 0
            if self.wait:
                return []
        begin = self._find()
        room = self.session.stepper.capacity - self.read_before - 1
        if begin is None or room < 1:
            return []
        self.tries += 1
        drafts: list[int] = []
        for place in range(begin, begin + min(DRAFTS, room)):  # beyond the end the guess itself goes on
            drafts.append(self.text[place] if place < len(self.text) else drafts[place - len(self.text)])
        return drafts

    def _find(self) -> int | None:
        """The place behind the newest earlier occurrence of the last tokens."""
        for place in range(self.indexed, len(self.text)):  # grams that end just before `place`
            for size, known in zip(GRAMS, self.index, strict=True):
                if place >= size:
                    known[tuple(self.text[place - size : place])] = place
        self.indexed = len(self.text)
        for size, known in zip(GRAMS, self.index, strict=True):
            if (found := known.get(tuple(self.text[-size:]))) is not None:
                return found
        return None
