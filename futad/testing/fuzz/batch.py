"""Some programs in one file: compiled, called, compared.  Runs in a process of its own (see `workers`)."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from futad import checks
from futad.api.program import Program
from futad.core.interp import Interpreter
from futad.errors import AssertionFailed, BackendError, CheckFailure, Error, InternalError
from futad.fires import counting
from futad.testing.build import middle_builds, smallest_pieces
from futad.testing.fuzz import budgets, oracle
from futad.testing.fuzz.cases import SECOND, Case, Inputs, case, head, inputs, modes_of, ties
from futad.testing.fuzz.shrink import shrunk, wrong_like

# What the interpreter runs: derivatives expanded, nothing moved or fused.
PLAIN = ("inline", "asserts", "invert", "ad")
PASSES = "passes"  # in place of a backend: the passes of these targets; the interpreter runs what those of C make
THROUGH = ("multicore", "cuda", "c")
MIDDLE = "middle"  # in place of a backend: the middle build of `auto`
DEVICES = ("emulated", "cuda", PASSES)
NOT_ON_DEVICES = "does not run the recursive function"  # a refusal of devices that is no finding


@dataclass(slots=True)
class Task:
    """Programs (kind, seed) to be tried on one backend."""

    number: int
    backend: str
    elem: str
    programs: tuple[tuple[str, int], ...]
    modes: tuple[str, ...] = ()  # none: as drawn for each program
    shrink: float = 0.0  # seconds for making a finding small
    budgeted: bool = False  # every program has a budget, not some

    def cases(self) -> list[Case]:
        out = []
        for kind, seed in self.programs:
            drawn = modes_of(random.Random(f"modes {kind} {seed}"), self.elem)
            out.append(case(kind, seed, self.elem, self.modes or drawn, self.budgeted))
        return out


@dataclass(slots=True)
class Finding:
    """A program that went wrong: `what` is one of mismatch, crash, hang, refused, internal, error,
    interpreter (what is compared with cannot be computed)."""

    kind: str
    seed: int
    elem: str
    mode: str
    backend: str
    what: str
    detail: str
    sizes: dict[str, int] = field(default_factory=dict)
    number: int = 0
    suspect: str = ""  # after which pass the interpreter's result is wrong, if after any
    text: str = ""  # the program, made small


@dataclass(slots=True)
class Outcome:
    """What a task came to: programs tried by (kind, mode, backend), and what was found."""

    task: Task
    tried: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    programs: int = 0
    calls: int = 0
    ties: int = 0
    findings: list[Finding] = field(default_factory=list)
    fires: Counter[str] = field(default_factory=Counter)  # what was applied to them, by its name
    seconds: float = 0.0


def run(task: Task) -> Outcome:
    """Try the programs of a task: together, or if that fails each by itself."""
    start = time.perf_counter()
    out = Outcome(task)
    cases = task.cases()
    try:
        made = Compiled(cases, task.backend, task.number % 3 == 0 or len(cases) == 1)
        out.fires = made.fires
    except Error as e:
        if len(cases) > 1:
            for one in task.programs:
                _add(out, run(replace(task, programs=(one,))))
            out.seconds = time.perf_counter() - start
            return out
        what = "internal" if isinstance(e, InternalError) else "refused"
        if not (isinstance(e, BackendError) and NOT_ON_DEVICES in str(e) and task.backend in DEVICES):
            out.findings.append(_finding(cases[0], _failing_mode(cases[0], task), task.backend, what, str(e)))
            if task.shrink and what == "internal":
                _shrink(out.findings[-1], cases[0], task.shrink)
        out.tried.update({(cases[0].kind, m, task.backend): 1 for m in cases[0].modes})
        out.programs = 1
    except Exception as e:  # a traceback of the compiler's own
        if len(cases) > 1:
            for one in task.programs:
                _add(out, run(replace(task, programs=(one,))))
            out.seconds = time.perf_counter() - start
            return out
        mode = _failing_mode(cases[0], task)
        out.findings.append(_finding(cases[0], mode, task.backend, "internal", f"{type(e).__name__}: {e}"))
        if task.shrink:
            _shrink(out.findings[-1], cases[0], task.shrink)
        out.tried.update({(cases[0].kind, m, task.backend): 1 for m in cases[0].modes})
        out.programs = 1
    else:
        for k, c in enumerate(cases):
            _try(out, made, c, str(k))
    out.seconds = time.perf_counter() - start
    return out


def _add(out: Outcome, more: Outcome) -> None:
    out.tried += more.tried
    out.programs += more.programs
    out.calls += more.calls
    out.ties += more.ties
    out.findings += more.findings
    out.fires += more.fires


def _failing_mode(c: Case, task: Task) -> str:
    """Which derivative of a program does not compile."""
    for m in c.modes:
        try:
            Compiled([replace(c, modes=(m,))], task.backend)
        except Exception:
            return m
    return "+".join(c.modes)


def _finding(
    c: Case, mode: str, backend: str, what: str, detail: str, given: Inputs | None = None, number: int = 0
) -> Finding:
    sizes = given.sizes if given is not None else {}
    return Finding(c.kind, c.seed, c.elem, mode, backend, what, detail[:4000], sizes, number)


class Compiled:
    """The entries of some programs on one backend, and by the interpreter; for `interp` these are the same."""

    def __init__(self, cases: Sequence[Case], backend: str, check: bool = True) -> None:
        from futad.core.ir import Program as Core
        from futad.pipeline import compile_program
        from futad.source import compile_text
        from futad.target import TARGETS

        text = head(cases[0].kind, cases[0].elem) + "".join(c.source(str(k)) for k, c in enumerate(cases))
        core = compile_text(text, "fuzz.fut")
        chosen = {f"{m}{k}" for k, c in enumerate(cases) for m in c.modes}
        funs = {k: f for k, f in core.funs.items() if f.entry is None or f.entry.name in chosen}
        self.text = text
        self.program: Program | None = None
        self.made: Interpreter | None = None
        with counting() as self.fires:
            if backend == PASSES:
                for name in THROUGH:
                    made = compile_program(Core(funs, core.name), target=TARGETS[name], check=True)
                self.made = Interpreter(made)
            elif backend != "interp":
                named = target_name(backend)
                self.program = Program(Core(funs, core.name), backend=named, check=check, texts={"fuzz.fut": text})
                with middle_builds() if backend == MIDDLE else smallest_pieces():  # sizes are small, too
                    self.program.executor()
        wanted = {f"{m}{k}" for k, c in enumerate(cases) for m in c.reference}
        funs = {k: f for k, f in core.funs.items() if f.entry is None or f.entry.name in wanted}
        bare = budgets.without(Core(funs, core.name))
        self.plain = Interpreter(compile_program(bare, passes=PLAIN, check=check))
        self.dual = Program(bare, engine="dual")
        self.functions = Program(core, backend="interp").entries
        clear_cache()

    def call(self, entry: str, args: Sequence[Any]) -> list[Any]:
        if self.program is None:
            return self.reference(entry, args, self.made)
        return self.program.entries[entry].call_leaves([_copy(a) for a in args])

    def by_duals(self, entry: str, args: Sequence[Any]) -> list[Any]:
        """The result by dual numbers, which no pass and no rule of `futad/ad/` had a part in."""
        return self.dual.entries[entry].call_leaves([_copy(a) for a in args])

    def reference(self, entry: str, args: Sequence[Any], by: Interpreter | None = None) -> list[Any]:
        f = self.functions[entry]
        flat = f.signature.bind([_copy(a) for a in args])
        return f.signature.visible((by or self.plain).run(f.symbol, flat))


def target_name(backend: str) -> str:
    """The target whose passes a program has seen."""
    return {PASSES: "c", MIDDLE: "multicore"}.get(backend, backend)


def _copy(a: Any) -> Any:
    return a.copy() if isinstance(a, np.ndarray) else a


def clear_cache() -> None:
    """Nothing compiled is kept: the code is loaded, and no program comes again."""
    folder = os.environ.get("FUTAD_CACHE_DIR", "")
    if os.path.basename(folder).startswith("futad-fuzz-"):
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            shutil.rmtree(path, ignore_errors=True) if os.path.isdir(path) else os.unlink(path)


def _try(out: Outcome, made: Compiled, c: Case, tag: str) -> None:
    """Call every entry of a program, and compare."""
    backend = out.task.backend
    out.programs += 1
    out.tried.update({(c.kind, m, backend): 1 for m in c.modes})
    for number in range(c.calls):
        given = inputs(c, number)
        for mode, what, detail in _wrong(made, c, tag, given, number, backend):
            if what == "mismatch" and rounding_decides(c, mode, backend, number):
                out.ties += 1
            else:
                found = _finding(c, mode, backend, what, detail, given, number)
                found.suspect = _blamed(found, c)
                if out.task.shrink and what == "mismatch" and mode in c.modes:
                    _shrink(found, c, out.task.shrink)
                out.findings.append(found)
            return
        out.calls += len(c.modes)


def _blamed(f: Finding, c: Case) -> str:
    """Which part of the compiler may be at fault."""
    if f.what == "interpreter":
        return "the interpreter, or what is before it"
    return suspect(c, f.mode, f.backend, f.number) if f.mode in c.modes else "the rules of derivatives"


def _wrong(
    made: Compiled, c: Case, tag: str, given: Inputs, number: int, backend: str
) -> Iterator[tuple[str, str, str]]:
    """What is wrong with a program's results, as (mode, what, detail)."""
    kind = c.precision
    want: dict[str, list[Any]] = {}
    for m in c.reference:
        try:
            want[m] = made.reference(f"{m}{tag}", given.given(m))
        except Exception as e:
            yield m, "interpreter", f"{type(e).__name__}: {e}"
            return
    for m in c.modes:
        args = given.given(m)
        try:
            got = made.call(f"{m}{tag}", args)
            again = made.call(f"{m}{tag}", args) if backend == "c" else got
        except Exception as e:
            if not (isinstance(e, AssertionFailed) and any(text in str(e) for text in budgets.ALLOWED)):
                yield m, "error", f"{type(e).__name__}: {e}"
            continue
        if not c.repeats or backend == "c":
            if c.program.special and m != "value":
                values = len(c.program.results) if m == "both" else 0
                said = oracle.equal_where_both_finite(got, want[m], kind, values)
            else:
                said = oracle.equal(got, want[m], kind)
            said = said or oracle.same(got, again)
            if said:
                yield m, "mismatch", f"against the interpreter: {said}"
    if backend != PASSES and not (c.program.around and number):  # what holds for few elements holds for many
        yield from _relations(made, c, tag, given, number, want)


