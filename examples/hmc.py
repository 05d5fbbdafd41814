"""Hamiltonian Monte Carlo: a whole chain in one program, the gradient of the log density taken inside its loop.

    python examples/hmc.py [--small] [--out FILE]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from picture import PALETTE, run

import futad

# The density is Haario's banana: x is normal with variance 4, y + x^2 / 4 - 1 is with variance 1.  Random numbers are
# arguments, so that a chain can be run again.
PROGRAM = r"""
entry logdensity (q: [2]f64): f64 = -(q[0] ** 2) / 8 - (q[1] + q[0] ** 2 / 4 - 1) ** 2 / 2

-- Neal, MCMC using Hamiltonian dynamics, 2011.
entry chain [n] (start: [2]f64) (momenta: [n][2]f64) (uniforms: [n]f64) (step: f64) (leaps: i64): ([n][2]f64, i64) =
  let slope q = vjp logdensity q 1
  let energy q p = 0.5 * f64.sum (map (** 2) p) - logdensity q
  let (_, out, accepted) =
    loop (q, out, accepted) = (start, replicate n [0.0, 0.0], 0) for i < n do
      let (q', p') =
        loop (q, p) = (q, copy momenta[i]) for _j < leaps do
          let p = map2 (\a g -> a + 0.5 * step * g) p (slope q)
          let q = map2 (\a b -> a + step * b) q p
          in (q, map2 (\a g -> a + 0.5 * step * g) p (slope q))
      let yes = f64.log uniforms[i] < energy q momenta[i] - energy q' p'
      let q = if yes then q' else q
      in (q, out with [i] = q, accepted + i64.bool yes)
  in (out, accepted)
"""


def main(small: bool) -> Callable[[Any], Any]:
    random = np.random.default_rng(3)
    n = 2000 if small else 20000
    prog = futad.compile(PROGRAM, "hmc")
    samples, accepted = prog.chain(np.zeros(2), random.normal(size=(n, 2)), random.random(n), 0.35, 10)
    second = samples[:, 1] + samples[:, 0] ** 2 / 4
    print(f"{n} proposals, {accepted / n:.2f} accepted")
    print(f"mean of x {samples[:, 0].mean():6.3f} (0), variance {samples[:, 0].var():.3f} (4)")
    print(f"mean of y + x^2/4 {second.mean():.3f} (1), variance {second.var():.3f} (1)")

    def draw(plt: Any) -> Any:
        figure, axes = plt.subplots(figsize=(4.6, 3.6), layout="constrained")
        x, y = np.meshgrid(np.linspace(-6, 6, 80), np.linspace(-9, 5, 80))
        grid = np.stack([x.ravel(), y.ravel()], 1)
        density = futad.vmap(prog.logdensity)(grid).reshape(x.shape)
        axes.scatter(*samples[::4].T, s=2, color=PALETTE[0], alpha=0.4, rasterized=True, linewidths=0)
        axes.contour(x, y, density, levels=[-4.5, -2, -0.5], colors=PALETTE[1], linewidths=1, linestyles="solid")
        axes.set_title("Every fourth state, and the density at 1, 2 and 3 sigma", fontsize=9)
        return figure

    return draw


if __name__ == "__main__":
    run("hmc", __doc__, main)
