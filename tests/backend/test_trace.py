"""`trace` and `#[trace]`: what is printed, where and how often, and that nothing else changes."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import futad
from futad.cli import main
from futad.core import ir
from futad.core.check import check_program
from futad.core.parse import parse_program
from futad.core.text import program_text
from futad.optimise.traces import without_traces
from futad.pipeline import compile_program
from futad.source import compile_text

PROGRAM = """
entry scalar (x: f64) = trace (x * 2) + 1
entry place (x: f64) = #[trace] x * 2
entry array (xs: []f64) = #[trace(xs)] map (*2) xs
entry parts (n: i64) = let v = {x = 1.5f32, ys = map i32.i64 (iota n)} in (#[trace(v)] v).x
entry in_map (xs: []f64) = map (\\x -> (trace (x*x)) + 1) xs
entry unused (x: f64) = let _ = #[trace(dead)] (x * 3) in x
entry twice (x: f64) = #[trace(a)] x + #[trace(a)] x
entry in_loop (n: i64) = loop s = 0 for i < n do #[trace(s)] s + i
entry invariant (x: f64) (n: i64) = loop s = x for _i < n do s + #[trace(inv)] (f64.sqrt x)
entry constant (n: i64) = loop s = 0 for _i < n do s + #[trace(c)] 7
entry in_branch (c: bool) (x: f64) = if c then #[trace(yes)] x else #[trace(no)] (x + 1)
entry rows (xss: [][]i32) = #[trace(t)] transpose xss
entry backwards (xs: []u8) = #[trace(r)] xs[::-1]
entry empty (n: i64) = #[trace(e)] (map (\\_ -> iota 3) (iota n))
entry ragged (n: i64) = map (\\i -> i64.sum (iota (#[trace(i)] i))) (iota n)
entry nested (xss: [][]bool) = map (map (\\x -> #[trace(b)] x)) xss
entry fused (xs: []f64) = f64.sum (map (\\x -> #[trace(f)] (x + 1)) (map (\\x -> #[trace(g)] (x * 2)) xs))
entry consumed (n: i64) = let xs = #[trace(old)] replicate n 0i32 in #[trace(new)] (xs with [1] = 5)
entry reverse (x: f64) = vjp (\\x -> (#[trace(sq)] (x * x)) * x) x 1
entry forward (x: f64) = jvp (\\x -> (#[trace(sq)] (x * x)) * x) x 1
entry reverse_map (xs: []f64) = vjp (\\xs -> f64.sum (map (\\x -> (#[trace(m)] (x * x)) * x) xs)) xs 1
entry reverse_loop (x: f64) = vjp (\\x -> loop y = x for _i < 3 do #[trace(l)] (y * y)) x 1
entry stripmined (x: f64) = vjp (\\x -> #[stripmine(1)] loop y = x for _i < 4 do #[trace(l)] (y * 2)) x 1
entry second (x: f64) = jvp (\\x -> vjp (\\x -> (#[trace(s)] (x * x)) * x) x 1) x 1
"""


def array(*xs: float) -> np.ndarray:
    return np.array(xs, np.float64)


# entry, arguments, result, lines printed (in any order where a map prints them)
CASES: dict[str, tuple[list, object, list[str]]] = {
    "scalar": ([1.5], 4.0, ["trace: 3.0f64"]),
    "place": ([2.0], 4.0, ["main:3:24: 4.0f64"]),
    "array": ([array(1, 2)], [2.0, 4.0], ["xs: [2.0f64, 4.0f64]"]),
    "parts": ([2], 1.5, ["v.x: 1.5f32", "v.ys: [0i32, 1i32]"]),
    "in_map": ([array(1, 2, 3)], [2.0, 5.0, 10.0], ["trace: 1.0f64", "trace: 4.0f64", "trace: 9.0f64"]),
    "unused": ([2.0], 2.0, ["dead: 6.0f64"]),
    "twice": ([2.0], 4.0, ["a: 4.0f64", "a: 2.0f64"]),
    "in_loop": ([3], 3, ["s: 0i64", "s: 1i64", "s: 3i64"]),
    "invariant": ([4.0, 2], 8.0, ["inv: 2.0f64"] * 2),
    "constant": ([3], 21, ["c: 7i32"] * 3),
    "in_branch": ([False, 2.0], 3.0, ["no: 3.0f64"]),
    "rows": ([np.array([[1, 2], [3, 4]], "i4")], [[1, 3], [2, 4]], ["t: [[1i32, 3i32], [2i32, 4i32]]"]),
    "backwards": ([np.array([1, 2], "u1")], [2, 1], ["r: [2u8, 1u8]"]),
    "empty": ([0], np.zeros((0, 3)), ["e: empty([0][3]i64)"]),
    "ragged": ([4], [0, 0, 1, 3], [f"i: {i}i64" for i in range(4)]),
    "nested": ([np.array([[True], [False]])], [[True], [False]], ["b: true", "b: false"]),
    "fused": ([array(1, 2)], 8.0, ["g: 2.0f64", "f: 3.0f64", "g: 4.0f64", "f: 5.0f64"]),
    "consumed": ([2], [0, 5], ["old: [0i32, 0i32]", "new: [0i32, 5i32]"]),
    "reverse": ([2.0], 12.0, ["sq: 4.0f64"]),
    "forward": ([2.0], 12.0, ["sq: 4.0f64"]),
    "reverse_map": ([array(1, 2)], [3.0, 12.0], ["m: 1.0f64", "m: 4.0f64"]),
    "reverse_loop": ([1.5], 136.6875, ["l: 2.25f64", "l: 5.0625f64", "l: 25.62890625f64"]),
    "stripmined": ([1.0], 16.0, ["l: 2.0f64", "l: 4.0f64", "l: 8.0f64", "l: 16.0f64"]),
    "second": ([2.0], 12.0, ["s: 4.0f64"]),
}
UNORDERED = ("in_map", "ragged", "nested", "fused", "reverse_map", "twice")


@pytest.fixture(scope="module", params=["interp", "c", "multicore"])
def program(request: pytest.FixtureRequest) -> futad.Program:
    return futad.compile(PROGRAM, backend=request.param)


@pytest.mark.slow
def test_what_is_printed(program: futad.Program, capfd: pytest.CaptureFixture[str]) -> None:
    for name, (args, want, lines) in CASES.items():
        got = program[name](*args)
        printed = capfd.readouterr().err.splitlines()
        if name in UNORDERED:
            assert sorted(printed) == sorted(lines), name
        else:
            assert printed == lines, name
        np.testing.assert_array_equal(got, want, err_msg=name)
        assert np.shape(got) == np.shape(want), name
    assert set(CASES) == set(program)


def test_repeated_attempts_print_once(capfd: pytest.CaptureFixture[str]) -> None:
    # The interpreter tries a map at once and starts again, one by one, where iterations disagree on a size.
    text = "entry f (n: i64) = map (\\i -> let _ = #[trace(before)] i in i64.sum (iota (i * 2))) (iota n)"
    futad.compile(text, backend="interp").f(3)
    assert sorted(capfd.readouterr().err.split("\n")[:-1]) == [f"before: {i}i64" for i in range(3)]


@pytest.mark.slow
def test_lines_before_a_failure_are_printed(capfd: pytest.CaptureFixture[str]) -> None:
    text = "entry f (xs: []i64) (i: i64) = let ys = map (\\x -> #[trace(x)] x) xs in ys[i] + ys[0]"
    for backend in ("interp", "c"):
        with pytest.raises(futad.Error, match="out of bounds"):
            futad.compile(text, backend=backend).f(np.array([1, 2]), 2)
        assert sorted(capfd.readouterr().err.split("\n")[:-1]) == ["x: 1i64", "x: 2i64"], backend


@pytest.mark.slow
def test_devices_say_that_they_print_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    text = "entry f (xs: []f64) = map (\\x -> (trace (x * x)) + 1) xs"
    with pytest.warns(futad.FutadWarning, match="'trace' prints nothing on backend 'emulated'") as caught:
        got = futad.compile(text, backend="emulated").f(array(1, 2))
    np.testing.assert_array_equal(got, [2.0, 5.0])
    assert len(caught) == 1 and "trace" not in capfd.readouterr().err


def test_a_program_without_traces_is_left_alone() -> None:
    program = compile_program(compile_text("entry f (x: f64) = x * x"))
    body = program.funs["f"].body
    assert without_traces(body) is body


def test_the_text_reads_back() -> None:
    program = compile_text("entry f (xs: []f64) = #[trace(tag)] map (\\x -> trace x) xs")
    check_program(program, "lowering")
    text = program_text(program)
    assert "trace(" in text and '"tag"' in text and '"trace"' in text
    assert program_text(parse_program(text), normal=True) == program_text(program, normal=True)


def test_an_accumulator_cannot_be_printed() -> None:
    text = """program "p"

fun f [n_1: i64] (xs_2: [n_1]f64) -> (r_3: [n_1]f64) = {
  let ys_4: [n_1]f64 = withacc([xs_2], "add", \\(a_5: acc([n_1]f64)) -> {
    trace(a_5, "a")
    in (a_5)
  })
  in (ys_4)
}
"""
    with pytest.raises(futad.Error, match="an accumulator has no value to show"):
        check_program(parse_program(text), "test")


@pytest.mark.slow
def test_executables_and_libraries_print(tmp_path, capfd: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "t.fut"
    source.write_text("entry main (xs: []f32) = f32.sum (#[trace(it)] xs)\n")
    for command in ("c", "multicore"):
        out = tmp_path / command
        assert main([command, str(source), "--executable", "-o", str(out)]) == 0
        run = subprocess.run([out], input="[1.0f32, 2.5f32]", capture_output=True, text=True, timeout=300)
        assert (run.stdout, run.stderr, run.returncode) == ("3.5f32\n", "it: [1.0f32, 2.5f32]\n", 0)
    assert main(["c", str(source), "--library", "-o", str(tmp_path / "lib")]) == 0
    text = (tmp_path / "lib.c").read_text()
    assert 'futad_trace("it"' in text and '#include "values_text.h"' not in text


@pytest.mark.slow
def test_printing_does_not_reach_stdout(tmp_path) -> None:
    source = tmp_path / "t.fut"
    source.write_text("def main (x: i32) = trace x + 1\n")
    command = [sys.executable, "-m", "futad", "run", "-b", "interp", str(source)]
    run = subprocess.run(command, input="1", capture_output=True, text=True, timeout=300)
    assert (run.stdout, run.stderr) == ("2i32\n", "trace: 1i32\n")


def test_a_trace_is_no_common_subexpression() -> None:
    program = compile_program(compile_text("entry f (x: f64) = #[trace(a)] x + #[trace(a)] x"))
    stms = program.funs["f"].body.stms
    assert sum(isinstance(s.exp, ir.Trace) for s in stms) == 2


def test_constructs_with_equal_traces_inside_are_no_common_subexpression(capfd: pytest.CaptureFixture[str]) -> None:
    maps = "map (\\x -> trace (x + 1)) xs"
    text = f"entry f [n] (xs: [n]f64) = (f64.sum ({maps}), f64.product ({maps}))"
    futad.compile(text, backend="interp").f(np.array([1.0, 2.0]))
    assert capfd.readouterr().err.splitlines() == ["trace: 2.0f64", "trace: 3.0f64"] * 2


def test_constructs_that_call_what_prints_are_no_common_subexpression(capfd: pytest.CaptureFixture[str]) -> None:
    text = """
    #[noinline] def shown (x: f64) = trace (x + 1)
    entry f [n] (xs: [n]f64) =
      (f64.sum (map (\\x -> #[noinline] shown x) xs), f64.product (map (\\x -> #[noinline] shown x) xs))
    """
    futad.compile(text, backend="interp").f(np.array([1.0, 2.0]))
    assert capfd.readouterr().err.splitlines() == ["trace: 2.0f64", "trace: 3.0f64"] * 2