def _relations(
    made: Compiled, c: Case, tag: str, given: Inputs, number: int, want: dict[str, list[Any]]
) -> Iterator[tuple[str, str, str]]:
    """What must hold between the interpreter's results: they are those of dual numbers; the dot-product identity, equal
    second derivatives, central differences (of some)."""
    kind = c.precision
    for m in want:
        try:
            said = oracle.equal_where_finite(made.by_duals(f"{m}{tag}", given.given(m)), want[m], kind)
        except Exception as e:
            yield m, "interpreter", f"by dual numbers: {type(e).__name__}: {e}"
            return
        if said:
            yield m, "mismatch", f"dual numbers against the transformation: {said}"
    if c.program.special:
        return
    if "fwd" in want and "rev" in want:
        said = oracle.identity(given.cotangents, want["fwd"], want["rev"], given.tangents, kind)
        if said:
            yield "rev", "mismatch", said
    if {"both", "value", "rev"} <= want.keys():
        said = oracle.equal(want["both"], [*want["value"], *want["rev"]], kind)
        if said:
            yield "both", "mismatch", said
    for many, one in (("fwds", "fwd"), ("revs", "rev")):
        if {many, one} <= want.keys() and (said := oracle.equal([x[0] for x in want[many]], want[one], kind)):
            yield many, "mismatch", f"the first direction against {one}: {said}"
    second = [m for m in SECOND if m in want]
    for m in second[1:]:  # the Hessian is symmetric
        said = oracle.equal(want[m], want[second[0]], kind)
        if said:
            yield m, "mismatch", f"against {second[0]}: {said}"
    if c.precision != "f8" or ties(c, number) or not c.program.smooth or c.seed % 3:
        return

    def along(mode: str) -> Callable[[float], list[Any]]:
        def at(h: float) -> list[Any]:
            moved, tangents = [], iter(given.tangents)
            for p, x in zip(c.program.params, given.args, strict=True):
                moved.append((x + h * next(tangents)) if p.is_float else x)
            return made.reference(f"{mode}{tag}", given.given(mode, moved))

        return at

    for mode, of in (("fwd", "value"), ("fwdrev", "rev")):
        if mode in want and of in want:
            said = oracle.differences(along(of), want[mode])
            if said:
                yield mode, "mismatch", said


