"""Loops in which functions are called: each iteration keeps a record, of what the calls gave (see `ad/kept.py`), what
the loop's variables were, and the record of the iteration before.

So the records of a loop are a list, whose end is one more variable of the loop.  The return sweep follows it from
there.  The list grows with the iterations, so `while` loops need not be counted first, and no call is made twice.

What a variable was is in the record, but for those that no iteration changes, and for arrays that are changed by
updates only.  Of these the updates keep what they overwrite, in a list of the iteration's own
(`history/record_log.py`), and the return sweep takes them back.  Where an iteration makes another array, its elements
are copied for the record.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from futad.ad.activity import loop_flow
from futad.ad.history.chains import Element, Finder, Space
from futad.ad.history.record_log import logging, undone
from futad.ad.history.rerun import put
from futad.ad.history.stripmine import bound_of, within
from futad.ad.history.variables import varying
from futad.ad.kept import NO_RECORD, calls, finished, mark
from futad.ad.rules.records import small
from futad.core import ir
from futad.core.budget import Budget
from futad.core.builder import Builder
from futad.core.types import I64, ONE, REC, ZERO, AccType, ArrayType, Atom, Const, Prim, Var, i64, subst_type

if TYPE_CHECKING:
    from futad.ad.reverse import Scope


def loop_with_records(s: Scope, stm: ir.Stm, emitted: ir.Stm) -> bool:
    """The return sweep of a loop in which functions are called, whose iterations keep records.  False where nothing is
    kept for calls, where a budget says how the loop is reversed, and of loops with accumulators."""
    e = stm.exp
    assert isinstance(e, ir.Loop)
    if not s.ctx.how.keeps or emitted.exp is not e or not calls(e) or s.ctx.how.budget or Budget.of(stm.attrs):
        return False
    if any(isinstance(a.type, AccType) or a in s.ctx.final for a in e.inits):
        return False
    body = ir.rename(e.body)
    k = len(body.params) - len(e.inits)
    lead, xs = body.params[:k], body.params[k:]
    seeds = [s.take(v) for v in stm.pat]
    copy = e.remade(e.inits, body)
    assert isinstance(copy, ir.Loop)
    flags = loop_flow(copy, s.ctx.active)
    inner = s.child("loop")
    inner.local.update(body.params)
    swept = inner.forward(body.stms)
    end = mark(inner)
    carried = [q for q, f in enumerate(flags) if f]
    # An iteration gets the adjoints with the sizes after it.
    sizes = varying([xs[q] for q in carried], xs)
    after: dict[Var, Atom] = {xs[q]: Var(xs[q].name, I64) for q in sizes}
    bars = [Var(f"{xs[q].name}_bar", subst_type(xs[q].type, after)) for q in carried]
    for q, bar in zip(carried, bars, strict=True):
        inner.add(body.result[q], inner.coerce(bar, body.result[q].type))
    inner.back(swept)
    for q in carried:
        inner.adj[xs[q]] = inner.dense(xs[q])
    captured = list(inner.captured)
    if not carried and not captured:
        return True  # nothing is added to any adjoint, and nothing kept for it
    now = [inner.current(x) for x in xs]
    names = ir.Renamer()
    params = tuple([names.bind(p) for p in body.params])
    variables = _Variables(body, names, [xs[q] for q in sizes])
    found = finished(inner, end, body.result, names, variables.kept)

    count, last, b = Var("iterations", I64), Var("records", REC), Builder()
    links: list[Var] = [variables.before] if found.values else []
    if isinstance(e, ir.For):
        count_of: Atom = e.bound
        forward = ir.Lambda((*params, *links), tuple(found.forward), (*found.results, *[found.record for _ in links]))
        pat = [*emitted.pat]
        inits: list[Atom] = [*e.inits]
    else:
        count_of, iteration, limit = count, Var("iteration", I64), bound_of(stm)
        if limit is not None:
            b.add(within(b.op("lt", iteration, i64(limit)), limit))
        b.extend(found.forward)
        more = [b.op("add", iteration, ONE), *[found.record for _ in links]]
        forward = ir.Lambda((*params, iteration, *links), tuple(b.stms), (*found.results, *more))
        pat, inits = [*emitted.pat, count], [*e.inits, ZERO]
    if links:
        pat.append(last)
        inits.append(NO_RECORD)
    s.replace(emitted, [ir.Stm(tuple(pat), e.remade(tuple(inits), forward), emitted.attrs)])

    # The return sweep
    assert isinstance(count_of.type, Prim)
    iteration, link, head, taken = Var("iteration", count_of.type), Var("records", REC), Builder(), Builder()
    if lead:
        final = s.b.op("sub", count_of, Const(count_of.type, 1), hint="last")
        head.add(ir.Stm(lead, ir.Op("sub", (final, iteration))))
    changed = {q: Var(xs[q].name, xs[q].type) for q in variables.logged}
    for q in variables.unchanged:
        put(taken, xs[q], e.inits[q])
    for q, y in changed.items():
        x = undone(taken, variables.finder, y, *variables.log(q), dict(zip(params, lead, strict=False)))
        taken.add(ir.Stm((xs[q],), ir.Alias(x)))
    own: list[tuple[Var, Atom, Atom]] = []  # of the loop's variables: what they begin with, what they become
    for q in sizes:
        size = after[xs[q]]
        assert isinstance(size, Var)
        own.append((size, stm.pat[q], xs[q]))
    for q, bar in zip(carried, bars, strict=True):
        seed = seeds[q]
        start = s.b.zeros(stm.pat[q].type) if seed is None else s.coerce(seed, stm.pat[q].type)
        own.append((bar, start, inner.adj[xs[q]]))
    for v in captured:
        bar_now = s.grab(v)
        start = s.b.zeros(v.type, f"{v.name}_bar") if bar_now is None else bar_now
        own.append((inner.captured[v], start, inner.adj[v]))
    own += [(link, last, variables.link) for _ in links]
    own += [(y, stm.pat[q], now[q]) for q, y in changed.items()]
    stms = (*head.stms, *found.restored(link, taken.stms), *inner.code())
    back = ir.Lambda((iteration, *[p for p, _, _ in own]), stms, tuple([r for _, _, r in own]))
    done = ir.Renamer()
    out = {p: done.bind(p) for p, _, _ in own}
    s.b.add(ir.Stm(tuple(out.values()), ir.For(count_of, tuple([a for _, a, _ in own]), back)))
    for q, y in changed.items():
        s.restored(e.inits[q], out[y])
    for v in captured:
        s.adj[v] = out[inner.captured[v]]
    for q, bar in zip(carried, bars, strict=True):
        s.add(e.inits[q], out[bar])
    return True


class _Variables:
    """How the return sweep of an iteration has the loop's variables: by their positions those that are as they were
    before the loop, and those whose updates it takes back."""

    def __init__(self, body: ir.Lambda, names: ir.Renamer, sizes: Sequence[Var]) -> None:
        self.body, self.names, self.sizes = body, names, sizes
        self.finder = Finder(Builder(), listed=True)
        self.before, self.link = Var("records", REC), Var("records", REC)  # forwards, and in the return sweep
        self.unchanged: list[int] = []
        self.logged: dict[int, tuple[list[Element], Var]] = {}

    def log(self, q: int) -> tuple[list[Element], Atom]:
        """The updates of a variable, and the last record of what they overwrote."""
        return self.logged[q]

    def kept(self, forward: list[ir.Stm], used: set[Var]) -> tuple[list[ir.Stm], list[Var], dict[Var, Atom]]:
        """`Iteration` in `ad/kept.py`."""
        body, names = self.body, self.names
        xs = body.params[len(body.params) - len(body.result) :]
        used.update(self.sizes)
        used.update(xs[n] for n in varying([x for x in xs if x in used], xs))
        more: dict[Var, Atom] = {self.link: self.before}
        gone: list[Var] = []
        result = tuple([names.atom(r) for r in body.result])
        renamed = ir.Lambda(tuple([_var(names, p) for p in body.params]), tuple(forward), result)
        self.finder.enter(renamed)
        self.finder.indices.update(renamed.params[: len(renamed.params) - len(xs)])
        for q, x in enumerate(xs):
            if x not in used:
                continue
            steps = None
            if isinstance(x.type, ArrayType) and not small(x) and not varying([x], xs):
                steps = self.finder.chain(renamed, _var(names, x), result[q], Space((), ()))
            if body.result[q] is x or steps == []:
                self.unchanged.append(q)
            elif steps is None:
                gone.append(x)
            else:
                forward, end = logging(forward, steps, NO_RECORD)
                log = Var("log", REC)
                more[log] = end
                self.logged[q] = steps, log
        return forward, gone, more


def _var(names: ir.Renamer, x: Var) -> Var:
    found = names.atom(x)
    assert isinstance(found, Var)
    return found


__all__ = ["loop_with_records"]
