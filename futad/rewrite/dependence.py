"""Dependence analysis of loops: which array loop variables the return sweep finds in the loop's final array.

A loop variable x *stays* if no element of it is overwritten after it was read: whatever an iteration reads is then
still in the array the loop ends with, and nothing need be saved or put back.  Dynamic programming is of this kind.

The body's reads and writes of x are collected with the region each touches, an index (or a range of them) for each
dimension.  x stays if for every write and every read of an earlier version of the array there is a dimension in
which the two never meet: by sign (one is always smaller, see `rewrite/ranges.py`) or by divisibility.  Iterations of
loops are compared lexicographically: the write comes in a later iteration of a loop around both, in the same iteration
of the loops outside of it, or later in the same iteration.

Note [Versions]
Every update of x, and every iteration of a loop that updates it, makes a new version of the array.  A read is as old as
the version it reads, which is what counts: views and variables from outside an inner loop may be read late.

Source: the dependence test of Banerjee, "Dependence Analysis for Supercomputing", 1988, on the symbolic bounds of
`Ranges`; its use for reverse mode is Schenck et al., SC 2022, section 4.3.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from futad.core import ir
from futad.core.node import Range
from futad.core.types import BOOL, I32, I64, ONE, ZERO, ArrayType, Atom, Const, Prim, Var, i64, shape_of
from futad.legality import Legality
from futad.rewrite.ranges import Poly, Ranges

LEGAL = Legality(
    "kept-for-return",
    "a return sweep reads in a loop's final array what its iterations have read",
    worth="nothing is saved of an array of n elements that m iterations overwrite, in place of n m elements",
)
NEWEST = LEGAL.condition("newest version updated", "two arrays come of one, of which the loop ends with one")
SAME_ITERATION = LEGAL.condition(
    "not overwritten in its iteration", "an element is overwritten after it was read, in that iteration"
)
LATER_ITERATIONS = LEGAL.condition(
    "not overwritten in later iterations", "a later iteration overwrites what one has read"
)

Dim = Atom | Range | None  # a position, a range of them, or all
MAX_PAIRS = 300  # more pairs of a read and a write than these are not looked at


# --- what encloses a read or write ------------------------------------------------------------------------------


@dataclass(eq=False, slots=True)
class Iterations:
    """A loop: its index (made up for a while loop), its bound if it has one, and the loop variables that go up by
    a constant every iteration, each with its start and step."""

    index: Var
    bound: Atom | None
    counters: list[tuple[Var, Atom, int]]


@dataclass(eq=False, slots=True)
class Given:
    """A branch: the condition and what it is."""

    cond: Atom
    holds: bool


@dataclass(eq=False, slots=True)
class Each:
    """A map over start, start + 1, ... (`count` of them), bound to `elem`."""

    elem: Var
    start: Atom
    count: Atom


Step = Iterations | Given | Each
Path = tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Version:
    """A version of the array: when it was made, and inside of which loops."""

    time: int
    loops: tuple[Iterations, ...]


@dataclass(frozen=True, slots=True)
class Touch:
    """A region read (in a version) or written (`version` is the one made by it), and where."""

    region: tuple[Dim, ...]
    path: Path
    version: Version


@dataclass(frozen=True, slots=True)
class View:
    """A variable that is the array or a part of it; `dims` are the array's dimensions it still has (None: unclear)."""

    version: Version
    region: tuple[Dim, ...]
    dims: tuple[int, ...] | None

    def at(self, index: ir.Index) -> View:
        """The view of a part.  Positions within a range are not worked out: the range stands for them."""
        if self.dims is None:
            return self
        region = list(self.region)
        left: list[int] = []
        for k, d in enumerate(self.dims):
            here = index[k] if k < len(index) else None
            if here is not None and region[d] is None:
                region[d] = here
            if here is None or isinstance(here, Range):
                left.append(d)
        return View(self.version, tuple(region), tuple(left))

    def whole(self) -> bool:
        return self.dims == tuple(range(len(self.region))) and all(r is None for r in self.region)


class Unclear(Exception):
    """The array is used in a way that the analysis does not follow."""


