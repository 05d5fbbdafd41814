"""Proofs that two views of one piece of memory are disjoint: never wrong, and found where they are needed."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from futad.core.types import F64, I64
from futad.imp import ir
from futad.imp.ir import Expr, Ref, add, mul, num, sub
from futad.imp.lower import Lowerer
from futad.imp.regions import Regions
from futad.imp.views import Mem, Root, View, dense_view

N, M, D, I, J, K = (Ref(name, I64) for name in "nmdijk")  # noqa: E741
MEMORY = Mem("p", F64, frozenset((Root(0, True, F64),)))


def regions(lets: dict[str, Expr] | None = None, checked: Sequence[tuple[Expr, Expr]] = ()) -> Regions:
    """n, m, d are sizes; 0 <= i < n, 0 <= j < m; of k nothing is known."""
    lo = SimpleNamespace(lets=lets or {}, ranges={"i": N, "j": M}, sizes={N, M, D}, checked=dict.fromkeys(checked))
    return Regions(cast(Lowerer, lo))


def value(e: Expr, env: dict[str, int]) -> int:
    match e:
        case ir.Num(v):
            return v
        case Ref(name):
            return env[name]
        case ir.Bin(op, a, b):
            x, y = value(a, env), value(b, env)
            return x + y if op == "+" else x - y if op == "-" else x * y
    raise AssertionError(e)


def places(v: View, env: dict[str, int]) -> set[int]:
    sizes = [max(0, value(n, env)) for n in v.shape]
    strides = [value(s, env) for s in v.strides]
    start = value(v.offset, env)
    return {
        start + sum(i * s for i, s in zip(index, strides, strict=True))
        for index in itertools.product(*map(range, sizes))
    }


CUBE = dense_view(MEMORY, (N, M, D))
GRID = dense_view(MEMORY, (N, M))


def column(v: View, j: Expr) -> View:
    return View(v.base, add(v.offset, mul(j, v.strides[1])), v.strides[:1], v.shape[:1])


def rows(v: View, start: Expr, count: Expr, step: int = 1) -> View:
    strides = (mul(num(step), v.strides[0]), *v.strides[1:])
    return View(v.base, add(v.offset, mul(start, v.strides[0])), strides, (count, *v.shape[1:]))


DISJOINT = {
    "the next row": (CUBE.row((I,)), CUBE.row((add(I, num(1)),))),
    "a row before": (CUBE.row((sub(I, num(2)),)), CUBE.row((I,))),
    "halves of a row": (CUBE.row((I, num(0))), CUBE.row((I, num(1)))),
    "two columns": (column(GRID, num(0)), column(GRID, num(1))),
    "a column and the others": (column(GRID, num(0)), View(MEMORY, num(1), GRID.strides, (N, sub(M, num(1))))),
    "rows before and from i on": (rows(GRID, num(0), I), rows(GRID, I, sub(N, I))),
    "even and odd rows": (rows(GRID, num(0), I, 2), rows(GRID, num(1), I, 2)),
    "an element and those after": (dense_view(MEMORY, (I,)), dense_view(MEMORY, (), I)),
    "the padded row": (
        dense_view(MEMORY, (N, add(M, num(1)))).row((I,)),
        dense_view(MEMORY, (N, add(M, num(1)))).row((add(I, num(1)),)),
    ),
}  # fmt: skip
OVERLAPPING = {
    "rows of which nothing is known": (CUBE.row((I,)), CUBE.row((K,))),
    "rows of two loops": (CUBE.row((I,)), CUBE.row((J,))),
    "a row and the whole": (CUBE.row((I,)), CUBE),
    "rows up to i and row i": (rows(GRID, num(0), add(I, num(1))), GRID.row((I,))),
    "a column and a row": (column(GRID, num(0)), GRID.row((I,))),
    "columns that may be one": (column(GRID, J), column(GRID, K)),
    "backwards": (View(MEMORY, N, (num(-1),), (N,)), dense_view(MEMORY, (N,))),
    "other names": (dense_view(Mem("q", F64, MEMORY.roots), (N,)), dense_view(MEMORY, (N,), N)),
    "an offset read from memory": (GRID.row((I,)), GRID.row((add(I, ir.Load("q", I, I64)),))),
}


@pytest.mark.parametrize("name", DISJOINT)
def test_disjoint_views_are_told_apart(name: str) -> None:
    a, b = DISJOINT[name]
    strides = (*GRID.strides, *CUBE.strides)
    known = [(num(1), M)] if "column" in name else []  # or there would be no second column
    assert regions(checked=known).disjoint(a, b, strides) or regions(checked=known).disjoint(b, a, strides)


def test_the_second_column_is_one_only_if_there_are_two() -> None:
    """With one column, column 1 is that of the next row."""
    assert not regions().disjoint(*DISJOINT["two columns"], GRID.strides)


@pytest.mark.parametrize("name", OVERLAPPING)
def test_nothing_is_said_of_views_that_may_overlap(name: str) -> None:
    a, b = OVERLAPPING[name]
    assert not regions().disjoint(a, b, CUBE.strides) and not regions().disjoint(b, a, CUBE.strides)


def test_checks_and_definitions_are_used() -> None:
    a, b = GRID.row((K,)), GRID.row((Ref("after", I64),))
    assert not regions().disjoint(a, b)
    assert regions({"after": add(K, num(1))}).disjoint(a, b)
    assert not regions({"after": add(ir.Load("p", I, I64), num(1))}).disjoint(a, b)
    first, rest = rows(GRID, num(0), I), GRID.row((K,))
    assert not regions().disjoint(first, rest)
    assert regions({"k": add(I, J)}).disjoint(first, rest)
    ends = dense_view(MEMORY, (N,)), dense_view(MEMORY, (), add(N, K))
    assert not regions().disjoint(*ends) and regions(checked=[(K, M)]).disjoint(*ends)


def test_the_same_elements_under_other_names() -> None:
    known = regions({"k": mul(I, M)})
    assert known.same(GRID.row((I,)), View(MEMORY, Ref("k", I64), (num(1),), (M,)))
    assert not known.same(GRID.row((I,)), View(MEMORY, Ref("k", I64), (num(2),), (M,)))
    assert not known.same(GRID.row((I,)), GRID.row((J,)))


def index(draw: Any) -> Expr:
    e: Expr = num(draw(st.integers(-1, 2)))
    for x in draw(st.lists(st.sampled_from([I, J, N, M, K]), max_size=2)):
        e = add(e, x) if draw(st.booleans()) else sub(e, x)
    return e


@st.composite
def view(draw: Any) -> View:
    """A part of a dense array: rows, columns, strided slices, transposed; its sizes are not negative."""
    shape = draw(st.sampled_from([(N,), (N, M), (M, N), (N, M, D), (N, num(3)), (num(2), M), (N, add(M, num(1)))]))
    v = dense_view(MEMORY, shape)
    offset, dims = v.offset, []
    for n, s in zip(v.shape, v.strides, strict=True):
        kind = draw(st.sampled_from(["fixed", "whole", "slice"]))
        if kind == "whole":
            dims.append((n, s))
        elif kind == "fixed":
            offset = add(offset, mul(index(draw), s))
        else:
            offset = add(offset, mul(index(draw), s))
            dims.append((draw(st.sampled_from([N, M, I, num(2)])), mul(num(draw(st.sampled_from([1, 2, 3, 0]))), s)))
    if draw(st.booleans()):
        dims.reverse()
    return View(MEMORY, offset, tuple([s for _, s in dims]), tuple([n for n, _ in dims]))


@pytest.mark.slow
@settings(max_examples=400)
@given(view(), view(), st.booleans())
def test_what_is_proved_is_so(a: View, b: View, checked: bool) -> None:
    known = regions(checked=[(K, N)] if checked else [])
    if known.disjoint(a, b, (*GRID.strides, *CUBE.strides)):
        for n, m, d in itertools.product(range(1, 4), range(1, 4), range(3)):
            for i, j, k in itertools.product(range(n), range(m), range(n) if checked else range(-2, 4)):
                env = {"n": n, "m": m, "d": d, "i": i, "j": j, "k": k}
                assert not places(a, env) & places(b, env), env
