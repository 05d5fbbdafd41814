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


def from_cases(make: str, *sizes: Any) -> tuple[Any, ...]:
    """The input of a row of `cpu.py`."""
    import cases

    return getattr(cases, make)(*sizes).args


def neutrons(make: str, weights: int, lookups: int) -> tuple[Any, ...]:
    from futad.datasets import make_neutrons

    return lookups, np.ones(weights), *getattr(make_neutrons, make)(1)


def fluid() -> tuple[Any, ...]:
    """32 by 32 by 40 cells, 20 steps; the seed of the derivative comes last."""
    from futad.datasets.make_neutrons import cavity

    kinds, grid = cavity(32, 32, 40)
    return 20, kinds, grid, np.ones_like(grid)


# name: program, data, primal entry, derivative entry, limit of their ratio (None: it has none)
CASES: dict[str, tuple[str, Any, str, str, float | None]] = {
    "gmm": ("gmm.fut", gmm, "objective", "gradient", 3.5),
    "lstm": ("lstm.fut", lstm, "objective", "gradient", 3.0),
    "kmeans": ("kmeans.fut", lambda: kmeans(5, 50_000, 35), "objective", "newton_step", 4.0),
    "kmeans-many": ("kmeans.fut", lambda: kmeans(256, 5_000, 64), "objective", "newton_step", 4.0),
    # ADBench, as in the paper's Table 1 (Futhark there: 5.1, 13.0, 3.2, 45.4, 49.8).
    "gmm-large": ("gmm.fut", lambda: from_cases("gmm", 1000, 64, 200), "objective", "gradient", 3.0),
    "ba": ("ba.fut", lambda: from_cases("ba", 257, 65132, 225911), "objective", "jacobian", 6.0),
    "dlstm": ("dlstm.fut", lambda: from_cases("dlstm", 4, 4096, 14), "objective", "gradient", 3.0),
    "hand-simple": (
        "hand.fut", lambda: from_cases("hand", 10000, 800, False), "simple_objective", "simple_jacobian", 6.0,
    ),
    "hand-complicated": (
        "hand.fut", lambda: from_cases("hand", 10000, 800, True), "complicated_objective", "complicated_jacobian", 6.0,
    ),
    # The paper's other programs (the paper: 3.6, 2.6; a GPU's).
    "rsbench": ("rsbench.fut", lambda: neutrons("resonances", 4, 20_000), "objective", "gradient", 3.6),
    "xsbench": ("xsbench.fut", lambda: neutrons("tables", 5, 200_000), "objective", "gradient", 2.6),
    "lbm": ("lbm.fut", fluid, "primal", "gradient", None),
}  # fmt: skip


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
        taken = {primal: args[: len(program[primal].signature.params)], derivative: args}
        seconds: dict[str, list[float]] = {primal: [], derivative: []}
        for i in range(options.runs + 1):
            for entry, times in seconds.items():
                start = clock()
                program[entry](*taken[entry])
                if i:
                    times.append(clock() - start)
        median = {entry: statistics.median(times) for entry, times in seconds.items()}
        ratio = median[derivative] / median[primal]
        exceeded |= limit is not None and ratio > limit
        verdict = "no limit" if limit is None else f"limit {limit:g}: {'good' if ratio <= limit else 'EXCEEDED'}"
        shown = ", ".join(f"{entry} {1e3 * t:.1f} ms" for entry, t in median.items())
        print(f"{name:16} {shown}; ratio {ratio:.2f}, {verdict}", flush=True)
        records.append({"program": name, "seconds": seconds, "median": median, "ratio": ratio, "limit": limit})
    if options.json:
        options.json.write_text(json.dumps({"backend": options.backend, "results": records}, indent=1) + "\n")
    return 1 if exceeded and options.backend == "c" else 0


if __name__ == "__main__":
    sys.exit(main())
