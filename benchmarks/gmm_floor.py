"""The speed floor: the gradient of `programs/gmm.fut` on the `c` backend against NumPy's closed form on one
BLAS thread, and against the program's own objective.

    python benchmarks/gmm_floor.py [FILE] [--runs N] [--json OUT]

FILE is a mixture in ADBench's format; without it gmm_d64_K25.txt of ADBench is taken if it lies in
../shared/data, else generated data of the same shape.  The three are run in turn in one process, so that a
busy moment of the machine hits all of them, and their medians are compared.  Exit status 1 if a limit is
exceeded.
"""

from __future__ import annotations

import os

# Before NumPy is imported: its BLAS reads these once.
os.environ.update(OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import argparse
import json
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from futad.datasets import Gmm, make_gmm, read_gmm
from reference import closed_forms

import futad

ROOT = Path(__file__).resolve().parents[1]
REAL = ROOT.parent / "shared" / "data" / "adbench" / "gmm" / "1k" / "gmm_d64_K25.txt"
LIMIT_CLOSED_FORM = 2.5
LIMIT_OBJECTIVE = 4.0


def load_data(path: Path | None) -> tuple[Gmm, str]:
    """The mixture to run on, and what to call it."""
    if path is None and REAL.is_file():
        path = REAL
    if path is not None:
        return read_gmm(path), path.name
    with tempfile.NamedTemporaryFile("w+", suffix=".txt") as f:
        make_gmm.write_gmm(f, 1000, 64, 25, 1)
        f.flush()
        return read_gmm(f.name), "generated (n=1000, d=64, K=25)"


def interleaved(runs: int, candidates: dict[str, Callable[[], Any]]) -> dict[str, list[float]]:
    """Seconds of each run of each candidate, taken in turn; one round before is not counted."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for i in range(runs + 1):
        for name, call in candidates.items():
            start = time.perf_counter()
            call()
            if i:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def relative_error(actual: Any, expected: Any) -> float:
    """The largest difference, relative to the largest magnitude of each result."""
    return max(float(np.abs(a - e).max() / np.abs(e).max()) for a, e in zip(actual, expected, strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(description="Speed of the GMM gradient against its limits.")
    parser.add_argument("file", nargs="?", type=Path, help="a mixture in ADBench's format")
    parser.add_argument("--runs", type=int, default=21, help="timed rounds (default 21)")
    parser.add_argument("--backend", default="c")
    parser.add_argument("--json", type=Path, help="write the measurements here")
    options = parser.parse_args()

    data, name = load_data(options.file)
    args = (data.alphas, data.means, data.icf, data.x, data.gamma, data.m)
    program = futad.load(ROOT / "benchmarks" / "programs" / "gmm.fut", backend=options.backend)
    error = relative_error(program.gradient(*args), closed_forms.gmm_gradient(*args))
    seconds = interleaved(
        options.runs,
        {
            "closed form gradient": lambda: closed_forms.gmm_gradient(*args),
            "objective": lambda: program.objective(*args),
            "gradient": lambda: program.gradient(*args),
        },
    )
    median = {k: statistics.median(v) for k, v in seconds.items()}
    ratios = {
        "gradient / closed form gradient": (
            median["gradient"] / median["closed form gradient"],
            LIMIT_CLOSED_FORM,
        ),
        "gradient / objective": (median["gradient"] / median["objective"], LIMIT_OBJECTIVE),
    }
    print(f"{name}, backend {options.backend}, {options.runs} runs; relative error {error:.1e}")
    for k, v in median.items():
        print(f"  {k:32} {1e3 * v:8.2f} ms  (best {1e3 * min(seconds[k]):.2f})")
    for k, (ratio, limit) in ratios.items():
        print(f"  {k:32} {ratio:8.2f}     limit {limit:g}: {'good' if ratio <= limit else 'EXCEEDED'}")
    if options.json:
        record = {
            "data": name,
            "backend": options.backend,
            "machine": platform.processor() or platform.machine(),
            "relative_error": error,
            "seconds": seconds,
            "median": median,
            "ratios": {k: {"ratio": r, "limit": limit} for k, (r, limit) in ratios.items()},
        }
        options.json.write_text(json.dumps(record, indent=1) + "\n")
    return 0 if error < 1e-10 and all(r <= limit for r, limit in ratios.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
