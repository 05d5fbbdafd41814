"""What a return sweep makes of neighbouring elements of a saved array is saved by the forward sweep in its place."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import C

AT = "let at a b = if a < 0 || a >= n || b < 0 || b >= m then u[i, j] else u[a, b]"
AROUND = "at (i - 1) j + at (i + 1) j + at i (j - 1) + at i (j + 1) - 4 * u[i, j]"

# An element of the next state, of u and k [n][m], and whether the state is then not saved.
STEPS = {
    "heat": (f"{AT} in u[i, j] + 0.2 * k[i, j] * ({AROUND})", True),
    "squared": (f"{AT} let s = {AROUND} in k[i, j] * s * s", True),
    "around the ends": ("u[i, j] + k[i, j] * (u[(i + 1) % n, j] + u[(i - 1) % n, j] - 2 * u[i, j])", True),
    "sine": (f"{AT} let s = {AROUND} in k[i, j] * f64.sin s", True),
    "linear": (f"{AT} in u[i, j] + 0.2 * ({AROUND})", False),  # nothing is needed
    "state needed, too": (f"{AT} in u[i, j] * u[i, j] + 0.2 * k[i, j] * ({AROUND})", False),
    "two elements": ("k[i, j] * (u[i, j] + u[(i + 1) % n, j])", False),
    "more numbers": ("f64.sum (map2 (\\v x -> v * (x + u[0, 0] - u[n - 1, 0])) k[i] u[i])", False),
}


def source(step: str) -> str:
    return f"""
def value [n][m] (u: [n][m]f64) (k: [n][m]f64): f64 =
  let u = loop u for _t < 3 do tabulate_2d n m (\\i j -> {step})
  in f64.sum (map f64.sum u)
entry main [n][m] (u: [n][m]f64) (k: [n][m]f64): ([n][m]f64, [n][m]f64) = vjp (\\(u, k) -> value u k) (u, k) 1
entry second [n][m] (u: [n][m]f64) (k: [n][m]f64) (v: [n][m]f64): ([n][m]f64, [n][m]f64) =
  jvp (\\k -> vjp (\\(u, k) -> value u k) (u, k) 1) k v
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", STEPS)
def test_gradients_are_those_of_the_interpreter(name: str) -> None:
    step, saved = STEPS[name]
    text = source(step)
    with counting() as counts:
        compile_program(compile_text(text.split("entry second")[0]), check=True, target=C)
    assert (counts["saved-neighbours"] > 0) is saved
    expected, *others = (futad.compile(text, backend=b) for b in ("interp", "c", "multicore", "emulated"))
    for shape in ((0, 3), (3, 0), (1, 1), (1, 4), (4, 1), (2, 3), (3, 70)):
        u, k, v = np.random.default_rng(shape[0]).integers(-2, 3, (3, *shape)) / 4
        if shape == (3, 70):
            u[1, 5], k[2, 60] = np.nan, np.inf
        for made in others:
            for a, b in zip(made.main(u, k), expected.main(u, k), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
            for a, b in zip(made.second(u, k, v), expected.second(u, k, v), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
