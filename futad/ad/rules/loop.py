"""Branches and loops.

Source: Schenck et al., SC 2022, section 4.3 and figure 3: a loop saves the loop variables at the start of
each iteration; the return sweep runs the iterations backwards, restores them and re-executes the body.  Only the loop
variables that the return sweep reads are saved.  While loops are counted first, or run under a given bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from futad.ad.activity import loop_flow
from futad.ad.emit import reexecution
from futad.ad.history import descent, leaves, rerun
from futad.ad.history.counts import Counts
from futad.ad.history.final import noted
from futad.ad.history.leaves import LEAF
from futad.ad.history.points import kept as kept_states
from futad.ad.history.rerun import Rerun, Step
from futad.ad.history.save import Counted, Restore, Saver, Undo, Ways, ways_of
from futad.ad.history.split import Plan, blocks, needs_length, needs_sizes
from futad.ad.history.stack import Layout
from futad.ad.history.stripmine import NEST, bound_of, within
from futad.ad.history.variables import varying
from futad.ad.inverse.solver import LEGAL
from futad.ad.rules.branch import merge_branches
from futad.ad.rules.call import branch_with_gradient
from futad.ad.rules.loop_again import as_for, by_size, count_alone, inner_rooms, reexecute, with_count
from futad.ad.rules.record_loops import loop_with_records
from futad.ad.rules.records import branch_with_records
from futad.ad.rules.told import inverse_of, iterations_as_i64, told
from futad.ad.table import RULES, Rule
from futad.ad.tidy.live import live
from futad.core import ir
from futad.core.budget import Budget, place_of, placed
from futad.core.builder import Builder
from futad.core.sweeps import forward_mark, return_mark
from futad.core.types import I64, ONE, ZERO, AccType, ArrayType, Atom, Const, Prim, Var, i64, subst_type

NO_DERIVATIVE = LEGAL.condition("bits without a derivative", "bits have none, and what they make has that of no value")

if TYPE_CHECKING:
    from futad.ad.forward import Tangents
    from futad.ad.reverse import Scope


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
    if branch_with_gradient(s, emitted, seeds) or branch_with_records(s, stm, emitted, seeds):
        return
    sides: list[Scope] = []
    for lam in (e.then, e.orelse):
        names: dict[Var, Var] = {}
        lam = reexecution(lam, names)
        if (counts := s.saved_counts()) is not None:
            counts.copied(names)
        inner = s.child("branch")
        swept = inner.forward(lam.stms)
        for r, y in zip(lam.result, seeds, strict=True):
            if y is not None:
                inner.add(r, y if isinstance(r.type, AccType) else inner.coerce(y, r.type))
        inner.back(swept)
        sides.append(inner)
    merge_branches(s, e.cond, sides)


# --- loops, forward mode ----------------------------------------------------------------------------------


def _loop_jvp(t: Tangents, stm: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.Loop)
    flags = list(loop_flow(e, t.active))
    lead = [False] * (len(e.body.params) - len(e.inits))
    extra, inner = t.nested(e.body, lead + flags)
    tans = [inner.dense(r) for r, f in zip(e.body.result, flags, strict=True) if f]
    body = ir.Lambda((*e.body.params, *extra), tuple(inner.b.stms), (*e.body.result, *tans))
    inits = (*e.inits, *[t.dense(a) for a, f in zip(e.inits, flags, strict=True) if f])
    pat = (*stm.pat, *[t.fresh(v) for v, f in zip(stm.pat, flags, strict=True) if f])
    exp: ir.Exp = e.remade(inits, body)
    t.b.add(ir.Stm(pat, exp, stm.attrs))


# --- loops, reverse mode ----------------------------------------------------------------------------------

NoCounts = Literal["no counts"]
Save = Callable[[Sequence[int]], "dict[int, Restore] | Rerun | Cut | NoCounts"]


@dataclass(frozen=True, slots=True)
class Cut:
    """A loop that is to be cut into blocks: `code` computes the bytes it may keep, those of a state (`size`), and those
    that an iteration saves."""

    plan: Plan
    size: Atom
    saved: Atom
    code: Builder


def _reverse_iterations(
    s: Scope, bound: Atom, body: ir.Lambda, stm: ir.Stm, save: Save, counts: Counts | None = None
) -> Cut | NoCounts | None:
    """The return sweep of the loop `stm` as `for i < bound`: `body` is a fresh copy whose first parameter is i.

    `save(which)` makes the forward sweep save those loop variables and returns the arrays of them; or that the loop is
    to be cut, or that the `counts`, what it can save beside, are not to be saved, and then nothing is done.
    """
    assert isinstance(stm.exp, ir.Loop)
    inits, pat = stm.exp.inits, stm.pat
    i, xs = body.params[0], body.params[1:]
    final = s.ctx.final
    final.update({xs[q]: pat[q] for q in noted(stm)})
    final.update({x: final[a] for x, a in zip(xs, inits, strict=True) if a in final})
    seeds = [s.take(v) for v in pat]
    flags = loop_flow(ir.For(bound, inits, body), s.ctx.active)
    inner = s.child("loop")
    if counts is not None:
        inner.counts = counts
    inner.local.update(body.params)
    inner.stripped.update(x for x in xs if isinstance(x.type, AccType))
    swept = inner.forward(body.stms)
    carried = [q for q, f in enumerate(flags) if f and not isinstance(xs[q].type, AccType)]
    # Sizes that change from iteration to iteration: an iteration gets the adjoints with the sizes after it.
    sizes = varying([xs[q] for q in carried], xs)
    after_iteration: dict[Var, Atom] = {xs[q]: Var(xs[q].name, I64) for q in sizes}
    bars = {q: Var(f"{xs[q].name}_bar", subst_type(xs[q].type, after_iteration)) for q in carried}
    for q, (r, y) in enumerate(zip(body.result, seeds, strict=True)):
        if isinstance(r.type, AccType):
            if y is not None:
                inner.add(r, y)
        elif q in bars:
            inner.add(r, inner.coerce(bars[q], r.type))
    inner.back(swept)
    for q in carried:
        inner.adj[xs[q]] = inner.dense(xs[q])
    captured = list(inner.captured)
    result = [inner.adj[xs[q]] for q in carried] + [inner.adj[v] for v in captured]
    stms, used = live(inner.code(), result)
    asked = {} if counts is None else counts.asked
    for p in [p for p, count in asked.items() if count not in used]:
        del asked[p]
    which = [q for q, x in enumerate(xs) if x in used or q in sizes]
    which = sorted({*which, *varying([xs[q] for q in which], xs)})
    iteration = Var("iteration", i.type)
    head = Builder()
    assert isinstance(i.type, Prim)
    last_iteration = s.b.op("sub", bound, Const(i.type, 1), hint="last")
    head.add(ir.Stm((i,), ir.Op("sub", (last_iteration, iteration))))
    how = save(which) if which or asked else {}
    if isinstance(how, Cut | str):
        s.adj.update({v: y for v, y in zip(pat, seeds, strict=True) if y is not None})
        return how
    at = head.convert(I64, i) if which or asked else i
    if counts is not None:
        head.stms += [ir.Stm((count,), ir.At(array, (at,))) for count, array in counts.arrays.items()]
    stack = how if isinstance(how, Rerun) else None
    restores = {} if isinstance(how, Rerun) else how
    if stack is not None:
        state = stack.begin(head, at)
        for q in which:
            rerun.put(head, xs[q], state[q])
    backwards = {q: r.carried or Var(xs[q].name, xs[q].type) for q, r in restores.items() if r.last is not None}
    for q, restore in sorted(restores.items()):
        before = len(head.stms)
        value = restore.begin(head, at, backwards.get(q, xs[q]))
        if len(head.stms) > before and head.stms[-1].pat == (value,):
            head.stms[-1] = ir.Stm((xs[q],), head.stms[-1].exp)
        else:
            head.add(ir.Stm((xs[q],), ir.Alias(value)))
        if restore.underway is not None:
            restore.underway.add(head, xs[q], at)
    start: list[Atom] = []
    for q in carried:
        y = seeds[q]
        start.append(s.b.zeros(pat[q].type) if y is None else s.coerce(y, pat[q].type))
    for v in captured:
        now = s.grab(v)
        start.append(s.b.zeros(v.type, f"{v.name}_bar") if now is None else now)
    if not start:
        return None
    params = [iteration, *[bars[q] for q in carried], *[inner.captured[v] for v in captured]]
    for q in sizes:
        now = after_iteration[xs[q]]
        assert isinstance(now, Var)
        params.insert(1, now)
        start.insert(0, pat[q])
        result.insert(0, xs[q])
    kept_bits = {q: r.bits for q, r in restores.items() if r.bits is not None}
    for bits in kept_bits.values():
        params += bits.params
        start += bits.inits
        result += bits.results
    underway = [r.underway for r in restores.values() if r.underway is not None]
    for u in underway:
        assert u.result is not None
        params.append(u.param)
        start.append(u.init)
        result.append(u.result)
    for q, after in backwards.items():
        last = restores[q].last
        assert last is not None
        params.append(after)
        start.append(last)
        result.append(inner.current(xs[q]))
    if stack is not None:
        params += stack.params
        start += stack.inits
        result += stack.results
    lam = ir.Lambda(tuple(params), tuple(head.stms + stms), tuple(result))
    names = ir.Renamer()
    done = tuple([names.bind(p) for p in params[1:]])
    points = next((r.points for r in restores.values() if r.points is not None), None)
    deviations: list[Atom] = []
    if points is not None:
        back = [(p, restores[q]) for q, p in backwards.items()]
        exact = {p: (r.returns, r.row) for p, r in back if r.returns is not None and r.row is not None}
        deviations.append(points.back(s.b, done, start, i, lam, exact))
    else:
        keeps = all(r.returns is None for r in restores.values())  # what is undone is to take no memory
        s.b.add(ir.Stm(done, ir.For(bound, tuple(start), lam), return_mark(stm) if keeps else ()))
    if stack is not None:
        stack.told(s.b, done[len(done) - len(stack.params) :], placed(stm), inverse_of(s, stm, []))
    out = done[len(sizes) :]
    for q, x in zip(backwards, out[len(out) - len(backwards) :], strict=True):
        returns = restores[q].returns
        if returns is not None and points is None:
            deviations.append(returns.check(s.b, inits[q], x, iterations_as_i64(s.b, bound)))
        elif q in kept_bits:
            ends = [done[params.index(p) - 1] for p in kept_bits[q].params]
            kept_bits[q].check(s.b, inits[q], x, ends)
        elif returns is None and isinstance(x.type, ArrayType):  # a scalar is there as it was, and may be a size
            s.restored(inits[q], x)
    for u in underway:
        u.check(s.b, done[params.index(u.param) - 1], iterations_as_i64(s.b, bound))
    if stack is None:
        told(s, stm, bound, [(xs[q].name, r) for q, r in restores.items()], points, deviations)
    for v, o in zip(captured, out[len(carried) :], strict=False):
        s.adj[v] = o
    for q, y in enumerate(seeds):
        if isinstance(xs[q].type, AccType) and y is not None:
            s.add(inits[q], y)
    for q, o in zip(carried, out, strict=False):
        s.add(inits[q], o)
    return None


def _cut(s: Scope, stm: ir.Stm, emitted: ir.Stm, n: Atom, found: Cut) -> None:
    """Reverse the loop, of n iterations, in the parts into which it is cut; they replace the statement `emitted`."""
    leaf = blocks(found.code, found.plan, n, found.saved, found.size)
    parts = leaves.cut(stm, n, leaf)
    s.ctx.leaves[parts[0].pat[0]] = leaf
    outer, s.b = s.b, found.code
    swept = s.forward(parts)
    s.b = outer
    s.replace(emitted, found.code.stms)
    s.back(swept)


def _cuts(s: Scope, stm: ir.Stm, ways: Ways, before: Builder, b: Builder, bounded: Bounded) -> Cut | None:
    """How the loop is cut, if what its iterations save is less than a state."""
    plan, step, _ = bounded
    if stm.pat[0] in s.ctx.leaves or noted(stm) or len(_kept(s, stm)) < len(stm.pat):
        return None
    if not leaves.saves_less(stm, ways, step, plan):
        return None
    return Cut(plan, Layout(step.vars).fixed(b), leaves.saved_bytes(b, stm, ways, before), b)


def _kept(s: Scope, stm: ir.Stm) -> list[int]:
    """The positions of the loop variables that the forward sweep of this scope has."""
    return [q for q, v in enumerate(stm.pat) if not isinstance(v.type, AccType) and v not in s.ctx.final]


def _undo(s: Scope, stm: ir.Stm, kept: Sequence[int]) -> Undo:
    """Which of the `kept` variables may be undone: not those whose final array the return sweep reads."""
    own, whole = Budget.of(stm.attrs), s.ctx.how.budget
    how = own.reversible if own is not None else whole.reversible if whole is not None else None
    closed = [k for k, q in enumerate(kept) if q in noted(stm)]
    demanded = own is not None and how is not None and how is not False and how != "exact"
    why = s.ctx.not_undone.setdefault(stm.pat[0], {})
    functions = None
    if how == "exact" and NO_DERIVATIVE(not s.ctx.how.tangents and not s.ctx.how.adjoints):
        functions = s.ctx.how.functions
    runs = not any(budget is not None and budget.limits for budget in (own, whole))
    return Undo(closed, how, demanded, place_of(stm.attrs), why, functions, s.ctx.places, runs)


def _for_vjp(s: Scope, stm: ir.Stm, emitted: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.For)
    if loop_with_records(s, stm, emitted):
        return
    free = s.ctx.how.budget is None and Budget.of(stm.attrs) is None
    found = _reverse_for(s, stm, emitted, Counts(), free) if free else "no counts"
    if found == "no counts":
        found = _reverse_for(s, stm, emitted, None, free)
    if isinstance(found, Cut):
        _cut(s, stm, emitted, iterations_as_i64(found.code, e.bound), found)


def _reverse_for(
    s: Scope, stm: ir.Stm, emitted: ir.Stm, counts: Counts | None, free: bool
) -> Cut | NoCounts | None:
    """`_reverse_iterations` of a `for` loop, `free` of a budget or not; `counts`, if they may be saved."""
    e = stm.exp
    assert isinstance(e, ir.For)
    kept = _kept(s, stm)
    body = reexecution(e.body, None if counts is None else counts.origins)
    rooms = inner_rooms(s, stm, body) if free else {}  # under a budget this loop may not be run a second time

    def save(which: Sequence[int]) -> dict[int, Restore] | Rerun | Cut | NoCounts:
        loop = emitted.exp
        assert isinstance(loop, ir.For)
        plain, grown = by_size(loop, [kept.index(q) for q in which])
        before, head, b = Builder(), Builder(), Builder()
        iterations = e.bound if rooms else iterations_as_i64(before, e.bound)
        index = head.convert(I64, loop.body.params[0])
        saver = Saver(loop, emitted.pat, head, index, iterations, before, _undo(s, stm, kept))
        ways = saver.ways(plain)
        if counts is not None and not grown and not counts.pay(ways, loop.variables):
            return "no counts"
        bounded = _bounded(s, b, stm, which, kept) if ways.saves or grown else None
        if bounded is not None:
            if (cut := _cuts(s, stm, ways, before, b, bounded)) is not None:
                return cut
            plan, step, where = bounded
            n = iterations_as_i64(b, e.bound)
            if not step.changes:
                stack = descent.known(b, emitted, loop, step, where, plan, n)
            elif needs_sizes(plan):
                sizes, _ = descent.largest(b, loop, step, where)
                stack = descent.known(b, emitted, loop, step, where, plan, n, sizes)
            else:
                stack = descent.changing(b, emitted, loop, step, where, plan, n, Var("iterations", I64))
            stack.saved = None if grown else leaves.saved_bytes(b, emitted, ways, before)
            s.replace(emitted, b.stms)
            return stack
        second = Counted(grown, ways.uncounted)
        saver.save([k for k in plain if k not in second.chains], ways)
        if counts is not None:
            counts.save(saver)
        restores = saver.restores
        rounded = [k for k, r in restores.items() if r.returns is not None]
        pat, exp = (*emitted.pat, *saver.pat), ir.For(e.bound, (*loop.inits, *saver.inits), saver.lambda_())
        if rounded and not s.widths and not grown and not second.chains:
            memory = _memory(s, before, stm)
            again = None if memory is not None else _again(s, stm, [kept[k] for k in rounded], kept)
            _with_points(s, before, emitted, pat, exp, {k: restores[k] for k in rounded}, memory, again)
            s.replace(emitted, before.stms)
            return {kept[k]: r for k, r in restores.items()}
        new = ir.Stm(pat, exp, emitted.attrs)
        if grown or second.chains:
            known, iteration = s.ctx.rooms.get(stm.pat[0], ({}, ZERO))
            if known:
                second.totals = [s.b.let(ir.At(known[kept[k]], (iteration,)), "total") for k in grown]
            new = second.counting(new)
            own_rooms = {kept.index(q): room for q, room in rooms.items()}
            again, more = forward_mark(stm), [*second.chains]
            restores |= reexecute(s, loop, emitted.pat, iterations, more, second, own_rooms, Undo(how=False), again)
        s.replace(emitted, [*before.stms, new])
        return {kept[k]: r for k, r in restores.items()}

    return _reverse_iterations(s, e.bound, body, stm, save, counts)


def _with_points(
    s: Scope, b: Builder, emitted: ir.Stm, pat: Sequence[Var], loop: ir.For, rounded: dict[int, Restore],
    memory: tuple[Atom, Atom] | None, again: tuple[ir.For, list[int]] | None,
) -> None:  # fmt: skip
    """The forward sweep of a loop that is undone with round-off, with points of return."""
    step, which = (None, list(rounded)) if again is None else again
    n = iterations_as_i64(b, loop.bound)
    near = None
    if NO_DERIVATIVE(not s.ctx.how.tangents and not s.ctx.how.adjoints):
        near = {k: r.returns for k, r in rounded.items() if r.returns is not None}
    points = kept_states(b, emitted, pat, loop, which, n, memory and memory[0], step, near)
    for k, restore in rounded.items():
        restore.points, restore.row = points, k


def _again(s: Scope, stm: ir.Stm, which: list[int], kept: list[int]) -> tuple[ir.For, list[int]] | None:
    """The loop as it computes the variables `which` from states, and which of the `kept` variables these have; None if
    the forward sweep has not all of them."""
    e = stm.exp
    assert isinstance(e, ir.For)
    final = {q: s.ctx.final.get(v, v) for q, v in enumerate(stm.pat) if v in s.ctx.final or q in noted(stm)}
    step = rerun.step_of(e, which, final, s.stripped)
    if step.changes or not all(q in kept for q in step.state) or not set(which) <= set(step.state):
        return None
    state = [kept.index(q) for q in step.state]
    return ir.For(e.bound, tuple([e.inits[q] for q in step.state]), step.body), state


Bounded = tuple[Plan, Step, list[int]]


def _memory(s: Scope, b: Builder, stm: ir.Stm) -> tuple[Atom, Atom] | None:
    """How many bytes the loop may keep, and how many such parts the budget has; None without one in bytes."""
    how, own = s.ctx.how, Budget.of(stm.attrs)
    if own is not None and own.only_reversible:
        own = None
    budget = own or how.budget
    if budget is None or budget.memory is None:
        return None
    # A tangent is as large as its value, and reverse derivatives around and inside keep something too.
    parts: Atom = i64((1 if own else how.loops) << (how.tangents + how.adjoints + how.inside))
    if s.widths and not how.sequential:  # the loops of all elements are run at once
        parts = b.op("mul", parts, b.op("max", b.size_mul(s.widths), ONE), hint="parts")
    return b.op("quot", i64(budget.memory), parts, hint="memory"), parts


def _bounded(s: Scope, b: Builder, stm: ir.Stm, which: Sequence[int], kept: Sequence[int]) -> Bounded | None:
    """What the loop may keep (code for it goes to `b`), the step by which its iterations are run again, and where the
    forward sweep has a state's variables; None if it saves what it needs."""
    how = s.ctx.how
    own = Budget.of(stm.attrs)
    if own is not None and own.only_reversible:
        own = None
    budget = own or how.budget
    e = stm.exp
    assert isinstance(e, ir.Loop)
    if budget is None or not budget.limits or {(NEST,), (LEAF,)} & {*stm.attrs}:
        return None
    final = {q: s.ctx.final.get(v, v) for q, v in enumerate(stm.pat) if v in s.ctx.final or q in noted(stm)}
    step = rerun.step_of(e, which, final, s.stripped)
    if not all(q in kept for q in step.state):
        return None
    memory, parts = _memory(s, b, stm) or (None, ONE)
    leaf = s.ctx.leaves.get(stm.pat[0])
    if leaf is not None and memory is not None:
        memory = b.op("sub", memory, leaf.bytes, hint="memory")
    plan = Plan(budget, memory, parts, how.adjoints, place_of(placed(stm)), leaf)
    return plan, step, [kept.index(q) for q in step.state]


