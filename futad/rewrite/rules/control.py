"""Rules on branches, loops and assertions."""

from __future__ import annotations

from typing import Any

from futad.core import ir
from futad.core.ir import Lambda, Stm
from futad.core.operator import divisor
from futad.core.roots import Roots
from futad.core.scalarops import OPS
from futad.core.types import FALSE, TRUE, AccType, ArrayType, Atom, Const, Prim, Var, elem_of, shape_of, zero
from futad.legality import Legality
from futad.rewrite.context import Context
from futad.rewrite.strategy import Result, rule

LEGAL = Legality(
    "control-rules", "results that are known leave branches and loops; cheap branches become choices", fires=False
)
UNCHANGED = LEGAL.condition("variable unchanged", "an iteration makes another value of the loop's variable")
STEADY = LEGAL.condition("steps are equal", "the variable is not what counting the iterations makes it")
EQUAL = LEGAL.condition("equal in both branches", "the branch decides which value it is")
FAILS_NOT = LEGAL.condition("branch fails not", "what the branch guards against happens now")
TAME = LEGAL.condition("bounded partials", "the derivative of the branch not taken is 0 times infinity")


def aliases_of(pat: tuple[Var, ...], atoms: tuple[Atom, ...]) -> list[Stm]:
    """Each variable becomes the atom beside it."""
    return [Stm((v,), ir.Alias(a)) for v, a in zip(pat, atoms, strict=True)]


@rule(ir.Assert)
def assert_true(stm: Stm, ctx: Context) -> Result:
    """`assert true` -> nothing but what it binds."""
    e: Any = stm.exp
    return aliases_of(stm.pat, e.of) if e.cond is TRUE else None


@rule(ir.If)
def if_constant(stm: Stm, ctx: Context) -> Result:
    """`if true then xs else ys` -> `xs`."""
    e: Any = stm.exp
    if type(e.cond) is not Const:
        d = ctx.exp(e.cond)
        if type(d) is ir.Op and d.op == "not":
            return [Stm(stm.pat, ir.If(d.args[0], e.orelse, e.then), stm.attrs)]
        return None
    lam = e.then if e.cond.value else e.orelse
    return [*lam.stms, *aliases_of(stm.pat, lam.result)]


def _begun(e: ir.For, ctx: Context) -> tuple[list[Stm], tuple[Atom, ...]]:
    """The loop's variables at its start, for code in its place.  A loop copies an array that it overwrites and others
    read (docs/architecture.md, Consumption); there the copy is written: what is part of another array may be that of a
    scope that runs more than once."""
    copies: list[Stm] = []
    out: list[Atom] = []
    written: set[Var] | None = None
    for p, a in zip(e.variables, e.inits, strict=True):
        if type(a.type) is ArrayType and (d := ctx.exp(a)) is not None and any(d.views()):
            written = Roots(e.body.stms).overwritten if written is None else written
            if p in written:
                copies.append(Stm((v := Var(p.name, a.type),), ir.Copy(a)))
                a = v
        out.append(a)
    return copies, tuple(out)


@rule(ir.For)
def for_few(stm: Stm, ctx: Context) -> Result:
    """`for i < 0 do ..` -> the initial values; `for i < 1 do body` -> the body with i = 0."""
    e: Any = stm.exp
    if type(e.bound) is not Const or e.bound.value > 1:
        return None
    if e.bound.value <= 0:
        return aliases_of(stm.pat, e.inits)
    i, *params = e.body.params
    copies, inits = _begun(e, ctx)
    before = [Stm((i,), ir.Alias(zero(i.type))), *copies, *aliases_of(tuple(params), inits)]
    return [*before, *e.body.stms, *aliases_of(stm.pat, e.body.result)]


MOST_UNROLLED = 4096  # statements that a loop may become


def _size(lam: Lambda) -> int:
    return sum(1 + sum(_size(inner) for inner in s.exp.lambdas()) for s in lam.stms)


