"""What is compared with what it was chosen from has the same bits wherever it is computed."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.core.compared import Compared
from futad.core.ir import Program
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import CUDA, INTERP, C

# The product is squared, too, by the loop that finds the maximum, and only added to by the one that finds its place.
TEXT = """
def f [n] (xs: [n]f64) (ys: [n]f64) =
  let ps = map2 (*) xs ys in f64.maximum (map (+ 0.3) ps) + f64.sum (map (\\p -> p * p) ps)
entry gradient [n] (xs: [n]f64) (ys: [n]f64) = vjp (\\(xs, ys) -> f xs ys) (xs, ys) 1
entry rows [m][n] (xss: [m][n]f64) (ys: [n]f64) =
  vjp (\\(xss, ys) -> f64.sum (map (\\xs -> f xs ys) xss)) (xss, ys) 1
"""
# The entry, and whether products are rounded by themselves.
SHAPES = {
    "maximum": ("entry f [n] (a: [n]f64) = vjp (\\a -> f64.maximum (map (\\x -> x * x + 1) a)) a 1", True),
    "of functions": ("entry f [n] (a: [n]f64) = vjp (\\a -> f64.maximum (map (\\x -> 2 * (x * x + 1)) a)) a 1", True),
    "below": ("entry f [n] (a: [n]f64) = map (\\x -> if x * x + 1 < f64.maximum a then 1f64 else 0) a", True),
    "f32": ("entry f [n] (a: [n]f32) = vjp (\\a -> f32.minimum (map (\\x -> x - x * x) a)) a 1", True),
    "value": ("entry f [n] (a: [n]f64) = f64.maximum (map (\\x -> x * x + 1) a)", False),
    "sum": ("entry f [n] (a: [n]f64) = vjp (\\a -> f64.sum (map (\\x -> x * x + 1) a)) a 1", False),
    "constant": ("entry f [n] (a: [n]f64) = map (\\x -> if x * x + 1 < 3 then x else 0) a", False),
    "integers": ("entry f [n] (a: [n]i64) = let m = i64.maximum a in map (\\x -> i64.bool (x * x + 1 == m)) a", False),
    "dot product": ("entry f [n] (a: [n][n]f64) (b: [n]f64) ="
                    " vjp (\\b -> f64.maximum (map (\\r -> f64.sum (map2 (*) r b)) a)) b 1", False),
}  # fmt: skip


def products(program: Program) -> int:
    return str(program).count("rounded_mul(")


@pytest.mark.parametrize("shape", SHAPES)
def test_where_it_is_done(shape: str) -> None:
    text, there = SHAPES[shape]
    for target in (C, CUDA):
        assert (products(compile_program(compile_text(text), target=target, check=True)) > 0) == there
    assert products(compile_program(compile_text(text), target=INTERP)) == 0


def test_what_is_compared() -> None:
    (f,) = compile_program(compile_text(SHAPES["maximum"][0]), target=INTERP).funs.values()
    names = {v.name for v in Compared(f.body).values}
    assert "red" in names
    assert not Compared(compile_text(SHAPES["sum"][0]).funs["f"].body).values


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore", "emulated"])
def test_gradients_with_contraction(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    monkeypatch.setenv("FUTAD_CFLAGS", "-O3 -ffp-contract=fast")
    p, q = futad.compile(TEXT, backend=backend), futad.compile(TEXT, backend="interp")
    rng = np.random.default_rng(1)
    for n in (0, 1, 2, 7, 16, 33):
        for entry, shape in (("gradient", (n,)), ("rows", (3, n))):
            args = rng.normal(size=shape), rng.normal(size=n)
            for a, b in zip(p[entry](*args), q[entry](*args), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12)
