"""One word in several sentences: a contextual model gives each use a vector of its own, a table of words the same one to all.

u_n = mean of h_t over the tokens t of the word in its n-th use;  cos(u_m, u_n) is near 1 where the word means the same (Ethayarajh 2019
measures how near by layer: even unrelated words have cosines far above 0 in some models, so compare cosines with each other, not with 0).

Uses are grouped into senses by joining the two groups whose members are, on average, nearest (average linkage on 1 − cos), down to the
number of groups with the largest mean silhouette; up to 0.25 there is no structure to speak of (Kaufman & Rousseeuw 1990): one sense.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attentif.errors import UsageError
from attentif.models import Input, Model, eval_mode
from attentif.nn.seq import Seq
from attentif.tasks.attention import readable_tokens
from attentif.tasks.base import AnyTask, Tokenizers
from attentif.tasks.batches import device_of
from attentif.tasks.embeddings.sentences import Vectors, cosines, frame_of, last_states, longest_of, reading_stack, refuse_no_words
from attentif.tasks.narrow import token_embedding
from attentif.view.page import Fragment
from attentif.view.senses import SensesView, senses_page, senses_sections

ENOUGH = 4  # uses to be grouped
STRUCTURE = 0.25  # mean silhouette that says there are groups


@dataclass(frozen=True, slots=True)
class WordUse:
    """One occurrence of the word."""

    sentence: str
    start: int  # its characters
    end: int
    tokens: tuple[str, ...]  # what it was cut into

    def __str__(self) -> str:
        return f"{self.sentence[: self.start]}«{self.sentence[self.start : self.end]}»{self.sentence[self.end :]}"


@dataclass(frozen=True)
class Senses:
    """The vectors of a word's uses, and what they say."""

    word: str
    uses: tuple[WordUse, ...]
    static: Vectors  # (uses, E): of the embedding, before any context
    layers: tuple[Vectors, ...]  # (uses, D) after each block; the last is what the head reads
    groups: tuple[int, ...]  # the sense of each use, from 0; all 0 where there are too few uses, or one sense
    silhouette: float | None  # of the grouping, where there are several groups: 1 is clear-cut, 0 none at all

    @cached_property
    def cosines(self) -> NDArray[np.float64]:
        """(uses, uses), in the last layer."""
        return cosines(self.layers[-1])

    @cached_property
    def static_cosines(self) -> NDArray[np.float64]:
        """The same of the embedding: 1 where the word is cut into the same tokens."""
        return cosines(self.static)

    def by_layer(self) -> list[NDArray[np.float64]]:
        """The cosines of the embedding, then of each layer."""
        return [self.static_cosines, *map(cosines, self.layers)]

    def table(self) -> dict[str, Any]:
        """As plain data."""
        uses = [
            {"sentence": use.sentence, "start": use.start, "end": use.end, "tokens": list(use.tokens), "sense": group + 1}
            for use, group in zip(self.uses, self.groups, strict=True)
        ]
        shares = [table.round(6).tolist() for table in self.by_layer()]
        return {"word": self.word, "uses": uses, "silhouette": self.silhouette, "static": shares[0], "layers": shares[1:]}

    @property
    def view(self) -> SensesView:
        spans = [(use.sentence, use.start, use.end) for use in self.uses]
        return SensesView(self.word, spans, self.by_layer(), self.layers[-1], self.groups, self.silhouette)

    def save(self, path: str | Path) -> Path:
        """One HTML page, in French and English."""
        senses_page(Path(path), self.view)
        return Path(path)

    def _repr_html_(self) -> str:
        return Fragment(senses_sections(self.view))._repr_html_()


