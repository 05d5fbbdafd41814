"""Gradients by forward mode in time linear in the number of arguments.

    python benchmarks/forward.py [--quick] [--only CASE...] [--json OUT] [--plot OUT.svg]

A gradient by n forward passes (`programs/forward.fut`) with the pass `one-hot` and without it, dual numbers written by
hand, and reverse mode, on `c` with one thread, by processor time: the best of several calls.  For the sum this is
Figure 3 of "Using Rewrite Strategies for Efficient Functional Automatic Differentiation".  --quick leaves out
the largest sizes without the pass, which take minutes.

Answers are compared with reverse mode's.  Exit status 1 if one is wrong, if a slope of log time over log n is more than
1.15 with the pass or less than 1.8 without it, or if a gradient of a sum takes more than 0.3 ms at n = 50000.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from futad import strategies
from futad.backend.c import CBackend
from futad.core.ir import Program
from futad.pipeline import compile_program
from futad.source import load_program
from futad.target import C

SOURCE = Path(__file__).parent / "programs" / "forward.fut"
SIZES = (2500, 5000, 10000, 20000, 30000, 40000, 50000)
SMALL = (1250, 2500, 5000)  # of those that compute more than a sum, without the pass
LINEAR, QUADRATIC, MOST = 1.15, 1.8, 0.3  # slopes; ms
ROWS, DATA = 4, 4  # of the matrix; data for each weight

Values = list[Any]


def vector(n: int) -> Values:
    """n, and that many numbers."""
    return [np.int64(n), np.random.default_rng(n).uniform(-1, 1, n)]


def two(n: int) -> Values:
    """n, and two arrays of that many numbers."""
    return [*vector(n), np.random.default_rng(n + 1).uniform(-1, 1, n)]


def binned(n: int) -> Values:
    """Sizes, bins and values of data, n weights."""
    rng = np.random.default_rng(n)
    m = DATA * n
    return [np.int64(m), np.int64(n), rng.integers(0, n, m), rng.uniform(-1, 1, m), rng.uniform(-1, 1, n)]


def matrix(n: int) -> Values:
    """Sizes, a matrix of few rows, a vector."""
    rng = np.random.default_rng(n)
    return [np.int64(ROWS), np.int64(n), rng.uniform(-1, 1, (ROWS, n)), rng.uniform(-1, 1, n)]


CASES: dict[str, Callable[[int], Values]] = {
    "sum": vector, "dot": two, "squares": vector, "exp_sin": vector, "lse": vector, "banded": vector, "loop": vector,
    "histogram": binned, "columns": matrix,
}  # fmt: skip


def seconds(run: Callable[[], object], budget: float = 0.25, calls: int = 9) -> float:
    """Processor time of a call: the least of several, as many as the budget allows, two at least."""
    best, spent, k = np.inf, 0.0, 0
    while k < 2 or k < calls and spent < budget:
        start = time.process_time()
        run()
        took = time.process_time() - start
        best, spent, k = min(best, took), spent + took, k + 1
    return float(best)


def slope(sizes: Sequence[int], times: Sequence[float]) -> float:
    """Of log time over log size, by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def compiled(program: Program, rules: bool) -> CBackend:
    """The program for `c`, with the pass or without."""
    schedule = strategies.default() if rules else strategies.default().without("one-hot")
    return CBackend(compile_program(program, target=C, schedule=schedule))


class Figure:
    """Times of one case, with what is wrong of it."""

    def __init__(self, case: str, with_pass: CBackend, without: CBackend, quick: bool) -> None:
        self.case = case
        whole = SIZES if case == "sum" and not quick else SMALL
        kinds = [("with", with_pass, f"{case}_forward", SIZES), ("without", without, f"{case}_forward", whole)]
        kinds.append(("reverse", with_pass, f"{case}_reverse", SIZES))
        if case == "sum":
            kinds.append(("duals", with_pass, "sum_duals", SIZES))
        self.times: dict[str, dict[int, float]] = {}
        self.wrong: list[str] = []
        for kind, backend, entry, sizes in kinds:
            self.times[kind] = {}
            for n in sizes:
                args = CASES[case](n)
                self.times[kind][n] = seconds(lambda e=entry, b=backend, a=args: b.run(e, a))  # type: ignore[misc]
                got, expected = backend.run(entry, args)[0], with_pass.run(f"{case}_reverse", args)[0]
                if not np.allclose(got, expected, rtol=1e-9, atol=1e-12):
                    self.wrong.append(f"{case}, {kind}: the answer for n = {n} is not reverse mode's")
        self.slopes = {kind: slope(list(t), list(t.values())) for kind, t in self.times.items()}
        for kind in ("with", "duals"):
            if self.slopes.get(kind, 0) > LINEAR:
                self.wrong.append(f"{case}, {kind}: slope {self.slopes[kind]:.2f}, at most {LINEAR}")
        if self.slopes["without"] < QUADRATIC:
            self.wrong.append(f"{case}, without: slope {self.slopes['without']:.2f}, at least {QUADRATIC}")
        if case == "sum" and self.times["with"][SIZES[-1]] > MOST / 1e3:
            self.wrong.append(f"{case}: {self.times['with'][SIZES[-1]] * 1e3:.2f} ms, at most {MOST}")

    def __str__(self) -> str:
        lines = []
        for kind, times in self.times.items():
            cells = " ".join(f"{times[n] * 1e3:10.3f}" if n in times else f"{'':10}" for n in (*SMALL[:1], *SIZES))
            lines.append(f"{self.case:10} {kind:8} {cells}   slope {self.slopes[kind]:5.2f}")
        return "\n".join(lines)


def plot(figures: Sequence[Figure], out: str) -> None:
    """The times over n, a panel for each case."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    _, panels = plt.subplots(1, len(figures), figsize=(4 * len(figures), 3.5), squeeze=False)
    for figure, panel in zip(figures, panels[0], strict=True):
        for kind, times in figure.times.items():
            panel.loglog(list(times), [t * 1e3 for t in times.values()], marker=".", label=kind)
        panel.set(title=figure.case, xlabel="n", ylabel="ms")
        panel.legend()
    plt.tight_layout()
    plt.savefig(out)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="no large sizes without the pass")
    parser.add_argument("--only", nargs="*", metavar="CASE", choices=list(CASES), help="some cases")
    parser.add_argument("--json", metavar="OUT", help="write the times there")
    parser.add_argument("--plot", metavar="OUT", help="draw them there (needs matplotlib)")
    args = parser.parse_args(argv)
    program = load_program(SOURCE)
    backends = compiled(program, True), compiled(program, False)
    print(f"{'ms, n =':19} " + " ".join(f"{n:10}" for n in (*SMALL[:1], *SIZES)))
    figures = []
    for case in args.only or CASES:
        figures.append(Figure(case, *backends, args.quick))
        print(figures[-1], flush=True)
    if args.json:
        Path(args.json).write_text(json.dumps({f.case: {"ms": f.times, "slopes": f.slopes} for f in figures}))
    if args.plot:
        plot(figures, args.plot)
    wrong = [w for f in figures for w in f.wrong]
    for w in wrong:
        print(w)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
