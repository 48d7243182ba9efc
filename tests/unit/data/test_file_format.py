"""Files that are not UTF-8, and Excel workbooks; what a file asks to be said is said at once."""

import pytest

from attentif.config import Document, Layer
from attentif.data.config import DataConfig
from attentif.data.corpus import file_corpus
from attentif.data.excel import Excel
from attentif.data.file_format import describe_file, list_missing_settings
from attentif.data.load import load_rows
from attentif.data.readers import Tolerance, open_reader
from attentif.data.series import load_series
from attentif.data.series_rows import Wanted
from attentif.errors import AttentifError, DataError

TABLE = "texte;étiquette\ndéjà vu, « bien »;1\nœuvre à 3 €;0\n"


def read(path, columns=None):
    reader = open_reader(path, Tolerance())
    return [values for _, values in reader.rows(columns or reader.columns)]


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-16-le", "utf-8-sig"])
def test_a_table_of_another_encoding_is_read_as_its_utf8_twin(tmp_path, encoding):
    path = describe_file(tmp_path / "avis.csv", encoding)
    path.write_bytes(TABLE.encode(encoding))
    assert read(path) == [["déjà vu, « bien »", "1"], ["œuvre à 3 €", "0"]]
    assert open_reader(path, Tolerance()).columns == ["texte", "étiquette"]


def test_utf_16_with_its_mark_needs_no_word(tmp_path):
    path = tmp_path / "avis.csv"
    path.write_bytes(TABLE.encode("utf-16"))
    assert read(path)[0] == ["déjà vu, « bien »", "1"]


def test_the_encoding_of_the_configuration_reaches_tables_and_corpora(tmp_path):
    from attentif.data import CLASSIFY

    path = tmp_path / "avis.csv"
    path.write_bytes(TABLE.encode("latin-1", errors="replace"))
    values = {"train": str(path), "encoding": "latin-1", "text": "texte", "label": "étiquette"}
    table, _ = load_rows(Document([Layer(values, "data")]).build(DataConfig), CLASSIFY)
    assert table["text"][0] == "déjà vu, « bien »"
    text = tmp_path / "texte.txt"
    text.write_bytes("Un été à la mer.\nŒuvre.\n".encode("cp1252"))
    assert "".join(file_corpus([describe_file(text, "cp1252")], None, 0).texts()).split("\n")[:2] == ["Un été à la mer.", "Œuvre."]


def test_a_wrong_or_unknown_encoding_is_one_line(tmp_path):
    path = describe_file(tmp_path / "avis.csv", "cp1252")
    path.write_bytes(b"text,label\n\x81,1\n")
    with pytest.raises(DataError, match=r"0x81.*--encoding"):
        read(path)
    with pytest.raises(AttentifError, match=r"klingon.*cp1252"):
        Document([Layer({"train": "a.csv", "encoding": "klingon"}, "data")]).build(DataConfig)


def test_all_that_a_table_asks_for_is_listed_at_once(tmp_path):
    path = tmp_path / "mesures.csv"
    path.write_bytes("jour;Température\n13/01/2024;1,5\n14/01/2024;2,5\n".encode("cp1252"))
    found = list_missing_settings(path, decimal=True, dates=True)
    assert "--encoding cp1252" in found
    assert "task.decimal=comma" in found
    assert 'task.date_format="%d/%m/%Y"' in found
    with pytest.raises(DataError, match=r"'Température': .*--encoding cp1252"):
        open_reader(path, Tolerance())
    with pytest.raises(DataError, match=r'--encoding cp1252.*task.decimal=comma.*task.date_format="%d/%m/%Y"'):
        load_series(DataConfig(train=str(path)), Wanted(columns=["Température"], date="jour"))
    describe_file(path, "cp1252")
    with pytest.raises(DataError, match=r'task.decimal=comma.*task.date_format="%d/%m/%Y"'):
        load_series(DataConfig(train=str(path), encoding="cp1252"), Wanted(columns=["Température"], date="jour"))
    either = tmp_path / "either.csv"
    either.write_text("a;b,c\n1;2,3\n2;3,4\n")
    with pytest.raises(DataError, match=r"data\.delimiter"):
        open_reader(either, Tolerance())
    assert open_reader(describe_file(either, delimiter=";"), Tolerance()).columns == ["a", "b,c"]


def test_the_first_sheet_of_a_workbook_is_a_table(tmp_path):
    openpyxl = pytest.importorskip("openpyxl", reason="openpyxl is not installed")
    book = openpyxl.Workbook()
    for row in (["text", "label", "note"], ["Déjà vu", 1, 2.5], [None, None, None], ["long", 0, None]):
        book.active.append(row)
    book.create_sheet("autre")
    book.save(tmp_path / "avis.xlsx")
    reader = open_reader(tmp_path / "avis.xlsx", Tolerance())
    assert isinstance(reader, Excel)
    assert "2 sheets" in reader.format
    assert list(reader.rows(["text", "label"])) == [(2, ["Déjà vu", "1"]), (4, ["long", "0"])]
    with pytest.raises(DataError, match=r"avis\.xlsx:4:.*'note' is missing"):
        list(reader.rows(["note"]))


def test_what_is_no_workbook_is_refused_in_one_line(tmp_path):
    path = tmp_path / "avis.xlsx"
    path.write_text("text,label\n")
    with pytest.raises(DataError, match="not an Excel workbook"):
        open_reader(path, Tolerance())
    path.write_bytes(b"\xd0\xcf\x11\xe0....")
    with pytest.raises(DataError, match=r"\.xlsx or CSV"):
        open_reader(path.rename(tmp_path / "avis.csv"), Tolerance())
    pytest.importorskip("openpyxl", reason="openpyxl is not installed")
    path.write_bytes(b"PK\x03\x04....")
    with pytest.raises(DataError, match="Excel workbook"):
        open_reader(path, Tolerance())
