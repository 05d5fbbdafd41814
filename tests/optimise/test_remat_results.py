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


def loops_inside(body: ir.Lambda) -> int:
    """How many loops are inside others."""
    every = [s.exp for s in body.stms if isinstance(s.exp, ir.For)]
    return sum(1 for e in every for s in e.body.stms if isinstance(s.exp, ir.For))


def test_the_loop_is_not_run_again() -> None:
    program = compile_program(compile_text(ROWS), target=C)
    assert loops_inside(program.funs["gradient"].body) == 2


@pytest.mark.parametrize("n, m", [(0, 0), (0, 3), (1, 1), (3, 0), (4, 7), (9, 5)])
def test_gradients_are_those_of_the_interpreter(n: int, m: int) -> None:
    random = np.random.default_rng(10 * n + m)
    args = random.normal(size=(4, 4)), -0.7, random.integers(0, 4, size=n), random.integers(0, 4, size=m)
    c, interp = [futad.compile(ROWS, backend=b).gradient(*args) for b in ("c", "interp")]
    for ours, theirs in zip(c, interp, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)


def test_places_are_checked() -> None:
    for b in ("c", "interp"):
        with pytest.raises(BoundsError, match="index 4"):
            futad.compile(ROWS, backend=b).gradient(np.zeros((4, 4)), -0.7, np.array([0, 1]), np.array([2, 4, 1]))
