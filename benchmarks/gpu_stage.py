"""A worker of the device suite (`gpu_worker.py`): it does the cases it is told, and answers in lines of JSON."""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from gpu_rows import Row, rows
from gpu_workloads import Contender, difference

ROOT = Path(__file__).resolve().parents[1]
TEXTBOOK = ROOT / "benchmarks" / "textbook"
LEAST_RUNS = 10
CALLS = 5  # of each case: the first has memory made, the third is captured, the last two are replayed
#: what a planted defect begins a program's first kernel with
PLANTS = {"fault": "__trap();", "hang": "for (volatile int futad_on = 1; futad_on;) {}", "wrong": "return;"}

Answer = dict[str, Any]


def answer(**parts: Any) -> None:
    """One line."""
    print(json.dumps(parts), file=_out, flush=True)


# --- stages: each does one case, and says what came of it ---------------------------------------------------


def about(options: argparse.Namespace, name: str) -> Answer:
    """The device."""
    from futad.backend.cuda import open_device

    device = open_device(options.device)
    free = device.free_bytes()
    return {"card": device.describe(), "gigabytes": 8.0 if free is None else free / 1e9}


def compile_(options: argparse.Namespace, name: str) -> Answer:
    """Compile kernels, and what a row is compared with, so that the cache has them."""
    from futad.backend.cuda import DeviceBackend, open_device
    from futad.pipeline import compile_program
    from futad.source import load_program
    from futad.target import CUDA

    row = {r.name: r for r in rows(options.toy)}.get(name)
    core = row.compiled() if row else load_program(str(ROOT / "tests" / "programs" / f"{name}.fut"))
    made = DeviceBackend(compile_program(core, target=CUDA))
    open_device(options.device).compile(made.source, sorted({k.symbol for k in made.layout.kernels}))
    if row is not None:
        _reference(row.compiled())
    return {}


def smoke(options: argparse.Namespace, name: str) -> Answer:
    """One small thing."""
    from gpu_smoke import SMOKE

    try:
        SMOKE[name](options.device)
    except AssertionError as e:
        return {"failed": str(e)[:1000] or "an assertion failed"}
    return {}


def programs(options: argparse.Namespace, name: str) -> Answer:
    """A test program's cases, against what its blocks expect and against the interpreter."""
    import futad
    from futad.cli.test import run_case
    from futad.source import load_program
    from futad.testing.blocks import read_test_file

    path = ROOT / "tests" / "programs" / f"{name}.fut"
    core = load_program(str(path))
    program, reference = [futad.Program(core, backend=b) for b in (options.device, "interp")]
    failures, cases = [], 0
    for case in read_test_file(path).cases:
        cases += 1
        problem = run_case(program, case) or unlike(program, reference, case)
        if problem is not None:
            failures.append(f"{case.name}: {problem}")
    return {"cases": cases, **({"failed": "; ".join(failures)} if failures else {})}


def unlike(program: Any, reference: Any, case: Any) -> str | None:
    """How a case's results differ from the interpreter's: integers at all, floats by more than rounding; errors by
    their kind.  All of several calls, of which the last ones are replayed from graphs."""
    from futad.errors import DeviceError, Error
    from futad.testing.inputs import make_input

    def results(p: Any) -> Any:
        f = p.entries[case.entry]
        try:
            return [np.asarray(r) for r in f.executable.run(f.symbol, make_input(p, f, case))]
        except DeviceError:
            raise
        except Error as e:
            return type(e).__name__

    want = results(reference)
    for call in range(CALLS):
        got = results(program)
        at = f" in call {call + 1}" if call else ""
        if isinstance(got, str) or isinstance(want, str):
            if isinstance(got, list) or isinstance(want, list) or got != want:
                kinds = [r if isinstance(r, str) else "a result" for r in (got, want)]
                return f"{kinds[0]} here{at}, {kinds[1]} from the interpreter"
            continue
        for i, (x, y) in enumerate(zip(got, want, strict=True)):
            if x.dtype != y.dtype or x.shape != y.shape:
                return f"result {i} is {x.dtype}{x.shape}{at}, from the interpreter {y.dtype}{y.shape}"
            near = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2}.get(y.dtype.name, 0.0)
            scale = float(np.abs(y[np.isfinite(y)]).max(initial=1.0)) if y.dtype.kind == "f" else 1.0
            if not np.allclose(x, y, rtol=0, atol=near * scale, equal_nan=True):
                return f"result {i} differs from the interpreter's{at}"
    return None


