"""Recognising loops whose iterations are independent, so that the C compiler vectorises them.

Note [Checks]
~~~~~~~~~~~~~
A check leaves the loop when it fails, which no vector loop can do.  So a loop whose checks need little of its body is
done in two: one that makes the checks alone, in order, and one that does everything else.  A failing call gives no
results, so that it has stored less by then makes no difference.  Of checks in loops inside the first one is a nest, for
lanes of the map around (`split_inner_checks`); of a place that is cut off at both ends it checks the size alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from futad.core.scalarops import REDUCTIONS
from futad.core.types import F32, F64, I64
from futad.fires import Transformation, refused
from futad.imp import ir
from futad.imp.ir import Expr, Ref
from futad.imp.loops.facts import HEAVY, LoopFacts, cost, rows_apart
from futad.imp.loops.guarded_reads import is_addition, masked_in_vectors
from futad.imp.walk import has_load, loads_in, parts, refs, statements
from futad.legality import Legality

LEGAL = Legality("vector-lanes", "iterations of a map run in vector lanes, after its checks")
ADDED_DISJOINT = LEGAL.condition("added disjoint", "two lanes add to one element at once")
SAME_ITERATIONS = LEGAL.condition("inner loops alike", "the lanes' inner loops have different iterations")
SAME_BEFORE = LEGAL.condition("same before the loop", "what is computed once differs by lane")
BESIDE = LEGAL.condition("side by side", "lanes read and write elements that do not lie side by side")
CHECKS_UNTOUCHED = LEGAL.condition("checks untouched", "what is checked changes after the checks")
CUT_OFF = LEGAL.condition("cut off at both ends", "a place that is out of range at one end is not checked")
CHECKS_COMPUTED = LEGAL.condition("checks computed", "what is checked is the result of a loop inside, or of a branch")
SUM_UNSEEN = LEGAL.condition("sum unseen", "an iteration looks at the sum so far")

NO_LETS: Mapping[str, Expr] = {}

ACROSS = Transformation("reductions-across-lanes", "a map around a reduction runs in lanes that each reduce their own")
CHECKS_FIRST = Transformation("checks-first", "a map makes its checks in a loop of their own")

ARITHMETIC = ("add", "sub", "mul", "div", "neg")


def annotate(loop: ir.For, reassociate: bool, asked: int = 0) -> bool:
    """Mark a map's or reduction's loop if its iterations are independent apart from scalar reductions, and say so.
    `asked`: vectors of elements of so many bytes whatever the C compiler thinks.

    Only innermost straight-line loops: an outer one may use the same temporary memory in every iteration.  Plain
    stores of these loops go to places of their own by construction (an array that it folds into makes a loop none of a
    map's); additions to memory are looked at.
    """
    if any(isinstance(s, ir.Check) for s in loop.body):
        refused("its iterations make checks")
        return False
    body = accumulations(loop.body) if reassociate else loop.body
    facts = LoopFacts(loop.var, body)
    added: dict[str, list[ir.Store]] = {}
    for s in body:
        match s:
            case ir.Decl(mutable=False) | ir.Accumulate():
                pass
            case ir.Store(pointer, _, _, op):
                if op is not None:
                    added.setdefault(pointer, []).append(s)
            case ir.If(then=[ir.Store(op="add") as add], orelse=[]) if not has_load(add):
                added.setdefault(add.pointer, []).append(add)
            case _:
                refused("its body is no straight line, or assigns variables")
                return False
    if not all(masked_in_vectors(facts, e) for s in body for e in parts(s) if isinstance(e, ir.Guarded)):
        refused("it reads elements that do not lie side by side in branches")
        return False
    for stores in added.values():
        beside = all(facts.beside(s.index) for s in stores)
        apart = beside and all(_disjoint(s, t) for k, s in enumerate(stores) for t in stores[:k])
        if not ADDED_DISJOINT(apart or _interleaved(stores, facts)):
            return False
    partials = facts.partials()
    if len({p.name for p in partials}) < len(partials):
        refused("it folds a variable by two operations")
        return False
    loop.body = body
    loop.independent = True
    loop.partials = partials
    if asked:
        loop.lanes = asked
    elif cost(body) >= HEAVY:
        loop.lanes = lane_bytes(body)
    return True


def lane_bytes(body: list[ir.Stmt]) -> int:
    """Bytes of an element of a loop's vectors: of the floats that it computes with, where there are some.  Narrow
    integers beside wide floats, as indices are, would ask for more lanes than registers have of floats."""
    types = [e.type for s in body for e in s.exprs() if not e.type.is_bool]
    return min([t.bits for t in types if t.is_float] or [t.bits for t in types]) // 8


def _disjoint(s: ir.Store, t: ir.Store) -> bool:
    """Whether an iteration adds to the same element twice, or iterations to elements of different rows."""
    return s.index == t.index or rows_apart(s, t)


def _interleaved(stores: list[ir.Store], facts: LoopFacts) -> bool:
    """Whether iterations add to stretches of an array, each its own: places that move by more than they lie apart."""
    places = [facts.place(s.index) for s in stores]
    first = places[0]
    if first is None:
        return False
    at = [p.constant for p in places if p is not None and (p.scale, p.invariant) == (first.scale, first.invariant)]
    return len(at) == len(places) and max(at) - min(at) < abs(first.scale)


def across(loop: ir.For, reassociate: bool) -> ir.VectorisedFor | None:
    """A map's loop around one loop that reduces, with its iterations in vector lanes, each lane reducing its own: if
    what that reads lies side by side for neighbouring iterations, or is the same for all.  Else None.  (Rows whose
    elements lie side by side are for the inner loop's lanes.)  What follows the reduction is done lane by lane."""
    body = accumulations(loop.body) if reassociate else loop.body
    facts = LoopFacts(loop.var, body)
    if len(facts.inner) != 1 or not facts.inner[0].partials or facts.inner[0].step != 1:
        return refused("there is not one loop inside, which reduces")
    (fold,) = facts.inner
    sums = {p.name for p in fold.partials}
    if not sums <= facts.inits.keys() or not all(isinstance(s, (ir.Decl, ir.Accumulate)) for s in fold.body):
        return None
    if not SAME_ITERATIONS(facts.invariant(fold)):
        return None
    for s in body[: body.index(fold)]:
        # What comes before is the same for all lanes.
        if not isinstance(s, ir.Decl) or not SAME_BEFORE(loop.var not in refs(s)):
            return None
    for s in body:
        match s:
            case ir.Decl(name, mutable=mutable):
                if mutable and name not in sums:
                    return None
            case ir.Accumulate() | ir.Store(op=None) | ir.For():
                pass
            case _:
                return None
    inside = LoopFacts(loop.var, [*body, *fold.body])
    beside = 0
    for index in [x.index for s in fold.body for x in loads_in(s)]:
        if inside.beside(index):
            beside += 1
        elif not BESIDE(facts.invariant(index)):
            return None
    if not beside or not _adds_floats(fold):
        return refused("the loop inside adds nothing in f64 or f32 that lies side by side for neighbouring iterations")
    plain = ir.For(loop.var, loop.bound, body, loop.start, map=True)
    return ir.VectorisedFor(plain, facts.partials())


def _adds_floats(fold: ir.For) -> bool:
    """Whether a reduction is sums of f64, or of f32, arithmetic alone: its body can be written in vector types."""
    kind = fold.partials[0].type

    def simple(e: Expr) -> bool:
        match e:
            case ir.Scalar(op, args):
                return op in ARITHMETIC and e.type is kind and all(simple(a) for a in args)
        return isinstance(e, (ir.Num, Ref, ir.Load)) and e.type in (kind, I64)

    if kind not in (F64, F32) or not all(p.op == "add" and p.type is kind for p in fold.partials):
        return False
    for s in fold.body:
        match s:
            case ir.Decl(_, t, e) if e is not None and t is kind and simple(e):
                pass
            case ir.Accumulate(_, "add", e) if simple(e):
                pass
            case _:
                return False
    return True


def with_checks_first(loop: ir.For, asked: bool = False, nested: bool = False) -> list[ir.For]:
    """A map's loop, after another one that makes its checks if these need little of it, or if it is `asked` for; see
    Note [Checks].  `nested`: there may be loops inside, without checks of their own."""
    body = loop.body
    if not any(isinstance(s, ir.Check) for s in body):
        refused("its iterations make no checks")
        return [loop]
    line = (ir.Decl, ir.Store, ir.Check, ir.Assign)
    inside = [s for s in body if not isinstance(s, line) and not is_addition(s)]
    free = (ir.Decl, ir.Store, ir.Assign, ir.Accumulate, ir.For, ir.Ensure)
    if inside and not (nested and all(isinstance(s, free) for s in statements(inside))):
        refused("its body is no straight line")
        return [loop]
    needed: set[str] = set()
    first: list[ir.Stmt] = []
    loaded: set[str] = set()
    stored = {s.pointer for s in statements(body) if isinstance(s, ir.Store)}
    assigned = {name for s in statements(body) for name in s.assigns()}
    for s in reversed(body):
        if isinstance(s, ir.Check) or (isinstance(s, ir.Decl) and s.name in needed):
            first.append(s)
            needed |= refs(s)
            loaded |= {x.pointer for x in loads_in(s)}
    if not CHECKS_UNTOUCHED(not loaded & stored) or not CHECKS_COMPUTED(not needed & assigned):
        return [loop]
    first.reverse()
    rest = [s for s in body if not isinstance(s, ir.Check)]
    if 4 * cost(first) > cost(statements(rest)) and not asked:
        refused("its checks need too much of its body")
        return [loop]
    checks = ir.For(loop.var, loop.bound, first, loop.start, map=True)
    return [checks, ir.For(loop.var, loop.bound, rest, loop.start, map=True)]


def split_inner_checks(loop: ir.For, lets: Mapping[str, Expr] = NO_LETS) -> list[ir.For]:
    """The same where the checks may be in loops inside: a nest that makes them alone, and one without them.  `lets`:
    what variables stand for that nobody assigns to."""
    every = list(statements(loop.body))
    inner = [s for s in every if isinstance(s, ir.For)]
    if not any(isinstance(s, ir.Check) for f in inner for s in statements(f.body)):
        return [loop]
    free = (ir.Decl, ir.Store, ir.Check, ir.Assign, ir.Accumulate, ir.For, ir.Ensure, ir.Pointer, ir.Copy, ir.Swap)
    if not all(isinstance(s, free) or isinstance(s, ir.Seq) and not _checks(s.bodies()[0]) for s in every):
        return [loop]
    written = {p for s in every for p in s.writes()}
    written |= {n for s in every if not isinstance(s, ir.Decl) for n in s.defines()}  # pointers
    found = _Checks(lets)
    first, rest = found.parts(loop.body)
    if not CHECKS_UNTOUCHED(not found.loaded & written):
        return [loop]
    if not CHECKS_COMPUTED(not found.needed & {n for s in every for n in s.assigns()}):
        return [loop]
    if 4 * cost(statements(first)) > cost(statements(rest)):
        refused("its checks need too much of its body")
        return [loop]
    return [replace(loop, body=first, map=True, partials=[]), replace(loop, body=rest)]


def _checks(body: list[ir.Stmt]) -> bool:
    return any(isinstance(s, ir.Check) for s in statements(body))


@dataclass(slots=True)
class _Checks:
    """What the checks of a nest need: variables, and pointers that are read."""

    lets: Mapping[str, Expr]
    needed: set[str] = field(default_factory=set)
    loaded: set[str] = field(default_factory=set)

    def parts(self, body: list[ir.Stmt]) -> tuple[list[ir.Stmt], list[ir.Stmt]]:
        """The checks with what they need, and everything else."""
        first: list[ir.Stmt] = []
        rest: list[ir.Stmt] = []
        for s in reversed(body):
            kept: ir.Stmt | None = None
            if isinstance(s, ir.For) and _checks(s.body):
                inside, left = self.parts(s.body)
                kept, s = replace(s, body=inside, independent=False, partials=[]), replace(s, body=left)
                for e in (s.start, s.bound):
                    self.needed |= refs(e)
                    self.loaded |= {x.pointer for x in loads_in(e)}
            elif isinstance(s, ir.Check) or isinstance(s, ir.Decl) and s.name in self.needed:
                kept = _of_size(s, self.lets) if isinstance(s, ir.Check) else s
                self.needed |= refs(kept)
                self.loaded |= {x.pointer for x in loads_in(kept)}
            if kept is not None:
                first.append(kept)
            if not isinstance(s, ir.Check):
                rest.append(s)
        return first[::-1], rest[::-1]


def _of_size(s: ir.Check, lets: Mapping[str, Expr]) -> ir.Check:
    """A check of a place that is cut off at both ends, max 0 (min (n - 1) i) or min (n - 1) (max 0 i), which is in
    range where there are elements: as one of their number, n."""

    def init(e: Expr) -> Expr:
        return lets.get(e.name, e) if isinstance(e, Ref) else e

    def cut(e: Expr, op: str, at: Expr) -> Expr | None:
        """What is cut off there."""
        e = init(e)
        if isinstance(e, ir.Scalar) and e.op == op and e.type is I64:
            return next((y for x, y in zip(e.args, e.args[::-1], strict=True) if at in (x, init(x))), None)
        return None

    if not isinstance(s.cond, ir.Bin) or s.cond.op != "in_bounds" or s.values != (s.cond.left, s.cond.right):
        return s
    at, size = s.values
    last = ir.Scalar("sub", (size, ir.ONE), I64, I64)
    for first, then, none in ((("max", ir.ZERO), ("min", last), 0), (("min", last), ("max", ir.ZERO), -1)):
        inside = cut(at, *first)
        if inside is not None and CUT_OFF(cut(inside, *then) is not None):
            return replace(s, cond=ir.compare("<", ir.ZERO, size), values=(ir.num(none), size))
    return s


def accumulations(body: list[ir.Stmt]) -> list[ir.Stmt]:
    """`t = op(acc, x); ... acc = t` becomes an `Accumulate`, where nothing else mentions acc or t."""
    finals: dict[str, str] = {}
    for s in body:
        if isinstance(s, ir.Assign) and isinstance(s.value, Ref):
            if s.value.name in finals or s.name in finals.values():
                return body
            finals[s.value.name] = s.name
    if not finals:
        return list(body)
    line = [t for s in body for t in ([s, *s.bodies()[0]] if is_addition(s) else [s])]
    uses = Counter(name for s in line for name in s.uses())
    steps: dict[str, ir.Accumulate] = {}
    for s in body:
        if isinstance(s, ir.Decl) and s.name in finals and isinstance(s.init, ir.Scalar):
            acc, e = finals[s.name], s.init
            if e.op in REDUCTIONS and SUM_UNSEEN(uses[s.name] == 1 and uses[acc] == 1):
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


__all__ = ["accumulations", "across", "annotate", "with_checks_first", "split_inner_checks"]