class Uses:
    """The reads and writes of one array in the body of a loop."""

    def __init__(self, rank: int, defs: dict[Var, ir.Exp]) -> None:
        self.rank = rank
        self.defs = defs
        self.reads: dict[Touch, None] = {}
        self.writes: list[Touch] = []
        self.time = 0

    def fresh(self, path: Path) -> View:
        self.time += 1
        version = Version(self.time, tuple([p for p in path if isinstance(p, Iterations)]))
        return View(version, (None,) * self.rank, tuple(range(self.rank)))

    def read(self, a: Atom, views: dict[Var, View], path: Path) -> None:
        if isinstance(a, Var) and a in views:
            v = views[a]
            self.reads[Touch(v.region, path, v.version)] = None

    def scope(self, stms: Iterable[ir.Stm], views: dict[Var, View], now: View, path: Path) -> View:
        """Collect what statements do; `now` is the newest version.  Returns the newest after them."""
        for s in stms:
            if any(v in views for v in ir.stm_free(s)):
                now = self.statement(s, views, now, path)
        return now

    def statement(self, s: ir.Stm, views: dict[Var, View], now: View, path: Path) -> View:
        e = s.exp
        match e:
            case ir.Alias() if e.atom in views:
                views[s.pat[0]] = views[e.atom]
            case ir.At() if e.array in views:
                part = views[e.array].at(e.index)
                if part.whole():
                    raise Unclear
                if isinstance(s.pat[0].type, ArrayType):
                    views[s.pat[0]] = part
                else:
                    self.reads[Touch(part.region, path, part.version)] = None
            case ir.Reshape() if e.array in views:
                old = views[e.array]
                views[s.pat[0]] = View(old.version, old.region, None)
            case ir.Rearrange() if e.array in views:
                old = views[e.array]
                dims = None if old.dims is None else tuple([old.dims[i] for i in e.perm])
                views[s.pat[0]] = View(old.version, old.region, dims)
            case ir.Update() if e.array in views:
                self.read(e.value, views, path)
                self.newest(e.array, views, now)
                now = self.fresh(path)
                region = (*e.index, *[None] * (self.rank - len(e.index)))
                self.writes.append(Touch(region, path, now.version))
                views[s.pat[0]] = now
            case ir.If():
                now = self.branches(s, e, views, now, path)
            case ir.Loop():
                now = self.iterations(s, e, views, now, path)
            case ir.Map():
                self.mapped(e, views, now, path)
            case _:
                self.other(e, views, now, path)
        return now

    def newest(self, a: Atom, views: dict[Var, View], now: View) -> None:
        """`a` is to be the newest version, or the array forks."""
        v = views.get(a) if isinstance(a, Var) else None
        if v is None or not NEWEST(v.version == now.version and v.whole()):
            raise Unclear

    def branches(self, s: ir.Stm, e: ir.If, views: dict[Var, View], now: View, path: Path) -> View:
        sides = []
        for lam, holds in ((e.then, True), (e.orelse, False)):
            inner, here = dict(views), (*path, Given(e.cond, holds))
            sides.append((lam, inner, here, self.scope(lam.stms, inner, now, here)))
        changed = any(end.version != now.version for *_, end in sides)
        # If a branch changes the array and it is no result, nobody has the newest version, and the loop ends with none.
        after = self.fresh(path) if changed else now
        for k, v in enumerate(s.pat):
            ends = [inner.get(a) if isinstance(a := lam.result[k], Var) else None for lam, inner, _, _ in sides]
            newest = [
                x is not None and x.whole() and x.version == end.version
                for x, (*_, end) in zip(ends, sides, strict=True)
            ]
            if all(newest):
                views[v] = after
                continue
            if all(x is not None and x.whole() for x in ends):
                raise Unclear
            for lam, inner, here, _ in sides:
                self.read(lam.result[k], inner, here)
        return after

    def iterations(self, s: ir.Stm, e: ir.Loop, views: dict[Var, View], now: View, path: Path) -> View:
        loop = iterations_of(e)
        here = (*path, loop)
        own = e.variables
        inner = dict(views)
        carried = [q for q, a in enumerate(e.inits) if isinstance(a, Var) and a in views and views[a].whole()]
        if len(carried) > 1:
            raise Unclear
        start = self.fresh(here) if carried else now
        for q, a in enumerate(e.inits):
            if q in carried:
                self.newest(a, views, now)
                inner[own[q]] = start
            else:
                self.read(a, views, path)
        end = self.scope(e.body.stms, inner, start, here)
        for q, a in enumerate(e.body.result):
            if q in carried:
                self.newest(a, inner, end)
            else:
                self.read(a, inner, here)
        if not carried:
            if end.version != now.version:
                raise Unclear
            return now
        after = self.fresh(path)
        views[s.pat[carried[0]]] = after
        return after

    def mapped(self, e: ir.Map, views: dict[Var, View], now: View, path: Path) -> None:
        inner = dict(views)
        for a, p in zip(e.arrays, e.lam.params, strict=True):
            if isinstance(a, Var) and a in views:
                v = views[a]
                row = View(v.version, v.region, None if v.dims is None else v.dims[1:])
                inner[p] = row
                if not isinstance(p.type, ArrayType):
                    self.read(p, inner, path)
        self.unchanged(e.lam, inner, now, (*path, *elements_of(e, self.defs)))

    def other(self, e: ir.Exp, views: dict[Var, View], now: View, path: Path) -> None:
        """Any other construct reads the arrays given to it whole; what a scatter makes of one is another array."""
        for a in e.operands():
            self.read(a, views, path)
        for lam in e.lambdas():
            self.unchanged(lam, dict(views), now, path)

    def unchanged(self, lam: ir.Lambda, inner: dict[Var, View], now: View, path: Path) -> None:
        """The reads of a scope that must not change the array."""
        if self.scope(lam.stms, inner, now, path).version != now.version:
            raise Unclear
        for a in lam.result:
            self.read(a, inner, path)


