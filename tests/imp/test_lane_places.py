"""Lanes at rest read where they would, were they active, if that is in the array whatever they do; or else nowhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import futad
from futad.core.types import BOOL, F64, I64
from futad.imp import ir
from futad.imp.ir import Load, Num, Ref, Scalar, add, mul, num, sub
from futad.imp.loops.masked_lanes import masked
from futad.imp.loops.places import Places, Sizes
from futad.imp.lower import Lowerer
from futad.imp.walk import loads_in, statements
from futad.source import compile_text
from futad.target import C
from futad.testing.build import common, lowered
from tests.support.needs import needs_cc

# -- proofs

i, j, k, r, t, n, m = (Ref(name, I64) for name in "ijkrtnm")
SIZES = Sizes(
    {"z": (n, m), "x": (n,), "c": (n, num(4)), "g": (n, t)},
    {"i": n, "j": m},
    {"t": add(m, num(1)), "o": mul(i, m), "s": mul(k, num(1))},
)
CHECKED = ir.Bin("in_bounds", k, m, BOOL)
IN = {
    "its own place": ("x", i),
    "its own row, a loop's variable": ("z", add(mul(i, m), j)),
    "a name for the row": ("z", add(Ref("o", I64), j)),
    "checked": ("z", add(Ref("o", I64), k)),
    "checked, wrapping": ("z", Scalar("add", (Ref("o", I64), k), I64, I64)),
    "a column": ("c", add(mul(i, num(4)), num(3))),
}
OUT = {
    "the next row": ("z", add(mul(add(i, num(1)), m), j)),
    "the next column": ("z", add(Ref("o", I64), add(j, num(1)))),
    "the column before": ("z", sub(add(Ref("o", I64), j), num(1))),
    "another extent": ("z", add(mul(j, m), i)),
    "another stride": ("z", add(mul(i, n), j)),
    "one extent short": ("x", j),
    "nothing known": ("z", add(Ref("o", I64), r)),
    "too late a column": ("c", add(mul(i, num(4)), num(4))),
    "a column before the first": ("c", sub(mul(i, num(4)), num(1))),
    "a row of another width": ("g", add(mul(i, m), j)),
    "of another array": ("unknown", i),
    "read from memory": ("x", Load("ks", i, I64)),
    "backwards": ("z", sub(Ref("o", I64), j)),
    "a sum of two": ("x", add(i, j)),
    "of what changes": ("x", Ref("w", I64)),
}


def places() -> Places:
    made = Places(SIZES, "i", frozenset({"k", "r", "w"}), frozenset({"w"}))
    made.check(CHECKED)
    made.check(ir.Bin("in_bounds", Ref("w", I64), n, BOOL))
    made.check(ir.compare("<", r, m))  # it may be less than zero
    return made


@pytest.mark.parametrize("case", IN)
def test_in_range(case: str) -> None:
    pointer, index = IN[case]
    assert places().inside(Load(pointer, index, F64))


@pytest.mark.parametrize("case", OUT)
def test_not_known_to_be_in_range(case: str) -> None:
    pointer, index = OUT[case]
    assert not places().inside(Load(pointer, index, F64))


def test_what_is_no_longer_known() -> None:
    known = places()
    place = Load("z", add(mul(i, m), k), F64)
    assert known.inside(place)
    del known.passed[:]
    assert not known.inside(place)


def test_a_row_of_a_computed_width() -> None:
    """The width is one variable, however it is computed."""
    known = places()
    known.check(ir.Bin("in_bounds", r, t, BOOL))
    assert known.inside(Load("g", add(mul(i, t), r), F64))


def test_cheap_integers_are_computed_again() -> None:
    known = places()
    for name, init in (("p", mul(i, m)), ("q", add(Ref("p", I64), k)), ("kept", add(r, i)), ("other", k)):
        known.declare(name, I64, init, {"i", "r", "p", "q", "kept"})
    known.declare("long", I64, add(mul(Ref("q", I64), Ref("q", I64)), i), {"i", "q", "p"})
    assert list(known.again) == ["p", "q"]
    assert [s.name for s in known.computed_again({"q"}) if isinstance(s, ir.Decl)] == ["p", "q"]
    assert [s.name for s in known.computed_again({"p", "kept"}) if isinstance(s, ir.Decl)] == ["p"]


@pytest.mark.parametrize("all_lanes", [True, False])
def test_a_check_counts_if_it_is_of_all_lanes(all_lanes: bool) -> None:
    """A counter that begins with the same number in all lanes, or with their own; `y` is carried."""
    y, go = Ref("y", F64), Ref("go", BOOL)
    heavy = Scalar("exp", (Scalar("sin", (y,), F64, F64),), F64, F64)
    value = Scalar("add", (Load("z", add(mul(i, m), k), F64), heavy), F64, F64)
    loop = ir.For(
        "i",
        n,
        [
            ir.Decl("y", F64, Num(0.5, F64), mutable=True),
            ir.Decl("k", I64, num(0) if all_lanes else i, mutable=True),
            ir.Decl("go", BOOL, ir.TRUE, mutable=True),
            ir.While(
                go,
                [
                    ir.Check(CHECKED, 1, 0),
                    ir.Assign("y", value),
                    ir.Assign("k", add(k, num(1))),
                    ir.Assign("go", Scalar("lt", (y, Num(2.0, F64)), F64, BOOL)),
                ],
            ),
            ir.Store("r", i, y),
        ],
        map=True,
    )
    count = iter(range(1000))
    made = masked(loop, loop.body, set(), lambda hint: f"{hint}_{next(count)}", True, sizes=SIZES)
    assert made is not None
    assert unmasked(made, "z") == all_lanes


# -- programs

PROGRAMS = """
def barrier [m] (z: [m]f64) (s: f64): f64 =
  (loop (x, k) = (s, 0) while k < m && x > 0.7 do (x * f64.exp (0.3 * z[k]), k + 1)).0
