import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attentif.data.readers import Tolerance, open_reader
from attentif.errors import DataError

ROWS = [("un film", "pos"), ("mal, très\nmal", "neg"), ('il dit "non"', "neg")]


def write(path: Path, content: str | bytes) -> Path:
    raw = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(raw, mtime=0) if path.suffix == ".gz" else raw)
    return path


def rows(path: Path, columns=("text", "label"), skip=0):
    tolerance = Tolerance(skip)
    return list(open_reader(path, tolerance).rows(columns)), tolerance


def quoted(delimiter: str) -> str:
    fields = [("text", "label"), *ROWS]
    return "".join(delimiter.join('"' + value.replace('"', '""') + '"' for value in row) + "\n" for row in fields)


def parquet(path: Path, **columns) -> Path:
    pq.write_table(pa.table(columns), path)
    return write(path, path.read_bytes()) if path.suffix == ".gz" else path


@pytest.mark.parametrize("packed", ["", ".gz"])
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_every_format_gives_the_same_rows(tmp_path, suffix, packed):
    path = tmp_path / f"rows{suffix}{packed}"
    match suffix:
        case ".csv" | ".tsv":
            write(path, quoted("," if suffix == ".csv" else "\t"))
        case ".jsonl":
            write(path, "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in ROWS))
        case ".parquet":
            parquet(path, text=[text for text, _ in ROWS], label=[label for _, label in ROWS])
    found, _ = rows(path)
    assert [tuple(values) for _, values in found] == ROWS


def test_plain_text_is_a_row_a_line(tmp_path):
    found, _ = rows(write(tmp_path / "a.txt.gz", "un\r\ndeux\u2028encore\nthree"), ["line"])
    assert found == [(1, ["un"]), (2, ["deux\u2028encore"]), (3, ["three"])]


def test_lines_are_counted_through_quoted_line_ends_and_empty_lines(tmp_path):
    found, _ = rows(write(tmp_path / "a.csv", 'text,label\n"a\nb\nc",1\n\nd,2\n'))
    assert [line for line, _ in found] == [2, 6]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_of_a_csv_is_recognised_and_said(tmp_path, delimiter):
    reader = open_reader(write(tmp_path / "a.csv", f"id{delimiter}text{delimiter}label\n1{delimiter}bon{delimiter}pos\n"), Tolerance())
    assert reader.columns == ["id", "text", "label"]
    assert {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}[delimiter] in reader.format


def test_a_delimiter_that_cannot_be_told_is_refused(tmp_path):
    with pytest.raises(DataError, match="commas or semicolons"):
        open_reader(write(tmp_path / "a.csv", "a,b;c\n"), Tolerance())


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path, name):
    content = "text,label\nbon,1\n" if name == "a.csv" else '{"text": "bon", "label": "1"}\n'
    assert rows(write(tmp_path / name, b"\xef\xbb\xbf" + content.encode()))[0][0][1] == ["bon", "1"]


def test_very_long_fields_are_read(tmp_path):
    long = "a" * 3_000_000
    assert rows(write(tmp_path / "a.csv", f"text,label\n{long},1\n"))[0] == [(2, [long, "1"])]


def test_json_numbers_and_truth_values_become_text(tmp_path):
    lines = [{"text": "a", "label": value} for value in (1, 1.0, 2.5, True, False)]
    found, _ = rows(write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, lines))))
    assert [values[1] for _, values in found] == ["1", "1", "2.5", "true", "false"]


def test_parquet_numbers_and_truth_values_become_text(tmp_path):
    found, _ = rows(parquet(tmp_path / "a.parquet", text=["a", "b"], label=[True, False]))
    assert [values[1] for _, values in found] == ["true", "false"]


@pytest.mark.parametrize(
    ("name", "content", "line", "message"),
    [
        ("a.csv", "text,label\na,1\nb\n", 3, "1 fields where the header has 2"),
        ("a.csv", "text,label\na,1\nb,2,3\n", 3, "3 fields where the header has 2"),
        ("a.csv", 'text,label\n"x\ny",1\n"a"b,1\n', 4, "text follows a closing quote"),
        (
            "a.csv",
            b"text,label\nbon,1\nd\xe9j\xe0,0\n",
            3,
            r"byte 0xE9 is not UTF-8 \(at byte 1 of the text\); save the file as UTF-8 .* --encoding cp1252",
        ),
        ("a.csv", "text,label\na\0b,1\n", 2, "NUL"),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": \n', 2, "is not valid JSON"),
        ("a.jsonl", '{"text": "a", "label": 1}\n[1]\n', 2, "not an object"),
        ("a.jsonl", '{"text": "a", "label": 1}\n{"text": "b"}\n', 2, "has no 'label'"),
        ("a.jsonl", '{"text": "a", "label": 1}\n\n{"text": ["b"], "label": 1}\n', 3, "holds a list or an object"),
        ("a.jsonl", '{"text": "a", "label": NaN}\n', 1, r"'label' is missing \(NaN\)"),
        ("a.jsonl", '{"text": "a", "label": null}\n', 1, r"'label' is missing \(null\)"),
        ("a.jsonl", '{"text": "\\ud800", "label": 1}\n', 1, "half of a surrogate pair"),
        ("a.jsonl", '{"text": "a", "label": 1}\n' + "[" * 100_000 + "\n", 2, "not usable JSON|not valid JSON"),
    ],
)
def test_a_bad_row_is_named_by_file_and_line(tmp_path, name, content, line, message):
    path = write(tmp_path / name, content)
    with pytest.raises(DataError, match=message) as error:
        rows(path)
    assert (error.value.file, error.value.line) == (path, line)


