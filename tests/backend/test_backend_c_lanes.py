"""The C backends: reductions over rows of a matrix, with many rows at a time in vector lanes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from futad.backend.c import CBackend
from futad.core.interp import Interpreter
from futad.core.text import lambda_text
from futad.imp import ir
from futad.optimise.layout import by_columns
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import C
from futad.testing.build import c_backend

TEXT = """
def distance [d] (p: [d]f64) (c: [d]f64): f64 = f64.sum (map2 (\\a b -> (a - b) * (a - b) / 2) p c)
entry nearest [n][k][d] (ps: [n][d]f64) (cs: [k][d]f64): [n]f64 =
  map (\\p -> f64.minimum (map (distance p) cs)) ps
entry distances [n][k][d] (ps: [n][d]f64) (cs: [k][d]f64): [n][k]f64 =
  map (\\p -> map (\\c -> 1 + distance p c) cs) ps
entry total [n][k][d] (ps: [n][d]f64) (cs: [k][d]f64): f64 =
  f64.sum (map (\\p -> f64.sum (map (\\c -> f64.exp (-distance p c)) cs)) ps)
entry first [n][k][d] (ps: [n][d]f64) (cs: [k][d]f64): [n]i64 =
  map (\\p -> let ds = map (distance p) cs
             let least = f64.minimum ds
             in i64.minimum (map2 (\\i x -> if x == least then i else k) (iota k) ds)) ps
entry gradient [n][k][d] (ps: [n][d]f64) (cs: [k][d]f64): [k][d]f64 =
  vjp (\\cs -> f64.sum (map (\\p -> f64.minimum (map (distance p) cs)) ps)) cs 1
entry batch [n][k][d] (ps: [n][d]f64) (cs: [k][d]f64): [3][n]f64 =
  map (\\t -> let cs = map (\\c -> scan (+) 0 (map (* f64.i64 t) c)) cs
             in map (\\p -> f64.minimum (map (distance p) cs)) ps) (iota 3)
entry largest [n][k][d] (ps: [n][d]f64) (cs: [k][d]f64): f64 =
  f64.maximum (map (\\p -> f64.maximum (map (\\c -> f64.maximum (map2 (-) p c)) cs)) ps)
entry few [n][d] (ps: [n][d]f64) (cs: [7][d]f64): [n]f64 = map (\\p -> f64.minimum (map (distance p) cs)) ps
entry rows [n][d] (ps: [n][d]f64) (cs: [n][d]f64): [n]f64 = map2 distance ps cs
"""
NAMES = ("nearest", "distances", "total", "first", "gradient", "batch", "largest")


@pytest.mark.slow
@pytest.mark.parametrize("k", [0, 1, 7, 8, 9, 15, 16, 17, 24, 25, 31, 32, 33, 49, 64, 97])
@pytest.mark.parametrize("n,d", [(0, 3), (3, 0), (1, 1), (5, 7), (4, 16)])
def test_as_the_interpreter(core: Any, backend: CBackend, n: int, d: int, k: int) -> None:
    rng = np.random.default_rng(100 * k + d)
    ps, cs = rng.standard_normal((n, d)), rng.standard_normal((k, d))
    for name in NAMES:
        sizes = dict(zip(("n", "d", "k"), (n, d, k), strict=True))
        params = [p.name for p in core.funs[name].body.params]
        args = [sizes.get(p, ps if p == "ps" else cs) for p in params]
        for a, e in zip(backend.run(name, args), Interpreter(core).run(name, args), strict=True):
            np.testing.assert_allclose(a, e, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
def test_nan_and_infinity(core: Any, backend: CBackend) -> None:
    ps, cs = np.ones((2, 3)), np.arange(120.0).reshape(40, 3)
    cs[5, 1], cs[9, 0], cs[39, 2] = np.nan, np.inf, -np.inf
    params = [p.name for p in core.funs["nearest"].body.params]
    args = [{"n": 2, "d": 3, "k": 40, "ps": ps, "cs": cs}[p] for p in params]
    for name in ("nearest", "distances"):
        np.testing.assert_array_equal(backend.run(name, args)[0], Interpreter(core).run(name, args)[0])


def across(backend: CBackend, name: str) -> int:
    def count(body: list[ir.Stmt]) -> int:
        total = 0
        for s in body:
            total += isinstance(s, ir.VectorisedFor)
            total += sum(count(getattr(s, part, [])) for part in ("body", "then", "orelse"))
        return total

    return sum(count(f.body) for f in backend.module.functions if f.name == name)


@pytest.mark.slow
def test_structure(core: Any) -> None:
    """In lanes where there may be rows enough, and the reduction is a sum; the matrix is copied
    once a call, or an element of a batch."""
    backend = c_backend(core)
    assert {name: across(backend, name) for name in (*NAMES, "few", "rows") if name != "batch"} == {
        "nearest": 1, "distances": 1, "total": 1, "first": 1, "gradient": 1, "largest": 0, "few": 0, "rows": 0,
    }  # fmt: skip
    again = by_columns(core)
    assert again.funs["few"] is core.funs["few"] and again.funs["rows"] is core.funs["rows"]


@pytest.mark.slow
def test_the_matrix_of_each_element_of_a_batch() -> None:
    """It is laid out where it is made."""
    told = lambda_text(compile_program(compile_text(TEXT), target=C).funs["batch"].body)
    assert re.search(r"map\(3i64.*let columns_\d+: \[d_\d+\]\[k_\d+\].* = map\(n_\d+", told, re.DOTALL)


@pytest.mark.slow
def test_what_is_done_twice(core: Any) -> None:
    """Iterations whose results are stored or of which the least counts; not those that are summed."""
    source = c_backend(core).source
    for name, twice in (("nearest", True), ("distances", True), ("gradient", True), ("total", False)):
        start = source.index(f"int64_t futad_entry_{name}(")
        text = source[start : source.index("\n}\n", start)]
        assert ("int64_t stride =" in text, "int64_t skipped =" in text) == (twice, not twice), name


def test_f32_has_vectors_of_its_own() -> None:
    """Whole ones, and halves where there are fewer iterations than lanes."""
    text = TEXT.replace("f64", "f32")
    backend = CBackend(compile_program(compile_text(text[: text.index("entry distances")]), target=C))
    assert across(backend, "nearest") == 1
    assert {"futad_wide_f32 ", "futad_half_f32 "} <= set(re.findall(r"futad_\w+_f32 (?=\w+_v\[)", backend.source))


@pytest.mark.slow
def test_f32_as_the_interpreter() -> None:
    core = compile_program(compile_text(TEXT.replace("f64", "f32")), target=C)
    backend = c_backend(core)
    for k in (0, 1, 3, 4, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 49, 64, 65, 97):
        for n, d in ((0, 3), (3, 0), (1, 1), (5, 7)):
            rng = np.random.default_rng(100 * k + d)
            ps, cs = rng.standard_normal((n, d), np.float32), rng.standard_normal((k, d), np.float32)
            for special in (None, np.inf, np.nan):
                if special is not None and cs.size:
                    cs[k // 2, d // 2] = special
                for name in NAMES:
                    sizes = dict(zip(("n", "d", "k"), (n, d, k), strict=True))
                    args = [sizes.get(p.name, ps if p.name == "ps" else cs) for p in core.funs[name].body.params]
                    for a, e in zip(backend.run(name, args), Interpreter(core).run(name, args), strict=True):
                        np.testing.assert_allclose(a, e, rtol=2e-5, atol=2e-5, err_msg=f"{name} {n} {d} {k}")
