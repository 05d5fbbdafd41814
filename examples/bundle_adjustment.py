"""Cameras and points found again from what the cameras saw: least squares with the exact Jacobian.

    python examples/bundle_adjustment.py [--small] [--out FILE]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from picture import PALETTE, run

import futad
from futad.scipy import least_squares

# A camera is a rotation vector and a translation (Hartley and Zisserman, 2004, 18.1).
PROGRAM = r"""
def dot (a: [3]f64) (b: [3]f64) = a[0] * b[0] + a[1] * b[1] + a[2] * b[2]

def cross (a: [3]f64) (b: [3]f64) =
  [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]

def project (camera: [6]f64) (x: [3]f64): [2]f64 =
  let w = camera[0:3]
  let angle = f64.sqrt (dot w w + 1e-20)
  let axis = map (/ angle) w
  let along = dot axis x * (1 - f64.cos angle)
  let turned = map3 (\a b c -> a * f64.cos angle + b * f64.sin angle + c * along) x (cross axis x) axis
  let y = map2 (+) turned camera[3:6]
  in [y[0] / y[2], y[1] / y[2]]

entry view [c][p] (cameras: [c][6]f64) (points: [p][3]f64): [c][p][2]f64 =
  map (\camera -> map (project camera) points) cameras

entry residuals [c][p][m] (unknowns: ([c][6]f64, [p][3]f64)) (is: [m]i64) (js: [m]i64) (seen: [m][2]f64): [m][2]f64 =
  map3 (\i j s -> map2 (-) (project (unknowns.0)[i] (unknowns.1)[j]) s) is js seen
"""


def scene(random: np.random.Generator, cameras: int, points: int) -> tuple[Any, Any]:
    """Cameras in a row that look at points on a spiral."""
    t = np.linspace(0, 4 * np.pi, points)
    spiral = np.stack([np.cos(t), np.linspace(-1, 1, points), np.sin(t)], 1)
    turns = np.stack([np.zeros(cameras), np.linspace(-0.5, 0.5, cameras), np.zeros(cameras)], 1)
    places = np.stack([np.linspace(-0.5, 0.5, cameras), np.zeros(cameras), np.full(cameras, 5.0)], 1)
    return np.concatenate([turns, places], 1), spiral


def main(small: bool) -> Callable[[Any], Any]:
    random = np.random.default_rng(2)
    cameras, points = scene(random, *((3, 12) if small else (6, 60)))
    prog = futad.compile(PROGRAM, "bundle_adjustment")
    seen = prog.view(cameras, points)
    is_, js = (a.ravel() for a in np.meshgrid(*map(np.arange, seen.shape[:2]), indexing="ij"))
    seen = seen.reshape(-1, 2) + 1e-3 * random.normal(size=(is_.size, 2))
    start = (cameras + 0.03 * random.normal(size=cameras.shape), points + 0.15 * random.normal(size=points.shape))
    before = prog.residuals(start, is_, js, seen)
    fit = least_squares(prog.residuals, (start, is_, js, seen), method="trf", max_nfev=50)
    found = fit.x[1]
    rms = [float(np.sqrt(np.mean(r**2))) for r in (before, fit.fun)]
    print(f"{len(cameras)} cameras, {len(points)} points, {is_.size} observations")
    print(f"reprojection error {rms[0]:.5f} before, {rms[1]:.5f} after {fit.nfev} evaluations (noise: 0.001)")

    def draw(plt: Any) -> Any:
        figure, both = plt.subplots(1, 2, figsize=(6.6, 3.2), layout="constrained", sharey=True)
        for axes, p, title in zip(both, (start[1], found), ("first guess", "adjusted"), strict=True):
            p = aligned(p, points)
            axes.plot(points[:, 0], points[:, 1], color=PALETTE[4], linewidth=1, label="truth")
            axes.plot(p[:, 0], p[:, 1], "o", markersize=3, color=PALETTE[0], label="points")
            axes.set_title(title)
            axes.set_aspect("equal")
        both[0].legend(loc="upper left", fontsize=7)
        return figure

    return draw


def aligned(p: Any, q: Any) -> Any:
    """p turned, moved and scaled to be near q: pictures tell a scene but for that."""
    a, b = p - p.mean(0), q - q.mean(0)
    u, s, v = np.linalg.svd(a.T @ b)
    return a @ (u @ v) * (s.sum() / (a * a).sum()) + q.mean(0)


if __name__ == "__main__":
    run("bundle_adjustment", __doc__, main)
