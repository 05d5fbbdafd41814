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
from futad.ad.rule import RULES, Rule
from futad.ad.vjp import again
from futad.core import ir
from futad.core.builder import Builder
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
)
from futad.errors import UnsupportedError

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


def _check_shapes(params: Sequence[Var]) -> None:
    own = set(params)
    for p in params:
        if any(n in own for n in shape_of(p.type) if isinstance(n, Var)):
            raise UnsupportedError(
                "reverse-mode differentiation of a loop over an array whose shape changes from turn to turn "
                "is not supported; give the array its largest shape"
            )


def _reverse_turns(s: Scope, bound: Atom, body: ir.Lambda, inits: ir.Atoms, pat: tuple[Var, ...], save: Save) -> None:
    """The return sweep of `for i < bound`: `body` is a fresh copy whose first parameter is i.

    `save(which)` makes the forward sweep save those loop variables and returns the arrays of them.
    """
    i, xs = body.params[0], body.params[1:]
    _check_shapes(xs)
    seeds = [s.take(v) for v in pat]
    flags = loop_flow(ir.For(bound, inits, body), s.ctx.active)
    inner = s.child("loop")
    inner.local.update(body.params)
    inner.stripped.update(x for x in xs if isinstance(x.type, AccType))
    tape = inner.forward(body.stms)
    carried = [q for q, f in enumerate(flags) if f and not isinstance(xs[q].type, AccType)]
    bars = {q: Var(f"{xs[q].name}_bar", xs[q].type) for q in carried}
    for q, (r, y) in enumerate(zip(body.result, seeds, strict=True)):
        if isinstance(r.type, AccType):
            if y is not None:
                inner.add(r, y)
        elif q in bars:
            inner.add(r, bars[q])
    inner.back(tape)
    for q in carried:
        inner.adj[xs[q]] = inner.dense(xs[q])
    captured = list(inner.captured)
    result = [inner.adj[xs[q]] for q in carried] + [inner.adj[v] for v in captured]
    stms, used = live(inner.code(), result)
    which = [q for q, x in enumerate(xs) if x in used]
    turn = Var("turn", i.type)
    head = Builder()
    assert isinstance(i.type, Prim)
    last_turn = s.b.op("sub", bound, Const(i.type, 1), hint="last")
    head.add(ir.Stm((i,), ir.Op("sub", (last_turn, turn))))
    restores = save(which) if which else {}
    at = head.convert(I64, i) if which else i
    backwards = {q: Var(xs[q].name, xs[q].type) for q, r in restores.items() if r.last is not None}
    for q, how in restores.items():
        value = how.begin(head, at, backwards.get(q, xs[q]))
        final = head.stms[-1]
        if final.pat == (value,):
            head.stms[-1] = ir.Stm((xs[q],), final.exp)
        else:
            head.add(ir.Stm((xs[q],), ir.Alias(value)))
    start: list[Atom] = []
    for q in carried:
        y = seeds[q]
        start.append(s.b.zeros(xs[q].type) if y is None else s.coerce(y, xs[q].type))
    for v in captured:
        now = s.grab(v)
        start.append(s.b.zeros(v.type, f"{v.name}_bar") if now is None else now)
    if not start:
        return
    params = [turn, *[bars[q] for q in carried], *[inner.captured[v] for v in captured]]
    for q, after in backwards.items():
        last = restores[q].last
        assert last is not None
        params.append(after)
        start.append(last)
        result.append(inner.current(xs[q]))
    lam = ir.Lambda(tuple(params), tuple(head.stms + stms), tuple(result))
    names, types = [p.name for p in params[1:]], [p.type for p in params[1:]]
    out = s.b.emit(ir.For(bound, tuple(start), lam), *names, types=types)
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


def _for_vjp(s: Scope, stm: ir.Stm, emitted: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.For)
    kept = [q for q, x in enumerate(e.body.params[1:]) if not isinstance(x.type, AccType)]

    def save(which: Sequence[int]) -> dict[int, Restore]:
        loop = emitted.exp
        assert isinstance(loop, ir.For)
        before = Builder()
        turns = _turns(before, e.bound)
        i = loop.body.params[0]
        finder = Finder(indices={i})
        finder.enter(loop.body)
        out: dict[int, Restore] = {}
        chains: dict[int, list[Element]] = {}
        for q in which:
            x, r = loop.body.params[1 + kept.index(q)], loop.body.result[kept.index(q)]
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
        body = ir.Lambda((*loop.body.params, *params), stms, results)
        own = [q for q in which if q not in chains]
        saver = _Saver(body, [loop.body.params[1 + kept.index(q)] for q in own], turns, lambda c: at, before)
        body = ir.Lambda(saver.body.params, (*head.stms, *saver.body.stms), saver.body.result)
        fresh = [Var("saved", k.array()) for k in room]
        new = ir.Stm(
            (*emitted.pat, *fresh, *saver.pat),
            ir.For(e.bound, (*loop.inits, *inits, *saver.inits), body),
            emitted.attrs,
        )
        s.replace(emitted, [*before.stms, new])
        undoer = Undoer(finder, dict(zip(room, fresh, strict=True)))
        for q, saved in zip(own, saver.pat, strict=True):
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

    _reverse_turns(s, e.bound, again(e.body), e.inits, stm.pat, save)


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
    kept = [q for q, x in enumerate(e.body.params) if not isinstance(x.type, AccType)]
    limit = _bound_of(stm)
    # The forward loop counts its turns in one more loop variable.
    count, counted = Var("turns", I64), Var("turn", I64)
    inner = Builder()
    inner.extend(loop.body.stms)
    step = inner.op("add", counted, ONE)
    body = ir.Lambda((*loop.body.params, counted), tuple(inner.stms), (*loop.body.result, step))
    counting = ir.Stm((*emitted.pat, count), ir.While((*loop.inits, ZERO), body), emitted.attrs)
    s.replace(emitted, [counting])

    def save(which: Sequence[int]) -> dict[int, Restore]:
        before = Builder()
        if limit is None:
            # Run the counted loop again, now with room for what is saved.
            copy = again(loop.body)
            i = Var("i", I64)
            turns = ir.Lambda((i, *copy.params), copy.stms, copy.result)
            saver = _Saver(turns, [copy.params[kept.index(q)] for q in which], count, lambda c: i, before)
            pat = (*[Var(v.name, v.type) for v in emitted.pat], *saver.pat)
            before.add(ir.Stm(pat, ir.For(count, (*loop.inits, *saver.inits), saver.body)))
            s.b.extend(before.stms)
            return _restores(which, saver)
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
    _reverse_turns(s, count, turn, e.inits, stm.pat, save)


RULES[ir.If] = Rule(_if_jvp, _if_vjp)
RULES[ir.For] = Rule(_loop_jvp, _for_vjp)
RULES[ir.While] = Rule(_loop_jvp, _while_vjp)
