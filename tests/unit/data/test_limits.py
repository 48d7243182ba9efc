"""A small file cannot ask for much: what its header announces is checked before memory is spent on it."""

import gzip
import io
import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attentif import limits
from attentif.data.audio import read_sound
from attentif.data.config import DataConfig
from attentif.data.corpus import file_corpus
from attentif.data.picture_files import entries_of, read_idx
from attentif.data.readers import Tolerance, open_reader
from attentif.data.squad import read_squad
from attentif.errors import DataError, UsageError
from attentif.text.vectors import read_vectors

RATIO = limits.UNPACK_RATIO.variable
SECONDS = limits.SOUND_SECONDS.variable


@pytest.fixture(autouse=True)
def _default_limits(monkeypatch):
    monkeypatch.setattr(limits, "SMALL", 1_000_000)
    monkeypatch.delenv(RATIO, raising=False)
    monkeypatch.delenv(SECONDS, raising=False)


def wav(path: Path, rate: int, samples: int = 16_000) -> Path:
    raw = (np.arange(samples) % 100 * 50).astype("<i2").tobytes()
    head = b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, rate, min(rate * 2, 2**32 - 1), 2, 16) + b"data" + struct.pack("<I", len(raw))
    path.write_bytes(b"RIFF" + struct.pack("<I", len(head) + len(raw)) + head + raw)
    return path


@pytest.mark.parametrize("rate", [1, 99, 1_000_003, 2**31 - 1])
def test_a_sound_whose_rate_no_recorder_has_is_refused_without_memory(tmp_path, rate):
    path = wav(tmp_path / "a.wav", rate)
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match=r"a\.wav: .*samples a second"):
            read_sound(path, 16_000)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_a_flac_that_announces_days_is_refused_by_its_header(tmp_path):
    import soundfile

    path = tmp_path / "a.flac"
    soundfile.write(path, np.sin(np.arange(8000) / 9).astype(np.float32), 8000)
    raw = bytearray(path.read_bytes())
    at = raw.index(b"fLaC") + 8 + 13  # STREAMINFO: the last 36 bits of these 8 bytes are the number of samples
    raw[at : at + 5] = bytes([raw[at] | 0x0F, 255, 255, 255, 255])
    path.write_bytes(raw)
    with pytest.raises(DataError, match=rf"a\.flac: .*longer.*{SECONDS}"):
        read_sound(path, 16_000)


def test_a_long_sound_is_read_where_the_limit_is_raised(tmp_path, monkeypatch):
    path = wav(tmp_path / "a.wav", 8000)
    monkeypatch.setenv(SECONDS, "1")
    with pytest.raises(DataError, match=SECONDS):
        read_sound(path, 8000)
    monkeypatch.setenv(SECONDS, "2")
    assert len(read_sound(path, 8000)) == 16_000


READERS = {
    "a.txt.gz": lambda path: list(open_reader(path, Tolerance()).rows(["line"])),
    "a.csv.gz": lambda path: list(open_reader(path, Tolerance()).rows(["text"])),
    "a.jsonl.gz": lambda path: list(open_reader(path, Tolerance()).rows(["text"])),
    "a.parquet.gz": lambda path: open_reader(path, Tolerance()),
    "a.json.gz": lambda path: list(read_squad(path)),
    "corpus.txt.gz": lambda path: list(file_corpus([path])),
    "a.vec.gz": read_vectors,
    "images-idx3-ubyte.gz": read_idx,
}


@pytest.mark.parametrize("name", READERS)
def test_a_gzip_bomb_is_refused_by_every_reader(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress((b"mot 1.5\n" if ".vec" in name else b"") + b" " * 30_000_000, 9))
    with pytest.raises(DataError, match=rf"{name}: .*unpacked.*{RATIO}"):
        READERS[name](path)


def test_a_file_that_packs_well_is_read_where_the_limit_is_raised(tmp_path, monkeypatch):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"encore\n" * 1_000_000, 9))
    monkeypatch.setenv(RATIO, "2000")
    assert sum(1 for _ in open_reader(path, Tolerance()).rows(["line"])) == 1_000_000


@pytest.mark.parametrize("given", ["many", "0", "-3", "1e6", "9" * 30])
def test_a_limit_that_is_no_number_is_refused(monkeypatch, given):
    monkeypatch.setenv(RATIO, given)
    with pytest.raises(UsageError, match=RATIO):
        limits.largest_unpacked(1)


def test_a_parquet_of_many_equal_rows_is_refused_by_its_header(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": pa.array(["a"] * 2_000_000).dictionary_encode()}), path)
    assert path.stat().st_size < 100_000
    with pytest.raises(DataError, match=rf"a\.parquet: .*2,000,000 rows.*{RATIO}"):
        open_reader(path, Tolerance())


def test_a_parquet_page_that_unpacks_to_much_is_refused_by_its_header(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a" * 20_000_000]}), path, compression="zstd")
    with pytest.raises(DataError, match=rf"a\.parquet: .*unpacked.*{RATIO}"):
        open_reader(path, Tolerance())


def entries(path: Path):
    return entries_of(path, DataConfig(train=str(path)), Tolerance(), [])


def npy(shape: str, content: bytes) -> bytes:
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}}}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + content


def test_an_npz_that_announces_more_than_it_holds_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x.npy", npy("(100000000000, 28, 28)", bytes(100)))
        archive.writestr("y.npy", npy("(100,)", bytes(100)))
    with pytest.raises(DataError, match=r"a\.npz: .*announces"):
        entries(path)


def test_an_npz_bomb_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=np.zeros((20_000, 28, 28), np.uint8), y=np.zeros(20_000, np.uint8))
    with pytest.raises(DataError, match=rf"a\.npz: .*unpacked.*{RATIO}"):
        entries(path)


def test_an_npz_that_is_encrypted_or_packed_otherwise_is_refused(tmp_path):
    buffer = io.BytesIO()
    np.savez(buffer, x=np.zeros((2, 3, 3), np.uint8), y=np.array([0, 1]))
    plain = buffer.getvalue()
    with zipfile.ZipFile(tmp_path / "lzma.npz", "w", zipfile.ZIP_LZMA) as out, zipfile.ZipFile(buffer) as stored:
        for name in stored.namelist():
            out.writestr(name, stored.read(name))
    entry = plain.index(b"PK\x01\x02")
    (tmp_path / "secret.npz").write_bytes(plain[: entry + 8] + b"\x01" + plain[entry + 9 :])
    (tmp_path / "zstd.npz").write_bytes(plain[: entry + 10] + struct.pack("<H", 93) + plain[entry + 12 :])
    for name, said in (("lzma", "compressed"), ("secret", "encrypted"), ("zstd", "compressed")):
        with pytest.raises(DataError, match=rf"{name}\.npz: .*{said}"):
            entries(tmp_path / f"{name}.npz")
