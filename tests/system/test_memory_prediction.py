"""The memory that `explain_memory` prints is that by which a call lets a process grow, for each kind of derivative."""

from __future__ import annotations

import ctypes
import gc
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import futad
from tests.support.needs import needs_cc
from tests.support.paths import BENCHMARK_PROGRAMS, ROOT

STEPS = """
entry loss [n] (k: i64) (w: [n]f64) (x: [n]f64) : f64 =
  f64.sum (loop x for _i < k do map2 (\\w x -> f64.sin (w * x) + 0.5 * x) w x)
"""
GROWING = """
entry loss [n] (k: i64) (w: [n]f64) (x: [n]f64) : f64 =
  let (x, v) = loop (x, v) = (x, map (* 0.1) x) while f64.sum v < f64.i64 (k * n) do
    let v = map3 (\\v x w -> 1.1 * v + 0.1 * f64.exp (-w * x * x)) v x w
    in (map2 (+) x (map f64.sin v), v)
  in f64.sum x + f64.sum v
"""
NEST = """
entry loss [n] (k: i64) (w: [n]f64) (x: [n]f64) : f64 =
  f64.sum (loop x for i < k do
    let y = loop y = x for _j < i % 5 do map2 (\\a b -> f64.sin (a * b)) w y
    in map2 (\\a b -> 0.9 * a + 0.1 * b * b) x y)
"""
APPENDED = """
entry loss [n] (k: i64) (x: [n]f64) : f64 =
  f64.sum (map (\\y -> y * y) (loop ys = x for _i < k do ys ++ map (\\y -> f64.sin y + 0.1) (take (length ys / 3) ys)))
"""
CHAINS = """
def draw (s: u64) : (u64, f64) =
  let s = s * 6364136223846793005 + 1442695040888963407
  in (s, f64.u64 (s >> 11) / 9007199254740992)
def chain [n] (steps: i64) (j: f64) (seed: u64) (x: [n]f64) : f64 =
  let (_, x, moved) = loop (s, x, moved) = (seed, copy x, 0) for _i < steps do
    let (s, a) = draw s
    let (s, b) = draw s
    let i = i64.f64 (a * f64.i64 n)
    let new = 0.95 * x[i] + b - 0.5
    let d = j * (new * new - x[i] * x[i]) * (1 + x[(i + 1) % n])
    in if b < f64.exp (-d) then (s, x with [i] = new, moved + d * d) else (s, x, moved)
  in moved + f64.sum (map (\\v -> v * v) x)
entry loss [m][n] (steps: i64) (j: f64) (seeds: [m]u64) (x: [m][n]f64) : f64 =
  f64.sum (map2 (chain steps j) seeds x)
entry one [n] (steps: i64) (j: f64) (seed: u64) (x: [n]f64) : f64 = chain steps j seed x
"""
LAYERS = """
entry loss [n][m] (k: i64) (w: [n][n]f64) (h: [m][n]f64) : f64 =
  let h = loop h for _i < k do map (\\r -> map (\\w -> f64.tanh (f64.sum (map2 (*) w r))) w) h
  in f64.sum (map (\\r -> f64.sum (map (\\y -> y * y) r)) h)
"""
IN_ROWS = """
entry loss [m][n] (k: i64) (xs: [m][n]f64) : f64 =
  f64.sum (map (\\x -> f64.sum (loop x for i < k do map (\\a -> f64.sin a + 0.1 * x[i % n]) x)) xs)
"""
# Of each program: where it is, the entry, the argument, its length, the budget, the others by the length.
Case = tuple[Any, str, int, int, dict[str, Any], Callable[[int, Any], list[Any]]]
CASES: dict[str, Case] = {
    "adaptive": (
        BENCHMARK_PROGRAMS / "adaptive.fut", "value", 2, 20_000, {"memory": "20MB"},
        lambda n, r: [103, 3.0, r.normal(size=n) / n**0.5],
    ),
    "leapfrog": (
        BENCHMARK_PROGRAMS / "leapfrog.fut", "loss", 3, 50_000, {"memory": "32MB"},
        lambda n, r: [100, 0.01, r.uniform(0.5, 2, n), r.normal(size=n), r.normal(size=n)],
    ),
    "steps": (STEPS, "loss", 2, 100_000, {"checkpoints": 9}, lambda n, r: [60, r.uniform(size=n), r.normal(size=n)]),
    "growing": (
        GROWING, "loss", 2, 50_000, {"checkpoints": 9}, lambda n, r: [40, r.uniform(size=n), r.uniform(size=n)],
    ),
    "appended": (APPENDED, "loss", 1, 20_000, {"memory": "50MB"}, lambda n, r: [12, r.normal(size=n)]),
    "nest": (
        NEST, "loss", 2, 50_000, {"memory": "16MB"}, lambda n, r: [60, r.uniform(size=n), r.normal(size=n)],
    ),
    "chains": (
        CHAINS, "loss", 3, 30_000, {"memory": "24MB"},
        lambda n, r: [20, 0.4, r.integers(1, 2**60, n).astype(np.uint64), r.normal(size=(n, 50))],
    ),
    # What was overwritten is kept, in memory that is larger than the gradient's, which is had there later.
    "chain": (
        CHAINS, "one", 3, 100_000, {"memory": "40MB"},
        lambda n, r: [200_000 if n > 2 else 3, 0.4, np.uint64(88172645463325252), r.normal(size=n)],
    ),
    # Factors of products are packed, in memory of the thread's.
    "layers": (
        LAYERS, "loss", 1, 300, {"checkpoints": 6},
        lambda n, r: [20, r.normal(size=(n, n)) / n**0.5, r.normal(size=(200, n))],
    ),
    "in rows": (IN_ROWS, "loss", 1, 2000, {"memory": "8MB"}, lambda n, r: [40, r.normal(size=(n, 300))]),
}  # fmt: skip
DERIVATIVES = ("grad", "hvp", "jvp of grad", "jacrev", "vjp of vjp")
FIRST = ("nest",)  # of which a vjp of a vjp takes long to compile
RESOLUTION = 500_000  # bytes: Python's own objects, tables, stacks
UNITS = {"bytes": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9}


