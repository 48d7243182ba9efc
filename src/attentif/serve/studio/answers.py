"""What a run answers, in one shape for every task; what each word did for it; what a change does to it."""

import re
import time
from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from attentif import inspect
from attentif.api import Run
from attentif.errors import UsageError
from attentif.models import Batch, Model, eval_mode
from attentif.models.heads import ClassifyHead, LanguageHead
from attentif.nn.tape import record
from attentif.serve.studio.given import open_input
from attentif.serve.studio.messages import (
    AnswerOutcome,
    Changed,
    ChangeRequest,
    HeadEffectRow,
    InputAnswer,
    InputRequest,
    WordEffect,
    to_intervention,
)
from attentif.serve.studio.reading import Reading, network_of, read_input, token_names

SHOWN = 12  # names of a distribution
MOST_WORDS = 80  # whose effects are worked out
WORD = re.compile(r"\S+")


def reading_of(run: Run, asked: InputRequest) -> Reading:
    """What the network reads for a request."""
    with open_input(run, asked) as example:
        return read_input(run, example)


def answer(run: Run, asked: InputRequest, *, with_words: bool = True) -> InputAnswer:
    """The answer, and for a class what each word did: by how much its probability falls where the word is left out."""
    began = time.perf_counter()
    found = outcome(run, asked)
    seconds = time.perf_counter() - began
    words = word_effects(run, asked, found) if with_words and found.kind == "classes" and asked.text else []
    return InputAnswer(outcome=found, words=words, note=run.note, seconds=seconds)


def outcome(run: Run, asked: InputRequest) -> AnswerOutcome:
    """A distribution over classes, over next tokens or over hidden words; or a text."""
    if "fill" in run.capabilities:
        return _hidden(run, asked.text)
    if "generate" in run.capabilities and "translate" not in run.capabilities:
        return _next(run, asked)
    with open_input(run, asked) as example:
        if asked.example is None:
            prediction = run.predict([example])[0]
        else:  # a row of the test split may have no name: the task itself takes it
            prediction = run.require(next(iter(run.capabilities))).predict(run.model, run.state, run.tokenizers, [example])[0]
    if prediction.scores:
        names, p = list(prediction.scores)[:SHOWN], list(prediction.scores.values())[:SHOWN]
        return AnswerOutcome(kind="classes", names=names, probabilities=p, text=prediction.output)
    kind: Literal["series", "text"] = "series" if "forecast" in run.capabilities else "text"
    return AnswerOutcome(kind=kind, text=prediction.output, probability=prediction.probability, details=prediction.details)


def _hidden(run: Run, text: str) -> AnswerOutcome:
    filled = run.fill(text, count=SHOWN)
    first = filled.places[0]
    return AnswerOutcome(
        kind="hidden", names=[guess.word for guess in first], probabilities=[guess.probability for guess in first], text=filled.text
    )


def _next(run: Run, asked: InputRequest) -> AnswerOutcome:
    generator = run.require("generate")
    ids = generator.prompt(run.tokenizers, asked.text)
    if isinstance(run.model, Model):  # the whole prompt at once: changes of a mask or a patch hold there
        reading = read_input(run, asked.text)
        with eval_mode(reading.model):
            logits = reading.model(reading.batch)[0][0, int(reading.batch.source.seq.lengths[0]) - 1]
    else:
        logits = generator.session(run.model, ids, 1).logits[0]
    p = logits.float().softmax(-1)
    top = p.topk(min(SHOWN, len(p)))
    return AnswerOutcome(kind="next", names=token_names(run.tokenizer, top.indices.tolist()), probabilities=top.values.tolist())


def word_effects(run: Run, asked: InputRequest, found: AnswerOutcome) -> list[WordEffect]:
    """P(answer | text) − P(answer | text without the word), for each word."""
    text, label = asked.text, found.names[0]
    words = list(WORD.finditer(text))
    effects: dict[int, float] = {}
    if 1 < len(words) <= MOST_WORDS:
        shorter = [(text[: word.start()] + text[word.end() :]).strip() for word in words]
        rows = [{"text": one, **asked.beside} if asked.beside else one for one in shorter]
        without = run.predict(rows)
        effects = {place: found.probabilities[0] - one.scores.get(label, 0.0) for place, one in enumerate(without)}
    ends = [0, *(word.end() for word in words)]
    return [
        WordEffect(word=word[0], before=text[ends[place] : word.start()], effect=effects.get(place)) for place, word in enumerate(words)
    ]