entry rows [n][m] (z: [n][m]f64) (s: f64): [n]f64 = map (\\r -> barrier r s) z
entry of_its_own [n][m] (z: [n][m]f64) (s: f64): ([n]f64, [n]f64) =
  let y = map (map (\\x -> f64.sin (9 * x))) (transpose z)
  in (map (\\r -> barrier r s) (transpose y), map (\\r -> barrier r (s + 1)) (transpose y))
entry gathered [n][m] (z: [n][m]f64) (s: f64): [n]f64 =
  tabulate n (\\i -> let r = z[(7 * i + 3) % n] in barrier r s)
entry two_assets [n][m] (z: [n][m]f64) (s: f64): [n]f64 =
  let y = transpose (map (map (\\x -> (f64.sin (9 * x), f64.cos (8 * x)))) (transpose z))
  in map (\\r -> (loop (x, k) = (s, 0) while k < m && x > 0.7 do
                   (x * f64.exp (0.2 * r[k].0 + 0.1 * r[k].1), k + 1)).0) y
entry triples [n][m] (z: [n][m]f64) (s: f64): [n]f64 =
  let k = m / 3
  let y = map (unflatten <-< take (k * 3)) z :> [n][k][3]f64
  in map (\\r -> (loop (x, j) = (s, 0) while j < k && x > 0.7 do
                   (x * f64.exp (0.2 * r[j, 0] + 0.1 * r[j, 2]), j + 1)).0) y
entry flat [n][m] (z: [n][m]f64) (s: f64): [n]f64 =
  let y = flatten z
  let offsets = map (\\i -> (i * (i + 5)) % (n * m)) (iota n)
  let ends = map2 (\\o i -> i64.min (n * m) (o + (i * 3) % 7)) offsets (iota n)
  in map2 (\\o e -> (loop (x, k) = (s, o) while k < e && x > 0.7 do (x * f64.exp (0.3 * y[k]), k + 1)).0) offsets ends
