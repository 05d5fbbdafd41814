"""Random functions of JAX: values and gradients of their entries are JAX's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import futad

jax = pytest.importorskip("jax")

import futad.jax  # noqa: E402
from tests.support.jax_programs import arguments, random_program  # noqa: E402
from tests.support.needs import needs_cc  # noqa: E402
from tests.support.slow import slow_but  # noqa: E402


def check(seed: int, backend: str) -> None:
    f, args = random_program(seed), arguments(seed)
    with jax.enable_x64(True):
        value, slopes = jax.value_and_grad(f, (0, 1, 2, 3))(*args)
    entry = futad.jax.compile(f, *[futad.jax.f64[np.shape(x)] if np.ndim(x) else futad.jax.f64 for x in args],
                              backend=backend)  # fmt: skip
    made, bars = futad.value_and_grad(entry, (0, 1, 2, 3))(*args)
    np.testing.assert_allclose(made, value, rtol=1e-11, atol=1e-12)
    largest = max([1.0, *[float(np.abs(s).max()) for s in slopes]])
    for mine, theirs in zip(bars, slopes, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-11 * largest)


def seeds(count: int) -> list[Any]:
    return slow_but(range(6), range(count))


@pytest.mark.parametrize("seed", seeds(300))
def test_values_and_gradients(seed: int) -> None:
    check(seed, "interp")


@needs_cc
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(300, 320))
def test_compiled(seed: int) -> None:
    check(seed, "c")
