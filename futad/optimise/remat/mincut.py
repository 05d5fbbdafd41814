"""A minimum cut of a directed graph, by shortest augmenting paths.

E. A. Dinic, "Algorithm for solution of a problem of maximum flow in networks with power estimation", Soviet Math.
Doklady 11 (1970).  The graphs here have some dozens of nodes; networkx, which has the same, takes longer to import than
most programs to compile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

Node = TypeVar("Node", bound=Hashable)

INFINITE = 1 << 40
"""The capacity of an edge that no cut has."""


class Graph(Generic[Node]):
    """Edges with capacities, which are added up if there are several between two nodes."""

    def __init__(self) -> None:
        self.left: dict[Node, dict[Node, int]] = {}

    def edge(self, a: Node, b: Node, capacity: int) -> None:
        """An edge from `a` to `b`."""
        out = self.left.setdefault(a, {})
        out[b] = out.get(b, 0) + capacity
        self.left.setdefault(b, {}).setdefault(a, 0)

    def side(self, source: Node, sink: Node) -> tuple[int, set[Node]]:
        """The capacity of a minimum cut, and the nodes on the side of the source, as few as may be.  The edges are used
        up.  INFINITE or more if there is no finite cut."""
        flow = 0
        while (levels := self._levels(source)).get(sink) is not None:
            places = {a: list(out) for a, out in self.left.items()}
            while (more := self._augment(source, sink, levels, places)) > 0:
                flow += more
                if flow >= INFINITE:
                    return flow, set()
        return flow, set(levels)

    def _levels(self, source: Node) -> dict[Node, int]:
        """The nodes that can be reached, and in how many steps."""
        levels = {source: 0}
        todo = deque([source])
        while todo:
            a = todo.popleft()
            for b, left in self.left.get(a, {}).items():
                if left > 0 and b not in levels:
                    levels[b] = levels[a] + 1
                    todo.append(b)
        return levels

    def _augment(self, source: Node, sink: Node, levels: dict[Node, int], places: dict[Node, list[Node]]) -> int:
        """One more path along the levels, and what flows through it; `places` has the neighbours not tried yet."""
        path = [source]
        while path[-1] != sink:
            a = path[-1]
            while places[a]:
                b = places[a][-1]
                if self.left[a][b] > 0 and levels.get(b) == levels[a] + 1:
                    path.append(b)
                    break
                places[a].pop()
            else:
                path.pop()
                if not path:
                    return 0
                places[path[-1]].pop()
        steps = list(zip(path, path[1:], strict=False))
        flow = min([self.left[a][b] for a, b in steps])
        for a, b in steps:
            self.left[a][b] -= flow
            self.left[b][a] += flow
        return flow


__all__ = ["INFINITE", "Graph"]
