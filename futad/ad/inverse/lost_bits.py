"""Floats that come back bit by bit: what an inverse with round-off loses of them is kept, about a byte each.

Forwards, the inverse of an iteration is computed where the iteration is, and compared with what the iteration began
with: mostly the two are a few floats apart.  Numbered in their order, the low seven bits of the true one then tell it
from all floats near; a list has those that come back further away, whole.  Backwards the same inverse is computed of
the same bits, and the float next to it that has these seven bits is the true one.  Bits that are wrong nonetheless are
an error: both sweeps add up a hash of what each iteration begins with, and the loop has to come to where it was.

    y = f x                               y = f x
                        --forwards-->     kept[i] = lost x (g y)                     with g (f x) about x
    x = g y (about)     --backwards-->    x = found kept[i] (g y)

`lost` and `found` are scalar operations (`core/scalarmath.py`).

Note [Same bits]
Both sweeps have to compute the same bits of g y.  A C compiler contracts products and sums, and takes the library's
functions for lanes, as what is around suggests.  So g is a function of the program that is compiled once, by itself;
and so is what is done with bits, as loops over bytes have other lanes.  Then the rest of both sweeps is compiled as if
every iteration was kept.  Kernels for devices, where functions have no code of their own, are compiled without
contraction (`scalarlib.same_bits`).  Up to 32 floats may lie between the two, where 63 could be told from one another,
so that one bit more or less does no harm.

Source: Maclaurin, Duvenaud and Adams, "Gradient-based hyperparameter optimization through reversible learning", ICML
2015, section 3, whose buffer has the bits that are lost of numbers with a fixed point.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from futad.ad.emit import coerce
from futad.ad.inverse.hashes import mixed, sum_of
from futad.core import ir
from futad.core.attributes import SAME_BITS
from futad.core.builder import Builder
from futad.core.types import (
    BOOL,
    F32,
    F64,
    I64,
    ONE,
    ZERO,
    ArrayType,
    Atom,
    Const,
    Prim,
    Type,
    Var,
    elem_of,
    i64,
    prim,
    shape_of,
)  # fmt: skip
from futad.errors import Span

I8, I16, U64 = prim("i8"), prim("i16"), prim("u64")
NOINLINE = ("noinline",)  # the attribute of a function that is compiled by itself
WHOLE = Const(I8, -1)  # in place of bits: the value is in the list
SHARE, FEWEST = 4, 64  # one value of 4 may be in the list, and so many
MISSED = "run backwards, the loop does not come to where it was"


class Functions:
    """Functions that reverse mode adds to a program, by name, each to be compiled by itself; see Note [Same bits]."""

    def __init__(self, taken: Collection[str] = ()) -> None:
        self.made: dict[str, ir.Fun] = {}
        self.prefix = "undone_"  # of the names, which no function of the program has
        while any(name.startswith(self.prefix) for name in taken):
            self.prefix += "_"

    def add(self, name: str, sizes: Sequence[Var], lam: ir.Lambda) -> None:
        """One more: its parameters are the sizes and those of `lam`."""
        body = ir.rename(ir.Lambda((*sizes, *lam.params), lam.stms, lam.result))
        ret = tuple([Var("r", a.type) for a in body.result])
        self.made[name] = ir.Fun(name, body, len(sizes), ret, attrs=(NOINLINE, SAME_BITS))

    def call(self, b: Builder, name: str, args: ir.Atoms) -> ir.Atoms:
        """Emit a call with sizes and values; its results."""
        f = self.made[name]
        names = ir.Renamer(dict(zip(f.body.params, args, strict=True)))
        pat = tuple([names.bind(v) for v in f.ret])
        b.add(ir.Stm(pat, ir.Call(name, args)))
        return pat


class Near:
    """The inverse of an iteration as a function; `types`: of its results."""

    def __init__(self, functions: Functions, code: ir.Lambda, types: Sequence[Type]) -> None:
        b = Builder()
        written = any(s.exp.consumes() for s in ir.statements(code.stms))
        params = tuple([Var(p.name, p.type) for p in code.params])
        args = [b.let(ir.Copy(p), p.name) if written and isinstance(p.type, ArrayType) else p for p in params]
        results = [coerce(b, a, t) for a, t in zip(b.inline(code, args), types, strict=True)]
        lam = ir.Lambda(params, tuple(b.stms), tuple(results))
        free = sorted(lam.free(), key=lambda v: v.id)
        shapes = [n for v in (*free, *params, *results) for n in shape_of(v.type) if isinstance(n, Var)]
        sizes = list(dict.fromkeys(n for n in shapes if n not in params))
        self.given = (*sizes, *[v for v in free if v not in sizes])
        self.functions, self.name = functions, f"{functions.prefix}{len(functions.made)}"
        functions.add(self.name, sizes, ir.Lambda((*self.given[len(sizes) :], *params), lam.stms, lam.result))

    def call(self, b: Builder, args: Sequence[Atom]) -> ir.Atoms:
        """Emit a call with the arguments of the code; its results."""
        return self.functions.call(b, self.name, (*self.given, *args))


def room(b: Builder, t: Type, iterations: Atom) -> Atom:
    """How many values of a variable its list has room for."""
    total = b.op("mul", b.size_mul(shape_of(t)), iterations, hint="total")
    return b.op("min", total, b.op("max", b.op("quot", total, i64(SHARE)), i64(FEWEST)), hint="room")


def rows(t: Type) -> list[Type]:
    """The types of what an iteration keeps of a variable: its bits, and its share of the list."""
    parts = (I8, I16 if elem_of(t) is F64 else I8)
    return [ArrayType(p, shape_of(t)) if isinstance(t, ArrayType) else p for p in parts]


@dataclass(slots=True)
class Kept:
    """What is kept of a variable: `bits`, a row for each iteration; a `list` of whole values, of which the first `top`
    are used; and the sum of hashes.  After the loop.

    In the return sweep its loop carries `params` from `inits` to `results`, which `find` makes.
    """

    functions: Functions
    name: str
    place: Span | None
    iterations: Atom
    bits: Var
    list: Var
    top: Var
    sum: Var
    params: tuple[Var, Var] = field(default_factory=lambda: (Var("top", I64), Var("sum", U64)))
    results: tuple[Atom, ...] = ()

    @property
    def inits(self) -> tuple[Atom, ...]:
        return self.top, Const(U64, 0)

    def find(self, b: Builder, near: Atom, i: Atom) -> Atom:
        """Emit the true value of the variable before iteration i, which came back as `near`."""
        row = b.at(self.bits, i, hint="bits")
        near_, n = _flat(b, near)
        x, whole = _by_itself(self.functions, b, "found", _found, n, [row, near_])
        top = b.op("sub", self.params[0], whole, hint="top")

        def listed(c: Builder, x: Atom) -> Atom:
            if n is None:
                return c.at(self.list, top, hint="x")
            at = _places(c, n, row, top)
            return _each(c, n, [x, at], lambda d, x, at: [_either(d, x, self.list, at)])[0]

        x = _once(b, whole, x, listed)
        (hashes,) = _by_itself(self.functions, b, "hashed", _hashed, n, [x])
        self.results = (top, b.op("add", self.params[1], hashes, hint="sum"))
        return x if n is None else coerce(b, b.let(ir.Reshape(x, shape_of(near.type)), self.name), near.type)

    def check(self, b: Builder, start: Atom, end: Atom, carried: Sequence[Atom]) -> None:
        """Emit the check of `end`, which the return sweep comes to, against `start`; `carried`: what its loop carries
        for this."""
        x, n = _flat(b, start)
        y, _ = _flat(b, coerce(b, end, start.type))

        def differs(c: Builder, u: Atom, v: Atom) -> Sequence[Atom]:
            return [c.op("to_i64", c.op("ne", _bits(c, u), _bits(c, v)))]

        differ = _total(b, n, _each(b, n, [x, y], differs)[0])
        same = b.op("and", b.op("eq", differ, ZERO), b.op("eq", carried[1], self.sum), hint="same")
        message = (
            f"{MISSED}: of '{self.name}', which is undone with the bits that are lost, {{}} values differ after {{}} "
            "iterations, or some on the way did; reversible=False keeps all"
        )
        b.add(ir.Stm((), ir.Assert(same, message, (differ, self.iterations), self.place)))

    def held(self, b: Builder) -> Atom:
        """The bytes that were kept."""
        size = b.op("mul", self.top, i64(elem_of(self.list.type).bytes))
        return b.op("add", b.size_mul(shape_of(self.bits.type)), size, hint="held")


def keep(
    functions: Functions, b: Builder, x: Atom, near: Atom, i: Atom, now: tuple[Atom, Atom, Atom, Atom], name: str,
    place: Span | None,
) -> list[Atom]:  # fmt: skip
    """Emit what iteration i keeps of a variable that began as `x` and comes back as `near`; `now`: the bits, the list,
    how many values are in it, and the sum of hashes, and these after it."""
    held, values, top, total = now
    y, n = _flat(b, coerce(b, near, x.type))
    x, _ = _flat(b, x)
    row, whole, hashes = _by_itself(functions, b, "lost", _lost, n, [x, y])
    after = b.op("add", top, whole, hint="top")
    (most,) = shape_of(values.type)
    message = (
        f"'{name}' cannot be undone with the bits that are lost: {{}} of its values are further away, where {{}} may "
        "be; reversible=False keeps all"
    )
    b.add(ir.Stm((), ir.Assert(b.op("le", after, most), message, (after, most), place)))

    def listed(c: Builder, values: Atom) -> Atom:
        if n is None:
            return c.let(ir.Update(values, (top,), x), "list")
        return c.let(ir.Scatter(n, (values,), (_places(c, n, row, top),), (x,)), "list")

    values = _once(b, whole, values, listed)
    held = b.let(ir.Update(held, (i,), row), "bits")
    return [held, values, after, b.op("add", total, hashes, hint="sum")]


# --- what is done with all elements ----------------------------------------------------------------------------------


def _lost(b: Builder, n: Atom | None, x: Atom, y: Atom) -> list[Atom]:
    """The bits of x, how many are to be in the list, and the hashes."""
    row = _each(b, n, [x, y], lambda c, u, v: [c.op("lost", u, v)])[0]
    return [row, _count(b, n, row), *_hashed(b, n, x)]


def _found(b: Builder, n: Atom | None, row: Atom, y: Atom) -> list[Atom]:
    """What has the bits, and how many are in the list."""
    return [_each(b, n, [row, y], lambda c, k, y: [c.op("found", k, y)])[0], _count(b, n, row)]


def _hashed(b: Builder, n: Atom | None, x: Atom) -> list[Atom]:
    """The sum of hashes of floats."""
    return [_total(b, n, _each(b, n, [x], lambda c, x: [mixed(c, _bits(c, x))])[0])]


def _by_itself(
    functions: Functions, b: Builder, name: str, f: Callable[..., list[Atom]], n: Atom | None, args: list[Atom]
) -> Sequence[Atom]:
    """f(builder, n, *args) as a function of its own; of scalars where it is."""
    if n is None:
        return f(b, n, *args)
    name = f"{functions.prefix}{name}_{elem_of(args[-1].type).name}"
    if name not in functions.made:
        size = Var("n", I64)
        params = tuple([Var("x", ArrayType(elem_of(a.type), (size,))) for a in args])
        inner = Builder()
        results = tuple(f(inner, size, *params))
        functions.add(name, [size], ir.Lambda(params, tuple(inner.stms), results))
    return functions.call(b, name, (n, *args))


# --- elements, or one scalar -----------------------------------------------------------------------------------------


def _flat(b: Builder, a: Atom) -> tuple[Atom, Atom | None]:
    """An array in one dimension, and how many elements it has; None for a scalar."""
    if not isinstance(a.type, ArrayType):
        return a, None
    shape = a.type.shape
    n = b.size_mul(shape)
    return (a if len(shape) == 1 else b.let(ir.Reshape(a, (n,)), "flat")), n


def _each(
    b: Builder, n: Atom | None, arrays: Sequence[Atom], f: Callable[..., Sequence[Atom]]
) -> Sequence[Atom]:
    """The results of f for all n elements of arrays, or for scalars."""
    if n is None:
        return f(b, *arrays)
    params = [("x", elem_of(a.type)) for a in arrays]
    return b.emit(ir.Map(n, tuple(arrays), b.lambda_(params, f)), "each")


def _total(b: Builder, n: Atom | None, a: Atom) -> Atom:
    """The sum of integers."""
    return a if n is None else sum_of(b, n, a)


def _is_whole(b: Builder, k: Atom) -> Atom:
    return b.op("to_i64", b.op("eq", k, WHOLE))


def _count(b: Builder, n: Atom | None, row: Atom) -> Atom:
    """How many values are in the list for a row of bits."""
    return _total(b, n, _each(b, n, [row], lambda c, k: [_is_whole(c, k)])[0])


def _places(b: Builder, n: Atom, row: Atom, top: Atom) -> Atom:
    """Where in the list the value of each element is, -1 for those that are not in it."""
    flags = _each(b, n, [row], lambda c, k: [_is_whole(c, k)])[0]
    add = b.lambda_([("x", I64), ("y", I64)], lambda c, x, y: [c.op("add", x, y)])
    before = b.emit(ir.Scan(n, (flags,), add, (ZERO,)), "before")[0]

    def place(c: Builder, k: Atom, upto: Atom) -> Sequence[Atom]:
        at = c.op("sub", c.op("add", top, upto), ONE)
        return [c.op("select", c.op("eq", k, WHOLE), at, i64(-1))]

    return _each(b, n, [row, before], place)[0]


def _either(b: Builder, x: Atom, values: Atom, at: Atom) -> Atom:
    """The value at a place of the list, if it is one; else x."""
    then, orelse = b.body(lambda c: [c.at(values, at)]), b.body(lambda c: [x])
    return b.emit(ir.If(b.op("le", ZERO, at), then, orelse), "x")[0]


def _once(b: Builder, wanted: Atom, a: Atom, f: Callable[[Builder, Atom], Atom]) -> Atom:
    """f(builder, a) if the count `wanted` is not 0, else a.  A loop, as the results of branches are copies."""
    count = b.op("min", wanted, ONE, hint="some")
    lam = b.lambda_([("i", I64), ("a", a.type)], lambda c, i, a: [f(c, a)])
    return b.emit(ir.For(count, (a,), lam), "a")[0]


def can_be_found(t: Type) -> bool:
    """Whether there are `lost` and `found` for the type's elements."""
    return elem_of(t) in (F32, F64)


def _bits(b: Builder, x: Atom) -> Atom:
    t = x.type
    assert isinstance(t, Prim) and t is not BOOL
    return b.convert(U64, b.op(f"bits_{t.name}", x))


__all__ = ["Functions", "Kept", "Near", "can_be_found", "keep", "room", "rows"]
