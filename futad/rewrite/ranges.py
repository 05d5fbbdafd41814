"""Proving that integers are in range, to drop bounds checks and decided comparisons.

Integers are written as polynomials over variables; `prove(p)` looks for a derivation of p >= 0 by replacing a
variable by a bound of it.  Bounds come from loops and maps (0 <= i < n), array sizes (n >= 0), conditions of
enclosing branches, and the definitions of min, max and mod.

What is shown to lie between 0 and a size is so although arithmetic wraps around 64 bits: both sides are equal modulo
2^64.  But a condition on a sum that has wrapped says nothing of its terms.  So sums are taken apart only if their terms
are *tame*: sizes, indices of loops and maps, integers of fewer bits, and what lies between such.  Any other sum stays
opaque, as do constants above 2^31, but for what such a one leaves of a number that is not negative, and products of
anything but indices, sizes and constants.
"""

from __future__ import annotations

from operator import attrgetter

from futad.core import ir
from futad.core.node import Range
from futad.core.types import BOOL, I8, I16, I32, I64, MOST_SIZE, ONE, U8, U16, U32, ZERO, Atom, Const, Var, i64
from futad.legality import Legality

LEGAL = Legality(
    "ranges", "integers are shown to be in range, and bounds checks and comparisons decided by that", fires=False
)
BELOW = LEGAL.condition("below the size", "an index at or after the end passes")
NOT_WRAPPED = LEGAL.condition("not wrapped", "a condition on a sum beyond 64 bits says nothing of its terms")
NARROW_NOT_WRAPPED = LEGAL.condition("narrow sum not wrapped", "a sum beyond 32 bits is taken for a place")
NOT_NEGATIVE = LEGAL.condition("not negative", "a negative index passes")
ONE_SIGN = LEGAL.condition("variable of one sign", "a bound put for a variable makes the polynomial greater")
NOT_LARGER = LEGAL.condition("not larger", "the larger of two numbers that differ is taken for the smaller one")
COFACTORS = LEGAL.condition("cofactors not negative", "a bound times a negative number is a bound on the other side")
DIVISOR = LEGAL.condition("divisor not negative", "a remainder by a negative number lies on the other side of zero")
GREATER = LEGAL.condition("greater of two", "the lesser of two numbers is no bound of the greater")
DIVIDEND = LEGAL.condition("dividend not negative", "a quotient of a negative number is greater than the number")
MULTIPLE = LEGAL.condition("multiples of the divisor", "more than quotient times divisor is taken for the number")
SLICE_STARTS = LEGAL.condition("slice from the start on", "a slice that starts before the array passes")
SLICE_ENDS = LEGAL.condition("slice ends in the array", "a slice that ends after the array passes")

Mono = tuple[Var, ...]
Poly = dict[Mono, int]

_number = attrgetter("id")
_BIG = 1 << 31
_DEPTH = 5
_STEPS = 40  # polynomials looked at for one question


def plus(p: Poly, q: Poly, k: int = 1) -> Poly:
    """p + k * q."""
    out = dict(p)
    for m, c in q.items():
        new = out.get(m, 0) + k * c
        if new:
            out[m] = new
        else:
            out.pop(m, None)
    return out


def times(p: Poly, q: Poly) -> Poly:
    """p * q."""
    out: Poly = {}
    for m, c in p.items():
        for n, d in q.items():
            _add(out, _product(m, n), c * d)
    return out


def _add(p: Poly, m: Mono, c: int) -> None:
    new = p.get(m, 0) + c
    if new:
        p[m] = new
    else:
        p.pop(m, None)


def _product(m: Mono, n: Mono) -> Mono:
    return tuple(sorted(m + n, key=_number)) if m and n else m or n


def constant(k: int) -> Poly:
    """The polynomial of a number."""
    return {(): k} if k else {}


