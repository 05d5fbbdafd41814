"""What gradients keep: processor time and growth of memory against the budget.

    python benchmarks/memory.py adaptive [--peer equinox]     section 6 of Siskind and Pearlmutter, OMS 33, 2018, and
                                                              their splits and limits against theory
    python benchmarks/memory.py leapfrog --iterations 20000   springs, run backwards
    python benchmarks/memory.py seeds [--only NAME...]        the applications of two papers, beside their figures
    python benchmarks/memory.py plot                          time and memory against the budget, docs/memory.svg

With `--json FILE` the figures go into a file, too.  A figure is of one call in a process of its own, after a small call
of the same function: the growth of the process's peak (VmHWM, reset by /proc/self/clear_refs; Linux only), and the
least processor time of `--runs` processes.  Exit status 1 if a bar is missed.  A bar on time is a ratio to the gradient
without a budget in the same run.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from memory_figures import PROGRAMS, Bar, differing, in_process, measure, needed, one_call, relative
from memory_inputs import rotated, springs
from memory_variants import variants

LENGTHS = (53, 103, 203, 403, 803, 1603, 3203)
SIZE = 1000
# What is kept in all, and how much of the time without a budget it may take.
BARS = {10: 3.0, 64: 1.8, 201: 1.2}
MOST_GROWTH = 512  # kB, from the shortest to the longest
MOST_ERROR = 1e-7
MOST_OF_PEER = 0.2
LEAPFROG_GROWTH, LEAPFROG_TIME, LEAPFROG_ERROR = 256, 0.6, 1e-9
Rows = list[dict[str, Any]]


def gradient_of(workload: str, length: int, options: dict[str, Any]) -> dict[str, Any]:
    """The figures of a gradient, in this process."""
    import futad

    prog = futad.load(str(PROGRAMS / f"{workload}.fut"), backend="c", **options)
    *_, x = args = {"adaptive": rotated, "leapfrog": springs}[workload](length, SIZE)
    out = one_call(lambda n: made if type(made := prog.gradient(n, *args[1:])) is tuple else (made,), 7, length)
    if workload == "adaptive":
        out["error"] = relative(out.pop("results"), [x])
    out["told"] = prog.explain_memory()
    out |= {n: m.most[n] for m in prog._executable.measured() for n in ("predicted", "held") if n in m.most}
    return out


def row_of(length: int, states: int | None, who: str, found: dict[str, Any]) -> dict[str, Any]:
    """A row of the nest's table, printed."""
    figures = f"{found['seconds']:8.3f} {found['kB']:>10,} {found['error']:9.1e}"
    print(f"{length:>5} {'all' if states is None else states:>7} {figures}  {who}", flush=True)
    return {"l": length, "states": states, "who": who, **found}


def adaptive(runs: int, lengths: Sequence[int] = LENGTHS, peer: bool = False) -> tuple[Rows, list[Bar]]:
    """The rows, and the bars on them."""
    rows: Rows = []
    print(f"{'l':>5} {'states':>7} {'CPU s':>8} {'growth kB':>10} {'error':>9}")
    for length in lengths:
        for states in (None, *BARS):
            options = {} if states is None else {"checkpoints": states - 1}
            rows.append(row_of(length, states, "futad", measure("adaptive", length, options, runs)))
    last = {r["states"]: r for r in rows if r["l"] == lengths[-1]}
    bars = [Bar(f"time with {s} states over that without a budget", last[s]["seconds"] / last[None]["seconds"], most)
            for s, most in BARS.items()]  # fmt: skip
    ten = [r["kB"] for r in rows if r["states"] == 10]
    bars.append(Bar(f"kB that memory grows by from l = {lengths[0]} to {lengths[-1]} with 10 states",
                    max(ten) - ten[0], MOST_GROWTH))  # fmt: skip
    bars.append(Bar("largest relative error", max(r["error"] for r in rows), MOST_ERROR))
    if peer:
        for states in BARS:
            found = []
            for form in ("flat", "nested"):
                figures = in_process("equinox", form, lengths[-1], states, what=f"{form}, {states} states")
                found.append(row_of(lengths[-1], states, f"equinox, {form}", figures))
            rows += found
            least = min(r["seconds"] for r in found)
            bars.append(Bar(f"time with {states} states over equinox's", last[states]["seconds"] / least, MOST_OF_PEER))
            bars.append(Bar(f"equinox's error with {states} states", max(r["error"] for r in found), MOST_ERROR))
    more, judged = variants()
    return rows + more, bars + judged


