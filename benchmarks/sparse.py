"""How the time of sparse k-means grows: a Newton step of `kmeans_sparse.fut` with more and more nonzeros,
and with wider and wider points that hold as many of them as before.

    python benchmarks/sparse.py [--points N] [--runs N] [--backend B] [--json OUT]

By medians of CPU time on `c`.  The first column of ratios is the time a number that is not 0, relative to the first
row: it stays near 1 where time grows with them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import futad

ROOT = Path(__file__).resolve().parents[1]
# Nonzeros in a point, dimensions, centroids.
MORE = [(5, 1000, 10), (10, 1000, 10), (20, 1000, 10), (40, 1000, 10), (80, 1000, 10)]
WIDER = [(40, 500, 10), (40, 1000, 10), (40, 2000, 10), (40, 4000, 10)]


def sparse_points(n: int, held: int, d: int, k: int) -> tuple[Any, ...]:
    """Values, columns and row starts of n points that hold so many numbers each (one in each of as many equal parts
    of their columns), and k dense centroids."""
    r = np.random.default_rng(1)
    columns = ((np.arange(held) + r.random((n, held))) * (d / held)).astype(np.int64).ravel()
    return r.random(n * held), columns, np.arange(n + 1, dtype=np.int64) * held, r.random((k, d))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=20000, metavar="N", help="how many (default 20000)")
    parser.add_argument("--runs", type=int, default=9, help="timed rounds (default 9)")
    parser.add_argument("--backend", default="c")
    parser.add_argument("--json", type=Path, help="write the measurements here")
    options = parser.parse_args()
    clock = time.process_time if options.backend == "c" else time.perf_counter
    program = futad.load(ROOT / "benchmarks" / "programs" / "kmeans_sparse.fut", backend=options.backend)
    rows: list[dict[str, Any]] = []
    for title, sweep in (("more nonzeros:", MORE), ("wider points:", WIDER)):
        print(title)
        first: list[float] = []
        for held, d, k in sweep:
            n = options.points
            args = sparse_points(n, held, d, k)
            median = []
            for entry in (program.objective, program.newton_step):
                seconds = []
                for i in range(options.runs + 1):
                    start = clock()
                    entry(*args)
                    if i:
                        seconds.append(clock() - start)
                median.append(statistics.median(seconds))
            each = [m / (n * held) for m in median]
            first = first or each
            print(
                f"  {n} points of {held:3} of {d:5}, k={k}: objective {1e3 * median[0]:7.2f} ms, Newton step "
                f"{1e3 * median[1]:7.2f} ms; each {each[0] / first[0]:.2f} and {each[1] / first[1]:.2f} of the first",
                flush=True,
            )
            rows.append({"sweep": title, "sizes": [n, held, d, k], "median": median})
    if options.json:
        options.json.write_text(json.dumps({"backend": options.backend, "rows": rows}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
