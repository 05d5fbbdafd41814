"""Schedules of a map's loop: transformations in the order in which they are tried.

The first one that applies makes the statements.  It can pass loops on to those after it, as one does that makes two
loops of one: so transformations combine.  A loop for which there is none stays as it is.

A new transformation is an entry of SCHEDULES, and its file beside this one.

Where a user's schedule says so (`rewrite/choices.py`) a nest's loop goes through other transformations, in another
order or with other numbers.  Each is as legal or not as ever: what is asked for and not possible is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field, replace

from futad.core.types import I64
from futad.errors import UsageError
from futad.fires import asking, by_number, fired, refused
from futad.imp import ir
from futad.imp.ir import Expr, Stmt
from futad.imp.loops.chosen_rows import rows_chosen
from futad.imp.loops.coalesce import coalesced
from futad.imp.loops.distribute import distributed
from futad.imp.loops.facts import LoopFacts
from futad.imp.loops.guarded_reads import staged_reads, with_guarded_reads
from futad.imp.loops.loop_fission import fissioned
from futad.imp.loops.masked_lanes import masked
from futad.imp.loops.outer_vectorise import is_inside, outer_vectorised
from futad.imp.loops.places import NO_SIZES, Sizes
from futad.imp.loops.rows_in_groups import in_groups
from futad.imp.loops.short_loops import short_inside
from futad.imp.loops.split_index import index_set_split
from futad.imp.loops.stage_additions import staged_additions
from futad.imp.loops.stage_rows import staged
from futad.imp.loops.unroll_and_jam import jammed
from futad.imp.loops.vectorise import accumulations, across, annotate, split_inner_checks, with_checks_first
from futad.imp.loops.written_branches import branches_written_out
from futad.imp.loops.written_inside import written_inside
from futad.imp.walk import parts, statements
from futad.rewrite.choices import Choice, Nest
from futad.rewrite.words import nearest
from futad.target import Target

Before = dict[Stmt, tuple[list[Stmt], ir.For]]
"""What was made of loops, and the loops as they were, by the first statement of what was made."""


@dataclass(frozen=True, slots=True, eq=False)
class MapLoop:
    """The loop of a map, or of a fold, and what is known of it.

    Its iterations can run in any order but for additions to memory, folds of scalars, and what they do to the arrays
    that it `folds` into (pointers).  `name` makes names of variables; `elements`: where an iteration, by its variable,
    puts elements of results that have no rows (pointers and places).  `nest`: what a schedule asks of it.  `before`:
    the loops inside as they were.  `outermost`: whether there is no nest around it.  `sizes`: what is known of arrays.
    `blocks`: of loops that were asked for it, what outer-loop vectorisation makes of them.
    """

    loop: ir.For
    target: Target
    name: Callable[[str], str]
    elements: Callable[[str], Set[tuple[str, Expr]]]
    folds: Set[str] = frozenset()
    nest: Nest | None = None
    before: Before = field(default_factory=dict)
    outermost: bool = True
    sizes: Sizes = NO_SIZES
    blocks: dict[ir.For, ir.Blocks | None] = field(default_factory=dict)

    def asked(self, name: str) -> tuple[int, ...] | None:
        """The numbers with which a transformation is asked for; None if it is not."""
        return next((c.args for c in self.nest.forced if c.name == name), None) if self.nest is not None else None

    def number(self, name: str) -> int:
        """The number with which a transformation is asked for; 0 if there is none."""
        args = self.asked(name)
        return args[0] if args else 0


Then = Callable[[ir.For], list[Stmt]]  # what the schedules that come after make of a loop


@dataclass(frozen=True, slots=True)
class Schedule:
    """A transformation: `name` is its name in `futad dev --fires`, `when` says for which loops it is tried, and `do`
    gives the statements in place of the loop, None if it is not possible or does not pay.  `numbers`: the least and the
    largest number with which a user may ask for it, if there are any."""

    name: str
    when: Callable[[MapLoop], bool]
    do: Callable[[MapLoop, Then], list[Stmt] | None]
    numbers: tuple[int, int] | None = None


def scheduled(m: MapLoop, schedules: Sequence[Schedule] | None = None) -> list[Stmt]:
    """The loop by the first of the schedules that applies."""
    if m.nest is not None:
        return _chosen(m, m.nest, schedules)
    left = SCHEDULES if schedules is None else schedules
    for k, s in enumerate(left):
        done = s.do(m, _rest(m, left[k + 1 :])) if s.when(m) else None
        if done is not None:
            fired(s.name)
            return done
    return [m.loop]


def _chosen(m: MapLoop, nest: Nest, schedules: Sequence[Schedule] | None) -> list[Stmt]:
    """As `scheduled`, where somebody asks what was done and why not."""
    if schedules is None:
        forced = [s for s in SCHEDULES if any(c.name == s.name for c in nest.forced)]
        if forced and (done := _first(m, nest, forced)) is not None:
            return done
        schedules = [s for s in SCHEDULES if nest.allows(s.name)]
    return _first(m, nest, schedules) or [m.loop]


def _first(m: MapLoop, nest: Nest, schedules: Sequence[Schedule]) -> list[Stmt] | None:
    for k, s in enumerate(schedules):
        before = list(nest.done)
        with asking() as told:
            done = s.do(m, _rest(m, schedules[k + 1 :])) if s.when(m) else None
        if done is not None:
            fired(s.name)
            nest.was(s.name, *([told.number] if told.number else []), at=len(before))
            return done
        nest.done = before
        nest.was_not(s.name, told.why or _why_not(m, s))
    return None


def _why_not(m: MapLoop, s: Schedule) -> str:
    if s.when(m):
        return "it is not of the form that this is for, or would not gain"
    if s.when is _inside and m.outermost:
        return "it is not inside another nest"
    if m.folds:
        return "its iterations continue a fold of arrays, one after the other"
    return "its rows are not written in vector lanes" if s.when is _writes_lanes else f"not for {m.target.name}"


def _rest(m: MapLoop, schedules: Sequence[Schedule]) -> Then:
    return lambda loop: scheduled(replace(m, loop=loop), schedules)


def _as_it_was(body: list[Stmt], before: Before) -> list[Stmt]:
    """A body with the loops inside as they were before they were scheduled."""
    out: list[Stmt] = []
    k = 0
    while k < len(body):
        made, loop = before.get(body[k], ([], None))
        if loop is not None and body[k : k + len(made)] == made:
            out.append(replace(loop, body=accumulations(_as_it_was(loop.body, before))))
            k += len(made)
        else:
            out.append(body[k].map_bodies(lambda inside: _as_it_was(inside, before)))
            k += 1
    return out


def _written_out(made: list[Stmt], loop: ir.For) -> bool:
    """Whether a loop had loops inside, and what was made of it is one loop with none."""
    loops = [s for s in statements(made) if isinstance(s, ir.For | ir.VectorisedFor | ir.While)]
    return _loops(loop.body) and len(loops) == 1 and isinstance(loops[0], ir.For)


def _loops(body: list[Stmt]) -> bool:
    return any(isinstance(s, ir.For) for s in statements(body))


# --- when -----------------------------------------------------------------------------------------------------


def _any_order(m: MapLoop) -> bool:
    return not m.folds


def _jams(m: MapLoop) -> bool:
    return m.target.jams and not m.folds


def _no_lanes_yet(m: MapLoop) -> bool:
    return _jams(m) and m.target.reassociates and not m.loop.independent


def _jams_or_folds(m: MapLoop) -> bool:
    return m.target.jams


def _writes_lanes(m: MapLoop) -> bool:
    return _jams(m) and m.loop.lanes > 0 and not m.loop.partials


def _outer_lanes(m: MapLoop) -> bool:
    return m.target.outer_lanes and m.target.reassociates


def _inside(m: MapLoop) -> bool:
    return not m.outermost and m.target.jams


def _jams_in_lanes(m: MapLoop) -> bool:
    return m.target.jams and _outer_lanes(m)


# --- what -----------------------------------------------------------------------------------------------------


def _short_loops(m: MapLoop, then: Then) -> list[Stmt] | None:
    if not any(isinstance(s, ir.For) for s in statements(m.loop.body)):
        return refused("there is no loop inside")
    with asking():  # why it is not in lanes anyway
        if across(m.loop, m.target.reassociates) or _outer_vectorise(m, then):
            return None
    if not m.outermost and any(_loops(s.body) for s in statements(m.loop.body) if isinstance(s, ir.For)):
        return refused("it is inside another nest, and has nests inside")
    if any(_written_out(*m.before[s]) for s in statements(m.loop.body) if s in m.before):
        return refused("loops inside are written out")
    *checks, loop = with_checks_first(replace(m.loop, body=_as_it_was(m.loop.body, m.before)), nested=True)
    found = short_inside(m.loop, accumulations(loop.body), m.folds, m.asked("short-inner-loops") is not None, m.sizes)
    if found is None:
        return None
    blocks, short = found
    if short == ir.TRUE:
        return [*checks, blocks]
    if isinstance(m.loop.bound, ir.Num):  # a number of iterations that others can rely on, too
        return [ir.If(short, [*checks, blocks], then(m.loop))]
    done = ir.Ref(m.name("done"), I64)
    blocks.until = done.name
    return [
        ir.Decl(done.name, I64, m.loop.start, mutable=True),
        ir.If(short, [*checks, blocks], []),
        *then(replace(m.loop, start=done)),
    ]


def _chosen_rows(m: MapLoop, then: Then) -> list[Stmt] | None:
    loop = rows_chosen(m.loop)
    return then(loop) if loop is not None else None


def _split(m: MapLoop, then: Then) -> list[Stmt] | None:
    def masked(loop: ir.For) -> ir.For | None:
        if m.nest is not None and not m.nest.allows("guarded-reads"):
            return None
        with asking():
            line = with_guarded_reads(loop, m.name, is_inside(loop, loop.body, m.sizes), True)
            if line is None or not annotate(line, m.target.reassociates) or line.partials:
                return None
        every = [e for s in line.body for e in parts(s)]
        guarded, facts = sum(isinstance(e, ir.Guarded) for e in every), LoopFacts(line.var, line.body)
        if sum(isinstance(e, ir.Scalar) and e.op == "select" and not facts.invariant(e) for e in every) > guarded:
            return None  # GCC 12 takes no vectors where it puts two choices into one branch
        fired("guarded-reads")
        return line

    return index_set_split(m.loop, m.name("s"), then, masked, m.target.reassociates)


def _checks_first(m: MapLoop, then: Then) -> list[Stmt] | None:
    *checks, loop = with_checks_first(m.loop, m.asked("checks-first") is not None)
    done = then(loop) if checks else []
    if _some_lanes(done):
        return [*checks, *done]
    *checks, loop = split_inner_checks(m.loop, m.sizes.lets) if _outer_lanes(m) else [m.loop]
    made = outer_vectorised(loop, accumulations(loop.body), m.folds, sizes=m.sizes) if checks else None
    return [*checks, made] if made is not None else None


def _guarded(m: MapLoop, then: Then) -> list[Stmt] | None:
    inside = is_inside(m.loop, m.loop.body, m.sizes)
    loop = with_guarded_reads(m.loop, m.name, inside, m.asked("guarded-reads") is not None)
    if loop is None:
        return None
    done = then(loop)
    return done if _some_lanes(done) else refused("nothing of it would run in vector lanes")


def _staged_reads(m: MapLoop, then: Then) -> list[Stmt] | None:
    done = staged_reads(m.loop, m.name, then, m.asked("staged-reads") is not None)
    return done if done is not None and _some_lanes(done) else None


def _some_lanes(made: list[Stmt]) -> bool:
    """Whether some loop of what was made runs in vector lanes."""
    return any(isinstance(s, ir.For) and s.independent for s in statements(made))


def _in_lanes(m: MapLoop, then: Then) -> list[Stmt] | None:
    if not annotate(m.loop, m.target.reassociates, m.number("vector-lanes")):
        return None
    by_number(m.loop.lanes)
    return then(m.loop)


def _coalesced(m: MapLoop, then: Then) -> list[Stmt] | None:
    if m.folds or not any(isinstance(s, ir.For) for s in statements(m.loop.body)):
        return refused("there is no loop inside")
    body = accumulations(_as_it_was(m.loop.body, m.before))
    loop = coalesced(m.loop, body, m.sizes, m.outermost, m.asked("loop-coalescing") is not None)
    if loop is None:
        return None
    done = then(loop)
    return done if _some_lanes(done) else refused("it would not run in vector lanes")


def _written_inside(m: MapLoop, then: Then) -> list[Stmt] | None:
    return written_inside(m.loop, m.folds, m.name, m.asked("inner-loops-written-out") is not None)


def _written_branches(m: MapLoop, then: Then) -> list[Stmt] | None:
    loop = branches_written_out(m.loop, m.folds, m.asked("branches-written-out") is not None)
    if loop is None:
        return None
    done = then(loop)
    return done if _some_lanes(done) else refused("nothing of it would run in vector lanes")


def _rows_in_groups(m: MapLoop, then: Then) -> list[Stmt] | None:
    return in_groups(m.loop, m.target.reassociates, m.asked("rows-in-groups") is not None)


def _stage_additions(m: MapLoop, then: Then) -> list[Stmt] | None:
    return staged_additions(m.loop, m.name, m.number("staged-additions"))


def _stage_rows(m: MapLoop, then: Then) -> list[Stmt] | None:
    return staged(m.loop, m.name("i"), m.elements(m.loop.var), m.number("staged-rows"))


def _reduction_lanes(m: MapLoop, then: Then) -> list[Stmt] | None:
    made = across(m.loop, m.target.reassociates)
    return None if made is None else [made]


def _outer_vectorise(m: MapLoop, then: Then) -> list[Stmt] | None:
    if m.nest is not None or m.loop not in m.blocks:
        asked = m.asked("outer-loop-vectorisation") is not None
        m.blocks[m.loop] = outer_vectorised(m.loop, accumulations(m.loop.body), m.folds, asked, sizes=m.sizes)
    made = m.blocks[m.loop]
    return None if made is None else [made]


def _distribute(m: MapLoop, then: Then) -> list[Stmt] | None:
    def part(loop: ir.For) -> list[Stmt]:
        jams = [s for s in SCHEDULES if s.name in ("reductions-across-lanes", "unroll-and-jam")]
        with asking():  # their numbers are not this one's
            return scheduled(replace(m, loop=loop, nest=None, folds=frozenset()), jams)

    def kept(loop: ir.For) -> list[Stmt]:
        return [loop] if any(p in m.folds for s in statements(loop.body) for p in s.writes()) else part(loop)

    return distributed(m.loop, m.target.reassociates, m.name, m.folds, kept)


def _masked(m: MapLoop, then: Then) -> list[Stmt] | None:
    asked = m.asked("masked-lanes") is not None
    return masked(m.loop, accumulations(m.loop.body), m.folds, m.name, m.target.reassociates, asked, m.sizes)


def _fission(m: MapLoop, then: Then) -> list[Stmt] | None:
    asked = None if m.asked("loop-fission") is None else m.number("loop-fission")
    made = fissioned(m.loop, m.target.reassociates, m.name, asked)
    return None if made is None else [made]


def _unroll_and_jam(m: MapLoop, then: Then) -> list[Stmt] | None:
    return jammed(m.loop, m.target.reassociates, m.number("unroll-and-jam"))


SCHEDULES = [
    Schedule("loop-coalescing", _no_lanes_yet, _coalesced),
    Schedule("inner-loops-written-out", _outer_lanes, _written_inside),
    Schedule("branches-written-out", _outer_lanes, _written_branches),
    Schedule("short-inner-loops", _jams_in_lanes, _short_loops),
    Schedule("rows-chosen", _jams, _chosen_rows),
    Schedule("index-set-splitting", _jams, _split),
    Schedule("guarded-reads", _jams, _guarded),
    Schedule("checks-first", _jams, _checks_first),
    Schedule("staged-reads", _jams, _staged_reads),
    Schedule("vector-lanes", _any_order, _in_lanes, (1, 32)),
    Schedule("rows-in-groups", _inside, _rows_in_groups),
    Schedule("staged-additions", _no_lanes_yet, _stage_additions, (8, 512)),
    Schedule("staged-rows", _writes_lanes, _stage_rows, (8, 512)),
    Schedule("reductions-across-lanes", _jams, _reduction_lanes),
    Schedule("outer-loop-vectorisation", _outer_lanes, _outer_vectorise),
    Schedule("masked-lanes", _jams, _masked),
    Schedule("loop-fission", _jams, _fission, (8, 1024)),
    Schedule("loop-distribution", _jams_or_folds, _distribute),
    Schedule("unroll-and-jam", _jams, _unroll_and_jam, (2, 16)),
]
SHIPPED = list(SCHEDULES)  # without those that others have added
BY_NAME = {s.name: s for s in SCHEDULES}

# What else is done to nests, elsewhere in `imp/`, and can be forbidden: by each one's file.
ELSEWHERE = {
    "rows-of-products": "imp/rows.py",
    "packed": "imp/packed.py",
    "parallel-nests": "imp/parallel.py",
    "overlapped-tiling": "imp/loops/overlapped_tiling.py",
}
SHORT = {
    "jam": "unroll-and-jam", "rows": "rows-of-products", "tiles": "overlapped-tiling", "parallel": "parallel-nests",
    "lanes": "vector-lanes", "across": "reductions-across-lanes", "fission": "loop-fission", "staged": "staged-rows",
    "distribution": "loop-distribution", "masks": "masked-lanes", "outer-lanes": "outer-loop-vectorisation",
    "split": "index-set-splitting", "short": "short-inner-loops", "additions": "staged-additions",
    "groups": "rows-in-groups", "written": "inner-loops-written-out",
    "branches": "branches-written-out", "guarded": "guarded-reads",
    "reads": "staged-reads", "coalescing": "loop-coalescing",
}  # fmt: skip


def known(c: Choice) -> Choice:
    """A choice by the full name of its transformation.  Raises UsageError if there is none, or it takes
    other numbers."""
    name = SHORT.get(c.name, c.name)
    if name not in BY_NAME and name not in ELSEWHERE:
        names = [*BY_NAME, *ELSEWHERE, *SHORT]
        raise UsageError(f"no transformation of loops is called '{c.name}'", hint=nearest(c.name, names))
    allowed = BY_NAME[name].numbers if name in BY_NAME else None
    if c.args and (allowed is None or len(c.args) > 1 or not allowed[0] <= c.args[0] <= allowed[1]):
        wanted = f"a number from {allowed[0]} to {allowed[1]}" if allowed is not None else "no numbers"
        raise UsageError(f"'{c.name}' takes {wanted}, not {', '.join(map(str, c.args))}")
    return replace(c, name=name)


__all__ = ["ELSEWHERE", "SCHEDULES", "SHORT", "MapLoop", "Schedule", "Then", "known", "scheduled"]
