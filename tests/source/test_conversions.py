"""Floats to integers: truncated, wrapped around, 0 for what is not finite; the same everywhere, constants included."""

from __future__ import annotations

import math
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest

import futad

INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
DTYPES = {"f16": "f2", "f32": "f4", "f64": "f8"}
NEAR = [2.0**k + d for k in (7, 8, 16, 31, 32, 63, 64) for d in (-1.0, 0.0, 0.5)]
VALUES = [math.nan, math.inf, 0.25, 3.5, 1e5, 3e9, 1.7e19, 1e30, 1e300, *NEAR]
VALUES = [*VALUES, *[-x for x in VALUES]]


def values(f: str) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.array(VALUES).astype(DTYPES[f])


def wrapped(x: float, t: str) -> int:
    """The integer that Python's arithmetic gives."""
    n = int(t[1:])
    k = int(x) % 2**n if math.isfinite(x) else 0
    return k - 2**n if t[0] == "i" and k >= 2 ** (n - 1) else k


def literal(x: float, f: str) -> str:
    text = f"{f}.nan" if math.isnan(x) else f"{f}.inf" if math.isinf(x) else f"{abs(x)!r}{f}"
    return f"(-{text})" if x < 0 else text


PAIRS = [(t, f) for t in INTEGERS for f in DTYPES]
ARRAYS = "".join(f"entry {t}_{f} (xs: []{f}) = map {t}.{f} xs\n" for t, f in PAIRS)
CONSTANTS = "".join(
    f"entry {t}_{f} = [{', '.join(f'{t}.{f} {literal(float(x), f)}' for x in values(f))}]\n" for t, f in PAIRS
)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["interp", "c", "emulated"])
def test_arrays(backend: str) -> None:
    program = futad.compile(ARRAYS, backend=backend)
    for t, f in PAIRS:
        want = [wrapped(float(x), t) for x in values(f)]
        assert program[f"{t}_{f}"](values(f)).tolist() == want, (t, f)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["interp", "c"])
@pytest.mark.filterwarnings("error")
def test_constants(backend: str) -> None:
    program = futad.compile(CONSTANTS, backend=backend)
    for t, f in PAIRS:
        assert program[f"{t}_{f}"]().tolist() == [wrapped(float(x), t) for x in values(f)], (t, f)


@pytest.mark.slow
def test_nothing_is_said_on_standard_error() -> None:
    text = "[i32.f64 f64.nan, i32.f64 1e300, i32.f32 (-f32.inf), i32.i64 (i64.f64 1e19), i32.u8 (u8.f64 (-1))]"
    command = [sys.executable, "-m", "futad", "run", "-x", text]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    wants = [0, wrapped(1e300, "i32"), 0, np.int64(wrapped(1e19, "i64")).astype("i4"), 255]
    assert (run.stdout, run.stderr) == (f"[{', '.join(f'{w}i32' for w in wants)}]\n", "")


EXPONENTS = (2, -4, 0, 24, -24, 140, -149, 200, 1025, -1074, -2000, 2100, 5000, 2**31 - 1, -(2**31))
LDEXP = "".join(
    f"""
entry {t} (x: {t}) (n: i32) = {t}.ldexp x n
entry {t}_map (xs: []{t}) (ns: []i32) = map2 {t}.ldexp xs ns
entry {t}_rev (xs: []{t}) (ns: []i32) = vjp (uncurry (map2 {t}.ldexp)) (xs, ns) (map (const 1) xs)
entry {t}_fwd (xs: []{t}) (ns: []i32) = jvp (uncurry (map2 {t}.ldexp)) (xs, ns) (map (const 1) xs, map (const 1) ns)
"""
    for t in DTYPES
)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["interp", "c", "emulated"])
def test_ldexp(backend: str) -> None:
    """Rounded once, also where 2^n alone leaves the type; the exponent, an integer, has no derivative."""
    program = futad.compile(LDEXP, backend=backend)
    for t, dtype in DTYPES.items():
        tiny, most = np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max
        xs = np.array([0.0, -0.0, 1.5, 3, 0.75, 1e-4, tiny, most, math.inf, math.nan], dtype)
        xs, ns = (a.ravel() for a in np.meshgrid(xs, np.array(EXPONENTS, np.int32)))
        # f64 has room for the others' exponents; Python's own multiplication for f64.
        with np.errstate(all="ignore"):
            want = np.array([_ldexp(float(x), int(n)) for x, n in zip(xs, ns, strict=True)]).astype(dtype)
            one = np.array([_ldexp(1.0, int(n)) for n in ns]).astype(dtype)
        np.testing.assert_array_equal(program[f"{t}_map"](xs, ns), want)
        for k in range(0, len(xs), 7):
            np.testing.assert_array_equal(program[t](xs[k], ns[k]), want[k])
        adjoints = program[f"{t}_rev"](xs, ns)
        np.testing.assert_array_equal(adjoints[0], one)
        np.testing.assert_array_equal(program[f"{t}_fwd"](xs, ns), one)
        assert not adjoints[1].any()


def _ldexp(x: float, n: int) -> float:
    """x 2^n by exact arithmetic, rounded once (for f32 and f16 twice, where the first rounding does not show)."""
    if not math.isfinite(x) or x == 0:
        return x
    try:
        return float(Fraction(x) * Fraction(2) ** max(-5000, min(n, 5000)))
    except OverflowError:
        return math.copysign(math.inf, x)