entry neighbours [n][m] (z: [n][m]f64) (s: f64): [n]f64 =
  tabulate n (\\i -> (loop (x, k) = (s, 0) while k + 1 < m && x > 0.7 do
    (x * f64.exp (0.3 * z[i, k + 1] - (if i + 1 < n then 0.1 * z[i + 1, k] else 0)), k + 1)).0)
entry backwards [n][m] (z: [n][m]f64) (s: f64): [n]f64 =
  map (\\r -> (loop (x, k) = (s, m - 1) while k >= 0 && x > 0.7 do (x * f64.exp (0.3 * r[k]), k - 1)).0) z
entry slices [n][m] (z: [n][m]f64) (s: f64): [n]f64 =
  tabulate n (\\i -> if i > 0 then barrier z[n - i, m / 2:] s else barrier z[0] s)
entry columns [n][m] (z: [n][m]f64) (s: f64): [m]f64 = map (\\c -> barrier c s) (transpose z)
entry lengths [n][m] (z: [n][m]f64) (s: f64): [n]f64 =
  tabulate n (\\i -> loop x = s for k < i64.min m (i % 5) do f64.exp (f64.sin (x * z[i, k])))
entry until_read [n][m] (z: [n][m]f64) (s: f64): [n]f64 =
  map (\\r -> (loop (x, k) = (s, 0) while k < m && r[k] < 0.8 do (x * f64.exp (f64.sin (0.3 * r[k])), k + 1)).0) z
entry slopes [n][m] (z: [n][m]f64) (s: f64): (f64, [n][m]f64) =
  let (d, b) = vjp (\\(s, z) -> f64.sum (map (\\r -> barrier r s) z)) (s, z) 1 in (d, b)
"""
NAMES = [line.split()[1] for line in PROGRAMS.splitlines() if line.startswith("entry")]


def unmasked(body: list[ir.Stmt], pointer: str) -> bool:
    """Whether lanes read an array without a mask in every such loop over them that reads it."""
    lanes = [s for s in statements(body) if isinstance(s, ir.For) and s.bound == num(16)]
    reads = [x for s in lanes for y in statements(s.body) for x in loads_in(y) if x.pointer.startswith(pointer)]
    assert reads
    return not any(isinstance(x.index, Scalar) and x.index.op == "and" for x in reads)


@pytest.mark.parametrize(
    ("name", "pointer", "free"),
    [
        ("rows", "z", True), ("of_its_own", "y", True), ("two_assets", "m", True), ("columns", "z", True),
        ("flat", "z", False), ("gathered", "z", False), ("triples", "z", False), ("slices", "z", False),
    ],
)  # fmt: skip
def test_which_reads_need_no_mask(name: str, pointer: str, free: bool) -> None:
    program = lowered(common(compile_text(PROGRAMS, "test.fut"), C), C)
    fun = next(f for f in Lowerer(program, C).module().functions if f.name == name)
    assert unmasked(fun.body, pointer) is free


@pytest.fixture(scope="module")
def programs() -> dict[str, Any]:
    return {b: futad.compile(PROGRAMS, backend=b) for b in ("interp", "c", "multicore")}


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("shape", [(0, 3), (1, 5), (16, 4), (17, 4), (16, 1), (50, 9), (33, 0)])
@pytest.mark.parametrize("name", NAMES)
def test_equal_to_the_interpreter(programs: dict[str, Any], name: str, shape: tuple[int, int]) -> None:
    z = np.random.default_rng(shape[0]).normal(size=shape)
    if name == "flat" and 0 in shape:
        z = np.ones((1, 1))  # it takes a remainder by the number of elements
    wanted = getattr(programs["interp"], name)(z, 1.3)
    for backend in ("c", "multicore"):
        got = getattr(programs[backend], name)(z, 1.3)
        for a, b in zip(*([x] if isinstance(x, np.ndarray) else x for x in (wanted, got)), strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-12)
