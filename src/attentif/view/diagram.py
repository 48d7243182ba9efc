"""A model drawn from its configuration: frontend, blocks with their residuals and norms, head; read from the bottom to the top.

    svg = draw_model(resolve({"base": "transformer-base"}), lang="fr")

Lines and words take `currentColor`, so that a page's own ink colours them; boxes have a class for each family (`attention`, `norm`, ...)
and colours that stay legible on light and dark paper. There is no style sheet and no script inside: a page with a strict policy shows
the drawing as it is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import groupby
from textwrap import wrap

from attentif.models import ModelConfig, build
from attentif.models.frontends.base import FrontendConfig
from attentif.nn.block import Block, ParallelConfig, SublayerConfig
from attentif.nn.mixer import CrossMixer
from attentif.nn.norm import NormConfig, Placement
from attentif.nn.stack import Stack, StackConfig
from attentif.view.blocks import Drawing
from attentif.view.diagram_words import (
    Family,
    Label,
    describe_stack,
    label_frontend,
    label_head,
    label_mixer,
    label_norm,
    label_position,
    residual_weight,
)
from attentif.view.words import Lang, Text, Words, big, say

COLOURS: dict[Family, str] = {  # Okabe & Ito 2008, as in every figure
    "attention": "#E69F00",
    "feed-forward": "#56B4E9",
    "recurrence": "#009E73",
    "convolution": "#CC79A7",
    "norm": "#8A9099",
    "input": "#0072B2",
    "output": "#D55E00",
    "other": "#8A9099",
}
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
BOX, NORM_HEIGHT, NAME_HEIGHT, LINE_HEIGHT = 200, 24, 30, 15  # width of a box, and heights
LETTERS = 33  # of small print that fit in a box
GAP, PLUS = 16, 9  # between two boxes; radius of a sum
LANE = 18  # from a box to the residual beside it
FRAME = 34  # from a box to the frame of its block
GUTTER = 50  # between the frames of an encoder and a decoder
MARGIN = 16


@dataclass(slots=True)
class Canvas:
    """SVG elements, and how far they reach. y grows downwards, as in SVG: drawing upwards makes it negative."""

    lang: Lang
    parts: list[str] = field(default_factory=list)
    left: float = 0.0
    right: float = 0.0
    top: float = 0.0
    bottom: float = 0.0

    def reach(self, x: float, y: float) -> None:
        self.left, self.right = min(self.left, x), max(self.right, x)
        self.top, self.bottom = min(self.top, y), max(self.bottom, y)

    def text(
        self, x: float, y: float, words: Words, *, size: int = 13, anchor: str = "middle", bold: bool = False, faint: bool = False
    ) -> None:
        said = say(words, self.lang)
        extent = len(said) * size * 0.56
        begin = {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor] * extent
        self.reach(x - begin, y - size)
        self.reach(x - begin + extent, y + size / 3)
        weight = ' font-weight="600"' if bold else ""
        opacity = ' opacity="0.75"' if faint else ""
        self.parts.append(f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}"{weight}{opacity}>{escape(said)}</text>')

    def line(self, *points: tuple[float, float], arrow: bool = False, dashed: bool = False) -> None:
        for point in points:
            self.reach(*point)
        place = "M" + "L".join(f"{x:g},{y:g}" for x, y in points)
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(f'<path d="{place}" fill="none" stroke="currentColor" stroke-width="1.3" stroke-linejoin="round"{dash}/>')
        if arrow:
            self._tip(points[-2], points[-1])

    def _tip(self, before: tuple[float, float], end: tuple[float, float]) -> None:
        (x, y), dx, dy = end, end[0] - before[0], end[1] - before[1]
        length = max(abs(dx), abs(dy)) or 1.0
        dx, dy = dx / length, dy / length
        corners = ((x, y), (x - 7 * dx + 3.5 * dy, y - 7 * dy - 3.5 * dx), (x - 7 * dx - 3.5 * dy, y - 7 * dy + 3.5 * dx))
        self.parts.append(f'<path d="M{"L".join(f"{a:g},{b:g}" for a, b in corners)}Z" fill="currentColor"/>')

    def plus(self, x: float, y: float) -> None:
        """A sum, its centre at (x, y)."""
        self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="{PLUS}" fill="none" stroke="currentColor" stroke-width="1.3"/>')
        self.line((x - 5, y), (x + 5, y))
        self.line((x, y - 5), (x, y + 5))

    def box(self, x: float, y: float, label: Label, *, width: float = BOX, path: str = "") -> float:
        """A box that stands on y; returns its upper edge."""
        lines = fold(label.details, self.lang, int(LETTERS * width / BOX))
        height = (NORM_HEIGHT if label.family == "norm" else NAME_HEIGHT) + LINE_HEIGHT * len(lines)
        top, colour = y - height, COLOURS[label.family]
        self.reach(x - width / 2, top)
        self.reach(x + width / 2, y)
        whole = "; ".join([say(label.name, self.lang), *(say(words, self.lang) for words in label.details)])
        of = f' data-path="{escape(path)}"' if path else ""
        self.parts.append(
            f'<g class="{label.family}"{of}><title>{escape(whole)}</title>'
            f'<rect x="{x - width / 2:g}" y="{top:g}" width="{width:g}" height="{height:g}" rx="6" fill="{colour}" fill-opacity="0.18" '
            f'stroke="{colour}" stroke-width="1.4"/>'
        )
        self.text(
            x,
            top + (16.5 if label.family == "norm" else 20),
            label.name,
            size=12 if label.family == "norm" else 13,
            bold=label.family != "norm",
        )
        for number, line in enumerate(lines):
            self.text(x, top + 20 + LINE_HEIGHT * (number + 1), line, size=11)
        self.parts.append("</g>")
        return top

    def frame(self, x: float, bottom: float, top: float, half: float) -> None:
        self.reach(x - half, top)
        self.reach(x + half, bottom)
        self.parts.append(
            f'<rect x="{x - half:g}" y="{top:g}" width="{2 * half:g}" height="{bottom - top:g}" rx="12" fill="currentColor" '
            f'fill-opacity="0.04" stroke="currentColor" stroke-opacity="0.45" stroke-width="1.2"/>'
        )

    def svg(self, title: str) -> str:
        x, y = self.left - MARGIN, self.top - MARGIN
        width, height = self.right - self.left + 2 * MARGIN, self.bottom - self.top + 2 * MARGIN
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="attentif-diagram" role="img" aria-label="{escape(title)}" '
            f'viewBox="{x:g} {y:g} {width:g} {height:g}" width="{width:g}" height="{height:g}" font-family="{FONT}" fill="currentColor" '
            f'style="color-scheme: light dark; max-width: 100%; height: auto">' + "".join(self.parts) + "</svg>\n"
        )


def fold(details: Sequence[Words], lang: Lang, letters: int) -> list[str]:
    """Details as lines that fit in a box."""
    said = " · ".join(say(words, lang).replace(" ", "\u00a0") for words in details)
    return [line.replace("\u00a0", " ").strip(" ·") for line in wrap(said.replace("\u00a0·\u00a0", " · "), letters, break_long_words=False)]


@dataclass(slots=True)
class Column:
    """One stack drawn upwards: where it is, on which side its residuals run, and who reads the encoder's output."""

    canvas: Canvas
    x: float
    side: int  # −1: residuals on the left, 1: on the right
    notes: int  # the same for what is written beside the blocks
    y: float = 0.0
    cross: list[float] = field(default_factory=list)  # heights at which the memory is read
    first: float = 0.0  # lower edge of the blocks

    def rise(self, gap: float = GAP, *, arrow: bool = True) -> None:
        self.canvas.line((self.x, self.y), (self.x, self.y - gap), arrow=arrow)
        self.y -= gap

    def box(self, label: Label, path: str = "") -> None:
        self.rise()
        self.y = self.canvas.box(self.x, self.y, label, path=path)

    def add_from(self, start: float, weight: Words | None) -> None:
        """The sum of the branch and of the residual that left at `start`."""
        self.rise(GAP - 4)
        centre, lane = self.y - PLUS, self.x + self.side * (BOX / 2 + LANE)
        self.canvas.plus(self.x, centre)
        self.canvas.line((self.x, start), (lane, start), (lane, centre), (self.x + self.side * PLUS, centre), arrow=True)
        if weight is not None:
            self.canvas.text(self.x - self.side * 16, centre + 4, weight, size=11, anchor="start" if self.side < 0 else "end")
        self.y = centre - PLUS

    def note(self, y: float, words: Words, *, size: int, bold: bool = False) -> None:
        """Words beside the blocks."""
        x, anchor = self.x + self.notes * (BOX / 2 + FRAME + 12), "end" if self.notes < 0 else "start"
        self.canvas.text(x, y, words, size=size, anchor=anchor, bold=bold, faint=not bold)

    def frontend(self, frontend: FrontendConfig, path: str) -> None:
        read, label = label_frontend(frontend)
        self.canvas.text(self.x, self.y + 14, read, faint=True)
        self.box(label, path)
        position = getattr(frontend, "position", None)
        if position is not None:
            self.rise(GAP - 4)
            centre, words = self.y - PLUS, label_position(position)
            self.canvas.plus(self.x, centre)
            far = self.x + self.side * (BOX / 2 + LANE)
            self.canvas.line((far, centre), (self.x + self.side * PLUS, centre), arrow=True)
            self.canvas.text(far + self.side * 6, centre + 4, words, size=12, anchor="end" if self.side < 0 else "start")
            self.y = centre - PLUS
        norm: NormConfig | None = getattr(frontend, "norm", None)
        if norm is not None:
            self.box(label_norm(norm), f"{path}.norm")

    def sublayer(self, config: SublayerConfig, stack: StackConfig, path: str, *, reads_memory: bool) -> None:
        placement: Placement = config.placement or stack.placement
        norm = label_norm(stack.norm)
        self.rise(GAP / 2, arrow=False)
        start = self.y
        if placement in ("pre", "both", "sandwich"):
            self.box(norm)
        if isinstance(config.mixer, ParallelConfig):
            self.parallel(config.mixer, stack, path)
        else:
            before = self.y - GAP
            self.box(label_mixer(config.mixer), path)
            if reads_memory:
                self.cross.append((before + self.y) / 2)
        if placement in ("branch", "sandwich"):
            self.box(norm)
        if config.residual:
            self.add_from(start, residual_weight(config.weight) if config.weight != 1.0 else None)
        if placement in ("post", "both"):
            self.box(norm)

    def parallel(self, mixer: ParallelConfig, stack: StackConfig, path: str) -> None:
        """Branches side by side, their outputs joined."""
        share = (BOX - 8 * (len(mixer.branches) - 1)) / len(mixer.branches)
        start, tops = self.y, []
        centres = [self.x - BOX / 2 + share / 2 + place * (share + 8) for place in range(len(mixer.branches))]
        for centre, (name, branch) in zip(centres, mixer.branches.items(), strict=True):
            y = start - GAP
            self.canvas.line((self.x, start), (self.x, start - 4), (centre, start - 4), (centre, y), arrow=True)
            if branch.placement in ("pre", "sandwich"):
                y = self.canvas.box(centre, y, label_norm(stack.norm), width=share) - 8
                self.canvas.line((centre, y + 8), (centre, y))
            tops.append(self.canvas.box(centre, y, label_mixer(branch.mixer), width=share, path=f"{path}.mixer.branches.{name}"))
        self.y = min(tops) - GAP / 2
        for centre, top in zip(centres, tops, strict=True):
            self.canvas.line((centre, top), (centre, self.y), (self.x, self.y))


