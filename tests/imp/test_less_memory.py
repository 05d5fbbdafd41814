"""Memory that arrays share: dead inputs of nests, a loop's first value, products that are wanted by columns, slots by
what fits; and where sharing would be wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from futad.backend.c import CBackend
from futad.core.interp import Interpreter
from futad.imp import ir
from futad.imp.walk import statements
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import MULTICORE, C
from futad.testing.build import c_backend

TEXT = """
def mul [n][m][k] (a: [n][m]f64) (b: [m][k]f64): [n][k]f64 =
  map (\\r -> map (\\c -> f64.sum (map2 (*) r c)) (transpose b)) a

-- How many arrays of n x n there are beside the arguments, at most, is beside each.
entry over_input [n] (xs: [n][n]f64): [n][n]f64 = -- 1
  let p = map (scan (+) 0) xs
  let s = map f64.sum (transpose p)
  in map2 (\\r c -> map (\\x -> f64.sin x * c) r) p s
entry other_rows [n] (xs: [n][n]f64): [n][n]f64 = -- 2
  let p = map (scan (+) 0) xs
  let s = map f64.sum (transpose p)
  in map2 (\\i c -> map (\\x -> f64.sin x * c) p[(i + 1) % n]) (iota n) s
entry other_places [n] (xs: [n][n]f64): [n][n]f64 = -- 2
  let p = map (scan (+) 0) xs
  let s = map f64.sum (transpose p)
  in map2 (\\r c -> map2 (\\x y -> f64.sin x * y + c) r (reverse r)) p s
entry read_later [n] (xs: [n][n]f64): ([n][n]f64, [n]f64) = -- 2
  let p = map (scan (+) 0) xs
  let s = map f64.sum (transpose p)
  let q = map2 (\\r c -> map (\\x -> f64.sin x * c) r) p s
  let t = map f64.sum (transpose q)
  in (q, map2 (\\r c -> f64.sum (map (\\x -> f64.cos (x * c)) r)) p t)
entry summed_too [n] (xs: [n][n]f64): ([n][n]f64, f64, [n]f64) = -- 1
  let p = map (scan (+) 0) xs
  let s = map f64.sum (transpose p)
  let q = map2 (\\r c -> map (\\x -> f64.sin x * c) r) p s
  in (q, f64.sum (map f64.sum q), map (f64.maximum) q)
entry stepped [n] (k: i64) (xs: [n][n]f64): [n][n]f64 = -- 2
  let ys = mul xs xs
  in loop ys for i < k do map2 (\\i y -> map2 (+) (map (* 0.5) y) ys[(i + 1) % n]) (iota n) ys
entry stepped_and_kept [n] (k: i64) (xs: [n][n]f64): [n][n]f64 = -- 4
  let ys = mul xs xs
  let zs = loop ys for i < k do map2 (\\i y -> map2 (+) (map (* 0.5) y) ys[(i + 1) % n]) (iota n) ys
  in map2 (map2 (-)) zs ys
entry by_columns [n] (xs: [n][n]f64): [n][n]f64 = transpose (mul xs (map (map (+ 1)) xs)) -- 2
entry by_both [n] (xs: [n][n]f64): ([n][n]f64, [n][n]f64) = let p = mul xs xs in (p, transpose p) -- 2
entry plus_columns [n] (xs: [n][n]f64): [n][n]f64 = -- 2
  let p = mul xs xs in transpose (map2 (map2 (+)) (map (map f64.sin) p) (mul p xs))
-- The second sum is added to as rows of it are updated in the loop's own memory.
entry beside_sums [n] (k: i64) (xs: [n][n]f64): ([n][n]f64, [n][n]f64) = -- 8
  vjp (\\(us, ks) -> loop us for _t < k do
    map2 (\\i r -> map2 (\\u c -> u + c * us[(i + 1) % n, 0]) r ks[i]) (iota n) us) (xs, xs) xs
entry swapped [n] (k: i64) (xs: [n][n]f64): ([n][n]f64, [n][n]f64) = -- 3
  let p = mul xs xs
  in loop (a, b) = (p, p) for i < k do (map (map (* 0.5)) b, map2 (map2 (+)) a b)
