"""Generated inputs of rsbench.fut, xsbench.fut and lbm.fut: a reactor with 12 materials, and a cavity with a lid.

By default they have the sizes of the small reactor of Hoogenboom and Martin (68 nuclides), as RSBench and XSBench
take it; which nuclides a material has, and all numbers, are drawn at random.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

# How many nuclides fuel, cladding, cold and hot water, the vessel, five reflectors and plates, and the assemblies'
# tops and bottoms consist of.
MATERIALS = (34, 5, 4, 4, 27, 21, 21, 21, 21, 21, 9, 9)


def materials(r: np.random.Generator, nuclides: int) -> tuple[Array, Array, Array]:
    """Sizes i32 [12], members i32 [12][k] and densities f64 [12][k], of which the first sizes[m] count."""
    sizes = np.minimum(MATERIALS, nuclides).astype(np.int32)
    members = np.stack([r.permutation(nuclides)[: sizes.max()] for _ in sizes]).astype(np.int32)
    return sizes, members, r.random(members.shape)


def resonances(seed: int, nuclides: int = 68, poles: int = 1000, windows: int = 100) -> tuple[Array, ...]:
    """rsbench.fut's arguments after the number of lookups; a nuclide has `poles` poles and `windows` windows on
    average (at least one), each window its share of the poles."""
    r = np.random.default_rng(seed)
    sizes, members, densities = materials(r, nuclides)
    pole_counts, counts = (
        1 + np.bincount(r.integers(nuclides, size=(average - 1) * nuclides), minlength=nuclides)
        for average in (poles, windows)
    )
    spans = np.zeros((nuclides, counts.max(), 2), np.int32)
    for i in range(nuclides):
        ends = np.arange(counts[i] + 1) * pole_counts[i] // counts[i]
        spans[i, : counts[i]] = np.stack([ends[:-1], ends[1:]], axis=1)
    # Residues' real parts and where poles lie are spread so widely that about one in 200 evaluations is near a pole.
    all_poles = r.random((nuclides, pole_counts.max(), 4, 2))
    all_poles[:, :, :, 0] *= 152.5
    all_poles[:, :, 0, 1] *= -152.5
    momenta = r.integers(4, size=all_poles.shape[:2]).astype(np.int32)
    background, radii = r.random((nuclides, counts.max(), 3)), r.random((nuclides, 4))
    return all_poles, momenta, background, spans, counts.astype(np.int32), radii, sizes, members, densities


def tables(seed: int, nuclides: int = 68, points: int = 11303) -> tuple[Array, ...]:
    """xsbench.fut's arguments after the number of lookups; a nuclide's grid has so many points."""
    r = np.random.default_rng(seed)
    sizes, members, densities = materials(r, nuclides)
    grids = r.random((nuclides, points, 6))
    grids[:, :, 0].sort(axis=1)
    union = np.sort(grids[:, :, 0].ravel())
    places = np.empty((union.size, nuclides), np.int32)
    for i in range(nuclides):
        below = np.searchsorted(grids[i, :, 0], union, side="right") - 1
        places[:, i] = np.clip(below, 0, points - 2)
    return grids, union, places, sizes, members, densities


def cavity(x: int, y: int, z: int, dtype: Any = np.float32) -> tuple[Array, Array]:
    """lbm.fut's kinds [z][y][x] and grid [19][z][y][x] at rest: walls all around, and behind the walls at both ends
    of z a layer that moves."""
    kinds = np.ones((z, y, x), np.int8)
    kinds[1:-1, 1:-1, 1:-1] = 0
    kinds[1, 2:-2, 2:-2] = kinds[-2, 2:-2, 2:-2] = 2
    weights = np.array([1 / 3, *[1 / 18] * 6, *[1 / 36] * 12], dtype)
    return kinds, np.broadcast_to(weights[:, None, None, None], (19, z, y, x)).copy()
