"""Loops with products by matrices from outside come out of the maps around them, for C."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import futad
from futad.core import ir
from futad.errors import AssertionFailed
from futad.source import load_program
from futad.target import INTERP, C
from futad.testing.build import common

TEXT = """
def mv [m][n] (a: [m][n]f64) (x: [n]f64): [m]f64 = map (\\row -> f64.sum (map2 (*) row x)) a
def cell [h][d] (w: [h][d]f64) (u: [h][h]f64) (s: [h]f64) (x: [d]f64): [h]f64 =
  map2 (\\p q -> f64.tanh (p + q)) (mv w x) (mv u s)
def net [b][t][d][h] (w: [h][d]f64) (u: [h][h]f64) (xs: [b][t][d]f64): [b][h]f64 =
  map (\\x -> loop s = replicate h 0.1 for i < t do cell w u s x[i]) xs

entry value [b][t][d][h] (w: [h][d]f64) (u: [h][h]f64) (xs: [b][t][d]f64): [b][h]f64 = net w u xs
entry gradient [b][t][d][h] (w: [h][d]f64) (u: [h][h]f64) (xs: [b][t][d]f64): ([h][d]f64, [h][h]f64, [b][t][d]f64) =
  vjp (\\(w, u, xs) -> f64.sum (flatten (net w u xs))) (w, u, xs) 1
entry tangent [b][t][d][h] (w: [h][d]f64) (u: [h][h]f64) (xs: [b][t][d]f64): [b][h]f64 =
  jvp (\\u -> net w u xs) u (map (map f64.cos) u)

-- Before it, between two and after, and of what is before; a bound that is computed inside.
entry around [b][t][d][h] (w: [h][d]f64) (u: [h][h]f64) (xs: [b][t][d]f64): ([b]f64, [b][h]f64, [b]f64) =
  unzip3 (map2 (\\x k ->
    let start = map (\\r -> f64.i64 k + f64.sum r) u
    let scale = 1 + f64.sum (map f64.sum x) ** 2
    let s = loop s = start for i < t - 1 do cell w u s x[i + 1]
    let half = map (/ scale) s
    let r = loop r = half for i < t do map2 (+) half (cell w u r x[t - 1 - i])
    in (f64.sum r + scale, s, f64.maximum start)) xs (iota b))
-- Also in another map, and in another loop.
entry nested [b][t][d][h] (w: [h][d]f64) (u: [h][h]f64) (xs: [b][t][d]f64): [b][2][h]f64 =
  map (\\x -> map (\\c -> loop s = replicate h c for i < t do
                          loop s = s for _j < 2 do cell w u s x[i]) [0.1, 0.2]) xs
-- A matrix of its own for each iteration, one for all points.
entry layers [b][t][d][h] (w: [h][d]f64) (u: [h][h]f64) (xs: [b][t][d]f64): ([h][d]f64, [t][h][h]f64) =
  let start w x = map (* f64.sum (map f64.sum x)) (map f64.sum w)
  let f w us = map (\\x -> loop s = start w x for i < t do map f64.tanh (mv us[i] s)) xs
  in vjp (\\(w, us) -> f64.sum (flatten (f w us))) (w, tabulate t (\\i -> map (map (/ f64.i64 (i + 1))) u)) 1
-- Few iterations, of nothing in each.
entry fixed_point [b][t][d][h] (w: [h][d]f64) (u: [h][h]f64) (xs: [b][t][d]f64): [h][h]f64 =
  let start x = mv w (map f64.sum (transpose x))
  in vjp (\\u -> f64.sum (map (\\x -> f64.sum (loop s = start x for _i < 5 do map f64.tanh (mv u s))) xs)) u 1
-- All states: rows, numbers, from the last to the first; with a gradient.
entry states [b][t][d][h] (w: [h][d]f64) (u: [h][h]f64) (xs: [b][t][d]f64): ([b][t][h]f64, [b][t]f64, [b][t][h]f64) =
  unzip3 (map (\\x ->
    let back = replicate t (replicate h 0.5)
    let (_, hs, ks, back) =
      loop (s, hs, ks, back) = (replicate h 0.1, replicate t (replicate h 0), replicate t 1, back) for i < t do
        let s = cell w u s x[i]
        in (s, hs with [i] = s, ks with [i] = s[0] * 2, back with [t - 1 - i] = map (+ 1) s)
    in (hs, ks, back)) xs)
