"""`assert`: which ones fail and which are dead code, in what order things fail, the IR of it."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.core import ir
from futad.core.check import check_program
from futad.core.interp import Interpreter
from futad.core.parse import parse_program
from futad.core.text import program_text
from futad.pipeline import compile_program
from futad.source import compile_text

PROGRAM = """
def checked (x: f64) = assert (x > 0) (f64.sqrt x)
entry unused (x: f64) = let _ = assert (x > 0) x in x + 1
entry unit (x: f64) = let _ = if x > 5 then () else assert (x > 0) () in x
entry text (x: f64) = let _ = assert (x > 0) "abc" in x
entry called (x: f64) = let _ = checked x in x
entry unused_column (xs: []f64) = (map (\\x -> (x, assert (x > 0) x)) xs |> unzip).0
entry in_loop (x: f64) = (loop (a, _b) = (x, 0f64) for _i < 3 do (a + 1, assert (a > 0) a)).0
entry constant (x: f64) = let _ = assert false x in x
entry used (x: f64) = let y = assert (x > 0) x in y + 1
entry half (x: f64) = (assert (x > 0) (x + 1, x)).1
entry first (xs: []f64) = assert (length xs == 1) xs[0]
entry order (xs: []f64) (i: i64) = assert (i < 1) xs[i]
entry nested (x: f64) = assert (x > 1) (assert (x > 0) x)
entry size (n: i64) = let m = assert (n > 2) n in iota m
entry consumed [n] (xs: *[n]f64) = let ys = assert (n > 1) xs in ys with [0] = 5
entry derived (x: f64) = vjp (\\x -> (assert (x > 0) (x * x)) * x) x 1
entry function (x: f64) = (assert (x > 0) (\\y -> y + x)) 1
"""
GOES = {
    "unused": ([-1.0], 0.0), "unit": ([-1.0], -1.0), "text": ([-1.0], -1.0), "called": ([-1.0], -1.0),
    "unused_column": ([np.array([-1.0, 2.0])], [-1.0, 2.0]), "in_loop": ([-1.0], 2.0), "constant": ([1.0], 1.0),
}  # fmt: skip
# What it takes, the column of the assertion, arguments that pass it and the result.
STAYS = {
    "used": ([-1.0], 31, [1.0], 2.0), "half": ([-1.0], 24, [1.0], 1.0), "first": ([np.ones(2)], 27, [np.ones(1)], 1.0),
    "order": ([np.ones(2), 7], 36, [np.ones(2), 0], 1.0), "nested": ([-1.0], 41, [2.0], 2.0),
    "size": ([1], 31, [3], [0, 1, 2]), "consumed": ([np.ones(1)], 45, [np.ones(2)], [5.0, 1.0]),
    "derived": ([-1.0], 38, [1.0], 3.0), "function": ([-1.0], 28, [1.0], 2.0),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["interp", "c", "emulated"])
def test_assertions(backend: str) -> None:
    program = futad.compile(PROGRAM, backend=backend, check=True)
    assert {*GOES, *STAYS} == set(program)
    for name, (args, want) in GOES.items():
        np.testing.assert_array_equal(program[name](*args), want, err_msg=name)
    for name, (args, column, good, want) in STAYS.items():
        with pytest.raises(futad.Error, match="Assertion is false") as e:
            program[name](*args)
        assert e.value.span is not None and e.value.span.col == column, name
        np.testing.assert_array_equal(program[name](*good), want, err_msg=name)


def test_what_is_not_known_to_hold_proves_nothing() -> None:
    # The assertion goes, so the index must still be checked.
    text = "entry f (xs: []f64) (i: i64) = let _ = assert (i >= 0 && i < length xs) true in xs[i]"
    for backend in ("interp", "c"):
        with pytest.raises(futad.Error, match="index 2 is out of bounds"):
            futad.compile(text, backend=backend).f(np.ones(2), 2)


def test_the_text_reads_back_and_runs() -> None:
    program = compile_text("entry f (x: f64) = let y = assert (x > 0) x in y * 2")
    check_program(program, "lowering")
    again = parse_program(program_text(program))
    assert program_text(again, normal=True) == program_text(program, normal=True)
    (stm,) = [s for s in again.funs["f"].body.stms if isinstance(s.exp, ir.Assert)]
    assert len(stm.pat) == len(stm.exp.of) == 1
    assert Interpreter(again).run("f", [3.0]) == [6.0]
    with pytest.raises(futad.Error, match="Assertion is false"):
        Interpreter(again).run("f", [-3.0])


def test_no_assertion_binds_anything_after_the_pass() -> None:
    program = compile_program(compile_text("entry f (x: f64) = let y = assert (x > 0) (x * x) in y * 2"))
    stms = program.funs["f"].body.stms
    kinds = [type(s.exp) for s in stms]
    assert kinds == [ir.Op, ir.Assert, ir.Op, ir.Op] and stms[1].pat == ()
