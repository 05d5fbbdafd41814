"""Every scalar function of the numeric modules against mpmath: value, first and second derivative, in both modes."""

from __future__ import annotations

import itertools
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mp, mpf

import futad
from futad.core.scalarops import OPS
from futad.core.types import F16, F32, F64, Prim
from tests.support.needs import has_cxx, needs_cc
from tests.support.scalar_oracle import BINARY, DIGITS, PAIRS, SLOPES, UNARY, enough, near, pairs, points, wanted

FLOATS = (F16, F32, F64)
WAYS = {"value": 0, "forward": 1, "reverse": 1, "forward over reverse": 2, "forward over forward": 2,
        "reverse over forward": 2, "reverse over reverse": 2}  # fmt: skip
PAIR_WAYS = {"value": [0], "forward": [1, 2], "reverse": [1, 2], "forward over reverse": [3, 4, 4, 5]}
ULPS = {"digamma": 64, "trigamma": 64, "lgamma": 32, "gamma": 32}  # of the library, or formulas of our own
BACKENDS = [
    "interp", pytest.param("c", marks=needs_cc), pytest.param("multicore", marks=needs_cc),
    pytest.param("emulated", marks=pytest.mark.skipif(not has_cxx(), reason="no C++ compiler")),
]  # fmt: skip
NAMES = {name: f"f{k}" for k, name in enumerate([*UNARY, *BINARY])}


def source(types: tuple[Prim, ...]) -> str:
    """An entry for each function and type: its value, and its derivatives in all ways."""
    out = []
    for t in [p.name for p in types]:
        for name in UNARY:
            out.append(f"""entry {NAMES[name]}_{t} (xs: []{t}) =
  let f (x: {t}) = {t}.{name} x
  let d x = jvp f x 1
  let r x = vjp f x 1
  in transpose (map (\\x -> [f x, d x, r x, jvp r x 1, jvp d x 1, vjp d x 1, vjp r x 1]) xs)""")
        for name in BINARY:
            call = f"{t}.{name} x y" if name.isalnum() else f"x {name} y"
            out.append(f"""entry {NAMES[name]}_{t} (xs: []{t}) (ys: []{t}) =
  let f (x: {t}, y: {t}) = {call}
  let r p = vjp f p 1
  let four p = let (a, b) = jvp r p (1, 0) let (c, d) = jvp r p (0, 1) in (a, b, c, d)
  let all p = let (r1, r2) = r p let (a, b, c, d) = four p
              in [f p, jvp f p (1, 0), jvp f p (0, 1), r1, r2, a, b, c, d]
  in transpose (map2 (\\x y -> all (x, y)) xs ys)""")
    return "\n".join(out)


def test_every_function_is_asked() -> None:
    others = set("!= < <= == > >= isinf isnan ldexp nextafter fma".split())
    for t in FLOATS:
        names = {name for op in OPS.values() for name, _ in op.names(t)}
        assert names <= set(UNARY) | set(BINARY) | others, t
    assert set(SLOPES) == set(UNARY)


def test_the_closed_forms() -> None:
    """Against mpmath's differences at high precision."""
    h = mpf(10) ** -20
    with mp.workdps(DIGITS):
        for name, forms in SLOPES.items():
            for x in (mpf(3) / 8, mpf(19) / 16):
                before, at, after = [UNARY[name](x + k * h) for k in (-1, 0, 1)]
                if isinstance(at, mpf):
                    slopes = (after - before) / (2 * h), (after - 2 * at + before) / h**2
                    for form, slope, close in zip(forms, slopes, (1e-30, 1e-15), strict=True):
                        assert mpmath.almosteq(form(x), slope, close, close), (name, x)
        for name, (f, fx, fy, fxx, fxy, fyy) in BINARY.items():
            for x, y in ((mpf(5) / 8, mpf(11) / 8), (mpf(7) / 4, mpf(1) / 3)):
                g = {(i, j): f(x + i * h, y + j * h) for i, j in itertools.product((-1, 0, 1), repeat=2)}
                assert mpmath.almosteq(fx(x, y), (g[1, 0] - g[-1, 0]) / (2 * h), 1e-30, 1e-30), name
                assert mpmath.almosteq(fy(x, y), (g[0, 1] - g[0, -1]) / (2 * h), 1e-30, 1e-30), name
                assert mpmath.almosteq(fxx(x, y), (g[1, 0] - 2 * g[0, 0] + g[-1, 0]) / h**2, 1e-15, 1e-15), name
                assert mpmath.almosteq(fyy(x, y), (g[0, 1] - 2 * g[0, 0] + g[0, -1]) / h**2, 1e-15, 1e-15), name
                mixed = (g[1, 1] - g[1, -1] - g[-1, 1] + g[-1, -1]) / (4 * h**2)
                assert mpmath.almosteq(fxy(x, y), mixed, 1e-15, 1e-15), name


def unary_faults(program: Any, t: Prim, few: bool) -> list[Any]:
    xs = points(t, few)
    faults: list[Any] = []
    for name in UNARY:
        got = program[f"{NAMES[name]}_{t.name}"](xs)
        for i, x in enumerate(xs.tolist()):
            want = wanted(name, x)
            for (way, order), result in zip(WAYS.items(), got, strict=True):
                value = want[order]
                ulps = ULPS.get(name, 6) * (order + 1)
                if value is None or enough(t, float(result[i]), value, [], ulps):
                    continue
                around = near(t, name, x, order) if isinstance(value, mpf) else []
                if not enough(t, float(result[i]), value, around, ulps):
                    faults.append((t.name, name, x, way, float(result[i]), shown(value)))
    return faults


def binary_faults(program: Any, t: Prim, few: bool) -> list[Any]:
    faults: list[Any] = []
    for name, forms in BINARY.items():
        special = PAIRS.get(name, {})
        at = list(special) + pairs(t, name)[:: 7 if few else 1]
        got = program[f"{NAMES[name]}_{t.name}"](*[np.array(a, t.dtype) for a in zip(*at, strict=True)])
        for i, pair in enumerate(at):
            rows = iter(got)
            for way, orders in PAIR_WAYS.items():
                for order in orders:
                    result = float(next(rows)[i])
                    if pair in special:
                        value, around = special[pair][order] if order < 3 else None, []
                    else:
                        with mp.workdps(DIGITS):
                            x, y = map(mpf, pair)
                            value, step = forms[order](x, y), 2 * mpf(float(np.finfo(t.dtype).eps))
                            smooth = name not in ("%", "mod", "min", "max")
                            moved = [(x * (1 + step), y), (x, y * (1 + step))] if smooth else []
                            around = [forms[order](*p) for p in moved]
                            if name in ("%", "mod") and order == 0:
                                around = [value + x * step]
                            if order > 2 and abs(forms[0](x, y)) > float(np.finfo(t.dtype).max):
                                continue  # of a value that is infinite no second derivatives are promised
                    if value is not None and not enough(t, result, value, around, 8 if order < 3 else 20):
                        faults.append((t.name, name, pair, way, order, result, shown(value)))
    return faults


def shown(value: Any) -> str:
    return str(mpmath.nstr(mpf(value), 17))


def faults(backend: str, few: bool, types: tuple[Prim, ...] = FLOATS) -> str:
    program = futad.compile(source(types), backend=backend)
    found = [f for t in types for f in unary_faults(program, t, few) + binary_faults(program, t, few)]
    return "\n".join(map(str, found))


def test_values_and_derivatives() -> None:
    assert faults("interp", few=True, types=(F16, F64)) == ""


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_values_and_derivatives_everywhere(backend: str) -> None:
    assert faults(backend, few=backend == "emulated") == ""
