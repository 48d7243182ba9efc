"""config.json and our configuration: keys that are read in both directions.

    Key("hidden_size", "width")                                                    the same value, by another name
    Key("hidden_act", "encoder.block.ffn.mixer.activation", code=Words(...))       another word for the same thing
    Always("position_embedding_type", "absolute")                                  the only value that is understood

A table knows every key that transformers' class of the family reads (`tests/parity/test_hub_defaults.py` enumerates them): those that
change the numbers are honoured or refused. Any other key is read by nobody; it is noted, and ignored.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from attentif.errors import ConfigError

NEEDED: Any = object()  # a key that must be there

# keys that say nothing about what is computed from tokens to logits
HARMLESS = {
    "_attn_implementation_autoset", "_name_or_path", "_num_labels", "architectures", "bad_words_ids", "begin_suppress_tokens",
    "bos_token_id", "chunk_size_feed_forward", "decoder_start_token_id", "dtype", "eos_token_id", "eos_token_ids", "finetuning_task",
    "force_bos_token_to_be_generated", "forced_bos_token_id", "forced_eos_token_id", "gradient_checkpointing", "id2label",
    "initializer_range", "is_decoder", "is_encoder_decoder", "label2id", "model_type", "num_labels", "output_attentions",
    "output_hidden_states", "output_past", "pad_token_id", "prefix", "pretraining_tp", "problem_type", "return_dict", "sep_token_id",
    "summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj", "task_specific_params",
    "tie_encoder_decoder", "tie_word_embeddings", "tokenizer_class", "torch_dtype", "torchscript", "transformers_version", "unk_token_id",
    "use_bfloat16", "use_cache", "xla_device",
    # how it writes, in folders older than generation_config.json
    "diversity_penalty", "do_sample", "early_stopping", "encoder_no_repeat_ngram_size", "length_penalty", "max_length", "max_new_tokens",
    "min_length", "no_repeat_ngram_size", "num_beam_groups", "num_beams", "num_return_sequences", "output_scores",
    "remove_invalid_values", "repetition_penalty", "return_dict_in_generate", "suppress_tokens", "temperature", "top_k", "top_p",
    "typical_p",
}  # fmt: skip

# code that a folder brings along: it is never run, and a family that is known here needs none, as it is read by transformers without it
OWN_CODE = ("auto_map", "custom_pipelines", "trust_remote_code")

# keys of any family that change the numbers, and why they are not read
REFUSED = {
    "quantization_config": "quantised weights are not read; use the original ones, or a GGUF file",
    "compression_config": "compressed weights are not read; use the original ones",
}


@dataclass(frozen=True)
class Code:
    """A value said in two ways; plain: the same on both sides."""

    read: Callable[[Any], Any] = lambda value: value
    write: Callable[[Any], Any] = lambda value: value


def words(**names: str) -> Code:
    """Another word for the same thing; a word that is not listed is refused."""
    back = {ours: theirs for theirs, ours in reversed(names.items())}

    def read(value: Any) -> str:
        if value not in names:
            raise ConfigError(f"{value!r} is not understood (only {', '.join(names)})")
        return names[value]

    def write(value: Any) -> str:
        if value not in back:
            raise ConfigError(f"{value!r} (only {', '.join(back)})")
        return back[value]

    return Code(read, write)


@dataclass(frozen=True)
class Key:
    """One key of config.json, and the places of its value in our configuration (dotted)."""

    theirs: str
    ours: str | tuple[str, ...]
    default: Any = NEEDED  # what transformers takes where the key is missing
    code: Code = Code()

    @property
    def places(self) -> tuple[str, ...]:
        return (self.ours,) if isinstance(self.ours, str) else self.ours


@dataclass(frozen=True)
class Always:
    """A key that is understood with one value only (or where it is missing)."""

    theirs: str
    value: Any


# what the first versions of transformers wrote down whether or not there was anything to say
SPELT_OUT = (Always("pruned_heads", {}), Always("cross_attention_hidden_size", None), Always("add_cross_attention", False))


def read_keys(config: Mapping[str, Any], keys: Iterable[Key | Always], template: Mapping[str, Any]) -> dict[str, Any]:
    """Our configuration: the template with the values of config.json."""
    values: dict[str, Any] = copy_tables(template)
    for name in REFUSED:
        if config.get(name):
            raise ConfigError(f"{name}: {REFUSED[name]}")
    for key in (*SPELT_OUT, *keys):
        if isinstance(key, Always):
            if (found := config.get(key.theirs, key.value)) != key.value:
                raise ConfigError(f"{key.theirs}: {found!r} is not understood (only {key.value!r})")
            continue
        found = config.get(key.theirs, key.default)
        if found is NEEDED:
            raise ConfigError(f"{key.theirs}: is missing")
        try:
            value = key.code.read(found)
        except ConfigError as error:
            raise ConfigError(f"{key.theirs}: {error.message}") from None
        for place in key.places:
            put(values, place, copy_tables(value))
    return values


def unread_keys(config: Mapping[str, Any], keys: Iterable[Key | Always], known: Iterable[str]) -> list[str]:
    """Keys of config.json that nobody reads. `known` are those of the family that change nothing."""
    return sorted(set(config) - HARMLESS - {*REFUSED, *OWN_CODE} - {key.theirs for key in (*SPELT_OUT, *keys)} - set(known))


def write_keys(values: Mapping[str, Any], keys: Iterable[Key | Always]) -> dict[str, Any]:
    """config.json's keys of a configuration of ours, given as plain values."""
    return {key.theirs: key.value if isinstance(key, Always) else _write_value(key, _first(values, key.places)) for key in keys}


