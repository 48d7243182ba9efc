"""How a folder's sounds become what its model reads: preprocessor_config.json, or processor_config.json since transformers 5, both ways.

Whisper reads log-mel frames of sounds made thirty seconds long; wav2vec 2.0 reads the samples themselves. What is understood here is said
in the keys of our speech task (`task.features`); what is not is an error.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attentif.errors import ConfigError
from attentif.files import write_json
from attentif.hub.files import read_json

FILE = "preprocessor_config.json"
NEWER, WITHIN = "processor_config.json", "feature_extractor"
WHISPER, WAVES = "WhisperFeatureExtractor", "Wav2Vec2FeatureExtractor"
BANDS = (0.0, 8000.0, "slaney")  # of Whisper, always
# keys that follow from others, or say nothing about the numbers
HARMLESS = {
    "feature_extractor_type",
    "processor_class",
    "mel_filters",
    "n_samples",
    "nb_max_frames",
    "return_attention_mask",
    "padding_side",
}
DEFAULTS: dict[str, dict[str, Any]] = {
    WHISPER: {"feature_size": 80, "sampling_rate": 16000, "hop_length": 160, "chunk_length": 30, "n_fft": 400},
    WAVES: {"feature_size": 1, "sampling_rate": 16000, "do_normalize": True},
}
ALWAYS: dict[str, dict[str, Any]] = {WHISPER: {"padding_value": 0.0, "dither": 0.0}, WAVES: {"feature_size": 1, "padding_value": 0.0}}


def read_features(folder: Path) -> dict[str, Any] | None:
    """What `task.features` would say; None where the folder has no such file, or one that is not about sounds."""
    file = folder / FILE if (folder / FILE).is_file() else folder / NEWER
    if not file.is_file():
        return None
    said = read_json(file)
    said = said.get(WITHIN, {}) if file.name == NEWER else said
    kind = said.get("feature_extractor_type")
    if kind not in DEFAULTS:
        return None
    for key, value in ALWAYS[kind].items():
        if said.get(key, value) != value:
            raise ConfigError(f"{key}: {said[key]!r} is not understood (only {value!r})", file=file)
    if unknown := sorted(set(said) - HARMLESS - set(DEFAULTS[kind]) - set(ALWAYS[kind])):
        raise ConfigError(f"{unknown[0]}: this key is not understood, and it may change the numbers", file=file)
    values = DEFAULTS[kind] | {key: said[key] for key in DEFAULTS[kind] if key in said}
    rate = int(values["sampling_rate"])
    if kind == WAVES:
        return {"kind": "samples", "rate": rate, "normalise": bool(values["do_normalize"])}
    return {
        "kind": "log-mel",
        "rate": rate,
        "mels": values["feature_size"],
        "window": values["n_fft"] / rate,
        "hop": values["hop_length"] / rate,
        "fft": values["n_fft"],
        "high": 8000.0,
        "seconds": float(values["chunk_length"]),
    }


def write_features(folder: Path, features: Mapping[str, Any]) -> None:
    """The same back, for what `read_features` gave or a speech task says."""
    rate = features["rate"]
    if features.get("kind") == "samples":
        said = {
            "feature_extractor_type": WAVES,
            "processor_class": "Wav2Vec2Processor",
            "sampling_rate": rate,
            "do_normalize": features["normalise"],
            "return_attention_mask": True,
        }
        write_json(folder / FILE, said | ALWAYS[WAVES])
        return
    fft, hop, seconds = features["fft"], features["hop"] * rate, features["seconds"]
    bands = (features.get("low") or 0.0, features.get("high") or rate / 2, features.get("scale", "slaney"))
    if seconds is None or seconds % 1 or abs(hop - round(hop)) > 1e-6 or round(features["window"] * rate) != fft or bands != BANDS:
        raise ConfigError(
            f"{WHISPER} cannot say these frames: it needs task.features.seconds, whole seconds and samples, a window as long as the "
            f"transform, and bands from 0 to 8000 Hz"
        )
    whisper = {
        "feature_size": features["mels"],
        "sampling_rate": rate,
        "hop_length": round(hop),
        "chunk_length": round(seconds),
        "n_fft": fft,
    }
    write_json(
        folder / FILE,
        {"feature_extractor_type": WHISPER, "processor_class": "WhisperProcessor"}
        | whisper
        | ALWAYS[WHISPER]
        | {"return_attention_mask": False},
    )
