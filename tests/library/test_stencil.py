"""futad/stencil beside NumPy and SciPy."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import futad
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.target import C
from tests.support.needs import needs_cc, needs_cxx

signal = pytest.importorskip("scipy.signal")
ndimage = pytest.importorskip("scipy.ndimage")

BORDERS = {"zero": "constant", "clamp": "nearest", "reflect": "reflect", "mirror": "mirror", "periodic": "wrap"}
SAME = "".join(
    f"""
entry {what}_{b} [n][m] (k: [m]f64) (x: [n]f64) = {what}_same #{b} k x
entry {what}_{b}_2d [n][m][p][q] (k: [p][q]f64) (x: [n][m]f64) = {what}_same_2d #{b} k x
"""
    for what in ("correlate", "convolve")
    for b in BORDERS
)
OTHERS = "".join(
    f"""
entry {what}_{mode} [n][m] (k: [m]f64) (x: [n]f64) = {name}_{mode} k x
entry {what}_{mode}_2d [n][m][p][q] (k: [p][q]f64) (x: [n][m]f64) = {name}_{mode}_2d k x
"""
    for what, name in (("a", "correlate"), ("b", "convolve"))
    for mode in ("valid", "full")
)
PROGRAM = f"""
import "futad/stencil"
{SAME}{OTHERS}
entry layer [c][n][m][o] (k: [o][c][m]f64) (s: i64) (x: [c][n]f64) = channels k s x
entry layer_2d [c][n][m][o][p][q] (k: [o][c][p][q]f64) (s: i64) (x: [c][n][m]f64) = channels_2d k s x
entry second (x: []f64) = stencil #mirror (\\at -> at (-1) - 2 * at 0 + at 1) x
entry laplace (x: [][]f64) =
  stencil_2d #periodic (\\at -> at (-1) 0 + at 1 0 + at 0 (-1) + at 0 1 - 4 * at 0 0) x
entry wider (x: []f64) = pad #reflect 2 1 x
entry wider_2d (x: [][]f64) = pad_2d #clamp 1 0 2 3 x
"""


@cache
def program(backend: str) -> Any:
    return futad.compile(PROGRAM, backend=backend)


def same(x: Any, y: Any) -> None:
    np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


def check(backend: str, sizes: tuple[int, ...]) -> None:
    p, r = program(backend), np.random.default_rng(1)
    for n in sizes:
        for m in (1, 2, 3, 4, 7):
            x, k = r.normal(size=n), r.normal(size=m)
            xs, ks = r.normal(size=(n, n + 3)), r.normal(size=(m, max(1, m - 1)))
            if n >= m:
                same(p.a_valid(k, x), np.correlate(x, k, "valid"))
                same(p.b_valid(k, x), np.convolve(x, k, "valid"))
                same(p.a_valid_2d(ks, xs), signal.correlate2d(xs, ks, "valid"))
                same(p.b_valid_2d(ks, xs), signal.convolve2d(xs, ks, "valid"))
            same(p.a_full(k, x), np.correlate(x, k, "full"))
            same(p.b_full(k, x), np.convolve(x, k))
            same(p.a_full_2d(ks, xs), signal.correlate2d(xs, ks))
            same(p.b_full_2d(ks, xs), signal.convolve2d(xs, ks))
            middle = [0 if size % 2 else -1 for size in ks.shape]  # NumPy's, for an even number of weights
            for b, mode in BORDERS.items():
                same(getattr(p, f"correlate_{b}")(k, x), ndimage.correlate1d(x, k, mode=mode))
                same(getattr(p, f"correlate_{b}_2d")(ks, xs), ndimage.correlate(xs, ks, mode=mode))
                same(getattr(p, f"convolve_{b}")(k, x), ndimage.convolve1d(x, k, mode=mode, origin=middle[0]))
                same(getattr(p, f"convolve_{b}_2d")(ks, xs), ndimage.convolve(xs, ks, mode=mode, origin=middle))
    x, k = r.normal(size=(2, 9)), r.normal(size=(3, 2, 4))
    xs, ks = r.normal(size=(2, 9, 8)), r.normal(size=(3, 2, 4, 3))
    for s in (1, 2, 3):
        same(p.layer(k, s, x), [sum(np.correlate(x[c], w[c], "valid") for c in range(2))[::s] for w in k])
        full = [sum(signal.correlate2d(xs[c], w[c], "valid") for c in range(2))[::s, ::s] for w in ks]
        same(p.layer_2d(ks, s, xs), full)
    x, xs = r.normal(size=7), r.normal(size=(5, 6))
    same(p.second(x), ndimage.correlate1d(x, [1, -2, 1], mode="mirror"))
    same(p.laplace(xs), ndimage.correlate(xs, np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]]), mode="wrap"))
    same(p.wider(x), np.pad(x, (2, 1), mode="symmetric"))
    same(p.wider_2d(xs), np.pad(xs, ((1, 0), (2, 3)), mode="edge"))


@pytest.mark.slow
def test_values_beside_numpy_and_scipy():
    check("interp", (1, 5))


@pytest.mark.slow
def test_nothing():
    p = program("interp")
    assert p.correlate_zero(np.ones(3), np.zeros(0)).shape == (0,)
    assert p.correlate_periodic(np.ones(3), np.zeros(0)).shape == (0,)
    same(p.convolve_reflect(np.zeros(0), np.ones(4)), np.zeros(4))


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize("backend", ["c", "multicore"])
def test_compiled(backend):
    check(backend, (1, 2, 5, 40))


@pytest.mark.slow
@needs_cxx
def test_on_a_device():
    check("emulated", (5,))


SLOPES = """
import "futad/stencil"
entry main [n][m][p][q] (k: [p][q]f64) (x: [n][m]f64): f64 =
  f64.sum (map f64.sin (flatten (convolve_same_2d #BORDER k x)))
"""


@pytest.mark.slow
@pytest.mark.parametrize("border", [pytest.param(b, marks=[] if b == "reflect" else pytest.mark.slow) for b in BORDERS])
def test_gradients_of_convolutions_are_correlations(border):
    """The adjoint of an image, in its middle, and that of each weight."""
    r = np.random.default_rng(2)
    k, x = r.normal(size=(3, 3)), r.normal(size=(7, 6))
    gk, gx = futad.grad(futad.compile(SLOPES.replace("BORDER", border), backend="interp").main, argnums=(0, 1))(k, x)
    mode = BORDERS[border]
    bar = np.cos(ndimage.convolve(x, k, mode=mode))
    same(gx[2:-2, 2:-2], ndimage.correlate(bar, k, mode="constant")[2:-2, 2:-2])
    one = np.eye(9).reshape(9, 3, 3)
    same(gk.ravel(), [(bar * ndimage.convolve(x, e, mode=mode)).sum() for e in one])


@pytest.mark.slow
def test_all_modes_become_contractions():
    source = 'import "futad/stencil"\n' + SAME + OTHERS
    made = compile_program(compile_text(source), target=C, stop_after="contractions")
    assert str(made).count("contraction(") == len(made.funs)
