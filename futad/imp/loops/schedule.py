"""Schedules of a map's loop: transformations in the order in which they are tried.

The first one that applies makes the statements.  It can pass loops on to those after it, as one does that makes two
loops of one: so transformations combine.  A loop for which there is none stays as it is.

A new transformation is an entry of SCHEDULES, and its file beside this one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace

from futad.fires import fired
from futad.imp import ir
from futad.imp.ir import Expr, Stmt
from futad.imp.loops.loop_fission import fissioned
from futad.imp.loops.outer_vectorise import outer_vectorised
from futad.imp.loops.split_index import index_set_split
from futad.imp.loops.stage_rows import staged
from futad.imp.loops.unroll_and_jam import jammed
from futad.imp.loops.vectorise import accumulations, across, annotate, split_checks
from futad.target import Target


@dataclass(frozen=True, slots=True, eq=False)
class MapLoop:
    """The loop of a map, or of a fold, and what is known of it.

    Its iterations can run in any order but for additions to memory, folds of scalars, and what they do to the arrays
    that it `folds` into (pointers).  `name` makes names of variables; `elements`: where an iteration, by its variable,
    puts elements of results that have no rows (pointers and places).
    """

    loop: ir.For
    target: Target
    name: Callable[[str], str]
    elements: Callable[[str], Set[tuple[str, Expr]]]
    folds: Set[str] = frozenset()


Then = Callable[[ir.For], list[Stmt]]  # what the schedules that come after make of a loop


@dataclass(frozen=True, slots=True)
class Schedule:
    """A transformation: `name` is its name in `futad dev --fires`, `when` says for which loops it is tried, and `do`
    gives the statements in place of the loop, None if it is not possible or does not pay."""

    name: str
    when: Callable[[MapLoop], bool]
    do: Callable[[MapLoop, Then], list[Stmt] | None]


def scheduled(m: MapLoop, schedules: Sequence[Schedule] | None = None) -> list[Stmt]:
    """The loop by the first of the schedules that applies."""
    left = SCHEDULES if schedules is None else schedules
    for k, s in enumerate(left):
        done = s.do(m, _rest(m, left[k + 1 :])) if s.when(m) else None
        if done is not None:
            fired(s.name)
            return done
    return [m.loop]


def _rest(m: MapLoop, schedules: Sequence[Schedule]) -> Then:
    return lambda loop: scheduled(replace(m, loop=loop), schedules)


# --- when -----------------------------------------------------------------------------------------------------


def _any_order(m: MapLoop) -> bool:
    return not m.folds


def _jams(m: MapLoop) -> bool:
    return m.target.jams and not m.folds


def _writes_lanes(m: MapLoop) -> bool:
    return _jams(m) and m.loop.lanes > 0 and not m.loop.partials


def _outer_lanes(m: MapLoop) -> bool:
    return m.target.outer_lanes and m.target.reassociates


# --- what -----------------------------------------------------------------------------------------------------


def _split(m: MapLoop, then: Then) -> list[Stmt] | None:
    return index_set_split(m.loop, m.name("s"), then)


def _checks_first(m: MapLoop, then: Then) -> list[Stmt] | None:
    *checks, loop = split_checks(m.loop)
    if not checks or not annotate(loop, m.target.reassociates):
        return None
    return [*checks, *then(loop)]


def _in_lanes(m: MapLoop, then: Then) -> list[Stmt] | None:
    return then(m.loop) if annotate(m.loop, m.target.reassociates) else None


def _stage_rows(m: MapLoop, then: Then) -> list[Stmt] | None:
    return staged(m.loop, m.name("i"), m.elements(m.loop.var))


def _reduction_lanes(m: MapLoop, then: Then) -> list[Stmt] | None:
    made = across(m.loop, m.target.reassociates)
    return None if made is None else [made]


def _outer_vectorise(m: MapLoop, then: Then) -> list[Stmt] | None:
    made = outer_vectorised(m.loop, accumulations(m.loop.body), m.folds)
    return None if made is None else [made]


def _fission(m: MapLoop, then: Then) -> list[Stmt] | None:
    made = fissioned(m.loop, m.target.reassociates, m.name)
    return None if made is None else [made]


def _unroll_and_jam(m: MapLoop, then: Then) -> list[Stmt] | None:
    return jammed(m.loop, m.target.reassociates)


SCHEDULES = [
    Schedule("index-set-splitting", _jams, _split),
    Schedule("checks-first", _jams, _checks_first),
    Schedule("vector-lanes", _any_order, _in_lanes),
    Schedule("staged-rows", _writes_lanes, _stage_rows),
    Schedule("reductions-across-lanes", _jams, _reduction_lanes),
    Schedule("outer-loop-vectorisation", _outer_lanes, _outer_vectorise),
    Schedule("loop-fission", _jams, _fission),
    Schedule("unroll-and-jam", _jams, _unroll_and_jam),
]


__all__ = ["SCHEDULES", "MapLoop", "Schedule", "Then", "scheduled"]
