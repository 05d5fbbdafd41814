"""Tasks that may run at once: so may their derivatives.

In the return sweep each task adds to adjoints of its own, which begin at zero, and are added up when both are done, the
first task's first: the sum does not depend on which was done sooner.

Note [Adjoints in tasks].  Tasks that call functions do not make an adjoint of each array that they read, which would
take as long as there are elements, at every fork: they are given accumulators, parts of what the adjoint is outside.
Parts that two tasks have of the same array are treated as if they were apart.  Who runs the second one elsewhere looks
whether they are (`imp/tasks.py`), and adds to zeros of its own if not.  Then the last digits hang on who does what, so
of an array of few elements, whose number is known, the second task makes an adjoint, as it does of a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from futad.ad.emit import reexecution
from futad.ad.kept import APART, calls, finished, mark
from futad.ad.rules.call import ONE_ADJOINT, SLOPES, slopes
from futad.ad.rules.records import Place, small
from futad.ad.table import RULES, Rule
from futad.core import ir
from futad.core.builder import Builder
from futad.core.node import Range
from futad.core.types import ONE, REC, ZERO, Atom, Var, shape_of

if TYPE_CHECKING:
    from futad.ad.forward import Tangents
    from futad.ad.reverse import Scope


def _par_jvp(t: Tangents, stm: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.Par)
    pat: list[Var] = []
    bodies: list[ir.Lambda] = []
    rest = stm.pat
    for lam in e.lambdas():
        own, rest = rest[: len(lam.result)], rest[len(lam.result) :]
        side = t.nested(lam, ())[1]
        on = [k for k, r in enumerate(lam.result) if side.of(r) is not None]
        tangents = [side.dense(lam.result[k]) for k in on]
        bodies.append(ir.Lambda((), tuple(side.b.stms), (*lam.result, *tangents)))
        pat += [*own, *[t.fresh(own[k]) for k in on]]
    t.b.add(ir.Stm(tuple(pat), ir.Par(*bodies), stm.attrs))


def _par_vjp(s: Scope, stm: ir.Stm, emitted: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.Par)
    adjoints = [s.take(v) for v in stm.pat]
    k = len(e.first.result)
    given = [adjoints[:k], adjoints[k:]]
    if _with_slopes(s, emitted, given):
        return
    if s.ctx.how.keeps and emitted.exp is e and calls(e):
        _with_accumulators(s, _with_records(s, emitted, given))
        return
    sides = [_backwards(s, lam, seeds) for lam, seeds in zip(e.lambdas(), given, strict=True)]
    bodies: list[ir.Lambda] = []
    found: list[Var] = []
    for side in sides:
        own = side.outside()
        found += own
        bodies.append(ir.Lambda((), tuple(side.code()), tuple([side.adj[v] for v in own])))
    if not found:
        return
    names = [f"{v.name}_bar" for v in found]
    out = s.b.emit(ir.Par(*bodies), *names, types=[v.type for v in found])
    for v, x in zip(found, out, strict=True):
        s.add(v, x)


def _with_records(s: Scope, emitted: ir.Stm, adjoints: Sequence[Sequence[Atom | None]]) -> list[Scope]:
    """The tasks' return sweeps, which read records of what they called (`ad/kept.py`): the forward ones keep these."""
    pat: list[Var] = []
    bodies: list[ir.Lambda] = []
    sides: list[Scope] = []
    rest = emitted.pat
    for lam, given in zip(emitted.exp.lambdas(), adjoints, strict=True):
        pat += rest[: len(given)]
        rest = rest[len(given) :]
        side, own = s.child("task"), ir.rename(lam)
        sides.append(side)
        if all(y is None for y in given):
            bodies.append(lam)
            continue
        swept = side.forward(own.stms)
        end = mark(side)
        for r, y in zip(own.result, given, strict=True):
            if y is not None:
                side.add(r, side.coerce(y, r.type))
        side.back(swept)
        found = finished(side, end, own.result, ir.Renamer())
        record = Var("record", REC)
        pat.append(record)
        bodies.append(ir.Lambda((), tuple(found.forward), (*found.results, found.record)))
        side.b.stms[:0] = found.restored(record)
    s.replace(emitted, [ir.Stm(tuple(pat), ir.Par(*bodies), emitted.attrs)])
    return sides


