"""Right factors of products that are packed once for the iterations of a loop or map, and products made some rows at a
time: the same results as the interpreter's, and where the C text packs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from futad.backend.c import CBackend
from futad.core.interp import Interpreter
from futad.testing.build import c_backend

TEXT = """
def mul [m][k][n] (a: [m][k]f64) (b: [k][n]f64): [m][n]f64 =
  map (\\x -> map (\\y -> f64.sum (map2 (*) x y)) (transpose b)) a
def mulf [m][k][n] (a: [m][k]f32) (b: [k][n]f32): [m][n]f32 =
  map (\\x -> map (\\y -> f32.sum (map2 (*) x y)) (transpose b)) a
entry power [m][n] (iterations: i64) (a: [m][n]f64) (b: [n][n]f64): [m][n]f64 = loop a for _i < iterations do mul a b
entry turned [m][n] (iterations: i64) (a: [m][n]f32) (b: [n][n]f32): [m][n]f32 =
  loop a for _i < iterations do mulf a (transpose b)
entry until [m][n] (iterations: i64) (a: [m][n]f64) (b: [n][n]f64): [m][n]f64 =
  (loop (i, a) = (0, a) while i < iterations do (i + 1, mul a b)).1
entry batch [t][m][k][n] (a: [t][m][k]f64) (b: [k][n]f64): [t][m][n]f64 = map (\\x -> mul x b) a
entry nested [t][m][n] (iterations: i64) (a: [t][m][n]f64) (b: [n][n]f64): [t][m][n]f64 =
  map (\\x -> loop x for i < iterations do let c = map (map (* f64.i64 (i + 1))) b in mul (mul x c) b) a
entry changing [m][n] (iterations: i64) (a: [m][n]f64) (b: *[n][n]f64): ([m][n]f64, [n][n]f64) =
  loop (a, b) for i < iterations do (mul a b, b with [0, i % n] = 2)
entry rows [t][m][k][n] (a: [t][m][k]f64) (b: [k][n]f64): [t][m]f64 =
  map (\\x -> map (\\r -> f64.maximum (map (+ r[0]) r)) (mul x b)) a
entry top [m][k][n] (a: [m][k]f64) (b: [k][n]f64): [m]f64 =
  map (\\r -> f64.maximum (map (+ r[0]) r)) (mul a b)
entry turned_top [m][k][n] (a: [m][k]f64) (b: [n][k]f64): ([m]f64, f64) =
  let s = map (\\r -> f64.maximum (map (+ r[0]) r)) (mul a (transpose b)) in (s, f64.maximum s)
entry folded [m][k][n] (a: [m][k]f64) (b: [k][n]f64): f64 =
  f64.sum (map (\\r -> f64.sum (map (\\x -> x * x) r)) (mul a b))
entry after [m][k][n] (a: [m][k]f64) (b: *[k][n]f64): ([m]f64, [k][n]f64) =
  let s = map (\\r -> f64.maximum (map (+ r[0]) r)) (mul a b) in (s, b with [0, 0] = 100)
entry few [n] (iterations: i64) (a: [1][n]f64) (b: [n][n]f64): [1][n]f64 = loop a for _i < iterations do mul a b
def slope [m][n] (iterations: i64) (a: [m][n]f64) (b: [n][n]f64): f64 =
  f64.sum (flatten (loop a for _i < iterations do map (map f64.tanh) (mul a b)))
entry gradient [m][n] (iterations: i64) (a: [m][n]f64) (b: [n][n]f64): ([m][n]f64, [n][n]f64) =
  vjp (\\(a, b) -> slope iterations a b) (a, b) 1
"""


def same(core: Any, backend: CBackend, name: str, *args: Any) -> None:
    copies = [[a.copy() if isinstance(a, np.ndarray) else a for a in args] for _ in range(2)]
    expected = Interpreter(core).run(name, copies[0])
    for a, e in zip(backend.run(name, copies[1]), expected, strict=True):
        tolerance = 2e-5 if a.dtype == np.float32 else 1e-11
        np.testing.assert_allclose(a, e, rtol=tolerance, atol=tolerance * max(1.0, np.abs(e).max(initial=0)))


def values(*shape: int, dtype: Any = np.float64) -> Any:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) / max(1, shape[-1]) ** 0.5).astype(dtype)


@pytest.mark.slow
@pytest.mark.parametrize("m, n", [(0, 3), (1, 1), (5, 0), (40, 33), (3, 70), (150, 9)])
@pytest.mark.parametrize("iterations", [0, 1, 2, 12])
def test_loops(core: Any, backend: CBackend, m: int, n: int, iterations: int) -> None:
    for name in ("power", "until", "gradient"):
        same(core, backend, name, m, n, iterations, values(m, n), values(n, n))
    same(core, backend, "turned", m, n, iterations, values(m, n, dtype=np.float32), values(n, n, dtype=np.float32))
    same(core, backend, "few", n, iterations, values(1, n), values(n, n))
    same(core, backend, "nested", 2, m, n, iterations, values(2, m, n), values(n, n))
    if n:
        same(core, backend, "changing", m, n, iterations, values(m, n), values(n, n))


@pytest.mark.slow
@pytest.mark.parametrize("t, m, k, n", [(0, 2, 3, 4), (1, 40, 7, 30), (5, 33, 20, 51), (3, 1, 9, 9), (2, 600, 70, 230)])
def test_maps(core: Any, backend: CBackend, t: int, m: int, k: int, n: int) -> None:
    a, b = values(t, m, k), values(k, n)
    same(core, backend, "batch", t, m, k, n, a, b)
    if n:
        same(core, backend, "rows", t, m, k, n, a, b)


@pytest.mark.slow
@pytest.mark.parametrize("m, k, n", [
    (0, 3, 4), (1, 40, 7), (63, 5, 20), (64, 5, 20), (65, 1, 1), (300, 70, 51), (1030, 9, 130)])
def test_one_product(core: Any, backend: CBackend, m: int, k: int, n: int) -> None:
    """Of few rows, which threads make together, and of many, of which each makes its own."""
    a, b = values(m, k), values(k, n)
    same(core, backend, "turned_top", m, k, n, a, np.ascontiguousarray(b.T))
    for name in ("top", "folded", "after"):
        same(core, backend, name, m, k, n, a, b)


@pytest.mark.slow
def test_threads_make_the_rows_that_they_read(core: Any) -> None:
    text = c_backend(core, multicore=True).source
    for name in ("top", "folded"):
        entry = text.split(f"\nint64_t futad_entry_{name}(", 1)[1].split("\nint64_t futad_entry_", 1)[0]
        body, regions = entry.split("\n}\n", 1)
        assert body.count("futad_gemm_parallel_f64(") == 1 and "few" in body
        assert regions.count("futad_gemm_f64(") == 1


def test_where_factors_are_packed(core: Any) -> None:
    """Before the loop, if the factor is not made in it."""
    bodies = {f.split("(", 1)[0]: f for f in c_backend(core).source.split("\nint64_t futad_entry_")[1:]}
    for name in ("power", "turned", "until", "batch"):
        before, after = bodies[name].split("futad_gemm_pack_", 1)
        assert "futad_gemm_f" not in before and "for (" not in before, name
        assert "futad_gemm_f" in after and ("for (" in after or "while (" in after), name
    assert "futad_gemm_pack_" not in bodies["changing"]
