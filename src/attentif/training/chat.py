"""A conversation with a run: a neural language model, or n-grams."""

from typing import Any

from attentif.decode.chat import Conversation, LineDialogue, Script
from attentif.decode.turns import Turns
from attentif.errors import UsageError
from attentif.text.chat_template import ChatTemplate


def start_conversation(run: Any, *, system: str | None = None, **options: Any) -> Conversation:
    """Start a conversation with a loaded run; `system` is the system prompt (chat templates only), `options` those of generation."""
    template = ChatTemplate.from_folder(run.path)
    if system is not None and template is None:
        raise UsageError("--system: this run has no chat template, and so no place for it", file=run.path)
    run.require("chat")
    chosen, limit = run.task.options(options), getattr(getattr(run.model, "caps", None), "max_len", None)
    if chosen.beams > 1:  # an answer is read while it is written
        chosen = chosen.replace(beams=1, length_penalty=1.0, early_stopping=False)
    if limit is not None and limit <= 2 * chosen.max_tokens:
        raise UsageError(f"--max-tokens: this model can hold {limit} tokens in all; ask for less than half of them", file=run.path)
    script: Script = (
        LineDialogue(run.tokenizer, run.task.prompt(run.tokenizers, "")) if template is None else Turns(template, run.tokenizer, system)
    )
    return Conversation(lambda ids, room: run.task.session(run.model, ids, room), run.tokenizer, chosen, limit, script)
