"""Matrix products: futad's kernel (a map of maps of sums of products) beside NumPy's BLAS, on one thread.

    python benchmarks/matmul.py [--shapes NxMxK...] [--runs N] [--backend B] [--json OUT]

Both in turn in one process, by CPU time on `c`, median of each; prints operations a second and the kernel's share of
BLAS.  Answers are compared first; exit status 1 if one is wrong.
"""

from __future__ import annotations

import os

os.environ.update(OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1", OMP_NUM_THREADS="1")

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import futad

SOURCE = """
entry product [n][m][k] (a: [n][k]REAL) (b: [k][m]REAL): [n][m]REAL =
  map (\\row -> map (\\column -> REAL.sum (map2 (*) row column)) (transpose b)) a
"""
# n, m, k of [n][k] times [k][m]: square ones, then shapes of mixtures, networks and clusters.
SHAPES = [(64, 64, 64), (256, 256, 256), (768, 768, 768), (1024, 1024, 1024), (1000, 64, 64), (1024, 768, 300),
          (10000, 1000, 16), (192, 492, 1024)]  # fmt: skip


def shape(text: str) -> tuple[int, int, int]:
    n, m, k = (int(part) for part in text.split("x"))
    if min(n, m, k) < 1:
        raise ValueError
    return n, m, k


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--shapes", nargs="+", type=shape, default=SHAPES, metavar="NxMxK", help="of [N][K] times [K][M]"
    )
    parser.add_argument("--runs", type=int, default=9, help="timed rounds (default 9)")
    parser.add_argument("--backend", default="c")
    parser.add_argument("--json", type=Path, help="write the measurements here")
    options = parser.parse_args()
    clock = time.process_time if options.backend == "c" else time.perf_counter
    rows: list[dict[str, Any]] = []
    good = True
    for real in ("f64", "f32"):
        product = futad.compile(SOURCE.replace("REAL", real), name=f"product_{real}", backend=options.backend).product
        for n, m, k in options.shapes:
            r = np.random.default_rng(1)
            a, b = (r.random(s).astype(np.float64 if real == "f64" else np.float32) for s in ((n, k), (k, m)))
            expected = a.astype(np.float64) @ b
            error = float(np.abs(product(a, b) - expected).max() / expected.max())
            good &= error < (1e-13 if real == "f64" else 1e-5)
            # A small product is repeated until the clock sees it.
            repeats = min(100, max(1, int(2e7 / (n * m * k))))
            seconds: dict[str, list[float]] = {"futad": [], "BLAS": []}
            calls = {"futad": lambda f=product, a=a, b=b: f(a, b), "BLAS": lambda a=a, b=b: a @ b}
            for i in range(options.runs + 1):
                for name, call in calls.items():
                    start = clock()
                    for _ in range(repeats):
                        call()
                    if i:
                        seconds[name].append((clock() - start) / repeats)
            speed = {name: 2e-9 * n * m * k / statistics.median(s) for name, s in seconds.items()}
            share = speed["futad"] / speed["BLAS"]
            print(
                f"{real} {n}x{k} times {k}x{m}".ljust(30) + f"futad {speed['futad']:6.1f} GFLOP/s   "
                f"BLAS {speed['BLAS']:6.1f} GFLOP/s   share {share:4.0%}   error {error:.0e}",
                flush=True,
            )
            rows.append({"type": real, "shape": [n, m, k], "seconds": seconds, "share": share, "error": error})
    if options.json:
        options.json.write_text(json.dumps({"backend": options.backend, "rows": rows}, indent=1) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
