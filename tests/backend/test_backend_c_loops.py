"""Arrays that loops carry on the C backends: those that grow stay where they are, those that change places are not
copied; integer division in vector lanes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from futad.backend.c import CBackend
from futad.core.interp import Interpreter
from futad.imp import ir
from futad.pipeline import compile_program
from futad.source import compile_text, load_program
from futad.target import C
from futad.testing.build import c_backend

TEXT = """
entry pushed (k: i64): []i64 = loop xs = [] for i < k do xs ++ [i * i]
entry pushed_some (k: i64): []i64 = loop xs = [] for i < k do if i % 3 == 0 then xs ++ [i] else xs
entry pushed_two (k: i64): ([]i64, []i64) = loop (xs, ys) = ([], [7]) for i < k do (xs ++ [i], ys ++ xs)
entry pushed_rows (k: i64): [][3]f64 = loop xs = [] for i < k do xs ++ [[f64.i64 i, 1, 2], [3, f64.i64 i, 4]]
entry pushed_arrays [n] (k: i64) (zs: [n]i64): []i64 = loop xs = zs for i < k do xs ++ map (+ i) zs
entry pushed_own (k: i64): []i64 = loop xs = [1] for i < k do xs ++ [xs[i / 2] + xs[length xs - 1]]
entry doubled (k: i64): []i64 = loop xs = [1, 2] for i < k do xs ++ xs
entry pushed_front (k: i64): []i64 = loop xs = [] for i < k do [i] ++ xs
entry pushed_changed (k: i64): []i64 =
  loop xs = [] for i < k do let ys = xs ++ [i] in ys with [i / 2] = ys[i / 2] + 10
entry kept_old (k: i64): ([]i64, i64) = loop (xs, s) = ([5], 0) for i < k do let ys = xs ++ [i] in (ys, s + i64.sum xs)
entry pushed_back (k: i64): []i64 = loop xs = [] for i < k do let ys = xs ++ [i] in if i % 2 == 0 then ys else xs
entry popped [n] (k: i64) (zs: [n]i64): []i64 = loop (xs: []i64) = zs for _i < k do init xs
entry popped_front [n] (k: i64) (zs: [n]i64): []i64 = loop (xs: []i64) = zs for _i < k do tail xs
entry popped_pushed [n] (k: i64) (zs: [n]i64): []i64 =
  loop (xs: []i64) = zs for i < k do if i % 2 == 0 then init xs else xs ++ [i, i + 1]
entry queue (k: i64): []i64 = loop (xs: []i64) = [1, 2, 3] for _i < k do tail xs ++ [xs[0] * 3 % 1001]
entry stack (k: i64): (i64, i64) =
  let (_, s, c) =
    loop (xs: []i64, s, c) = ([k], 0, 0) while length xs > 0 do
      let (x, ys) = (last xs, init xs)
      in if x <= 1 then (ys, s + x, c + 1) else (ys ++ [x / 2, x - x / 2 - 1], s + x, c + 1)
  in (s, c)
entry nested (k: i64): []i64 =
  loop xs = [0] for i < k do (loop ys = xs for j < i do if j % 2 == 0 then ys ++ [j] else init ys) ++ [100 + i]
entry nested_pushed (k: i64): []i64 = loop xs = [] for i < k do loop xs for j < 3 do xs ++ [i * j]
entry nested_some (k: i64): []i64 =
  loop xs = [] for i < k do if i % 2 == 0 then (loop ys = xs for j < i % 5 do ys ++ [j]) else xs ++ [i]
entry nested_read (k: i64): []i64 =
  loop xs = [1] for i < k do loop ys = xs for j < 2 do ys ++ [i64.sum xs % 7 + j]
entry nested_twice (k: i64): ([]i64, i64) =
  loop (xs, s) = ([3], 0) for i < k do
    let (ys, t) = loop (ys, t) = (xs, s) for j < 3 do (ys ++ [i + j], t + ys[j])
    in (ys, t + i64.sum xs)
entry nested_dropped (k: i64): []i64 =
  loop xs = [] for i < k do loop (ys: []i64) = xs ++ [i, i + 1] while length ys > 4 do tail ys
