"""`#[unroll]` on loops: straight code that computes the same, in both modes of differentiation too."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.core import ir
from futad.core.ir import Lambda
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.testing import check_grads

SOURCE = """
entry polynomial (x: f64): f64 = ATTR loop y = x for i < 5 do y * x + f64.i64 i
entry nested (x: f64): f64 = ATTR loop y = x for i < 3i32 do ATTR loop z = y for j < 2 do z * x - f64.i32 i * y
entry array (xs: *[4]f64): *[4]f64 = ATTR loop ys = xs for i < 3 do ys with [i + 1] = ys[i] * ys[i + 1]
entry swap (x: f64) (y: f64): (f64, f64) = ATTR loop (a, b) = (x, y) for _i < 3 do (b, a * b)
entry inside [n] (xs: [n]f64): f64 = f64.sum (map (\\x -> ATTR loop y = x for _i < 3 do f64.sin y * x) xs)
entry never (x: f64): f64 = ATTR loop y = x for i < 0 do y * x + f64.i64 i
"""
ENTRIES = {
    "polynomial": [1.25],
    "nested": [-0.75],
    "array": [np.array([0.5, 2.0, -1.5, 3.0])],
    "swap": [1.5, -0.5],
    "inside": [np.array([0.5, 2.0, -1.5])],
    "never": [1.5],
}


def loops(source: str, name: str) -> int:
    program = compile_program(compile_text(source, "unroll.fut"), check=True)

    def count(lam: Lambda) -> int:
        return sum(isinstance(s.exp, ir.For) + sum(map(count, s.exp.lambdas())) for s in lam.stms)

    return count(next(f for f in program.funs.values() if f.entry is not None and f.entry.name == name).body)


@pytest.mark.slow
@pytest.mark.parametrize("name", ENTRIES)
def test_same_results_without_the_loop(name: str) -> None:
    args = ENTRIES[name]
    rolled, straight = SOURCE.replace("ATTR", ""), SOURCE.replace("ATTR", "#[unroll]")
    assert loops(straight, name) == 0
    if name != "never":
        assert loops(rolled, name) > 0
    f, g = (getattr(futad.compile(s, backend="interp"), name) for s in (rolled, straight))
    for x, y in zip(*[np.atleast_1d(h(*[np.copy(a) for a in args])) for h in (f, g)], strict=True):
        np.testing.assert_array_equal(x, y)
    if name != "array":  # consumes its argument
        check_grads(g, *args, order=2)


@pytest.mark.parametrize("iterations", ["5000", "n"])
def test_too_much_code_and_unknown_iterations_stay_loops(iterations: str) -> None:
    loop = f"loop y = x for _i < {iterations} do f64.sin y + x"
    assert loops(f"entry f (n: i64) (x: f64): f64 = #[unroll] {loop}", "f") == 1


ROWS = """
def f [n] (xs: [n]f64) (k: i64) (s: f64): f64 =
  let (a, v) = #[stripmine(2)] loop (a, v) = (s, copy xs) for _i < 4 do
    (f64.sin a * v[1], if n > 0 then (if (n + 1) % 2 == 0 then v with [(k + 1) % n] = v[2] * a else v) else v)
  in a + f64.sum v
entry back [n] (xs: [n]f64) (k: i64) (s: f64) = #[checkpoint(1, nest=false)] vjp (\\(xs, s) -> f xs k s) (xs, s) 1
entry kept [n] (xs: [n]f64) (k: i64) (s: f64) = vjp (\\(xs, s) -> f xs k s) (xs, s) 1
"""


@pytest.mark.parametrize("backend", ["interp", "c"])
def test_a_loop_of_one_iteration_that_overwrites_a_row_of_another_array(backend: str) -> None:
    """The return sweep runs a part of the loop again from a row of the states that it kept."""
    prog = futad.compile(ROWS, backend=backend, check=True)
    for n in (3, 4, 5):
        xs = np.linspace(0.5, 1.5, n)
        for got, want in zip(prog.back(xs, 2, 0.7), prog.kept(xs, 2, 0.7), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-13)
