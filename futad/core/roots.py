"""In which arrays' memory the arrays lie that statements make."""

from __future__ import annotations

from collections.abc import Iterable

from futad.core import ir
from futad.core.alias import flows
from futad.core.types import ArrayType, Atom, Var


class Roots:
    """Of statements, in order: for each array those in whose memory it may lie, itself if it is new."""

    def __init__(self, stms: Iterable[ir.Stm] = ()) -> None:
        self.bound: set[Var] = set()
        self.overwritten: set[Var] = set()  # those that some statement consumes
        self._consumed: set[Atom] = set()
        self._made: list[Var] = []  # by the statements themselves, not those inside them
        self._sources: dict[Var, set[Var]] = {}
        for s in stms:
            self.add(s)

    def add(self, stm: ir.Stm) -> None:
        self._made += stm.pat
        for s in ir.statements((stm,)):
            self.bound.update(s.pat)
            for v, a in flows(s):
                if isinstance(a, Var) and isinstance(a.type, ArrayType) and a is not v:
                    self._sources.setdefault(v, set()).add(a)
            self._consumed.update(s.exp.consumes())
        for s in ir.statements((stm,)):
            for a in s.exp.consumes():
                self.overwritten |= self.of(a)

    def copy(self) -> Roots:
        """For statements that follow on one way of two."""
        out = Roots()
        out.bound, out.overwritten, out._consumed = set(self.bound), set(self.overwritten), set(self._consumed)
        out._made, out._sources = list(self._made), {v: set(more) for v, more in self._sources.items()}
        return out

    def successors(self, root: Var) -> list[Var]:
        """The arrays that may lie in this one's memory and are not overwritten, the last one first."""
        return [v for v in reversed(self._made) if v not in self._consumed and root in self.of(v)]

    def of(self, a: Atom) -> set[Var]:
        """The arrays that have their memory from no other; none for a scalar."""
        if not isinstance(a, Var) or not isinstance(a.type, ArrayType):
            return set()
        out: set[Var] = set()
        seen = {a}
        todo = [a]
        while todo:
            v = todo.pop()
            more = self._sources.get(v, set())
            if not more:
                out.add(v)
            todo += more - seen
            seen |= more
        return out
