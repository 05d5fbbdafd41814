"""Folds over pairs of rows: what is like a matrix product, but for another operation on each pair of elements.

    map (\\x -> map (\\y -> f64.sum (map2 (\\a b -> (a - b) * (a - b)) x y)) ys) xs

Distances between all pairs of points, say.  They go to the kernel of matrix products (`gemm.cuh`), which reads rows
once for a tile of pairs, with their operation in the place of adding a product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from futad.core import ir as core
from futad.core.scalarops import OPS
from futad.core.types import ArrayType, Const, Prim, Var, array_of
from futad.flatten import fission
from futad.flatten import kernel as kir
from futad.flatten.lower import DeviceLowerer
from futad.flatten.products import LARGE_TILES, Operation, Strided, into
from futad.imp import ir
from futad.imp.ir import ONE, Expr, Ref
from futad.imp.lower import Want
from futad.imp.views import Mem, Value, View

NEUTRAL = {"add": 0.0, "mul": 1.0, "min": float("inf"), "max": float("-inf")}
FEW = 8  # rows on one side, for which a tile is too large


@dataclass(slots=True)
class Pairs:
    """Such a nest: the arrays of rows on both sides, the inner map, its fold, the fold's operation on one pair's
    elements (parameters in the order left, right) and what combines the results."""

    left: core.Atom
    right: core.Atom
    inner: core.Map
    fold: core.Fused
    term: core.Lambda
    op: str


def pairs_of(stm: core.Stm) -> Pairs | None:
    """The folds over pairs that a statement is; None if it is anything else."""
    outer = stm.exp
    if not isinstance(outer, core.Map) or len(stm.pat) != 1 or len(outer.lam.stms) != 1:
        return None
    mid = outer.lam.stms[0]
    inner = mid.exp
    if not isinstance(inner, core.Map) or outer.lam.result != mid.pat or len(inner.lam.stms) != 1:
        return None
    last = inner.lam.stms[0]
    fold = last.exp
    if not isinstance(fold, core.Fused) or inner.lam.result != last.pat or len(last.pat) != 1:
        return None
    if fold.scan_lams or len(fold.red_lams) != 1 or len(fold.arrays) != 2:
        return None
    if any(isinstance(w, Const) and w.value < FEW for w in (outer.width, inner.width)):
        return None
    x, y = fold.arrays
    term = core.Lambda(fold.lam.params, fold.lam.stms, fold.lam.result)
    if x in inner.lam.params and y in outer.lam.params:
        x, y = y, x
        term.params = (term.params[1], term.params[0])
    if x not in outer.lam.params or y not in inner.lam.params:
        return None
    bound = {*outer.lam.params, *inner.lam.params}
    if {outer.width, inner.width, fold.width} & bound or any(v in bound for v in term.free()):
        return None
    left = outer.arrays[outer.lam.params.index(x)]
    right = inner.arrays[inner.lam.params.index(y)]
    if right in bound:
        return None
    op = _operation(fold)
    elem = last.pat[0].type
    if op is None or not isinstance(elem, Prim) or elem.name not in LARGE_TILES:
        return None
    if any(p.type is not elem for p in term.params) or not all(_harmless(s) for s in term.stms):
        return None
    return Pairs(left, right, inner, fold, term, op)


def _operation(fold: core.Fused) -> str | None:
    (lam,), ((neutral,),) = fold.red_lams, fold.red_neutrals
    e = lam.stms[0].exp if len(lam.stms) == 1 else None
    if not isinstance(e, core.Op) or lam.result != lam.stms[0].pat or set(e.args) != set(lam.params):
        return None
    fits = isinstance(neutral, Const) and e.op in NEUTRAL and neutral.value == NEUTRAL[e.op]
    return e.op if fits else None


def _harmless(s: core.Stm) -> bool:
    """Whether a statement is a scalar operation that cannot fail."""
    e = s.exp
    return isinstance(e, core.Alias) or (
        isinstance(e, core.Op) and not (OPS[e.op].can_fail and e.args[-1].type.is_integral)  # type: ignore[union-attr]
    )


def lower_pairs(lo: DeviceLowerer, stm: core.Stm, found: Pairs, wants: Sequence[Want]) -> list[Value]:
    """The nest at host level, as tiles."""
    t = stm.pat[0].type
    assert isinstance(t, ArrayType)
    views = [v if isinstance(v.base, Mem) else lo.materialise(v) for v in (lo.view(found.left), lo.view(found.right))]
    a, b = views
    turned = View(b.base, b.offset, (b.strides[1], b.strides[0]), (b.shape[1], b.shape[0]))
    m, n = lo.shape(t)
    k = lo.expr(found.fold.width)
    op = Operation((m, n, k), ONE, Strided(a), Strided(turned), t.elem, stm.pat[0].name, 2, None)

    def step() -> kir.Function:
        refs = [Ref(lo.name(w), t.elem) for w in ("sum", "x", "y")]
        with lo.inside("thread"), lo.block() as body:
            for p, r in zip(found.term.params, refs[1:], strict=True):
                lo.bind(p, r)
            x = lo.scope(found.term, repeats=True)[0]
            assert isinstance(x, Expr)
            total = ir.Scalar(found.op, (refs[0], x), t.elem, t.elem)
        return kir.Function(refs, body, [total])

    op.step, op.start = step, ir.Num(NEUTRAL[found.op], t.elem)
    return into(lo, op, lo.host_view(stm.pat[0], wants[0]))


def peeled(stm: core.Stm) -> tuple[list[core.Stm], list[Pairs], bool] | None:
    """A map in whose body each element is paired with all rows of another array, or has a loop for each: that nest of
    its own first, then a map of the rest, the pairs and whether there are loops; None if there is no such nest."""
    e = stm.exp
    if not isinstance(e, core.Map):
        return None
    before: list[core.Stm] = []
    found: list[Pairs] = []
    rest: list[core.Stm] = []
    params, arrays = list(e.lam.params), list(e.arrays)
    loops = False
    for s in e.lam.stms:
        for part in _looping(s) or fission.split(s):
            made = _whole(part, e)
            pairs = pairs_of(made) if made is not None else None
            long = isinstance(part.exp, core.Map) and fission.looping(part.exp.lam)
            if made is None or (pairs is None and not long):
                rest.append(part)
                continue
            before.append(made)
            if pairs is not None:
                found.append(pairs)
            loops |= long
            params.append(part.pat[0])
            arrays.append(made.pat[0])
    if not before:
        return None
    lam = core.Lambda(tuple(params), tuple(rest), e.lam.result)
    return [*before, core.Stm(stm.pat, core.Map(e.width, tuple(arrays), lam), stm.attrs)], found, loops


def _looping(s: core.Stm) -> list[core.Stm] | None:
    """A map with folds whose elements are loops, as a map and folds; None for anything else."""
    e = s.exp
    return fission.map_and_folds(s) if isinstance(e, core.Fused) and fission.looping(e.lam) else None


def _whole(s: core.Stm, e: core.Map) -> core.Stm | None:
    """A statement of a map's body as a map of its own, if the map's elements are all that it needs of the body."""
    if not isinstance(s.exp, core.Map) or len(s.pat) != 1 or not isinstance(s.pat[0].type, ArrayType):
        return None
    made = {v: x for x in e.lam.stms for v in x.pat}
    if set(s.pat[0].type.shape) & {*made, *e.lam.params}:
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
    out = Var(s.pat[0].name, array_of(s.pat[0].type, e.width))
    return core.Stm((out,), core.Map(e.width, tuple([a for _, a in used]), lam))


__all__ = ["Pairs", "lower_pairs", "pairs_of", "peeled"]
