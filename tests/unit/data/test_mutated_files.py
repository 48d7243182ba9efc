"""Damaged files of every format: whatever bytes they hold, a reader gives rows or one line that says what is wrong.

The mutations are drawn from a seed: bytes flipped, removed, repeated, overwritten by awkward values, and files cut short.
"""

import gzip
import io
import json
import random
import warnings
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from attentif.data.audio import read_sound
from attentif.data.columns import ANSWER, CLASSIFY, TAG
from attentif.data.config import DataConfig
from attentif.data.conll import read_tagged_rows
from attentif.data.corpus import file_corpus
from attentif.data.images import Frame, load_picture_rows, open_picture
from attentif.data.load import load_rows
from attentif.data.multi_label import several_rows
from attentif.data.series import load_series
from attentif.data.series_rows import Wanted
from attentif.data.signals import SIGNAL, open_signals
from attentif.data.squad import squad_rows
from attentif.errors import AttentifError, DataError
from attentif.text.judgements import read_analogies, read_similarity
from attentif.text.vectors import read_vectors

MUTATIONS = 200
AWKWARD = [
    b"\0", b"\xff", b"\xed\xa0\x80", b"\\ud800", b"\x1b[31m", b"\n", b'"', b",", b"{", b"]", b"null", b"NaN", b"1e999", b"9" * 5000, b"-1",
    b"9999-12-31T23:59:59-23:59", b"0001-01-01T00:00:00+23:59", b"[" * 3000, b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0",
]  # fmt: skip

TEXTS = ["un film très bon", "mal, très mal", "il dit non", "oui"]
LABELS = ["pos", "neg", "neg", "pos"]
TABLE = {"text": TEXTS, "label": LABELS}
HOURS = [datetime(2024, 1, 1) + timedelta(hours=hour) for hour in range(6)]


def csv(columns: dict[str, list]) -> bytes:
    return "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in [tuple(columns), *zip(*columns.values(), strict=True)]).encode()


def jsonl(columns: dict[str, list]) -> bytes:
    rows = zip(*columns.values(), strict=True)
    return "".join(json.dumps(dict(zip(columns, row, strict=True)), default=str) + "\n" for row in rows).encode()


def parquet(columns: dict[str, object], **options: object) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.table(columns), buffer, **options)
    return buffer.getvalue()


