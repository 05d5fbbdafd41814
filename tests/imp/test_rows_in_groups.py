"""Loops along many rows of the same arrays (`imp/loops/rows_in_groups.py`), and their parts (`distribute.py`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import futad
from futad import strategies
from futad.backend.c import CBackend
from futad.core.types import F64, I64
from futad.fires import counting
from futad.imp import ir
from futad.imp.ir import Load, Ref, add, mul, num
from futad.imp.loops.rows_in_groups import GROUP, TOGETHER, in_groups
from futad.imp.loops.vectorise import annotate
from futad.imp.walk import loads_in
from futad.pipeline import compile_program
from futad.source import load_program
from futad.target import C
from tests.support.slow import slow_but

SOURCE = Path("tests/legality/rowgroups.fut")
AT, J, N = Ref("i", I64), Ref("j", I64), Ref("n", I64)
VIEW = object()  # an accumulator's


def _place(row: int) -> ir.Expr:
    return add(mul(num(row), N), J)


def _product(row: int) -> list[ir.Stmt]:
    """A[row, j] += s * x[j]; p_row[j] += s * B[row, j]"""
    t, u, s = f"t{row}", f"u{row}", Ref("s", F64)
    times = [ir.Scalar("mul", (s, x), F64, F64) for x in (Ref("x", F64), Load("B", _place(row), F64))]
    return [ir.Decl(t, F64, times[0]), ir.Decl(u, F64, times[1]),
            ir.Store("A", _place(row), Ref(t, F64), "add", row=(VIEW, (row,))),
            ir.Store(f"p{row}", J, Ref(u, F64), "add")]  # fmt: skip


def _along(*more: ir.Stmt, rows: int) -> ir.For:
    body = [ir.Decl("x", F64, Load("x", J, F64)), *[s for k in range(rows) for s in _product(k)], *more]
    loop = ir.For("j", N, body, map=True)
    annotate(loop, True)
    return loop


def test_each_group_has_few_rows_and_the_order_stays():
    loop = _along(rows=7)
    made = in_groups(loop, True)
    assert made is not None and len(made) == 4
    for part in made:
        assert part.independent and part.map and part.bound is N
        rows = {(x.pointer, x.index) for s in part.body for x in loads_in(s) if x.pointer == "B"}
        rows |= {(s.pointer, s.index) for s in part.body if isinstance(s, ir.Store) and s.pointer == "A"}
        assert 0 < len(rows) <= GROUP
        declared: set[str] = {"s", "n", "j"}
        for s in part.body:
            assert set(s.uses()) <= declared
            declared |= {s.name} if isinstance(s, ir.Decl) else set()
    stores = [(s.pointer, s.index) for part in made for s in part.body if isinstance(s, ir.Store)]
    assert stores == [(s.pointer, s.index) for s in loop.body if isinstance(s, ir.Store)]
    # None of them is in two of the loops, for what changes one would change the other.
    every = [id(s) for part in made for s in part.body]
    assert len(every) == len({*every})


def test_few_rows_stay_together():
    few = _along(rows=TOGETHER // 2)
    assert in_groups(few, True) is None
    asked = in_groups(few, True, asked=True)
    assert asked is not None and len(asked) == 2


def test_neighbours_are_in_one_row():
    """Places of a stencil are no rows that lie apart."""
    for distance in (1, 512):
        body: list[ir.Stmt] = []
        for k in range(10):
            e = ir.Decl(f"e{k}", F64, Load("B", add(J, num(k * distance)), F64))
            body += [e, ir.Store(f"p{k}", J, Ref(e.name, F64), "add")]
        loop = ir.For("j", N, body, map=True)
        assert annotate(loop, True)
        assert (in_groups(loop, True) is None) is (distance == 1)


def test_what_is_read_and_written_stays_together():
    """An element that is stored, or of an array that is added to, could be read again by a later group."""
    assert in_groups(_along(ir.Store("y", J, Ref("x", F64)), rows=7), True) is None
    read = ir.Decl("z", F64, Load("p0", J, F64))
    assert in_groups(_along(read, ir.Store("q", J, Ref("z", F64), "add"), rows=7), True) is None


@pytest.mark.slow
def test_the_same_to_the_last_bit():
    """Sums are continued in the same order by either code."""
    less = strategies.default().nest("*", "no rows-in-groups")
    whole, together = [futad.load(SOURCE, backend="c", schedule=s) for s in (None, less)]
    with counting() as counts:
        CBackend(compile_program(load_program(str(SOURCE)), target=C))
    assert counts["rows-in-groups"] == counts["loop-distribution"] == 1
    r = np.random.default_rng(3)
    for n, k in ((1, 4), (5, 3), (4, 64), (3, 65)):
        args = [r.normal(size=s) / k**0.5 for s in ((5, k, k), (n, k), (k,))]
        for got, want in zip(whole.added(*args), together.added(*args), strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.slow
@pytest.mark.parametrize("backend", slow_but(["c"], ["c", "multicore"]))
def test_all_agree(backend):
    program, plain = [futad.load(SOURCE, backend=b) for b in (backend, "interp")]
    r = np.random.default_rng(4)
    for n, k in ((2, 1), (3, 5), (2, 67)):
        args = [r.normal(size=s) / k**0.5 for s in ((5, k, k), (n, k), (k,))]
        for got, want in zip(program.added(*args), plain.added(*args), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)
        x, b = r.normal(size=(n, k)), r.normal(size=(n, 10, k))
        for got, want in zip(program.overwritten(x, b, np.int64(3)), plain.overwritten(x, b, np.int64(3)), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)
