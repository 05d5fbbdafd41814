"""Matrix products that take along what lies around them: the same results as the interpreter's, in fewer launches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import futad
from futad.core.interp import Interpreter
from futad.runtime.device import EmulatedDevice
from futad.testing.build import prepared
from tests.support.device_support import OnDevice
from tests.support.needs import needs_cxx

SOURCE = """
def mm [n][m][k] (a: [n][k]f64) (b: [k][m]f64): [n][m]f64 =
  map (\\x -> map (\\y -> f64.sum (map2 (*) x y)) (transpose b)) a

entry layer [n][m][k] (a: [n][k]f64) (b: [k][m]f64) (c: [m]f64): [n][m]f64 =
  map (\\row -> map2 (\\x y -> f64.max 0 (x + y)) row c) (mm a b)

entry layers [l][n][m][k] (as: [l][n][k]f64) (bs: [l][k][m]f64) (c: [l][m]f64): [l][n][m]f64 =
  map3 (\\a b v -> map (\\row -> map2 (\\x y -> x * y + 1) row v) (mm a b)) as bs c

entry norms [n][m][k] (a: [n][k]f64) (b: [k][m]f64) (c: [m]f64): ([n][m]f64, [n]f64) =
  unzip (map (\\row -> let ds = map2 (-) row c in (ds, 1 - 0.5 * f64.sum (map (\\x -> x * x) ds))) (mm a b))

entry norms_only [l][n][m][k] (as: [l][n][k]f64) (bs: [l][k][m]f64) (w: [l]f64): [l][n]f64 =
  map3 (\\a b v -> map (\\row -> v + f64.sum row) (mm a b)) as bs w

entry scaled [n][m][k] (a: [k][n]f64) (w: [k]f64) (b: [k][m]f64): [n][m]f64 =
  mm (transpose (map2 (\\row s -> map (\\x -> -(s * x)) row) a w)) b

entry weights [n][m][k] (a: [k][n]f64) (w: [k]f64) (b: [k][m]f64): ([n][m]f64, [n]f64) =
  let ys = map2 (\\row s -> map (\\x -> s * x) row) a w
  in (mm (transpose ys) b, map (\\col -> f64.sum (map (\\x -> -x) col)) (transpose ys))

entry kept [n][m][k] (a: [k][n]f64) (w: [k]f64) (b: [k][m]f64): ([n][m]f64, [n]f64, [k][n]f64) =
  let ys = map2 (\\row s -> map (\\x -> s * x) row) a w
  in (mm (transpose ys) b, map f64.sum (transpose ys), map (map (+ 1)) ys)

entry gradient [n][m][k] (x: [n][k]f64) (w: [k][m]f64) (c: [m]f64): ([k][m]f64, [m]f64) =
  vjp (\\(w, c) -> map (\\row -> map2 (\\y z -> y + z) row c) (mm x w)) (w, c) (map (map (* 0.5)) (mm x w))

entry repeated [n] (steps: i64) (w: [n][n]f64) (x: *[n][n]f64): [n][n]f64 =
  loop x for _i < steps do map (map (\\y -> y / (1 + f64.abs y))) (mm x w)

entry residual [n] (w: [n][n]f64) (x: *[n][n]f64): [n][n]f64 =
  map2 (map2 (\\a b -> a - 0.5 * b)) x (mm x w)

entry twice [n][m][k] (a: [n][k]f64) (b: [k][m]f64): ([n][m]f64, [n]f64) =
  let p = mm a b in (map (map (+ 1)) p, map f64.maximum p)

entry rows_written [n][m] (a: [n][m]f64) (b: [n][4][m]f64): ([n][4][m]f64, [n][4][m]f64) =
  unzip (map2 (\\x y -> let g = replicate 4 (replicate m 0f64)
                       let g = g with [2] = map (+ 1) x with [0] = x with [3] = map (* 2) x
                       let g = g with [1] = map f64.sqrt (map f64.abs x)
                       in (g, map2 (map2 (-)) y g)) a b)