def npz(**arrays: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def picture(form: str) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray((np.arange(192) % 251).astype(np.uint8).reshape(8, 8, 3)).save(buffer, form)
    return buffer.getvalue()


def sound(form: str) -> bytes:
    import soundfile

    buffer = io.BytesIO()
    soundfile.write(buffer, np.sin(np.arange(2000) / 7).astype(np.float32), 8000, format=form)
    return buffer.getvalue()


def squad() -> bytes:
    asked = [{"id": "1", "question": "Qui ?", "answers": [{"text": "Ada", "answer_start": 0}]}, {"question": "Où ?", "answers": []}]
    return json.dumps({"data": [{"title": "t", "paragraphs": [{"context": "Ada est à Paris.", "qas": asked}]}]}, indent=1).encode()


def read_table(path: Path) -> None:
    load_rows(DataConfig(train=str(path)), CLASSIFY)


def read_with(open_rows: Callable, roles) -> Callable[[Path], object]:
    return lambda path: load_rows(DataConfig(train=str(path)), roles, open_rows=open_rows)


def read_pictures(path: Path) -> None:
    load_picture_rows(DataConfig(train=str(path)), Frame())


def read_series(path: Path) -> None:
    load_series(DataConfig(train=str(path), columns={"series": "who"}), Wanted(fill="linear"))[0].digest  # noqa: B018


SERIES = {"date": HOURS, "who": ["a"] * 6, "value": [1.0, 2.5, 3.0, 4.0, 5.5, 6.0]}
NANOSECONDS = {**SERIES, "date": pa.array([hour.isoformat() for hour in HOURS]).cast(pa.timestamp("ns"))}
SIGNALS = {"signal": [[0.1, 0.2, 0.3]] * 2, "label": ["a", "b"]}
SEVERAL = {"text": TEXTS, "labels": [["a", "b"], [], ["b"], ["a"]]}
IDX = b"\0\0\x08\x03" + b"".join(size.to_bytes(4, "big") for size in (3, 4, 4)) + bytes(range(48))
CONLL = b"Ada\tB-PER\nest\tO\n\nParis\tB-LOC\n.\tO\n"
BINARY = b"2 3\n" + b"".join(word + b" " + np.arange(3, dtype="<f4").tobytes() + b"\n" for word in (b"chat", b"chien"))

CASES: dict[str, tuple[bytes, Callable[[Path], object]]] = {
    "a.csv": (csv(TABLE), read_table),
    "a.csv.gz": (csv(TABLE), read_table),
    "a.tsv": (csv(TABLE).replace(b",", b"\t"), read_table),
    "a.jsonl": (jsonl(TABLE), read_table),
    "a.parquet": (parquet(TABLE), read_table),
    "zstd.parquet": (parquet(TABLE, compression="zstd", use_dictionary=False), read_table),
    "a.parquet.gz": (parquet(TABLE), read_table),
    "a.txt": ("\n".join(TEXTS).encode(), lambda path: list(file_corpus([path], blank_lines=True))),
    "a.txt.gz": ("\n".join(TEXTS).encode(), lambda path: list(file_corpus([path]))),
    "a.conll": (CONLL, read_with(read_tagged_rows, TAG)),
    "tags.jsonl": (jsonl({"tokens": [["Ada", "est"]] * 2, "tags": [["B-PER", "O"]] * 2}), read_with(read_tagged_rows, TAG)),
    "squad.json": (squad(), read_with(squad_rows, ANSWER)),
    "several.jsonl": (jsonl(SEVERAL), lambda path: several_rows(DataConfig(train=str(path)), ";")),
    "several.csv": (csv({"text": TEXTS, "labels": ["a;b", "", "b", "a"]}), lambda path: several_rows(DataConfig(train=str(path)), ";")),
    "several.parquet": (parquet(SEVERAL), lambda path: several_rows(DataConfig(train=str(path)), ";")),
    "signals.jsonl": (jsonl(SIGNALS), read_with(open_signals, SIGNAL)),
    "signals.csv": (csv({"a": [1, 2], "b": [2, 3], "label": ["x", "y"]}), read_with(open_signals, SIGNAL)),
    "signals.parquet": (parquet(SIGNALS), read_with(open_signals, SIGNAL)),
    "series.csv": (csv(SERIES), read_series),
    "series.jsonl": (jsonl(SERIES), read_series),
    "series.parquet": (parquet(SERIES), read_series),
    "nanoseconds.parquet": (parquet(NANOSECONDS), read_series),
    "glove.txt": (b"chat 0.5 1 2\nchien 3 4 -5e-3\n", read_vectors),
    "word2vec.vec": (b"2 3\nchat 0.5 1 2\nchien 3 4 -5e-3\n", read_vectors),
    "word2vec.bin": (BINARY, read_vectors),
    "word2vec.bin.gz": (BINARY, read_vectors),
    "similarity.txt": (b"chat\tchien\t7.5\nchat\tvoiture\t1\n", read_similarity),
    "analogies.txt": (b": famille\nroi reine homme femme\n", read_analogies),
    "a.npz": (npz(x=np.arange(64, dtype=np.uint8).reshape(4, 4, 4), y=np.array([0, 1, 0, 1])), read_pictures),
    "images-idx3-ubyte": (IDX, read_pictures),
    "images-idx3-ubyte.gz": (IDX, read_pictures),
    "pictures.parquet": (parquet({"image": [picture("PNG")] * 2, "label": ["a", "b"]}), read_pictures),
    "a.png": (picture("PNG"), lambda path: open_picture(path, Frame())),
    "a.jpg": (picture("JPEG"), lambda path: open_picture(path, Frame(3, 4, 4))),
    "a.gif": (picture("GIF"), lambda path: open_picture(path, Frame())),
    "a.tiff": (picture("TIFF"), lambda path: open_picture(path, Frame())),
    "a.bmp": (picture("BMP"), lambda path: open_picture(path, Frame())),
    "a.webp": (picture("WEBP"), lambda path: open_picture(path, Frame())),
    "a.wav": (sound("WAV"), lambda path: read_sound(path, 16_000)),
    "a.flac": (sound("FLAC"), lambda path: read_sound(path, 16_000)),
    "a.ogg": (sound("OGG"), lambda path: read_sound(path, 16_000)),
    "a.mp3": (sound("MP3"), lambda path: read_sound(path, 16_000)),
}  # fmt: skip


def mutate(raw: bytes, rng: random.Random) -> bytes:
    content = bytearray(raw)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(content) + 1)
        match rng.randrange(6):
            case 0:
                content[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                del content[at : at + rng.randrange(1, 20)]
            case 2:
                content[at:at] = content[max(0, at - rng.randrange(1, 40)) : at]
            case 3:
                content[at:at] = rng.choice(AWKWARD)
            case 4:
                value = rng.choice(AWKWARD)
                content[at : at + len(value)] = value
            case 5:
                del content[at:]
    return bytes(content)


@pytest.mark.parametrize("name", CASES)
def test_a_mutated_file_is_read_or_refused_in_one_line(tmp_path, name):
    raw, read = CASES[name]
    path = tmp_path / name
    path.write_bytes(gzip.compress(raw, mtime=0) if path.suffix == ".gz" else raw)
    (tmp_path / "labels-idx1-ubyte").write_bytes(b"\0\0\x08\x01\0\0\0\x03\0\1\2")
    read(path)  # the file itself is sound
    whole, rng = path.read_bytes(), random.Random(name)
    messages = []
    for number in range(MUTATIONS):
        packed = path.suffix == ".gz" and number % 2  # half of the mutations are inside of the gzip file
        mutated = gzip.compress(mutate(raw, rng), mtime=0) if packed else mutate(whole, rng)
        path.write_bytes(mutated)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                read(path)
            except AttentifError as error:
                messages.append(str(error))
            except Exception as error:
                pytest.fail(f"mutation {number} raised {type(error).__name__}: {str(error)[:300]}\n{mutated[:400]!r}")
    assert len(messages) > MUTATIONS // 20
    assert [said for said in messages if str(path) not in said or len(said.splitlines()) != 1] == []


def test_times_in_nanoseconds_are_read(tmp_path):
    path = tmp_path / "a.parquet"
    odd = pa.array([1_700_000_000_000_000_001 + hour * 3_600_000_000_000 for hour in range(6)]).cast(pa.timestamp("ns"))
    path.write_bytes(parquet({**SERIES, "date": odd}))
    series, _ = load_series(DataConfig(train=str(path), columns={"series": "who"}), Wanted())
    assert series.when(series.dates[0]) == "2023-11-14 22:13:20"


FAR = [10**12, *(3600 * hour for hour in range(5))]  # seconds; the first is in the year 33658


@pytest.mark.parametrize(
    "dates",
    [
        pa.array(FAR).cast(pa.timestamp("s")),
        pa.array([10**7, *range(5)], pa.int32()).cast(pa.date32()),
        pa.array([10**15, *(86_400_000 * day for day in range(5))]).cast(pa.date64()),
        pa.array([9.2e18, 0, 1, 2, 3, 4]).cast(pa.int64()).cast(pa.duration("s")),
    ],
    ids=lambda array: str(array.type),
)
def test_a_far_date_is_a_bad_row_of_its_file(tmp_path, dates):
    path = tmp_path / "a.parquet"
    path.write_bytes(parquet({**SERIES, "date": dates}))
    with pytest.raises(DataError, match=r"a\.parquet:1: .*(range|no date)"):
        read_series(path)


def test_a_text_that_is_not_utf8_is_a_bad_row_of_a_parquet_file(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(parquet({"text": pa.array([b"bon", b"\xff", b"mal"]).view(pa.string()), "label": ["a", "b", "c"]}))
    with pytest.raises(DataError, match=r"a\.parquet:2: 'text' .*UTF-8"):
        read_table(path)
    table, notes = load_rows(DataConfig(train=str(path), skip_bad=1), CLASSIFY)
    assert table["text"] == ["bon", "mal"]
    assert "1 bad row" in notes[-1]


@pytest.mark.parametrize("number", ["9" * 400, "-" + "9" * 400, "9" * 5000])
def test_a_giant_integer_is_a_bad_row_of_its_file(tmp_path, number):
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(SERIES).replace(b"2.5", number.encode()))
    with pytest.raises(DataError, match=r"a\.jsonl:2: .*(infinite|JSON)"):
        read_series(path)


@pytest.mark.parametrize("damage", ["cut", "flipped", "plain", "trailer"])
def test_damaged_gzipped_vectors_are_refused_with_their_file(tmp_path, damage):
    path = tmp_path / "a.vec.gz"
    raw = gzip.compress(b"".join(f"mot{number} {number / 7} {number / 3}\n".encode() for number in range(5000)), mtime=0)
    path.write_bytes(
        {"cut": raw[:-9], "flipped": raw[:2000] + b"\xff" * 50 + raw[2050:], "plain": b"mot 1 2\n", "trailer": raw[:-4]}[damage]
    )
    with pytest.raises(DataError, match=r"a\.vec\.gz: .*gzip"):
        read_vectors(path)


@pytest.mark.parametrize("content", ['{"text": "\\ud800", "label": "a"}', '{"\\ud800": 1, "text": "b", "label": "a"}'])
def test_half_of_a_surrogate_pair_is_refused_at_its_line(tmp_path, content):
    path = tmp_path / "a.jsonl"
    path.write_text(content + "\n")
    with pytest.raises(DataError, match=r"a\.jsonl:1: .*surrogate"):
        read_table(path)


def test_a_header_longer_than_a_field_of_csv_may_be_is_read(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(csv({**TABLE, "x" * 200_000: [1, 2, 3, 4]}))
    assert read_table(path) is None
