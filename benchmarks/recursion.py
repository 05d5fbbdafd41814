"""Gradients of recursive functions: their time over the function's own, and what their records take.

    python benchmarks/recursion.py [--backend c] [--only NAME...] [--repeat N]

A sum over a balanced tree, adaptive Simpson quadrature of a function with m parameters, and a binary tree LSTM of k
states.  For each size: milliseconds of the value and of the gradient (the best of several calls, in turns), their
quotient, the quotient with `#[again]`, which keeps no records, records made, records left, and bytes that records take
for each leaf, element or state.  The exit status is 1 if a record is left, or a quotient is above its bound: 5, of the
LSTM 6.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

import futad

TREE = """
AGAIN def f [n] (xs: [n]f64): f64 =
  if n == 0 then 0 else if n == 1 then f64.sin xs[0]
  else let h = n / 2 in 0.5 * f (take h xs) + f (drop h xs)
entry value [n] (xs: [n]f64): f64 = f xs
entry gradient [n] (xs: [n]f64): [n]f64 = vjp f xs 1
"""

QUADRATURE = """
def g [m] (ps: [m]f64) (t: f64): f64 = f64.sum (map2 (\\p i -> p * f64.sin (t * p + f64.i64 i)) ps (iota m))
AGAIN def simpson [m] (ps: [m]f64) (a: f64) (b: f64) (ga: f64) (gm: f64) (gb: f64) (whole: f64) (e: f64): f64 =
  let m = (a + b) / 2
  let (gl, gr) = (g ps ((a + m) / 2), g ps ((m + b) / 2))
  let (left, right) = ((m - a) / 6 * (ga + 4 * gl + gm), (b - m) / 6 * (gm + 4 * gr + gb))
  let error = left + right - whole
  in if f64.abs error < e then left + right + error / 15
     else simpson ps a m ga gl gm left (e / 2) + simpson ps m b gm gr gb right (e / 2)
def integral [m] (ps: [m]f64): f64 =
  let (ga, gm, gb) = (g ps 0, g ps 1, g ps 2) in simpson ps 0 2 ga gm gb ((ga + 4 * gm + gb) / 3) 1e-8
entry value [m] (ps: [m]f64): f64 = integral ps
entry gradient [m] (ps: [m]f64): [m]f64 = vjp integral ps 1
"""

LSTM = """
def sigmoid (x: f64): f64 = 1 / (1 + f64.exp (-x))
def dot [k] (a: [k]f64) (b: [k]f64): f64 = f64.sum (map2 (*) a b)
def affine [k] (w: [k][k]f64) (x: [k]f64) (u: [k][k]f64) (y: [k]f64) (b: [k]f64): [k]f64 =
  map3 (\\r s c -> dot r x + dot s y + c) w u b
AGAIN def node [n][k] (ws: [10][k][k]f64) (bs: [5][k]f64) (xs: [n][k]f64): ([k]f64, [k]f64) =
  if n == 1 then let c = map f64.tanh xs[0] in (map f64.tanh c, c)
  else let h = n / 2
       let (ha, ca) = node ws bs (take h xs)
       let (hb, cb) = node ws bs (drop h xs)
       let i = map sigmoid (affine ws[0] ha ws[1] hb bs[0])
       let fa = map sigmoid (affine ws[2] ha ws[3] hb bs[1])
       let fb = map sigmoid (affine ws[4] ha ws[5] hb bs[2])
       let o = map sigmoid (affine ws[6] ha ws[7] hb bs[3])
       let u = map f64.tanh (affine ws[8] ha ws[9] hb bs[4])
       let c = map4 (\\iu fa ca fb -> iu + fa * ca + fb) (map2 (*) i u) fa ca (map2 (*) fb cb)
       in (map2 (\\o c -> o * f64.tanh c) o c, c)
def loss [n][k] (ws: [10][k][k]f64) (bs: [5][k]f64) (xs: [n][k]f64): f64 =
  let (h, c) = node ws bs xs in f64.sum (map2 (\\x y -> x * x + y) h c)
entry value [n][k] (ws: [10][k][k]f64) (bs: [5][k]f64) (xs: [n][k]f64): f64 = loss ws bs xs
entry gradient [n][k] (ws: [10][k][k]f64) (bs: [5][k]f64) (xs: [n][k]f64) =
  vjp (\\(ws, bs, xs) -> loss ws bs xs) (ws, bs, xs) 1
"""

Arguments = Callable[[np.random.Generator], tuple[tuple[Any, ...], int]]


def lstm(n: int, k: int) -> Arguments:
    """Of a tree of n leaves with k states."""
    shapes = (10, k, k), (5, k), (n, k)
    return lambda rng: (tuple([rng.normal(size=s) / k**0.5 for s in shapes]), n * k)


CASES: dict[str, tuple[str, float, dict[str, Arguments]]] = {
    "tree": (TREE, 5, {f"2^{b}": lambda rng, b=b: ((rng.uniform(size=1 << b),), 1 << b) for b in (12, 17, 20)}),
    "quadrature": (QUADRATURE, 5, {f"m = {m}": lambda rng, m=m: ((rng.uniform(1, 9, m),), m) for m in (1, 8, 64)}),
    "lstm": (LSTM, 6, {f"{n} x {k}": lstm(n, k) for n, k in ((4000, 4), (1000, 16), (200, 64))}),
}


def times(calls: Sequence[Callable[[], Any]], repeat: int) -> list[float]:
    """Milliseconds of each call, the best of several, taken in turns."""
    best = [float("inf")] * len(calls)
    for _ in range(repeat + 1):
        for k, call in enumerate(calls):
            start = time.perf_counter()
            call()
            best[k] = min(best[k], (time.perf_counter() - start) * 1e3)
    return best


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--backend", default="c", choices=("c", "multicore"))
    parser.add_argument("--only", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--repeat", type=int, default=7)
    args = parser.parse_args(argv)
    print(f"{'':24} {'value':>9} {'gradient':>9} {'/ value':>8} {'again':>8} {'records':>8} {'left':>5} {'bytes':>7}")
    good = True
    for name in args.only:
        text, bound, sizes = CASES[name]
        kept = futad.compile(text.replace("AGAIN ", ""), backend=args.backend)
        again = futad.compile(text.replace("AGAIN", "#[again]"), backend=args.backend)
        for size, make in sizes.items():
            given, n = make(np.random.default_rng(0))
            calls = [partial(f, *given) for f in (kept.value, kept.gradient, again.gradient)]
            value, gradient, run_again = times(calls, args.repeat)
            kept.gradient(*given)
            executor: Any = kept._executable.executor()
            made, left, most = getattr(executor, "compiled", executor).records()  # compiled now, or from the cache
            print(
                f"{name + ' ' + size:24} {value:9.3f} {gradient:9.3f} {gradient / value:8.2f} {run_again / value:8.2f} "
                f"{made:8} {left:5} {most / n:7.1f}"
            )
            good &= not left and gradient <= bound * value
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
