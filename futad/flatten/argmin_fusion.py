"""The least (or greatest) element and its place found by one fold.

    let (m, xs) = fold min (map f ys)                             let (m, i, xs) = fold least (map f ys) is
    let i = fold min (map (\\x j -> if x == m then j else n) xs is)   -->

    where least (x, i) (y, j) = let m = min x y
                                in (m, min (if x == m then i else n) (if y == m then j else n))

The adjoint of a minimum needs its place.  Sequentially the second fold is cheap, and either is done in vector lanes;
on a device it reads everything a second time, or has it written for that.  An element that is NaN has no place, as no
comparison finds it.
"""

from __future__ import annotations

from futad.core import ir
from futad.core.ir import Lambda, Stm
from futad.core.operator import scalar_op
from futad.core.types import BOOL, ArrayType, Atom, Prim, Var
from futad.legality import Legality

LEGAL = Legality("argmin-fusion", "the least element and its place are found by one fold")
SEARCHED = LEGAL.condition("the elements searched", "other elements are searched than those that are folded")
EXTREMUM = LEGAL.condition("least or greatest", "the fold's result is none of the elements")


def fuse_argmin(lam: Lambda) -> Lambda:
    """A scope, and those in it, with such folds joined; the same object if there are none."""
    stms = [ir.map_scopes(s, fuse_argmin) for s in lam.stms]
    for second in [s for s in stms if isinstance(s.exp, ir.Fused)]:
        for first in stms[: stms.index(second)]:
            whole = _joined(first, second)
            if whole is None:
                continue
            at, end = stms.index(first), stms.index(second)
            needed = set(ir.stm_free(second)) - set(first.pat)
            before = [s for s in stms[at + 1 : end] if needed & set(s.pat)]
            if any(not isinstance(s.exp, ir.Iota) for s in before):
                continue
            if {v for s in before for v in ir.stm_free(s)} & {v for s in stms[at:end] for v in s.pat}:
                continue
            LEGAL.fired()
            rest = [s for s in stms if s is not first and s is not second]
            used = {v for s in rest for v in ir.stm_free(s)} | set(lam.result)
            after = [s for s in stms[at + 1 :] if s is not second and s not in before]
            stms = [*stms[:at], *before, _without_unused(whole, used), *after]
            break
    same = len(stms) == len(lam.stms) and all(a is b for a, b in zip(stms, lam.stms, strict=True))
    return lam if same else Lambda(lam.params, tuple(stms), lam.result)


def _joined(first: Stm, second: Stm) -> Stm | None:
    """Both folds as one, with all their results; None unless the second finds the place of the first's result."""
    e, f = _fold(first), second.exp
    if e is None or not isinstance(f, ir.Fused) or f.scans or len(f.reduces) != 1 or len(second.pat) != 1:
        return None
    op = scalar_op(e.reduces[0].lam)
    found = _search(f, first.pat[0])
    if op is None or found is None or e.width != f.width or not EXTREMUM(op in ("min", "max")):
        return None
    elements, places, none = found
    # What is searched must be the elements that the first folds.
    x = e.lam.result[0]
    known_as = dict(zip((*e.arrays, *first.pat[1:]), (*e.lam.params, *e.lam.result[1:]), strict=True))
    if not SEARCHED(known_as.get(elements) is x) or places in first.pat or not isinstance(places.type, ArrayType):
        return None
    place, there, known = Var("place", places.type.elem), Var("there", BOOL), Var("place", places.type.elem)
    stms = (
        *e.lam.stms,
        Stm((there,), ir.Op("eq", (x, x))),
        Stm((known,), ir.Op("select", (there, place, none))),
    )
    lam = Lambda((*e.lam.params, place), stms, (x, known, *e.lam.result[1:]))
    neutral = (e.reduces[0].neutral[0], none)
    whole = ir.Fused(e.width, (*e.arrays, places), lam, (), (ir.Fold(_least(op, neutral), neutral, True),))
    return Stm((first.pat[0], second.pat[0], *first.pat[1:]), whole, first.attrs)


def _fold(s: Stm) -> ir.Fused | None:
    """A statement that is one reduction of scalars, perhaps of what a map makes."""
    e = s.exp
    if not isinstance(e, ir.Reduce | ir.Fused) or e.scans or len(e.reduces) != 1 or len(e.reduces[0]) != 1:
        return None
    return ir.as_fused(e) if isinstance(e.reduces[0].neutral[0].type, Prim) else None


def _search(f: ir.Fused, wanted: Var) -> tuple[Atom, Atom, Atom] | None:
    """The elements and their places if a fold finds the least place of those equal to `wanted`, and what it gives if
    there is none."""
    if len(f.lam.stms) != 2 or len(f.lam.params) != 2 or scalar_op(f.reduces[0].lam) != "min":
        return None
    there, chosen = [s.exp for s in f.lam.stms]
    if not isinstance(there, ir.Op) or there.op != "eq" or not isinstance(chosen, ir.Op) or chosen.op != "select":
        return None
    (x,) = [a for a in there.args if a is not wanted] if wanted in there.args else (None,)
    condition, place, none = chosen.args
    if x is None or condition is not f.lam.stms[0].pat[0] or {x, place} != set(f.lam.params):
        return None
    if f.lam.result != f.lam.stms[1].pat or f.reduces[0].neutral != (none,):
        return None
    inputs: dict[Atom, Atom] = dict(zip(f.lam.params, f.arrays, strict=True))
    return inputs[x], inputs[place], none


def _least(op: str, neutral: tuple[Atom, Atom]) -> Lambda:
    """Of two pairs of an element and its place the one that `op` takes, of equal ones that with the lesser place."""
    (x, i), (y, j) = [(Var("x", neutral[0].type), Var("i", neutral[1].type)) for _ in range(2)]
    best, left, right = Var("best", x.type), Var("i", i.type), Var("j", i.type)
    place = Var("place", i.type)
    stms = [Stm((best,), ir.Op(op, (x, y)))]
    for v, at, chosen in ((x, i, left), (y, j, right)):
        same = Var("same", BOOL)
        stms.append(Stm((same,), ir.Op("eq", (v, best))))
        stms.append(Stm((chosen,), ir.Op("select", (same, at, neutral[1]))))
    stms.append(Stm((place,), ir.Op("min", (left, right))))
    return Lambda((x, i, y, j), tuple(stms), (best, place))


def _without_unused(s: Stm, used: set[Atom]) -> Stm:
    """A fold of pairs without the mapped results that nothing uses."""
    e = s.exp
    assert isinstance(e, ir.Fused)
    keep = [k for k, v in enumerate(s.pat) if k < 2 or v in used]
    lam = Lambda(e.lam.params, e.lam.stms, tuple([e.lam.result[k] for k in keep]))
    return Stm(tuple([s.pat[k] for k in keep]), e.over(e.arrays, lam), s.attrs)


__all__ = ["fuse_argmin"]
