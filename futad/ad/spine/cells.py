"""Cells: the state of the machine, and which variables share one.

A variable has a cell if a block with a number needs it from those before.  A jump copies what it gives from cell to
cell, unless both are one: so a loop's variable has the cell of its initial value, of the body's result and of the
pattern's variable, and an array that is updated stays where it is.  Cells of variables that are never needed at the
same place are one, too (colouring of the interference graph; Chaitin, 1982).

A cell of an array whose size is bound inside the machine has a cell of its own for that size.
"""

from __future__ import annotations

from dataclasses import dataclass

from futad.ad.spine.liveness import Liveness
from futad.ad.spine.paths import Threads
from futad.core.roots import Roots
from futad.core.types import I64, ArrayType, Atom, Prim, Type, Var, elem_of, shape_of
from futad.core.union_find import UnionFind
from futad.legality import Legality

LEGAL = Legality("cells", "variables that are never needed at the same place share a cell", fires=False)
APART = LEGAL.condition("never needed at once", "one of two variables in a cell overwrites the other")

Kind = tuple[Prim, tuple[Atom | None, ...]]


@dataclass(frozen=True, slots=True)
class Cell:
    """`at`: its place in the state; `sizes`: by dimension the place of the size, None where it does not change."""

    kind: Kind
    at: int
    sizes: tuple[int | None, ...]


class Cells:
    """`of[variable]`: its cell.  `slots`: variables like those of the state, sizes before arrays."""

    def __init__(self, threads: Threads, live: Liveness) -> None:
        self._bound = live.bound
        self._meet = [live.at[b] for b in (*threads.numbered, threads.last)]
        every = sorted({v for now in self._meet for v in now}, key=lambda v: v.id)
        self._near: dict[Var, set[Var]] = {v: set() for v in every}
        for now in self._meet:
            for v in now:
                self._near[v] |= now - {v}
        groups = UnionFind[Var]()
        self._members: dict[Var, set[Var]] = {v: {v} for v in every}
        for a, b in _copies(threads, live, set(every)):
            x, y = groups.find(a), groups.find(b)
            if x is not y and self._one(x, y):
                groups.join(x, y)
                self._members[y] |= self._members.pop(x)
        self.slots: list[Var] = []
        self.of: dict[Var, Cell] = {}
        cells: list[tuple[Cell, Var]] = []
        for root in [v for v in every if v in self._members]:
            found = next(((c, r) for c, r in cells if self._one(root, r)), None)
            if found is None:
                found = self._new(root), root
                cells.append(found)
            else:
                self._members[found[1]] |= self._members[root]
            self.of.update((v, found[0]) for v in self._members[root])
        self.cells = [c for c, _ in cells]

    def _one(self, x: Var, y: Var) -> bool:
        """Whether the variables of two groups can have one cell."""
        near = {v for m in self._members[x] for v in self._near[m]}
        return self.kind(x.type) == self.kind(y.type) and APART(near.isdisjoint(self._members[y]))

    def kind(self, t: Type) -> Kind:
        """What variables of one cell have in common."""
        return elem_of(t), tuple([None if n in self._bound else n for n in shape_of(t)])

    def _new(self, v: Var) -> Cell:
        elem, shape = kind = self.kind(v.type)
        own = [Var(f"{v.name}_size", I64) if n is None else n for n in shape]
        sizes: list[int | None] = []
        for n, k in zip(shape, own, strict=True):
            sizes.append(len(self.slots) if n is None else None)
            if n is None:
                assert isinstance(k, Var)
                self.slots.append(k)
        self.slots.append(Var(v.name, ArrayType(elem, tuple(own)) if own else elem))
        return Cell(kind, len(self.slots) - 1, tuple(sizes))


def _copies(threads: Threads, live: Liveness, every: set[Var]) -> list[tuple[Var, Var]]:
    """The pairs of variables between which jumps copy, those first whose copies cost most and happen most often."""
    found: list[tuple[bool, bool, Var, Var]] = []
    for b in (threads.first, *threads.numbered):
        roots = Roots(b.stms)
        for leaf in threads.leaves(b):
            for v in sorted(live.at[leaf.target], key=lambda v: v.id):
                a = leaf.given.get(v, v)
                if not isinstance(a, Var) or a is v:
                    continue
                for r in (a, *sorted(roots.of(a), key=lambda r: r.id)):
                    if r in every:
                        found.append((isinstance(v.type, Prim), leaf.target is not b, v, r))
    order = sorted(range(len(found)), key=lambda k: (found[k][0], found[k][1], k))
    return [found[k][2:] for k in order]
