"""RSBench, XSBench and LBM in NumPy, independent of futad; complex arguments give derivatives by complex steps."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
Pair = tuple[Any, Any]


# --- What lookups draw -------------------------------------------------------------------------------

MODULUS, FACTOR = 2**63, 2806196910506780709
SHARES = (0.052, 0.275, 0.134, 0.154, 0.064, 0.066, 0.055, 0.008, 0.015, 0.025, 0.013)


def draws(lookups: int) -> list[tuple[float, int]]:
    """The energy and material of each lookup, from a generator that simply goes on."""
    seed, out = 1070, []
    for _ in range(lookups):
        seed = (FACTOR * seed + 1) % MODULUS
        energy = seed / MODULUS
        seed = (FACTOR * seed + 1) % MODULUS
        beyond = [m for m in range(11) if seed / MODULUS < sum(SHARES[: m + 1])]
        out.append((energy, 1 + beyond[0] if beyond else 0))
    return out


# --- RSBench -----------------------------------------------------------------------------------------
# Complex numbers are pairs, because the parts of each may carry a complex step.


def product(a: Pair, b: Pair) -> Pair:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def quotient(a: Pair, b: Pair) -> Pair:
    re, im = product(a, (b[0], -b[1]))
    size = b[0] * b[0] + b[1] * b[1]
    return re / size, im / size


def faddeeva(z: Pair) -> Pair:
    """By the approximations that RSBench takes: a Fourier series near 0, four-point Hermite quadrature far away."""
    square = product(z, z)
    if np.hypot(np.real(z[0]), np.real(z[1])) >= 6:
        nodes, weights = np.polynomial.hermite.hermgauss(4)
        # i/pi times the sum of weight / (z - node); nodes come in pairs of opposite sign.
        terms = [quotient((w, 0), (z[0] - t, z[1])) for t, w in zip(nodes, weights, strict=True)]
        re, im = (sum(part) for part in zip(*terms, strict=True))
        return -im / np.pi, re / np.pi
    tau = 12
    grown = np.exp(-tau * z[1])
    e = grown * np.cos(tau * z[0]), grown * np.sin(tau * z[0])
    w = quotient((e[1], 1 - e[0]), (tau * z[0], tau * z[1]))
    for n in range(1, 11):
        a = 2 * np.sqrt(np.pi) / tau * np.exp(-((n * np.pi / tau) ** 2))
        top = (-1) ** n * e[0] - 1, (-1) ** n * e[1]
        bottom = (n * np.pi) ** 2 - tau**2 * square[0], -(tau**2) * square[1]
        turned = product((0, a * tau**2 / np.sqrt(np.pi)), product(z, quotient(top, bottom)))
        w = w[0] + turned[0], w[1] + turned[1]
    return w


def shift(momentum: int, rho: float) -> Pair:
    """exp(-2 i phi) of a hard sphere: phi is the argument of the outgoing spherical wave, less what it is at 0."""
    # rho h_l(rho) / exp(i rho) as polynomials in i / rho, up to powers of i.
    terms = {0: (1,), 1: (1, 1), 2: (1, 3, 3), 3: (1, 6, 15, 15)}[momentum]
    wave = sum(c * (1j / rho) ** k for k, c in enumerate(terms))
    iteration = np.exp(-2j * (rho + np.angle(wave) - momentum * np.pi / 2))
    return iteration.real, iteration.imag


def rsbench(lookups: int, weights: Array, poles: Array, *rest: Array) -> Any:
    """The weighted sum of all cross sections: total, absorption, fission, elastic."""
    momenta, background, spans, counts, radii, sizes, members, densities = rest
    result: Any = 0.0
    for energy, material in draws(lookups):
        for j in range(sizes[material]):
            i = members[material, j]
            window = int(energy * counts[i])
            parts = list(energy * background[i, window])
            for p in range(*spans[i, window]):
                pole = poles[i, p]
                w = faddeeva((0.5 * (energy - pole[0, 0]), -0.5 * pole[0, 1]))
                turned = product(w, shift(momenta[i, p], radii[i, momenta[i, p]] * np.sqrt(energy)))
                for k, factor in enumerate((turned, w, w)):
                    parts[k] = parts[k] + product((pole[k + 1, 0], pole[k + 1, 1]), factor)[0]
            total, absorption, fission = parts
            parts = [total, absorption, fission, total - absorption]
            result = result + densities[material, j] * np.dot(weights, parts)
    return result


# --- XSBench -----------------------------------------------------------------------------------------


def xsbench(lookups: int, weights: Array, grids: Array, union: Array, places: Array, *rest: Array) -> Any:
    """The weighted sum of all cross sections; `union` and `places` only make searching faster."""
    sizes, members, densities = rest
    result: Any = 0.0
    for energy, material in draws(lookups):
        for j in range(sizes[material]):
            grid = grids[members[material, j]]
            energies = grid[:, 0].real
            at = min(max(int(np.searchsorted(energies, energy, side="right")) - 1, 0), len(grid) - 2)
            low, high = grid[at], grid[at + 1]
            part = (energy - low[0]) / (high[0] - low[0])
            result = result + densities[material, j] * weights @ ((1 - part) * low[1:] + part * high[1:])
    return result


# --- Lattice Boltzmann -------------------------------------------------------------------------------

AXES = ((1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (1, -1, 0), (1, 0, 1), (1, 0, -1), (0, 1, 1), (0, 1, -1))
DIRECTIONS = np.array([(0, 0, 0), *[(s * a, s * b, s * c) for a, b, c in AXES for s in (1, -1)]])
WEIGHTS = np.array([1 / 3, *[1 / 18] * 6, *[1 / 36] * 12])
OPPOSITE = [0, *[i + 1 if i % 2 else i - 1 for i in range(1, 19)]]


def lbm(steps: int, kinds: Array, grid: Array) -> Array:
    """The populations [19][z][y][x] after some steps: each moves, then relaxes with rate 1.95."""
    shape, flags = grid.shape, kinds.ravel()
    f = grid.reshape(19, -1)
    offsets = DIRECTIONS @ [1, shape[3], shape[3] * shape[2]]
    for _ in range(steps):
        f = np.stack([np.roll(p, o) for p, o in zip(f, offsets, strict=True)])
        rho = f.sum(axis=0)
        u = (DIRECTIONS.T @ f) / rho
        u = np.where(flags == 2, np.array([[0.005], [0.002], [0.0]]), u)
        along = DIRECTIONS @ u
        equilibrium = WEIGHTS[:, None] * rho * (1 + 3 * along + 4.5 * along**2 - 1.5 * (u**2).sum(axis=0))
        f = np.where(flags == 1, f[OPPOSITE], f + 1.95 * (equilibrium - f))
    return f.reshape(shape)
