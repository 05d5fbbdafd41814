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
  let score row = f64.sum (map2 (*) row w)
  in f64.sum (map2 (\row y -> stats.bernoulli_logit_logpmf (score row) y) rows labels)
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


PROGRAMS = {"hmc": Program(HMC, "chain", hmc_in_jax, regression, 1e-6)}


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
    print(f"{'program':12} {'lines':>5} {'difference':>10} {'futad ms':>9} {'JAX ms':>9} {'JAX/futad':>9}")
    for name in options.programs or PROGRAMS:
        row = measured(name, options.backend, options.runs, options.small)
        rows.append(row)
        wrong = failures(row, options.small)
        bad |= bool(wrong)
        print(f"{name:12} {row['lines']:5} {row['difference']:10.1e} {row['futad']:9.2f} {row['jax']:9.2f} "
              f"{row['ratio']:9.2f} {', '.join(wrong)}")  # fmt: skip
    if options.json:
        record = {"backend": options.backend, "small": options.small, "rows": rows}
        options.json.write_text(json.dumps(record, indent=1))
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
