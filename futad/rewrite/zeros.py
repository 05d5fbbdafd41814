"""Where values vanish: which values of a scope are zero, unless an index is at a certain place.

    t = eq(j, k);  h = select(t, v, 0);  y = mul(x, h);  z = add(y, y)        h, y and z are zero unless j is k

The *support* of a value is a set of guards, of which one holds wherever the value is not zero; None if nothing is
known.  A guard says that a variable of the scope is equal to something from outside of it.  Zero has no guards.  An
array is zero where all its elements are, an accumulator is left alone where all that is added to it is zero.

An operation vanishes where its operands make it exactly zero.  A product vanishes with one factor if the other is
known to be finite, or if it is a product of derivatives: these could differ from zero only by making NaN of an
infinite factor, which no derivative means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from futad.core import ir
from futad.core.ir import Lambda, Stm
from futad.core.node import Range
from futad.core.operator import operator_of
from futad.core.scalarops import folded
from futad.core.types import I64, AccType, Atom, Const, Prim, Var, elem_of, zero
from futad.legality import Legality
from futad.rewrite.dce import effects
from futad.rewrite.ranges import is_index

LEGAL = Legality("zeros", "values are known to be zero, unless an index is at a certain place", fires=False)
ELSE_ZERO = LEGAL.condition("zero elsewhere", "what is left out is not zero")
INVARIANT = LEGAL.condition("place invariant", "it is another place for each index")
EXACT = LEGAL.condition("factor finite or derived", "zero times infinity is NaN")
SUMS = LEGAL.condition("sum from zero", "the sum of zeros is what it starts from")
EVERY = LEGAL.condition("vanishes in every iteration", "a variable that a loop carries does not stay zero")

Define = Callable[[Atom], "ir.Exp | None"]


@dataclass(frozen=True, slots=True)
class Linear:
    """A sum of i64 variables times constants, and a constant, modulo 2^64."""

    terms: frozenset[tuple[Var, int]]
    offset: int = 0

    def plus(self, other: Linear, k: int = 1) -> Linear:
        """self + k * other."""
        sums = dict(self.terms)
        for v, c in other.terms:
            sums[v] = sums.get(v, 0) + k * c
        return Linear(frozenset((v, c) for v, c in sums.items() if c), self.offset + k * other.offset)

    def of(self, inner: Callable[[Var], bool]) -> Linear:
        """Its terms in some of the variables."""
        return Linear(frozenset(t for t in self.terms if inner(t[0])))


_NOTHING = Linear(frozenset())


def linear(a: Atom, define: Define, depth: int = 8) -> Linear:
    """An i64 as a sum of others."""
    if isinstance(a, Const):
        return Linear(frozenset(), int(a.value))
    e = define(a) if depth else None
    match e:
        case ir.Op("add" | "sub", (x, y)):
            return linear(x, define, depth - 1).plus(linear(y, define, depth - 1), 1 if e.op == "add" else -1)
        case ir.At(array, (x,)) if is_index(define(array)) and not isinstance(x, Range):
            return linear(x, define, depth - 1)  # with a check
        case ir.Op("neg", (x,)):
            return _NOTHING.plus(linear(x, define, depth - 1), -1)
        case ir.Op("mul", (Const() as c, x)) | ir.Op("mul", (x, Const() as c)):
            return _NOTHING.plus(linear(x, define, depth - 1), int(c.value))
    return Linear(frozenset([(a, 1)]))


@dataclass(frozen=True, slots=True)
class Guard:
    """A variable of the scope is equal to a value from outside."""

    var: Var
    place: Linear


Support = frozenset[Guard] | None
ZERO: Support = frozenset()
MOST = 8  # guards of a value


def either(a: Support, b: Support) -> Support:
    """Where one of two values may differ from zero."""
    if a is None or b is None:
        return None
    out = a | b
    return out if len(out) <= MOST else None


def both(a: Support, b: Support) -> Support:
    """Where both may differ from zero: the smaller of what is known."""
    if a is None or b is None:
        return b if a is None else a
    return a if len(a) <= len(b) else b


class Zeros:
    """The supports of a scope's values.

    `inner` are the scope's variables: what guards speak of.  Those it does not have and that statements seen do not
    bind are from outside.  `derived`: all products are of derivatives.
    """

    def __init__(self, inner: set[Var], define: Define, derived: bool = False) -> None:
        self.inner = inner
        self.outside = define
        self.derived = derived
        self.known: dict[Var, Support] = {}
        self.defs: dict[Atom, ir.Exp] = {}
        self.nested: set[Var] = set()
        self.added: Support = ZERO  # to accumulators

    def of(self, a: Atom) -> Support:
        """The support of a value."""
        if isinstance(a, Const):
            return ZERO if ELSE_ZERO(a.value == 0) else None
        return self.known.get(a)

    def define(self, a: Atom) -> ir.Exp | None:
        """The expression that makes it."""
        found = self.defs.get(a)
        return self.outside(a) if found is None else found

    def run(self, stms: Iterable[Stm], nested: bool = False) -> None:
        """Go through statements of the scope, or of scopes nested in it."""
        for s in stms:
            (self.nested if nested else self.inner).update(s.pat)
            if len(s.pat) == 1:
                self.defs[s.pat[0]] = s.exp
            for v, found in zip(s.pat, self.exp(s), strict=False):
                if found is not None:
                    self.known[v] = found

    def exp(self, s: Stm) -> list[Support]:
        """The supports of a statement's results; fewer where nothing is known."""
        e = s.exp
        match e:
            case ir.Op():
                return [self.op(e, s)]
            case ir.UpdateAcc():
                self.added = either(self.added, self.of(e.value))
            case ir.Alias(x) | ir.Copy(x) | ir.Rearrange(x) | ir.Reshape(x) | ir.At(x) | ir.Replicate(_, x):
                return [self.of(x)]
            case ir.ArrayLit(xs) | ir.Concat(xs):
                return [self.every(xs)]
            case ir.Update():
                return [either(self.of(e.array), self.of(e.value))]
            case ir.Scatter():
                return [either(self.of(d), self.of(v)) for d, v in zip(e.dests, e.values, strict=True)]
            case ir.Map():
                given = [self.of(a) for a in e.arrays]
                return self.scope(e.lam, given)
            case ir.Reduce() | ir.Scan() if len(e.arrays) == 1 and _sums(e.lam):
                return [self.of(e.arrays[0]) if SUMS(self._zeros(e.neutral[0])) else None]
            case ir.Hist() if len(e.dests) == 1 and _sums(e.lam):
                return [either(self.of(e.dests[0]), self.of(e.values[0])) if self._zeros(e.neutral[0]) else None]
            case ir.For():
                return self.loop(e)
            case ir.If():
                return self.branch(e)
            case _:
                writes = any(isinstance(v.type, AccType) for v in [*s.pat, *e.operands()])
                if writes or effects((s,)):
                    self.added = None
        return []

    def every(self, atoms: Iterable[Atom]) -> Support:
        out: Support = ZERO
        for a in atoms:
            out = either(out, self.of(a))
        return out

    def _zeros(self, a: Atom) -> bool:
        e = self.define(a)
        return self.of(e.value if isinstance(e, ir.Replicate) else a) == ZERO

    def scope(self, lam: Lambda, given: Iterable[Support]) -> list[Support]:
        """The supports of a nested scope's results, from those of its parameters."""
        self.nested.update(lam.params)
        for p, x in zip(lam.params, given, strict=True):
            if x is None:
                self.known.pop(p, None)
            else:
                self.known[p] = x
        self.run(lam.stms, nested=True)
        return [self.of(r) for r in lam.result]

    def loop(self, e: ir.For) -> list[Support]:
        """Variables that begin as zero and stay so where a guard does not hold, whatever the others are."""
        found = [self.of(a) for a in e.inits]
        while True:
            results = self.scope(e.body, [None, *found])
            new = [either(a, r) for a, r in zip(found, results, strict=True)]
            if EVERY(new == found):
                return found
            found = new

    def branch(self, e: ir.If) -> list[Support]:
        when = self.known.get(e.cond) if isinstance(e.cond, Var) else None
        then = self.scope(e.then, ())
        orelse = self.scope(e.orelse, ())
        return [either(both(a, when), b) for a, b in zip(then, orelse, strict=True)]

    # -- operations

    def op(self, e: ir.Op, s: Stm) -> Support:
        """Where an operation may differ from zero."""
        args = e.args
        derived = self.derived or ir.DERIVED in s.attrs
        match e.op:
            case "eq" if args[0].type is I64:
                return self.equal(args[0], args[1])
            case "select":
                return self.choice(*args)
            case "and":
                return both(self.of(args[0]), self.of(args[1]))
            case "mul" | "div":
                x, y = args
                known = self.of(x)
                if known is not None and not EXACT(derived or self.finite(y, e.op)):
                    known = None
                other = self.of(y) if e.op == "mul" else None
                if other is not None and EXACT(derived or self.finite(x, e.op)):
                    known = both(known, other)
                return known
            case "fma":
                x, y, z = args
                product = both(self.of(x), self.of(y)) if derived else None
                return either(product, self.of(z))
        variables = [a for a in args if isinstance(a, Var)]
        found = self.every(variables)
        if found is None or any(not isinstance(a.type, Prim) for a in args):
            return None
        value = folded(e.op, [zero(elem_of(a.type)) if isinstance(a, Var) else a for a in args])
        return found if value is not None and value.value == 0 else None

    @staticmethod
    def finite(a: Atom, op: str) -> bool:
        """Whether zero times, or divided by, the factor is zero."""
        if op == "mul" and not elem_of(a.type).is_float:
            return True
        return isinstance(a, Const) and math.isfinite(a.value) and (op == "mul" or a.value != 0)

    def equal(self, x: Atom, y: Atom) -> Support:
        """Where two integers are equal: a guard if one side is from outside."""
        a, b = linear(x, self.define), linear(y, self.define)
        difference = a.plus(b, -1)
        own = difference.of(self.mine)
        if len(own.terms) == 1:
            ((v, c),) = own.terms
            if abs(c) == 1 and INVARIANT(v not in self.nested):
                return frozenset([Guard(v, _NOTHING.plus(difference.plus(own, -1), -c))])
        for value, other in ((x, b), (y, a)):
            if isinstance(value, Var) and value in self.inner and not other.of(self.mine).terms:
                return frozenset([Guard(value, other)])
        return None

    def mine(self, v: Var) -> bool:
        return v in self.inner or v in self.nested

    def choice(self, c: Atom, x: Atom, y: Atom) -> Support:
        test = self.define(c)
        if isinstance(test, ir.Op) and test.op == "ne" and test.args[0].type is I64:
            return either(self.of(x), both(self.of(y), self.equal(test.args[0], test.args[1])))
        return either(both(self.of(x), self.of(c)), self.of(y))


def _sums(lam: Lambda) -> bool:
    found = operator_of(lam)
    return found is not None and found.op == "add"


__all__ = ["MOST", "ZERO", "Guard", "Linear", "Support", "Zeros", "both", "either", "linear"]
