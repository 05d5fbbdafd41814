"""Loops of the host that are narrow: how much they do in an iteration, from sizes alone.

Note [One block]
~~~~~~~~~~~~~~~~
A loop that the host runs takes a launch or more for each statement of each iteration, however little that does.  A
block that runs the whole loop takes a barrier instead, and what the loop decides by costs nothing, where the host has
to read it.  But a block is one of some hundred: what is wide it does slowly.  So it gets a loop if its iterations'
work, counted in elements, is no more than `ONE_BLOCK` for each launch that it saves.  That is what a block does in
about the time of one; how many iterations there are then does not matter.

Work is a sum of products of sizes, one for each parallel construct: its own width times what each element does one
after the other, and no less than what `LEAST_WIDTH` elements would.  A loop inside counts as one iteration, and the
launches are those of the level of the nest that has the fewest: then each level by itself is within the bound.  A loop
inside in which nothing is parallel is a launch and no work: it is one thread's in any case.

Every size must be one that the host knows, or bounded by such: `i < n` for the counter of a loop to n, a part of a
dimension is no longer than that is.  A size that nothing bounds, what is done by one thread alone (sorts), loops in
elements that stop by a condition, and calls leave the loop to the host.  The bounds are what lowering makes room for
where an array's size changes from iteration to iteration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from futad.core import ir
from futad.core.construct import statements
from futad.core.ir import Lambda, Stm
from futad.core.node import Range
from futad.core.scalarops import OPS
from futad.core.types import I64, AccType, ArrayType, Atom, Const, Prim, Type, Var, shape_of
from futad.flatten.fission import wide
from futad.flatten.known import known_on_host
from futad.flatten.levels import levels_of
from futad.flatten.sequential import parallel_inside, works
from futad.legality import Legality

LEGAL = Legality("one-block", "a loop of the host is run whole by one block of a device")
ALIKE = LEGAL.condition("variables regular", "memory for a variable is had once, and its size may grow")

LEAST_WIDTH = 64  # elements that are worth as much as one: a warp or two work at a time
HEAVY = 10  # cost that counts as an element of its own
ATOMIC = 4  # elements that an update of an accumulator counts as
LANES = 32  # threads that do a row together where rows are few
MOST_TERMS = 64  # of a size's bound, and of the work
FEW = 8  # elements that are no work for a warp
ALWAYS = 512  # elements a launch up to which no sizes need be asked

Sum = tuple[ir.Atoms, ...]
"""A sum of products of sizes."""


class Unbounded(Exception):
    """A loop is more than can be bounded, or it has what a block does not do."""


@dataclass(slots=True)
class Narrow:
    """What a loop does in an iteration: `work`, and the launches that it takes else, at least on each level.  `widths`:
    of what is parallel, in threads.  `bounds`: of the sizes that iterations compute, each the largest of these."""

    work: list[ir.Atoms] = field(default_factory=list)
    widths: list[Sum] = field(default_factory=list)
    launches: list[int] = field(default_factory=list)
    bounds: dict[Var, list[Sum]] = field(default_factory=dict)

    @property
    def fewest(self) -> int:
        return max(1, min([n for n in self.launches if n], default=1))

    def constant(self) -> int | None:
        """The work, if that is a constant."""
        total = 0
        for term in self.work:
            product = 1
            for a in term:
                if not isinstance(a, Const):
                    return None
                product *= int(a.value)
            total += product
        return total


def narrow(s: Stm, program: ir.Program) -> Narrow | None:
    """What a loop does in an iteration, None if that is not bounded by what the host knows."""
    made = _Bounds(program, known_on_host(ir.Program({"": ir.Fun("", Lambda((), (s,), ()), 0, ())})))
    try:
        made.loop(s)
    except Unbounded:
        return None
    out = made.out
    out.work = list(_merged(out.work))
    out.widths = list(dict.fromkeys([_merged(w) for w in out.widths]))
    return out if max(len(out.work), len(out.widths)) <= MOST_TERMS else None


def _merged(terms: Sequence[ir.Atoms]) -> Sum:
    """The same sum with each product of variables once: its coefficient first, variables as they come."""
    order: dict[Var, int] = {}
    found: dict[ir.Atoms, int] = {}
    for term in terms:
        coefficient = 1
        vars_: list[Var] = []
        for a in term:
            if isinstance(a, Var):
                order.setdefault(a, len(order))
                vars_.append(a)
            else:
                coefficient *= int(a.value)
        key = tuple(sorted(vars_, key=order.__getitem__))
        found[key] = found.get(key, 0) + coefficient
    return tuple([(Const(I64, n), *key) for key, n in found.items() if n])


@dataclass(slots=True)
class _Bounds:
    """Walks a loop.  `inside`: what is bound in it.  `upper`: bounds of sizes, where the walk is; `natural`: what is
    known not to be negative; `counters`: how many iterations the loops have that they count."""

    program: ir.Program
    known: set[Var]
    out: Narrow = field(default_factory=Narrow)
    inside: set[Var] = field(default_factory=set)
    upper: dict[Var, Sum] = field(default_factory=dict)
    natural: set[Var] = field(default_factory=set)
    counters: dict[Atom, Atom] = field(default_factory=dict)

    # -- sizes

    def bound(self, a: Atom) -> Sum | None:
        """A bound of an integer."""
        if isinstance(a, Const):
            return ((Const(I64, max(0, int(a.value))),),) if a.type is not None else None
        if a in self.inside:
            return self.upper.get(a)
        return ((a,),) if a in self.known and a.type is I64 else None

    def size(self, a: Atom) -> Sum:
        """A bound of what an array has elements, or a construct width.  Raises Unbounded."""
        found = self.bound(a)
        if found is None:
            raise Unbounded
        if isinstance(a, Var) and a in self.inside:
            seen = self.out.bounds.setdefault(a, [])
            if found not in seen:
                seen.append(found)
        return found

    def not_negative(self, a: Atom) -> bool:
        return a.value >= 0 if isinstance(a, Const) else a in self.natural or (a in self.known and a not in self.inside)

    def computed(self, v: Var, e: ir.Op) -> None:
        """What an operation says of an integer."""
        if not isinstance(v.type, Prim) or not v.type.is_integral:
            return
        bounds = [self.bound(a) for a in e.args]
        natural = all(self.not_negative(a) for a in e.args)
        match e.op, bounds:
            case "to_i64", [x]:
                made = x
            case "add", [x, y] if x is not None and y is not None:
                made = (*x, *y)
            case "sub", [_, x] if self.counts_down(*e.args):
                made, natural = x, True
            case "sub", [x, _] if self.not_negative(e.args[1]):
                made, natural = x, False
            case "mul", [x, y] if x is not None and y is not None and natural:
                made = _product(x, y)
            case "min", [x, y]:
                made = x if x is not None else y
            case "max", [x, y] if x is not None and y is not None and natural:
                made = (*x, *y)
            case _:
                return
        if made is not None and len(made) <= MOST_TERMS:
            self.upper[v] = made
        if natural:
            self.natural.add(v)

    def counts_down(self, last: Atom, i: Atom) -> bool:
        """Whether `last - i` is the number of a return sweep's iteration: i counts the n of a loop, `last` is n - 1."""
        n = self.counters.get(i)
        if n is None:
            return False
        if isinstance(n, Const) or isinstance(last, Const):
            return isinstance(n, Const) and isinstance(last, Const) and last.value == n.value - 1
        every = (s for f in self.program.funs.values() for s in statements(f.body.stms))
        made = next((s.exp for s in every if s.pat == (last,)), None)
        return isinstance(made, ir.Op) and made.op == "sub" and made.args == (n, Const(I64, 1))

    def part(self, array: Atom, index: Sequence[object]) -> None:
        """What a part of an array that is there says of sizes."""
        for i, n in zip(index, shape_of(array.type), strict=False):
            if not isinstance(i, Range) or not isinstance(i.count, Var) or i.count not in self.inside:
                continue
            whole = self.bound(n)
            if i.count not in self.upper and whole is not None and isinstance(i.stride, Const) and i.stride.value != 0:
                self.upper[i.count] = whole

    # -- work

    def add(self, width: Sum, inside: Sum = ((),), together: bool = False) -> None:
        """A construct: elements, and what each does one after the other (`together`: by several threads)."""
        self.out.widths.append(_product(((Const(I64, LANES),),), width) if together else width)
        each = (Const(I64, LEAST_WIDTH // LANES if together else LEAST_WIDTH),)
        self.out.work += [*_product(width, inside), *_product((each,), inside)]
        if len(self.out.work) > MOST_TERMS * MOST_TERMS:
            raise Unbounded

    def shape(self, t: Type) -> Sum:
        out: Sum = ((),)
        for n in shape_of(t):
            out = _product(out, self.size(n))
        return out

    def loop(self, s: Stm) -> None:
        e = s.exp
        assert isinstance(e, ir.Loop)
        _alike(e, s.pat)
        if isinstance(e, ir.For):
            self.counter(e)
        level = len(self.out.launches)
        self.out.launches.append(0)
        self.scope(e.body, level)

    def counter(self, e: ir.For) -> None:
        i = e.body.params[0]
        self.natural.add(i)
        self.counters[i] = e.bound
        bound = self.bound(e.bound)
        if bound is not None:
            self.upper[i] = bound

    def scope(self, lam: Lambda, level: int) -> None:
        """A scope of the block."""
        before, natural = dict(self.upper), set(self.natural)
        self.inside.update(lam.params)
        for s in lam.stms:
            self.statement(s, level)
            self.inside.update(s.pat)
        self.upper, self.natural = before, natural

    def statement(self, s: Stm, level: int) -> None:
        e = s.exp
        launches = self.out.launches
        for v in s.pat:
            for n in () if isinstance(v.type, AccType) else shape_of(v.type):
                if n in self.inside and not isinstance(e, ir.At):
                    self.size(n)
        match e:
            case ir.Loop():
                if parallel_inside(e.body, self.program):
                    self.loop(s)
                else:  # one thread's, here as there
                    _alike(e, s.pat)
                    launches[level] += works(e.body)
                return
            case ir.If():
                for lam in e.lambdas():
                    self.scope(lam, level)
                return
            case ir.WithAcc():
                for a in e.arrays:
                    self.add(self.shape(a.type))
                launches[level] += 1
                self.scope(e.lam, level)
                return
            case ir.Op():
                self.inside.update(s.pat)
                self.computed(s.pat[0], e)
                return
            case ir.Alias(a):
                self.alias(s.pat[0], a)
                return
            case ir.At(a, index):
                self.part(a, index)
                self.shape(s.pat[0].type)
                launches[level] += isinstance(s.pat[0].type, Prim)
                return
            case ir.Rearrange() | ir.Reshape() | ir.Iota() | ir.Replicate() | ir.Assert() | ir.Scratch() | ir.Measure():
                return
            case ir.Update():
                self.add(self.shape(e.value.type))
            case ir.UpdateAcc():
                self.add(self.shape(e.value.type))
            case ir.Copy() | ir.Concat() | ir.ArrayLit():
                self.add(self.shape(s.pat[0].type))
            case ir.MatMul():
                (m, k), (_, n) = shape_of(e.a.type), shape_of(e.b.type)
                self.add(_product(self.size(m), self.size(n)), self.size(k))
            case ir.Screma():
                self.screma(e)
                launches[level] += isinstance(e, ir.Fused) and wide(e.lam)  # a map, then folds (`fission.split`)
            case ir.Scatter():
                self.add(self.shape(e.values[0].type))
            case ir.Hist():
                self.add(self.shape(e.values[0].type))
            case _:
                raise Unbounded
        launches[level] += 1

    def alias(self, v: Var, a: Atom) -> None:
        bound = self.bound(a)
        if bound is not None:
            self.upper[v] = bound
        if isinstance(v.type, Prim) and v.type.is_integral and self.not_negative(a):
            self.natural.add(v)

    def screma(self, e: ir.Screma) -> None:
        """A map with folds: the nest's space, and what a point does."""
        width = self.size(e.width)
        lam = e.mapper
        if isinstance(e, ir.Map):
            nest = levels_of(e.lam)
            for m in nest.maps:
                width = _product(width, self.size(m.width))
            lam = nest.body
        rows: Sum = ((),)
        for f in e.folds:
            for a in f.neutral:
                if isinstance(a.type, ArrayType):
                    raise Unbounded  # no block folds arrays
        self.add(width, rows if lam is None else self.element(lam), lam is not None and by_warps(lam))

    def element(self, lam: Lambda) -> Sum:
        """What an element does, one after the other."""
        total: Sum = ((),)
        before, natural = dict(self.upper), set(self.natural)
        self.inside.update(lam.params)
        for s in lam.stms:
            total = (*total, *self.inner(s))
            self.inside.update(s.pat)
            if len(total) > MOST_TERMS:
                raise Unbounded
        self.upper, self.natural = before, natural
        return total

    def inner(self, s: Stm) -> Sum:
        e = s.exp
        match e:
            case ir.Op():
                self.inside.update(s.pat)
                self.computed(s.pat[0], e)
                cost = OPS[e.op].cost
                return ((Const(I64, cost // HEAVY),),) if cost >= HEAVY else ()
            case ir.At(a, index):
                self.part(a, index)
                return ()
            case ir.Alias(a):
                self.alias(s.pat[0], a)
                return ()
            case ir.Screma():
                for f in e.folds:
                    if any(isinstance(a.type, ArrayType) for a in f.neutral):
                        raise Unbounded
                lam = e.mapper
                return _product(self.size(e.width), ((),) if lam is None else self.element(lam))
            case ir.For():
                self.counter(e)
                return _product(self.count(e.bound), self.element(e.body))
            case ir.If():
                return (*self.element(e.then), *self.element(e.orelse))
            case ir.WithAcc():
                arrays = [t for a in e.arrays for t in self.shape(a.type)]
                return (*arrays, *self.element(e.lam))
            case ir.Update():
                return self.shape(e.value.type)
            case ir.UpdateAcc():
                return _product(((Const(I64, ATOMIC),),), self.shape(e.value.type))
            case ir.Copy() | ir.Concat() | ir.ArrayLit():
                return self.shape(s.pat[0].type)
            case ir.MatMul():
                (m, k), (_, n) = shape_of(e.a.type), shape_of(e.b.type)
                return _product(_product(self.size(m), self.size(n)), self.size(k))
            case ir.Rearrange() | ir.Reshape() | ir.Iota() | ir.Replicate() | ir.Assert() | ir.Scratch():
                return ()
            case ir.Scatter() | ir.Hist():
                return self.shape(e.values[0].type)
        raise Unbounded

    def count(self, a: Atom) -> Sum:
        """A bound of the iterations of a loop.  Raises Unbounded."""
        found = self.bound(a)
        if found is None:
            raise Unbounded
        return found


def _alike(e: ir.Loop, pat: Sequence[Var]) -> None:
    """Raises Unbounded unless what the loop carries has the same sizes in all iterations."""
    unknown = {*pat, *e.body.params}
    if not ALIKE(not any(not isinstance(v.type, AccType) and unknown & {*shape_of(v.type)} for v in unknown)):
        raise Unbounded


def _product(x: Sum, y: Sum) -> Sum:
    out = tuple([(*a, *b) for a in x for b in y])
    if len(out) > MOST_TERMS:
        raise Unbounded
    return out


def by_warps(lam: Lambda) -> bool:
    """Whether the threads of a warp can share out what a point does, and it is wide enough for that."""
    enough = False
    for s in lam.stms:
        match s.exp:
            case ir.Screma() as e:
                if any(isinstance(a.type, ArrayType) for f in e.folds for a in f.neutral):
                    return False
                enough = enough or not (isinstance(e.width, Const) and e.width.value <= FEW)
            case ir.WithAcc() as w:
                if any(isinstance(x.exp, ir.Loop | ir.If | ir.ArgSort | ir.Call) for x in w.lam.stms):
                    return False
            case ir.Control() | ir.ArgSort() | ir.Hist() | ir.Call():
                return False
    return enough


Bounds = Mapping[Var, Sequence[Sum]]

__all__ = ["ALWAYS", "FEW", "Bounds", "Narrow", "Sum", "by_warps", "narrow"]
