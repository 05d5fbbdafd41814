"""In which order the parts of shards are combined: a binary tree over the shards' numbers.

Node (h, i) is what the shards from i * 2^h to (i + 1) * 2^h, as far as there are any, make together.  The tree depends
on the number of shards alone, so the result has the same bits whoever computes which shard; and whoever has several
that follow each other combines them as far as they are whole nodes, and keeps a few of these at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
Node = tuple[int, int]


class Tree(Generic[T]):
    """What there is of the tree over `count` shards; `combine` makes one value of two that follow each other."""

    def __init__(self, count: int, combine: Callable[[T, T], T]) -> None:
        self.count, self.combine = count, combine
        self.nodes: dict[Node, T] = {}

    def add(self, node: Node, value: T) -> None:
        """A node, joined with what is there."""
        while True:
            h, i = node
            other = (h, i ^ 1)
            if other[1] << h >= self.count and self.count > 1 << h:  # it has no sibling
                node = (h + 1, i >> 1)
            elif other in self.nodes:
                beside = self.nodes.pop(other)
                value = self.combine(beside, value) if i & 1 else self.combine(value, beside)
                node = (h + 1, i >> 1)
            else:
                self.nodes[node] = value
                return

    def root(self) -> T:
        """The value of all shards, when all are there."""
        (value,) = self.nodes.values()
        return value


__all__ = ["Node", "Tree"]
