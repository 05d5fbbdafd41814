"""Recognising loops whose iterations are independent, so that the C compiler vectorises them.

Note [Checks]
~~~~~~~~~~~~~
A check leaves the loop when it fails, which no vector loop can do.  So a loop whose checks need little of its body is
done in two: one that makes the checks alone, in order, and one that does everything else.  A failing call gives no
results, so that it has stored less by then makes no difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from futad.core.scalarops import OPS
from futad.core.types import Prim
from futad.fires import Transformation
from futad.imp import ir
from futad.imp.ir import Expr, Num, Ref
from futad.legality import Legality

LEGAL = Legality("vector-lanes", "iterations of a map run in vector lanes, after its checks")
ADDED_APART = LEGAL.condition("added apart", "two lanes add to one element at once")
SAME_TURNS = LEGAL.condition("inner loops alike", "the lanes' inner loops have different turns")
SAME_BEFORE = LEGAL.condition("same before the loop", "what is computed once differs by lane")
BESIDE = LEGAL.condition("side by side", "lanes read and write elements that do not lie side by side")
CHECKS_UNTOUCHED = LEGAL.condition("checks untouched", "what is checked changes after the checks")
SUM_UNSEEN = LEGAL.condition("sum unseen", "an iteration looks at the sum so far")

ACROSS = Transformation("reductions-across-lanes", "a map around a reduction runs in lanes that each reduce their own")
CHECKS_FIRST = Transformation("checks-first", "a map makes its checks in a loop of their own")

HEAVY = 60  # scalar operations of a straight-line body that is vectorised whatever the C compiler thinks of it
REDUCTIONS = ("add", "mul", "min", "max", "and", "or", "xor")


def annotate(loop: ir.For, reassociate: bool) -> None:
    """Mark a map's or reduction's loop if its iterations are independent apart from scalar reductions.

    Only innermost straight-line loops: an outer one may use the same temporary memory in every iteration.  Plain
    stores of these loops go to places of their own by construction (an array that it folds into makes a loop none of a
    map's); additions to memory are looked at.
    """
    body = loop.body
    if any(isinstance(s, ir.Check) for s in body):
        return
    if reassociate:
        body = accumulations(body)
    declared = {s.name for s in body if isinstance(s, ir.Decl)}
    partials: list[ir.Partial] = []
    added: dict[str, list[Expr]] = {}
    for s in body:
        match s:
            case ir.Decl(mutable=False):
                pass
            case ir.Accumulate(name, op, value):
                if name not in declared:
                    partials.append(ir.Partial(name, value.type, op, unit_of(op, value.type)))
            case ir.Store(pointer, index, _, op):
                if op is not None:
                    added.setdefault(pointer, []).append(index)
            case _:
                return
    for indices in added.values():
        if not ADDED_APART(len(indices) == 1 and _moves_with(indices[0], loop.var, declared)):
            return
    LEGAL.fired()
    loop.body = body
    loop.independent = True
    loop.partials = partials
    if _cost(body) >= HEAVY:
        loop.lanes = min(e.type.bits for s in body for e in expressions(s) if not e.type.is_bool) // 8


def across(loop: ir.For, reassociate: bool) -> ir.Across | None:
    """A map's loop around one loop that reduces, with its iterations in vector lanes, each lane reducing its own: if
    what that reads lies side by side for neighbouring iterations, or is the same for all.  Else None.  (Rows whose
    elements lie side by side are for the inner loop's lanes.)  What follows the reduction is done lane by lane."""
    body = accumulations(loop.body) if reassociate else loop.body
    inner = [s for s in body if isinstance(s, ir.For)]
    if len(inner) != 1 or not inner[0].partials or inner[0].step != 1:
        return None
    fold = inner[0]
    declared = {s.name for s in body if isinstance(s, ir.Decl)}
    sums = {p.name for p in fold.partials}
    if not sums <= declared or not all(isinstance(s, (ir.Decl, ir.Accumulate)) for s in fold.body):
        return None
    own = declared | {loop.var}
    uses: dict[str, int] = {}
    for e in (fold.bound, fold.start):
        count_refs(e, uses)
    if not SAME_TURNS(not own & uses.keys()):
        return None
    for s in body[: body.index(fold)]:
        # What comes before is the same for all lanes.
        uses = {}
        for e in expressions(s):
            count_refs(e, uses)
        if not isinstance(s, ir.Decl) or not SAME_BEFORE(loop.var not in uses):
            return None
    partials: list[ir.Partial] = []
    for s in body:
        match s:
            case ir.Decl(name, mutable=mutable):
                if mutable and name not in sums:
                    return None
            case ir.Accumulate(name, op, value):
                partials.append(ir.Partial(name, value.type, op, unit_of(op, value.type)))
            case ir.Store(op=None) | ir.For():
                pass
            case _:
                return None
    inside = own | {s.name for s in fold.body if isinstance(s, ir.Decl)}
    reads: list[Expr] = []
    for s in fold.body:
        for e in expressions(s):
            indices(e, reads)
    beside = 0
    for index in reads:
        if _moves_with(index, loop.var, inside - {fold.var}):
            beside += 1
        else:
            uses = {}
            count_refs(index, uses)
            if not BESIDE(not own & uses.keys()):
                return None
    if not beside:
        return None
    ACROSS.fired()
    plain = ir.For(loop.var, loop.bound, body, loop.start, map=True)
    return ir.Across(plain, fold, fold.partials, partials)


def loads_in(e: Expr) -> Iterator[ir.Load]:
    """The expression's loads, those in their indices included."""
    match e:
        case ir.Load(_, i):
            yield e
            yield from loads_in(i)
        case ir.Bin(_, a, b):
            yield from loads_in(a)
            yield from loads_in(b)
        case ir.Scalar(_, args):
            for a in args:
                yield from loads_in(a)


def rewritten(e: Expr, f: Callable[[Expr], Expr]) -> Expr:
    """The expression with `f` of each part, of the innermost ones first."""
    match e:
        case ir.Bin(op, a, b, t):
            e = ir.Bin(op, rewritten(a, f), rewritten(b, f), t)
        case ir.Scalar(op, args, arg, t):
            e = ir.Scalar(op, tuple([rewritten(a, f) for a in args]), arg, t)
        case ir.Load(pointer, index, t):
            e = ir.Load(pointer, rewritten(index, f), t)
    return f(e)


def indices(e: Expr, out: list[Expr]) -> None:
    """Add the indices of the expression's loads."""
    out += [x.index for x in loads_in(e)]


def split_checks(loop: ir.For) -> list[ir.For]:
    """A map's loop, after another one that makes its checks if these need little of it; see Note [Checks]."""
    body = loop.body
    if not any(isinstance(s, ir.Check) for s in body):
        return [loop]
    if not all(isinstance(s, (ir.Decl, ir.Store, ir.Check, ir.Assign)) for s in body):
        return [loop]
    needed: dict[str, int] = {}
    first: list[ir.Stmt] = []
    loaded: set[str] = set()
    stored = {s.pointer for s in body if isinstance(s, ir.Store)}
    assigned = {s.name for s in body if isinstance(s, ir.Assign)}
    for s in reversed(body):
        if isinstance(s, ir.Check) or (isinstance(s, ir.Decl) and s.name in needed):
            first.append(s)
            for e in expressions(s):
                count_refs(e, needed)
                loads(e, loaded)
    if not CHECKS_UNTOUCHED(not loaded & stored and not needed.keys() & assigned):
        return [loop]
    if any(isinstance(s, ir.Decl) and s.mutable for s in first):
        return [loop]
    first.reverse()
    rest = [s for s in body if not isinstance(s, ir.Check)]
    if 4 * _cost(first) > _cost(rest):
        return [loop]
    CHECKS_FIRST.fired()
    checks = ir.For(loop.var, loop.bound, first, loop.start, map=True)
    return [checks, ir.For(loop.var, loop.bound, rest, loop.start, map=True)]


def loads(e: Expr, out: set[str]) -> None:
    """Add the pointers that the expression reads through."""
    out |= {x.pointer for x in loads_in(e)}


def _cost(body: list[ir.Stmt]) -> int:
    """The scalar operations of straight-line statements."""

    def cost(e: Expr) -> int:
        match e:
            case ir.Scalar(op, args):
                return OPS[op].cost + sum(cost(a) for a in args)
            case ir.Load(_, i):
                return 1 + cost(i)
        return 0

    return sum(cost(e) for s in body for e in expressions(s))


def accumulations(body: list[ir.Stmt]) -> list[ir.Stmt]:
    """`t = op(acc, x); ... acc = t` becomes an `Accumulate`, where nothing else mentions acc or t."""
    uses: dict[str, int] = {}
    for s in body:
        for e in expressions(s):
            count_refs(e, uses)
    steps: dict[str, ir.Accumulate] = {}
    finals: dict[str, str] = {}
    for s in body:
        if isinstance(s, ir.Assign) and isinstance(s.value, Ref):
            if s.value.name in finals or s.name in finals.values():
                return body
            finals[s.value.name] = s.name
    for s in body:
        if isinstance(s, ir.Decl) and s.name in finals and isinstance(s.init, ir.Scalar):
            acc, e = finals[s.name], s.init
            if e.op in REDUCTIONS and SUM_UNSEEN(uses.get(s.name) == 1 and uses.get(acc) == 1):
                sides = [x for x in e.args if x != Ref(acc, e.type)]
                if len(sides) == 1:
                    steps[s.name] = ir.Accumulate(acc, e.op, sides[0])
    out: list[ir.Stmt] = []
    for s in body:
        if isinstance(s, ir.Decl) and s.name in steps:
            out.append(steps[s.name])
        elif not (isinstance(s, ir.Assign) and isinstance(s.value, Ref) and s.value.name in steps):
            out.append(s)
    return out


def expressions(s: ir.Stmt) -> list[Expr]:
    """The expressions of a simple statement."""
    match s:
        case ir.Decl(init=e) if e is not None:
            return [e]
        case ir.Assign(_, e) | ir.Accumulate(_, _, e):
            return [e]
        case ir.Store(_, i, e):
            return [i, e]
        case ir.Check(e, values=values):
            return [e, *values]
    return []


def with_expressions(s: ir.Stmt, f: Callable[[Expr], Expr]) -> ir.Stmt:
    """A simple statement with `f` of each of its expressions; others as they are."""
    match s:
        case ir.Decl(init=e) if e is not None:
            return replace(s, init=f(e))
        case ir.Assign(value=e) | ir.Accumulate(value=e):
            return replace(s, value=f(e))
        case ir.Store(_, i, e):
            return replace(s, index=f(i), value=f(e))
        case ir.Check(e, values=values):
            return replace(s, cond=f(e), values=tuple([f(v) for v in values]))
    return s


def count_refs(e: Expr, uses: dict[str, int]) -> None:
    """Add the variables in `e` to the counts."""
    match e:
        case Ref(name):
            uses[name] = uses.get(name, 0) + 1
        case ir.Bin(_, a, b):
            count_refs(a, uses)
            count_refs(b, uses)
        case ir.Scalar(_, args):
            for a in args:
                count_refs(a, uses)
        case ir.Load(_, i):
            count_refs(i, uses)


def _moves_with(index: Expr, var: str, declared: set[str]) -> bool:
    """Whether the index is `var` plus something that does not depend on the iteration."""

    def invariant(e: Expr) -> bool:
        uses: dict[str, int] = {}
        count_refs(e, uses)
        return var not in uses and not declared & uses.keys() and not isinstance(e, ir.Load)

    match index:
        case Ref(name):
            return name == var
        case ir.Bin("+", a, b):
            return (invariant(a) and _moves_with(b, var, declared)) or (invariant(b) and _moves_with(a, var, declared))
    return False


def unit_of(op: str, t: Prim) -> Expr:
    """The unit of a reduction operation."""
    if op in ("add", "or", "xor"):
        return Num(False if t.is_bool else 0, t)
    if op == "mul":
        return Num(1, t)
    if op == "and":
        return Num(True if t.is_bool else -1, t)
    if t.is_float:
        return Num(float("inf") if op == "min" else float("-inf"), t)
    info = np.iinfo(t.dtype)
    return Num(int(info.max if op == "min" else info.min), t)
