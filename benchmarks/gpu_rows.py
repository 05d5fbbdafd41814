"""The rows of the device suite: all benchmark programs with inputs, and what they are compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import memory_inputs as inputs
import numpy as np
from gpu_workloads import PROGRAMS, Workload, arguments, limit, workloads


@dataclass(frozen=True)
class Row:
    """A program's primal and derivative on one input, made by `args`; `text` is the program's if it is not its file's
    own (of another type), `more` are the derivative's further arguments.
    `tolerance`: how far an answer may be from that of the CPU, relative to its largest element; `workload` if other
    libraries compute it too."""

    name: str
    program: str
    primal: str
    derivative: str
    args: Callable[[], tuple[Any, ...]]
    more: tuple[Any, ...] = ()
    tolerance: float = 1e-9
    text: str | None = None
    workload: Workload | None = None

    def compiled(self) -> Any:
        """The program's core."""
        from futad.source import compile_text, load_program

        path = PROGRAMS / f"{self.program}.fut"
        return load_program(str(path)) if self.text is None else compile_text(self.text, path.name)


def rows(toy: bool) -> Iterator[Row]:
    """All rows, the paper's workloads first."""
    import cases

    for w in workloads(toy):
        made = partial(arguments, w)
        yield Row(w.label, w.program, "objective", "gradient", made, (), limit(w), w.source, w)
    ours = {w.program for w in workloads(toy)}
    last = {}  # the largest of each program and entry
    for make in cases.cases(toy, [n for _, n, _ in cases.SMALL if n not in ours]):
        case = make()
        last[case.program, case.objective] = case
    for case in last.values():
        name = f"{case.name} {case.size}"
        args = lambda case=case: case.args  # noqa: E731
        yield Row(name, case.program, case.objective, case.derivative, args, case.more, case.tolerance)
    yield from _others(toy)


def _others(toy: bool) -> Iterator[Row]:
    def neutrons(make: str, weights: int, lookups: int, *sizes: int) -> tuple[Any, ...]:
        from futad.datasets import make_neutrons

        return lookups, np.ones(weights), *getattr(make_neutrons, make)(1, *sizes)

    resonances = partial(neutrons, "resonances", 4, *((20, 7, 5, 2) if toy else (10_200_000,)))
    tables = partial(neutrons, "tables", 5, *((20, 6, 9) if toy else (17_000_000,)))
    yield Row("rsbench", "rsbench", "objective", "gradient", resonances, tolerance=1e-8)
    yield Row("xsbench", "xsbench", "objective", "gradient", tables, tolerance=1e-8)
    for program, objective, derivative, make, small, large, more in (
        ("leapfrog", "loss", "gradient", inputs.springs, (50, 20), (20_000, 1000), ()),
        ("adaptive", "value", "gradient", inputs.rotated, (7, 9), (53, 1_000_000), ()),
        ("forward", "squares_reverse", "squares_forward", lambda n: (np.linspace(-1, 1, n),), (9,), (1_000_000,), ()),
        ("bessel", "value", "gradient", lambda n: (2, np.linspace(0.5, 1.5, n)), (9,), (4000,), ()),
        ("sparse_dot", "value", "gradient", inputs.sparse_dot, (40,), (1000,), ()),
        ("sparse_mul", "value", "gradient", inputs.sparse_mul, (40,), (1000,), (np.ones((40 if toy else 1000, 2)),)),
        ("petersen", "losses", "gradients", inputs.embeddings, (3, 2), (10_000, 10), ()),
        ("realnvp", "loss", "gradient", inputs.flow, (2, 5), (16, 5000), ()),
        ("hypersgd", "loss", "gradient", inputs.training, (3, 4, 5), (100, 200, 2000), ()),
    ):
        yield Row(program, program, objective, derivative, partial(make, *(small if toy else large)), more)
    yield Row("hello", "hello", "square", "double", lambda: (3.0,))
    yield Row("particle", "particle", "ff", "rr", lambda: (0.0,), tolerance=1e-6)
    yield Row("saddle", "saddle", "ff", "rr", lambda: (np.array([1.0, 1.0]),), tolerance=1e-6)
