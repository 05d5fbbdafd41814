"""Programs written with futad's library, of at most 25 lines each, beside the same ones in JAX.

    python benchmarks/library.py [PROGRAM ...] [--backend c] [--runs N] [--small] [--json OUT]

Both are called in turns in one process with the same input; medians of wall times, compiled before.  JAX is as it comes
(`jit`, 64 bits).  Exit status 1 if results differ by more than the program's tolerance, a program is longer than 25
lines, or, of inputs that are not `--small`, futad takes longer than JAX.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import futad

LINES = 25
Arguments = tuple[Any, ...]


@dataclass(frozen=True)
class Program:
    """A program's text, of which `entry` is called; what makes the same function of JAX; input; how far results may
    differ, relative to the largest number of each."""

    text: str
    entry: str
    peer: Callable[[], Callable[..., Any]]
    arguments: Callable[[bool], Arguments]
    tolerance: float

    @property
    def lines(self) -> int:
        """Lines that are neither empty nor a comment."""
        return sum(bool(x.strip()) and not x.strip().startswith("--") for x in self.text.splitlines())


# --- A chain of Hamiltonian Monte Carlo for a logistic regression: Neal, 2011 ----------------------------------------

HMC = r"""
module random = import "futad/random"
module stats = import "futad/stats"
def logdensity [m] [d] (rows: [m][d]f64) (labels: [m]bool) (w: [d]f64): f64 =
  let logits = map (\row -> f64.sum (map2 (*) row w)) rows
  in f64.sum (map2 stats.bernoulli_logit_logpmf logits labels)
     + f64.sum (map (stats.normal_logpdf 0 1) w)
