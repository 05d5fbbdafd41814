"""A loop in a loop, rows of a table after each other: the return sweep computes no exponential again."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.core import ir
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import CUDA, C
from tests.support.needs import needs_cc

# The inner loop's row is of use to the forward sweep alone: what is summed is linear in it.
TEXT = """
def softmin (x: f64) (y: f64) (z: f64): f64 =
  let top = f64.maximum [-x, -y, -z]
  in -(top + f64.log (f64.sum (map (\\v -> f64.exp (v - top)) [-x, -y, -z])))
def aligned (x: [9]f64) (y: [11]f64): f64 =
  let last = loop above = tabulate 12 (\\j -> if j == 0 then 0 else 100) for i < 9 do
    let (_, _, row) = loop (left, corner, row) = (100, above[0], replicate 12 100) for j < 11 do
      let v = (x[i] - y[j]) ** 2 + softmin left corner above[j + 1]
      in (v, above[j + 1], row with [j + 1] = v)
    in row
  in last[11]
entry value (x: [9]f64) (y: [11]f64): f64 = aligned x y
entry gradient (x: [9]f64) (y: [11]f64): ([9]f64, [11]f64) = vjp (\\(x, y) -> aligned x y) (x, y) 1
"""


def arguments(seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    return random.normal(size=9), random.normal(size=11)


def exponentials(target: object) -> int:
    made = compile_program(compile_text(TEXT, "aligned"), target=target)
    return sum(isinstance(s.exp, ir.Op) and s.exp.op == "exp" for s in ir.statements(made.funs["gradient"].body.stms))


def test_each_exponential_is_there_once() -> None:
    assert exponentials(C) == 3


def test_devices_save_less() -> None:
    assert exponentials(CUDA) > 3


@pytest.mark.parametrize("backend", ["interp", pytest.param("c", marks=needs_cc)])
def test_the_gradient(backend: str) -> None:
    program = futad.compile(TEXT, backend=backend)
    for seed in range(3):
        x, y = arguments(seed)
        dx, dy = program.gradient(x, y)
        for k in (0, 4, 8):
            step = np.zeros(9)
            step[k] = 1e-6
            slope = (program.value(x + step, y) - program.value(x - step, y)) / 2e-6
            np.testing.assert_allclose(dx[k], slope, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(dx.sum() + dy.sum(), 0, atol=1e-9)  # it depends on differences alone
