"""The C backends: maps around loops that turn out to be short, many iterations of the map at a time in vector lanes."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest

from futad.backend.c import CBackend
from futad.core.interp import Interpreter
from futad.core.ir import Program
from futad.errors import BoundsError
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import MULTICORE, C
from tests.support.slow import slow_but

TEXT = """
def lse [m] (v: [m]f64): f64 =
  let top = f64.maximum v in top + f64.log (f64.sum (map (\\u -> f64.exp (u - top)) v))
def score [d] (w: [d]f64) (row: [d]f64): f64 = f64.sum (map2 (*) row w)

entry sums [n][d] (x: [n][d]f64) (w: [d]f64): f64 = f64.sum (map (\\r -> f64.log (1 + f64.exp (score w r))) x)
entry values [n][d] (x: [n][d]f64) (w: [d]f64): [n]f64 = map (\\r -> f64.tanh (score w r) + f64.exp (score r r)) x
entry slopes [n][d] (x: [n][d]f64) (w: [d]f64): ([n][d]f64, [d]f64) =
  vjp (\\(x, w) -> f64.sum (map (\\r -> f64.log (1 + f64.exp (score w r))) x)) (x, w) 1
entry rows [n][d] (x: [n][d]f64) (w: [d]f64): [n][d]f64 =
  map (\\r -> let z = lse r in map2 (\\v u -> f64.exp (v - z) * u) r w) x
entry densities [n][d] (x: [n][d]f64) (w: [d]f64): f64 =
  f64.sum (map (\\r -> lse (map (\\u -> -f64.sum (map (\\v -> (v - u) ** 2) r)) w)) x)
entry density_slopes [n][d] (x: [n][d]f64) (w: [d]f64): [d]f64 =
  vjp (\\w -> f64.sum (map (\\r -> lse (map (\\u -> -f64.sum (map (\\v -> (v - u) ** 2) r)) w)) x)) w 1
entry hessian [n][d] (x: [n][d]f64) (w: [d]f64): [d]f64 =
  jvp (\\w -> vjp (\\w -> f64.sum (map (\\r -> f64.log (1 + f64.exp (score w r))) x)) w 1) w (map (+ 1) w)
entry largest [n][d] (x: [n][d]f64) (w: [d]f64): (f64, f64) =
  let z = map (\\r -> f64.exp (f64.sin (score w r)) * f64.maximum r) x in (f64.maximum z, f64.minimum z)
entry single [n][d] (x: [n][d]f64) (w: [d]f64): [n]f32 =
  let (x, w) = (map (map f32.f64) x, map f32.f64 w)
  in map (\\r -> f32.exp (f32.sin (f32.sum (map2 (*) r w)))) x
entry triples [n][d] (x: [n][d]f64) (w: [d]f64): [n]f64 =
  map (\\r -> let z = score w r in f64.sum (map (\\i -> f64.exp (-z * z * f64.i64 i) + f64.sin (f64.i64 i)) (iota 3))) x
entry places [n][d] (x: [n][d]f64) (w: [d]f64): [n]f64 =
  map (\\r -> let k = i64.f64 (f64.exp (f64.abs (score w r))) in f64.exp (-w[k]) + f64.tanh (score r r)) x
