"""Costly scalars that both sweeps of an inner loop compute are saved by the first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import futad
from futad.core import ir
from futad.pipeline import compile_program
from futad.source import load_program

PROGRAMS = Path(__file__).parents[1] / "benchmarks" / "programs"

TEXT = """
def layer [b] (w: [b]f64) (x: [b]f64): [b]f64 = map2 (\\w x -> f64.tanh (w * x) + f64.exp (-x * x)) w x
def net [n][l][b] (ws: [l][b]f64) (xs: [n][b]f64): f64 =
  f64.sum (loop y = replicate b 1 for t < n do
             map2 (+) xs[t] (loop y for i < l do layer ws[i] y))
entry value [n][l][b] (ws: [l][b]f64) (xs: [n][b]f64): f64 = net ws xs
entry gradient [n][l][b] (ws: [l][b]f64) (xs: [n][b]f64): [l][b]f64 = vjp (\\ws -> net ws xs) ws 1
entry once [l][b] (ws: [l][b]f64) (x: [b]f64): [l][b]f64 =
  vjp (\\ws -> f64.sum (loop y = x for i < l do layer ws[i] y)) ws 1
entry cheap [n][l][b] (ws: [l][b]f64) (xs: [n][b]f64): [l][b]f64 =
  vjp (\\ws -> f64.sum (loop y = replicate b 1 for t < n do
                         map2 (+) xs[t] (loop y for i < l do map2 (\\w y -> w * y * y) ws[i] y))) ws 1
"""


def costly(core: Any, name: str) -> int:
    """Exponentials and hyperbolic tangents in a function's text."""

    def count(lam: ir.Lambda) -> int:
        here = sum(isinstance(s.exp, ir.Op) and s.exp.op in ("exp", "tanh") for s in lam.stms)
        return here + sum(count(inner) for s in lam.stms for inner in s.exp.lambdas())

    return count(core.funs[name].body)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("saved") / "saved.fut"
    file.write_text(TEXT)
    return file


def test_only_sweeps_that_go_forward_compute_them(file: Path) -> None:
    """Forward, and again in each turn of the outer loop's return sweep; not in the inner return sweep."""
    core = compile_program(load_program(str(file)))
    before = compile_program(load_program(str(file)), stop_after="simplify-fused")
    assert (costly(before, "gradient"), costly(core, "gradient")) == (6, 4)
    assert costly(before, "once") == costly(core, "once") == 4
    assert costly(before, "cheap") == costly(core, "cheap") == 0


def test_the_gates_of_dlstm() -> None:
    core = compile_program(load_program(str(PROGRAMS / "dlstm.fut")))
    before = compile_program(load_program(str(PROGRAMS / "dlstm.fut")), stop_after="simplify-fused")
    assert costly(before, "gradient") - costly(core, "gradient") == 5


@pytest.mark.parametrize("n,l,b", [(0, 2, 3), (1, 0, 2), (1, 1, 1), (3, 4, 5), (2, 3, 0)])
def test_answers(file: Path, n: int, l: int, b: int) -> None:  # noqa: E741
    rng = np.random.default_rng(n + l)
    ws, xs = rng.standard_normal((l, b)), rng.standard_normal((n, b))
    programs = [futad.load(file, backend=backend) for backend in ("interp", "c", "multicore")]
    expected = [f(*args) for f, args in ((programs[0].gradient, (ws, xs)), (programs[0].once, (ws, np.ones(b))))]
    for p in programs[1:]:
        for a, e in zip((p.gradient(ws, xs), p.once(ws, np.ones(b))), expected, strict=True):
            np.testing.assert_allclose(a, e, rtol=1e-12, atol=1e-12)
    step = 1e-6
    for i in range(l):
        for j in range(b):
            up, down = ws.copy(), ws.copy()
            up[i, j] += step
            down[i, j] -= step
            slope = (programs[1].value(up, xs) - programs[1].value(down, xs)) / (2 * step)
            assert abs(slope - expected[0][i, j]) < 1e-6 * max(1, abs(slope))


FEWER = """
def f [n][m] (k: i64) (a: [n]f64) (b: [m]f64): f64 =
  let r = loop s = copy b for i < n do
    let t = map (* a[i]) s
    in loop t for j < k do map2 (\\x y -> f64.exp (-x * y) * f64.tanh (x + y + f64.i64 j)) t b
  in f64.sum r
-- Turns counted in another type than sizes.
def g [n][m] (k: i32) (a: [n]f64) (b: [m]f64): f64 =
  let r = loop s = copy b for i < n do
    loop t = map (* a[i]) s for j < k do map2 (\\x y -> f64.exp (-x * y) * f64.tanh (x + y + f64.i32 j)) t b
  in f64.sum r
entry along_f [n][m] (k: i64) (a: [n]f64) (b: [m]f64) (u: [n]f64) (v: [m]f64) =
  jvp (\\(a, b) -> f k a b) (a, b) (u, v)
entry back_f [n][m] (k: i64) (a: [n]f64) (b: [m]f64) = vjp (\\(a, b) -> f k a b) (a, b) 1
entry along_g [n][m] (k: i32) (a: [n]f64) (b: [m]f64) (u: [n]f64) (v: [m]f64) =
  jvp (\\(a, b) -> g k a b) (a, b) (u, v)
entry back_g [n][m] (k: i32) (a: [n]f64) (b: [m]f64) = vjp (\\(a, b) -> g k a b) (a, b) 1
"""


@pytest.mark.parametrize("backend", ["interp", "c", "emulated"])
@pytest.mark.parametrize("name", ["f", "g"])
def test_a_negative_number_of_turns_is_none(backend: str, name: str) -> None:
    """What is saved has room for no turn, not for less than none."""
    p = futad.compile(FEWER, backend=backend, check=True)
    rng = np.random.default_rng(3)
    for k in (-3, -1, 0, 1, 4):
        for n, m in ((2, 3), (1, 1), (0, 2)):
            a, b, u, v = rng.uniform(0, 1, n), rng.uniform(0, 1, m), rng.standard_normal(n), rng.standard_normal(m)
            da, db = p[f"back_{name}"](k, a, b)
            assert abs(da @ u + db @ v - p[f"along_{name}"](k, a, b, u, v)) < 1e-12, (k, n, m)
