"""Matrix products on the C backends that are made some rows at a time, for the map that reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import futad
from futad.errors import BoundsError
from futad.imp import ir, rows
from futad.pipeline import compile_program
from futad.source import compile_text, load_program
from futad.testing.build import c_backend

TEXT = """
def mm [n][k][m] (a: [n][k]f64) (b: [k][m]f64): [n][m]f64 =
  map (\\row -> map (\\column -> f64.sum (map2 (*) row column)) (transpose b)) a

entry norms [n][k][m] (a: [n][k]f64) (b: [k][m]f64): [n]f64 =
  map (\\row -> f64.sqrt (f64.sum (map (\\t -> t * t) row))) (mm a b)
entry turned [n][k][m] (a: [n][k]f64) (b: [k][m]f64): [n][m]f64 =
  map (\\row -> map2 (\\x y -> x * 2 + y) row (reverse row)) (mm (reverse a) b)
entry both [n][k][m] (a: [n][k]f64) (b: [k][m]f64): ([n][m]f64, f64, [m]f64) =
  let parts = map (\\row -> let s = f64.sum row in (map (/ (s * s + 1)) row, s)) (mm a b)
  let (xs, ss) = unzip parts
  in (xs, f64.sum ss, reduce_comm (map2 (+)) (replicate m 0) xs)
entry scanned [n][k][m] (a: [n][k]f64) (b: [k][m]f64): ([n]f64, [n]f64) =
  let s = map (\\row -> f64.maximum (map f64.sin row)) (mm a b)
  in (s, scan (+) 0 s)
entry many [n][k][m] (a: [n][k]f64) (b: [k][m]f64): [3][n]f64 =
  map (\\c -> map (\\row -> f64.maximum (map f64.sin row)) (mm a (map (map (* c)) b))) [1, 2, 3]
entry steps [n][k][m] (a: [n][k]f64) (b: [k][m]f64): [n][k]f64 =
  let w = mm b (transpose b)
  in loop x = copy a for _i < 3 do map (\\row -> map2 (\\s t -> f64.cos (s + t)) row (reverse row)) (mm x w)
entry written [n][k][m] (a: [n][k]f64) (b: [k][m]f64): [3][n][k]f64 =
  let w = mm b (transpose b)
  in loop z = replicate 3 a for i < 3 do
       z with [i] = map (\\row -> map2 (\\s t -> f64.cos (s + t)) row (reverse row)) (mm z[i] w)
entry following [n][k][m] (a: [n][k]f64) (b: [k][m]f64): [3][n][k]f64 =
  let w = mm b (transpose b)
  in loop z = replicate 3 a for i < 2 do
       z with [i + 1] = map (\\row -> map2 (\\s t -> f64.cos (s + t)) row (reverse row)) (mm z[i] w)
entry pair [n][k][m] (a: [n][k]f64) (b: [k][m]f64): [n]f64 =
  map2 (\\x y -> f64.sum (map2 (\\s t -> f64.sin s * t) x (reverse y))) (mm a b) (mm (reverse a) b)
entry wide [n][k][m] (a: [n][k]f64) (b: [k][m]f64): [n]f64 =
  let w = mm b (transpose b)
  let v = map (map f64.sin) b
  in map3 (\\x y z -> f64.sum x * f64.maximum y + f64.sum (map2 (*) z (reverse z)))
          (mm a b) (mm (reverse a) w) (mm a v)
entry gates [n][k][m] (a: [n][k]f64) (b: [k][m]f64): [n][k]f64 =
  let w = mm b (transpose b)
  in loop x = copy a for _i < 3 do
       map2 (\\s t -> map2 (\\s t -> f64.cos (s + t)) s (reverse t)) (mm x w) (mm (reverse x) w)
entry picked [n][k][m] (at: i64) (a: [n][k]f64) (b: [k][m]f64): [n]f64 =
  map (\\row -> row[at] + f64.sum row) (mm a b)
