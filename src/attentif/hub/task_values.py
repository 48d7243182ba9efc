"""The task that a checkpoint is for, as values of `[task]`: what its maker's files say about its use.

what stands around a text (the tokenizer's own frame) · how an answer begins and ends · the names of the classes ·
how long a text may be · how it samples or searches (generation_config.json)
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from attentif.errors import ConfigError, RunError
from attentif.hub.files import CONFIG, read_json
from attentif.hub.folder import Imported, refuse_malformed
from attentif.hub.generation import FILE as GENERATION
from attentif.hub.keys import OWN_CODE
from attentif.hub.openings import most_tokens, read_opening
from attentif.hub.pictures import read_pictures
from attentif.hub.pooling import longest, note_prompts
from attentif.hub.sounds import read_features

DEFAULT_LENGTH = 512  # tokens of a text, where nobody sets a limit
PASSAGE = 384  # tokens of a question and a part of its passage, as SQuAD's models were trained
PICTURES = "preprocessor_config.json"
SEARCH = {"beams", "length_penalty", "early_stopping", "max_tokens"}  # options of encoder-decoders
LIMITS = ("banned", "banned_first", "no_repeat_ngram", "min_tokens", "forced_end")  # what may not be written
NO_TOKENIZER = "has no tokenizer: tokenizer.json, or the vocabulary files of its class, are needed"
Values = dict[str, Any]


def read_task(folder: Path, found: Imported) -> Values | None:
    """Values of `[task]` for the task of the head; None where it is for no task here."""
    kind = found.head.task or ("embed" if found.head.head.get("kind") == "embed" else None)
    read = ("tokens", "patches") if kind == "embed" else ("tokens",)
    if kind is None or kind not in READERS or (kind not in NO_TEXT and found.model.config.frontend.kind not in read):
        return None
    return {"kind": kind} | READERS[kind](folder, found)


def list_notes(folder: Path, found: Imported, task: Mapping[str, Any]) -> list[str]:
    """What the files ask for and is not done here, a line each."""
    notes = [f"{GENERATION}: {key} has no counterpart here, and is left out" for key in found.decoding.unheard]
    if found.unread:
        notes.append(f"{CONFIG}: no program reads {', '.join(found.unread)} for a {found.family.kind}; ignored")
    if code := [key for key in OWN_CODE if found.config.get(key)]:
        notes.append(
            f"{CONFIG}: code that comes with the weights ({', '.join(code)}) is not run; read as transformers' own {found.family.kind}"
        )
    if task["kind"] == "embed":
        notes += note_prompts(folder)
    if task["kind"] == "text-to-text":
        ignored = sorted(found.decoding.options.keys() - SEARCH - {*LIMITS})
        notes += [f"{GENERATION}: {key} is not applied by an encoder-decoder here" for key in ignored]
    asked = found.config.get("task_specific_params")
    prefixes = [own["prefix"] for own in asked.values() if isinstance(own, dict) and own.get("prefix")] if isinstance(asked, dict) else []
    if prefixes:  # T5's "summarize: "
        shown = ", ".join(f"«{prefix}...»" for prefix in prefixes)
        notes.append(f"{CONFIG}: what is asked for stands before the text: {shown}")
    return notes


def _max_len(folder: Path, found: Imported) -> int:
    """Tokens of a text: as many as its maker says, and the model can hold."""
    file = folder / "tokenizer_config.json"
    limit = read_json(file).get("model_max_length") if file.is_file() else None
    limits = [limit if isinstance(limit, int) and limit < 10**9 else None, longest(folder), found.model.config.max_len]
    return min((limit for limit in limits if limit), default=DEFAULT_LENGTH)


def _context(folder: Path, found: Imported) -> Values:
    return {"context": _max_len(folder, found)}


def _language(folder: Path, found: Imported) -> Values:
    context = min(_max_len(folder, found), 2 * DEFAULT_LENGTH)
    return {"context": context, "prompt": "frame"} | ({"decode": found.decoding.options} if found.decoding.options else {})


def _classify(folder: Path, found: Imported) -> Values:
    if found.config.get("problem_type") == "regression":
        why = "problem_type: regression predicts numbers, and there is no such task of texts here; attentif.hub.read_folder gives the model"
        raise ConfigError(why, file=folder / CONFIG)
    several = found.config.get("problem_type") == "multi_label_classification" or len(_labels(found)) == 1
    return {"labels": _labels(found), "several": several, "max_len": _max_len(folder, found)}


def _tag(folder: Path, found: Imported) -> Values:
    return {"labels": _labels(found), "scheme": _scheme(_labels(found)), "max_len": _max_len(folder, found)}


def _scheme(labels: list[str]) -> str:
    """How the tags write entities: a B for each first word, or only between neighbours of one kind, or none."""
    first = {label.partition("-")[0] for label in labels if label != "O"}
    if any("-" not in label for label in labels if label != "O") or not first <= {*"BIESLU"}:
        return "none"
    return "BIOES" if first & {*"ES"} else "IOB2" if "B" in first else "IOB1"


def _answer(folder: Path, found: Imported) -> Values:
    length = min(PASSAGE, _max_len(folder, found))
    return {"max_len": length, "stride": min(128, length // 4), "max_question": min(64, length // 4), "impossible": False}


def _text_to_text(folder: Path, found: Imported) -> Values:
    tokenizer, decoding = found.target or found.tokenizer, found.decoding
    start = [] if tokenizer is None else [str(tokenizer.rust.id_to_token(token)) for token in decoding.start]
    if not start:
        raise RunError("says nowhere what the decoder begins with (decoder_start_token_id)", file=folder / CONFIG)
    search = {key: decoding.options[key] for key in SEARCH if key in decoding.options}
    return {"start": start, "max_len": _max_len(folder, found), "label_smoothing": 0.0, "limits": _limits(found), **search}


def _limits(found: Imported) -> Values:
    return {key: found.decoding.options[key] for key in LIMITS if key in found.decoding.options}


def _image(folder: Path, found: Imported) -> Values:
    return {"labels": _labels(found), **_pictures(folder, found, found.model.config.frontend)}


def _pictures(folder: Path, found: Imported, frontend: Any) -> Values:
    with refuse_malformed(folder / PICTURES):
        read = read_pictures(folder, frontend.channels, frontend.height, frontend.width, found.family.kind)
    return {"height": frontend.height, "width": frontend.width, "channels": frontend.channels, **read}


def _embed(folder: Path, found: Imported) -> Values:
    """Vectors of texts, of pictures, or of both."""
    config = found.model.config
    if config.frontend.kind == "patches":
        return _pictures(folder, found, config.frontend)
    values: Values = {"max_len": _max_len(folder, found)}
    if found.family.kind in FILLED:
        values["pad_to"] = values["max_len"] = config.max_len
    if found.family.kind in ENDED and found.tokenizer is not None and found.special.get("eos_token_id") not in (2, found.tokenizer.eos):
        why = "eos_token_id: is not the token that ends a text, by whose place transformers finds the vector of a text"
        raise ConfigError(why, file=folder / CONFIG)
    return values if config.tower is None else values | _pictures(folder, found, config.tower.frontend)


def _speech(folder: Path, found: Imported) -> Values:
    features = read_features(folder)
    if features is None:
        raise RunError(f"has no {PICTURES} that says how its sounds are read", file=folder)
    values: Values = {"features": {key: value for key, value in features.items() if value is not None}}
    if found.model.config.decoder is None:
        return values | {"objective": "ctc"}
    if found.tokenizer is None:
        raise RunError(NO_TOKENIZER, file=folder)
    with refuse_malformed(folder / GENERATION):
        opening = read_opening(folder, found.config, found.tokenizer)
        search = {"beams": found.decoding.options.get("beams", 1), "max_tokens": most_tokens(folder, found.config)}
    return values | {"objective": "seq2seq", "opening": opening, "limits": _limits(found)} | search


def _labels(found: Imported) -> list[str]:
    head: Any = found.model.config.head
    return found.labels or [f"LABEL_{number}" for number in range(head.classes or 0)]


NO_TEXT = ("image", "speech")  # tasks that read no text
FILLED = ("siglip", "siglip_text_model")  # read texts filled up to the greatest length
ENDED = ("clip", "clip_text_model")  # give the vector of the token that ends a text; 2 stood there once, for the highest id
READERS: Mapping[str, Callable[[Path, Imported], Values]] = {
    "language": _language,
    "masked": _context,
    "replaced": _context,
    "classify": _classify,
    "tag": _tag,
    "answer": _answer,
    "text-to-text": _text_to_text,
    "image": _image,
    "speech": _speech,
    "embed": _embed,
}
