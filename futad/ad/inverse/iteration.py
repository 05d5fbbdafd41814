"""One iteration of a loop backwards: which variables, and the code."""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

import futad.ad.inverse.affine
import futad.ad.inverse.places
import futad.ad.inverse.rows  # noqa: F401  (fill the tables)
from futad.ad.inverse.lost import lost as lost_error
from futad.ad.inverse.lost import reason
from futad.ad.inverse.lost_bits import can_be_found, rows
from futad.ad.inverse.nests import carried, sizes_vary
from futad.ad.inverse.solver import EXACT, LEGAL, Solver, believed, bound_in, rounds
from futad.ad.tidy.live import live
from futad.core import ir
from futad.core.builder import Builder
from futad.core.scalarops import OPS
from futad.core.types import AccType, Atom, Const, Type, Var, elem_of, shape_of
from futad.errors import Span

BITS_KEPT = LEGAL.condition("no rounding, or lost bits kept", "what comes back nearly is taken for what was there")
MAX_OPERATIONS = 8  # for a byte that is not saved; a load from memory costs about as much
ASSUMED_SIZE = 1000  # of dimensions that are not known


@dataclass(frozen=True, slots=True)
class Backwards:
    """`code` gives the variables `group` of a loop before an iteration.

    Its parameters are the loop's leading ones (the index), these variables after the iteration, the variables `given`
    before it, and the values that the iteration had for `kept`, which branches may bind (see `kept.exposed`).
    `rounds`: whether they come back with round-off, or by an inverse of the program's own.  `lost`: those of `group`
    whose lost bits are to be kept (`lost_bits.py`).  `loops`: the first variable of each `while` loop whose number of
    iterations is among `kept`, by that number.
    """

    code: ir.Lambda
    group: tuple[int, ...]
    given: tuple[int, ...]
    kept: tuple[Var, ...]
    rounds: bool
    lost: tuple[int, ...] = ()
    loops: Mapping[Var, Var] = field(default_factory=dict)


def backwards(
    body: ir.Lambda,
    own: Sequence[Var],
    wanted: Sequence[int],
    known: Sequence[int],
    closed: Collection[int],
    carried_only: Collection[int],
    saved: Callable[[int], float],
    rounding: bool = False,
    demanded: bool = False,
    why: dict[str, str] | None = None,
    place: Span | None = None,
    exactly: bool = False,
    outer: Mapping[Var, ir.Stm] | None = None,
) -> list[Backwards]:
    """The `wanted` variables of a loop for which an iteration can be undone, in groups that need one another.

    `known`: variables that cost nothing to have before an iteration; `closed`: those that are not carried backwards;
    `carried_only`: those that, if not undone, cannot be given to the code either.
    `saved(q)`: how many bytes an iteration saves of a variable that is not undone; without `rounding` only those are
    undone for which it takes no more than `MAX_OPERATIONS` operations for each of them.

    With `exactly`, of what comes back with round-off the lost bits are kept; of floats, that is, other numbers are not
    undone then.  `outer`: what makes variables around the loop, as far as that is known.

    `why` gets the reason for each of the `wanted` variables that is not undone, by name.

    Raises UnsupportedError, at the `place` of the loop if the statement has none, if all that are `demanded` cannot be
    undone.
    """
    lead = body.params[: len(body.params) - len(own)]
    inside = bound_in(body)
    sizes = {n for x in own for n in shape_of(x.type)}
    outside = {*known, *closed, *[q for q, x in enumerate(own) if x in sizes]}
    open_ = [
        q for q, x in enumerate(own)
        if q not in outside and not isinstance(x.type, AccType) and not sizes_vary(x, own)
    ]
    around: ChainMap[Var, ir.Stm] = ChainMap({**(outer or {})})
    keep: list[Var] = []
    counts: dict[Var, Var] = {}
    while any(q in open_ for q in wanted):
        b = Builder()
        given = [q for q in (*known, *wanted) if q not in open_ and q not in carried_only]
        before: dict[Var, Atom] = {p: Var(p.name, p.type) for p in lead}
        before |= {own[q]: Var(own[q].name, own[q].type) for q in given}
        before |= {v: Var(v.name, v.type) for v in keep}
        placeholders = dict(before)
        s = Solver(body.stms, inside, set(body.params), before, b, rounding or exactly, None, around, counts)
        after = {q: Var(own[q].name, own[q].type) for q in open_}
        for q, v in after.items():
            s.learn(body.result[q], v)
        s.run()
        solved = [q for q in open_ if own[q] in s.known]
        if len(solved) == len(open_):
            inexact = [q for q in open_ if exactly and _rounds(b, s.known[own[q]])]
            wrong = [q for q in inexact if not can_be_found(own[q].type)]
            if EXACT(not wrong):
                break
            if why is not None:
                for x in [own[q].name for q in wrong]:
                    why.setdefault(x, f"'{x}' comes back with round-off, and is no float of 32 bits or more")
            keep, open_ = [], [q for q in open_ if q not in wrong]
            continue
        # Branches in branches taken backwards cost more time than what they save: only where it is asked for.
        if conds := s.unknown_conditions(nested=demanded or rounding or exactly):
            keep += conds
            continue
        if demanded and (gone := [q for q in wanted if q not in solved]):
            raise lost_error(s, own, gone, body.result, place)
        if why is not None:
            for q in wanted:
                if q in open_ and q not in solved:
                    why.setdefault(own[q].name, reason(s, own[q], body.result[q]))
        keep, open_ = [], solved
    else:
        return []
    found = {q: (after[q], s.known[own[q]]) for q in open_}
    out: list[Backwards] = []
    paid: set[Var] = set()  # what groups before keep
    for group in _groups(b, found, [q for q in wanted if q in open_]):
        result = [s.known[own[q]] for q in group]
        stms, used = live(b.stms, result)
        mine = [q for q in given if placeholders[own[q]] in used]
        kept = [v for v in keep if placeholders[v] in used]
        bytes_ = sum(saved(q) for q in group if q in wanted) - sum(bytes_of(v.type) for v in kept if v not in paid)
        lost = tuple([q for q in group if not BITS_KEPT(q not in inexact)])
        bytes_ -= sum(bytes_of(t) for q in lost for t in rows(own[q].type))
        if not demanded and (bytes_ <= 0 or (not (rounding or exactly) and operations(stms) > MAX_OPERATIONS * bytes_)):
            continue
        paid.update(kept)
        LEGAL.fired()
        params = [*[placeholders[p] for p in lead], *[after[q] for q in group]]
        params += [placeholders[v] for v in (*[own[q] for q in mine], *kept)]
        code = ir.Lambda(tuple([p for p in params if isinstance(p, Var)]), tuple(stms), tuple(result))
        doubtful = any(believed(x) and not rounds(x) if exactly else believed(x) or rounds(x) for x in stms)
        loops = {n: v for v, n in counts.items() if n in kept}
        out.append(Backwards(code, tuple(group), tuple(mine), tuple(kept), doubtful, lost, loops))
    return out


