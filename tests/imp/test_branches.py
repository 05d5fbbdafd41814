"""Arrays that branches return: in place where nobody needs what was there, and right everywhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from futad.core.interp import Interpreter
from futad.imp import ir
from futad.imp.lower import Lowerer
from futad.imp.walk import statements
from futad.source import compile_text
from futad.target import C
from futad.testing.build import c_backend, common, lowered

LOOPS = """
-- The adjoint of an element that is read under a condition.
entry filter [n] (c: [4]f64) (x: [n]f64): [4]f64 =
  vjp (\\c -> loop s = 0 for i < n do s + c[0] * x[i] + (if i > 0 then f64.sin (c[1] * x[i - 1]) else 0)) c 1
entry accepted (n: i64) (s: f64): [4]f64 =
  loop x = replicate 4 s for i < n do
    let y = map (\\v -> f64.sin (v * s + f64.i64 i)) x
    in if f64.sum y - f64.sum x < 0.1 then y else x
entry until (n: i64) (s: f64): ([4]f64, i64) =
  loop (x, k) = (replicate 4 s, 0) while k < n do
    if x[1] < x[2] then (x with [k % 4] = x[0] + 1, k + 1)
    else if x[2] < x[3] then (x with [k % 4] = x[0] * 0.5, k + 2)
    else (x with [0] = x[0] - 1, k + 3)
entry inner (n: i64) (s: f64): [4]f64 =
  loop x = replicate 4 s for i < n do
    if x[i % 4] < 9 then (loop x for j < 4 do x with [j] = x[j] * 2 + x[(j + i) % 4]) else x
entry two (n: i64) (s: f64): ([4]f64, [2][2]f64) =
  loop (x, y) = (replicate 4 s, replicate 2 (replicate 2 (s + 1))) for i < n do
    if s > x[i % 4] - 1 then (x with [i % 4] = y[0, 0], y) else (x, y with [i % 2, 1] = x[1])
entry sorted [n] (xs: [n]f64): [n]f64 =
  loop xs = copy xs for i < n do
    loop xs for j < n - 1 do
      let (a, b) = (xs[j], xs[j + 1])
      in if a > b then (xs with [j] = b) with [j + 1] = a else xs
"""

EDGES = """
entry different (k: i64) (s: f64): [4]f64 =
  let x = map (\\i -> f64.sin (f64.i64 i + s)) (iota 4)
  let y = map (\\i -> f64.cos (f64.i64 i * s)) (iota 4)
  let z = if k > 4 then x else y
  in z with [k % 4] = 7
entry by_condition (n: i64) (s: f64): [4]f64 =
  loop x = replicate 4 s for i < n do
    if x[i % 4] < f64.sum x * 0.3 then (x with [i % 4] = s * 3) with [(i + 1) % 4] = s * 5 else x
entry reads_old (n: i64) (s: f64): ([4]f64, f64) =
  loop (x, t) = (replicate 4 s, 0) for i < n do
    if i % 3 == 1 then let y = copy x with [i % 4] = s + t in (y, t + x[i % 4] * y[1]) else (x, t + 1)
entry twice (k: i64) (s: f64): ([4]f64, [4]f64) =
  let x = map (\\i -> f64.sin (f64.i64 i + s)) (iota 4)
  let y = map (\\i -> f64.cos (f64.i64 i * s)) (iota 4)
  in if k > 4 then (x, x) else (y, copy x with [1] = 2)
entry empty (n: i64) (s: f64): ([0]f64, [0][3]f64) =
  loop (x, y) = (replicate 0 s, replicate 0 (replicate 3 s)) for i < n do
    if i % 2 == 0 then (map (+ 1) x, y) else (x, map (map (* s)) y)
entry columns (n: i64) (s: f64): ([4][4]f64, [4]f64) =
  let m = map (\\i -> map (\\j -> f64.sin (f64.i64 (i * 5 + j) + s)) (iota 4)) (iota 4)
  let t = if n > 4 then transpose m else m
  let c = if n > 4 then (transpose m)[1] else m[2]
  in (t, map (* 2) c)
entry lengths [m] (n: i64) (xs: [m]f64): ([]f64, i64) =
  loop (xs: []f64, k) = (xs, 0) for i < n do
    if length xs > 2 && i % 2 == 0 then (drop 1 xs, k + 1) else (xs ++ [xs[0] + 1], k)
"""


def emitted(entry: str) -> list[ir.Stmt]:
    """The statements of an entry's loops."""
    program = lowered(common(compile_text(LOOPS, "test.fut"), C), C)
    fun = next(f for f in Lowerer(program, C).module().functions if f.name == entry)
    loops = [s for s in statements(fun.body) if isinstance(s, ir.While) or (isinstance(s, ir.For) and _branches(s))]
    assert loops
    return [s for loop in loops for s in statements(loop.body)]


def _branches(loop: ir.For) -> bool:
    return any(isinstance(s, ir.If) for s in statements(loop.body))


@pytest.mark.parametrize("entry", ["filter", "until", "inner", "two", "sorted"])
def test_what_is_updated_under_a_condition_is_not_copied(entry: str) -> None:
    assert not [s for s in emitted(entry) if isinstance(s, ir.Copy | ir.Ensure)]


def test_what_is_rejected_is_not_copied() -> None:
    [both] = [s for s in emitted("accepted") if isinstance(s, ir.If)]
    assert [type(s) for s in both.then] == [ir.Copy] and not both.orelse


XS = np.array([0.3, -1.2, 4.0, 0.7, -0.1, 2.5, 1.5])
SIZED: dict[str, list[list[Any]]] = {  # arguments after their sizes
    "filter": [[7, XS[:4], XS], [1, XS[:4], XS[:1]]],
    "sorted": [[7, XS], [0, XS[:0]]],
    "lengths": [[3, 9, XS[:3]]],
}


@pytest.mark.parametrize("multicore", [False, True])
@pytest.mark.parametrize("text", [LOOPS, EDGES])
def test_values(text: str, multicore: bool) -> None:
    program = common(compile_text(text, "test.fut"), C)
    backend, interpreter = c_backend(program, multicore), Interpreter(program)
    for entry in (f.name for f in program.funs.values() if f.entry is not None):
        for args in SIZED.get(entry, [[3, 0.4], [8, -0.7], [0, 0.2]]):
            wanted = interpreter.run(entry, args)
            for a, b in zip(backend.run(entry, args), wanted, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12, err_msg=f"{entry} {args}")
