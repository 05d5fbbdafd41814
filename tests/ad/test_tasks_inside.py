"""Derivatives of tasks inside of other constructs, and of what is inside of tasks, against the dual numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import futad
from tests.support.needs import needs_cc

pytestmark = [needs_cc, pytest.mark.slow]

HEAD = """
def f (k: i64) (y: f64): f64 = loop z = y for i < 3 + k do f64.sin (z * 1.1) + 0.1 * f64.i64 i
def rec (d: i64) (x: f64): f64 =
  if d <= 0 then f64.sin x else let (a, b) = par (rec (d - 1)) (rec (d - 2)) (x * 0.9, x + 0.2) in f64.tanh (a * b + a)
"""
# The body of a function of xs: [4]f64.
PROGRAMS = {
    "while": "(loop (s, i) = (xs[0], 0) while i < 4 && s < 50 do\n"
    "  let (a, b) = par (rec 1) (rec 2) (s * xs[i], s + xs[i]) in (a * b + s, i + 1)).0",
    "in place": "f64.sum (loop ys = copy xs for i < 4 do\n"
    "  let (a, b) = par (f 1) (rec 2) (ys[i], ys[(i + 1) % 4]) in ys with [i] = a * b)",
    "what a task made": "let (zs, b) = par (\\(ys: [4]f64) ->\n"
    "    loop zs = copy ys for j < 3 do zs with [j] = zs[j] * zs[j + 1])\n"
    "  (\\(ys: [4]f64) -> loop s = 0.0 for i < 4 do s * ys[i] + ys[i]) (xs, xs)\n"
    "  in f64.sum (copy zs with [1] = b * zs[2])",
    "map": "f64.sum (map (\\x -> let (a, b) = par (rec 1) (f 2) (x, x * xs[1]) in a * b) xs)",
    "branch": "let (a, b) = par (\\x -> if x > 0.5 then f 1 x else rec 2 x) (\\x -> rec 2 (x * xs[2]))\n"
    "  (xs[0], xs[3]) in\n"
    "  if a > 0 then (let (a, b) = par (f 1) (f 2) (a, b) in a - b) else a * b",
    "checkpoints": "#[checkpoints(2)] loop s = 1.0 for i < 6 do\n"
    "  let (a, b) = par (f 1) (rec 2) (s * xs[i % 4], s + xs[i % 4]) in a * b + s",
    "reversible": "let (s, t) = loop (s, t) = (xs[0], xs[1]) for i < 6 do\n"
    "  (let (a, b) = par (f 1) (f 2) (t * xs[2], t) in (t, s + a * b)) in s * t",
}
ENTRIES = """
entry gradient (xs: [4]f64) = vjp g xs 1
entry second (xs: [4]f64) = jvp (\\xs -> vjp g xs 1) xs [0.3, -0.2, 0.5, 1]
entry many (xs: [4]f64) = mjp g xs [1, 0.5]
"""


@pytest.mark.parametrize("kind", PROGRAMS)
def test_derivatives(kind: str) -> None:
    text = f"{HEAD}def g (xs: [4]f64): f64 = {PROGRAMS[kind]}\n{ENTRIES}"
    oracle: Any = futad.compile(text, backend="interp", method="dual")
    xs = np.array([0.7, 0.45, 1.2, 0.9])
    for backend in ("interp", "multicore", "c"):
        p: Any = futad.compile(text, backend=backend)
        for entry in ("gradient", "second", "many"):
            found, expected = getattr(p, entry)(xs), getattr(oracle, entry)(xs)
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11, err_msg=f"{entry} on {backend}")
