"""Sounds from files: any rate and depth, and one honest line about each file that cannot be used."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from attentif.data import DataConfig
from attentif.data.audio import LABELLED, load_sound_rows, load_sounds, read_sound, resample, sound_paths
from attentif.errors import ConfigError, DataError

RATE = 8000


def tone(seconds: float = 0.2, rate: int = RATE, hz: float = 440.0) -> np.ndarray:
    return 0.5 * np.sin(2 * np.pi * hz * np.arange(round(rate * seconds)) / rate)


def write(path: Path, wave: np.ndarray | None = None, rate: int = RATE, subtype: str = "PCM_16") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, tone() if wave is None else wave, rate, subtype=subtype)
    return path


def said(text: str) -> None:
    """Nobody listens."""


@pytest.mark.parametrize(("subtype", "close"), [("PCM_U8", 0.01), ("PCM_16", 1e-4), ("PCM_24", 1e-6), ("PCM_32", 1e-6), ("FLOAT", 1e-6)])
def test_every_depth_is_the_same_sound(tmp_path: Path, subtype: str, close: float) -> None:
    found = read_sound(write(tmp_path / "a.wav", subtype=subtype), RATE)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, tone(), atol=close)


def test_both_channels_become_one(tmp_path: Path) -> None:
    write(tmp_path / "a.wav", np.stack([tone(), 0.5 * tone()], 1), subtype="FLOAT")
    np.testing.assert_allclose(read_sound(tmp_path / "a.wav", RATE), 0.75 * tone(), atol=1e-6)


@pytest.mark.parametrize("rate", [11025, 16000, 22050, 44100, 48000, 6000])
def test_another_rate_is_the_same_sound_at_ours(tmp_path: Path, rate: int) -> None:
    found = read_sound(write(tmp_path / "a.wav", tone(rate=rate), rate, "FLOAT"), RATE)
    assert abs(len(found) - 1600) <= 1
    inner = slice(200, 1400)  # away from the ends, where a filter has nothing to read
    np.testing.assert_allclose(found[inner], tone()[inner], atol=5e-3)


def test_what_a_lower_rate_cannot_hold_is_left_out() -> None:
    high = tone(rate=48000, hz=5000.0).astype(np.float32)
    assert np.abs(resample(high, 48000, RATE)[200:1400]).max() < 0.01


# ------------------------------------------------------------------------------------------------------------- bad files


def bad(tmp_path: Path, kind: str) -> Path:
    path = write(tmp_path / "b.wav")
    whole = path.read_bytes()
    if kind == "missing":
        path.unlink()
    elif kind == "truncated":
        path.write_bytes(whole[:2000])
    elif kind == "header only":
        path.write_bytes(whole[:30])
    elif kind == "no bytes":
        path.write_bytes(b"")
    elif kind == "no samples":
        write(path, np.zeros(0))
    elif kind == "silent":
        write(path, np.zeros(800))
    elif kind == "text":
        path.write_text("not a sound at all, whatever its name says")
    elif kind == "nan":
        write(path, np.array([0.1, np.nan, 0.2]), subtype="FLOAT")
    return path


PROBLEMS = {
    "missing": "there is no such file",
    "truncated": "is cut off: 1,244 of the 3,200 bytes of sound that its header announces are missing",
    "header only": "is cut off: it ends before its sound begins",
    "no bytes": "is empty: it has no bytes",
    "no samples": "is empty: it has no samples",
    "silent": "is silent: all its samples are the same",
    "text": "is not a sound that can be read",
    "nan": "has samples that are no numbers",
}


@pytest.mark.parametrize("kind", PROBLEMS)
def test_a_bad_file_is_told_with_the_row_that_names_it(tmp_path: Path, kind: str) -> None:
    write(tmp_path / "a.wav")
    path = bad(tmp_path, kind)
    (tmp_path / "clips.csv").write_text("audio,text\na.wav,one\nb.wav,two\n")
    with pytest.raises(DataError, match=r"clips.csv:3: .*b.wav: .*" + PROBLEMS[kind].replace("(", r"\(")) as caught:
        load_sound_rows(DataConfig(train=str(tmp_path / "clips.csv")), RATE, said)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_damaged_mp3_is_not_said_to_be_missing(tmp_path: Path) -> None:
    (tmp_path / "b.mp3").write_bytes(b"ID3abc" * 50)
    with pytest.raises(DataError, match=r"b\.mp3"):
        read_sound(tmp_path / "b.mp3", RATE)


def test_bad_files_can_be_left_out_and_are_counted(tmp_path: Path) -> None:
    write(tmp_path / "a.wav")
    bad(tmp_path, "truncated")
    (tmp_path / "clips.csv").write_text("audio,text\na.wav,one\nb.wav,two\n")
    sounds, notes = load_sound_rows(DataConfig(train=str(tmp_path / "clips.csv"), skip_bad=1), RATE, said)
    assert sounds.table["text"] == ["one"]
    assert any("1 bad row skipped" in note and "b.wav" in note for note in notes)


def test_a_wav_written_to_a_pipe_announces_no_size_and_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.wav")
    raw = bytearray(path.read_bytes())
    at = raw.index(b"data") + 4
    raw[at : at + 4] = b"\xff\xff\xff\xff"
    path.write_bytes(raw)
    assert len(read_sound(path, RATE)) > 0


# ---------------------------------------------------------------------------------------------------- tables and folders


def digits(folder: Path) -> Path:
    for digit in range(3):
        for voice, speaker in enumerate(("ann", "bob", "eve")):
            for take in range(2):
                write(folder / f"{digit}_{speaker}_{take}.wav", tone(hz=200.0 + 90 * digit + 7 * take + 20 * voice))
    return folder


def config(**values: Any) -> DataConfig:
    return DataConfig.model_validate(values)


def test_a_folder_says_in_its_names_what_is_said(tmp_path: Path) -> None:
    place = str(digits(tmp_path / "digits"))
    pattern = "{text}_{speaker}_{take}.wav"
    splits = load_sounds(config(train=place, pattern=pattern, group="speaker", test_fraction=0.34, valid_fraction=0.33), None, said)
    assert splits.rate == RATE
    speakers = [set(part.table["group"]) for part in (splits.train, splits.valid, splits.test)]
    assert [len(own) for own in speakers] == [1, 1, 1]
    assert set.union(*speakers) == {"ann", "bob", "eve"}
    assert sorted(splits.train.table["text"]) == ["0", "0", "1", "1", "2", "2"]
    assert len(splits.train.waves) == 6


def test_a_folder_can_be_narrowed_for_each_split(tmp_path: Path) -> None:
    place = digits(tmp_path / "digits")
    files = {split: str(place / f"*_{speaker}_*.wav") for split, speaker in (("train", "ann"), ("valid", "bob"), ("test", "eve"))}
    splits = load_sounds(config(**files, pattern="{text}_{speaker}_{take}"), None, said)
    assert [len(part.waves) for part in (splits.train, splits.valid, splits.test)] == [6, 6, 6]
    assert all("_eve_" in path for path in splits.test.table["audio"])


def test_a_random_cut_is_of_sounds_and_not_of_transcripts(tmp_path: Path) -> None:
    splits = load_sounds(config(train=str(digits(tmp_path / "digits")), pattern="{text}_{speaker}_{take}"), None, said)
    assert set(splits.train.table["text"]) == {"0", "1", "2"}
    assert len(splits.train.waves) > 12


def test_a_random_cut_is_the_same_wherever_the_sounds_lie(tmp_path: Path) -> None:
    told = [config(train=str(digits(tmp_path / place)), pattern="{text}_{speaker}_{take}") for place in ("here", "there/deeper")]
    here, there = (load_sounds(one, None, said) for one in told)
    assert here.digest == there.digest
    names = [[Path(path).name for path in splits.test.table["audio"]] for splits in (here, there)]
    assert names[0] == names[1]


def test_the_same_recording_twice_stays_on_one_side(tmp_path: Path) -> None:
    place = digits(tmp_path / "digits")
    for path in list(place.iterdir()):
        (place / path.name.replace(".wav", "0.wav")).write_bytes(path.read_bytes())
    splits = load_sounds(config(train=str(place), pattern="{text}_{speaker}_{take}"), None, said)
    heard = [wave for part in (splits.train, splits.valid, splits.test) for wave in {wave.tobytes() for wave in part.waves}]
    assert len(heard) == len(set(heard)) == 18


def test_where_transcripts_are_classes_each_split_has_its_share_of_all(tmp_path: Path) -> None:
    told = config(train=str(digits(tmp_path / "digits")), pattern="{text}_{speaker}_{take}", test_fraction=0.2, valid_fraction=0.2)
    splits = load_sounds(told, None, said, LABELLED)
    assert [sorted(part.table["text"]) for part in (splits.valid, splits.test)] == [["0", "1", "2"]] * 2
    assert any("class by class" in note for note in splits.notes)


def test_the_digest_is_of_the_samples(tmp_path: Path) -> None:
    place = digits(tmp_path / "digits")
    told = config(train=str(place), pattern="{text}_{speaker}_{take}")
    before = load_sounds(told, None, said).digest
    assert load_sounds(told, None, said).digest == before
    write(place / "0_ann_0.wav", tone(hz=999.0))
    assert load_sounds(told, None, said).digest != before


def test_names_that_say_something_else_are_refused(tmp_path: Path) -> None:
    place = digits(tmp_path / "digits")
    write(place / "readme.wav")
    with pytest.raises(DataError, match=r"'readme.wav'.*'\{text\}_\{speaker\}_\{take\}'"):
        load_sounds(config(train=str(place), pattern="{text}_{speaker}_{take}"), None, said)
    with pytest.raises(DataError, match=r"names.*files"):
        load_sounds(config(train=str(place)), None, said)
    with pytest.raises(ConfigError, match="name fields"):
        load_sounds(config(train=str(place), pattern="{text}_{text}"), None, said)
    with pytest.raises(DataError, match="no sound is there"):
        load_sounds(config(train=str(tmp_path / "digits" / "*.mp3"), pattern="{text}_{speaker}_{take}"), None, said)


def test_a_table_without_sounds_says_which_columns_it_has(tmp_path: Path) -> None:
    (tmp_path / "clips.csv").write_text("name,text\na.wav,one\n")
    with pytest.raises(DataError, match=r"data.columns.audio=NAME.*'name', 'text'"):
        load_sounds(config(train=str(tmp_path / "clips.csv")), None, said)


def test_the_sounds_that_a_file_stands_for(tmp_path: Path) -> None:
    path = write(tmp_path / "clips" / "a.wav")
    (tmp_path / "clips.jsonl").write_text('{"wav": "clips/a.wav"}\n')
    assert sound_paths(path, None) == [str(path)]
    assert sound_paths(tmp_path / "clips", None) == [str(path)]
    assert sound_paths(tmp_path / "clips.jsonl", None) == [str(path)]
    (tmp_path / "clips.jsonl").write_text('{"wav": "clips/a.wav"}\n{"wav": " "}\n')
    with pytest.raises(DataError, match=r"clips\.jsonl:2"):
        sound_paths(tmp_path / "clips.jsonl", None)


def test_a_set_without_sounds_is_for_another_task() -> None:
    with pytest.raises(DataError, match="'numbers'"):
        load_sounds(config(name="numbers"), None, said)


def test_a_speaker_s_sounds_stay_on_one_side_of_the_cut(tmp_path: Path) -> None:
    digits(tmp_path)
    lines = [f"{path.name},{path.stem[0]},{path.stem[2:5]}" for path in sorted(tmp_path.glob("*.wav"))]
    more = [line.replace(",ann", ",zoe") if "_ann_1" in line else line for line in lines]  # a fourth speaker
    (tmp_path / "clips.csv").write_text("\n".join(["audio,text,speaker", *more]) + "\n")
    splits = load_sounds(config(train=str(tmp_path / "clips.csv")), None, said)
    sides = [set(part.table["group"]) for part in (splits.train, splits.valid, splits.test)]
    assert sum(map(len, sides)) == len(set.union(*sides)) == 4
    assert any("'speaker'" in note for note in splits.notes)
