"""Running on the CPU simulator: failures, memory, chunks and blocks, interleaved blocks, the sanitizer."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import futad
from futad.backend import cuda
from futad.backend.cuda import DeviceBackend
from futad.errors import AssertionFailed, BoundsError, Error
from futad.pipeline import compile_program
from futad.runtime.device import EmulatedDevice
from futad.runtime.deviceprogram import DeviceProgram
from futad.source import compile_text
from futad.testing.build import device_backend
from tests.support.needs import needs_cxx
from tests.support.slow import slow_but

pytestmark = needs_cxx

SOURCE = """
entry gather [n][m] (xs: [n]f64) (is: [m]i64) : [m]f64 = map (\\i -> xs[i]) is
entry rows [n][m][k] (xss: [n][m]f64) (is: [k]i64) : [n]f64 = map (\\xs -> f64.sum (map (\\i -> xs[i]) is)) xss
entry checked [n] (xs: [n]i64) : i64 = let s = i64.sum xs in assert (s > 0) s
entry total [n] (xs: [n]f64) : f64 = f64.sum xs
entry prefix [n] (xs: [n]i64) : [n]i64 = scan (\\a b -> a * 3 + b) 0 (map (% 2) xs) |> map (% 1000)
entry sums [n] (xs: [n]i64) : [n]i64 = scan (+) 0 xs
entry affine [n] (xs: [n]i32) (ys: [n]i32) : (i32, i32) =
  reduce (\\(a, b) (c, d) -> (a * c, b * c + d)) (1, 0) (zip xs ys)
entry count [n] (k: i64) (is: [n]i64) : [k]i8 = reduce_by_index (replicate k 0i8) (+) 0i8 is (map (const 1i8) is)
entry best [n] (k: i64) (is: [n]i64) (vs: [n]f64) : ([k]f64, [k]i64) =
  unzip (reduce_by_index (replicate k (-1f64, -1i64))
    (\\(a, i) (b, j) -> if a > b || (a == b && i < j) then (a, i) else (b, j))
    (-1f64, -1i64) is (zip vs (indices vs)))
entry softmax [n][m] (xss: [n][m]f64) : [n][m]f64 =
  map (\\xs -> let top = f64.maximum xs
              let es = map (\\x -> f64.exp (x - top)) xs
              let s = f64.sum es
              in map (/ s) es) xss