def find_senses(
    task: AnyTask, model: Model, tokenizers: Tokenizers, word: str, sentences: Sequence[str], *, groups: int | None = None
) -> Senses:
    """Every use of a word in some sentences, in this model; into `groups` senses, or as many as stand apart."""
    refuse_no_words(model, tokenizers)
    if not word.strip():
        raise UsageError("the word is empty")
    tokenizer, longest = tokenizers["tokenizer"], longest_of(task, model)
    frame = frame_of(task, tokenizer)
    uses: list[WordUse] = []
    rows: list[list[Tensor]] = []  # of each use: its embedding, and its vector after each block
    for number, sentence in enumerate(sentences, 1):
        spans = [match.span() for match in word_pattern(word).finditer(sentence)]
        if not spans:
            raise UsageError(f"{word!r} is not a word of sentence {number}: {sentence!r}")
        encoding = tokenizer.encode(sentence, wrap="none")
        ids = [*frame.before, *encoding.ids, *frame.after]
        if longest is not None and len(ids) > longest:
            raise UsageError(f"sentence {number} has {len(ids):,} tokens, and this model reads {longest:,}: make it shorter")
        states = token_states(model, ids)
        for start, end in spans:
            own = [place for place, (a, b) in enumerate(encoding.offsets) if max(a, start) < min(b, end)]
            if not own:
                raise UsageError(f"the tokenizer leaves nothing of {word!r} in sentence {number}")
            if all(encoding.ids[place] == tokenizer.special.get("unk") for place in own):
                way_out = "its vector would be that of any unknown word; ask for another one"
                raise UsageError(f"the tokenizer does not know {word!r}: {way_out}", code="unknown-word")
            places = [len(frame.before) + place for place in own]
            uses.append(WordUse(sentence, start, end, tuple(readable_tokens(tokenizer, [encoding.ids[place] for place in own]))))
            rows.append([state[places].mean(0) for state in states])
    if len(uses) < 2:
        raise UsageError("a comparison takes two uses of the word at least: give another sentence")
    static, *layers = (torch.stack(vectors).numpy() for vectors in zip(*rows, strict=True))
    chosen, silhouette = group_senses(cosines(layers[-1]), groups)
    return Senses(word, tuple(uses), static, tuple(layers), chosen, silhouette)


def word_pattern(word: str) -> re.Pattern[str]:
    """The word by itself, whatever its case, composed or not (é, or e and an accent)."""
    forms = {unicodedata.normalize(form, word.strip()) for form in ("NFC", "NFD")}
    return re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, sorted(forms)))})(?!\w)", re.IGNORECASE)


def token_states(model: Model, ids: Sequence[int]) -> list[Tensor]:
    """(T, E), then (T, D) for each block: the embedding of each token alone, and what each block makes of it in its sentence.

    The last one is what the head reads, behind the stack's last norm.
    """
    kept: list[Tensor] = []
    stack = reading_stack(model)
    hooks = [block.register_forward_hook(lambda _module, _given, output: kept.append(output[0])) for block in stack.blocks]
    data = torch.tensor([list(ids)], device=device_of(model))
    try:
        with eval_mode(model):
            last, _ = last_states(model, Input(data, Seq.from_padded([len(ids)]).to(data.device)))
            static = token_embedding(model).tokens(data[0])
    finally:
        for hook in hooks:
            hook.remove()
    if model.config.reverse and model.encoder is not None:  # its blocks read from the last token to the first
        kept = [state.flip(0) for state in kept]
    return [state.float().cpu() for state in (static, *kept[:-1], last[0])]  # a reversible stack shows no block but the last


def group_senses(similar: NDArray[np.float64], groups: int | None = None) -> tuple[tuple[int, ...], float | None]:
    """The sense of each use, numbered as they come, and the mean silhouette of the grouping; one sense where nothing stands apart."""
    count = len(similar)
    if groups is not None and not 1 <= groups <= count:
        raise UsageError(f"{count} uses cannot be grouped into {groups} senses")
    if groups == 1 or (groups is None and count < ENOUGH):
        return (0,) * count, None
    from sklearn.cluster import AgglomerativeClustering
    from sklearn.metrics import silhouette_score

    apart = np.clip(1 - similar, 0, None)
    np.fill_diagonal(apart, 0)
    best: tuple[float | None, Any] = (STRUCTURE, None)
    for number in range(2, count) if groups is None else [groups]:
        found = AgglomerativeClustering(number, metric="precomputed", linkage="average").fit_predict(apart)
        score = float(silhouette_score(apart, found, metric="precomputed")) if number < count else None
        if groups is not None or (score is not None and best[0] is not None and score > best[0]):
            best = (score, found)
    if best[1] is None:
        return (0,) * count, None
    numbers: dict[int, int] = {}
    return tuple(numbers.setdefault(int(group), len(numbers)) for group in best[1]), best[0]
