"""Loops of few iterations inside maps: written out, so that the map around runs in lanes."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.backend.c import CBackend
from futad.core.types import F64, I64
from futad.fires import counting
from futad.imp import ir
from futad.imp.ir import Load, Ref, num
from futad.imp.loops.vectorise import annotate
from futad.imp.loops.written_inside import written_inside
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import C

PAIRS = """
def energy [n] (x: [n][3]f64) (q: [n]f64): f64 =
  let pair i j = if i == j then 0 else q[i] * q[j] / f64.sqrt (f64.sum (map2 (\\a b -> (a - b) ** 2) x[i] x[j]) + 0.1)
  in f64.sum (tabulate n (\\i -> f64.sum (tabulate n (pair i))))
entry value [n] (x: [n][3]f64) (q: [n]f64): f64 = energy x q
entry back [n] (x: [n][3]f64) (q: [n]f64): ([n][3]f64, [n]f64) = vjp (\\(x, q) -> energy x q) (x, q) 1
"""
ROTATED = """
def turned [n] (r: [3][3]f64) (x: [n][3]f64): f64 =
  f64.sum (map (\\p -> f64.tanh (f64.sum (map (\\row -> f64.sum (map2 (*) row p) ** 2) r))) x)
entry value [n] (x: [n][3]f64) (r: [3][3]f64): f64 = turned r x
entry back [n] (x: [n][3]f64) (r: [3][3]f64): ([n][3]f64, [3][3]f64) = vjp (\\(x, r) -> turned r x) (x, r) 1
"""
PLANE = """
def lengths [n] (x: [n][2]f32): [n]f32 = map (\\p -> f32.sqrt (1 + f32.sum (map (** 2) p))) x
entry value [n] (x: [n][2]f32) (_: [n]f32): [n]f32 = lengths x
entry back [n] (x: [n][2]f32) (s: [n]f32): [n][2]f32 = vjp lengths x s
"""
LARGEST = """
entry value [n] (x: [n][4]f64) (_: [n]f64): ([n]f64, [4]f64) =
  (map f64.maximum x, reduce (map2 (+)) (replicate 4 0) x)
"""
PROGRAMS = {
    "pairs": (PAIRS, 3, None),
    "rotated": (ROTATED, 3, (3, 3)),
    "plane": (PLANE, 2, None),
    "largest": (LARGEST, 4, None),
}
LENGTHS = "entry main [n] (x: [n][{d}]f64): [n]f64 = map (\\p -> f64.sqrt (f64.sum (map (** 2) p))) x"

KERNEL = """
entry main {sizes} (x: [n][{d}]f64): [n][n]f64 =
  map (\\p -> map (\\q -> f64.exp (-f64.sum (map2 (\\a b -> (a - b) ** 2) p q))) x) x
"""


def fires(text: str, name: str = "inner-loops-written-out") -> int:
    with counting() as counts:
        CBackend(compile_program(compile_text(text), target=C))
    return counts[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_the_loops(name: str) -> None:
    text, d, shape = PROGRAMS[name]
    # What is done with each coordinate of all pairs is one loop already.
    assert fires(text, "loop-coalescing" if name == "pairs" else "inner-loops-written-out")
    backends = ("interp", "c", "multicore", "emulated")
    expected, *others = (futad.compile(text, backend=b) for b in backends)
    for n in (0, 1, 3, 4, 17, 70):
        rng = np.random.default_rng(n)
        dtype = np.float32 if "f32" in text else np.float64
        x, y = rng.normal(size=(n, d)).astype(dtype), rng.normal(size=shape or n).astype(dtype)
        for entry in ("value", "back") if "back" in text else ("value",):
            for made in others:
                results = [getattr(p, entry)(x, y) for p in (expected, made)]
                for a, b in zip(*[r if isinstance(r, tuple) else (r,) for r in results], strict=True):
                    np.testing.assert_allclose(b, a, rtol=2e-5 if dtype is np.float32 else 1e-12, atol=1e-12)


@pytest.mark.parametrize(("d", "fires_so"), [(2, 1), (4, 1), (5, 0), ("m", 0)])
def test_loops_of_few_iterations_alone(d: int | str, fires_so: int) -> None:
    text = LENGTHS.format(d=d)
    assert fires(text.replace("[n] (x", "[n][m] (x") if d == "m" else text) == fires_so


@pytest.mark.parametrize(("d", "sizes", "short"), [("d", "[n][d]", 3), ("3", "[n]", 0)])
def test_loops_of_lanes_inside_are_not_written_out(d: str, sizes: str, short: int) -> None:
    assert fires(KERNEL.format(d=d, sizes=sizes), "short-inner-loops") == short


i, n = Ref("i", I64), Ref("n", I64)


@pytest.mark.parametrize(
    ("places", "taken"), [((0, 1, 2), True), ((0, 2), True), ((1, 1), True), ((0, 3), False), ((2, -1), False)]
)
def test_stretches_that_iterations_add_to(places: tuple[int, ...], taken: bool) -> None:
    start = ir.mul(i, num(3))
    adds = [ir.Store("y", ir.add(start, num(k)), Load("x", i, F64), "add") for k in places]
    loop = ir.For("i", n, list(adds), map=True)
    assert annotate(loop, reassociate=True) == loop.independent == taken


@pytest.mark.parametrize(("read", "taken"), [("x", True), ("y", False)])
def test_what_is_added_in_a_variable_is_not_read(read: str, taken: bool) -> None:
    k = Ref("k", I64)
    inside = ir.For("k", num(3), [ir.Store("y", k, Load("x", ir.add(ir.mul(i, num(3)), k), F64), "add")], map=True)
    body: list[ir.Stmt] = [inside, ir.Store("z", i, Load(read, num(1), F64))]
    made = written_inside(ir.For("i", n, body, map=True), frozenset(), lambda hint: f"{hint}_9")
    assert (made is not None) is taken