def _shrink(f: Finding, c: Case, seconds: float) -> None:
    """Give the finding a small program and the sizes at which that is wrong."""
    wrong = wrong_like(
        f.what,
        lambda one: Compiled([one], f.backend),
        lambda made, one, given: any(w[0] == f.mode for w in _wrong(made, one, "0", given, 1, f.backend)),
    )
    one = replace(c, modes=(f.mode,))
    small, sizes = shrunk(one, f.sizes or inputs(one, 0).sizes, wrong, seconds)
    if wrong(small, sizes):
        f.text, f.sizes, f.number = small.text(), sizes, 1


def suspect(c: Case, mode: str, backend: str, number: int) -> str:
    """After which pass the interpreter no longer computes what it did: else it is the lowering or what follows it."""
    from futad.core.ir import Program as Core
    from futad.pipeline import Trace, compile_program
    from futad.source import compile_text
    from futad.target import target_of

    one = replace(c, modes=(mode,))
    core = compile_text(one.text(), "fuzz.fut")
    f = Program(core, backend="interp").entries[mode]
    core = Core({k: g for k, g in core.funs.items() if g.entry is None or g.entry.name == mode}, core.name)
    flat = f.signature.bind([_copy(a) for a in inputs(one, number).given(mode)])

    def values(p: Core) -> list[Any]:
        return f.signature.visible(Interpreter(p).run(f.symbol, [_copy(a) for a in flat]))

    stages: list[tuple[str, Core]] = []
    trace = Trace(after=lambda name, p: stages.append((name, p)))
    try:
        want = values(compile_program(budgets.without(core), passes=PLAIN))
        compile_program(core, trace=trace, target=target_of(target_name(backend)))
        names = [name for name, _ in stages]
        for name, p in stages[names.index("ad") if "ad" in names else 0 :]:
            if oracle.equal(values(p), want, c.precision):
                return f"pass {name}"
    except Exception as e:
        return f"{stages[-1][0] if stages else 'first'} or the pass after it: {type(e).__name__}: {e}"[:300]
    return f"lowering or code{_binding(one, mode, backend, number)}"


