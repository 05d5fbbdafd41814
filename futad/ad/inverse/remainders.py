"""States of which half the memory is kept: what tells them from all that are near.

A loop that is undone with round-off comes back near to a state, no further away than is allowed.  So floats are
numbered, in their order, and of each float of the state the last 32 bits of its number are kept.  Of all numbers that
end so the one next to that of what came back is the state's.

    forwards     u = number x, word = u mod 2^32, sum = sum of hashes of all u
    backwards    r = number y, u = r + signed ((word - r) mod 2^32), x = numbered u

From 1 on each float has a number; below, numbers are 2^-k apart, as finely as 2^31 of them are more than what is
allowed of 1 (k is 56 for 1e-8, so that x comes back exactly from 1/8 on, else up to 2^-57).  Where more is allowed than
2^31 floats the numbers of some are one.

If an element of y is further away than is allowed of 1 and itself, u may be another integer, which the sum of hashes
tells: an error, as one of the check of y against x would have been.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from futad.ad.emit import coerce
from futad.ad.inverse.hashes import mixed, sum_of
from futad.ad.inverse.returned import MISSED, Returns, flat
from futad.ad.inverse.solver import LEGAL
from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import F64, I32, U64, ZERO, ArrayType, Atom, Const, Type, i64, shape_of

TOLD_APART = LEGAL.condition("remainders told apart", "the state of which these are the bits may be another one's")
MOST = 0.01  # that may be allowed
FINEST = 59  # k at most: numbers are i64
ONE_BITS = 0x3FF << 52
DOUBLE_ONE = Const(F64, 1.0)


class Numbers:
    """The numbers of floats, so that any two of them that may be `allowed` of 1 apart are less than 2^31 apart."""

    def __init__(self, allowed: float) -> None:
        digits = math.log2(allowed) + 0.1
        self.k = min(math.floor(30 - digits), FINEST)
        self.shift = Const(U64, max(math.ceil(23 + digits), 0))
        self.one = i64(1 << self.k)
        self.bits_of_one = i64(ONE_BITS >> self.shift.value)

    def of(self, b: Builder, x: Atom) -> Atom:
        size = b.op("abs", x)
        below = b.op("select", b.op("lt", size, DOUBLE_ONE), size, DOUBLE_ONE)
        number = b.op("to_i64", b.op("round", b.op("mul", below, Const(F64, 2.0**self.k))))
        bits = b.op("to_i64", b.op("ushr", b.op("bits_f64", size), self.shift))
        number = b.op("add", number, b.op("max", b.op("sub", bits, self.bits_of_one), ZERO))
        return b.op("select", b.op("lt", x, Const(F64, 0.0)), b.op("neg", number), number, hint="number")

    def float(self, b: Builder, number: Atom) -> Atom:
        size = b.op("abs", number)
        below = b.op("mul", b.op("to_f64", b.op("min", size, self.one)), Const(F64, 2.0**-self.k))
        bits = b.op("to_u64", b.op("add", b.op("sub", size, self.one), self.bits_of_one))
        above = b.op("from_bits_f64", b.op("shl", bits, self.shift))
        x = b.op("select", b.op("le", size, self.one), below, above)
        return b.op("select", b.op("lt", number, ZERO), b.op("neg", x), x, hint="x")


def can_be_told(t: Type, returns: Returns) -> bool:
    """Whether a state's variable is kept in this way: an array that is compared, as far as numbers go."""
    return isinstance(t, ArrayType) and t.elem is F64 and 0 < returns.tolerance(F64) <= MOST


def room(b: Builder, t: Type, rows: Atom) -> list[Atom]:
    """Arrays for what is kept of so many states: words, and sums."""
    words = b.let(ir.Scratch(I32, (rows, b.size_mul(shape_of(t)))), "words")
    return [words, b.let(ir.Scratch(U64, (rows,)), "sums")]


def size_of(b: Builder, t: Type) -> Atom:
    """Bytes of one of them."""
    return b.op("add", b.op("mul", b.size_mul(shape_of(t)), i64(I32.bytes)), i64(U64.bytes))


def keep(b: Builder, kept: Sequence[Atom], at: Atom, x: Atom, returns: Returns) -> list[Atom]:
    """The arrays with what is kept of a variable, at a place."""
    x, numbers = flat(b, x), Numbers(returns.tolerance(F64))

    def told(c: Builder, x: Atom) -> Sequence[Atom]:
        u = numbers.of(c, x)
        return [c.op("to_i32", u), mixed(c, c.convert(U64, u))]

    (n,) = shape_of(x.type)
    words, hashes = b.emit(ir.Map(n, (x,), b.lambda_([("x", F64)], told)), "words", "hashes")
    return [b.let(ir.Update(a, (at,), v), "kept") for a, v in zip(kept, (words, sum_of(b, n, hashes)), strict=True)]


def find(b: Builder, kept: Sequence[Atom], at: Atom, near: Atom, returns: Returns, iterations: Atom) -> Atom:
    """The variable that came back as `near`, so many iterations after the place."""
    y, t, allowed = flat(b, near), near.type, returns.tolerance(F64)
    numbers = Numbers(allowed)
    words, total = [b.at(a, at) for a in kept]

    def told(c: Builder, word: Atom, y: Atom) -> Sequence[Atom]:
        r = numbers.of(c, y)
        off = c.op("to_i32", c.op("sub", c.op("to_i64", word), r))
        u = c.op("add", r, c.op("to_i64", off))
        return [numbers.float(c, u), mixed(c, c.convert(U64, u))]

    (n,) = shape_of(y.type)
    x, hashes = b.emit(ir.Map(n, (words, y), b.lambda_([("word", I32), ("y", F64)], told)), returns.name, "hashes")
    if not TOLD_APART(False):
        off = f"an element of '{returns.name}' is off by more than {allowed:g} of 1 and itself"
        message = f"{MISSED}: {off} after {{}} iterations"
        returns.fail_unless(b, b.op("eq", sum_of(b, n, hashes), total), message, (iterations,))
    assert isinstance(t, ArrayType)
    return coerce(b, b.let(ir.Reshape(x, t.shape), returns.name) if len(t.shape) > 1 else x, t)


__all__ = ["can_be_told", "find", "keep", "room", "size_of"]
