"""The C backends' memory: results are reused when their arrays die and never before; pieces of an array are computed
where it lies; straight-line bodies in vector lanes."""

from __future__ import annotations

import gc
import threading
import weakref
from collections import Counter
from typing import Any

import numpy as np
import pytest

import futad
from futad.backend.c import CBackend
from futad.core.interp import Interpreter
from futad.errors import BoundsError
from futad.imp import ir
from futad.testing.build import c_backend
from tests.support.paths import BENCHMARK_PROGRAMS as PROGRAMS

BIG = 20_000  # elements of a result that changes owner

TEXT = """
entry twice [n] (xs: [n]f64): [n]f64 = map (* 2) xs
entry both [n] (xs: [n]f64): ([n]f64, [n]f64) = (map (+ 1) xs, scan (+) 0 xs)
entry joined [n] (xs: [n]f64): []f64 = map (* 2) xs ++ map f64.sin xs ++ map2 (*) xs (reverse xs)
entry flat [n] (xs: [n]f64): []f64 = flatten (map (\\x -> [[x, x * x], [1, x]]) xs |> map flatten) ++ map (+ 1) xs
entry doubled [n] (xs: [n]f64): []f64 = let ys = map (* 2) xs in ys ++ ys
entry same [n] (xs: [n]f64): [n][2][2]f64 = map (\\x -> let row = [x, x + 1] in [row, row]) xs
entry kept [n] (xs: [n]f64): ([]f64, [n]f64) = let ys = map (* 2) xs in (ys ++ xs, ys)
entry changed [n] (xs: [n]f64): []f64 = let ys = map (* 2) xs ++ xs in ys with [0] = 5
entry iterations [n] (k: i64) (xs: [n]f64): [n]f64 =
  loop xs for i < k do let (a, b) = (map (+ f64.i64 i) (take 1 xs), map (* 2) (drop 1 xs)) in sized n (a ++ b)
entry shifted [n] (xs: [n]f64): [n]f64 =
  let before = sized n ([1] ++ take (n - 1) xs)
  let after = sized n (drop 1 xs ++ [2])
  in map4 (\\x a b c -> x * a + b * c) xs before after before
entry walked [n] (k: i64) (xs: [n]f64): [n]f64 =
  loop ys = copy xs for i < k do map3 (\\a b x -> a * b + x * f64.i64 i) ys (sized n ([1] ++ take (n - 1) ys)) xs
entry walked_back [n] (k: i64) (xs: [n]f64): [n]f64 = vjp (walked k) xs (map (+ 1) xs)
entry added [n] (xs: [n]f64): [3][2][n]f64 =
  loop zsss = replicate 3 (replicate 2 xs) for i < 3 do
    let zsss = zsss with [i, 1] = map2 (+) zsss[i, 1] xs
    in zsss with [i, 0] = map2 (*) zsss[i, 0] (map (+ f64.i64 i) xs)
entry crossed [n] (xs: [n]f64): [3][2][n]f64 =
  loop zsss = replicate 3 (replicate 2 xs) for i < 3 do
    let zsss = zsss with [i, 1] = map2 (+) zsss[2 - i, 1] xs
    in zsss with [2 - i, 0] = map2 (*) zsss[i, 0] (map (+ f64.i64 i) (scan (+) 0 zsss[i, 0]))
entry overwritten [n] (xs: [n]f64): ([n]f64, [n]f64) =
  let ys = copy xs
  let zs = ys with [0] = 7
  in (map2 (*) (scan (+) 0 zs) xs, xs)
entry chained [n] (xs: [n]f64): ([n]f64, [n]f64) =
  let ys = scan (+) 0 xs
  let zs = map2 (*) ys (sized n (drop 1 ys ++ [1]))
  let ws = scan f64.max 0 zs
  in (map2 (-) ws xs, map (* 2) zs)
entry table [n] (xs: [n]f64): []f64 =
  [1] ++ flatten (map (\\x -> let (s, e) = (f64.sin x, f64.exp (-x * x))
                             in [x, s, e, s * e, s + e, s / (1 + e), f64.sqrt e, f64.cos (s * e) * x, e * e]) xs)
def eight (x: f64): [8]f64 =
  [f64.sin x, f64.cos x, f64.exp x, f64.tanh x, f64.sin (x + 1), f64.cos (x + 2), f64.exp (-x), f64.tanh (x * 3)]
entry read_back [n] (k: i64) (xs: [n]f64): ([n][8]f64, [n]f64) =
  unzip (map2 (\\x i -> let r = eight x in (r, r[(i * k) & 7])) xs (iota n))
entry written_again [n] (k: i64) (xs: [n]f64): [n][8]f64 =
  map2 (\\x i -> let r = eight x in r with [(i * k) & 7] = 5) xs (iota n)
entry picked [n][m] (xs: [n]f64) (ks: [m]i64): [m]f64 =
  map (\\k -> let x = xs[k] in f64.sin x * f64.cos x + f64.exp (x * x) / (1 + f64.sqrt (x * x + 1)) + f64.log (2 + x))
      ks
entry chosen [n] (xs: [n]f64): [n]f64 =
  map (\\x -> if x > 0 then f64.sin x * f64.cos x / x else if x == 0 then 1 else f64.exp x - f64.log (1 - x) * x) xs
"""


