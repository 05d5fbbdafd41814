"""Convolutions on devices: their gradients are the interpreter's, and no thread of theirs does much by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from futad.core import ir
from futad.core.builder import Builder
from futad.core.node import Range
from futad.core.types import F64, I64, ONE, ZERO, AccType, ArrayType, Var, i64
from futad.errors import Span
from futad.flatten.slice_elements import by_elements
from futad.testing.build import prepared
from tests.support.device_support import OnDevice
from tests.support.needs import needs_cxx

SOURCE = """
def dot [c] (a: [c][3][3]f64) (b: [c][3][3]f64) : f64 =
  f64.sum (map2 (\\x y -> f64.sum (map2 (\\x y -> f64.sum (map2 (*) x y)) x y)) a b)
def squares [n] (xs: [n]f64) : f64 = f64.sum (map (\\a -> f64.tanh a ** 2) xs)

-- Slices of which windows are made; the result is flattened.
def sliced [n][c][h][w][o] (x: [n][c][h][w]f64) (k: [o][c][3][3]f64) : f64 =
  let (u, v) = (h - 2, w - 2)
  let y = map (\\im -> map (\\f -> tabulate_2d u v (\\i j -> dot (im[:, i : i + 3, j : j + 3] :> [c][3][3]f64) f)) k) x
  in squares (flatten (map flatten (map (map flatten) y)) :> [n * (o * (u * v))]f64)

-- Elements where they are: strides, dilation, groups of channels, and rows of maxima beside.
def places [n][c][h][w][o] (s: i64) (d: i64) (g: i64) (x: [n][c][h][w]f64) (k: [o][c][3][3]f64) : f64 =
  let (u, v) = ((h - 2 * d - 1) / s + 1, (w - 2 * d - 1) / s + 1)
  let at (im: [c][h][w]f64) f i j =
    f64.sum (tabulate c (\\a -> f64.sum (tabulate 3 (\\p -> f64.sum (tabulate 3 (\\q ->
      k[f, a, p, q] * im[(a + f / g) % c, i * s + p * d, j * s + q * d]))))))
  let y = map (\\im -> tabulate o (\\f -> tabulate u (\\i -> tabulate v (at im f i)))) x
  in f64.sum (map (\\a -> f64.sum (map (\\b -> f64.sum (map (\\c -> f64.maximum c + f64.sum (map (** 2) c)) b)) a)) y)

