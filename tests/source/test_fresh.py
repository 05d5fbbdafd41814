"""Copies of syntax trees: new nodes, equal ones, and one for what is one in several places."""

from __future__ import annotations

from typing import Any

import pytest

from futad.core.types import Prim
from futad.errors import Span
from futad.source.fresh import fresh
from futad.source.parse import parse
from tests.support.paths import TESTS

PROGRAMS = ("programs/modules_views.fut", "programs/functor_derivatives.fut", "language/updates.fut")


def walk(x: Any, y: Any, places: dict[int, int]) -> int:
    """Compares a tree with a copy; the number of its nodes."""
    assert type(x) is type(y)
    if isinstance(x, list | tuple):
        assert len(x) == len(y)
        parts = list(zip(x, y, strict=True))
    elif isinstance(x, dict):
        parts = [(x[k], y[k]) for k in x]
        assert list(x) == list(y)
    elif isinstance(x, Span | Prim) or not hasattr(x, "__dataclass_fields__"):
        assert x == y
        return 0
    else:
        parts = [(getattr(x, name), getattr(y, name)) for name in x.__dataclass_fields__]
    if not isinstance(x, tuple):
        assert x is not y and places.setdefault(id(x), id(y)) == id(y)
    return 1 + sum(walk(a, b, places) for a, b in parts)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_copy_is_equal_and_new(name):
    decls = parse((TESTS / name).read_text(), name).decls
    places: dict[int, int] = {}
    assert walk(decls, fresh(decls), places) > 100
    assert len(set(places.values())) == len(places)


def test_parametric_modules_keep_their_bodies():
    """A nested update has one list of indices in two places, which the copy has to keep."""
    from futad.source import check_text

    body = "module m (R: real) = { def f (xs: *[][]R.t): *[][]R.t = xs with [0, 1] = R.i64 3 with [1][0] = R.i64 2 }"
    uses = "module a = m f64\nmodule b = m f32\nentry main (xs: *[][]f64) (ys: *[][]f32) = (a.f xs, b.f ys)"
    check_text(f"{body}\n{uses}")


def test_texts_in_attributes_are_kept():
    """A budget in a parametric module, with its memory as text."""
    from futad.core.budget import ATTRIBUTE
    from futad.core.ir import statements
    from futad.source import compile_text

    loop = '#[checkpoint(memory="200kB")] loop x = x for _i < 3 do R.(x * x)'
    body = f"module m (R: real) = {{ def f (x: R.t): R.t = {loop} }} module a = m f64 entry main (x: f64) = a.f x"
    core = compile_text(body)
    attributes = [a for f in core.funs.values() for s in statements(f.body.stms) for a in s.attrs]
    assert any(a[:2] == (ATTRIBUTE, ("memory", 200000)) for a in attributes)
