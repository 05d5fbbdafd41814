"""Matrix products computed some rows at a time, where the next map reads them row by row.

    let p = matmul a b in map f p   -->   for each 128 rows of a: { q = matmul (those) b; map f q }

A large product then never goes to memory; a map may read several.  On one thread its sums must be short, or its right
factor packed already: a product of long ones is else better made at once, as the copies that it makes of its factors
serve more rows.  Where several threads share out the map, each makes the rows that it reads, by a right factor that is
packed for all of them; a product of few rows they make together before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from futad.core import ir as core
from futad.core.types import BOOL, I64, AccType, Prim, Var
from futad.imp import ir
from futad.imp.ir import ONE, ZERO, Expr, add, compare, mul, num, sub
from futad.imp.packed import pack, unpack
from futad.imp.views import Mem, Root, Value, View, dense_view
from futad.legality import Legality
from futad.optimise.sequential import attributes

if TYPE_CHECKING:
    from futad.imp.carried import Carried
    from futad.imp.lower import Lowerer
    from futad.imp.soacs import SoacLoop

LEGAL = Legality("rows-of-products", "a product is made some rows at a time by the map that reads them")
READ_ONCE = LEGAL.condition("read by the map only", "others read the product, which is not there as a whole")
BY_ROWS = LEGAL.condition("read by rows", "the map reads other rows than its own")

ROWS = 128
LONGEST = 64  # terms of a sum
LEAST = 1 << 17  # elements of a product too large for the nearer caches
FEW = 64  # rows that threads do not share out
SKIPPED = (core.Op, core.At, core.Rearrange, core.Reshape, core.Replicate, core.Iota, core.MatMul)


@dataclass(slots=True, eq=False)
class RowProduct:
    """A product that is still to be made, `rows` rows at a time; or, under a condition, is made already (`whole`).
    `root`: the memory of the factor that is packed for it alone."""

    a: View
    b: View
    factor: Var
    elem: Prim
    rows: Expr
    place: int
    packed: tuple[str, Expr] | None
    whole: tuple[str, Expr] | None
    root: Root | None


def put_off(lo: Lowerer, stm: core.Stm, e: core.MatMul, a: View, b: View) -> View | None:
    """Leave the product to the map that reads it: the next statement, but for views, scalars, constants and other
    products.  Returns what stands for it; None if it is to be made now."""
    sc, var = lo.scopes[-1], stm.pat[0]
    if not lo.target.builds_in_place or e.plus or not READ_ONCE(sc.uses.get(var) == 1):
        return None
    if not all(isinstance(v.base, Mem) for v in (a, b)):
        return None
    size = mul(a.shape[0], b.shape[1])
    if isinstance(size, ir.Num) and size.value < LEAST:
        return None
    at = sc.index + 1
    while at < len(sc.lam.stms) and isinstance(sc.lam.stms[at].exp, SKIPPED):
        at += 1
    reader = sc.lam.stms[at].exp if at < len(sc.lam.stms) else None
    if not isinstance(reader, core.Mapping):
        return None
    if not BY_ROWS(var in reader.arrays) or not any(s.exp.lambdas() for s in reader.lam.stms):
        return None
    asked = lo.nest(sc.lam.stms[at])
    if asked is not None and not asked.allows(LEGAL.name):
        return None
    shared = lo.shares
    if shared and (attributes(sc.lam.stms[at]) or any(isinstance(x.type, AccType) for x in reader.arrays)):
        return None
    for x in (e.a, e.b):
        # Nothing is written over the factors before the map is done.
        sc.last[x] = max(sc.last.get(x, 0), at + 1)
    m, n, k = a.shape[0], b.shape[1], a.shape[1]
    packed, whole, root = lo.packed.get(e.b), None, None
    assert isinstance(e.b, Var)
    if shared:
        few = lo.let(compare("<", m, num(FEW)), "few")
        if packed is None:
            root = pack(lo, e.b, m)
            packed = lo.packed[e.b]
        all_rows = lo.alloc(a.elem, (ir.Scalar("select", (few, m, ZERO), I64, I64), n), None, var.name, heap=True)
        assert isinstance(all_rows.base, Mem)
        result = View(all_rows.base, ZERO, dense_view(all_rows.base, (m, n)).strides, (m, n), True)
        product = ir.Gemm(a.elem, (m, n, k), matrix(a), matrix(b), matrix(result), lo.place(None), True, False, packed)
        lo.emit(ir.If(few, [product], []))
        whole = (all_rows.base.pointer, few)
        rows: Expr = num(ROWS)
    else:
        large = compare("<=", num(LEAST), mul(m, n))
        short = compare("<=", k, num(LONGEST))
        some = ir.Scalar("select", (compare("||", short, packed[1]) if packed else short, num(ROWS), m), I64, I64)
        rows = lo.let(ir.Scalar("max", (ONE, ir.Scalar("select", (large, some, m), I64, I64)), I64, I64), "rows")
        all_rows = lo.alloc(a.elem, (rows, n), None, var.name)
        result = View(all_rows.base, all_rows.offset, all_rows.strides, (m, n), True)
    LEGAL.fired()
    if asked is not None:
        asked.was(LEGAL.name)
    sc.deferred[var] = RowProduct(a, b, e.b, a.elem, rows, lo.place(None), packed, whole, root)
    return result


def left_to(nest: SoacLoop) -> dict[int, RowProduct]:
    """The products that were left to the map, by the number of the input."""
    deferred = nest.lo.scopes[-1].deferred
    return {k: deferred[a] for k, a in enumerate(nest.arrays) if a in deferred}


def by_rows(
    nest: SoacLoop, inputs: Sequence[Value], folds: list[Carried], start: Expr = ZERO, bound: Expr | None = None
) -> bool:
    """Run the map, or from `start` to before `bound`, with the products that were left to it; False if none was.  Its
    folds and scans go on from part to part."""
    lo, found = nest.lo, left_to(nest)
    if not found:
        return False
    products = [(k, p, _product(lo, inputs[k])) for k, p in found.items()]
    bound = products[0][2].shape[0] if bound is None else bound
    lo.nests, lo.parts = lo.nests + 1, lo.parts + 1
    rows = products[0][1].rows
    for _, p, _ in products[1:]:
        rows = p.rows if p.rows == rows else ir.Scalar("min", (rows, p.rows), I64, I64)
    rows = lo.let(rows, "rows")
    places = [_place(lo, p, v, sub(bound, start)) for _, p, v in products]
    count = lo.let(ir.Bin("/", add(sub(bound, start), sub(rows, ONE)), rows), "parts")
    with lo.loop(count, "part") as (part, _):
        first = lo.let(add(start, mul(part, rows)), "start")
        end = lo.let(ir.Scalar("min", (add(first, rows), bound), I64, I64), "end")
        size = lo.let(sub(end, first), "n")
        changed = list(inputs)
        for (k, p, v), (base, offset) in zip(products, places, strict=True):
            _, n = v.shape
            start_of = lo.let(add(p.a.offset, mul(first, p.a.strides[0])), "o")
            here = View(p.a.base, start_of, p.a.strides, (size, p.a.shape[1]))
            there = matrix(View(base, offset, v.strides, v.shape))
            sizes = (size, n, p.a.shape[1])
            for factor in (here, p.b):
                lo.reads(factor)
            gemm = ir.Gemm(p.elem, sizes, matrix(here), matrix(p.b), there, p.place, False, False, p.packed)
            skipped = mul(first, n)
            if p.whole is None:
                lo.emit(gemm)
            else:
                few = p.whole[1]
                lo.emit(ir.If(ir.Scalar("not", (few,), BOOL, BOOL), [gemm], []))
                skipped = ir.Scalar("select", (few, ZERO, skipped), I64, I64)
            changed[k] = View(base, lo.let(sub(offset, skipped), "o"), v.strides, v.shape, True)
        nest.loop(changed, folds, first, end)
    lo.nests, lo.parts = lo.nests - 1, lo.parts - 1
    return True


def _product(lo: Lowerer, v: Value) -> View:
    """What stands for a product that is still to be made."""
    assert isinstance(v, View)
    return lo.changing(v)


def _place(lo: Lowerer, p: RowProduct, product: View, height: Expr) -> tuple[Mem, Expr]:
    """Where a part of the product goes, of so many rows at most: the memory, and the offset of its first row."""
    base = product.base
    assert isinstance(base, Mem)
    if p.whole is None:
        return base, product.offset
    whole, few = p.whole
    size = ir.Scalar("min", (p.rows, height), I64, I64)
    shape = (ir.Scalar("select", (few, ZERO, size), I64, I64), product.shape[1])
    own = lo.alloc(p.elem, shape, None, "rows", heap=True)
    assert isinstance(own.base, Mem)
    base = Mem(lo.name("rows"), p.elem, base.roots | own.base.roots)
    lo.emit(ir.Pointer(base.pointer, p.elem, own.base.pointer, ZERO, mutable=True))
    lo.emit(ir.If(few, [ir.SetPointer(base.pointer, whole)], []))
    return base, ZERO


def done(nest: SoacLoop) -> None:
    """The map has been lowered: the memory of the factors that were packed for it is free."""
    for p in left_to(nest).values():
        if p.root is not None:
            unpack(nest.lo, p.factor, p.root)


def matrix(v: View) -> tuple[str, Expr, Expr, Expr]:
    """Pointer, offset and strides of a matrix."""
    assert isinstance(v.base, Mem)
    rows, columns = v.strides
    return v.base.pointer, v.offset, rows, columns
