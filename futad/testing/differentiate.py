"""Programs of others, differentiated: every entry with floats in and out, in both modes, on every backend.

    python -m futad.testing.differentiate PATH... [--backends c,multicore,emulated] [--seconds S] [--log FILE]

For each entry the value, jvp and vjp are computed at the inputs of its test blocks (the small ones), or at random ones,
and compared:

- value, jvp and vjp of every backend with those of the interpreter (or, where it takes too long, of the first backend);
- <ybar, J x'> with <J^T ybar, x'> on every backend;
- jvp with central differences, where the function is smooth enough to have them.

A program that brings derivatives of its own (`with_vjp`) is only compared with itself on other backends.

A row an entry and backend: `right`, `wrong` (with what differs), `refused` (futad does not compile the program or its
derivative; with the error), `fails` (the program stops on these inputs, on the interpreter too), `unsure` (only the
central differences disagree: there may be a kink; or rounding decides, as where a random matrix that is inverted is
singular; or the program has attributes that leave values undefined, `unsafe` and `scratch`), `slow` (given up after so
many seconds).  Each file is tried in a process of its own.  The exit status is 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from futad.api.derivatives import has_floats
from futad.api.program import Function, Program, load
from futad.core import ir
from futad.core.interp import Interpreter, TooLong
from futad.errors import BackendError, Error, InternalError, UsageError
from futad.runtime.randomvalues import random_leaves
from futad.testing.blocks import read_test_file
from futad.testing.derivatives import Probe
from futad.testing.fuzz import oracle
from futad.testing.inputs import make_input

BACKENDS = ("interp", "c", "multicore", "emulated")
LARGEST = 20_000  # elements of an input
INPUTS = 2  # of an entry
STATEMENTS = 300_000  # of the interpreter, in a call
UNDEFINED = ("#[unsafe]", "#[scratch]")
STATUSES = ("right", "wrong", "unsure", "refused", "fails", "slow")


@dataclass(frozen=True, slots=True)
class Row:
    """What came of one entry on one backend."""

    file: str
    entry: str
    backend: str
    status: str
    detail: str = ""


def try_file(path: str, backends: Sequence[str]) -> Iterator[Row]:
    """The rows of one file, as they are known."""
    try:
        plain = load(path, backend="interp")
    except Error as e:
        yield Row(path, "", "", "refused", _said(e))
        return
    undefined = any(a in Path(path).read_text(errors="replace") for a in UNDEFINED)
    programs: dict[str, Program] = {b: load(path, backend=b) for b in backends}
    for name, function in plain.entries.items():
        if _has_floats(function):
            others = {b: p.entries[name] for b, p in programs.items()}
            for row in _try_entry(path, plain, function, others, brings_derivatives(plain.core)):
                wrong = row.status == "wrong" and undefined
                yield replace(row, status="unsure", detail=f"undefined values: {row.detail}") if wrong else row


def brings_derivatives(program: ir.Program) -> bool:
    """Whether there are derivatives in the program that it defines itself, and that may be anything."""

    def inside(lam: ir.Lambda) -> bool:
        return any(isinstance(s.exp, ir.WithVjp) or any(map(inside, s.exp.lambdas())) for s in lam.stms)

    return any(inside(f.body) for f in program.funs.values())


def _has_floats(f: Function) -> bool:
    return any(has_floats(t) for _, t in f.entry.params) and has_floats(f.entry.result)


def _try_entry(
    path: str, plain: Program, function: Function, others: dict[str, Function], brings: bool
) -> Iterator[Row]:
    name = function.__name__
    inputs: list[tuple[list[Any], Derivatives | None]] = []
    failed = ""
    for leaves in _inputs(path, plain, function):
        try:
            inputs.append((leaves, _derivatives(function, leaves)))
        except TooLong:
            inputs.append((leaves, None))
        except InternalError as e:
            yield Row(path, name, "interp", "wrong", _said(e))
            return
        except Error as e:
            failed = _said(e)
        if len(inputs) == INPUTS:
            break
    if not inputs:
        yield Row(path, name, "interp", "fails", failed or "no input small enough")
        return
    for backend, f in others.items():
        status, detail, got = _compared(f, inputs, brings)
        yield Row(path, name, backend, status, detail)
        # What the interpreter takes too long for is compared with the first backend.
        inputs = [(x, e if e is not None or k >= len(got) else got[k]) for k, (x, e) in enumerate(inputs)]


@dataclass(slots=True)
class Derivatives:
    """At one point: the value, jvp along `tangents`, vjp of `cotangents`; of floats only."""

    value: list[Any]
    jvp: list[Any]
    vjp: list[Any]
    tangents: list[Any]
    cotangents: list[Any]
    probe: Probe

    @property
    def kind(self) -> str:
        return "f8" if self.probe.bytes == 8 else "f4"

    def alone(self) -> str:
        """What is wrong without anything to compare with."""
        return oracle.identity(self.cotangents, self.jvp, self.vjp, self.tangents, self.kind)

    def beside(self, other: Derivatives) -> str:
        """What differs from the same derivatives computed otherwise."""
        for name in ("value", "jvp", "vjp"):
            if said := oracle.equal(getattr(self, name), getattr(other, name), self.kind):
                return f"{name}: {said}"
        return ""

    def rounding_decides(self) -> bool:
        """Whether moving the arguments by a few units in the last place changes the value by much more."""
        unit, much = (2.0**-50, 1e-4) if self.kind == "f8" else (2.0**-21, 0.05)
        rng = np.random.default_rng(2)
        floats = set(self.probe.float_leaves)
        for _ in range(3):
            moved = [
                np.asarray(x) * (1 + unit * rng.uniform(-1, 1, np.shape(x))) if j in floats else x
                for j, x in enumerate(self.probe.leaves)
            ]
            try:
                value = self.probe.call(
                    [np.asarray(x, np.asarray(y).dtype)[()] for x, y in zip(moved, self.probe.leaves, strict=True)]
                )
            except (Error, ValueError, TooLong):
                return True
            for now, was in zip([value[j] for j in self.probe.float_results], self.value, strict=True):
                now, was = np.asarray(now, float), np.asarray(was, float)
                if now.shape != was.shape or (np.isfinite(now) != np.isfinite(was)).any():
                    return True
                finite = was[np.isfinite(was)]
                scale = float(np.abs(finite).max(initial=0.0)) or 1.0
                if np.abs(now[np.isfinite(was)] - finite).max(initial=0.0) > much * scale:
                    return True
        return False

    def smooth(self) -> str:
        """How jvp differs from central differences."""
        if self.kind != "f8":
            return ""
        by_leaf = dict(zip(self.probe.float_leaves, self.tangents, strict=True))

        def at(h: float) -> list[Any]:
            moved = [x + h * by_leaf[j] if j in by_leaf else x for j, x in enumerate(self.probe.leaves)]
            value = self.probe.call([np.asarray(x)[()] for x in moved])
            return [np.asarray(value[j]) for j in self.probe.float_results]

        try:
            return oracle.differences(at, self.jvp)
        except (Error, ValueError, TooLong):  # the program stops near this point, or has results of other sizes
            return ""


def _derivatives(f: Function, leaves: list[Any]) -> Derivatives:
    probe = Probe(f, leaves)
    rng = np.random.default_rng(1)
    tangents, cotangents = probe.direction(rng), probe.codirection(rng)
    with np.errstate(all="ignore"):
        forward, backward = probe.jvp(tangents), probe.vjp(cotangents)
    return Derivatives(
        list(probe.value),
        [forward[j] for j in probe.float_results],
        [backward[j] for j in probe.float_leaves],
        [tangents[j] for j in probe.float_leaves],
        [cotangents[j] for j in probe.float_results],
        probe,
    )


def _compared(
    f: Function, inputs: Sequence[tuple[list[Any], Derivatives | None]], brings: bool
) -> tuple[str, str, list[Derivatives]]:
    """Status and detail, and the derivatives."""
    unsure = ""
    made: list[Derivatives] = []
    for number, (leaves, expected) in enumerate(inputs):
        try:
            got = _derivatives(f, leaves)
        except InternalError as e:
            return "wrong", _said(e), made
        except TooLong:
            return "slow", f"over {STATEMENTS} statements", made
        except BackendError as e:  # such as recursion on devices
            return "refused", _said(e), made
        except Error as e:
            return ("wrong" if expected is not None else "fails"), _said(e), made
        said = "" if brings else got.alone()
        if expected is not None:
            said = said or got.beside(expected)
        if said and not got.rounding_decides():
            return "wrong", f"input {number}: {said}", made
        unsure = unsure or (f"rounding decides: input {number}: {said}" if said else "")
        made.append(got)
        if not brings:
            unsure = unsure or got.smooth()
    return ("unsure" if unsure else "right"), unsure, made


def _inputs(path: str, program: Program, f: Function) -> Iterator[list[Any]]:
    """Arguments that the program has in its test blocks, as far as they are small, then random ones."""
    sizes = len(f.signature.size_names)
    try:
        cases = [c for c in read_test_file(Path(path)).cases if c.entry == f.__name__ and c.expected != "error"]
    except Error:
        cases = []
    for case in cases:
        try:
            leaves = make_input(program, f, case)[sizes:]
        except (Error, TooLong):
            continue
        if sum(np.size(x) for x in leaves) <= LARGEST:
            yield leaves
    for seed in (1, 2):
        known = {name: 3 + i * seed for i, name in enumerate(dict.fromkeys(f.signature.size_names))}
        yield random_leaves(f.signature, seed, known)


def _said(e: Error) -> str:
    return str(e).splitlines()[0][:300]


# --- many files --------------------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="futad.testing.differentiate", description=__doc__.split("\n\n")[0])
    parser.add_argument("paths", nargs="+", metavar="PATH", help="programs, or folders of them")
    parser.add_argument("--backends", default=",".join(BACKENDS), help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=120, metavar="S", help="for each file (default: %(default)s)")
    parser.add_argument("--log", metavar="FILE", help="append the rows as JSON, a line each")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    backends = args.backends.split(",")
    if unknown := [b for b in backends if b not in BACKENDS]:
        raise UsageError(f"no backend is called '{unknown[0]}'; there are: {', '.join(BACKENDS)}")
    if args.one:
        Interpreter.limit = STATEMENTS
        for row in try_file(args.paths[0], backends):
            print(json.dumps(asdict(row)), flush=True)
        return 0
    files = _files(args.paths)
    done = _logged(args.log)
    counts: Counter[tuple[str, str]] = Counter()
    entries: set[tuple[str, str]] = set()
    for number, file in enumerate(files):
        if str(file) in done:
            continue
        for row in _in_process(file, args.backends, args.seconds):
            counts[row.backend, row.status] += 1
            if row.entry:
                entries.add((row.file, row.entry))
            if args.log:
                with open(args.log, "a") as log:
                    log.write(json.dumps(asdict(row)) + "\n")
            if row.status in ("wrong", "unsure", "slow"):
                print(f"\r\033[K{row.status}: {row.file}: {row.entry} on {row.backend}: {row.detail}", flush=True)
        if sys.stderr.isatty():
            print(f"\r\033[K{number + 1} of {len(files)}: {file.name}", end="", file=sys.stderr, flush=True)
    print(f"{len(entries)} entries of {len(files)} files")
    for backend in ("", *backends):
        row_counts = {s: counts[backend, s] for s in STATUSES if counts[backend, s]}
        if row_counts:
            print(f"{backend or 'files':10s}", ", ".join(f"{n} {s}" for s, n in row_counts.items()))
    return 1 if any(counts[b, "wrong"] for b in backends) else 0


def _files(paths: Sequence[str]) -> list[Path]:
    out: list[Path] = []
    for p in map(Path, paths):
        if not p.exists():
            raise UsageError(f"there is no file or folder {p}")
        out += sorted(p.rglob("*.fut")) if p.is_dir() else [p]
    return out


def _logged(log: str | None) -> set[str]:
    """The files whose rows a log has already."""
    if log is None or not os.path.exists(log):
        return set()
    with open(log) as lines:
        return {json.loads(line)["file"] for line in lines}


def _in_process(file: Path, backends: str, seconds: float) -> list[Row]:
    command = [sys.executable, "-m", "futad.testing.differentiate", "--one", "--backends", backends, str(file)]
    start = time.perf_counter()
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL)
        out, code, errors = run.stdout, run.returncode, run.stderr
    except subprocess.TimeoutExpired as e:
        out = (e.stdout or b"").decode() if isinstance(e.stdout, bytes) else (e.stdout or "")
        code, errors = None, ""
    rows = [Row(**json.loads(line)) for line in out.splitlines() if line.endswith("}")]
    if code is None:
        rows.append(Row(str(file), "", "", "slow", f"given up after {time.perf_counter() - start:.0f} s"))
    elif code != 0:
        rows.append(Row(str(file), "", "", "wrong", f"exit status {code}: {errors.strip()[-300:]}"))
    return rows or [Row(str(file), "", "", "right", "no entry with floats in and out")]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Error as e:
        print(e, file=sys.stderr)
        sys.exit(2)
