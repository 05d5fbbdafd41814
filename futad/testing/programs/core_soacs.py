"""Random maps, reductions, scans and their operators, for `core.py`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from futad.core import ir
from futad.core.types import (
    BOOL,
    F64,
    I64,
    Atom,
    Const,
    Var,
    array_of,
    i64,
    row_type,
)
from futad.testing.programs.core_base import Base, Scope


class Soacs(Base):
    """Second-order constructs but those that write by index."""

    def map(self, sc: Scope, depth: int) -> None:
        width, arrays = self.inputs(sc)
        types = [self.type(sc, 1 if depth else 2) for _ in range(self.rng.randint(1, 2))]

        def body(s: Scope) -> Sequence[Atom]:
            self.fill(s, depth + 1)
            return self.results(s, types)

        lam = self.lam(sc, [("x", row_type(a.type)) for a in arrays], body)
        self.emit(sc, ir.Map(width, tuple(arrays), lam), "m", types=[array_of(t, width) for t in types])

    def operator(self, sc: Scope, width: Atom) -> tuple[list[Var], ir.Lambda, list[Atom]]:
        """Arrays of the width, an associative operator on their rows, and its neutral elements."""
        kind = self.rng.randrange(6)
        t = self.prim()
        if kind == 0 and not self.smooth:  # the least value and where it is
            a = self.array_like(sc, array_of(I64, width))
            pos = self.let(sc, ir.Iota(width, i64(0), i64(1)), "pos")

            def least(s: Scope) -> Sequence[Atom]:
                x, i, y, j = s.vars[-4:]
                tie = self.op(s, "and", self.op(s, "eq", x, y), self.op(s, "lt", i, j))
                first = self.op(s, "or", self.op(s, "lt", x, y), tie)
                return [self.op(s, "select", first, x, y), self.op(s, "select", first, i, j)]

            params = [("x", I64), ("i", I64), ("y", I64), ("j", I64)]
            return [a, pos], self.lam(sc, params, least), [Const(I64, 2**63 - 1), Const(I64, 2**63 - 1)]
        if kind == 1:  # composition of linear functions
            ab = [self.tame(sc, self.array_like(sc, array_of(F64, width))) for _ in range(2)]

            def compose(s: Scope) -> Sequence[Atom]:
                a, b, c, d = s.vars[-4:]
                return [self.op(s, "mul", a, c), self.op(s, "add", self.op(s, "mul", b, c), d)]

            return ab, self.lam(sc, [(n, F64) for n in "abcd"], compose), [Const(F64, 1), Const(F64, 0)]
        if kind == 2:  # a vectorised sum or maximum
            size = self.choose(sc.sizes)
            t = F64 if self.smooth else self.choose([F64, I64])
            op, unit = ("add", 0) if self.smooth or self.chance(0.6) else ("max", -np.inf if t is F64 else -(2**63))
            a = self.array_like(sc, array_of(t, width, size))

            def vector(s: Scope) -> Sequence[Atom]:
                x, y = s.vars[-2:]
                lam = self.lam(s, [("u", t), ("v", t)], lambda r: [self.op(r, op, *r.vars[-2:])])
                return [self.let(s, ir.Map(size, (x, y), lam))]

            row = array_of(t, size)
            neutral = self.let(sc, ir.Replicate((size,), Const(t, unit)), "ne")
            return [a], self.lam(sc, [("x", row), ("y", row)], vector), [neutral]
        if t is BOOL:
            op, unit = self.choose([("and", 1), ("or", 0), ("xor", 0)])
        elif t.is_float:
            low = [("add", 0), ("add", 0), ("mul", 1)]
            op, unit = self.choose(low if self.smooth else [*low, ("min", np.inf), ("max", -np.inf)])
        else:
            most = 2 ** (t.bits - 1)
            op, unit = self.choose(
                [("add", 0), ("mul", 1), ("min", most - 1), ("max", -most), ("xor", 0)][: 2 if self.smooth else 5]
            )
        a = self.array_like(sc, array_of(t, width))
        if t.is_float:
            a = self.tame(sc, a)
        k = self.rng.randint(1, 2)
        lam = self.lam(sc, [("x", t), ("y", t)], lambda s: [self.op(s, op, *s.vars[-2:])])
        if k == 1:
            return [a], lam, [Const(t, unit)]

        def pair(s: Scope) -> Sequence[Atom]:
            x, u, y, v = s.vars[-4:]
            return [self.op(s, op, x, y), self.op(s, "add" if t is not BOOL else "or", u, v)]

        b = self.array_like(sc, array_of(t, width))
        return [a, b], self.lam(sc, [(n, t) for n in "xuyv"], pair), [Const(t, unit), Const(t, 0)]

    def reduce(self, sc: Scope, depth: int) -> None:
        width = self.choose(sc.sizes)
        arrays, lam, neutral = self.operator(sc, width)
        self.emit(sc, ir.Reduce(width, tuple(arrays), lam, tuple(neutral)), "r")

    def scan(self, sc: Scope, depth: int) -> None:
        width = self.choose(sc.sizes)
        arrays, lam, neutral = self.operator(sc, width)
        self.emit(sc, ir.Scan(width, tuple(arrays), lam, tuple(neutral)), "s")

    def fused(self, sc: Scope, depth: int) -> None:
        """A scan and a reduction of mapped values in one construct."""
        width, arrays = self.inputs(sc)
        add = self.lam(sc, [("x", F64), ("y", F64)], lambda s: [self.op(s, "add", *s.vars[-2:])])
        top = self.lam(sc, [("x", I64), ("y", I64)], lambda s: [self.op(s, "max", *s.vars[-2:])])

        def body(s: Scope) -> Sequence[Atom]:
            self.fill(s, depth + 1)
            return [self.squash(s, self.atom(s, F64)), *self.results(s, [I64, F64])]

        lam = self.lam(sc, [("x", row_type(a.type)) for a in arrays], body)
        sums, least = ir.Fold(add, (Const(F64, 0),)), (Const(I64, -(2**63)),)
        self.emit(sc, ir.Fused(width, tuple(arrays), lam, (sums,), (ir.Fold(top, least, True),)), "f")
