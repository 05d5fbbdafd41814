"""Maps around loops that end when their data say so, some iterations at a time, each in a lane under a mask.

    for i: { x = f(i); while p(x): x = g(x); s += h(x) }
  becomes, for i in steps of some lanes,
    { for l: x[l] = f(i + l)
      while some lane is active: for l: { active[l] = p(x[l]); x[l] = active[l] ? g(x[l]) : x[l] }
      for l: s += h(x[l]) }

so that vector lanes have work although each step waits for the one before.  (Predication: Allen, Kennedy, Porterfield
and Warren, "Conversion of Control Dependence to Data Dependence", 1983.)

What an iteration would not have done is done by no lane: a lane that is not active keeps its scalars, reads no memory
of others, but for places that are in their arrays whatever it does (`places.py`), and writes none.  Checks are made for
all lanes together.  Where one fails, or an array that the lanes have for themselves is too large, the block's
iterations are done again one by one, by the loop as it was; nothing that others see has been changed by then.  So
failures are those of the loop as it was.  A block whose lanes are mostly at rest is the last one: the iterations after
it are done one by one, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Set
from dataclasses import replace

from futad.core.scalarops import OPS
from futad.core.types import BOOL, I32, I64
from futad.fires import refused
from futad.imp import ir
from futad.imp.ir import Expr, Load, Num, Ref, Scalar, Stmt, num
from futad.imp.loops.facts import LoopFacts, bisects
from futad.imp.loops.gathers import before_lanes
from futad.imp.loops.if_conversion import can_fail, if_converted
from futad.imp.loops.lockstep import in_step
from futad.imp.loops.places import NO_SIZES, Places, Sizes
from futad.imp.units import unit_of
from futad.imp.walk import has_load, loads_in, parts, refs, rewritten, statements
from futad.legality import Legality

LEGAL = Legality(
    "masked-lanes",
    "iterations of a map around loops of different lengths run together, under masks",
    worth="a barrier option's gradient 9.9 to 6.8 ms: `benchmarks/without.py 'no masked-lanes' barrier`",
)
FOLDS_UNREAD = LEGAL.condition("folds unread", "a lane reads, or overwrites, what others are to fold into an array")
SUMS_UNSEEN = LEGAL.condition("sums unseen", "an iteration reads what earlier ones have reduced")
CHECKED_BEFORE = LEGAL.condition("checked before", "what a block has done is done twice when a check fails")
HARMLESS = LEGAL.condition("harmless at rest", "a lane that is not active reads out of range, or divides by zero")
IN_RANGE = LEGAL.condition("in range for all", "a lane at rest reads a place that is in no array")
SOME_LANE_READS = LEGAL.condition("some lane reads", "lanes at rest read the first element of an array without any")
OWN_MEMORY = LEGAL.condition("memory of its own", "lanes write over what others of the block still read")

LANES = 16  # iterations of a block: two vectors of the widest
LARGEST = 200  # statements of a body; what is larger takes the C compiler too long
MUCH = 8  # cost of an inner loop for which lanes pay
GATHER = 8  # cost of what lanes have to compute for each element that they gather
MEMORY = 1 << 22  # bytes of an array that a lane has for itself
IDLE = 4  # lanes are given up when fewer than one in so many is active


class _Refused(Exception):
    """The body has something that lanes cannot do under masks."""


def masked(
    loop: ir.For, body: list[Stmt], folds: Set[str], name: Callable[[str], str], reassociate: bool, asked: bool = False,
    sizes: Sizes = NO_SIZES,
) -> list[Stmt] | None:  # fmt: skip
    """A map's loop, with this body (`accumulations`), in blocks of lanes.

    None unless it has inner loops of different lengths, and nothing but scalars, arrays of its own and places in memory
    that differ between iterations.  `folds`: pointers to arrays that it folds into.  `name` makes names of variables;
    `reassociate`: whether additions to memory may be made in another order; `asked`: whether it pays or not; `sizes`:
    what is known of arrays.
    """
    inside = [s for s in statements(body) if isinstance(s, (ir.While, ir.For))]
    if loop.step != 1 or not inside:
        return refused("there is no loop inside")
    costs = {waits: sum(_floats(s.body) for s in inside if _waits(s) is waits) for waits in (True, False)}
    reads = sum(len(list(loads_in(t))) for s in inside if _waits(s) for t in s.body)
    search = len(inside) == 1 and _waits(inside[0]) and bisects(inside[0].body)
    least = 0 if search else max(MUCH, GATHER * reads)
    if not asked and costs[True] < max(least, costs[False]):
        return refused("its inner loops compute too little that waits for what came before")
    body = if_converted(body, folds)
    every = list(statements(body))
    if len(every) > LARGEST:
        return refused(f"its body is large: {len(every)} statements, {LARGEST} at most")
    made = Counter(n for s in every for n in s.defines())
    if any(k > 1 for k in made.values()):
        return refused("two variables of its body have one name")
    lanes = _Lanes(loop.var, folds, name, reassociate, frozenset(made), every, sizes)
    try:
        tree = lanes.body(body, None, True)
    except _Refused as e:
        return refused(str(e))
    if not lanes.masks:
        return refused("its inner loops have the same iterations in all lanes")
    LEGAL.fired()
    return lanes.blocks(loop, tree)


class _Lanes:
    """The body of a map for a block of lanes.  A run of statements that a loop over the lanes does is a `Seq`, until
    `loops` makes that loop of it."""

    def __init__(
        self, var: str, folds: Set[str], name: Callable[[str], str], reassociate: bool, made: frozenset[str],
        every: list[Stmt], sizes: Sizes,
    ) -> None:  # fmt: skip
        self.var, self.folds, self.name, self.reassociate, self.made = var, folds, name, reassociate, made
        self.every = every
        self.places = Places(sizes, var, made, frozenset(n for s in every for n in s.assigns()))
        self.starts: dict[str, tuple[Expr, int]] = {}  # what variables begin with, and in how many loops
        self.varying = {var}  # scalars that differ between lanes
        self.arrays: set[str] = set()  # pointers to what an iteration has for itself
        self.moving = {var}  # scalars made from the map's own index: places in rows of its own
        self.types: dict[str, ir.Prim] = {}
        self.words = I64
        self.partials: set[str] = set()
        self.mentioned: set[str] = set()
        self.masks = False
        self.acted = False  # something that others see has been changed
        self.checks = 0
        self.lane = Ref(name("lane"), I64)
        self.first = name("first")
        self.bad = Ref(name("bad"), I64)
        self.good = ir.compare("==", self.bad, ir.ZERO)
        self.active, self.slots = Ref(name("active"), I64), Ref(name("slots"), I64)

    # -- what lanes do

    def body(self, stmts: list[Stmt], mask: Expr | None, sure: bool) -> list[Stmt]:
        """The statements for all lanes in which `mask` holds; `sure`: that is so in at least one of them."""
        out: list[Stmt] = []
        passed = len(self.places.passed)
        for k, s in enumerate(stmts):
            before = self.checks
            out += self.statement(s, mask, sure)
            if self.checks > before and k + 1 < len(stmts):
                out.append(ir.If(self.good, self.body(stmts[k + 1 :], mask, sure), []))
                break
        del self.places.passed[passed:]
        return out

    def statement(self, s: Stmt, mask: Expr | None, sure: bool) -> list[Stmt]:
        for e in s.exprs():
            self.mentioned |= refs(e)
            if any(x.pointer in self.folds for x in loads_in(e)) and not FOLDS_UNREAD(False):
                raise _Refused("an array that it folds into is read")
        match s:
            case ir.Decl(n, t, init, mutable):
                return self.declared(n, t, init, mutable, mask, sure)
            case ir.Assign(n, value):
                return self.assigned(n, value, mask, sure)
            case ir.Accumulate(n, op, value):
                if n in self.made:
                    t = value.type
                    return self.assigned(n, Scalar(op, (Ref(n, t), value), t, t), mask, sure)
                if mask is not None:
                    raise _Refused("a sum of the map is continued under a mask")
                self.partials.add(n)
                self.acted = True
                return [ir.Seq([s])]
            case ir.Store():
                return self.store(s, mask, sure)
            case ir.Check(cond):
                return self.check(cond, mask, sure)
            case ir.Measure():
                self.acted = True
                return [ir.Seq([s if mask is None else ir.If(mask, [s], [])])]
            case ir.While():
                return self.while_(s, mask)
            case ir.For():
                return self.for_(s, mask, sure)
            case ir.If(cond, then, orelse):
                return self.branch(cond, then, orelse, mask, sure)
            case ir.Ensure(slot=slot, count=count) if isinstance(slot, int) and mask is None and not has_load(count):
                return self.ensure(s)
            case ir.Stack(n, _, size):
                self.arrays.add(n)
                return [replace(s, count=size * LANES)]
            case ir.Pointer(n, base=base, offset=offset) if base in self.arrays and offset == ir.ZERO:
                self.arrays.add(n)
                return [s]
        raise _Refused(f"its body has a statement that lanes do not do ({type(s).__name__})")

    def declared(
        self, n: str, t: ir.Prim, init: Expr | None, mutable: bool, mask: Expr | None, sure: bool
    ) -> list[Stmt]:
        if not mutable and init is not None:
            self.places.declare(n, t, init, self.varying)
            if not self.differs(init) and (sure or not (has_load(init) or can_fail(init))):
                return [ir.Decl(n, t, init)]
            if self.moves(init):
                self.moving.add(n)
        if mutable and init is not None:
            self.starts[n] = init, self.depth
        self.varies(n, t)
        init = None if init is None else self.resting(init, mask, sure)
        if init is None or not self.guarded(init, mask, sure):
            return [ir.Seq([ir.Decl(n, t, init, mutable)])]
        assert mask is not None
        guarded = ir.If(mask, [ir.Assign(n, init)], [])
        return [ir.Seq([ir.Decl(n, t, unit_of("add", t) if not t.is_bool else Num(False, BOOL), True), guarded])]

    def assigned(self, n: str, value: Expr, mask: Expr | None, sure: bool) -> list[Stmt]:
        if n not in self.made:
            raise _Refused("it assigns a variable of others")
        if mask is None:
            return [ir.Seq([ir.Assign(n, value)])]
        value = self.resting(value, mask, sure)
        if self.guarded(value, mask, sure):
            return [ir.Seq([ir.If(mask, [ir.Assign(n, value)], [])])]
        t = value.type
        return [ir.Seq([ir.Assign(n, Scalar("select", (mask, value, Ref(n, t)), t, t))])]

    def store(self, s: ir.Store, mask: Expr | None, sure: bool) -> list[Stmt]:
        guarded = mask is not None and any(self.guarded(e, mask, sure) for e in (s.index, s.value))
        if s.pointer in self.arrays:
            alike = not self.differs(s.index)
            if mask is not None and s.op is None and alike and sure and not guarded:
                t = s.value.type
                old = Load(s.pointer, s.index, t)
                return [ir.Seq([replace(s, value=Scalar("select", (mask, s.value, old), t, t))])]
        else:
            self.acted = True
            if s.pointer in self.folds and not FOLDS_UNREAD(s.op is not None):
                raise _Refused("an array that it folds into is overwritten")
            if s.op is None:
                if not OWN_MEMORY(self.moves(s.index)):
                    raise _Refused("all iterations write to one place")
            elif not self.reassociate and s.value.type.is_float:
                raise _Refused("it adds to memory, in another order")
        return [ir.Seq([s if mask is None else ir.If(mask, [s], [])])]

    depth = 0  # inner loops around

    def check(self, cond: Expr, mask: Expr | None, sure: bool) -> list[Stmt]:
        if not CHECKED_BEFORE(not self.acted):
            raise _Refused("it checks after it has changed what others see")
        cond = self.resting(cond, mask, sure)
        if self.guarded(cond, mask, sure):
            raise _Refused("a check under a mask reads memory")
        self.checks += 1
        if mask is None or (sure and not self.differs(cond)):
            self.places.check(cond)
        fails: Expr = Scalar("not", (cond,), BOOL, BOOL)
        if sure and not self.differs(cond):
            return [ir.Assign(self.bad.name, Scalar("or", (self.bad, _one(fails)), I64, I64))]
        fails = fails if mask is None else _both(mask, fails)
        return [ir.Seq([ir.Accumulate(self.bad.name, "or", _one(fails))])]

    def loop(self, inside: list[Stmt], mask: Expr | None, sure: bool) -> list[Stmt]:
        """The body of an inner loop."""
        acted, checks = self.acted, self.checks
        self.depth += 1
        out = self.body(inside, mask, sure)
        self.depth -= 1
        if self.checks > checks and self.acted > acted and not CHECKED_BEFORE(False):
            raise _Refused("an inner loop checks after it has changed what others see")
        return out

    def while_(self, s: ir.While, mask: Expr | None) -> list[Stmt]:
        if has_load(s.cond) or can_fail(s.cond):
            raise _Refused("the condition of a loop reads memory")
        self.masks = True
        go, left = Ref(self.name("go"), BOOL), Ref(self.name("left"), I64)
        self.varies(go.name, BOOL)
        checks = self.checks
        starts = {n: (e, depth == self.depth and self.shared(e)) for n, (e, depth) in self.starts.items()}
        steps = in_step(s, starts, self.varying, self.every, self.name)
        body = self.loop(steps.body, go, True)
        again: Expr = ir.compare("<", ir.ZERO, left)
        if self.checks > checks:
            again = ir.Bin("&&", again, self.good, BOOL)

        def ask(cond: Expr, mask: Expr | None) -> Stmt:
            here = cond if mask is None else _both(mask, cond)
            return ir.Seq([ir.Assign(go.name, here), ir.Accumulate(left.name, "add", _one(go))])

        made: list[Stmt] = [
            *steps.before,
            ir.Decl(left.name, I64, ir.ZERO, mutable=True),
            ir.Seq([ir.Decl(go.name, BOOL, Num(False, BOOL), True)]),
        ]
        count = [
            ir.Assign(self.active.name, _plus(self.active, left)),
            ir.Assign(self.slots.name, _plus(self.slots, num(LANES))),
            ir.Assign(left.name, ir.ZERO),
        ]
        # After a check only where it holds: the loop ends otherwise.
        end = body
        while self.checks > checks and end and isinstance(end[-1], ir.If) and end[-1].cond == self.good:
            end = end[-1].then
        end += [ask(steps.later, go), *steps.end]  # a lane at rest stays so
        if steps.shared is not None:
            end.append(ir.Assign(left.name, Scalar("select", (steps.shared, left, ir.ZERO), I64, I64)))
        return [*made, ask(steps.first, mask), ir.While(again, [*count, *body])]

    def for_(self, s: ir.For, mask: Expr | None, sure: bool) -> list[Stmt]:
        if s.step != 1 or self.differs(s.start):
            raise _Refused("an inner loop starts elsewhere in each lane")
        if not sure and any(has_load(e) or can_fail(e) for e in (s.start, s.bound)):
            raise _Refused("the length of a loop in a branch reads memory, or may fail")
        waits = _waits(s)
        s = replace(s, independent=False, partials=[], map=False, lanes=0)
        if not self.differs(s.bound):
            return [replace(s, body=self.loop(s.body, mask, sure))]
        if has_load(s.bound) or can_fail(s.bound):
            raise _Refused("the length of a loop is read from memory, or may fail")
        self.masks |= waits
        bound, top = Ref(self.name("bound"), I64), Ref(self.name("top"), I64)
        go = Ref(self.name("go"), BOOL)
        self.varies(bound.name, I64)
        self.varies(go.name, BOOL)
        least = s.bound if mask is None else Scalar("select", (mask, s.bound, s.start), I64, I64)
        here = Scalar("max", (bound, s.start), I64, I64)
        before: list[Stmt] = [
            ir.Decl(top.name, I64, s.start, mutable=True),
            ir.Seq(
                [
                    ir.Decl(bound.name, I64, least),
                    ir.Accumulate(top.name, "max", bound),
                    ir.Accumulate(self.active.name, "add", ir.sub(here, s.start)),
                ]
            ),
            ir.Assign(self.slots.name, _plus(self.slots, ir.mul(num(LANES), ir.sub(top, s.start)))),
        ]
        # All that is below the bound has been found active before.
        ask = ir.Seq([ir.Decl(go.name, BOOL, ir.compare("<", Ref(s.var, I64), bound))])
        return [*before, replace(s, bound=top, body=[ask, *self.loop(s.body, go, True)])]

    def branch(self, cond: Expr, then: list[Stmt], orelse: list[Stmt], mask: Expr | None, sure: bool) -> list[Stmt]:
        if not self.differs(cond) and (sure or not (has_load(cond) or can_fail(cond))):
            return [ir.If(cond, self.body(then, mask, sure), self.body(orelse, mask, sure))]
        c = Ref(self.name("c"), BOOL)
        out = self.declared(c.name, BOOL, cond, False, mask, sure)
        for side, holds in ((then, c), (orelse, Scalar("not", (c,), BOOL, BOOL))):
            if side:
                here = Ref(self.name("here"), BOOL)
                self.varies(here.name, BOOL)
                out.append(ir.Seq([ir.Decl(here.name, BOOL, holds if mask is None else _both(mask, holds))]))
                out += self.body(side, here, False)
        return out

    def ensure(self, s: ir.Ensure) -> list[Stmt]:
        """Memory for all lanes, as much for each as one of them needs most."""
        if self.depth:
            raise _Refused("an inner loop has arrays")
        self.arrays.add(s.name)
        count, out = s.count, []
        if self.differs(count):
            top = Ref(self.name("most"), I64)
            most = ir.Accumulate(top.name, "max", count)
            out = [ir.Decl(top.name, I64, ir.ZERO, mutable=True), ir.Seq([most])]
            count = top
        self.checks += 1
        if not CHECKED_BEFORE(not self.acted):
            raise _Refused("it has an array after it has changed what others see")
        large = ir.compare("<", num(MEMORY // max(1, s.elem.bits // 8)), count)
        return [
            *out,
            ir.Assign(self.bad.name, Scalar("or", (self.bad, _one(large)), I64, I64)),
            # None where they are too large.
            replace(s, count=Scalar("select", (large, ir.ZERO, ir.mul(count, num(LANES))), I64, I64)),
        ]

    def varies(self, n: str, t: ir.Prim) -> None:
        self.varying.add(n)
        self.types[n] = t

    def differs(self, e: Expr) -> bool:
        """Whether the expression is another one in each lane."""
        return bool(refs(e) & self.varying) or any(x.pointer in self.arrays for x in loads_in(e))

    def shared(self, e: Expr) -> bool:
        """Whether all lanes compute the same of it, at any time."""
        return not (self.differs(e) or has_load(e))

    def moves(self, e: Expr) -> bool:
        """Whether the expression is made from the map's own index.  An array declared outside that an iteration
        writes at such a place is a result of the map, or an input that it takes the place of."""
        return bool(refs(e) & self.moving)

    def guarded(self, e: Expr, mask: Expr | None, sure: bool) -> bool:
        """Whether only active lanes may compute the expression."""
        if mask is None:
            return False
        loads = [x for x in loads_in(e) if not _rests(x, mask) and not self.in_range(x, sure)]
        return not HARMLESS(not can_fail(e) and not any(self.differs(x.index) or not sure for x in loads))

    def in_range(self, x: Load, sure: bool) -> bool:
        """Whether lanes at rest may read where they would, were they active."""
        known = sure and x.pointer not in self.arrays and x.pointer in self.places.sizes.arrays
        return known and IN_RANGE(self.places.inside(x))

    def resting(self, e: Expr, mask: Expr | None, sure: bool) -> Expr:
        """The expression with lanes at rest reading the first elements of arrays of which some lane reads one."""

        def load(x: Expr) -> Expr:
            if not isinstance(x, Load) or mask is None or not self.differs(x.index) or can_fail(x.index):
                return x
            if self.in_range(x, sure):
                return x
            return replace(x, index=Scalar("and", (x.index, _all_bits(mask)), I64, I64))

        return rewritten(e, load) if mask is not None and has_load(e) and SOME_LANE_READS(sure) else e

    # -- the loops

    def blocks(self, loop: ir.For, tree: list[Stmt]) -> list[Stmt] | None:
        """The loop over the blocks; and over the iterations of those that are done one by one."""
        if not SUMS_UNSEEN(not self.partials & self.mentioned):
            return None
        use, done = Ref(self.name("use"), BOOL), Ref(self.name("done"), BOOL)
        block, end = Ref(self.name("block"), I64), Ref(self.name("end"), I64)
        first = Ref(self.first, I64)
        count = ir.Bin("/", ir.add(ir.sub(loop.bound, loop.start), num(LANES - 1)), num(LANES))
        idle = ir.compare("<", ir.mul(self.active, num(IDLE)), self.slots)
        one_by_one = replace(loop, start=first, bound=end, independent=False)
        in_lanes = [
            ir.Decl(self.bad.name, I64, ir.ZERO, mutable=True),
            ir.Decl(self.active.name, I64, ir.ZERO, mutable=True),
            ir.Decl(self.slots.name, I64, ir.ZERO, mutable=True),
            *self.loops(tree),
            ir.Assign(done.name, self.good),
            ir.If(idle, [ir.Assign(use.name, Num(False, BOOL))], []),
        ]
        full = ir.compare("<=", ir.add(first, num(LANES)), loop.bound)
        least = Scalar("min", (ir.add(first, num(LANES)), loop.bound), I64, I64)
        return [
            ir.Decl(use.name, BOOL, Num(True, BOOL), mutable=True),
            ir.For(
                block.name,
                count,
                [
                    ir.Decl(self.first, I64, ir.add(loop.start, ir.mul(block, num(LANES)))),
                    ir.Decl(end.name, I64, least),
                    ir.Decl(done.name, BOOL, Num(False, BOOL), mutable=True),
                    ir.If(ir.Bin("&&", use, full, BOOL), in_lanes, []),
                    ir.If(Scalar("not", (done,), BOOL, BOOL), [one_by_one], []),
                ],
            ),
        ]

    def loops(self, tree: list[Stmt]) -> list[Stmt]:
        """The tree with its runs joined, and loops over the lanes in place of them."""
        tree = self.joined(tree)
        runs = [s for s in statements(tree) if isinstance(s, ir.Seq)]
        named = Counter(n for run in runs for n in _mentioned(run.body) & self.varying)
        shared = {n for n, k in named.items() if k > 1 and n != self.var and n not in self.places.again}
        arrays = {n: self.name(n.split("_")[0]) for n in sorted(shared)}

        def go(stmts: list[Stmt]) -> list[Stmt]:
            made = ([s.map_bodies(go)] if not isinstance(s, ir.Seq) else self.over_lanes(s.body, arrays) for s in stmts)
            return [s for part in made for s in part]

        self.words = I32 if any(_width(run.body) < 8 for run in runs) else I64
        return [*(ir.Stack(a, self.kept(n), LANES) for n, a in arrays.items()), *go(tree)]

    def joined(self, tree: list[Stmt]) -> list[Stmt]:
        """The tree with runs joined that follow each other.  What is the same for all lanes goes before the run that it
        is in; what a lane does with memory, and under a branch, stays a run of its own."""
        out: list[Stmt] = []
        last: ir.Seq | None = None
        for s in tree:
            if isinstance(s, ir.Seq):
                if last is not None and self.arithmetic(s) and self.arithmetic(last):
                    last.body += s.body
                    continue
                last = ir.Seq(list(s.body))
                out.append(last)
            elif isinstance(s, ir.Decl) and not s.mutable and last is not None and self.arithmetic(last):
                out.insert(next(k for k, x in enumerate(out) if x is last), s)
            else:
                out.append(s.map_bodies(self.joined))
                last = None
        return out

    def arithmetic(self, run: ir.Seq) -> bool:
        """Whether the run only computes scalars of its own, or counts for the block."""
        mine = (ir.Decl, ir.Assign)
        return all(isinstance(s, mine) or (isinstance(s, ir.Accumulate) and self.alone(s)) for s in run.body)

    def kept(self, n: str) -> ir.Prim:
        """The type in which lanes keep a scalar: bools as numbers, of which vectors have as many as of floats."""
        return self.words if self.types[n].is_bool else self.types[n]

    def over_lanes(self, run: list[Stmt], arrays: dict[str, str]) -> list[Stmt]:
        """A loop over the lanes that does the run; `arrays`: where scalars are that other runs use, too."""
        used = _mentioned(run)
        made = {n for s in run for n in s.defines()}
        again = self.places.computed_again(used - made)
        used |= {n for s in again for n in refs(s)}
        changed = {n for s in statements(run) for n in s.assigns()}
        before: list[Stmt] = []
        after: list[Stmt] = []
        if self.var in used:
            before.append(ir.Decl(self.var, I64, ir.add(Ref(self.first, I64), self.lane)))
        before += again
        for n in sorted(used & arrays.keys()):
            t, kept = self.types[n], self.kept(n)
            if n not in made:
                old: Expr = Load(arrays[n], self.lane, kept)
                old = old if kept is t else Scalar("lt", (Num(0, kept), old), kept, t)
                before.append(ir.Decl(n, t, old, mutable=n in changed))
            if n in made or n in changed:
                new: Expr = Ref(n, t)
                new = new if kept is t else Scalar("select", (new, Num(1, kept), Num(0, kept)), kept, kept)
                after.append(ir.Store(arrays[n], self.lane, new))
        body = [*before, *[self.of_lane(s) for s in run], *after]
        if not all(self.alone(s) for s in run):
            return [ir.For(self.lane.name, num(LANES), body)]
        partials = LoopFacts(self.lane.name, run, arrays).partials()
        loop = ir.For(self.lane.name, num(LANES), body, independent=True, partials=partials, lanes=_width(run))
        return before_lanes(loop, self.name)

    def alone(self, s: Stmt) -> bool:
        """Whether a lane does the statement without regard to others, but for what the block itself counts."""
        match s:
            case ir.Store(pointer, op=op):
                return op is None and pointer in self.arrays
            case ir.Accumulate(n):
                return n not in self.partials
            case ir.Measure():
                return False
            case ir.If(_, then):
                return all(self.alone(x) for x in then)
        return True

    def of_lane(self, s: Stmt) -> Stmt:
        """The statement with the lane's elements of arrays that each iteration has for itself."""

        def load(e: Expr) -> Expr:
            if isinstance(e, Load) and e.pointer in self.arrays:
                return Load(e.pointer, self.at(e.index), e.type)
            return e

        s = s.map_exprs(lambda e: rewritten(e, load)).map_bodies(lambda inside: [self.of_lane(x) for x in inside])
        if isinstance(s, ir.Store) and s.pointer in self.arrays:
            return replace(s, index=self.at(s.index))
        return s

    def at(self, index: Expr) -> Expr:
        return ir.add(ir.mul(index, num(LANES)), self.lane)


