"""Which nests become which kernels, what stays on the device, what the host code does."""

from __future__ import annotations

import time

import pytest

from futad.core import ir
from futad.core.check import check_program
from futad.core.interp import Interpreter
from futad.flatten import fission, report
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.testing.build import device_backend, flattened, prepared
from tests.support.paths import ROOT
from tests.support.processor_time import is_below


def kernels(source: str) -> list[tuple[str, str]]:
    """Kind and description of each kernel."""
    module = flattened(compile_program(compile_text(source, "main")))
    return [(k.kind, k.what) for k in module.kernels]


def host(source: str) -> str:
    return device_backend(compile_program(compile_text(source, "main"))).host


def test_a_perfect_nest_is_one_kernel_over_all_its_levels() -> None:
    source = "entry main [n][m] (xss: [n][m]f64) (ys: [m]f64) = map (\\xs -> map2 (\\x y -> x * y + 1) xs ys) xss"
    found = kernels(source)
    assert len(found) == 1
    kind, what = found[0]
    assert kind == "thread" and what.count("[") == 2


@pytest.mark.slow
def test_rows_with_reductions_have_versions_for_threads_warps_and_blocks() -> None:
    source = """
entry main [n][m] (xss: [n][m]f64) : [n][m]f64 =
  map (\\xs -> let top = f64.maximum xs
              let es = map (\\x -> f64.exp (x - top)) xs
              let s = f64.sum es
              in map (/ s) es) xss"""
    found = kernels(source)
    assert [kind for kind, _ in found[:3]] == ["thread", "block", "warp"]
    # Few long rows: each fold in parts, then the parts, and what is mapped by itself.
    assert sum("for parts" in what for _, what in found[3:]) == 2 and found[-1][0] == "thread"
    assert "BLOCK_INNER" in host(source) and "WARP_INNER" in host(source)


def test_a_reduction_of_one_dimension_is_one_kernel() -> None:
    """Of two stages, the second by the block that is done last."""
    found = kernels("entry main [n] (xs: [n]f64) (ys: [n]f64) = f64.sum (map2 (*) xs ys)")
    assert [kind for kind, _ in found] == ["block"] and found[0][1].startswith("reduce over")


def test_scalars_stay_on_the_device() -> None:
    """The host reads back the result alone, not the sum that the map uses."""
    text = host("entry main [n] (xs: [n]f64) = let s = f64.sum xs let t = s * 2 + 1 in f64.maximum (map (/ t) xs)")
    assert text.count("R.read(") + text.count("R.cell(") == 1


def test_a_histogram_is_one_kernel_of_atomics() -> None:
    """To memory, or if its bins are few by way of shared memory."""
    source = """
entry main [n] (k: i64) (is: [n]i64) (vs: [n]f32) : [k]f32 = reduce_by_index (replicate k 0) (+) 0 is vs"""
    found = [w for _, w in kernels(source) if "histogram" in w]
    assert found == ["histogram hist, atomic add", "histogram hist, atomic add in shared memory"]


def test_an_operator_without_atomic_sorts_or_takes_locks() -> None:
    """The host picks by the number of updates a bin; of rows there are locks alone."""
    source = """
entry main [n] (k: i64) (is: [n]i64) (vs: [n]f64) (ws: [n]i32) =
  reduce_by_index (replicate k (0f64, 0i32)) (\\(a, i) (b, j) -> if a > b then (a, i) else (b, j)) (0, 0) is
                  (zip vs ws)"""
    found = [w for _, w in kernels(source)]
    assert any("a lock a bin" in w for w in found) and any(w.startswith("sort for") for w in found)
    assert "wait for a lock" not in report(prepared(compile_program(compile_text(source, "main"))))
    rows = """
entry main [n][m] (k: i64) (is: [n]i64) (vs: [n][m]f64) =
  reduce_by_index (replicate k (replicate m 0)) (map2 (\\a b -> a + b + a * b)) (replicate m 0) is vs"""
    found = [w for _, w in kernels(rows)]
    assert any("a lock a bin" in w for w in found) and not any(w.startswith("sort for") for w in found)
    assert "wait for a lock" in report(prepared(compile_program(compile_text(rows, "main"))))


def test_products_go_to_tiles() -> None:
    source = """
entry main [n][m][k] (a: [n][k]f64) (b: [k][m]f64) =
  map (\\x -> map (\\y -> f64.sum (map2 (*) x y)) (transpose b)) a"""
    assert all(kind == "tile" or what.startswith("parts of product") for kind, what in kernels(source))


def test_maps_of_products_are_batched_products() -> None:
    source = """
entry main [b][n][m][k] (a: [b][n][k]f32) (c: [b][k][m]f32) =
  map2 (\\a c -> map (\\x -> map (\\y -> f32.sum (map2 (*) x y)) (transpose c)) a) a c"""
    assert all(kind == "tile" or what.startswith("parts of product") for kind, what in kernels(source))


