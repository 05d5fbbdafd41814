"""Monte-Carlo lookups of cross sections and the lattice Boltzmann method against NumPy and complex steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from futad.datasets.make_neutrons import cavity, resonances, tables
from reference import physics_forms as pf
from scipy.special import wofz

from futad.cli import main
from tests.support.benchmark_programs import program
from tests.support.needs import needs_cc
from tests.support.paths import BENCHMARK_PROGRAMS

BACKENDS = ["interp", *[pytest.param(b, marks=needs_cc) for b in ("c", "multicore", "emulated")]]

Array = np.ndarray[Any, np.dtype[Any]]


def close(actual: Any, expected: Any, tolerance: float = 1e-11) -> None:
    """Same shape, and equal to `tolerance` of the largest element."""
    a, e = np.asarray(actual), np.asarray(expected)
    assert a.shape == e.shape and np.isfinite(e).all()
    np.testing.assert_allclose(a, e, rtol=0, atol=tolerance * max(np.abs(e).max(initial=0), 1e-300))


def along(f: Any, x: Array, v: Array) -> Any:
    """The derivative of f at x along v."""
    return np.imag(f(x + 1e-30j * v)) / 1e-30


def check_gradient(gradient: Array, f: Any, x: Array, tolerance: float = 1e-11) -> None:
    """The gradient against complex steps, along random directions that change all elements, some, or few."""
    r = np.random.default_rng(1)
    assert gradient.shape == x.shape
    for density in (1.0, 0.3, 0.05):
        v = r.normal(size=x.shape) * (r.random(x.shape) < density)
        expected = along(f, x, v)
        assert abs((gradient * v).sum() - expected) <= tolerance * np.abs(gradient * v).sum()


def reactor(seed: int = 1) -> tuple[Array, ...]:
    """Weights, then few nuclides with poles near and far from the energies; one material has no nuclide."""
    poles, momenta, background, spans, counts, radii, sizes, members, densities = resonances(seed, 7, 5, 2)
    poles[:4, :, 0] *= 0.05
    sizes[5] = 0
    weights = np.array([1.5, -0.5, 2.0, 0.25])
    return weights, poles, momenta, background, spans, counts, radii, sizes, members, densities


def near(poles: Array) -> Array:
    """Which poles the series near 0 is taken for, at every energy (True), at none (False)."""
    distances = [np.hypot(e - poles[:, :, 0, 0], poles[:, :, 0, 1]) / 2 < 6 for e in (0, 1)]
    assert (distances[0] == distances[1]).mean() > 0.9
    return distances[0]


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_rsbench(backend: str) -> None:
    lookups, args = 12, reactor()
    assert 0 < near(args[1]).sum() < near(args[1]).size
    p = program("rsbench", backend)
    close(p.objective(lookups, *args), pf.rsbench(lookups, *args))
    gradient = p.gradient(lookups, *args)
    check_gradient(gradient, lambda poles: pf.rsbench(lookups, args[0], poles, *args[2:]), args[1])
    # Poles of nuclides that no drawn material has, and padding, take part in nothing.
    drawn = {i for _, m in pf.draws(lookups) for i in args[8][m, : args[7][m]]}
    unused = [i for i in range(7) if i not in drawn]
    assert (gradient[unused] == 0).all()


def test_rsbench_broadens_by_faddeevas_function() -> None:
    """The form that the program agrees with is Faddeeva's function, up to the largest value of the first term that
    the series near 0 leaves out; far away to 1e-6."""
    left_out = np.exp(-((11 * np.pi / 12) ** 2))
    for re in np.linspace(-9, 9, 31):
        for im in (0.01, 0.3, 1, 3, 5, 8):
            error = abs(complex(*pf.faddeeva((re, im))) - wofz(complex(re, im)))
            assert error < (left_out if np.hypot(re, im) < 6 else 1e-6), (re, im)


def grids(seed: int = 3) -> tuple[Array, ...]:
    return np.array([1.0, 0.5, -2.0, 3.0, 0.2]), *tables(seed, 6, 9)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_xsbench(backend: str) -> None:
    lookups, args = 15, grids()
    p = program("xsbench", backend)
    close(p.objective(lookups, *args), pf.xsbench(lookups, *args))
    check_gradient(p.gradient(lookups, *args), lambda g: pf.xsbench(lookups, args[0], g, *args[2:]), args[1])


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("lookups", [0, 1])
def test_few_lookups(lookups: int) -> None:
    for name, args, form in (("rsbench", reactor(), pf.rsbench), ("xsbench", grids(), pf.xsbench)):
        p = program(name, "c")
        close(p.objective(lookups, *args), form(lookups, *args))
        gradient = p.gradient(lookups, *args)
        assert gradient.shape == args[1].shape and gradient.any() == bool(lookups)


@pytest.mark.slow
@needs_cc
def test_lookups_draw_materials_as_their_shares_say() -> None:
    """Total density by material, where the only nuclide's cross sections are all 1/5."""
    grid = np.full((1, 2, 6), 0.2)
    grid[0, :, 0] = 0, 1
    lookups = 20000
    places, members = np.zeros((2, 1), np.int32), np.zeros((12, 1), np.int32)
    counted = np.bincount([m for _, m in pf.draws(lookups)], minlength=12)
    for material in (0, 1, 11):
        densities = np.eye(12)[:, material : material + 1].copy()
        args = (np.ones(5), grid, np.array([0.0, 1.0]), places, np.ones(12, np.int32), members, densities)
        close(program("xsbench", "c").objective(lookups, *args), float(counted[material]), 1e-9)
    shares = np.array([1 - sum(pf.SHARES), *pf.SHARES])
    assert np.abs(counted / lookups - shares).max() < 4 * np.sqrt(0.25 / lookups)


