"""Additions to neighbouring places as sums of what is computed for each: stencils, and what is not one."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import C

# Of f [n][n]: what is summed after two steps.
STEPS = {
    "cut off": """tabulate_2d n n (\\i j ->
      let at a b = if a < 0 || a >= n || b < 0 || b >= n then 0 else u[a, b]
      in u[i, j] + k[i, j] * (at (i - 1) j + at (i + 1) j - 3 * at i (j - 1) + 2 * at i (j + 1)))""",
    "own at the border": """tabulate_2d n n (\\i j ->
      let at a b = if a < 0 || a >= n || b < 0 || b >= n then u[i, j] else u[a, b]
      in u[i, j] * k[i, j] + at (i - 2) j * at (i + 1) j)""",
    "inside alone": """tabulate_2d n n (\\i j ->
      if i == 0 || j == 0 || i == n - 1 || j == n - 1 then k[i, j]
      else u[i - 1, j] * u[i + 1, j] + u[i, j - 1] * k[i, j] + u[i, j + 1])""",
    "transposed": """tabulate_2d n n (\\i j ->
      (if j > 0 then u[j - 1, i] else 0) * (if j + 1 < n then u[j + 1, i] else 1))""",
    "rows": """map2 (\\r s -> tabulate n (\\j ->
      s[j] * (if j > 1 then r[j - 2] else 0) + (if j + 1 < n then r[j + 1] ** 2 else r[j]))) u k""",
}
OTHERS = {
    "to one place": "tabulate_2d n n (\\i j -> u[i, j] * k[0, j] + u[0, i])",
    "where data say": "tabulate_2d n n (\\i j -> u[i64.abs (i64.f64 (9 * k[i, j])) % n, j] * u[n - 1 - i, j])",
}


def source(step: str) -> str:
    return f"""
def steps [n] (u: [n][n]f64) (k: [n][n]f64): f64 =
  let step (u: [n][n]f64): [n][n]f64 = {step}
  in f64.sum (map f64.sum (loop u for _i < 2 do step u))
entry value [n] (u: [n][n]f64) (k: [n][n]f64): f64 = steps u k
entry back [n] (u: [n][n]f64) (k: [n][n]f64): ([n][n]f64, [n][n]f64) = vjp (\\(u, k) -> steps u k) (u, k) 1
"""


def fires(text: str) -> int:
    with counting() as counts:
        compile_program(compile_text(text), check=True, target=C)
    return counts["gathers"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*STEPS, *OTHERS])
def test_sums_are_those_of_the_additions(name: str) -> None:
    text = source((STEPS | OTHERS)[name])
    assert (fires(text) > 0) is (name in STEPS)
    expected, *others = (futad.compile(text, backend=b) for b in ("interp", "c", "multicore", "emulated"))
    for n in (1, 2, 3, 5, 37):
        u, k = np.random.default_rng(n).integers(-2, 3, (2, n, n)) / 4
        value, back = expected.value(u, k), expected.back(u, k)
        for made in others:
            np.testing.assert_allclose(made.value(u, k), value, rtol=1e-12)
            for a, b in zip(made.back(u, k), back, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


VECTOR = "vjp (\\x -> f64.sum (tabulate (n - 1) (\\i -> x[i] * f64.sin x[i + 1]))) x 1"


@pytest.mark.parametrize(
    ("body", "times"), [(VECTOR, 0), (f"loop x for _i < 3 do {VECTOR}", 1)], ids=["once", "in a loop"]
)
def test_a_vector_is_gathered_in_loops(body: str, times: int) -> None:
    text = f"entry main [n] (x: [n]f64): [n]f64 = {body}"
    assert fires(text) == times
    x = np.linspace(-1, 1, 50)
    made, expected = (futad.compile(text, backend=b) for b in ("c", "interp"))
    np.testing.assert_allclose(made.main(x), expected.main(x), rtol=1e-12)


def test_iterations_of_a_map_that_moves_no_axis_are_all_added() -> None:
    text = """entry main [n] (x: [n][n]f64) (a: [n]f64): [n][n]f64 =
      vjp (\\x -> f64.sum (map f64.sum (tabulate_2d (n - 2) n (\\i j -> a[j] * x[i + 1, i] * x[i + 2, i])))) x 1"""
    assert fires(text) == 0
    x, a = np.arange(25.0).reshape(5, 5), np.arange(5.0)
    want = np.zeros((5, 5))
    for i in range(3):
        want[i + 1, i] += a.sum() * x[i + 2, i]
        want[i + 2, i] += a.sum() * x[i + 1, i]
    np.testing.assert_allclose(futad.compile(text, backend="c").main(x, a), want)
