"""Arrays that are put together from others: the pieces are computed where they will lie.

    let a = map f xs let b = map g ys in concat [a, b]

Memory for the whole is had before the first piece, whose place is then what that piece is wanted in.  The same goes for
the rows of array literals, and through reshapes.

Pieces that lie elsewhere already, and zeros around an array, are not copied together if only maps read the result: the
maps then run over each piece by itself (`Joined`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from futad.core import ir as core
from futad.core.node import Range
from futad.core.scalarops import OPS
from futad.core.types import ArrayType, Atom, Var, shape_of
from futad.imp import ir
from futad.imp.ir import Expr
from futad.imp.views import Fill, Joined, Mem, SlotWant, Value, View, dense_view
from futad.optimise.delay import apart

if TYPE_CHECKING:
    from futad.imp.lower import Lowerer, Scope, Want


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


def find_parts(sc: Scope, born: dict[Var, int], makers: tuple[type, ...]) -> None:
    """Which arrays are made here only to be put together; `makers` are constructs that can put their results anywhere.
    Where some pieces lie elsewhere and only maps read the whole, it is better not put together."""
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
                made = all(a in born and isinstance(sc.lam.stms[born[a]].exp, makers) for a in pieces)
                if not made and only_maps_read(sc, stm.pat[0]):
                    continue
            case core.Reshape(a):
                pieces = (a,)
            case _:
                continue
        for a in pieces:
            if a in born and sc.uses[a] == pieces.count(a):
                sc.parts[a] = stm


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
        if isinstance(e, core.Concat) and grows(want, lo.env.get(e.arrays[0])):  # type: ignore[arg-type]
            return None  # what is appended may read what it is appended to
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


def grows(want: Want, first: Value | None) -> bool:
    """Whether an array that begins with `first` is a loop variable's next value, and `first` all or a piece of its
    present one, where it lies."""
    if not isinstance(want, SlotWant) or want.grown is None or not isinstance(first, View):
        return False
    return isinstance(first.base, Mem) and first.dense and first.roots == want.grown.roots


def appended(lo: Lowerer, views: list[View], shape: Sequence[Expr], want: Want, hint: str) -> View | None:
    """Memory in which the first of the views to be put together is already, if nobody else needs that afterwards."""
    first = views[0]
    if not grows(want, first) or any(v.roots & first.roots for v in views[1:]) or lo.roots_live(first.roots):
        return None
    assert isinstance(want, SlotWant) and isinstance(first.base, Mem)
    name = lo.name(hint)
    kept, count = first.count(), ir.product(tuple(shape))
    lo.emit(ir.Append(name, first.elem, want.slot, want.spare, first.base.pointer, first.offset, kept, count))
    return dense_view(Mem(name, first.elem, frozenset((want.root,))), shape)


JOINED_USES = 4  # maps that read an array which is not put together
JOINED_SIZE = 40  # statements of such a map


def only_maps_read(sc: Scope, v: Var) -> bool:
    """Whether small maps in this scope use the array (or a copy), element by element, and nothing else does."""
    uses = 0
    for stm in sc.lam.stms[sc.index + 1 :]:
        if v not in core.stm_free(stm):
            continue
        e = stm.exp
        if isinstance(e, core.Copy) and only_maps_read(sc, stm.pat[0]):
            uses += 1
            continue
        if not isinstance(e, core.Map) or v in e.lam.free() or e.width is v or len(e.lam.stms) > JOINED_SIZE:
            return False
        if any(s.exp.lambdas() for s in e.lam.stms):
            return False
        uses += 1
    return 0 < uses <= JOINED_USES and v not in sc.lam.result


def joined(lo: Lowerer, v: Var, pieces: list[tuple[Expr, View]], size: Expr) -> View | None:
    """The pieces, with their starts, as one array that is never put together; None if it had better be."""
    sc = lo.scopes[-1]
    if not lo.assembles or len(pieces) > 3 or v in sc.wants or v in sc.whole or v in lo.consumed:
        return None
    if any(x.rank != 1 for _, x in pieces) or not only_maps_read(sc, v):
        return None
    starts = tuple([lo.let(at, "at") for at, _ in pieces])
    base = Joined(pieces[0][1].elem, starts, tuple([x for _, x in pieces]))
    return View(base, ir.ZERO, (ir.ONE,), (size,), injective=False)


def padded(lo: Lowerer, e: core.Update, v: Var, src: View) -> View | None:
    """`src with [start:start+count] = value` for a `src` of one value everywhere, not put together."""
    index = e.index[0]
    if not isinstance(src.base, Fill) or src.rank != 1 or not isinstance(index, Range) or e.check is not None:
        return None
    start, count, step = lo.expr(index.start), lo.expr(index.count), lo.expr(index.stride)
    value = lo.value(e.value)
    if step != ir.ONE or not isinstance(value, View):
        return None
    end = ir.add(start, count)
    size = src.shape[0]
    pieces = [(start, value), (end, dense_view(src.base, (ir.sub(size, end),)))]
    if start != ir.ZERO:
        pieces.insert(0, (ir.ZERO, dense_view(src.base, (start,))))
    return joined(lo, v, pieces, size)


def place_update(lo: Lowerer, stm: core.Stm, sc: Scope, makers: tuple[type, ...]) -> None:
    """If the next statements write this one's arrays into others, in place, let them be computed there."""
    if not isinstance(stm.exp, makers):
        return
    at = sc.index
    before: dict[Atom, list[core.Update]] = {}  # for what an update makes: that one, and those that made its array
    for k in range(at + 1, len(sc.lam.stms)):
        after = sc.lam.stms[k].exp
        if not isinstance(after, core.Update):
            return
        chain = before.pop(after.array, [])
        before[sc.lam.stms[k].pat[0]] = [*chain, after]
        v, array = after.value, (chain or [after])[0].array
        if v in sc.whole or v not in stm.pat or v in sc.wants or array not in lo.env:
            continue
        if sc.uses.get(v) != 1 and not lo.shared_place(sc, k):
            continue
        if any(isinstance(a, Var) and a not in lo.env for a in after.operands()[1:] if a is not v):
            continue
        # The updates in between must not see the array overwritten early.
        between = [a for x in sc.lam.stms[at + 1 : k] for a in x.exp.operands()[x.exp in chain :]]
        if any(shares(lo, a, array) for a in between) or any(u.value not in sc.placed for u in chain):
            continue
        sc.index = k
        place_one(lo, stm, sc, after, chain)
        sc.index = at


