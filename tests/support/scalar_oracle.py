"""Scalar functions and their first and second derivatives by mpmath at 60 digits, and where they are asked.

No formula is shared with `core/scalarops.py`: derivatives are closed forms in mpmath's functions, which a test compares
with differences; what they are at infinities, branch points and kinks is written down in `SPECIAL` and `PAIRS`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
from mpmath import mp, mpf

from futad.core.types import Prim

DIGITS = 60
INF, NAN = math.inf, math.nan
Wanted = tuple[Any, Any, Any]


def _polygamma(n: int) -> Callable[[Any], Any]:
    return lambda x: mpmath.polygamma(n, x)


def _floored(x: Any, y: Any) -> Any:
    return x - y * mpmath.floor(x / y)


UNARY: dict[str, Callable[[Any], Any]] = {
    "abs": abs, "neg": lambda x: -x, "sgn": mpmath.sign, "floor": mpmath.floor, "ceil": mpmath.ceil,
    "round": mpmath.nint, "trunc": lambda x: mpmath.sign(x) * mpmath.floor(abs(x)), "sqrt": mpmath.sqrt,
    "rsqrt": lambda x: 1 / mpmath.sqrt(x), "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), "exp": mpmath.exp,
    "exp2": lambda x: mpf(2) ** x, "exp10": lambda x: mpf(10) ** x, "expm1": mpmath.expm1, "log": mpmath.log,
    "log2": lambda x: mpmath.log(x) / mpmath.log(2), "log10": mpmath.log10, "log1p": mpmath.log1p, "sin": mpmath.sin,
    "cos": mpmath.cos, "tan": mpmath.tan, "asin": mpmath.asin, "acos": mpmath.acos, "atan": mpmath.atan,
    "sinh": mpmath.sinh, "cosh": mpmath.cosh, "tanh": mpmath.tanh, "asinh": mpmath.asinh, "acosh": mpmath.acosh,
    "atanh": mpmath.atanh, "sinpi": mpmath.sinpi, "cospi": mpmath.cospi,
    "tanpi": lambda x: mpmath.sinpi(x) / mpmath.cospi(x), "asinpi": lambda x: mpmath.asin(x) / mp.pi,
    "acospi": lambda x: mpmath.acos(x) / mp.pi, "atanpi": lambda x: mpmath.atan(x) / mp.pi, "gamma": mpmath.gamma,
    "lgamma": lambda x: mpmath.log(abs(mpmath.gamma(x))) if x < 0 else mpmath.loggamma(x),
    "digamma": mpmath.digamma, "trigamma": _polygamma(1), "erf": mpmath.erf,
    "erfc": lambda x: mpmath.erfc(x) if x < 1e9 else mpf(0),
    "recip": lambda x: 1 / x,
}  # fmt: skip
# Closed forms of the derivatives: next to the ends of a type differences see nothing.
SLOPES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "sqrt": (lambda x: x ** mpf(-0.5) / 2, lambda x: -(x ** mpf(-1.5)) / 4),
    "rsqrt": (lambda x: -(x ** mpf(-1.5)) / 2, lambda x: mpf(0.75) * x ** mpf(-2.5)),
    "cbrt": (lambda x: abs(x) ** (mpf(-2) / 3) / 3, lambda x: -2 * mpmath.sign(x) * abs(x) ** (mpf(-5) / 3) / 9),
    "log": (lambda x: 1 / x, lambda x: -1 / x**2),
    "log2": (lambda x: 1 / x / mpmath.log(2), lambda x: -1 / x**2 / mpmath.log(2)),
    "log10": (lambda x: 1 / x / mpmath.log(10), lambda x: -1 / x**2 / mpmath.log(10)),
    "log1p": (lambda x: 1 / (1 + x), lambda x: -1 / (1 + x) ** 2),
    "recip": (lambda x: -1 / x**2, lambda x: 2 / x**3),
    "asin": (lambda x: (1 - x * x) ** mpf(-0.5), lambda x: x * (1 - x * x) ** mpf(-1.5)),
    "acos": (lambda x: -((1 - x * x) ** mpf(-0.5)), lambda x: -x * (1 - x * x) ** mpf(-1.5)),
    "atan": (lambda x: 1 / (1 + x * x), lambda x: -2 * x / (1 + x * x) ** 2),
    "asinh": (lambda x: (1 + x * x) ** mpf(-0.5), lambda x: -x * (1 + x * x) ** mpf(-1.5)),
    "acosh": (lambda x: (x * x - 1) ** mpf(-0.5), lambda x: -x * (x * x - 1) ** mpf(-1.5)),
    "atanh": (lambda x: 1 / (1 - x * x), lambda x: 2 * x / (1 - x * x) ** 2),
    "tanh": (lambda x: mpmath.sech(x) ** 2, lambda x: -2 * mpmath.tanh(x) * mpmath.sech(x) ** 2),
    "sinpi": (lambda x: mp.pi * mpmath.cospi(x), lambda x: -(mp.pi**2) * mpmath.sinpi(x)),
    "cospi": (lambda x: -mp.pi * mpmath.sinpi(x), lambda x: -(mp.pi**2) * mpmath.cospi(x)),
    "tanpi": (lambda x: mp.pi / mpmath.cospi(x) ** 2, lambda x: 2 * mp.pi**2 * mpmath.sinpi(x) / mpmath.cospi(x) ** 3),
    "tan": (lambda x: mpmath.sec(x) ** 2, lambda x: 2 * mpmath.tan(x) * mpmath.sec(x) ** 2),
    "sin": (mpmath.cos, lambda x: -mpmath.sin(x)),
    "cos": (lambda x: -mpmath.sin(x), lambda x: -mpmath.cos(x)),
    "exp": (mpmath.exp, mpmath.exp),
    "exp2": (lambda x: mpf(2) ** x * mpmath.log(2), lambda x: mpf(2) ** x * mpmath.log(2) ** 2),
    "exp10": (lambda x: mpf(10) ** x * mpmath.log(10), lambda x: mpf(10) ** x * mpmath.log(10) ** 2),
    "expm1": (mpmath.exp, mpmath.exp),
    "sinh": (mpmath.cosh, mpmath.sinh),
    "cosh": (mpmath.sinh, mpmath.cosh),
    "erf": (lambda x: 2 * mpmath.exp(-x * x) / mpmath.sqrt(mp.pi),
            lambda x: -4 * x * mpmath.exp(-x * x) / mpmath.sqrt(mp.pi)),
    "erfc": (lambda x: -2 * mpmath.exp(-x * x) / mpmath.sqrt(mp.pi),
             lambda x: 4 * x * mpmath.exp(-x * x) / mpmath.sqrt(mp.pi)),
    "gamma": (lambda x: mpmath.gamma(x) * mpmath.psi(0, x),
              lambda x: mpmath.gamma(x) * (mpmath.psi(0, x) ** 2 + mpmath.psi(1, x))),
    "lgamma": (mpmath.digamma, _polygamma(1)),
    "digamma": (_polygamma(1), _polygamma(2)),
    "trigamma": (_polygamma(2), _polygamma(3)),
}  # fmt: skip
for _name in ("asin", "acos", "atan"):
    SLOPES[f"{_name}pi"] = tuple([lambda x, f=f: f(x) / mp.pi for f in SLOPES[_name]])
_STEPS = ("sgn", "floor", "ceil", "round", "trunc")
SLOPES |= {name: (lambda x: mpf(0), lambda x: mpf(0)) for name in _STEPS}
SLOPES |= {"neg": (lambda x: mpf(-1), lambda x: mpf(0)), "abs": (mpmath.sign, lambda x: mpf(0))}

# function: {argument: (value, derivative, second derivative)}; None: no number is promised.
SPECIAL: dict[str, dict[str, Wanted]] = {
    "abs": {"inf": (INF, 1, 0), "-inf": (INF, -1, 0), "0.0": (0, 0, 0), "-0.0": (0, 0, 0)},
    "neg": {"inf": (-INF, -1, 0), "-inf": (INF, -1, 0)},
    "sgn": {"inf": (1, 0, 0), "-inf": (-1, 0, 0)},
    **{f: {"inf": (INF, 0, 0), "-inf": (-INF, 0, 0)} for f in ("floor", "ceil", "round", "trunc")},
    "sqrt": {"inf": (INF, 0, 0), "0.0": (0, INF, -INF), "-0.0": (0, -INF, None)},  # as 1 / sqrt (-0) is
    "rsqrt": {"inf": (0, 0, 0), "0.0": (INF, -INF, INF), "-0.0": (-INF, None, None)},
    "cbrt": {"inf": (INF, 0, 0), "-inf": (-INF, 0, 0), "0.0": (0, INF, -INF), "-0.0": (0, INF, INF)},
    **{f: {"inf": (INF, INF, INF), "-inf": (0, 0, 0)} for f in ("exp", "exp2", "exp10")},
    "expm1": {"inf": (INF, INF, INF), "-inf": (-1, 0, 0)},
    **{f: {"inf": (INF, 0, 0), "0.0": (-INF, INF, -INF), "-0.0": (-INF, None, None)} for f in ("log", "log2", "log10")},
    "log1p": {"inf": (INF, 0, 0), "-1.0": (-INF, INF, -INF)},
    **{f: {"inf": (NAN, NAN, NAN), "-inf": (NAN, NAN, NAN)} for f in ("sin", "cos", "tan", "sinpi", "cospi", "tanpi")},
    **{f: {"1.0": (v, INF, INF), "-1.0": (-v, INF, -INF)} for f, v in (("asin", math.pi / 2), ("asinpi", 0.5))},
    **{f: {"1.0": (0, -INF, -INF), "-1.0": (v, -INF, INF)} for f, v in (("acos", math.pi), ("acospi", 1))},
    **{f: {"inf": (v, 0, 0), "-inf": (-v, 0, 0)} for f, v in (("atan", math.pi / 2), ("atanpi", 0.5))},
    "sinh": {"inf": (INF, INF, INF), "-inf": (-INF, INF, -INF)},
    "cosh": {"inf": (INF, INF, INF), "-inf": (INF, -INF, INF)},
    **{f: {"inf": (1, 0, 0), "-inf": (-1, 0, 0)} for f in ("tanh", "erf")},
    "erfc": {"inf": (0, 0, 0), "-inf": (2, 0, 0)},
    "asinh": {"inf": (INF, 0, 0), "-inf": (-INF, 0, 0)},
    "acosh": {"inf": (INF, 0, 0), "1.0": (0, INF, -INF)},
    "atanh": {"1.0": (INF, INF, INF), "-1.0": (-INF, INF, -INF)},
    "gamma": {"inf": (INF, INF, None), "-inf": (NAN, NAN, NAN), "0.0": (INF, -INF, INF), "-0.0": (-INF, -INF, -INF)},
    "lgamma": {"inf": (INF, INF, 0), "-inf": (INF, NAN, NAN), "0.0": (INF, -INF, INF), "-0.0": (INF, INF, INF)},
    "digamma": {"inf": (INF, 0, 0), "-inf": (NAN, NAN, NAN), "0.0": (-INF, INF, -INF), "-0.0": (INF, INF, INF)},
    "trigamma": {"inf": (0, 0, 0), "-inf": (NAN, NAN, NAN), "0.0": (INF, -INF, INF), "-0.0": (INF, INF, INF)},
    "recip": {"inf": (0, 0, 0), "-inf": (0, 0, 0), "0.0": (INF, -INF, INF), "-0.0": (-INF, -INF, -INF)},
}
POLES: dict[str, Wanted] = {  # at whole numbers below 0
    "gamma": (NAN, NAN, NAN), "lgamma": (INF, NAN, NAN), "digamma": (NAN, NAN, NAN), "trigamma": (NAN, NAN, NAN),
}  # fmt: skip


def points(t: Prim, few: bool = False) -> Any:
    """Ordinary numbers, and those at which functions go wrong; or a few of them."""
    info = np.finfo(t.dtype)
    ends = [0.0, 1.0, float(info.max), float(info.tiny), INF]
    ordinary = [0.1, 0.25, 0.3, 0.5, 0.75, 0.9, 0.999, 1.001, 1.3, 1.4616, 1.5, 2.0, 2.5, 3.0, 3.7, 5.0, 7.25]
    large = [10.0, 15.5, 18.0, 20.5, 26.5, 30.0, 36.5, 38.0, 90.0, 100.5, 127.5, 200.0, 256.0, 300.0, 700.0, 1000.5]
    wide = [] if t.bits == 16 else [1e8, 1234.75, 1e10, 2.0**24 - 1, 1e-5, 1e-20, 1e19, 2e19, 1e30]
    widest = [] if t.bits < 64 else [1e154, 2e154, 1e200, 1e300, 1e-200]
    if few:
        values = [*ends, 0.75, 2.5, 20.5, 300.0, *widest[:2]]
    else:
        values = [*ends, float(info.eps), float(info.smallest_subnormal), *ordinary, *large, *wide, *widest]
    return np.array([*values, *[-v for v in values], NAN], t.dtype)


@functools.cache
def _at(name: str, x: float, order: int) -> Any:
    """The function, its first or second derivative at a finite number; None at a pole."""
    with mp.workdps(DIGITS):
        try:
            return (UNARY[name] if order == 0 else SLOPES[name][order - 1])(mpf(x))
        except (ValueError, ZeroDivisionError):
            return None


def near(t: Prim, name: str, x: float, order: int) -> list[Any]:
    """What the function or derivative is for arguments that differ from a finite one in their last places."""
    steps = [x * (1 + s * 2 * float(np.finfo(t.dtype).eps)) for s in (-1, 1)] if x and math.isfinite(x) else []
    found = [_at(name, n, order) for n in steps if math.isfinite(n)]
    return [v for v in found if isinstance(v, mpf)]


def wanted(name: str, x: float) -> Wanted:
    """Value, derivative and second derivative at a number; where a function is not defined, a value that is NaN."""
    if math.isnan(x):
        return (None if name == "sgn" else NAN, None, None)
    special = SPECIAL.get(name, {}).get(repr(x))
    if special is not None:
        return special
    with mp.workdps(DIGITS):
        at = mpf(x)
        if name in POLES and at < 0 and at == mpmath.floor(at):
            return POLES[name]
        if name in POLES and at < -300:  # mpmath goes there in steps of 1
            return None, None, None
        if name == "tanpi" and at % 1 == 0.5:
            return ((-1) ** int(mpmath.floor(at) % 2) * INF, INF, None)
    value = _at(name, x, 0) if math.isfinite(x) else NAN
    return (value, _at(name, x, 1), _at(name, x, 2)) if isinstance(value, mpf) else (NAN, None, None)


# Two arguments: value, both derivatives, and the second ones (first and first, first and second, second and second).
Six = tuple[Callable[[Any, Any], Any], ...]
_NONE = [lambda x, y: mpf(0)] * 3
BINARY: dict[str, Six] = {
    "+": (lambda x, y: x + y, lambda x, y: mpf(1), lambda x, y: mpf(1), *_NONE),
    "-": (lambda x, y: x - y, lambda x, y: mpf(1), lambda x, y: mpf(-1), *_NONE),
    "*": (lambda x, y: x * y, lambda x, y: y, lambda x, y: x, _NONE[0], lambda x, y: mpf(1), _NONE[0]),
    "/": (lambda x, y: x / y, lambda x, y: 1 / y, lambda x, y: -x / y**2, _NONE[0], lambda x, y: -1 / y**2,
          lambda x, y: 2 * x / y**3),
    "%": (_floored, lambda x, y: mpf(1), lambda x, y: -mpmath.floor(x / y), *_NONE),
    "**": (lambda x, y: x**y, lambda x, y: y * x ** (y - 1), lambda x, y: x**y * mpmath.log(x),
           lambda x, y: y * (y - 1) * x ** (y - 2), lambda x, y: x ** (y - 1) * (1 + y * mpmath.log(x)),
           lambda x, y: x**y * mpmath.log(x) ** 2),
    "min": (min, lambda x, y: mpf(x <= y), lambda x, y: mpf(x > y), *_NONE),
    "max": (max, lambda x, y: mpf(x >= y), lambda x, y: mpf(x < y), *_NONE),
    "atan2": (mpmath.atan2, lambda y, x: x / (x * x + y * y), lambda y, x: -y / (x * x + y * y),
              lambda y, x: -2 * x * y / (x * x + y * y) ** 2, lambda y, x: (y * y - x * x) / (x * x + y * y) ** 2,
              lambda y, x: 2 * x * y / (x * x + y * y) ** 2),
    "hypot": (mpmath.hypot, lambda x, y: x / mpmath.hypot(x, y), lambda x, y: y / mpmath.hypot(x, y),
              lambda x, y: y * y / mpmath.hypot(x, y) ** 3, lambda x, y: -x * y / mpmath.hypot(x, y) ** 3,
              lambda x, y: x * x / mpmath.hypot(x, y) ** 3),
    "copysign": (lambda x, y: abs(x) * _sign(y), lambda x, y: mpmath.sign(x) * _sign(y), _NONE[0], *_NONE),
}  # fmt: skip
BINARY["mod"] = BINARY["%"]
BINARY["atan2pi"] = tuple([lambda y, x, f=f: f(y, x) / mp.pi for f in BINARY["atan2"]])
# Kinks, branch points and infinities: what the value and the first derivatives are; None: no number is promised.
PAIRS: dict[str, dict[tuple[float, float], Wanted]] = {
    "**": {(0.0, 0.5): (0, INF, 0), (0.0, 1.0): (0, 1, 0), (0.0, 2.0): (0, 0, 0), (0.0, 0.0): (1, 0, 0),
           (2.0, 0.0): (1, 0, math.log(2)), (-2.0, 3.0): (-8, 12, 0), (-2.0, 0.5): (NAN, None, None),
           (INF, 0.5): (INF, 0, INF), (INF, 2.0): (INF, INF, INF), (0.5, INF): (0, None, 0), (1.0, INF): (1, INF, 0)},
    "hypot": {(0.0, 0.0): (0, 0, 0), (INF, 2.0): (INF, 1, 0), (2.0, -INF): (INF, 0, -1), (-INF, 0.0): (INF, -1, 0)},
    "atan2": {(0.0, 0.0): (0, NAN, NAN), (INF, 2.0): (math.pi / 2, 0, 0), (2.0, INF): (0, 0, 0),
              (2.0, -INF): (math.pi, 0, 0), (0.0, -2.0): (math.pi, -0.5, 0)},
    "atan2pi": {(INF, 2.0): (0.5, 0, 0), (2.0, INF): (0, 0, 0), (0.0, -2.0): (1, -0.5 / math.pi, 0)},
    "min": {(1.0, 1.0): (1, 1, 0), (NAN, 1.0): (1, 0, 1), (1.0, NAN): (1, 1, 0), (INF, -INF): (-INF, 0, 1)},
    "max": {(1.0, 1.0): (1, 1, 0), (NAN, 1.0): (1, 0, 1), (1.0, NAN): (1, 1, 0), (INF, -INF): (INF, 1, 0)},
    "/": {(1.0, INF): (0, 0, 0), (INF, 2.0): (INF, 0.5, -INF), (1.0, 0.0): (INF, INF, -INF)},
    "%": {(7.5, 2.5): (0, 1, -3), (-7.5, 2.0): (0.5, 1, 4), (3.0, INF): (3, 1, 0)},
    "copysign": {(0.0, -2.0): (0, 0, 0), (INF, -1.0): (-INF, -1, 0)},
}


def _sign(y: Any) -> int:
    return -1 if y < 0 else 1


def pairs(t: Prim, name: str) -> list[tuple[float, float]]:
    """Arguments of a function of two, in its domain."""
    far = float(np.finfo(t.dtype).max) ** 0.4
    values = [0.1, 0.75, 1.5, 3.25, 40.0, 1 / 64] + [far, 1 / far] * (name in ("hypot", "atan2", "*", "/"))
    both = [float(t.dtype.type(s * v)) for v in values for s in ((1,) if name == "**" else (1, -1))]
    return [(x, y) for x in both for y in both]


def enough(t: Prim, got: float, want: Any, near: list[Any], ulps: float) -> bool:
    """Whether a result is as wanted: within some units in the last place of what the function is for arguments that
    differ in their last places; below the least normal number of f32 and f64 it may be zero."""
    info = np.finfo(t.dtype)
    if isinstance(want, int | float) and not math.isfinite(want):
        return math.isnan(got) if math.isnan(want) else got == want
    if math.isnan(got):
        return False
    with mp.workdps(DIGITS):
        want, most = mpf(want), mpf(float(info.max))
        if math.isinf(got):
            return mpmath.sign(want) == mpmath.sign(got) and abs(want) * (1 + ulps * mpf(float(info.eps))) >= most
        moved = max([abs(n - want) for n in near if mpmath.isfinite(n)], default=mpf(0))
        least = float(info.tiny) if t.bits > 16 else float(info.smallest_subnormal)
        return abs(mpf(got) - want) <= ulps * (abs(want) * mpf(float(info.eps)) + moved + mpf(least))


__all__ = ["BINARY", "DIGITS", "PAIRS", "SLOPES", "UNARY", "enough", "near", "pairs", "points", "wanted"]
