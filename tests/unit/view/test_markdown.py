"""Tables as Markdown: columns, rule, rows, in both languages; nothing in a cell breaks the table."""

from attentif.view.blocks import TableBlock
from attentif.view.markdown import table_lines
from attentif.view.words import Number, Text

TABLE = TableBlock([Text("modèle", "model"), "score"], [["lstm", Number("0,5", "0.5")], ["a|b\nc", None]], strong={0})


def test_a_table_has_a_line_a_row_and_its_stressed_rows_in_bold() -> None:
    assert table_lines(TABLE) == ["| model | score |", "|---|---|", "| **lstm** | **0.5** |", "| a\\|b c |  |"]


def test_a_table_speaks_french() -> None:
    assert table_lines(TABLE, "fr")[:3] == ["| modèle | score |", "|---|---|", "| **lstm** | **0,5** |"]