@pytest.mark.slow(apart=True)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("steps", [0, 1, 3])
def test_lbm(backend: str, steps: int) -> None:
    kinds, grid = cavity(6, 5, 7, np.float64)
    r = np.random.default_rng(4)
    grid = grid * (1 + 0.1 * r.random(grid.shape))
    kinds[3, 2, 3] = 1
    assert set(np.unique(kinds)) == {0, 1, 2}
    p = program("lbm64", backend)
    close(p.primal(steps, kinds, grid), pf.lbm(steps, kinds, grid), 1e-13)
    seed = r.normal(size=grid.shape)
    gradient = p.gradient(steps, kinds, grid, seed)
    check_gradient(gradient, lambda g: (pf.lbm(steps, kinds, g) * seed).sum(), grid, 1e-12)
    if steps == 0:
        close(gradient, seed, 0)


@pytest.mark.slow
@needs_cc
def test_lbm_in_f32() -> None:
    """As written: a step has some dozens of roundings of 6e-8."""
    kinds, grid = cavity(6, 5, 7)
    p = program("lbm", "c")
    close(p.primal(4, kinds, grid), pf.lbm(4, kinds, grid.astype(np.float64)), 5e-6)
    seed = np.random.default_rng(5).normal(size=grid.shape).astype(np.float32)
    wide = program("lbm64", "c").gradient(4, kinds, grid.astype(np.float64), seed.astype(np.float64))
    close(p.gradient(4, kinds, grid, seed), wide, 5e-6)


@pytest.mark.slow
@needs_cc
def test_lbm_keeps_mass() -> None:
    """Without cells that are moved the sum of all populations stays, so that its gradient is 1 everywhere."""
    kinds, grid = cavity(5, 6, 8, np.float64)
    kinds[kinds == 2] = 0
    grid *= 1 + 0.2 * np.random.default_rng(6).random(grid.shape)
    p = program("lbm64", "c")
    close(p.primal(6, kinds, grid).sum(), grid.sum(), 1e-13)
    close(p.gradient(6, kinds, grid, np.ones_like(grid)), np.ones_like(grid), 1e-12)


@pytest.mark.slow
@needs_cc
def test_blocks(capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(BENCHMARK_PROGRAMS / f"{name}.fut") for name in ("rsbench", "xsbench", "lbm")]
    assert main(["test", "-b", "c", *files]) == 0
    assert "0 failed" in capsys.readouterr().out