-- What is copied, read before and updated is made where the copy is wanted; not while a part of it is read later.
entry copied [n] (k: i64) (xs: [n][n]f64): [n][n]f64 = -- 2
  loop ys = map (map (+ 1)) xs for i < k do
    let ys = tabulate_2d n n (\\x y -> ys[(x + 1) % n, y] + 0.5 * ys[x, (y + 1) % n])
    in copy ys with [0, n / 2] = ys[n / 2, 0] + 1
entry copied_and_read [n] (k: i64) (xs: [n][n]f64): ([n][n]f64, [n]f64, f64) = -- 3
  loop (ys, _, t) = (map (map (+ 1)) xs, replicate n 0, 0) for i < k do
    let ys = tabulate_2d n n (\\x y -> ys[(x + 1) % n, y] + 0.5 * ys[x, (y + 1) % n])
    let row = ys[i % n]
    let zs = copy ys with [i % n, n / 2] = ys[n / 2, 0] + 1
    in (zs, row, t + f64.sum (map2 (*) row zs[i % n]))
entry scattered [n] (k: i64) (xs: [n][n]f64): ([n][n]f64, [n]f64, f64) = -- 3
  loop (ys, _, t) = (map (map (+ 1)) xs, replicate n 0, 0) for i < k do
    let ys = tabulate_2d n n (\\x y -> ys[(x + 1) % n, y] + 0.5 * ys[x, (y + 1) % n])
    let row = ys[i % n]
    let zs = scatter (copy ys) [i % n, (i + 2) % n] [map (+ 1) row, map (+ 2) row]
    in (zs, row, t + f64.sum (map2 (*) row zs[i % n]))
"""
SIZE = 160
WITH_COUNT = ("stepped", "stepped_and_kept", "beside_sums", "swapped", "copied", "copied_and_read", "scattered")
ENTRIES = [line.split()[1] for line in TEXT.splitlines() if line.startswith("entry")]


@pytest.fixture(scope="module")
def core() -> Any:
    return compile_text(TEXT)


@pytest.fixture(scope="module")
def interpreted(core: Any) -> Any:
    return compile_program(core)


@pytest.fixture(scope="module")
def compiled(core: Any) -> Any:
    return compile_program(core, target=C, check=True)


@pytest.fixture(scope="module", params=[C, MULTICORE], ids=lambda t: t.name)
def backend(request: pytest.FixtureRequest, core: Any, compiled: Any) -> CBackend:
    target = request.param
    return c_backend(compiled if target is C else compile_program(core, target=target, check=True), target)


def arguments(name: str, n: int) -> list[Any]:
    xs = np.random.default_rng(n).normal(size=(n, n)) / n**0.5
    return [n, 3, xs] if name in WITH_COUNT else [n, xs]


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 9, 70])
@pytest.mark.parametrize("name", ENTRIES)
def test_as_the_interpreter(interpreted: Any, backend: CBackend, name: str, n: int) -> None:
    args = arguments(name, n)
    for a, e in zip(backend.run(name, args), Interpreter(interpreted).run(name, args), strict=True):
        np.testing.assert_allclose(a, e, rtol=1e-11, atol=1e-11)


def arrays_at_most(name: str) -> int:
    """What the program says."""
    lines = iter(TEXT.splitlines())
    return next(int(line.rsplit("--", 1)[1]) for line in lines if line.startswith(f"entry {name} "))


@pytest.mark.parametrize("name", ENTRIES)
def test_arrays_at_once(compiled: Any, name: str) -> None:
    own = c_backend(compiled)
    results = own.run(name, arguments(name, SIZE))
    held = own.memory()[0] + sum(r.nbytes for r in results if r.nbytes > 1 << 16)
    assert held / (8 * SIZE * SIZE) < arrays_at_most(name) + 0.5


def test_products_by_columns_are_not_transposed(backend: CBackend) -> None:
    (f,) = [f for f in backend.module.functions if f.name == "by_columns"]
    assert not any(isinstance(s, (ir.Transpose, ir.Copy)) for s in statements(f.body))
