"""The table of the AD tests: a row per construct (`ad_cases_*.py` fill it), and what rows are written with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import F64, Atom, Prim, zero

rng = np.random.default_rng(1)


@dataclass
class Case:
    """A function, arguments, and which checks apply (`smooth`: twice differentiable there)."""

    name: str
    params: Sequence[str]
    args: Sequence[Any]
    f: Callable[..., Sequence[Atom]]
    smooth: bool = True
    once: bool = True


CASES: list[Case] = []


def case(params: Sequence[str], *args: Any, smooth: bool = True, once: bool = True, name: str = "") -> Any:
    def register(f: Callable[..., Sequence[Atom]]) -> Any:
        CASES.append(Case(name or f.__name__, params, args, f, smooth, once))
        return f

    return register


def normal(*shape: int) -> Any:
    return rng.normal(size=shape)


def operator(b: Builder, op: str, t: Prim = F64) -> ir.Lambda:
    return b.lambda_([("a", t), ("b", t)], lambda q, x, y: [q.op(op, x, y)])


def bilinear(b: Builder, c: Atom) -> ir.Lambda:
    """a + b + c a b: associative, with a free variable; its neutral element is 0."""

    def f(q: Builder, x: Atom, y: Atom) -> list[Atom]:
        return [q.op("add", q.op("add", x, y), q.op("mul", c, q.op("mul", x, y)))]

    return b.lambda_([("a", F64), ("b", F64)], f)


def square(q: Builder, x: Atom) -> Atom:
    if isinstance(x.type, Prim):
        return q.op("mul", x, x)
    return q.zip_with(square, x)


def total(q: Builder, x: Atom) -> Atom:
    """The sum of squares of all elements."""
    if isinstance(x.type, Prim):
        return q.op("mul", x, x)
    parts = q.zip_with(total, x)
    return q.emit(ir.Reduce(x.type.shape[0], (parts,), operator(q, "add"), (zero(F64),)))[0]


def total_of(q: Builder, row: Atom) -> Atom:
    return total(q, row)


def product_rows(n: Atom) -> Callable[..., Sequence[Atom]]:
    """The matrix product of n x n matrices as a function of a builder."""

    def f(q: Builder, a: Atom, b: Atom) -> Sequence[Atom]:
        cols = q.let(ir.Rearrange(b, (1, 0)))

        def row(q1: Builder, x: Atom) -> Sequence[Atom]:
            def col(q2: Builder, y: Atom) -> Sequence[Atom]:
                p = q2.zip_with(lambda z, u, v: z.op("mul", u, v), x, y)
                return q2.emit(ir.Reduce(n, (p,), operator(q2, "add"), (zero(F64),)))

            return q1.map_(col, cols)

        return q.map_(row, a)

    return f


BINS = np.array([2, -1, 0, 2, 9, 3, 2])  # some out of range