entry state_gradient [b][t][d][h] (w: [h][d]f64) (u: [h][h]f64) (xs: [b][t][d]f64): ([h][d]f64, [h][h]f64) =
  vjp (\\(w, u) ->
    f64.sum (map (\\x ->
      let (_, hs) = loop (s, hs) = (replicate h 0.1, replicate t (replicate h 0)) for i < t do
        let s = cell w u s x[i]
        in (s, hs with [i] = s)
      in f64.sum (map (\\row -> f64.log (1 + f64.sum (map (** 2) row))) hs)) xs)) (w, u) 1

-- What stays: other iterations in each point, carried rows of other lengths, checks, a budget, no product, small ones.
entry ragged [b][t][d][h] (w: [h][d]f64) (u: [h][h]f64) (xs: [b][t][d]f64): [b][h]f64 =
  map2 (\\x k -> loop s = replicate h 0 for i < i64.min t (k % 4) do cell w u s x[i]) xs (iota b)
entry irregular [b][t][d][h] (w: [h][d]f64) (u: [h][h]f64) (xs: [b][t][d]f64): [b]f64 =
  map2 (\\x k -> let q = replicate (k % 3) 0.5
                 let (s, q) = loop (s, q) = (replicate h 0, q) for i < t do (cell w u s x[i], map (+ s[0]) q)
                 in f64.sum s + f64.sum q) xs (iota b)
entry checked [b][t][d][h] (w: [h][d]f64) (u: [h][h]f64) (xs: [b][t][d]f64): [b][h]f64 =
  map (\\x -> loop s = replicate h 0 for i < t do let s = assert (s[0] < 2) s in cell w u s x[i]) xs
entry alone [b][t][d][h] (w: [h][d]f64) (u: [h][h]f64) (xs: [b][t][d]f64): [b][h]f64 =
  map (\\x -> loop s = replicate h (f64.sum w[0] * u[0, 0]) for i < t do map2 (+) s (replicate h x[i, 0])) xs
entry own [b][t][d][h] (w: [h][d]f64) (u: [h][h]f64) (xs: [b][t][d]f64): [b][t]f64 =
  map (\\x -> loop s = replicate t (f64.sum w[0] * u[0, 0]) for i < t do mv x x[i]) xs
entry small [b][t][d][h] (w: [h][d]f64) (u: [h][h]f64) (xs: [b][t][d]f64): [b][2]f64 =
  let m = [[w[0, 0], 0.5], [u[0, 0], 0.2]]
  in map (\\x -> loop s = [0.0, 1.0] for i < t do map (+ x[i, 0]) (mv m s)) xs
entry states_read [b][t][d][h] (w: [h][d]f64) (u: [h][h]f64) (xs: [b][t][d]f64): [b][t + 1][h]f64 =
  map (\\x -> loop hs = replicate (t + 1) (replicate h 0) for i < t do
              hs with [i + 1] = cell w u (copy hs[i]) x[i]) xs
entry states_of_own [b][t][d][h] (w: [h][d]f64) (u: [h][h]f64) (xs: [b][t][d]f64): [b][t + 1][h]f64 =
  map (\\x -> (loop (s, hs) = (replicate h 0, replicate (t + 1) (replicate h (f64.sum (map f64.sum x)))) for i < t do
              let s = cell w u s x[i] in (s, hs with [i] = s)).1) xs
entry states_placed [b][t][d][h] (w: [h][d]f64) (u: [h][h]f64) (xs: [b][t][d]f64): [b][t][h]f64 =
  map2 (\\x k -> (loop (s, hs) = (replicate h 0, replicate t (replicate h 0)) for i < t do
              let s = cell w u s x[i] in (s, hs with [(i + k) % t] = s)).1) xs (iota b)
entry budget [b][t][d][h] (w: [h][d]f64) (u: [h][h]f64) (xs: [b][t][d]f64): [h][h]f64 =
  #[checkpoint(checkpoints=2)] vjp (\\u -> f64.sum (flatten (net w u xs))) u 1
-- Of nothing in each iteration a return sweep would keep what it need not inside of the map.
entry autonomous [b][t][d][h] (w: [h][d]f64) (u: [h][h]f64) (xs: [b][t][d]f64): [h][h]f64 =
  vjp (\\u -> f64.sum (map (\\x -> f64.sum (loop s = mv w x[0] for _i < t do map f64.tanh (mv u s))) xs)) u 1
