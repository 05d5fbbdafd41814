"""futad/ode beside SciPy's integrators and closed forms, and its derivatives beside differences of these."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import futad
from futad.errors import Error
from tests.support.needs import needs_cc, needs_cxx

integrate = pytest.importorskip("scipy.integrate")

MODEL = """
import "futad/ode"
-- A driven and damped oscillator, stiffness w.
def f (w: f64) (t: f64) (y: [2]f64): [2]f64 = [y[1], f64.sin t - w * y[0] - 0.1 * y[1]]
def start: [2]f64 = [1, 0]
"""
VALUES = """
entry by_euler (steps: i64) (w: f64) = euler (f w) steps 0 5 start
entry by_midpoint (steps: i64) (w: f64) = midpoint (f w) steps 0 5 start
entry by_rk4 (steps: i64) (w: f64) = rk4 (f w) steps 0 5 start
entry rk4_along [m] (ts: [m]f64) (w: f64) = rk4_at (f w) 50 ts start
entry along [m] (ts: [m]f64) (w: f64) = rk45_at (f w) (tolerance 1e-10) ts start
entry back (w: f64) = rk45 (f w) (tolerance 1e-10) 5 0 (rk45 (f w) (tolerance 1e-10) 0 5 start)
entry too_few (w: f64) = rk45 (f w) (tolerance 1e-10 with most = 5) 0 5 start
entry explodes (t1: f64) = (rk45 (\\_ y -> map (\\y -> y * y) y) (tolerance 1e-8 with most = 500) 0 t1 [1])[0]
entry decays (t1: f64) = (rk45 (\\_ y -> map f64.neg y) (tolerance 1e-11) 0 t1 [1])[0]
"""
SLOPES = """
def end (w: f64, t0: f64, t1: f64): f64 = (rk45 (f w) (tolerance 1e-10) t0 t1 start)[0]
entry forward (w: f64) (t0: f64) (t1: f64) = (jvp end (w, t0, t1) (1, 0, 0), jvp end (w, t0, t1) (0, 1, 0))
entry reverse_mode (w: f64) (t0: f64) (t1: f64) = vjp end (w, t0, t1) 1
entry second (w: f64) = jvp (\\w -> vjp (\\w -> end (w, 0, 5)) w 1) w 1
entry between (t: f64) (w: f64) = vjp (\\(t, w) -> (rk45_at (f w) (tolerance 1e-10) [0, t, 5] start).0[1, 0]) (t, w) 1
entry fixed_slope (w: f64) = vjp (\\w -> (rk4 (f w) 200 0 5 start)[0]) w 1
"""
LEAP = """
import "futad/ode"
entry places [n] (steps: i64) (h: f64) (q: [n]f64) (p: [n]f64) = leapfrog (map (\\q -> -f64.sin q)) steps h q p
entry loss [n] (steps: i64) (h: f64) (q: [n]f64) (p: [n]f64): f64 = f64.sum (places steps h q p).0
"""


@cache
def program(backend: str, entries: str = VALUES) -> Any:
    return futad.compile(MODEL + entries, backend=backend)


def exact(w: float, t1: float = 5.0, t0: float = 0.0, at: Any = None) -> Any:
    def f(t: float, y: Any) -> list[float]:
        return [y[1], np.sin(t) - w * y[0] - 0.1 * y[1]]

    made = integrate.solve_ivp(f, (t0, t1), [1, 0], method="DOP853", rtol=1e-13, atol=1e-13, dense_output=True)
    return made.sol(at).T if at is not None else made.y[:, -1]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "order"), [("by_euler", 1), ("by_midpoint", 2), ("by_rk4", 4)])
def test_fixed_steps_have_their_order(name, order):
    coarse, fine = (np.abs(getattr(program("interp"), name)(n, 2.0) - exact(2.0)).max() for n in (100, 200))
    assert 0.8 * 2**order < coarse / fine < 1.25 * 2**order


def check_values(backend: str) -> None:
    p = program(backend)
    ts = np.array([0, 0.1, 0.11, 1, 2.5, 2.5, 5])
    ys, tried = p.along(ts, 2.0)
    np.testing.assert_allclose(ys, exact(2.0, at=ts), atol=2e-9)
    assert 60 < tried < 250
    np.testing.assert_allclose(p.rk4_along(ts, 2.0), exact(2.0, at=ts), atol=1e-6)
    np.testing.assert_allclose(p.back(2.0), [1, 0], atol=1e-8)
    np.testing.assert_allclose(p.decays(3.0), np.exp(-3), atol=1e-10)


@pytest.mark.slow
def test_adaptive_steps_give_what_scipy_gives():
    check_values("interp")


def test_times_that_are_none_one_or_equal():
    p = program("interp")
    assert p.along(np.zeros(0), 2.0)[0].shape == (0, 2)
    np.testing.assert_array_equal(p.along(np.array([1.0]), 2.0)[0], [[1, 0]])
    np.testing.assert_array_equal(p.along(np.array([1.0, 1.0]), 2.0)[0], [[1, 0]] * 2)


@pytest.mark.slow
def test_too_many_steps_and_poles_are_failures():
    with pytest.raises(Error, match="all_times_reached"):
        program("interp").too_few(2.0)
    with pytest.raises(Error, match="all_times_reached"):
        program("interp").explodes(2.0)  # 1 / (1 - t)
    np.testing.assert_allclose(program("interp").explodes(0.9), 10, rtol=1e-6)


def check_derivatives(backend: str) -> None:
    p, h = program(backend, SLOPES), 1e-3

    def slope(f: Any) -> float:
        return (8 * (f(h) - f(-h)) - f(2 * h) + f(-2 * h)) / (12 * h)

    by_w = slope(lambda d: exact(2 + d, 5.3, 0.2)[0])
    by_t0 = slope(lambda d: exact(2.0, 5.3, 0.2 + d)[0])
    by_t1 = exact(2.0, 5.3, 0.2)[1]
    np.testing.assert_allclose(p.forward(2.0, 0.2, 5.3), [by_w, by_t0], atol=1e-8)
    np.testing.assert_allclose(p.reverse_mode(2.0, 0.2, 5.3), [by_w, by_t0, by_t1], atol=1e-8)
    twice = slope(lambda d: slope(lambda e: exact(2 + d + e)[0]))
    np.testing.assert_allclose(p.second(2.0), twice, atol=1e-6)
    by_time, by_w = exact(2.0, 2.2)[1], slope(lambda d: exact(2 + d, 2.2)[0])
    np.testing.assert_allclose(p.between(2.2, 2.0), [by_time, by_w], atol=1e-7)
    np.testing.assert_allclose(p.fixed_slope(2.0), slope(lambda d: exact(2 + d)[0]), atol=1e-7)


@pytest.mark.slow
def test_derivatives_by_parameters_and_times():
    check_derivatives("interp")


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("backend", ["c", "multicore"])
def test_compiled(backend):
    check_values(backend)
    check_derivatives(backend)


@pytest.mark.slow
@needs_cxx
def test_on_a_device():
    check_values("emulated")


@pytest.mark.slow
def test_leapfrog_is_undone_and_keeps_its_energy():
    q, p = np.array([0.3, 1.0, -2.0]), np.array([0.0, 0.5, 0.2])
    plain = futad.compile(LEAP, backend="interp")
    undone = futad.compile(LEAP, backend="interp", reversible=True)
    q1, p1 = plain.places(500, 0.01, q, p)
    np.testing.assert_allclose(p1 * p1 / 2 - np.cos(q1), p * p / 2 - np.cos(q), atol=1e-5)
    q2, p2 = plain.places(500, 0.01, q1, -p1)
    np.testing.assert_allclose([q2, -p2], [q, p], atol=1e-12)
    g = [futad.grad(x.loss, argnums=(2, 3))(500, 0.01, q, p) for x in (plain, undone)]
    np.testing.assert_allclose(g[1], g[0], rtol=1e-10)
    assert "undone" in undone.explain_memory()
