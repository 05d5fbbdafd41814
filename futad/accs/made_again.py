"""Values that a map computes, computed again for another iteration where they are needed, in place of an array of them.

    let ts = map f xs in map (\\i -> ts[i - 1] + ...) (iota m)    -->    map (\\i -> f xs[i - 1] + ...) (iota m)

That pays where what the values share, which is computed more often then, costs less than to store and to read them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from futad.core import ir
from futad.core.builder import Builder
from futad.core.ir import Lambda, Stm
from futad.core.scalarops import OPS
from futad.core.types import Atom, Prim
from futad.optimise.remat.policy import Policy


@dataclass(frozen=True, slots=True)
class Made:
    """What a map computes of each element: its arrays, None of those that count its iterations."""

    lam: Lambda
    arrays: tuple[Atom | None, ...]

    def parts(self, values: Collection[Atom], policy: Policy) -> dict[Atom, Lambda] | None:
        """For each of the values the statements that it is made of; None if not all are made of operations and reads
        that cannot fail, or if it does not pay."""
        parts: dict[Atom, Lambda] = {}
        for v in values:
            part = self.part(v)
            if part is None:
                return None
            parts[v] = part
        every = dict.fromkeys(s for part in parts.values() for s in part.stms)
        for r in self.lam.result:  # what the map needs for those it computes still
            for s in self.needed(r):
                every.pop(s, None)
        more = sum(_cost(part.stms) for part in parts.values()) - _cost([*every])
        spared = [v for v in parts if v not in self.lam.result]
        return parts if more <= policy.dear * len(spared) else None

    def needed(self, value: Atom) -> list[Stm]:
        """What a value is made of."""
        needed, out = {value}, []
        for s in reversed(self.lam.stms):
            if not needed.isdisjoint(s.pat):
                needed |= set(ir.stm_free(s))
                out.append(s)
        return out[::-1]

    def part(self, value: Atom) -> Lambda | None:
        stms = self.needed(value)
        return Lambda(self.lam.params, tuple(stms), (value,)) if all(map(_plain, stms)) else None

    def inline(self, b: Builder, part: Lambda, number: Atom) -> Atom:
        """The value of the iteration of this number."""
        uses = set(part.result).union(*[ir.stm_free(s) for s in part.stms])
        pairs = zip(part.params, self.arrays, strict=True)
        args = [number if a is None else b.at(a, number) if p in uses else p for p, a in pairs]
        return b.inline(part, args)[0]


def _plain(s: Stm) -> bool:
    """Whether it is computed of scalars and elements, in any iteration without failing."""
    e = s.exp
    if type(e) is ir.Op:
        return not OPS[e.op].can_fail
    if type(e) is ir.At:
        return e.check is None and isinstance(s.pat[0].type, Prim)
    return type(e) is ir.If and all(_plain(t) for lam in e.lambdas() for t in lam.stms)


def _cost(stms: Sequence[Stm]) -> int:
    inner = [t for s in stms for lam in s.exp.lambdas() for t in lam.stms]
    own = sum([OPS[s.exp.op].cost if type(s.exp) is ir.Op else 1 for s in stms])
    return own + _cost(inner) if inner else own


__all__ = ["Made"]
