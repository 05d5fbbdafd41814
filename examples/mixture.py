"""A mixture of normal distributions, fitted to points in the plane by SciPy with exact gradients.

    python examples/mixture.py [--small] [--out FILE]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from picture import PALETTE, run

import futad
from futad.scipy import minimize

# Weights and widths are logarithms, so that any numbers are allowed.
PROGRAM = r"""
def logsumexp [m] (v: [m]f64) =
  let top = f64.maximum v
  in top + f64.log (f64.sum (map (\u -> f64.exp (u - top)) v))

entry loss [n][k] (p: {weight: [k]f64, mean: [k][2]f64, width: [k]f64}) (x: [n][2]f64): f64 =
  let total = logsumexp p.weight
  let term point w m s =
    let z = map2 (\a b -> (a - b) / f64.exp s) point m
    in w - total - 2 * s - f64.log (2 * f64.pi) - 0.5 * f64.sum (map (** 2) z)
  in -f64.sum (map (\point -> logsumexp (map3 (term point) p.weight p.mean p.width)) x) / f64.i64 n
"""
MEANS, WIDTHS = np.array([[-2.0, 0.0], [1.5, 1.5], [1.0, -2.0]]), np.array([0.9, 0.5, 0.3])


def main(small: bool) -> Callable[[Any], Any]:
    random = np.random.default_rng(1)
    which = random.choice(3, 300 if small else 3000, p=[0.5, 0.3, 0.2])
    x = MEANS[which] + WIDTHS[which, None] * random.normal(size=(len(which), 2))
    start = {"weight": np.zeros(3), "mean": random.normal(size=(3, 2)), "width": np.zeros(3)}
    prog = futad.compile(PROGRAM, "mixture")
    fit = minimize(prog.loss, (start, x), method="L-BFGS-B")
    order = np.argsort(fit.x["width"])[::-1]
    mean, width = fit.x["mean"][order], np.exp(fit.x["width"][order])
    print(f"{len(x)} points, {fit.nit} iterations of L-BFGS, mean negative log-likelihood {fit.fun:.4f}")
    for m, s in zip(mean, width, strict=True):
        print(f"  mean ({m[0]:6.3f}, {m[1]:6.3f})  width {s:.3f}")
    print(f"largest error of a mean {np.abs(mean - MEANS).max():.3f}")

    def draw(plt: Any) -> Any:
        figure, axes = plt.subplots(figsize=(4.4, 3.8), layout="constrained")
        axes.scatter(*x.T, s=2, color=PALETTE[4], alpha=0.5, rasterized=True, linewidths=0)
        for k, (m, s) in enumerate(zip(mean, width, strict=True)):
            for radius in (1, 2):
                axes.add_patch(plt.Circle(m, radius * s, fill=False, color=PALETTE[k], linewidth=2))
        axes.set_aspect("equal")
        axes.set_title("One and two standard deviations of the parts", fontsize=9)
        return figure

    return draw


if __name__ == "__main__":
    run("mixture", __doc__, main)
