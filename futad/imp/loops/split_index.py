"""Maps whose places are chosen by the iteration, an interval of iterations at a time.

    for i < n: y[i] = f(x[i + 1 < n ? i + 1 : i + 1 - n])
  becomes, for each interval [s, e) on which no choice changes,
    { c = (s + 1 < n ? s + 1 : s + 1 - n) - s; for i in [s, e): y[i] = f(x[i + c]) }

so that places lie side by side and are checked by their first and last, and the loop is done in vector lanes.

Note [Intervals]
~~~~~~~~~~~~~~~~
The choices are comparisons of sums of the iteration and what does not change, their extrema, branches on them, and
remainders; each says from the values at `s` when it changes next.  An addition that is left out where its place is out
of range is such a branch: the return sweep of a sum over neighbours, whose places `annotate` then finds to be side by
side.  Of a branch one side is done in lanes: that which computes more, as the inner places of an image; where the other
one is taken, the loop is done as it was: without lanes where that is by interval, as for pairs of which half are left
out.  A branch that all iterations take alike, as on the first and the last row of an image, is decided before.  Values
that are too large to compare without wrapping, few iterations, small divisors, and places out of range are left to the
loop as it was, too.

Note [Edges]
~~~~~~~~~~~~
Where the branches of the loop as it was can be masks (`guarded_reads.py`), it runs in vector lanes, too, and intervals
are whole vectors: the first and the last elements of a row, where a neighbour is missing, are done with some of those
beside, and the others begin where vectors do, so that few reads and no stores go over the ends of cache lines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import reduce

from futad.core.types import BOOL, I64
from futad.fires import refused
from futad.imp import ir
from futad.imp.ir import ONE, ZERO, Expr, Num, Ref, add, compare, mul, num, sub
from futad.imp.loops.facts import HEAVY, LoopFacts, cost
from futad.imp.loops.vectorise import accumulations, lane_bytes
from futad.imp.walk import has_load, loads_in, refs, rewritten, statements, used
from futad.legality import Legality

LEGAL = Legality(
    "index-set-splitting",
    "a map that chooses its places runs an interval at a time on which no choice changes",
    worth="LBM on one thread: half the time",
)
ONE_SLOPE = LEGAL.condition("one slope", "what is chosen moves in another way on either side")
DIVISOR_FIXED = LEGAL.condition("divisor fixed", "the remainder changes with the divisor")
SIZE_FIXED = LEGAL.condition("size fixed", "a place in range at both ends is not within")
BY_ONE = LEGAL.condition("moves by one", "the choice changes before the iteration that is computed")
LINEAR = LEGAL.condition("linear", "the product of what moves does not move evenly")

SHORTEST = 32  # iterations, and divisors, that are worth it
FEWEST = 12  # of iterations that compute much
SHORT = 96  # iterations that masks are as good for
VECTOR = 64  # bytes of the largest vectors
LARGEST = 1 << 60  # of values that are compared
NEAR = 1 << 50  # of sizes and of what does not change, so that sums of few are not too large
FEW = 16  # such sums
STEEPEST = 8  # of what is added to a place in an iteration


def index_set_split(
    loop: ir.For,
    name: str,
    finish: Callable[[ir.For], list[ir.Stmt]],
    masked: Callable[[ir.For], ir.For | None],
    reassociate: bool = False,
) -> list[ir.Stmt] | None:
    """The map's loop by intervals; None if it chooses no places, or not so.  `finish` is what else is done to a loop;
    `masked` makes a loop that is as it was one for vector lanes, if its branches can be masks (Note [Edges]);
    names of variables begin with `name`.  `reassociate`: whether sums of floats may be taken in another order."""
    if loop.step != 1 or not any(map(_chooses, loop.body)):
        return refused("it chooses no places")
    if isinstance(count := sub(loop.bound, loop.start), Num) and count.value < SHORTEST:
        return refused("it is short")
    work = _Intervals(loop, name, FEWEST if cost(statements(loop.body)) >= HEAVY else SHORTEST)
    fast = work.fast()
    if fast is None:
        return refused("its choices are no comparisons and remainders of sums of the iteration")
    done = finish(fast)
    if not any(isinstance(s, ir.For) and s.independent for s in statements(done)):
        return refused("no interval of it would run in vector lanes")
    plain = replace(loop, body=list(loop.body), start=work.start, bound=work.end)
    edges = masked(plain) if not any(isinstance(s, ir.For) and s.partials for s in statements(done)) else None
    if edges is None:
        alone: list[ir.Stmt] = [replace(plain, body=list(plain.body))]
        others, alone = [_summed_apart(s, name) if reassociate else s for s in (finish(plain), alone)]
        lanes = any(isinstance(s, ir.For) and s.independent for s in statements(others))
        if lanes and any(isinstance(s, ir.If) for s in loop.body):
            others = [ir.If(work.masks(), others, alone)]
        return work.intervals(done, others, 1)
    return work.intervals(done, [edges], VECTOR // lane_bytes(edges.body))


def _summed_apart(stms: list[ir.Stmt], name: str) -> list[ir.Stmt]:
    """The statements with each sum of floats that a loop among them goes on with taken by itself, and added at its end.

    What lives for longer, across calls, a C compiler leaves in memory, where each addition waits for the one before:
    gradient of `adaptive.fut` under a budget 0.26 to 0.19 s (`benchmarks/memory.py adaptive`).
    """
    out: list[ir.Stmt] = []
    for s in stms:
        if not isinstance(s, ir.For) or s.independent or s.partials:
            out.append(s)
            continue
        body = accumulations(s.body)
        own = {n for t in statements(body) for n in t.defines()}
        sums = {p.name: p for p in LoopFacts(s.var, body, own).partials() if p.op == "add" and p.type.is_float}
        if not sums:
            out.append(s)
            continue
        local = {n: f"{n}_{name}" for n in sums}
        body = [replace(t, name=local.get(t.name, t.name)) if isinstance(t, ir.Accumulate) else t for t in body]
        out += [ir.Decl(local[n], p.type, p.unit, mutable=True) for n, p in sums.items()]
        out.append(replace(s, body=body))
        out += [ir.Accumulate(n, "add", Ref(local[n], p.type)) for n, p in sums.items()]
    return out


def _chooses(s: ir.Stmt) -> bool:
    if isinstance(s, ir.If):
        return isinstance(s.cond, Ref) or _guards(s)
    e = s.init if isinstance(s, ir.Decl) else None
    return isinstance(e, ir.Scalar) and e.type is I64 and e.op in ("select", "mod", "div", "min", "max")


def _guards(s: ir.Stmt) -> bool:
    """Whether it is an addition that is left out where its place is out of range."""
    if not isinstance(s, ir.If) or s.orelse or not all(isinstance(t, ir.Store) and t.op is not None for t in s.then):
        return False
    conditions = [s.cond]
    while conditions:
        e = conditions.pop()
        if not isinstance(e, ir.Bin) or e.op not in ("&&", "in_bounds"):
            return False
        if e.op == "&&":
            conditions += (e.left, e.right)
    return True


@dataclass(slots=True)
class _Known:
    """How a variable changes with the iteration on an interval: by `slope` (bools: not at all).  `chosen`: it may do
    so otherwise on the next one; `one`: which value a bool has in single iterations only."""

    slope: int
    chosen: bool
    one: bool | None = None


@dataclass(slots=True)
class _Intervals:
    loop: ir.For
    name: str
    shortest: int
    inits: dict[str, Expr | None] = field(default_factory=dict)
    known: dict[str, _Known | None] = field(default_factory=dict)
    first: list[ir.Stmt] = field(default_factory=list)
    """The values at the interval's first iteration."""
    lengths: list[Expr] = field(default_factory=list)
    """How many iterations it takes until something changes."""
    plain: list[Expr] = field(default_factory=list)
    """When to do the loop as it is."""
    far: dict[Expr, None] = field(default_factory=dict)
    """When to do so whatever the iteration: what is compared may be too large to compute with."""
    good: list[Expr] = field(default_factory=list)
    """When not to, at either end of the interval."""
    offsets: list[ir.Stmt] = field(default_factory=list)
    decided: dict[str, bool] = field(default_factory=dict)
    """Bools with one value wherever the loop is done on an interval."""
    alike: bool = False
    """Whether there is a branch that all iterations of the loop take alike."""
    rows: list[Expr] = field(default_factory=list)
    """Of `good`, the conditions of such branches."""

    @property
    def start(self) -> Ref:
        return Ref(f"{self.name}_start", I64)

    @property
    def short(self) -> Ref:
        return Ref(f"{self.name}_plain", BOOL)

    @property
    def end(self) -> Ref:
        return Ref(f"{self.name}_end", I64)

    # -- what changes how

    def of(self, e: Expr) -> _Known | None:
        """How the expression changes; None: not as described."""
        match e:
            case Num():
                return _Known(0, False)
            case Ref(name):
                if name == self.loop.var:
                    return _Known(1, False)
                return self.variable(name) if name in self.inits else _Known(0, False)
            case ir.Bin("+" | "-" | "*" as op, a, b):
                return self.sum({"+": "add", "-": "sub", "*": "mul"}[op], a, b)
            case ir.Bin("in_bounds", a, b):
                low, high = self.compared("le", ZERO, a), self.compared("lt", a, b)
                return low and high and _Known(0, low.chosen or high.chosen)
            case ir.Bin("&&", a, b):
                return self.all((a, b))
            case ir.Scalar("add" | "sub" | "mul" as op, (a, b), t) if t is I64:
                return self.sum(op, a, b)
            case ir.Scalar("lt" | "le" | "eq" | "ne" as op, (a, b), t) if t is I64:
                return self.compared(op, a, b)
            case ir.Scalar("not", (a,), t) if t.is_bool:
                inner = self.of(a)
                return inner and replace(inner, one=None if inner.one is None else not inner.one)
            case ir.Scalar("and" | "or", args, t) if t.is_bool:
                return self.all(args)
            case ir.Scalar("mod" | "div", (a, b), t) if t is I64:
                return self.divided(e, a, b)
            case ir.Scalar("min" | "max" as op, (a, b), t) if t is I64:
                return self.extremum(op, a, b)
            case ir.Scalar("select", (c, a, b), t) if t is I64 or t.is_bool:
                return self.selected(c, a, b)
        return None

    def variable(self, name: str) -> _Known | None:
        """How a variable of the body changes; adds its first value if that is known."""
        if name not in self.known:
            init = self.inits[name]
            found = None if init is None else self.of(init)
            self.known[name] = found
            if found is not None:
                assert init is not None
                self.first.append(ir.Decl(f"{name}_{self.name}", init.type, self.at_start(init)))
        return self.known[name]

    def at_start(self, e: Expr) -> Expr:
        """The expression's value in the interval's first iteration."""

        def first(x: Expr) -> Expr:
            match x:
                case Ref(name) if name == self.loop.var:
                    return self.start
                case Ref(name, t) if name in self.inits:
                    return Ref(f"{name}_{self.name}", t)
                case ir.Scalar("mod" | "div" as op, (a, b), t):
                    return ir.Scalar(op, (a, _i64("max", b, ONE)), t, t)
            return x

        return rewritten(e, first)

    def sum(self, op: str, a: Expr, b: Expr) -> _Known | None:
        left, right = self.of(a), self.of(b)
        if left is None or right is None:
            return None
        if op == "mul":
            if isinstance(a, Num):
                slope = int(a.value) * right.slope
            elif isinstance(b, Num):
                slope = left.slope * int(b.value)
            elif not LINEAR(not left.slope and not right.slope):
                return None
            else:
                slope = 0
        else:
            slope = left.slope + (right.slope if op == "add" else -right.slope)
        return _Known(slope, left.chosen or right.chosen) if abs(slope) <= STEEPEST else None

    def all(self, parts: tuple[Expr, ...]) -> _Known | None:
        found = [self.of(p) for p in parts]
        return _Known(0, any(k.chosen for k in found if k)) if all(found) else None

    def compared(self, op: str, a: Expr, b: Expr) -> _Known | None:
        left, right = self.of(a), self.of(b)
        if left is None or right is None:
            return None
        slope = left.slope - right.slope
        if slope == 0:
            return _Known(0, left.chosen or right.chosen)
        if not BY_ONE(abs(slope) == 1):
            return None
        x, y = self.at_start(a), self.at_start(b)
        self.limit(a, x)
        self.limit(b, y)
        # After so many iterations they are equal.
        rest = _i64("sub", y, x) if slope > 0 else _i64("sub", x, y)
        if op in ("eq", "ne"):
            self.changes(rest)
            self.changes(_i64("add", rest, ONE))
            return _Known(0, True, op == "eq")
        self.changes(rest if (op == "lt") == (slope > 0) else _i64("add", rest, ONE))
        return _Known(0, True)

    def limit(self, e: Expr, value: Expr) -> None:
        """The loop is done as it is if the expression, in its first iteration this value, is too large to compute with:
        as is seen before the loop where it is a sum of few terms that are small by themselves."""
        terms = self.terms(e)
        if terms is not None and len(terms) <= FEW:
            for x in terms:
                if not isinstance(x, Num):
                    self.far |= dict.fromkeys([compare("<=", num(NEAR), x), compare("<=", x, num(-NEAR))])
        else:
            self.plain += [compare("<=", num(LARGEST), value), compare("<=", value, num(-LARGEST))]

    def terms(self, e: Expr) -> list[Expr] | None:
        """What does not change with the iteration, and is together at least as large as the expression in absolute
        value; None if that is not known."""
        match e:
            case Num(value):
                return [e] if abs(value) < NEAR else None
            case Ref(self.loop.var):
                return [self.loop.start, self.loop.bound]
            case Ref(name) if name in self.inits:
                return None if (init := self.inits[name]) is None else self.terms(init)
            case ir.Bin("+" | "-", a, b) | ir.Scalar("add" | "sub" | "min" | "max", (a, b)):
                return self.both(a, b)
            case ir.Scalar("select", (_, a, b)):
                return self.both(a, b)
            case ir.Scalar("mod", (_, b)):
                return self.terms(b)
        if {self.loop.var, *self.inits} & refs(e) or has_load(e):
            return None
        return [e]

    def both(self, a: Expr, b: Expr) -> list[Expr] | None:
        x, y = self.terms(a), self.terms(b)
        return None if x is None or y is None else x + y

    def changes(self, rest: Expr) -> None:
        """Something changes `rest` iterations after the first, or did so before."""
        self.lengths.append(ir.Scalar("select", (compare("<", ZERO, rest), rest, num(LARGEST)), I64, I64))

    def divided(self, e: Expr, a: Expr, b: Expr) -> _Known | None:
        left, right = self.of(a), self.of(b)
        assert isinstance(e, ir.Scalar)
        if (
            left is None
            or right is None
            or abs(left.slope) > 1
            or not DIVISOR_FIXED(not right.slope and not right.chosen)
        ):
            return None
        if left.slope:
            by, value = self.at_start(b), self.at_start(a)
            self.plain.append(compare("<", by, num(self.shortest)))
            self.limit(a, value)
            rest = _i64("mod", value, _i64("max", by, ONE))
            self.lengths.append(sub(by, rest) if left.slope > 0 else add(rest, ONE))
        slope = left.slope if e.op == "mod" else 0
        return _Known(slope, left.chosen or left.slope != 0)

    def selected(self, c: Expr, a: Expr, b: Expr) -> _Known | None:
        which, left, right = self.of(c), self.of(a), self.of(b)
        if which is None or left is None or right is None:
            return None
        slope = left.slope
        if not ONE_SLOPE(left.slope == right.slope):
            # What is chosen in a single iteration has no slope.
            if which.one is None:
                return None
            slope = right.slope if which.one else left.slope
        return _Known(slope, which.chosen or left.chosen or right.chosen)

    def extremum(self, op: str, a: Expr, b: Expr) -> _Known | None:
        """The lesser or greater of two.  If one of them moves, it is that one where the loop is not done as it was."""
        left, right = self.of(a), self.of(b)
        if left is None or right is None:
            return None
        if not left.slope and not right.slope:
            return _Known(0, left.chosen or right.chosen)
        if left.slope and right.slope:
            return None
        moves, stays = (a, b) if left.slope else (b, a)
        order = (moves, stays) if op == "min" else (stays, moves)
        if self.compared("le", *order) is None:
            return None
        self.good.append(self.at_start(ir.Scalar("le", order, I64, BOOL)))
        return _Known(left.slope + right.slope, True)

    # -- the loop on an interval

    def fast(self) -> ir.For | None:
        """The loop on an interval where all places are in range; None if it has no such form."""
        loop = self.loop
        for s in loop.body:
            if isinstance(s, ir.Decl):
                self.inits[s.name] = None if s.mutable else s.init
        places: list[Expr] = []
        body: list[ir.Stmt] = []
        if not self.straight(loop.body, body, places):
            return None
        for s in body:
            places += [x.index for x in loads_in(s)]
            if isinstance(s, ir.Store):
                places.append(s.index)
        if not self.alike and not any(self.is_chosen(e) for e in places) and not any(map(_guards, loop.body)):
            return None
        new = [self.moved(s) for s in body if not self.replaced(s)]
        return replace(loop, body=used(new), start=self.start, bound=self.end)

    def straight(self, stms: list[ir.Stmt], body: list[ir.Stmt], places: list[Expr]) -> bool:
        """Add to `body` what is done on an interval, and to `places` its conditions; whether that is known.  Of a
        branch the side that does something is done, and variables to which both give a value have that side's."""
        pending = {s.name: s for s in stms if isinstance(s, ir.Decl) and s.mutable and s.init is None}
        for s in stms:
            match s:
                case ir.Decl(name):
                    if name not in pending:
                        self.variable(name)
                        body.append(s)
                case ir.Check(cond):
                    places.append(cond)
                    if not self.holds(cond):
                        body.append(s)
                case ir.If(cond, then, orelse):
                    places.append(cond)
                    side, before = self.side(cond, then, orelse), len(self.good)
                    if not (self.holds(cond) if side else self.fails(cond)):
                        return False
                    if self.of(cond) == _Known(0, False):
                        self.rows += self.good[before:]
                    inside = then if side else orelse
                    self.inits |= {t.name: None if t.mutable else t.init for t in inside if isinstance(t, ir.Decl)}
                    given: list[ir.Stmt] = []
                    for t in inside:
                        if isinstance(t, ir.Assign) and (whole := pending.pop(t.name, None)) is not None:
                            given.append(ir.Decl(t.name, whole.type, t.value))
                        else:
                            given.append(t)
                    if not self.straight(given, body, places):
                        return False
                case ir.Store() | ir.Assign() | ir.Accumulate():
                    body.append(s)
                case _:
                    return False
        return not pending

    def side(self, cond: Expr, then: list[ir.Stmt], orelse: list[ir.Stmt]) -> bool:
        """Which side of a branch is done in lanes, True for the first: the one that is not for single iterations, or
        else computes more, or reads at places that move."""
        known = self.of(cond)
        if known is not None and known.one is not None:
            return not known.one
        self.alike |= known == _Known(0, False)
        return self.work(then) >= self.work(orelse)

    def work(self, side: list[ir.Stmt]) -> tuple[int, int]:
        """What a side of a branch computes, and stores; and how many of its reads move with the iteration."""
        moves = {self.loop.var, *self.inits}
        here = cost(statements(side)) + sum(not isinstance(s, ir.Decl | ir.Assign) for s in statements(side))
        return here, sum(bool(refs(x.index) & moves) for s in statements(side) for x in loads_in(s))

    def fails(self, cond: Expr) -> bool:
        """Note when a condition does not hold on all of an interval, if that is seen from its start."""
        if self.of(cond) is None:
            return False
        self.good.append(ir.Scalar("not", (self.at_start(cond),), BOOL, BOOL))
        self.decide(cond, False)
        return True

    def decide(self, cond: Expr, value: bool) -> None:
        """Note a condition's value, if that is a variable's."""
        if isinstance(cond, ir.Scalar) and cond.op == "not":
            self.decide(cond.args[0], not value)
        elif isinstance(cond, Ref) and cond.type is BOOL:
            self.decided[cond.name] = value

    def is_chosen(self, e: Expr) -> bool:
        return any((k := self.known.get(name)) is not None and k.chosen for name in refs(e))

    def holds(self, cond: Expr) -> bool:
        """Note when a condition holds on all of an interval, if that is seen from its ends."""
        match cond:
            case ir.Bin("&&", a, b):
                return self.holds(a) and self.holds(b)
            case ir.Bin("in_bounds", index, size):
                here, there = self.of(index), self.of(size)
                if here is None or there is None or not SIZE_FIXED(not there.slope):
                    return False
                first, bound = self.at_start(index), self.at_start(size)
                self.good.append(ir.Bin("in_bounds", first, bound, BOOL))
                if here.slope:
                    steps = mul(sub(sub(self.end, ONE), self.start), num(here.slope))
                    self.good.append(ir.Bin("in_bounds", _i64("add", first, steps), bound, BOOL))
                return True
        if self.of(cond) is None:
            return False
        # Where it changes the next interval begins, so the first iteration's value is that of all.
        self.good.append(self.at_start(cond))
        self.decide(cond, True)
        return True

    def as_sum(self, name: str) -> _Known | None:
        """How a variable changes that is done as a sum of the iteration and what is fixed on an interval: what is
        chosen, and sums that wrap around, of which a C compiler does not see that places lie side by side."""
        known = self.known.get(name)
        return known if known is not None and (known.chosen or isinstance(self.inits[name], ir.Scalar)) else None

    def replaced(self, s: ir.Stmt) -> bool:
        """Whether the statement declares what is a sum on each interval; declares the other term."""
        if not isinstance(s, ir.Decl):
            return False
        known = self.as_sum(s.name)
        if known is None:
            return False
        if known.slope:
            first = Ref(f"{s.name}_{self.name}", I64)
            self.limit(Ref(s.name, I64), first)
            there = sub(first, mul(self.start, num(known.slope)))
            self.offsets.append(ir.Decl(f"{s.name}_{self.name}_off", I64, there))
        return True

    def moved(self, s: ir.Stmt) -> ir.Stmt:
        """The statement with sums in place of what is chosen."""
        return s.map_exprs(lambda e: rewritten(e, self.on_interval))

    def on_interval(self, e: Expr) -> Expr:
        if isinstance(e, Ref) and e.name in self.decided:
            return Num(self.decided[e.name], BOOL)
        if isinstance(e, ir.Scalar) and e.op == "select" and isinstance(e.args[0], Num):
            return e.args[1] if e.args[0].value else e.args[2]
        if not isinstance(e, Ref) or (known := self.as_sum(e.name)) is None:
            return e
        first = f"{e.name}_{self.name}"
        if not known.slope:
            return Ref(first, e.type)
        return add(mul(Ref(self.loop.var, I64), num(known.slope)), Ref(f"{first}_off", I64))

    # -- all of it

    def masks(self) -> Expr:
        """Whether an interval on which the loop is as it was is for lanes that compute both sides of branches.  Not
        where one side is taken by all of it, and the rest of the row takes the other one."""
        return reduce(lambda a, b: ir.Bin("||", a, b, BOOL), [self.short, *map(_not, dict.fromkeys(self.rows))])

    def intervals(self, fast: list[ir.Stmt], plain: list[ir.Stmt], unit: int) -> list[ir.Stmt]:
        """Interval after interval, each by one of the two loops, in whole units but for the last one."""
        start, end, bound = self.start, self.end, self.loop.bound
        short, ok = self.short, Ref(f"{self.name}_ok", BOOL)
        length = Ref(f"{self.name}_length", I64)
        left = sub(bound, start)
        body = list(self.first)
        least = num(self.shortest if unit == 1 else SHORT)
        far = Ref(f"{self.name}_far", BOOL)
        few = compare("<", left, least)
        either = ir.Scalar("or", (few, far), BOOL, BOOL) if self.far else few
        body.append(ir.Decl(short.name, BOOL, either, mutable=True))
        body += [ir.Accumulate(short.name, "or", e) for e in dict.fromkeys(self.plain)]
        body.append(ir.Decl(length.name, I64, left, mutable=True))
        body += [ir.Accumulate(length.name, "min", e) for e in dict.fromkeys(self.lengths)]
        good: Expr = ir.Scalar("not", (short,), BOOL, BOOL)
        last: Expr = add(start, length)
        if unit > 1:
            whole, edge = Ref(f"{self.name}_whole", I64), Ref(f"{self.name}_edge", BOOL)
            units = mul(ir.Bin("/", length, num(unit)), num(unit))
            body.append(
                ir.Decl(whole.name, I64, ir.Scalar("select", (compare("<", length, left), units, left), I64, I64))
            )
            body.append(ir.Decl(edge.name, BOOL, compare("<", whole, ONE)))
            last = ir.Scalar("select", (edge, _i64("min", bound, add(start, num(unit))), add(start, whole)), I64, I64)
            good = ir.Scalar("not", (ir.Scalar("or", (short, edge), BOOL, BOOL),), BOOL, BOOL)
        body.append(ir.Decl(end.name, I64, ir.Scalar("select", (short, bound, last), I64, I64)))
        body.append(ir.Decl(ok.name, BOOL, good, mutable=True))
        body += [ir.Accumulate(ok.name, "and", e) for e in dict.fromkeys(self.good)]
        body.append(ir.If(ok, [*self.offsets, *fast], plain))
        body.append(ir.Assign(start.name, end))
        before: list[ir.Stmt] = [ir.Decl(start.name, I64, self.loop.start, mutable=True)]
        if self.far:
            any_far = reduce(lambda a, b: ir.Scalar("or", (a, b), BOOL, BOOL), self.far)
            before.append(ir.Decl(far.name, BOOL, any_far))
        return [*before, ir.While(compare("<", start, bound), body)]


def _not(e: Expr) -> Expr:
    return ir.Scalar("not", (e,), BOOL, BOOL)


def _i64(op: str, a: Expr, b: Expr) -> Expr:
    return ir.Scalar(op, (a, b), I64, I64)
