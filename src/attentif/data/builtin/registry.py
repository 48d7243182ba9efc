"""What a built-in set is."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import Field, ValidationError

from attentif.config import Config, problems_of

Columns = dict[str, list[Any]]  # a role and its values, row by row: texts, or arrays where the role is one of pictures, sounds, series
Splits = dict[str, Columns]  # "train", "valid", "test"


class Options(Config):
    """What can be asked of a set that is generated: how many rows, and, in a subclass, how hard they are."""

    train: int = Field(10_000, gt=0, description="training rows")
    valid: int = Field(500, gt=0, description="validation rows")
    test: int = Field(1_000, gt=0, description="test rows")


@dataclass(frozen=True, kw_only=True)
class BuiltIn:
    """One built-in set: what its rows are for, and how to make them."""

    name: str
    roles: tuple[str, ...]
    description: str
    size: str
    synthetic: bool
    load: Callable[..., Splits]  # seed, and the options where it has any: splits
    options: type[Options] | None = None  # the keys of `data.options`

    def rows(self, seed: int, given: Mapping[str, Any]) -> Splits:
        """The set as asked for; the options have been checked."""
        return self.load(seed, self.with_options(given)) if self.options else self.load(seed)

    def with_options(self, given: Mapping[str, Any]) -> Options:
        """The options that were given and the defaults of the others; ValueError says what is wrong with them."""
        if self.options is None:
            raise ValueError(f"options: the built-in set {self.name!r} takes none")
        try:
            return self.options.model_validate(dict(given))
        except ValidationError as error:
            path, message = problems_of(error, self.options)[0]
            raise ValueError(": ".join([".".join(["options", *map(str, path)]), message])) from None