class Ranges:
    """Facts about i64 variables in scope.

    `sizes` are known >= 0; those `stored` are of arrays in memory, so at most `MOST_SIZE`.  `lower` and `upper`
    hold inclusive bounds as polynomials.  What is added in a scope is removed on leaving it (`mark`, `release`), as
    the scope may never be run: what is a size in it may be negative outside.
    `places`: all sums are known to be places in arrays, so that none has wrapped.
    """

    def __init__(self, defs: dict[Var, ir.Exp], places: bool = False) -> None:
        self.defs = defs
        self.places = places
        self.sizes: set[Var] = set()
        self.stored: set[Var] = set()
        self.indices: set[Var] = set()
        self.lower: dict[Var, list[Poly]] = {}
        self.upper: dict[Var, list[Poly]] = {}
        self._trail: list[list[Poly] | Var] = []  # bounds, whose last one goes, and sizes
        self._polys: dict[Var, Poly] = {}
        self._passing = False  # what was found last holds only as long as the present facts

    # -- facts

    def mark(self) -> int:
        return len(self._trail)

    def release(self, mark: int) -> None:
        while len(self._trail) > mark:
            last = self._trail.pop()
            if type(last) is Var:
                self.sizes.discard(last)
                self._polys.clear()  # a sum of it may wrap outside
            else:
                last.pop()

    def size(self, v: Var) -> None:
        """There is an array of this size, so it is not negative."""
        if v not in self.sizes:
            self.sizes.add(v)
            self._trail.append(v)

    def _push(self, table: dict[Var, list[Poly]], v: Var, p: Poly) -> None:
        bounds = table.setdefault(v, [])
        bounds.append(p)
        self._trail.append(bounds)

    def index(self, i: Var, bound: Atom) -> None:
        """0 <= i < bound: inside, the bound is also at least 1."""
        if i.type is not I64 and not (i.type is I32 and type(bound) is Const):
            return
        self.indices.add(i)
        self._push(self.lower, i, {})
        self._push(self.upper, i, plus(self.poly(bound), {(): -1}))
        if type(bound) is Var:
            self._push(self.lower, bound, {(i,): 1, (): 1})

    def between(self, v: Var, bound: Poly) -> None:
        """0 <= v < bound."""
        self._push(self.lower, v, {})
        self._push(self.upper, v, plus(bound, {(): -1}))
        self.not_negative(plus(bound, {(): -1}))

    def not_negative(self, p: Poly) -> None:
        """p >= 0."""
        for v, c in _linear(p):
            if c == 1:
                self._push(self.lower, v, plus({(v,): 1}, p, -1))
            elif c == -1:
                self._push(self.upper, v, plus({(v,): 1}, p))

    def positive(self, bound: Atom) -> None:
        """bound >= 1."""
        if type(bound) is Var:
            self._push(self.lower, bound, {(): 1})

    def assume(self, cond: Atom, holds: bool) -> None:
        """The condition of a branch, inside it."""
        e = self.defs.get(cond) if type(cond) is Var else None
        if type(e) is not ir.Op:
            return
        name, args = e.op, e.args
        if name == "not":
            self.assume(args[0], not holds)
        elif (name == "and" and holds) or (name == "or" and not holds):
            self.assume(args[0], holds)
            self.assume(args[1], holds)
        elif name in ("lt", "le", "eq", "ne") and args[0].type is I64:
            a, b = args
            if name == ("eq" if holds else "ne"):
                self.order(a, b, 0)
                self.order(b, a, 0)
            elif name in ("eq", "ne"):
                # Of two numbers that differ the one that is not larger is smaller.
                for x, y in ((a, b), (b, a)):
                    if NOT_LARGER(self.prove(plus(self.poly(y), self.poly(x), -1))):
                        self.order(x, y, 1)
                        break
            elif name in ("lt", "le"):
                if holds:
                    self.order(a, b, 1 if name == "lt" else 0)
                else:
                    self.order(b, a, 0 if name == "lt" else 1)

    def order(self, a: Atom, b: Atom, gap: int) -> None:
        """a + gap <= b."""
        p, q = self.poly(a), self.poly(b)
        for v, c in _linear(p):
            if c == 1:
                self._push(self.upper, v, plus(plus(plus(q, {(): -gap}), p, -1), {(v,): 1}))
            elif c == -1:
                self._push(self.lower, v, plus(plus(plus(p, q, -1), {(): gap}), {(v,): 1}))
        for v, c in _linear(q):
            if c == 1:
                self._push(self.lower, v, plus(plus(plus(p, {(): gap}), q, -1), {(v,): 1}))

    # -- polynomials

    def poly(self, a: Atom, depth: int = 6) -> Poly:
        """`a` as a polynomial over opaque variables."""
        if type(a) is Const:
            return constant(a.value)
        assert type(a) is Var
        got = self._polys.get(a)
        if got is None:
            before, self._passing = self._passing, False
            got = self._expand(a, depth)
            if not self._passing:
                self._polys[a] = got
            self._passing |= before
        return got

    def _expand(self, a: Var, depth: int) -> Poly:
        e = self.defs.get(a)
        if depth and type(e) is ir.Op and a.type is I64:
            if e.op in ("add", "sub"):
                p, q = self.poly(e.args[0], depth - 1), self.poly(e.args[1], depth - 1)
                if abs(p.get((), 0)) < _BIG and abs(q.get((), 0)) < _BIG and len(p) + len(q) <= 8:
                    if NOT_WRAPPED(self._tame(p) and self._tame(q)):
                        return plus(p, q, 1 if e.op == "add" else -1)
                if e.op == "sub" and _is_large(e.args[0]) and NOT_WRAPPED(self._tame(q) and self.prove(q)):
                    self._passing = True
                    return plus(p, q, -1)
            elif e.op == "mul":
                p, q = self.poly(e.args[0], depth - 1), self.poly(e.args[1], depth - 1)
                if all(self._small(m, c) for r in (p, q) for m, c in r.items()) and len(p) * len(q) <= 8:
                    return times(p, q)
            elif e.op == "to_i64" and type(x := e.args[0]) is Var and x.type is I32:
                return self._narrow(x, depth - 1) or {(a,): 1}
        return {(a,): 1}

    def _narrow(self, x: Var, depth: int) -> Poly | None:
        """An i32 as a polynomial over indices that are i32s: it, and all that it is made of, has not wrapped."""
        if x in self.indices:
            return {(x,): 1}
        e = self.defs.get(x)
        if depth <= 0 or type(e) is not ir.Op or e.op not in ("add", "sub"):
            return None
        parts = [constant(a.value) if type(a) is Const else self._narrow(a, depth - 1) for a in e.args]
        if parts[0] is None or parts[1] is None:
            return None
        p = plus(parts[0], parts[1], 1 if e.op == "add" else -1)
        self._passing = True  # the index's bound is known in its loop
        inside = self.prove(plus(p, constant(_BIG))) and self.prove(plus(constant(_BIG - 1), p, -1))
        return p if NARROW_NOT_WRAPPED(inside) else None

    def _small(self, m: Mono, c: int) -> bool:
        """A term that products may contain without fear of wrapping."""
        if abs(c) >= 1 << 20 or len(m) > 3 or not all(v in self.sizes or v in self.lower for v in m):
            return False
        return NOT_WRAPPED(self._tame({m: c}))

    def _tame(self, p: Poly, depth: int = 3) -> bool:
        """Whether all that the polynomial is made of is small enough for sums."""
        if not self.places:
            for m in p:
                for v in m:
                    if not self._tame_var(v, depth):
                        return False
        return True

    def _tame_atom(self, a: Atom, depth: int) -> bool:
        return abs(a.value) < _BIG if type(a) is Const else self._tame_var(a, depth)

    def _tame_var(self, v: Var, depth: int) -> bool:
        if self.places or v in self.sizes or v in self.indices:
            return True
        e = self.defs.get(v)
        if type(e) is ir.Op and e.op == "to_i64" and e.args[0].type in (BOOL, U8, U16, U32, I8, I16, I32):
            return True
        if depth == 0:
            return False

        if type(e) is ir.Op and e.op in ("div", "quot") and type(e.args[1]) is Const and type(e.args[0]) is Var:
            # Of a sum of as many terms at most as it is divided by.
            p = self.poly(e.args[0])
            few = sum(abs(c) if m else 0 for m, c in p.items()) <= e.args[1].value
            if few and all(len(m) <= 1 for m in p) and abs(p.get((), 0)) < _BIG and self._tame(p, depth - 1):
                return True
        if type(e) is ir.Op and e.op in ("min", "max", "select", "mod", "rem", "div", "quot"):
            some = {"mod": e.args[1:], "rem": e.args[1:], "div": e.args[:1], "quot": e.args[:1]}
            if all(self._tame_atom(a, depth - 1) for a in some.get(e.op, e.args[-2:])):
                return True
        # It may be so later, or no more.
        self._passing = True
        bounds = self.lower.get(v, []), self.upper.get(v, [])
        return all(any(self._tame(p, depth - 1) for p in some) for some in bounds)

    # -- proofs

    def nonneg(self, a: Atom) -> bool:
        """a >= 0, provably."""
        if type(a) is Const:
            return a.value >= 0
        return self.prove(self.poly(a))

    def modest(self, a: Atom) -> bool:
        """a >= 0 and far below 2^62, provably: a place or a size."""
        p = self.poly(a)
        return self._tame(p) and self.prove(p)

    def less(self, a: Atom, b: Atom) -> bool:
        """a < b, provably."""
        p = plus(self.poly(b), self.poly(a), -1)
        _add(p, (), -1)
        return self.prove(p)

    def at_most(self, a: Atom, b: Atom) -> bool:
        """a <= b, provably."""
        return self.prove(plus(self.poly(b), self.poly(a), -1))

    def as_many(self, shape: tuple[Atom, ...], other: tuple[Atom, ...]) -> bool:
        """Arrays of these shapes have the same number of elements, provably."""
        p, q = constant(1), constant(1)
        for s in shape:
            p = times(p, self.poly(s))
        for s in other:
            q = times(q, self.poly(s))
        return p == q or (self.prove(plus(p, q, -1)) and self.prove(plus(q, p, -1)))

    def sum_at_most(self, parts: tuple[Atom, ...], b: Atom, slack: int = 0) -> bool:
        """The sum of `parts` is at most b + slack, provably."""
        p = plus(self.poly(b), {(): slack} if slack else {})
        for a in parts:
            p = plus(p, self.poly(a), -1)
        return self.prove(p)

    def in_range(self, i: Atom, n: Atom) -> bool:
        """0 <= i < n, provably."""
        return i.type is I64 and BELOW(self.less(i, n)) and NOT_NEGATIVE(self.nonneg(i))

    def prove(self, p: Poly, depth: int = _DEPTH) -> bool:
        """p >= 0: every term is, or replacing a variable by a bound of it in every term makes it so."""
        return self._prove(p, depth, set())

    def _prove(self, p: Poly, depth: int, seen: set[frozenset[tuple[Mono, int]]]) -> bool:
        if not p:
            return True
        if min(p.values()) > 0 and self._nonneg(p):
            return True
        if depth == 0 or len(p) > 12 or (len(p) == 1 and () in p):
            return False
        key = frozenset(p.items())
        if key in seen or len(seen) > _STEPS:
            return False
        seen.add(key)
        tried: set[Var] = set()
        for sign, bounds_of in ((-1, self._uppers), (1, self._lowers)):
            # A variable all of whose terms have this sign, and cofactors that are not negative, may be
            # replaced by its upper (lower) bound: that only makes p smaller.
            for m, c in p.items():
                if c * sign < 0:
                    continue
                for v in m:
                    if v in tried:
                        continue
                    tried.add(v)
                    if ONE_SIGN(_of_sign(p, v, sign)) and COFACTORS(self._cofactors(p, v)):
                        bounds = bounds_of(v)
                        if sign < 0 and v in self.stored and p.get((), 0) >= MOST_SIZE:
                            bounds.append(constant(MOST_SIZE))
                        for bound in bounds:
                            if self._prove(_substitute(p, v, bound), depth - 1, seen):
                                return True
                        less = self._multiple(p, v) if sign < 0 else None
                        if less is not None and self._prove(less, depth - 1, seen):
                            return True
        return False

    def _multiple(self, p: Poly, v: Var) -> Poly | None:
        """p with the dividend for the divisor times a quotient v, which is at most that, so that p, in which all terms
        of v are negative, only gets smaller; None if v is no quotient, or has terms that are no multiples of it."""
        e = self.defs.get(v)
        if type(e) is not ir.Op or e.op not in ("div", "quot") or type(e.args[1]) is not Const or e.args[1].value < 2:
            return None
        by = e.args[1].value
        if not MULTIPLE(all(c % by == 0 for m, c in p.items() if v in m)):
            return None
        if e.op == "quot" and not DIVIDEND(self.nonneg(e.args[0])):
            return None
        return _substitute({m: int(c / by) if v in m else c for m, c in p.items()}, v, self.poly(e.args[0]))

    def _cofactors(self, p: Poly, v: Var) -> bool:
        for m in p:
            if v in m:
                if m.count(v) != 1:
                    return False
                for w in m:
                    if w is not v and not self._nonneg_var(w):
                        return False
        return True

    def _nonneg(self, p: Poly) -> bool:
        for m in p:
            for v in m:
                if not self._nonneg_var(v):
                    return False
        return True

    def _nonneg_var(self, v: Var, depth: int = 4) -> bool:
        if v in self.sizes:
            return True
        if depth == 0:
            return False
        for bound in self.lower.get(v, ()):
            if all(c >= 0 and all(self._nonneg_var(w, depth - 1) for w in m) for m, c in bound.items()):
                return True
        e = self.defs.get(v)
        if type(e) is not ir.Op:
            return False

        def ok(a: Atom) -> bool:
            return a.value >= 0 if type(a) is Const else type(a) is Var and self._nonneg_var(a, depth - 1)

        match e.op:
            case "max":
                return ok(e.args[0]) or ok(e.args[1])
            case "add":
                return ok(e.args[0]) and ok(e.args[1]) and NOT_WRAPPED(all(self._tame_atom(a, 3) for a in e.args))
            case "min" | "div" | "quot":
                return ok(e.args[0]) and ok(e.args[1])
            case "mod" | "rem":
                return ok(e.args[1]) if e.op == "mod" else ok(e.args[0])
            case "select":
                return ok(e.args[1]) and ok(e.args[2])
            case "to_i64":
                return e.args[0].type in (BOOL, U8, U16, U32)
        return False

    def _uppers(self, v: Var) -> list[Poly]:
        out = list(self.upper.get(v, ()))
        e = self.defs.get(v)
        if type(e) is ir.Op:
            if e.op == "min":
                out += [self.poly(e.args[0]), self.poly(e.args[1])]
            elif e.op == "mod" and DIVISOR(self.nonneg(e.args[1])):
                # A zero divisor stops the program before the value exists.
                out.append(plus(self.poly(e.args[1]), {(): -1}))
            elif e.op == "select" or e.op == "max":
                a, b = (self.poly(x) for x in e.args[-2:])
                if GREATER(self.prove(plus(b, a, -1), 1)):
                    out.append(b)
                elif self.prove(plus(a, b, -1), 1):
                    out.append(a)
            elif e.op in ("div", "quot") and type(e.args[1]) is Const and e.args[1].value >= 1:
                if DIVIDEND(self.nonneg(e.args[0])):
                    out.append(self.poly(e.args[0]))
        return out

    def _lowers(self, v: Var) -> list[Poly]:
        out = list(self.lower.get(v, ()))
        e = self.defs.get(v)
        if type(e) is ir.Op and e.op == "max":
            out += [self.poly(e.args[0]), self.poly(e.args[1])]
        if self._nonneg_var(v):
            out.append({})
        return out


