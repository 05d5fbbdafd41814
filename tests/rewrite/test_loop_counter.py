"""Loop variables that count are made of the iteration's number."""

from __future__ import annotations

import numpy as np
import pytest

from futad.core import ir
from futad.core.interp import Interpreter
from futad.rewrite.simplify import simplify
from futad.source import compile_text
from tests.support.optimise_support import passes

SOURCE = "entry main (x: f64) (n: i64) (k: i64): (f64, i64) = loop (s, c) = (x, k) for i < n do ({}, {})"
COUNTS = {
    "one": ("s * 0.5 + f64.i64 c", "c + 1", True),
    "reversed": ("s * 0.5 + f64.i64 c", "3 + c", True),
    "down": ("s * 0.5 + f64.i64 c", "c - 2", True),
    "wraps": ("s * 0.5 + f64.i64 (c % 7)", "c + 4611686018427387904", True),
    "from": ("s * 0.5 + f64.i64 c", "5 - c", False),
    "doubles": ("s * 0.5 + f64.i64 c", "c * 2", False),
    "by another": ("s * 0.5 + f64.i64 c", "c + i", False),
    "of another": ("s * 0.5 + f64.i64 c", "i + 1", False),
}


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("n", [-2, 0, 1, 5])
def test_counters(name, n):
    s, c, counts = COUNTS[name]
    program = compile_text(SOURCE.format(s, c))
    simple = passes(program, simplify)
    (loop,) = [t.exp for t in ir.statements(simple.funs["main"].body.stms) if isinstance(t.exp, ir.For)]
    assert (len(loop.inits) == 1) == counts
    wanted, got = (Interpreter(p).run("main", [1.5, np.int64(n), np.int64(3)]) for p in (program, simple))
    assert wanted == got


def test_a_size_stays_a_variable():
    """The array's type names it."""
    program = compile_text("entry main (n: i64): []i64 = loop (xs: []i64) = [] for i < n do xs ++ [i]")
    simple = passes(program, simplify)
    (loop,) = [t.exp for t in ir.statements(simple.funs["main"].body.stms) if isinstance(t.exp, ir.For)]
    assert len(loop.inits) == 2
    for n in (0, 3):
        np.testing.assert_array_equal(Interpreter(simple).run("main", [np.int64(n)])[-1], np.arange(n))