"""
LEAST = rows.LEAST  # what users have
NAMES = ["norms", "turned", "both", "scanned", "many", "steps", "written", "following", "pair", "wide", "gates"]


@pytest.fixture(scope="module")
def programs() -> dict[str, Any]:
    """The C backends do 8 rows at a time, however small the product."""
    patch = pytest.MonkeyPatch()
    patch.setattr(rows, "ROWS", 8)
    patch.setattr(rows, "LEAST", 1)
    made = {b: futad.compile(TEXT, name="rows", backend=b) for b in ("interp", "c", "multicore")}
    for p in made.values():
        p.norms(np.ones((1, 1)), np.ones((1, 1)))  # compiles all
    yield made
    patch.undo()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("backend", ["c", "multicore"])
def test_as_the_interpreter(programs: dict[str, Any], backend: str, name: str) -> None:
    for n, k, m in ((1, 1, 1), (8, 3, 4), (9, 5, 33), (37, 2, 7), (16, 70, 5), (0, 3, 2)):
        r = np.random.default_rng(n + 10 * k + 100 * m)
        a, b = 0.3 * r.standard_normal((n, k)), 0.3 * r.standard_normal((k, m))
        expected, got = (programs[p][name](a, b) for p in ("interp", backend))
        for x, y in zip(*(v if isinstance(v, tuple) else (v,) for v in (got, expected)), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_failures_and_nan_in_later_rows(programs: dict[str, Any]) -> None:
    a, b = np.ones((20, 3)), np.zeros((3, 5))
    a[17, 1] = np.nan
    assert np.flatnonzero(np.isnan(programs["c"].norms(a, b))).tolist() == [17]
    assert np.isnan(programs["c"].picked(4, a, b)[17])
    with pytest.raises(BoundsError):
        programs["c"].picked(5, a, b)


@pytest.mark.slow
def test_only_some_rows_are_in_memory(tmp_path: Any) -> None:
    file = tmp_path / "rows.fut"
    file.write_text(TEXT)
    for f in c_backend(compile_program(load_program(str(file)))).module.functions:
        if f.name in ("norms", "turned", "both", "scanned", "picked"):
            (loop,) = [s for s in f.body if isinstance(s, ir.For) and any(isinstance(t, ir.Gemm) for t in s.body)]
            (product,) = [s for s in loop.body if isinstance(s, ir.Gemm)]
            (memory,) = [s for s in f.body if isinstance(s, ir.Ensure) and s.name == product.c[0]]
            made = {s.name: s.init for s in f.body if isinstance(s, ir.Decl)}
            assert isinstance(memory.count, ir.Bin) and isinstance(memory.count.left, ir.Ref)
            assert ir.num(rows.ROWS) in leaves(made[memory.count.left.name])


@pytest.mark.slow
@pytest.mark.parametrize("multicore", [False, True])
def test_several_products_of_one_map(tmp_path: Any, multicore: bool) -> None:
    """All are made in the loop over parts, none before."""
    file = tmp_path / "rows.fut"
    file.write_text(TEXT)
    core = compile_program(load_program(str(file)))
    functions = {f.name: f for f in c_backend(core, multicore=multicore).module.functions}
    for name, expected in (("norms", 1), ("pair", 2), ("wide", 3), ("gates", 2)):
        assert max(in_one_loop(functions[name].body)) == expected, name


@pytest.mark.parametrize(("n", "by_rows"), [(1000, False), (2000, True)])
def test_constant_sizes(n: int, by_rows: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A product too large for the nearer caches is made by rows, too, if its sizes are known."""
    monkeypatch.setattr(rows, "LEAST", LEAST)
    text = f"""
      entry least (a: [{n}][16]f64) (b: [16][100]f64): [{n}]f64 =
        map f64.minimum (map (\\row -> map (\\column -> f64.sum (map2 (*) row column)) (transpose b)) a)"""
    (f,) = c_backend(compile_program(compile_text(text))).module.functions
    assert (max(in_one_loop(f.body), default=0) == 1) == by_rows
    args = [np.random.default_rng(n).standard_normal(shape) for shape in ((n, 16), (16, 100))]
    got = futad.compile(text, backend="c").least(*args)
    np.testing.assert_allclose(got, (args[0] @ args[1]).min(axis=1), rtol=1e-12)


def in_one_loop(body: list[ir.Stmt]) -> Iterator[int]:
    """How many products, under a condition or not, loops have side by side."""
    for s in body:
        for inner in parts_of(s):
            if isinstance(s, ir.For):
                yield sum(isinstance(t, ir.Gemm) for u in inner for t in (u, *getattr(u, "then", ())))
            yield from in_one_loop(inner)


def parts_of(s: ir.Stmt) -> list[list[ir.Stmt]]:
    return [v for f in fields(s) if isinstance(v := getattr(s, f.name), list) and v and isinstance(v[0], ir.Stmt)]


def leaves(e: ir.Expr) -> list[ir.Expr]:
    return [x for a in e.args for x in leaves(a)] if isinstance(e, ir.Scalar) else [e]
