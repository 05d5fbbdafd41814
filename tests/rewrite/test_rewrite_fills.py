"""Loops that add to every element of an array of zeros once fill it instead."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import futad
from futad.core import ir
from futad.pipeline import compile_program
from futad.source import compile_text

SOURCE = """
entry up [n] (xs: [n]f64): [n]f64 = loop a = replicate n 0 for i < n do a with [i] = a[i] + xs[i]
entry down [n] (xs: [n]f64): [n]f64 =
  loop a = replicate n 0 for j < n do let i = n - 1 - j in a with [i] = xs[i] * f64.i64 j + a[i]
entry rows [n] (xs: [n]f64): [n][2]f64 =
  loop a = replicate n [0, 0] for i < n do a with [i] = map2 (+) a[i] [xs[i], 1]
entry fixed (xs: [3]f64): [3]f64 = loop a = replicate 3 0 for i < 3i64 do a with [2 - i] = a[2 - i] + xs[i]
entry carried [n] (xs: [n]f64): ([n]f64, f64) =
  loop (a, s) = (replicate n 0, 1) for i < n do let v = s * xs[i] in (a with [i] = a[i] + v, v)
entry fewer [n] (xs: [n]f64): [n]f64 = loop a = replicate n 0 for i < n / 2 do a with [i] = a[i] + xs[i]
entry same_place [n] (xs: [n]f64): [n]f64 = loop a = replicate n 0 for i < n do a with [0] = a[0] + xs[i]
entry neighbour [n] (xs: [n]f64): [n]f64 = loop a = replicate n 0 for i < n do a with [i] = a[n - 1 - i] + xs[i]
entry ones [n] (xs: [n]f64): [n]f64 = loop a = replicate n 1 for i < n do a with [i] = a[i] + xs[i]
entry twice [n] (xs: [n]f64): [n]f64 = loop a = replicate n 0 for i < n do a with [i] = a[i] + a[i] * xs[i] + 1
entry also_read [n] (xs: [n]f64): [n]f64 = loop a = replicate n 0 for i < n do a with [i] = a[i] + a[n - 1 - i] + xs[i]
entry kept [n] (xs: [n]f64): ([n]f64, f64) =
  loop (a, _s) = (replicate n 0, 0) for i < n do let old = a[i] in (a with [i] = old + xs[i], old)
"""
FILLED = ("up", "down", "rows", "fixed", "carried")
NOT_FILLED = ("fewer", "same_place", "neighbour", "ones", "twice", "also_read", "kept")


def nodes(lam: ir.Lambda) -> set[type]:
    return {type(s.exp) for s in lam.stms}.union(*[nodes(f) for s in lam.stms for f in s.exp.lambdas()])


@pytest.fixture(scope="module")
def filled() -> Any:
    return compile_program(compile_text(SOURCE, "fills.fut"), check=True)


@pytest.mark.parametrize("name", FILLED + NOT_FILLED)
def test_which_arrays_are_filled(filled: Any, name: str) -> None:
    assert (ir.Scratch in nodes(filled.funs[name].body)) == (name in FILLED)


def expected(name: str, xs: Any) -> Any:
    n = len(xs)
    at = np.arange(n)
    iteration = {"fewer": n // 2}.get(name, n)
    a = np.ones(n) if name == "ones" else np.zeros(n)
    for i in range(iteration):
        if name == "same_place":
            a[0] += xs[i]
        elif name == "neighbour":
            a[i] = a[n - 1 - i] + xs[i]
        elif name == "twice":
            a[i] += a[i] * xs[i] + 1
        elif name == "also_read":
            a[i] += a[n - 1 - i] + xs[i]
        else:
            a[i] += xs[i]
    return {
        "down": xs * (n - 1 - at),
        "rows": np.stack([xs, np.ones(n)], 1),
        "fixed": xs[::-1],
        "carried": (np.cumprod(xs), np.prod(xs)),
        "kept": (a, 0.0),
    }.get(name, a)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["interp", "c"])
@pytest.mark.parametrize("name", FILLED + NOT_FILLED)
def test_the_same_values(name: str, backend: str) -> None:
    f = getattr(futad.compile(SOURCE, backend=backend), name)
    rng = np.random.default_rng(1)
    for n in (3,) if name == "fixed" else (0, 1, 2, 7):
        xs = rng.normal(size=n)
        got, want = f(xs), expected(name, xs)
        for g, w in zip(*[x if isinstance(x, tuple) else (x,) for x in (got, want)], strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-14, atol=0)
