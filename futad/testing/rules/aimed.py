"""Random small programs aimed at a rule in Python: made of the constructs that it looks at.

What rules look for is made often: operands that are constants, equal, defined by constructs that move data, indices of
the scope around, scopes that pass on what they are given; and things that keep rules from applying, arrays that are
overwritten and values that escape.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from futad.core import ir
from futad.core.builder import Builder
from futad.core.scalarops import OPS
from futad.core.types import (
    BOOL,
    F32,
    F64,
    I64,
    ONE,
    ZERO,
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
)  # fmt: skip
from futad.rewrite.patterns.instance import returning
from futad.rewrite.strategy import Rule
from futad.testing.rules.instances import overwrite
from futad.testing.rules.parts import PRIMS, SPAN, Parts


class Aim(Parts):
    """Makes the constructs that rules look at."""

    # -- by head

    def head_op(self, rule: Rule) -> None:
        name = self.some(rule.ops or list(OPS))
        t = self.some(self.prims(name) or list(OPS[name].types))
        args: list[Atom] = []
        if t.is_float and name in ("add", "sub", "mul", "div") and self.chance(0.2):
            args = [self.atom(t), self.atom(t)]  # what solves an operation for its operand, put into it
            x = self.let(ir.Op(self.some(["add", "sub", "mul", "div"]), tuple(args)), attrs=(ir.SOLVES,))
            self.op(name, *self.some([(x, args[1]), (args[1], x), (args[0], x)]))
            return
        for u in OPS[name].arg_types(t):
            same = [a for a in args if a.type is u]
            again = same and self.chance(0.25)
            args.append(same[-1] if again else self.scalar(u) if self.chance(0.4) else self.atom(u))
        self.op(name, *args)

    def head_at(self, rule: Rule) -> None:
        rank = self.rng.randint(1, 2)
        t = array_of(self.some(PRIMS[:5]), *[self.size() for _ in range(rank)])
        assert isinstance(t, ArrayType)
        a: Atom = self.array(t) if self.chance(0.8) else self.atom(t)
        if self.frame is not None and self.chance(0.6):
            i, n = self.frame
            rows = [v for v in self.pool if isinstance(v.type, ArrayType) and v.type.shape[0] is n]
            v = self.some(rows)
            index = (i, *[self.place(k) for k in v.type.shape[1:] if self.chance(0.5)])
            self.let(ir.At(v, index, self.check()), "e")
            return
        if self.chance(0.15):
            size = self.b.op("add", t.shape[0], self.sizes[0])
            more = self.atom(array_of(t.elem, self.sizes[0], *t.shape[1:]))
            a = self.let(ir.Concat((a, more), size), "cat")
            assert isinstance(a.type, ArrayType)
            t = a.type
        self.let(ir.At(a, self.indexed(t), self.check()), "e")

    def head_update(self, rule: Rule) -> None:
        if self.chance(0.2):
            self.rows_one_by_one()
            return
        t = self.some([self.type(2), array_of(F64, self.size()), array_of(I64, i64(2))])
        if isinstance(t, ArrayType):
            self.let(self.updated(t), "up")

    def rows_one_by_one(self) -> None:
        """An array of equal rows, of which those with constant numbers are written, perhaps not all, or some twice."""
        n = self.rng.randint(1, 3)
        row = self.some([F64, I64, array_of(F64, self.size())])
        a: Atom = self.let(ir.Replicate((i64(n),), self.atom(row)), "rows")
        numbers = self.rng.sample(range(n), n) if self.chance(0.7) else self.rng.choices(range(n), k=n + 1)
        for i in numbers:
            a = self.let(ir.Update(a, (i64(i),), self.atom(row), self.check() if self.chance(0.2) else None), "up")

    def head_reshape(self, rule: Rule) -> None:
        t = self.some(PRIMS[:4])
        shapes = [(6,), (2, 3), (3, 2), (1, 6), (6, 1), (1, 2, 3)]
        a = self.atom(ArrayType(t, tuple(map(i64, self.some(shapes)))))
        for _ in range(self.rng.randint(1, 2)):
            a = self.let(ir.Reshape(a, tuple(map(i64, self.some(shapes)))), "re")

    def head_rearrange(self, rule: Rule) -> None:
        t = self.some(PRIMS[:4])
        shape = self.some([(2, 3), (1, 2, 3), (3, 2), tuple(self.sizes), (self.sizes[0], 2, 3)])
        a: Atom = self.atom(ArrayType(t, tuple([i64(n) if isinstance(n, int) else n for n in shape])))
        for _ in range(self.rng.randint(1, 3)):
            perm = list(range(len(shape_of(a.type))))
            self.rng.shuffle(perm)
            a = self.let(ir.Rearrange(a, tuple(perm)), "tr")
            old = shape_of(a.type)
            if self.chance(0.5) and len(old) == 3:
                joined = _joined(old[0], old[1])
                if joined is not None:
                    a = self.let(ir.Reshape(a, (joined, old[2])), "re")
                else:
                    joined = _joined(old[1], old[2])
                    if joined is not None:
                        a = self.let(ir.Reshape(a, (old[0], joined)), "re")

    def head_replicate(self, rule: Rule) -> None:
        value = self.atom(self.type(1))
        for _ in range(self.rng.randint(1, 2)):
            value = self.let(ir.Replicate(tuple([self.size() for _ in range(self.rng.randint(0, 2))]), value), "rep")

    def head_copy(self, rule: Rule) -> None:
        self.let(ir.Copy(self.some([self.atom(self.type(2)), self.array(ArrayType(I64, (self.size(),)))])), "c")

    def head_concat(self, rule: Rule) -> None:
        t, rest = self.some(PRIMS[:4]), [self.size()] if self.chance(0.3) else []
        old: Var | None = None
        for _ in range(self.rng.randint(1, 2)):
            arrays: list[Atom] = [] if old is None else [old]
            while len(arrays) < 2 and (not arrays or self.chance(0.8)):
                arrays.append(self.atom(array_of(t, self.size(), *rest)))
            self.rng.shuffle(arrays)
            size = shape_of(arrays[0].type)[0]
            for a in arrays[1:]:
                more = shape_of(a.type)[0]
                if isinstance(size, Const) and isinstance(more, Const):
                    size = i64(size.value + more.value)
                else:
                    size = size if more is ZERO else more if size is ZERO else self.b.op("add", size, more)
            old = self.let(ir.Concat(tuple(arrays), size), "cat")

    def head_literal(self, rule: Rule) -> None:
        t = self.type(1)
        a = self.atom(t)
        elems = [a if self.chance(0.8) else self.atom(t) for _ in range(self.rng.randint(1, 3))]
        self.let(ir.ArrayLit(tuple(elems), t), "lit")

    def head_assert(self, rule: Rule) -> None:
        of = tuple([self.atom(self.type(1))]) if self.chance(0.5) else ()
        cond = Const(BOOL, True) if self.chance(0.6) else self.atom(BOOL)
        self.pool += self.b.emit(ir.Assert(cond, "wrong", (), SPAN, of), "of")

    def head_if(self, rule: Rule) -> None:
        prims = self.chance(0.6)
        types = [self.some(PRIMS[:5]) if prims else self.type(1) for _ in range(self.rng.randint(1, 3))]
        shared = [self.atom(t) for t in types]
        conds = [Const(BOOL, self.chance(0.5)), self.op("not", self.atom(BOOL)), self.atom(BOOL), self.scalar(BOOL)]
        cond = self.some(conds)

        def branch() -> list[Atom]:
            if self.chance(0.3):
                self.op(self.some(["div", "mod", "add", "sub", "min"]), self.atom(I64), self.atom(I64))
            elif self.chance(0.5):
                self.op(self.some(["neg", "sqrt", "exp", "log"]), self.atom(F64))
            return [a if self.chance(0.5) else self.atom(a.type) for a in shared]

        e = ir.If(cond, self.scope((), branch), self.scope((), branch))
        self.pool += self.b.emit(e, "r", types=types)

    def head_par(self, rule: Rule) -> None:
        """Two tasks, each with or without a sum; failures are of one, or of both."""
        types = [self.some(PRIMS[:5]) for _ in range(self.rng.randint(2, 4))]
        first = self.rng.randint(1, len(types) - 1)

        def task(results: Sequence[Type]) -> list[Atom]:
            if self.chance(0.4):
                self.head_fold(rule)
            if self.chance(0.5):
                self.op(self.some(["div", "mod"]), self.atom(I64), self.atom(I64))
            elif self.chance(0.5):
                self.head_assert(rule)
            return [self.atom(t) for t in results]

        tasks = [self.scope((), lambda: task(types[:first])), self.scope((), lambda: task(types[first:]))]
        self.pool += self.b.emit(ir.Par(*tasks), "p", types=types)

    def head_loop(self, rule: Rule) -> None:
        inits = [self.atom(self.type(1)) for _ in range(self.rng.randint(1, 3))]
        inits = [self.let(ir.Copy(a)) if isinstance(a.type, ArrayType) else a for a in inits]
        types = [a.type for a in inits]

        def following(params: Sequence[Var]) -> list[Atom]:
            out: list[Atom] = []
            for k, p in enumerate(params):
                other = self.some([inits[k], p, *[q for q in params if q.type == p.type]])
                out.append(other if self.chance(0.6) else self.atom(p.type))
            return out

        if ir.While in rule.heads and self.chance(0.5 if ir.For in rule.heads else 1.0):
            start = Const(BOOL, False) if self.chance(0.5) else self.atom(BOOL)
            count = self.atom(I64) if self.chance(0.3) else ZERO

            def iteration(going: Var, k: Var, *params: Var) -> list[Atom]:
                nxt = self.op("add", k, ONE)
                return [self.op("lt", nxt, i64(3)), nxt, *following(params)]

            lam = self.scope([BOOL, I64, *types], iteration)
            self.pool += self.b.emit(ir.While((start, count, *inits), lam), "w", types=[BOOL, I64, *types])[1:]
            return
        bound = self.some([ZERO, ONE, i64(-1), i64(3), self.size(), self.size()])
        attrs = self.some([(), (("unroll",),)])
        lam = self.scope([I64, *types], lambda i, *params: following(params))
        self.pool += self.b.emit(ir.For(bound, tuple(inits), lam), "l", types=types, attrs=attrs)

    def rows(self, n: Atom) -> list[Atom]:
        made: list[Atom] = []
        for _ in range(self.rng.randint(1, 3)):
            t = array_of(self.some(PRIMS[:5]), n, *([self.size()] if self.chance(0.25) else []))
            assert isinstance(t, ArrayType)
            made.append(self.some(made) if made and self.chance(0.3) else self.array(t))
        if self.chance(0.2):
            made.append(self.let(ir.Rearrange(self.array(ArrayType(F64, (self.size(), n))), (1, 0))))
        return made

    def repeated(self, x: Atom) -> Var:
        """The value some times, or that with its dimensions in another order."""
        rep = self.let(ir.Replicate((self.size(),), x), "rep")
        rank = len(shape_of(rep.type))
        return self.let(ir.Rearrange(rep, (*range(1, rank), 0))) if self.chance(0.5) else rep

    def head_map(self, rule: Rule) -> None:
        n = self.size()
        arrays = self.rows(n)
        fused = ir.Fused in rule.heads and (ir.Map not in rule.heads or self.chance(0.4))
        outside = [self.atom(self.type(1)) for _ in range(2)]

        def body(*params: Var) -> list[Atom]:
            x = self.atom(F64)
            out: list[Atom] = [self.some([x, x, self.atom(F64)]) for _ in range(2)] if fused else []
            for _ in range(self.rng.randint(1, 3)):
                out.append(self.some([*params, *outside, *out[-1:], self.atom(self.some(PRIMS[:4]))]))
            if self.chance(0.3):
                out.append(self.repeated(out[-1]))
            return out

        lam = self.scope([row_type(a.type) for a in arrays], body)
        if not fused:
            self.pool += self.b.emit(ir.Map(n, tuple(arrays), lam), "m")
            return
        first = self.some(["add", "add", "max", "mul"])
        folds = [self.fold(o, F64) for o in (first, first if self.chance(0.6) else "min")]
        k = self.rng.randint(0, 1) if self.chance(0.3) else 0
        self.pool += self.b.emit(ir.Fused(n, tuple(arrays), lam, tuple(folds[:k]), tuple(folds[k:])), "f")

    def fold(self, name: str, t: Prim) -> ir.Fold:
        params = (Var("u", t), Var("v", t))
        b = Builder()
        r = b.op(name, *params)
        start = Const(t, OPS[name].neutral(t))
        return ir.Fold(ir.Lambda(params, tuple(b.stms), (r,)), (start,), OPS[name].commutative)

    def head_fold(self, rule: Rule) -> None:
        t = self.some([F64, I64, F32, BOOL])
        f = self.fold(self.some(["or", "and"] if t is BOOL else ["add", "mul", "max"]), t)
        n = self.some([ZERO, self.size(), self.size()])
        xs = self.let(ir.Replicate((n,), self.some([f.neutral[0], self.const(t)]))) if self.chance(0.6) else \
            self.atom(array_of(t, n))  # fmt: skip
        scan = ir.Scan in rule.heads and (ir.Reduce not in rule.heads or self.chance(0.5))
        self.let(ir.folding(n, (xs,), f, scan), "s")

    def head_write(self, rule: Rule) -> None:
        n, t = self.some([ZERO, self.size()]), self.some([F64, I64])
        dest = self.let(ir.Copy(self.atom(array_of(t, self.size()))))
        idx, values = self.atom(array_of(I64, n)), self.atom(array_of(t, n))
        if ir.Hist in rule.heads and self.chance(0.5):
            f = self.fold("add", t)
            self.let(ir.Hist(n, (dest,), (idx,), (values,), f.lam, f.neutral), "h")
        else:
            self.let(ir.Scatter(n, (dest,), (self.let(ir.Iota(n, self.atom(I64), ONE)),), (values,)), "sc")

    def head_acc(self, rule: Rule) -> None:
        """Accumulators: idle ones, values from outside, what does not need them; updates that are mostly zero."""
        k = self.rng.randint(1, 2)
        n = self.some([self.sizes[0], self.sizes[1], i64(2)])
        wide = [i64(40)] if self.chance(0.3) else []
        dests = [self.let(ir.Copy(self.atom(array_of(self.some([F64, I64]), n, *wide)))) for _ in range(k)]
        width = self.size()
        outside = self.atom(self.type(1))

        def row(t: Prim) -> Var:
            made = self.b.let(ir.Replicate((i64(40),), self.const(t) if self.chance(0.2) else Const(t, 0)), "row")
            for _ in range(self.rng.randint(1, 3)):
                j = self.some([ZERO, ONE, self.b.op("mod", self.atom(I64), i64(40))])
                x = self.atom(t)
                if self.chance(0.7):
                    x = self.b.op("add", *self.some([(a := self.b.let(ir.At(made, (j,)), "old"), x), (x, a)]))
                made = self.b.let(ir.Update(made, (j,), x), "row")
            return made

        def added(acc: Var, i: Atom) -> Var:
            t = elem_of(acc.type)
            if wide:
                return self.b.let(ir.UpdateAcc(acc, (self.some([i, self.atom(I64), ZERO]),), row(t)), "acc")
            v: Atom = self.const(t) if self.chance(0.4) else self.atom(t)
            if self.chance(0.5):
                hot = self.b.op("eq", i, self.some([self.atom(I64), i64(1)]))
                v = self.b.op("select", hot, v, self.const(t) if self.chance(0.2) else Const(t, 0))
                v = self.b.op(self.some(["mul", "mul", "add", "max"]), v, self.atom(t)) if self.chance(0.6) else v
            return self.b.let(ir.UpdateAcc(acc, (self.some([i, self.atom(I64), ZERO]),), v), "acc")

        def body(*accs: Var) -> list[Atom]:
            out: list[Atom] = []
            mine = self.atom(F64)
            for acc in accs:
                if self.chance(0.3):
                    out.append(acc)
                elif self.chance(0.5):
                    out.append(added(acc, self.atom(I64)))
                else:
                    index = self.b.let(ir.Iota(width, ZERO, ONE), "is")
                    xs = self.atom(array_of(elem_of(acc.type), width))
                    lam = self.scope([acc.type, I64, elem_of(acc.type)], lambda a, i, x: [added(a, i)])
                    out.append(self.b.let(ir.Map(width, (acc, index, xs), lam), "acc"))
            if self.chance(0.4):
                mine = self.atom(F64)
                self.op("exp", mine)
            return [*out, *[self.some([outside, mine, self.atom(I64)]) for _ in range(self.rng.randint(0, 2))]]

        lam = self.scope([AccType(elem_of(d.type), shape_of(d.type)) for d in dests], body)
        self.pool += self.b.emit(ir.WithAcc(tuple(dests), "add", lam), "wa",
                                 types=[d.type for d in dests] + [a.type for a in lam.result[k:]])  # fmt: skip

    def head_fill(self) -> None:
        """A loop that adds to, or stores in, each element of an array of zeros."""
        n, t = self.size(), F64
        zeros = self.let(ir.Replicate((n,), Const(t, 0) if self.chance(0.8) else Const(t, 1)), "zeros")
        bound = n if self.chance(0.8) else self.size()
        last = self.op("sub", bound, ONE)
        xs = self.atom(array_of(t, n))

        def iteration(i: Var, a: Var, s: Var) -> list[Atom]:
            at = self.some([i, i, self.op("sub", last, i), self.op("mod", self.atom(I64), n)])
            read = at if self.chance(0.85) else i
            old = self.b.let(ir.At(a, (read,), None), "old")
            x = self.b.let(ir.At(xs, (i,), None))
            new = self.b.op("add", *self.some([(old, self.some([s, self.atom(t)])), (x, old)]))
            after = self.b.let(ir.Update(a, (at,), new, None), "after")
            return [after if self.chance(0.9) else a, self.some([s, new, self.atom(t), self.op("add", s, ONE_F)])]

        lam = self.scope([I64, zeros.type, t], iteration)
        self.pool += self.b.emit(ir.For(bound, (zeros, self.atom(t)), lam), "l", types=[zeros.type, t])

    def head_count(self) -> None:
        """A loop with a variable that counts, or nearly."""
        t = I64
        steps = self.some([ZERO, ONE, i64(3), self.size(), self.size()])

        def iteration(_i: Var, k: Var, s: Var) -> list[Atom]:
            step = self.const(t) if self.chance(0.8) else self.atom(t)
            after = self.op(self.some(["add", "sub"]), self.some([k, k, k, s]), step)
            return [after, self.op("add", s, self.some([k, self.atom(t)]))]

        lam = self.scope([I64, t, t], iteration)
        self.pool += self.b.emit(ir.For(steps, (self.atom(t), self.atom(t)), lam), "l", types=[t, t])

    def around(self, f: Callable[[], None]) -> None:
        """Statements, perhaps inside a map, a loop or a branch."""
        kind = self.rng.randrange(7)
        if kind > 3 or self.depth > 1:
            return f()

        def values() -> list[Atom]:
            outer = len(self.b.stms)
            f()
            made = [v for s in self.b.stms[outer:] for v in s.pat if not isinstance(v.type, AccType)]
            inner = {v for s in self.b.stms for v in s.pat}
            fit = [v for v in made if not any(n in inner for n in shape_of(v.type))]
            return list(fit[-2:]) or [ZERO]

        n = self.size()
        if kind <= 1:
            index = self.let(ir.Iota(n, ZERO, ONE), "is")
            xs = self.atom(array_of(F64, n))

            def row(i: Var, x: Var) -> list[Atom]:
                self.frame = i, n
                return values()

            outside = self.input(array_of(self.some(PRIMS[:4]), n, *([self.size()] if self.chance(0.3) else [])))
            assert isinstance(outside.type, ArrayType)
            lam = self.scope([I64, F64], row)
            self.frame = None
            self.pool += self.b.emit(ir.Map(n, (index, xs), lam), "m")
        elif kind == 2:
            lam = self.scope([I64, I64], lambda i, k: [self.carried(values())])
            self.pool += self.b.emit(ir.For(n, (self.atom(I64),), lam), "l", types=[I64])
        else:
            cond = self.op("lt", self.atom(I64), self.some(self.sizes)) if self.chance(0.5) else self.atom(BOOL)
            got: list[Atom] = []

            def taken() -> list[Atom]:
                got.extend(values())
                return got

            then = self.scope((), taken)
            orelse = self.scope((), lambda: [self.atom(a.type) for a in got])
            self.pool += self.b.emit(ir.If(cond, then, orelse), "r", types=[a.type for a in got])
        return None

    def carried(self, values: list[Atom]) -> Atom:
        for v in values:
            if v.type is I64:
                return v
            if isinstance(v.type, Prim) and v.type.is_integral | v.type.is_bool:
                return self.op("to_i64", v)
            if isinstance(v.type, ArrayType) and elem_of(v.type) is I64 and len(v.type.shape) == 1:
                f = self.fold("add", I64)
                return self.let(ir.folding(v.type.shape[0], (v,), f, False), "sum")
        return values[0] if values[0].type is I64 else ZERO


ONE_F = Const(F64, 1)


def _joined(n: Atom, m: Atom) -> Atom | None:
    return i64(n.value * m.value) if isinstance(n, Const) and isinstance(m, Const) else None


AIMS: dict[type, str] = {
    ir.Op: "head_op", ir.At: "head_at", ir.Update: "head_update", ir.Reshape: "head_reshape", ir.Copy: "head_copy",
    ir.Rearrange: "head_rearrange", ir.Replicate: "head_replicate", ir.Concat: "head_concat",
    ir.ArrayLit: "head_literal", ir.Assert: "head_assert", ir.If: "head_if", ir.Par: "head_par", ir.For: "head_loop",
    ir.While: "head_loop", ir.Map: "head_map", ir.Fused: "head_map", ir.Reduce: "head_fold", ir.Scan: "head_fold",
    ir.Scatter: "head_write", ir.Hist: "head_write", ir.WithAcc: "head_acc", ir.UpdateAcc: "head_acc",
}  # fmt: skip


def aimed(rule: Rule, rng: random.Random) -> ir.Program | None:
    """A program that has one of the rule's constructs; None if there is no aiming at them."""
    a = Aim(rng)
    heads = [h for h in rule.heads if h in AIMS]
    if not heads:
        return None
    head = rng.choice(heads)

    def make() -> None:
        if head is ir.For and a.chance(0.4):
            a.some([a.head_fill, a.head_fill, a.head_count])()
        elif head is ir.Map and a.chance(0.4):
            a.head_acc(rule)
        else:
            for _ in range(rng.randint(1, 2)):
                getattr(a, AIMS[head])(rule)

    a.around(make)
    return returned(a, rng)


def returned(a: Aim, rng: random.Random) -> ir.Program | None:
    """A program of the statements made; arrays of it may be overwritten.  None if they bind nothing."""
    values: list[Atom] = [v for s in a.b.stms for v in s.pat if not isinstance(v.type, AccType)]
    if rng.random() < 0.5:
        values = values[-2:]
    # An array that is overwritten, in the end or before: what may share its memory is another value then.
    arrays = [v for s in a.b.stms for v in s.pat if isinstance(v.type, ArrayType)]
    stms = list(a.b.stms)
    if arrays and rng.random() < 0.5:
        v = rng.choice(arrays)
        more, new = overwrite(v, rng)
        defined = next(k for k, s in enumerate(stms) if v in s.pat)
        at = rng.randint(defined + 1, len(stms))
        stms[at:at] = more
        values = [x for x in values if x is not v] + [new]
    gone = {a for s in stms for a in s.exp.consumes()}
    values = [x for x in values if x not in gone]
    if not values:
        return None
    fun = returning((*a.sizes, *a.inputs), stms, values, 2)
    return ir.Program({fun.name: fun})


__all__ = ["AIMS", "SPAN", "Aim", "aimed", "returned"]
