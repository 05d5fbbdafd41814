"""Updates of rows wait for the reads of other rows, and maps that add to several rows of an array do so in place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import futad
from futad.core.interp import Interpreter
from futad.imp import ir
from futad.optimise.sink_updates import sink_updates
from futad.pipeline import compile_program
from futad.source import load_program
from futad.target import C
from futad.testing.build import c_backend, common
from tests.support.optimise_support import becomes, body
from tests.support.paths import ROOT

PARAMS = "n_1: i64, i_4: i64, j_5: i64, a_2: [3][2][n_1]f64, xs_3: [n_1]f64"


def step(array: str, place: str, old: int, op: str) -> tuple[str, str]:
    """The statements that read a row and compute what it becomes: the read, and the map."""
    read = f"let old_{old}: [n_1]f64 = {array}[{place}]"
    inner = f"(x_{old + 2}: f64, y_{old + 3}: f64) -> {{ let t_{old + 4}: f64 = {op}(x_{old + 2}, y_{old + 3})"
    return read, f"let sum_{old + 1}: [n_1]f64 = map(n_1, [old_{old}, xs_3], \\{inner} in (t_{old + 4}) }})"


def rows(first: str, second: str, then: str = "") -> str:
    """A row is added to, then another one is multiplied."""
    before = step("a_2", first, 10, "add")
    after = step("a_15", second, 16, "mul")
    writes = [
        f"let a_15: [3][2][n_1]f64 = update(a_2, [{first}], sum_11, None)",
        f"let a_21: [3][2][n_1]f64 = update(a_15, [{second}], sum_17, None)",
    ]
    return body("\n".join([*before, writes[0], then, *after, writes[1], "in (a_21)"]), PARAMS, "[3][2][n_1]f64")


def test_an_update_waits_for_reads_of_other_rows() -> None:
    want = [
        *step("a_2", "i_4, 0i64", 10, "add"),
        *step("a_2", "i_4, 1i64", 16, "mul"),
        "let a_15: [3][2][n_1]f64 = update(a_2, [i_4, 0i64], sum_11, None)",
        "let a_21: [3][2][n_1]f64 = update(a_15, [i_4, 1i64], sum_17, None)",
        "in (a_21)",
    ]
    becomes(rows("i_4, 0i64", "i_4, 1i64"), body("\n".join(want), PARAMS, "[3][2][n_1]f64"), sink_updates)


@pytest.mark.parametrize("program", [
    rows("i_4, 0i64", "j_5, 0i64"),  # maybe the same row
    rows("i_4, 0i64", "i_4, 0i64"),
    rows("0i64, i_4", "0i64, j_5"),
    # the array is needed in between, or what is to be written gone by then
    rows("i_4, 0i64", "i_4, 1i64", "let c_30: [3][2][n_1]f64 = copy(a_15)"),
    rows("i_4, 0i64", "i_4, 1i64", "let z_30: [n_1]f64 = update(sum_11, [0i64], 1.0f64, None)"),
    # what is written elsewhere in between may be the row itself
    rows("i_4, 0i64", "i_4, 1i64", "let s_30: [2][n_1]f64 = a_15[i_4] let t_31: [2][n_1]f64 = copy(s_30)"),
])  # fmt: skip
def test_it_does_not_wait(program: str) -> None:
    becomes(program, program, sink_updates)


def literal(row: str) -> str:
    """Both rows of a place are written at once, `row` the second one."""
    writes = [
        f"let both_13: [2][n_1]f64 = arraylit([xs_3, {row}], [n_1]f64)",
        "let a_14: [3][2][n_1]f64 = update(a_2, [i_4], both_13, None)",
    ]
    return body("\n".join(["let old_10: [n_1]f64 = a_2[i_4, 0i64]", *writes, "in (a_14)"]), PARAMS, "[3][2][n_1]f64")


def test_literals_are_written_row_by_row() -> None:
    """Unless one of the rows is of the array itself."""
    want = [
        "let old_10: [n_1]f64 = a_2[i_4, 0i64]",
        "let both_13: [2][n_1]f64 = arraylit([xs_3, xs_3], [n_1]f64)",
        "let a_15: [3][2][n_1]f64 = update(a_2, [i_4, 0i64], xs_3, None)",
        "let a_14: [3][2][n_1]f64 = update(a_15, [i_4, 1i64], xs_3, None)",
        "in (a_14)",
    ]
    becomes(literal("xs_3"), body("\n".join(want), PARAMS, "[3][2][n_1]f64"), sink_updates)
    becomes(literal("old_10"), literal("old_10"), sink_updates)


TEXT = """
entry rows [n] (i: i64) (j: i64) (xs: [n]f64): [3][2][n]f64 =
  let a = replicate 3 (replicate 2 xs)
  let a = a with [i, 0] = map2 (+) a[i, 0] xs
  let a = a with [i, 1] = map2 (*) a[i, 1] xs
  let a = a with [j, 1] = map2 (-) a[j, 1] a[i, 0]
  in a with [j, 0] = map (+ 1) a[j, 1]
