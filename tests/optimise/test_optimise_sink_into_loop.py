"""Arrays of products that a loop reads one part of in each iteration are made in these iterations, for few threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import futad
from futad.core import ir
from futad.core.parse import parse_program
from futad.optimise.sink_into_loop import sink_into_loop
from futad.source import load_program
from futad.target import INTERP, C
from futad.testing.build import common
from tests.support.optimise_support import becomes
from tests.support.paths import BENCHMARK_PROGRAMS as PROGRAMS

TEXT = """
def mm [n][k][m] (a: [n][k]f64) (b: [k][m]f64): [n][m]f64 =
  map (\\row -> map (\\column -> f64.sum (map2 (*) row column)) (transpose b)) a
def next [b][h] (u: [h][h]f64) (z: [b][h]f64) (y: [b][h]f64): [b][h]f64 =
  map2 (map2 (\\z t -> f64.tanh (z + t))) z (mm y u)

def net [t][b][d][h] (w: [d][h]f64) (u: [h][h]f64) (bias: [h]f64) (xs: [t][b][d]f64): [b][h]f64 =
  let zs = map (\\x -> map (map2 (+) bias) (mm x w)) xs
  in loop y = replicate b (replicate h 0) for i < t do next u zs[i] y
entry net_of [t][b][d][h] (w: [d][h]f64) (u: [h][h]f64) (bias: [h]f64) (xs: [t][b][d]f64): [b][h]f64 = net w u bias xs
entry gradient [t][b][d][h] (w: [d][h]f64) (u: [h][h]f64) (bias: [h]f64) (xs: [t][b][d]f64): [d][h]f64 =
  vjp (\\w -> f64.sum (flatten (net w u bias xs))) w 1
-- Read backwards, twice, after the loop, by fewer iterations; overwritten.
entry reversed [t][b][d][h] (w: [d][h]f64) (u: [h][h]f64) (bias: [h]f64) (xs: [t][b][d]f64): [b][h]f64 =
  let zs = map (\\x -> map (map2 (+) bias) (mm x w)) xs
  in loop y = replicate b (replicate h 0) for i < t do next u zs[t - 1 - i] y
entry twice [t][b][d][h] (w: [d][h]f64) (u: [h][h]f64) (bias: [h]f64) (xs: [t][b][d]f64): [b][h]f64 =
  let zs = map (\\x -> map (map2 (+) bias) (mm x w)) xs
  in loop y = replicate b (replicate h 0) for i < t do next u zs[i] (next u zs[t - 1 - i] y)
entry later [t][b][d][h] (w: [d][h]f64) (u: [h][h]f64) (bias: [h]f64) (xs: [t][b][d]f64): ([b][h]f64, [t][b][h]f64) =
  let zs = map (\\x -> map (map2 (+) bias) (mm x w)) xs
  in (loop y = replicate b (replicate h 0) for i < t do next u zs[i] y, zs)
entry fewer [t][b][d][h] (w: [d][h]f64) (u: [h][h]f64) (bias: [h]f64) (xs: [t][b][d]f64): [b][h]f64 =
  let zs = map (\\x -> map (map2 (+) bias) (mm x w)) xs
  in loop y = replicate b (replicate h 0) for i < t / 2 do next u zs[i] y
entry overwritten [t][b][d][h] (w: [d][h]f64) (u: [h][h]f64) (bias: [h]f64) (xs: *[t][b][d]f64)
                               : ([b][h]f64, [t][b][d]f64) =
  let zs = map (\\x -> map (map2 (+) bias) (mm x w)) xs
  in loop (y, xs) = (replicate b (replicate h 0), xs) for i < t do
       (next u zs[i] y, xs with [t - 1 - i] = map (map (* 2)) xs[i])
