"""Programs in the source language that try the engine: derivatives of the program's own, memory that is used again,
branches, derivatives inside derivatives; against the transformation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import futad
from futad.core.parse import parse_program
from futad.dual.engine import DualInterpreter
from futad.testing.fuzz.oracle import equal
from tests.support.slow import slow_but

CUSTOM = """
def square (x: f64): f64 = with_vjp (\\x -> x * x) (\\y dy -> 3 * y * dy) x
def taped (x: f64): f64 =
  with_vjp_tape (\\x -> let e = f64.exp x in ((e, x), e * x)) (\\((e, x), dy) -> dy * (e + 1) * x) x
def rows [n] (c: f64) (xs: [n]f64): [n]f64 =
  with_vjp (\\xs -> map (* c) xs) (\\ys dys -> map2 (\\y d -> d * y * c) ys dys) xs
def f [n] (c: f64) (xs: [n]f64): f64 =
  let a = map (\\x -> if x > 0 then square (x * c) else taped x) xs
  let b = loop a for i < n do
    let k = f64.i64 i * c
    in map (\\x -> with_vjp (\\x -> x * k) (\\y d -> d * k * y) x) (rows k a)
  let d = map (\\x -> if x != 0 then with_vjp (\\c -> c / x) (\\_ d -> d / x) c else 0) xs
  in f64.sum (map2 (*) b xs) + f64.sum d
entry value [n] (c: f64) (xs: [n]f64): f64 = f c xs
"""

MEMORY = """
def f [n] (c: f64) (xs: [n]f64): f64 =
  let es = map f64.exp xs
  let s = f64.sum (map2 (*) es es)
  let es = if n > 0 then es with [0] = c * s else es
  let ys = copy es
  let ys = loop ys for i < n - 1 do
    let before = ys[i] * xs[i]
    let ys = ys with [i + 1] = ys[i + 1] * before
    in if before > 1 then ys with [i] = before else ys
  let zs = scatter (copy ys) (map (\\i -> (i * i) % 5 - 1) (iota n)) (map (* c) ys)
  let hs = reduce_by_index (copy zs) f64.max f64.lowest (map (% 3) (iota n)) ys
  in f64.sum (map3 (\\a b c -> a * b + c * c) hs ys zs) + f64.product (map (\\y -> 1 + y * 0.01) ys)
entry value [n] (c: f64) (xs: [n]f64): f64 = f c xs
"""

INNER = """
def g [n] (c: f64) (xs: [n]f64): f64 = f64.sum (map (\\x -> f64.sin (c * x) * x) xs)
def f [n] (c: f64) (xs: [n]f64): f64 =
  let (a, bs) = vjp (\\(c, xs) -> g c xs) (c, xs) 1
  let ds = jvp (\\xs -> map (\\x -> x * x * a) xs) xs bs
  let hot = map (\\i -> map (\\j -> f64.bool (i == j)) (iota n)) (iota n)
  let rows = mjp (\\xs -> scan (*) 1 (map (\\x -> 1 + 0.1 * x) xs)) xs hot
  let per = map2 (\\x d -> if d > 0 then vjp (\\y -> y * y * c * d) x x else jvp (\\c -> x / (1 + c * c)) c d) xs ds
  in f64.sum per + f64.sum (map2 (\\r d -> d * f64.sum r) rows ds) + a * a
entry value [n] (c: f64) (xs: [n]f64): f64 = f c xs
"""

MASKS = """
def f [n] (c: f64) (xs: [n]f64): f64 =
  let one x = if x == 0 then c else if x < 0 then f64.log (-x) * c else f64.sqrt x / x
  let two x = (loop (y, k) = (x, 0i64) while k < 9 && f64.abs y > 0.1 do (y * c * 0.3, k + 1)).0
  let three x k = loop y = x for i < k do if i % 2 == 0 then y / x else y + c * x
  in f64.sum (map one xs) + f64.sum (map two xs) + f64.sum (map2 three (map (+ 3) xs) (indices xs))
entry value [n] (c: f64) (xs: [n]f64): f64 = f c xs
"""

# What backpropagators remember of arrays that are overwritten afterwards: positions, flags, factors, results.
ALIASES = """
def f [n] (c: f64) (xs: [n]f64): f64 =
  let is = map (\\i -> (i * 3 + 1) % (i64.max n 1)) (iota n)
  let ys = map (\\i -> xs[i] * c) is
  let is = is with [n - 1] = n - 1
  let bs = map (> 0.2) xs
  let zs = map2 (\\b x -> if b then x * x * c else x) bs ys
  let bs = bs with [n - 1] = !bs[n - 1]
  let ws = map (* c) zs
  let (us, ds) = vjp2 (\\ws -> ws) ws zs
  let vs = jvp (\\ws -> ws) ws us
  let total = f64.sum (map3 (\\w u d -> w * u + d * w) ws us ds) + f64.sum (map2 (*) vs vs)
  let hs = with_vjp (\\ws -> map (* c) ws) (\\hs d -> map2 (*) hs d) ws
  let gs = map (* 2) hs
  let hs = hs with [0] = 9
  let qs = map (* c) zs
  let total = total + f64.sum (with_vjp (\\qs -> qs) (\\rs d -> map2 (*) rs d) qs)
  let qs = qs with [0] = 7
  let total = total + f64.sum (map2 (*) qs zs)
  in total + f64.sum (map3 (\\i b z -> if b then z * f64.i64 i else z) is bs zs) + f64.sum (map2 (*) gs hs)
