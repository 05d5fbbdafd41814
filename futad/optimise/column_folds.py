"""Folds of columns go over rows, where rows are made.

    let m = map (\\x -> map (f x) ys) xs
    in map (\\column -> g (reduce op ne column)) (transpose m)
      -->
    let sums = reduce (map2 op) (replicate k ne) (map (\\x -> map (f x) ys) xs)
    in map g sums

and a view of a matrix's rows goes into the map that reads them, where those may be made, too:

    map f (map transpose (map g xs))  -->  map (\\row -> f (transpose row)) (map g xs)

Each column is folded in the order of its elements, as before.  The rows are then folded by the loop that makes them,
and need not be stored for it (fusion).  Columns of arrays that nobody makes here are left alone: a loop over them
keeps its sums in registers.  (The interchange of a reduction and the map around it: Henriksen et al., "Futhark: purely
functional GPU-programming with nested parallelism and in-place array updates", PLDI 2017, rule G5.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from futad.core import ir
from futad.core.builder import Builder
from futad.core.ir import Lambda, Program, Stm
from futad.core.scope import uses_in
from futad.core.types import Atom, Const, Prim, Type, Var, array_of, row_type, shape_of
from futad.legality import Legality

LEGAL = Legality("column-folds", "columns are folded by the loop that makes the rows")
FROM_OUTSIDE = LEGAL.condition("operator from outside", "the operator, or its neutral element, is one for each column")

FEWEST = 8  # columns, if it is known how many: fewer are no work for vector lanes


def column_folds(program: Program) -> Program:
    """Folds of columns as folds of rows, in every scope."""
    return ir.map_bodies(program, _scope)


def _scope(lam: Lambda) -> Lambda:
    defs = {v: s.exp for s in lam.stms for v in s.pat}
    uses = uses_in(lam.stms, lam.result)
    stms: list[Stm] = []
    for s in lam.stms:
        s = ir.map_scopes(_with_views(s, defs, uses), _scope)
        e = s.exp
        found = _found(e, defs) if isinstance(e, ir.Mapping) else None
        if found is None:
            stms.append(s)
        else:
            LEGAL.fired()
            stms += _by_rows(s, found)
    if all(a is b for a, b in zip(stms, lam.stms, strict=False)) and len(stms) == len(lam.stms):
        return lam
    return Lambda(lam.params, tuple(stms), lam.result)


def _with_views(s: Stm, defs: dict[Var, ir.Exp], uses: Mapping[Atom, int]) -> Stm:
    """A map that takes views of rows which the scope makes for it alone."""
    e = s.exp
    if not isinstance(e, ir.Mapping):
        return s
    arrays, params, head = list(e.arrays), list(e.lam.params), list[Stm]()
    for k, (a, p) in enumerate(zip(e.arrays, e.lam.params, strict=True)):
        view = defs.get(a) if isinstance(a, Var) and uses.get(a) == 1 else None
        if not isinstance(view, ir.Rearrange) or len(view.perm) < 3 or view.perm[0] != 0:
            continue
        m = view.array
        if not isinstance(m, Var) or uses.get(m) != 1:
            continue
        made = defs.get(m)
        if isinstance(made, ir.Mapping) and made.width is e.width:
            arrays[k], params[k] = m, Var(m.name, row_type(m.type))
            head.append(Stm((p,), ir.Rearrange(params[k], tuple([d - 1 for d in view.perm[1:]]))))
    if not head:
        return s
    LEGAL.fired()
    lam = Lambda(tuple(params), (*head, *e.lam.stms), e.lam.result)
    return Stm(s.pat, e.over(tuple(arrays), lam), s.attrs)


@dataclass(slots=True)
class _Columns:
    """The folds in a map's lambda, and by its parameters that are columns the matrices of which they are."""

    folds: list[Stm] = field(default_factory=list)
    matrices: dict[Atom, Var] = field(default_factory=dict)


def _found(e: ir.Mapping, defs: dict[Var, ir.Exp]) -> _Columns | None:
    """The folds of columns that may go; None if there are none."""
    if isinstance(e.width, Const) and e.width.value < FEWEST:
        return None
    out = _Columns()
    for a, p in zip(e.arrays, e.lam.params, strict=True):
        turned = defs.get(a) if isinstance(a, Var) else None
        if not isinstance(turned, ir.Rearrange) or turned.perm != (1, 0) or not isinstance(m := turned.array, Var):
            continue
        made = defs.get(m)
        if isinstance(made, ir.Mapping) and made.width is shape_of(m.type)[0]:
            out.matrices[p] = m
    if not out.matrices:
        return None
    inside = {*e.lam.params, *[v for s in e.lam.stms for v in s.pat]}
    for s in e.lam.stms:
        f = s.exp
        if not isinstance(f, ir.Reduce) or not all(a in out.matrices for a in f.arrays):
            continue
        shared = {*f.lam.free(), *f.neutral} & inside
        if FROM_OUTSIDE(not shared):
            out.folds.append(s)
    return out if out.folds else None


def _by_rows(stm: Stm, found: _Columns) -> list[Stm]:
    """The folds over rows, and the map over what they fold to."""
    e = stm.exp
    assert isinstance(e, ir.Mapping)
    b = Builder()
    arrays, params = list(e.arrays), list(e.lam.params)
    for s in found.folds:
        f = s.exp
        assert isinstance(f, ir.Reduce)
        neutral = tuple([b.let(ir.Replicate((e.width,), ne), "neutral") for ne in f.neutral])
        rows = [Var(p.name, _row(p.type, e.width)) for p in f.lam.params]
        results = tuple([Var(v.name, _row(v.type, e.width)) for v in s.pat])
        op = ir.rename(Lambda(tuple(rows), (Stm(results, ir.Map(e.width, tuple(rows), f.lam)),), results))
        sums = tuple([Var(v.name, _row(v.type, e.width)) for v in s.pat])
        matrices = tuple([found.matrices[a] for a in f.arrays])
        b.add(Stm(sums, ir.Reduce(f.width, matrices, op, neutral, f.comm), s.attrs))
        arrays += sums
        params += s.pat
    gone = set(map(id, found.folds))
    left = Lambda((), tuple([s for s in e.lam.stms if id(s) not in gone]), e.lam.result)
    used = left.free()
    inputs = [(a, p) for a, p in zip(arrays, params, strict=True) if p in used or p not in found.matrices]
    lam = Lambda(tuple([p for _, p in inputs]), left.stms, left.result)
    return [*b.stms, Stm(stm.pat, e.over(tuple([a for a, _ in inputs]), lam), stm.attrs)]


def _row(t: Type, width: Atom) -> Type:
    assert isinstance(t, Prim)
    return array_of(t, width)


__all__ = ["column_folds"]
