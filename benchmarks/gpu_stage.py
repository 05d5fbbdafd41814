"""A part of the device suite, run by `gpu.py` in a process of its own; answers are lines of JSON."""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from gpu_workloads import Contender, Workload, arguments, difference, limit, workloads

ROOT = Path(__file__).resolve().parents[1]
LEAST_RUNS = 10


def answer(**parts: Any) -> None:
    """One line to `gpu.py`."""
    print(json.dumps(parts), file=_out, flush=True)


def shard(paths: list[Any], options: argparse.Namespace) -> list[Any]:
    index, count = map(int, options.shard.split("/"))
    return paths[index::count]


def test_programs(options: argparse.Namespace) -> list[Path]:
    return sorted((ROOT / "tests" / "programs").glob("*.fut"))[: options.programs]


# --- stages -----------------------------------------------------------------------------------------------


def about(options: argparse.Namespace) -> None:
    """The device."""
    from futad.backend.cuda import open_device

    device = open_device(options.device)
    free = device.free_bytes()
    answer(card=device.describe(), gigabytes=8.0 if free is None else free / 1e9)


def compile_(options: argparse.Namespace) -> None:
    """Compile kernels, so that the cache has them."""
    from futad.backend.cuda import DeviceBackend, open_device
    from futad.pipeline import compile_program
    from futad.source import compile_text, load_program

    sources: list[Callable[[], Any]] = [partial(compile_text, w.source, w.program) for w in _distinct(options)]
    sources += [partial(load_program, str(p)) for p in test_programs(options)]
    device = open_device(options.device)
    count, problems = 0, []
    for make in shard(sources, options):
        count += 1
        try:
            made = DeviceBackend(compile_program(make()))
            device.compile(made.source, sorted({k.symbol for k in made.layout.kernels}))
        except Exception as e:
            problems.append(f"compile: {make.args[-1]}: {type(e).__name__}: {str(e)[:300]}")  # type: ignore[attr-defined]
    answer(programs=count, problems=problems)


def _distinct(options: argparse.Namespace) -> list[Workload]:
    """A workload of each program and type."""
    chosen = [w for w in workloads(options.toy) if options.only in w.label]
    return list({(w.program, w.dtype): w for w in chosen}.values())


def programs(options: argparse.Namespace) -> None:
    """Test programs against what their blocks expect and against the interpreter."""
    _run_cases(options, shard(test_programs(options), options))


def sanitized(options: argparse.Namespace) -> None:
    """The same, with every array in an allocation of its own and without graphs."""
    os.environ["FUTAD_GRAPHS"] = "0"
    if options.device == "cuda":
        import cupy

        cupy.cuda.set_allocator(None)  # a pool would hide what lies between its arrays
    names = set(options.names.split(","))
    _run_cases(options, [p for p in test_programs(options) if p.stem in names])


def _run_cases(options: argparse.Namespace, paths: list[Path]) -> None:
    import futad
    from futad.cli.test import run_case
    from futad.source import load_program
    from futad.testblocks import read_test_file

    failures, cases = [], 0
    for path in paths:
        core = load_program(str(path))
        program, reference = [futad.Program(core, backend=b) for b in (options.device, "interp")]
        for case in read_test_file(path).cases:
            cases += 1
            problem = run_case(program, case) or unlike(program, reference, case)
            if problem is not None:
                failures.append(f"{path.stem} {case.name}: {problem}")
    answer(programs=len(paths), cases=cases, failures=failures)