# ------------------------------------------------------------------------------------------------------------------ changes


def measure_of(reading: Reading, hidden: int | None = None) -> Callable[[], float]:
    """The log-probability of the network's own answer to a reading, to be asked again after a change."""
    model, batch = reading.model, reading.batch
    if isinstance(model.head, LanguageHead) and batch.target is not None:
        length = int(batch.target.seq.lengths[0])
        written = batch.target.data[0, 1:length]
        score: Callable[[Tensor], Tensor] = lambda logits: logits[0, : length - 1].log_softmax(-1).gather(1, written[:, None]).sum()
    elif isinstance(model.head, LanguageHead):
        place = int(batch.source.seq.lengths[0]) - 1 if hidden is None else hidden
        score = partial(_of_best, _best(model, batch, place), place)
    elif isinstance(model.head, ClassifyHead):
        score = partial(_of_best, _best(model, batch, None), None)
    else:
        raise UsageError("changes are measured by the probability of an answer, and this model answers with other numbers")

    def measure() -> float:
        with eval_mode(model):
            return float(score(model(batch)[0]))

    return measure


def _best(model: Model, batch: Batch, place: int | None) -> int:
    with eval_mode(model):
        logits = model(batch)[0][0]
    return int((logits if place is None else logits[place]).argmax())


def _of_best(best: int, place: int | None, logits: Tensor) -> Tensor:
    row = logits[0] if place is None else logits[0, place]
    return row.float().log_softmax(-1)[best]


def mask_place(run: Run, reading: Reading) -> int | None:
    """Where a masked model's hidden word stands."""
    if "fill" not in run.capabilities:
        return None
    ids = reading.batch.source.data[0].tolist()
    mask = run.tokenizer.mask
    return ids.index(mask) if mask in ids else None


def change(run: Run, asked: ChangeRequest) -> Changed:
    """The answer beside the answer of the changed network, and the log-probability of the original answer in both."""
    plain = InputRequest.model_validate(asked.model_dump(exclude={"changes"}))
    reading = reading_of(run, _readable(run, plain))
    measure = measure_of(reading, mask_place(run, reading))
    before, first = outcome(run, plain), measure()
    token_of = partial(_token_of, run)
    other = lambda text: reading_of(run, plain.model_copy(update={"text": text})).batch
    changes = [to_intervention(one, other, token_of) for one in asked.changes]
    with inspect.intervene(reading.model, changes):
        after, second = outcome(run, plain), measure()
    return Changed(before=before, after=after, measure=[first, second])


def _readable(run: Run, asked: InputRequest) -> InputRequest:
    """The text as a masked model's tokenizer writes a hidden word."""
    if "fill" not in run.capabilities:
        return asked
    mask = str(run.tokenizer.rust.id_to_token(run.tokenizer.mask))
    return asked.model_copy(update={"text": re.sub(r"\[mask\]|<mask>|_{3,}", lambda _: mask, asked.text, flags=re.IGNORECASE)})


def _token_of(run: Run, word: str) -> int:
    ids = [token for token in run.tokenizer.encode(word, wrap="none").ids if token_names(run.tokenizer, [token])[0].strip()]
    if not ids:
        raise UsageError(f"no token stands for {word!r}")
    return int(ids[0])


def rank(run: Run, asked: InputRequest) -> list[HeadEffectRow]:
    """Heads by what their removal does to the answer's log-probability, with the mean over queries of each one's largest weight."""
    network_of(run)
    reading = reading_of(run, _readable(run, asked))
    with eval_mode(reading.model), record(reading.model) as tape:
        reading.model(reading.batch)
    largest = {path: tape.maps(path)[0].amax(-1).mean(-1) for path in tape if path in inspect.count_heads(reading.model)}
    return [
        HeadEffectRow(path=one.path, head=one.head, effect=one.effect, weight=_at(largest.get(one.path), one.head))
        for one in inspect.rank_heads(reading.model, measure_of(reading, mask_place(run, reading)))
    ]


def _at(values: Tensor | None, place: int) -> float | None:
    return None if values is None or place >= len(values) else float(values[place])


def softmax_top(logits: Tensor, count: int) -> tuple[list[int], list[float]]:
    """The likeliest tokens with their probabilities."""
    top = torch.softmax(logits.float(), -1).topk(min(count, logits.shape[-1]))
    return top.indices.tolist(), top.values.tolist()
