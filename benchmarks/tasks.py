"""What forking costs, and how much sooner two threads end a forked tree.

    python benchmarks/tasks.py [--runs N] [--json OUT]

Prints the nanoseconds of a fork that nobody takes: of offering a task and taking it back (the runtime's own code, in a
loop of C), and of each fork of a tree of 2^20 leaves, by the time of one thread of `multicore` over that of `c`, which
does tasks in order.  Then, of that tree's value and gradient, how many times as fast two threads are as one, and how
many times the work two copies of the program on one thread do in the time of one: what the machine has to give.  Each
run is a process that takes all of these in turn; the best run counts of those in which the copies reach the bar.

Exit status 1 if a fork costs more than 30 ns, or two threads are not 1.6 times as fast for the value or 1.5 times for
the gradient although the machine has that to give; answers of all runs have to have the same bits.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

DEPTH = 20
BARS = {"value": 1.6, "gradient": 1.5}
MOST_NS = 30.0

PROGRAM = """
def tree (d: i64) (x: f64): f64 =
  if d == 0 then f64.sin x + x * x
  else let (a, b) = par (tree (d - 1)) (tree (d - 1)) (x * 0.5, x * 0.5 + 1) in 0.7 * a + f64.sqrt (1 + 0.1 * b * b)
entry value (d: i64) (x: f64): f64 = tree d x
entry gradient (d: i64) (x: f64): f64 = vjp (tree d) x 1
"""

OFFERS = r"""
#include <stdio.h>
static void nothing(struct futad_task *task, struct futad_context *ctx) { (void)task, (void)ctx; }
int main(void) {
  struct futad_context *ctx = futad_new();
  static struct futad_stack stack;
  static struct futad_members all;
  ctx->slots[FUTAD_STACK_SLOT].data = &stack;
  stack.member = &all.member[0];
  all.member[0].all = &all;
  double best = 1e9;
  for (int run = 0; run < 20; run++) {
    const int64_t start = futad_pool_clock(), n = 1000000;
    for (int64_t i = 0; i < n; i++) {
      struct futad_task task = {.run = nothing};
      if (futad_forks(ctx)) {
        futad_offer(ctx, &task);
        if (futad_retake(ctx)) task.run(&task, ctx);
        else futad_await(ctx, &task);
      }
    }
    const double ns = (double)(futad_pool_clock() - start) / (double)n;
    if (ns < best) best = ns;
  }
  printf("%.2f\n", best);
  return 0;
}
"""


def least(call: Callable[[], Any], repeats: int = 15) -> float:
    """Seconds of a call, the least of several."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def offers() -> float:
    """Nanoseconds of offering a task and taking it back."""
    from futad.backend.c_runtime import RUNTIME, THREADS
    from futad.runtime.cc import headers

    lines = [
        "#define FUTAD_SLOTS 3", "#define FUTAD_MAX_RANK 1", '#include "thread_pool.h"', RUNTIME,
        "#define FUTAD_GRAIN 8192", THREADS, "#define FUTAD_STACK_SLOT 1", '#include "recursion.h"',
        "#define FUTAD_TASKS_SLOT 2", '#include "tasks.h"', OFFERS,
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        source, program = Path(folder) / "offers.c", Path(folder) / "offers"
        source.write_text("\n".join(lines))
        for name, text in headers().items():
            (Path(folder) / name).write_text(text, encoding="utf-8")
        flags = ["-O3", "-march=native", "-pthread"]
        subprocess.run([os.environ.get("CC", "cc"), *flags, "-o", program, source, "-lm"], check=True)
        return float(subprocess.run([program], check=True, capture_output=True, text=True).stdout)


def two_copies(call: Callable[[Any], Any], programs: list[Any]) -> float:
    """Seconds until both of two threads have called a program of their own, the least of several."""
    best = float("inf")
    for _ in range(15):
        barrier = Barrier(3)

        def run(p: Any, barrier: Barrier = barrier) -> None:
            barrier.wait()
            call(p)

        threads = [Thread(target=run, args=(p,)) for p in programs]
        for t in threads:
            t.start()
        barrier.wait()
        start = time.perf_counter()
        for t in threads:
            t.join()
        best = min(best, time.perf_counter() - start)
    return best


def one_run() -> dict[str, Any]:
    """The figures of one process, by entry."""
    import futad

    c = [futad.compile(PROGRAM, backend="c") for _ in range(2)]
    m = futad.compile(PROGRAM, backend="multicore")
    m.value(1, 0.5)
    executor: Any = m._executable.executor()
    library = executor.lib if hasattr(executor, "lib") else executor.library  # from the cache, or compiled now
    threads = library.futad_pool_set_threads
    out: dict[str, Any] = {}
    for entry in BARS:

        def call(p: Any, entry: str = entry) -> float:
            return float(getattr(p, entry)(DEPTH, 0.3))

        for p in (*c, m):
            call(p)
        found: dict[str, Any] = {"c": least(lambda: call(c[0]))}
        found["copies"] = 2 * found["c"] / two_copies(call, c)
        for n in (1, 2):
            threads(n)
            found[str(n)] = least(lambda: call(m))
            found[f"answer {n}"] = call(m).hex()
        out[entry] = found
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--one-run", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one_run:
        print(json.dumps(one_run()))
        return 0
    report: dict[str, Any] = {"offer and take back, ns": offers(), "runs": []}
    for _ in range(args.runs):
        command = [sys.executable, __file__, "--one-run"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        report["runs"].append(json.loads(done.stdout.splitlines()[-1]))
    failed = report["offer and take back, ns"] > MOST_NS
    print(f"offering a task and taking it back: {report['offer and take back, ns']:.1f} ns")
    for entry, bar in BARS.items():
        runs = [run[entry] for run in report["runs"]]
        c, one = min(r["c"] for r in runs), min(r["1"] for r in runs)
        fork = 1e9 * (one - c) / (2**DEPTH - 1)
        fit = [r for r in runs if r["copies"] >= bar]
        best = max((r["1"] / r["2"] for r in fit), default=None)
        failed |= fork > MOST_NS or (best is not None and best < bar)
        print(f"{entry:9} c {1e3 * c:6.2f} ms; one thread {1e3 * one:6.2f} ms, {fork:4.1f} ns a fork; ", end="")
        if best is None:
            print(f"two threads not known: no run in which two copies do {bar} times the work of one")
        else:
            r = max(fit, key=lambda r: r["1"] / r["2"])
            print(f"two {1e3 * r['2']:6.2f} ms, {best:.2f} times as fast (bar {bar}); copies {r['copies']:.2f} times")
        answers = {r[f"answer {n}"] for r in runs for n in (1, 2)}
        if len(answers) > 1:
            failed = True
            print(f"{entry}: answers differ: {sorted(answers)}")
    if args.json:
        args.json.write_text(json.dumps(report, indent=1))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
