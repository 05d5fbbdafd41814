"""A blurred, noisy picture made sharp again: total variation, minimised by gradient descent in the language.

    python examples/deconvolution.py [--small] [--out FILE]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from picture import run

import futad

# Rudin, Osher, Fatemi, 1992; the edges' square root is smoothed, the descent is Nesterov's.
PROGRAM = r"""
def at [h][w] (a: [h][w]f32) (i: i64) (j: i64) = a[i64.max 0 (i64.min (h - 1) i), i64.max 0 (i64.min (w - 1) j)]

entry blur [h][w][k] (kernel: [k]f32) (a: [h][w]f32): [h][w]f32 =
  let down = tabulate_2d h w (\i j -> f32.sum (tabulate k (\p -> kernel[p] * at a (i + p - k / 2) j)))
  in tabulate_2d h w (\i j -> f32.sum (tabulate k (\p -> kernel[p] * at down i (j + p - k / 2))))

entry loss [h][w][k] (image: [h][w]f32) (kernel: [k]f32) (seen: [h][w]f32) (weight: f32): f32 =
  let misfit = map2 (map2 (\a b -> (a - b) ** 2)) (blur kernel image) seen
  let edges = tabulate_2d h w (\i j ->
    f32.sqrt ((at image (i + 1) j - at image i j) ** 2 + (at image i (j + 1) - at image i j) ** 2 + 1e-4))
  in 0.5 * f32.sum (flatten misfit) + weight * f32.sum (flatten edges)

entry restore [h][w][k] (seen: [h][w]f32) (kernel: [k]f32) (weight: f32) (rate: f32) (steps: i64): [h][w]f32 =
  (loop (x, y) = (seen, seen) for t < steps do
     let g = vjp (\z -> loss z kernel seen weight) y 1
     let x' = map2 (map2 (\a b -> a - rate * b)) y g
     let m = f32.i64 t / f32.i64 (t + 3)
     in (x', map2 (map2 (\a b -> a + m * (a - b))) x' x)).0
"""


def picture(n: int) -> Any:
    """A disc, bars that get thinner, and a ramp."""
    y, x = np.mgrid[0:n, 0:n] / n
    out = 0.2 + 0.6 * ((x - 0.3) ** 2 + (y - 0.35) ** 2 < 0.04)
    out = np.where((y > 0.68) & (y < 0.9) & (x < 0.92), 0.5 + 0.4 * np.sign(np.sin(40 * x**2)), out)
    return np.where((x > 0.6) & (x < 0.9) & (y > 0.12) & (y < 0.58), 0.1 + 1.6 * (y - 0.12), out).astype(np.float32)


def main(small: bool) -> Callable[[Any], Any]:
    n, steps = (32, 30) if small else (160, 300)
    width = np.arange(9) - 4
    kernel = np.exp(-(width**2) / (2 * 1.6**2)).astype(np.float32)
    kernel /= kernel.sum()
    prog = futad.compile(PROGRAM, "deconvolution")
    truth = picture(n)
    noise = 0.01 * np.random.default_rng(4).normal(size=truth.shape).astype(np.float32)
    seen = prog.blur(kernel, truth) + noise
    sharp = prog.restore(seen, kernel, np.float32(0.002), np.float32(0.3), steps)
    errors = [float(np.sqrt(np.mean((a - truth) ** 2))) for a in (seen, sharp)]
    print(f"{n} x {n} pixels, {steps} steps: error {errors[0]:.4f} before, {errors[1]:.4f} after")

    def draw(plt: Any) -> Any:
        figure, three = plt.subplots(1, 3, figsize=(6.9, 2.5), layout="constrained")
        for axes, a, title in zip(three, (truth, seen, sharp), ("original", "blurred, noisy", "restored"), strict=True):
            axes.imshow(a, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
            axes.set_title(title)
            axes.axis("off")
        return figure

    return draw


if __name__ == "__main__":
    run("deconvolution", __doc__, main)
