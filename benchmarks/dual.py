"""The six gradients of "Parallel dual-numbers reverse AD" (section 13), with the published times beside ours.

    python benchmarks/dual.py [--quick] [--only NAME...] [--json OUT]

By transformation on `c` (one thread) and `multicore` (OMP_NUM_THREADS threads, else all processors), and by dual
numbers on the interpreter (`method="dual"`): microseconds, the median of several calls.  As in the paper small
functions are differentiated many times in one call, and scalar products and matrix-vector products are large; times are
those of one function, one element, one entry of the matrix.  The published times are of one core of another machine
(TH: the paper's implementation in Template Haskell; ad: Kmett's library), the particles' also on 2 and 4 threads.

The paper does not say which field the particles move in: here -p / (1 + |p|^2), with friction 0.1.  --quick takes sizes
a tenth as large, of which nothing is published for the last two.  Answers by dual numbers are compared with those by
transformation; the exit status is 1 if one differs.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import futad

SOURCE = """
def product (x: f64, y: f64): f64 = x * y
def dot [n] (xs: [n]f64) (ys: [n]f64): f64 = f64.sum (map2 (*) xs ys)
entry scalar [n] (xs: [n]f64) (ys: [n]f64) = unzip (map2 (\\x y -> vjp product (x, y) 1) xs ys)
entry dot_product [n] (xs: [n]f64) (ys: [n]f64) = vjp (\\(xs, ys) -> dot xs ys) (xs, ys) 1
entry sum_mat_vec [n][m] (a: [n][m]f64) (v: [m]f64) = vjp (\\(a, v) -> f64.sum (map (dot v) a)) (a, v) 1

-- 2 (u . v) u + (s s - u . u) v + 2 s (u x v) for the quaternion s + u
def rotated (v: [3]f64, q: [4]f64): [3]f64 =
  let s = q[0]
  let u = [q[1], q[2], q[3]]
  let cross = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]]
  let (a, b) = (2 * dot u v, s * s - dot u u)
  in map3 (\\u v c -> a * u + b * v + 2 * s * c) u v cross
