"""The simplifier: one forward walk that rewrites each statement to a fixed point, and a backward one that
removes what is dead.

The forward walk keeps one substitution (copy propagation), one scoped table of available expressions (common
subexpressions) and the definitions in scope; at each statement it applies the rules of `SCHEDULE.enter`, then
visits the nested scopes, then applies `SCHEDULE.leave`.  What a rule returns is visited again, so that no
loop over the whole program is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from futad.core import ir
from futad.core.alias import aliases
from futad.core.ir import Fun, Lambda, Program, Stm
from futad.core.scalarops import OPS
from futad.core.types import Prim, Var, shape_of, subst_type
from futad.legality import Legality, intact
from futad.rewrite.context import Context, Frame
from futad.rewrite.dce import asserting_functions, dead_code
from futad.rewrite.equal import alike, scoped_key
from futad.rewrite.ranges import is_index
from futad.rewrite.rules.shipped import ENTER, LEAVE
from futad.rewrite.strategy import Rules, Stats, Strategy, with_lambdas

LEGAL = Legality("common-subexpressions", "what was computed before is not computed again", fires=False)
ALIKE = LEGAL.condition("equal scopes", "two constructs on the same operands compute different things")
SHAREABLE = LEGAL.condition("arrays shared", "one of two equal arrays is overwritten, or both are returned")


@dataclass(slots=True)
class Schedule:
    """What the simplifier applies to a statement before (`enter`) and after (`leave`) its nested scopes."""

    enter: Strategy
    leave: Strategy
    tokens: tuple[object, object] = field(default_factory=lambda: (object(), object()), repr=False, compare=False)
    """What statements are marked by that it has nothing to do on (`Stm.settled`): after the last derivative, before."""

    def __repr__(self) -> str:
        return f"repeat({self.enter}) ; all(self) ; repeat({self.leave})"


SCHEDULE = Schedule(Rules(ENTER), Rules(LEAVE))

_SWAPPED = frozenset((n, t) for n, o in OPS.items() for t in o.types if o.swaps(t))


def _same(lam: Lambda) -> Lambda:
    return lam


def share_key(e: ir.Exp) -> tuple[Any, ...] | None:
    """Equal for expressions that compute the same; None for those that must not be merged."""
    if type(e) is ir.Op:
        op, args = e.op, e.args
        if (op, args[0].type) in _SWAPPED and id(args[0]) > id(args[1]):
            args = (args[1], args[0])
        return (op, args)
    if type(e) is ir.At:
        return (ir.At, e.array, e.index)
    if type(e) is ir.Assert:
        return None if e.of else (ir.Assert, e.cond)
    if not e.pure or e.own:
        return None
    if e.scoped:
        return scoped_key(e)
    return e.key()


def _derived(stm: Stm, new: list[Stm]) -> list[Stm]:
    """What an operation on tangents becomes is one."""
    if type(stm.exp) is not ir.Op or ir.DERIVED not in stm.attrs:
        return new
    return [Stm(s.pat, s.exp, stm.attrs) if s.pat == stm.pat and type(s.exp) is ir.Op else s for s in new]


class Simplifier:
    """Rewrites one function's scopes under a schedule."""

    def __init__(self, ctx: Context, schedule: Schedule, asserting: set[str]) -> None:
        self.ctx = ctx
        self.asserting = asserting
        self.enter = schedule.enter.apply
        self.leave = schedule.leave.apply
        self.available: dict[Any, tuple[tuple[Var, ...], ir.Exp]] = {}
        self.trail: list[Any] = []
        # Marks of the whole compiler say nothing of a mutant's work.
        self.token = schedule.tokens[ctx.differentiates] if intact() else object()
        self.changed: set[Var] = set()
        self.visited: list[Stm] = []
        self.merged = 0
        self.propagated = 0

    # -- statements

    def block(self, stms: tuple[Stm, ...], out: list[Stm]) -> None:
        """Rewrite `stms` in order, appending what they become."""
        ctx = self.ctx
        subst = ctx.subst
        available = self.available
        work = list(reversed(stms))
        while work:
            stm = given = work.pop()
            exp = stm.exp
            as_it_was = stm.settled is self.token and self.as_it_was(stm)
            if not as_it_was:
                for a in exp.args if type(exp) is ir.Op else exp.operands():
                    if a in subst:
                        exp = exp.rebuild(ctx.atom, _same)
                        break
                if type(exp) is ir.Alias:
                    # Sizes may have other names in the two types: the typing rule says that they are equal.
                    ctx.replace(stm.pat[0], exp.atom)
                    self.propagated += 1
                    continue
                if type(exp) is ir.ArrayLit:
                    t = subst_type(exp.type, subst)
                    if t is not exp.type:
                        exp = ir.ArrayLit(exp.elems, t)
                if exp is not stm.exp:
                    stm = Stm(stm.pat, exp, stm.attrs)
                new = self.enter(stm, ctx)
                if new is not None:
                    work.extend(reversed(_derived(stm, new) if stm.attrs else new))
                    continue
                if exp.scoped:
                    stm = self.scopes(stm)
                    exp = stm.exp
                    new = self.leave(stm, ctx)
                    if new is not None:
                        work.extend(reversed(new))
                        continue
            key = share_key(exp)
            old = available.get(key) if key is not None else None
            if old is not None and (not exp.scoped or ALIKE(alike(old[1], exp) and not self.prints(exp))):
                if self.share(stm.pat, old[0], bool(exp.views())):
                    continue
            pat = self.bind(stm, exp, out)
            if not as_it_was:
                self.changed.update(pat)
                if out[-1] is given and exp.scoped or type(exp) is ir.Op:
                    self.visited.append(out[-1])
            if key is not None and old is None:
                available[key] = (pat, exp)
                self.trail.append(key)
            if type(exp) is ir.Assert and not exp.of:
                ctx.ranges.assume(exp.cond, True)

    def as_it_was(self, stm: Stm) -> bool:
        """Whether what a statement is made from, which these rules have had before, is as it was then."""
        free = ir.stm_free(stm)
        return self.ctx.subst.keys().isdisjoint(free) and self.changed.isdisjoint(free)

    def share(self, pat: tuple[Var, ...], old: tuple[Var, ...], views: bool) -> bool:
        """Merge a statement with an earlier equal one; False if they must stay apart (equal views need not).

        Equal expressions have equal types, in which sizes may have other names: those that the two statements bind.
        """
        ctx = self.ctx
        for v, w in zip(pat, old, strict=True):
            if not isinstance(v.type, Prim) and not views and not SHAREABLE(ctx.shareable(v, w)):
                return False
        for v, w in zip(pat, old, strict=True):
            ctx.replace(v, w)
        self.merged += 1
        return True

    def bind(self, stm: Stm, exp: ir.Exp, out: list[Stm]) -> tuple[Var, ...]:
        """Append the finished statement; the variables it binds."""
        ctx = self.ctx
        pat = stm.pat
        if len(pat) == 1:
            v = pat[0]
            w = ctx.bind(v)
            ctx.defs[w] = exp
            if ir.SOLVES in stm.attrs:
                ctx.solutions.add(w)
            if w is not v:
                stm = Stm((w,), exp, stm.attrs)
        elif pat:
            new = tuple([ctx.bind(v) for v in pat])
            if new != pat:
                stm = Stm(new, exp, stm.attrs)
            for k, v in enumerate(new):
                ctx.parts[v] = exp, k
        out.append(stm)
        return stm.pat

    def prints(self, e: ir.Exp) -> bool:
        """Whether a function is called inside that may print, which it does as often as it stands."""
        inner = [s.exp for lam in e.lambdas() for s in ir.statements(lam.stms)] if self.asserting else []
        return any(type(x) is ir.Call and x.name in self.asserting for x in inner)

    # -- scopes

    def scope(self, lam: Lambda, frame: Frame | None = None) -> Lambda:
        """Rewrite a nested scope, with the facts already assumed."""
        ctx = self.ctx
        ctx.depth += 1
        trail, depth = self.trail, len(self.trail)
        mark = ctx.ranges.mark()
        params = tuple([ctx.bind(p) for p in lam.params])
        out: list[Stm] = []
        self.block(lam.stms, out)
        result = tuple([ctx.atom(a) for a in lam.result])
        ctx.ranges.release(mark)
        available = self.available
        while len(trail) > depth:
            del available[trail.pop()]
        ctx.depth -= 1
        same = (
            len(out) == len(lam.stms)
            and all(a is b for a, b in zip(out, lam.stms, strict=True))
            and params == lam.params
            and all(a is b for a, b in zip(result, lam.result, strict=True))
        )
        return lam if same else Lambda(params, tuple(out), result)

    def scopes(self, stm: Stm) -> Stm:
        """Rewrite the nested scopes of a statement under the facts that hold in them."""
        e = stm.exp
        new = _SCOPED.get(type(e), Simplifier.plain)(self, e)
        return stm if new is e else Stm(stm.pat, new, stm.attrs)

    def plain(self, e: ir.Exp) -> ir.Exp:
        lams = e.lambdas()
        new = [self.scope(lam) for lam in lams]
        if all(a is b for a, b in zip(lams, new, strict=True)):
            return e
        return with_lambdas(e, new)

    def branch(self, e: ir.If) -> ir.Exp:
        ranges = self.ctx.ranges
        new = []
        for lam, holds in ((e.then, True), (e.orelse, False)):
            mark = ranges.mark()
            ranges.assume(e.cond, holds)
            new.append(self.scope(lam))
            ranges.release(mark)
        return e if new[0] is e.then and new[1] is e.orelse else ir.If(e.cond, new[0], new[1])

    def loop(self, e: ir.For) -> ir.Exp:
        ranges = self.ctx.ranges
        mark = ranges.mark()
        ranges.index(e.body.params[0], e.bound)
        body = self.scope(e.body)
        ranges.release(mark)
        return e if body is e.body else ir.For(e.bound, e.inits, body)

    def mapped(self, e: ir.Mapping) -> ir.Exp:
        ctx = self.ctx
        if type(e) is ir.Fused:
            new = [self.scope(f.lam) for f in e.folds]
            if any(lam is not f.lam for lam, f in zip(new, e.folds, strict=True)):
                folds = tuple([ir.Fold(lam, f.neutral, f.comm) for lam, f in zip(new, e.folds, strict=True)])
                k = len(e.scans)
                e = ir.Fused(e.width, e.arrays, e.lam, folds[:k], folds[k:])
        ranges = ctx.ranges
        mark = ranges.mark()
        ranges.positive(e.width)
        frame = Frame(ctx.depth + 1, e.width)
        for a, p in zip(e.arrays, e.lam.params, strict=True):
            if is_index(ctx.exp(a)):
                ranges.index(p, e.width)
                frame.indices[p] = None
            else:
                frame.known[a] = p
        ctx.frames.append(frame)
        lam = self.scope(e.lam)
        ctx.frames.pop()
        ranges.release(mark)
        if lam is e.lam and not frame.params:
            return e
        if frame.params:
            lam = Lambda(lam.params + tuple(frame.params), lam.stms, lam.result)
        return e.over(e.arrays + tuple(frame.arrays), lam)


