"""What a derivative costs: gradient over objective (Newton step over cost for k-means) on one backend.

    python benchmarks/overhead.py [PROGRAM ...] [--runs N] [--backend B] [--json OUT]

Each pair is run in turn in one process and medians are compared.  On `c` (one thread) the clock is the process's
CPU time, which a busy machine disturbs less; on other backends it is the wall's.  Exit status 1 if a limit is
exceeded (limits hold for `c`).
"""

from __future__ import annotations

import os

os.environ.update(OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

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
sys.path.insert(0, str(ROOT / "benchmarks"))


def gmm() -> tuple[Any, ...]:
    """ADBench's 1k d64 K25, or generated data of that shape."""
    from gmm_floor import load_data

    data, _ = load_data(None)
    return data.alphas, data.means, data.icf, data.x, data.gamma, data.m


def lstm() -> tuple[Any, ...]:
    """The paper's shape with a quarter of its batch: 256 sequences of 20 steps, 300 inputs, 192 hidden."""
    rng = np.random.default_rng(1)
    b, t, d, h, o = 256, 20, 300, 192, 192
    shapes = [(4, h, d), (4, h, h), (4, h), (o, h), (o,), (b, h), (b, h), (t, b, d), (t, b, o)]
    return tuple((rng.standard_normal(s) * 0.1).astype(np.float32) for s in shapes)


def kmeans(k: int, n: int, d: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(2)
    return rng.random((n, d)), rng.random((k, d))


# name: program, data, primal entry, derivative entry, limit of their ratio
CASES: dict[str, tuple[str, Any, str, str, float]] = {
    "gmm": ("gmm.fut", gmm, "objective", "gradient", 3.5),
    "lstm": ("lstm.fut", lstm, "objective", "gradient", 3.0),
    "kmeans": ("kmeans.fut", lambda: kmeans(5, 50_000, 35), "objective", "newton_step", 4.0),
    "kmeans-many": ("kmeans.fut", lambda: kmeans(256, 5_000, 64), "objective", "newton_step", 4.0),
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Gradient over objective.")
    parser.add_argument("programs", nargs="*", metavar="PROGRAM", help=f"from {', '.join(CASES)} (default: all)")
    parser.add_argument("--runs", type=int, default=9, help="timed rounds (default 9)")
    parser.add_argument("--backend", default="c")
    parser.add_argument("--json", type=Path, help="write the measurements here")
    options = parser.parse_args()
    if unknown := [p for p in options.programs if p not in CASES]:
        parser.error(f"no program is called {unknown[0]!r}; there are: {', '.join(CASES)}")
    clock = time.process_time if options.backend == "c" else time.perf_counter
    records: list[dict[str, Any]] = []
    exceeded = False
    for name in options.programs or CASES:
        file, data, primal, derivative, limit = CASES[name]
        program = futad.load(ROOT / "benchmarks" / "programs" / file, backend=options.backend)
        args = data()
        seconds: dict[str, list[float]] = {primal: [], derivative: []}
        for i in range(options.runs + 1):
            for entry, times in seconds.items():
                start = clock()
                getattr(program, entry)(*args)
                if i:
                    times.append(clock() - start)
        median = {entry: statistics.median(times) for entry, times in seconds.items()}
        ratio = median[derivative] / median[primal]
        exceeded |= ratio > limit
        verdict = "good" if ratio <= limit else "EXCEEDED"
        shown = ", ".join(f"{entry} {1e3 * t:.1f} ms" for entry, t in median.items())
        print(f"{name:12} {shown}; ratio {ratio:.2f}, limit {limit:g}: {verdict}", flush=True)
        records.append({"program": name, "seconds": seconds, "median": median, "ratio": ratio, "limit": limit})
    if options.json:
        options.json.write_text(json.dumps({"backend": options.backend, "results": records}, indent=1) + "\n")
    return 1 if exceeded and options.backend == "c" else 0


if __name__ == "__main__":
    sys.exit(main())
