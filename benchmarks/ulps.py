"""How far the scalar functions are from the truth, in units of the last place.

    python benchmarks/ulps.py [--points N] [--only NAME...] [--limit ULPS]

A map of each function with vector variants is compiled for `c` and called on N points of each of its intervals, and on
points with random bits.  The largest errors are looked for by NumPy's long doubles, where these have the function, and
those found are computed again by mpmath in 40 digits; other functions are compared with mpmath at fewer points.  Needs
mpmath.  Exit status 1 if an error is above the limit (by default 4).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import mpmath
import numpy as np

import futad
from futad.core.scalarops import OPS, ScalarOp
from futad.core.types import prim

Array = np.ndarray[Any, Any]

EXPONENTS = (-100.0, 88.0), (-709.0, 709.0), (-1.0, 1.0)
ANGLES = (-10.0, 10.0), (-4e6, 4e6), (-1e15, 1e15)
POSITIVE = (0.0, 4.0), (0.9, 1.1), (0.0, 1e10)
# Where the arguments lie, both of two.
INTERVALS: dict[str, tuple[tuple[float, float], ...]] = {
    **dict.fromkeys(("exp", "exp2", "exp10", "expm1", "sinh", "cosh", "tanh"), EXPONENTS),
    **dict.fromkeys(("sin", "cos", "tan"), ANGLES),
    **dict.fromkeys(("log", "log2", "log10"), POSITIVE),
    "log1p": ((-0.99, 3.0), (-0.01, 0.01), (0.0, 1e10)),
    "acosh": ((1.0, 3.0), (1.0, 1e8)),
    **dict.fromkeys(("asin", "acos", "atanh"), ((-1.0, 1.0),)),
    "pow": ((0.0, 4.0), (0.5, 1.5)),
}
ORACLES: dict[str, Callable[..., Any]] = {
    "pow": mpmath.power,
    "exp2": lambda x: mpmath.power(2, x),
    "exp10": lambda x: mpmath.power(10, x),
    "log2": lambda x: mpmath.log(x, 2),
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
}
LONG = {"pow": "power", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh",
        "atanh": "arctanh", "atan2": "arctan2"}  # fmt: skip
CONFIRMED = 30  # points of the largest errors, computed again


def ulps(got: Array, want: Array, dtype: Any) -> Array:
    """Errors in units of the last place of `want` (long doubles) at `dtype`; 0 where both are not finite in one way."""
    info = np.finfo(dtype)
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(want), np.longdouble(info.tiny))
        unit = np.exp2(np.floor(np.log2(size)) - info.nmant)
        error = np.abs(got.astype(np.longdouble) - want) / unit
        rounded = want.astype(dtype)
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    return np.where(same & ~np.isfinite(rounded), 0, np.where(np.isnan(error), np.inf, error)).astype(np.float64)


def points(op: ScalarOp, dtype: Any, n: int, rng: np.random.Generator) -> list[tuple[Array, ...]]:
    """The arguments, one array each, by interval; last those with random bits."""
    bits = np.uint64 if dtype == np.float64 else np.uint32
    found = []
    for a, b in INTERVALS.get(op.name, ((-10.0, 10.0), (-1e3, 1e3))):
        found.append(tuple(rng.uniform(a, b, n).astype(dtype) for _ in range(op.arity)))
    random = rng.integers(0, np.iinfo(bits).max, (op.arity, n // 4), dtype=bits, endpoint=True).view(dtype)
    return [*found, tuple(random)]


def oracle(op: ScalarOp) -> Callable[..., Any]:
    return ORACLES.get(op.name) or getattr(mpmath, op.name)


def exact(op: ScalarOp, args: tuple[Any, ...]) -> np.longdouble:
    """The value by mpmath as a long double; NaN where it is complex or undefined, or the argument beyond mpmath."""
    try:
        value = oracle(op)(*[mpmath.mpf(float(x)) for x in args])
    except (ValueError, ZeroDivisionError, OverflowError, NotImplementedError):
        return np.longdouble("nan")
    if not isinstance(value, mpmath.mpf):
        return np.longdouble("nan")
    high = float(value)  # the two halves of 106 bits, or infinity
    return np.longdouble(high) + (np.longdouble(float(value - high)) if np.isfinite(high) else 0)


def worst(op: ScalarOp, dtype: Any, entry: Any, n: int, rng: np.random.Generator) -> tuple[float, tuple[float, ...]]:
    """The largest error at type `dtype`, and where."""
    long = getattr(np, LONG.get(op.name, op.name), None)
    largest, place = 0.0, (0.0,) * op.arity
    for args in points(op, dtype, n if long is not None else min(n, 2000), rng):
        args = tuple(np.ascontiguousarray(x) for x in args)
        got = entry(*args)
        with np.errstate(all="ignore"):
            first = ulps(got, long(*[x.astype(np.longdouble) for x in args]), dtype) if long is not None else None
        chosen = np.arange(len(got)) if first is None else np.argsort(first)[-CONFIRMED:]
        for k in chosen:
            at = tuple(float(x[k]) for x in args)
            if not np.isfinite(at).all():
                continue
            value = exact(op, at)
            error = 0.0 if np.isnan(value) else float(ulps(got[k : k + 1], np.array([value]), dtype)[0])
            if error > largest:
                largest, place = error, at
    return largest, place


class Row(NamedTuple):
    """A function's largest errors at both types, and where."""

    name: str
    error64: float
    at64: tuple[float, ...]
    error32: float
    at32: tuple[float, ...]


def table(ops: Sequence[ScalarOp], points: int) -> Iterator[Row]:
    """The rows of the operations, as they are found."""
    mpmath.mp.dps = 40
    entries = []
    for op in ops:
        for t in ("f64", "f32"):
            name, _ = op.names(prim(t))[0]
            xs = "xyz"[: op.arity]
            call = f"{t}.({name})" if not name.isidentifier() else f"{t}.{name}"
            params = " ".join(f"({x}: [n]{t})" for x in xs)
            map_ = "map" if op.arity == 1 else f"map{op.arity}"
            entries.append(f"entry {op.name}_{t} [n] {params}: [n]{t} = {map_} ({call}) {' '.join(xs)}")
    program = futad.compile("\n".join(entries), backend="c", name="ulps")
    for op in ops:
        found: list[Any] = [op.name]
        for t, dtype in (("f64", np.float64), ("f32", np.float32)):
            found += worst(op, dtype, getattr(program, f"{op.name}_{t}"), points, np.random.default_rng(1))
        yield Row(*found)


def main() -> int:
    parser = argparse.ArgumentParser(description="errors of the scalar functions, in units of the last place")
    parser.add_argument("--points", type=int, default=400_000)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--limit", type=float, default=4.0)
    options = parser.parse_args()
    ops = [op for op in OPS.values() if op.vector and (not options.only or op.name in options.only)]
    above = 0
    print(f"{'':10}{'f64':>8}  {'at':32}{'f32':>8}  at")
    for row in table(ops, options.points):
        line = f"{row.name:10}"
        for error, at in ((row.error64, row.at64), (row.error32, row.at32)):
            above += error > options.limit
            line += f"{error:8.2f}  {', '.join(f'{x:.10g}' for x in at):32}"
        print(line.rstrip(), flush=True)
    if above:
        print(f"{above} above {options.limit:g}", file=sys.stderr)
    return int(above > 0)


if __name__ == "__main__":
    raise SystemExit(main())