def unlike(program: Any, reference: Any, case: Any) -> str | None:
    """How a case's results differ from the interpreter's: integers at all, floats by more than rounding; errors by
    their kind."""
    from futad.errors import Error
    from futad.testinput import make_input

    results: list[Any] = []
    for p in (program, reference):
        f = p.entries[case.entry]
        try:
            results.append([np.asarray(r) for r in f.unit.run(f.core_name, make_input(p, f, case))])
        except Error as e:
            results.append(type(e).__name__)
    if isinstance(results[0], str) or isinstance(results[1], str):
        return None if results[0] == results[1] else f"{results[0]} here, {results[1]} from the interpreter"
    for i, (x, y) in enumerate(zip(*results, strict=True)):
        if x.dtype != y.dtype or x.shape != y.shape:
            return f"result {i} is {x.dtype}{x.shape}, from the interpreter {y.dtype}{y.shape}"
        near = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2}.get(y.dtype.name, 0.0)
        scale = float(np.abs(y[np.isfinite(y)]).max(initial=1.0)) if y.dtype.kind == "f" else 1.0
        if not np.allclose(x, y, rtol=0, atol=near * scale, equal_nan=True):
            return f"result {i} differs from the interpreter's"
    return None


def ceilings(options: argparse.Namespace) -> None:
    """The best of some copies (bytes read and written) and of matrix products on random data."""
    cuda = options.device == "cuda"
    if cuda:
        import cupy as xp

        wait = xp.cuda.runtime.deviceSynchronize
    else:
        xp, wait = np, lambda: None

    def best(f: Callable[[], Any]) -> float:
        times = []
        for _ in range(12):
            wait()
            start = time.perf_counter()
            f()
            wait()
            times.append(time.perf_counter() - start)
        return min(times[2:])

    n, side = (1 << 28, 8192) if cuda else (1 << 20, 128)
    x = xp.ones(n, np.float32)
    y = xp.empty_like(x)
    out = {"copy_gb_s": 2 * x.nbytes / best(lambda: xp.copyto(y, x)) / 1e9}
    for name in ("float32", "float64"):
        a, b = [xp.asarray(np.random.default_rng(i).standard_normal((side, side)).astype(name)) for i in range(2)]
        c = xp.empty_like(a)
        out[f"matmul_{name}_tflop_s"] = 2 * side**3 / best(partial(xp.matmul, a, b, c)) / 1e12
    answer(**out)


def futad_contender(w: Workload, args: Any, device_name: str) -> Contender:
    """futad on the device; the arguments stay there between runs."""
    from futad.backend.cuda import DeviceBackend, open_device
    from futad.pipeline import compile_program
    from futad.runtime.values import signature_of
    from futad.source import compile_text

    program = compile_program(compile_text(w.source, w.program))
    running = DeviceBackend(program).on(open_device(device_name))
    entries = {f.entry.name: f for f in program.funs.values() if f.entry is not None}
    flat = {name: signature_of(entries[name]).flatten(args) for name in ("objective", "gradient")}

    def run(name: str) -> list[Any]:
        return running.run(entries[name].name, flat[name])

    def seconds(call: Any, runs: int) -> list[float]:
        # Before the first: a run that measures what memory is needed, and one that captures the graph.
        return running.timed(entries[call.args[0]].name, flat[call.args[0]], runs + 2)[2:]

    def counts() -> dict[str, Any]:
        c = running.runtime.counts
        return {"launches": c.launches, "products": c.products, "graphs": c.replayed, "reads": c.reads,
                "bytes_held": running.runtime.memory()[0]}  # fmt: skip

    return Contender("futad", partial(run, "objective"), partial(run, "gradient"), lambda out: out, seconds, counts)


