"""The whole compiler on one page: the passes of every target in order; checking, timing and dumping around each.

    source text ─ source.load_program ─▶ Program ─ compile_program ─▶ Program ─ backend ─▶ code

A pass takes a program and the target, and returns a program.  The simplifier runs only if something has changed since
it last did.  Modules are imported when their pass first runs, so that
a command that needs few passes starts fast.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from futad import checks
from futad.core import ir
from futad.core.ir import Program, map_bodies
from futad.deep import deep
from futad.errors import Error, InternalError, UsageError
from futad.target import INTERP, TARGETS, Target

if TYPE_CHECKING:
    from futad.core.checker import Checker
    from futad.rewrite.schedule import Schedule, Step
    from futad.rewrite.strategy import Stats, Strategy

Run = Callable[..., Program]
Option = Callable[[Target], Any]


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass: `run(program, target)` is the program after it.

    It runs for targets of which `when` is true; with `after` only if the pass of that name has changed the program;
    and only for programs that have each of the constructs it `needs`: others it would not change.  One that `settles`
    only runs if something has changed since the last one that does.
    `counts`: `run` also takes `stats`, where it counts how often each rule fired.  `users`: it is a strategy of a user,
    or runs rules of one, and is checked whenever it changed the program.
    """

    name: str
    run: Run
    when: Callable[[Target], bool] = lambda target: True
    after: str = ""
    counts: bool = False
    users: bool = False
    needs: tuple[type[ir.Exp], ...] = ()
    settles: bool = False


def _lazy(module: str, function: str, **options: Option) -> Run:
    """The function `module.function` of programs, imported when it first runs; `options` are asked of the target."""

    def run(program: Program, target: Target, **more: Any) -> Program:
        of_target = {name: option(target) for name, option in options.items()}
        out: Program = _function(module, function)(program, **of_target, **more)
        return out

    return run


