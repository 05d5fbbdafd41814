"""What each attribute changes: in the IR, in the C, in the kernels; and never in the results."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.core import ir
from futad.core.ir import Program
from futad.flatten import report
from futad.optimise.sequential import sequentialise
from futad.pipeline import compile_program
from futad.source import check_text, compile_text
from futad.testing.build import c_backend, prepared

PROGRAM = """
entry mapped (xs: []f64) = #[sequential] map f64.exp xs
entry reduced (xs: []f64) = #[sequential] reduce (+) 0 xs
entry scanned (xs: []f64) = #[sequential] scan f64.max (-f64.inf) xs
entry fused (xs: []f64) = f64.sum (#[sequential] map f64.exp xs)
entry pairs (xs: []f64) = #[sequential] map (\\x -> (x, x + 1)) xs |> unzip
entry argmax (xs: []f64) =
  #[sequential] reduce (\\(a, i) (b, j) -> if a >= b then (a, i) else (b, j)) (-f64.inf, -1) (zip xs (indices xs))
entry nested (xss: [][]f64) = #[sequential] map (\\xs -> f64.sum xs) xss
entry derived (xs: []f64) = vjp (\\xs -> f64.sum (#[sequential] map (\\x -> x * xs[0]) xs)) xs 1
entry histogram (is: []i64) = #[sequential] reduce_by_index (replicate 4 0) (+) 0 is (map (const 1) is)
entry outer (xss: [][]f64) = #[sequential_outer] map (\\xs -> map f64.exp xs) xss
entry inner (xss: [][]f64) = #[sequential_inner] map (\\xs -> f64.sum xs) xss
entry only_inner (xss: [][]f64) = #[flattening(only_inner)] map (\\xs -> f64.sum xs) xss
entry no_intra (xss: [][]f64) = #[flattening(no_intra)] map (\\xs -> f64.sum xs) xss
entry only_intra (xss: [][]f64) = #[incremental_flattening(only_intra)] map (\\xs -> f64.sum xs) xss
entry no_outer (xss: [][]f64) = #[flattening(no_outer)] map (\\xs -> f64.sum xs) xss
entry plain (xss: [][]f64) = map (\\xs -> f64.sum xs) xss
entry plain_map (xs: []f64) = map f64.exp xs
entry plain_histogram (is: []i64) = reduce_by_index (replicate 4 0) (+) 0 is (map (const 1) is)
entry scratch (n: i64) (is: []i64) (vs: []f64) = scatter (#[scratch] (replicate n 0f64)) is vs
entry blank (n: i64) = #[blank] map f64.i64 (iota n)
entry unsafe (xs: []f64) (i: i64) = #[unsafe] xs[i]
entry safe (xs: []f64) (i: i64) = xs[i]
def small (x: f64) = x * x + 1
entry applied (x: f64) = #[noinline] small x
entry in_line (x: f64) = small x
entry unrolled (x: f64) = #[unroll] loop y = x for i < 4 do y * f64.i32 i + 1
"""


@pytest.fixture(scope="module")
def compiled() -> Program:
    return compile_program(compile_text(PROGRAM), check=True)


def alone(program: Program, name: str) -> Program:
    return Program({n: f for n, f in program.funs.items() if n == name or f.entry is None}, name)


def regions(program: Program, name: str) -> int:
    """How many parallel regions the C for several threads has, those around loops included."""
    source = c_backend(alone(program, name), multicore=True).source
    return source.count("futad_parallel(&region.job, ") + source.count("futad_merged_run(&region.merged, ")


def kernels(program: Program, name: str) -> list[str]:
    """The kind of each kernel."""
    return [line.split()[1] for line in report(prepared(alone(program, name)), why=False).splitlines()]


@pytest.mark.slow
def test_sequential_constructs_are_loops(compiled: Program) -> None:
    for name in ("mapped", "reduced", "scanned", "fused", "argmax", "pairs", "nested"):
        assert regions(compiled, name) == 0, name
        assert set(kernels(compiled, name)) <= {"single"}, name
        stms = sequentialise(alone(compiled, name)).funs[name].body.stms
        assert not any(isinstance(s.exp, ir.Soac) for s in stms) and any(isinstance(s.exp, ir.For) for s in stms), name
    assert regions(compiled, "plain_map") == 1 and kernels(compiled, "plain_map") == ["thread"]
    assert regions(compiled, "histogram") < regions(compiled, "plain_histogram")


def test_without_the_attributes_nothing_changes(compiled: Program) -> None:
    assert sequentialise(alone(compiled, "plain")).funs["plain"] is compiled.funs["plain"]


def test_sequential_outside_or_inside(compiled: Program) -> None:
    outer = sequentialise(alone(compiled, "outer")).funs["outer"].body.stms
    (loop,) = [s.exp for s in outer if isinstance(s.exp, ir.For)]
    assert any(isinstance(s.exp, ir.Map) for s in loop.body.stms)
    # A launch an iteration, or one block for all where rows are narrow.
    assert kernels(compiled, "outer") == ["alone-wide", "thread"] and regions(compiled, "outer") == 1
    (inner,) = [s.exp for s in sequentialise(alone(compiled, "inner")).funs["inner"].body.stms]
    assert isinstance(inner, ir.Map) and any(isinstance(s.exp, ir.For) for s in inner.lam.stms)
    assert kernels(compiled, "inner") == ["thread"] and "block" in kernels(compiled, "plain")


def test_versions_of_a_map_with_parallel_parts(compiled: Program) -> None:
    assert kernels(compiled, "no_intra") == ["thread"]
    for name in ("only_intra", "no_outer"):
        assert "block" in kernels(compiled, name) and "thread" not in kernels(compiled, name)
    assert not {"thread", "warp"} & set(kernels(compiled, "only_inner"))
    assert {"thread", "block"} <= set(kernels(compiled, "plain"))


def test_scratch_blank_unsafe_noinline_unroll(compiled: Program) -> None:
    scratch, scatter = compiled.funs["scratch"].body.stms
    assert isinstance(scratch.exp, ir.Scratch) and isinstance(scatter.exp, ir.Scatter)
    (blank,) = compiled.funs["blank"].body.stms
    assert isinstance(blank.exp, ir.Replicate)
    (unsafe,), (safe,) = compiled.funs["unsafe"].body.stms, compiled.funs["safe"].body.stms
    assert unsafe.exp.check is None and safe.exp.check is not None
    (call,) = compiled.funs["applied"].body.stms
    assert isinstance(call.exp, ir.Call)
    assert "futad_fun_small" in c_backend(alone(compiled, "applied")).source
    assert all(isinstance(s.exp, ir.Op) for s in compiled.funs["in_line"].body.stms)
    assert not any(isinstance(s.exp, ir.For) for s in compiled.funs["unrolled"].body.stms)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore", "emulated"])
def test_results_are_the_same(backend: str) -> None:
    got, want = futad.compile(PROGRAM, backend=backend, check=True), futad.compile(PROGRAM, backend="interp")
    rng = np.random.default_rng(1)
    shapes = ((7, 5), (1, 1), (0, 3), (3, 0), (40, 300))
    vectors = [rng.standard_normal(n) for n in (1, 2, 33, 5000)]
    matrices = [rng.standard_normal(s) for s in shapes]
    for name in want:
        first = want[name].entry.params[0][1].text
        if first == "[]f64" and "safe" not in name:
            cases: list[tuple] = [(x,) for x in [*vectors, *([np.zeros(0)] if name != "derived" else [])]]
        elif first == "[][]f64":
            cases = [(x,) for x in matrices]
        elif first == "[]i64":
            cases = [(rng.integers(-1, 6, n),) for n in (0, 1, 50, 5000)]
        elif name == "scratch":
            cases = [(3, np.array([2, 0, 1]), np.array([1.0, 2.0, 3.0])), (0, np.zeros(0, int), np.zeros(0))]
        elif name == "blank":
            continue
        else:
            cases = [(np.ones(3), 2)] if "safe" in name else [(2.0,)]
        for args in cases:
            for g, w in zip(leaves(got[name](*args)), leaves(want[name](*args)), strict=True):
                np.testing.assert_allclose(g, w, rtol=1e-12, err_msg=name)
    assert got.blank(3).shape == (3,)


def leaves(x: object) -> list:
    return [y for part in x for y in leaves(part)] if isinstance(x, tuple) else [x]


@pytest.mark.slow
def test_functions_of_a_higher_rank_than_every_entry() -> None:
    # Results of entries are as far apart as those of the greatest rank that a caller sees.
    text = """
def table (n: i64) = tabulate_2d n n (\\i j -> tabulate 2 (\\k -> i + j + k))
entry f (n: i64) = let t = #[noinline] table n in (t[0, 0, 1], t[1, 1], t[2, 1, 0])
"""
    for backend in ("c", "multicore"):
        program = futad.compile(text, backend=backend)
        assert "futad_fun_table" in program.executor().source  # type: ignore[attr-defined]
        first, row, last = program.f(3)
        assert (first, row.tolist(), last) == (1, [2, 3], 3)


def test_an_unsafe_index_is_not_checked() -> None:
    text = "entry f (xs: []f64) (i: i64) = #[unsafe] (let y = xs[i] in assert (y >= 0) y)"
    program = compile_program(compile_text(text))
    assert not any(isinstance(s.exp, ir.Assert) for s in program.funs["f"].body.stms)


def test_attributes_in_the_wrong_place_are_named() -> None:
    text = """def f (xs: []i32) = #[sequential] xs
def g (n: i32) = #[unroll] loop s = n while s < 10 do s * 2
def h (n: i32) = #[unroll] loop s = n for i < 3 do #[flattening(no_intra)] #[unsafe] loop s for _j < 2 do s + i
def k (xs: []i32) = #[sequential] (map (+ 1) xs)
"""
    shown = [(w.message, w.span.line, w.span.col) for w in check_text(text).warnings]
    assert shown == [
        ("'sequential' has no effect here", 1, 23),
        ("'#[unroll]' has no effect here", 2, 20),
        ("'flattening' has no effect here", 3, 54),
    ]


def test_loops_that_callers_give_the_number_of_iterations_are_not_unrolled() -> None:
    """Named in entry points alone: a function may be called with a constant, and so may an entry point."""
    text = """def power (n: i64) (x: f64) = #[unroll] loop y = 1 for _i < n do y * x
entry by_size [n] (xs: [n]f64) = #[unroll] loop y = 1 for i < n do y * xs[i]
entry by_value (n: i64, m: i64) = f64.sum (map (\\x -> #[unroll] (loop y = x for _i < m do y * x)) (replicate n 2))
entry called (n: i64) (x: f64) = #[unroll] loop y = 1 for _i < n do y * x
entry constant (n: i64) = let n = n - n in #[unroll] loop y = n for i < 4 do y * i + i64.f64 (called 3 1)
def main (k: i64) (x: f64) = #[true_dep] #[unroll] loop y = 1 for _i < k do y * power 2 x
"""
    warnings = check_text(text).warnings
    assert [(w.message, w.span.line, w.span.col) for w in warnings] == [
        ("'#[unroll]' has no effect here", 2, 36),
        ("'#[unroll]' has no effect here", 3, 57),
        ("'#[unroll]' has no effect here", 6, 44),
    ]
    assert [w.hint and w.hint[-3:] for w in warnings] == ["'n'", "'m'", "'k'"]


def test_attributes_without_effect_are_named() -> None:
    text = "def f (x: i32) = #[opaque] x\n#[sequental]\ndef g (x: i32) = #[sequential] map (+ x) [1]\n"
    shown = [(w.message, w.span.line, w.span.col, w.hint) for w in check_text(text).warnings]
    assert shown == [
        ("the attribute '#[opaque]' has no effect", 1, 20, None),
        ("unknown attribute 'sequental'", 2, 3, "did you mean 'sequential'?"),
    ]