def _waits(loop: ir.While | ir.For) -> bool:
    """Whether the loop's iterations wait for one another: it is none of a map, a reduction or a scan."""
    return isinstance(loop, ir.While) or not (loop.independent or loop.map)


def _floats(body: list[Stmt]) -> int:
    """The cost of operations on floats, those nested in statements left out."""
    return sum(OPS[x.op].cost for s in body for x in parts(s) if isinstance(x, Scalar) and x.arg.is_float)


def _width(run: list[Stmt]) -> int:
    """The bytes of the smallest number that the statements compute."""
    sizes = [x.type.bits // 8 for s in statements(run) for e in s.exprs() for x in parts(e) if not x.type.is_bool]
    return min(sizes, default=8)


def _mentioned(run: list[Stmt]) -> set[str]:
    """The names that statements mention, those they assign to included."""
    return {n for s in statements(run) for n in (*s.uses(), *s.assigns(), *s.defines())}


def _rests(x: Load, mask: Expr | None) -> bool:
    """Whether lanes at rest read the first element."""
    e = x.index
    return mask is not None and isinstance(e, Scalar) and e.op == "and" and e.args[1] == _all_bits(mask)


def _all_bits(mask: Expr) -> Expr:
    """All bits where the mask holds, none elsewhere.  (Of a choice a C compiler may make a branch around the read.)"""
    return Scalar("neg", (_one(mask),), I64, I64)


def _both(a: Expr, b: Expr) -> Expr:
    return Scalar("and", (a, b), BOOL, BOOL)


def _one(e: Expr) -> Expr:
    return Scalar("select", (e, ir.ONE, ir.ZERO), I64, I64)


def _plus(a: Expr, b: Expr) -> Expr:
    return Scalar("add", (a, b), I64, I64)


__all__ = ["masked"]
