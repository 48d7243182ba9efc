"""Sounds and their transcripts: a table that names wav files, or a folder whose file names say what is said in them.

    audio,text                         digits/7_jackson_3.wav, 7_jackson_4.wav ...
    clips/1.wav,one two three          data.train = "digits", data.pattern = "{text}_{speaker}_{take}"

Paths are relative to their table. A folder may be narrowed by a pattern of the shell (`digits/*_jackson_*.wav`). Files of any rate, mono or
stereo, of 8 to 32 bits or floating-point numbers, are read by libsndfile and brought to one rate by a polyphase filter.
"""

import hashlib
import math
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from glob import has_magic
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attentif.data.columns import ASKED, Roles, find_columns
from attentif.data.config import SPLITS, DataConfig, Split
from attentif.data.load import load_rows, load_table, table_rows
from attentif.data.progress import Pulse, Say
from attentif.data.readers import Row, Tolerance
from attentif.data.split import sample
from attentif.data.table import Table, digest_of
from attentif.errors import ConfigError, DataError
from attentif.extras import require_extra
from attentif.limits import SOUND_RATES, check_sound

Wave = NDArray[np.float32]
SPEECH = Roles(("audio", "text"), guess_group=True)
LABELLED = Roles(("audio", "text"), classes="text", guess_group=True)
ENDINGS = (".wav", ".flac", ".ogg", ".mp3", ".aiff", ".aif", ".au")
UNKNOWN_SIZE = (0, 0xFFFFFFFF)  # what a program that writes to a pipe puts for the size of the data
UNKNOWN_FRAMES = 2**62  # libsndfile's count of what it cannot seek in is larger
BLOCK = 1 << 16  # samples decoded at once
HIGHEST_RATE = 16_000  # kept by default: speech has little above 8 kHz


@dataclass(frozen=True)
class Sounds:
    """Rows of a split and what each sounds like, all at one rate."""

    table: Table
    waves: list[Wave]


@dataclass(frozen=True)
class SoundSplits:
    train: Sounds
    valid: Sounds
    test: Sounds
    rate: int
    notes: list[str]
    digest: str


def load_sounds(config: DataConfig, rate: int | None, say: Say, roles: Roles = SPEECH) -> SoundSplits:
    """The three splits at `rate` samples a second, by default the first training file's, or 16,000 where that is lower."""
    if config.name:
        return _load_built_in(config, rate)
    splits = load_table(config, roles, say, open_rows=sound_rows)
    tables = {split: getattr(splits, split) for split in SPLITS}
    tolerance = Tolerance(config.skip_bad)
    rate = rate or min(find_first_rate(splits.train), HIGHEST_RATE)
    sounds = {split: decode_sounds(table, rate, tolerance, say) for split, table in tables.items()}
    notes = [*splits.notes, *tolerance.notes]
    return SoundSplits(sounds["train"], sounds["valid"], sounds["test"], rate, notes, _digest(sounds))


def load_sound_rows(config: DataConfig, rate: int, say: Say) -> tuple[Sounds, list[str]]:
    """Every row of the `train` files, to be scored."""
    table, notes = load_rows(config, SPEECH, say, open_rows=sound_rows)
    tolerance = Tolerance(config.skip_bad)
    return decode_sounds(table, rate, tolerance, say), notes + tolerance.notes


def sound_rows(
    config: DataConfig, split: Split, file: Path, roles: Roles, tolerance: Tolerance, notes: list[str]
) -> tuple[list[str], Iterator[Row]]:
    """Rows of a table, with absolute paths, or of the files in a folder."""
    if not file.is_dir() and not has_magic(str(file)) and file.suffix.lower() not in ENDINGS:
        names, rows = table_rows(config, split, file, roles, tolerance, notes)
        at = names.index("audio")
        path = lambda cell: str(file.parent / cell) if cell.strip() else ""
        return names, ((line, [*values[:at], path(values[at]), *values[at + 1 :]]) for line, values in rows)
    if not config.pattern:
        way_out = 'data.pattern="{text}_{speaker}_{take}"'
        raise DataError(
            f"is no table: say what the names of its files mean, as in {way_out}, or give a table of paths and texts", file=file
        )
    said = _name_pattern(config.pattern)
    files = _sound_files(file)
    columns = ["audio", *said.groupindex]
    found = find_columns(columns, file, config, roles)
    meant = ", ".join(f"{role} from {column!r} of the name" for role, column in found.items() if role != "audio")
    notes.append(f"{file}: {len(files):,} sounds, {meant}")
    return list(found), _match_rows(files, said, config.pattern, found, tolerance)


