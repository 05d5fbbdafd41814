"""Arrays that are put together from others: the pieces are computed where they will lie.

    let a = map f xs let b = map g ys in concat [a, b]

Memory for the whole is had before the first piece, whose place is then what that piece is wanted in.  The same goes for
the rows of array literals, and through reshapes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from futad.core import ir as core
from futad.core.scalarops import OPS
from futad.core.types import ArrayType, Atom, Var, shape_of
from futad.imp import ir
from futad.imp.ir import Expr
from futad.imp.views import View, dense_view

if TYPE_CHECKING:
    from futad.imp.lower import Lowerer, Scope


def sizes_first(lam: core.Lambda) -> core.Lambda:
    """The scope with the sizes of what is put together computed as early as can be, so that the pieces can be computed
    in place."""
    needed: set[Atom] = set()
    for stm in lam.stms:
        if isinstance(stm.exp, core.Concat):
            needed.update(shape_of(stm.pat[0].type))
            needed.update(shape_of(a.type)[0] for a in stm.exp.arrays)
    if not needed:
        return lam
    early: list[core.Stm] = []
    for stm in reversed(lam.stms):
        e = stm.exp
        if isinstance(e, core.Op) and stm.pat[0] in needed and not OPS[e.op].can_fail:
            early.append(stm)
            needed.update(e.args)
    early.reverse()
    late = {v for stm in lam.stms for v in stm.pat}
    rest = [stm for stm in lam.stms if stm not in early]
    out: list[core.Stm] = []
    for next_one in (None, *rest):
        if next_one is not None:
            out.append(next_one)
            late.difference_update(next_one.pat)
        for size in list(early):
            if not late.intersection(size.exp.operands()):
                out.append(size)
                early.remove(size)
                late.difference_update(size.pat)
    return core.Lambda(lam.params, tuple(out), lam.result)


def find_parts(sc: Scope, born: dict[Var, int]) -> None:
    """Which arrays are made here only to be put together."""
    for stm in sc.lam.stms:
        e = stm.exp
        if isinstance(e, core.ArrayLit) and len(shape_of(stm.pat[0].type)) == 1:
            sc.literals[stm.pat[0]] = e
            continue
        match e:
            case core.ArrayLit(elems):
                pieces = elems
            case core.Concat():
                pieces = e.arrays
            case core.Reshape(a):
                pieces = (a,)
            case _:
                continue
        for a in pieces:
            if a in born and sc.uses[a] == pieces.count(a):  # type: ignore[index]
                sc.parts[a] = stm  # type: ignore[index]


def place_of(lo: Lowerer, v: Var, sc: Scope) -> View | None:
    """Where an array lies once it is put together with others, if that is known now; memory for the whole is
    had on the way."""
    stm = sc.parts.get(v)
    if stm is None or not all(a in lo.env for a in shape_of(v.type) if isinstance(a, Var)):
        return None
    e, whole = stm.exp, stm.pat[0]
    if isinstance(e, core.Reshape):
        place = place_of(lo, whole, sc)
        return dense_view(place.base, lo.shape(v.type), place.offset) if place and place.dense else None
    sizes = [shape_of(a.type)[0] for a in e.arrays] if isinstance(e, core.Concat) else []
    if not all(a in lo.env for a in (*shape_of(whole.type), *sizes) if isinstance(a, Var)):
        return None
    if whole not in sc.whole:
        want = sc.wants.get(whole)
        if want is None and whole in sc.parts:
            want = place_of(lo, whole, sc)
        assert isinstance(whole.type, ArrayType)
        view = lo.alloc(whole.type.elem, lo.shape(whole.type), want, whole.name)
        for r in view.roots:
            r.pinned += 1
        sc.whole[whole] = view
    view = sc.whole[whole]
    at: Expr = ir.ZERO
    if isinstance(e, core.Concat):
        for a, n in zip(e.arrays, sizes, strict=True):
            if a is v:
                break
            at = ir.add(at, lo.expr(n))
        at = lo.let(at, "at")
    else:
        at = ir.num(e.operands().index(v))
    row = view.row((at,))
    offset = lo.let(row.offset, "o")
    if isinstance(e, core.Concat):
        piece = View(view.base, offset, view.strides, lo.shape(v.type), view.dense)
    else:
        piece = View(view.base, offset, row.strides, row.shape, row.dense)
    sc.pieces[v] = piece
    return piece


def assembled(lo: Lowerer, v: Var) -> View | None:
    """The memory that `place_of` had for this array, which is about to be complete."""
    view = lo.scopes[-1].whole.pop(v, None)
    if view is not None:
        for r in view.roots:
            r.pinned -= 1
    return view
