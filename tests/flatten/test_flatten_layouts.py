"""Layouts of arrays between kernels: neighbouring threads access neighbouring elements, and values stay the same."""

from __future__ import annotations

import numpy as np
import pytest

from futad.flatten.layouts import layouts
from futad.testing.build import prepared
from tests.support.layout_programs import LAYOUTS
from tests.support.needs import needs_cxx

ENTRIES = ("columns", "flat", "rows", "elements", "both", "joined", "reversed_", "part", "updated", "product", "slope")


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("name", [*ENTRIES, "planes", "carried", "gathered"])
def test_arrays_mean_the_same_in_every_layout(name: str) -> None:
    r = np.random.default_rng(1)
    for n in (0, 1, 2, 33, 300):
        sizes: list = [np.int64(n)]
        xs = r.standard_normal(n)
        match name:
            case "planes":
                args = [*sizes, np.int64(7), r.standard_normal((n, 7))]
            case "carried":
                args = [*sizes, np.int64(3), xs]
            case "gathered":
                args = [*sizes, r.integers(0, 10 * n + 1, n), xs]
            case "part" if n == 0:
                continue
            case _:
                args = [*sizes, xs]
        for x, y in zip(LAYOUTS.run(name, args), LAYOUTS.interpreted(name, args), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", ["columns", "flat", "rows"])
def test_rows_that_threads_make_are_not_apart(name: str) -> None:
    a = LAYOUTS.count(name, {"n": 10_000})
    assert a.transposes == 0 and not any(r.what.startswith("cop") for r in a.rows.values())
    assert a.total.strided == 0


def test_layouts_are_of_arrays_that_gain_by_them() -> None:
    funs = prepared(LAYOUTS.program).funs

    def orders(name: str) -> list[tuple[int, ...]]:
        return list(layouts(funs[LAYOUTS.symbol(name)].body).values())

    assert orders("columns") == [(1, 0)]
    # What is returned by rows, and updated or carried by a loop, is row-major.
    assert orders("joined") == orders("updated") == orders("carried") == []