"""


@cache
def backend() -> DeviceBackend:
    return device_backend(compile_program(compile_text(SOURCE, "main")))


@cache
def running(seed: int | None = None) -> DeviceProgram:
    device = EmulatedDevice(seed=seed)
    made = backend()
    return DeviceProgram(device, made.layout, made.source, made.host, made.constants)


R = np.random.default_rng(7)


@pytest.mark.slow
def test_index_out_of_bounds_in_a_thread() -> None:
    xs, is_ = R.normal(size=10), np.array([1, 2, 10, 3])
    with pytest.raises(BoundsError, match=r"Index \[10\] out of bounds for array of shape \[10\]") as e:
        running().run("gather", [10, 4, xs, is_])
    assert e.value.span is not None and e.value.span.line == 2
    assert running().run("gather", [10, 2, xs, is_[:2]])[0].tolist() == xs[[1, 2]].tolist()


@pytest.mark.slow
@pytest.mark.parametrize("k", [2, 64])
def test_index_out_of_bounds_before_a_barrier(k: int) -> None:
    """Threads whose check failed still meet the others."""
    is_ = np.zeros(k, np.int64)
    is_[1] = -1
    with pytest.raises(BoundsError, match=r"Index \[-1\] out of bounds"):
        running().run("rows", [3, 5, k, R.normal(size=(3, 5)), is_])


# Each line fails in one of the three ways, in every kind of place a kernel has; FAILING says on what.
FAILURES = """
entry divide_map [n] (xs: [n]i32): [n]i32 = map (\\x -> 10 / x) xs
entry divide_nest [n][m] (xs: [n][m]i64): [n]i64 = map (\\r -> i64.sum (map (\\x -> 9 % x) r)) xs
entry divide_loop [n] (xs: [n]i64): [n]i64 = map (\\x -> loop a = 9 for i < 3 do a // (x + i - 2)) xs
entry divide_hist [n] (xs: [n]i64): [4]i64 = reduce_by_index (replicate 4 0) (+) 0 xs (map (\\x -> 10 %% x) xs)
entry divide_fold [n] (xs: [n]i64): i64 = reduce (+) 0 (map (\\x -> 9 / (x - 3)) xs)
entry divide_scan [n] (xs: [n]i64): [n]i64 = scan (+) 0 (map (\\x -> 9 / (x - 3)) xs)
entry bounds_map [n] (xs: [n]i64): [n]i64 = map (\\x -> xs[x]) xs
entry bounds_nest [n][m] (xs: [n][m]i64): [n]i64 = map (\\r -> i64.sum (map (\\x -> r[x]) r)) xs
entry bounds_loop [n] (xs: [n]i64): [n]i64 = map (\\x -> loop a = x for _i < 3 do xs[a]) xs
entry bounds_hist [n] (xs: [n]i64): [4]i64 = reduce_by_index (replicate 4 0) (+) 0 xs (map (\\x -> xs[x]) xs)
entry bounds_update [n] (xs: [n]i64): [n][2]i64 = map (\\x -> let a = replicate 2 x in a with [x] = 1) xs
entry assert_map [n] (xs: [n]i64): [n]i64 = map (\\x -> assert (x < 5) x) xs
entry assert_nest [n][m] (xs: [n][m]i64): [n]i64 = map (\\r -> i64.sum (map (\\x -> assert (x < 5) x) r)) xs
entry assert_loop [n] (xs: [n]i64): [n]i64 = map (\\x -> loop a = x for _i < 3 do assert (a < 6) (a + 1)) xs
entry assert_hist [n] (xs: [n]i64): [4]i64 =
  reduce_by_index (replicate 4 0) (+) 0 xs (map (\\x -> assert (x < 5) x) xs)
"""
GOOD, BAD = [1, 2, 1, 1, 2], [1, 1, 0, 9, 1]
FAILING = {  # by name: what does not fail, what does (both of them integers)
    "divide_map": (GOOD, BAD), "divide_nest": (GOOD, BAD), "divide_loop": ([5, 6], [5, 2]), "divide_hist": (GOOD, BAD),
    "divide_fold": (GOOD, [1, 3]), "divide_scan": (GOOD, [1, 3]), "bounds_map": (GOOD, BAD), "bounds_nest": (GOOD, BAD),
    "bounds_loop": (GOOD, BAD), "bounds_hist": (GOOD, BAD), "bounds_update": ([0, 1], BAD), "assert_map": (GOOD, BAD),
    "assert_nest": (GOOD, BAD), "assert_loop": (GOOD, BAD), "assert_hist": (GOOD, BAD),
}  # fmt: skip


@cache
def failing(backend: str) -> futad.Program:
    return futad.compile(FAILURES, "f.fut", backend=backend)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in FAILING if not n.endswith("nest")])
def test_failures_name_their_line_as_on_the_cpu(name: str) -> None:
    good, bad = [np.array(v, "i4" if name == "divide_map" else "i8") for v in FAILING[name]]
    check_failure(name, good, bad)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in FAILING if n.endswith("nest")])
@pytest.mark.parametrize(("kind", "rows", "times"), [("thread", 40, 1), ("warp", 40, 4), ("block", 4, 7)])
def test_failures_before_a_barrier(name: str, kind: str, rows: int, times: int) -> None:
    """Whoever shares a row meets the others also when it fails in one of them."""
    row, last = [np.array(v * times) for v in FAILING[name]]
    last[last == 9] = 99  # out of these bounds too
    check_failure(name, np.stack([row] * rows), np.stack([row] * (rows - 1) + [last]))
    assert kinds_of(failing("emulated").executor().running) == [kind]


def kinds_of(running: Any) -> list[str]:
    """The kinds of the kernels of the last call."""
    return [running.layout.kernels[k].kind for k in running.runtime.counts.path]


def check_failure(name: str, good: np.ndarray, bad: np.ndarray) -> None:
    """What fails fails as in the interpreter, and the call after it succeeds."""
    failing("emulated").executor().running.runtime.trace = True
    want: dict[str, Any] = {}
    for backend in ("interp", "emulated"):
        f = failing(backend).entries[name]
        with pytest.raises(Error) as e:
            f(bad)
        want[backend] = (type(e.value), str(e.value) if name != "bounds_loop" else e.value.span, f(good).tolist())
        line = 2 + FAILURES.strip().splitlines().index(next(s for s in FAILURES.splitlines() if f" {name} " in s))
        assert e.value.span is not None and e.value.span.line in (line, line + 1) and e.value.source_line
    assert want["emulated"] == want["interp"]


@pytest.mark.slow
def test_assertion_on_a_value_of_the_device() -> None:
    assert running().run("checked", [2, np.array([1, 2])]) == [3]
    with pytest.raises(AssertionFailed) as e:
        running().run("checked", [2, np.array([1, -2])])
    assert e.value.span is not None and e.value.span.line == 4


@pytest.mark.slow
@pytest.mark.parametrize("n", [0, 1, 31, 64, 65, 1000, 3001])
def test_folds_of_any_length(n: int) -> None:
    xs = R.integers(-5, 6, n)
    p = running()
    assert p.run("total", [n, xs.astype(float)])[0] == xs.sum()
    assert p.run("sums", [n, xs])[0].tolist() == np.cumsum(xs).tolist()
    a, b = R.choice([-1, 1], n).astype("i4"), R.integers(0, 9, n).astype("i4")
    want = (1, 0)
    for c, d in zip(a.tolist(), b.tolist(), strict=True):
        want = want[0] * c, want[1] * c + d
    assert [int(x) for x in p.run("affine", [n, a, b])] == list(want)


@pytest.mark.parametrize("seed", slow_but([1], [None, 1, 2]))
def test_histograms_of_small_types_and_of_tuples(seed: int | None) -> None:
    n, k = 700, 5
    is_, vs = R.integers(-1, k + 1, n), R.integers(0, 50, n).astype(float)
    p = running(seed)
    inside = [is_ == b for b in range(k)]
    assert p.run("count", [n, k, is_])[0].tolist() == [int(np.int64(m.sum()).astype("i1")) for m in inside]
    best, where = p.run("best", [n, k, is_, vs])
    assert best.tolist() == [vs[m].max() for m in inside]
    assert where.tolist() == [int(np.flatnonzero(m & (vs == vs[m].max()))[0]) for m in inside]


@pytest.mark.parametrize(
    ("shape", "kinds"),
    [((3, 40), ["block"]), ((600, 20), ["thread"]), ((5, 3), ["thread"]), ((1, 1), ["thread"]), ((0, 4), []),
     ((101, 20), ["warp"]), ((18, 63), ["warp"]), ((101, 64), ["block"])],
)  # fmt: skip
@pytest.mark.parametrize("seed", [None, 5])
def test_rows_by_threads_warps_and_blocks(shape: tuple[int, int], kinds: list[str], seed: int | None) -> None:
    xss = R.normal(size=shape)
    e = np.exp(xss - xss.max(axis=1, keepdims=True))
    p = running(seed)
    p.runtime.trace = True
    out = p.run("softmax", [*shape, xss])[0]
    np.testing.assert_allclose(out, e / e.sum(axis=1, keepdims=True), rtol=1e-13)
    assert kinds_of(p) == kinds


def test_a_call_like_one_before_allocates_nothing() -> None:
    p = running()
    args: list[Any] = [40, 30, R.normal(size=(40, 30))]
    p.run("softmax", args)
    before = p.runtime.memory()
    p.run("softmax", args)
    assert p.runtime.memory() == before


def test_blocks_in_any_order() -> None:
    n = 900
    xs = R.integers(0, 100, n)
    for seed in (3, 4):
        p = running(seed)
        assert p.run("sums", [n, xs])[0].tolist() == np.cumsum(xs).tolist()
        xss = R.normal(size=(20, 33))
        np.testing.assert_array_equal(p.run("softmax", [20, 33, xss])[0], running().run("softmax", [20, 33, xss])[0])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["address", "thread"])
def test_under_a_sanitizer(kind: str) -> None:
    """No access outside an array, no race, also where checks fail."""
    made = backend()
    p = DeviceProgram(EmulatedDevice(sanitize=kind), made.layout, made.source, made.host, made.constants)
    xs, xss = R.integers(-5, 6, 150), R.normal(size=(3, 40))
    assert p.run("sums", [150, xs])[0].tolist() == np.cumsum(xs).tolist()
    np.testing.assert_array_equal(p.run("softmax", [3, 40, xss])[0], running().run("softmax", [3, 40, xss])[0])
    xss = R.normal(size=(17, 9))  # by warps
    np.testing.assert_array_equal(p.run("softmax", [17, 9, xss])[0], running().run("softmax", [17, 9, xss])[0])
    assert p.run("total", [150, xs.astype(float)])[0] == xs.sum()  # by several blocks
    is_ = R.integers(-1, 6, 50)
    assert p.run("count", [50, 5, is_])[0].tolist() == [int((is_ == b).sum()) for b in range(5)]
    assert p.run("best", [50, 5, is_, is_.astype(float)])[0].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    with pytest.raises(BoundsError, match=r"Index \[9\] out of bounds"):
        p.run("rows", [3, 5, 64, R.normal(size=(3, 5)), np.full(64, 9)])


OWN = """
def collatz (x: i64) : i64 =
  let (path, _) = loop (path, x) = ([], x) while x > 1 do
                    (path ++ [x], if x % 2 == 0 then x / 2 else 3 * x + 1)
  in i64.sum (map2 (*) path (indices path)) % 99
entry collatzes [n] (k: i64) (xs: [n]i64) : [n]i64 = loop xs for _i < k do map collatz xs
"""


def _collatz(x: int) -> int:
    path = []
    while x > 1:
        path.append(x)
        x = x // 2 if x % 2 == 0 else 3 * x + 1
    return sum(a * i for i, a in enumerate(path)) % 99


@pytest.mark.slow
@pytest.mark.parametrize("each", [0, 16, 64, 4096])
def test_arrays_of_threads_are_in_a_heap_and_where_that_ends_by_malloc(
    monkeypatch: pytest.MonkeyPatch, each: int
) -> None:
    monkeypatch.setattr(cuda, "HEAP", each)
    made = device_backend(compile_program(compile_text(OWN, "main")))
    assert {k.heap for k in made.layout.kernels} == {each}
    device = EmulatedDevice()
    program = DeviceProgram(device, made.layout, made.source, made.host, made.constants)
    xs = want = np.arange(200)
    for _ in range(5):
        want = np.array([_collatz(int(x)) for x in want])
    for _ in range(4):  # the last one is replayed, the heap emptied before each kernel
        assert program.run("collatzes", [200, 5, xs])[0].tolist() == want.tolist()
    assert program.runtime.counts.replayed == 1
