"""Futhark's own test suite, on futad: `python tests/tools/suites.py CHECKOUT`.

CHECKOUT is a clone of github.com/diku-dk/futhark, which is not part of this repository.  Each program in its folders of
tests is run as `futad test` runs it, on each backend, in a process beside this one.  A file is

- right: so are all its cases, with their error texts, and its warnings; a program that must not compile is refused in
  the words that its test asks for;
- in other words: it is refused for that reason, but errors of the compiler have words of their own.  `WORDS` has for
  each code of docs/errors.md what Futhark's tests ask for where that is the fault;
- skipped, by its tags;
- a documented limit: not right, and one of `LIMITS`;
- else of one of the classes of failures of `futad test`, which are printed as they come, or a crash, or slow.

The counts come at the end; the status is 1 if there is a failure, or a limit that no file shows on any backend.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path

from futad.cli.test import Tally, find_programs, test_program
from futad.errors import Error, UsageError
from futad.source import compile_text
from futad.testing.blocks import read_test_file

BACKENDS = ("interp", "c")
FOLDERS = ("tests",)
MOST = 100  # files that a process tries: its libraries stay loaded
GOOD = ("right", "in other words", "skipped", "documented limit")

# What is otherwise, by a part of a file's path, as docs/from-futhark.md says it.
LIMITS = {
    "tests/ad/iota0.fut": "a size has no derivative",
    "tests/ad/reducebyindex5.fut": "the operator is not associative",
    "tests/map_tridag_par.fut": "sums of f32 that overflow depend on their order",
    "tests/params/param": "no tuning parameters in programs",
    "tests/slice1.fut": "an error names the dimension that fails",
    "tests/stacktrace.fut": "an error names the place, not the calls",
}
# By the code of our error, what the tests of that fault ask of Futhark's text.
WORDS = {
    "E0101": r"Unexpected|infix",
    "E0104": r"Duplicate|previously",
    "E0201": r'Unknown|intrinsics|^"[at]"$',
    "E0202": r"Dup|also bound|previously",
    "E0301": r"Cannot (apply|unify)|not have|Occurs|scope-|Default|field|equality|record|M1|:26-|bool|\\\^|^\"n\"$",
    "E0302": r"Cannot apply",
    "E0303": r"record type",
    "E0305": r"function|Cannot create array|->|equality",
    "E0306": r"ambiguous|equality",
    "E0307": r"match",
    "E0308": r"constructors|arity",
    "E0309": r"Refutable",
    "E0313": r"lifted|\"arr\"",
    "E0314": r"array element|lifted",
    "E0401": r"match|[Ss]ize|length|do(es)? not have|Ambiguous|Occurs|scope-violation|Cannot apply|\[n|^\"n\"$",
    "E0402": r"Ambiguous|Entry point|size-polymorphic",
    "E0403": r"constructive|Cannot bind|Entry point|unused|Size parameter",
    "E0404": r"scope|ausality|[Ss]ize|loop body|generalise|Cannot apply|^\"\w+\"",
    "E0406": r"anonymous|empt",
    "E0407": r"ausality",
    "E0501": r"consumed",
    "E0502": r"Consuming|consumable",
    "E0503": r"Consuming|consumable",
    "E0504": r"consumed|aliase[sd]|in-place",
    "E0505": r"aliased|consumable|Unique|^\"chunk\"$",
    "E0506": r"consum|expected type",
    "E0507": r"aliases",
    "E0602": r"[Mm]odule type|lifted|Sizes|Default|^(type|val|bar|x)\b",
    "E0604": r"refine|abstract",
    "E0701": r"polymorphic",
    "E0702": r"higher-order",
    "E0703": r"Entry points",
}

Outcomes = dict[str, tuple[str, str]]  # by backend: the class, and the report of the failures
Report = Callable[[Path, str, str, str], None]


def outcomes(file: Path, backends: Sequence[str]) -> Outcomes:
    """What comes of a file; whether a program that must not compile is refused does not depend on the backend."""
    try:
        once = read_test_file(file).error is not None
    except Error:
        once = True
    first = _outcome(file, backends[0])
    return {b: first if once or b == backends[0] else _outcome(file, b) for b in backends}


def _outcome(file: Path, backend: str) -> tuple[str, str]:
    reports: list[str] = []
    tally = Tally(report=reports.append)
    test_program(file, backend, None, frozenset(), tally)
    text = "\n".join(reports)
    if not tally.failed:
        return "skipped" if tally.skipped and not tally.passed else "right", text
    kind = next(iter(tally.kinds))
    return ("in other words" if kind == "error text" and same_fault(text) else kind), text


def same_fault(report: str) -> bool:
    """Whether a program is refused for the reason that its test names, going by the code of the error."""
    asked = re.search(r"^  expected: (.*)$", report, re.MULTILINE)
    codes = re.findall(r" \[(E\d{4})\]$", report, re.MULTILINE)
    return asked is not None and any(re.search(WORDS[c], asked[1]) for c in codes if c in WORDS)


# --- many files --------------------------------------------------------------------------------------------


def _work(backends: Sequence[str], pipe: Connection) -> None:
    """Try the files that come through the pipe, and send back what comes of each."""
    os.setsid()
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)
    while True:
        file = Path(pipe.recv_bytes().decode())
        try:
            said = outcomes(file, backends)
        except BaseException:
            said = dict.fromkeys(backends, ("internal error", f"{file}: {traceback.format_exc()}"))
        pipe.send_bytes(json.dumps(said).encode())


class Worker:
    """A process that tries files one after another; a new one after a crash, or a file that takes too long."""

    def __init__(self, backends: Sequence[str], seconds: float) -> None:
        self.backends, self.seconds = backends, seconds * len(backends)
        self.begin()

    def begin(self) -> None:
        fork = multiprocessing.get_context("fork")
        self.pipe, there = fork.Pipe()
        self.process = fork.Process(target=_work, args=(self.backends, there), daemon=True)
        self.process.start()
        there.close()
        self.file: Path | None = None
        self.done = 0

    def give(self, file: Path) -> None:
        """Let it try a file."""
        if self.done == MOST:
            self.end()
            self.begin()
        self.file, self.start = file, time.monotonic()
        self.pipe.send_bytes(str(file).encode())

    def end(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid or 0, signal.SIGKILL)
        self.process.join()
        self.pipe.close()

    def heard(self, ready: bool) -> Outcomes | None:
        """What came of its file, if that is known by now."""
        if ready:
            try:
                said = json.loads(self.pipe.recv_bytes())
                self.file, self.done = None, self.done + 1
                return {b: (kind, text) for b, (kind, text) in said.items()}
            except (EOFError, ConnectionError):
                self.process.join()
                what = "crash", f"{self.file}: ended with status {self.process.exitcode}"
        elif time.monotonic() - self.start > self.seconds:
            what = "slow", f"{self.file}: given up after {self.seconds:g} s"
        else:
            return None
        self.end()
        self.begin()
        return dict.fromkeys(self.backends, what)


def run(files: Sequence[Path], backends: Sequence[str], jobs: int, seconds: float, report: Report) -> None:
    """Try all files, so many at a time; each backend has so many seconds for one."""
    left = list(reversed(files))
    workers = [Worker(backends, seconds) for _ in range(min(jobs, len(files)))]
    while left or any(w.file for w in workers):
        for w in workers:
            if left and w.file is None:
                w.give(left.pop())
        busy = [w for w in workers if w.file]
        ready = wait([w.pipe for w in busy], timeout=1)
        for w in busy:
            file = w.file
            if (said := w.heard(w.pipe in ready)) is not None and file is not None:
                for backend, (kind, text) in said.items():
                    report(file, backend, kind, text)
    for w in workers:
        w.end()


def limit_of(file: Path) -> str | None:
    """The documented limit that a file may show, as a part of its path."""
    return next((part for part in LIMITS if part in str(file)), None)


def stale_limits(files: Sequence[Path], shown: set[str]) -> list[str]:
    """The documented limits that none of the files shows, though some could."""
    return [part for part in LIMITS if part not in shown and any(part in str(f) for f in files)]


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="suites.py", description=__doc__.split("\n\n")[0])
    parser.add_argument("checkout", metavar="CHECKOUT", type=Path, help="a clone of github.com/diku-dk/futhark")
    parser.add_argument("--backends", default=",".join(BACKENDS), help="default: %(default)s")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="files at a time (default: 1)")
    parser.add_argument("--seconds", type=float, default=120, metavar="S", help="for each on a backend (default: 120)")
    parser.add_argument("--only", default="", metavar="PART", help="files whose paths have that part")
    parser.add_argument("--log", metavar="FILE", help="add file, backend, class and report, a line of JSON each")
    args = parser.parse_args(argv)
    folders = [str(args.checkout / f) for f in FOLDERS if (args.checkout / f).is_dir()]
    if not folders:
        raise UsageError(f"{args.checkout} has none of the folders {', '.join(FOLDERS)}")
    files = [f for f in find_programs(folders) if args.only in str(f)]
    backends = args.backends.split(",")
    counts: Counter[tuple[str, str]] = Counter()

    shown: set[str] = set()

    def report(file: Path, backend: str, kind: str, text: str) -> None:
        limit = limit_of(file)
        if limit is not None and kind not in GOOD:
            kind = "documented limit"
            shown.add(limit)
        counts[backend, kind] += 1
        if kind not in GOOD:
            print(f"{kind} on {backend}: {text or file}", flush=True)
        if args.log:
            with open(args.log, "a") as log:
                log.write(json.dumps([str(file), backend, kind, text]) + "\n")

    compile_text("def main (x: i32) = x + 1", "warm.fut")  # the prelude is read before any process begins
    run(files, backends, args.jobs, args.seconds, report)
    print(f"{len(files)} files")
    for backend in backends:
        row = {kind: n for (b, kind), n in counts.items() if b == backend}
        kinds = [k for k in GOOD if k in row] + sorted(k for k in row if k not in GOOD)
        print(f"{backend:10s}", ", ".join(f"{row[k]} {k}" for k in kinds))
    stale = stale_limits(files, shown) if set(BACKENDS) <= set(backends) else []
    for part in stale:
        print(f"{part} is no limit any more: {LIMITS[part]}")
    return 1 if stale or any(kind not in GOOD for _, kind in counts) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Error as e:
        print(e, file=sys.stderr)
        sys.exit(2)
