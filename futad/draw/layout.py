"""Where the boxes of a figure go: layers from top to bottom, in each box by itself.

The layered method of Sugiyama, Tagawa and Toda (1981): boxes in layers, so that values flow downwards (networkx's
topological generations, sources beside their users); way points in the layers that an edge passes, so that it runs
between boxes and not across them; orders by barycentres, the one with the fewest crossings kept; then places, each as
near to the middle of its neighbours as the order allows (least squares: isotonic regression by pool adjacent
violators).  A box around others is as large as these need, and its ports are the first and last layer of them.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence

import networkx as nx

from futad.core.types import Var
from futad.draw.cells import CHAR, LINE, PAD, TAB, Cell, Link, Placed, between, nearest, rows, tab
from futad.draw.figure import Box

LEAST_GAP, MOST_GAP = 26.0, 120.0  # between layers
SWEEPS = 10


def placed(box: Box) -> Placed:
    """The box and those in it with their sizes and places."""
    return _Frame(box).placed() if box.inside else _leaf(box)


def _leaf(box: Box) -> Placed:
    out = Placed(box)
    ins, outs = [tab(p) for p in box.ins], [tab(p) for p in box.outs]
    text = max([len(line) for line in box.lines], default=0) * CHAR + 2 * PAD
    out.width = max(text, *[sum(ws) + PAD * (len(ws) + 1) for ws in (ins, outs)], 30.0)
    tabs = TAB if any(p.label for p in box.outs) else 0.0
    out.height = len(box.lines) * LINE + PAD + tabs
    out.ins, out.outs = _spread(ins, out.width), _spread(outs, out.width)
    return out


def _spread(widths: Sequence[float], whole: float) -> list[tuple[float, float]]:
    """The middles of ports along a side, with even gaps."""
    gap = (whole - sum(widths)) / (len(widths) + 1)
    at, out = gap, []
    for w in widths:
        out.append((at + w / 2, w))
        at += w + gap
    return out


class _Frame:
    """The inside of one box."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self.title = Cell(len(box.title) * CHAR + 2 * PAD, TAB)
        self.ins = [Cell(tab(p), TAB, port=p) for p in box.ins]
        self.outs = [Cell(tab(p), TAB, port=p) for p in box.outs]
        self.boxes = [Cell(x.width, x.height, placed=x) for x in map(placed, box.inside)]
        self.links: list[Link] = []
        self.layers: list[list[Cell]] = []

    def placed(self) -> Placed:
        edges = self.edges()
        self.assign(edges)
        self.route(edges)
        self.order()
        self.across()
        self.down()
        out = Placed(self.box, cells=[c for layer in self.layers for c in layer], links=self.links)
        out.width = max(c.x + c.width for c in out.cells) + PAD
        out.height = max(c.y + c.height for c in self.layers[-1])
        out.ins = [(c.x + c.width / 2, c.width) for c in self.ins]
        out.outs = [(c.x + c.width / 2, c.width) for c in self.outs]
        return out

    def edges(self) -> list[Link]:
        """From where each value is bound to where it is used, whatever lies between."""
        made: dict[Var, list[tuple[Cell, float]]] = {}
        for c in self.ins:
            if c.port is not None and c.port.inside is not None:
                made.setdefault(c.port.inside, []).append((c, c.width / 2))
        for c in self.boxes:
            assert c.placed is not None
            for p, (x, _) in zip(c.placed.box.outs, c.placed.outs, strict=True):
                if p.outside is not None:
                    made.setdefault(p.outside, []).append((c, x))
        out: list[Link] = []
        for c in self.boxes:
            assert c.placed is not None
            for p, (x, _) in zip(c.placed.box.ins, c.placed.ins, strict=True):
                if p.outside is not None:
                    out += [Link(p.outside, a, s, c, x, True) for a, s in made.get(p.outside, ()) if a is not c]
        for c in self.outs:
            v = c.port.inside if c.port is not None else None
            if v is not None:
                out += [Link(v, a, s, c, c.width / 2, True) for a, s in made.get(v, ())]
        return out

    def assign(self, edges: Sequence[Link]) -> None:
        """Give each box its layer."""
        flow = nx.DiGraph()
        flow.add_nodes_from(self.boxes)
        inner = [e for e in edges if e.source.placed is not None and e.target.placed is not None]
        flow.add_edges_from((e.source, e.target) for e in inner)
        generations = list(nx.topological_generations(flow))
        for k, cells in enumerate(generations):
            for c in cells:
                c.layer = k + 1
        # What has few inputs goes down to its first user: its own edges are shorter then than those it uses are longer.
        fed = {e.target: 0 for e in edges}
        for e in edges:
            fed[e.target] += 1
        for cells in reversed(generations):
            for c in cells:
                users = [u.layer for u in flow.successors(c)]
                if users and fed.get(c, 0) <= len(users):
                    c.layer = min(users) - 1
        layers: list[list[Cell]] = [[] for _ in generations]
        for c in self.boxes:
            layers[c.layer - 1].append(c)
        narrow = [row for layer in layers for row in rows(layer)]
        self.layers = [[self.title, *self.ins], *narrow, list(self.outs) or [Cell(0.0, TAB / 2)]]
        for k, layer in enumerate(self.layers):
            for c in layer:
                c.layer = k

    def route(self, edges: Sequence[Link]) -> None:
        """Cut the edges into pieces from layer to layer; those of one value share their way."""
        ways: dict[tuple[Cell, float, Var, int], Cell] = {}
        for e in edges:
            at, start = e.source, e.start
            for layer in range(e.source.layer + 1, e.target.layer):
                key = (e.source, e.start, e.value, layer)
                if key not in ways:
                    ways[key] = Cell(0.0, 0.0, layer, passing=True)
                    self.layers[layer].append(ways[key])
                    self.links.append(Link(e.value, at, start, ways[key], 0.0))
                at, start = ways[key], 0.0
            self.links.append(Link(e.value, at, start, e.target, e.end, True))

    # -- orders

    def order(self) -> None:
        up: dict[Cell, list[Link]] = {}
        down: dict[Cell, list[Link]] = {}
        for e in self.links:
            up.setdefault(e.target, []).append(e)
            down.setdefault(e.source, []).append(e)
        self.up, self.down_ = up, down
        self.pack()
        best, fewest = [list(layer) for layer in self.layers], self.crossings()
        for k in range(SWEEPS):
            layers = self.layers if k % 2 == 0 else self.layers[::-1]
            for layer in layers:
                self.sort(layer, k % 2 == 0)
            self.pack()
            count = self.crossings()
            if count < fewest:
                best, fewest = [list(layer) for layer in self.layers], count
        self.layers = best
        self.pack()

    def sort(self, layer: list[Cell], downwards: bool) -> None:
        def key(c: Cell) -> float:
            if c is self.title:
                return float("-inf")
            near = self.up.get(c, ()) if downwards else self.down_.get(c, ())
            if not near:
                return c.x + c.width / 2
            if downwards:
                return sum(e.source.x + e.start - e.end for e in near) / len(near) + c.width / 2
            return sum(e.target.x + e.end - e.start for e in near) / len(near) + c.width / 2

        layer.sort(key=key)
        self.pack_layer(layer)

    def pack(self) -> None:
        for layer in self.layers:
            self.pack_layer(layer)

    def pack_layer(self, layer: Sequence[Cell]) -> None:
        at = PAD
        for a, b in zip([None, *layer], layer, strict=False):
            at += between(a, b) if a is not None else 0.0
            b.x = at
            at += b.width

    def crossings(self) -> int:
        """How often edges cross, straight lines between layers."""
        total = 0
        for layer in self.layers:
            ends: list[float] = []
            lines = sorted(
                (e.source.x + e.start, e.target.x + e.end) for c in layer for e in self.down_.get(c, ())
            )  # fmt: skip
            for _, end in lines:
                total += len(ends) - bisect_right(ends, end)
                insort(ends, end)
        return total

    # -- places

    def across(self) -> None:
        """The x of each cell, in turns from above and from below."""
        for k in range(SWEEPS):
            for layer in self.layers if k % 2 == 0 else self.layers[::-1]:
                wanted, weights = [], []
                for c in layer:
                    near = [(e.source.x + e.start - e.end, e) for e in self.up.get(c, ())]
                    near += [(e.target.x + e.end - e.start, e) for e in self.down_.get(c, ())]
                    heavy = [4.0 if c.passing and (e.source.passing or e.target.passing) else 1.0 for _, e in near]
                    if near:
                        wanted.append(sum(x * w for (x, _), w in zip(near, heavy, strict=True)) / sum(heavy))
                    else:
                        wanted.append(c.x)
                    weights.append(max(sum(heavy), 0.01))
                    if c is self.title:
                        wanted[-1], weights[-1] = PAD, 1e6
                for c, x in zip(layer, nearest(layer, wanted, weights), strict=True):
                    c.x = x
        left = min(c.x for layer in self.layers for c in layer)
        for layer in self.layers:
            for c in layer:
                c.x += PAD - left
        # The title stays in the corner, whatever moved to the right of it.
        self.title.x = PAD

    def down(self) -> None:
        """The y of each layer, with more room where edges go far to the side."""
        y = 0.0
        for k, layer in enumerate(self.layers):
            height = max(c.height for c in layer)
            for c in layer:
                c.y = y
                c.bottom = y + height
                if c.passing:
                    c.height = height
            if k + 1 == len(self.layers):
                break
            leaning = [abs(e.source.x + e.start - e.target.x - e.end) for c in layer for e in self.down_.get(c, ())]
            gap = LEAST_GAP + sum(leaning) / 60 if leaning else LEAST_GAP / 2
            y += height + min(gap, MOST_GAP)


__all__ = ["placed"]