def elements_of(e: ir.Map, defs: dict[Var, ir.Exp]) -> list[Each]:
    """The inputs of a map that count up."""
    iotas = [(p, defs.get(a)) for a, p in zip(e.arrays, e.lam.params, strict=True) if isinstance(a, Var)]
    return [Each(p, d.start, d.count) for p, d in iotas if isinstance(d, ir.Iota) and d.step is ONE]


def iterations_of(e: ir.Loop) -> Iterations:
    """A loop as an enclosing step."""
    own = e.variables
    defs = {s.pat[0]: s.exp for s in e.body.stms if isinstance(s.exp, ir.Op)}
    counters: list[tuple[Var, Atom, int]] = []
    for p, start, r in zip(own, e.inits, e.body.result, strict=True):
        d = defs.get(r) if isinstance(r, Var) else None
        if not isinstance(p.type, Prim) or not p.type.is_integral or d is None or d.op not in ("add", "sub"):
            continue
        x, y = d.args
        if d.op == "add" and y is p:
            x, y = y, x
        if x is p and isinstance(y, Const):
            counters.append((p, start, y.value if d.op == "add" else -y.value))
    if isinstance(e, ir.For):
        return Iterations(e.body.params[0], e.bound, counters)
    return Iterations(Var("iteration", I64), None, counters)


# --- whether two regions meet ------------------------------------------------------------------------------------


