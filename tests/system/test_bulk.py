"""Files of many rows are answered row by row: columns are kept, bad rows listed, interruptions survived."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from terminal import Done

import attentif.bulk
import attentif.data.answer_file
from attentif import load
from attentif.data.answer_file import AnswerFile

pytestmark = pytest.mark.system

ROWS = [(f"n{n}", f"le film numéro {n} est {word}", n) for n in range(20) for word in ("superbe", "raté", "creux")]


@pytest.fixture
def table(tmp_path: Path, trained: object, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sixty rows, answered in chunks of 8, each of them journalled."""
    for name, size in (("CHUNK", 8), ("FIRST", 4)):
        monkeypatch.setattr(attentif.bulk, name, size)
    monkeypatch.setattr(attentif.data.answer_file, "EVERY", 0.0)
    return write(tmp_path / "lot.csv", ROWS)


def write(path: Path, rows: list[tuple[str, str, int]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("id", "avis", "note"), *rows])
    return path


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_answer_stands_beside_all_columns_of_its_row(table: Path, typed: Callable[..., Done]) -> None:
    out = table.with_name("reponses.csv")
    assert typed("predict", "runs/classify", "--file", str(table), "--out", str(out)).code == 0
    expected = load("runs/classify").predict([text for _, text, _ in ROWS])
    for row, (name, text, note), answer in zip(read(out), ROWS, expected, strict=True):
        assert (row["id"], row["avis"], row["note"], row["output"]) == (name, text, str(note), answer.output)
        assert float(row["probability"]) == pytest.approx(answer.probability, abs=1e-5)
    assert {file.name for file in table.parent.iterdir()} == {"lot.csv", "reponses.csv"}


def test_columns_to_keep_are_chosen(table: Path, typed: Callable[..., Done]) -> None:
    out = table.with_name("reponses.jsonl")
    assert typed("predict", "runs/classify", "--file", str(table), "--out", str(out), "--keep", "id").code == 0
    assert [*json.loads(out.read_text().splitlines()[0])] == ["id", "input", "output", "probability", "scores", "details"]
    none = table.with_name("sans.csv")
    assert typed("predict", "runs/classify", "--file", str(table), "--out", str(none), "--keep", "").code == 0
    assert [*read(none)[0]][:3] == ["input", "output", "probability"]
    done = typed("predict", "runs/classify", "--file", str(table), "--out", str(table.with_name("x.csv")), "--keep", "idd")
    assert (done.code, "did you mean 'id'" in done.err) == (2, True)


def test_a_column_called_output_keeps_its_name(tmp_path: Path, typed: Callable[..., Done]) -> None:
    (tmp_path / "t.csv").write_text("avis,output\nsuperbe,12\n")
    assert typed("predict", "runs/classify", "--file", str(tmp_path / "t.csv"), "--out", str(tmp_path / "o.csv")).code == 0
    (row,) = read(tmp_path / "o.csv")
    assert row["output"] == "12"
    assert row["answer_output"] in ("positif", "négatif")


def test_bad_rows_are_skipped_as_far_as_allowed_and_listed(table: Path, typed: Callable[..., Done]) -> None:
    text = table.read_text().splitlines()
    text[10], text[30] = "x10,,3", "x30,trop,de,champs"
    table.write_text("\n".join(text) + "\n")
    out = table.with_name("reponses.csv")
    done = typed("predict", "runs/classify", "--file", str(table), "--out", str(out), "--skip-bad", "2")
    assert done.code == 0
    assert "2 bad rows skipped" in done.err
    assert f"{table}:11: " in done.err
    assert f"{table}:31: " in done.err
    assert len(read(out)) == len(ROWS) - 2
    again = table.with_name("encore.csv")
    done = typed("predict", "runs/classify", "--file", str(table), "--out", str(again), "--skip-bad", "1")
    assert (done.code, f"{table}:31: " in done.err) == (1, True)
    assert not again.exists()
    assert typed("predict", "runs/classify", "--file", str(table), "--out", str(again)).code == 2  # part of it is there
    done = typed("predict", "runs/classify", "--file", str(table), "--out", str(again), "--skip-bad", "2", "--resume")
    assert done.code == 0
    assert again.read_text() == out.read_text()


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_an_interrupted_command_goes_on_with_the_next_row(
    table: Path, typed: Callable[..., Done], monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    whole, out = table.with_name(f"tout.{suffix}"), table.with_name(f"reponses.{suffix}")
    words = ("predict", "runs/classify", "--file", str(table), "--out")
    assert typed(*words, str(whole)).code == 0
    saved, count = AnswerFile.save, iter(range(100))

    def killed(self: AnswerFile) -> None:
        if next(count) == 3:  # rows are on the disk that the journal does not know: as after a power cut
            self.file.flush()
            monkeypatch.setattr(AnswerFile, "save", lambda self: None)
            raise KeyboardInterrupt
        saved(self)

    monkeypatch.setattr(AnswerFile, "save", killed)
    assert typed(*words, str(out)).code == 130
    monkeypatch.setattr(AnswerFile, "save", saved)
    assert not out.exists()
    assert typed(*words, str(out)).code == 2
    assert typed(*words, str(out), "--keep", "id", "--resume").code == 2  # another job
    assert typed(*words, str(out), "--resume").code == 0
    assert out.read_bytes() == whole.read_bytes()
    assert not list(table.parent.glob(".*"))
    assert typed(*words, str(out), "--resume").code == 2  # nothing to go on with


def test_rows_go_to_stdout_where_no_file_is_named(table: Path, typed: Callable[..., Done]) -> None:
    found = json.loads(typed("predict", "runs/classify", "--file", str(table), "--json").out)
    assert [row["id"] for row in found] == [name for name, _, _ in ROWS]
    shown = typed("predict", "runs/classify", "--file", str(table)).out
    assert shown.count("probabilities") == 1
    assert shown.count("le film") == len(ROWS)
