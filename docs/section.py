"""A picture of one section of a report, for these pages: `python docs/section.py RUN/report.html "The gaps of the text" gaps.png`.

The other sections are hidden by a style sheet, the page is photographed by a headless Chromium, and the paper below it is cut off.
"""

import argparse
import re
import sys
from html import unescape
from pathlib import Path

from photograph import WIDTH, screenshot
from PIL import Image, ImageChops

HEIGHT, MARGIN = 2400, 16


def alone(page: str, title: str, blocks: int | None = None) -> str:
    """The page with one section, by its English title, and of that the first blocks only."""
    titles = {unescape(name): anchor for anchor, name in re.findall(r'<h2 id=(s\d+)>(?:.*?<span class="en" lang="en">)?([^<]*)', page)}
    if title not in titles:
        sys.exit(f"error: the report has no section {title!r}; it has {', '.join(map(repr, titles))}")
    own = f"section:has(#{titles[title]})"
    hidden = ["header", "footer", f"main > :not({own})", *([] if blocks is None else [f"{own} .body > :nth-child(n + {blocks + 1})"])]
    return page.replace("</head>", f"<style>{', '.join(hidden)} {{ display: none !important }} main {{ margin-top: 0 }}</style></head>", 1)


def trim(picture: Image.Image) -> Image.Image:
    """Without the empty paper around what is drawn, a margin apart."""
    paper = Image.new("RGB", picture.size, picture.getpixel((0, picture.height - 1)))
    left, top, right, bottom = ImageChops.difference(picture, paper).getbbox() or (0, 0, *picture.size)
    return picture.crop((max(0, left - MARGIN), max(0, top - MARGIN), min(picture.width, right + MARGIN), bottom + MARGIN))


def main() -> None:
    parser = argparse.ArgumentParser(description="a picture of one section of a report")
    parser.add_argument("report", type=Path)
    parser.add_argument("title", help="of the section, in English")
    parser.add_argument("picture", type=Path)
    parser.add_argument("--blocks", type=int, help="only so many blocks of it, from the first on")
    given = parser.parse_args()
    page = alone(given.report.read_text(encoding="utf-8"), given.title, given.blocks)
    trim(screenshot(page, WIDTH, HEIGHT)).save(given.picture, optimize=True)


if __name__ == "__main__":
    main()
