"""Nests of maps: how deep the maps inside a map are nested perfectly (Note [Nests] in `nests.py`)."""

from __future__ import annotations

from dataclasses import dataclass

from futad.core import ir as core
from futad.core.scalarops import OPS
from futad.core.types import AccType, Atom, Const, Prim, Var

MOST_LEVELS = 4
CHEAP = 60  # cost of the statements between two maps that every inner point repeats


def _cheap(stm: core.Stm) -> int | None:
    """The cost of a statement that may be repeated, None if it may not."""
    match stm.exp:
        case core.Op(op):
            return OPS[op].cost
        case core.At() | core.Rearrange() | core.Alias() | core.Iota():
            return 1
        case core.Replicate() | core.Assert():
            return 1
    return None


def inner_map(lam: core.Lambda, bound: set[Var]) -> core.Stm | None:
    """The map that makes all results of `lam`, or all their rows, if only cheap statements come before it and its width
    is known outside."""
    stms = list(lam.stms)
    made: list[Atom] = list(lam.result)
    while stms and isinstance(stms[-1].exp, core.ArrayLit) and not isinstance(stms[-1].exp.type, Prim):
        # Rows of a result, each one of the map's.
        (v,) = stms[-1].pat
        if v not in made:
            return None
        at = made.index(v)
        made[at : at + 1] = stms[-1].exp.elems
        stms.pop()
    if not stms:
        return None
    last = stms[-1]
    if not isinstance(last.exp, core.Map) or len(set(made)) != len(made):
        return None
    if any(isinstance(a, Const) for a in lam.result):
        return None
    if set(made) != set(last.pat) or last.exp.width in bound:
        return None
    cost = 0
    for stm in stms[:-1]:
        c = _cheap(stm)
        if c is None:
            return None
        cost += c
    if any(s in bound for v in last.pat for s in getattr(v.type, "shape", ()) if not isinstance(v.type, AccType)):
        return None
    return last if cost <= CHEAP else None


def _bound(lam: core.Lambda) -> set[Var]:
    return {*lam.params, *(v for stm in lam.stms for v in stm.pat)}


@dataclass(slots=True)
class Levels:
    """A nest of maps: the statements inside the first, and the innermost body."""

    inner: list[core.Stm]
    leaf: core.Lambda
    bound: set[Var]


def levels_of(lam: core.Lambda) -> Levels:
    """How deep maps are nested perfectly in the lambda of a map."""
    out = Levels([], lam, _bound(lam))
    while len(out.inner) < MOST_LEVELS - 1:
        stm = inner_map(out.leaf, out.bound)
        if stm is None:
            break
        out.inner.append(stm)
        out.leaf = stm.exp.lam  # type: ignore[attr-defined]
        out.bound |= _bound(out.leaf)
    return out