entry nested_both (k: i64): ([]i64, []i64) =
  loop (xs, zs) = ([], [1]) for i < k do
    loop (ys, ws) = (xs, xs) for j < 2 do (ys ++ [j], (if i == 0 then zs else ws) ++ [i])
entry nested_thrice (k: i64): []i64 =
  loop xs = [] for i < k do loop xs for j < 2 do loop xs = tail (xs ++ [0, 1]) for l < 2 do
    let ys = xs ++ [i + j + l] in ys with [0] = ys[0] + 1
entry inside [n] (k: i64) (zs: [n]i64): [n]i64 =
  map (\\z -> i64.sum (loop xs = [z] for i < k do if i % 4 == 3 then tail xs else xs ++ [xs[0] + i])) zs
entry untouched [n] (k: i64) (zs: [n]i64): ([n]i64, []i64) =
  (zs, loop (xs: []i64) = zs for i < k do init xs ++ [i] ++ [i])
entry swapped [n] (k: i64) (zs: [n]i64): ([n]i64, [n]i64) =
  loop (xs, ys) = (copy zs, map (* 2) zs) for i < k do (ys with [i % n] = xs[0] + i, xs)
entry swapped_read [n] (k: i64) (zs: [n]i64): ([n]i64, [n]i64) =
  loop (xs, ys) = (zs, map (* 2) zs) for _i < k do (ys, xs)
entry turned [n] (k: i64) (zs: [n]i64): ([n]i64, [n]i64, [n]i64, i64) =
  loop (a, b, c, s) = (copy zs, map (* 2) zs, map (* 3) zs, 0) for i < k do
    let t = a[0] + b[i % n] - c[n - 1]
    in (b with [0] = t, c with [n - 1] = i, a, s + t)
entry scattered [n] (k: i64) (zs: [n]i64): [n]i64 =
  let (xs, _) =
    loop (xs: *[n]i64, ys: *[n]i64) = (copy zs, copy zs) for i < k do
      (scatter ys (map (\\j -> (j * 7 + i) % n) (iota n)) (map2 (+) xs (reverse xs)), xs)
  in xs
entry swapped_if [n] (k: i64) (zs: [n]i64): ([n]i64, [n]i64) =
  loop (xs: [n]i64, ys: [n]i64) = (zs, map (* 2) zs) for i < k do if i % 3 == 0 then (xs, ys) else (ys, xs)
entry pairs [n] (k: i64) (zs: [n]i64): ([n]i64, [n]i64, [n]i64) =
  loop (a, b, c) = (copy zs, map (* 2) zs, map (+ 1) zs) for i < k do (b with [0] = c[0], a with [0] = i, map (+ i) c)