entry exchanged [n] (i: i64) (j: i64) (xs: [n]f64): [3][2][n]f64 =
  let a = [[xs, map (* 2) xs], [map (* 3) xs, map (* 4) xs], [map (* 5) xs, map (* 6) xs]]
  let (p, q) = (map (+ 1) a[i, 0], map (+ 2) a[i, 1])
  let a = a with [i, 0] = map2 (*) q a[j, 0]
  let a = a with [i, 1] = map2 (*) p a[i, 0]
  in a with [j] = copy a[i]
entry cleared [n] (i: i64) (j: i64) (xs: [n]f64): ([3][2][n]f64, [2][n]f64) =
  let a = [[xs, map (* 2) xs], [map (* 3) xs, map (* 4) xs], [map (* 5) xs, map (* 6) xs]]
  let old = copy a[i]
  let a = a with [i] = replicate 2 (replicate n 0)
  let a = a with [i, 1] = map3 (\\x y z -> x * y + z) old[0] old[1] a[i, 1]
  let a = a with [i, 0] = map3 (\\x y z -> x + y + z) old[0] old[1] a[i, 0]
  in (a, map (map2 (+) a[j, 0]) old)
entry turned [n] (i: i64) (j: i64) (xs: [n]f64): [3][2][n]f64 =
  loop a = replicate 3 (replicate 2 xs) for t < j do
    let a = a with [(i + t) % 3, 0] = map2 (+) a[(i + t) % 3, 0] a[(i + t) % 3, 1]
    in a with [(i + t) % 3, 1] = map2 (*) a[(i + t) % 3, 1] a[(t * 2) % 3, 0]
entry sliced [n] (i: i64) (j: i64) (xs: [n]f64): [4][n]f64 =
  let a = [xs, map (+ 1) xs, map (+ 2) xs, map (+ 3) xs]
  let b = a[1:]
  let b = b with [0] = map2 (+) b[0] b[1]
  let b = b with [1] = map2 (*) b[1] b[0]
  let c = [map (* 2) xs] ++ b
  let c = c with [1] = map2 (-) c[1] c[0]
  in sized 4 (c with [0] = map2 (-) c[i] c[j])
entry across [n] (i: i64) (j: i64) (xs: [n]f64): [n][2]f64 =
  let a = transpose (copy [xs, map (+ 1) xs])
  let a = if n == 0 then a else a with [0] = map2 (+) a[0] [1, 2]
  in if n < 2 then a else a with [1] = map2 (*) a[1] a[0]
entry swapped [n] (i: i64) (j: i64) (xs: [n]f64): ([3][2][n]f64, [n]f64) =
  loop (a, ys) = ([[xs, map (* 2) xs], [map (* 3) xs, map (* 4) xs], [map (* 5) xs, map (* 6) xs]], xs) for t < j do
    let a = a with [i] = [a[i, 1], a[i, 0]]
    let ys = map2 (+) ys a[(i + t) % 3, 0]
    let zs = map2 (*) ys a[j, 1]
    in (a with [j] = [ys, zs], ys)