def _binding(one: Case, mode: str, backend: str, number: int) -> str:
    """What checked execution says is wrong first."""
    try:
        with checks.also(checks.VALUES):
            Compiled([one], backend).call(f"{mode}0", inputs(one, number).given(mode))
    except CheckFailure as e:
        return f": {e}"[:1500]
    except Exception:
        return ""
    return ""


def rounding_decides(c: Case, mode: str, backend: str, number: int) -> bool:
    """Whether a mismatch is but rounding: it is no larger than what the interpreter's result changes by if the inputs
    change in their last digits; or the program compares numbers that are equal but for rounding, so that either side is
    right: it goes away if the C compiler does not contract a product and a sum to one operation and takes no functions
    of vectors, whose last digits differ from those of scalars; and each element is one that the interpreter has for
    such inputs."""
    try:
        one = replace(c, modes=(mode,))
        if mode in c.modes and _chaotic(one, mode, backend, number):
            return True
        if c.program.smooth and c.kind != "source":
            return False
        if mode in c.modes and not _either_side(one, mode, backend, number):
            return False
        with _flags("-ffp-contract=off -DFUTAD_NO_LIBMVEC"):
            made = Compiled([one], backend)
            return not list(_wrong(made, one, "0", inputs(one, number), number, backend))
    except Exception:
        return False


