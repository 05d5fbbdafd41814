"""Rows that each iteration of a loop reads and overwrites, for nobody."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from futad.core import ir
from futad.testing.build import prepared
from tests.support.device_support import OnDevice
from tests.support.needs import needs_cxx

DEVICE = OnDevice((Path(__file__).parents[1] / "legality" / "ownrows.fut").read_text(), "ownrows.fut", check=True)
ENTRIES = ("needed", "others", "after", "same", "yielded")


def test_which_arrays_no_loop_carries() -> None:
    made = prepared(DEVICE.program)

    def carried(name: str) -> list[int]:
        loops = [s.exp for s in made.funs[DEVICE.symbol(name)].body.stms if isinstance(s.exp, ir.For)]
        return [len(e.inits) for e in loops]

    assert [carried(name) for name in ("needed", "others", "after", "same")] == [[2]] * 4
    assert carried("yielded")[-1] == 1  # the adjoint of the state, not that of the rows


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("name", ENTRIES)
def test_equal_to_the_interpreter(name: str) -> None:
    for n in (0, 1, 2, 7, 40):
        rng = np.random.default_rng(n)
        if name == "yielded":
            for m in (0, 1, 5):
                shapes = (n, m), (m,), (n, m)
                args = [np.int64(n), np.int64(m), *[rng.standard_normal(x) for x in shapes]]
                np.testing.assert_allclose(DEVICE.run(name, args)[0], DEVICE.interpreted(name, args)[0], rtol=1e-12)
            continue
        args = [np.int64(n), rng.standard_normal(n), np.float64(0.3)]
        for x, y in zip(DEVICE.run(name, args), DEVICE.interpreted(name, args), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12)