def everyday(options: argparse.Namespace, name: str) -> Answer:
    """A program of `textbook/`: its value and gradient beside the CPU's, then how long calls on the device's own arrays
    take (of a card; other cases may run meanwhile)."""
    args, wrt, limit = textbook(options, name)
    from futad.runtime.cc import compiler_available

    calls = {b: textbook_gradient(name, wrt, b) for b in (options.device, "c" if compiler_available() else "interp")}
    want = flat(calls.popitem()[1](*args))
    (ours,) = calls.values()
    for _ in range(CALLS):
        off = difference(flat(ours(*args)), want)
        if off > limit:
            return {"failed": f"{off:.2g} off, limit {limit:.2g}"}
    return {"off": off, **textbook_times(options, ours, args)}


def rivals(options: argparse.Namespace, name: str) -> Answer:
    """A program of `textbook/`: value and gradient, and how long they take on arrays that are there, beside JAX's
    (jitted) on the same device."""
    args, wrt, limit = textbook(options, name)
    import in_jax
    import jax

    jax.config.update("jax_default_matmul_precision", "highest")  # its own on cards rounds factors to TF32
    start = time.monotonic()
    both = in_jax.calls(name, wrt, args)[1]
    want = [np.asarray(x) for x in flat(both())]
    out: Answer = {"jax": {"first_s": time.monotonic() - start, **clocked(both)}}
    start = time.monotonic()
    ours = textbook_gradient(name, wrt, options.device)
    off = difference(flat(ours(*args)), want)
    out["futad"] = {"first_s": time.monotonic() - start}
    if off > limit:
        return {"failed": f"{off:.2g} off, limit {limit:.2g}"}
    out["futad"] |= textbook_times(options, ours, args)
    return {**out, "off": off}


def textbook(options: argparse.Namespace, name: str) -> tuple[tuple[Any, ...], int, float]:
    """Arguments of a program of `textbook/`, how many of them the gradient is by, and how far results may be off."""
    sys.path.insert(0, str(TEXTBOOK))
    from inputs import ROWS, arguments

    args = arguments(name, 0.05 if options.toy else 1.0)
    single = any(getattr(a, "dtype", None) == np.float32 for a in args)
    return args, ROWS[name].wrt, 1e-3 if single else 1e-7


def textbook_gradient(name: str, wrt: int, backend: str) -> Callable[..., Any]:
    import futad

    entry = futad.load(TEXTBOOK / f"{name}.fut", backend=backend).value
    return futad.value_and_grad(entry, argnums=tuple(range(wrt)))


def textbook_times(options: argparse.Namespace, call: Callable[..., Any], args: tuple[Any, ...]) -> Answer:
    """Milliseconds of calls on a card's own arrays; nothing without a card."""
    if options.device != "cuda":
        return {}
    import cupy

    there = [cupy.asarray(a) if isinstance(a, np.ndarray) else a for a in args]

    def waited() -> None:
        call(*there)
        cupy.cuda.runtime.deviceSynchronize()

    return clocked(waited)


def clocked(call: Callable[[], Any]) -> Answer:
    """Milliseconds of calls after two that warm up."""
    times = []
    for _ in range(LEAST_RUNS + 2):
        start = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - start))
    return {"best_ms": min(times[2:]), "ms": statistics.median(times[2:])}


def flat(value: Any) -> list[Any]:
    """The arrays and numbers of nested tuples."""
    return [x for v in value for x in flat(v)] if isinstance(value, tuple) else [value]


def ceilings(options: argparse.Namespace, name: str) -> Answer:
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
    for kind in ("float32", "float64"):
        a, b = [xp.asarray(np.random.default_rng(i).standard_normal((side, side)).astype(kind)) for i in range(2)]
        c = xp.empty_like(a)
        out[f"matmul_{kind}_tflop_s"] = 2 * side**3 / best(partial(xp.matmul, a, b, out=c)) / 1e12
    return out


def row(options: argparse.Namespace, name: str) -> Answer:
    """A row by futad: compared with the CPU, timed, and what was timed compared again."""
    row = {r.name: r for r in rows(options.toy)}[name]
    made = futad_contender(row, options.device)
    want = expected(row)
    out = times_of(made, want, row.tolerance, options.runs, options.seconds)
    return {"against": "the CPU", "times": {"futad": out}, **_failed({"futad": out})}