def _rounds(b: Builder, a: Atom) -> bool:
    """Whether floats are computed again for `a`."""
    return any(rounds(s) for s in live(b.stms, [a])[0])


def _groups(b: Builder, found: dict[int, tuple[Var, Atom]], wanted: Sequence[int]) -> list[list[int]]:
    """The wanted variables with those that they need, in groups that have none in common."""
    out: list[list[int]] = []
    for q in wanted:
        group = set(carried(b, found, [q]))
        out, joined = [g for g in out if group.isdisjoint(g)], [g for g in out if not group.isdisjoint(g)]
        out.append(sorted(group.union(*joined)))
    return out


# --- what it costs ---------------------------------------------------------------------------------------------------


def count(dims: Sequence[Atom | None]) -> float:
    """About how many elements an array of that shape has."""
    return math.prod([float(_size(d)) for d in dims])


def elements(t: Type) -> float:
    """About how many elements a value has."""
    return count(shape_of(t))


def bytes_of(t: Type) -> float:
    """About how many bytes a value has."""
    return elements(t) * elem_of(t).bytes


def _size(a: Atom | None) -> int:
    return max(a.value, 0) if isinstance(a, Const) else ASSUMED_SIZE


def operations(stms: Sequence[ir.Stm]) -> float:
    """About how many scalar operations the statements are."""
    return sum(_operations(s) for s in stms)


def _operations(s: ir.Stm) -> float:
    match s.exp:
        case ir.Op() as e:
            return OPS[e.op].cost
        case ir.Alias() | ir.Reshape() | ir.Rearrange() | ir.Scratch():
            return 0
        case ir.At() as e:
            return 0 if shape_of(s.pat[0].type) else 1
        case ir.Update() as e:
            return elements(e.value.type)
        case ir.If() as e:
            return 1 + max(operations(e.then.stms), operations(e.orelse.stms))
        case ir.WithInverse() as e:
            return operations(e.lam.stms)
        case ir.For() as e:
            return _size(e.bound) * operations(e.body.stms)
        case ir.Map() as e:
            return _size(e.width) * (operations(e.lam.stms) + 1)
        case e:
            inner = sum(operations(lam.stms) for lam in e.lambdas())
            of = [elements(a.type) for a in e.operands() if not isinstance(a.type, AccType)]
            return (1 + inner) * max(1.0, *of, *[elements(v.type) for v in s.pat])


__all__ = ["Backwards", "backwards", "bytes_of", "count"]