def _with_accumulators(s: Scope, sides: Sequence[Scope]) -> None:
    """The return sweeps as tasks (Note [Adjoints in tasks])."""
    places = [_places(s, side, sides[:k]) for k, side in enumerate(sides)]
    flat = [p for own in places for p in own]
    accs: dict[object, Atom] = {_key(p): p.acc for p in flat if p.acc is not None}
    opened: dict[object, Place] = {_key(p): p for p in flat if p.acc is None}
    scalars = [[v for v in side.outside() if v not in side.captured] for side in sides]

    def emit(b: Builder, given: Sequence[Atom]) -> list[Atom]:
        now: dict[object, Atom] = {**accs, **dict(zip(opened, given, strict=True))}
        bodies: list[ir.Lambda] = []
        for side, own, numbers in zip(sides, places, scalars, strict=True):
            entered = [_enter(b, p, now) for p in own]
            result = (*[side.adj[p.array] for p in own], *[side.adj[v] for v in numbers])
            lam = ir.Lambda((), tuple(side.code()), result)
            mapping = dict(zip([side.captured[p.array] for p in own], entered, strict=True))
            bodies.append(ir.rename(lam, mapping))
        changed = [v for own, vs in zip(places, scalars, strict=True) for v in (*[p.array for p in own], *vs)]
        out = iter(b.emit(ir.Par(*bodies), *[f"{v.name}_bar" for v in changed]))
        ends: list[tuple[Place, Atom]] = []
        sums: list[Atom] = []
        for own, numbers in zip(places, scalars, strict=True):
            ends += [(p, next(out)) for p in own]
            sums += [next(out) for _ in numbers]
        for p, bar in reversed(ends):
            p.rests[0] = now[_key(p)]
            now[_key(p)] = p.leave(b, bar)
        return [*[now[k] for k in opened], *[now[k] for k in accs], *sums]

    if not flat and not any(scalars):
        return
    if opened:
        out = list(s.scatter_add([(p.base, p.start(s)) for p in opened.values()], emit))
    else:
        out = emit(s.b, ())
    first = [*opened, *accs]
    by_key = {_key(p): p for p in flat}
    found = sorted(zip([by_key[k] for k in first], out, strict=False), key=lambda x: x[0].own)
    for p, end in found:
        p.finish(s, end)
    for v, bar in zip([v for vs in scalars for v in vs], out[len(first) :], strict=True):
        s.add(v, bar)


def _places(s: Scope, side: Scope, before: Sequence[Scope]) -> list[Place]:
    """Where the adjoints go of the arrays that a task reads."""
    out: list[Place] = []
    others = {Place(s, v).base for other in before for v in other.captured}
    for v in side.captured:
        p = Place(s, v)
        if not APART(all(p.base is not q.base for q in out)) or (small(v) and p.base in others):
            p.alone()
        out.append(p)
    return out


def _key(p: Place) -> object:
    """What places have in common that are parts of the same accumulator."""
    return p if p.own else p.base


def _enter(b: Builder, p: Place, now: dict[object, Atom]) -> Atom:
    """The accumulator that a task is given; `now` has what is left for others."""
    p.acc = now[_key(p)]
    part = p.enter(b)
    if not p.rests:
        ranges = tuple([Range(ZERO, n, ONE) for n in shape_of(part.type)])
        part, rest = b.emit(ir.Part(part, ranges), "part", "rest")
        p.rests.append(rest)
    now[_key(p)] = p.rests[0]
    return part


def _backwards(s: Scope, lam: ir.Lambda, adjoints: Sequence[Atom | None]) -> Scope:
    """A task's return sweep, with adjoints of its own, which runs it again for the values that it needs; nothing if it
    has no adjoints."""
    side = s.isolated()
    if any(y is not None for y in adjoints):
        lam = reexecution(lam)
        swept = side.forward(lam.stms)
        for r, y in zip(lam.result, adjoints, strict=True):
            if y is not None:
                side.add(r, side.coerce(y, r.type))
        side.back(swept)
    for v in side.outside():
        side.materialise_points(v)
    return side


def _with_slopes(s: Scope, emitted: ir.Stm, adjoints: Sequence[Sequence[Atom | None]]) -> bool:
    """Tasks that call functions and of which one float each has an adjoint: they return its derivatives as well, which
    the return sweep multiplies (Note [Gradients in one pass] in `calls.py`).  False where that is not so."""
    e = emitted.exp
    if not isinstance(e, ir.Par) or len(emitted.pat) != sum(map(len, adjoints)):
        return False
    pat: list[Var] = []
    bodies: list[ir.Lambda] = []
    terms: list[tuple[Var, Atom, Var]] = []
    rest = emitted.pat
    for lam, given in zip(e.lambdas(), adjoints, strict=True):
        own, rest = rest[: len(given)], rest[len(given) :]
        pat += own
        at = [k for k, y in enumerate(given) if y is not None]
        if not at:
            bodies.append(lam)
            continue
        found = slopes(s, lam, at[0]) if ONE_ADJOINT(len(at) == 1) else None
        adjoint = given[at[0]]
        if found is None or adjoint is None:
            return False
        body, variables = found
        made = [Var(f"d_{v.name}", v.type) for v in variables]
        pat += made
        bodies.append(body)
        terms += [(v, adjoint, d) for v, d in zip(variables, made, strict=True)]
    SLOPES.fired()
    s.replace(emitted, [ir.Stm(tuple(pat), ir.Par(*bodies), emitted.attrs)])
    for v, adjoint, d in terms:
        s.add(v, s.b.op("mul", adjoint, d, hint=f"{d.name}_bar"))
    return True


RULES[ir.Par] = Rule(_par_jvp, _par_vjp)
