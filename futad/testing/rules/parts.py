"""Parts of random small programs: operands, arrays, scopes and places, of the values in scope."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from futad.core import ir
from futad.core.builder import Builder
from futad.core.node import Range
from futad.core.scalarops import OPS
from futad.core.types import (
    BOOL,
    F32,
    F64,
    I32,
    I64,
    ONE,
    U8,
    ZERO,
    ArrayType,
    Atom,
    Const,
    Prim,
    Type,
    Var,
    array_of,
    i64,
    row_type,
)  # fmt: skip
from futad.errors import Span
from futad.testing.rules.instances import UNARY
from futad.testing.rules.values import specials

SPAN = Span("rule.fut", 1, 1, 1, 2)
PRIMS = (F64, F64, I64, I64, BOOL, I32, F32, U8)


class Parts:
    """Makes statements of parts that rules look for.  `pool` are the values in scope, the latest ones last."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.b = Builder()
        self.sizes = [Var("n", I64), Var("m", I64)]
        self.inputs: list[Var] = []
        self.pool: list[Var] = list(self.sizes)
        self.depth = 0
        self.checked = self.chance(0.5)  # all reads and writes are
        self.frame: tuple[Var, Atom] | None = None  # the index of the map around, and its width

    # -- choosing

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def some(self, xs: Sequence[Any]) -> Any:
        return xs[self.rng.randrange(len(xs))]

    def let(self, e: ir.Exp, name: str = "t", attrs: tuple[Any, ...] = ()) -> Var:
        (v,) = self.b.emit(e, name, attrs=attrs)
        self.pool.append(v)
        return v

    def op(self, name: str, *args: Atom) -> Var:
        return self.let(ir.Op(name, args))

    def input(self, t: Type) -> Var:
        v = Var("x", t)
        self.inputs.append(v)
        self.pool.append(v)
        return v

    def const(self, t: Prim) -> Const:
        return Const(t, self.some([*specials(t), 0, 0, 1, 1, -1, 2] if not t.is_bool else [0, 1]))

    def atom(self, t: Type) -> Atom:
        """A value of the type: a late one, a constant, an operation's result, or an input."""
        found = [v for v in self.pool if v.type == t]
        if found and self.chance(0.65):
            return self.some(found[-3:]) if self.chance(0.7) else self.some(found)
        if isinstance(t, ArrayType):
            return self.array(t)
        assert isinstance(t, Prim)
        if self.chance(0.45):
            return self.const(t)
        if self.chance(0.4) and self.depth < 3:
            return self.scalar(t)
        return self.input(t)

    def scalar(self, t: Prim) -> Atom:
        """The result of an operation that rules look through."""
        choices = [n for n in ("neg", "not", "add", "sub", "select", "mul", "eq", "lt", "le", "min", "mod")
                   if any(OPS[n].result_type(OPS[n].arg_types(u)) is t for u in OPS[n].types)]  # fmt: skip
        if self.chance(0.3):
            return self.let(ir.Op(f"to_{t.name}", (self.atom(self.some(PRIMS)),)))
        name = self.some(choices or UNARY[t.kind])
        u = self.some([u for u in OPS[name].types if OPS[name].result_type(OPS[name].arg_types(u)) is t])
        self.depth += 1
        args = [self.atom(a) for a in OPS[name].arg_types(u)]
        self.depth -= 1
        return self.op(name, *args)

    def prims(self, name: str) -> list[Prim]:
        return [t for t in PRIMS if t in OPS[name].types]

    def size(self) -> Atom:
        return self.some([*self.sizes, *self.sizes, i64(2), i64(3), ONE, ZERO])

    def type(self, most: int = 2) -> Type:
        return array_of(self.some(PRIMS[:5]), *[self.size() for _ in range(self.rng.randrange(most + 1))])

    def array(self, t: ArrayType) -> Var:
        """An array by one of the constructs that make some."""
        row = row_type(t)
        n = t.shape[0]
        made: list[Callable[[], ir.Exp | None]] = [
            lambda: ir.Iota(n, *self.some([(ZERO, ONE), (ZERO, ONE), (self.atom(I64), self.atom(I64))]))
            if t.elem is I64 and t.rank == 1 else None,
            lambda: ir.Replicate(t.shape, self.atom(t.elem)),
            lambda: ir.Replicate((n,), self.atom(row)),
            lambda: ir.ArrayLit(tuple([self.atom(row) for _ in range(n.value)]), row)
            if isinstance(n, Const) and n.value < 4 else None,
            lambda: ir.Copy(self.atom(t)),
            lambda: ir.Rearrange(self.atom(ArrayType(t.elem, t.shape[::-1])), tuple(range(t.rank))[::-1]),
            lambda: self.updated(t),
            lambda: ir.At(self.atom(array_of(t.elem, *t.shape, i64(2))),
                          (*[Range(ZERO, k, ONE) for k in t.shape], ONE), SPAN),
            lambda: ir.Map(n, (a := self.atom(array_of(t.elem, n)),), self.elementwise(row_type(a.type), row)),
            lambda: ir.Reshape(self.atom(ArrayType(t.elem, (i64(6),))), t.shape) if _consts(t) == 6 else None,
            lambda: ir.Reshape(self.atom(ArrayType(t.elem, (i64(3), i64(2)))), t.shape) if _consts(t) == 6 else None,
        ]  # fmt: skip
        self.depth += 1
        e = self.some(made)() if self.depth < 4 and self.chance(0.75) else None
        self.depth -= 1
        return self.input(t) if e is None else self.let(e, "a")

    def elementwise(self, t: Type, result: Type) -> ir.Lambda:
        return self.scope([t], lambda x: [self.atom(result)])

    def scope(self, types: Sequence[Type], f: Callable[..., Sequence[Atom]]) -> ir.Lambda:
        """A scope with parameters of these types."""
        params = tuple([Var("p", t) for t in types])
        outer, known = self.b, list(self.pool)
        self.b = Builder()
        self.pool += params
        self.depth += 1
        result = tuple(f(*params))
        lam = ir.Lambda(params, tuple(self.b.stms), result)
        self.b = outer
        self.pool = known + [v for v in self.pool if v in self.inputs and v not in known]
        self.depth -= 1
        return lam

    def place(self, n: Atom) -> Any:
        """An index or a range of a dimension."""
        if self.chance(0.25):
            whole, backwards = Range(ZERO, n, ONE), Range(self.op("sub", n, ONE), n, i64(-1))
            part = Range(ZERO, ONE, ONE), Range(ONE, ONE, i64(-1)), Range(self.atom(I64), ONE, i64(2))
            return self.some([whole, whole, backwards, *part])
        if self.chance(0.3):
            return self.some([ZERO, ONE, i64(2)])
        return self.op("mod", self.atom(I64), n) if self.chance(0.4) else self.atom(I64)

    def check(self) -> Span | None:
        return SPAN if self.checked or self.chance(0.4) else None

    def indexed(self, t: ArrayType) -> tuple[Any, ...]:
        return tuple([self.place(n) for n in t.shape[: self.rng.randint(1, t.rank)]])

    def updated(self, t: ArrayType) -> ir.Exp:
        index = self.indexed(t)
        kept = [i.count for i in index if isinstance(i, Range)] + list(t.shape[len(index) :])
        a = self.let(ir.Copy(self.atom(t))) if self.chance(0.6) else self.atom(t)
        same = self.chance(0.3)
        value: Atom = self.let(ir.At(a, index, self.check())) if same else self.atom(array_of(t.elem, *kept))
        return ir.Update(a, index, value, self.check())


def _consts(t: ArrayType) -> int:
    """The number of elements, if that is known; else 0."""
    out = 1
    for n in t.shape:
        out *= n.value if isinstance(n, Const) else 0
    return out


__all__ = ["PRIMS", "SPAN", "Parts"]
