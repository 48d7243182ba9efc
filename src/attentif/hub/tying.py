"""Matrices that a file may hold once for several uses, or once for each: embeddings, the output, its bias.

transformers goes by the file: what `tie_word_embeddings` calls one matrix is read as several where the file holds several that differ,
and a matrix that is missing is the one it is tied to. So do we.
"""

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from attentif.errors import ConfigError
from attentif.hub.rows import Row, Skipped
from attentif.models import ModelConfig

SHARED = "shared.weight"
SOURCE, TARGET, OUTPUT = "frontend.tokens.weight", "target.tokens.weight", "head.linear.weight"


def is_tied(config: ModelConfig) -> bool:
    """Whether the output shares the embedding's matrix; a head without an output matrix does."""
    return bool(getattr(config.head, "tied", True))


def settle_untied(row: Row, config: ModelConfig, names: Iterable[str] | None) -> list[Row]:
    """A row with a second name as plain rows: to read a folder that has `names`, or to write one (None)."""
    if row.untied is None:
        return [row]
    own = Row(row.untied, row.ours, row.operation, row.blocks)
    if names is None:
        return [row] if is_tied(config) else [row, own]
    return [own, Row(row.theirs, (), Skipped(), row.blocks)] if row.untied in names else [row]


def embedding_rows(
    rows: Sequence[Row], prefix: str, embeddings: Sequence[str], config: ModelConfig, names: Iterable[str] | None
) -> list[Row]:
    """The table of an encoder-decoder with the embeddings and the output that a file has (`names`), or should have (None)."""
    shared, encoder, *rest = (prefix + name for name in (SHARED, *embeddings))
    decoder = rest[0] if rest else shared
    output = next((row.theirs for row in rows if row.ours == OUTPUT), shared)
    kept = [row for row in rows if row.ours not in (SOURCE, OUTPUT)]
    if names is not None:
        first = lambda *options: next((name for name in options if name in names), options[-1])
        together = config.shared or config.target is None
        found = [Row(first(encoder, shared, decoder), SOURCE)]
        found += [] if together else [Row(first(decoder, shared), TARGET)]
        found += [Row(first(output, shared), OUTPUT)] if not is_tied(config) else []
        unread = {shared, encoder, decoder, output} - {row.theirs for row in found}
        return [*kept, *found, *(Row(name, (), Skipped()) for name in sorted(unread))]
    if config.target is not None and not config.shared:
        last = [] if output == shared else [Row(output, TARGET if is_tied(config) else OUTPUT)]
        return [*kept, Row(encoder, SOURCE), Row(decoder, TARGET), Row(shared, TARGET), *last]
    if is_tied(config):
        return [*kept, Row(shared, SOURCE)]
    return [*kept, *(Row(name, SOURCE) for name in (shared, encoder, decoder)), Row(output, OUTPUT)]


def tie_as_in_file(
    config: ModelConfig, rows: Sequence[Row], prefix: str, embeddings: Sequence[str], tensors: Mapping[str, Tensor]
) -> ModelConfig:
    """The configuration with what the file shares, whatever config.json says."""
    output = next((row.theirs for row in rows if row.ours == OUTPUT), None)
    if not is_tied(config) and output is not None and output not in tensors:
        raise ConfigError(f"tie_word_embeddings: is false, and the weights lack {output}")
    find = lambda *names: next((name for name in names if name is not None and name in tensors), None)
    if not embeddings or config.target is None:
        embedding = find(*(row.theirs for ours in (TARGET, SOURCE) for row in rows if row.ours == ours))
        return config if same(tensors, find(output), embedding) else untie(config)
    shared, encoder, decoder = (prefix + name for name in (SHARED, *embeddings))
    source, target = find(encoder, shared, decoder), find(decoder, shared, encoder)
    if not same(tensors, source, target):
        config = config.replace(shared=False)
    return config if same(tensors, find(output, shared), target) else untie(config)


def untie(config: ModelConfig) -> ModelConfig:
    return config.with_head(config.head.replace(tied=False)) if getattr(config.head, "tied", False) else config


def same(tensors: Mapping[str, Tensor], left: str | None, right: str | None) -> bool:
    """Whether two names are of one matrix; one that is not there is the other."""
    if left is None or right is None or left == right:
        return True
    mine, other = tensors[left], tensors[right]
    return mine.dtype == other.dtype and torch.equal(mine, other)
