"""A conversation with a run: a neural language model, or n-grams."""

from typing import Any

from attentif.decode.chat import Conversation
from attentif.decode.session import Session
from attentif.errors import UsageError
from attentif.tasks.language import Language, generate_options
from attentif.tasks.ngrams import Writing
from attentif.text.ngram import NGram
from attentif.train.fitted_run import FittedRun


def conversation(run: Any, **options: Any) -> Conversation:
    """`run` is what `attentif.load` gave; `options` are those of generation."""
    chosen = generate_options(options)
    if isinstance(run, FittedRun):
        model = run.model
        if not isinstance(model, NGram):
            raise UsageError(f"this run writes no text: it is a fitted {run.config.fit.kind}", file=run.path)
        return Conversation(lambda ids, _: Writing(model, [ids]), run.tokenizer, chosen)
    if not isinstance(run.task, Language):
        raise UsageError(f"this run does not go on with a text: its task is {run.config.task.kind}", file=run.path)
    if (limit := run.model.caps.max_len) is not None and limit <= 2 * chosen.max_tokens:
        raise UsageError(f"--max-tokens: this model can hold {limit} tokens in all; ask for less than half of them", file=run.path)
    return Conversation(lambda ids, room: Session(run.model, [ids], room), run.tokenizer, chosen, run.model.caps.max_len)
