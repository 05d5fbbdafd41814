"""The table of schedules of loops: each is used, says so, and another one is an entry more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from futad import legality
from futad.backend.c import CBackend
from futad.fires import DECLARED, counting
from futad.imp import ir
from futad.imp.ir import ONE, Ref, sub
from futad.imp.loops import schedule
from futad.imp.loops.schedule import SCHEDULES, MapLoop, Schedule, scheduled
from futad.imp.walk import substitute
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import CUDA, C

LOOP = ir.For("i", Ref("n", ir.ZERO.type), [ir.Store("y", Ref("i", ir.ZERO.type), ONE)], map=True)


def of(loop: ir.For, target=C, folds=frozenset()) -> MapLoop:
    return MapLoop(loop, target, lambda hint: f"{hint}_1", lambda var: set(), folds)


CALLS = ("exp", "sin", "cos", "log", "tan", "sqrt", "atan")
PROGRAMS = {
    "loop-coalescing": "[n][m] (a: [n][m]f64): f64 = f64.sum (map (\\r -> f64.sum (map (f64.max 0) r)) a)",
    "inner-loops-written-out": "[n] (x: [n][3]f64): [n]f64 = map (\\r -> f64.sqrt (f64.sum (map (** 2) r))) x",
    "branches-written-out": """[n] (xs: [n][3]f64): [n][3]f64 = map (\\r ->
      if r[0] > 1 then map (\\x -> f64.exp x + f64.sin x + f64.cos x) r else [0, 0, 0]) xs""",
    "short-inner-loops": "[n][m] (a: [n][m]f64): [n]f64 = map (\\r -> f64.exp (f64.tanh (f64.sum r))) a",
    "rows-chosen": """[n][m] (a: [n][m]f64): [n][m]f64 =
      tabulate_2d n m (\\i j -> a[i, j] + if i == 0 then a[i, j] else a[i - 1, j])""",
    "index-set-splitting": "[n] (xs: [n]f64): [n]f64 = tabulate n (\\i -> xs[if i + 1 < n then i + 1 else i + 1 - n])",
    "guarded-reads": f"""[n] (xs: [n]f64): [n]f64 = tabulate n (\\i ->
      let x = if xs[i] > 1 && i > 0 then xs[i - 1] else xs[i] in {' + '.join(f'f64.{c} x' for c in CALLS)})""",
    "checks-first": """[n] (xs: [n]i64): [n]f64 =
      map (\\x -> let y = assert (x > 0) (f64.i64 x) in f64.exp y + f64.sin y + f64.log y) xs""",
    "staged-reads": f"""[n] (xs: [n]f64): [n]f64 = tabulate n (\\i ->
      let x = if xs[i] > 1 then xs[n - 1 - i] else xs[i] in {' + '.join(f'f64.{c} x' for c in CALLS)})""",
    "vector-lanes": "[n] (xs: [n]f64): [n]f64 = map (* 2) xs",
    "rows-in-groups": f"""[m][n] (a: [9][m][n]f64) (s: [m]f64) (x: [n]f64) =
      let sums p = reduce (map2 (+)) (replicate n 0) (map2 (\\r t -> map2 (\\y z -> t * y * z) r x) a[p] s)
      in ({', '.join(f'sums {k}' for k in range(9))})""",
    "staged-additions": """[n] (x: [n]f64): [n]f64 =
      vjp (\\x -> tabulate n (\\i -> x[i64.max 0 (i - 2)] * f64.sin x[i64.min (n - 1) (i + 1)])) x x""",
    "staged-rows": f"[n] (xs: [n]f64): [n][8]f64 = map (\\x -> [x, {', '.join(f'f64.{c} x' for c in CALLS)}]) xs",
    "reductions-across-lanes": "[n][m] (a: [n][m]f64): [m]f64 = map f64.sum (transpose a)",
    "outer-loop-vectorisation": "[n] (xs: [n]f64): [n]f64 = map (\\x -> loop y = 0 for i < 20 do y * x + 1) xs",
    "masked-lanes": """[n] (xs: [n]f64): [n]f64 =
      map (\\x -> loop y = x while y < 9 do f64.exp y + f64.sin (y + f64.cos y)) xs""",
    "loop-fission": f"""[n] (xs: [n]i64): [n]f64 =
      map (\\x -> let y = loop y = 9 for _i < x do y / 2 in {' + '.join(f'f64.{c} y' for c in CALLS)}) xs""",
    "loop-distribution": "[n][m] (a: [n][m]f64) (x: [m]f64) = map (\\r -> f64.tanh (f64.sum (map2 (*) r x))) a",
    "unroll-and-jam": "[n][m] (a: [n][m]f64) (x: [m]f64): [n]f64 = map (\\r -> f64.sum (map2 (*) r x)) a",
}


def test_all_are_declared():
    legality.load_all()
    names = [s.name for s in SCHEDULES]
    assert names == [*PROGRAMS] and set(names) <= DECLARED.keys()


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_fires(name):
    with counting() as counts:
        CBackend(compile_program(compile_text(f"entry main {PROGRAMS[name]}"), target=C))
    assert counts[name]


def test_devices_have_marks_alone():
    with counting() as counts:
        assert scheduled(of(loop := replace(LOOP), CUDA)) == [loop]
    assert loop.independent and counts == {"vector-lanes": 1}


def test_iterations_that_fold_stay_in_order():
    with counting() as counts:
        assert scheduled(of(loop := replace(LOOP), folds={"y"})) == [loop]
    assert not loop.independent and not counts


def test_passes_loops_on():
    tried = []

    def twice(m, then):
        return [*then(m.loop), *then(replace(m.loop))]

    def never(m, then):
        tried.append(m.loop)

    table = [Schedule(n, lambda m: True, do) for n, do in (("twice", twice), ("never", never))]
    with counting() as counts:
        done = scheduled(of(LOOP), table)
    assert done == tried and done[0] is LOOP and len(done) == 2
    assert counts == {"twice": 1}


SOURCE = """
entry main [n] (xs: [n]i64): ([n]i64, i64) =
  let ys = map (\\x -> x * x - 1) xs
  in (ys, reduce (+) 0 (map2 (*) xs ys))
"""


@pytest.mark.slow
@pytest.mark.parametrize("least", [1, 100])
def test_another_one(least, monkeypatch):
    """Iterations of straight-line maps from the last to the first."""

    def reverse(m, then):
        var, loop = Ref(m.loop.var, ir.ZERO.type), m.loop
        if any(s.bodies() for s in loop.body) or len(loop.body) < least:
            return None
        there = sub(sub(loop.bound, ONE), sub(var, loop.start))
        body = [s.map_exprs(lambda e: substitute(e, {loop.var: there})) for s in loop.body]
        return then(replace(loop, body=body))

    plain = CBackend(compile_program(compile_text(SOURCE), target=C))
    table = [Schedule("reversed", lambda m: m.target.jams and not m.folds, reverse), *SCHEDULES]
    monkeypatch.setattr(schedule, "SCHEDULES", table)
    with counting() as counts:
        turned = CBackend(compile_program(compile_text(SOURCE), target=C))
    assert (counts["reversed"] > 0) is (turned.source != plain.source) is (least == 1)
    xs = np.arange(-3, 9)
    for got, want in zip(turned.run("main", [12, xs]), plain.run("main", [12, xs]), strict=True):
        np.testing.assert_array_equal(got, want)