def _match_rows(files: Sequence[Path], said: re.Pattern[str], pattern: str, names: dict[str, str], tolerance: Tolerance) -> Iterator[Row]:
    for number, path in enumerate(files, 1):
        match = said.fullmatch(path.stem)
        if match is None:
            tolerance.bad(f"{path.name!r} is not of the form {pattern!r} (data.pattern)", path.parent, number)
            continue
        yield number, [str(path) if role == "audio" else match[column] for role, column in names.items()]


def _name_pattern(pattern: str) -> re.Pattern[str]:
    """ "{text}_{speaker}_{take}" as a regular expression; the ending of the file does not count."""
    pattern = re.sub(r"\.\w+$", "", pattern)
    parts = re.split(r"\{(\w+)\}", pattern)
    fields = parts[1::2]
    if not fields or len(set(fields)) < len(fields):
        raise ConfigError(f'data.pattern: {pattern!r} must name fields, each once: "{{text}}_{{speaker}}_{{take}}"')
    return re.compile("".join(re.escape(part) if place % 2 == 0 else f"(?P<{part}>.+?)" for place, part in enumerate(parts)))


def _sound_files(place: Path) -> list[Path]:
    if has_magic(str(place)):
        files = [path for path in Path(place.anchor or ".").glob(str(place.relative_to(place.anchor or "."))) if path.is_file()]
    elif place.is_dir():
        files = [path for path in place.rglob("*") if path.suffix.lower() in ENDINGS]
    else:
        files = [place]
    if not files:
        raise DataError(f"no sound is there (files that end in {', '.join(ENDINGS)})", file=place)
    return sorted(files)


def decode_sounds(table: Table, rate: int, tolerance: Tolerance, say: Say) -> Sounds:
    """The sounds of a table; unreadable rows go to the tolerance."""
    pulse, waves, kept = Pulse(say), [], []
    for row, path in enumerate(table["audio"]):
        try:
            waves.append(read_sound(Path(path), rate))
            kept.append(row)
        except DataError as error:
            file, line = table.places[row]
            tolerance.bad(str(error), Path(table.files[file]), int(line))
        pulse(lambda: f"listening to {table.name}: {len(waves):,} of {len(table):,} sounds")
    if not waves:
        raise DataError("has no usable sound", file=table.files[0])
    return Sounds(table if len(kept) == len(table) else table.take(kept), waves)


def _load_built_in(config: DataConfig, rate: int | None) -> SoundSplits:
    from attentif.data.builtin import BUILTIN

    entry = BUILTIN[str(config.name)]
    if "audio" not in entry.roles:
        raise DataError(f"the built-in set {entry.name!r} has no audio (it has {', '.join(entry.roles)}): it is for another task")
    sounds: dict[Split, Sounds] = {}
    own, splits = 0, entry.load(config.seed)
    for split in SPLITS:
        columns = splits[split]
        own = int(columns["rate"][0])
        count = len(columns["text"])
        places = np.stack([np.zeros(count, dtype=np.int64), np.arange(1, count + 1)], axis=1)
        texts = {role: values for role, values in columns.items() if role in ("text", "group")}
        names = [f"{entry.name}/{split}/{number}" for number in range(1, count + 1)]
        table = Table(split, {"audio": names, **texts}, [f"{entry.name}/{split}"], places)
        waves = [resample(wave.astype(np.float32), own, rate or own) for wave in columns["audio"]]
        if split == "train" and 0 < config.limit < count:
            chosen = sample(table, config.limit, config.seed)
            waves, table = [waves[line - 1] for line in chosen.places[:, 1]], chosen
        sounds[split] = Sounds(table, waves)
    return SoundSplits(sounds["train"], sounds["valid"], sounds["test"], rate or own, [], _digest(sounds))


def _digest(sounds: Mapping[Split, Sounds]) -> str:
    return digest_of(
        part
        for split in SPLITS
        for text, wave in zip(sounds[split].table["text"], sounds[split].waves, strict=True)
        for part in (split, text, hashlib.sha256(wave.tobytes()).hexdigest())
    )