def _bounded_while(
    s: Scope, b: Builder, emitted: ir.Stm, first: ir.Stm, loop: ir.While, count: Var, plan: Plan, step: Step,
    where: Sequence[int],
) -> Rerun:  # fmt: skip
    """The forward sweep of a loop of unknown length under a budget, in place of `first`, which counts."""
    changes = step.changes
    if changes and needs_sizes(plan):
        assert isinstance(first.exp, ir.While)
        sizes, last = descent.largest(b, first.exp, step, where)
        b.add(ir.Stm((count,), ir.Alias(last[-1])))
        stack = descent.known(b, emitted, as_for(loop, count), step, where, plan, count, sizes)
    elif changes:
        stack = descent.changing(b, emitted, loop, step, where, plan, None, count)
    elif needs_length(plan.budget):
        b.extend(count_alone(first, count))
        stack = descent.known(b, emitted, as_for(loop, count), step, where, plan, count)
    else:
        stack = descent.unknown(b, emitted, loop, step, where, plan, count)
    s.replace(first, b.stms)
    return stack


def _while_vjp(s: Scope, stm: ir.Stm, emitted: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.While)
    if loop_with_records(s, stm, emitted):
        return
    loop = emitted.exp
    assert isinstance(loop, ir.While)
    limit = bound_of(stm)
    if limit is None and (known := s.count(stm)) is not None:
        new = ir.Stm(emitted.pat, with_count(loop, known), emitted.attrs)
        s.replace(emitted, [new])
        _for_vjp(s, ir.Stm(stm.pat, with_count(e, known), stm.attrs), new)
        return
    kept = _kept(s, stm)
    # The forward loop counts its iterations in one more loop variable.
    count, counted = Var("iterations", I64), Var("iteration", I64)
    inner = Builder()
    inner.extend(loop.body.stms)
    step = inner.op("add", counted, ONE)
    body = ir.Lambda((*loop.body.params, counted), tuple(inner.stms), (*loop.body.result, step))
    counted_loop = ir.While((*loop.inits, ZERO), body)

    def checks(b: Builder) -> None:
        if limit is not None:
            b.add(within(b.op("lt", counted, i64(limit)), limit))

    start = Builder()
    checks(start)
    body = ir.Lambda(body.params, (*start.stms, *body.stms), body.result)
    first = ir.Stm((*emitted.pat, count), ir.While(counted_loop.inits, body), emitted.attrs)
    s.replace(emitted, [first])

    free = s.ctx.how.budget is None and Budget.of(stm.attrs) is None
    counts = Counts() if free else None

    def save(which: Sequence[int]) -> dict[int, Restore] | Rerun | Cut | NoCounts:
        plain, grown = by_size(loop, [kept.index(q) for q in which])
        b = Builder()
        before = Builder()
        ways = ways_of(counted_loop, counted, count, plain, _undo(s, stm, kept), before)
        if counts is not None and not grown and not counts.pay(ways, loop.variables):
            return "no counts"
        bounded = _bounded(s, b, stm, which, kept) if grown or ways.saves else None
        if bounded is not None:
            if not grown and (cut := _cuts(s, stm, ways, before, b, bounded)) is not None:
                return cut
            saved = None if grown else leaves.saved_bytes(b, emitted, ways, before)
            stack = _bounded_while(s, b, emitted, first, loop, count, *bounded)
            stack.saved = saved
            return stack
        before, head = Builder(), Builder()
        restores: dict[int, Restore] = {}
        new, again = first, counts
        second = Counted(grown, ways.uncounted)
        if limit is not None or not (grown or ways.saves):
            checks(head)
            most = count if limit is None else i64(limit)  # of what is saved, which is nothing without a limit
            saver = Saver(counted_loop, first.pat, head, counted, most, before, _undo(s, stm, kept))
            saver.save([k for k in plain if k not in second.chains], saver.ways(plain))
            if counts is not None:
                counts.save(saver)
            plain, again = [*second.chains], None
            restores = saver.restores
            exp = ir.While((*counted_loop.inits, *saver.inits), saver.lambda_())
            new = ir.Stm((*first.pat, *saver.pat), exp, emitted.attrs)
        new = second.counting(new)
        s.replace(first, [*before.stms, new])
        if plain or grown:
            undo = _undo(s, stm, kept)
            restores |= reexecute(s, loop, emitted.pat, count, plain, second, {}, undo, forward_mark(stm), again)
        return {kept[k]: r for k, r in restores.items()}

    def reverse() -> Cut | NoCounts | None:
        copy = reexecution(e.body, None if counts is None else counts.origins)
        iteration = ir.Lambda((Var("i", I64), *copy.params), copy.stms, copy.result)
        return _reverse_iterations(s, count, iteration, stm, save, counts)

    found = reverse()
    if found == "no counts":
        counts = None
        found = reverse()
    if isinstance(found, Cut):
        s.replace(first, [*count_alone(first, count), first])
        _cut(s, stm, first, count, found)


RULES[ir.If] = Rule(_if_jvp, _if_vjp)
RULES[ir.For] = Rule(_loop_jvp, _for_vjp)
RULES[ir.While] = Rule(_loop_jvp, _while_vjp)
