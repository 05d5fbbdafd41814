"""Matrix products computed some rows at a time, where the next map reads them row by row.

    let p = matmul a b in map f p   -->   for each 128 rows of a: { q = matmul (those) b; map f q }

A large product then never goes to memory.  Its sums must be short, or its right factor packed already: a product of
long ones is else better made at once, as the copies that it makes of its factors serve more rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from futad.core import ir as core
from futad.core.types import I64, Atom, Prim
from futad.imp import ir
from futad.imp.ir import ONE, Expr, add, compare, mul, num, sub
from futad.imp.views import Mem, Value, View

if TYPE_CHECKING:
    from futad.imp.carried import Carried
    from futad.imp.lower import Lowerer
    from futad.imp.soacs import Nest

ROWS = 128
LONGEST = 64  # terms of a sum
LEAST = 1 << 17  # elements of a product too large for the nearer caches
SKIPPED = (core.Op, core.At, core.Rearrange, core.Replicate, core.Iota)


@dataclass(slots=True, eq=False)
class RowProduct:
    """A product that is still to be made, `rows` rows at a time, in memory for so many."""

    a: View
    b: View
    elem: Prim
    rows: Expr
    place: int
    packed: tuple[str, Expr] | None


def put_off(lo: Lowerer, stm: core.Stm, e: core.MatMul, a: View, b: View) -> View | None:
    """Leave the product to the map that reads it: the next statement, but for views, scalars and constants.  Returns
    memory for some of its rows; None if it is to be made now."""
    sc, var = lo.scopes[-1], stm.pat[0]
    if not lo.assembles or (lo.parallel and not lo.in_parallel) or e.plus or sc.uses.get(var) != 1:
        return None
    if not all(isinstance(v.base, Mem) for v in (a, b)) or all(isinstance(n, ir.Num) for n in (*a.shape, *b.shape)):
        return None
    at = sc.index + 1
    while at < len(sc.lam.stms) and isinstance(sc.lam.stms[at].exp, SKIPPED):
        at += 1
    reader = sc.lam.stms[at].exp if at < len(sc.lam.stms) else None
    if type(reader) is core.Map:
        scans = False
    elif type(reader) is core.Fused:
        scans = bool(reader.scan_lams)
    else:
        return None
    if scans or var not in reader.arrays or not any(s.exp.lambdas() for s in reader.lam.stms):
        return None
    for x in (e.a, e.b):
        # Nothing is written over the factors before the map is done.
        sc.last[x] = max(sc.last.get(x, 0), at + 1)  # type: ignore[index,arg-type]
    m, n, k = a.shape[0], b.shape[1], a.shape[1]
    large = compare("<=", num(LEAST), mul(m, n))
    packed = lo.packed.get(e.b)
    short = compare("<=", k, num(LONGEST))
    some = ir.Scalar("select", (compare("||", short, packed[1]) if packed else short, num(ROWS), m), I64, I64)
    rows = lo.let(ir.Scalar("max", (ONE, ir.Scalar("select", (large, some, m), I64, I64)), I64, I64), "rows")
    buffer = lo.alloc(a.elem, (rows, n), None, var.name)
    sc.late[var] = RowProduct(a, b, a.elem, rows, lo.place(None), packed)
    return View(buffer.base, buffer.offset, buffer.strides, (m, n), True)


def by_rows(nest: Nest, arrays: Sequence[Atom], folds: list[Carried]) -> bool:
    """Run the map with the products that were left to it; False if none was."""
    lo = nest.lo
    late = lo.scopes[-1].late
    found = [(k, late[a]) for k, a in enumerate(arrays) if a in late]  # type: ignore[index]
    if not found:
        return False
    ((k, p),) = found
    whole = nest.inputs[k]
    assert isinstance(whole, View) and isinstance(whole.base, Mem)
    m, n = whole.shape
    lo.nests += 1
    count = lo.let(ir.Bin("/", add(m, sub(p.rows, ONE)), p.rows), "parts")
    with lo.loop(count, "part") as (part, _):
        start = lo.let(mul(part, p.rows), "start")
        end = lo.let(ir.Scalar("min", (add(start, p.rows), m), I64, I64), "end")
        here = View(p.a.base, lo.let(add(p.a.offset, mul(start, p.a.strides[0])), "o"), p.a.strides, p.a.shape)
        sizes = (lo.let(sub(end, start), "n"), n, p.a.shape[1])
        lo.emit(ir.Gemm(p.elem, sizes, matrix(here), matrix(p.b), matrix(whole), p.place, False, False, p.packed))
        before = lo.let(sub(whole.offset, mul(start, n)), "o")
        inputs: list[Value] = list(nest.inputs)
        inputs[k] = View(whole.base, before, whole.strides, whole.shape, True)
        nest.loop(inputs, folds, start, end)
    lo.nests -= 1
    return True


def matrix(v: View) -> tuple[str, Expr, Expr, Expr]:
    """Pointer, offset and strides of a matrix."""
    assert isinstance(v.base, Mem)
    return (v.base.pointer, v.offset, *v.strides)  # type: ignore[return-value]
