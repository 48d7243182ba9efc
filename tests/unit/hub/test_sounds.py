"""preprocessor_config.json: what is said about sounds, both ways, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from attentif.errors import ConfigError
from attentif.hub.sounds import FILE, read_features, write_features

WHISPER = {"feature_extractor_type": "WhisperFeatureExtractor", "feature_size": 80, "chunk_length": 30, "sampling_rate": 16000}


def written(folder: Path, said: dict[str, Any]) -> Path:
    (folder / FILE).write_text(json.dumps(said))
    return folder


@pytest.mark.parametrize("said", [WHISPER, {"feature_extractor_type": "Wav2Vec2FeatureExtractor", "do_normalize": False}])
def test_what_is_read_can_be_written_and_read_again(said: dict[str, Any], tmp_path: Path) -> None:
    features = read_features(written(tmp_path, said))
    assert features is not None
    write_features(tmp_path, features)
    assert read_features(tmp_path) == features


def test_folders_without_sounds_have_none(tmp_path: Path) -> None:
    assert read_features(tmp_path) is None
    assert read_features(written(tmp_path, {"image_processor_type": "ViTImageProcessor", "do_resize": True})) is None


@pytest.mark.parametrize(
    ("more", "message"), [({"dither": 0.1}, "dither: 0.1 is not understood"), ({"warp": 1}, "warp: this key is not understood")]
)
def test_what_would_change_the_numbers_is_refused(more: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        read_features(written(tmp_path, WHISPER | more))


def test_frames_that_whisper_cannot_say_are_not_written(tmp_path: Path) -> None:
    features = read_features(written(tmp_path, WHISPER))
    assert features is not None
    with pytest.raises(ConfigError, match="cannot say these frames"):
        write_features(tmp_path, features | {"seconds": None})