def leapfrog(iterations: int, runs: int, plain: bool, tolerance: float | None = None) -> tuple[Rows, list[Bar]]:
    """The rows, and the bars on them; without `plain` only what needs no comparison."""
    found = {"undone": measure("leapfrog", iterations, {"reversible": tolerance or True}, runs)}
    if plain:
        found["exact"] = measure("leapfrog", iterations, {"reversible": "exact"}, runs)
        found["kept"] = measure("leapfrog", iterations, {}, runs)
    for name, row in found.items():
        print(f"{iterations:>9,} iterations, {name}: {row['seconds']:.3f} CPU s, {row['kB']:,} kB more")
    undone = found["undone"]
    bars = [Bar("kB that memory grows by", undone["kB"], LEAPFROG_GROWTH)]
    if plain:
        kept = found["kept"]
        bars.append(Bar("time over that of what is kept", undone["seconds"] / kept["seconds"], LEAPFROG_TIME))
        exact = differing(found["exact"]["results"], kept["results"])
        bars.append(Bar("values of the exact mode that differ in some bit", exact, 0))
        bars.append(Bar("memory of the exact mode over that of what is kept", found["exact"]["kB"] / kept["kB"], 0.25))
        bars.append(Bar("largest relative difference", relative(undone["results"], kept["results"]), LEAPFROG_ERROR))
    rows = [{"iterations": iterations, "way": k, **{n: v for n, v in r.items() if n != "results"}}
            for k, r in found.items()]  # fmt: skip
    return rows, bars


def worker(workload: str, args: Sequence[Any]) -> Any:
    """What a process of its own finds out."""
    if workload == "equinox":
        from memory_equinox import gradient_by_equinox

        return gradient_by_equinox(*args)
    if workload == "seeds":
        from memory_seeds import measured

        return measured(*args)
    return gradient_of(workload, *args)


def main() -> int:
    parser = argparse.ArgumentParser(description="what gradients keep, in time and memory")
    parser.add_argument("workload", choices=["adaptive", "leapfrog", "seeds", "plot", "equinox"],
                        metavar="adaptive|leapfrog|seeds|plot")  # fmt: skip
    parser.add_argument("--peer", choices=["equinox"], help="adaptive: beside its checkpointed loop")
    parser.add_argument("--iterations", type=int, default=20_000, help="of leapfrog")
    parser.add_argument("--tolerance", type=float, help="of leapfrog: how near its states have to come back")
    parser.add_argument("--no-plain", action="store_true", help="leapfrog: leave out the gradient that keeps all")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="seeds: these applications")
    parser.add_argument("--small", action="store_true", help="seeds: small inputs, seconds altogether")
    parser.add_argument("--runs", type=int, default=3, help="processes a figure")
    parser.add_argument("--out", help="plot: the file (default: docs/memory.svg)")
    parser.add_argument("--json", help="a file for the figures")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        print(json.dumps(worker(args.workload, json.loads(args.worker))))
        return 0
    if not Path("/proc/self/clear_refs").exists():
        raise SystemExit("the peak of memory is read from /proc, which this system does not have")
    if args.peer:
        needed("equinox", "equinox jax (https://github.com/patrick-kidger/equinox)")
    commands: dict[str, Callable[[], tuple[Rows, list[Bar]]]] = {
        "adaptive": lambda: adaptive(args.runs, peer=args.peer is not None),
        "leapfrog": lambda: leapfrog(args.iterations, args.runs, not args.no_plain, args.tolerance),
    }
    if args.workload == "seeds":
        from memory_seeds import seeds

        commands["seeds"] = lambda: seeds(args.only, args.small)
    elif args.workload == "plot":
        needed("matplotlib", "matplotlib")
        from memory_plot import plot

        commands["plot"] = lambda: plot(args.out, args.runs)
    rows, bars = commands[args.workload]()
    print("\n".join(map(str, bars)))
    if args.json:
        verdicts = [{"what": b.what, "value": b.value, "most": b.most, "holds": b.holds} for b in bars]
        Path(args.json).write_text(json.dumps({"rows": rows, "bars": verdicts}, indent=1) + "\n")
    return 0 if all(b.holds for b in bars) else 1


if __name__ == "__main__":
    sys.exit(main())
