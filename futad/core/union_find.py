"""Points-to sets: names that may stand for the same memory, as disjoint sets (union-find)."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


@dataclass(slots=True)
class UnionFind(Generic[T]):
    """Disjoint sets; a member that nothing joined is a group by itself.  (Galler and Fischer 1964, with the paths
    compressed.)"""

    up: dict[T, T] = field(default_factory=dict)

    def find(self, member: T) -> T:
        """The member that stands for the group."""
        up = self.up
        above = up.get(member)
        if above is None:
            return member
        root = above
        while (above := up.get(root)) is not None:
            root = above
        while member is not root and member != root:
            up[member], member = root, up[member]
        return root

    def join(self, a: T, b: T) -> None:
        """Make one group of two members' groups, that of the second one's representative."""
        a, b = self.find(a), self.find(b)
        if a != b:
            self.up[a] = b
