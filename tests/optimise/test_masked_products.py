"""Products under a condition: values and derivatives are the interpreter's, which computes what is asked for."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import futad
from futad.fires import counting

CAUSAL = """
def f [n][d] (q: [n][d]f64) (k: [n][d]f64) (v: [n][d]f64): [n][d]f64 =
  let row i =
    let s = tabulate n (\\j -> if j > i then -f64.inf else f64.sum (map2 (*) q[i] k[j]))
    let top = f64.maximum s
    let e = map (\\x -> f64.exp (x - top)) s
    in map (\\c -> f64.sum (map2 (*) e c) / f64.sum e) (transpose v)
  in map row (iota n)
"""
SEEN = """
def f [n][d] (q: [n][d]f64) (k: [n][d]f64) (v: [n][d]f64): [n]f64 =
  map3 (\\a x i -> x[0] + f64.sum (map2 (\\b j ->
    if (i + j) % 3 == 0 then 0 else let p = f64.sum (map2 (*) a b) in p * p - x[0] * p) k (iota n))) q v (iota n)
"""
BIASED = """
def f [n][d] (q: [n][d]f64) (k: [n][d]f64) (v: [n][d]f64): [n][n]f64 =
  map2 (\\a x -> map2 (\\b y -> if x[0] < y[0] then f64.sin (x[d-1] + y[d-1] + f64.sum (map2 (*) a b)) else 1) k v) q v
"""
PROGRAMS = {"causal": CAUSAL, "seen": SEEN, "biased": BIASED}


def entries(name: str) -> str:
    result = PROGRAMS[name].split("): ")[1].split(" =")[0]
    source = PROGRAMS[name] + """
entry main [n][d] (q: [n][d]f64) (k: [n][d]f64) (v: [n][d]f64) = f q k v
entry back [n][d] (q: [n][d]f64) (k: [n][d]f64) (v: [n][d]f64) (s: RESULT) =
  vjp (\\(q, k, v) -> f q k v) (q, k, v) s
entry again [n][d] (q: [n][d]f64) (k: [n][d]f64) (v: [n][d]f64) (s: RESULT) =
  jvp (\\(q, k, v) -> vjp (\\(q, k, v) -> f q k v) (q, k, v) s) (q, k, v) (k, v, q)
"""
    return source.replace("RESULT", result)


@functools.cache
def compiled(name: str, backend: str) -> tuple[Any, int]:
    with counting() as counts:
        made = futad.compile(entries(name), backend=backend)
        made.main, made.back, made.again  # noqa: B018
        made.back(*arguments(name, 1, 1))
    return made, counts["masked-products"]


def arguments(name: str, n: int, d: int) -> list[np.ndarray]:
    rng = np.random.default_rng(n)
    s = {"causal": (n, d), "seen": (n,), "biased": (n, n)}[name]
    return [rng.integers(-4, 5, shape) / 4 for shape in ((n, d), (n, d), (n, d), s)]


def close(made: Any, expected: Any) -> None:
    pairs = [x if isinstance(x, tuple) else (x,) for x in (made, expected)]
    for a, b in zip(*pairs, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=1e-10, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_derivatives(name: str, backend: str) -> None:
    made, fires = compiled(name, backend)
    expected, _ = compiled(name, "interp")
    assert fires
    for n, d in ((0, 3), (1, 1), (7, 4), (2, 0), (40, 12)):
        *args, s = arguments(name, n, d)
        if name != "causal" and not d:
            continue
        close(made.main(*args), expected.main(*args))
        close(made.back(*args, s), expected.back(*args, s))
        if n < 40:
            close(made.again(*args, s), expected.again(*args, s))


@pytest.mark.slow
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("name", PROGRAMS)
def test_factors_that_are_not_finite(name: str, bad: float) -> None:
    """They are in the rows that see them, and in no others."""
    made, _ = compiled(name, "c")
    expected, _ = compiled(name, "interp")
    for which, (i, j) in ((0, (0, 1)), (1, (6, 0)), (1, (3, 2))):
        args = arguments(name, 7, 4)
        args[which][i, j] = bad
        close(made.main(*args[:3]), expected.main(*args[:3]))
        close(made.back(*args), expected.back(*args))
