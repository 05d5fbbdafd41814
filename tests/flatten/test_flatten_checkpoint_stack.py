"""Loops that save what they carry: the values are made where they are kept, and mean the same."""

from __future__ import annotations

import numpy as np
import pytest

from futad.core import ir
from futad.core.check import check_program
from futad.core.interp import Interpreter
from futad.testing.build import prepared
from tests.support.layout_programs import KEPT
from tests.support.needs import needs_cxx

ENTRIES = ("simple", "pair", "two_back", "consumed", "late", "kept", "matrices")


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("name", ENTRIES)
def test_loops_equal_the_interpreter(name: str) -> None:
    made = prepared(KEPT.program)
    check_program(made)
    for n, t in ((5, 4), (3, 1), (4, 0), (1, 7), (70, 3), *([(0, 2)] if name != "consumed" else [])):
        args = [np.int64(n), np.int64(t), np.random.default_rng(n).standard_normal(n)]
        expected = KEPT.interpreted(name, args)
        for got in (Interpreter(made).run(KEPT.symbol(name), args), KEPT.run(name, args)):
            for x, y in zip(got, expected, strict=True):
                np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["simple", "pair", "matrices"])
def test_nothing_is_copied_in_a_iteration(name: str) -> None:
    def copies(t: int) -> int:
        rows = KEPT.count(name, {"n": 1000, "t": t}).rows
        return rows["copy"].launches if "copy" in rows else 0

    assert copies(30) == copies(10)


def test_only_values_with_memory_of_their_own_are_made_where_they_are_kept() -> None:
    """What is carried on as it is, is saved as it was."""
    funs = prepared(KEPT.program).funs
    for name, kept in (("simple", True), ("pair", True), ("two_back", False)):
        forward = next(s.exp for s in funs[KEPT.symbol(name)].body.stms if isinstance(s.exp, ir.For))
        made = {v: s.exp for s in forward.body.stms for v in s.pat}
        places = [s.exp.index[0] for s in forward.body.stms if isinstance(s.exp, ir.Update)]
        assert any(isinstance(made.get(i), ir.Op) for i in places) == kept, name  # type: ignore[arg-type]
