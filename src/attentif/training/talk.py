"""A conversation with a run: a neural language model, or n-grams."""

from typing import Any

from attentif.decode.chat import Conversation, Lines, Script
from attentif.decode.session import Session
from attentif.decode.turns import Turns
from attentif.errors import UsageError
from attentif.tasks.language.language import Language, generate_options
from attentif.tasks.language.ngrams import Writing
from attentif.text.chat_template import ChatTemplate
from attentif.text.ngram import NGram
from attentif.training.fitted_run import FittedRun


def conversation(run: Any, *, system: str | None = None, **options: Any) -> Conversation:
    """`run` is what `attentif.load` gave; `system` tells the model who it is, where it has a chat template; `options` are generation's."""
    template = ChatTemplate.from_folder(run.path)
    if system is not None and template is None:
        raise UsageError("--system: this run has no chat template, and so no place for it", file=run.path)
    if isinstance(run, FittedRun):
        model = run.model
        if not isinstance(model, NGram):
            run.refuse("writes no text")
        return Conversation(lambda ids, _: Writing(model, [ids]), run.tokenizer, generate_options(options))
    if not isinstance(run.task, Language):
        raise UsageError(f"this run does not go on with a text: its task is {run.config.task.kind}", file=run.path)
    chosen, limit = run.task.options(options), run.model.caps.max_len
    if limit is not None and limit <= 2 * chosen.max_tokens:
        raise UsageError(f"--max-tokens: this model can hold {limit} tokens in all; ask for less than half of them", file=run.path)
    first = run.task.prompt(run.tokenizers, "")
    script: Script = Lines(run.tokenizer, first) if template is None else Turns(template, run.tokenizer, system)
    return Conversation(lambda ids, room: Session(run.model, [ids], room), run.tokenizer, chosen, limit, script)
