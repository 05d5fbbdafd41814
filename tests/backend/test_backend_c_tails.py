"""Loops in vector lanes whose last vector is computed first (`backend/c_tails.py`): every length, results in the place
of what they are computed from, parts of arrays, sums into arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from futad.backend.c import CBackend
from futad.core.interp import Interpreter
from futad.testing.build import c_backend

TEXT = """
entry plain [n] (xs: [n]f64): [n]f64 = map (\\x -> f64.exp (f64.tanh x) + f64.log (1 + x * x)) xs
entry narrow [n] (xs: [n]f32): [n]f32 = map (\\x -> f32.exp (f32.tanh x) + f32.log (1 + x * x)) xs
entry both [n] (xs: [n]f64) (ys: [n]f32): ([n]f64, [n]f32, [n]bool) =
  unzip3 (map2 (\\x y -> let t = f64.tanh (f64.exp x) in (t * t + f64.sin x, f32.tanh (f32.exp y), t > 0.9)) xs ys)
entry replaced [n] (xs: [n]f64): [n]f64 =
  loop xs = copy xs for i < 3 do map (\\x -> f64.exp (f64.tanh x) - f64.log (2 + x * x) * f64.i64 i) xs
entry pair [n] (xs: [n]f64): ([n]f64, [n]f64) =
  loop (a, b) = (copy xs, map (* 2) xs) for _i < 3 do
    unzip (map2 (\\a b -> let s = f64.tanh (a * b) in (f64.exp s - b, s + a)) a b)
entry rows [m][n] (xs: [m][n]f64): [m][n]f64 =
  map (\\row -> let s = f64.sum row in map (\\x -> f64.exp (f64.tanh (x - s)) + f64.log (1 + x * x)) row) xs
entry pieces [m][n] (xs: [m]f64) (ys: [n]f64): []f64 =
  let f x = f64.exp (f64.tanh x) + f64.log (1 + x * x) in map f (xs ++ ys ++ xs)
entry backwards [n] (xs: [n]f64): [n]f64 = map (\\x -> f64.exp (f64.tanh x) + f64.log (1 + x * x)) (reverse xs)
entry constant (xs: [13]f64): [13]f64 = map (\\x -> f64.exp (f64.tanh x) + f64.log (1 + x * x)) xs
entry long (xs: [14]f64): ([14]f64, [14]f64) =
  unzip (map (\\x ->
    let a = f64.tanh (x * 0.5 + 1) in let b = f64.exp (a - x * x) in let c = 1 / (1 + f64.exp (0.3 - b * a))
    let d = f64.tanh (c * a + b * 0.1) in let e = 1 / (1 + f64.exp (d * d - c + x)) in let f = f64.log (2 + e * d * a)
    let g = f64.tanh (f + e * c - b) in let h = 1 / (1 + f64.exp (g * 0.7 - f + a * d)) in let i = f64.exp (h * g - e)
    let j = f64.tanh (i + h * f - c * g) in let k = 1 / (1 + f64.exp (j * i - h + d * b)) in let l = f64.log (3 + k * j)
    in (l * k + j * i - h * g + f * e, a * b + c * d - e * l + k)) xs)
entry slope [n] (xs: [n]f64): ([n]f64, [n]f64) =
  let f xs = loop a = xs for _i < 2 do map2 (\\a x -> f64.tanh (a * x) + f64.exp (-a) * f64.log (1 + x * x)) a xs
  in (f xs, vjp f xs (map (\\_ -> 1) xs))
"""


def same(core: Any, backend: CBackend, name: str, *args: Any) -> None:
    expected = Interpreter(core).run(name, list(args))
    for a, e in zip(backend.run(name, list(args)), expected, strict=True):
        assert np.asarray(a).dtype == np.asarray(e).dtype
        tolerance = 2e-6 if np.asarray(a).dtype == np.float32 else 2e-14
        np.testing.assert_allclose(a, e, rtol=tolerance, atol=tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("n", [*range(20), 31, 33, 47, 70])
def test_every_length(core: Any, backend: CBackend, n: int) -> None:
    xs = np.random.default_rng(n).standard_normal(n)
    for name in ("plain", "replaced", "pair", "backwards", "slope"):
        same(core, backend, name, n, xs)
    same(core, backend, "narrow", n, xs.astype(np.float32))
    same(core, backend, "both", n, xs, xs.astype(np.float32))
    same(core, backend, "rows", 3, n, np.outer([1, 0.5, -1], xs))
    same(core, backend, "pieces", n, 9, xs, np.linspace(-1, 1, 9))


@pytest.mark.slow
def test_constant_length(core: Any, backend: CBackend) -> None:
    same(core, backend, "constant", np.linspace(-2, 2, 13))
    same(core, backend, "long", np.linspace(-2, 2, 14))


@pytest.mark.slow
def test_special_values_stay_where_they_are(backend: CBackend) -> None:
    for n in (9, 14, 15):
        for at in range(n):
            xs = np.zeros(n)
            xs[at] = np.nan
            (got,) = backend.run("plain", [n, xs])
            assert np.isnan(got[at]) and (np.delete(got, at) == 1).all()


@pytest.mark.slow
def test_which_loops(core: Any) -> None:
    """Those that call functions, and not those whose length is a multiple of every vector's."""
    text = c_backend(core).source
    entries = {f.split("(", 1)[0]: f for f in text.split("\nint64_t futad_entry_")[1:]}
    for name in ("plain", "narrow", "both", "replaced", "pair", "rows", "constant"):
        assert "FUTAD_VECTOR_CALLS" in entries[name], name
