"""Whether a variable that is carried backwards was in each iteration what it had been there.

That it comes back to where the loop began does not say so: what an iteration forgets, as one that halves a difference
does, makes errors larger when it is undone; and what an earlier one magnifies makes them smaller again.  So both sweeps
add up what the iterations begin with,

    forwards     total += w_i sum_k w_k x_k      size += w_i sum_k |w_k x_k|
    backwards    back += w_i sum_k w_k x_k

with weights from 1 to 2, by which elements and iterations that change places are noticed.  |back - total| may be as
much as round-off is allowed of one that begins with the mean of all: allowed (iterations + size).  Integers and bools
are hashed, and the sums of hashes are equal.

Note [Some iterations]
Of arrays of floats the first `ALL` iterations are added up, then one in `ONE_IN`, by a hash of its number.  What is
off only where none is added up is missed; but round-off grows and shrinks over some iterations, and what is off in k of
them is missed with a probability of (1 - 1 / ONE_IN)^k.  Where an inverse of the program's own is used, which may be
wrong anywhere, all are.  The sums are made in a loop of one iteration or none, which
is not fused with what iterations do: that is left as it is without the sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from futad.ad.inverse.returned import Returns, flat
from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import BOOL, F64, I64, ONE, ZERO, ArrayType, Atom, Const, Prim, Var, elem_of, i64, prim, shape_of

ONE_IN, ALL = 8, 256  # one iteration in so many after the first ones, see Note [Some iterations]
U64 = prim("u64")
SPREAD, MIX = Const(U64, 0x9E3779B97F4A7C15), Const(U64, 0xBF58476D1CE4E5B9)  # the first: 2^64 / the golden ratio


@dataclass(slots=True)
class Underway:
    """The sums of a variable; `total` and `size` (of floats) after the forward sweep.  `weights`: of its elements.

    `every`: that no iteration is left out.

    The return sweep's loop carries `param` from 0 to `result`, which `add` makes.
    """

    returns: Returns
    elem: Prim
    weights: Var | None
    total: Var
    size: Var | None
    every: bool
    param: Var = field(init=False)
    result: Atom | None = None

    def __post_init__(self) -> None:
        self.param = Var("back", self.total.type)

    @property
    def init(self) -> Atom:
        return zero_of(self.total)

    def add(self, b: Builder, x: Atom, i: Atom) -> None:
        """Emit the sum with what iteration i begins with."""
        (self.result,) = added(b, [self.param], x, i, self.weights, self.every)

    def check(self, b: Builder, back: Atom, iterations: Atom) -> None:
        """Emit the check of what the return sweep comes to."""
        says = f"run backwards, the loop is not where it was on the way: '{self.returns.name}'"
        if self.size is None:
            message = f"{says} differs in some of {{}} iterations"
            self.returns.fail_unless(b, b.op("eq", back, self.total), message, (iterations,))
            return
        off = b.op("abs", b.op("sub", back, self.total))
        whole = b.op("add", b.convert(F64, iterations), self.size)
        limit = b.op("mul", Const(F64, self.returns.tolerance(self.elem)), whole)
        message = f"{says} is off by {{}} in the sum of {{}} iterations, where {{}} is allowed"
        self.returns.fail_unless(b, b.op("le", off, limit), message, (off, iterations, limit))


def zero_of(v: Var) -> Const:
    """What sums begin with."""
    return Const(F64, 0.0) if v.type is F64 else Const(U64, 0)


def weights_of(b: Builder, n: Atom) -> Var:
    """Weights of n elements."""
    iota = b.let(ir.Iota(n, ZERO, ONE), "k")
    return b.let(ir.Map(n, (iota,), b.lambda_([("k", I64)], lambda c, k: [_weight(c, k)])), "weights")


def _weight(b: Builder, k: Atom) -> Atom:
    """From 1 to 2, by k: a fraction of 24 bits of k times the golden ratio (Knuth, The Art of Computer Programming,
    section 6.4)."""
    high = b.op("ushr", b.op("mul", b.convert(U64, k), SPREAD), Const(U64, 40))
    return b.op("add", Const(F64, 1.0), b.op("mul", b.convert(F64, high), Const(F64, 2.0**-24)))


def added(
    b: Builder, now: Sequence[Atom], x: Atom, i: Atom, weights: Atom | None, every: bool
) -> Sequence[Atom]:
    """Emit the total `now`, and the size if that is there, with what iteration i begins with."""
    t = elem_of(x.type)
    scalar = not isinstance(x.type, ArrayType)
    if not t.is_float:
        return [b.op("add", now[0], _hashed(b, flat(b, x), i, scalar), hint="total")]

    def terms(c: Builder, u: Atom, w: Atom) -> Sequence[Atom]:
        term = c.op("mul", c.convert(F64, u), w)
        return [term, c.op("abs", term)][: len(now)]

    if scalar:
        return [b.op("add", s, m, hint="total") for s, m in zip(now, terms(b, x, _weight(b, i)), strict=True)]
    assert weights is not None
    high = b.op("ushr", b.op("mul", b.convert(U64, i), SPREAD), Const(U64, 20))
    due = b.op("eq", b.op("and", high, Const(U64, ONE_IN - 1)), Const(U64, 0))
    count = b.op("select", b.op("or", due, b.op("lt", i, i64(ALL))), ONE, ZERO)

    def once(c: Builder, _: Atom, *now: Atom) -> Sequence[Atom]:
        y = flat(c, x)
        (n,) = shape_of(y.type)
        each = c.emit(ir.Map(n, (y, weights), c.lambda_([("x", t), ("w", F64)], terms)), "terms")
        w = _weight(c, i)
        found: list[Atom] = []
        for a in each:
            add = c.lambda_([("x", F64), ("y", F64)], lambda d, u, v: [d.op("add", u, v)])
            found += c.emit(ir.Reduce(n, (a,), add, (Const(F64, 0.0),), True), "sum")
        return [c.op("add", s, c.op("mul", a, w)) for s, a in zip(now, found, strict=True)]

    lam = b.lambda_([("k", I64), *[("total", F64)] * len(now)], once)
    return b.emit(ir.For(ONE if every else count, tuple(now), lam), *["total"] * len(now))


def _hashed(b: Builder, x: Atom, i: Atom, scalar: bool) -> Atom:
    """The sum of hashes of integers with their places."""
    t = elem_of(x.type)
    assert isinstance(t, Prim)

    def hash_(c: Builder, u: Atom, k: Atom) -> Sequence[Atom]:
        u = c.op("select", u, Const(U64, 1), Const(U64, 0)) if t is BOOL else c.convert(U64, u)
        h = c.op("mul", c.op("add", u, c.op("mul", c.convert(U64, k), SPREAD)), MIX)
        return [c.op("mul", c.op("xor", h, c.op("ushr", h, Const(U64, 32))), SPREAD)]

    if scalar:
        return hash_(b, x, i)[0]
    (n,) = shape_of(x.type)
    iota = b.let(ir.Iota(n, ZERO, ONE), "k")
    (each,) = b.emit(ir.Map(n, (x, iota), b.lambda_([("x", t), ("k", I64)], hash_)), "hashes")
    add = b.lambda_([("x", U64), ("y", U64)], lambda c, u, v: [c.op("add", u, v)])
    (total,) = b.emit(ir.Reduce(n, (each,), add, (Const(U64, 0),), True), "hash")
    odd = b.op("add", b.op("mul", b.convert(U64, i), Const(U64, 2)), Const(U64, 1))
    return b.op("mul", total, odd)


__all__ = ["Underway", "added", "weights_of", "zero_of"]
