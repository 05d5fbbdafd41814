"""Random programs on the CPU simulator: as the interpreter computes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from futad.core import ir
from futad.core.interp import Interpreter
from futad.errors import Error
from futad.pipeline import compile_program
from futad.runtime.device import EmulatedDevice
from futad.testing.build import device_backend
from futad.testing.programs import core as genprog
from tests.support.needs import needs_cxx

BATCH = 6


pytestmark = needs_cxx


def outcome(run: Any, name: str, args: list[Any]) -> Any:
    try:
        return run(name, [a.copy() if isinstance(a, np.ndarray) else a for a in args])
    except Error as e:
        return type(e)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(3))
def test_random_programs(block: int) -> None:
    """A batch is one program for the C++ compiler."""
    samples = [genprog.program(seed, f"main{seed}") for seed in range(BATCH * block, BATCH * (block + 1))]
    funs: dict[str, ir.Fun] = {}
    for s in samples:
        funs |= s.program.funs
    made = device_backend(compile_program(ir.Program(funs)))
    running = made.on(EmulatedDevice(seed=1))
    for k, s in enumerate(samples):
        name = f"main{BATCH * block + k}"
        want = outcome(Interpreter(s.program).run, name, s.args)
        got = outcome(running.run, name, s.args)
        if isinstance(want, type):
            assert got is want, name
            continue
        assert not isinstance(got, type), (name, got)
        for x, y in zip(got, want, strict=True):
            x, y = np.asarray(x), np.asarray(y)
            assert x.dtype == y.dtype and x.shape == y.shape, name
            if x.dtype.kind == "f":
                scale = max(1, np.abs(y[np.isfinite(y)]).max(initial=0))
                tol = 1e-4 if x.dtype == np.float32 else 1e-9
                np.testing.assert_allclose(x, y, rtol=tol, atol=tol * scale, err_msg=name)
            else:
                np.testing.assert_array_equal(x, y, err_msg=name)
