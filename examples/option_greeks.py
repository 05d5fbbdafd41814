"""The Greeks of options: derivatives of a Monte Carlo price, beside the closed form where there is one.

    python examples/option_greeks.py [--small] [--out FILE]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from picture import PALETTE, run

import futad

# Paths of a geometric Brownian motion; their normal numbers are an argument, so that prices of nearby spots use the
# same ones.  European call: Black and Scholes, 1973.  Asian call: on the mean over the path.
PROGRAM = r"""
def path [t] (spot: f64) (sigma: f64) (rate: f64) (normals: [t]f64): (f64, f64) =
  let h = 1 / f64.i64 t
  let (s, total) =
    loop (s, total) = (spot, 0.0) for z in normals do
      let s = s * f64.exp ((rate - 0.5 * sigma * sigma) * h + sigma * f64.sqrt h * z)
      in (s, total + s)
  in (s, total / f64.i64 t)

def price [n][t] (payoff: (f64, f64) -> f64) (spot: f64) (sigma: f64) (rate: f64) (normals: [n][t]f64) =
  f64.exp (-rate) * f64.sum (map (\z -> payoff (path spot sigma rate z)) normals) / f64.i64 n

entry european [n][t] (spot: f64) (sigma: f64) (rate: f64) (strike: f64) (normals: [n][t]f64): f64 =
  price (\(last, _) -> f64.max 0 (last - strike)) spot sigma rate normals

entry asian [n][t] (spot: f64) (sigma: f64) (rate: f64) (strike: f64) (normals: [n][t]f64): f64 =
  price (\(_, mean) -> f64.max 0 (mean - strike)) spot sigma rate normals

entry closed_form (spot: f64) (sigma: f64) (rate: f64) (strike: f64): f64 =
  let phi x = 0.5 * (1 + f64.erf (x / f64.sqrt 2))
  let d = (f64.log (spot / strike) + rate + 0.5 * sigma * sigma) / sigma
  in spot * phi d - strike * f64.exp (-rate) * phi (d - sigma)
"""


def main(small: bool) -> Callable[[Any], Any]:
    n, steps = (2000, 12) if small else (50_000, 12)
    normals = np.random.default_rng(5).normal(size=(n // 2, steps))
    normals = np.concatenate([normals, -normals])
    prog = futad.compile(PROGRAM, "option_greeks")
    sigma, rate, strike = 0.25, 0.03, 100.0
    spots = np.linspace(70, 140, 8 if small else 29)
    which = (0, 1, 2)  # delta, vega, rho

    def greeks(f: Any, *more: Any) -> Any:
        both = futad.vmap(futad.value_and_grad(f, argnums=which), in_axes=(0, *[None] * (3 + len(more))))
        value, slopes = both(spots, sigma, rate, strike, *more)
        return np.stack([value, *slopes])

    european, asian, exact = greeks(prog.european, normals), greeks(prog.asian, normals), greeks(prog.closed_form)
    gamma = futad.vmap(futad.grad(futad.grad(prog.closed_form)), in_axes=(0, None, None, None))
    curve = gamma(spots, sigma, rate, strike)
    print(f"{n} paths of {steps} steps; European call, largest difference to the closed form:")
    for name, a, b in zip(("price", "delta", "vega", "rho"), european, exact, strict=True):
        print(f"  {name:6} {np.abs(a - b).max():.4f} of {np.abs(b).max():.4f}")
    print(f"gamma, by two derivatives of the closed form: {curve.max():.5f} at most")

    def draw(plt: Any) -> Any:
        figure, four = plt.subplots(2, 2, figsize=(6.4, 4.4), layout="constrained", sharex=True)
        names = ("price", "delta", "vega", "rho")
        for axes, name, a, b, c in zip(four.flat, names, european, asian, exact, strict=True):
            axes.plot(spots, c, color=PALETTE[4], linewidth=3, alpha=0.6, label="European, closed form")
            axes.plot(spots, a, ".", color=PALETTE[0], label="European, Monte Carlo")
            axes.plot(spots, b, color=PALETTE[1], label="Asian, Monte Carlo")
            axes.set_title(name)
        four[0, 0].legend(fontsize=7)
        for axes in four[1]:
            axes.set_xlabel("spot")
        return figure

    return draw


if __name__ == "__main__":
    run("option_greeks", __doc__, main)
