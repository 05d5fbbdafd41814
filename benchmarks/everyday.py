"""Programs as a newcomer writes them from a textbook (`textbook/*.fut`), none tuned, beside JAX (jitted) and PyTorch
(`torch.compile`, where it does not unroll long loops): value, value with gradient, the time from `import` to the first
gradient in a fresh process with empty caches (Python's own bytecode is there, as it is for installed packages) and to
the hundredth one in a loop, and the memory that a gradient takes.  Values and gradients are timed when futad's full
build is there.
Values and gradients stand beside the machine's bound, too: the least time for the operations that they need, at the
ceilings that small kernels reach in the same run (`bound.py`, `ceilings.py`).

    python benchmarks/everyday.py [--only NAME...] [--size S] [--threads N] [--rounds N] [--json OUT] [--chart OUT]
    python benchmarks/everyday.py --peers venv/bin/python       where JAX and PyTorch are, if not here
    python benchmarks/everyday.py --systems futad --compilers clang "python -m ziglang cc"      beside gcc

The systems of a row run in turn, each in a process of its own; a ratio is that of medians over the rounds of one run,
wall time.  Answers are compared before anything is timed.  Exit status 1 if one is wrong; what falls short of being
the fastest is printed as such, and fails nothing.
"""

from __future__ import annotations

import argparse
import compileall
import ctypes
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TEXTBOOK = HERE / "textbook"
SYSTEMS = ("futad", "jax", "torch")
ROUND = 0.3  # seconds for each system's calls in a round
MACHINE = "machine"  # what counts operations and measures ceilings
SHORT_ROUND = 0.1  # seconds for each ceiling in a round
FREED = 0.3  # seconds within which threads of JAX free what a call took: some do so after it has returned
AFRESH = 100  # gradients that a fresh process takes in a loop
WITH_JAX = ("first", "hundred", "memory")  # what is compared with JAX alone
KEEPING = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40), "MALLOC_ARENA_MAX": "1"}  # see `growth`
SLOWER = 1.25  # a C compiler's time, as a part of the default one's, that is worth a look


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these rows")
    parser.add_argument("--systems", nargs="+", default=SYSTEMS, choices=SYSTEMS, help="beside futad")
    parser.add_argument("--size", type=float, default=1.0, metavar="S", help="a part of each size, for a quick look")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1), metavar="N")
    parser.add_argument("--rounds", type=int, default=5, metavar="N")
    parser.add_argument("--backend", default="auto", help="of futad")
    parser.add_argument("--peers", default=sys.executable, metavar="PYTHON", help="an interpreter with JAX and PyTorch")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the measurements here")
    parser.add_argument("--chart", type=Path, metavar="OUT", help="draw them here (needs matplotlib)")
    parser.add_argument("--compilers", nargs="+", default=(), metavar="CC", help="futad with these C compilers too")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--memory", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sys.path.insert(0, str(TEXTBOOK))
    if not options.worker:
        compileall.compile_dir(HERE.parent / "futad", quiet=2)  # as the peers', when packages are installed
    if options.worker:
        return (remember if options.memory else work)(*options.worker, options.size, options.backend)
    with tempfile.TemporaryDirectory() as options.kernels:
        return compare(parser, options)


def compare(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    """All rows, and what follows from them."""
    from inputs import ROWS

    unknown = [name for name in options.only or () if name not in ROWS]
    if unknown:
        parser.error(f"--only: no row is called {unknown[0]}; there are {', '.join(ROWS)}")
    rows = []
    print(f"{'row':20} {'what':9} milliseconds (median), and how many times as fast futad is")
    for name in options.only or ROWS:
        rows.append(one_row(name, options))
        show(rows[-1])
    summary(rows, options.compilers)
    record = {"threads": options.threads, "size": options.size, "rounds": options.rounds, "rows": rows}
    if options.json:
        options.json.write_text(json.dumps(record, indent=1) + "\n")
    if options.chart:
        chart(rows, options.chart)
    return 1 if any(row["wrong"] for row in rows) else 0


# --- a row ------------------------------------------------------------------------------------------------------------


class Worker:
    """A system in a process of its own, which has taken its first gradient.  One that is no peer is a C compiler's
    command: futad with that.  `MACHINE` has counted operations."""

    def __init__(self, system: str, row: str, options: argparse.Namespace, folder: Path, memory: bool = False) -> None:
        variables = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
        environment = os.environ | dict.fromkeys(variables, str(options.threads))
        environment |= dict.fromkeys(("FUTAD_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR"), str(folder))
        environment |= KEEPING if memory else {}
        if system not in (*SYSTEMS, MACHINE):
            environment["FUTAD_CC"], system = system, "futad"
        python = options.peers if system in SYSTEMS[1:] else sys.executable
        command = [python, __file__, "--worker", system, row, "--size", str(options.size), "--backend", options.backend]
        command += ["--memory"] if memory else []
        cpus = sorted(os.sched_getaffinity(0))[: options.threads]
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True, env=environment,
            preexec_fn=lambda: os.sched_setaffinity(0, cpus),
        )  # fmt: skip
        self.first = self.answer()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            self.errors.seek(0)
            return {"failed": ([*self.errors.read().strip().splitlines()] or ["it ended"])[-1]}
        return json.loads(line)

    def ask(self, what: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self) -> None:
        self.process.communicate()
        self.errors.close()


