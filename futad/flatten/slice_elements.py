"""Elements of slices, in nests of maps, as elements of what was sliced.

    let e = xs[i:n:d] in map f e      -->      map (\\k -> f xs[i + k * d]) (iota n)

A nest's index maps (`core/nest.py`) know arrays that maps run over, not slices that points of the nest take: of these
the places are scalars like others then.  Slices that nothing else uses are dead code.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from futad.core import ir
from futad.core.builder import Builder
from futad.core.ir import Lambda, Stm
from futad.core.node import Range
from futad.core.types import I64, ONE, ZERO, ArrayType, Atom, Const, Var
from futad.legality import Legality

LEGAL = Legality("slice-elements", "elements of slices are read in the array that is sliced", fires=False)
THERE = LEGAL.condition("slice is there", "a slice out of range, of which no element is read then, fails no more")
COUNTS = LEGAL.condition("places count from 0", "other elements than those of the slice are read")


def by_elements(stm: Stm, indices: Set[Atom]) -> Stm:
    """The map with elements of slices that its body, or a map in it, takes read where they are; the same statement if
    there are none.  `indices`: arrays of 0, 1, and so on."""
    e = stm.exp
    if not isinstance(e, ir.Map):
        return stm
    lam = _scope(e.lam, {}, indices)
    return stm if lam is e.lam else Stm(stm.pat, ir.Map(e.width, e.arrays, lam), stm.attrs)


def _slice(s: Stm) -> ir.At | None:
    """The slice that a statement takes, if it is known to be there."""
    e = s.exp
    if not isinstance(e, ir.At) or not isinstance(e.array, Var) or not any(isinstance(i, Range) for i in e.index):
        return None
    return e if THERE(e.check is None) else None


def _scope(lam: Lambda, slices: Mapping[Atom, ir.At], indices: Set[Atom]) -> Lambda:
    known = dict(slices)
    stms: list[Stm] = []
    for s in lam.stms:
        e = s.exp
        if (taken := _slice(s)) is not None:
            known[s.pat[0]] = taken
        if isinstance(e, ir.Map):
            s = Stm(s.pat, _map(e, stms, known, indices), s.attrs)
        stms.append(s)
    if all(a.exp is b.exp for a, b in zip(stms, lam.stms, strict=False)) and len(stms) == len(lam.stms):
        return lam
    return Lambda(lam.params, tuple(stms), lam.result)


def _map(e: ir.Map, before: list[Stm], slices: Mapping[Atom, ir.At], indices: Set[Atom]) -> ir.Map:
    """A map whose elements of slices are read in its body; what it runs over instead is made `before`."""
    given = [(p, a) for p, a in zip(e.lam.params, e.arrays, strict=True) if a not in slices]
    if len(given) == len(e.arrays):
        lam = _scope(e.lam, slices, indices)
        return e if lam is e.lam else ir.Map(e.width, e.arrays, lam)
    at = next((p for p, a in given if p.type is I64 and COUNTS(a in indices)), None)
    if at is None:
        at, places = Var("i", I64), Var("is", ArrayType(I64, (e.width,)))
        before.append(Stm((places,), ir.Iota(e.width, ZERO, ONE)))
        given.append((at, places))
    b = Builder()
    for p, a in zip(e.lam.params, e.arrays, strict=True):
        if a in slices:
            taken = slices[a]
            b.add(Stm((p,), ir.At(taken.array, _element(b, taken.index, at), None)))
    lam = Lambda(tuple([p for p, _ in given]), (*b.stms, *e.lam.stms), e.lam.result)
    return ir.Map(e.width, tuple([a for _, a in given]), _scope(lam, slices, indices))


def _element(b: Builder, index: ir.Index, at: Atom) -> ir.Index:
    """The places of element `at` of a slice."""
    k = next(k for k, i in enumerate(index) if isinstance(i, Range))
    r = index[k]
    assert isinstance(r, Range)
    step = at if r.stride is ONE else b.op("mul", at, r.stride)
    whole = step if isinstance(r.start, Const) and r.start.value == 0 else b.op("add", r.start, step)
    return (*index[:k], whole, *index[k + 1 :])


__all__ = ["by_elements"]
