"""The whole compiler on one page: the passes in order; checking, timing and dumping around each.

    source text ─ source.load_program ─▶ Program ─ compile_program ─▶ Program ─ backend ─▶ code

A pass takes a program and returns one.  Modules are imported when their pass first runs, so that a
command that needs few passes starts fast.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from futad import checks
from futad.core.ir import Program
from futad.deep import deep
from futad.errors import Error, InternalError, UsageError

if TYPE_CHECKING:
    from futad.rewrite.strategy import Stats

Pass = Callable[..., Program]


def _lazy(module: str, function: str) -> Pass:
    """The pass `module.function`, imported when it first runs; rule hits go to `stats` if it counts them, and it learns
    whether the code is to be `sequential` if that makes a difference to it."""

    def run(program: Program, stats: Stats | None = None, sequential: bool = False) -> Program:
        fn = getattr(import_module(module), function)
        takes = inspect.signature(fn).parameters
        given: dict[str, Any] = {"sequential": sequential} if "sequential" in takes else {}
        if stats is not None and "stats" in takes:
            given["stats"] = stats
        return fn(program, **given)

    run.__name__ = function
    return run


_simplify = _lazy("futad.rewrite.simplify", "simplify")

# Why this order.  Callees are simplified before they are inlined, so that what is copied is small; once calls are
# gone it is clear whose results nothing uses, and the assertions of these are no more.  AD
# runs on unfused code, where each construct has one rule, and before hoisting, which would move primal
# code away from the scope that re-executes it.  Matrix products are found before fusion hides them.  Fusion
# wants simplified code and leaves copies behind.
PASSES: list[tuple[str, Pass]] = [
    ("simplify", _simplify),
    ("inline", _lazy("futad.optimise.inline", "inline")),
    ("simplify-inlined", _simplify),
    ("asserts", _lazy("futad.optimise.asserts", "settle_asserts")),
    ("narrow", _lazy("futad.optimise.narrow", "narrow")),
    ("views", _lazy("futad.optimise.views", "hoist_views")),
    ("ad", _lazy("futad.ad.expand", "expand")),
    ("simplify-ad", _simplify),
    ("matmul", _lazy("futad.optimise.matmul", "matmul")),
    ("views-matmul", _lazy("futad.optimise.views", "hoist_views")),
    ("delay-updates", _lazy("futad.optimise.delay", "delay_updates")),
    ("simplify-matmul", _simplify),
    ("add-to-products", _lazy("futad.optimise.addto", "add_to_products")),
    ("save-products", _lazy("futad.optimise.saved", "save_products")),
    ("make-in-turns", _lazy("futad.optimise.inturns", "make_in_turns")),
    ("fuse", _lazy("futad.optimise.fusion", "fuse")),
    ("simplify-fused", _simplify),
    ("save-scalars", _lazy("futad.optimise.saved_scalars", "save_scalars")),
    ("save-turns", _lazy("futad.optimise.saved_turns", "save_turns")),
    ("simplify-saved", _simplify),
    ("hoist", _lazy("futad.optimise.hoist", "hoist")),
    ("simplify-hoisted", _simplify),
]

# Passes that run only when they are asked for, and the pass they follow.
OPTIONAL: dict[str, tuple[str, Pass]] = {
    "accs": ("simplify-hoisted", _lazy("futad.accs", "without_accs")),  # the C backends run it
}


@dataclass(slots=True)
class PassRecord:
    """One pass as it ran: seconds, and statements in the program after it."""

    name: str
    seconds: float
    statements: int


@dataclass(slots=True)
class Trace:
    """Collects what happened: pass records, and rule hits if `rules` is set; `after` is called with each
    pass's name and result."""

    records: list[PassRecord] = field(default_factory=list)
    after: Callable[[str, Program], None] | None = None
    rules: Stats | None = None


def pass_names() -> list[str]:
    """The passes that run by themselves, in order."""
    return [name for name, _ in PASSES]


def passes_to(stop_after: str | None) -> list[str]:
    """The passes that run by themselves, with `stop_after` at its place if it is an optional one."""
    names = pass_names()
    if stop_after in OPTIONAL:
        names.insert(names.index(OPTIONAL[stop_after][0]) + 1, stop_after)
    return names


def count_statements(program: Program) -> int:
    """Statements of all functions, nested scopes included."""

    def count(lam: Any) -> int:
        return sum(1 + sum(count(inner) for inner in s.exp.lambdas()) for s in lam.stms)

    return sum(count(f.body) for f in program.funs.values())


@deep
def compile_program(
    program: Program,
    *,
    passes: Iterable[str] | None = None,
    stop_after: str | None = None,
    check: bool = False,
    trace: Trace | None = None,
    sequential: bool = False,
) -> Program:
    """Run the passes: all, or those named, up to and including `stop_after`.

    With `check`, or in a run that checks the IR (`checks.checked`), it is checked after each pass; a failure names
    the pass.  `sequential`: for a backend of one thread, or few.  Raises UsageError for an unknown pass, InternalError
    where a pass fails or makes what does not check.
    """
    known = dict(PASSES) | {name: run for name, (_, run) in OPTIONAL.items()}
    chosen = passes_to(stop_after) if passes is None else list(passes)
    for name in [*chosen, *([stop_after] if stop_after else [])]:
        if name not in known:
            raise UsageError(f"no pass is called '{name}'; there are: {', '.join(known)}")
    for name in chosen:
        start = time.perf_counter()
        try:
            program = known[name](program, stats=trace.rules if trace is not None else None, sequential=sequential)
        except (Error, MemoryError, RecursionError):
            raise
        except Exception as e:
            raise InternalError(f"in {name}: {type(e).__name__}: {e}") from e
        seconds = time.perf_counter() - start
        with checks.also(*[checks.IR] if check else []):
            checks.checked(program, name)
        if trace is not None:
            trace.records.append(PassRecord(name, seconds, count_statements(program)))
            if trace.after is not None:
                trace.after(name, program)
        if name == stop_after:
            break
    return program
