"""The rows of the device suite: the paper's workloads, generated, with what they cost at least."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

PROGRAMS = Path(__file__).resolve().parent / "programs"

Arrays = tuple[Any, ...]


@dataclass(frozen=True)
class Workload:
    """One row: a program, the type it computes in, and what its sizes are."""

    program: str
    dtype: str
    sizes: dict[str, int]

    @property
    def label(self) -> str:
        return f"{self.program} {self.dtype} " + " ".join(f"{k}={v}" for k, v in self.sizes.items())

    @property
    def source(self) -> str:
        """The program's text in the row's type."""
        text = (PROGRAMS / f"{self.program}.fut").read_text()
        return text.replace("f32" if self.program == "lstm" else "f64", self.dtype)

    @property
    def flops(self) -> int:
        """Multiplications and additions of the primal's matrix products, 0 if it is not dominated by them."""
        s = self.sizes
        if self.program == "gmm":
            return 2 * s["n"] * s["K"] * s["d"] ** 2
        if self.program == "lstm":
            return 2 * s["n"] * s["bs"] * s["h"] * (4 * s["d"] + 4 * s["h"] + s["h"])
        return 0


def workloads(toy: bool) -> Iterator[Workload]:
    """The rows of the suite; `toy` ones have the same programs and tiny sizes."""
    gmm = [(1000, 64, 200), (1000, 128, 200), (10000, 32, 200), (10000, 64, 25), (10000, 128, 25), (10000, 128, 200)]
    lstm = [(1024, 20, 300, 192), (1024, 300, 80, 256)]
    kmeans = [(5, 494019, 35), (1024, 10000, 256)]
    # movielens, nytimes, and a matrix of the size and density of single-cell counts
    sparse = [(6040, 3706, 1_000_000), (300_000, 102_660, 70_000_000), (68_579, 32_738, 36_000_000)]
    if toy:
        gmm, lstm, kmeans, sparse = [(30, 4, 3)], [(3, 4, 5, 6)], [(4, 50, 3)], [(20, 12, 60)]
    for dtype in ("f64", "f32"):
        for n, d, k in gmm:
            yield Workload("gmm", dtype, {"n": n, "d": d, "K": k})
    for b, t, d, h in lstm:
        yield Workload("lstm", "f32", {"bs": b, "n": t, "d": d, "h": h})
    for k, n, d in kmeans:
        yield Workload("kmeans", "f64", {"k": k, "n": n, "d": d})
    for rows, columns, nonzeros in sparse:
        yield Workload("kmeans_sparse", "f64", {"k": 10, "n": rows, "d": columns, "nonzeros": nonzeros})


def arguments(w: Workload) -> Arrays:
    """Random arguments of a workload's entries, always the same."""
    r = np.random.default_rng(1)
    dtype = np.float64 if w.dtype == "f64" else np.float32
    s = w.sizes

    def normal(*shape: int, scale: float = 0.5) -> Any:
        return (scale * r.standard_normal(shape)).astype(dtype)

    if w.program == "gmm":
        n, d, k = s["n"], s["d"], s["K"]
        factors = normal(k, d + d * (d - 1) // 2, scale=0.1)
        return normal(k), normal(k, d), factors, normal(n, d), dtype(1.0), 0
    if w.program == "lstm":
        b, t, d, h = s["bs"], s["n"], s["d"], s["h"]
        shapes = [(4, h, d), (4, h, h), (4, h), (h, h), (h,), (b, h), (b, h), (t, b, d), (t, b, h)]
        return tuple([normal(*x, scale=0.1) for x in shapes])
    if w.program == "kmeans":
        return normal(s["n"], s["d"]), normal(s["k"], s["d"])
    starts = np.sort(r.integers(0, s["nonzeros"] + 1, s["n"] + 1))
    starts[0], starts[-1] = 0, s["nonzeros"]
    columns = r.integers(0, s["d"], s["nonzeros"])
    return normal(s["nonzeros"]), columns, starts, normal(s["k"], s["d"])


def difference(results: list[Any], expected: list[Any]) -> float:
    """The largest difference between results, relative to the largest element of each; infinite for a NaN."""
    worst = 0.0
    for x, y in zip(results, expected, strict=True):
        x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
        if x.shape != y.shape:
            raise ValueError(f"shapes {x.shape} and {y.shape}")
        error = np.abs(x - y).max(initial=0) / max(float(np.abs(y).max(initial=0)), 1e-300)
        worst = max(worst, float(error) if np.isfinite(error) else float("inf"))
    return worst


def limit(w: Workload) -> float:
    """How far an answer may be from the reference, which is computed in f64."""
    return 1e-9 if w.dtype == "f64" else 2e-3


@dataclass
class Contender:
    """Something that computes a row: `primal` and `gradient` start a run and return its results, which `fetch` makes
    NumPy arrays; `time(call, runs)` are seconds of each of some runs."""

    name: str
    primal: Callable[[], Any]
    gradient: Callable[[], Any]
    fetch: Callable[[Any], list[Any]]
    time: Callable[[Callable[[], Any], int], list[float]]
    about: Callable[[], dict[str, Any]] = dict
    free: Callable[[], None] = lambda: None