def test_two_columns_of_one_name_in_a_parquet_file_are_told_apart_from_a_missing_header(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table([pa.array(["a"]), pa.array(["b"])], names=["text", "text"]), tmp_path / "a.parquet")
    with pytest.raises(DataError, match=r"a\.parquet:.*'text'"):
        rows(tmp_path / "a.parquet")


def test_bad_bytes_in_a_column_that_nobody_reads_do_not_matter(tmp_path):
    path = write(tmp_path / "a.csv", b"text,label,author\nbon,1,Ren\xe9\n")
    assert rows(path)[0] == [(2, ["bon", "1"])]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "is empty"),
        ("a.csv.gz", b"", "is empty"),
        ("a.csv", gzip.compress(b"text,label\n", mtime=0), "is gzipped though its name"),
        ("a.csv", b"PAR1....", "is a Parquet file"),
        ("a.csv", b"PK\x03\x04....", "spreadsheet"),
        ("a.csv", b"text,text\na,b\n", "two columns are called 'text'"),
        ("a.csv", b'text,label\na,1\n"b,2\nc,3\n', "never closed"),
        ("a.csv", b"\n\na,b\n", "the first line is empty"),
        ("a.jsonl", b"\n \n", "has no rows"),
        ("a.jsonl", b"text,label\na,b\n", ":1: is not valid JSON"),
        ("a.json", b'[{"text": "a"}]', "a JSON list"),
        ("a.parquet", b"PAR1 but nothing else", "is not a readable Parquet file"),
    ],
)
def test_a_file_that_cannot_be_read_is_never_tolerated(tmp_path, name, content, message):
    with pytest.raises(DataError, match=message):
        rows(write(tmp_path / name, content), skip=100)


def test_any_damage_to_a_parquet_file_is_a_data_error_or_does_not_matter(tmp_path):
    path = parquet(tmp_path / "a.parquet", text=[f"avis {i}" for i in range(50)], label=[i % 2 for i in range(50)])
    raw = path.read_bytes()
    failures = 0
    for place in range(0, len(raw), 3):
        path.write_bytes(raw[:place] + bytes([raw[place] ^ 0x80]) + raw[place + 1 :])
        try:
            rows(path, skip=100)
        except DataError:
            failures += 1
    assert failures > 10


def test_a_gzip_file_cut_short_is_said(tmp_path):
    whole = gzip.compress("\n".join(["text,label", *(f"{i * 7919 % 99991},1" for i in range(20_000))]).encode())
    (tmp_path / "a.csv.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"cut short after [\d,]+ lines"):
        rows(tmp_path / "a.csv.gz", skip=100)


def test_what_only_claims_to_be_gzip_is_said(tmp_path):
    (tmp_path / "a.csv.gz").write_bytes(b"text,label\na,1\n")
    with pytest.raises(DataError, match="gzip file"):
        rows(tmp_path / "a.csv.gz")


def test_a_missing_file_and_a_folder_are_said(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        rows(tmp_path / "none.csv")
    with pytest.raises(DataError, match="is a folder"):
        rows(tmp_path)


def test_as_many_bad_rows_as_allowed_are_skipped_and_said(tmp_path):
    path = write(tmp_path / "a.csv", "text,label\na,1\nb\nc\nd,1\n")
    found, tolerance = rows(path, skip=2)
    assert [values[0] for _, values in found] == ["a", "d"]
    assert tolerance.notes == [f"2 bad rows skipped: {path}:3: 1 fields where the header has 2; {path}:4: 1 fields where the header has 2"]
    with pytest.raises(DataError, match="after 1 skipped, as allowed") as error:
        rows(path, skip=1)
    assert error.value.line == 4


@pytest.mark.parametrize("name", ["a.csv.zst", "a.jsonl.zstd", "a.txt.zst"])
def test_zstd_reads_as_the_file_that_was_packed(tmp_path, name):
    import pyarrow

    lines = {"csv": "text\nun\ndeux\n", "jsonl": '{"text": "un"}\n{"text": "deux"}\n', "txt": "un\ndeux\n"}[name.split(".")[1]]
    path = tmp_path / name
    path.write_bytes(pyarrow.compress(lines.encode(), "zstd", asbytes=True))
    reader = open_reader(path, Tolerance())
    assert [values for _, values in reader.rows(["line" if ".txt" in name else "text"])] == [["un"], ["deux"]]


def test_a_damaged_zstd_file_is_one_error_that_names_it(tmp_path):
    import pyarrow

    whole = pyarrow.compress(b"text\n" + b"un film\n" * 5000, "zstd", asbytes=True)
    path = tmp_path / "a.csv.zst"
    for raw in (whole[: len(whole) // 2], b"\x00" * 64, whole[:8] + bytes([whole[8] ^ 255]) + whole[9:]):
        path.write_bytes(raw)
        with pytest.raises(DataError) as error:
            list(open_reader(path, Tolerance()).rows(["text"]))
        assert error.value.file == path
