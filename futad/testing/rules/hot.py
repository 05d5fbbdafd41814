"""Random small programs aimed at the one-hot rules: values that are zero but at few places, and such that only look so.

The comparisons are with places in range and beyond, of the index moved, mirrored and doubled, of elements; the values
are sums, products (of derivatives or not) and branches of such, which may fail, depend on the loop's other variables,
or read what is overwritten.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from futad.core import ir
from futad.core.builder import Builder
from futad.core.types import BOOL, F32, F64, I64, ONE, ZERO, ArrayType, Atom, Const, Prim, Var, i64, row_type, shape_of
from futad.rewrite.rules.hot import HOT_SUMS
from futad.rewrite.rules.hot_bins import HOT_BINS, HOT_ENTER
from futad.rewrite.strategy import Rule
from futad.testing.rules.aimed import SPAN, Aim, returned

TYPES = (F64, F64, F64, I64, F32)


class HotAim(Aim):
    """Makes sums of what is zero but at `places`, of `vectors`: arrays of as many elements as the sum."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.places: list[Atom] = []
        self.vectors: list[Var] = []
        self.reads: list[tuple[Var, Atom]] = []  # arrays, and an index in range wherever values are made

    # -- places

    def position(self, n: Atom) -> Atom:
        """A place of a dimension, mostly in range."""
        made: list[Callable[[], Atom]] = [
            lambda: self.input(I64), lambda: self.atom(I64), lambda: self.op("sub", n, ONE),
            lambda: i64(self.rng.randint(-1, 3)), lambda: self.op("mod", self.input(I64), n),
        ]  # fmt: skip
        if self.frame is not None and self.chance(0.6):
            return self.frame[0]
        return self.some(made)()

    def aim(self, n: Atom, t: Prim) -> None:
        """Choose the places, and arrays of the type."""
        self.places = [self.position(n) for _ in range(self.some([1, 2, 2]))]
        own = [v for v in self.vectors if v.type == ArrayType(t, (n,))]
        a = ArrayType(t, (n,))
        self.vectors = [*own[:1], self.some([self.input, self.array, lambda a: self.let(ir.Copy(self.input(a)))])(a)]

    def test(self, j: Atom) -> tuple[Var, bool]:
        """Whether an index is at a place; or whether it is not (False)."""
        place = self.some(self.places)
        kind = self.rng.randrange(9)
        if kind == 0:
            j = self.op("add", j, i64(self.rng.randint(-1, 2)))
        elif kind == 1:
            j = self.op("sub", self.some([i64(2), self.sizes[0]]), j)
        elif kind == 2:
            j = self.op(self.some(["mul", "mod", "min"]), j, i64(2))
        name = "eq" if self.chance(0.85) else self.some(["ne", "ne", "le"])
        c = self.op(name, *self.some([(j, place), (place, j)]))
        if self.chance(0.15):
            c = self.op(self.some(["and", "and", "or"]), c, self.atom(BOOL))
        return c, name != "ne"

    # -- values of an index

    def value(self, j: Atom, t: Prim) -> Atom:
        """Some value at an index."""
        if self.chance(0.06):
            return self.let(ir.At(self.some(self.vectors), (self.atom(I64),), SPAN))
        if self.chance(0.06) and t is I64:
            return self.op("div", self.atom(I64), j)
        if self.reads and self.chance(0.3):
            a, i = self.some(self.reads)
            return self.let(ir.At(a, (i,), None))
        if self.vectors and self.chance(0.5):
            return self.let(ir.At(self.some(self.vectors), (j,), None))
        return self.atom(t)

    def hot(self, j: Atom, t: Prim, depth: int = 0, at: Atom | None = None) -> Atom:
        """A value that is zero but at a place; `at`: what is compared with the place, if not the index itself."""
        if depth < 2 and self.chance(0.45):
            x = self.hot(j, t, depth + 1, at)
            kind = self.rng.randrange(10)
            if kind >= 8:
                return self.summed(j, x, t)
            if kind <= 2:
                return self.op(self.some(["add", "sub"]), x, self.hot(j, t, depth + 1, at))
            if kind == 3:
                return self.op(self.some(["neg", "abs", "neg"]), x)
            if kind == 4:
                return self.op(self.some(["max", "mul", "add"]), x, self.const(t))
            y = self.value(j, t)
            attrs = (ir.DERIVED,) if t.is_float and self.chance(0.4) else ()
            return self.let(ir.Op("mul", self.some([(x, y), (y, x)])), attrs=attrs)
        c, here = self.test(j if at is None else at)
        zero = Const(t, 0) if self.chance(0.93) else self.value(j, t)
        if self.chance(0.2):
            return self.op(f"to_{t.name}", c)
        if self.chance(0.2):
            scopes = [self.scope((), lambda: [self.value(j, t)]), self.scope((), lambda: [zero])]
            return self.let(ir.If(c, *(scopes if here else scopes[::-1])))
        x = self.value(j, t)
        return self.op("select", c, *((x, zero) if here else (zero, x)))

    def summed(self, j: Atom, x: Atom, t: Prim) -> Var:
        """The sum, from zero or not, of a value and others, by a reduction or a loop."""
        start, n = Const(t, 0) if self.chance(0.7) else self.const(t), i64(self.rng.randint(1, 2))
        if self.chance(0.5):
            a = self.let(ir.Replicate((n,), x))
            return self.let(ir.Reduce(n, (a,), self.fold("add", t).lam, (start,), True))

        def iteration(i: Var, s: Var) -> list[Atom]:
            at = self.op("select", self.op("eq", i, self.some([j, *self.places])), self.value(j, t), Const(t, 0))
            return [self.op(self.some(["add", "max"]), s, self.some([x, x, self.const(t), at]))]

        return self.let(ir.For(n, (start,), self.scope([I64, t], iteration)))

    # -- arrays of them

    def hots(self, n: Atom, t: Prim) -> Var:
        """An array of values that are zero but at few places."""
        kind = self.rng.randrange(10)
        zeros = Const(t, 0) if self.chance(0.9) else self.const(t)
        if kind == 0:
            fill = self.let(ir.Replicate((n,), zeros))
            check = SPAN if self.frame is None or self.chance(0.1) else None
            return self.let(ir.Update(fill, (self.places[0],), self.atom(t), check))
        if kind == 1:
            fill, at = self.let(ir.Replicate((n,), zeros)), self.let(ir.ArrayLit((self.places[0],), I64))
            return self.let(ir.Scatter(ONE, (fill,), (at,), (self.let(ir.ArrayLit((self.atom(t),), t)),)))
        if kind == 2:
            before = self.let(ir.Replicate((self.sizes[0],), zeros))
            after = self.let(ir.Replicate((self.sizes[1],), zeros if self.chance(0.9) else self.const(t)))
            one = self.let(ir.ArrayLit((self.atom(t),), t))
            size = self.b.op("add", self.b.op("add", self.sizes[0], ONE), self.sizes[1])
            return self.let(ir.Concat((before, one, after), size))
        index = self.let(ir.Iota(n, ZERO, ONE if self.chance(0.95) else i64(2)), "is")
        inner = [self.hots(n, t)] if kind == 3 and self.depth < 3 else []
        inner = [a for a in inner if shape_of(a.type) == (n,)]

        def body(j: Var, *given: Var) -> list[Atom]:
            if not given:
                return [self.hot(j, t)]
            y = self.value(j, t) if self.chance(0.5) else self.hot(j, t)
            attrs = (ir.DERIVED,) if t.is_float and self.chance(0.7) else ()
            return [self.let(ir.Op(self.some(["mul", "mul", "add"]), (given[0], y)), attrs=attrs)]

        return self.let(ir.Map(n, (index, *inner), self.scope([I64, *[t for _ in inner]], body)), "hot")

    def matrix(self, n: Atom, m: Atom, t: Prim) -> Var:
        """Rows of values that are zero but at few places, mostly where the row's index is the column's."""
        index, columns = self.let(ir.Iota(n, ZERO, ONE)), self.let(ir.Iota(m, ZERO, ONE))

        def row(i: Var) -> list[Atom]:
            self.places = [i] if self.chance(0.8) else [i, *self.places]
            return [self.let(ir.Map(m, (columns,), self.scope([I64], lambda j: [self.hot(j, t)])), "row")]

        return self.let(ir.Map(n, (index,), self.scope([I64], row)), "rows")

    def plus(self, t: Prim) -> ir.Fold:
        """Addition from zero, mostly."""
        f = self.fold("add" if self.chance(0.95) else "max", t)
        return f if self.chance(0.92) else ir.Fold(f.lam, (self.const(t),), f.comm)

    def start(self, t: Prim) -> Atom:
        return Const(t, 0) if self.chance(0.6) else self.atom(t)

    # -- by rule

    def hot_sum(self, n: Atom, t: Prim) -> None:
        if self.chance(0.8):
            a = self.hots(n, t)
            owned = [v for v in self.vectors if any(v in s.pat and type(s.exp) is ir.Copy for s in self.b.stms)]
            if owned and self.chance(0.3):
                self.let(ir.Update(owned[0], (self.position(n),), self.const(t), SPAN))
            self.let(ir.folding(shape_of(a.type)[0], (a,), self.plus(t), False), "s")
            return
        m = self.size()
        a = self.matrix(n, m, t)
        b = Builder()
        x, y = Var("u", ArrayType(t, (m,))), Var("v", ArrayType(t, (m,)))
        r = b.let(ir.Map(m, (x, y), self.fold("add", t).lam))
        fill = self.let(ir.Replicate((m,), Const(t, 0) if self.chance(0.9) else self.const(t)))
        self.let(ir.Reduce(n, (a,), ir.Lambda((x, y), tuple(b.stms), (r,)), (fill,), True), "s")

    def hot_loop(self, n: Atom, t: Prim) -> None:
        if self.chance(0.25):
            return self.row_loop(n, t)
        inits = (self.start(t), *[self.atom(t) for _ in range(self.rng.randint(0, 1))])

        def iteration(j: Var, s: Var, *others: Var) -> list[Atom]:
            values = [self.op(self.some(["mul", "add"]), p, self.value(j, t)) for p in others]
            if others and self.chance(0.8):  # else it may be in what is added
                self.pool = [v for v in self.pool if v not in (s, *others, *values)]
            h = self.hot(j, t)
            return [self.op("add" if self.chance(0.95) else "max", *self.some([(s, h), (h, s)])), *values]

        self.pool += self.b.emit(ir.For(n, inits, self.scope([I64, *[t for _ in inits]], iteration)), "l",
                                 types=[t for _ in inits])  # fmt: skip

    def row_loop(self, n: Atom, t: Prim) -> None:
        """A variable that is a row of sums."""
        m = self.size()
        columns, first = self.let(ir.Iota(m, ZERO, ONE)), self.let(ir.Copy(self.atom(ArrayType(t, (m,)))))

        def iteration(j: Var, s: Var) -> list[Atom]:
            def column(x: Var, q: Var) -> list[Atom]:
                self.pool = [v for v in self.pool if v is not x]
                self.places = [q, *self.places[:1]]
                return [self.op("add", x, self.hot(j, t))]

            self.pool = [v for v in self.pool if v is not s]
            return [self.let(ir.Map(m, (s, columns), self.scope([t, I64], column)))]

        self.let(ir.For(n, (first,), self.scope([I64, first.type], iteration)), "l")

    def hot_iteration(self, n: Atom, t: Prim) -> None:
        inits = [self.start(t) for _ in range(self.rng.randint(1, 2))]

        def iteration(j: Var, *params: Var) -> list[Atom]:
            c, here = self.test(j)
            after = [self.op(self.some(["mul", "add"]), p, self.value(j, t))
                     for p in params]  # fmt: skip
            kept = [p if self.chance(0.95) else self.some(params) for p in params]
            return [self.op("select", c, *((x, p) if here else (p, x))) for x, p in zip(after, kept, strict=True)]

        lam = self.scope([I64, *[t for _ in inits]], iteration)
        self.pool += self.b.emit(ir.For(n, tuple(inits), lam), "l", types=[t for _ in inits])

    def hot_hist(self, n: Atom, t: Prim) -> None:
        m, a = self.size(), self.hots(n, t)
        n = shape_of(a.type)[0]
        dest = self.let(ir.Replicate((m,), Const(t, 0) if self.chance(0.9) else self.atom(t)))
        f = self.fold("add", t)
        self.let(ir.Hist(n, (dest,), (self.atom(ArrayType(I64, (n,))),), (a,), f.lam, f.neutral), "h")

    def hot_gather(self, n: Atom, t: Prim) -> None:
        m = self.size()
        index, bins = self.let(ir.Iota(m, ZERO, ONE)), self.input(ArrayType(I64, (n,)))
        terms, xs, ys = self.let(ir.Iota(n, ZERO, ONE)), self.vectors[-1], self.input(ArrayType(t, (m,)))
        bound = n if self.chance(0.7) else self.op("sub", n, ONE)

        def bin_(k: Var) -> list[Atom]:
            self.reads = [(ys, k), (ys, ZERO)]
            moved = self.chance(0.2)

            def bin_of(b: Atom) -> Atom:
                return self.op("mod", self.op("add", b, k), i64(3)) if moved else b

            self.places = [k, *([self.op("add", k, i64(1))] if self.chance(0.4) else []), *self.places[:1]]
            if self.chance(0.85):
                self.places = self.places[:-1]
            f = self.plus(t)
            if self.chance(0.4):
                def iteration(j: Var, s: Var) -> list[Atom]:
                    self.pool = [v for v in self.pool if v is not s]
                    return [self.op("add", s, self.hot(j, t, 0, bin_of(self.let(ir.At(bins, (j,), None)))))]

                return [self.let(ir.For(bound, f.neutral, self.scope([I64, t], iteration)))]
            lam = self.scope([I64, t, I64], lambda b, x, j: [self.hot(j, t, 0, bin_of(b))])
            values = self.let(ir.Map(n, (bins, xs, terms), lam), "hot")
            return [self.let(ir.folding(n, (values,), f, False), "s")]

        self.let(ir.Map(m, (index,), self.scope([I64], bin_)), "m")
        self.reads = []

    def hot_rows(self, n: Atom, t: Prim) -> None:
        m = self.size()
        a, f = self.matrix(m, n, t), self.plus(t)

        def sums(row: Var) -> list[Atom]:
            other = self.some([row, row, self.let(ir.Copy(row))])
            return [self.let(ir.folding(n, (row,), f, False)), *([other] if self.chance(0.15) else [])]

        lam = self.scope([row_type(a.type)], sums)
        self.pool += self.b.emit(ir.Map(m, (a,), lam), "m")

    def bins_outside(self, n: Atom, t: Prim) -> None:
        m, width = self.size(), self.size()
        index, bins = self.let(ir.Iota(width, ZERO, ONE)), self.input(ArrayType(I64, (n,)))
        f, xs = self.fold("add", t), self.vectors[-1]

        def each(i: Var) -> list[Atom]:
            values = xs
            if self.chance(0.2):
                values = self.let(ir.Replicate((n,), self.let(ir.Op(f"to_{t.name}", (i,)))))
            fill = self.let(ir.Replicate((m,), self.start(t)))
            h = self.let(ir.Hist(n, (fill,), (bins,), (values,), f.lam, f.neutral), "h")
            if self.chance(0.25):
                h = self.let(ir.Update(h, (i,), Const(t, 1), SPAN))
            return [self.let(ir.folding(m, (h,), self.fold("add", t), False)), *([h] if self.chance(0.3) else [])]

        lam = self.scope([I64], each)
        self.pool += self.b.emit(ir.Map(width, (index,), lam), "m")

    def at_build(self, n: Atom, t: Prim) -> None:
        def read(at: Sequence[Atom]) -> Var:
            return self.let(ir.At(a, tuple(at), SPAN if self.chance(0.1) else None), "e")

        if self.chance(0.3):
            m = self.size()
            a = self.matrix(m, n, t)
        else:
            a = self.hots(n, t)
        size = shape_of(a.type)
        at = [self.op("mod", self.input(I64), k) for k in size]
        read([self.frame[0], *at[1:]] if self.frame is not None and self.frame[1] is size[0] else at)


RULES = {r.name for r in (*HOT_SUMS, *HOT_BINS, *HOT_ENTER)}


def hot_program(rule: Rule, rng: random.Random) -> ir.Program | None:
    """A program that has what the rule, one of `RULES`, looks for."""
    a = HotAim(rng)

    def make() -> None:
        n, t = a.size(), a.some(TYPES)
        a.aim(n, t)
        getattr(a, rule.name)(n, t)

    a.around(make)
    return returned(a, rng)


__all__ = ["RULES", "hot_program"]