entry written [n] (i: i64) (j: i64) (xs: [n]f64): ([3][n]f64, [n]f64) =
  let a = replicate 3 xs
  let v = map (* 2) xs
  let a = a with [0] = v
  let b = map2 (+) a[1] v
  let v = if n == 0 then v else v with [0] = 7
  let a = a with [1] = map2 (+) a[2] v
  in (a with [2] = map2 (+) a[0] b, v)

def table [n] (xs: [n]f64) (ws: [2][3][n]f64): f64 =
  loop s = 0 for t < 3 do
    let h = loop h = xs for i < 2 do
      map3 (\\a b x -> f64.tanh (a * x + b)) ws[i, 0] ws[i, 1] (map2 (*) h ws[i, 2])
    in s + f64.sum (map (* f64.i64 (t + 1)) h)
entry swept [n] (i: i64) (j: i64) (xs: [n]f64): [2][3][n]f64 =
  vjp (table xs) (tabulate_3d 2 3 n (\\p q k -> f64.i64 (p + 2 * q) / 5 + xs[k])) 1
"""
NAMES = ("rows", "exchanged", "cleared", "turned", "sliced", "across", "swapped", "written", "swept")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("sinks") / "sinks.fut"
    file.write_text(TEXT)
    return file


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("backend", ["c", "multicore", "emulated"])
def test_answers(file: Path, name: str, backend: str) -> None:
    """Those of the program as it is written: also for one row by two names, no iteration and one, no element and
    one."""
    plain = Interpreter(compile_program(load_program(str(file)), stop_after="simplify-ad"))
    ours = futad.load(file, backend=backend)[name]
    for n in (0, 1, 14):
        xs = np.random.default_rng(n).standard_normal(n)
        for i, j in ((0, 0), (1, 2), (2, 1), (0, 1)):
            expected: list[Any] = plain.run(name, [n, i, j, xs.copy()])
            got = ours(i, j, xs)
            for a, e in zip(got if isinstance(got, tuple) else (got,), expected, strict=True):
                np.testing.assert_allclose(a, e, rtol=1e-13, atol=1e-13)


@pytest.mark.slow
def test_rows_of_a_return_sweep_are_added_to_in_one_loop() -> None:
    """D-LSTM: what is read and written of both adjoints, where it lies."""
    benchmark = ROOT / "benchmarks" / "programs" / "dlstm.fut"
    core = common(load_program(str(benchmark)), C)
    (f,) = [f for f in c_backend(core).module.functions if f.name == "gradient"]
    sweeps = [s for s in f.body if isinstance(s, ir.For) and s.var.startswith("iteration")]
    (iteration,) = [s for s in sweeps[-1].body if isinstance(s, ir.For) and s.var.startswith("iteration")]
    assert [type(s) for s in iteration.body if not isinstance(s, ir.Decl)] == [ir.For]
    (loop,) = [s for s in iteration.body if isinstance(s, ir.For)]
    assert loop.independent and sum(isinstance(s, ir.Store) for s in loop.body) == 11


@pytest.mark.slow
def test_rows_of_a_literal_are_computed_where_they_lie() -> None:
    """D-LSTM: of a layer's state, one row is a result too and is copied."""
    benchmark = ROOT / "benchmarks" / "programs" / "dlstm.fut"
    core = common(load_program(str(benchmark)), C)
    (f,) = [f for f in c_backend(core).module.functions if f.name == "objective"]
    (iteration,) = [s for s in f.body if isinstance(s, ir.For)]
    (layer,) = [s for s in iteration.body if isinstance(s, ir.For) and any(isinstance(x, ir.For) for x in s.body)]
    assert sum(isinstance(s, ir.Copy) for s in layer.body) == 1
    assert not any(isinstance(s, ir.Ensure) for s in layer.body)
