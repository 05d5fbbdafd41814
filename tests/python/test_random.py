"""Random programs in Python: values are NumPy's, derivatives those of differences of NumPy's values.

FUTAD_PROGRAMS=20 makes twenty times as many.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

import futad
import futad.numpy as fnp
from futad.numpy import f64
from tests.support.random_python import GENERIC, NumPy, Program, Traced, arguments

SIZES = [GENERIC, (5, 6), (8, 4), (6, 6)]
EACH = round(8 * float(os.environ.get("FUTAD_PROGRAMS", "1")))


def entry(program, backend):
    @futad.function(backend=backend)
    def f(x: f64["n", "d"], y: f64["n", "d"], r: f64["d"], c: f64["n"], a: f64):
        return fnp.asarray(program(Traced(fnp), x, y, r, c, a))

    return f


def check(seed, backend):
    program = Program(seed)
    f = entry(program, backend)
    for sizes in SIZES:
        args = arguments(sizes, seed)
        try:
            expected = program(NumPy(), *args)
        except (ValueError, IndexError):  # of no elements there is no maximum
            assert sizes != GENERIC
            continue
        made = f(*args)
        assert np.shape(made) == np.shape(expected)
        np.testing.assert_allclose(made, expected, rtol=1e-9, atol=1e-9, err_msg=f"{seed} {sizes}\n{f.source()}")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_values_are_those_of_numpy(part):
    for seed in range(part * EACH, (part + 1) * EACH):
        check(seed, "interp")


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
@pytest.mark.parametrize("backend", ["c", "emulated"])
def test_backends(backend, part):
    for seed in range(1000 + part * EACH // 4, 1000 + (part + 1) * EACH // 4):
        check(seed, backend)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_modes_agree(part):
    """The dot-product identity of the two modes."""
    for seed in range(2000 + part * EACH // 2, 2000 + (part + 1) * EACH // 2):
        program = Program(seed)
        f = entry(program, "interp")
        args = arguments((4, 3), seed)
        rng = np.random.default_rng(seed)
        value = np.asarray(f(*args))
        cotangent, tangents = rng.normal(size=value.shape)[()], [rng.normal(size=np.shape(a))[()] for a in args]
        _, pull = futad.vjp(f, *args)
        _, push = futad.jvp(f, tuple(args), tuple(tangents))
        back = sum(np.sum(np.asarray(p) * t) for p, t in zip(pull(cotangent), tangents, strict=True))
        np.testing.assert_allclose(np.sum(cotangent * np.asarray(push)), back, rtol=1e-9, atol=1e-9, err_msg=str(seed))