entry chain [m] [d] (rows: [m][d]f64) (labels: [m]bool) (seed: i64) (n: i64) (step: f64) (leaps: i64): [n][d]f64 =
  let slope q = vjp (logdensity rows labels) q 1
  let energy q p = 0.5 * f64.sum (map (** 2) p) - logdensity rows labels q
  let proposal (i: i64) q =
    let k = random.fold_in (random.key seed) i
    let p = tabulate d (random.normal k)
    let (q', p', _) =
      loop (q', p', g) = (q, p, slope q) for _j < leaps do
        let h = map2 (\p g -> p + step / 2 * g) p' g
        let q' = map2 (\q h -> q + step * h) q' h
        let g = slope q'
        in (q', map2 (\h g -> h + step / 2 * g) h g, g)
    in if f64.log (random.uniform k d) < energy q p - energy q' p' then q' else q
  in (loop (q, out) = (replicate d 0, replicate n (replicate d 0)) for i < n do
        let q = proposal i (copy q) in (q, out with [i] = q)).1
"""


def hmc_in_jax() -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp
    from jax import lax, nn, random
    from jax.scipy.stats import norm

    def logdensity(rows: Any, labels: Any, w: Any) -> Any:
        logits = rows @ w
        return jnp.sum(nn.log_sigmoid(jnp.where(labels, logits, -logits))) + jnp.sum(norm.logpdf(w))

    def chain(rows: Any, labels: Any, seed: Any, n: int, step: Any, leaps: int) -> Any:
        d, key = rows.shape[1], random.key(seed)

        def density(w: Any) -> Any:
            return logdensity(rows, labels, w)

        def energy(q: Any, p: Any) -> Any:
            return 0.5 * jnp.sum(p**2) - density(q)

        slope = jax.grad(density)

        def proposal(q: Any, i: Any) -> Any:
            k = random.fold_in(key, i)
            p = random.normal(k, (d,))

            def leap(_: Any, state: Any) -> Any:
                q, p, g = state
                h = p + step / 2 * g
                q = q + step * h
                g = slope(q)
                return q, h + step / 2 * g, g

            q2, p2, _ = lax.fori_loop(0, leaps, leap, (q, p, slope(q)))
            u = random.uniform(k, (d + 1,))[d]
            q = jnp.where(jnp.log(u) < energy(q, p) - energy(q2, p2), q2, q)
            return q, q

        return lax.scan(proposal, jnp.zeros(d), jnp.arange(n))[1]

    return jax.jit(chain, static_argnums=(3, 5))


def regression(small: bool) -> Arguments:
    rng = np.random.default_rng(3)
    m, d, n = (40, 3, 20) if small else (500, 5, 2000)
    rows = rng.normal(size=(m, d))
    labels = rows @ rng.normal(size=d) + rng.logistic(size=m) > 0
    return rows, labels, 1, n, 0.06, 10


# --- The evidence of a Gaussian process and its gradient: Rasmussen and Williams, 2006, algorithm 2.1 -----------------

GAUSSIAN_PROCESS = r"""
import "futad/linalg"
def evidence [n] [d] (x: [n][d]f64) (y: [n]f64) (scale: f64, noise: f64): f64 =
  let kernel a b = f64.exp (-0.5 * f64.sum (map2 (\p q -> ((p - q) / scale) ** 2) a b))
  let k = tabulate_2d n n (\i j -> kernel x[i] x[j] + if i == j then noise ** 2 else 0)
  let l = cholesky k
  let z = solve_lower l y
  in -0.5 * (dot z z + cholesky_logdet l + f64.i64 n * f64.log (2 * f64.pi))
entry with_slope [n] [d] (x: [n][d]f64) (y: [n]f64) (scale: f64) (noise: f64): (f64, f64, f64) =
  let (value, (by_scale, by_noise)) = vjp2 (evidence x y) (scale, noise) 1
  in (value, by_scale, by_noise)
"""


def gaussian_process_in_jax() -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp
    from jax.scipy.linalg import solve_triangular

    def evidence(x: Any, y: Any, scale: Any, noise: Any) -> Any:
        n = len(x)
        squares = (((x[:, None] - x) / scale) ** 2).sum(2)
        low = jnp.linalg.cholesky(jnp.exp(-0.5 * squares) + noise**2 * jnp.eye(n))
        z = solve_triangular(low, y, lower=True)
        return -0.5 * (z @ z + 2 * jnp.log(jnp.diag(low)).sum() + n * jnp.log(2 * jnp.pi))

    def with_slope(*args: Any) -> Any:
        value, slope = jax.value_and_grad(evidence, argnums=(2, 3))(*args)
        return value, *slope

    return jax.jit(with_slope)


def points(n: int) -> Callable[[bool], Arguments]:
    def made(small: bool) -> Arguments:
        rng = np.random.default_rng(5)
        x = rng.normal(size=(30 if small else n, 3))
        return x, np.sin(x.sum(axis=1)) + 0.3 * rng.normal(size=len(x)), 1.3, 0.3

    return made


# --- A neural differential equation, its loss and gradient: Chen et al., 2018 -------------------

NEURAL_ODE = r"""
import "futad/linalg"
import "futad/ode"
def loss [d] [h] (y0: [d]f64) (target: [d]f64) (w1: [h][d]f64, b1: [h]f64, w2: [d][h]f64, b2: [d]f64): f64 =
  let f _ y = map2 (+) (matvec w2 (map f64.tanh (map2 (+) (matvec w1 y) b1))) b2
  let e = map2 (-) (rk4 f 1000 0 10 y0) target
  in dot e e
entry with_slope [d] [h] (y0: [d]f64) (target: [d]f64) (w1: [h][d]f64) (b1: [h]f64) (w2: [d][h]f64) (b2: [d]f64) =
  let (value, (a, b, c, e)) = vjp2 (loss y0 target) (w1, b1, w2, b2) 1
  in (value, a, b, c, e)
"""


def neural_ode_in_jax() -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp
    from jax import lax

    def loss(y0: Any, target: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
        def f(y: Any) -> Any:
            return w2 @ jnp.tanh(w1 @ y + b1) + b2

        def step(y: Any, _: Any) -> Any:
            h = 0.01
            k1 = f(y)
            k2 = f(y + h / 2 * k1)
            k3 = f(y + h / 2 * k2)
            k4 = f(y + h * k3)
            return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

        e = lax.scan(step, y0, None, length=1000)[0] - target
        return e @ e

    def with_slope(*args: Any) -> Any:
        value, slope = jax.value_and_grad(loss, argnums=(2, 3, 4, 5))(*args)
        return value, *slope

    return jax.jit(with_slope)


def net(small: bool) -> Arguments:
    rng, d, h = np.random.default_rng(7), 4, 8 if small else 32
    w1, w2 = rng.normal(size=(h, d)) / 2, rng.normal(size=(d, h)) / h
    return rng.normal(size=d), rng.normal(size=d), w1, np.zeros(h), w2, np.zeros(d)


PROGRAMS = {
    "hmc": Program(HMC, "chain", hmc_in_jax, regression, 1e-6),
    "gaussian process": Program(GAUSSIAN_PROCESS, "with_slope", gaussian_process_in_jax, points(200), 1e-8),
    "larger gaussian process": Program(GAUSSIAN_PROCESS, "with_slope", gaussian_process_in_jax, points(500), 1e-8),
    "neural ODE": Program(NEURAL_ODE, "with_slope", neural_ode_in_jax, net, 1e-8),
}


def difference(one: Any, other: Any) -> float:
    """The largest difference of two results, or of the parts of two tuples, over the largest number of each part."""
    if isinstance(one, tuple):
        assert len(one) == len(other)
        return max(difference(a, b) for a, b in zip(one, other, strict=True))
    a, b = np.asarray(one), np.asarray(other)
    assert a.shape == b.shape and np.isfinite(a).all()
    return float(np.abs(a - b).max(initial=0.0) / max(np.abs(b).max(initial=0.0), 1e-300))


def measured(name: str, backend: str, runs: int, small: bool) -> dict[str, Any]:
    """A row: lines, the difference of results, medians in milliseconds and their quotient."""
    import jax

    jax.config.update("jax_enable_x64", True)
    program = PROGRAMS[name]
    args = program.arguments(small)
    ours, theirs = futad.compile(program.text, name, backend=backend)[program.entry], program.peer()
    there = tuple([jax.numpy.asarray(a) if isinstance(a, np.ndarray) else a for a in args])
    off = difference(ours(*args), jax.block_until_ready(theirs(*there)))
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(runs):
        for which in (0, 1) if turn % 2 else (1, 0):
            start = time.perf_counter()
            ours(*args) if which == 0 else jax.block_until_ready(theirs(*there))
            times[which].append((time.perf_counter() - start) * 1e3)
    mine, its = map(statistics.median, times)
    return {"program": name, "lines": program.lines, "difference": off, "futad": mine, "jax": its, "ratio": its / mine}


def failures(row: dict[str, Any], small: bool) -> list[str]:
    """Whatever is not as it must be."""
    found = []
    if not row["difference"] <= PROGRAMS[row["program"]].tolerance:
        found.append("results differ")
    if row["lines"] > LINES:
        found.append("too many lines")
    if not small and row["ratio"] < 1:
        found.append("slower than JAX")
    return found


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", choices=[*PROGRAMS, []], metavar="PROGRAM", help=", ".join(PROGRAMS))
    parser.add_argument("--backend", default="c")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--json", type=Path, metavar="OUT")
    options = parser.parse_args(argv)
    rows, bad = [], False
    print(f"{'program':23} {'lines':>5} {'difference':>10} {'futad ms':>9} {'JAX ms':>9} {'JAX/futad':>9}")
    for name in options.programs or PROGRAMS:
        row = measured(name, options.backend, options.runs, options.small)
        rows.append(row)
        wrong = failures(row, options.small)
        bad |= bool(wrong)
        print(f"{name:23} {row['lines']:5} {row['difference']:10.1e} {row['futad']:9.2f} {row['jax']:9.2f} "
              f"{row['ratio']:9.2f} {', '.join(wrong)}")  # fmt: skip
    if options.json:
        record = {"backend": options.backend, "small": options.small, "rows": rows}
        options.json.write_text(json.dumps(record, indent=1))
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
