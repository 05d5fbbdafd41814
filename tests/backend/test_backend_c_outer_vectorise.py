"""The C backends: maps around loops that carry scalars, many iterations at a time in vector lanes."""

from __future__ import annotations

import re
from pathlib import Path
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

TEXTBOOK = Path(__file__).parents[2] / "benchmarks" / "textbook"
TEXT = """
def horner [m] (x: [m]f64) (t: f64): f64 = loop y = 0 for j < m do y * t + x[m - 1 - j]
def wave [m] (x: [m]f64) (t: f64): f64 =
  let (a, b) = loop (a, b) = (t, 1) for j < m do (b + 0.5 * x[j], a * t - b)
  in a * b

entry values [n][m] (ts: [n]f64) (x: [m]f64): [n]f64 = map (horner x) ts
entry total [n][m] (ts: [n]f64) (x: [m]f64): f64 = f64.sum (map (\\t -> let r = t - horner x t in r * r) ts)
entry largest [n][m] (ts: [n]f64) (x: [m]f64): f64 = f64.maximum (map (horner x) ts)
entry gradient [n][m] (ts: [n]f64) (x: [m]f64): ([n]f64, [m]f64) =
  vjp (\\(ts, x) -> f64.sum (map (\\t -> f64.sin (horner x t)) ts)) (ts, x) 1
entry coefficients [n][m] (ts: [n]f64) (x: [m]f64): [m]f64 =
  vjp (\\x -> f64.sum (map (\\t -> f64.sin (horner x t)) ts)) x 1
entry hessian_row [n][m] (ts: [n]f64) (x: [m]f64): [m]f64 =
  jvp (\\x -> vjp (\\x -> f64.sum (map (\\t -> f64.sin (horner x t)) ts)) x 1) x (map (+ 1) x)
entry pairs [n][m] (ts: [n]f64) (x: [m]f64): ([n]f64, [n]f64) =
  unzip (map (\\t -> let y = wave x t in (y, horner x y)) ts)
entry single [n][m] (ts: [n]f64) (x: [m]f64): [n]f32 =
  let zs = map f32.f64 x
  in map (\\t -> loop y = f32.f64 t for j < m do f32.max (y * 0.5) (zs[j] - y)) ts
entry whole [n][m] (ts: [n]f64) (x: [m]f64): [n]i32 =
  let ks = map (\\v -> i32.f64 (10 * v)) x
  in map (\\t -> loop y = i32.f64 (100 * t) for j < m do (y * 31 ^ ks[j]) + i32.i64 j) ts
entry flags [n][m] (ts: [n]f64) (x: [m]f64): [n]bool =
  map (\\t -> (loop (odd, y) = (false, t) for j < m do (odd != (y > 0), x[j] - y * 0.9)).0) ts
entry rows [n][m] (ts: [n]f64) (x: [m]f64): [n][m]f64 =
  map (\\s -> map (\\t -> s * horner x t) x) ts
entry own_rows [n][m] (ts: [n]f64) (x: [m]f64): [n]f64 =
  let a = map (\\t -> map (* t) x) ts in map2 (\\t row -> horner row t) ts a
def nested [m] (x: [m]f64) (t: f64): f64 =
  loop y = t for j < m do (loop z = y for k < j do 0.5 * z + x[k] * t) + f64.cos (y * x[j])
entry slopes [n][m] (ts: [n]f64) (x: [m]f64): [n]f64 = map (\\t -> vjp (horner x) t 1) ts
entry curves [n][m] (ts: [n]f64) (x: [m]f64): ([n]f64, [n]f64) =
  unzip (map (\\t -> jvp (\\t -> vjp (wave x) t 1) t 1 |> \\d -> (d, vjp (wave x) (2 * t) d)) ts)
entry loops [n][m] (ts: [n]f64) (x: [m]f64): [n]f64 = map (nested x) ts
entry loop_slopes [n][m] (ts: [n]f64) (x: [m]f64): [n]f64 = map (\\t -> vjp (nested x) t 1) ts
entry loops_gradient [n][m] (ts: [n]f64) (x: [m]f64): [m]f64 =
  vjp (\\x -> f64.sum (map (nested x) ts)) x 1
entry fixed [n][m] (ts: [n]f64) (_x: [m]f64): [n]f64 =
  map (\\t -> vjp (\\t -> loop y = t for j < 7 do f64.sin (y * t) + f64.i64 j) t 1) ts
def lse (a: f64) (b: f64): f64 =
  let m = f64.max a b in if m == -f64.inf then m else m + f64.log (f64.exp (a - m) + f64.exp (b - m))
def outer [n][m] (ts: [n]f64) (x: [m]f64) =
  loop a = map (\\t -> map (\\v -> t * v + v) x) ts for i < 2 do map (map (+ f64.i64 i)) a
entry row_folds [n][m] (ts: [n]f64) (x: [m]f64): [n]f64 = map (reduce lse (-f64.inf)) (outer ts x)
entry row_slopes [n][m] (ts: [n]f64) (x: [m]f64): [n][m]f64 =
  vjp (map (reduce lse (-f64.inf))) (outer ts x) (map (+ 1) ts)
entry row_scans [n][m] (ts: [n]f64) (x: [m]f64): [n][m]f64 = map (scan lse (-f64.inf)) (outer ts x)
entry column_folds [n][m] (ts: [n]f64) (x: [m]f64): [n]f64 =
  map (reduce lse (-f64.inf)) (transpose (rotate 1 (map (\\v -> map (+ v) ts) x)))
entry either [n][m] (ts: [n]f64) (x: [m]f64): [n]f64 =
  let step (y: f64) (v: f64) = if y > v then f64.sin (y - v) + f64.exp (-y * y) else f64.cos (v * y) * f64.tanh v
  in map (\\t -> loop y = t for j < m do step y x[j]) ts
entry either_slopes [n][m] (ts: [n]f64) (x: [m]f64): [n]f64 =
  let step (y: f64) (v: f64) = if y > v then f64.sin (y - v) + f64.exp (-y * y) else f64.cos (v * y) * f64.tanh v
  in map (\\t -> vjp (\\t -> loop y = t for j < m do step y x[j]) t 1) ts
entry guarded [n][m] (ts: [n]f64) (x: [m]f64): [n]f64 =
  map (\\t -> loop y = t for j < m do if y > 0 then f64.exp (-y) + x[m - 1 - j] * f64.sin (f64.log (1 + y * y))
                                     else f64.sqrt (y * y + 1) * f64.cos (y * f64.tanh y)) ts
entry product_slopes [n][m] (ts: [n]f64) (x: [m]f64): ([n][m]f64, [n][m]f64) =
  let product a b = map (\\r -> map (\\c -> reduce lse (-f64.inf) (map2 (+) r c)) b) a
  in vjp (\\(a, b) -> product a b) (outer ts x, outer (reverse ts) x) (tabulate_2d n n (\\i j -> ts[i] - ts[j]))
entry in_branches [n][m] (ts: [n]f64) (x: [m]f64): [n]f64 =
  map (\\t -> let k = i64.f64 (9 * t)
             let z = f64.i64 (if k > 1 then (k + m) / 3 else k % 5)
             in loop y = t for j < m do y * 0.5 + z * x[j]) ts
entry own_elements [n][m] (ts: [n]f64) (x: [m]f64): [n]f64 =
  map2 (\\t i -> let a = map (* t) ts
                in loop y = t for j < m do y * 0.5 + f64.exp (f64.sin (x[j] * a[i]))) ts (iota n)
entry crossing [n][m] (ts: [n]f64) (_x: [m]f64): [2][n][n]f64 =
  vjp (\\x -> f64.sum (map (\\i -> loop y = 0.5 for l < i64.min n m do loop y for j < n do
                 f64.sin (y * 0.3 + x[0, i, n - 1 - j]) + f64.sin (0.2 * y * x[0, n - 1 - l, i])) (iota n)))
      (replicate 2 (map (\\s -> map (* s) ts) ts)) 1
-- Arrays that are folded into where they lie: two numbers, and a vector of which others are used too.
entry folded [n][m] (ts: [n]f64) (x: [m]f64): [2]f64 =
  reduce (\\a b -> let c = loop c = b[1] for j < m do c + a[0] * b[0] * x[j]
                   let s = a[0] let p = a[1]
                   let d = copy a with [0] = s + b[0] in d with [1] = p + c) [0, 0] (map (\\t -> [t, t * t]) ts)
-- Rows of which each element needs the one before: a path's cost.
def warp [m] (x: [m]f64) (ys: [m]f64): f64 =
  let first = tabulate (m + 1) (\\j -> if j == 0 then 0 else f64.inf)
  in last (loop above = first for y in ys do
    loop row = replicate (m + 1) f64.inf for j < m do
      row with [j + 1] = f64.abs (y - x[j]) + f64.min above[j] (f64.min above[j + 1] row[j]))
entry warps [n][m] (ts: [n]f64) (x: [m]f64): [n]f64 = map (warp x) (outer ts x)
entry warps_gradient [n][m] (ts: [n]f64) (x: [m]f64): (f64, [m]f64) =
  vjp2 (\\x -> f64.sum (map (\\t -> warp x (map (* t) x)) ts)) x 1
entry row_sums [n][m] (ts: [n]f64) (x: [m]f64): [n]f64 =
  map (\\r -> loop y = 0 for v in r do y * 0.5 + v) (outer ts x)
entry quotients [n][m] (ts: [n]f64) (x: [m]f64): [n]i32 =
  let d = i32.i64 m
  in map (\\t -> loop y = i32.f64 (100 * t) for j < m do y * 7 - (y + i32.i64 j) / d) ts
entry own_iterations [n][m] (ts: [n]f64) (x: [m]f64): [n]f64 =
  map (\\t -> loop y = f64.sum x for _j < i64.f64 (3 * f64.abs t) do y * t + 1) ts
def made [n][m] (ts: [n]f64) (x: [m]f64): [m][n]f64 =
  map (\\v -> map2 (\\t i -> t * v + f64.i64 i) ts (iota n)) x
def columns [n][m] (ts: [n]f64) (x: [m]f64): [n][m]f64 = transpose (rotate 1 (made ts x))
entry column_maxima [n][m] (ts: [n]f64) (x: [m]f64): [n]f64 = map f64.maximum (columns ts x)
entry column_spread [n][m] (ts: [n]f64) (x: [m]f64): [n]f64 =
  map (\\c -> let u = f64.sum c / f64.i64 m in f64.sqrt (f64.sum (map (\\v -> (v - u) ** 2) c))) (columns ts x)
entry column_single [n][m] (ts: [n]f64) (x: [m]f64): [n]f32 =
  let made = map (\\v -> map (\\t -> f32.f64 (t * v)) ts) x
  in map (\\c -> f32.sum (map2 (*) (map f32.f64 x) c)) (transpose (rotate 1 made))
entry column_whole [n][m] (ts: [n]f64) (x: [m]f64): ([n]i32, [n]bool) =
  unzip (map (\\c -> (i32.product (map (\\v -> i32.f64 (3 * v) | 1) c), any (> 0.5) c)) (columns ts x))
entry column_slopes [n][m] (ts: [n]f64) (x: [m]f64): ([n]f64, [m]f64) =
  let f c = let u = f64.maximum c in u * f64.sum (map (\\v -> f64.exp (v - u)) c)
  in vjp (\\(ts, x) -> map f (transpose (made ts x))) (ts, x) ts
""" + "".join(
    f"entry by_{k} [n][m] (ts: [n]f64) (x: [m]f64): [n][{k}]f64 =\n"
    f"  map (\\t -> tabulate {k} (\\i -> horner x (t + f64.i64 i))) ts\n"
    for k in (5, 8, 17, 40)
)
IN_LANES = (
    "values", "total", "largest", "gradient", "coefficients", "hessian_row", "pairs", "single", "whole", "flags",
    "rows", "own_rows", "slopes", "curves", "loops", "loop_slopes", "loops_gradient", "fixed",
    "row_folds", "row_slopes", "row_scans", "column_folds", "either", "either_slopes",
    "product_slopes", "in_branches", "own_elements", "column_maxima", "column_spread", "column_single", "column_whole",
    "column_slopes", "warps", "warps_gradient",
)  # fmt: skip
# Division by zero fails where it is, what a branch reads is read there alone, and gathering takes longer than adding.
NOT_IN_LANES = ("own_iterations", "quotients", "guarded", "row_sums", "folded")