@pytest.fixture(scope="module")
def backend(core: Any) -> CBackend:
    return c_backend(core)


@pytest.mark.slow
def test_results_are_reused_when_they_die(backend: CBackend) -> None:
    xs = np.arange(float(BIG))
    for _ in range(2):
        backend.run("twice", [BIG, xs])
    before = backend.memory()
    for k in range(5):
        (ys,) = backend.run("twice", [BIG, xs + k])
        assert ys[3] == 2 * (3 + k)
        del ys
    assert backend.memory()[1] == before[1]


@pytest.mark.slow
def test_alternating_results_settle(backend: CBackend) -> None:
    """With the last result alive during the next call, two blocks take turns."""
    xs = np.arange(float(BIG))
    result = last = None
    for _ in range(4):
        result = backend.run("both", [BIG, xs])
    before = backend.memory()[1]
    for k in range(6):
        last, result = result, backend.run("both", [BIG, xs + k])
        assert result[0][1] == k + 2
        del last
    assert backend.memory()[1] == before


def test_held_results_stay_as_they_are(backend: CBackend) -> None:
    """Views and slices hold the memory too."""
    held = []
    for k in range(8):
        (ys,) = backend.run("twice", [BIG, np.full(BIG, float(k))])
        held.append((k, ys[k:] if k % 2 else ys.reshape(2, -1).T))
        del ys
    for k, part in held:
        assert (part == 2 * k).all()


@pytest.mark.slow
def test_results_outlive_their_program(core: Any) -> None:
    own = c_backend(core)
    results = [own.run("twice", [BIG, np.full(BIG, float(k))])[0] for k in range(3)]
    gone = weakref.ref(own.compiled)
    del own
    gc.collect()
    assert gone() is None
    for k, ys in enumerate(results):
        assert (ys == 2 * k).all()


@pytest.mark.slow
def test_small_results_do_not_hold_large_blocks(backend: CBackend) -> None:
    large = 3_000_000
    del backend.run("twice", [large, np.ones(large)])[:]
    (ys,) = backend.run("twice", [BIG, np.ones(BIG)])
    before = backend.memory()[1]
    del backend.run("twice", [large, np.ones(large)])[:]
    assert (ys == 2).all() and backend.memory()[1] == before


def test_results_die_in_other_threads(backend: CBackend) -> None:
    wrong = []

    def work(number: int) -> None:
        kept = None
        for k in range(40):
            value = float(100 * number + k)
            (ys,) = backend.run("twice", [BIG, np.full(BIG, value)])
            if not (ys == 2 * value).all() or kept is not None and not (kept == 2 * (value - 1)).all():
                wrong.append((number, k))
            kept = ys

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.parametrize("name", [
    "joined", "doubled", "flat", "same", "kept", "changed", "iterations", "shifted",
    "walked", "walked_back", "added", "crossed", "overwritten", "chained", "table", "picked", "chosen",
    "read_back", "written_again"])