def _first(values: Mapping[str, Any], places: Iterable[str]) -> Any:
    """What the first of these places says that there is in this model."""
    return next((value for place in places if (value := get(values, place)) is not None), None)


def without_gaps(config: Mapping[str, Any], keys: Iterable[Key | Always]) -> dict[str, Any]:
    """What ours leaves open (the dropout of a part, which is then the model's) is left to their default, where that is something."""
    filled = {key.theirs for key in keys if isinstance(key, Key) and key.default is not None}
    return {name: value for name, value in config.items() if value is not None or name not in filled}


def _write_value(key: Key, value: Any) -> Any:
    try:
        return key.code.write(value)
    except ConfigError as error:
        raise ConfigError(f"{key.places[0]} = {error.message}") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        raise ConfigError(f"{key.places[0]} = {value!r}") from None


def copy_tables(value: Any) -> Any:
    """Every table and list anew, also where two places of a template are one object."""
    if isinstance(value, Mapping):
        return {key: copy_tables(item) for key, item in value.items()}
    return [copy_tables(item) for item in value] if isinstance(value, list | tuple) else value


def put(values: dict[str, Any], place: str, value: Any) -> None:
    """Set the value at a place; behind a `*`, which is every element of a list, where the tables that lead to it are there."""
    before, star, behind = place.partition(".*.")
    if star:
        *tables, last = behind.split(".")
        for element in get(values, before) or ():
            if isinstance(table := get(element, ".".join(tables)) if tables else element, dict):
                table[last] = copy_tables(value)
        return
    *tables, last = place.split(".")
    found: Any = values
    for table in tables:
        found = found[int(table)] if isinstance(found, list) else found.setdefault(table, {})
    found[last] = value


def get(values: Mapping[str, Any], place: str) -> Any:
    """The value at a place; behind a `*`, the first that there is."""
    before, star, behind = place.partition(".*.")
    if star:
        *tables, last = behind.split(".")
        owners = (get(element, ".".join(tables)) if tables else element for element in get(values, before) or ())
        return next((table[last] for table in owners if isinstance(table, Mapping) and last in table), None)
    found: Any = values
    for step in place.split("."):
        found = found[int(step)] if isinstance(found, list | tuple) else found.get(step) if isinstance(found, Mapping) else None
    return found
