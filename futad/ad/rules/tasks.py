"""Tasks that may run at once: so may their derivatives.

In the return sweep each task adds to adjoints of its own, which begin at zero, and are added up when both are done, the
first task's first: the sum does not depend on which was done sooner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from futad.ad.emit import reexecution
from futad.ad.kept import calls, finished, mark
from futad.ad.rules.call import ONE_ADJOINT, SLOPES, slopes
from futad.ad.table import RULES, Rule
from futad.core import ir
from futad.core.types import REC, Atom, Var

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
    sides = _with_records(s, emitted, given) if s.ctx.how.keeps and emitted.exp is e and calls(e) else None
    if sides is None:
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
        side, own = s.isolated(), ir.rename(lam)
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
        for v in side.outside():
            side.materialise_points(v)
        found = finished(side, end, own.result, ir.Renamer())
        record = Var("record", REC)
        pat.append(record)
        bodies.append(ir.Lambda((), tuple(found.forward), (*found.results, found.record)))
        side.b.stms[:0] = found.restored(record)
    s.replace(emitted, [ir.Stm(tuple(pat), ir.Par(*bodies), emitted.attrs)])
    return sides


def _backwards(s: Scope, lam: ir.Lambda, adjoints: Sequence[Atom | None]) -> Scope:
    """A task's return sweep, which runs it again for the values that it needs; nothing if it has no adjoints."""
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
