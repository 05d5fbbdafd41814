"""What a machine does at best on so many threads, measured by small kernels: multiply-adds a second in products of
matrices, calls a second of each function, bytes a second.

A ceiling has a name: "multiply-add f64" (the faster of futad's product and NumPy's), "exp f64" (a scalar operation of
the table in vector lanes as futad's C has it, on arrays in the nearest cache), "bytes N" (the faster of reading and
copying N bytes again and again, so that they come from the cache that holds them; N is a power of two).
"""

from __future__ import annotations

import ctypes
import functools
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import futad
from futad.backend.emit import c_type, unsigned
from futad.core.scalarops import OPS
from futad.core.types import prim
from futad.runtime.cc import build_library

SHORT = 512  # elements of the arrays that functions are called on
PRODUCT = 320  # rows and columns: a millisecond in which others seldom interrupt, long enough for BLAS
CALL = 0.002  # seconds for which kernels run at least: long beside the start of threads, short as rows are
PRODUCTS = """
entry product [n] (a: [n][n]{t}) (b: [n][n]{t}): [n][n]{t} =
  map (\\row -> map (\\column -> {t}.sum (map2 (*) row column)) (transpose b)) a
"""
MEMORY = """
#include "prelude.h"
void run(int64_t *z, const int64_t *x, int64_t n, int64_t times) {
  for (int64_t k = 0; k < times; k++) {
    int64_t s = 0;
#pragma omp simd reduction(^ : s)
    for (int64_t i = 0; i < n; i++) s ^= x[i];
    z[0] = s;
    __asm__ volatile("" ::: "memory");
  }
}
void copy(int64_t *z, const int64_t *x, int64_t n, int64_t times) {
  for (int64_t k = 0; k < times; k++) {
    memcpy(z, x, (size_t)n / 2 * 8);
    __asm__ volatile("" ::: "memory");
  }
}
"""
FUNCTION = """
#include "prelude.h"
void run({result} *restrict z, {params}, int64_t n, int64_t times) {{
  for (int64_t k = 0; k < times; k++) {{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) z[i] = {call};
    __asm__ volatile("" ::: "memory");
  }}
}}
"""


def of_bytes(count: int) -> str:
    """The ceiling of programs that read and write so many bytes: caches are no slower for less."""
    return f"bytes {1 << (count.bit_length() - 1)}"


class Ceilings:
    """Ceilings on so many threads: the best that was measured until now."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.pool = ThreadPoolExecutor(threads)
        self.best: dict[str, float] = {}
        self.kernels: dict[str, list[Callable[[], float]]] = {}

    def measure(self, names: Iterable[str], seconds: float) -> dict[str, float]:
        """All ceilings measured until now; those of these names again, for so long each."""
        # Products first: a library's threads spin for a while after a call, and what is timed next is another process.
        for name in sorted(names, key=lambda name: not name.startswith("multiply-add")):
            if name not in self.kernels:
                self.kernels[name] = self._kernels(name)
            for kernel in self.kernels[name]:
                end = time.monotonic() + seconds / len(self.kernels[name])
                while True:
                    self.best[name] = max(self.best.get(name, 0.0), kernel())
                    if time.monotonic() > end:
                        break
        return dict(self.best)

    def _kernels(self, name: str) -> list[Callable[[], float]]:
        """What measures a ceiling once: each gives so much a second."""
        what, _, of = name.partition(" ")
        if what == "multiply-add":
            return _products(of)
        if what == "bytes":
            lib = build_library(MEMORY)
            n = max(int(of) // 8 // self.threads, 16)
            arrays = [[np.ones(n, np.int64), np.ones(n, np.int64)] for _ in range(self.threads)]
            return [functools.partial(self._at_once, f, arrays, n, 8 * n) for f in (lib.run, lib.copy)]
        record, t = OPS[what], prim(of)
        types = record.arg_types(t)
        r = np.random.default_rng(1)
        made = [[np.empty(SHORT, record.result_type(types).dtype), *[r.uniform(0.1, 0.9, SHORT).astype(p.dtype)
                 for p in types]] for _ in range(self.threads)]  # fmt: skip
        names = [f"x{i}" for i in range(len(types))]
        result = c_type(record.result_type(types))
        call = record.c_template(t).format(*[f"{x}[i]" for x in names], t=c_type(t), u=unsigned(t), T=t.name, r=result)
        params = ", ".join(f"const {c_type(p)} *restrict {x}" for p, x in zip(types, names, strict=True))
        f = build_library(FUNCTION.format(result=result, params=params, call=call)).run
        return [functools.partial(self._at_once, f, made, SHORT, SHORT)]

    def _at_once(self, f: Any, arrays: list[list[Any]], n: int, amount: int, times: int = 1) -> float:
        """`amount` a second and thread, of all threads together: a kernel on the arrays of each, `n` elements long."""

        def run(own: list[Any]) -> None:
            f(*[ctypes.c_void_p(a.ctypes.data) for a in own], ctypes.c_int64(n), ctypes.c_int64(times))

        while True:
            start = time.perf_counter()
            list(self.pool.map(run, arrays))
            took = time.perf_counter() - start
            if took >= CALL:
                return amount * times * self.threads / took
            times *= 2 if took > CALL / 4 else 8


def _products(t: str) -> list[Callable[[], float]]:
    product = futad.compile(PRODUCTS.format(t=t), backend="multicore").product
    a = np.random.default_rng(1).random((PRODUCT, PRODUCT)).astype(prim(t).dtype)
    out = np.empty_like(a)

    def measured(call: Callable[[], Any]) -> float:
        start = time.perf_counter()
        call()
        return PRODUCT**3 / (time.perf_counter() - start)

    ours, numpys = (lambda: product(a, a)), (lambda: np.matmul(a, a, out=out))
    return [functools.partial(measured, ours), functools.partial(measured, numpys)]


__all__ = ["Ceilings", "of_bytes"]
