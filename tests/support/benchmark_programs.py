"""Benchmark programs, compiled once for all tests of a process."""

from __future__ import annotations

import functools

import futad
from tests.support.paths import BENCHMARK_PROGRAMS


@functools.cache
def program(name: str, backend: str) -> futad.Program:
    """The program of that name; with `64` after it, the one with every f32 an f64."""
    if name.endswith("64"):
        source = (BENCHMARK_PROGRAMS / f"{name[:-2]}.fut").read_text().replace("f32", "f64")
        return futad.compile(source, name=name, backend=backend)
    return futad.load(BENCHMARK_PROGRAMS / f"{name}.fut", backend=backend)
