"""The texts of a file in order, and vectors of them that come back as they were written."""

import csv

import numpy as np
import pytest
from safetensors import safe_open

from attentif.data.sentences import Sentences, check_vectors_path, read_sentences
from attentif.data.vector_file import VectorFile
from attentif.errors import DataError, UsageError


def test_blank_lines_of_plain_text_are_passed_over_and_counted(tmp_path):
    file = tmp_path / "a.txt"
    file.write_text("un\n\n  \ndeux\n")
    assert read_sentences(file) == Sentences(["un", "deux"], [1, 4], 2)


def test_a_column_is_named_or_detected(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text('id,avis,ville\n1,"bon, très",Lyon\n2,mauvais,Paris\n')
    assert read_sentences(file).texts == ["bon, très", "mauvais"]
    assert read_sentences(file, "ville") == Sentences(["Lyon", "Paris"], [2, 3])


@pytest.mark.parametrize(
    ("name", "content", "column", "error", "message"),
    [
        ("a.csv", "avis\nbon\n \n", None, DataError, r"a\.csv:3: the text is empty"),
        ("a.csv", "id\n1\n", None, DataError, "no column looks like the text; name it: --text NAME"),
        ("a.csv", "avis\nbon\n", "avi", DataError, "no column is called 'avi'"),
        ("a.txt", "\n\n", None, DataError, "holds no text"),
        ("a.txt", "bon\n", "avis", UsageError, "is plain text, and has no column 'avis'"),
    ],
)
def test_a_file_without_texts_is_refused_in_one_line(tmp_path, name, content, column, error, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(error, match=message):
        read_sentences(tmp_path / name, column)


def test_vectors_come_back_as_they_were_written(tmp_path):
    vectors = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    texts = Sentences(['un, "deux"\ntrois', "quatre"], [1, 4])
    for suffix in (".npz", ".safetensors", ".csv"):
        with VectorFile.create(tmp_path / f"v{suffix}", "job") as file:
            file.append(texts.lines[:1], texts.texts[:1], vectors[:1])
            file.append(texts.lines[1:], texts.texts[1:], vectors[1:])
            file.complete({"pooling": "mean"})
    with np.load(tmp_path / "v.npz", allow_pickle=False) as found:
        np.testing.assert_array_equal(found["vectors"], vectors)
        assert found["lines"].tolist() == [1, 4]
    with safe_open(tmp_path / "v.safetensors", "np") as found:
        np.testing.assert_array_equal(found.get_tensor("vectors"), vectors)
        assert found.metadata() == {"pooling": "mean"}
    with (tmp_path / "v.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["line", "text", "v1", "v2", "v3"]
    assert [row[1] for row in rows[1:]] == texts.texts
    np.testing.assert_array_equal(np.array([row[2:] for row in rows[1:]], np.float32), vectors)
    assert {file.name for file in tmp_path.iterdir()} == {"v.npz", "v.safetensors", "v.csv"}


@pytest.mark.parametrize("suffix", [".npz", ".safetensors", ".csv"])
def test_vectors_that_were_interrupted_go_on_where_they_stopped(tmp_path, suffix):
    vectors = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    path, texts = tmp_path / f"v{suffix}", [f"texte {number}" for number in range(6)]

    def write(file, rows):
        for row in rows:
            file.append([row + 1], [texts[row]], vectors[row : row + 1])
            file.save()

    with VectorFile.create(tmp_path / f"whole{suffix}", "job") as file:
        write(file, range(6))
        file.complete({})
    killed = VectorFile.create(path, "job")
    write(killed, range(4))
    killed.file.write(b"half a record")
    killed.file.close()
    with VectorFile.resume(path, "job") as file:
        assert file.journal.line == 4
        write(file, range(4, 6))
        file.complete({})
    assert path.read_bytes() == (tmp_path / f"whole{suffix}").read_bytes()
    with pytest.raises(UsageError, match="nothing to resume"):
        VectorFile.resume(path, "job")


def test_a_format_that_is_not_known_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"vectors are written to \.npz, \.safetensors, \.csv"):
        check_vectors_path(tmp_path / "v.pkl")