def draw_model(config: ModelConfig, *, lang: Lang = "en", title: str | None = None) -> str:
    """The architecture as an SVG picture; sizes that the data decide are left out."""
    model = build(config.with_any_size(), device="meta")
    canvas = Canvas(lang)
    both = config.encoder is not None and config.decoder is not None
    first = Column(canvas, 0.0, -1, -1 if both else 1)
    first.frontend(config.frontend, "frontend")
    last = first
    if config.encoder is not None:
        draw_stack(first, config.encoder, model.encoder, "encoder")
    if config.decoder is not None:
        if both:
            assert config.target is not None
            last = Column(canvas, BOX + 2 * FRAME + GUTTER, 1, 1)
            last.frontend(config.target, "target")
        draw_stack(last, config.decoder, model.decoder, "decoder")
    if both:
        join_columns(first, last, config)
    draw_head(last, config)
    name = title or config.base or say(Text("modèle", "model"), lang)
    return canvas.svg(say(Text(f"Architecture : {name}", f"Architecture: {name}"), lang))


def draw_architecture(config: ModelConfig) -> Drawing:
    """The same for a page, in both languages."""
    caption = Text(
        "De bas en haut : ce que lit le modèle, ses blocs avec leurs résidus et leurs normalisations, ce qu’il répond.",
        "From the bottom to the top: what the model reads, its blocks with their residuals and norms, what it answers.",
    )
    return Drawing(Text(draw_model(config, lang="fr"), draw_model(config, lang="en")), caption)


