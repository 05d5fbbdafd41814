"""The device suite: correctness of every test program, sanitizers, and times of the paper's workloads beside others.

    python benchmarks/gpu.py                          on a GPU, through CuPy; a table, and JSON in benchmarks/results/
    python benchmarks/gpu.py --device emulated --toy  the whole of it without a card, at toy sizes

Stages, each in processes of its own so that one that breaks the card's context spoils no other:

  compile    every kernel to a cubin, on all cores (the disk cache keeps them for what follows)
  ceilings   what the card reaches: a copy within its memory, matrix products
  rows       the workloads; each contender's answers are compared with a reference in f64 before anything is timed
  programs   every test program's cases on the backend, against what the test blocks expect
  sanitizers compute-sanitizer's memcheck and racecheck over a small set of test programs

Times are medians of at least ten runs after a warm-up, from arguments on the device to results on the device.  Several
rows warm up at once, and are timed one at a time.  What does not fit the budget is left out, and said so; the JSON is
written again after each stage and row, so that what is done is kept whatever happens then.  Contenders:
futad, PyTorch (eager, compiled), torch.nn.LSTM and JAX, those that are installed.  Exit status 1 if an answer is wrong
or a program fails.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gpu_workloads import Workload, workloads

ROOT = Path(__file__).resolve().parents[1]
SANITIZED = ("reduce_ops", "scan_family", "hist_family", "scatter_family", "matrix", "reduce_tuples")
AT_ONCE = 4  # rows that warm up together, if memory allows
MEMORY_SHARE = 0.7  # of the card's memory, that they may take together


class Budget:
    """The time there is for all of it."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds

    def left(self) -> float:
        return max(0.0, self.end - time.monotonic())