_SCOPED: dict[type, Any] = {  # whose scopes hold more facts, or that rows of arrays may become inputs of
    ir.If: Simplifier.branch,
    ir.For: Simplifier.loop,
    ir.Map: Simplifier.mapped,
    ir.Fused: Simplifier.mapped,
}


def simplify_fun(
    fun: Fun,
    differentiates: bool,
    asserting: set[str],
    schedule: Schedule,
    stats: Stats | None,
    written: set[Var] | None = None,
) -> Fun:
    """One function, simplified; the same object if nothing changed.

    `written`: the variables that may be overwritten, if some rule asks for more than their alias classes.
    """
    ctx = Context(aliases(fun.body, fun.body.result + fun.body.params), differentiates, stats)
    if written is not None:
        ctx.told(written)
    ctx.ranges.sizes.update(fun.body.params[: fun.num_sizes])
    if fun.entry is not None:  # elsewhere they may be of arrays that only their elements are asked of
        ctx.ranges.stored.update(n for p in fun.body.params for n in shape_of(p.type) if type(n) is Var)
    s = Simplifier(ctx, schedule, asserting)
    body = s.scope(fun.body)
    body, removed = dead_code(body, asserting, s.token)
    for stm in s.visited:
        stm.settled = s.token
    if stats is not None:
        stats.count("copy_propagation", s.propagated)
        stats.count("common_subexpression", s.merged)
        stats.count("dead_code", removed)
    if body is fun.body:
        return fun
    return Fun(fun.name, body, fun.num_sizes, fun.ret, fun.entry, fun.attrs, fun.span)


def simplify(
    program: Program, stats: Stats | None = None, schedule: Schedule = SCHEDULE, written: set[Var] | None = None
) -> Program:
    """The program with every function simplified.

    `stats` collects rule hits and times; `written` is as for `simplify_fun`.

    While the program still has derivatives to take, branches become selects only where that cannot make a
    zero adjoint NaN.
    """
    differentiates = any(f.body.has(ir.Derivative) for f in program.funs.values())
    asserting = asserting_functions(program)
    funs = {n: simplify_fun(f, differentiates, asserting, schedule, stats, written) for n, f in program.funs.items()}
    if all(funs[n] is f for n, f in program.funs.items()):
        return program
    return Program(funs, program.name)


__all__ = ["SCHEDULE", "Schedule", "Simplifier", "share_key", "simplify", "simplify_fun"]
