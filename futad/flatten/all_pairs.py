"""Folds over pairs of rows: what is like a matrix product, but for another operation on each pair of elements.

    map (\\x -> map (\\y -> f64.sum (map2 (\\a b -> (a - b) * (a - b)) x y)) ys) xs

Distances between all pairs of points, say.  They go to the kernel of matrix products (`gemm.cuh`), which reads rows
once for a tile of pairs, with their operation in the place of adding a product.  What little is made of a pair's fold
(an exponential, say) is made there.  If all that is made of an x's pairs is folded (to the nearest y, say), each tile
folds its columns, and a second kernel what the tiles have made.
"""

from __future__ import annotations

from dataclasses import dataclass

from futad.core import ir as core
from futad.core.nest import nest_of
from futad.core.operator import divisor, scalar_op
from futad.core.scalarops import OPS, REDUCTIONS
from futad.core.types import ArrayType, Const, Prim, Var, array_of, shape_of
from futad.fires import Transformation
from futad.flatten import fission
from futad.flatten.fused_products import ELEMENTS, price
from futad.legality import Legality

LEGAL = Legality(
    "pairs",
    "folds over all pairs of rows go by tiles of pairs",
    worth="tiles of rows are read once for many pairs: k-means of 1024 clusters 8.7 to 2.3 times the least bytes",
)
OUTSIDE = LEGAL.condition("pair's operation from outside", "the operation differs by pair")
FROM_NEUTRAL = LEGAL.condition("from the neutral element", "what a fold starts from is not in the tiles")

TILED = ("flattening", "no_outer")  # as an attribute: by tiles, where that is possible
FEW = 8  # rows on one side, for which a tile is too large


@dataclass(slots=True)
class AllPairs:
    """Such a nest: the arrays of rows on both sides, the inner map (with folds, if it has any), a pair's fold, that
    fold's operation on one pair's elements (parameters in the order left, right) and what combines the results."""

    left: core.Atom
    right: core.Atom
    inner: core.Mapping
    fold: core.Fused
    term: core.Lambda
    op: str


def all_pairs_of(stm: core.Stm) -> AllPairs | None:
    """The folds over pairs that a statement is; None if it is anything else."""
    outer, nest = stm.exp, nest_of(stm, 1)
    if not isinstance(outer, core.Map) or nest is None or not nest.body.stms or price(nest.body.stms[:-1]) is None:
        return None
    mid = nest.body.stms[-1]
    inner = mid.exp
    if not isinstance(inner, core.Mapping) or nest.body.result != mid.pat:
        return None
    last = _folded(mid, inner) if isinstance(inner, core.Fused) else _mapped(inner)
    fold = last.exp if last is not None else None
    if last is None or not isinstance(fold, core.Fused) or len(last.pat) != 1:
        return None
    if fold.scans or len(fold.reduces) != 1 or len(fold.arrays) != 2:
        return None
    if any(isinstance(w, Const) and w.value < FEW for w in (outer.width, inner.width)):
        return None
    nest.enter(inner.lam, mid)
    bound, reads = nest.bound, nest.reads()
    rows = [reads[a] for a in fold.arrays if isinstance(a, Var) and a in reads]
    term = core.Lambda(fold.lam.params, fold.lam.stms, fold.lam.result)
    if [r.levels for r in rows] == [(1,), (0,)]:
        rows.reverse()
        term.params = (term.params[1], term.params[0])
    if [(r.levels, r.dims, r.rest) for r in rows] != [((0,), (0,), (1,)), ((1,), (0,), (1,))]:
        return None
    if not OUTSIDE(not {outer.width, inner.width, fold.width} & bound and not any(v in bound for v in term.free())):
        return None
    if isinstance(inner, core.Fused):
        if any(v in bound for f in inner.reduces for v in (*f.neutral, *f.lam.free())):
            return None
    op = _operation(fold)
    elem = last.pat[0].type
    if op is None or not isinstance(elem, Prim) or elem.name not in ELEMENTS:
        return None
    if any(p.type is not elem for p in term.params) or not all(_harmless(s) for s in term.stms):
        return None
    LEGAL.fired()
    return AllPairs(rows[0].array, rows[1].array, inner, fold, term, op)


def _folded(mid: core.Stm, inner: core.Fused) -> core.Stm | None:
    """The pair's fold if a map does little more, and all it makes is folded to scalars."""
    if inner.scans or not all(isinstance(v.type, Prim) for v in mid.pat):
        return None
    return _only_fold(inner.lam)


def _mapped(inner: core.Mapping) -> core.Stm | None:
    """The pair's fold if a map does little more, and makes scalars."""
    return _only_fold(inner.lam) if all(isinstance(a.type, Prim) for a in inner.lam.result) else None


