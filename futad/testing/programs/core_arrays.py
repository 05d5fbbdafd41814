"""Random statements of `core.py` that index, slice, build and write arrays."""

from __future__ import annotations

from collections.abc import Sequence

from futad.core import ir
from futad.core.builder import Builder
from futad.core.node import Range
from futad.core.types import (
    BOOL,
    F64,
    I32,
    I64,
    AccType,
    ArrayType,
    Atom,
    Const,
    Prim,
    Type,
    Var,
    array_of,
    elem_of,
    i64,
    row_type,
    shape_of,
)
from futad.testing.programs.core_base import SPAN, Base, Scope


class Arrays(Base):
    """Indexing, layout, construction, writes."""

    def position(self, sc: Scope, size: Atom, hint: Atom | None = None) -> Atom:
        """An index into a dimension that is at least 1."""
        return self.op(sc, "mod", hint if hint is not None and self.chance(0.7) else self.atom(sc, I64), size)

    def index(self, sc: Scope, depth: int) -> None:
        a = self.array(sc)
        shape = shape_of(a.type)
        k = self.rng.randint(1, len(shape))
        at = tuple([self.position(sc, n) for n in shape[:k]])
        self.let(sc, ir.At(a, at, SPAN), "e", of=[a])

    def update_of(self, sc: Scope, a: Var, hint: Atom | None) -> Var:
        """`a` (given up) with an element or a row replaced."""
        assert isinstance(a.type, ArrayType)
        k = self.rng.randint(1, a.type.rank)
        at = tuple([self.position(sc, n, hint) for n in a.type.shape[:k]])
        t = array_of(a.type.elem, *a.type.shape[k:])
        if isinstance(t, Prim):
            if self.chance(0.6) and t.is_float:
                old = self.let(sc, ir.At(a, at, SPAN), "e")
                value: Atom = self.op(sc, "mul", old, self.op(sc, "cos", self.atom(sc, t)))
            else:
                value = self.atom(sc, t)
        else:
            value = self.let(sc, ir.Copy(self.atom(sc, t)), "c")
        a = self.owned(sc, a)
        self.gone(sc, a)
        return self.let(sc, ir.Update(a, at, value, SPAN), "up")

    def update(self, sc: Scope, depth: int) -> None:
        self.update_of(sc, self.array(sc), None)

    def slice(self, sc: Scope, depth: int) -> None:
        a = self.array(sc)
        n = shape_of(a.type)[0]
        match self.rng.randrange(4):
            case 0:
                r = Range(self.op(sc, "sub", n, i64(1)), n, i64(-1))
            case 1:
                k = self.op(sc, "min", n, i64(2))
                sc.sizes.append(k)
                r = Range(i64(0), k, i64(1))
            case 2:
                k = self.op(sc, "quot", self.op(sc, "add", n, i64(1)), i64(2))
                r = Range(i64(0), k, i64(2))
            case _:
                k = self.op(sc, "max", self.op(sc, "sub", n, i64(1)), i64(1))
                r = Range(self.op(sc, "sub", n, k), k, i64(1))
        if self.chance(0.3) and isinstance(r.stride, Const) and r.stride.value == 1:
            value = self.let(sc, ir.Copy(self.atom(sc, array_of(elem_of(a.type), r.count, *shape_of(a.type)[1:]))), "c")
            a = self.owned(sc, a)
            self.gone(sc, a)
            self.let(sc, ir.Update(a, (r,), value, SPAN), "up")
        else:
            self.let(sc, ir.At(a, (r,), SPAN), "sl", of=[a])

    def layout(self, sc: Scope, depth: int) -> None:
        """A transposition, or a reshape to one dimension and back."""
        found = [v for v in sc.vars if isinstance(v.type, ArrayType) and v.type.rank > 1]
        if not found:
            return self.build(sc, depth)
        a = self.choose(found)
        shape = shape_of(a.type)
        if self.chance(0.5):
            perm = list(range(len(shape)))
            self.rng.shuffle(perm)
            self.let(sc, ir.Rearrange(a, tuple(perm)), "tr", of=[a])
            return None
        size: Atom = shape[0]
        for n in shape[1:]:
            size = self.op(sc, "mul", size, n)
        flat = self.let(sc, ir.Reshape(a, (size,)), "flat", of=[a])
        other = [Const(elem_of(a.type), 1)]
        lam = self.lam(
            sc,
            [("x", elem_of(a.type))],
            lambda s: [self.op(s, "mul" if other[0].type is not BOOL else "and", s.vars[-1], other[0])],
        )
        mapped = self.let(sc, ir.Map(size, (flat,), lam), "fm")
        self.let(sc, ir.Reshape(mapped, shape), "back", of=[mapped])
        return None

    def concat(self, sc: Scope, depth: int) -> None:
        a = self.array(sc)
        n, *rest = shape_of(a.type)
        m = self.choose(sc.sizes)
        b = self.atom(sc, array_of(elem_of(a.type), m, *rest))
        size = self.op(sc, "add", n, m)
        if len(sc.sizes) < 6:
            sc.sizes.append(size)
        self.let(sc, ir.Concat((a, b), size), "cat")

    def build(self, sc: Scope, depth: int) -> None:
        match self.rng.randrange(4):
            case 0:
                t = I64 if self.smooth else self.choose([I64, I32])
                self.let(sc, ir.Iota(self.choose(sc.sizes), self.const(t), self.const(t)), "io")
            case 1:
                self.let(sc, ir.Replicate((self.choose(sc.sizes),), self.atom(sc, self.type(sc))), "rep")
            case 2:
                t2 = self.type(sc, 1)
                elems = [self.atom(sc, t2) for _ in range(self.rng.randint(1, 3))]
                self.let(sc, ir.ArrayLit(tuple(elems), t2), "lit")
            case _:
                a = self.array(sc)
                self.let(sc, ir.Copy(a), "c")

    def target(self, sc: Scope, t: Type) -> Var:
        a = self.atom(sc, t)
        a = self.owned(sc, a)
        self.gone(sc, a)
        return a

    def scatter(self, sc: Scope, depth: int) -> None:
        """Distinct positions: counted up or down from somewhere, some of them out of range."""
        width, t = self.choose(sc.sizes), self.prim()
        rest = [self.choose(sc.sizes)] if self.chance(0.3) else []
        idx = self.let(sc, ir.Iota(width, i64(self.choose([0, 1, -1, 2])), i64(self.choose([1, -1, 2]))), "ix")
        values = self.let(sc, ir.Copy(self.atom(sc, array_of(t, width, *rest))), "c")
        dest = self.target(sc, array_of(t, self.choose(sc.sizes), *rest))
        self.let(sc, ir.Scatter(width, (dest,), (idx,), (values,)), "sc")

    def scatter_2d(self, sc: Scope, depth: int) -> None:
        """Along a diagonal or a row of a matrix."""
        width, t = self.choose(sc.sizes), self.prim()
        steps = self.choose([(1, 1), (0, 1), (1, 0), (-1, 1)])
        idxs = [self.let(sc, ir.Iota(width, i64(self.choose([0, 1])), i64(d)), "ix") for d in steps]
        values = self.let(sc, ir.Copy(self.atom(sc, array_of(t, width))), "c")
        dest = self.target(sc, array_of(t, self.choose(sc.sizes), self.choose(sc.sizes)))
        self.let(sc, ir.Scatter(width, (dest,), tuple(idxs), (values,)), "sc")

    def hist_2d(self, sc: Scope, depth: int) -> None:
        """Sums by two indices; otherwise pairs of a sum and a maximum by one."""
        width, arrays = self.inputs(sc, 2)
        lam = self.lam(sc, [("x", row_type(a.type)) for a in arrays], lambda s: [self.bins(s), self.bins(s)])
        idxs = self.emit(sc, ir.Map(width, tuple(arrays), lam), "bin")
        n, m = self.choose(sc.sizes), self.choose(sc.sizes)
        if self.smooth or self.chance(0.5):
            values = self.let(sc, ir.Copy(self.atom(sc, array_of(F64, width))), "c")
            add = self.lam(sc, [("x", F64), ("y", F64)], lambda s: [self.op(s, "add", *s.vars[-2:])])
            dest = self.target(sc, array_of(F64, n, m))
            self.let(sc, ir.Hist(width, (dest,), idxs, (values,), add, (Const(F64, 0),)), "hi")
            return

        def pair(s: Scope) -> Sequence[Atom]:
            x, u, y, v = s.vars[-4:]
            return [self.op(s, "add", x, y), self.op(s, "max", u, v)]

        both = [self.let(sc, ir.Copy(self.atom(sc, array_of(I64, width))), "c") for _ in range(2)]
        f = self.lam(sc, [(p, I64) for p in "xuyv"], pair)
        dests = [self.let(sc, ir.Replicate((n,), Const(I64, e)), "new") for e in (0, -(2**63))]
        for d in dests:
            self.gone(sc, d)
        neutral = (Const(I64, 0), Const(I64, -(2**63)))
        self.emit(sc, ir.Hist(width, tuple(dests), (idxs[0],), tuple(both), f, neutral), "hi")

    def argsort(self, sc: Scope, depth: int) -> None:
        """Elements in the order of some small keys."""
        width, arrays = self.inputs(sc, 2)
        most = self.choose([1, 3, 300])
        params = [("x", row_type(a.type)) for a in arrays]
        key = self.lam(sc, params, lambda s: [self.op(s, "mod", self.atom(s, I64), i64(most))])
        keys = self.let(sc, ir.Map(width, tuple(arrays), key), "keys")
        order = self.let(sc, ir.ArgSort(keys, i64(most)), "order")
        values = self.atom(sc, array_of(self.prim(), width))
        pick = self.lam(sc, [("p", I64)], lambda s: [self.let(s, ir.At(values, (s.vars[-1],), None), "picked")])
        self.let(sc, ir.Map(width, (order,), pick), "sorted")

    def bins(self, s: Scope) -> Atom:
        """Small integers around the range of valid positions."""
        return self.op(s, "sub", self.op(s, "mod", self.atom(s, I64), i64(6)), i64(1))

    def hist(self, sc: Scope, depth: int) -> None:
        width, arrays = self.inputs(sc, 2)
        lam = self.lam(sc, [("x", row_type(a.type)) for a in arrays], lambda s: [self.bins(s)])
        idx = self.let(sc, ir.Map(width, tuple(arrays), lam), "bin")
        t = self.choose([F64] if self.smooth else [F64, I64, I32])
        most = 2 ** (t.bits - 1)
        choices = [("add", 0)] if t is F64 else [("add", 0), ("mul", 1), ("max", -most)]
        op, unit = self.choose(choices)
        rest = [self.choose(sc.sizes)] if self.chance(0.25) else []
        row = array_of(t, *rest)
        values = self.let(sc, ir.Copy(self.atom(sc, array_of(t, width, *rest))), "c")

        def combine(s: Scope) -> Sequence[Atom]:
            x, y = s.vars[-2:]
            if isinstance(row, Prim):
                return [self.op(s, op, x, y)]
            inner = self.lam(s, [("u", t), ("v", t)], lambda r: [self.op(r, op, *r.vars[-2:])])
            return [self.let(s, ir.Map(rest[0], (x, y), inner))]

        f = self.lam(sc, [("x", row), ("y", row)], combine)
        neutral: Atom = Const(t, unit)
        if rest:
            neutral = self.let(sc, ir.Replicate(tuple(rest), neutral), "ne")
        dest = self.target(sc, array_of(t, self.choose(sc.sizes), *rest))
        self.let(sc, ir.Hist(width, (dest,), (idx,), (values,), f, (neutral,)), "hi")

    def accumulate(self, sc: Scope, depth: int) -> None:
        """A map that adds into an accumulator, and returns something besides."""
        width, arrays = self.inputs(sc, 2)
        t = F64 if self.smooth else self.choose([F64, I64])
        rest = [self.choose(sc.sizes)] if self.chance(0.25) else []
        dest = self.target(sc, array_of(t, self.choose(sc.sizes), *rest))
        arrays = [a for a in arrays if a in sc.vars] or [self.array_like(sc, array_of(F64, width))]

        def outer(b: Builder, acc: Var) -> Sequence[Atom]:
            s = Scope(b, sc)

            def inner(c: Builder, a: Var, *rows: Var) -> Sequence[Atom]:
                r = Scope(c, s)
                r.vars += rows
                for v in rows:
                    self.roots[v] = frozenset((v,))
                self.fill(r, depth + 1, 2)
                at, value = self.bins(r), self.atom(r, array_of(t, *rest))
                return [c.let(ir.UpdateAcc(a, (at,), value), "acc"), self.atom(r, F64)]

            lam = b.lambda_([("acc", acc.type), *[("x", row_type(v.type)) for v in arrays]], inner)
            return b.emit(ir.Map(width, (acc, *arrays), lam), "acc", "m", types=[acc.type, array_of(F64, width)])

        lam = sc.b.lambda_([("acc", AccType(elem_of(dest.type), shape_of(dest.type)))], outer)
        self.emit(sc, ir.WithAcc((dest,), "add", lam), "wa", types=[dest.type, array_of(F64, width)])