def _chaotic(one: Case, mode: str, backend: str, number: int) -> bool:
    made = Compiled([one], backend)
    given = inputs(one, number)
    args = given.given(mode)
    want = made.reference(f"{mode}0", args)
    moved = _nudged(made, mode, args, number, 4)
    both = zip(made.call(f"{mode}0", args), made.by_duals(f"{mode}0", args), want, strict=True)
    for k, (g, d, w) in enumerate(both):
        if np.shape(g) != np.shape(w) or any(np.shape(m[k]) != np.shape(w) for m in moved):
            return False
        with np.errstate(all="ignore"):
            spread = max([float(np.max(np.abs(np.asarray(m[k]) - w), initial=0)) for m in moved])
            error = max([float(np.max(np.abs(np.asarray(x) - w), initial=0)) for x in (g, d)])
        tol = oracle.NEAR[one.precision] * (1 + float(np.max(np.abs(w), initial=0)))
        if not error <= max(tol, 30 * spread):
            return False
    return True


def _nudged(made: Compiled, mode: str, args: Sequence[Any], number: int, times: int) -> list[list[Any]]:
    """The interpreter's results for inputs that are other ones in their last digits."""
    rng = np.random.default_rng(number)

    def nudged(x: Any) -> Any:
        a = np.asarray(x)
        if a.dtype.kind != "f":
            return x
        size = np.where(a == 0, 1, np.abs(a))  # zeros, too: equal ones are other numbers then
        return (a + size * (np.finfo(a.dtype).eps * rng.choice([-1, 1], a.shape))).astype(a.dtype)[()]

    return [made.reference(f"{mode}0", [nudged(x) for x in args]) for _ in range(times)]


def _either_side(one: Case, mode: str, backend: str, number: int) -> bool:
    """Whether each element of the result is one that the interpreter has for inputs nearby."""
    made = Compiled([one], backend)
    args = inputs(one, number).given(mode)
    want = [made.reference(f"{mode}0", args), *_nudged(made, mode, args, number, 12)]
    for got, sides in zip(made.call(f"{mode}0", args), zip(*want, strict=True), strict=True):
        if any(np.shape(got) != np.shape(w) for w in sides):
            return False
        with np.errstate(all="ignore"):
            tol = oracle.NEAR[one.precision] * (1 + float(np.max(np.abs(sides[0]), initial=0)))
            near = [(np.asarray(got) == w) | (np.abs(np.asarray(got, "f8") - w) <= tol) for w in sides]
        if not np.logical_or.reduce(near).all():
            return False
    return True


@contextmanager
def _flags(more: str) -> Iterator[None]:
    before = os.environ.get("FUTAD_CFLAGS")
    os.environ["FUTAD_CFLAGS"] = f"{before or ''} {more}"
    try:
        yield
    finally:
        if before is None:
            del os.environ["FUTAD_CFLAGS"]
        else:
            os.environ["FUTAD_CFLAGS"] = before