entry columns [n][m] (a: [n][m]f64): [m][n]f64 =
  map (\\c -> let top = f64.maximum c
               let es = map (\\x -> f64.exp (x - top)) c
               in map2 (\\e x -> e / f64.sum es + x) es c)
      (transpose a)

entry again [n][m] (a: [n][m]f64): ([n][m]f64, [n][m]f64) =
  let (qs, rs) = unzip (map (\\x -> unzip (map (\\v -> let q = f64.exp v in (q, 3 * q + 1)) x)) a)
  let s = f64.sum (map f64.sum qs)
  in (qs, map (map (/ (1 + s))) rs)

entry overwritten [n] (a: [n]f64): ([n]f64, [n]f64) =
  let (qs, rs) = unzip (map (\\v -> let q = f64.exp v in (q, 3 * q + 1)) a)
  let s = f64.sum qs
  let qs = scatter (copy qs) (iota n) (replicate n s)
  in (qs, map (+ s) rs)

entry shapes [n][m] (a: [n][m]f64) (b: [m]f64): [n][2][m]f64 =
  map (\\x -> map (map2 (+) b) (unflatten (x ++ x :> [2 * m]f64))) a

entry sums_of_products [t][n][m][k] (xs: [t][k][n]f64) (ys: [t][k][m]f64) (z: [n][m]f64): ([n][m]f64, [n]f64) =
  vjp (\\(w, c) -> map2 (\\x y -> map2 (\\r s -> f64.sum (map2 (*) s (map2 (\\v row -> v + f64.sum (map2 (*) r row))
                                                                        c (transpose w)))) y x) xs ys)
      (transpose z, replicate n 1f64) (replicate t (replicate k 1f64)) |> \\(w, c) -> (transpose w, c)
"""
DEVICE = OnDevice(SOURCE)
SHAPES: dict[str, list[str]] = {
    "layer": ["nk", "km", "m"],
    "layers": ["lnk", "lkm", "lm"],
    "norms": ["nk", "km", "m"],
    "norms_only": ["lnk", "lkm", "l"],
    "scaled": ["kn", "k", "km"],
    "weights": ["kn", "k", "km"],
    "kept": ["kn", "k", "km"],
    "gradient": ["nk", "km", "m"],
    "repeated": ["", "nn", "nn"],
    "residual": ["nn", "nn"],
    "twice": ["nk", "km"],
    "rows_written": ["nm", "n4m"],
    "shapes": ["nm", "m"],
    "columns": ["nm"],
    "again": ["nm"],
    "overwritten": ["n"],
    "sums_of_products": ["tkn", "tkm", "nm"],
}
SIZES = ((3, 5, 4), (1, 1, 1), (33, 66, 17), (65, 34, 40), (7, 9, 0), (5, 0, 3), (0, 4, 2))


def arguments(entry: str, n: int, m: int, k: int) -> list[Any]:
    """All of the core function's parameters."""
    fun = DEVICE.fun(entry)
    sizes = {"n": n, "m": m, "k": k, "l": 3, "t": 2, "4": 4}
    rng = np.random.default_rng(n * 100 + m * 10 + k)
    values = [rng.normal(size=tuple(sizes[c] for c in s)) if s else np.int64(3) for s in SHAPES[entry]]
    return [*[sizes[p.name] for p in fun.body.params[: fun.num_sizes]], *values]


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("seed", [None, 3])
def test_results(seed: int | None) -> None:
    running = DEVICE.on(EmulatedDevice(seed=seed))
    for entry in SHAPES:
        for size in SIZES[:: 1 if seed is None else 3]:
            args = arguments(entry, *size)
            fun = DEVICE.symbol(entry)
            want = DEVICE.interpreted(entry, args)
            got = running.run(fun, [np.copy(a) if isinstance(a, np.ndarray) else a for a in args])
            for x, y in zip(got, want, strict=True):
                assert np.shape(x) == np.shape(y), (entry, size)
                np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-11, err_msg=f"{entry} {size}")


