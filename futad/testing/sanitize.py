"""`python -m futad.testing.sanitize`: what the compiler makes under the C compiler's sanitizers.

Programs and their derivatives are built as executables of `c` (address and undefined behaviour) and of `multicore`
(threads, with all work shared out), and their entries called on small inputs, twice in a process, as memory is used
again by the second call.  What is tried: the programs of files, on the small inputs of their test blocks or random
ones, and random programs of `futad.testing.fuzz`.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from futad.core import ir
from futad.errors import Error, UsageError
from futad.runtime import cc
from futad.runtime.textvalues import binary_bytes
from futad.runtime.values import signature_of

SANITIZERS = ("address", "undefined", "thread")
BACKENDS = ("c", "multicore")
BATCH = 8  # random programs in an executable
MOST_ELEMENTS = 100_000  # of the inputs of a test block
SECONDS = 300  # that a call may take
THREADS = 4
FOUND = 66  # the status that sanitizers end a process with
_FLAGS = {
    "address": ("-fsanitize=address",),
    "undefined": ("-fsanitize=undefined,float-cast-overflow", "-fno-sanitize-recover=all"),
    "thread": ("-fsanitize=thread",),
}
# No detect_stack_use_after_return: the stack that GCC 12 lays out for it is not aligned for vectors of 64 bytes.
_OPTIONS = {
    "ASAN_OPTIONS": f"exitcode={FOUND}:detect_leaks=1:detect_stack_use_after_return=0",
    "UBSAN_OPTIONS": f"exitcode={FOUND}:print_stacktrace=1",
    "TSAN_OPTIONS": f"exitcode={FOUND}:halt_on_error=1",
    "LSAN_OPTIONS": f"exitcode={FOUND}",
}
_REPORT = re.compile(r"ERROR: |WARNING: ThreadSanitizer|runtime error: |LeakSanitizer")
# Sizes of entries without test blocks, whose parameters' sizes are not free.
_SIZES = {"dlstm": {"r": 4, "size": 12, "b": 3, "c": 4}}


@dataclass(slots=True)
class Call:
    """An entry with its arguments, in binary format."""

    entry: str
    data: bytes


@dataclass(slots=True)
class Subject:
    """A program that is tried, before any pass, and how it is called."""

    name: str
    core: ir.Program
    calls: list[Call] = field(default_factory=list)


@dataclass(slots=True)
class Finding:
    """What a sanitizer found, or a process that died."""

    subject: str
    entry: str
    backend: str
    sanitizers: str
    report: str

    def __str__(self) -> str:
        return f"{self.subject}, {self.entry}, on {self.backend} ({self.sanitizers}):\n{self.report}"


# --- running -----------------------------------------------------------------------------------------------


def build(core: ir.Program, backend: str, sanitizers: Sequence[str]) -> bytes:
    """An executable of a program on which the sanitizers watch."""
    from futad.backend.c import CBackend
    from futad.backend.c_program import program_text
    from futad.pipeline import compile_program
    from futad.target import TARGETS

    target = TARGETS[backend]
    made = CBackend(compile_program(core, target=target), target, grain=1)
    flags = ["-O1", "-g1", "-fno-omit-frame-pointer", *[f for s in sanitizers for f in _FLAGS[s]]]
    return cc.build_program(program_text(made, server=False), threads=target.pool, flags=flags)


def check(subject: Subject, backend: str, sanitizers: Sequence[str], tried: Counter[str]) -> list[Finding]:
    """Build a program and make its calls; what was found, at most one finding an entry.

    `tried` counts calls, and those that the program itself ended with an error.
    """
    kinds = "+".join(sanitizers)
    program = build(subject.core, backend, sanitizers)
    found: dict[str, Finding] = {}
    with tempfile.TemporaryDirectory(prefix="futad-") as folder:
        path = Path(folder) / "program"
        path.write_bytes(program)
        path.chmod(0o700)
        for call in subject.calls:
            if call.entry in found:
                continue
            status, text = _run([str(path), "-e", call.entry, "-b", "-r", "1"], call.data, sanitizers)
            tried["calls"] += 1
            if status == 1:
                tried["ended with an error of the program"] += 1
            if status not in (0, 1) or _REPORT.search(text):
                report = _shown(text) or f"ended with status {status}"
                found[call.entry] = Finding(subject.name, call.entry, backend, kinds, report)
    return list(found.values())


def _run(command: list[str], data: bytes, sanitizers: Sequence[str]) -> tuple[int, str]:
    environment = {**os.environ, **_OPTIONS, "OMP_NUM_THREADS": str(THREADS)}
    if "thread" in sanitizers and platform.system() == "Linux" and shutil.which("setarch"):
        # Where the address space is laid out at random, that of older compilers may find no place for its shadow.
        command = ["setarch", platform.machine(), "-R", *command]
    try:
        done = subprocess.run(command, input=data, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment,
                              timeout=SECONDS)  # fmt: skip
    except subprocess.TimeoutExpired:
        return -1, f"no answer within {SECONDS} seconds"
    return done.returncode, done.stderr.decode(errors="replace")


def _shown(text: str, most: int = 14) -> str:
    """The first lines of a report."""
    lines = [line for line in text.splitlines() if line.strip(" =")]
    start = next((i for i, line in enumerate(lines) if _REPORT.search(line)), 0)
    return "\n".join(lines[start : start + most])


# --- programs ----------------------------------------------------------------------------------------------


def of_file(path: Path, seed: int) -> Subject:
    """The program of a file, called on the small inputs of its test blocks; an entry without any, on random ones."""
    from futad.api.program import load
    from futad.runtime.randomvalues import random_leaves
    from futad.testing.blocks import read_test_file
    from futad.testing.inputs import make_input

    program = load(path, backend="interp")
    subject = Subject(path.name, program.core)
    cases = read_test_file(path).cases
    for name, function in program.entries.items():
        signature = function.signature
        own = []
        for case in cases:
            if case.entry == name:
                leaves = make_input(program, function, case)[len(signature.size_names) :]
                if sum(np.size(v) for v in leaves) <= MOST_ELEMENTS:
                    own.append(leaves)
        sizes = dict.fromkeys(signature.size_names, 3) | _SIZES.get(path.stem, {})
        for leaves in own[:4] or [random_leaves(signature, seed, sizes)]:
            subject.calls.append(Call(name, b"".join(map(binary_bytes, leaves))))
    return subject


def random_subjects(count: int, seed: int) -> Iterator[Subject]:
    """So many random programs, some in each executable, with derivatives as the fuzzer draws them."""
    from futad.source import compile_text
    from futad.testing.fuzz.cases import KINDS, MODES, SOURCE, case, head, inputs, modes_of

    rng = random.Random(f"sanitize {seed}")
    skeletons = [k for k in KINDS if k != SOURCE]
    made = 0
    while made < count:
        kind = SOURCE if (made // BATCH) % 3 == 2 else ""
        several = []
        for k in range(min(BATCH, count - made)):
            chosen = kind or skeletons[(made + k) % len(skeletons)]
            number = seed * 1_000_000 + rng.randrange(1_000_000)
            modes = modes_of(random.Random(f"modes {chosen} {number}"), "f64")
            # Derivatives more often than the fuzzer takes them: their code is the most.
            several.append(case(chosen, number, "f64", modes if len(modes) > 1 else tuple({"rev", *modes})))
        made += len(several)
        text = head(several[0].kind, "f64") + "".join(c.source(str(k)) for k, c in enumerate(several))
        core = compile_text(text, "random.fut")
        wanted = {f"{m}{k}" for k, c in enumerate(several) for m in MODES if m in c.modes}
        funs = {n: f for n, f in core.funs.items() if f.entry is None or f.entry.name in wanted}
        subject = Subject(", ".join(f"{k}: {c.name}" for k, c in enumerate(several)), ir.Program(funs, core.name))
        names = {f.entry.name: signature_of(f) for f in funs.values() if f.entry is not None}
        for k, c in enumerate(several):
            for number in range(2):
                given = inputs(c, number)
                for mode in c.modes:
                    leaves = [
                        np.asarray(v).astype(leaf.elem.dtype)
                        for v, leaf in zip(given.given(mode), names[f"{mode}{k}"].params, strict=True)
                    ]
                    subject.calls.append(Call(f"{mode}{k}", b"".join(map(binary_bytes, leaves))))
        yield subject


# --- the command -------------------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(
        prog="python -m futad.testing.sanitize",
        description="Programs and their derivatives under the C compiler's sanitizers, at -O1: nothing is to be found.",
    )
    p.add_argument("--programs", nargs="*", default=[], metavar="FILE", help="programs (.fut), or folders of them")
    p.add_argument("--count", type=int, default=0, help="so many random programs too")
    p.add_argument("--seed", type=int, default=1, help="other seeds are other programs and inputs (default 1)")
    p.add_argument(
        "--sanitizer", action="append", choices=SANITIZERS,
        help="which (default: address and undefined on c, thread on multicore)",
    )
    p.add_argument("--backend", action="append", choices=BACKENDS, help="which (default: as above)")
    p.add_argument("--skip", type=int, default=0, help="random programs to leave out at the start")
    return p


def plan(sanitizers: Sequence[str] | None, backends: Sequence[str] | None) -> list[tuple[str, tuple[str, ...]]]:
    """Which backends are built with which sanitizers: that for threads goes with no other."""
    wanted = sanitizers or SANITIZERS
    together = tuple(s for s in wanted if s != "thread")
    out: list[tuple[str, tuple[str, ...]]] = []
    for backend in backends or BACKENDS:
        if together and (backends or sanitizers or backend == "c"):
            out.append((backend, together))
        if "thread" in wanted and backend == "multicore":
            out.append((backend, ("thread",)))
    if not out:
        raise UsageError("the thread sanitizer is for backend 'multicore'")
    return out


def main(argv: Sequence[str] | None = None) -> int:
    """Try the programs; returns 0 if nothing was found."""
    args = parser().parse_args(argv)
    try:
        chosen = plan(args.sanitizer, args.backend)
        files = [f for p in map(Path, args.programs) for f in (sorted(p.glob("*.fut")) if p.is_dir() else [p])]
        cc.find_compiler()
        given = [of_file(f, args.seed) for f in files]
    except Error as e:
        print(e, file=sys.stderr)
        return e.exit_code
    start = time.monotonic()
    tried: Counter[str] = Counter()
    findings: list[Finding] = []

    def subjects() -> Iterator[tuple[Subject, int]]:
        yield from ((subject, 1) for subject in given if subject.calls)
        done = 0
        for subject in random_subjects(args.count, args.seed):
            many = min(BATCH, args.count - done)
            done += many
            if done > args.skip:
                yield subject, many

    for subject, many in subjects():
        tried["programs"] += many
        for backend, sanitizers in chosen:
            try:
                new = check(subject, backend, sanitizers, tried)
            except Error as e:
                new = [Finding(subject.name, "-", backend, "compiler", str(e))]
            for f in new:
                print(f"\n{f}", flush=True)
            findings += new
        seconds = time.monotonic() - start
        counts = ", ".join(f"{n} {what}" for what, n in tried.items())
        print(f"{seconds:6.0f} s: {counts}, {len(findings)} findings", flush=True)
    what = "; ".join(f"{b}: {', '.join(s)}" for b, s in chosen)
    print(f"{tried['programs']} programs, {tried['calls']} calls ({what}): {len(findings)} findings")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
