"""Programs that split along n, with arguments, for the tests of `futad.distributed`."""

from __future__ import annotations

from typing import Any

import numpy as np

import futad
from tests.support.benchmark_programs import program

SOURCE = """
entry logistic [n][d] (x: [n][d]f64) (y: [n]f64) (w: [d]f64): f64 =
  let z = map (\\r -> f64.sum (map2 (*) r w)) x
  in f64.sum (map2 (\\z y -> f64.log (1 + f64.exp (-y * z))) z y) / f64.i64 n + 0.5 * f64.sum (map (\\v -> v * v) w)
entry histogram [n] (x: [n]f64) (w: [n]f64) (c: [4]f64): f64 =
  let bins = map (\\v -> i64.f64 (f64.floor v)) x
  let h = hist (+) 0 4 bins (map2 (\\v u -> v * u * c[0]) x w)
  in f64.sum (map2 (\\a b -> f64.log (1 + a * a) * b) h c)
entry numbered [n] (x: [n]f64) (y: [n]f64) (a: f64): f64 =
  f64.sum (tabulate n (\\i -> x[i] * a + y[i] * y[i] * f64.i64 i / f64.i64 n))
entry columns [n][d] (x: [d][n]f64) (w: [d]f64): f64 =
  let means = map (\\c -> f64.sum c / f64.i64 n) x
  let spread = map2 (\\c m -> f64.sum (map (\\v -> (v - m) * (v - m)) c)) x means
  in f64.sum (map2 (\\s v -> s * v * v) spread w)
entry farthest [n] (x: [n]f64) (a: f64): f64 =
  let (best, at) = reduce_comm (\\(u, i) (v, j) -> if u > v || (u == v && i < j) then (u, i) else (v, j))
                               (-f64.inf, n) (zip (map (\\v -> f64.sin (v * a)) x) (iota n))
  in best * a + f64.i64 at
entry looped [n] (x: [n]f64) (a: f64) (k: i64): f64 =
  let (_, s) = loop (z, s) = (map (* a) x, 1) for j < k do (map (\\v -> f64.cos (v + f64.i64 j)) z, s + f64.sum z)
  in s * s
entry branch [n] (x: [n]f64) (a: f64) (up: bool): f64 =
  let s = if up then f64.sum (map (\\v -> f64.exp (v * a)) x) else a
  in s * a
"""


def arguments(name: str, n: int = 41, seed: int = 3) -> tuple[Any, tuple[Any, ...], tuple[int, ...]]:
    """An entry on the interpreter, its arguments, and those to differentiate by."""
    r = np.random.default_rng(seed)
    d, k = 3, 4
    x, means = r.normal(size=(n, d)), r.normal(size=(k, d))
    factors = r.normal(size=(k, d * (d + 1) // 2)) * 0.3
    given: dict[str, tuple[tuple[Any, ...], tuple[int, ...]]] = {
        "gmm.objective": ((r.normal(size=k), means, factors, x, 1.3, 2), (0, 1, 2)),
        "kmeans.objective": ((x, means), (0, 1)),
        "llsq.primal": ((r.normal(size=4), n), (0,)),
        "lse.primal": ((r.normal(size=n),), (0,)),
        "logistic": ((x, np.sign(r.normal(size=n)), r.normal(size=d)), (0, 2)),
        "histogram": ((r.uniform(-1, 5, size=n), r.normal(size=n), r.normal(size=4)), (0, 1, 2)),
        "numbered": ((r.normal(size=n), r.normal(size=n), 0.7), (0, 1, 2)),
        "columns": ((r.normal(size=(d, n)), r.normal(size=d)), (0, 1)),
        "farthest": ((r.normal(size=n), 0.9), (1,)),
        "looped": ((r.normal(size=n), 0.9, 3), (0, 1)),
        "branch": ((r.normal(size=n), 0.9, True), (1,)),
    }
    file, _, entry = name.rpartition(".")
    made = program(file, "interp") if file else futad.compile(SOURCE, backend="interp")
    args, argnums = given[name]
    return made[entry], args, argnums


NAMES = ("gmm.objective", "kmeans.objective", "llsq.primal", "lse.primal", "logistic", "histogram", "numbered",
         "columns", "looped", "branch")  # fmt: skip


def flat(value: Any) -> list[Any]:
    """The components of a result."""
    if isinstance(value, tuple | list):
        return [x for v in value for x in flat(v)]
    return [np.asarray(value)]


def same_bits(x: Any, y: Any) -> bool:
    return [(a.tobytes(), a.shape, a.dtype) for a in flat(x)] == [(b.tobytes(), b.shape, b.dtype) for b in flat(y)]
