"""The C backends: what iterations add to several places of one array goes through buffers; branches at borders are
split off where both sides compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import futad
from futad.backend.c import CBackend
from futad.core.interp import Interpreter
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import C
from futad.testing.build import c_backend
from tests.support.needs import needs_cc
from tests.support.paths import ROOT

TEXT = """
def pull [n] (x: [n]f64) (i: i64): f64 =
  let l = if i > 0 then x[i] - x[i - 1] else x[i]
  let r = if i < n - 1 then x[i + 1] - x[i] else 0
  in f64.sin l * l - (if i < n - 1 then x[i + 1] * f64.sin r else 0)
def chain [n] (x: [n]f64): [n]f64 = tabulate n (pull x)
def clamped [n] (x: [n]f64): [n]f64 =
  tabulate n (\\i -> f64.exp (0.1 * x[i64.max 0 (i - 2)]) * x[i] + f64.sin x[i64.min (n - 1) (i + 1)])
def around [n] (x: [n]f64): [n]f64 = tabulate n (\\i -> x[(i + 1) % n] * f64.cos x[(i + n - 1) % n] - x[i])
def plane [n] (x: [n]f64): f64 =
  let u = map (\\a -> map (\\b -> a * b) x) x
  in f64.sum (map f64.sum (tabulate_2d n n (\\i j ->
       let at a b = if a < 0 || a >= n || b < 0 || b >= n then u[i, j] else u[a, b]
       in f64.tanh (at (i - 1) j + at (i + 1) j + at i (j - 1) * at i (j + 1)))))
entry chain_slopes [n] (x: [n]f64): [n]f64 = vjp chain x (map (+ 1) x)
entry clamped_slopes [n] (x: [n]f64): [n]f64 = vjp clamped x (map (+ 1) x)
entry around_slopes [n] (x: [n]f64): [n]f64 = vjp around x (map (+ 1) x)
entry plane_slopes [n] (x: [n]f64): [n]f64 = vjp plane x 1
entry steps [n] (x: [n]f64): [n]f64 =
  vjp (\\x -> f64.sum (loop x = x for _i < 5 do map2 (\\a b -> a + 0.1 * b) x (chain x))) x 1
entry curves [n] (x: [n]f64): [n]f64 = vjp (\\x -> vjp chain x x |> map f64.sin |> f64.sum) x 1
entry single [n] (x: [n]f64): [n]f32 =
  let f y = tabulate n (\\i -> if i > 1 then y[i - 2] * y[i] else y[i] * y[i] * y[i])
  in vjp f (map f32.f64 x) (replicate n 1)
entry whole [n] (x: [n]f64): [n + 3]i64 =
  let k = map (\\v -> i64.f64 (100 * v)) x
  in reduce_by_index (replicate (n + 3) 7) (+) 0 (iota n ++ map (+ 3) (iota n) ++ map (+ 1) (iota n))
                     (k ++ map (* 2) k ++ map (\\v -> v * v) k) :> [n + 3]i64
"""
NAMES = ("chain_slopes", "clamped_slopes", "around_slopes", "plane_slopes", "steps", "curves", "single", "whole")


@pytest.fixture(scope="module")
def core() -> Any:
    return compile_program(compile_text(TEXT, "additions.fut"), check=True, target=C)


@pytest.mark.slow
def test_which_have_buffers(core: Any) -> None:
    with counting() as counts:
        module = c_backend(core).module
    assert counts["staged-additions"] >= 5 and counts["index-set-splitting"] >= 5
    assert {f.name for f in module.functions} >= set(NAMES)
    with counting() as counts:
        assert c_backend(core, reassociates=False).module.functions
    assert counts["staged-additions"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_as_the_interpreter(core: Any, backend: CBackend, name: str) -> None:
    for n in (0, 1, 2, 3, 5, 64, 65, 127, 128, 129, 130, 131, 260, 300):
        x = np.random.default_rng(n).uniform(-1, 1, n)
        if name == "plane_slopes" and n > 131:
            continue
        for a, e in zip(backend.run(name, [n, x]), Interpreter(core).run(name, [n, x]), strict=True):
            assert np.shape(a) == np.shape(e)
            rtol = {"single": 1e-5, "whole": 0.0}.get(name, 1e-11)
            np.testing.assert_allclose(a, e, rtol=rtol, atol=rtol, err_msg=f"{name} {n}")


@pytest.mark.slow
def test_not_a_number_stays_where_it_is(core: Any, backend: CBackend) -> None:
    x = np.random.default_rng(1).uniform(-1, 1, 200)
    x[[0, 77, 199]] = np.nan, np.inf, np.nan
    with np.errstate(all="ignore"):
        (e,) = Interpreter(core).run("chain_slopes", [200, x])
    (a,) = backend.run("chain_slopes", [200, x])
    np.testing.assert_allclose(a, e, rtol=1e-11)
    assert np.isfinite(np.asarray(a)[2:70]).all()


@needs_cc
@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore"])
def test_places_are_made_of_what_was_there_before_the_loop(backend: str) -> None:
    """The adjoint of an array lies in its memory, and the places where its elements add are computed of it."""
    text = (ROOT / "tests/legality/staged.fut").read_text()
    with counting() as counts:
        program = futad.compile(text, backend=backend)
        program.executor()
    assert counts["staged-additions"] and counts["over inputs"]
    reference = futad.compile(text, backend="interp")
    rng = np.random.default_rng(1)
    for n in (0, 1, 2, 7, 129, 1000):
        table, ys = rng.normal(size=8), rng.uniform(0, 2, n)
        for got, want in zip(program.table(table, ys), reference.table(table, ys), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10)
