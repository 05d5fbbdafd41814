"""Values that maps compute, computed again for other iterations where they are needed, in place of an array of them.

    let ts = map f xs in map (\\i -> ts[i - 1] + ...) (iota m)    -->    map (\\i -> f xs[i - 1] + ...) (iota m)

That pays where what the values share, which is computed more often then, costs less than to store and to read them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from futad.core import ir
from futad.core.builder import Builder
from futad.core.ir import Lambda, Stm
from futad.core.scalarops import OPS
from futad.core.types import Atom, Prim
from futad.optimise.remat.policy import Policy

Part = tuple[tuple[Stm, ...], ...]
"""What a value is made of, in each map of a nest."""


@dataclass(frozen=True, slots=True)
class Made:
    """What the maps of a nest compute of each element, the outermost first: of each its arrays, None of those that
    count its iterations."""

    maps: tuple[tuple[Lambda, tuple[Atom | None, ...]], ...]

    def inside(self, lam: Lambda, arrays: tuple[Atom | None, ...]) -> Made:
        """The nest inside of one more map."""
        return Made(((lam, arrays), *self.maps))

    def parts(self, values: Mapping[Atom, Atom], policy: Policy) -> dict[Atom, Part] | None:
        """For each of the values of the innermost map the statements that it is made of; None if not all are made of
        operations and reads that cannot fail, or if it does not pay.  The outermost map has arrays of them as the
        `values`."""
        parts: dict[Atom, Part] = {}
        for v in values:
            part = self.part(v)
            if part is None:
                return None
            parts[v] = part
        every = dict.fromkeys(s for part in parts.values() for stms in part for s in stms)
        innermost = self.maps[-1][0]
        for r in innermost.result:  # what the map needs for those it computes still
            for s in needed(innermost, {r}):
                every.pop(s, None)
        more = sum(_cost(stms) for part in parts.values() for stms in part) - _cost([*every])
        spared = [v for v in parts if values[v] not in self.maps[0][0].result]
        return parts if more <= policy.dear * len(spared) else None

    def part(self, value: Atom) -> Part | None:
        stms: list[tuple[Stm, ...]] = []
        uses = {value}
        for lam, arrays in reversed(self.maps):
            stms.insert(0, needed(lam, uses))
            uses.update(_read(lam, arrays, uses))
        return tuple(stms) if all(_plain(s) for here in stms for s in here) else None

    def inline(self, b: Builder, value: Atom, part: Part, numbers: Sequence[Atom]) -> Atom:
        """The value of the iterations of these numbers."""
        uses = {value}.union(*[ir.stm_free(s) for stms in part for s in stms])
        for lam, arrays in reversed(self.maps):
            uses.update(_read(lam, arrays, uses))
        copy = ir.Renamer()
        for (lam, arrays), stms, number in zip(self.maps, part, numbers, strict=True):
            for p, a in zip(lam.params, arrays, strict=True):
                if p in uses:
                    copy.mapping[p] = number if a is None else b.at(copy.atom(a), number)
            b.extend(copy.stms(stms))
        return copy.atom(value)


def _read(lam: Lambda, arrays: Sequence[Atom | None], uses: set[Atom]) -> list[Atom]:
    """The arrays of whose elements some are used."""
    return [a for p, a in zip(lam.params, arrays, strict=True) if p in uses and a is not None]


def needed(lam: Lambda, values: set[Atom]) -> tuple[Stm, ...]:
    """What values are made of in a scope; adds what they need of others."""
    out: list[Stm] = []
    for s in reversed(lam.stms):
        if not values.isdisjoint(s.pat):
            values |= set(ir.stm_free(s))
            out.append(s)
    return tuple(out[::-1])


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

__all__ = ["Made", "Part"]