def test_batches_of_batches_are_one() -> None:
    source = """
entry main [b][h][n][m][k] (a: [b][h][n][k]f32) (c: [b][h][k][m]f32) =
  map2 (map2 (\\a c -> map (\\x -> map (\\y -> f32.sum (map2 (*) x y)) (transpose c)) a)) a c"""
    found = kernels(source)
    assert any(kind == "tile" for kind, _ in found) and not any("[b_" in what for _, what in found)


def test_equal_kernels_are_emitted_once() -> None:
    one = "map (\\x -> x * 2 + 1f64)"
    source = f"entry f [n] (xs: [n]f64) = {one} xs\nentry g [m] (ys: [m]f64) = {one} ys"
    made = device_backend(compile_program(compile_text(source, "main")))
    assert len(made.module.kernels) == 2 and len(set(made.names.values())) == 1


def test_report_names_what_is_sequential() -> None:
    source = "entry main (n: i64) (xs: *[n]f64) = loop xs for i < n - 1 do xs with [i + 1] = xs[i] * 0.5 + xs[i + 1]"
    text = report(prepared(compile_program(compile_text(source, "main"))))
    assert "nothing parallel inside, one thread" in text
    quiet = report(prepared(compile_program(compile_text("entry main [n] (xs: [n]f64) = map (+ 1) xs", "main"))))
    assert quiet.rstrip().endswith("nothing")


def test_a_scan_of_large_elements_takes_three_passes() -> None:
    """Which the report says."""
    width = 13
    names = [f"x{i}" for i in range(width)]
    ys = [f"y{i}" for i in range(width)]
    sums = ", ".join(f"{x} * {y}" for x, y in zip(names, ys[1:] + ys[:1], strict=True))  # not told apart
    source = (
        f"entry main [n] (a: [n]f64) = map (\\t -> t.0 + t.7) "
        f"(scan (\\({', '.join(names)}) ({', '.join(ys)}) -> ({sums})) "
        f"({', '.join(['0'] * width)}) (map (\\v -> ({', '.join(['v'] * width)})) a))"
    )
    text = report(prepared(compile_program(compile_text(source, "main"))))
    assert "too large elements for one pass" in text and "scan_finish" in text


DEEP = """
entry main [k][n][d] (ms: [k][d]f64) (xs: [n][d]f64) : ([k][n]f64, [k]f64) =
  unzip (map (\\m -> let ds = map (\\x -> map2 (-) x m) xs
                    let qs = map (\\e -> f64.sum (map (\\v -> v * v) e)) ds
                    let w = f64.maximum m
                    in (map (/ w) qs, f64.sum qs)) ms)"""


def test_deep_maps_are_distributed() -> None:
    """Every resulting map has the outer width as its first dimension; the program computes the same."""
    import numpy as np

    program = compile_program(compile_text(DEEP, "main"))
    fun = program.funs["main"]
    at = next(i for i, s in enumerate(fun.body.stms) if isinstance(s.exp, ir.Map) and fission.wide(s.exp.lam))
    parts = fission.distribute(fun.body.stms[at])
    assert parts is not None and len([s for s in parts if isinstance(s.exp, ir.Map)]) >= 2
    stms = (*fun.body.stms[:at], *parts, *fun.body.stms[at + 1 :])
    body = ir.Lambda(fun.body.params, stms, fun.body.result)
    changed = ir.Program({"main": ir.Fun("main", body, fun.num_sizes, fun.ret, fun.entry)})
    check_program(changed, "fission")
    r = np.random.default_rng(0)
    args = [3, 4, 5, r.normal(size=(3, 4)), r.normal(size=(5, 4))]
    for x, y in zip(Interpreter(changed).run("main", args), Interpreter(program).run("main", args), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-13)


def test_folds_of_rows_are_folds_of_columns() -> None:
    source = """
entry main [n][m] (xss: [n][m]f64) : ([m]f64, [n][m]f64) =
  (reduce (map2 (+)) (replicate m 0) xss, scan (map2 (*)) (replicate m 1) xss)"""
    module = flattened(compile_program(compile_text(source, "main")))
    assert module.why == []
    assert any(k.kind == "thread" and "map over [m" in k.what for k in module.kernels)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gmm", "kmeans", "kmeans_sparse", "lstm"])
def test_benchmark_programs_have_nothing_sequential(name: str) -> None:

    from futad.source import load_program

    path = ROOT / "benchmarks" / "programs" / f"{name}.fut"
    assert flattened(compile_program(load_program(str(path)))).why == []


@pytest.mark.slow
def test_long_scopes_take_time_by_their_length() -> None:
    def seconds(n: int) -> float:
        lets = "".join(f"  let a{i + 1} = f64.sin a{i} * a{max(0, i - 3)}\n" for i in range(n))
        source = f"entry main [m] (xs: [m]f64) =\n  let a0 = f64.sum xs\n{lets}  in a{n}"
        program = compile_program(compile_text(source))
        before = time.process_time()
        device_backend(program)
        return time.process_time() - before

    assert is_below(lambda: seconds(1200), lambda: seconds(300), 12)
