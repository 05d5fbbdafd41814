"""Branches with loops of few iterations inside maps: scalars, so that the map runs in lanes."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.backend.c import CBackend
from futad.core.types import BOOL, F64, I64
from futad.fires import counting
from futad.imp import ir
from futad.imp.ir import Ref, num
from futad.imp.loops.written_branches import branches_written_out
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import C
from tests.support.slow import slow_but

# Rows beside those that are missing at the borders; a branch in a branch; sums and an array in a side.
BESIDE = """
entry main [n] (x: [n][3]f64) (s: [n]f64): ([n][3]f64, [n][3]f64) =
  let pull i j =
    if j < 0 || j >= n then [0, 0, s[i]] else
    let d = map2 (-) x[j] x[i]
    let l = f64.sqrt (f64.sum (map (** 2) d) + 1e-3)
    in map (\\v -> s[i] * (l - 1) * v / l) d
  let f = tabulate n (\\i -> if i == 3 then [1, 2, s[i]] else map2 (+) (pull i (i - 1)) (pull i (i + 1)))
  in (f, map2 (map2 (\\a b -> a + 0.5 * b)) x f)
"""
# Conditions that are in the data.
DATA = """
entry main [n] (x: [n][3]f64) (s: [n]f64): ([n][3]f64, [n]f64) =
  unzip (map2 (\\x s ->
    let b = if s > 0.5 then map (\\v -> f64.exp (f64.sin v) / s) x
            else if s > 0.25 then map (\\v -> f64.exp v - s) [x[2], x[0], x[1]] else [s, 0, x[1]]
    in (b, f64.log (1.5 + f64.sum (map f64.abs b)))) x s)
"""
PROGRAMS = {"beside": BESIDE, "data": DATA}


def fires(text: str) -> int:
    with counting() as counts:
        CBackend(compile_program(compile_text(text), target=C))
    return counts["branches-written-out"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_branches_become_scalars(name: str) -> None:
    assert fires(PROGRAMS[name]) > 0


@pytest.mark.parametrize("n", [0, 1, 4, 15, 16, 17, 70, 131])
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("backend", slow_but(["c"], ["c", "multicore"]))
def test_results_are_those_of_the_interpreter(backend: str, name: str, n: int) -> None:
    random = np.random.default_rng(n)
    x, s = random.normal(size=(n, 3)), random.uniform(size=n)
    if n > 20:
        x[7], s[9], s[11] = np.nan, np.nan, 0
        x[12, 1] = np.inf
    with np.errstate(all="ignore"):
        c, interp = [futad.compile(PROGRAMS[name], backend=b).main(x, s) for b in (backend, "interp")]
        for ours, theirs in zip(c, interp, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12)


OTHERS = {
    "places that may be one": """
entry main [n] (x: [n][3]f64) (p: [n]i64) (q: [n]i64): [n][3]f64 =
  map3 (\\x p q ->
    if x[0] < 0.5 then
      let r = copy x
      let r[p] = f64.exp x[1]
      let r[q] = f64.exp x[2]
      let r[p] = 7
      in r
    else
      let r = map (+ 1) x
      let r[q] = 1
      let r[p] = x[2]
      in r) x p q""",
    "five elements": """
entry main [n] (x: [n][5]f64) (s: [n]f64): [n][5]f64 =
  map2 (\\x s -> if s > 0.5 then map (\\v -> f64.exp v / s) x else map (\\v -> f64.sin v / s) x) x s""",
    "a place of what is stored that is not known": """
entry main [n] (x: [n][3]f64) (s: [n]f64): ([n][3]f64, [n]f64) =
  unzip (map2 (\\x s ->
    let b = if s > 0.5 then map (\\v -> f64.exp v / s) x else map (\\v -> f64.sin v / s) x
    in (b, b[i64.f64 (s * 8) % 3])) x s)""",
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_stay_as_they_are(name: str) -> None:
    assert not fires(OTHERS[name])


@pytest.mark.parametrize("both", [True, False])
def test_what_one_side_stores_stays_there(both: bool) -> None:
    i, y = Ref("i", I64), ir.Num(1.0, F64)
    inside = ir.For("k", num(3), [ir.Store("y", ir.add(ir.mul(i, num(3)), Ref("k", I64)), y)])
    no = [ir.Store("y", ir.add(ir.mul(i, num(3)), num(k)), ir.Num(0.0, F64)) for k in ((0, 1, 2) if both else (0, 1))]
    cond = ir.Bin("<", Ref("c", I64), i, BOOL)
    made = branches_written_out(ir.For("i", Ref("n", I64), [ir.If(cond, [inside], no)], map=True), set())
    if not both:
        assert made is None
        return
    assert made is not None
    *_, branch, s0, s1, s2 = made.body
    assert isinstance(branch, ir.If) and not any(isinstance(s, ir.Store) for s in [*branch.then, *branch.orelse])
    assert all(isinstance(s, ir.Store) for s in (s0, s1, s2))