@pytest.mark.slow
def test_prepared_programs_compute_the_same() -> None:
    """What accumulators become, products give back, literals of rows: checked, and the same results."""
    from futad.core.check import check_program

    made = prepared(DEVICE.program)
    check_program(made, "prepare")
    text = str(made)
    assert "updateacc" in str(DEVICE.program) and "updateacc" not in text.split("fun sums_of_products")[1]
    for entry in SHAPES:
        fun = DEVICE.symbol(entry)
        for size in SIZES:
            args = arguments(entry, *size)
            one = DEVICE.interpreted(entry, args)
            two = Interpreter(made).run(fun, [np.copy(a) if isinstance(a, np.ndarray) else a for a in args])
            for x, y in zip(one, two, strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-11, err_msg=f"{entry} {size}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("entry", "launches"),
    [
        ("layer", 1), ("layers", 1), ("norms", 2), ("norms_only", 2), ("scaled", 1), ("weights", 1), ("residual", 1),
        ("rows_written", 1),
    ],
)
def test_launches(entry: str, launches: int) -> None:
    fun = DEVICE.fun(entry)
    sizes = {p.name: 50 for p in fun.body.params[: fun.num_sizes]}
    a = DEVICE.count(entry, sizes)
    assert a.launches == launches, a.table()


def test_cheap_results_are_rematerialised() -> None:
    """Two arrays written, not three, and the second read no more often than the first."""
    a = DEVICE.count("again", {"n": 500, "m": 300})
    assert a.total.written < 2.1 * 8 * 150_000 and a.total.read < 3.1 * 8 * 150_000, a.table()


def test_rows_that_a_block_reads_often_are_in_order() -> None:
    """A transposed copy, counted as one; none where rows are in order already."""
    a = DEVICE.count("columns", {"n": 500, "m": 300})
    assert (a.launches, a.transposes) == (2, 1), a.table()


def test_what_others_need_is_stored() -> None:
    """A product used twice, an operand that is a result as well."""
    for entry, written in (("twice", 2), ("kept", 2)):
        fun = DEVICE.fun(entry)
        a = DEVICE.count(entry, {p.name: 50 for p in fun.body.params[: fun.num_sizes]})
        assert a.total.written >= written * 8 * 50 * 50


BATCHES = """
def mm [p][q][r] (a: [p][q]f64) (b: [q][r]f64): [p][r]f64 =
  map (\\row -> map (\\column -> f64.sum (map2 (*) row column)) (transpose b)) a
entry shared [b][n][k] (ws: [b][k][k]f64) (xss: [b][n][k][k]f64): [b][n][k][k]f64 =
  map2 (\\w xs -> map (\\x -> mm w (transpose x)) xs) ws xss
entry own [b][n][k] (ws: [b][n][k][k]f64) (xss: [b][n][k][k]f64): [b][n][k][k]f64 = map2 (map2 mm) ws xss
"""


@needs_cxx
@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(2, 3, 4), (0, 3, 2), (2, 0, 2), (3, 1, 1)])
def test_a_matrix_of_the_outer_batch_is_shared_by_the_inner_one(sizes: tuple[int, int, int]) -> None:
    b, n, k = sizes
    rng = np.random.default_rng(1)
    xss = rng.normal(size=(b, n, k, k))
    program = futad.compile(BATCHES, backend="emulated")
    ws = rng.normal(size=(b, k, k))
    want = ws[:, None] @ xss.transpose(0, 1, 3, 2)
    np.testing.assert_allclose(program.shared(ws, xss), want, rtol=1e-12, atol=1e-12)
    own = rng.normal(size=(b, n, k, k))
    np.testing.assert_allclose(program.own(own, xss), own @ xss, rtol=1e-12, atol=1e-12)