def shares(lo: Lowerer, a: Atom, b: Atom) -> bool:
    """Whether two arrays may lie in one piece of memory; of one that is not known yet it does not matter."""
    v, w = lo.env.get(a), lo.env.get(b)  # type: ignore[arg-type]
    return isinstance(v, View) and isinstance(w, View) and bool(v.roots & w.roots)


def place_one(lo: Lowerer, stm: core.Stm, sc: Scope, after: core.Update, chain: list[core.Update]) -> None:
    """Let `after` have its value made in place; `chain`: the updates that make its array, whose values are."""
    array, v = (chain or [after])[0].array, after.value
    dst = lo.view(array)
    others = [x for x in stm.pat if x in sc.placed and dst.roots & sc.placed[x][0].roots]
    if not all(any(u.value is x and apart(u.index, after.index) for u in chain) for x in others):
        return
    from futad.imp.arrays import indexed

    used = core.stm_free(stm)
    target: View | None = None
    whole, place = _place(lo, array)
    place += after.index
    if type(stm.exp) is core.Map and after.check is None and (read := read_alike(lo, stm, dst)):
        # It may read the very place it writes, element by element.
        target = indexed(lo, dst, after.index, None)
        there = spelled(lo, target)
        alike = {a for a in read if _place(lo, a) == (whole, place) or spelled(lo, lo.view(a)).same_place(there)}
        used = {a: None for a in used if a not in alike}
    for a in list(used):
        if isinstance(a.type, ArrayType) and (row := _place(lo, a))[0] is whole and apart(row[1], place):
            del used[a]
    if lo.can_overwrite(dst, [a for a in used if not lo.apart(sc, after, a)]):
        target = target or indexed(lo, dst, after.index, after.check)
        sc.wants[v] = target  # type: ignore[index]
        sc.placed[v] = (dst, target)  # type: ignore[index]


def _place(lo: Lowerer, a: Atom) -> tuple[Atom, core.Index]:
    """What array this one is a row of, and which; updates are of the array that they update."""
    index: core.Index = ()
    while isinstance(a, Var):
        e = lo.defs.get(a)
        if isinstance(e, core.At) and not any(type(i) is Range for i in e.index):
            index = (*e.index, *index)
            a = e.array
        elif isinstance(e, core.Alias | core.Copy | core.Update):
            a = e.operands()[0]
        else:
            break
    return a, index


def spelled(lo: Lowerer, v: View) -> View:
    """The view with its offset spelled out, where that is in a variable."""
    offset = v.offset
    while isinstance(offset, ir.Ref) and offset.name in lo.lets:
        offset = lo.lets[offset.name]
    return replace(v, offset=offset)


def read_alike(lo: Lowerer, stm: core.Stm, dst: View) -> set[Var]:
    """The arrays in the memory of `dst` whose elements a map of scalars reads in turn, as it writes its own."""
    e = stm.exp
    assert isinstance(e, core.Map)
    if any(s.exp.lambdas() for s in e.lam.stms):
        return set()
    free = e.lam.free()
    views = {a: lo.env.get(a) for a in e.arrays if isinstance(a, Var) and a not in free}
    return {a for a, v in views.items() if isinstance(v, View) and v.rank == 1 and v.roots & dst.roots}
