"""Blocks to HTML. Every string that comes from outside is escaped here, and nowhere else."""

import base64
import json
import re
from collections.abc import Iterator, Sequence
from functools import singledispatch
from html import escape
from itertools import chain
from typing import Any

import numpy as np

from attentif.errors import UsageError
from attentif.view.blocks import (
    AttentionMaps,
    Block,
    Cell,
    CodeBlock,
    Drawing,
    FigureBlock,
    Legend,
    Paragraph,
    Section,
    TableBlock,
    TokensBlock,
)
from attentif.view.words import Number, Text, Words, count, number, part_name, percent, say

LONG_CELL = 40  # characters from which a column of a table needs room
LONG = " class=long"
HALF_LINE = 52  # characters of a table that fit beside a figure
MANY_COLUMNS = 30  # from here a map takes the whole width of the page
MOST_WEIGHTS = 24_000_000  # bytes of maps in one block: beyond, a browser crawls

Path = list[str | int]


def both(words: Words) -> str:
    """The words in both languages, of which the style sheet shows one."""
    if isinstance(words, str) or words.fr == words.en:
        return escape(say(words, "en"))
    return f'<span class="fr" lang="fr">{escape(words.fr)}</span><span class="en" lang="en">{escape(words.en)}</span>'


def aria(words: Words) -> str:
    """Attributes from which the page makes the label that screen readers say."""
    return f'data-aria-fr="{escape(say(words, "fr"))}" data-aria-en="{escape(say(words, "en"))}" aria-label="{escape(say(words, "en"))}"'


