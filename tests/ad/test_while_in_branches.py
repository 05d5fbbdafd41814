"""`while` loops in branches of loops and in other `while` loops, whose iterations the forward sweep counts."""

import numpy as np
import pytest

import futad
from futad.source import compile_text

WALK = "(loop (z, c) = ({0}, 0i64) while c < {1} && z < 3 do (f64.sin z * xs[i] + 1.2, c + 1)).0"
BODIES = {
    "one side": f"if xs[i] > 0.1 then {WALK.format('s', 'i')} else s * xs[i]",
    "both sides": f"if xs[i] > 0.1 then {WALK.format('s', 'i')} else {WALK.format('xs[i]', '2')} * s",
    "branch in a branch": f"if i > 1 then (if xs[i] > 0.1 then {WALK.format('s', 'i')} else s) else s * xs[i]",
    "in a loop of a branch": f"if xs[i] > 0.1 then loop s for _j < 2 do {WALK.format('s', 'i')} else s * xs[i]",
    "in a while loop": "(loop (s, c) = (s, 0i64) while c < i % 3 do (if xs[i] > 0.1 then "
    f"{WALK.format('s', '2')} else s * 0.9, c + 1)).0",
    "while in while": f"(loop (s, c) = (s, 0i64) while c < i % 3 do ({WALK.format('s', '2')}, c + 1)).0",
    "arrays in while in while": "(loop (s, c) = (s, 0i64) while c < i % 3 do "
    "(f64.sum (loop (zs, c) = (replicate 2 s, 0i64) while c < 2 && zs[0] < 3 do "
    "(zs with [c % 2] = f64.sin zs[1] * xs[i] + 1.2, c + 1)).0, c + 1)).0",
}
PROGRAM = """
def f [n] (xs: [n]f64) : f64 = loop s = 1.0 for i < n do {}
entry gradient [n] (xs: [n]f64) = vjp f xs 1
entry of_tangent [n] (xs: [n]f64) (d: [n]f64) = vjp (\\xs -> jvp f xs d) xs 1
entry tangent_of [n] (xs: [n]f64) (d: [n]f64) = jvp (\\xs -> vjp f xs 1) xs d
"""


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_derivatives_are_those_by_dual_numbers(body):
    text = PROGRAM.format(body)
    program = futad.compile(text, backend="interp", check=True)
    duals = futad.api.program.Program(compile_text(text), engine="dual")
    rng = np.random.default_rng(3)
    for n in (0, 1, 4, 6):
        xs, d = rng.normal(size=n), rng.normal(size=n)
        for entry, args in (("gradient", (xs,)), ("of_tangent", (xs, d)), ("tangent_of", (xs, d))):
            np.testing.assert_allclose(program[entry](*args), duals[entry](*args), rtol=1e-11, atol=1e-13)


def test_a_split_loop_of_growing_arrays_under_a_budget():
    """Twice in reverse mode: what the loop inside counts is not asked of a loop that does not count it."""
    text = """
def f [n] (xs: [n]f64) : f64 =
  f64.sum (#[stripmine(1)] loop (u: []f64) = copy xs for _i < 3 do
             filter (< 0.4567) (map (\\z -> f64.sin z * 1.1 + 0.01) u))
entry second [n] (xs: [n]f64) (d: [n]f64) = vjp (\\xs -> #[checkpoint(1)] vjp f xs 1) xs d
"""
    program = futad.compile(text, backend="interp", check=True)
    duals = futad.api.program.Program(compile_text(text), engine="dual")
    rng = np.random.default_rng(5)
    for n in (0, 1, 5):
        xs, d = rng.normal(size=n), rng.normal(size=n)
        np.testing.assert_allclose(program.second(xs, d), duals.second(xs, d), rtol=1e-11, atol=1e-13)