"""
NAMES = ["net_of", "gradient", "reversed", "twice", "later", "fewer", "overwritten"]


def products_in_loops(p: ir.Program, name: str) -> int:
    def count(lam: ir.Lambda, inside: bool) -> int:
        here = sum(inside and isinstance(s.exp, ir.MatMul) for s in lam.stms)
        return here + sum(count(x, inside or isinstance(s.exp, ir.For)) for s in lam.stms for x in s.exp.lambdas())

    return count(p.funs[name].body, False)


@pytest.mark.slow
def test_which_move(tmp_path: Path) -> None:
    file = tmp_path / "net.fut"
    file.write_text(TEXT)
    few, many = (common(load_program(str(file)), t, check=True) for t in (C, INTERP))
    moved = {n: products_in_loops(few, n) - products_in_loops(many, n) for n in NAMES}
    assert moved == {"net_of": 1, "gradient": 0, "reversed": 0, "twice": 0, "later": 0, "fewer": 0, "overwritten": 0}


@pytest.mark.slow
def test_the_inputs_of_lstm() -> None:
    few, many = (common(load_program(str(PROGRAMS / "lstm.fut")), t) for t in (C, INTERP))
    assert (products_in_loops(few, "objective"), products_in_loops(many, "objective")) == (3, 2)


PARAMS = "n_1: i64, m_2: i64, k_3: i64, xs_4: [n_1][m_2][k_3]f64, w_5: [k_3][k_3]f64, y_6: [m_2][k_3]f64"
BEFORE = """fun main ({params}) -> (r_9: [m_2][k_3]f64) = {{
  let zs_10: [n_1][m_2][k_3]f64 = map(n_1, [xs_4], \\(x_11: [m_2][k_3]f64) -> {{
    {before}
    let p_12: [m_2][k_3]f64 = matmul(x_11, w_5, [])
    in (p_12)
  }})
  let y_20: [m_2][k_3]f64 = for({bound}, [y_6], \\(i_21: i64, y_22: [m_2][k_3]f64) -> {{
    let z_23: [m_2][k_3]f64 = zs_10[i_21]
    let q_24: [m_2][k_3]f64 = matmul(z_23, w_5, [y_22])
    in (q_24)
  }})
  in (y_20)
}}"""
AFTER = """fun main ({params}) -> (r_9: [m_2][k_3]f64) = {{
  let y_20: [m_2][k_3]f64 = for(n_1, [y_6], \\(i_21: i64, y_22: [m_2][k_3]f64) -> {{
    let x_11: [m_2][k_3]f64 = xs_4[i_21]
    {before}
    let z_23: [m_2][k_3]f64 = matmul(x_11, w_5, [])
    let q_24: [m_2][k_3]f64 = matmul(z_23, w_5, [y_22])
    in (q_24)
  }})
  in (y_20)
}}"""


def few(p: ir.Program) -> ir.Program:
    return sink_into_loop(p)


def test_the_rule() -> None:
    harmless = "let t_30: i64 = mul(n_1, 3i64)"
    for before in ("", harmless):
        after = AFTER.format(params=PARAMS, before=before)
        becomes(BEFORE.format(params=PARAMS, before=before, bound="n_1"), after, few)


@pytest.mark.parametrize(
    ("before", "bound"),
    [
        ("", "m_2"),
        ("", "3i64"),
        ("let t_30: i64 = div(n_1, m_2)", "n_1"),
        ('let t_30: [k_3]f64 = w_5[n_1] @"x.fut:1:1-1:2"', "n_1"),
    ],
)
def test_what_stays(before: str, bound: str) -> None:
    """Other numbers of iterations; what can fail."""
    text = BEFORE.format(params=PARAMS, before=before, bound=bound)
    p = parse_program(text)
    assert few(p).funs["main"].body is p.funs["main"].body


@pytest.fixture(scope="module")
def programs() -> dict[str, Any]:
    return {b: futad.compile(TEXT, name="net", backend=b) for b in ("interp", "c", "multicore")}


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore"])
@pytest.mark.parametrize("name", NAMES)
def test_as_the_interpreter(programs: dict[str, Any], backend: str, name: str) -> None:
    r = np.random.default_rng(3)
    for t, b, d, h in ((3, 4, 5, 6), (1, 1, 1, 1), (0, 2, 3, 4), (4, 0, 2, 3), (2, 37, 9, 20)):
        args = tuple(0.3 * r.standard_normal(s) for s in ((d, h), (h, h), (h,), (t, b, d)))
        expected, got = (programs[p][name](*map(np.copy, args)) for p in ("interp", backend))
        for x, y in zip(*(v if isinstance(v, tuple) else (v,) for v in (got, expected)), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)
