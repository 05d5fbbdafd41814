"""Maps that find by a fold where to add, in two."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.fires import counting
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import C

DISTANCE = "let distance a b = f64.sum (map2 (\\p q -> (p - q) ** 2) a b)"
NEAREST = f"""
entry value [k][n][d] (cs: [k][d]f64) (x: [n][d]f64): f64 =
  {DISTANCE} in f64.sum (map (\\p -> f64.minimum (map (distance p) cs)) x)
"""
# Of cs [k][d] and x [n][d]: whether the map is split in two.
LOSSES = {
    NEAREST: True,
    # The farthest centre of the nearest few; the weight is handed on, too.
    f"""
entry value [k][n][d] (cs: [k][d]f64) (x: [n][d]f64): f64 =
  {DISTANCE} in f64.sum (map (\\p -> f64.sin (f64.maximum (map (distance p) cs))) x)
""": True,
    # All centres are added to.
    f"""
entry value [k][n][d] (cs: [k][d]f64) (x: [n][d]f64): f64 =
  {DISTANCE} in f64.sum (map (\\p -> f64.sum (map (\\c -> f64.exp (- distance p c)) cs)) x)
""": False,
    # Data say where, no fold.
    """
entry value [k][n][d] (cs: [k][d]f64) (x: [n][d]f64): f64 =
  f64.sum (map (\\p -> f64.sum (map2 (*) p cs[i64.f64 (f64.abs p[0] * 8) % k])) x)
""": False,
}
BOTH = """
entry both [k][n][d] (cs: [k][d]f64) (x: [n][d]f64): (f64, [k][d]f64) = (value cs x, vjp (\\c -> value c x) cs 1)
entry curve [k][n][d] (cs: [k][d]f64) (x: [n][d]f64): [k][d]f64 =
  jvp (\\c -> vjp (\\c -> value c x) c 1) cs (map (map f64.cos) cs)
"""
SHAPES = [(1, 0, 2), (1, 1, 1), (3, 5, 2), (17, 40, 3)]


@pytest.mark.parametrize("number", range(len(LOSSES)))
def test_additions_come_later(number: int) -> None:
    loss, splits = list(LOSSES.items())[number]
    with counting() as counts:
        compile_program(compile_text(loss + BOTH), check=True, target=C)
    assert (counts["later-additions"] > 0) is splits
    compare(loss, "c")


def compare(loss: str, backend: str) -> None:
    expected, made = (futad.compile(loss + BOTH, backend=b) for b in ("interp", backend))
    for k, n, d in SHAPES:
        r = np.random.default_rng(k)
        cs, x = r.integers(-2, 3, (k, d)) / 2, r.integers(-2, 3, (n, d)) / 2  # ties
        if n == 40:
            x[3, 1] = np.nan
        for entry in ("both", "curve"):
            found, wanted = (getattr(p, entry)(cs, x) for p in (made, expected))
            for a, b in zip(found, wanted, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11, err_msg=f"{entry} {k} {n} {d}")


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["multicore", "emulated"])
def test_the_nearest_on_others(backend: str) -> None:
    compare(NEAREST, backend)
    r = np.random.default_rng(2)
    cs, x = r.normal(size=(11, 5)), r.normal(size=(30_000, 5))
    found, wanted = (futad.compile(NEAREST + BOTH, backend=b).both(cs, x) for b in (backend, "c"))
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-10)
    np.testing.assert_allclose(found[1], wanted[1], rtol=1e-9, atol=1e-9)
