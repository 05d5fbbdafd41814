"""Branches and loops.

Source: Schenck et al., SC 2022, section 4.3 and figure 3: a loop saves the loop variables at the start of
each turn; the return sweep runs the turns backwards, restores them and re-executes the body.  Only the loop
variables that the return sweep reads are saved.  While loops are counted first, or run under a given bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from futad.ad.activity import loop_flow
from futad.ad.branch import merge_branches
from futad.ad.chain import Element, Finder, Slot, Undoer, instrument, slots
from futad.ad.chain import room as space
from futad.ad.live import live
from futad.ad.prepare import noted
from futad.ad.rule import RULES, Rule
from futad.ad.vjp import again
from futad.core import ir
from futad.core.builder import Builder
from futad.core.node import Range
from futad.core.types import (
    I64,
    ONE,
    ZERO,
    AccType,
    ArrayType,
    Atom,
    Const,
    Prim,
    Type,
    Var,
    array_of,
    elem_of,
    i64,
    shape_of,
    subst_type,
)

if TYPE_CHECKING:
    from futad.ad.jvp import Tangents
    from futad.ad.vjp import Scope


# --- if ---------------------------------------------------------------------------------------------------


def _if_jvp(t: Tangents, stm: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.If)
    sides = [t.nested(lam, ())[1] for lam in (e.then, e.orelse)]
    on = [
        i for i in range(len(stm.pat))
        if any(side.of(lam.result[i]) is not None for side, lam in zip(sides, (e.then, e.orelse), strict=True))
    ]
    bodies = []
    for lam, side in zip((e.then, e.orelse), sides, strict=True):
        tans = [side.dense(lam.result[i]) for i in on]
        bodies.append(ir.Lambda((), tuple(side.b.stms), (*lam.result, *tans)))
    pat = (*stm.pat, *[t.fresh(stm.pat[i]) for i in on])
    t.b.add(ir.Stm(pat, ir.If(e.cond, *bodies), stm.attrs))


def _if_vjp(s: Scope, stm: ir.Stm, emitted: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.If)
    seeds = [s.take(v) for v in stm.pat]
    sides: list[Scope] = []
    for lam in (e.then, e.orelse):
        lam = again(lam)
        inner = s.child("branch")
        tape = inner.forward(lam.stms)
        for r, y in zip(lam.result, seeds, strict=True):
            if y is not None:
                inner.add(r, y if isinstance(r.type, AccType) else inner.coerce(y, r.type))
        inner.back(tape)
        sides.append(inner)
    merge_branches(s, e.cond, sides)


# --- loops, forward mode ----------------------------------------------------------------------------------


def _loop_jvp(t: Tangents, stm: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.For | ir.While)
    flags = list(loop_flow(e, t.active))
    lead = [False] if isinstance(e, ir.For) else []
    extra, inner = t.nested(e.body, lead + flags)
    tans = [inner.dense(r) for r, f in zip(e.body.result, flags, strict=True) if f]
    body = ir.Lambda((*e.body.params, *extra), tuple(inner.b.stms), (*e.body.result, *tans))
    inits = (*e.inits, *[t.dense(a) for a, f in zip(e.inits, flags, strict=True) if f])
    pat = (*stm.pat, *[t.fresh(v) for v, f in zip(stm.pat, flags, strict=True) if f])
    exp: ir.Exp = ir.For(e.bound, inits, body) if isinstance(e, ir.For) else ir.While(inits, body)
    t.b.add(ir.Stm(pat, exp, stm.attrs))


# --- loops, reverse mode ----------------------------------------------------------------------------------

@dataclass(slots=True)
class Restore:
    """How the return sweep gets a loop variable as it was at the start of a turn.

    `begin(b, i, after)` emits code for turn i and gives its value.  `last`: the variable's final value if the
    return sweep carries it backwards (`after` is then the value after the turn), else None.
    """

    begin: Callable[[Builder, Atom, Var], Atom]
    last: Atom | None = None


Save = Callable[[Sequence[int]], "dict[int, Restore]"]


def _reverse_turns(s: Scope, bound: Atom, body: ir.Lambda, stm: ir.Stm, save: Save) -> None:
    """The return sweep of the loop `stm` as `for i < bound`: `body` is a fresh copy whose first parameter is i.

    `save(which)` makes the forward sweep save those loop variables and returns the arrays of them.
    """
    assert isinstance(stm.exp, ir.For | ir.While)
    inits, pat = stm.exp.inits, stm.pat
    i, xs = body.params[0], body.params[1:]
    final = s.ctx.final
    final.update({xs[q]: pat[q] for q in noted(stm)})
    final.update({x: final[a] for x, a in zip(xs, inits, strict=True) if a in final})  # type: ignore[index]
    seeds = [s.take(v) for v in pat]
    flags = loop_flow(ir.For(bound, inits, body), s.ctx.active)
    inner = s.child("loop")
    inner.local.update(body.params)
    inner.stripped.update(x for x in xs if isinstance(x.type, AccType))
    tape = inner.forward(body.stms)
    carried = [q for q, f in enumerate(flags) if f and not isinstance(xs[q].type, AccType)]
    # Sizes that change from turn to turn: a turn gets the adjoints with the sizes after it.
    sizes = varying([xs[q] for q in carried], xs)
    after_turn: dict[Var, Atom] = {xs[q]: Var(xs[q].name, I64) for q in sizes}
    bars = {q: Var(f"{xs[q].name}_bar", subst_type(xs[q].type, after_turn)) for q in carried}
    for q, (r, y) in enumerate(zip(body.result, seeds, strict=True)):
        if isinstance(r.type, AccType):
            if y is not None:
                inner.add(r, y)
        elif q in bars:
            inner.add(r, inner.coerce(bars[q], r.type))
    inner.back(tape)
    for q in carried:
        inner.adj[xs[q]] = inner.dense(xs[q])
    captured = list(inner.captured)
    result = [inner.adj[xs[q]] for q in carried] + [inner.adj[v] for v in captured]
    stms, used = live(inner.code(), result)
    which = [q for q, x in enumerate(xs) if x in used or q in sizes]
    which = sorted({*which, *varying([xs[q] for q in which], xs)})
    turn = Var("turn", i.type)
    head = Builder()
    assert isinstance(i.type, Prim)
    last_turn = s.b.op("sub", bound, Const(i.type, 1), hint="last")
    head.add(ir.Stm((i,), ir.Op("sub", (last_turn, turn))))
    restores = save(which) if which else {}
    at = head.convert(I64, i) if which else i
    backwards = {q: Var(xs[q].name, xs[q].type) for q, r in restores.items() if r.last is not None}
    for q, how in sorted(restores.items()):
        value = how.begin(head, at, backwards.get(q, xs[q]))
        made = head.stms[-1]
        if made.pat == (value,):
            head.stms[-1] = ir.Stm((xs[q],), made.exp)
        else:
            head.add(ir.Stm((xs[q],), ir.Alias(value)))
    start: list[Atom] = []
    for q in carried:
        y = seeds[q]
        start.append(s.b.zeros(pat[q].type) if y is None else s.coerce(y, pat[q].type))
    for v in captured:
        now = s.grab(v)
        start.append(s.b.zeros(v.type, f"{v.name}_bar") if now is None else now)
    if not start:
        return
    params = [turn, *[bars[q] for q in carried], *[inner.captured[v] for v in captured]]
    for q in sizes:
        now = after_turn[xs[q]]
        assert isinstance(now, Var)
        params.insert(1, now)
        start.insert(0, pat[q])
        result.insert(0, xs[q])
    for q, after in backwards.items():
        last = restores[q].last
        assert last is not None
        params.append(after)
        start.append(last)
        result.append(inner.current(xs[q]))
    lam = ir.Lambda(tuple(params), tuple(head.stms + stms), tuple(result))
    names = ir.Renamer()
    done = tuple([names.bind(p) for p in params[1:]])
    s.b.add(ir.Stm(done, ir.For(bound, tuple(start), lam)))
    out = done[len(sizes) :]
    for q, x in zip(backwards, out[len(out) - len(backwards) :], strict=True):
        s.restored(inits[q], x)
    for v, o in zip(captured, out[len(carried) :], strict=False):
        s.adj[v] = o
    for q, y in enumerate(seeds):
        if isinstance(xs[q].type, AccType) and y is not None:
            s.add(inits[q], y)
    for q, o in zip(carried, out, strict=False):
        s.add(inits[q], o)


class _Saver:
    """Adds to a loop arrays that hold loop variables as they are at the start of each turn."""

    def __init__(
        self, body: ir.Lambda, which: Sequence[Var], turns: Atom, at: Callable[[Builder], Atom], b: Builder
    ) -> None:
        inner = Builder()
        where = at(inner)
        self.params: list[Var] = []
        self.inits: list[Var] = []
        self.outs: list[Var] = []
        for x in which:
            t = array_of(x.type, turns)
            assert isinstance(t, ArrayType)
            p = Var(f"{x.name}_saved", t)
            self.params.append(p)
            self.inits.append(b.let(ir.Scratch(elem_of(t), t.shape), p.name))
            self.outs.append(inner.let(ir.Update(p, (where,), x), p.name))
        self.body = ir.Lambda(
            (*body.params, *self.params), (*inner.stms, *body.stms), (*body.result, *self.outs)
        )
        self.pat = [Var(p.name, p.type) for p in self.params]


def varying(some: Sequence[Var], params: Sequence[Var]) -> list[int]:
    """The positions among loop variables of the sizes that `some` of them have."""
    own = {p: q for q, p in enumerate(params)}
    return sorted({own[n] for x in some for n in shape_of(x.type) if isinstance(n, Var) and n in own})


class _Grower:
    """Saves loop variables whose sizes change from turn to turn, one turn after the other in a flat array.

    The forward loop counts the elements (`count`), a second run of it then saves them (`again`).
    """

    def __init__(self, loop: ir.For | ir.While, which: Sequence[int]) -> None:
        self.lead = 1 if isinstance(loop, ir.For) else 0
        self.loop = loop
        self.which = which
        self.totals = [Var("total", I64) for _ in which]

    def count(self, stm: ir.Stm) -> ir.Stm:
        """`stm`, the loop or one with more variables, counting too."""
        e = stm.exp
        assert isinstance(e, ir.For | ir.While)
        b = Builder()
        params = [Var("total", I64) for _ in self.which]
        own = self.loop.body.params[self.lead :]
        more = [b.op("add", p, b.size_mul(shape_of(own[q].type))) for p, q in zip(params, self.which, strict=True)]
        inits = (*e.inits, *[ZERO] * len(more))
        body = ir.Lambda((*e.body.params, *params), (*b.stms, *e.body.stms), (*e.body.result, *more))
        new: ir.Exp = ir.For(e.bound, inits, body) if isinstance(e, ir.For) else ir.While(inits, body)
        return ir.Stm((*stm.pat, *self.totals), new, stm.attrs)

    def again(self, b: Builder, turns: Atom) -> dict[int, Restore]:
        """Emit the second run."""
        copy = again(self.loop.body)
        i = Var("i", I64)
        stms = Builder()
        if self.lead:
            stms.add(ir.Stm((copy.params[0],), ir.Alias(_as(stms, copy.params[0].type, i))))
        own = copy.params[self.lead :]
        params: list[Var] = []
        inits: list[Atom] = []
        results: list[Atom] = []
        for q, total in zip(self.which, self.totals, strict=True):
            x = own[q]
            t = ArrayType(elem_of(x.type), (total,))
            flat, begins, begin = Var("saved", t), Var("begins", ArrayType(I64, (turns,))), Var("begin", I64)
            n = stms.size_mul(shape_of(x.type))
            row = stms.let(ir.Reshape(x, (n,)), "row")
            params += [flat, begins, begin]
            inits += [b.let(ir.Scratch(t.elem, t.shape), "saved"), b.let(ir.Scratch(I64, (turns,)), "begins"), ZERO]
            results.append(stms.let(ir.Update(flat, (Range(begin, n, ONE),), row), "saved"))
            results.append(stms.let(ir.Update(begins, (i,), begin), "begins"))
            results.append(stms.op("add", begin, n))
        body = ir.Lambda(
            (i, *own, *params), (*stms.stms, *copy.stms), (*copy.result, *results)
        )
        names = ir.Renamer()
        pat = tuple([names.bind(p) for p in body.params[1:]])
        b.add(ir.Stm(pat, ir.For(turns, (*self.loop.inits, *inits), body)))
        out: dict[int, Restore] = {}
        for k, q in enumerate(self.which):
            flat, begins = pat[len(own) + 3 * k : len(own) + 3 * k + 2]
            out[q] = Restore(_row(flat, begins))
        return out


def _row(flat: Var, begins: Var) -> Callable[[Builder, Atom, Var], Atom]:
    def begin(b: Builder, turn: Atom, x: Var) -> Atom:
        at = b.let(ir.At(begins, (turn,)), "begin")
        row = b.let(ir.At(flat, (Range(at, b.size_mul(shape_of(x.type)), ONE),)), "row")
        return b.let(ir.Reshape(row, shape_of(x.type)), x.name)

    return begin


def _restores(which: Sequence[int], saver: _Saver) -> dict[int, Restore]:
    return {
        q: Restore(lambda b, t, after, saved=saved: b.let(ir.At(saved, (t,))))  # type: ignore[misc]
        for q, saved in zip(which, saver.pat, strict=True)
    }


def _turns(b: Builder, bound: Atom) -> Atom:
    """The number of turns of a for loop as an i64."""
    if isinstance(bound, Const):
        return i64(max(0, bound.value))
    return b.op("max", b.convert(I64, bound), ZERO, hint="turns")


def _kept(s: Scope, stm: ir.Stm) -> list[int]:
    """The positions of the loop variables that the forward sweep of this scope has."""
    return [q for q, v in enumerate(stm.pat) if not isinstance(v.type, AccType) and v not in s.ctx.final]


def _for_vjp(s: Scope, stm: ir.Stm, emitted: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.For)
    kept = _kept(s, stm)

    def save(which: Sequence[int]) -> dict[int, Restore]:
        loop = emitted.exp
        assert isinstance(loop, ir.For)
        before = Builder()
        turns = _turns(before, e.bound)
        i = loop.body.params[0]
        own = loop.body.params[1:]
        grown = {x for x in own if varying([x], own)}
        finder = Finder(before, indices={i})
        finder.enter(loop.body)
        out: dict[int, Restore] = {}
        chains: dict[int, list[Element]] = {}
        for q in which:
            x, r = loop.body.params[1 + kept.index(q)], loop.body.result[kept.index(q)]
            if x in grown:
                continue
            if isinstance(x.type, ArrayType) and (found := finder.chain(loop.body, x, r, (turns,))) is not None:
                chains[q] = found
        head = Builder()
        at = head.convert(I64, i)
        held: dict[Slot, Var] = {}
        room = [k for c in chains.values() for k in slots(c)]
        params = [Var("saved", k.array()) for k in room]
        inits = [space(before, k) for k in room]
        held.update(zip(room, params, strict=True))
        stms = loop.body.stms
        for c in chains.values():
            stms = tuple(instrument(stms, c, (at,), held))
        results = (*loop.body.result, *[held[k] for k in room])
        fresh = [Var("saved", k.array()) for k in room]
        body = ir.Lambda((*loop.body.params, *params), stms, results)
        grower = _Grower(loop, [kept.index(q) for q in which if own[kept.index(q)] in grown])
        plain = [q for q in which if q not in chains and own[kept.index(q)] not in grown]
        saver = _Saver(body, [loop.body.params[1 + kept.index(q)] for q in plain], turns, lambda c: at, before)
        body = ir.Lambda(saver.body.params, (*head.stms, *saver.body.stms), saver.body.result)
        new = ir.Stm(
            (*emitted.pat, *fresh, *saver.pat),
            ir.For(e.bound, (*loop.inits, *inits, *saver.inits), body),
            emitted.attrs,
        )
        if grower.which:
            new = grower.count(new)
            s.replace(emitted, [*before.stms, new])
            out.update({kept[k]: r for k, r in grower.again(s.b, turns).items()})
        else:
            s.replace(emitted, [*before.stms, new])
        undoer = Undoer(finder, dict(zip(room, fresh, strict=False)))
        for q, saved in zip(plain, saver.pat, strict=True):
            out[q] = Restore(lambda b, t, after, saved=saved: b.let(ir.At(saved, (t,))))  # type: ignore[misc]
        for q, c in chains.items():
            if c:
                out[q] = Restore(
                    lambda b, t, after, c=c: undoer.run(b, after, c, (t,), {i: _as(b, i.type, t)}),  # type: ignore[misc]
                    emitted.pat[kept.index(q)],
                )
            else:
                out[q] = Restore(lambda b, t, after, q=q: loop.inits[kept.index(q)])  # type: ignore[misc]
        return out

    _reverse_turns(s, e.bound, again(e.body), stm, save)


def _as(b: Builder, t: Type, a: Atom) -> Atom:
    assert isinstance(t, Prim)
    return b.convert(t, a)


def _bound_of(stm: ir.Stm) -> int | None:
    for a in stm.attrs:
        if isinstance(a, tuple) and a[0] == "bound":
            return int(a[1])
    return None


def _while_vjp(s: Scope, stm: ir.Stm, emitted: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.While)
    loop = emitted.exp
    assert isinstance(loop, ir.While)
    kept = _kept(s, stm)
    limit = _bound_of(stm)
    # The forward loop counts its turns in one more loop variable.
    count, counted = Var("turns", I64), Var("turn", I64)
    inner = Builder()
    inner.extend(loop.body.stms)
    step = inner.op("add", counted, ONE)
    body = ir.Lambda((*loop.body.params, counted), tuple(inner.stms), (*loop.body.result, step))
    counting = ir.Stm((*emitted.pat, count), ir.While((*loop.inits, ZERO), body), emitted.attrs)
    s.replace(emitted, [counting])

    def rerun(which: Sequence[int]) -> dict[int, Restore]:
        """Run the counted loop again, now with room for what is saved."""
        before = Builder()
        copy = again(loop.body)
        i = Var("i", I64)
        turns = ir.Lambda((i, *copy.params), copy.stms, copy.result)
        saver = _Saver(turns, [copy.params[kept.index(q)] for q in which], count, lambda c: i, before)
        names = ir.Renamer()
        pat = (*[names.bind(v) for v in emitted.pat], *saver.pat)
        before.add(ir.Stm(pat, ir.For(count, (*loop.inits, *saver.inits), saver.body)))
        s.b.extend(before.stms)
        return _restores(which, saver)

    def save(which: Sequence[int]) -> dict[int, Restore]:
        before = Builder()
        xs = loop.body.params
        grower = _Grower(loop, [k for q in which if varying([xs[k := kept.index(q)]], xs)])
        if grower.which:
            which = [q for q in which if kept.index(q) not in grower.which]
            s.replace(counting, [grower.count(counting)])
            grown = {kept[k]: r for k, r in grower.again(s.b, count).items()}
            return {**grown, **(rerun(which) if which else {})}
        if limit is None:
            return rerun(which)
        own = [loop.body.params[kept.index(q)] for q in which]

        def at(c: Builder) -> Atom:
            inside = c.op("lt", counted, i64(limit))
            c.add(ir.Stm((), ir.Assert(inside, "the loop runs more turns than its bound of {}", (i64(limit),), None)))
            return counted

        saver = _Saver(body, own, i64(limit), at, before)
        new = ir.Stm(
            (*counting.pat, *saver.pat), ir.While((*loop.inits, ZERO, *saver.inits), saver.body), emitted.attrs
        )
        s.replace(counting, [*before.stms, new])
        return _restores(which, saver)

    copy = again(e.body)
    turn = ir.Lambda((Var("i", I64), *copy.params), copy.stms, copy.result)
    _reverse_turns(s, count, turn, stm, save)


RULES[ir.If] = Rule(_if_jvp, _if_vjp)
RULES[ir.For] = Rule(_loop_jvp, _for_vjp)
RULES[ir.While] = Rule(_loop_jvp, _while_vjp)