def _only_fold(lam: core.Lambda) -> core.Stm | None:
    folds = [s for s in lam.stms if isinstance(s.exp, core.Fused)]
    if len(folds) != 1 or price([s for s in lam.stms if s is not folds[0]]) is None:
        return None
    return folds[0]


def _operation(fold: core.Fused) -> str | None:
    """What combines a fold's elements, from its neutral element on."""
    op, (neutral,) = scalar_op(fold.reduces[0].lam), fold.reduces[0].neutral
    if op not in REDUCTIONS or not isinstance(neutral, Const) or not (neutral.type.is_float or op in ("add", "mul")):
        return None
    return op if FROM_NEUTRAL(neutral.value == OPS[op].neutral(neutral.type)) else None


def _harmless(s: core.Stm) -> bool:
    """Whether a statement is a scalar operation that cannot fail."""
    e = s.exp
    return isinstance(e, core.Alias) or (isinstance(e, core.Op) and divisor(e) is None)


PEELED = Transformation("pairs-first", "pairs of elements with rows, or a loop for each, go before the rest of a map")


def peeled(stm: core.Stm) -> tuple[list[core.Stm], list[AllPairs], bool] | None:
    """A map in whose body each element is paired with all rows of another array, or has a loop for each: that nest of
    its own first, then a map of the rest, the pairs and whether there are loops; None if there is no such nest."""
    e = stm.exp
    if not isinstance(e, core.Map):
        return None
    before: list[core.Stm] = []
    found: list[AllPairs] = []
    rest: list[core.Stm] = []
    params, arrays = list(e.lam.params), list(e.arrays)
    loops = False
    for s in e.lam.stms:
        for part in _looping(s) or (fission.split(s) if _all_pairs_in(s, e) is None else [s]):
            made = _whole(part, e)
            pairs = all_pairs_of(made) if made is not None else None
            long = isinstance(part.exp, core.Map) and fission.looping(part.exp.lam)
            if made is None or (pairs is None and not long):
                rest.append(part)
                continue
            before.append(made)
            if pairs is not None:
                found.append(pairs)
            loops |= long
            params += part.pat
            arrays += made.pat
    if not before:
        return None
    PEELED.fired()
    lam = core.Lambda(tuple(params), tuple(rest), e.lam.result)
    return [*before, core.Stm(stm.pat, core.Map(e.width, tuple(arrays), lam), stm.attrs)], found, loops


def _all_pairs_in(s: core.Stm, e: core.Map) -> AllPairs | None:
    """The pairs with folds that a statement of a map's body is."""
    made = _whole(s, e) if isinstance(s.exp, core.Fused) else None
    return all_pairs_of(made) if made is not None else None


def _looping(s: core.Stm) -> list[core.Stm] | None:
    """A map with folds whose elements are loops, as a map and folds; None for anything else."""
    e = s.exp
    return fission.map_and_folds(s) if isinstance(e, core.Fused) and fission.looping(e.lam) else None


def _whole(s: core.Stm, e: core.Map) -> core.Stm | None:
    """A statement of a map's body as a map of its own, if the map's elements are all that it needs of the body."""
    made = {v: x for x in e.lam.stms for v in x.pat}
    folded = isinstance(s.exp, core.Fused)
    if folded:
        fits = all(isinstance(v.type, Prim) for v in s.pat)
    else:
        fits = isinstance(s.exp, core.Map) and len(s.pat) == 1 and isinstance(s.pat[0].type, ArrayType)
    if not fits or any(set(shape_of(v.type)) & {*made, *e.lam.params} for v in s.pat):
        return None
    # Scalars that are computed at little cost are computed again.
    needed: dict[core.Stm, None] = {}
    todo = [v for v in core.stm_free(s) if v in made]
    while todo:
        x = made[todo.pop()]
        if not isinstance(x.exp, core.Op | core.At) or not all(isinstance(v.type, Prim) for v in x.pat):
            return None
        needed[x] = None
        todo += [v for v in core.stm_free(x) if v in made and made[v] not in needed]
    stms = (*[x for x in e.lam.stms if x in needed], s)
    free = core.Lambda((), stms, ()).free()
    used = [(p, a) for p, a in zip(e.lam.params, e.arrays, strict=True) if p in free]
    lam = core.rename(core.Lambda(tuple([p for p, _ in used]), stms, s.pat))
    out = tuple([Var(v.name, array_of(v.type, e.width)) for v in s.pat])
    return core.Stm(out, core.Map(e.width, tuple([a for _, a in used]), lam), (TILED,) if folded else ())


__all__ = ["AllPairs", "all_pairs_of", "peeled"]