# ------------------------------------------------------------------------------------------------------------- one file


def read_sound(path: Path, rate: int) -> Wave:
    """The samples of a file, both channels as one, at `rate`; DataError says what is wrong with it."""
    require_extra("soundfile")
    import soundfile

    _check_bytes(path)
    try:
        with soundfile.SoundFile(str(path)) as file:
            wave, own = _decode(file, path), int(file.samplerate)
    except (soundfile.LibsndfileError, ValueError, ArithmeticError, TypeError) as error:
        why = str(getattr(error, "error_string", error)).strip().rstrip(".").lower()
        if "does not exist" in why:  # what libsndfile says of a damaged mp3: it is there, it was looked at above
            why = "it is damaged, or not what its name says"
        raise DataError(f"is not a sound that can be read: {why}", file=path) from None
    if not len(wave):
        raise DataError("is empty: it has no samples", file=path)
    if not np.isfinite(wave).all():
        raise DataError("has samples that are no numbers", file=path)
    if wave.min() == wave.max():
        raise DataError("is silent: all its samples are the same", file=path)
    return resample(wave, own, rate)


def _decode(file: Any, path: Path) -> Wave:
    """The mean of the channels, block by block: only the samples that are there take memory, whatever the header announces."""
    check_sound(0, file.samplerate, path)
    if 0 < file.frames < UNKNOWN_FRAMES:
        check_sound(file.frames, file.samplerate, path)
    parts, frames = [np.zeros(0, np.float32)], 0
    while len(block := file.read(BLOCK, dtype="float32", always_2d=True)):
        frames += len(block)
        check_sound(frames, file.samplerate, path)
        parts.append(block.mean(1))
    return np.concatenate(parts)


def find_first_rate(table: Table) -> int:
    """Sampling rate of the first readable file; the others are reported when all are read."""
    require_extra("soundfile")
    import soundfile

    for path in table["audio"]:
        try:
            if (rate := int(soundfile.info(path).samplerate)) in SOUND_RATES:
                return rate
        except (soundfile.LibsndfileError, OSError, ValueError):
            continue
    return HIGHEST_RATE


def _check_bytes(path: Path) -> None:
    """Refuse what libsndfile would not: a file that is not there, or a wav that ends before its own header says it does."""
    try:
        with path.open("rb") as file:
            head = file.read(12)
            size = path.stat().st_size
            if not size:
                raise DataError("is empty: it has no bytes", file=path)
            if head[:4] != b"RIFF" or head[8:] != b"WAVE":
                return
            while len(chunk := file.read(8)) == 8:
                name, length = chunk[:4], struct.unpack("<I", chunk[4:])[0]
                if name == b"data":
                    missing = file.tell() + length - size
                    if length not in UNKNOWN_SIZE and missing > 0:
                        raise DataError(
                            f"is cut off: {missing:,} of the {length:,} bytes of sound that its header announces are missing", file=path
                        )
                    return
                file.seek(length + length % 2, 1)
            raise DataError("is cut off: it ends before its sound begins", file=path)
    except FileNotFoundError:
        raise DataError("there is no such file", file=path) from None
    except OSError as error:
        raise DataError(f"cannot be read: {(error.strerror or str(error)).lower()}", file=path) from None


def resample(wave: Wave, own: int, rate: int) -> Wave:
    """The same sound with `rate` samples a second; what a lower rate cannot hold is filtered out first."""
    if own == rate:
        return np.ascontiguousarray(wave)
    from scipy.signal import resample_poly

    common = math.gcd(own, rate)
    found: Any = resample_poly(wave, rate // common, own // common)
    return np.ascontiguousarray(found, dtype=np.float32)


def sound_paths(file: Path, column: str | None) -> list[str]:
    """The sounds that a file stands for: itself, those of a folder, or those that a table names."""
    if file.is_dir() or has_magic(str(file)) or file.suffix.lower() in ENDINGS:
        return [str(path) for path in _sound_files(file)]
    config = DataConfig(train=str(file), columns={"audio": column} if column else {})
    _, rows = sound_rows(config, "train", file, Roles(("audio",), ways={"audio": ASKED}), Tolerance(), [])
    found = []
    for line, (path,) in rows:
        if not path:
            raise DataError("the audio is empty: there is nothing to read", file=file, line=line)
        found.append(path)
    return found
