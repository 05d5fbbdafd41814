"""All evals of GradBench at their default sizes, validated by GradBench itself.

    python benchmarks/gradbench.py CHECKOUT [--only EVAL...] [--against TOOL] [--backend B] [--json OUT]

CHECKOUT is a clone of github.com/gradbench/gradbench in which `tools/manual` is built (its evals take the expected
answers from there; see its documentation); this Python needs what its evals import (numpy, scipy, pydantic,
dataclasses-json).  Each eval runs as its own process and talks to `futad gradbench`; what it sends and what it finds
valid passes through here and is counted.  With --against, a tool made of executables like `manual` answers the same
messages on one thread, each right after futad, and medians are compared.  Exit status 1 if anything is not valid.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

EVALS = ("hello", "gmm", "ba", "ht", "lstm", "kmeans", "llsq", "lse", "det", "ode", "particle", "saddle")


@dataclass(slots=True)
class Evaluation:
    """One message `evaluate`: its function and size, if its output was valid (None until told), and medians."""

    eval: str
    function: str
    size: str
    valid: bool | None = None
    error: str = ""
    seconds: float = math.nan
    other: float = math.nan


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="a clone of GradBench with its manual tool built")
    parser.add_argument("--only", nargs="+", choices=EVALS, default=EVALS, metavar="EVAL", help=", ".join(EVALS))
    parser.add_argument("--against", metavar="TOOL", help="a tool with executables in tools/TOOL/bin, such as manual")
    parser.add_argument("--backend", default="c", help="futad's (default c: one thread)")
    parser.add_argument("--min-runs", type=int, default=1, metavar="N", help="runs of each function at least")
    parser.add_argument("--min-seconds", type=float, default=0, metavar="S", help="seconds for each at least")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write the measurements here")
    options = parser.parse_args()
    source = options.checkout / "python" / "gradbench"
    if not (source / "gradbench" / "evals").is_dir():
        parser.error(f"{options.checkout} is no clone of GradBench: it has no python/gradbench/gradbench/evals")
    if not (options.checkout / "tools" / "manual" / "bin").is_dir():
        parser.error("the manual tool is not built: its bin/ is missing, and the evals ask it for answers")
    evaluations: list[Evaluation] = []
    for name in options.only:
        found, problem = converse(name, options)
        evaluations += found
        summary(name, found, problem, options.against)
        if problem:
            evaluations.append(Evaluation(name, "", "", False, problem))
    good = sum(e.valid is True for e in evaluations)
    print(f"{good} of {len(evaluations)} evaluations valid, {len(options.only)} evals")
    if options.json:
        rows = [{field: getattr(e, field) for field in Evaluation.__slots__} for e in evaluations]
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0 if evaluations and good == len(evaluations) else 1


def converse(name: str, options: argparse.Namespace) -> tuple[list[Evaluation], str]:
    """Let one eval and futad talk to each other.  What was evaluated, and what else went wrong."""
    environment = os.environ | {"PYTHONPATH": str((options.checkout / "python" / "gradbench").resolve())}
    limits = ["--min-runs", str(options.min_runs), "--min-seconds", str(options.min_seconds)] if name != "hello" else []
    asking = subprocess.Popen(
        [sys.executable, "-m", f"gradbench.evals.{name}.run", *limits],
        cwd=options.checkout, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    tool = subprocess.Popen(
        [sys.executable, "-m", "futad", "gradbench", "-b", options.backend],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    found: dict[int, Evaluation] = {}
    problem = ""
    try:
        problem = relay(name, asking, tool, found, options)
    finally:
        for process in (asking, tool):
            if process.stdin:
                process.stdin.close()
            process.wait()
    if not problem and asking.returncode:
        problem = f"the eval ended with status {asking.returncode}"
    return list(found.values()), problem


def relay(name: str, asking: Any, tool: Any, found: dict[int, Evaluation], options: argparse.Namespace) -> str:
    """Pass messages on until the eval ends, and note in `found` what they tell.  What went wrong, or nothing."""
    for line in asking.stdout:
        message = json.loads(line)
        send(tool.stdin, line)
        answer = tool.stdout.readline()
        if not answer:
            return "futad gradbench stopped"
        response = json.loads(answer)
        if message["kind"] == "define" and not response["success"]:
            return f"not compiled: {response['error']}"
        if message["kind"] == "evaluate":
            e = Evaluation(name, message["function"], message.get("description", ""))
            found[message["id"]] = e
            if response["success"]:
                e.seconds = median(response["timings"])
                if options.against:
                    e.other = other_seconds(options.checkout, options.against, message)
            else:
                e.valid, e.error = False, response["error"]
        elif message["kind"] == "analysis":
            e = found[message["of"]]
            e.valid, e.error = message["valid"], message.get("error") or ""
            if sys.stderr.isatty():
                print(f"\r\033[K{name} {e.function} {e.size}", end="", file=sys.stderr, flush=True)
        send(asking.stdin, answer)
    return ""


def send(pipe: IO[str], line: str) -> None:
    pipe.write(line)
    pipe.flush()


def median(timings: list[dict[str, Any]]) -> float:
    return statistics.median(t["nanoseconds"] for t in timings if t["name"] == "evaluate") / 1e9


def other_seconds(checkout: Path, tool: str, message: dict[str, Any]) -> float:
    """How long the other tool takes for a message; NaN if it has no such module or fails."""
    program = (checkout / "tools" / tool / "bin" / message["module"]).resolve()
    if not program.is_file():
        return math.nan
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(message["input"], file)
        file.flush()
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [program, file.name, message["function"]], capture_output=True, text=True, env=environment, check=False
        )
    return median([json.loads(line) for line in done.stdout.splitlines()[1:]]) if done.returncode == 0 else math.nan


def summary(name: str, found: list[Evaluation], problem: str, against: str | None) -> None:
    """A line for each function of an eval, then what was wrong."""
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    for function in dict.fromkeys(e.function for e in found):
        those = [e for e in found if e.function == function]
        line = f"{name:9} {function:10} {sum(e.valid is True for e in those):3} of {len(those):2} valid"
        last = those[-1]
        line += f"   largest {last.size:30} {1e3 * last.seconds:9.3f} ms"
        if against and not math.isnan(last.other):
            ratios = [math.log(e.other / e.seconds) for e in those if e.other > 0 and e.seconds > 0]
            line += f"   {against} {1e3 * last.other:9.3f} ms, {last.other / last.seconds:.2g} of ours"
            line += f"; geometric mean of all sizes {math.exp(statistics.mean(ratios)):.2g}"
        print(line, flush=True)
    for e in found:
        if e.valid is not True:
            print(f"  NOT VALID {e.function} {e.size}: {e.error.strip() or 'no verdict'}"[:600])
    if problem:
        print(f"  {problem}")


if __name__ == "__main__":
    sys.exit(main())
