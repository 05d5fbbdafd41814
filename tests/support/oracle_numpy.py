"""The functions of futad.numpy of numbers, each with its oracle."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import mpmath as mp

import futad
import futad.numpy as fnp
from tests.support.oracle import Case, Expected, Point

INF, NAN = math.inf, math.nan
LN2 = math.log(2)


def traced(f: Callable[..., Any], name: str, arity: int, t: str) -> str:
    """The definition that tracing makes of f."""

    def made(**arguments: Any) -> Any:
        return f(*arguments.values())

    names = [f"x{i}" for i in range(arity)]
    scope: dict[str, Any] = {"f": f}
    exec(f"def {name}({', '.join(names)}): return f({', '.join(names)})", scope)
    scope[name].__annotations__ = dict.fromkeys(names, getattr(fnp, t))
    return re.sub(r"^entry ", "def ", futad.function(scope[name]).source(), flags=re.M)


UNARY = [-3.5, -0.7, -1e-9, 1e-9, 0.3, 1.0, 2.5, 20.0]
POSITIVE = [1e-300, 1e-30, 1e-9, 0.3, 1.0, 2.5, 1e9, 1e300]
BIG = [-1e300, -1e20, -300.0, 300.0, 1e20, 1e300]
INSIDE = [-1 + 1e-12, -0.5, -1e-9, 0.0, 1e-9, 0.5, 1 - 1e-12]


def of(xs: list[float]) -> list[Point]:
    return [(x,) for x in xs]


def no(value: float, first: float | None, second: float | None = None) -> Expected:
    return value, [first], [[second]]


TABLE: dict[str, tuple[Any, list[Point], dict[Point, Expected]]] = {
    "exp": (mp.exp, of([*UNARY, 0.0, -800.0, 700.0]), {(-INF,): no(0, 0, 0), (INF,): no(INF, INF, INF)}),
    "exp2": (lambda x: mp.mpf(2) ** x, of([*UNARY, 0.0, -1100.0]), {(-INF,): no(0, 0, 0), (INF,): no(INF, INF, INF)}),
    "expm1": (mp.expm1, of([*UNARY, 0.0, -40.0, -700.0, 1e-300]), {(-INF,): no(-1, 0, 0), (INF,): no(INF, INF, INF)}),
    "log": (mp.log, of([*POSITIVE, 5e-324]), {(INF,): no(INF, 0, 0), (0.0,): no(-INF, INF, -INF)}),
    "log2": (lambda x: mp.log(x, 2), of(POSITIVE), {(INF,): no(INF, 0, 0), (0.0,): no(-INF, INF, -INF)}),
    "log10": (mp.log10, of(POSITIVE), {(INF,): no(INF, 0, 0), (0.0,): no(-INF, INF, -INF)}),
    "log1p": (mp.log1p, of([*POSITIVE, -0.5, 0.0, -1e-300]), {(INF,): no(INF, 0, 0), (-1.0,): no(-INF, INF, -INF)}),
    "sqrt": (mp.sqrt, of(POSITIVE), {(INF,): no(INF, 0, 0), (0.0,): no(0, INF, -INF)}),
    "cbrt": (
        lambda x: mp.sign(x) * mp.cbrt(abs(x)),
        of([*POSITIVE, -2.5, -1e300]),
        {(INF,): no(INF, 0, 0), (0.0,): no(0, INF)},
    ),
    "sin": (mp.sin, of([*UNARY, 0.0, math.pi, 1e5]), {}),
    "cos": (mp.cos, of([*UNARY, 0.0, math.pi / 2, 1e5]), {}),
    "tan": (mp.tan, of([*UNARY, 0.0, math.pi / 2, 1e5]), {}),
    "arcsin": (mp.asin, of(INSIDE), {(1.0,): no(math.pi / 2, INF, INF), (-1.0,): no(-math.pi / 2, INF, -INF)}),
    "arccos": (mp.acos, of(INSIDE), {(1.0,): no(0, -INF, -INF), (-1.0,): no(math.pi, -INF, INF)}),
    "arctan": (mp.atan, of([*UNARY, *BIG, 0.0]), {(INF,): no(math.pi / 2, 0, 0), (-INF,): no(-math.pi / 2, 0, 0)}),
    "sinh": (mp.sinh, of([*UNARY, 0.0, 1e-300, 700.0]), {(INF,): no(INF, INF, INF), (-INF,): no(-INF, INF, -INF)}),
    "cosh": (mp.cosh, of([*UNARY, 0.0, 1e-300, 700.0]), {(INF,): no(INF, INF, INF), (-INF,): no(INF, -INF, INF)}),
    "tanh": (mp.tanh, of([*UNARY, 0.0, -30.0, -9.0, 40.0, 1e-300]), {(INF,): no(1, 0, 0), (-INF,): no(-1, 0, 0)}),
    "arcsinh": (mp.asinh, of([*UNARY, *BIG, 0.0]), {(INF,): no(INF, 0, 0), (-INF,): no(-INF, 0, 0)}),
    "arccosh": (mp.acosh, of([1 + 1e-9, 1.5, 20.0, 1e20, 1e300]), {(INF,): no(INF, 0, 0), (1.0,): no(0, INF, -INF)}),
    "arctanh": (mp.atanh, of(INSIDE), {(1.0,): no(INF, INF, INF), (-1.0,): no(-INF, INF, -INF)}),
    "gammaln": (
        lambda x: mp.log(abs(mp.gamma(x))) if x < 100 else mp.loggamma(x),
        of([-3.5, -0.7, 1e-9, 0.3, 1.0, 2.0, 2.5, 20.0, 1e9, 1e300]),
        {(INF,): no(INF, INF, 0)},
    ),
    "erf": (mp.erf, of([*UNARY, 0.0, 5.5, 1e-300]), {(INF,): no(1, 0, 0), (-INF,): no(-1, 0, 0)}),
    "erfc": (mp.erfc, of([*UNARY, 0.0, 5.5, 1e-300]), {(INF,): no(0, 0, 0), (-INF,): no(2, 0, 0)}),
    "digamma": (lambda x: mp.psi(0, x), of([-3.5, -0.7, 1e-9, 0.3, 1.0, 2.5, 20.0, 1e9]), {(INF,): no(INF, 0, 0)}),
    "square": (lambda x: x * x, of([*UNARY, 0.0, 1e100]), {(INF,): no(INF, INF, 2), (-INF,): no(INF, -INF, 2)}),
    "reciprocal": (lambda x: 1 / x, of([*UNARY, 1e100, 1e-100]), {(INF,): no(0, 0, 0), (0.0,): no(INF, -INF, INF)}),
    "negative": (lambda x: -x, of([*UNARY, 0.0]), {(INF,): no(-INF, -1, 0)}),
    "absolute": (abs, of([*UNARY, *BIG]), {(0.0,): no(0, 0, 0), (-INF,): no(INF, -1, 0)}),
    "sign": (mp.sign, of([*UNARY, *BIG]), {(0.0,): no(0, 0, 0)}),
    "floor": (mp.floor, of(UNARY[:5] + [2.5]), {(2.0,): no(2, 0, 0)}),
    "ceil": (mp.ceil, of(UNARY[:5] + [2.5]), {(2.0,): no(2, 0, 0)}),
    "rint": (mp.nint, of([-3.3, -0.7, 1e-9, 0.3, 2.7]), {(2.5,): no(2, 0, 0)}),
    "trunc": (lambda x: mp.floor(abs(x)) * mp.sign(x), of(UNARY[:5] + [2.5]), {(2.0,): no(2, 0, 0)}),
}
PAIRS: list[Point] = [(0.5, 2.0), (-3.0, 1.5), (4.0, -0.25), (-1e-9, -2.0), (1e100, 1e99), (1e-100, 3e-100)]
ZERO = [[0, 0], [0, 0]]


def two(value: float, first: list[float | None], second: Any = None) -> Expected:
    return value, first, second


def _logaddexp(x: Any, y: Any) -> Any:
    return max(x, y) + mp.log1p(mp.exp(-abs(x - y)))


TIE = [[0.25, -0.25], [-0.25, 0.25]]
TABLE2: dict[str, tuple[Any, list[Point], dict[Point, Expected]]] = {
    "logaddexp": (
        lambda x, y: mp.log(mp.exp(x) + mp.exp(y)) if max(abs(x), abs(y)) < 50 else _logaddexp(x, y),
        [*PAIRS[:4], (0.3, 0.3), (-2.0, -2.0), (0.0, 0.0), (-0.0, 0.0), (700.0, 690.0), (-800.0, -799.0), (1e9, -1e9)],
        {
            (1000.0, 1000.0): two(1000 + LN2, [0.5, 0.5], TIE),
            (-1e300, -1e300): two(-1e300, [0.5, 0.5], TIE),
            (INF, 1.0): two(INF, [1, 0], ZERO),
            (1.0, INF): two(INF, [0, 1], ZERO),
            (-INF, 1.0): two(1, [0, 1], ZERO),
            (1.0, -INF): two(1, [1, 0], ZERO),
            (INF, -INF): two(INF, [1, 0], ZERO),
            (-INF, -INF): two(-INF, [None, None], None),
            (INF, INF): two(INF, [None, None], None),
        },
    ),
    "add": (lambda x, y: x + y, PAIRS, {}),
    "subtract": (lambda x, y: x - y, PAIRS, {}),
    "multiply": (lambda x, y: x * y, [*PAIRS, (0.0, 3.0), (0.0, 0.0)], {}),
    "divide": (lambda x, y: x / y, [*PAIRS, (0.0, 3.0), (1e-200, 1e200)], {(1.0, INF): two(0, [0, 0], ZERO)}),
    "power": (
        lambda x, y: x**y,
        [(0.5, 2.0), (3.0, -1.5), (1.0, 5.0), (1.0, 0.0), (2.0, 0.0), (1e-200, 0.5), (7.0, 1.0)],
        {
            (0.0, 2.0): two(0, [0, 0], [[2, None], [None, None]]),
            (0.0, 1.0): two(0, [1, 0], [[0, None], [None, None]]),
            (0.0, 0.0): two(1, [0, None], [[0, None], [None, None]]),
            (0.0, 3.0): two(0, [0, 0], [[0, 0], [0, 0]]),
            (-2.0, 3.0): two(-8, [12, None], [[-12, None], [None, None]]),
            (0.0, 0.5): two(0, [INF, 0]),
        },
    ),
    "arctan2": (
        mp.atan2,
        [*PAIRS, (1e200, 1e200), (3.0, -0.0), (-3.0, 0.0), (0.0, 1.0), (-0.0, 1.0)],
        {},
    ),
    "hypot": (
        mp.hypot,
        [*PAIRS, (1e200, 1e200), (1e-200, 1e-200), (3.0, 0.0), (0.0, -3.0)],
        {(INF, 1.0): two(INF, [1, 0], ZERO), (0.0, 0.0): two(0, [0, 0])},
    ),
    "maximum": (max, PAIRS, {(2.0, 2.0): two(2, [1, 0], ZERO), (INF, 2.0): two(INF, [1, 0], ZERO)}),
    "minimum": (min, PAIRS, {(2.0, 2.0): two(2, [1, 0], ZERO), (INF, 2.0): two(2, [0, 1], ZERO)}),
    "remainder": (
        lambda x, y: x - y * mp.floor(x / y),
        [(7.3, 2.0), (-7.3, 2.0), (7.3, -2.0), (0.3, 5.0)],
        {(6.0, 2.0): two(0, [1, -3], ZERO)},
    ),
    "floor_divide": (lambda x, y: mp.floor(x / y), [(7.3, 2.0), (-7.3, 2.0), (7.3, -2.0), (0.3, 5.0)], {}),
    "copysign": (lambda x, y: abs(x) * (1 if y >= 0 else -1), PAIRS, {(3.0, -0.0): two(-3, [-1, 0], ZERO)}),
    "clip": (lambda x, y: max(x, y), PAIRS, {}),
}


def cases() -> list[Case]:
    return [Case(f"numpy.{n}", f"np_{n}_@", f, ps, at) for n, (f, ps, at) in {**TABLE, **TABLE2}.items()]


def head(names: Sequence[str], types: Sequence[str]) -> list[str]:
    """The definitions that tracing makes of the functions of the table among these."""
    by_name = {c.name.split(".")[1]: c for c in CASES}
    return [
        traced(getattr(fnp, n), f"np_{n}_{t}", by_name[n].arity, t)
        for n in dict.fromkeys(names)
        if n in by_name
        for t in types
    ]


CASES = cases()
