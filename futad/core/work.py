"""Work that the interpreter counts: by construct, and by scalar operation and type."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from futad.core.construct import Lambda, Stm
from futad.core.types import Prim

Where = Stm | Lambda
MULTIPLY_ADD = "multiply-add"
"""The operation of matrix products and contractions: a product and the sum that it goes into."""


@dataclass(slots=True)
class Work:
    """Work done by one kind of construct: scalar operations, array elements read and written."""

    ops: int = 0
    read: int = 0
    written: int = 0


class Tally:
    """What has been counted.

    `counts`: by the construct's name in the text.  `operations`: how often each scalar operation was done, by where it
    stands (the statement; of a fold that is done at once, the operator), its name (or `MULTIPLY_ADD`) and its last
    argument's type.  What folds, histograms and accumulators combine with counts, too.
    """

    def __init__(self) -> None:
        self.counts: dict[str, Work] = {}
        self.operations: Counter[tuple[Where, str, Prim]] = Counter()

    def add(self, kind: str, ops: int, read: int, written: int) -> None:
        """Work of a kind of construct."""
        w = self.counts.setdefault(kind, Work())
        w.ops += ops
        w.read += read
        w.written += written

    def operation(self, where: Where, name: str, t: Prim, times: int) -> None:
        """A scalar operation at a type, done so often."""
        self.operations[where, name, t] += times

    def by_name(self) -> Counter[tuple[str, str]]:
        """How often each operation was done, by its name and that of its type."""
        out: Counter[tuple[str, str]] = Counter()
        for (_, name, t), times in self.operations.items():
            out[name, t.name] += times
        return out

    def mark(self) -> Tally:
        """What has been counted until now."""
        out = Tally()
        out.counts.update({k: replace(w) for k, w in self.counts.items()})
        out.operations.update(self.operations)
        return out

    def back(self, mark: Tally) -> None:
        """Nothing counts since then."""
        self.counts.clear()
        self.counts.update({k: replace(w) for k, w in mark.counts.items()})
        self.operations.clear()
        self.operations.update(mark.operations)


__all__ = ["MULTIPLY_ADD", "Tally", "Where", "Work"]
