"""Tables as Markdown, for pages that are read where no browser draws them: results, documentation."""

from collections.abc import Sequence

from attentif.view.blocks import Cell, TableBlock, TokensBlock
from attentif.view.words import Lang, Text, say


def table_lines(table: TableBlock, lang: Lang = "en") -> list[str]:
    """A line for the columns, the rule below it, a line a row; stressed rows in bold."""
    lines = [_row([say(column, lang) for column in table.columns]), "|---" * len(table.columns) + "|"]
    for place, row in enumerate(table.rows):
        cells = [_cell(cell, lang) for cell in row]
        lines.append(_row([f"**{cell}**" if cell and place in table.strong else cell for cell in cells]))
    return lines


def _cell(cell: Cell, lang: Lang) -> str:
    """A bar or a line end would end the cell."""
    if cell is None:
        return ""
    words = " ".join(cell.tokens) if isinstance(cell, TokensBlock) else say(cell, lang) if isinstance(cell, str | Text) else str(cell)
    return words.replace("|", "\\|").replace("\n", " ")


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