@rule(ir.For)
def for_unrolled(stm: Stm, ctx: Context) -> Result:
    """`#[unroll] for i < 3 do body` -> the body three times, unless that is too much code."""
    e: Any = stm.exp
    if ("unroll",) not in stm.attrs or type(e.bound) is not Const or e.bound.value * _size(e.body) > MOST_UNROLLED:
        return None
    out, values = _begun(e, ctx)
    i, *params = e.body.params
    for k in range(e.bound.value):
        iteration = ir.Renamer({i: Const(i.type, k), **dict(zip(params, values, strict=True))})
        out += iteration.stms(e.body.stms)
        values = tuple([iteration.atom(a) for a in e.body.result])
    return [*out, *aliases_of(stm.pat, values)]


@rule(ir.While)
def while_false(stm: Stm, ctx: Context) -> Result:
    """`while false do ..` -> the initial values."""
    e: Any = stm.exp
    return aliases_of(stm.pat, e.inits) if e.inits[0] is FALSE else None


@rule(ir.For, ir.While)
def loop_invariant(stm: Stm, ctx: Context) -> Result:
    """A loop variable that every iteration passes on unchanged, or sets to what it was at the start, becomes that
    value: `loop (x, y) = (a, b) for i < n do (x + y, y)` -> `loop x = a for i < n do x + b`."""
    e: Any = stm.exp
    params = e.variables
    skip = len(e.body.params) - len(params)
    same = [
        k
        for k, (p, a, r) in enumerate(zip(params, e.inits, e.body.result, strict=True))
        if UNCHANGED(ctx.atom(r) is p or ctx.atom(r) is a)
        and not isinstance(p.type, AccType)
        and not (k == 0 and type(e) is ir.While)
    ]
    # The type of a loop-carried array may name an earlier loop variable; it is substituted with it.
    if not same:
        return None
    gone = set(same)
    before = aliases_of(tuple([params[k] for k in same]), tuple([e.inits[k] for k in same]))
    after = aliases_of(tuple([stm.pat[k] for k in same]), tuple([e.inits[k] for k in same]))
    keep = [k for k in range(len(params)) if k not in gone]
    body = Lambda(
        e.body.params[:skip] + tuple([params[k] for k in keep]), e.body.stms, tuple([e.body.result[k] for k in keep])
    )
    inits = tuple([e.inits[k] for k in keep])
    pat = tuple([stm.pat[k] for k in keep])
    return [*before, *after, Stm(pat, e.remade(inits, body), stm.attrs)] if keep else before + after


@rule(ir.For)
def loop_counter(stm: Stm, ctx: Context) -> Result:
    """An integer that every iteration adds the same constant to is made of the number of the iteration:
    `loop (x, k) = (a, b) for i < n do (f x k, k + 2)` -> `loop x = a for i < n do let k = b + 2 * i in f x k`."""
    e: Any = stm.exp
    i, *params = e.body.params
    t = i.type
    sizes = {n for p in params for n in shape_of(p.type)}
    own = [k for k, p in enumerate(params) if p.type is t and p not in sizes]
    found = ((k, step) for k in own if (step := _step(params[k], e.body.result[k], ctx)) is not None)
    k, step = next(found, (0, None))
    if step is None or len(params) == 1:
        return None
    start = e.inits[k]
    now, after, count = Var(params[k].name, t), Var(params[k].name, t), Var("count", t)
    inside = [Stm((now,), ir.Op("mul", (i, step))), Stm((params[k],), ir.Op("add", (start, now)))]
    count_them = [Stm((count,), ir.Op("max", (e.bound, zero(t)))), Stm((after,), ir.Op("mul", (count, step)))]
    body = Lambda((i, *_without(params, k)), (*inside, *e.body.stms), _without(e.body.result, k))
    loop = Stm(_without(stm.pat, k), ir.For(e.bound, _without(e.inits, k), body), stm.attrs)
    last = [*count_them, Stm((stm.pat[k],), ir.Op("add", (start, after)))]
    return [loop, *last]


def _step(p: Var, result: Atom, ctx: Context) -> Const | None:
    """The constant that is added to the variable to make the result."""
    d = ctx.exp(result)
    if type(d) is not ir.Op or d.op not in ("add", "sub"):
        return None
    step = next((a for a in d.args if type(a) is Const), None)
    if step is None or not STEADY(p in d.args if d.op == "add" else d.args[0] is p):
        return None
    return step if d.op == "add" else Const(step.type, -step.value)