_MINUS_ONE = i64(-1)


def is_index(e: ir.Exp | None) -> bool:
    """Whether an expression is `iota n`: 0, 1, ... of i64."""
    return type(e) is ir.Iota and e.start is ZERO and e.step is ONE


def index_in_range(r: Ranges, shape: tuple[Atom, ...], index: ir.Index) -> bool:
    """Whether every position of the index is provably inside the shape."""
    for i, n in zip(index, shape, strict=False):
        if type(i) is Range:
            if not _slice_in_range(r, i, n):
                return False
        elif not r.in_range(i, n):
            return False
    return True


def _slice_in_range(r: Ranges, s: Range, n: Atom) -> bool:
    if s.count is ZERO:
        return r.nonneg(s.start) and r.at_most(s.start, n)
    if not SLICE_STARTS(r.nonneg(s.count) and r.nonneg(s.start)):
        return False
    if s.stride is ONE:
        return SLICE_ENDS(r.sum_at_most((s.start, s.count), n))
    return s.stride is _MINUS_ONE and r.less(s.start, n) and SLICE_ENDS(r.sum_at_most((s.count,), s.start, 1))


def _of_sign(p: Poly, v: Var, sign: int) -> bool:
    """Whether all terms with the variable have that sign."""
    for m, c in p.items():
        if c * sign < 0 and v in m:
            return False
    return True


def _is_large(a: Atom) -> bool:
    return type(a) is Const and a.value >= _BIG


def _linear(p: Poly) -> list[tuple[Var, int]]:
    return [(m[0], c) for m, c in p.items() if len(m) == 1]


def _substitute(p: Poly, v: Var, by: Poly) -> Poly:
    out: Poly = {}
    for m, c in p.items():
        if v in m:
            i = m.index(v)
            rest = m[:i] + m[i + 1 :]
            for n, d in by.items():
                _add(out, _product(rest, n), c * d)
        else:
            _add(out, m, c)
    return out