"""
OUT = ["value", "gradient", "tangent", "around", "nested", "layers", "fixed_point", "states", "state_gradient"]
STAY = ["ragged", "irregular", "checked", "alone", "own", "small", "budget", "autonomous"]
STAY += ["states_read", "states_of_own", "states_placed"]


def loops_in_maps(p: ir.Program, name: str) -> int:
    def count(lam: ir.Lambda, inside: bool) -> int:
        here = sum(inside and isinstance(s.exp, ir.For) for s in lam.stms)
        return here + sum(count(x, inside or isinstance(s.exp, ir.Mapping)) for s in lam.stms for x in s.exp.lambdas())

    return count(p.funs[name].body, False)


def products_in_loops(p: ir.Program, name: str) -> int:
    def count(lam: ir.Lambda, inside: bool) -> int:
        here = sum(inside and isinstance(s.exp, ir.MatMul) for s in lam.stms)
        return here + sum(count(x, inside or isinstance(s.exp, ir.For)) for s in lam.stms for x in s.exp.lambdas())

    return count(p.funs[name].body, False)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> tuple[ir.Program, ir.Program]:
    file = tmp_path_factory.mktemp("net") / "net.fut"
    file.write_text(TEXT)
    few, others = (common(load_program(str(file)), t, check=True) for t in (C, INTERP))
    return few, others


@pytest.mark.slow
@pytest.mark.parametrize("name", OUT)
def test_loops_come_out(compiled: tuple[ir.Program, ir.Program], name: str) -> None:
    few, others = compiled
    assert loops_in_maps(few, name) == 0 < loops_in_maps(others, name)
    assert products_in_loops(few, name) > products_in_loops(others, name)


@pytest.mark.parametrize("name", STAY)
def test_loops_stay(compiled: tuple[ir.Program, ir.Program], name: str) -> None:
    few, others = compiled
    assert loops_in_maps(few, name) == loops_in_maps(others, name) > 0


@pytest.fixture(scope="module")
def programs() -> dict[str, Any]:
    return {b: futad.compile(TEXT, name="net", backend=b) for b in ("interp", "c", "multicore")}


def arguments(b: int, t: int, d: int, h: int) -> tuple[np.ndarray, ...]:
    r = np.random.default_rng(b + t)
    return tuple(0.4 * r.standard_normal(s) for s in ((h, d), (h, h), (b, t, d)))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore"])
@pytest.mark.parametrize("name", OUT + STAY)
def test_as_the_interpreter(programs: dict[str, Any], backend: str, name: str) -> None:
    for sizes in ((5, 3, 2, 4), (1, 1, 1, 1), (37, 2, 9, 20), (0, 3, 2, 2), (3, 0, 2, 2)):
        if sizes[1] == 0 and name in ("autonomous",):
            continue  # it reads the first part of each
        args = arguments(*sizes)
        want = getattr(programs["interp"], name)(*args)
        got = getattr(programs[backend], name)(*args)
        for x, y in zip(*[v if isinstance(v, tuple) else (v,) for v in (got, want)], strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_derivatives(programs: dict[str, Any]) -> None:
    """Central differences, and <ybar, J xdot> = <J^T ybar, xdot>."""
    w, u, xs = arguments(6, 4, 3, 5)
    p = programs["c"]
    for at, du in ((1, np.cos(u)), (1, np.sin(3 * u))):
        gradient = np.sum(p.gradient(w, u, xs)[at] * du)
        eps = 1e-6
        difference = (p.value(w, u + eps * du, xs) - p.value(w, u - eps * du, xs)).sum() / (2 * eps)
        np.testing.assert_allclose(gradient, difference, rtol=1e-7)
    np.testing.assert_allclose(p.tangent(w, u, xs).sum(), np.sum(p.gradient(w, u, xs)[1] * np.cos(u)), rtol=1e-11)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["interp", "c", "multicore"])
def test_failures_stay(programs: dict[str, Any], backend: str) -> None:
    w, u, xs = arguments(4, 3, 2, 3)
    assert np.isfinite(programs[backend].checked(w, u, xs)).all()
    with pytest.raises(AssertionFailed):
        futad.compile(TEXT.replace("s[0] < 2", "s[0] < -2"), backend=backend).checked(w, u, xs)
