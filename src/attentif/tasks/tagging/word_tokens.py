"""Words and the tokens they are cut into.

The words of a sentence are joined by spaces and cut as any text, so that a word has the same tokens here as in running text. A token
belongs to the word whose characters it stands for; the first one carries the word's label, the others are not scored (Devlin et al.
2019). A word of which the tokenizer leaves nothing (a lone accent it strips, a character it drops) gets an [UNK] of its own.
"""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from attentif.text import Encoding, Tokenizer

WORD = re.compile(r"\w+(?:-\w+)*['’]?|[^\w\s]")  # l' école, c' est, arc-en-ciel: as French corpora write words


def find_words(text: str) -> list[tuple[int, int]]:
    """Where the words of a running text begin and end."""
    return [match.span() for match in WORD.finditer(text)]


def encode_words(tokenizer: Tokenizer, sentences: Sequence[Sequence[str]], longest: int) -> list[tuple[NDArray[np.int32], list[int]]]:
    """For each sentence the ids [CLS] ... [SEP], at most `longest`, and the place of each word's first token, of the words that fit."""
    encodings = tokenizer.encode_batch([" ".join(words) for words in sentences], wrap="none")
    return [_encode_one(tokenizer, words, encoding, longest) for words, encoding in zip(sentences, encodings, strict=True)]


def _encode_one(tokenizer: Tokenizer, words: Sequence[str], encoding: Encoding, longest: int) -> tuple[NDArray[np.int32], list[int]]:
    offsets = encoding.offsets
    frame = tokenizer.frame_for("cls")
    ids, firsts, token = [*frame.before], [], 0
    begin = 0
    for word in words:
        end = begin + len(word)
        own: list[int] = []
        while token < len(offsets) and offsets[token][0] < end:  # what stands before the word (a space of its own) goes with it
            stop = offsets[token][1]
            if stop > begin:
                own.append(token)
            else:
                ids.append(encoding.ids[token])
            token += 1
        firsts.append(len(ids))
        ids += [encoding.ids[place] for place in own] or [_unknown(tokenizer)]
        begin = end + 1
    room = longest - len(frame.after)
    return np.array([*ids[:room], *frame.after], dtype=np.int32), [first for first in firsts if first < room]


def _unknown(tokenizer: Tokenizer) -> int:
    return tokenizer.mask if tokenizer.unk is None else tokenizer.unk
