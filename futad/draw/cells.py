"""What a layout is made of: cells in layers, the pieces of edges between them, and the distances that are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from futad.core.types import Var
from futad.draw.figure import Box, Port

CHAR, LINE, PAD = 6.7, 15.0, 8.0  # of text: a character's width, a line's height, what is left around it
TAB, DOT = 17.0, 9.0  # a port's height with a label, a port's width without one
GAP, PASSING = 18.0, 9.0  # between neighbours in a layer, beside a way point
WIDEST = 1800.0  # a layer of several boxes


@dataclass(slots=True, eq=False)
class Cell:
    """Something in a layer: a box, a port of the frame, a title, a way point of an edge; x and y within the frame."""

    width: float
    height: float
    layer: int = 0
    x: float = 0.0
    y: float = 0.0
    placed: Placed | None = None
    port: Port | None = None
    passing: bool = False
    bottom: float = 0.0  # of its layer: edges go straight down to it


@dataclass(slots=True, eq=False)
class Link:
    """A piece of an edge between cells of neighbouring layers, from `start` in one to `end` in the other."""

    value: Var
    source: Cell
    start: float
    target: Cell
    end: float
    last: bool = False


@dataclass(slots=True, eq=False)
class Placed:
    """A box with its size, the places of its ports, and what is in it."""

    box: Box
    width: float = 0.0
    height: float = 0.0
    cells: list[Cell] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    ins: list[tuple[float, float]] = field(default_factory=list)  # of each port: the middle, and its width
    outs: list[tuple[float, float]] = field(default_factory=list)


def tab(port: Port) -> float:
    """The width of a port."""
    return len(port.label) * CHAR + PAD if port.label else DOT


def rows(layer: Sequence[Cell]) -> list[list[Cell]]:
    """A layer as one or more that are not too wide: its cells do not depend on each other."""
    out: list[list[Cell]] = []
    width = WIDEST
    for c in layer:
        if width + c.width > WIDEST:
            out.append([])
            width = 0.0
        out[-1].append(c)
        width += c.width + GAP
    return out


def between(a: Cell, b: Cell) -> float:
    """The least distance between neighbours in a layer."""
    if a.port is not None and b.port is not None:
        return PAD
    return PASSING if a.passing or b.passing else GAP


def nearest(layer: Sequence[Cell], wanted: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The places nearest to those wanted (weighted least squares) that keep the order and the distances."""
    offsets, at = [], 0.0
    for a, b in zip([None, *layer], layer, strict=False):
        at += a.width + between(a, b) if a is not None else 0.0
        offsets.append(at)
    blocks: list[tuple[float, float, int]] = []  # pool adjacent violators: mean, weight, length
    for x, offset, w in zip(wanted, offsets, weights, strict=True):
        mean, weight, count = x - offset, w, 1
        while blocks and blocks[-1][0] >= mean:
            m, v, c = blocks.pop()
            mean, weight, count = (mean * weight + m * v) / (weight + v), weight + v, count + c
        blocks.append((mean, weight, count))
    flat = [mean for mean, _, count in blocks for _ in range(count)]
    return [x + offset for x, offset in zip(flat, offsets, strict=True)]


__all__ = ["CHAR", "LINE", "PAD", "TAB", "Cell", "Link", "Placed", "between", "nearest", "rows", "tab"]
