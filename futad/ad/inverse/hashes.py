"""Hashes by which the states of two sweeps are compared."""

from __future__ import annotations

from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import U64, Atom, Const, elem_of


def mixed(b: Builder, u: Atom) -> Atom:
    """A hash of a u64: each bit changes about half the bits of it (Steele, Lea and Flood, "Fast splittable
    pseudorandom number generators", OOPSLA 2014)."""
    h = b.op("mul", u, Const(U64, 0x9E3779B97F4A7C15))
    return b.op("mul", b.op("xor", h, b.op("ushr", h, Const(U64, 32))), Const(U64, 0xBF58476D1CE4E5B9))


def sum_of(b: Builder, n: Atom, integers: Atom) -> Atom:
    """The sum of n integers."""
    t = elem_of(integers.type)
    add = b.lambda_([("x", t), ("y", t)], lambda c, x, y: [c.op("add", x, y)])
    return b.emit(ir.Reduce(n, (integers,), add, (Const(t, 0),), True), "total")[0]


__all__ = ["mixed", "sum_of"]
