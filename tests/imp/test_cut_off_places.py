"""Places that are cut off at both ends, in loops inside a map: their checks are of sizes, and the map runs in lanes."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.backend.c import CBackend
from futad.errors import BoundsError
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import C
from tests.support.slow import slow_but

RAYS = """
def rays [g][r][s] (dens: [g][g]f64) (col: [g][g]f64) (orig: [r][2]f64) (dir: [r][2]f64) (ts: [s]f64): f64 =
  let cell x = CELL
  let ray (o: [2]f64) (d: [2]f64) =
    let (c, tr) = loop (c, tr) = (0, 1) for k < s do
      let (x, y) = (cell (o[0] + ts[k] * d[0]), cell (o[1] + ts[k] * d[1]))
      let a = 1 - f64.exp (-dens[x, y])
      in (c + tr * a / (1 + f64.exp (-col[x, y])), tr * (1 - a))
    in c + tr * 0.1
  in f64.sum (map2 (\\o d -> ray o d ** 2) orig dir)
entry value [g][r][s] (dens: [g][g]f64) (col: [g][g]f64) (orig: [r][2]f64) (dir: [r][2]f64) (ts: [s]f64): f64 =
  rays dens col orig dir ts
entry gradient [g][r][s] (dens: [g][g]f64) (col: [g][g]f64) (orig: [r][2]f64) (dir: [r][2]f64) (ts: [s]f64) =
  vjp (\\(dens, col) -> rays dens col orig dir ts) (dens, col) 1
"""
CELLS = {
    "first above": "i64.max 0 (i64.min (g - 1) (i64.f64 (x * f64.i64 g)))",
    "first below": "i64.min (g - 1) (i64.max 0 (i64.f64 (x * f64.i64 g)))",
}


def source(name: str) -> str:
    return RAYS.replace("CELL", CELLS[name])


def inputs(g: int, r: int, s: int) -> list[np.ndarray]:
    random = np.random.default_rng(r)
    shapes = (g, g), (g, g), (r, 2), (r, 2), (s,)
    return [random.uniform(-0.5, 1.5, size=shape) for shape in shapes]


@pytest.mark.parametrize("name", CELLS)
def test_the_map_runs_in_lanes(name: str) -> None:
    with counting() as counts:
        CBackend(compile_program(compile_text(source(name)), target=C))
    assert counts["checks-first"]


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("r", [0, 1, 5, 64, 70])
@pytest.mark.parametrize("backend", slow_but(["c"], ["c", "multicore"]))
def test_results_are_those_of_the_interpreter(backend: str, name: str, r: int) -> None:
    args = inputs(4, r, 9)
    if r > 60:
        args[3][7], args[3][8, 0], args[2][9, 1] = np.nan, np.inf, 1e30
    c, interp = [futad.compile(source(name), backend=b) for b in (backend, "interp")]
    np.testing.assert_allclose(c.value(*args), interp.value(*args), rtol=1e-12)
    for ours, theirs in zip(c.gradient(*args), interp.gradient(*args), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("name", CELLS)
def test_there_are_no_elements(name: str) -> None:
    said = []
    for b in ("c", "interp"):
        with pytest.raises(BoundsError) as e:
            futad.compile(source(name), backend=b).value(*inputs(0, 40, 3))
        said.append(str(e.value).splitlines()[0])
        assert futad.compile(source(name), backend=b).value(*inputs(0, 40, 0)) == pytest.approx(40 * 0.01)
    assert said[0] == said[1]
