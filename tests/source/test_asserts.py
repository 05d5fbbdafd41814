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
    "order": ([np.ones(2), 7], 36, [np.ones(2), 0], 1.0), "nested": ([-1.0], 25, [2.0], 2.0),
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
        with pytest.raises(futad.Error, match=r"Index \[2\] out of bounds"):
            futad.compile(text, backend=backend).f(np.ones(2), 2)


def test_the_text_reads_back_and_runs() -> None:
    program = compile_text("entry f (x: f64) = let y = assert (x > 0) x in y * 2")
    check_program(program, "lowering")
    again = parse_program(program_text(program))
    assert program_text(again, normal=True) == program_text(program, normal=True)
    guard, value = [s for s in again.funs["f"].body.stms if isinstance(s.exp, ir.Assert)]
    assert len(guard.pat) == len(value.pat) == len(guard.exp.of) == len(value.exp.of) == 1
    assert value.exp.cond is guard.pat[0]  # true where it holds
    assert Interpreter(again).run("f", [3.0]) == [6.0]
    with pytest.raises(futad.Error, match="Assertion is false"):
        Interpreter(again).run("f", [-3.0])


def test_no_assertion_binds_anything_after_the_pass() -> None:
    program = compile_program(compile_text("entry f (x: f64) = let y = assert (x > 0) (x * x) in y * 2"))
    stms = program.funs["f"].body.stms
    kinds = [type(s.exp) for s in stms]
    assert kinds == [ir.Op, ir.Assert, ir.Op, ir.Op] and stms[1].pat == ()


# What `G` does with i = 7 and two elements, each of which fails.
FAILS = {
    "read": "xs[i]", "updated": "(copy xs with [i] = 1)[0]", "sliced": "f64.sum xs[0:i]",
    "asserted": "assert (i < 1) xs[0]", "divided": "f64.i64 (1 / (i - 7))", "to_a_power": "f64.i64 (2 ** (-i))",
    "a_range": "f64.i64 (i64.sum (7..<(7 - i)))", "a_size": "f64.sum (replicate (-i) xs[0])",
    "coerced": "f64.sum (filter (> 0) xs :> [i]f64)", "mapped": "f64.sum (map (\\j -> xs[i + j]) (iota 3))",
    "looped": "loop a = 0 for j < 3 do a + xs[i + j]", "folded": "reduce (\\a b -> assert (i < 1) (a + b)) 0 xs",
    "a_hole": "if i < 1 then xs[0] else ???",
}  # fmt: skip
# Where the assertion before it stands; `H` is never inlined.
STANDS = {
    "plain": "assert (i != 7) (G xs i)", "not_inlined": "assert (i != 7) (H xs i)",
    "mapped": "f64.sum (map (\\i -> assert (i != 7) (G xs i)) (replicate 3 i))",
    "mapped_not_inlined": "f64.sum (map (\\i -> assert (i != 7) (H xs i)) [i, i])",
    "looped": "loop a = 1 for j < 3 do a * assert (i + j != 7) (G xs (i + j))",
    "in_branch": "if i > 5 then assert (i != 7) (G xs i) else G xs i",
    "forward": "jvp (\\xs -> assert (i != 7) (G xs i)) xs (map (const 1) xs)",
    "reverse": "f64.sum (vjp (\\xs -> assert (i != 7) (H xs i)) xs 1)",
    "reverse_mapped": "f64.sum (vjp (\\xs -> f64.sum (map (\\i -> assert (i != 7) (G xs i)) [i, i])) xs 1)",
}  # fmt: skip


@pytest.mark.parametrize("backend", ["interp", pytest.param("c", marks=pytest.mark.slow),
                                     pytest.param("multicore", marks=pytest.mark.slow),
                                     pytest.param("emulated", marks=pytest.mark.slow)])  # fmt: skip
def test_an_assertion_comes_before_what_fails_in_its_value(backend: str) -> None:
    text = ""
    for name, body in FAILS.items():
        for prefix, attr in (("g", ""), ("h", "#[noinline] ")):
            text += f"{attr}def {prefix}_{name} [n] (xs: [n]f64) (i: i64): f64 = {body}\n"
        for where, body in STANDS.items():
            body = body.replace("G ", f"g_{name} ").replace("H ", f"h_{name} ")
            text += f"entry {name}_{where} [n] (xs: [n]f64) (i: i64): f64 = {body}\n"
    program = futad.compile(text, backend=backend)
    for entry in program:
        with pytest.raises(futad.AssertionFailed, match=r"Assertion is false: i( \+ j)? != 7"):
            program[entry](np.ones(2), 7)
