"""Which family of Hugging Face a model of ours can be said in: the families' tables are tried, in both directions."""

from collections.abc import Iterator, Mapping, Sequence

from attentif.errors import ConfigError
from attentif.hub.family import FAMILIES, Family, HeadOf, family_of
from attentif.hub.folder import compare_models, configuration, describe_model, fill_derived, write_config_keys
from attentif.models import ModelConfig

UNLIKE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)  # a table meets values that it was not written for
FAR = 10**6  # values


def deduce_family(
    model: ModelConfig,
    *,
    family: str | None = None,
    likely: str | None = None,
    architecture: str | None = None,
    labels: Sequence[str] = (),
    special: Mapping[str, int] | None = None,
) -> tuple[Family, HeadOf]:
    """The family and the head that say all of it: `family` and no other, or `likely` and `architecture` before the others."""
    kinds = [family] if family is not None else sorted(FAMILIES, key=lambda kind: kind != likely)
    refused = [(FAR, f"{family or 'no family'} has a head of the kind {model.head.kind!r}")]
    for kind in kinds:
        for form, head in sorted(forms(kind, model), key=lambda own: own[1].architecture != architecture):
            try:
                describe_model(model, form, head, labels, special)
            except ConfigError as error:
                refused.append((distance(model, form, head), error.message))
            except UNLIKE:
                refused.append((FAR, f"{kind} is built otherwise"))
            else:
                return form, head
    _, nearest = min(refused, key=lambda pair: pair[0])
    raise ConfigError(nearest if family is not None else f"no Hugging Face architecture can represent this model; the nearest: {nearest}")


def forms(kind: str, model: ModelConfig) -> Iterator[tuple[Family, HeadOf]]:
    """The heads of a `model_type` that are of the model's kind, each with the stacks that it stands on."""
    first = family_of(kind)
    for form in (first, *first.others):
        yield from ((form, head) for head in form.heads if head.head.get("kind") == model.head.kind)


def distance(model: ModelConfig, family: Family, head: HeadOf) -> int:
    """In how many values a model differs from the one that the family would make of it."""
    values = fill_derived(model.model_dump())
    try:
        config = write_config_keys(values, family, head)
        return sum(1 for _ in compare_models(values, fill_derived(configuration(config, family, head).model_dump())))
    except (ConfigError, *UNLIKE):
        return FAR - 1