"""

GROWING = ["pushed", "pushed_some", "pushed_rows", "pushed_own", "pushed_changed", "nested_pushed", "nested_some"]
EXCHANGING = ["swapped", "swapped_read", "turned", "scattered"]


@pytest.fixture(scope="module")
def backend(core: Any) -> CBackend:
    return c_backend(core)


def names() -> list[str]:
    return [line.split()[1] for line in TEXT.splitlines() if line.startswith("entry")]


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("k", [0, 1, 2, 9])
def test_as_the_interpreter(core: Any, backend: CBackend, name: str, k: int) -> None:
    takes_array = core.funs[name].body.params[0].name == "n"
    zs = np.arange(3, 16)
    args = [zs.size, k, zs] if takes_array else [k]
    expected = Interpreter(core).run(name, args)
    for _ in range(2):
        # Memory of the first call is there for the second one.
        actual = backend.run(name, args)
        assert len(actual) == len(expected)
        for a, b in zip(actual, expected, strict=True):
            np.testing.assert_array_equal(a, b, strict=True)
    np.testing.assert_array_equal(zs, np.arange(3, 16))


@pytest.mark.slow
@pytest.mark.parametrize("name", GROWING)
def test_growing_arrays_are_seldom_moved(core: Any, name: str) -> None:
    fresh = c_backend(core)
    result = fresh.run(name, [30_000])[1]
    assert len(result) >= 10_000
    assert fresh.memory()[1] <= 40  # a factor of one and a half each


@pytest.mark.slow
def test_popping_and_pushing_needs_no_more_memory(core: Any) -> None:
    fresh = c_backend(core)
    fresh.run("queue", [1000])
    before = fresh.memory()[0]
    fresh.run("queue", [100_000])
    assert fresh.memory()[0] <= 2 * before + 1000


def walk(body: list[ir.Stmt]) -> Iterator[ir.Stmt]:
    for s in body:
        yield s
        for inner in ("body", "then", "orelse"):
            yield from walk(getattr(s, inner, []))


@pytest.mark.slow
@pytest.mark.parametrize("name", EXCHANGING)
def test_exchanged_arrays_are_not_copied(backend: CBackend, name: str) -> None:
    function = next(f for f in backend.module.functions if f.name == name)
    loop = next(s for s in function.body if isinstance(s, ir.For) and any(isinstance(x, ir.Swap) for x in s.body))
    assert not any(isinstance(s, ir.Copy) for s in walk(loop.body))


DIVISION = """
entry main [n] (xs: [n]i32) (ys: [n]i32): ([n]i32, [n]i32, [n]i32, [n]i32) =
  unzip4 (map2 (\\x y -> (x / y, x % y, x // y, x %% y)) xs ys)
entry by_one [n] (xs: [n]i32) (y: i32): [n]f32 =
  map (\\x -> let r = f32.i32 (x % y) in f32.sin r + f32.cos r + f32.i32 (x / y)) xs
"""


@pytest.fixture(scope="module")
def division(tmp_path_factory: pytest.TempPathFactory) -> Any:
    file = tmp_path_factory.mktemp("division") / "division.fut"
    file.write_text(DIVISION)
    return compile_program(load_program(str(file)))


def edges() -> np.ndarray[Any, Any]:
    low, high = -(2**31), 2**31 - 1
    near = [0, 1, 2, 3, 7, 10, 46340, 46341, 65535, 65536, 2**30 - 1, 2**30, 2**30 + 1]
    values = [low, low + 1, low + 2, high, high - 1, high - 2, *near, *[-v for v in near]]
    rng = np.random.default_rng(5)
    return np.unique(np.concatenate([values, rng.integers(low, high, 200), rng.integers(-50, 50, 60)])).astype(np.int32)


@pytest.mark.slow
def test_integer_division_in_lanes(division: Any) -> None:
    """Every pair of edge cases, as the interpreter has it; the smallest number by -1 wraps."""
    backend = c_backend(division)
    assert all(f"futad_lanes_{op}_i32" in backend.source for op in ("div", "mod", "quot", "rem"))
    xs, ys = (a.ravel().copy() for a in np.meshgrid(edges(), edges()[edges() != 0], indexing="ij"))
    expected = Interpreter(division).run("main", [xs.size, xs, ys])
    for a, b in zip(backend.run("main", [xs.size, xs, ys]), expected, strict=True):
        np.testing.assert_array_equal(a, b, strict=True)


@pytest.mark.parametrize("y", [-(2**31), -7, -1, 1, 6, 2**31 - 1])
def test_division_beside_other_work(division: Any, y: int) -> None:
    xs = edges()
    expected = Interpreter(division).run("by_one", [xs.size, xs, np.int32(y)])
    np.testing.assert_allclose(c_backend(division).run("by_one", [xs.size, xs, np.int32(y)])[0], expected[0], rtol=1e-5)


def test_lanes_are_those_of_the_floats() -> None:
    """Not of narrow integers, which are indices and choices beside them."""
    step = "let x = x * x - f64.i32 (k + 1) * x + f64.i32 k in "
    core = compile_program(
        compile_text(f"entry f [n] (ks: [n]i32) (xs: [n]f64): [n]f64 = map2 (\\k x -> {20 * step} x) ks xs"), target=C
    )
    backend = CBackend(core)
    assert "simdlen(FUTAD_VECTOR / 8)" in backend.source and "simdlen(FUTAD_VECTOR / 4)" not in backend.source
    ks, wanted = np.arange(35, dtype=np.int32) % 2, np.linspace(0, 1, 35)
    (made,) = backend.run("f", [35, ks, wanted])
    for _ in range(20):
        wanted = wanted * wanted - (ks + 1) * wanted + ks
    np.testing.assert_allclose(made, wanted, rtol=1e-12)