class Instance:
    """The variables of a loop's body in one iteration, told apart from those in another.

    Arithmetic on i64 is copied for the instance, anything else is an unknown of its own.
    """

    def __init__(self, ranges: Ranges, inside: set[Var]) -> None:
        self.ranges = ranges
        self.inside = inside
        self.env: dict[Var, Atom] = {}
        self.iterations: set[Var] = set()

    def atom(self, a: Atom) -> Atom:
        if isinstance(a, Const) or a not in self.inside:
            return a
        if a not in self.env:
            e = self.ranges.defs.get(a)
            if type(e) is ir.Op and a.type in (I64, BOOL) and all(x.type in (I64, BOOL) for x in e.args):
                args = tuple([self.atom(x) for x in e.args])
                self.let(a, ir.Op(e.op, args))
            else:
                wide = self.widened(e.args[0]) if type(e) is ir.Op and e.op == "to_i64" else None
                self.env[a] = Var(a.name, a.type) if wide is None else wide
        return self.env[a]

    def widened(self, a: Atom) -> Atom | None:
        """A loop's i32 index, plus constants, as an i64: where the sum wraps it is negative, and no index."""
        if a in self.iterations:
            return self.env[a]
        e = self.ranges.defs.get(a) if isinstance(a, Var) and a.type is I32 else None
        if not isinstance(e, ir.Op) or e.op not in ("add", "sub") or not isinstance(e.args[1], Const):
            return None
        x = self.widened(e.args[0])
        if x is None:
            return None
        out = Var("wide", I64)
        self.ranges.defs[out] = ir.Op(e.op, (x, i64(e.args[1].value)))
        return out

    def let(self, v: Var, e: ir.Exp) -> None:
        self.env[v] = fresh = Var(v.name, I64 if v.type is not BOOL else BOOL)
        self.ranges.defs[fresh] = e

    def enter(self, path: Path, known: dict[Iterations, Var]) -> None:
        """Take note of what encloses a place; `known` are the iterations of loops shared with another instance."""
        for p in path:
            match p:
                case Iterations():
                    iteration = known.setdefault(p, Var("iteration", I64))
                    self.env[p.index] = iteration
                    self.iterations.add(p.index)
                    self.ranges.index(iteration, self.bound(p.bound))
                    for v, start, step in p.counters:
                        if v.type is I64:
                            self.count(v, self.atom(start), step, iteration)
                case Given():
                    self.ranges.assume(self.atom(p.cond), p.holds)
                case Each():
                    k = Var("k", I64)
                    self.ranges.index(k, self.atom(p.count))
                    self.count(p.elem, self.atom(p.start), 1, k)

    def bound(self, a: Atom | None) -> Atom:
        # An unknown bound: of a while loop, or of another type than i64.
        if isinstance(a, Const):
            return i64(a.value)
        return self.atom(a) if a is not None and a.type is I64 else Var("bound", I64)

    def count(self, v: Var, start: Atom, step: int, iteration: Var) -> None:
        """v = start + step * iteration."""
        by: Atom = iteration
        if step != 1:
            by = Var("by", I64)
            self.ranges.defs[by] = ir.Op("mul", (i64(step), iteration))
        if start is ZERO:
            self.env[v] = by
        else:
            self.let(v, ir.Op("add", (start, by)))

    def ends(self, d: Atom | Range) -> tuple[Poly, Poly] | None:
        """The least and the greatest position."""
        poly = self.ranges.poly
        if not isinstance(d, Range):
            if d.type is not I64:
                return None
            p = poly(self.atom(d))
            return p, p
        if not isinstance(d.stride, Const):
            return None
        first = poly(self.atom(d.start))
        count = poly(self.atom(d.count))
        last = dict(first)
        for m, c in [*count.items(), ((), -1)]:
            last[m] = last.get(m, 0) + d.stride.value * c
        return (first, last) if d.stride.value >= 0 else (last, first)


def disjoint(u: Instance, x: Sequence[Dim], v: Instance, y: Sequence[Dim]) -> bool:
    """Whether two regions provably have no element in common."""
    for c, d in zip(x, y, strict=True):
        if c is None or d is None:
            continue
        first, second = u.ends(c), v.ends(d)
        if first is None or second is None:
            continue
        if below(u.ranges, first[1], second[0]) or below(u.ranges, second[1], first[0]):
            return True
        if not isinstance(c, Range) and not isinstance(d, Range) and never_equal(first[0], second[0]):
            return True
    return False


def difference(p: Poly, q: Poly) -> Poly:
    out = dict(p)
    for m, c in q.items():
        out[m] = out.get(m, 0) - c
    return {m: c for m, c in out.items() if c}


def below(ranges: Ranges, p: Poly, q: Poly) -> bool:
    """p < q, provably."""
    return ranges.prove(difference(difference(q, p), {(): 1}))


def never_equal(p: Poly, q: Poly) -> bool:
    """Whether the difference is not 0 whatever the variables, by divisibility."""
    d = difference(p, q)
    constant = d.pop((), 0)
    g = math.gcd(*d.values())
    return constant % g != 0 if g else constant != 0


# --- loops ---------------------------------------------------------------------------------------------------------


@dataclass
class Facts:
    """What is known where a loop stands: definitions, sizes (not negative), and what encloses it."""

    defs: dict[Var, ir.Exp] = field(default_factory=dict)
    sizes: set[Var] = field(default_factory=set)
    path: Path = ()

    def note(self, stms: Iterable[ir.Stm]) -> None:
        """Take in the definitions among the statements, scopes inside included."""
        for s in stms:
            if len(s.pat) == 1 and isinstance(s.exp, ir.Op | ir.Iota):
                self.defs[s.pat[0]] = s.exp
            for lam in s.exp.lambdas():
                self.note(lam.stms)

    def inside(self, *steps: Step) -> Facts:
        """What is known in a scope within."""
        return Facts(self.defs, set(self.sizes), (*self.path, *steps))

    def bound(self, vs: Iterable[Var]) -> None:
        """These variables are in scope, and so their sizes are not negative."""
        for v in vs:
            self.sizes.update([n for n in shape_of(v.type) if isinstance(n, Var)])