"""
IN_LANES = (
    "sums", "values", "slopes", "rows", "densities", "density_slopes", "hessian", "largest", "triples",
)  # fmt: skip
SIZES = [(0, 3), (1, 1), (3, 2), (16, 5), (17, 8), (33, 1), (70, 4), (40, 9), (64, 17)]


@cache
def _program() -> Program:
    return compile_program(compile_text(TEXT), target=C)


@cache
def _backend(name: str) -> CBackend:
    target = MULTICORE if name == "multicore" else C
    return CBackend(compile_program(compile_text(TEXT), target=target), target, 64)


def _arguments(n: int, d: int) -> list[Any]:
    r = np.random.default_rng([n, d])
    return [np.int64(n), np.int64(d), r.normal(size=(n, d)), r.normal(size=d)]


@pytest.mark.parametrize("name", IN_LANES)
def test_which_are_in_lanes(name):
    source = _backend("c").source
    body = source[source.index(f"int64_t futad_entry_{name}(") :]
    body = body[: body.index("\n}\n")]
    assert "lane < 32" in body
    assert "<= 8)" in body, "it is known when the program runs"


@pytest.mark.parametrize("name", ["values", "slopes", "rows"])
def test_places_are_computed_where_they_are_used(name):
    """Of places that are read from an array GCC does not see how far apart they are."""
    source = _backend("c").source
    body = source[source.index(f"int64_t futad_entry_{name}(") :]
    body = body[: body.index("\n}\n")]
    assert re.search(r"double lanes_\w+\[32\]", body)
    assert not re.search(r"int64_t lanes_o_\d+\[", body)


def test_the_loop_that_goes_on_is_there_once():
    """Where blocks run it begins after them, else with the first iteration."""
    source = _backend("c").source
    body = source[source.index("int64_t futad_entry_rows(") :]
    body = body[: body.index("\n}\n")]
    (done,) = re.findall(r"int64_t (done_\d+) = 0;", body)
    assert re.search(rf"{done} = i_\d+;\n  }}\n", body)
    assert len(re.findall(rf"for \(int64_t \w+ = {done};", body)) == 1


def test_copies_of_small_arrays_give_no_function_their_address():
    """They would not be in registers in the loops before; of other copies that are made once a call is less code."""
    program = compile_text("""
entry small [n] (xs: [n]f64): [3]f64 = loop s = [0, 1, 2] for x in xs do [s[1] * x, s[2] + x, s[0]]
entry large [n] (xs: [n]f64): [n]f64 = let ys = copy xs in if n > 1 then ys with [1] = 3 else ys
""")
    source = CBackend(compile_program(program, target=C)).source
    small, large = [source[source.index(f"int64_t futad_entry_{name}(") :] for name in ("small", "large")]
    assert "futad_copy_once(" in large[: large.index("\n}\n")]
    assert "futad_copy(" in small[: small.index("\n}\n")] and "_once(" in small
    assert "futad_copy_once(" not in small[: small.index("\n}\n")]


def test_functions_are_called_on_lanes_side_by_side():
    """Loads and stores at a distance have loops of their own: GCC vectorises no loop with such stores."""
    source = _backend("c").source
    body = source[source.index("int64_t futad_entry_rows(") :]
    loops = body[: body.index("\n}\n")].split("for (int64_t lane = 0; lane < 32;")[1:]
    calls = [x[: x.index("}")] for x in loops if "futad_exp_f64(" in x[: x.index("}")]]
    assert calls and all("= lanes_" in x for x in calls)
    assert not any(re.search(r"\w\[o_\d+", x) for x in calls)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "d"), slow_but([(17, 8), (40, 9)], SIZES))
@pytest.mark.parametrize("backend", slow_but(["c"], ["c", "multicore"]))
def test_values(backend, n, d):
    args = _arguments(n, d)
    made = _backend(backend)
    for name in (*IN_LANES, "single"):
        expected = Interpreter(_program()).run(name, args)
        near = 1e-6 if name == "single" else 1e-11
        for a, b in zip(made.run(name, args), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=near, atol=near, err_msg=name)


@pytest.mark.slow
def test_what_is_not_finite():
    n, d, x, w = _arguments(50, 4)
    x[3, 1], x[20, 0], x[40, 2], x[41] = np.nan, np.inf, -np.inf, 800.0
    for name in ("values", "rows", "largest"):
        expected = Interpreter(_program()).run(name, [n, d, x, w])
        for a, b in zip(_backend("c").run(name, [n, d, x, w]), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-300, err_msg=name)


@pytest.mark.slow
def test_failures_are_those_of_the_first_iteration():
    args = _arguments(50, 4)
    args[2][30] = 40.0
    with pytest.raises(BoundsError, match="out of bounds"):
        _backend("c").run("places", args)
    with pytest.raises(BoundsError, match="out of bounds"):
        Interpreter(_program()).run("places", args)
