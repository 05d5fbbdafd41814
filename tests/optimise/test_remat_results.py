"""Results of a loop inside, which the return sweep would run again for them alone, are saved by the forward sweep."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.core import ir
from futad.errors import BoundsError
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import C
from tests.support.slow import slow_but

# A table of alignments row by row, as of a pair hidden Markov model: three rows that begin alike, of which the return
# sweep needs two; branches; elements whose places are checked.
ROWS = """
def lse (a: f64) (b: f64): f64 =
  let m = f64.max a b in if m < -1e29 then m else m + f64.log (f64.exp (a - m) + f64.exp (b - m))
def rows [k][n][m] (score: [k][k]f64) (gap: f64) (a: [n]i64) (b: [m]i64): f64 =
  let none = replicate (m + 1) (-1e30)
  let (p, x, y) = loop (p, x, y) = (copy none with [0] = 0, copy none, copy none) for i < n do
    loop (u, v, w) = (copy none, copy none, copy none) for j < m + 1 do
      let v1 = lse (p[j] + gap) (x[j] - gap)
      let u1 = if j == 0 then -1e30 else score[a[i], b[j - 1]] + lse p[j - 1] (lse x[j - 1] y[j - 1])
      let w1 = if j == 0 then -1e30 else lse (u[j - 1] + gap) (w[j - 1] - gap)
      in (u with [j] = u1, v with [j] = v1, w with [j] = w1)
  in lse p[m] (lse x[m] y[m])
entry value [k][n][m] (score: [k][k]f64) (gap: f64) (a: [n]i64) (b: [m]i64): f64 = rows score gap a b
entry gradient [k][n][m] (score: [k][k]f64) (gap: f64) (a: [n]i64) (b: [m]i64): ([k][k]f64, f64) =
  vjp (\\(score, gap) -> rows score gap a b) (score, gap) 1
"""

# A linear system that an iteration solves by one loop after another; the derivative does not go through it.
SOLVED = """
def solve [k] (a: [k][k]f64) (b: [k]f64): [k]f64 =
  let (a, b) = loop (a, b) = (copy a, copy b) for i < k do
    let f = map (\\r -> if r > i then a[r, i] / a[i, i] else 0) (iota k)
    in (map2 (\\fr row -> map2 (\\x p -> x - fr * p) row a[i]) f a, map2 (\\fr br -> br - fr * b[i]) f b)
  in loop x = replicate k 0 for j < k do
    let i = k - 1 - j
    in x with [i] = (b[i] - f64.sum (map2 (*) a[i] x)) / a[i, i]
def steps [n] (s: f64) (z: [n]f64): f64 =
  let y = loop y = map (* s) z for _t < 5 do
    let sum k = f64.sum (map (\\v -> v ** k) y)
    let c = solve [[sum 0, sum 1, sum 2], [sum 1, sum 2, sum 3], [sum 2, sum 3, sum 4 + 0.1]] [sum 1, sum 2, sum 3 + s]
    in map (\\v -> if c[0] + c[1] * v + c[2] * v * v > 0.5 then s * v else v * v - 0.5) y
  in f64.sum y
entry value [n] (s: f64) (z: [n]f64): f64 = steps s z
entry gradient [n] (s: f64) (z: [n]f64): (f64, [n]f64) = vjp (\\(s, z) -> steps s z) (s, z) 1
"""


def loops_inside(body: ir.Lambda) -> int:
    """How many loops are inside others."""
    every = [s.exp for s in body.stms if isinstance(s.exp, ir.For)]
    return sum(1 for e in every for s in e.body.stms if isinstance(s.exp, ir.For))


def test_the_loop_is_not_run_again() -> None:
    program = compile_program(compile_text(ROWS), target=C)
    assert loops_inside(program.funs["gradient"].body) == 2


@pytest.mark.parametrize("n, m", [(0, 0), (0, 3), (1, 1), (3, 0), (4, 7), (9, 5)])
@pytest.mark.parametrize("backend", slow_but(["c"], ["c", "multicore"]))
def test_gradients_are_those_of_the_interpreter(backend: str, n: int, m: int) -> None:
    random = np.random.default_rng(10 * n + m)
    args = random.normal(size=(4, 4)), -0.7, random.integers(0, 4, size=n), random.integers(0, 4, size=m)
    c, interp = [futad.compile(ROWS, backend=b).gradient(*args) for b in (backend, "interp")]
    for ours, theirs in zip(c, interp, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


def test_a_system_is_not_solved_again() -> None:
    program = compile_program(compile_text(SOLVED), target=C)
    assert loops_inside(program.funs["gradient"].body) == 2  # both of the forward sweep


@pytest.mark.parametrize("n", [3, 10, 33])
@pytest.mark.parametrize("backend", slow_but(["c"], ["c", "multicore"]))
def test_gradients_beside_systems_are_those_of_the_interpreter(backend: str, n: int) -> None:
    args = 0.9, np.random.default_rng(n).uniform(-1, 1, size=n)
    c, interp = [futad.compile(SOLVED, backend=b).gradient(*args) for b in (backend, "interp")]
    for ours, theirs in zip(c, interp, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-12)


def test_places_are_checked() -> None:
    for b in ("c", "interp"):
        with pytest.raises(BoundsError, match=r"Index \[4\]"):
            futad.compile(ROWS, backend=b).gradient(np.zeros((4, 4)), -0.7, np.array([0, 1]), np.array([2, 4, 1]))
