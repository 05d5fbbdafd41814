"""The device suite: what works on a card, and how fast.

    python benchmarks/gpu.py --json OUT               on a GPU, through CuPy; a table on standard output
    python benchmarks/gpu.py --peers --json OUT       the paper's workloads beside PyTorch and JAX
    python benchmarks/gpu.py --everyday --json OUT    the programs of `textbook/` beside JAX
    python benchmarks/gpu.py --sanitizers --json OUT  compute-sanitizer over a few test programs
    python benchmarks/gpu.py --device emulated --toy  the first of these without a card, at toy sizes

Stages, by how much they tell: *smoke*, small things that go wrong first; *programs*, every case of every test program,
called until it is replayed from graphs, against its test block and the interpreter, by several processes at once;
*everyday*, values and gradients of the programs of `textbook/` beside the CPU's; *compile*, all cores' work ahead of
the *rows*, which are all benchmark programs, futad alone, against the CPU, timed.  Each case is in a process that goes
on with the next one unless something breaks it: a fault of a kernel, a hang or a crash costs that case, and what is
reported names program and kernel.  A case that failed is done once more on its own, one kernel after the other
(FUTAD_SYNC), a wrong one with its values checked (docs/checking.md).

Times are medians of at least ten runs after a warm-up, from arguments on the device to results on the device, and what
they computed is compared again.  What does not fit the budget is left out, and said so; the JSON is written after each
case.  Exit status 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import queue
import re
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gpu_worker import DETAILS, Answer, Worker, each

ROOT = Path(__file__).resolve().parents[1]
SANITIZED = ("reduce_ops", "scan_family", "hist_family", "scatter_family", "matrix", "reduce_tuples")
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
CLEAN = re.compile(r"=+ (COMPUTE-SANITIZER|(\w+ )?SUMMARY: 0 (errors|hazards))|$")  # of a tool that found nothing
SHARDS = max(1, (os.cpu_count() or 1) // 2)  # workers at once, where nothing is timed
PER_CASE = {"cuda": 30.0, "emulated": 60.0}  # seconds


class Suite:
    """The options, the time there is, and the report so far."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.end = time.monotonic() + options.budget
        self.report: Answer = {
            "device": options.device, "toy": options.toy, "date": time.strftime("%Y-%m-%d"),
            "machine": platform.platform(), "versions": versions(),
        }  # fmt: skip

    def left(self) -> float:
        return max(0.0, self.end - time.monotonic())

    def keep(self) -> None:
        """The report so far in its file."""
        self.report["seconds"] = self.options.budget - self.left()
        if self.options.json:
            target = Path(self.options.json)
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary = target.with_name(f".{target.name}")
            temporary.write_text(json.dumps(self.report, indent=1) + "\n")
            temporary.replace(target)

    def say(self, text: str) -> None:
        print(f"[{self.left():5.0f} s left] {text}", file=sys.stderr, flush=True)

    def stage(self, name: str, worker: str, cases: Sequence[str], share: float, shards: int = 1) -> None:
        """Do cases, for a share of the time that is left, by so many workers at once."""
        done: list[Answer] = []
        self.report[name] = done
        end = time.monotonic() + share * self.left()
        reporting = threading.Lock()

        def work(names: Sequence[str]) -> None:
            for made in each(worker, self.options, names, self.options.per_case, end):
                if "failed" in made:
                    made = self.explained(worker, made)
                with reporting:
                    if "failed" in made:
                        self.say(f"{name}: {made['name']}: {made['failed'].splitlines()[0][:200]}")
                    done.append(made)
                    self.keep()

        with ThreadPoolExecutor(shards) as pool:
            list(pool.map(work, [cases[i::shards] for i in range(shards)]))
        bad = sum("failed" in d for d in done)
        skipped = sum("skipped" in d for d in done)
        self.say(f"{name}: {len(done) - bad - skipped} good, {bad} failed, {skipped} left out")

    def explained(self, worker: str, made: Answer) -> Answer:
        """A failed case with what doing it again tells: the kernel of a fault, the binding of a wrong value."""
        if worker not in ("programs", "row", "smoke") or made.get("late") or self.left() < DETAILS:
            return made
        again = {"FUTAD_SYNC": "1"}
        if worker == "programs":
            again["FUTAD_CHECK"] = "values"
        (more,) = each(worker, self.options, [made["name"]], self.options.per_case, self.end, **again)
        detail = more.get("failed", "nothing wrong when its kernels run one after the other")
        return {**made, "failed": f"{made['failed']}\nalone: {detail}"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cuda", "emulated"], default="cuda")
    parser.add_argument("--toy", action="store_true", help="tiny sizes")
    parser.add_argument("--peers", action="store_true", help="only the paper's workloads, beside other libraries")
    parser.add_argument("--everyday", action="store_true", help="only the programs of textbook/, beside JAX")
    parser.add_argument("--sanitizers", action="store_true", help="only compute-sanitizer")
    parser.add_argument("--runs", type=int, default=20, help="runs that a time is the median of (default: %(default)s)")
    parser.add_argument("--programs", type=int, metavar="N", help="only the first N test programs")
    parser.add_argument("--only", metavar="TEXT", nargs="*", default=[""], help="only rows whose name contains one")
    parser.add_argument("--budget", type=float, default=510, metavar="S", help="seconds for all (default: %(default)s)")
    parser.add_argument("--per-case", type=float, metavar="S", help="seconds for a case (default: 30, emulated 60)")
    parser.add_argument("--json", metavar="OUT", help="where to write the results")
    options = parser.parse_args()
    options.per_case = options.per_case or PER_CASE[options.device]
    options.seconds = 10.0 if options.device == "cuda" else 1.0  # for timing a row
    if options.device == "cuda" and find_spec("cupy") is None:
        print("error: CuPy is not installed: pip install 'futad[cuda13]'; --device emulated --toy needs no card")
        return 1
    suite = Suite(options)
    (about,) = each("about", options, ["device"], 60, suite.end)
    if "failed" in about:
        print(f"error: {about['failed'].partition(': ')[2] or about['failed']}")
        return 1
    suite.report |= {k: about[k] for k in ("card", "gigabytes")}
    suite.say(suite.report["card"])
    if options.sanitizers:
        sanitizers(suite)
    elif options.everyday:
        beside_jax(suite)
    elif options.peers:
        suite.stage("ceilings", "ceilings", ["card"], 0.3)
        options.per_case = max(options.per_case, 120.0)
        suite.stage("rows", "peers", [r.name for r in chosen(options) if r.workload], 0.95)
    else:
        everything(suite)
    add_shares(suite.report, {r.name: r.workload for r in chosen(options)})
    suite.report["problems"] = problems(suite.report)
    suite.keep()
    print(suite.report["card"])
    if suite.report.get("rows"):
        print(table(suite.report))
    if options.everyday:
        print(everyday_table(suite.report["everyday"]))
    for name in ("smoke", "programs", "everyday", "sanitizers"):
        if name in suite.report:
            done = suite.report[name]
            good = [d for d in done if "failed" not in d and "skipped" not in d]
            cases = sum(d.get("cases", 1) for d in good)
            print(f"{name}: {len(good)} of {len(done)} good ({cases} cases)")
    for p in suite.report["problems"]:
        print(f"PROBLEM {p}")
    return 1 if suite.report["problems"] else 0


def everything(suite: Suite) -> None:
    from gpu_smoke import SMOKE

    options = suite.options
    names = sorted(p.stem for p in (ROOT / "tests" / "programs").glob("*.fut"))[: options.programs]
    row_names = [r.name for r in chosen(options)]
    suite.stage("smoke", "smoke", list(SMOKE), 0.4)
    suite.stage("programs", "programs", names, 0.5, SHARDS)
    suite.stage("everyday", "everyday", textbook(options), 0.4, SHARDS)
    suite.stage("ceilings", "ceilings", ["card"], 0.2)
    compiled(suite, row_names)
    suite.stage("rows", "row", row_names, 0.95)


def textbook(options: argparse.Namespace) -> list[str]:
    names = sorted(p.stem for p in (ROOT / "benchmarks" / "textbook").glob("*.fut"))
    return [n for n in names if not options.everyday or any(text in n for text in options.only)][: options.programs]


def beside_jax(suite: Suite) -> None:
    """Programs of `textbook/` beside JAX: all at once, so that they are compiled, then one by one, timed."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ |= {"JAX_COMPILATION_CACHE_DIR": cache, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
        suite.stage("everyday", "rivals", textbook(suite.options), 0.6, SHARDS)
        first = {d["name"]: d for d in suite.report["everyday"]}
        suite.stage("everyday", "rivals", [n for n, d in first.items() if "off" in d], 0.95)
    for d in suite.report["everyday"]:
        for who in ("jax", "futad"):
            if who in d:
                d[who]["first_s"] = first[d["name"]][who]["first_s"]
    suite.report["everyday"] += [d for d in first.values() if "off" not in d]


def compiled(suite: Suite, names: Sequence[str]) -> None:
    """Programs of the rows compiled on all cores at once; what there was no time for is compiled where it is used."""
    end = time.monotonic() + 0.4 * suite.left()
    work = partial(_shard, suite.options, end)
    with ThreadPoolExecutor(SHARDS) as pool:
        done = [made for part in pool.map(work, [names[i::SHARDS] for i in range(SHARDS)]) for made in part]
    suite.report["compile"] = [d for d in done if not d.get("late")]
    suite.say(f"compile: {sum('failed' not in d and 'skipped' not in d for d in done)} of {len(names)}")
    suite.keep()


def _shard(options: argparse.Namespace, end: float, names: Sequence[str]) -> list[Answer]:
    return list(each("compile", options, names, 300.0, end))


def chosen(options: argparse.Namespace) -> Iterator[Any]:
    from gpu_rows import rows

    return (r for r in rows(options.toy) if any(text in r.name for text in options.only))


def sanitizers(suite: Suite) -> None:
    """compute-sanitizer over a few programs, whose memory is then one allocation a slot."""
    tool = shutil.which("compute-sanitizer")
    suite.report["sanitizers"] = done = []
    for kind in TOOLS:
        if suite.options.device != "cuda" or tool is None:
            why = "compute-sanitizer is not installed" if tool is None else "there is no card"
            done.append({"name": kind, "skipped": why})
            continue
        wrap = (tool, "--tool", kind, "--error-exitcode", "9", "--print-limit", "5")
        worker = Worker("programs", suite.options, SANITIZED, wrap, FUTAD_GRAPHS="0", FUTAD_SUITE_POOL="0")
        done.append({"name": kind, **_watched(worker, min(120.0, suite.left()))})
        suite.keep()


def _watched(worker: Worker, seconds: float) -> Answer:
    """What a tool says, which prints among the worker's answers."""
    end = time.monotonic() + seconds
    cases, noise = 0, []
    while True:
        try:
            line = worker.lines.get(timeout=max(0.0, end - time.monotonic()))
        except queue.Empty:
            worker.stop()
            return {"skipped": "not done in time"}
        if not line:
            break
        try:
            made = json.loads(line)
            cases += made.get("cases", 0)
            noise += [made["failed"]] if "failed" in made else []
        except ValueError:
            noise += [] if CLEAN.match(line) else [line.strip()]
    status = worker.process.wait()
    tail = worker.tail()
    worker.stop()
    if status == 0 and cases and not noise:
        return {"cases": cases}
    return {"failed": f"exit status {status}: {' '.join(noise)[-1500:]}{tail}"}


# --- the report -------------------------------------------------------------------------------------------


def table(report: Answer) -> str:
    """The rows, in milliseconds: the primal, the gradient, and each other contender's gradient."""
    others = list(dict.fromkeys(n for r in report["rows"] for n in r.get("times", {}) if n != "futad"))
    out = [f"{'gradients in ms':<48} {'primal':>9} {'futad':>9} {'overhead':>8} {'launches':>8}"
           + "".join(f" {n:>13}" for n in others) + f" {'of ceiling':>10}"]  # fmt: skip
    for r in report["rows"]:
        mine = r.get("times", {}).get("futad", {})
        if "gradient_ms" not in mine:
            why = r.get("skipped") or r.get("failed") or mine.get("skipped") or "?"
            out.append(f"{r['name']:<48} {str(why).splitlines()[0][:90]}")
            continue
        given = [r["times"].get(n, {}) for n in others]
        part = r.get("of_ceiling")
        cells = [f"{t['gradient_ms']:.3f}" if "gradient_ms" in t else "-" for t in given]
        out.append(
            f"{r['name']:<48} {mine['primal_ms']:>9.3f} {mine['gradient_ms']:>9.3f} {mine['overhead']:>8.2f} "
            f"{mine['launches']:>8}" + "".join(f" {c:>13}" for c in cells) + f" {f'{part:.0%}' if part else '-':>10}"
        )
    return "\n".join(out)


def everyday_table(done: Sequence[Answer]) -> str:
    """Gradients of the programs of `textbook/` in milliseconds, and how many times as fast futad is."""
    out = [f"{'gradients in ms':<24} {'futad':>9} {'JAX':>9} {'ratio':>6} {'first, s':>9} {'JAX':>6}"]
    for d in done:
        ours, jax = d.get("futad", {}), d.get("jax", {})
        if "ms" in ours:
            out.append(f"{d['name']:<24} {ours['ms']:>9.3f} {jax['ms']:>9.3f} {jax['ms'] / ours['ms']:>6.2f} "
                       f"{ours['first_s']:>9.1f} {jax['first_s']:>6.1f}")  # fmt: skip
    return "\n".join(out)


def add_shares(report: Answer, work: dict[str, Any]) -> None:
    """The part of the matrix products' ceiling that a row's gradient reaches: three products for each of the primal."""
    tops = next(iter(report.get("ceilings", [])), {})
    for r in report.get("rows", []):
        w, mine = work[r["name"]], r.get("times", {}).get("futad", {})
        top = tops.get(f"matmul_{'float64' if w and w.dtype == 'f64' else 'float32'}_tflop_s")
        if w and w.flops and top and "gradient_ms" in mine:
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


def problems(report: Answer) -> list[str]:
    """What is wrong, by stage and case."""
    stages = [n for n in ("smoke", "programs", "everyday", "compile", "ceilings", "rows", "sanitizers") if n in report]
    return [f"{n}: {d['name']}: {d['failed']}" for n in stages for d in report[n] if "failed" in d]


if __name__ == "__main__":
    sys.exit(main())
