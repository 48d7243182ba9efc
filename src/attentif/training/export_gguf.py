"""A run as a GGUF file for llama.cpp and the programs built on it."""

from pathlib import Path

from attentif.errors import ConfigError, UsageError
from attentif.files import replace_atomically
from attentif.hub.deduce import deduce_family
from attentif.hub.folder import describe_model, match_own, with_limits
from attentif.hub.gguf.tables import architecture_for
from attentif.hub.gguf.write import STORED, write_gguf
from attentif.hub.rows import theirs_from
from attentif.hub.task_files import frame_tokenizer, special_ids
from attentif.models import Model
from attentif.models.heads.embed import EmbedHeadConfig
from attentif.tasks.base import TaskState, Tokenizers
from attentif.text.chat_template import ChatTemplate
from attentif.training.config import StoredConfig
from attentif.training.export import Exported, likely_class, refuse_help
from attentif.training.rundir import RunFolder

POOLS = {"mean": 1, "first": 2, "last": 3}


def export_gguf(
    run: RunFolder,
    config: StoredConfig,
    state: TaskState,
    model: Model,
    tokenizers: Tokenizers,
    out: Path,
    *,
    stored: str = "f16",
    force: bool = False,
) -> Exported:
    """Write a run as a file that llama.cpp opens; it appears whole or not at all."""
    if stored not in STORED:
        raise UsageError(f"--type: {stored!r} is not understood; there are {', '.join(STORED)}")
    if out.is_dir() or (out.exists() and not force):
        raise UsageError("is there already; choose another file, or replace it with --force", file=out)
    if "target" in tokenizers:
        raise ConfigError("GGUF has one tokenizer, and this run has one for each side")
    tokenizer = frame_tokenizer(config.task, tokenizers.get("tokenizer"))
    special, labels = special_ids(config.task, tokenizer), list(getattr(state, "labels", []))
    refuse_help(run, config, model.config, labels)
    family, head = deduce_family(model.config, **likely_class(config), labels=labels, special=special)
    limits = {} if config.made is None or config.made.origin is None else config.made.origin.limits
    table = architecture_for(family.kind)
    if head.architecture != table.head and family.kind == table.kind:
        raise ConfigError(f"GGUF: {head.architecture} is not written, only {table.head}: llama.cpp has no place for another head")
    own, values = model.state_dict(), with_limits(describe_model(model.config, family, head, labels, special), family, limits) | special
    if limit := getattr(config.task, "context", None) or getattr(config.task, "max_len", None):
        values.setdefault("max_position_embeddings", limit)
    if isinstance(model.config.head, EmbedHeadConfig):
        if model.config.head.pool not in POOLS:
            raise ConfigError(f"GGUF: vectors are pooled by {', '.join(POOLS)}, not by {model.config.head.pool}")
        values["pooling_type"] = POOLS[model.config.head.pool]
    chat = ChatTemplate.from_folder(run.path)
    tensors = dict(theirs_from(match_own(family, head, model.config, own), own))
    with replace_atomically(out) as temporary:
        template = None if chat is None else chat.source
        write_gguf(temporary, values, tensors, tokenizer, name=run.path.name, stored=stored, chat_template=template)
    return Exported(out, table.name, head.architecture, config.task.build().caveat(model, state))
