"""Loops in vector lanes: the loops that are refused, each beside one that is taken.

No program is known to reach some of these refusals, as what lowering emits is refused for another reason first: they
are what the functions promise, whatever lowering comes to emit.
"""

from __future__ import annotations

import pytest

from futad.core.types import BOOL, F32, F64, I64
from futad.imp import ir
from futad.imp.ir import ONE, ZERO, Load, Ref, Scalar
from futad.imp.loops.gathers import gathered
from futad.imp.loops.outer_vectorise import outer_vectorised
from futad.imp.loops.vectorise import across, annotate
from futad.imp.walk import statements

i, j, m, n = (Ref(name, I64) for name in "ijmn")
F_ZERO = ir.Num(0.0, F64)
BESIDE = ir.add(i, ir.mul(j, n))  # elements of neighbouring iterations are neighbours
STRIDED = ir.add(ir.mul(i, ir.num(2)), ir.mul(j, n))
ROWS = ir.add(ir.mul(i, m), j)


@pytest.mark.parametrize("indices, taken", [([i], True), ([ZERO], False), ([i, ir.add(i, ONE)], False)])
def test_what_is_added_goes_to_elements_of_each_iteration(indices, taken):
    adds = [ir.Store("y", index, Load("x", i, F64), "add") for index in indices]
    loop = ir.For("i", n, adds, map=True)
    assert annotate(loop, reassociate=True) == loop.independent == taken


@pytest.mark.parametrize("second, taken", [("add", True), ("mul", False)])
def test_a_variable_is_folded_by_one_operation(second, taken):
    folds = [ir.Accumulate("s", op, Load("x", i, F64)) for op in ("add", second)]
    loop = ir.For("i", n, folds, map=True)
    assert annotate(loop, reassociate=True) == loop.independent == taken
    assert [p.name for p in loop.partials] == ["s"] * taken


@pytest.mark.parametrize("index, taken", [(BESIDE, True), (j, True), (STRIDED, False), (ROWS, False)])
def test_lanes_that_reduce_read_side_by_side(index, taken):
    product = Scalar("mul", (Load("a", BESIDE, F64), Load("b", index, F64)), F64, F64)
    fold = ir.For("j", m, [ir.Accumulate("s", "add", product)], map=True)
    assert annotate(fold, reassociate=True)
    loop = ir.For("i", n, [ir.Decl("s", F64, F_ZERO, mutable=True), fold, ir.Store("y", i, Ref("s", F64))], map=True)
    assert (across(loop, reassociate=True) is not None) == taken


@pytest.mark.parametrize("value, taken", [(m, True), (i, False)])
def test_what_comes_before_the_reduction_is_the_same_for_all_lanes(value, taken):
    product = Scalar("mul", (Load("a", BESIDE, F64), Ref("c", F64)), F64, F64)
    fold = ir.For("j", m, [ir.Accumulate("s", "add", product)], map=True)
    assert annotate(fold, reassociate=True)
    before = [ir.Decl("c", F64, Load("b", value, F64)), ir.Decl("s", F64, F_ZERO, mutable=True)]
    loop = ir.For("i", n, [*before, fold, ir.Store("y", i, Ref("s", F64))], map=True)
    assert (across(loop, reassociate=True) is not None) == taken


def outer(bound: ir.Expr, cond: ir.Expr, first: list[ir.Stmt]) -> ir.For:
    """A map around a loop that carries y, with a branch that adds to memory in one way."""
    y = Ref("y", F64)
    step = Scalar("mul", (y, Load("x", j, F64)), F64, F64)
    branch = ir.If(cond, [ir.Store("a", j, y, "add")], [])
    body = [*first, ir.Decl("y", F64, F_ZERO, mutable=True), ir.For("j", bound, [ir.Assign("y", step), branch])]
    return ir.For("i", n, [*body, ir.Store("z", i, y)], map=True)


CHOICE = Scalar("lt", (Ref("k", I64), ir.num(3)), BOOL, I64)
DIFFERS = [ir.Decl("k", I64, Load("ks", i, I64))]


@pytest.mark.parametrize(
    "bound, first, taken",
    [
        (m, [], True),
        (i, [], False),
        (Ref("k", I64), DIFFERS, False),
    ],
)
def test_inner_loops_of_all_lanes_are_alike(bound, first, taken):
    loop = outer(bound, Scalar("lt", (m, ir.num(3)), BOOL, I64), first)
    assert (outer_vectorised(loop, loop.body, frozenset()) is not None) == taken


@pytest.mark.parametrize("first, taken", [([], True), (DIFFERS, False)])
def test_lanes_take_branches_together(first, taken):
    loop = outer(m, CHOICE, first)
    assert any(isinstance(s, ir.If) for s in statements(loop.body))
    assert (outer_vectorised(loop, loop.body, frozenset()) is not None) == taken


K = Ref("k", I64)
AT_K = ir.Decl("q", F32, Load("x", K, F32))
USED = ir.Store("y", i, Ref("q", F32))
MOVED = [ir.Decl("k", I64, ZERO, mutable=True), ir.Assign("k", Load("ks", i, I64))]


@pytest.mark.parametrize(
    "first, last, taken",
    [
        (DIFFERS, [], True),
        (DIFFERS, [ir.Store("x", i, ir.Num(0.0, F32))], False),  # what is read is written
        ([ir.Store("ks", i, ZERO), *DIFFERS], [], False),  # its place is read from what was written before
        (DIFFERS, [ir.Store("ks", i, ZERO)], True),
        (MOVED, [], False),  # its place has changed
        ([ir.Decl("k", I64, ir.mul(i, n))], [], False),  # vectors have such reads
    ],
)
def test_elements_are_gathered_before_what_changes_them(first, last, taken):
    loop = ir.For("i", n, [*first, AT_K, USED, *last], map=True)
    assert bool(gathered(loop)) == taken