@pytest.fixture(scope="module")
def core() -> Any:
    return compile_program(compile_text(TEXT, "blocks.fut"), check=True, target=C)


@pytest.mark.slow(apart=True)
@pytest.mark.parametrize("name", IN_LANES + NOT_IN_LANES)
def test_as_the_interpreter(core: Any, backend: CBackend, name: str) -> None:
    for n in (0, 1, 3, 4, 31, 32, 33, 64, 97):
        for m in (0, 1, 5):
            rng = np.random.default_rng(100 * n + m)
            args = [n, m, rng.uniform(-1, 1, n), rng.standard_normal(m)]
            expected = Interpreter(core).run(name, args)
            tolerance = {"whole": 0.0, "single": 1e-5, "column_single": 1e-5}.get(name, 1e-11)
            for a, e in zip(backend.run(name, args), expected, strict=True):
                assert np.shape(a) == np.shape(e)
                np.testing.assert_allclose(a, e, rtol=tolerance, atol=tolerance, err_msg=f"{name} {n} {m}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["values", "gradient", "slopes", "curves", "loops", "loop_slopes", "whole", "row_folds", "either",
             "warps"],
)
def test_special_values(core: Any, backend: CBackend, name: str) -> None:
    """Not-a-number and infinity stay in their lane; integers wrap around as they do in one iteration alone."""
    rng = np.random.default_rng(9)
    ts = rng.uniform(-1, 1, 70)
    if name != "whole":
        ts[[0, 5, 33, 66, 69]] = [np.nan, np.inf, -np.inf, np.nan, 0.0]
    args = [70, 40 if name == "whole" else 6, ts, rng.standard_normal(40 if name == "whole" else 6)]
    with np.errstate(all="ignore"):
        expected = Interpreter(core).run(name, args)
    for a, e in zip(backend.run(name, args), expected, strict=True):
        if name == "whole":
            assert np.abs(e).max() > 1 << 30  # it has overflowed
            np.testing.assert_array_equal(a, e)
        else:
            np.testing.assert_allclose(a, e, rtol=1e-10, atol=1e-10)
            if name != "gradient":
                assert np.isfinite(np.delete(np.asarray(a), [0, 5, 33, 66], axis=0)).all()


