"""Recognising the parts of matrix products in map nests: dot products, matvecs, outer products (see `matmul.py`)."""

from __future__ import annotations

from dataclasses import dataclass

from futad.core import ir
from futad.core.builder import Builder
from futad.core.ir import Stm
from futad.core.operator import scalar_op
from futad.core.types import AccType, ArrayType, Atom, Prim, Var, elem_of, shape_of, zero
from futad.legality import Legality

LEGAL = Legality(
    "products", "parts of matrix products in nests of maps: dot products, matrices by vectors, outer products"
)
SUMMED_ONLY = LEGAL.condition("products summed only", "others use the products, which are not made any more")
FROM_ZERO = LEGAL.condition("sum from zero", "what the sum starts from is not in the product")
OF_THE_ROW = LEGAL.condition("product with the row", "every row has the same product, which none of its elements is in")
PLACE_OUTSIDE = LEGAL.condition("place known outside", "each turn of the nest adds to another place")
PLACE_IN_ORDER = LEGAL.condition("levels in order", "the product's elements are added to places of others")
ALL_PLACES = LEGAL.condition("as many turns as places", "the product is smaller than what it is added to")


@dataclass(slots=True)
class Dot:
    """`total = sum (map2 (*) a b)`: the positions of its two statements."""

    at: tuple[int, int]
    a: Var
    b: Var
    total: Var


def dots(stms: tuple[Stm, ...], result: ir.Atoms) -> list[Dot]:
    """The dot products of float vectors among the statements."""
    uses: dict[Var, int] = {}
    for s in stms:
        for v in ir.stm_free(s):
            uses[v] = uses.get(v, 0) + 1
    for a in result:
        if type(a) is Var:
            uses[a] = uses.get(a, 0) + 1
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
        products = inner.zip_with(lambda q, x, y: q.op("mul", x, y), row, z)
        add = inner.lambda_([("x", elem), ("y", elem)], lambda q, x, y: [q.op("add", x, y)])
        return [inner.emit(ir.Reduce(k, (products,), add, (zero(elem),), True), "dot")[0]]

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


class Update:
    """A nest of maps that threads one accumulator to one update by a product, taken apart.

    `levels` are the maps, outermost first; a factor is a variable of some level, described by the array free
    in the nest that it is an element of and the levels that index it (in order).
    """

    def __init__(self, stm: Stm) -> None:
        self.levels: list[ir.Map] = []
        self.acc: Var
        self.index: ir.Atoms
        self.factors: tuple[Atom, Atom] | None = None
        self.source: dict[Var, tuple[Var, tuple[int, ...]]] = {}
        self.counters: dict[Var, int] = {}
        self.computed: dict[Var, int] = {}
        self.ok = self._open(stm)

    def _open(self, stm: Stm) -> bool:
        e = stm.exp
        if type(e) is not ir.Map or len(stm.pat) != 1 or not isinstance(stm.pat[0].type, AccType):
            return False
        level = len(self.levels)
        self.levels.append(e)
        acc: Var | None = None
        for a, p in zip(e.arrays, e.lam.params, strict=True):
            if isinstance(p.type, AccType):
                assert type(a) is Var
                acc = p
                if level == 0:
                    self.acc = a
            elif type(a) is Var:
                base, dims = self.source.get(a, (a, ()))
                if a in self.computed:
                    return False
                self.source[p] = (base, (*dims, level))
        last = e.lam.stms[-1] if e.lam.stms else None
        if acc is None or last is None or e.lam.result != last.pat:
            return False
        for s in e.lam.stms[:-1]:
            if type(s.exp) is not ir.Op or s.pat[0].type is not elem_of(stm.pat[0].type):
                return False
            self.computed[s.pat[0]] = level
        if type(last.exp) is ir.Map:
            return acc in last.exp.arrays and self._open(last)
        if type(last.exp) is not ir.UpdateAcc or last.exp.acc is not acc:
            return False
        self.index = last.exp.index
        value = last.exp.value
        if not isinstance(value.type, Prim) or not value.type.is_float:
            return False
        product = next((s.exp for s in e.lam.stms[:-1] if s.pat[0] is value), None)
        if type(product) is not ir.Op or product.op != "mul" or self.computed.get(value) != level:  # type: ignore[arg-type]
            return False
        self.factors = (product.args[0], product.args[1])
        return len(e.lam.stms) == 2

    def width(self, level: int) -> Atom:
        return self.levels[level].width

    def place(self, iotas: set[Var]) -> list[int] | None:
        """The levels whose iteration numbers end the update's index, outermost first; the rest is invariant."""
        own = {p for m in self.levels for p in m.lam.params} | set(self.computed)
        k = len(self.index)
        levels: list[int] = []
        while k and (level := self.counter(self.index[k - 1], iotas)) is not None:
            levels.insert(0, level)
            k -= 1
        if not levels or not PLACE_OUTSIDE(not any(a in own for a in self.index[:k])):
            return None
        if not PLACE_IN_ORDER(levels == sorted(set(levels))):
            return None
        if not ALL_PLACES(shape_of(self.acc.type)[k:] == tuple([self.width(level) for level in levels])):
            return None
        return levels

    def counter(self, a: Atom, iotas: set[Var]) -> int | None:
        """The level whose iteration number `a` is."""
        if type(a) is not Var or a not in self.source:
            return None
        base, levels = self.source[a]
        return levels[0] if len(levels) == 1 and base in iotas else None


def as_outer(s: Stm, iotas: set[Var]) -> Outer | None:
    """The statement as an outer product of two arrays free in it."""
    u = Update(s)
    if not u.ok or u.factors is None:
        return None
    every = list(range(len(u.levels)))
    place = u.place(iotas)
    x, y = u.factors
    if place != every or type(x) is not Var or type(y) is not Var or x not in u.source or y not in u.source:
        return None
    (first, dx), (second, dy) = u.source[x], u.source[y]
    if dx and dy and dx[0] > dy[0]:
        first, second, dx, dy = second, first, dy, dx
    if not dx or not dy or [*dx, *dy] != every:
        return None
    return Outer(u.acc, u.index[: len(u.index) - len(place)], first, second)
