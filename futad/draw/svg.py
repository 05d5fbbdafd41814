"""A placed figure as SVG: boxes coloured by kind, edges by value, sizes on the ports, statements as tooltips."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from xml.sax.saxutils import escape, quoteattr

from futad.core.types import AccType, ArrayType, Var
from futad.draw.cells import CHAR, LINE, PAD, TAB, Link, Placed
from futad.draw.figure import KINDS, Box

FILL = {
    "nest": "#dbe9fb", "product": "#e6d9f5", "fold": "#d8f0dc", "scatter": "#fbe0d3", "loop": "#d3eff0",
    "branch": "#fbf3c8", "data": "#f3f3f3", "scalar": "#ffffff", "other": "#f7dbe8", "function": "#ffffff",
}  # fmt: skip
LINES = {
    "nest": "#2f6fc4", "product": "#7a3fb5", "fold": "#2c8a45", "scatter": "#c4541c", "loop": "#16858a",
    "branch": "#a58a06", "data": "#8a8a8a", "scalar": "#9aa5b1", "other": "#b03a72",
    "function": "#9aa5b1",
}  # fmt: skip
SWEEP = {"forward": "#2f6fc4", "return": "#d0342c"}
EDGES = ("#1b4f8f", "#9c2f2f", "#2c7a3f", "#7a3fb5", "#b06a00", "#0f7c80", "#a3366f", "#55606b")
MARGIN = 14.0
STRIPE = 4.0


def document(whole: Placed, title: str, kinds: Mapping[str, str] = KINDS) -> str:
    """The picture with its legend: what `kinds` of boxes are."""
    width = max(whole.width + 2 * MARGIN, 780.0)
    legend, top = _legend(whole, title, width, kinds)
    body = [*_box(whole, MARGIN, top, _Colours())]
    height = whole.height + top + MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" '
        'font-size="11">'
    )
    white = f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>'
    return "\n".join([head, f"<title>{escape(title)}</title>", white, *legend, *body, "</svg>"]) + "\n"


class _Colours:
    """A colour for each value, in turn."""

    def __init__(self) -> None:
        self.given: dict[Var, str] = {}

    def of(self, v: Var) -> str:
        return self.given.setdefault(v, EDGES[len(self.given) % len(EDGES)])


def _legend(whole: Placed, title: str, width: float, kinds: Mapping[str, str]) -> tuple[list[str], float]:
    """The title and what the colours mean, of the kinds of boxes that there are; and where the picture begins."""
    out = [_text(MARGIN, 18.0, title, 'font-size="13" font-weight="bold"', CHAR * 13 / 11)]
    found = set(_kinds(whole.box))
    items = [(14.0, FILL[k], LINES[k], what) for k, what in kinds.items() if k in found]
    if _sweeps(whole.box):
        items += [(STRIPE, SWEEP[s], SWEEP[s], f"{s} sweep") for s in SWEEP]
    if kinds is KINDS:
        items += [(0.0, "", "", what) for what in ("↻ from iteration to iteration", "thick edges: arrays")]
    x, y = MARGIN, 28.0
    for square, fill, line, what in items:
        if x > MARGIN and x + square + 5 + len(what) * CHAR > width - MARGIN:
            x, y = MARGIN, y + 18
        if fill:
            out.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{square}" height="12" fill="{fill}" stroke="{line}"/>')
        out.append(_text(x + square + 5, y + 10, what))
        x += square + 5 + len(what) * CHAR + 18
    return out, y + 26


def _sweeps(box: Box) -> bool:
    return bool(box.sweep) or any(map(_sweeps, box.inside))


def _kinds(box: Box) -> Iterator[str]:
    yield box.kind
    for inner in box.inside:
        yield from _kinds(inner)


def _text(x: float, y: float, text: str, more: str = "", char: float = CHAR) -> str:
    """A line of text, as wide as the layout has it whatever the font is."""
    if not text:
        return ""
    width = f'textLength="{len(text) * char:.1f}" lengthAdjust="spacingAndGlyphs"'
    more = f" {more}" if more else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" {width} xml:space="preserve"{more}>{escape(text)}</text>'


def _box(p: Placed, x: float, y: float, colours: _Colours) -> Iterator[str]:
    """A box at a place, with what is in it."""
    box = p.box
    yield f'<g class="{box.kind}" data-statements="{len(box.stms)}" data-binds={quoteattr(" ".join(box.binds))}>'
    yield f"<title>{escape(box.note)}</title>"
    yield (
        f'<rect class="box" x="{x:.1f}" y="{y:.1f}" width="{p.width:.1f}" height="{p.height:.1f}" rx="4" '
        f'fill="{FILL[box.kind]}" stroke="{LINES[box.kind]}"/>'
    )
    for k, sweep in enumerate(SWEEP if box.sweep == "both" else [box.sweep] if box.sweep else []):
        half = p.height / (2 if box.sweep == "both" else 1)
        yield f'<rect x="{x:.1f}" y="{y + k * half:.1f}" width="{STRIPE}" height="{half:.1f}" fill="{SWEEP[sweep]}"/>'
    if box.inside:
        yield _text(x + PAD + 2, y + 13, box.title, 'font-weight="bold"')
        for c in p.cells:
            if c.port is not None:
                yield from _tab(c.port.label, x + c.x, y + c.y, c.width, c.height)
        for e in p.links:
            yield from _edge(e, x, y, colours)
        for c in p.cells:
            if c.placed is not None:
                yield from _box(c.placed, x + c.x, y + c.y, colours)
    else:
        for k, line in enumerate(box.lines):
            yield _text(x + PAD + 2, y + 13 + k * LINE, line)
        for port, (at, width) in zip(box.outs, p.outs, strict=True):
            if port.label:
                yield from _tab(port.label, x + at - width / 2, y + p.height - TAB, width, TAB)
    yield "</g>"


def _tab(label: str, x: float, y: float, width: float, height: float) -> Iterator[str]:
    if not label:
        yield f'<circle cx="{x + width / 2:.1f}" cy="{y + height / 2:.1f}" r="2.5" fill="#55606b"/>'
        return
    yield (
        f'<rect x="{x:.1f}" y="{y + 1:.1f}" width="{width:.1f}" height="{height - 2:.1f}" rx="7" fill="#ffffff" '
        'fill-opacity="0.75" stroke="#c3cad1"/>'
    )
    yield _text(x + PAD / 2, y + 12, label, 'fill="#333a41"')


def _edge(e: Link, x: float, y: float, colours: _Colours) -> Iterator[str]:
    """A piece of an edge: down beside its layer's boxes, across the gap, and down past a way point."""
    a, b = e.source, e.target
    x1, y1 = x + a.x + e.start, y + a.y + a.height
    x2, y2 = x + b.x + e.end, y + b.y
    iteration = y + a.bottom
    rank = len(e.value.type.shape) if isinstance(e.value.type, ArrayType | AccType) else 0
    middle = (iteration + y2) / 2
    path = f"M{x1:.1f} {y1:.1f}" + (f"V{iteration:.1f}" if iteration > y1 else "")
    path += f"C{x1:.1f} {middle:.1f} {x2:.1f} {middle:.1f} {x2:.1f} {y2:.1f}"
    if b.passing:
        path += f"V{y2 + b.height:.1f}"
    yield f'<path d="{path}" fill="none" stroke="{colours.of(e.value)}" stroke-width="{0.9 + 0.6 * rank:.1f}"/>'
    if e.last:
        path = f"M{x2 - 3:.1f} {y2 - 5:.1f}L{x2:.1f} {y2:.1f}L{x2 + 3:.1f} {y2 - 5:.1f}"
        yield f'<path d="{path}" fill="none" stroke="{colours.of(e.value)}"/>'


__all__ = ["document"]