def blocks(body: list[ir.Stmt]) -> int:
    return sum(
        isinstance(s, ir.Blocks) + sum(blocks(getattr(s, part, [])) for part in ("body", "then", "orelse"))
        for s in body
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_LANES + NOT_IN_LANES)
def test_which_are_in_lanes(core: Any, name: str) -> None:
    fun = next(f for f in c_backend(core).module.functions if f.name == name)
    assert (blocks(fun.body) > 0) == (name in IN_LANES)


@pytest.mark.slow
@pytest.mark.parametrize("name, lanes", [("by_5", 0), ("by_8", 8), ("by_17", 16), ("by_40", 32)])
def test_few_iterations(core: Any, backend: CBackend, name: str, lanes: int) -> None:
    """As many in a block as there are, if their number is known."""
    text = next(f for f in backend.source.split("\nint64_t futad_entry_") if f.startswith(f"{name}("))
    assert (f"lane < {lanes};" in text) == (lanes > 0) and ("lane < " in text) == (lanes > 0)
    rng = np.random.default_rng(8)
    args = [3, 4, rng.uniform(-1, 1, 3), rng.standard_normal(4)]
    for a, e in zip(backend.run(name, args), Interpreter(core).run(name, args), strict=True):
        np.testing.assert_allclose(a, e, rtol=1e-11)


