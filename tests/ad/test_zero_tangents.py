"""A tangent that is zero adds nothing where a derivative is infinite, as reverse mode adds nothing there."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from tests.support.needs import has_cxx, needs_cc

SOURCE = """
entry decay (a: [2]f64): f64 = a[0] * f64.exp (-a[1])
entry power (a: [2]f64): f64 = a[0] ** a[1]
entry root (a: [2]f64): f64 = f64.sqrt a[0] * a[1] + f64.log (a[1] + 1)
entry entropy (a: [2]f64): f64 = a[1] + (if a[0] == 0 then 0 else a[0]) * 2 + f64.cbrt a[0]
entry growth (a: [2]f64): f64 = f64.sinh a[0] + f64.cosh a[1]
entry norm (a: [2]f64): f64 = f64.hypot a[0] a[1]
"""
INSIDE = """
entry along (x: f64) (y: f64) (dx: f64) (dy: f64): f64 = jvp (\\(x, y) -> x ** y) (x, y) (dx, dy)
entry back (x: f64) (d: f64): f64 = vjp (\\d -> jvp (\\x -> f64.exp x + f64.sqrt x) x d) d 1
entry lists (xs: []f64) (ds: []f64) = map2 (\\x d -> jvp f64.sqrt x d) xs ds
entry whole (x: i32) (dx: i32): i32 = jvp (\\x -> x ** 3 * x) x dx
entry halves (xs: []f16) (ds: []f16) = map2 (\\x d -> jvp f16.log x d) xs ds
"""
AT = {
    "decay": [1.0, -1000.0], "power": [0.0, 0.5], "root": [0.0, 2.0], "entropy": [0.0, 3.0],
    "growth": [1000.0, 0.5], "norm": [0.0, 0.0],
}  # fmt: skip
BACKENDS = [
    "interp", pytest.param("c", marks=[needs_cc, pytest.mark.slow]),
    pytest.param("multicore", marks=[needs_cc, pytest.mark.slow]),
    pytest.param("emulated", marks=[pytest.mark.slow, pytest.mark.skipif(not has_cxx(), reason="no C++ compiler")]),
]  # fmt: skip


@pytest.mark.parametrize("backend", BACKENDS)
def test_forward_mode_is_reverse_mode(backend: str) -> None:
    p = futad.compile(SOURCE, backend=backend)
    for name, at in AT.items():
        x = np.array(at)
        gradient = futad.grad(p[name])(x)
        assert not np.isnan(gradient).any()
        np.testing.assert_array_equal(futad.jacfwd(p[name])(x), gradient, err_msg=name)
        for k, unit in enumerate(np.eye(2)):
            np.testing.assert_array_equal(futad.jvp(p[name], (x,), (unit,))[1], gradient[k], err_msg=name)


@pytest.mark.parametrize("backend", BACKENDS)
def test_inside_programs(backend: str) -> None:
    p = futad.compile(INSIDE, backend=backend)
    assert p.along(0.0, 0.5, 0.0, 1.0) == 0 and p.along(0.0, 0.5, 1.0, 0.0) == np.inf
    assert p.along(0.0, 0.5, 0.0, 0.0) == 0
    np.testing.assert_array_equal(p.lists(np.zeros(21), np.tile([0.0, 1, -1], 7)), np.tile([0, np.inf, -np.inf], 7))
    np.testing.assert_array_equal(p.halves(np.zeros(2, "f2"), np.array([0, 1], "f2")), [0, np.inf])
    assert p.whole(2, 1) == 32 and p.whole(2, 0) == 0
    for d in (0.0, 1.0):  # linear in the tangent, at zero, too
        assert p.back(4.0, d) == np.exp(4.0) + 0.25


def test_second_derivatives() -> None:
    p = futad.compile(SOURCE, backend="interp")
    np.testing.assert_array_equal(futad.hessian(p.decay)(np.array(AT["decay"])), [[0, -np.inf], [-np.inf, np.inf]])