def json_script(value: Any, kind: str = "") -> str:
    """Data for the page's script. No `<` may be left: `</script>` inside a string would end the element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return f'<script type="application/json"{f" class={kind}" if kind else ""}>{text}</script>'


def differences(french: Any, english: Any, path: Path | None = None) -> Iterator[tuple[Path, Any]]:
    """Where the French figure differs from the English one, and what it says there."""
    path = path or []
    if isinstance(french, dict) and isinstance(english, dict) and french.keys() == english.keys():
        for key in french:
            yield from differences(french[key], english[key], [*path, key])
    elif isinstance(french, list) and isinstance(english, list) and len(french) == len(english):
        for place, (here, there) in enumerate(zip(french, english, strict=True)):
            yield from differences(here, there, [*path, place])
    elif french != english:
        yield path, french


@singledispatch
def block(value: Any) -> str:
    """The HTML of one block."""
    raise TypeError(f"{type(value).__name__} is no block of a page")


@block.register
def _paragraph(value: Paragraph) -> str:
    text = f'<a href="{escape(value.link)}">{both(value.text)}</a>' if value.link else both(value.text)
    return f'<p class="{value.kind}">{text}</p>'


@block.register
def _tokens(value: TokensBlock) -> str:
    caption = "" if value.caption is None else f"<figcaption>{both(value.caption)}</figcaption>"
    return f'<figure><p class="tokens">{_shade_tokens(value)}</p>{caption}</figure>'


@block.register
def _legend(value: Legend) -> str:
    swatch = lambda side, words: f'<span><span class="{side}" style="--shade:1"> </span> {both(words)}</span>'
    return f'<p class="legend">{swatch("tok", value.positive)}{swatch("tok neg", value.negative)}</p>'


def _shade_tokens(value: TokensBlock) -> str:
    whole = value.whole or max((abs(v) for v in value.values), default=0) or 1
    parts = []
    for token, v in zip(value.tokens, value.values, strict=True):
        side = "tok neg" if v < 0 else "tok"
        shade = min(1.0, abs(v) / whole)
        word = token.lstrip() or token  # the space before a word is not coloured, and a line may end there
        before = escape(token[: -len(word)]) or "<wbr>"
        parts.append(f'{before}<span class="{side}" style="--shade:{shade:.3f}" title="{v:.3g}">{escape(word)}</span>')
    return "".join(parts)


@block.register
def _table(value: TableBlock) -> str:
    classes = [_cell_class(_column(value, i)) for i in range(len(value.columns))]
    cards = LONG in classes[1:] or any(
        isinstance(row[0], TokensBlock) for row in value.rows
    )  # a phone shows a row as a card: each cell below its column's name
    head = "".join(f"<th{kind} scope=col>{both(name)}</th>" for name, kind in zip(value.columns, classes, strict=True))
    rows = []
    for place, row in enumerate(value.rows):
        strong = ' class="strong"' if place in value.strong else ""
        names = [f"<b class=name>{both(name)}</b>" if cards else "" for name in value.columns]
        cells = "".join(f"<td{_cell_class([cell])}>{name}{_cell(cell)}</td>" for name, cell in zip(names, row, strict=True))
        rows.append(f"<tr{strong}>{cells}</tr>")
    caption = "" if value.caption is None else f"<caption>{both(value.caption)}</caption>"
    # a table wider than a phone scrolls by itself; tabindex lets the keyboard scroll it too
    table = "<table class=cards>" if cards else "<table>"
    return f'<div class="scroll" tabindex=0>{table}{caption}<thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _column(table: TableBlock, place: int) -> list[Cell]:
    return [row[place] for row in table.rows]


def _cell_class(cells: Sequence[Cell]) -> str:
    if cells and all(cell is None or isinstance(cell, int | float | Number) for cell in cells):
        return " class=num"
    wordy = lambda cell: isinstance(cell, TokensBlock) or (isinstance(cell, str | Text) and len(say(cell, "fr")) > LONG_CELL)
    return LONG if any(map(wordy, cells)) else ""


def _cell(cell: Cell) -> str:
    if cell is None:
        return "—"
    if isinstance(cell, TokensBlock):
        return f'<span class="tokens">{_shade_tokens(cell)}</span>'
    if isinstance(cell, str | Text):
        return both(cell)
    return both(count(cell) if isinstance(cell, int) else number(cell))


@block.register
def _figure(value: FigureBlock) -> str:
    french, english = (json.loads(value.draw(lang=lang).to_json()) for lang in ("fr", "en"))
    for figure in (french, english):
        figure["layout"].pop("template", None)  # the page holds the templates of both schemes once for all its figures
    spec = english | {"fr": list(differences(french, english))}
    label = Text("{title}. {about}", "{title}. {about}").with_(title=value.title, about=value.about)
    height = english["layout"].get("height", 400)
    caption = f"<figcaption>{both(value.about)}</figcaption>" if value.about else ""
    canvas = f'<div class="canvas" role="img" {aria(label)} style="min-height:{height}px"></div>'
    return f'<figure class="plot"><h3>{both(value.title)}</h3>{canvas}{caption}{json_script(spec)}</figure>'


@block.register
def _render_drawing(value: Drawing) -> str:
    caption = "" if value.caption is None else f"<figcaption>{both(value.caption)}</figcaption>"
    svg = f'<span class="fr" lang="fr">{value.svg.fr}</span><span class="en" lang="en">{value.svg.en}</span>'
    return f'<figure class="drawing"><div class="scroll" tabindex=0>{svg}</div>{caption}</figure>'


@block.register
def _code(value: CodeBlock) -> str:
    text = highlight_toml(value.text) if value.language == "toml" else escape(value.text)
    caption = "" if value.caption is None else f"<figcaption>{both(value.caption)}</figcaption>"
    return f"<figure><pre tabindex=0><code>{text}</code></pre>{caption}</figure>"


TOML_PIECE = re.compile(
    r"""(?P<h>^[ \t]*\[[^"'\n]*\][ \t]*(?=\#|$))|(?P<k>^[ \t]*[\w."'-]+(?=[ \t]*=))|(?P<c>\#.*$)"""
    r"""|(?P<s>\"{3}[\s\S]*?\"{3}|'{3}[\s\S]*?'{3}|"(?:\\.|[^"\\\n])*"|'[^'\n]*')""",
    re.MULTILINE,
)


def highlight_toml(text: str) -> str:
    """Highlight headers, keys, strings and comments; leave anything else plain."""
    parts, done = [], 0
    for match in TOML_PIECE.finditer(text):
        parts += [escape(text[done : match.start()]), f'<span class="{match.lastgroup}">{escape(match.group())}</span>']
        done = match.end()
    return "".join([*parts, escape(text[done:])])


@block.register
def _maps(value: AttentionMaps) -> str:
    total = sum(weights.size for weights in value.weights.values())
    if total > MOST_WEIGHTS:
        sizes = f"{len(value.weights)} layers over {len(value.rows)} × {len(value.keys)} tokens"
        raise UsageError(f"maps of {sizes} are too heavy for a page: choose fewer layers or a shorter text")
    data = {
        "rows": list(value.rows),
        "columns": None if value.columns is None else list(value.columns),
        "layers": [{"name": name, "fr": part_name(name).fr, "heads": len(weights)} for name, weights in value.weights.items()],
        "bytes": base64.b64encode(b"".join(quantize_map(weights).tobytes() for weights in value.weights.values())).decode(),
    }
    title = f"<h3>{both(value.title)}</h3>" if value.title else ""
    if not total:
        return f'<div>{title}<p class="note">{both(Text("Aucune carte d’attention.", "No attention map."))}</p></div>'
    shape = "maps many" if len(value.keys) > MANY_COLUMNS else "maps"
    over = "".join(map(block, _over_picture(value)))
    maps = f"{_maps_body(cross=value.columns is not None)}{json_script(data)}"
    if over:  # outside the block of maps, which takes the first data that it finds inside for its own
        return f'<div class="body">{title}{over}</div><div class="{shape}">{maps}</div>'
    return f'<div class="{shape}">{title}{maps}</div>'


def _over_picture(value: AttentionMaps) -> list[FigureBlock]:
    """The weights as shades over the picture that they are about."""
    if value.picture is None:
        return []
    from attentif.view.figures.pictures import overlay_blocks

    return overlay_blocks(value)


def quantize_map(weights: Any) -> Any:
    """One byte a weight, 255 √w: an error of at most 0.004 √w, a quarter of the bytes, and faint weights stay apart from zero."""
    return np.rint(255 * np.sqrt(np.clip(np.nan_to_num(weights), 0, 1))).astype(np.uint8)


def _maps_body(*, cross: bool) -> str:
    select = lambda name, words: f'<label>{both(words)} <select class="{name}"></select></label>'
    grid = Text(
        "Toutes les têtes : une ligne par couche, une colonne par tête. Cliquez, ou choisissez dans les listes.",
        "All the heads: a row a layer, a column a head. Click, or choose from the lists.",
    )
    large = Text(
        "La tête choisie : chaque ligne est un jeton qui regarde, chaque colonne un jeton regardé. La teinte suit la racine du poids.",
        "The chosen head: each row is a token that looks, each column a token looked at. Shades follow the square root of the weight.",
    )
    named = [Text("cible", "target"), Text("source", "source")] if cross else [None]
    lines = "".join(f'<p class="line">{"" if name is None else f"<b>{both(name)}</b>"}</p>' for name in named)
    side = f"<span{' hidden' if cross else ''}>{select('side', Text('le jeton', 'the token'))}</span>"
    layer, head = select("layer", Text("couche", "layer")), select("head", Text("tête", "head"))
    return f"""
<div class="controls">{layer}{head}{side}</div>
<div class="views">
<div class="text">{lines}<p class="status" aria-live="polite"></p></div>
<div class="overview"><canvas role="img" {aria(grid)}></canvas><p class="note">{both(grid)}</p></div>
<div class="big"><div class="scroll" tabindex=0><canvas role="img" {aria(large)}></canvas></div><p class="note">{both(large)}</p>
<p class="scale"><span>0</span><i></i><span>{both(percent(1, 0))}</span></p></div>
</div>"""


def body(blocks: Sequence[Block]) -> str:
    """Blocks one under the other; two narrow ones that follow each other share a line where the screen allows."""
    parts, waiting = [], list(blocks)
    while waiting:
        if len(waiting) > 1 and _narrow(waiting[0]) and _narrow(waiting[1]):
            parts.append(f'<div class="pair">{block(waiting.pop(0))}{block(waiting.pop(0))}</div>')
        else:
            parts.append(block(waiting.pop(0)))
    return f'<div class="body">{"".join(parts)}</div>'


def _narrow(value: Block) -> bool:
    if isinstance(value, TableBlock):
        long = any(_cell_class([cell]) == LONG for row in value.rows for cell in row)
        return len(value.columns) <= 4 and not long and _least_width(value) <= HALF_LINE
    return isinstance(value, FigureBlock)


def _least_width(table: TableBlock) -> int:
    """Characters of the narrowest form of a table: a line may end between words, but not inside a score with its interval."""
    pieces = lambda cell: say(cell, "fr").split("\n" if isinstance(cell, Number) else None) if isinstance(cell, str | Text) else []
    return sum(max(map(len, chain(*map(pieces, [name, *_column(table, i)])))) for i, name in enumerate(table.columns))


def section(value: Section, anchor: str = "") -> str:
    """A section; the anchor is where the page's table of contents leads."""
    heading = f"<h2{f' id={anchor}' if anchor else ''}>{both(value.title)}</h2>"
    if value.folded:
        return f"<section><details><summary>{heading}</summary>{body(value.body)}</details></section>"
    return f"<section>{heading}{body(value.body)}</section>"
