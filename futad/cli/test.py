"""Run the test blocks (`-- ==`) of programs; of folders, those of every .fut file in them.

Floats are compared with the tolerance of `futhark test`: 0.002 times the larger of 1 and the largest expected
element.  Cases tagged notest, disable or no_BACKEND are skipped, on the interpreter also those tagged
compiled.  A line `warning: REGEX` is a test: the warnings of `futad check` for the program, which `^$` says are none,
must match.  `structure` counts constructs of another compiler's code and is not checked; -v says so.  A property is
tried on 100 random values of growing size.  The last line is `N passed, N failed, N skipped`; the exit status is 1 if
any failed.  The compiler's IR is checked after every pass (as FUTAD_CHECK=ir does for any command); with --check what
is compiled carries the other checks of docs/checking.md.
"""

from __future__ import annotations

import argparse
import os
import re
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from futad.cli import options
from futad.cli.progress import progress

if TYPE_CHECKING:
    from futad.api.program import Function, Program
    from futad.core.budget import Budget
    from futad.rewrite.schedule import Schedule
    from futad.testing.blocks import Case, TestFile


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", metavar="FILE|DIR", nargs="+", help="programs or folders of programs")
    options.add_backend(parser)
    options.add_budget(parser)
    options.add_strategy(parser)
    parser.add_argument("-e", "--entry", metavar="ENTRY", help="run only the cases of this entry")
    parser.add_argument("-v", "--verbose", action="store_true", help="name what is in the blocks but not checked")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the values properties are tried on")
    parser.add_argument(
        "--check", action="store_true", help="check every value, every element that is read, every lane; slower"
    )
    parser.add_argument("--exclude", metavar="TAG", action="append", default=[], help="skip cases so tagged")