entry rotate_vec_by_quat [n] (vs: [n][3]f64) (qs: [n][4]f64) =
  unzip (map2 (\\v q -> unzip (#[unroll] mjp rotated (v, q) [[1, 0, 0], [0, 1, 0], [0, 0, 1]])) vs qs)

def layer [n][m] (w: [n][m]f64) (b: [n]f64) (x: [m]f64): [n]f64 = map2 (\\row b -> f64.max 0 (dot row x + b)) w b
def softmax [n] (x: [n]f64): [n]f64 =
  let top = f64.maximum x
  let e = map (\\x -> f64.exp (x - top)) x
  let all = f64.sum e
  in map (/ all) e
entry neural [m][k][n] (w1: [k][m]f64) (b1: [k]f64) (w2: [n][k]f64) (b2: [n]f64) (x: [m]f64) =
  vjp (\\(w1, b1, w2, b2, x) -> f64.sum (softmax (layer w2 b2 (layer w1 b1 x)))) (w1, b1, w2, b2, x) 1

def moved (steps: i64) (x: f64, y: f64, vx: f64, vy: f64): f64 =
  let dt = 0.01
  let (x, y, _, _) = loop (x, y, vx, vy) = (x, y, vx, vy) for _i < steps do
    let f = 1 / (1 + x * x + y * y)
    let (vx, vy) = (vx + dt * (-x * f - 0.1 * vx), vy + dt * (-y * f - 0.1 * vy))
    in (x + dt * vx, y + dt * vy, vx, vy)
  in x * y
entry particles [n] (steps: i64) (xs: [n]f64) (ys: [n]f64) (vxs: [n]f64) (vys: [n]f64) =
  vjp (\\(xs, ys, vxs, vys) -> f64.sum (map4 (\\x y vx vy -> moved steps (x, y, vx, vy)) xs ys vxs vys))
      (xs, ys, vxs, vys) 1
"""


@dataclass(slots=True)
class Workload:
    """An entry, its arguments, the number of functions or elements that a time is divided by, and the times published:
    by the paper on threads, and by ad, in microseconds."""

    entry: str
    args: Callable[[int], list[Any]]
    size: int
    unit: Callable[[list[Any]], int]
    paper: dict[int, float]
    ad: float


def normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape)


WORKLOADS = [
    Workload("scalar", lambda n: [normal(n), normal(n) + 1], 100_000, lambda a: a[0].size, {1: 0.33}, 0.80),
    Workload("dot_product", lambda n: [normal(n), normal(n) + 1], 100_000, lambda a: a[0].size, {1: 0.95}, 2.14),
    Workload("sum_mat_vec", lambda n: [normal(n, n), normal(n)], 316, lambda a: a[0].size, {1: 0.59}, 1.23),
    Workload("rotate_vec_by_quat", lambda n: [normal(n, 3), normal(n, 4)], 10_000, lambda a: len(a[0]), {1: 5.62},
             6.71),
    Workload("neural", lambda n: [normal(2 * n, n), normal(2 * n), normal(n, 2 * n), normal(n), normal(n)], 50,
             lambda a: 1, {1: 2400.0}, 8100.0),
    Workload("particles", lambda n: [n, *(normal(4) + k for k in range(4))], 1000, lambda a: 1,
             {1: 7600.0, 2: 4600.0, 4: 2400.0}, 9100.0),
]  # fmt: skip


def microseconds(call: Callable[[], object], budget: float) -> float:
    """The median time of calls, as many as the budget in seconds allows, three at least."""
    call()
    times: list[float] = []
    while len(times) < 3 or sum(times) < budget and len(times) < 201:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6


def near(got: Any, want: Any) -> bool:
    """Whether all components are equal but for rounding."""
    if isinstance(want, tuple):
        return all(near(g, w) for g, w in zip(got, want, strict=True))
    return bool(np.allclose(got, want, rtol=1e-9, atol=1e-11))


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="sizes a tenth as large")
    parser.add_argument("--only", nargs="*", choices=[w.entry for w in WORKLOADS], metavar="NAME", help="some of them")
    parser.add_argument("--json", metavar="OUT", help="write the times there")
    args = parser.parse_args(argv)
    ways = {
        "c": futad.compile(SOURCE, backend="c"),
        "multicore": futad.compile(SOURCE, backend="multicore"),
        "dual": futad.compile(SOURCE, method="dual"),
    }
    print(f"{'us':20}{'size':>8}" + "".join(f"{name:>11}" for name in ways) + f"{'TH':>9}{'ad':>9}  TH / c")
    wrong = []
    rows = {}
    for w in WORKLOADS:
        if args.only and w.entry not in args.only:
            continue
        size = max(5, w.size // 10) if args.quick else w.size
        given = w.args(size)
        unit = w.unit(given)
        answers = {name: program[w.entry](*given) for name, program in ways.items()}
        wrong += [f"{w.entry}: {n} is not c's" for n in ("multicore", "dual") if not near(answers[n], answers["c"])]
        times = {
            name: microseconds(lambda f=program[w.entry]: f(*given), 0.5 if name == "dual" else 0.25) / unit  # noqa: B023
            for name, program in ways.items()
        }
        rows[w.entry] = times | {"TH": w.paper, "ad": w.ad}
        cells = "".join(f"{t:11.4g}" for t in times.values())
        ratio = "-" if args.quick and unit == 1 else f"{w.paper[1] / times['c']:.3g}"
        print(f"{w.entry:20}{size:8}{cells}{w.paper[1]:9g}{w.ad:9g}  {ratio}", flush=True)
        if len(w.paper) > 1:
            print(" " * 4 + "TH on threads: " + ", ".join(f"{n}: {t:g} us" for n, t in w.paper.items()))
    if args.json:
        Path(args.json).write_text(json.dumps(rows))
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
