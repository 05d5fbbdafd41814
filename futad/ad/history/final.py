"""Before reverse mode: which loops' arrays the return sweep reads from the loop's result, noted at the loop.

The note is an attribute `("final", q, ...)` of the loop's statement with the positions of these loop variables.  It
is made where the dependence analysis proves it, and where `#[true_dep]` promises it and a check can be made (see
`true_dep.py`).

Note [Fresh arrays]
A loop consumes the array it starts from, so that a return sweep which needs that array too has to copy it, or take
the loop's updates back.  The note is made for arrays that the loop's own scope has made: what precedes the loop then
costs as much as the copy.  Others, like the variable of a loop around this one, are taken back (`update_log.py`).
"""

from __future__ import annotations

from collections.abc import Iterable

from futad.ad.history.leaves import LEAF
from futad.ad.history.stripmine import NEST
from futad.ad.history.true_dep import promised, with_checks
from futad.core import ir
from futad.core.types import ArrayType, Var, shape_of
from futad.optimise.hoist import hoist_from_loops
from futad.rewrite.dependence import Facts, Given, Step, elements_of, iterations_of, stays

NOTE = "final"


def prepared(lam: ir.Lambda) -> ir.Lambda:
    """The function to be differentiated with the notes, and loop-invariant parts moved out of loops."""
    lam = hoist_from_loops(lam)
    facts = Facts()
    facts.note(lam.stms)
    return _scope(lam, facts, {p for p in lam.params if isinstance(p.type, ArrayType)})


def noted(stm: ir.Stm) -> tuple[int, ...]:
    """The positions in the statement's note."""
    return next((a[1:] for a in stm.attrs if a[0] == NOTE), ())


def without_notes(stms: Iterable[ir.Stm]) -> list[ir.Stm]:
    """The statements without what reverse mode has noted."""
    out: list[ir.Stm] = []
    for s in stms:
        s = ir.map_scopes(s, _clean)
        attrs = tuple([a for a in s.attrs if a[0] not in (NOTE, NEST, LEAF)]) if s.attrs else ()
        out.append(s if attrs == s.attrs else ir.Stm(s.pat, s.exp, attrs))
    return out


def _clean(lam: ir.Lambda) -> ir.Lambda:
    return ir.with_statements(lam, without_notes(lam.stms))


def _scope(lam: ir.Lambda, facts: Facts, fresh: set[Var]) -> ir.Lambda:
    """`fresh`: arrays made in this scope."""
    facts.bound(lam.params)
    out: list[ir.Stm] = []
    for s in lam.stms:
        exp = _inside(s.exp, facts)
        s = s if exp is s.exp else ir.Stm(s.pat, exp, s.attrs)
        before: list[ir.Stm] = []
        if isinstance(s.exp, ir.Loop):
            *before, s = _loop(s, s.exp, facts, fresh)
        _follow(s, fresh)
        facts.bound(s.pat)
        out += [*before, s]
    return ir.with_statements(lam, out)


def _inside(e: ir.Exp, facts: Facts) -> ir.Exp:
    """The expression with its scopes prepared."""
    if not e.lambdas():
        return e
    if isinstance(e, ir.If):
        then = _scope(e.then, facts.inside(Given(e.cond, True)), set())
        return ir.If(e.cond, then, _scope(e.orelse, facts.inside(Given(e.cond, False)), set()))
    steps: list[Step] = []
    if isinstance(e, ir.Loop):
        steps = [iterations_of(e)]
    elif isinstance(e, ir.Map):
        steps = [*elements_of(e, facts.defs)]
    return e.rebuild(lambda a: a, lambda lam: _scope(lam, facts.inside(*steps), set()))


def _follow(s: ir.Stm, fresh: set[Var]) -> None:
    """Add what the statement makes, or makes of an array made here."""
    e = s.exp
    if e.fresh:
        fresh.update(s.pat)
    else:
        sources = e.inits if isinstance(e, ir.Loop) else () if isinstance(e, ir.At | ir.Rearrange) else e.shares()
        fresh.update(v for v, a in zip(s.pat, sources, strict=False) if a in fresh)


def _loop(s: ir.Stm, e: ir.Loop, facts: Facts, fresh: set[Var]) -> list[ir.Stm]:
    """The loop with its note, after what its checks start from."""
    own = e.variables
    names = promised(s)
    notes: list[int] = []
    unproved: list[int] = []
    for q, (x, a) in enumerate(zip(own, e.inits, strict=True)):
        if not isinstance(x.type, ArrayType) or any(n in own for n in shape_of(x.type)):
            continue
        if (x.name in names or a in fresh) and stays(e, q, facts):
            notes.append(q)
        elif x.name in names:
            unproved.append(q)
    before: list[ir.Stm] = []
    s = ir.Stm(s.pat, e, tuple([a for a in s.attrs if a[0] != NOTE]))
    for q in unproved:
        changed = with_checks(s, q, names[own[q].name])
        if changed is not None:
            *more, s = changed
            before += more
            notes.append(q)
    return [*before, ir.Stm(s.pat, s.exp, (*s.attrs, (NOTE, *notes)) if notes else s.attrs)]