def draw_stack(column: Column, config: StackConfig, stack: Stack | None, name: str) -> None:
    assert stack is not None
    plan = config.plan(len(stack.blocks))
    turn = sum(kind.repeat for kind in config.blocks)
    turns = 0 < turn < len(plan)
    if not plan:
        column.first = column.y
        return
    column.rise()
    bottom = column.first = column.y + 4
    for _, run in groupby(range(turn if turns else len(plan)), key=lambda number: id(plan[number])):
        alike = list(run)
        draw_block(column, config, stack, alike[0], len(alike), name)
    notes = describe_stack(config)
    if turns:
        column.canvas.frame(column.x, bottom + 4, column.y - 6, BOX / 2 + FRAME + 4)
        column.rise(8, arrow=False)
        notes.append(Text(f"{len(plan)} blocs, à tour de rôle", f"{len(plan)} blocks, taking turns"))
    for number, words in enumerate(notes):
        column.note(bottom - 14 - 16 * number, words, size=12)
    last = config.placement not in ("post", "both", "none") if config.final_norm is None else config.final_norm
    if last:
        column.box(label_norm(config.norm), f"{name}.norm")


def draw_block(column: Column, config: StackConfig, stack: Stack, number: int, repeat: int, name: str) -> None:
    """One kind of block in its frame, with how often it comes and its parameters."""
    block = stack.blocks[number]
    assert isinstance(block, Block)
    bottom = column.y + 4
    sublayers = config.plan(len(stack.blocks))[number]
    built = dict(block.sublayers())
    for key, sublayer in sublayers.items():
        cross = isinstance(built[key].mixer, CrossMixer)
        column.sublayer(sublayer, config, f"{name}.blocks.{number}.{key}", reads_memory=cross)
    column.rise(GAP / 2, arrow=False)
    top, half = column.y + 2, BOX / 2 + FRAME
    column.canvas.frame(column.x, bottom, top, half)
    column.rise(8, arrow=False)
    middle = (bottom + top) / 2
    column.note(middle, f"× {repeat}", size=18, bold=True)
    size = big(sum(parameter.numel() for parameter in block.parameters()))
    column.note(middle + 18, Text(f"{size.fr} paramètres", f"{size.en} parameters"), size=11)


