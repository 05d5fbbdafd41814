"""Right factors that the iterations of a loop or map multiply by are packed once, for backends on processors with
caches.

    for ... { matmul x b }   -->   p = packed b; for ... { matmul x b, given p }

A product copies its right factor into slivers of columns (`kernels/gemm.h`), which takes as long as some rows of the
product.  Where `b` is from around the loop the copy is made before it, if there are enough rows for it in all
iterations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from futad.core import ir as core
from futad.core.types import Atom, Const, Var, shape_of
from futad.imp import ir
from futad.imp.ir import ONE, ZERO, Expr, add, compare, mul, num
from futad.imp.thread_pool import UNKNOWN_WIDTH, ThreadPool
from futad.imp.views import Mem, Root
from futad.legality import Legality

if TYPE_CHECKING:
    from futad.imp.lower import Lowerer
    from futad.rewrite.choices import Nest

LEGAL = Legality(
    "packed",
    "the right factor of products in a loop is packed once, before it",
    worth="a recurrent network 0.80 to 0.72 ms, its gradient 2.45 to 2.32: `benchmarks/without.py packed gru`",
)
OUTSIDE = LEGAL.condition("from outside", "before the loop there is no such factor")

LEAST_ROWS = 32  # of all iterations' products
PADDING = 16  # columns


@contextmanager
def packed(
    lo: Lowerer, lams: Iterable[core.Lambda | None], iterations: Expr, asked: Nest | None = None
) -> Iterator[None]:
    """Around the lowering of scopes that are run so many times: their products' factors from outside are packed.
    `asked`: the nest that they are of, where somebody asks what was done."""
    made: list[tuple[Var, Root]] = []
    if lo.target.packs and iterations != ONE and iterations != ZERO:
        for lam in lams:
            free = set(lam.free()) if lam is not None else set()
            for m, rows in products(lo, lam, free, iterations) if lam is not None else ():
                if (
                    type(m.b) is Var
                    and OUTSIDE(m.b in free)
                    and m.b not in lo.packed
                    and (root := pack(lo, m.b, rows)) is not None
                ):
                    LEGAL.fired()
                    if asked is not None:
                        asked.was(LEGAL.name)
                    made.append((m.b, root))
    yield
    for b, root in made:
        unpack(lo, b, root)


def products(lo: Lowerer, lam: core.Lambda, free: set[Var], iterations: Expr) -> Iterator[tuple[core.MatMul, Expr]]:
    """The products in a scope and those inside it, with about how many rows they have in so many iterations."""

    def known(a: Atom) -> Expr:
        return lo.expr(a) if isinstance(a, Const) or a in free else num(UNKNOWN_WIDTH)

    for s in lam.stms:
        e = s.exp
        if type(e) is core.MatMul:
            yield e, mul(iterations, known(shape_of(e.a.type)[0]))
        for inner in e.lambdas():
            if isinstance(e, core.For):
                yield from products(lo, inner, free, mul(iterations, known(e.bound)))
            elif isinstance(e, core.Mapping):
                yield from products(lo, inner, free, mul(iterations, known(e.width)))
            else:
                yield from products(lo, inner, free, iterations)


def pack(lo: Lowerer, b: Var, rows: Expr) -> Root | None:
    """Pack a right factor if it has so many rows to serve; the memory for it, or None if it is no matrix in memory."""
    v = lo.view(b)
    if not isinstance(v.base, Mem):
        return None
    lo.reads(v)
    k, n = v.shape
    root = lo.new_root(v.elem)
    assert root.slot is not None
    root.pinned += 1
    name = lo.name("packed")
    enough = lo.let(compare("<=", num(LEAST_ROWS), rows), "packs")
    lo.emit(ir.Ensure(name, v.elem, root.slot, mul(k, add(n, num(PADDING)))))
    matrix = (v.base.pointer, v.offset, v.strides[0], v.strides[1])
    with lo.block() as body:
        if lo.shares:
            pool = ThreadPool(lo, n, mul(k, n), ZERO)
            names = pool.names()
            copy = ir.Pack(name, v.elem, (k, n), matrix, *names[1:])
            lo.emit(pool.run([copy], names, dynamic=False))
        else:
            lo.emit(ir.Pack(name, v.elem, (k, n), matrix, ZERO, n))
    lo.emit(ir.If(enough, body, []))
    lo.packed[b] = (name, enough)
    return root


def unpack(lo: Lowerer, b: Var, root: Root) -> None:
    """The packed factor is not needed any more."""
    del lo.packed[b]
    root.pinned -= 1


__all__ = ["pack", "packed", "unpack"]