def _function(module: str, name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(import_module(module), name)  # waits for a thread that imports it, too
    return found


def _bodies(module: str, function: str, **options: Option) -> Run:
    """As `_lazy`, for a function of scopes: of every function's body."""

    def run(program: Program, target: Target) -> Program:
        rewrite = _function(module, function)
        of_target = {name: option(target) for name, option in options.items()}
        return map_bodies(program, lambda body: rewrite(body, **of_target))

    return run


def _itself(target: Target) -> Target:
    return target


def _few(target: Target) -> bool:
    return target.few


def _c(target: Target) -> bool:
    return target.code == "c"


def _device(target: Target) -> bool:
    return target.code == "cuda"


def _compiled(target: Target) -> bool:
    return target.code != ""


_SIMPLIFY = _lazy("futad.rewrite.simplify", "simplify")
_FUSE = _lazy("futad.optimise.fusion", "fuse")


def _simplify(name: str, when: Callable[[Target], bool] = lambda target: True, after: str = "") -> Pass:
    return Pass(name, _SIMPLIFY, when, after, counts=True, settles=True)


def _fused_again(pass_name: str, when: Callable[[Target], bool]) -> list[Pass]:
    """Fusion of what a pass has made, if it made anything."""
    fuse = Pass(f"fuse-{pass_name}", _FUSE, when, pass_name, counts=True)
    return [_simplify(f"simplify-{pass_name}", when, pass_name), fuse, _simplify(f"tidy-{pass_name}", when, pass_name)]


# Why this order.  Callees are simplified before they are inlined, so that what is copied is small; once calls are
# gone it is clear whose results nothing uses, and the assertions of these are no more; and how often each scope is
# differentiated.  What is computed twice is found before the functions of order 0 are spelled out.  AD
# runs on unfused code, where each construct has one rule, and before hoisting, which would move primal
# code away from the scope that re-executes it.  Matrix products are found before fusion hides them.  Fusion
# wants simplified code and leaves copies behind.
#
# C: accumulators become sums after fusion, which would join what is added to them with its neighbours.  Devices have
# rewrites of their own, as they sum columns where a thread sums rows; and there sums are found after fusion, too.
PASSES: list[Pass] = [
    Pass("in-order", _lazy("futad.optimise.tasks", "in_order"), lambda target: not target.forks),
    _simplify("simplify"),
    Pass("bounded", _lazy("futad.optimise.bounded", "bounded")),
    Pass("tail-calls", _lazy("futad.optimise.tail_calls", "tail_calls")),
    Pass("recursion", _lazy("futad.optimise.recursion", "refuse", backend=lambda target: target.name), _device),
    Pass("constant-arguments", _lazy("futad.optimise.constant_arguments", "constant_arguments"), _c),
    Pass("inline", _lazy("futad.optimise.inline", "inline")),
    _simplify("simplify-inlined"),
    Pass("customs-by-order", _lazy("futad.ad.orders", "customs_by_order")),
    Pass("asserts", _lazy("futad.optimise.asserts", "bind_assertions"), needs=(ir.Assert,)),
    _simplify("simplify-asserts", after="asserts"),
    Pass("narrow", _lazy("futad.optimise.narrow", "narrow")),
    _simplify("simplify-narrow", after="narrow"),
    Pass("compactions", _lazy("futad.optimise.compactions", "fold_compactions"), needs=(ir.Scan,)),
    _simplify("simplify-compactions", after="compactions"),
    Pass("independent-loops", _lazy("futad.optimise.independent_loops", "independent_loops"), needs=(ir.For,)),
    _simplify("simplify-independent-loops", after="independent-loops"),
    Pass("views", _lazy("futad.optimise.views", "hoist_views")),
    Pass("invert", _lazy("futad.ad.inverse.function", "expand_inverses")),
    _simplify("simplify-invert", after="invert"),
    Pass("contractions", _lazy("futad.optimise.contractions", "contractions"), _c, needs=(ir.Map, ir.Reduce)),
    _simplify("simplify-contractions", _c, "contractions"),
    Pass("loops-out", _lazy("futad.optimise.interchange", "loops_out"), _c, needs=(ir.For, ir.Map)),
    _simplify("simplify-loops-out", _c, "loops-out"),
    Pass("ad", _lazy("futad.ad.expand", "expand", sequential=_few)),
    Pass("at-once", _lazy("futad.optimise.tasks", "at_once"), lambda target: target.pool and target.forks),
    Pass("half-sums", _lazy("futad.optimise.half_sums", "half_sums")),
    _simplify("simplify-ad"),
    Pass("one-hot", _lazy("futad.rewrite.onehot", "one_hot_tangents"), counts=True),
    Pass("masked-products", _lazy("futad.optimise.masked_products", "masked_products"), _c, needs=(ir.If,)),
    Pass("matmul", _lazy("futad.optimise.matmul", "matmul", computed=_c), counts=True),
    Pass("views-matmul", _lazy("futad.optimise.views", "hoist_views")),
    Pass("sink-updates", _lazy("futad.optimise.sink_updates", "sink_updates"), needs=(ir.Update, ir.At)),
    _simplify("simplify-matmul"),
    Pass("remat", _lazy("futad.optimise.remat.iterations", "remat", target=_itself)),
    Pass("forget-sweeps", _bodies("futad.core.sweeps", "unmarked")),
    _simplify("simplify-remat", after="remat"),
    Pass("column-folds", _lazy("futad.optimise.column_folds", "column_folds"), _c, needs=(ir.Rearrange,)),
    _simplify("simplify-column-folds", _c, "column-folds"),
    Pass("add-to-products", _lazy("futad.optimise.addto", "add_to_products"), needs=(ir.MatMul,)),
    Pass("sink-into-loop", _lazy("futad.optimise.sink_into_loop", "sink_into_loop"), _few, needs=(ir.For, ir.MatMul)),
    Pass("folds-by-rows", _lazy("futad.optimise.folds_by_rows", "folds_by_rows"), _c, needs=(ir.Reduce, ir.Reshape)),
    Pass("fuse", _FUSE, counts=True),
    _simplify("simplify-fused"),
    Pass("column-folds-fused", _lazy("futad.optimise.column_folds", "column_folds"), _c, needs=(ir.Rearrange,)),
    *_fused_again("column-folds-fused", _c),
    Pass("shared-loops", _lazy("futad.optimise.shared_loops", "shared_loops"), needs=(ir.Loop,)),
    _simplify("simplify-shared-loops"),
    Pass("hoist", _lazy("futad.optimise.hoist", "hoist"), counts=True),
    _simplify("simplify-hoisted"),
    # C
    Pass("hoist-elements", _lazy("futad.optimise.hoist_elements", "hoist_elements"), _c),
    _simplify("simplify-elements", _c, "hoist-elements"),
    Pass("added-rows", _lazy("futad.optimise.added_rows", "added_rows"), _c, needs=(ir.Hist,)),
    Pass("accs", _lazy("futad.accs.reduce", "accs"), _c, counts=True, needs=(ir.WithAcc,)),
    *_fused_again("accs", _c),
    Pass("gathers", _lazy("futad.accs.gathers", "gathers", target=_itself), _c, needs=(ir.WithAcc,)),
    *_fused_again("gathers", _c),
    Pass("hand-on", _lazy("futad.optimise.hand_on", "hand_on"), _c, needs=(ir.For,)),
    _simplify("simplify-hand-on", _c, "hand-on"),
    # devices
    Pass("without-traces", _bodies("futad.optimise.traces", "without_traces"), lambda target: not target.traces),
    _simplify("simplify-silent", lambda target: not target.traces, "without-traces"),
    Pass("sequentialise", _lazy("futad.optimise.sequential", "sequentialise"), _device),
    Pass("argmin-fusion", _bodies("futad.flatten.argmin_fusion", "fuse_argmin"), _device),
    Pass("loops-that-add", _bodies("futad.flatten.row_scatter", "loops_that_add"), _device),
    _simplify("simplify-loops-that-add", _device, "loops-that-add"),
    Pass("loosened", _bodies("futad.flatten.prepare", "loosened"), _device),
    *_fused_again("loosened", _device),
    # C and devices
    Pass("remat-elements", _lazy("futad.optimise.remat.elements", "remat_elements", target=_itself), _compiled),
    _simplify("simplify-remat-elements", _compiled, "remat-elements"),
    Pass("fuse-remat-elements", _FUSE, _c, "remat-elements", counts=True),
    _simplify("tidy-remat-elements", _c, "remat-elements"),
    # C
    Pass("concat-axes", _lazy("futad.optimise.concat_axes", "concat_axes"), _c, needs=(ir.Concat, ir.Rearrange)),
    _simplify("simplify-concat-axes", _c, "concat-axes"),
    Pass("eliminate-transposes", _lazy("futad.optimise.transpose_elimination", "eliminate_transposes"), _c),
    # devices
    Pass("own-rows", _bodies("futad.flatten.own_rows", "own_rows"), _device),
    _simplify("simplify-own-rows", _device, "own-rows"),
    Pass("sums", _bodies("futad.flatten.column_sums", "sums"), _device),
    _simplify("simplify-sums", _device, "sums"),
    Pass("hoist-products", _bodies("futad.flatten.hoist_products", "hoist_products"), _device),
    *_fused_again("hoist-products", _device),
    Pass("rows-as-maps", _bodies("futad.flatten.perfect_nests", "rows_as_maps"), _device),
    # In C a concatenation may be a view of its pieces.
    Pass("kept-in-place", _bodies("futad.optimise.checkpoint_stack", "kept_in_place", joins=_c), _compiled),
    Pass("rounded", _lazy("futad.optimise.rounded", "rounded"), _compiled),
    Pass("by-columns", _lazy("futad.optimise.layout", "by_columns"), _c),
    Pass("later-additions", _lazy("futad.optimise.later_additions", "later_additions"), _c, needs=(ir.UpdateAcc,)),
    Pass("grids", _lazy("futad.flatten.grids", "decided", choices=lambda target: target.choices), _device),
]
SHIPPED = list(PASSES)  # without those that others have added
COMMON = "simplify-hoisted"  # the last pass that all targets share


@dataclass(slots=True)
class PassRecord:
    """One pass: seconds, statements in the program after it, whether it changed the program, and whether it ran."""

    name: str
    seconds: float
    statements: int
    changed: bool
    ran: bool


@dataclass(slots=True)
class Trace:
    """Collects what happened: pass records, and rule hits if `rules` is set; `after` is called with each
    pass's name and result."""

    records: list[PassRecord] = field(default_factory=list)
    after: Callable[[str, Program], None] | None = None
    rules: Stats | None = None

    @property
    def hits(self) -> dict[str, int]:
        """How often each rule applied, and 1 for each pass that changed the program; strategies by their text."""
        passes = {r.name: 1 for r in self.records if r.changed}
        return passes | (self.rules.hits if self.rules is not None else {})


def _concerns(p: Pass, program: Program) -> bool:
    """Whether the program has the constructs that the pass is about."""
    return all(any(f.body.has(construct) for f in program.funs.values()) for construct in p.needs)


def passes_of(target: Target) -> list[Pass]:
    """The passes that run for a target, in order."""
    return [p for p in PASSES if p.when(target)]


def pass_names(target: Target = INTERP) -> list[str]:
    """The names of the passes that run for a target, in order."""
    return [p.name for p in passes_of(target)]


def own_passes(target: Target) -> list[str]:
    """The names of the passes of a target that follow those which all targets share."""
    names = pass_names(target)
    return names[names.index(COMMON) + 1 :]


def target_with(stop_after: str | None) -> Target:
    """The first target that the pass runs for: a pass is enough to say for whom code is meant."""
    return next((t for t in TARGETS.values() if stop_after in pass_names(t)), INTERP)


def default_schedule() -> Schedule:
    """The passes of all targets as a schedule (`rewrite/schedule.py`)."""
    from futad.rewrite.schedule import Schedule, Step

    return Schedule(tuple([Step(p.name) for p in PASSES]))


# Which pass is needed for what, and which one comes before another: what follows relies on it, in every program.
NEEDED = {
    "inline": "derivatives are taken of code without calls but of recursive functions",
    "invert": "no backend runs inverses of functions",
    "ad": "no backend runs derivatives",
    "without-traces": "devices cannot print",
    "sequentialise": "devices run `#[sequential]` constructs as loops",
    "grids": "devices run what it decides",
}
ORDER = (
    ("inline", "ad", "derivatives are taken of code without calls but of recursive functions"),
    ("inline", "invert", "functions are inverted that call no others"),
    ("invert", "ad", "the derivative of an inverse is that of its code"),
    ("ad", "matmul", "products of derivatives are found after these are taken, and have no derivative with a sum"),
    ("ad", "fuse", "derivatives are taken of code that is not fused"),
    ("ad", "hoist", "what is hoisted away from its scope is not run again by the return sweep"),
    ("asserts", "fuse", "assertions are bound where they stand"),
    ("hoist", "accs", "what follows is for one kind of target, and is not undone by hoisting"),
    ("without-traces", "grids", "kernels cannot print"),
    ("sequentialise", "grids", "what runs on the grid is decided last"),
    ("rows-as-maps", "grids", "what runs on the grid is decided last"),
    ("kept-in-place", "grids", "what runs on the grid is decided last"),
)


def check_schedule(schedule: Schedule, target: Target | None = None) -> None:
    """Raises UsageError for a schedule that names a pass that does not exist, has one twice, leaves out one that is
    needed (for a target; without one: for all of them), or has two in a wrong order."""
    from futad.rewrite.words import nearest

    targets = [target] if target is not None else list(TARGETS.values())
    known = {p.name: p for p in PASSES}
    at: dict[str, int] = {}
    for k, step in enumerate(schedule.steps):
        if step.strategy is not None:
            continue
        if step.name not in known:
            raise UsageError(f"no pass is called '{step.name}'", step.span, hint=nearest(step.name, sorted(known)))
        if step.name in at:
            raise UsageError(f"the pass '{step.name}' is there twice", step.span)
        at[step.name] = k
    for name, why in NEEDED.items():
        if name not in at and name in known and all(known[name].when(t) for t in targets):
            raise UsageError(f"the pass '{name}' is needed: {why}")
    for first, then, why in ORDER:
        if first in at and then in at and at[first] > at[then]:
            place = schedule.steps[at[first]].span
            raise UsageError(f"the pass '{first}' must come before '{then}': {why}", place)


def _scheduled(schedule: Schedule, target: Target) -> list[Pass]:
    """The passes of a schedule that run for a target, and its strategies, as passes."""
    check_schedule(schedule, target)
    known = {p.name: p for p in PASSES}
    there = set(schedule.names)

    def simplified(program: Program, target: Target, stats: Stats | None = None) -> Program:
        from futad.rewrite.apply import simplify_by

        return simplify_by(schedule.enter, schedule.leave, program, stats)

    def made(step: Step) -> Pass:
        if step.strategy is not None:
            return _strategy(step.name, step.strategy)
        p = known[step.name]
        return replace(p, run=simplified, users=True) if p.run is _SIMPLIFY and schedule.own_rules else p

    every = [made(s) for s in schedule.steps]
    return [p for p in every if p.when(target) and (not p.after or p.after in there)]


def _strategy(name: str, strategy: Strategy) -> Pass:
    def run(program: Program, target: Target, stats: Stats | None = None) -> Program:
        from futad.rewrite.apply import apply_strategy

        return apply_strategy(program, strategy, stats)

    return Pass(name, run, counts=True, users=True)


def count_statements(program: Program) -> int:
    """Statements of all functions, nested scopes included."""

    def count(lam: Any) -> int:
        return sum(1 + sum(count(inner) for inner in s.exp.lambdas()) for s in lam.stms)

    return sum(count(f.body) for f in program.funs.values())


def _chosen(
    passes: Iterable[str] | None, stop_after: str | None, target: Target, schedule: Schedule | None
) -> Sequence[Pass]:
    """The passes to run, see `compile_program`."""
    known = {p.name: p for p in PASSES}
    if schedule is not None:
        if passes is not None:
            raise UsageError("passes are named, or are those of a schedule, not both")
        every = _scheduled(schedule, target)
        if stop_after is None:
            return every
        if stop_after in [p.name for p in every]:
            return every[: [p.name for p in every].index(stop_after) + 1]
    names = pass_names(target) if passes is None else list(passes)
    for name in [*names, *([stop_after] if stop_after else [])]:
        if name not in known:
            raise UsageError(f"no pass is called '{name}'; there are: {', '.join(known)}")
    if stop_after is None:
        return [known[name] for name in names]
    if stop_after not in names:
        raise UsageError(f"'{stop_after}' does not run for {target.name}")
    if schedule is not None:
        raise UsageError(f"the schedule has no pass '{stop_after}'")
    return [known[name] for name in names[: names.index(stop_after) + 1]]


@deep
def compile_program(
    program: Program,
    *,
    target: Target = INTERP,
    passes: Iterable[str] | None = None,
    stop_after: str | None = None,
    check: bool = False,
    trace: Trace | None = None,
    schedule: Schedule | None = None,
) -> Program:
    """Run the passes of a target: all, or those named, or those of a schedule, up to and including `stop_after`.

    With `check`, or in a run that checks the IR (`checks.checked`), it is checked after each pass that returns another
    program than it was given (none changes its argument); a failure names the pass.  Raises UsageError for an unknown
    pass and one that does not run for the target, InternalError where a pass fails or makes what does not check.
    """
    checking = check or checks.IR in checks.modes()
    changed: dict[str, bool] = {}
    seen: Checker | None = None
    settled: Program | None = None  # as the simplifier left it
    for p in _chosen(passes, stop_after, target, schedule):
        before, seconds, start = program, 0.0, time.perf_counter()
        again = p.settles and settled is not None and not _differ(settled, program)
        ran = not again and (not p.after or changed.get(p.after, True)) and _concerns(p, program)
        if ran:
            counting = {"stats": trace.rules} if p.counts and trace is not None else {}
            if trace is not None and trace.rules is not None:
                trace.rules.within = p.name
            try:
                program = p.run(program, target, **counting)
            except (Error, MemoryError, RecursionError):
                raise
            except Exception as e:
                if p.users:
                    raise UsageError(f"a rule in '{p.name}' fails: {type(e).__name__}: {e}") from e
                raise InternalError(f"in {p.name}: {type(e).__name__}: {e}") from e
            seconds = time.perf_counter() - start
            if p.users and program is not before:
                _check_users(p, program)
            if checking and (seen is None or seen.program is not program):
                with checks.also(checks.IR):
                    seen = checks.checked(program, p.name, seen)
        changed[p.name] = _differ(before, program)
        settled = program if p.settles else settled
        if trace is not None:
            trace.records.append(PassRecord(p.name, seconds, count_statements(program), changed[p.name], ran))
            if trace.after is not None:
                trace.after(p.name, program)
    return program


def _check_users(p: Pass, program: Program) -> None:
    """Raises UsageError if what a user's strategy has made is no well-formed program."""
    from futad.core.check import check_program

    try:
        check_program(program, p.name)
    except InternalError as e:
        why = e.message.removeprefix(f"after {p.name}, ")
        raise UsageError(f"a rule in '{p.name}' is wrong: what it makes is no program: {why}") from None


def _differ(before: Program, program: Program) -> bool:
    """Whether a function is another object than it was."""
    if before is program:
        return False
    return before.funs.keys() != program.funs.keys() or any(f is not before.funs[n] for n, f in program.funs.items())