def _without(xs: Any, k: int) -> tuple[Any, ...]:
    return (*xs[:k], *xs[k + 1 :])


@rule(ir.If)
def if_same(stm: Stm, ctx: Context) -> Result:
    """Results equal in both branches leave the branch; a branch without results left goes (if it may)."""
    e: Any = stm.exp
    same = [k for k, (a, b) in enumerate(zip(e.then.result, e.orelse.result, strict=True)) if EQUAL(a is b)]
    if not same:
        return None
    out = aliases_of(tuple([stm.pat[k] for k in same]), tuple([e.then.result[k] for k in same]))
    keep = [k for k in range(len(stm.pat)) if k not in same]
    if keep or e.then.stms or e.orelse.stms:
        branches = [Lambda((), b.stms, tuple([b.result[k] for k in keep])) for b in (e.then, e.orelse)]
        out.append(Stm(tuple([stm.pat[k] for k in keep]), ir.If(e.cond, *branches), stm.attrs))
    return out


def one_after_the_other(stm: Stm) -> list[Stm]:
    """What a statement with two tasks is where they are done in order.

    That is what it means (`core/tasks.py`): neither overwrites what is outside, variables have names of their own, and
    the failure is the first one's.  So there is no condition; which tasks are put in order is a matter of cost.
    """
    e: Any = stm.exp
    return [*e.first.stms, *e.second.stms, *aliases_of(stm.pat, e.first.result + e.second.result)]


# What may take long.
_LONG = (
    ir.Call, ir.Loop, ir.Soac, ir.WithAcc, ir.Derivative, ir.WithVjp, ir.WithJvp, ir.WithInverse, ir.Invert,
    ir.MatMul, ir.Contraction, ir.ArgSort,
)  # fmt: skip


@rule(ir.Par)
def par_of_little(stm: Stm, ctx: Context) -> Result:
    """`par(a, b)` -> `a`, then `b`, if one of the two has nothing in it that may take long."""
    e: Any = stm.exp
    return None if e.first.has(*_LONG) and e.second.has(*_LONG) else one_after_the_other(stm)


# Operations whose partial derivatives are bounded wherever they are defined: computing them where the
# branch was not taken cannot turn the zero adjoint of the other branch into NaN.
_TAME = frozenset(
    ["add", "sub", "neg", "min", "max", "not", "eq", "ne", "lt", "le", "and", "or", "xor", "select"]
    + [n for n in OPS if n.startswith("to_")]
)
_SELECT_COST = 4


@rule(ir.If)
def if_select(stm: Stm, ctx: Context) -> Result:
    """`if c then x + 1 else y` -> `let t = x + 1 in select c t y`: cheap scalar branches.

    Before differentiation only operations with bounded partials qualify (the adjoint of the branch not taken
    is 0 times the partial, which must not be NaN); afterwards any cheap one that cannot fail.
    """
    e: Any = stm.exp
    if any(not isinstance(v.type, Prim) for v in stm.pat):
        return None
    cost = 0
    stms = e.then.stms + e.orelse.stms
    if len(stms) > _SELECT_COST:
        return None
    for s in stms:
        op = s.exp
        if type(op) is not ir.Op:
            return None
        record = OPS[op.op]
        if not FAILS_NOT(divisor(op) is None):
            return None
        if not TAME(not ctx.differentiates or elem_of(op.args[0].type).is_integral or op.op in _TAME):
            return None
        cost += record.cost
    if cost > _SELECT_COST or len(stm.pat) > 3:
        return None
    out = list(stms)
    for v, a, b in zip(stm.pat, e.then.result, e.orelse.result, strict=True):
        out.append(Stm((v,), ir.Op("select", (e.cond, a, b))))
    return out


CONTROL_ENTER = (assert_true, if_constant, for_few, for_unrolled, while_false, loop_invariant, par_of_little)
CONTROL_LEAVE = (if_same, if_select, loop_invariant, loop_counter)