def peers(options: argparse.Namespace, name: str) -> Answer:
    """A row by futad and by other libraries, of which one in f64 is what all are compared with."""
    import gpu_peers

    row = {r.name: r for r in rows(options.toy)}[name]
    assert row.workload is not None
    w, args, cuda = row.workload, row.args(), options.device == "cuda"
    found = gpu_peers.reference(w, args, cuda)
    want = found or expected(row)
    out: dict[str, Answer] = {}
    makers: list[tuple[str, Any]] = [("futad", partial(futad_contender, row, options.device))]
    for who, make in [*makers, *gpu_peers.peers(w, args, cuda)]:
        if isinstance(make, str):
            out[who] = {"skipped": make}
            continue
        start = time.monotonic()
        try:
            made = make()
            out[who] = times_of(made, want, row.tolerance, options.runs, options.seconds)
            made.free()
        except Exception as e:
            if who == "futad":
                raise
            out[who] = {"failed": f"{type(e).__name__}: {str(e)[:300]}"}
        out[who]["in_all_s"] = time.monotonic() - start
    return {"against": "PyTorch or JAX in f64" if found else "the CPU", "times": out, **_failed(out)}


def _failed(times: dict[str, Answer]) -> Answer:
    """What makes a row's answer a failure."""
    wrong = [f"{who}: {t['wrong']}" for who, t in times.items() if "wrong" in t]
    return {"failed": "; ".join(wrong)} if wrong else {}


def futad_contender(row: Row, device_name: str) -> Contender:
    """futad on the device; the arguments stay there between runs."""
    from futad.backend.cuda import DeviceBackend, open_device
    from futad.pipeline import compile_program
    from futad.runtime.values import signature_of
    from futad.target import CUDA

    program = compile_program(row.compiled(), target=CUDA)
    running = DeviceBackend(program).on(open_device(device_name))
    entries = {f.entry.name: f for f in program.funs.values() if f.entry is not None}
    args = row.args()
    flat = {row.primal: signature_of(entries[row.primal]).flatten(args)}
    flat[row.derivative] = signature_of(entries[row.derivative]).flatten((*args, *row.more))

    def run(name: str) -> list[Any]:
        return running.run(entries[name].name, flat[name])

    def seconds(call: Any, runs: int) -> list[float]:
        # Before the first: a run that measures what memory is needed, and one that captures the graph.
        return running.timed(entries[call.args[0]].name, flat[call.args[0]], runs + 2)[2:]

    def counts() -> Answer:
        c = running.runtime.counts
        return {"launches": c.launches, "products": c.products, "graphs": c.replayed, "reads": c.reads,
                "bytes_held": running.runtime.memory()[0]}  # fmt: skip

    primal, gradient = partial(run, row.primal), partial(run, row.derivative)
    return Contender("futad", primal, gradient, lambda out: out, seconds, counts)


def expected(row: Row) -> tuple[list[Any], list[Any]]:
    """What the CPU computes."""
    program = _reference(row.compiled())
    args = row.args()
    out = []
    for name, given in ((row.primal, args), (row.derivative, (*args, *row.more))):
        f = program.entries[name]
        out.append(f.executable.run(f.symbol, f.signature.flatten(given)))
    return out[0], out[1]


def _reference(core: Any) -> Any:
    """A program on the CPU, compiled (by the interpreter, without a C compiler)."""
    import futad
    from futad.runtime.cc import compiler_available

    program = futad.Program(core, backend="multicore" if compiler_available() else "interp")
    program.executor()
    return program


def times_of(
    c: Contender, want: tuple[list[Any], list[Any]], tolerance: float, runs: int, seconds: float
) -> dict[str, Any]:
    """Medians of the primal and the gradient, and how far they are from what is expected before and after: the timed
    runs are replays of what was captured after the first."""
    start = time.monotonic()
    out: Answer = {}
    for when in ("", "after_"):
        errors = [difference(c.fetch(call()), w) for call, w in zip((c.primal, c.gradient), want, strict=True)]
        out |= {f"{when}primal_error": errors[0], f"{when}gradient_error": errors[1]}
        if max(errors) > tolerance:
            what = "primal" if errors[0] > tolerance else "gradient"
            late = "after the timed runs " if when else ""
            out["wrong"] = f"{what} {late}is {max(errors):.2g} off, limit {tolerance:.2g}"
            return out
        if not when:
            out["warm_up_s"] = time.monotonic() - start
            out |= measured(c, runs, seconds)
    return out