@pytest.mark.slow
def test_sums_in_order_are_not_done_in_lanes(core: Any) -> None:
    for fun in c_backend(core, reassociates=False).module.functions:
        assert blocks(fun.body) == 0


@pytest.mark.slow
def test_additions_to_rows_and_columns(core: Any, backend: CBackend) -> None:
    """Two to one array, of which one goes where another lane's other one does."""
    fun = next(f for f in c_backend(core).module.functions if f.name == "crossing")
    assert blocks(fun.body) > 0
    for n, m in ((5, 5), (8, 8), (33, 2)):
        args = [n, m, np.random.default_rng(n).uniform(0.3, 1.7, n), np.ones(m)]
        for a, e in zip(backend.run("crossing", args), Interpreter(core).run("crossing", args), strict=True):
            np.testing.assert_allclose(a, e, rtol=1e-11, atol=1e-11)


@pytest.mark.slow
def test_no_vectors_of_elements_that_are_far_apart() -> None:
    """GCC 12 does not end with a loop that it is asked to vectorise and whose step is a large power of two."""
    text = "entry some (t: [600][4096]f32): [4]f32 = tabulate 4 (\\i -> f32.sum t[:, 4 * i])"
    backend = c_backend(compile_program(compile_text(text, "far.fut"), target=C))
    entry = backend.source.split("\nint64_t futad_entry_")[1]
    assert "omp simd" not in entry and "* 4096)" in entry
    t = np.random.default_rng(3).standard_normal((600, 4096), np.float32)
    (got,) = backend.run("some", [t])
    np.testing.assert_allclose(got, t[:, [0, 4, 8, 12]].sum(0), rtol=1e-3)


