"""futad run -x: expressions, alone and in the scope of a program."""

from __future__ import annotations

import pytest

from futad.runtime.textvalues import binary_bytes
from tests.support.cli_helpers import Runner


@pytest.fixture
def futad(tmp_path, monkeypatch, capfdbinary):
    return Runner(tmp_path, monkeypatch, capfdbinary)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1 + 2", "3i32"),
        ("map (+ 1) (iota 3)", "[1i64, 2i64, 3i64]"),
        ("filter (> 9) [1, 2]", "empty([0]i32)"),
        ("(1u8, {a = [1.5], b = true})", "1u8\n[1.5f64]\ntrue"),
        ("vjp (\\x -> x * x) 3f64 1", "6.0f64"),
        ("let x = 3\nin x * x -- nine", "9i32"),
        ("let f (x: i32) = x + 1 in f (f 1)", "3i32"),
        ("()", ""),
    ],
)
def test_values(futad, expression, value):
    done = futad("run", "-x", expression)
    assert (done.code, done.out.strip(), done.err) == (0, value, "")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["interp", "c", "multicore", "emulated"])
def test_in_the_scope_of_a_program(futad, backend):
    futad.file("lib.fut", "def twice (x: f64) = 2 * x\n")
    program = 'import "lib"\nlocal def sq (x: f64) = x * x\nmodule m = { def one = 1f64 }\nentry main = sq 3\n'
    name = futad.file("p.fut", program)
    done = futad("run", name, "-b", backend, "--expression", "twice (sq (main + m.one))")
    assert (done.code, done.out, done.err) == (0, "200.0f64\n", "")


def test_binary_output(futad):
    import numpy as np

    assert futad.raw("run", "-x", "[1, 2]", "-B")[1] == binary_bytes(np.array([1, 2], np.int32))


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("1 + foo", "<expression>:1:5: error: unknown name 'foo' [E0201]\n1 + foo\n    ^^^\n"),
        ("1 +", "<expression>:1:4: error: syntax error: found the end of the expression, expected an expression"),
        ("", "<expression>:1:1: error: syntax error: found the end of the expression"),
        ("1\n+ true", "<expression>:2:3: error: "),
        ("1 def f = 2", "<expression>:1:3: error: syntax error: a declaration after an expression"),
        ("[1, 2][2]", "<expression>:1:1: Error: Index [2] out of bounds for array of shape [2].\n[1, 2][2]\n^^^^^^"),
        ("assert (1 > 2) 3", "<expression>:1:1: Error: Assertion is false: 1 > 2\n"),
        ("\\(x: i32) -> x", "<expression>:1:1: error: the expression is a function"),
        ("\\x -> x", "<expression>:1:1: error: "),
        ("f64.sqrt", "<expression>:1:1: error: the expression is a function"),
        ('import "x"', "<expression>:1:1: error: syntax error"),
        ("#[", "<expression>:1:"),
    ],
)
def test_errors_point_into_the_expression(futad, expression, message):
    done = futad("run", "-x", expression)
    assert done.code == 1 and done.out == "" and done.err.startswith(message), done.err
    assert "Traceback" not in done.err


def test_errors_of_the_program_point_there(futad):
    name = futad.file("p.fut", "def f (x: i32) = x +. 1\n")
    done = futad("run", name, "-x", "f 1")
    assert done.code == 1 and done.err.startswith("p.fut:1:20: error: ")
    name = futad.file("q.fut", "def f (xs: []i32) = xs[3]\n")
    done = futad("run", name, "-x", "f [1]")
    assert done.code == 1 and done.err.startswith("q.fut:1:21: Error: Index [3] out of bounds")


def test_wrong_use(futad):
    done = futad("run")
    assert done.code == 2 and "name a program, or give an expression with -x" in done.err
    done = futad("run", "-x", "1", "missing.fut")
    assert done.code == 1 and "no such file: missing.fut" in done.err