entry value [n] (c: f64) (xs: [n]f64): f64 = f c xs
"""

MODES = """
entry rev [n] (c: f64) (xs: [n]f64) = vjp (\\(c, xs) -> f c xs) (c, xs) 1
entry fwd [n] (c: f64) (xs: [n]f64) = jvp (\\(c, xs) -> f c xs) (c, xs) (0.5, map (\\x -> 1 - x) xs)
entry fwdrev [n] (c: f64) (xs: [n]f64) = jvp (\\(c, xs) -> vjp (\\(c, xs) -> f c xs) (c, xs) 1) (c, xs) (0.5, xs)
entry revrev [n] (c: f64) (xs: [n]f64) = vjp (\\(c, xs) -> vjp (\\(c, xs) -> f c xs) (c, xs) 1) (c, xs) (0.5, xs)
entry revfwd [n] (c: f64) (xs: [n]f64) = vjp (\\(c, xs) -> jvp (\\(c, xs) -> f c xs) (c, xs) (0.5, xs)) (c, xs) 1
entry third [n] (c: f64) (xs: [n]f64) =
  vjp (\\c -> (jvp (\\(c, xs) -> vjp (\\(c, xs) -> f c xs) (c, xs) 1) (c, xs) (0.5, xs)).0) c 1
"""
INPUTS = [np.array(x, dtype=float) for x in ([], [0.5], [0.5, -1.0, 2.0, 0.0, 0.7, -0.3], [1.0, 1.0, 0.0, -1.0, 1.0])]


@pytest.fixture(scope="module", params=slow_but(["MASKS"], ["CUSTOM", "MEMORY", "INNER", "MASKS", "ALIASES"]))
def both(request: pytest.FixtureRequest) -> Any:
    text = globals()[request.param] + MODES
    return [futad.compile(text, backend="interp", method=m) for m in ("transform", "dual")]


def test_results_of_derivatives_are_in_memory_of_their_own() -> None:
    """As those of every construct that is not a view: what overwrites one leaves the argument as it was."""
    text = """
fun main [n_1: i64] (xs_2: [n_1]f64, ys_3: [n_1]f64) -> (a_20: [n_1]f64, b_21: [n_1]f64, c_22: [n_1]f64) = {
  let z_9: [n_1]f64 = copy(ys_3)
  let (r_10: [n_1]f64, s_11: [n_1]f64) = vjp(\\(x_4: [n_1]f64) -> { in (z_9) }, [xs_2], [z_9], [])
  let (t_12: [n_1]f64, u_13: [n_1]f64) = jvp(\\(x_5: [n_1]f64) -> { in (z_9) }, [xs_2], [z_9], [])
  let a_14: [n_1]f64 = update(r_10, [0i64], 7.0f64, None)
  let b_15: [n_1]f64 = update(t_12, [0i64], 8.0f64, None)
  in (a_14, b_15, z_9)
}
"""
    xs, ys = np.arange(3.0), np.arange(3.0) + 5
    got = DualInterpreter(parse_program(text)).run("main", [np.int64(3), xs, ys])
    assert [g.tolist() for g in got] == [[7, 6, 7], [8, 6, 7], [5, 6, 7]]


@pytest.mark.parametrize("method", ["transform", "dual"])
def test_axes_of_one_element_are_in_memory_of_their_own(method: str) -> None:
    """A row that repeats a number once, and the sum of one element, which is then overwritten."""
    text = """
def f [n] (xs: [n]f64) (ps: [n]i64): [n][1]f64 =
  tabulate n (\\i ->
    let (x, p) = (xs[i], ps[i])
    let r = replicate 1 x with [p] = 0.5
    let s = f64.sum r
    let r = r with [p] = s * x * x
    in r with [p] = r[p] + s)
entry fwd [n] (xs: [n]f64) (ps: [n]i64) = jvp (\\xs -> f xs ps) xs (map (const 1) xs)
entry rev [n] (xs: [n]f64) (ps: [n]i64) = vjp (\\xs -> f xs ps) xs (map (const [1]) xs)
"""
    program = futad.compile(text, backend="interp", method=method)
    xs = np.array([3.0, -2.0, 0.25])
    for entry in ("fwd", "rev"):
        assert np.ravel(program.entries[entry](xs, np.zeros(3, "i8"))).tolist() == xs.tolist()


def test_one_line_a_trace_of_many_directions(capfd: pytest.CaptureFixture[str]) -> None:
    text = "entry f (x: f64): [3]f64 = jmp (\\x -> trace (x * x)) x [1, 2, 3]"
    assert futad.compile(text, method="dual").f(1.5).tolist() == [3.0, 6.0, 9.0]
    assert capfd.readouterr().err.count("2.25") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "mode", slow_but(["value", "fwdrev"], ["value", "rev", "fwd", "fwdrev", "revrev", "revfwd", "third"])
)
def test_modes(both: Any, mode: str) -> None:
    plain, dual = both
    compared = 0
    for xs in INPUTS:
        try:
            want = plain[mode].call_leaves([np.float64(0.8), xs])
        except futad.Error as e:
            with pytest.raises(type(e)):
                dual[mode].call_leaves([np.float64(0.8), xs])
            continue
        got = dual[mode].call_leaves([np.float64(0.8), xs])
        assert all(np.isfinite(w).all() for w in want)
        assert equal(got, want, "f8") == "", xs
        compared += 1
    assert compared
