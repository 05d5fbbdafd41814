"""Recognising the parts of matrix products in map nests: dot products, matvecs, outer products (see `matmul.py`)."""

from __future__ import annotations

from dataclasses import dataclass

from futad.core import ir
from futad.core.builder import Builder
from futad.core.ir import Stm
from futad.core.nest import Nest, Read, Reads, nest_in
from futad.core.operator import scalar_op
from futad.core.scope import uses_in
from futad.core.types import AccType, ArrayType, Atom, Prim, Var, elem_of, shape_of, zero
from futad.legality import Legality

LEGAL = Legality(
    "products", "parts of matrix products in nests of maps: dot products, matrices by vectors, outer products"
)
SUMMED_ONLY = LEGAL.condition("products summed only", "others use the products, which are not made any more")
FROM_ZERO = LEGAL.condition("sum from zero", "what the sum starts from is not in the product")
OF_THE_ROW = LEGAL.condition("product with the row", "every row has the same product, which none of its elements is in")
PLACE_OUTSIDE = LEGAL.condition("place known outside", "each iteration of the nest adds to another place")
PLACE_IN_ORDER = LEGAL.condition("levels in order", "the product's elements are added to places of others")
ALL_PLACES = LEGAL.condition("as many iterations as places", "the product is smaller than what it is added to")


@dataclass(slots=True)
class Dot:
    """`total = sum (map2 (*) a b)`: the positions of its two statements."""

    at: tuple[int, int]
    a: Var
    b: Var
    total: Var


def dots(stms: tuple[Stm, ...], result: ir.Atoms) -> list[Dot]:
    """The dot products of float vectors among the statements."""
    uses = uses_in(stms, result)
    products: dict[Var, tuple[int, Var, Var]] = {}
    out: list[Dot] = []
    for i, s in enumerate(stms):
        e = s.exp
        if type(e) is ir.Map and len(e.arrays) == 2 and scalar_op(e.lam) == "mul":
            a, b = e.arrays
            if not SUMMED_ONLY(uses.get(s.pat[0]) == 1):
                continue
            if type(a) is Var and type(b) is Var and a is not b and elem_of(a.type).is_float:
                products[s.pat[0]] = (i, a, b)
        elif type(e) is ir.Reduce and len(e.arrays) == 1 and e.arrays[0] in products and scalar_op(e.lam) == "add":
            if FROM_ZERO(e.neutral == (zero(elem_of(e.arrays[0].type)),)):
                j, a, b = products[e.arrays[0]]
                out.append(Dot((j, i), a, b, s.pat[0]))
    return out


@dataclass(slots=True)
class MatVec:
    """`out = matrix vector`, as a map of dot products over the matrix's rows."""

    matrix: Var
    vector: Var


def as_matvec(s: Stm) -> MatVec | None:
    e = s.exp
    if type(e) is not ir.Map or len(e.arrays) != 1 or len(e.lam.stms) != 2 or type(e.arrays[0]) is not Var:
        return None
    found = dots(e.lam.stms, e.lam.result)
    row = e.lam.params[0]
    if len(found) != 1 or e.lam.result != (found[0].total,) or not OF_THE_ROW(row in (found[0].a, found[0].b)):
        return None
    z = found[0].b if found[0].a is row else found[0].a
    return MatVec(e.arrays[0], z)


def matvec(b: Builder, matrix: Var, z: Var, hint: str, out: Var | None = None) -> Var:
    """Emit `matrix z` as a matvec statement (binding `out` if given)."""
    LEGAL.fired()
    rows, k = shape_of(matrix.type)
    elem = elem_of(matrix.type)

    def dot(inner: Builder, row: Var) -> list[Atom]:
        return [inner.sum_outer(k, inner.zip_with(lambda q, x, y: q.op("mul", x, y), row, z), "dot")]

    lam = b.lambda_([("row", ArrayType(elem, (k,)))], dot)
    out = out if out is not None else Var(hint, ArrayType(elem, (rows,)))
    b.add(Stm((out,), ir.Map(rows, (matrix,), lam)))
    return out


@dataclass(slots=True)
class Outer:
    """`acc[prefix, i, j] += u[i] * v[j]` for all i, j (of any rank): the nest is this update and nothing else."""

    acc: Var
    prefix: ir.Atoms
    u: Var
    v: Var


@dataclass(slots=True)
class Update:
    """A nest of maps that threads an accumulator to one update by a product of two scalars, and does nothing else."""

    nest: Nest
    acc: Var
    index: ir.Atoms
    factors: tuple[Read, Read]
    reads: Reads
    widths: list[Atom]

    def place(self, iotas: set[Var]) -> list[int] | None:
        """The levels whose iteration numbers end the update's index, outermost first; the rest is invariant."""
        k = len(self.index)
        levels: list[int] = []
        while k and (level := self.counter(self.index[k - 1], iotas)) is not None:
            levels.insert(0, level)
            k -= 1
        if not levels or not PLACE_OUTSIDE(not any(a in self.nest.bound for a in self.index[:k])):
            return None
        if not PLACE_IN_ORDER(levels == sorted(set(levels))):
            return None
        if not ALL_PLACES(shape_of(self.acc.type)[k:] == tuple([self.widths[level] for level in levels])):
            return None
        return levels

    def counter(self, a: Atom, iotas: set[Var]) -> int | None:
        """The level whose iteration number `a` is."""
        read = self.reads.get(a) if type(a) is Var else None
        return read.levels[0] if read is not None and len(read.levels) == 1 and read.array in iotas else None


def as_update(s: Stm) -> Update | None:
    """The statement as an update by a product of elements of arrays; None if it is anything else."""
    e = s.exp
    if type(e) is not ir.Map or len(s.pat) != 1 or not isinstance(s.pat[0].type, AccType):
        return None
    nest = nest_in(e.lam, arrays=e.arrays)
    if len(nest.body.stms) != 2 or nest.body.result != nest.body.stms[1].pat:
        return None
    product, update = [t.exp for t in nest.body.stms]
    if type(product) is not ir.Op or product.op != "mul" or type(update) is not ir.UpdateAcc:
        return None
    (made,) = nest.body.stms[0].pat
    if update.value is not made or not isinstance(made.type, Prim) or not made.type.is_float:
        return None
    reads = nest.reads()
    x, y = [reads.get(a) if type(a) is Var else None for a in product.args]
    acc = next(a for a in e.arrays if isinstance(a.type, AccType))
    if x is None or y is None or type(acc) is not Var:
        return None
    return Update(nest, acc, update.index, (x, y), reads, [e.width, *[m.width for m in nest.maps]])


def as_outer(s: Stm, iotas: set[Var]) -> Outer | None:
    """The statement as an outer product of two arrays free in it."""
    u = as_update(s)
    if u is None or (place := u.place(iotas)) != list(range(u.nest.depth)):
        return None
    x, y = sorted(u.factors, key=lambda r: r.levels)
    if not x.levels or not y.levels or [*x.levels, *y.levels] != place:
        return None
    return Outer(u.acc, u.index[: len(u.index) - len(place)], x.array, y.array)
