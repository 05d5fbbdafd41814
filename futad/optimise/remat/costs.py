"""What values and scopes cost to compute, as scalar operations."""

from __future__ import annotations

from collections.abc import Sequence, Set

from futad.core import ir
from futad.core.ir import Lambda, Stm
from futad.core.scalarops import OPS
from futad.core.types import AccType, Atom, Const, Var


def operations(lam: Lambda) -> int:
    """The scalar operations of a scope and its maps, for an element each where it is not known how many there are."""
    own = sum(OPS[s.exp.op].cost for s in lam.stms if type(s.exp) is ir.Op)
    maps = sum(known(s.exp.width) * operations(s.exp.lam) for s in lam.stms if type(s.exp) is ir.Map)
    branches = sum(max(map(operations, s.exp.lambdas())) for s in lam.stms if type(s.exp) is ir.If)
    return own + maps + branches


def known(n: Atom) -> int:
    """A size, or 1 as `_constant` has it for one that is not known."""
    return max(1, n.value) if type(n) is Const else 1


class Costs:
    """What values of a scope cost, arrays an element, with all that they are made of in it; which are made of folds.
    Those that are known cost nothing."""

    def __init__(self, known: Set[Atom], of: dict[Atom, int] | None = None, folded: Set[Atom] = frozenset()) -> None:
        self.known = known
        self.of: dict[Atom, int] = {} if of is None else dict(of)
        self.folded: set[Atom] = set(folded)

    def note_all(self, stms: Sequence[Stm]) -> None:
        for s in stms:
            self.note(s)

    def inner(self, lam: Lambda, arrays: Sequence[Atom]) -> Costs:
        """Of a scope inside, whose parameters are elements of these."""
        pairs = [*zip(lam.params, arrays, strict=True)]
        elements: dict[Atom, int] = {p: self.of.get(a, 0) for p, a in pairs}
        inside = Costs(self.known, self.of | elements, self.folded | {p for p, a in pairs if a in self.folded})
        inside.note_all(lam.stms)
        return inside

    def note(self, s: Stm) -> None:
        e, cost = s.exp, self.of.get
        if type(e) is ir.Op:
            self.set(s.pat[0], OPS[e.op].cost + sum([cost(a, 0) for a in e.args]), not self.folded.isdisjoint(e.args))
        elif type(e) is ir.Map:
            inside = self.inner(e.lam, e.arrays)
            for v, r in zip(s.pat, e.lam.result, strict=True):
                self.set(v, inside.of.get(r, 0), r in inside.folded)
        elif type(e) is ir.Reduce:
            operator = sum([OPS[t.exp.op].cost for t in e.lam.stms if type(t.exp) is ir.Op])
            length = e.width.value if type(e.width) is Const else 1
            for v in s.pat:
                self.set(v, length * (operator + sum([cost(a, 0) for a in e.arrays])), True)
        elif type(e) is ir.WithAcc:
            inside = self.inner(e.lam, e.arrays)
            for v, r in zip(s.pat, e.lam.result, strict=True):
                self.set(v, inside.of.get(r, 0), r in inside.folded or type(r.type) is AccType)
        elif type(e) is ir.UpdateAcc:
            self.set(s.pat[0], cost(e.acc, 0) + cost(e.value, 0), True)
        elif type(e) is ir.At:
            self.set(s.pat[0], cost(e.array, 0), e.array in self.folded)

    def set(self, v: Var, cost: int, folded: bool) -> None:
        self.of[v] = 0 if v in self.known else cost
        if folded and v not in self.known:
            self.folded.add(v)


__all__ = ["Costs", "known", "operations"]