entry plain [n][c][h][w][o] (x: [n][c][h][w]f64) (k: [o][c][3][3]f64) = vjp (\\(x, k) -> sliced x k) (x, k) 1
entry strided [n][c][h][w][o] (x: [n][c][h][w]f64) (k: [o][c][3][3]f64) = vjp (\\(x, k) -> places 2 1 o x k) (x, k) 1
entry dilated [n][c][h][w][o] (x: [n][c][h][w]f64) (k: [o][c][3][3]f64) = vjp (\\(x, k) -> places 1 2 o x k) (x, k) 1
entry groups [n][c][h][w][o] (x: [n][c][h][w]f64) (k: [o][c][3][3]f64) = vjp (\\(x, k) -> places 1 1 2 x k) (x, k) 1
entry weights [n][c][h][w][o] (x: [n][c][h][w]f64) (k: [o][c][3][3]f64) = vjp (sliced x) k 1
"""
ENTRIES = ("plain", "strided", "dilated", "groups", "weights")
DEVICE = OnDevice(SOURCE, "convolutions.fut", check=True)
SIZES = {"n": 16, "c": 8, "h": 34, "w": 34, "o": 16}


def given(n: int, c: int, h: int, w: int, o: int) -> list[Any]:
    r = np.random.default_rng(n + c)
    return [*map(np.int64, (n, c, h, w, o)), r.normal(size=(n, c, h, w)), r.normal(size=(o, c, 3, 3)) / 3]


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("sizes", [(2, 3, 7, 6, 4), (1, 1, 5, 5, 1), (3, 2, 5, 8, 2), (0, 2, 5, 5, 2)])
def test_equal_to_the_interpreter(entry: str, sizes: tuple[int, ...]) -> None:
    args = given(*sizes)
    expected = DEVICE.interpreted(entry, args)
    own = DEVICE.emulated.device.limits.thresholds
    for threads, inner in ((own.enough_threads, own.block_inner), (-1, 1 << 20), (1 << 20, 0)):
        DEVICE.emulated.choose(own._replace(enough_threads=threads, block_inner=inner))
        for x, y in zip(DEVICE.run(entry, args), expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-11)
    DEVICE.emulated.choose(own)


@pytest.mark.parametrize("entry", ENTRIES)
def test_no_thread_does_much(entry: str) -> None:
    """All dimensions are shared out: steps are those of a sum over channels and window, or over 64 elements a thread;
    where updates meet, they are those of a window."""
    a = DEVICE.count(entry, SIZES)
    assert a.launches <= 15 and a.total.steps <= 1500, a.table()
    assert max(r.cost.steps for r in a.rows.values()) <= 700, a.table()


@pytest.mark.parametrize("entry", ["plain", "weights"])
def test_updates_of_different_places_are_summed_apart(entry: str) -> None:
    """One for each weight, and for each element of the windows one for all features."""
    t = DEVICE.count(entry, SIZES).total
    n, c, u, o = 16, 8, 32, 16
    assert t.atomics <= n * c * u * u * 9 * (entry == "plain") + o * c * 9 and t.meet <= 10


def levels(lam: ir.Lambda) -> list[str]:
    out: list[str] = []
    for s in ir.statements(lam.stms):
        for v in s.grid.versions if s.grid is not None else ():
            out += [v.level, *(levels(v.body) if v.body is not None else [])]
    return out


def test_accumulators_open_around_the_map() -> None:
    """The adjoint of each picture is an accumulator of the map over pictures, in which the weights' is updated, too."""
    found = levels(prepared(DEVICE.program).funs[DEVICE.symbol("plain")].body)
    assert found.count("updates-as-sums") >= 2 and "distributed" in found


def test_elements_of_slices_are_read_where_they_are() -> None:
    xs, acc, i = Var("xs", ArrayType(F64, (i64(9), i64(9)))), Var("acc", AccType(F64, (i64(3),))), Var("i", I64)
    e = Var("e", ArrayType(F64, (i64(3), i64(2))))
    row, x = Var("row", ArrayType(F64, (i64(2),))), Var("x", F64)
    inner, end, out, given_acc, result = [Var("acc", acc.type) for _ in range(5)]
    b = Builder()
    deepest = ir.Lambda((inner, row), (ir.Stm((x,), ir.At(row, (ONE,), None)),
                                       ir.Stm((end,), ir.UpdateAcc(inner, (i,), x))), (end,))  # fmt: skip
    index = (Range(i, i64(3), i64(2)), Range(ONE, i64(2), ONE))
    below = ir.Stm((out,), ir.Map(i64(3), (acc, e), deepest))
    body = ir.Lambda((acc, i), (ir.Stm((e,), ir.At(xs, index, None)), below), (out,))
    places = b.let(ir.Iota(i64(2), ZERO, ONE))
    stm = ir.Stm((result,), ir.Map(i64(2), (given_acc, places), body))
    made = by_elements(stm, {places})
    assert made is not stm and isinstance(made.exp, ir.Map)
    m = made.exp.lam.stms[-1].exp
    assert isinstance(m, ir.Map) and e not in m.arrays and len(m.arrays) == 2
    reads = [s.exp for s in m.lam.stms if isinstance(s.exp, ir.At)]
    assert reads[0].array is xs and isinstance(reads[0].index[1], Range) and not isinstance(reads[0].index[0], Range)
    checked = ir.At(xs, index, Span("p.fut", 1, 1, 1, 2))
    body.stms = (ir.Stm((e,), checked), *body.stms[1:])
    assert by_elements(stm, {places}) is stm