def derivatives(case: str) -> tuple[str, ...]:
    """Those that are measured of a case."""
    few = {"appended": ("grad",), "chain": ("grad", "jacrev"), "layers": DERIVATIVES[:4]}
    return few.get(case, DERIVATIVES[:-1] if case in FIRST else DERIVATIVES)


def peak() -> int:
    """The largest memory of this process since it was last reset, in bytes."""
    return 1024 * int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])


def compiled(prog: futad.Program) -> Iterator[Any]:
    """The libraries of a program and of the derivatives that were taken of its entries."""
    derived = [d for f in prog.entries.values() for d in f.derivatives()]
    for u in {id(u): u for u in [f.executable for f in (*prog.entries.values(), *derived)]}.values():
        if u._executor is not None:
            yield getattr(u._executor, "compiled", u._executor)  # a library by itself, if it was kept


def taken(name: str, f: futad.Function, wrt: int, args: list[Any], ones: Any, options: dict[str, Any]) -> Any:
    """The derivative of that name, along `ones` or with that seed."""
    along = tuple(ones if i == wrt else None for i in range(len(args)))
    if name == "hvp":
        return futad.hvp(f, tuple(args), along, **options)
    if name == "jacrev":
        return futad.jacrev(f, wrt, **options)(*args)
    g = futad.grad(f, wrt, **options)
    if name == "jvp of grad":
        return futad.jvp(g, tuple(args), along)
    if name == "vjp of vjp":
        value, pull = futad.vjp(g, *args, **options)
        return value, pull(ones)
    return g(*args)


def arrays(x: Any) -> int:
    """Bytes of arrays in a result."""
    return sum(map(arrays, x)) if isinstance(x, tuple | list) else getattr(x, "nbytes", 0) if np.ndim(x) else 0


def figures(case: Case, name: str) -> tuple[int, int, str]:
    """By how many bytes the process grows in a call, what is printed with the result's, and the text."""
    source, entry, wrt, n, options, arguments = case
    prog = futad.load(source, backend="c") if isinstance(source, Path) else futad.compile(source, backend="c")
    rng = np.random.default_rng(1)
    small = [2, *arguments(2, rng)[1:]]
    taken(name, prog[entry], wrt, small, np.ones_like(small[wrt]), options)  # compiles
    if case is not CASES["steps"]:  # there memory that has grown once is reserved for more than is written
        for library in compiled(prog):
            library.forget()
    args = arguments(n, rng)
    ones = np.ones_like(args[wrt])
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = peak()
    result = taken(name, prog[entry], wrt, args, ones, options)
    growth, text = peak() - before, prog.explain_memory()
    printed = re.findall(r"(?:held|temporaries) ([\d.,]+) (bytes|kB|MB|GB)", text)
    copies = arrays(args) if name == "vjp of vjp" else 0  # of arguments, which what `vjp` returns has
    return growth, round(sum(float(x) * UNITS[unit] for x, unit in printed)) + arrays(result) + copies, text


@needs_cc
@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="no peak of memory to read")
@pytest.mark.parametrize("case", CASES)
def test_growth_is_what_is_printed(case: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.system.test_memory_prediction", case], capture_output=True, text=True, cwd=ROOT,
        env={**os.environ, "FUTAD_CFLAGS": "-O1", "OMP_NUM_THREADS": "1"}, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert [*found] == [*derivatives(case)]
    for name, (growth, printed, text) in found.items():
        assert growth > 4 * RESOLUTION, (name, growth)
        assert case != "appended" or growth < 50_000_000, "the states were copied together"
        assert "held" in text and "other temporaries" in text
        assert abs(printed - growth) <= max(0.1 * growth, RESOLUTION), (name, growth, printed, text)


if __name__ == "__main__":
    print(json.dumps({name: figures(CASES[sys.argv[1]], name) for name in derivatives(sys.argv[1])}))
