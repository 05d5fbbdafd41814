"""Sparse Jacobians and Hessians beside what they replace: the local blocks of bundle adjustment beside the seeds
written by hand in `programs/ba.fut`, a stencil and the Hessian of a chain beside their entries.

    python benchmarks/sparse_jacobian.py [--runs N] [--backend B] [--small] [--json OUT]

A row of bundle adjustment is the time of `futad.sparse_jacobian(prog.objective, (0, 1, 2))`, which gives a matrix of
SciPy, relative to that of the entry `jacobian`, which gives three arrays: both in turn, medians.  The matrix holds 28
and 1 elements an observation; by hand it is 30 and 1, two being zero.  `--small`: the sizes of tests.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from cases import FULL, SMALL

import futad

ROOT = Path(__file__).resolve().parents[1]
OTHERS = """
entry chain [n] (x: [n]f64): f64 =
  f64.sum (tabulate (n - 1) (\\i -> 100 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2))
entry torus [n] (a: [n][n]f64): [n][n]f64 =
  tabulate_2d n n (\\i j ->
    let around = a[(i + 1) % n, j] + a[(i + n - 1) % n, j] + a[i, (j + 1) % n] + a[i, (j + n - 1) % n]
    in around - 4 * a[i, j] + a[i, j] ** 2 - a[i, j] ** 3)
"""


def medians(first: Callable[[], Any], other: Callable[[], Any], runs: int) -> tuple[float, float]:
    """Seconds of two functions called in turn."""
    taken: tuple[list[float], list[float]] = ([], [])
    for k in range(runs + 2):
        for f, seconds in zip((first, other), taken, strict=True):
            start = time.perf_counter()
            f()
            if k > 1:
                seconds.append(time.perf_counter() - start)
    return statistics.median(taken[0]), statistics.median(taken[1])


def settled(matrix: Any, *args: Any) -> str:
    """The matrix is computed by code that is built in full."""
    matrix(*args)
    matrix.settle()
    return str(matrix.report)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=9, help="timed rounds (default 9)")
    parser.add_argument("--backend", default="c")
    parser.add_argument("--small", action="store_true", help="the sizes of tests")
    parser.add_argument("--json", type=Path, help="write the measurements here")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []

    def row(name: str, sizes: Any, ours: float, theirs: float, of: str, report: str) -> None:
        rows.append({"name": name, "sizes": sizes, "seconds": ours, "ratio": ours / theirs, "report": report})
        print(f"{name:16} {sizes!s:24} {1e3 * ours:9.3f} ms, {ours / theirs:5.2f} of {of}; {report}", flush=True)

    program = futad.load(ROOT / "benchmarks" / "programs" / "ba.fut", backend=options.backend)
    make, _, sizes = next(case for case in (SMALL if options.small else FULL) if case[1] == "ba")
    jacobian = futad.sparse_jacobian(program.objective, argnums=(0, 1, 2))
    for size in sizes:
        args = make(*size).args
        report = settled(jacobian, *args)
        starts, columns, values = program.jacobian(*args)
        made = jacobian(*args)
        by_hand = scipy.sparse.csr_array((values, columns, starts), shape=made.shape)
        assert abs(made - by_hand).max() < 1e-11, "the two matrices are the same"
        ours, theirs = medians(lambda a=args: jacobian(*a), lambda a=args: program.jacobian(*a), options.runs)
        row("ba", size, ours, theirs, "the seeds by hand", report)

    program = futad.compile(OTHERS, backend=options.backend)
    r = np.random.default_rng(0)
    n = 32 if options.small else 512
    a = r.normal(size=(n, n))
    for title, matrix in (("torus", futad.sparse_jacobian(program.torus)),
                          ("torus by colours", futad.sparse_jacobian(program.torus, blocks=False))):  # fmt: skip
        report = settled(matrix, a)
        ours, theirs = medians(lambda m=matrix: m(a), lambda: program.torus(a), options.runs)
        row(title, n, ours, theirs, "the entry", report)
    n = 1000 if options.small else 50_000
    x = r.normal(size=n)
    hessian = futad.sparse_hessian(program.chain)
    report = settled(hessian, x)
    ours, theirs = medians(lambda: hessian(x), lambda: program.chain(x), options.runs)
    row("Hessian of chain", n, ours, theirs, "the entry", report)
    if options.json:
        options.json.write_text(json.dumps({"backend": options.backend, "rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
