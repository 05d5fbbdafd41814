"""Arrays that are put together from others: the pieces are computed where they will lie.

    let a = map f xs let b = map g ys in concat [a, b]

Memory for the whole is had before the first piece, whose place is then what that piece is wanted in.  The same goes for
the rows of array literals, and through reshapes.

Pieces that lie elsewhere already, and zeros around an array, are not copied together if only maps read the result: the
maps then run over each piece by itself (`Joined`).  Pieces of one array whose elements are rows (an array that is
turned along its outer axis) are not copied either: a map finds for each iteration where its row lies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from futad.core import ir as core
from futad.core.node import Range, index_operands
from futad.core.operator import may_fail
from futad.core.types import ArrayType, Atom, Var, shape_of
from futad.fires import Transformation
from futad.imp import ir
from futad.imp.ir import Expr
from futad.imp.views import Fill, Joined, Mem, SlotDestination, Value, View, dense_view
from futad.legality import Legality

ASSEMBLY = Legality("assembly", "what is put together with others is computed where the whole will lie")
AS_IT_LIES = ASSEMBLY.condition("the piece lies there", "the part of the whole would be left as it was")
APPEND = Legality(
    "appending",
    "what a loop appends to stays in its memory, and only what is new is written",
    worth="a loop that appends m times to an array copies its length in all, not m times its length",
)
OUTSIDE = APPEND.condition("appended from elsewhere", "what is appended would be read after the memory was moved")
DONE = APPEND.condition("the present value dead", "a later statement would read memory that has moved")

if TYPE_CHECKING:
    from futad.imp.lower import Destination, Lowerer, Scope


def places_first(lam: core.Lambda) -> core.Lambda:
    """The scope with the sizes of what is put together, and the places of updates, computed as early as can be, so that
    the pieces, and the rows, can be computed there."""
    needed: set[Atom] = set()
    for stm in lam.stms:
        if isinstance(stm.exp, core.Concat):
            needed.update(shape_of(stm.pat[0].type))
            needed.update(shape_of(a.type)[0] for a in stm.exp.arrays)
        elif isinstance(stm.exp, core.Update) and isinstance(stm.exp.value.type, ArrayType):
            needed.update(index_operands(stm.exp.index))
    needed = {a for a in needed if isinstance(a, Var)}
    if not needed:
        return lam
    early: list[core.Stm] = []
    for stm in reversed(lam.stms):
        e = stm.exp
        if isinstance(e, core.Op) and stm.pat[0] in needed and not may_fail(e):
            early.append(stm)
            needed.update(e.args)
    early.reverse()
    not_yet = {v for stm in lam.stms for v in stm.pat}
    rest = [stm for stm in lam.stms if stm not in early]
    out: list[core.Stm] = []
    for next_one in (None, *rest):
        if next_one is not None:
            out.append(next_one)
            not_yet.difference_update(next_one.pat)
        for size in list(early):
            if not not_yet.intersection(size.exp.operands()):
                out.append(size)
                early.remove(size)
                not_yet.difference_update(size.pat)
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


def destination_of(lo: Lowerer, v: Var, sc: Scope) -> View | None:
    """Where an array lies once it is put together with others, if that is known now; memory for the whole is
    had on the way."""
    stm = sc.parts.get(v)
    if stm is None or not all(a in lo.env for a in shape_of(v.type) if isinstance(a, Var)):
        return None
    e, whole = stm.exp, stm.pat[0]
    if isinstance(e, core.Reshape):
        place = destination_of(lo, whole, sc)
        return dense_view(place.base, lo.shape(v.type), place.offset) if place and place.dense else None
    sizes = [shape_of(a.type)[0] for a in e.arrays] if isinstance(e, core.Concat) else []
    if not all(a in lo.env for a in (*shape_of(whole.type), *sizes) if isinstance(a, Var)):
        return None
    if whole not in sc.whole:
        destination = sc.destinations.get(whole)
        first = e.arrays[0] if isinstance(e, core.Concat) else None
        if isinstance(first, Var) and grows(destination, lo.env.get(first)):
            return None  # what is appended may read what it is appended to
        if destination is None and whole in sc.parts:
            destination = destination_of(lo, whole, sc)
        assert isinstance(whole.type, ArrayType)
        view = lo.alloc(whole.type.elem, lo.shape(whole.type), destination, whole.name)
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
    ASSEMBLY.fired()
    sc.pieces[v] = piece
    return piece


def assembled(lo: Lowerer, v: Var) -> View | None:
    """The memory that `destination_of` had for this array, which is about to be complete."""
    view = lo.scopes[-1].whole.pop(v, None)
    if view is not None:
        for r in view.roots:
            r.pinned -= 1
    return view


def grows(destination: Destination, first: Value | None) -> bool:
    """Whether an array that begins with `first` is a loop variable's next value, and `first` all or a piece of its
    present one, where it lies.  (`Append` moves what lies elsewhere: nothing would be gained.)"""
    if not isinstance(destination, SlotDestination) or destination.grown is None or not isinstance(first, View):
        return False
    return isinstance(first.base, Mem) and first.dense and first.roots == destination.grown.roots


def appended(lo: Lowerer, views: list[View], shape: Sequence[Expr], destination: Destination, hint: str) -> View | None:
    """Memory in which the first of the views to be put together is already, if nobody else needs that afterwards."""
    first = views[0]
    if not grows(destination, first) or not OUTSIDE(not any(v.roots & first.roots for v in views[1:])):
        return None
    if not DONE(not lo.roots_live(first.roots)):
        return None
    APPEND.fired()
    assert isinstance(destination, SlotDestination) and isinstance(first.base, Mem)
    name = lo.name(hint)
    kept, count = first.count(), ir.product(tuple(shape))
    slots = destination.slot, destination.spare
    lo.emit(ir.Append(name, first.elem, *slots, first.base.pointer, first.offset, kept, count))
    return dense_view(Mem(name, first.elem, frozenset((destination.root,))), shape)


IN_PIECES = Transformation(
    "in-pieces",
    "an array in pieces that only maps read is not put together",
    worth="pieces are not copied: an ODE of n elements copies 4 n less in each step",
)
ROWS = Legality(
    "rows-in-pieces",
    "pieces of one array that only maps read, row by row, are not put together",
    worth="rows of neighbours on a periodic grid 0.176 to 0.055 ms: `benchmarks/without.py rows-in-pieces"
    " tests/legality/turned.fut:rows --values '[2000][64]f64' i64`",
)
ONE_MEMORY = ROWS.condition("one memory", "rows of one array are read in the memory of another one")
SAME_ROWS = ROWS.condition("rows alike", "the elements of a row are read where those of another one lie")
JOINED_USES = 4  # maps that read an array which is not put together
JOINED_SIZE = 40  # statements of such a map


def only_maps_read(sc: Scope, v: Var, rows: bool = False) -> bool:
    """Whether maps in this scope use the array (or a copy), element by element, and nothing else does: small ones,
    which will be there several times, unless the elements are `rows`."""
    uses = 0
    for stm in sc.lam.stms[sc.index + 1 :]:
        if v not in core.stm_free(stm):
            continue
        e = stm.exp
        if isinstance(e, core.Copy) and only_maps_read(sc, stm.pat[0], rows):
            uses += 1
            continue
        if not isinstance(e, core.Map) or v in e.lam.free() or e.width is v:
            return False
        if not rows and (len(e.lam.stms) > JOINED_SIZE or any(s.exp.lambdas() for s in e.lam.stms)):
            return False
        uses += 1
    return 0 < uses <= JOINED_USES and v not in sc.lam.result


def joined(lo: Lowerer, v: Var, pieces: list[tuple[Expr, View]], size: Expr) -> View | None:
    """The pieces, with their starts, as one array that is never put together; None if it had better be."""
    sc = lo.scopes[-1]
    if not lo.target.builds_in_place or len(pieces) > 3 or v in sc.destinations or v in sc.whole or v in lo.consumed:
        return None
    views = tuple([x for _, x in pieces])
    rows = views[0].rank > 1
    if rows and not _lie_alike(views) or not only_maps_read(sc, v, rows):
        return None
    if rows:
        ROWS.fired()
    else:
        IN_PIECES.fired()
    starts = tuple([lo.let(at, "at") for at, _ in pieces])
    base = Joined(views[0].elem, starts, views)
    return View(base, ir.ZERO, (ir.ONE, *views[0].strides[1:]), (size, *views[0].shape[1:]), injective=False)


def _lie_alike(pieces: Sequence[View]) -> bool:
    """Whether the rows of all pieces are found in one memory by their place alone, their elements side by side."""
    if not all(isinstance(x.base, Mem) and x.strides[-1] == ir.ONE for x in pieces):
        return False
    first = pieces[0]
    alike = SAME_ROWS(all(x.strides[1:] == first.strides[1:] for x in pieces))
    return alike and ONE_MEMORY(all(x.memory.pointer == first.memory.pointer for x in pieces))


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