class Stage:
    """A process that does a part of the suite; its answers are lines of JSON on its standard output."""

    def __init__(self, name: str, options: argparse.Namespace, *more: str, wrap: tuple[str, ...] = ()) -> None:
        command = [*wrap, sys.executable, str(Path(__file__).with_name("gpu_stage.py")), name, options.device, *more]
        if options.toy:
            command.append("--toy")
        self.log = tempfile.TemporaryFile("w+")
        environment = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "PYTHONPATH": _path()}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, env=environment
        )

    def answer(self, seconds: float) -> dict[str, Any]:
        """The next answer, or what went wrong instead."""
        import selectors

        assert self.process.stdout is not None
        with selectors.DefaultSelector() as wait:
            wait.register(self.process.stdout, selectors.EVENT_READ)
            if not wait.select(seconds):
                self.stop()
                return {"failed": f"no answer within {seconds:.0f} s", "late": True}
        line = self.process.stdout.readline()
        if line:
            made: dict[str, Any] = json.loads(line)
            return made
        self.process.wait()
        self.log.seek(0)
        tail = self.log.read()[-2000:].strip()
        return {"failed": f"exit status {self.process.returncode}", "log": tail}

    def tell(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # its answer says why

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def _path() -> str:
    return os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH", "")])])


def sharded(name: str, options: argparse.Namespace, shards: int, seconds: float, *more: str) -> list[dict[str, Any]]:
    """The answers of a stage cut into shards."""
    end = time.monotonic() + seconds
    stages = [Stage(name, options, f"--shard={i}/{shards}", *more) for i in range(shards)]
    out = []
    for s in stages:
        out.append(s.answer(max(1.0, end - time.monotonic())))
        s.stop()
    return out


def compiled(options: argparse.Namespace, budget: Budget) -> dict[str, Any]:
    """Kernels of everything compiled, the workloads' first; what there was no time for is compiled where it is used."""
    start = time.monotonic()
    answers = sharded("compile", options, os.cpu_count() or 1, min(120.0, budget.left()), *_limited(options))
    failed = [a["failed"] for a in answers if "failed" in a and not a.get("late")]
    problems = [p for a in answers for p in a.get("problems", [])] + failed
    return {"programs": sum(a.get("programs", 0) for a in answers), "seconds": time.monotonic() - start,
            "late_shards": sum(bool(a.get("late")) for a in answers), "problems": problems}  # fmt: skip


def correctness(options: argparse.Namespace, budget: Budget) -> dict[str, Any]:
    """Every test program's cases."""
    shards = 4 if options.device == "cuda" else 1
    answers = sharded("programs", options, shards, min(180.0, budget.left()), *_limited(options))
    out: dict[str, Any] = {"programs": 0, "cases": 0, "failures": []}
    for a in answers:
        out["programs"] += a.get("programs", 0)
        out["cases"] += a.get("cases", 0)
        out["failures"] += a.get("failures", [])
        if "failed" in a:
            out["failures"].append(f"a shard: {a['failed']}\n{a.get('log', '')}")
    return out


def _limited(options: argparse.Namespace) -> list[str]:
    more = [] if options.programs is None else [f"--programs={options.programs}"]
    return more + ([f"--only={options.only}"] if options.only else [])


def sanitizers(options: argparse.Namespace, budget: Budget) -> dict[str, str]:
    """compute-sanitizer over a few programs, whose memory is then one allocation a slot."""
    tool = shutil.which("compute-sanitizer")
    if options.device != "cuda":
        return {"skipped": "there is no card; the emulated device has sanitizers of its own (tests/test_gpu_run.py)"}
    if tool is None:
        return {"skipped": "compute-sanitizer is not installed"}
    if budget.left() < 45:
        return {"skipped": f"{budget.left():.0f} s are left"}
    stages = {
        kind: Stage(
            "sanitized",
            options,
            f"--names={','.join(SANITIZED)}",
            wrap=(tool, "--tool", kind, "--error-exitcode", "9", "--print-limit", "5"),
        )  # fmt: skip
        for kind in ("memcheck", "racecheck")
    }
    out = {}
    for kind, s in stages.items():
        answer: dict[str, Any] = {}
        noise = []
        # The tool prints among the stage's answers.
        for line in _lines(s, min(120.0, budget.left())):
            try:
                answer = json.loads(line)
            except ValueError:
                noise.append(line)
        status = s.process.poll()
        if status == 0 and answer.get("cases") and not answer["failures"]:
            out[kind] = f"clean ({answer['cases']} cases)"
        else:
            s.log.seek(0)
            text = "".join(noise)[-1500:] + s.log.read()[-500:] + json.dumps(answer.get("failures", []))
            out[kind] = f"exit status {status}: {text}" if status is not None else "not done in time"
        s.stop()
    return out


def _lines(s: Stage, seconds: float) -> list[str]:
    try:
        text, _ = s.process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        return []
    return text.splitlines(keepends=True)


def rows(options: argparse.Namespace, budget: Budget, memory: float) -> Iterator[dict[str, Any]]:
    """The workloads, a few at a time: all of those warm up, then each is timed alone."""
    todo = [(i, w) for i, w in enumerate(workloads(options.toy)) if not options.only or options.only in w.label]
    at_once = AT_ONCE if options.device == "cuda" else 1
    while todo:
        wave: list[tuple[int, Workload]] = []
        while (
            todo
            and len(wave) < at_once
            and (not wave or sum(w.gigabytes for _, w in [*wave, todo[0]]) < MEMORY_SHARE * memory)
        ):
            wave.append(todo.pop(0))
        share = (budget.left() - options.reserve) / (1 + len(todo) / at_once)
        if share < 15:
            yield from ({"workload": w.label, "skipped": f"{budget.left():.0f} s are left"} for _, w in wave)
            continue
        end = time.monotonic() + max(share, 30.0)
        stages = [
            Stage("row", options, f"--row={i}", f"--warm={share * 0.7:.0f}", *(["--no-peers"] * options.no_peers))
            for i, _ in wave
        ]
        ready = [s.answer(max(1.0, end - time.monotonic())) for s in stages]
        for (_, w), s, first in zip(wave, stages, ready, strict=True):
            row = {"workload": w.label, **w.sizes, "dtype": w.dtype}
            if "failed" in first:
                yield {**row, **first}
            else:
                limit = max(5.0, (end - time.monotonic()) / len(wave))
                s.tell({"runs": options.runs, "seconds": limit})
                yield {**row, **first, **s.answer(3 * limit + 20)}
            s.stop()


# --- the report -------------------------------------------------------------------------------------------


def table(report: dict[str, Any]) -> str:
    """The rows, in milliseconds: the primal, the gradient, and each contender's gradient."""
    names = ["torch", "torch.compile", "nn.LSTM", "jax"]
    out = [f"{'gradients in ms':<48} {'primal':>9} {'futad':>9} {'overhead':>8} {'launches':>8}"
           + "".join(f" {n:>13}" for n in names) + f" {'of ceiling':>10}"]  # fmt: skip
    for r in report["rows"]:
        mine = r.get("times", {}).get("futad", {})
        if "gradient_ms" not in mine:
            why = r.get("skipped") or r.get("failed") or mine.get("skipped") or mine.get("failed") or "?"
            out.append(f"{r['workload']:<48} {str(why).splitlines()[0][:90]}")
            continue
        cells = []
        for n in names:
            t = r["times"].get(n, {})
            cells.append(f"{t['gradient_ms']:.3f}" if "gradient_ms" in t else "-")
        part = r.get("of_ceiling")
        out.append(
            f"{r['workload']:<48} {mine['primal_ms']:>9.3f} {mine['gradient_ms']:>9.3f} {mine['overhead']:>8.2f} "
            f"{mine['launches']:>8}" + "".join(f" {c:>13}" for c in cells) + f" {f'{part:.0%}' if part else '-':>10}"
        )
    return "\n".join(out)


def add_shares(report: dict[str, Any], work: dict[str, Workload]) -> None:
    """The part of the matrix products' ceiling that a row's gradient reaches: three products for each of the primal."""
    for r in report["rows"]:
        w, mine = work[r["workload"]], r.get("times", {}).get("futad", {})
        top = report["ceilings"].get(f"matmul_{'float64' if w.dtype == 'f64' else 'float32'}_tflop_s")
        if w.flops and top and "gradient_ms" in mine:
            mine["gradient_tflop_s"] = 3 * w.flops / mine["gradient_ms"] / 1e9
            r["of_ceiling"] = mine["gradient_tflop_s"] / top


def versions() -> dict[str, str]:
    from importlib import metadata

    out = {"python": platform.python_version()}
    for name in ("numpy", "cupy-cuda13x", "cupy-cuda12x", "torch", "jax", "jaxlib", "triton", "nvidia-cuda-nvrtc"):
        try:
            out[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return out


def problems(report: dict[str, Any]) -> list[str]:
    """What is wrong: failing programs, wrong answers, rows that did not run, findings of the sanitizers."""
    out = [*report["compiled"]["problems"], *report["correctness"]["failures"]]
    for r in report["rows"]:
        if "failed" in r:
            out.append(f"{r['workload']}: {r['failed']}\n{r.get('log', '')}")
        for name, t in r.get("times", {}).items():
            if "wrong" in t or (name == "futad" and "failed" in t):
                out.append(f"{r['workload']}: {name}: {t.get('wrong') or t.get('failed')}")
    out += [f"{k}: {v}" for k, v in report["sanitizers"].items() if k != "skipped" and not v.startswith("clean")]
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "emulated"], default="cuda")
    parser.add_argument("--toy", action="store_true", help="tiny sizes")
    parser.add_argument("--runs", type=int, default=20, help="runs that a time is the median of (default: %(default)s)")
    parser.add_argument("--programs", type=int, metavar="N", help="only the first N test programs")
    parser.add_argument("--only", metavar="TEXT", help="only workloads whose label contains this")
    parser.add_argument("--no-peers", action="store_true", help="time futad alone")
    parser.add_argument("--budget", type=float, default=510, metavar="S", help="seconds for all (default: %(default)s)")
    parser.add_argument(
        "--json", metavar="OUT", help="where to write the results (default on cuda: benchmarks/results/)"
    )
    options = parser.parse_args()
    if options.device == "cuda" and find_spec("cupy") is None:
        print("error: CuPy is not installed: pip install 'futad[cuda13]'; --device emulated --toy needs no card")
        return 1
    budget = Budget(options.budget)
    options.reserve = 180.0 if options.device == "cuda" else 120.0  # for what comes after the rows
    report: dict[str, Any] = {
        "device": options.device, "toy": options.toy, "date": time.strftime("%Y-%m-%d"),
        "machine": platform.platform(), "versions": versions(),
    }  # fmt: skip
    about = Stage("about", options)
    report |= about.answer(60)
    about.stop()
    if "failed" in report:
        print(f"error: {report['failed']}\n{report.get('log', '')}".rstrip())
        return 1
    card = "".join(c if c.isalnum() else "-" for c in report["card"].split(",")[0].lower())
    target = Path(options.json) if options.json else ROOT / "benchmarks" / "results" / f"gpu-{card}.json"

    def keep(stage: str) -> None:
        report["seconds"] = options.budget - budget.left()
        print(f"{stage}: {budget.left():.0f} s left", file=sys.stderr, flush=True)
        if options.json or options.device == "cuda":
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(json.dumps(report, indent=1) + "\n")

    def do(name: str, step: Callable[[argparse.Namespace, Budget], dict[str, Any]]) -> None:
        report[name] = step(options, budget)
        keep(name)

    do("compiled", compiled)
    do("ceilings", ceilings)
    report["rows"] = []
    for row in rows(options, budget, report.get("gigabytes", 8.0)):
        report["rows"].append(row)
        keep(f"  {row['workload']}")
    add_shares(report, {w.label: w for w in workloads(options.toy)})
    do("correctness", correctness)
    do("sanitizers", sanitizers)
    report["problems"] = problems(report)
    keep("done")
    print(f"{report['card']}\n{table(report)}")
    done = report["correctness"]
    print(f"ceilings: {', '.join(f'{k} {v:.1f}' for k, v in report['ceilings'].items() if not isinstance(v, str))}")
    print(f"test programs: {done['cases'] - len(done['failures'])} of {done['cases']} cases pass")
    print("\n".join(f"{k}: {v.splitlines()[0][:200]}" for k, v in report["sanitizers"].items()))
    for p in report["problems"]:
        print(f"PROBLEM {p}")
    return 1 if report["problems"] else 0


def ceilings(options: argparse.Namespace, budget: Budget) -> dict[str, Any]:
    """What the card reaches."""
    s = Stage("ceilings", options)
    answer = s.answer(min(60.0, budget.left()))
    s.stop()
    return answer


if __name__ == "__main__":
    sys.exit(main())
