"""A family of models at Hugging Face: one page that is read in both directions."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor

from attentif.config import did_you_mean
from attentif.errors import ConfigError
from attentif.hub.keys import Always, Key
from attentif.hub.rows import Row
from attentif.hub.tying import embedding_rows, settle_untied, tie_as_in_file
from attentif.models import ModelConfig


@dataclass(frozen=True)
class HeadOf:
    """A class of transformers (BertForSequenceClassification): our head, its tensors, the task it is for."""

    architecture: str
    head: Mapping[str, Any]
    rows: Sequence[Row] = ()
    keys: Sequence[Key | Always] = ()
    task: str | None = None  # what our task of this head is called
    prefix: str | None = None  # before the names of the body's tensors; by default the family's
    ignored: Sequence[str] = ()  # endings of tensors that this model leaves out


@dataclass(frozen=True)
class Family:
    """Everything that config.json and the tensors of one `model_type` mean."""

    kind: str  # transformers' model_type
    template: Mapping[str, Any]  # our configuration, as far as it is the same for the whole family
    keys: Sequence[Key | Always]
    body: Sequence[Row] | Callable[[ModelConfig], Iterable[Row]]  # rows of frontend and stacks; their names begin after the prefix
    heads: Sequence[HeadOf]
    prefix: str = ""  # before the names of the body's tensors in a model with a head ("bert.")
    ignored: Sequence[str] = ()  # endings of tensors that hold no weights (masks, tables of positions)
    tied: bool = True  # whether the output shares the embedding's matrix where config.json does not say
    embeddings: tuple[str, ...] = ()  # of the encoder and the decoder, beside `shared.weight`, where each may have its own
    aliases: Mapping[str, str] = field(default_factory=dict)  # other names of keys, which transformers takes too (`attribute_map`)
    defaults: Mapping[str, Any] = field(default_factory=dict)  # values of missing keys where they are not those of the table
    like: Mapping[str, Any] = field(default_factory=dict)  # more of config.json to write: {"max_position_embeddings": 131072}
    harmless: Sequence[str] = ()  # keys of config.json that change nothing between tokens and logits
    older: Callable[[dict[str, Any]], dict[str, Any]] = dict  # config.json as it was once written, in today's keys
    whole: Callable[[dict[str, Any]], dict[str, Any]] = dict  # config.json with what transformers would take by default otherwise
    others: Sequence["Family"] = ()  # of the same model_type with other stacks: the encoder alone, for heads that need no more
    resizes: bool = False  # pictures may have another size than config.json says, as preprocessor_config.json does (`SHOWN`)
    unnamed: str | None = None  # the class where config.json names none; by default the first
    check: Callable[[Mapping[str, Tensor]], None] | None = None  # refuses tensors that are not what is worked out here
    left_out: Mapping[str, str] = field(default_factory=dict)  # classes of transformers that are not read, and why

    @property
    def by_layer(self) -> bool:
        """Whether its table has places in every kind of block of a stack."""
        return any(".*." in place for key in self.keys if isinstance(key, Key) for place in key.places)

    def settle(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """config.json in today's keys, with the family's defaults."""
        config = dict(config)
        for alias, key in self.aliases.items():
            if alias in config and config.setdefault(key, config[alias]) != config[alias] and "head" in key:
                raise ConfigError(f"{alias}: {config[alias]!r} contradicts {key} = {config[key]!r}, which is the same key")
        return self.older({**self.defaults, **config})

    def head_of(self, architectures: Sequence[str] | None) -> HeadOf:
        """The head that config.json names, or the family's usual one."""
        for name in architectures or [self.unnamed or self.heads[0].architecture]:
            for head in self.heads:
                if head.architecture == name:
                    return head
        if refused := next((name for name in architectures or () if name in self.left_out), None):
            raise ConfigError(f"architectures: {refused!r} is not read here: {self.left_out[refused]}")
        known = [head.architecture for family in (self, *self.others) for head in family.heads]
        first = (architectures or ["?"])[0]
        raise ConfigError(f"architectures: {first!r} is not understood{did_you_mean(first, known)} (there are {', '.join(known)})")

    def rows(self, head: HeadOf, config: ModelConfig, names: Iterable[str] | None = None) -> list[Row]:
        """The whole table; `names` are those of a folder whose body may have been saved without its prefix, as GPT-2's was."""
        prefix, rows = self._prefix(head, names), self._table(head, config, names)
        if self.embeddings:
            rows = embedding_rows(rows, prefix, self.embeddings, config, names)
        return [settled for row in rows for settled in settle_untied(row, config, names)]

    def tie(self, head: HeadOf, config: ModelConfig, tensors: Mapping[str, Tensor]) -> ModelConfig:
        """The configuration with the matrices shared that the file shares."""
        if self.check is not None:
            self.check(tensors)
        return tie_as_in_file(config, self._table(head, config, tensors), self._prefix(head, tensors), self.embeddings, tensors)

    def _prefix(self, head: HeadOf, names: Iterable[str] | None) -> str:
        prefix = self.prefix if head.prefix is None else head.prefix
        if names is not None and not prefix and self.prefix and any(name.startswith(self.prefix) for name in names):
            return self.prefix  # the body in a file that was saved with a head
        return prefix if names is None or any(name.startswith(prefix) for name in names) else ""

    def _table(self, head: HeadOf, config: ModelConfig, names: Iterable[str] | None) -> list[Row]:
        prefix, body = self._prefix(head, names), self.body(config) if callable(self.body) else self.body
        return [*(replace(row, theirs=prefix + row.theirs) for row in body), *head.rows]


FAMILIES: dict[str, Family] = {}


def register(*families: Family) -> None:
    for family in families:
        FAMILIES[family.kind] = family


def family_of(kind: object, architectures: object = None) -> Family:
    """The family of a `model_type`, in the form that has the head of these names."""
    if not isinstance(kind, str) or kind not in FAMILIES:
        raise ConfigError(
            f"model_type: {kind!r} is not understood{did_you_mean(str(kind), FAMILIES)} (there are {', '.join(sorted(FAMILIES))})"
        )
    named = set(architectures) if isinstance(architectures, list) and all(isinstance(name, str) for name in architectures) else set()
    family = FAMILIES[kind]
    return next((form for form in (family, *family.others) if any(head.architecture in named for head in form.heads)), family)
