"""Groups of pointers that may point to the same memory."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Groups:
    """Disjoint sets of names; a name that nothing joined is a group by itself."""

    up: dict[str, str] = field(default_factory=dict)

    def find(self, name: str) -> str:
        """The name that stands for the group."""
        while name in self.up:
            name = self.up[name]
        return name

    def join(self, a: str, b: str) -> None:
        """Make one group of two names' groups."""
        a, b = self.find(a), self.find(b)
        if a != b:
            self.up[a] = b