@dataclass(slots=True)
class Tally:
    """What has happened so far."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    kinds: Counter[str] = field(default_factory=Counter)  # of failures
    report: Callable[[str], None] = field(default=print)
    verbose: bool = False
    seed: int = 1
    budget: Budget | None = None  # of derivatives
    schedule: Schedule | None = None

    def fail(self, kind: str, message: str) -> None:
        """Count and report a failure; kinds are words such as 'wrong result'."""
        self.failed += 1
        self.kinds[kind] += 1
        self.report(message)


def run(args: argparse.Namespace) -> int:
    from futad import checks
    from futad.errors import UsageError

    if args.seed < 0:
        raise UsageError("the seed must not be negative")
    files = find_programs(args.paths)
    tally = Tally(verbose=args.verbose, seed=args.seed, budget=options.budget_of(args))
    tally.schedule = options.schedule_of(args)
    more = checks.EXECUTION if args.check else ()
    with progress("testing", len(files)) as (report, step), checks.also(checks.IR, *more):
        tally.report = report
        for file in files:
            try:
                test_program(file, args.backend, args.entry, frozenset(args.exclude), tally)
            except Exception as e:  # a defect of ours in one program must not hide the results of the others
                if os.environ.get("FUTAD_DEBUG") == "1":
                    raise
                tally.fail("internal error", f"{file}: internal error: {type(e).__name__}: {e}")
            step(file.name)
    print(f"{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped")
    return 1 if tally.failed else 0


def find_programs(paths: list[str]) -> list[Path]:
    """The files named, and the .fut files under the folders named, each once.  Raises FileNotFound."""
    from futad.errors import FileNotFound

    found: dict[Path, None] = {}
    for name in paths:
        path = Path(name)
        if path.is_dir():
            found.update(dict.fromkeys(sorted(path.rglob("*.fut"))))
        elif path.exists():
            found[path] = None
        else:
            raise FileNotFound(f"cannot read {name}: No such file or directory")
    return list(found)


def test_program(file: Path, backend: str, entry: str | None, exclude: frozenset[str], tally: Tally) -> None:
    """Run the blocks of one program; failures are reported and counted, never raised."""
    from futad.errors import Error
    from futad.testing.blocks import read_test_file

    try:
        spec = read_test_file(file)
    except Error as e:
        tally.fail("test block", f"{e}")
        return
    cases = [c for c in spec.cases if entry is None or c.entry == entry]
    properties = [p for p in spec.properties if entry is None or p == entry]
    if "disable" in spec.tags or spec.tags & exclude or f"no_{backend}" in spec.tags:
        tally.skipped += max(1, len(cases) + len(properties))
        return
    if entry is not None and not cases and not properties:
        return
    if spec.error is not None:
        _expect_rejection(spec, tally)
        return
    try:
        program = options.load(str(file), backend, tally.budget, tally.schedule)
    except Error as e:
        tally.fail("refused", f"{file}: does not compile\n{_indent(str(e))}")
        tally.failed += max(0, len(cases) + len(properties) - 1)
        return
    skip = exclude | {"notest", "disable", f"no_{backend}"} | ({"compiled"} if backend == "interp" else set())
    for case in cases:
        if case.tags & skip:
            tally.skipped += 1
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("once")
                problem = run_case(program, case)
        except Error as e:
            problem = str(e)
        except MemoryError:
            problem = "error: out of memory"
        if problem is None:
            tally.passed += 1
        else:
            tally.fail("case", f"{case.place}: entry {case.entry}, {case.name}: failed\n{_indent(problem)}")
    for name in properties:
        _property(program, name, file, tally)
    if entry is None:
        _warnings(spec, tally)
        for s in spec.structures if tally.verbose else ():
            tally.report(f"{s.place}: structure: not checked, it counts constructs of another compiler")


def _warnings(spec: TestFile, tally: Tally) -> None:
    """Whether the warnings about a program match each regular expression of its blocks."""
    from futad.source import check_file

    if not spec.warnings:
        return
    text = "\n".join(str(w) for w in check_file(spec.path).warnings)
    for regex in spec.warnings:
        if matches(regex, text):
            tally.passed += 1
        else:
            shown = _indent(text, 4) if text else "    none"
            tally.fail("warnings", f"{spec.path}: the warnings do not match\n  expected: {regex}\n  actual:\n{shown}")


def _property(program: Program, name: str, file: Path, tally: Tally) -> None:
    from futad.errors import Error
    from futad.testing.properties import check_property

    program.executor()
    try:
        with options.killable():
            problem = check_property(program, name, tally.seed)
    except Error as e:
        problem = str(e)
    except MemoryError:
        problem = "error: out of memory"
    if problem is None:
        tally.passed += 1
    else:
        tally.fail("property", f"{file}: property {name}: failed\n{_indent(problem)}")


def _expect_rejection(spec: TestFile, tally: Tally) -> None:
    from futad.errors import InternalError, SourceError
    from futad.source import load_program

    assert spec.error is not None
    try:
        load_program(str(spec.path))
    except InternalError as e:
        tally.fail("internal error", f"{spec.path}: {e}")
    except SourceError as e:
        if matches(spec.error, str(e)):
            tally.passed += 1
        else:
            tally.fail(
                "error text",
                f"{spec.path}: the error does not match the expected one\n"
                f"  expected: {spec.error}\n  actual:\n{_indent(str(e), 4)}"
            )
    else:
        tally.fail("accepted", f"{spec.path}: compiles, but should be rejected ({spec.error or 'any error'})")


def run_case(program: Program, case: Case) -> str | None:
    """Run one case: None if it passed, else what went wrong.

    Raises Error if the input cannot be made or the program fails where it should not.
    """
    import numpy as np

    from futad.errors import INVALID_SIZES, ExecutionError, ShapeError
    from futad.testing.compare import mismatch
    from futad.testing.inputs import expected_values, make_input

    function = program[case.entry]
    try:
        flat = make_input(program, function, case)
    except ShapeError as e:
        # Sizes of arguments that do not fit together are a failure of the call; ours says which, and of what.
        if case.expected == "error" and matches(case.error, f"Error: {INVALID_SIZES}.\n{e}"):
            return None
        raise
    # The run may overwrite arguments of unique type; `auto output` needs them a second time.
    again = [np.array(a) if isinstance(a, np.ndarray) else a for a in flat] if case.expected == "auto" else []
    try:
        results = _visible(function, flat)
    except ExecutionError as e:
        if case.expected != "error":
            raise
        if matches(case.error, str(e)):
            return None
        return f"the error does not match the expected one\n  expected: {case.error}\n  actual: {e}"
    if case.expected == "error":
        return f"succeeded, but should have failed ({case.error or 'any error'})"
    if case.expected == "success":
        return None
    expected = expected_values(program, function, case, again, results)
    if isinstance(expected, str):
        return expected
    problem = mismatch(results, expected)
    return None if problem is None else f"{problem}\n{_both(expected, results)}"


def _visible(function: Function, flat: list[Any]) -> list[Any]:
    function.executable.executor()
    with options.killable():
        return function.signature.visible(function.executable.run(function.symbol, flat))


def _both(expected: list[Any], results: list[Any]) -> str:
    from futad.testing.compare import text_of

    wanted = " ".join(text_of(v) for v in expected)
    actual = " ".join(text_of(v) for v in results)
    return f"expected: {wanted}\nactual:   {actual}"


def matches(regex: str, text: str) -> bool:
    """Whether a regular expression of a test block matches somewhere; as in Futhark its `.` matches ends of lines."""
    return re.search(regex, text, re.DOTALL) is not None


def _indent(text: str, by: int = 2) -> str:
    return "\n".join(" " * by + line for line in text.splitlines())
