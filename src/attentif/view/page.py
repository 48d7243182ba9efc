"""One self-contained HTML page: it opens from the disk, without a network, in French or English.

Everything is inside: the data, the style sheet, the scripts, plotly.js once. The page's own policy (CSP) lets only these scripts run, known
by their hashes, and nothing be fetched: text that slipped through as markup could neither run nor call home.
"""

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path

from attentif.errors import RunError
from attentif.files import write_text
from attentif.version import __version__
from attentif.view.blocks import AttentionMaps, Block, FigureBlock, Section
from attentif.view.render import body, both, json_script, section
from attentif.view.theme import css_variables, recolour, template
from attentif.view.words import Text, Words, say


@dataclass(frozen=True, slots=True)
class Page:
    title: Words
    sections: Sequence[Section]
    lead: Sequence[Block] = ()  # what the first screen shows: the result

    @property
    def blocks(self) -> list[Block]:
        return [*self.lead, *blocks_of(self.sections)]


def blocks_of(sections: Iterable[Section]) -> list[Block]:
    return [item for part in sections for item in part.body]


@dataclass(frozen=True, slots=True)
class Fragment:
    """Some sections as a notebook shows them: the same blocks, without the page around them.

    Figures bring plotly.js (5 MB) into the notebook, tables, tokens and maps do not.
    """

    sections: Sequence[Section]

    def _repr_html_(self) -> str:
        parts = "".join(map(section, self.sections))
        blocks = blocks_of(self.sections)
        code = "".join(f"<script>{source}</script>" for source in [asset("early.js"), *scripts(blocks)])
        return f'<div class="attentif" data-lang="en"><style>{style()}</style>{LANGUAGES}{parts}{templates(blocks)}{code}</div>'


LANGUAGES = (
    '<div class="langs" role="group" aria-label="Langue / Language">'
    '<button type="button" value="fr" lang="fr" title="Français">FR</button>'
    '<button type="button" value="en" lang="en" title="English">EN</button></div>'
)


def asset(name: str) -> str:
    return (files("attentif.view") / "assets" / name).read_text(encoding="utf-8")


def style() -> str:
    dark = f"@media screen and (prefers-color-scheme: dark) {{ .attentif {{ {css_variables('dark')} }} }}"
    return f".attentif {{ {css_variables('light')} }}\n{dark}\n{asset('page.css')}"


def _has_figure(item: Block) -> bool:
    """Maps of a picture come with figures of it."""
    return isinstance(item, FigureBlock) or (isinstance(item, AttentionMaps) and item.picture is not None)


def scripts(blocks: Sequence[Block]) -> list[str]:
    """The scripts these blocks need, in the order in which they must run."""
    needed = []
    if any(map(_has_figure, blocks)):
        from plotly.offline import get_plotlyjs

        needed.append(get_plotlyjs())
    if any(isinstance(item, AttentionMaps) for item in blocks):
        needed.append(asset("maps.js"))
    return [*needed, asset("page.js")]


def known_scripts() -> list[str]:
    """Every script that our pages may contain, for content security policies."""
    from plotly.offline import get_plotlyjs

    return [asset("early.js"), get_plotlyjs(), asset("maps.js"), asset("page.js")]


def templates(blocks: Sequence[Block]) -> str:
    if not any(map(_has_figure, blocks)):
        return ""
    return json_script({"light": template("light"), "dark": template("dark"), "colours": recolour("dark")}, "templates")


def policy(sources: Iterable[str]) -> str:
    hashes = " ".join(f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()}'" for source in sources)
    return f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"


def render(page: Page) -> str:
    """The whole page as text."""
    early, late = asset("early.js"), scripts(page.blocks)
    links = "".join(f'<a href="#s{place}">{both(part.title)}</a>' for place, part in enumerate(page.sections))
    heading = both(Text("Sommaire", "Contents"))
    contents = f'<details class="contents"><summary>{heading}</summary><nav aria-label="Sections">{links}</nav></details>'
    parts = "\n".join(section(part, f"s{place}") for place, part in enumerate(page.sections))
    title_fr, title_en = (escape(say(page.title, lang)) for lang in ("fr", "en"))
    made = Text("Page écrite par Attentif {version} ; elle se lit sans réseau.", "Page written by Attentif {version}; it needs no network.")
    return f"""<!DOCTYPE html>
<html class="attentif" lang="en" data-lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy([early, *late])}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title data-fr="{title_fr}" data-en="{title_en}">{title_en}</title>
<script>{early}</script>
<style>{style()}</style>
</head>
<body>
<a class="skip" href="#main">{both(Text("Aller au contenu", "Skip to content"))}</a>
<header class="bar"><div>{contents}{LANGUAGES}</div></header>
<main id="main">
<h1>{both(page.title)}</h1>
{body(page.lead)}
{parts}
</main>
<footer>{both(made.with_(version=__version__))}</footer>
{templates(page.blocks)}
{"".join(f"<script>{source}</script>" for source in late)}
</body>
</html>
"""


def write(path: Path, page: Page) -> None:
    """Write the page whole or not at all."""
    text = render(page)
    try:
        write_text(path, text)
    except OSError as error:
        raise RunError(f"the page cannot be written: {error.strerror or error}", file=path) from error