def one_row(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """All systems on one program."""
    from inputs import ROWS

    systems: dict[str, dict[str, Any]] = {}
    workers: dict[str, Worker] = {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # of a system that failed
        every = dict.fromkeys(("futad", *options.compilers, *options.systems))
        for number, system in enumerate(every):  # one after the other: a first gradient is timed
            cache = Path(folder) / str(number)
            cache.mkdir(mode=0o700)
            worker = Worker(system, name, options, cache)
            systems[system] = worker.first
            if "failed" in worker.first:
                continue
            workers[system] = worker
            worker.ask("settle")
            again = Worker(system, name, options, cache, memory=True)
            worker.first |= again.first
            again.close()
        machine = Worker(MACHINE, name, options, Path(options.kernels))
        for what in ("value", "gradient"):
            times: dict[str, list[float]] = {system: [] for system in workers}
            for _ in range(options.rounds):
                for system, worker in workers.items():
                    times[system].append(worker.ask(what)["seconds"])
                if "failed" not in machine.first:
                    machine.first = machine.ask("measure")
            for system, seconds in times.items():
                systems[system][what] = statistics.median(seconds)
        for worker in (*workers.values(), machine):
            worker.close()
    dense = ROWS[name].dense
    return {"row": name, "dense": dense, "systems": systems, "bound": machine.first, "wrong": disagreement(systems)}


def disagreement(systems: dict[str, dict[str, Any]]) -> str:
    """The system that differs from another one, if any: by the value and the norms of the gradient's parts."""
    ours = systems["futad"]
    for system, found in systems.items():
        if "failed" in found:
            if system in SYSTEMS[1:]:
                continue
            return f"{system}: {found['failed']}"
        for a, b in zip(ours["answer"], found["answer"], strict=True):
            if not math.isclose(a, b, rel_tol=ours["tolerance"], abs_tol=ours["tolerance"]):
                return f"{system} has {b!r} where futad has {a!r}"
    return ""


# --- in a process of its own ------------------------------------------------------------------------------------------


def work(system: str, name: str, size: float, backend: str) -> int:
    """A first gradient and those after it, then what is asked for on stdin: 'settle' (until builds in the background
    are done), 'value' or 'gradient'."""
    import numpy as np
    from inputs import ROWS, arguments

    row, args = ROWS[name], arguments(name, size)
    if system == MACHINE:
        return bounds(name, row.wrt, args, backend)
    start = time.monotonic()
    value, gradient = CALLS[system](name, row.wrt, args, backend)
    result, parts = gradient()
    first = time.monotonic() - start
    hundred = {}
    if system != "torch":  # which takes minutes where it does not compile
        for _ in range(AFRESH - 1):
            gradient()
        hundred["hundred"] = time.monotonic() - start
    arrays = [np.asarray(p, np.float64) for p in parts]
    single = any(getattr(a, "dtype", None) == np.float32 for a in args)
    answer = [float(result), *[float(np.sqrt((a * a).sum())) for a in arrays]]
    reply(first=first, answer=answer, tolerance=1e-3 if single else 1e-7, **hundred)
    for line in sys.stdin:
        if line.strip() == "settle":
            for f in settled:
                f.executable.executor()
            reply()
            continue
        call = value if line.strip() == "value" else gradient
        call()
        reply(seconds=repeated(call))
    return 0


def bounds(name: str, wrt: int, args: tuple[Any, ...], backend: str) -> int:
    """The bounds of a value and of a gradient, each time that they are asked for by better ceilings."""
    import bound
    from ceilings import Ceilings

    import futad
    from futad.target import target_of

    target = target_of("multicore" if backend == "auto" else backend)
    entry = futad.load(TEXTBOOK / f"{name}.fut", backend=backend).value
    both = futad.value_and_grad(entry, argnums=tuple(range(wrt)))
    value, gradient = bound.needs(entry, both, range(wrt), args, target)
    ceilings, names = Ceilings(target.threads), set().union(*[n.ceilings for n in (value, *gradient)])
    reply()
    for _ in sys.stdin:
        found = ceilings.measure(names, SHORT_ROUND)
        reply(value=bound.least([value], found), gradient=bound.least(gradient, found))
    return 0


def remember(system: str, name: str, size: float, backend: str) -> int:
    """The bytes that a gradient takes beyond its arguments, and the processor time of the first one with a warm cache.

    futad keeps its memory for the next call: with it the first call counts, after one with small arrays, which has
    loaded the program.  The others give theirs back, but have compiled in the first call: the third one counts."""
    from inputs import ROWS, arguments

    wrt, args, small = ROWS[name].wrt, arguments(name, size), arguments(name, 0.01)
    cpu = processor_time()
    if system == "futad":
        _, gradient = _entries(name, wrt, backend)
        gradient(*small)
        cpu = processor_time() - cpu
        both = partial(gradient, *args)
    else:
        both = CALLS[system](name, wrt, args, backend)[1]
        both()
        cpu = processor_time() - cpu
        both()
    reply(again_cpu=cpu, memory=growth(both))
    return 0


def reply(**figures: Any) -> None:
    print(json.dumps(figures), flush=True)


def repeated(call: Callable[[], Any]) -> float:
    """Seconds a call, the best of as many as a round has time for."""
    best, end = math.inf, time.monotonic() + ROUND
    while True:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
        if time.monotonic() > end:
            return best


def processor_time() -> float:
    """Seconds of the process and of those it has started and waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def growth(call: Callable[[], Any]) -> int:
    """Bytes of its own that the process has after a call and had not before: the most that there were in it.  The
    allocator has given back what was free before, and keeps what the call frees (`KEEPING`), so that the pages are
    counted one by one when it is over.  (The largest resident set that Linux tells is the truth less what each
    processor has not reported yet, up to 128 KiB, where memory is given back before somebody asks.)  Code and tables
    read from files are others' too, and not counted: the systems whose third call counts have read them by then."""

    def own() -> int:
        lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
        return next(int(x.split()[1]) << 10 for x in lines if x.startswith("Anonymous:"))

    time.sleep(FREED)
    ctypes.CDLL(None).malloc_trim(0)
    before = own()
    result = call()
    after = own()
    del result
    return max(0, after - before)


def _futad(name: str, wrt: int, args: tuple[Any, ...], backend: str) -> tuple[Any, Any]:
    entry, both = _entries(name, wrt, backend)
    settled.extend((entry, both))
    return lambda: entry(*args), lambda: both(*args)


def _entries(name: str, wrt: int, backend: str) -> tuple[Any, Any]:
    """The value and the value with its gradient."""
    import futad

    entry = futad.load(TEXTBOOK / f"{name}.fut", backend=backend).value
    return entry, futad.value_and_grad(entry, argnums=tuple(range(wrt)))


settled: list[Any] = []  # futad's functions, whose full builds are waited for before they are timed


def _jax(name: str, wrt: int, args: tuple[Any, ...], backend: str) -> tuple[Any, Any]:
    import in_jax

    return in_jax.calls(name, wrt, args)


def _torch(name: str, wrt: int, args: tuple[Any, ...], backend: str) -> tuple[Any, Any]:
    import in_torch

    return in_torch.calls(name, wrt, args)


CALLS = {"futad": _futad, "jax": _jax, "torch": _torch}


# --- printing ---------------------------------------------------------------------------------------------------------

WHAT = {"value": 1e3, "gradient": 1e3, "first": 1e3, "hundred": 1e3, "memory": 1e-6}


def ratio(row: dict[str, Any], what: str, rivals: tuple[str, ...] = SYSTEMS[1:]) -> float | None:
    """By how much futad needs less than the best of the others; None without any."""
    systems = row["systems"]
    best = min((systems[s][what] for s in rivals if what in systems.get(s, {})), default=None)
    if best is None or what not in systems["futad"]:
        return None
    floor = 1 << 18 if what == "memory" else 0  # pages: less is nothing
    return max(best, floor) / max(systems["futad"][what], floor)


def share(row: dict[str, Any], what: str) -> float | None:
    """Of the machine's bound: the least time over futad's; None if it is not known."""
    took = row["systems"]["futad"].get(what)
    return row["bound"][what]["seconds"] / took if took and what in row["bound"] else None


def limited(bound: dict[str, Any]) -> str:
    """What takes the most of the least time."""
    parts = bound["parts"]
    if max(parts["copying"], parts["divisions"]) >= parts["products"] + parts["functions"]:
        return max(("copying", "divisions"), key=lambda part: parts[part])
    return max(("products", "functions"), key=lambda part: parts[part])


def show(row: dict[str, Any]) -> None:
    for what, unit in WHAT.items():
        against = SYSTEMS[1:2] if what in WITH_JAX else SYSTEMS[1:]
        times = [f"{s} {unit * found[what]:.3f}" for s, found in row["systems"].items() if what in found]
        by = ratio(row, what, against)
        text = "" if by is None else f"  {by:.2f}{'' if by >= 1 else ' BEHIND'}"
        if (part := share(row, what)) is not None:
            text += f"  {part:.0%} of the bound ({limited(row['bound'][what])})"
        name = f"{what} MB" if what == "memory" else what
        print(f"{row['row']:20} {name:9} {'  '.join(times)}{text}", flush=True)
    for system, found in row["systems"].items():
        if "failed" in found:
            print(f"{row['row']:20} {system} has no figures: {found['failed']}")
    if "failed" in row["bound"]:
        print(f"{row['row']:20} the bound is not known: {row['bound']['failed']}")
    if row["wrong"]:
        print(f"{row['row']:20} WRONG: {row['wrong']}")


def summary(rows: list[dict[str, Any]], compilers: Sequence[str] = ()) -> None:
    for compiler in compilers:
        for what in ("value", "gradient", "first", "hundred"):
            both = [r["systems"] for r in rows if what in r["systems"]["futad"] and what in r["systems"][compiler]]
            found = [s[compiler][what] / s["futad"][what] for s in both]
            if found:
                mean, slower = math.exp(statistics.fmean(map(math.log, found))), sum(x > SLOWER for x in found)
                text = f"geometric mean {mean:.2f} of the default compiler's time, {max(found):.2f} at most"
                print(f"{compiler}: {what}: {text}; above {SLOWER} in {slower} of {len(found)} rows")
    for what in WHAT:
        against = SYSTEMS[1:2] if what in WITH_JAX else SYSTEMS[1:]
        found = [x for row in rows if (x := ratio(row, what, against)) is not None]
        if found:
            mean = math.exp(statistics.fmean(map(math.log, found)))
            behind = sum(x < 1 for x in found)
            best = "JAX" if len(against) == 1 else "the better of JAX and PyTorch"
            print(f"{what}: geometric mean {mean:.2f} of {best}; behind in {behind} of {len(found)} rows")
    from figures import QUARTER

    for what in ("value", "gradient"):
        found = {row["row"]: part for row in rows if row["dense"] and (part := share(row, what)) is not None}
        if found:
            under = ", ".join(f"{name} {part:.0%}" for name, part in found.items() if part < QUARTER)
            text = f"{statistics.median(found.values()):.0%} of the bound (median of {len(found)} dense regular rows)"
            print(f"{what}: {text}; under a quarter: {under or 'none'}")
    again = [row["systems"]["futad"]["again_cpu"] for row in rows if "again_cpu" in row["systems"]["futad"]]
    if again:
        print(f"first gradient, warm cache: {statistics.median(again):.2f} s of CPU (median), {max(again):.2f} at most")


def chart(rows: list[dict[str, Any]], out: Path) -> None:
    """Bars of how many times as fast futad is, on a logarithmic scale."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot as plt

    shown = sorted([r for r in rows if ratio(r, "gradient") is not None], key=lambda r: ratio(r, "gradient") or 0)
    figure, axes = plt.subplots(figsize=(7, 0.28 * len(shown) + 1), layout="constrained")
    for at, what, colour in ((0.2, "gradient", "#1b6ca8"), (-0.2, "value", "#9fc5e0")):
        widths = [ratio(r, what) or 1 for r in shown]
        axes.barh([i + at for i in range(len(shown))], [w - 1 for w in widths], 0.38, left=1, color=colour, label=what)
    axes.set_yticks(range(len(shown)), [r["row"].replace("_", " ") for r in shown])
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel("times as fast as the better of JAX and PyTorch")
    axes.legend(loc="lower right")
    figure.savefig(out)


if __name__ == "__main__":
    sys.exit(main())