@pytest.mark.slow
def test_a_block_that_is_not_full_has_memory_for_its_own_lanes() -> None:
    core = compile_program(load_program(str(TEXTBOOK / "soft_dtw.fut")), target=C)
    backend = c_backend(core)
    sizes = re.findall(r"futad_ensure\(ctx, &ctx->slots\[\d+\], futad_size\(\w+, (\w+)\)", backend.source)
    assert "32" in sizes and any(size.startswith("left_") for size in sizes)
    for k in (5, 16, 33, 39):
        a, b = np.random.default_rng(k).standard_normal((2, k, 6))
        args = [k, 6, 6, a, b]
        for got, e in zip(backend.run("value", args), Interpreter(core).run("value", args), strict=True):
            np.testing.assert_allclose(got, e, rtol=1e-11)


@pytest.mark.parametrize("t", ["f32", "f64"])
def test_the_lanes_of_f32_are_summed_as_vectors(t: str) -> None:
    """By GCC the 16 lanes of a vector are added one by one."""
    text = """entry back [n][m] (w: [m]T) (a: [n][m]T): [m]T =
      vjp (\\w -> T.sum (map (\\r -> T.exp (T.sum (map2 (*) r w))) a)) w 1"""
    program = compile_program(compile_text(text.replace("T", t)), target=C)
    backend = CBackend(program)
    assert ("futad_total_f32(total_w0)" in backend.source) == (t == "f32")
    for n in (0, 1, 31, 32, 33, 100):
        rng = np.random.default_rng(n)
        w, a = (rng.normal(size=s).astype(np.float32 if t == "f32" else np.float64) for s in ((5,), (n, 5)))
        for special in (0.0, np.inf, np.nan):
            a[n // 2 :, 3] = special
            (made,), (expected,) = (b.run("back", [5, n, w, a]) for b in (backend, Interpreter(program)))
            np.testing.assert_allclose(made, expected, rtol=1e-4 if t == "f32" else 1e-11)