def join_columns(encoder: Column, decoder: Column, config: ModelConfig) -> None:
    """The memory: from the top of the encoder to every sublayer that reads it; and the states that a bridge carries over."""
    canvas = encoder.canvas
    middle = (encoder.x + decoder.x) / 2
    edge = decoder.x - BOX / 2
    if decoder.cross:
        top = min(encoder.y - 12, max(decoder.cross))
        canvas.line((encoder.x, encoder.y), (encoder.x, top), (middle, top))
        for height in (*decoder.cross, top):
            canvas.line((middle, top), (middle, height))
        for height in decoder.cross:
            canvas.line((middle, height), (edge, height), arrow=True)
    if config.bridge:
        low = max(encoder.first, decoder.first) - 12
        canvas.line((encoder.x + BOX / 2 + FRAME, low), (decoder.x - BOX / 2 - FRAME, low), arrow=True, dashed=True)
        canvas.text(middle, low + 16, Text("derniers états", "final states"), size=11, faint=True)


def draw_head(column: Column, config: ModelConfig) -> None:
    label, answer = label_head(config.head)
    column.box(label, "head")
    column.rise()
    column.canvas.text(column.x, column.y - 6, answer, faint=True)
    column.canvas.text(column.x, column.y - 24, Text(f"largeur {config.width}", f"width {config.width}"), size=11, faint=True)
