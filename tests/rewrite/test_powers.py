"""Powers with constant exponents are those of the library, at hard arguments, and their derivatives."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.core.parse import parse_program
from futad.rewrite.simplify import simplify
from tests.support.optimise_support import passes, run

EXPONENTS = [-8, -3, -2, -1, 3, 4, 5, 7, 8, 0.5, 1.5, 2.5, 3.5, -1.5, -3.5]
HARD = [0.0, -0.0, 1.0, -1.0, 1e-300, 3e-39, -1e-20, 1e20, 7e37, -1e300, np.inf, -np.inf, np.nan, 0.3, -2.7]


@pytest.mark.parametrize("t", ["f32", "f64"])
@pytest.mark.parametrize("exponent", EXPONENTS)
def test_hard_arguments(exponent: float, t: str) -> None:
    text = f"fun main (x_1: {t}) -> (r_9: {t}) = {{ let t_2: {t} = pow(x_1, {float(exponent)}{t}) in (t_2) }}"
    program = parse_program(text)
    made = passes(parse_program(text), simplify)
    assert "pow(" not in str(made)
    scalar, info = np.dtype(f"float{t[1:]}").type, np.finfo(f"float{t[1:]}")
    with np.errstate(all="ignore"):
        for x in HARD:
            (a,), (b,) = (run(p, [scalar(x)]) for p in (program, made))
            np.testing.assert_allclose(b, a, rtol=8 * info.eps, atol=info.tiny)


def test_derivatives_at_zero() -> None:
    """Of x ** 1.5 it is 0, and not 0 / 0, as of a product with a root."""
    text = """
entry value [n] (x: [n]f64): f64 = f64.sum (map (\\v -> v ** 1.5 + v ** 3 + v ** 2.5) x)
"""
    x = np.array([0.0, 1.0, 4.0])
    for backend in ("interp", "c", "emulated"):
        program = futad.compile(text, backend=backend)
        np.testing.assert_allclose(program.value(x), (x**1.5 + x**3 + x**2.5).sum(), rtol=1e-14)
        expected = 1.5 * x**0.5 + 3 * x**2 + 2.5 * x**1.5
        np.testing.assert_allclose(futad.grad(program.value)(x), expected, rtol=1e-14)