def row(options: argparse.Namespace) -> None:
    """One workload: warm up, compare, wait to be told, time."""
    start = time.monotonic()
    w = list(workloads(options.toy))[options.row]
    args, cuda = arguments(w), options.device == "cuda"
    makers: list[tuple[str, Any]] = [("futad", partial(futad_contender, w, args, options.device))]
    expected, against = None, "nothing: neither PyTorch nor JAX is installed, and it is too large for 'c'"
    if not options.no_peers:
        import gpu_peers

        makers += gpu_peers.peers(w, args, cuda)
        found = gpu_peers.reference(w, args, cuda)
        if found is not None:
            expected, against = found, "PyTorch or JAX in f64"
    if expected is None and w.small:
        expected, against = by_c(w, args), "backend 'c'"
    times: dict[str, dict[str, Any]] = {}
    ready: list[Contender] = []
    for name, make in makers:
        if isinstance(make, str):
            times[name] = {"skipped": make}
            continue
        begin = time.monotonic()
        left = options.warm - (begin - start)
        try:
            with at_most(max(left, 1.0)):
                made = make()
                out = made.fetch(made.primal()), made.fetch(made.gradient())
                made.free()
        except _Late:
            times[name] = {"skipped": f"not warm after {max(left, 1.0):.0f} s"}
            continue
        except Exception as e:
            times[name] = {"failed": f"{type(e).__name__}: {str(e)[:300]}"}
            continue
        times[name] = {"warm_up_s": time.monotonic() - begin}
        if expected is not None:
            errors = difference(out[0], expected[0]), difference(out[1], expected[1])
            times[name] |= {"primal_error": errors[0], "gradient_error": errors[1]}
            if max(errors) > limit(w):
                times[name]["wrong"] = f"differs from the reference by {max(errors):.2g}, limit {limit(w):.2g}"
                continue
        ready.append(made)
    answer(against=against)
    told = json.loads(sys.stdin.readline())
    end = time.monotonic() + told["seconds"]
    for i, made in enumerate(ready):
        left = (end - time.monotonic()) / (len(ready) - i)
        times[made.name] |= measured(made, told["runs"], left)
    answer(times=times)


class _Late(BaseException):
    """The time is over; not an Exception, so that no library takes it for its own."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Raise _Late in what takes longer."""

    def over(*_: Any) -> None:
        raise _Late

    signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def measured(c: Contender, runs: int, seconds: float) -> dict[str, Any]:
    """Medians of the primal and the gradient; fewer runs than asked for, but not than ten, where time is short."""
    out: dict[str, Any] = {}
    try:
        for name, call in (("primal", c.primal), ("gradient", c.gradient)):
            first = min(c.time(call, 2))
            least = first * (LEAST_RUNS + 2)
            if least > seconds:
                return {
                    **out,
                    "skipped": f"{name}: {LEAST_RUNS} runs take {least:.0f} s, {seconds:.0f} s are left",
                }
            count = max(LEAST_RUNS, min(runs, int(seconds / 2 / max(first, 1e-9))))
            times = c.time(call, count)
            out[f"{name}_ms"] = 1e3 * statistics.median(times)
            out[f"{name}_best_ms"] = 1e3 * min(times)
            out[f"{name}_runs"] = len(times)
    except Exception as e:
        return {**out, "failed": f"{type(e).__name__}: {str(e)[:300]}"}
    return {**out, "overhead": out["gradient_ms"] / out["primal_ms"], **c.about()}


def by_c(w: Workload, args: Any) -> tuple[list[Any], list[Any]]:
    """What the backend 'c' computes (the interpreter, without a C compiler)."""
    import futad
    from futad.runtime.cc import compiler_available

    program = futad.compile(w.source, name=w.program, backend="c" if compiler_available() else "interp")
    out = []
    for name in ("objective", "gradient"):
        f = program.entries[name]
        out.append(f.unit.run(f.core_name, f.signature.flatten(args)))
    return out[0], out[1]


STAGES = {"about": about, "compile": compile_, "programs": programs, "sanitized": sanitized, "ceilings": ceilings,
          "row": row}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stage", choices=list(STAGES))
    parser.add_argument("device", choices=["cuda", "emulated"])
    parser.add_argument("--toy", action="store_true")
    parser.add_argument("--shard", default="0/1")
    parser.add_argument("--programs", type=int)
    parser.add_argument("--names", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--row", type=int, default=0)
    parser.add_argument("--warm", type=float, default=100.0)
    parser.add_argument("--no-peers", action="store_true")
    options = parser.parse_args()
    from futad.errors import Error

    try:
        STAGES[options.stage](options)
    except Error as e:
        answer(failed=str(e).removeprefix("error: "))


if __name__ == "__main__":
    # Libraries print to standard output; the answers go to the stream that was it.
    _out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    main()