@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_as_the_interpreter(core: Any, backend: CBackend, name: str, n: int) -> None:
    xs = np.random.default_rng(n).standard_normal(n)
    xs[n // 2] = 0
    args: list[Any] = [n, xs]
    if name in ("iterations", "walked", "walked_back", "read_back", "written_again"):
        args.insert(1, 3)
    if name == "picked":
        args = [n, 3 * n, xs, np.arange(3 * n) % n]
    for a, e in zip(backend.run(name, args), Interpreter(core).run(name, args), strict=True):
        np.testing.assert_allclose(a, e, rtol=1e-14, atol=1e-14)


def statements(body: list[ir.Stmt]) -> list[ir.Stmt]:
    out = []
    for s in body:
        out.append(s)
        for inner in (getattr(s, name, []) for name in ("body", "then", "orelse")):
            out += statements(inner)
    return out


def shape(backend: CBackend, name: str) -> Counter[type]:
    (f,) = [f for f in backend.module.functions if f.name == name]
    return Counter(type(s) for s in statements(f.body))


@pytest.mark.parametrize("name", ["joined", "flat"])
def test_pieces_are_computed_in_place(backend: CBackend, name: str) -> None:
    counts = shape(backend, name)
    assert counts[ir.Ensure] == 1 and counts[ir.Copy] == 0 and counts[ir.Stack] == 0


@pytest.mark.parametrize("name", ["shifted", "walked", "walked_back"])
def test_shifted_arrays_are_not_copied(backend: CBackend, name: str) -> None:
    """But for what a loop starts with, and the iterations that are saved."""
    counts = shape(backend, name)
    assert counts[ir.Copy] == {"shifted": 0, "walked": 0, "walked_back": 1}[name]


def test_rows_are_added_to_where_they_lie(backend: CBackend) -> None:
    """Not where the row that is read may be another one."""
    counts = {name: shape(backend, name)[ir.Copy] for name in ("added", "crossed")}
    assert counts["added"] == 0 and counts["crossed"] > 0


def test_maps_write_over_what_nobody_reads_later(backend: CBackend) -> None:
    assert shape(backend, "chained")[ir.Ensure] == 4


def test_checks_do_not_keep_a_loop_from_vector_lanes(backend: CBackend) -> None:
    (f,) = [f for f in backend.module.functions if f.name == "picked"]
    checks, work = [s for s in statements(f.body) if isinstance(s, ir.For)]
    assert any(isinstance(s, ir.Check) for s in checks.body) and not checks.independent
    assert work.independent and work.lanes == 8
    with pytest.raises(BoundsError, match=r"Index \[-4\] out of bounds for array of shape \[3\]"):
        backend.run("picked", [3, 5, np.ones(3), np.array([0, 1, -4, 7, 0])])


@pytest.mark.parametrize("n", [1, 1000, 200_000, 200_001, 200_031])
def test_rows_written_through_a_buffer(backend: CBackend, n: int) -> None:
    """Few rows as they come, whole and partial blocks past the caches, and not where vectors would start."""
    assert shape(backend, "table")[ir.Stream] == 1
    x = np.random.default_rng(n).standard_normal(n)
    _, ys = backend.run("table", [n, x])
    s, e = np.sin(x), np.exp(-x * x)
    rows = [x, s, e, s * e, s + e, s / (1 + e), np.sqrt(e), np.cos(s * e) * x, e * e]
    np.testing.assert_allclose(ys[1:].reshape(n, 9), np.stack(rows, 1), rtol=1e-12, atol=1e-14)
    assert ys[0] == 1


@pytest.mark.slow
def test_the_jacobian_of_bundle_adjustment() -> None:
    """No array but its three results, nothing copied but what two of them are written in; the observations in vector
    lanes."""
    program = futad.load(PROGRAMS / "ba.fut", backend="c")
    backend: Any = program.executor()
    counts = shape(backend, "jacobian")
    assert counts[ir.Ensure] == 3 and counts[ir.Copy] == 0 and counts[ir.Stack] == counts[ir.Stream] == 2
    for name, lanes in (("objective", [8]), ("jacobian", [8, 8])):  # of many observations by way of buffers
        (f,) = [f for f in backend.module.functions if f.name == name]
        assert [s.lanes for s in statements(f.body) if isinstance(s, ir.For) and s.lanes] == lanes