def bound_in(lam: ir.Lambda, out: set[Var]) -> set[Var]:
    """`out` with all that is bound in the scope and those in it."""
    out.update(lam.params)
    for s in lam.stms:
        out.update(s.pat)
        for inner in s.exp.lambdas():
            bound_in(inner, out)
    return out


def stays(e: ir.Loop, q: int, facts: Facts) -> bool:
    """Whether loop variable q is an array that the loop changes and the return sweep can read from its result.

    `facts` knows the definitions inside the loop too.
    """
    x = e.body.params[len(e.body.params) - len(e.inits) + q]
    uses = Uses(len(shape_of(x.type)), facts.defs)
    loop = iterations_of(e)
    start = uses.fresh((loop,))
    views = {x: start}
    try:
        end = uses.scope(e.body.stms, views, start, (loop,))
        uses.newest(e.body.result[q], views, end)
    except Unclear:
        return False
    for k, a in enumerate(e.body.result):
        if k != q:
            uses.read(a, views, (loop,))
    if not uses.writes or len(uses.reads) * len(uses.writes) > MAX_PAIRS:
        return False
    inside = bound_in(e.body, {loop.index})
    defs = dict(facts.defs)
    kept = all(_kept(w, r, Facts(defs, facts.sizes, facts.path), inside) for r in uses.reads for w in uses.writes)
    if kept:
        LEGAL.fired()
    return kept


def _kept(w: Touch, r: Touch, facts: Facts, inside: set[Var]) -> bool:
    """Whether the write spares what was read before it."""
    loops = [p for p in w.path if isinstance(p, Iterations)]
    shared = 0
    while shared < min(len(loops), len(r.version.loops)) and loops[shared] is r.version.loops[shared]:
        shared += 1
    if not SAME_ITERATION(w.version.time <= r.version.time or _no_overlap(w, r, loops[:shared], None, facts, inside)):
        return False
    return LATER_ITERATIONS(all(_no_overlap(w, r, loops[:k], loops[k], facts, inside) for k in range(shared)))


def _around(ranges: Ranges, path: Path) -> None:
    """What encloses the loop that is looked at."""
    for p in path:
        match p:
            case Iterations() if p.bound is not None and p.bound.type is I64:
                ranges.index(p.index, p.bound)
            case Given():
                ranges.assume(p.cond, p.holds)
            case Each() if p.start is ZERO:
                ranges.index(p.elem, p.count)


def _no_overlap(
    w: Touch, r: Touch, same: Sequence[Iterations], later: Iterations | None, facts: Facts, inside: set[Var]
) -> bool:
    """Whether the regions are apart in the same iterations of loops `same`, and the write in a later one of `later`."""
    loops = [(p, 0) for p in same]
    return apart(w, r, loops if later is None else [*loops, (later, 1)], facts, inside)


def apart(w: Touch, r: Touch, loops: Sequence[tuple[Iterations, int]], facts: Facts, inside: set[Var]) -> bool:
    """Whether the regions have no element in common where of each of these loops both are in the same iteration (0),
    or the first in a later one (1) or an earlier one (-1).  `inside`: what is bound in the outermost of them."""
    ranges = Ranges(facts.defs, places=True)
    ranges.sizes = facts.sizes
    _around(ranges, facts.path)
    mine = {p: Var("iteration", I64) for p, _ in loops}
    theirs = {p: Var("iteration", I64) if distance else mine[p] for p, distance in loops}
    for p, distance in loops:
        if distance:
            ranges.order(*((theirs[p], mine[p]) if distance > 0 else (mine[p], theirs[p])), 1)
    first, second = Instance(ranges, inside), Instance(ranges, inside)
    first.enter(w.path, mine)
    second.enter(r.path, theirs)
    return disjoint(first, w.region, second, r.region)


__all__ = [
    "MAX_PAIRS", "Each", "Facts", "Given", "Iterations", "Step", "Touch", "Unclear", "Uses", "apart", "bound_in",
    "elements_of", "iterations_of", "stays",
]  # fmt: skip