def measured(c: Contender, runs: int, seconds: float) -> dict[str, Any]:
    """Medians of the primal and the gradient; fewer runs than asked for, but not than ten, where time is short."""
    out: Answer = {}
    for name, call in (("primal", c.primal), ("gradient", c.gradient)):
        first = min(c.time(call, 2))
        least = first * (LEAST_RUNS + 2)
        if least > seconds:
            return {**out, "skipped": f"{name}: {LEAST_RUNS} runs take {least:.0f} s, {seconds:.0f} s are left"}
        count = max(LEAST_RUNS, min(runs, int(seconds / 2 / max(first, 1e-9))))
        times = c.time(call, count)
        out[f"{name}_ms"] = 1e3 * statistics.median(times)
        out[f"{name}_best_ms"] = 1e3 * min(times)
        out[f"{name}_runs"] = len(times)
    return {**out, "overhead": out["gradient_ms"] / out["primal_ms"], **c.about()}


STAGES: dict[str, Callable[[argparse.Namespace, str], Answer]] = {
    "about": about, "compile": compile_, "smoke": smoke, "programs": programs, "everyday": everyday,
    "rivals": rivals, "ceilings": ceilings, "row": row, "peers": peers,
}  # fmt: skip


# --- the worker -------------------------------------------------------------------------------------------


def serve(stage: str, device: str) -> None:
    """Do what the first line of the input says."""
    told = json.loads(sys.stdin.readline())
    options = argparse.Namespace(**told["options"])
    if stage != "rivals":  # what a step by the host takes counts there
        tell_launches(os.environ["FUTAD_SUITE_LAUNCHED"])
    plants = dict(reversed(p.split(":")) for p in os.environ.get("FUTAD_SUITE_PLANT", "").split(",") if p)
    if os.environ.get("FUTAD_SUITE_POOL") == "0" and device == "cuda":
        import cupy

        cupy.cuda.set_allocator(None)  # a pool would hide what lies between its arrays
    for name in told["names"]:
        answer(begin=name)
        plant(plants.get(name, ""))
        start = time.monotonic()
        made: Answer = {"name": name}
        try:
            made |= STAGES[stage](options, name)
        except Exception as e:
            made |= {"failed": f"{type(e).__name__}: {str(e).removeprefix('error: ')[:1500]}", "lost": _lost(e)}
        answer(**made, seconds=time.monotonic() - start)
        if made.get("lost"):
            _out.flush()
            os._exit(3)


def _lost(e: BaseException) -> bool:
    """Whether the device is of no use to this process any more: futad says so, or it is a library's own error."""
    from futad.errors import DeviceError, Error

    if isinstance(e, DeviceError):
        return any("start it again" in note for note in e.notes)
    return not isinstance(e, Error) and type(e).__name__.startswith("CUDA")


def tell_launches(path: str) -> None:
    """Write which kernel was started last to a file, which is there when this process is not."""
    from futad.runtime.host import Runtime

    launch, out = Runtime.launch, os.open(path, os.O_WRONLY)

    def told(self: Runtime, number: int, *args: Any) -> None:
        text = str(self.layout.kernels[number]).encode()
        os.truncate(path, 0)
        os.pwrite(out, text, 0)
        launch(self, number, *args)

    Runtime.launch = told  # type: ignore[method-assign,assignment]


def plant(kind: str) -> None:
    """Give what is compiled from now on a defect, to see that the suite reports it."""
    from futad.backend import cuda
    from futad.backend.device_emit import emit_kernels

    def planted(*args: Any) -> Any:
        source, names = emit_kernels(*args)
        if kind:
            head = re.compile(r'(extern "C" __global__ void [^{]*\{)')
            source = head.sub(lambda m: m[1] + PLANTS[kind], source, count=1)
        return source, names

    cuda.emit_kernels = planted


if __name__ == "__main__":
    # Libraries print to standard output; the answers go to the stream that was it.
    _out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    serve(sys.argv[1], sys.argv[2])
