"""Which scalars the host of a device program reads: those that it must branch on, and no others."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import futad
from tests.support.device_support import BY_HOST
from tests.support.needs import has_cxx, needs_cxx
from tests.support.paths import ROOT

SOURCE = """
def scaled [n] (xs: [n]f64) (t: f64): [n]f64 = map (\\x -> x / (1 + t)) xs
-- Carried by a loop, computed by kernels, needed by nobody on the way.
entry total [n] (k: i64) (xs: [n]f64): f64 =
  (loop (xs, t) = (xs, 0) for _i < k do (scaled xs 0.5, t + f64.sum xs)).1
entry swapped [n] (k: i64) (xs: [n]f64): (f64, f64, i64) =
  (loop (xs, a, b, c) = (xs, 1, 2, 0) for _i < k do (scaled xs b, b + f64.sum xs, a, c + 1))
  |> \\(_, a, b, c) -> (a, b, c)
entry nested [n] (k: i64) (xs: [n]f64): f64 =
  loop t = 0 for i < k do
    t * 0.5 + (loop u = t for j < i do u * 0.25 + f64.sum (scaled xs (u + f64.i64 j)))
entry combined [n] (xs: [n]f64): (f64, bool) =
  let s = f64.sum xs
  let m = f64.maximum xs
  in (s * m + f64.sqrt (s * s), s > m)
-- An expression too large to be computed again at each use.
entry large [n] (xs: [n]f64): [n]f64 =
  let s = f64.sum xs
  let t = s * s + 1
  let u = t * t + s * t + 3
  let v = u * u + t * u + s * u + 5
  let w = v * v + u * v + t * v + s * v
  in map (* w) xs
-- Needed: a condition in every iteration, a size once.
entry until [n] (limit: f64) (xs: [n]f64): (i64, [n]f64) =
  loop (k, xs) = (0, xs) while f64.sum xs > limit do (k + 1, scaled xs 0.5)
entry newton (a: f64) (xs: []f64): f64 =
  (loop (x, e) = (a, 1) while e > 1e-9 do
     let y = x - 0.5 * f64.sum (map (* x) xs)
     in (y, f64.abs (y - x))).0
-- The host's size is chosen from a scalar of the device as it was before the iteration.
entry chosen [n] (k: i64) (xs: [n]f64): (i64, f64) =
  (loop (m, t) = (1, 0) for i < k do
     let u = t + f64.sum xs + f64.sum (map f64.i64 (iota m))
     in (if i % 2 == 0 then i64.f64 t + 1 else m, u))
entry sized [n] (xs: [n]i64): []i64 = iota (i64.sum xs)
"""

XS = np.linspace(0.1, 1, 40)
CALLS: dict[str, tuple[tuple[Any, ...], int | None]] = {  # arguments, and reads on the way (-1: one an iteration)
    "total": ((5, XS), 0), "swapped": ((4, XS), 0), "nested": ((4, XS), 0), "combined": ((XS,), 0),
    "large": ((XS,), 0), "until": ((5.0, XS), -1), "newton": ((0.5, XS / 40), -1), "sized": ((np.arange(5),), 1),
    "chosen": ((6, XS / 20), None),
}  # fmt: skip


@cache
def program(backend: str) -> futad.Program:
    by_host = None if backend == "interp" else BY_HOST  # a block reads nothing of what it branches on
    return futad.compile(SOURCE, "reads.fut", backend=backend, schedule=by_host)


def flat(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple) else [value]


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("name", list(CALLS))
def test_reads(name: str) -> None:
    args, reads = CALLS[name]
    want = flat(program("interp").entries[name](*args))
    f = program("emulated").entries[name]
    running = f.executable.executor().running  # type: ignore[attr-defined]
    for _ in range(3):  # run, captured, replayed
        got = flat(f(*args))
        for g, w in zip(got, want, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-12)
            assert np.asarray(g).dtype == np.asarray(w).dtype
        counts = running.runtime.counts
        if reads is None:
            continue
        if reads < 0:  # one for the condition before each iteration, and nothing else
            iterations = int(want[0]) + 1 if name == "until" else counts.reads
            assert counts.reads == iterations > 2
        else:
            assert counts.reads == reads


@pytest.mark.slow
def test_no_benchmark_program_reads_but_to_branch() -> None:
    """The paper's workloads read nothing, so that a call is one graph."""
    if not has_cxx():
        pytest.skip("no C++ compiler")

    r = np.random.default_rng(0)
    lstm = [(4, 3, 2), (4, 3, 3), (4, 3), (3, 3), (3,), (2, 3), (2, 3), (5, 2, 2), (5, 2, 3)]
    calls = {
        "lstm": tuple([r.normal(size=s).astype("f4") for s in lstm]),
        "kmeans": (r.normal(size=(30, 2)), r.normal(size=(3, 2))),
    }
    folder = ROOT / "benchmarks" / "programs"
    for name, args in calls.items():
        prog = futad.load(folder / f"{name}.fut", backend="emulated")
        for entry in ("objective", "gradient"):
            prog.entries[entry](*args)
            assert prog.executor().running.runtime.counts.reads == 0, (name, entry)  # type: ignore[attr-defined]
