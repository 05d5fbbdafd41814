"""Random well-typed core programs with inputs, reproducible from a seed.

`program(seed)` gives a `Sample`: a program whose entry `main` uses most constructs, and arguments for it.
`differentiable(seed)` gives one of smooth f64 code only, to be wrapped by `with_vjp` and `with_jvp`.

Floating-point values stay bounded (every operation is a contraction or nearly), and decisions compare with
thresholds that no exact value hits, so that reassociation changes results by rounding only.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from futad.core import ir
from futad.core.builder import Builder
from futad.core.node import Range
from futad.core.types import (
    BOOL,
    F32,
    F64,
    I32,
    I64,
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
from futad.errors import Span

SPAN = Span("gen.fut", 1, 1, 1, 2)
MAX_RANK = 3
Body = Callable[["Scope"], Sequence[Atom]]


@dataclass(slots=True)
class Sample:
    """A program and arguments for all parameters of `main`; `floats` marks the positions of f64 parameters."""

    seed: int
    program: ir.Program
    args: list[object]

    def describe(self) -> str:
        return f"seed {self.seed}\n{self.program!r}\nargs {self.args!r}"


class Scope:
    """Variables and sizes that may be used; `own` are the arrays that may be consumed here."""

    def __init__(self, b: Builder, parent: Scope | None = None) -> None:
        self.b = b
        self.vars: list[Var] = list(parent.vars) if parent else []
        self.sizes: list[Atom] = list(parent.sizes) if parent else []
        self.own: set[Var] = set()


class Gen:
    def __init__(self, seed: int, smooth: bool, zero: bool) -> None:
        self.rng = random.Random(seed)
        self.smooth = smooth
        self.zero = zero  # sizes may be 0, so nothing is indexed
        self.budget = self.rng.randint(6, 22)
        self.roots: dict[Var, frozenset[Var]] = {}
        self.used: set[Var] = set()
        self.prims: list[Prim] = [F64, F64, F64, I64] if smooth else [F64, F64, F32, I64, I64, I32, BOOL]
        self.helpers: list[ir.Fun] = []
        kinds: list[tuple[int, Callable[[Scope, int], None]]] = [
            (6, self.scalars), (8, self.map), (4, self.reduce), (3, self.scan), (4, self.loop), (2, self.while_),
            (4, self.branch), (4, self.update), (2, self.layout), (2, self.concat), (2, self.slice), (2, self.build),
            (2, self.scatter), (3, self.hist), (3, self.accumulate), (1, self.unknown_size), (1, self.call),
            (2, self.index), (1, self.fused),
        ]  # fmt: skip
        if zero:
            kinds = [(w, k) for w, k in kinds if k not in (self.index, self.update, self.slice)]
        if smooth:
            kinds = [(w, k) for w, k in kinds if k != self.fused]
        self.kinds = [k for w, k in kinds for _ in range(w)]

    # -- choosing and making values

    def choose(self, xs: Sequence):  # type: ignore[no-untyped-def, type-arg]
        return xs[self.rng.randrange(len(xs))]

    def prefer(self, found: list[Var]) -> Var:
        """One of the variables, mostly one not used so far, so that little of the program is dead."""
        fresh = [v for v in found if v not in self.used]
        v = self.choose(fresh if fresh and self.chance(0.75) else found[-6:] if self.chance(0.5) else found)
        self.used.add(v)
        return v

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def emit(self, sc: Scope, e: ir.Exp, *names: str, types: Sequence[Type] | None = None,
             roots: Sequence[frozenset[Var]] | None = None) -> tuple[Var, ...]:  # fmt: skip
        """Binds the results; `roots` says what they may share memory with (default: nothing)."""
        vs = sc.b.emit(e, *names, types=types)
        for i, v in enumerate(vs):
            sc.vars.append(v)
            if isinstance(v.type, ArrayType):
                self.roots[v] = roots[i] if roots is not None else frozenset((v,))
                sc.own |= self.roots[v] & {v}
        return vs

    def let(self, sc: Scope, e: ir.Exp, name: str = "t", of: Sequence[Atom] = ()) -> Var:
        """Binds one result, which shares memory with the arrays `of`."""
        roots = frozenset().union(*[self.roots.get(a, frozenset()) for a in of if isinstance(a, Var)])
        return self.emit(sc, e, name, roots=[roots] if of else None)[0]

    def op(self, sc: Scope, name: str, *args: Atom) -> Var:
        return self.let(sc, ir.Op(name, args))

    def const(self, t: Prim) -> Const:
        if t.is_float:
            return Const(t, self.choose([0.5, -0.75, 0.3125, 1.25, -1.125, 0.0]))
        return Const(t, self.choose([0, 1, 2, 3, -1, 5]))

    def atom(self, sc: Scope, t: Type) -> Atom:
        """A value of the type: one in scope, or made."""
        found = [v for v in sc.vars if self.fits(v.type, t)]
        if found and self.chance(0.92):
            return self.prefer(found)
        if isinstance(t, Prim):
            others = [v for v in sc.vars if isinstance(v.type, Prim)]
            if others and self.chance(0.3) and not self.smooth:
                x = self.choose(others)
                if x.type.is_float and not t.is_float:
                    x = self.op(sc, "mul", x, Const(x.type, 7.123))
                return self.op(sc, f"to_{t.name}", x) if x.type is not t else x
            return self.const(t)
        assert isinstance(t, ArrayType)
        row = row_type(t)
        if isinstance(row, Prim) and row is not BOOL and self.chance(0.4) and not self.smooth:
            it = self.let(sc, ir.Iota(t.shape[0], self.const(row), self.const(row)), "io")
            return self.tame(sc, it)
        if self.chance(0.5):
            return self.let(sc, ir.Replicate(t.shape, self.atom(sc, t.elem)), "rep")
        return self.let(sc, ir.Replicate((t.shape[0],), self.atom(sc, row)), "rep")

    @staticmethod
    def fits(a: Type, b: Type) -> bool:
        return elem_of(a) is elem_of(b) and shape_of(a) == shape_of(b)

    def prim(self) -> Prim:
        return self.choose(self.prims)

    def type(self, sc: Scope, max_rank: int = 2) -> Type:
        rank = self.choose([r for r in (0, 0, 1, 1, 2) if r <= max_rank])
        return array_of(self.prim(), *[self.choose(sc.sizes) for _ in range(rank)])

    def array(self, sc: Scope, max_rank: int = MAX_RANK, elem: Prim | None = None) -> Var:
        """An array in scope, or a new one."""
        found = [v for v in sc.vars if isinstance(v.type, ArrayType) and v.type.rank <= max_rank and elem in (None, v.type.elem)]
        if found and self.chance(0.9):
            return self.prefer(found)
        a = self.atom(sc, array_of(elem or self.prim(), self.choose(sc.sizes)))
        assert isinstance(a, Var)
        return a

    def owned(self, sc: Scope, a: Atom) -> Var:
        """`a` if it may be consumed here (it is then gone), else a copy."""
        assert isinstance(a, Var)
        roots = self.roots.get(a, frozenset())
        if not roots or not roots <= sc.own or self.chance(0.3):
            return self.let(sc, ir.Copy(a), "c")
        return a

    def gone(self, sc: Scope, a: Var) -> None:
        """Forgets `a` and everything that may share its memory."""
        roots = self.roots.get(a, frozenset((a,)))
        sc.vars = [v for v in sc.vars if not (self.roots.get(v, frozenset()) & roots)]

    def lam(self, sc: Scope, params: Sequence[tuple[str, Type]], f: Body, owned: bool = False) -> ir.Lambda:
        """A scope of fresh variables; `owned`: its array parameters may be consumed."""

        def inside(b: Builder, *ps: Var) -> Sequence[Atom]:
            inner = Scope(b, sc)
            inner.vars += ps
            for p in ps:
                if isinstance(p.type, ArrayType):
                    self.roots[p] = frozenset((p,))
                    if owned:
                        inner.own.add(p)
            return f(inner)

        return sc.b.lambda_(params, inside)

    def fill(self, sc: Scope, depth: int, most: int = 3) -> None:
        """A few random statements."""
        for _ in range(self.rng.randint(1, most)):
            if self.budget <= 0:
                self.scalars(sc, depth)
                return
            self.budget -= 1
            if depth >= 3:
                self.choose([self.scalars, self.scalars, self.layout, self.build])(sc, depth)
            else:
                self.choose(self.kinds)(sc, depth)

    # -- scalars

    def float_step(self, sc: Scope, t: Prim) -> Var:
        def k(x: float) -> Const:
            return Const(t, x)

        x, y = self.atom(sc, t), self.atom(sc, t)
        match self.rng.randrange(10 if self.smooth else 13):
            case 0:
                return self.op(sc, self.choose(["sin", "cos", "tanh", "atan"]), x)
            case 1:
                return self.op(sc, "neg", x)
            case 2:
                return self.op(sc, "add", self.op(sc, "mul", x, k(0.5)), self.op(sc, "mul", y, k(0.625)))
            case 3 | 4:
                return self.op(sc, "mul", x, self.op(sc, "sin", y))
            case 5:
                return self.op(sc, "div", x, self.op(sc, "add", self.op(sc, "mul", y, y), k(1.5)))
            case 6:
                return self.op(sc, "sqrt", self.op(sc, "add", self.op(sc, "mul", x, x), k(0.75)))
            case 7:
                return self.op(sc, "exp", self.op(sc, "neg", self.op(sc, "mul", x, x)))
            case 8:
                return self.op(sc, "log", self.op(sc, "add", self.op(sc, "mul", x, x), k(1.25)))
            case 9:
                return self.op(sc, "sub", self.op(sc, "mul", x, k(0.75)), y)
            case 10:
                return self.op(sc, self.choose(["min", "max"]), x, y)
            case 11:
                return self.op(sc, "select", self.cond(sc), x, y)
            case _:
                return self.op(sc, "abs", x)

    def int_step(self, sc: Scope, t: Prim) -> Var:
        x, y = self.atom(sc, t), self.atom(sc, t)
        match self.rng.randrange(6):
            case 0 | 1:
                return self.op(sc, self.choose(["add", "sub", "mul"]), x, y)
            case 2:
                return self.op(sc, self.choose(["min", "max", "and", "or", "xor"]), x, y)
            case 3:
                return self.op(sc, self.choose(["div", "mod", "quot", "rem"]), x, Const(t, self.choose([3, 7, -2, 5])))
            case 4:
                return self.op(sc, self.choose(["neg", "abs", "sgn", "not"]), x)
            case _:
                return self.op(sc, self.choose(["shl", "shr", "ushr"]), x, Const(t, self.choose([1, 2, 5])))

    def cond(self, sc: Scope) -> Atom:
        """A bool: an integer comparison, or a float against an odd threshold."""
        if self.chance(0.3) and any(v.type is BOOL for v in sc.vars):
            return self.atom(sc, BOOL)
        if self.chance(0.3):
            return self.op(sc, "lt", self.atom(sc, F64), Const(F64, self.choose([0.1234567, -0.3456789, 0.7654321])))
        return self.op(sc, self.choose(["lt", "le", "eq", "ne"]), self.atom(sc, I64), self.atom(sc, I64))

    def scalars(self, sc: Scope, depth: int) -> None:
        for _ in range(self.rng.randint(1, 3)):
            self.scalar(sc, self.prim())

    def scalar(self, sc: Scope, t: Prim) -> Var:
        if t.is_float:
            return self.float_step(sc, t)
        if t.is_integral:
            return self.int_step(sc, t)
        return self.op(sc, self.choose(["and", "or", "xor"]), self.cond(sc), self.cond(sc))

    def squash(self, sc: Scope, x: Atom) -> Var:
        """A float of magnitude below 1."""
        return self.op(sc, "tanh", x)

    def tame(self, sc: Scope, a: Var) -> Var:
        """A float array (rank 1) with elements of magnitude below 1; others as they are."""
        assert isinstance(a.type, ArrayType)
        if not a.type.elem.is_float:
            return a
        lam = self.lam(sc, [("x", row_type(a.type))], lambda s: [self.squash(s, s.vars[-1])])
        return self.let(sc, ir.Map(a.type.shape[0], (a,), lam), "tame")

    # -- second-order constructs

    def inputs(self, sc: Scope, most: int = 3) -> tuple[Atom, list[Var]]:
        """A width and arrays of that width."""
        first = self.array(sc)
        width = shape_of(first.type)[0]
        arrays = [first]
        for _ in range(self.rng.randint(0, most - 1)):
            rank = self.choose([0, 0, 1])
            t = array_of(self.prim(), width, *[self.choose(sc.sizes) for _ in range(rank)])
            a = self.atom(sc, t)
            assert isinstance(a, Var)
            arrays.append(a)
        return width, arrays

    def results(self, sc: Scope, types: Sequence[Type]) -> list[Atom]:
        return [self.scalar(sc, t) if isinstance(t, Prim) and self.chance(0.6) else self.atom(sc, t) for t in types]

    def map(self, sc: Scope, depth: int) -> None:
        width, arrays = self.inputs(sc)
        types = [self.type(sc, 1 if depth else 2) for _ in range(self.rng.randint(1, 2))]

        def body(s: Scope) -> Sequence[Atom]:
            self.fill(s, depth + 1)
            return self.results(s, types)

        lam = self.lam(sc, [("x", row_type(a.type)) for a in arrays], body)
        self.emit(sc, ir.Map(width, tuple(arrays), lam), "m", types=[array_of(t, width) for t in types])

    def operator(self, sc: Scope, width: Atom) -> tuple[list[Var], ir.Lambda, list[Atom]]:
        """Arrays of the width, an associative operator on their rows, and its neutral elements."""
        kind = self.rng.randrange(6)
        t = self.prim()
        if kind == 0 and not self.smooth:  # the least value and where it is
            a = self.atom(sc, array_of(I64, width))
            pos = self.let(sc, ir.Iota(width, i64(0), i64(1)), "pos")

            def least(s: Scope) -> Sequence[Atom]:
                x, i, y, j = s.vars[-4:]
                first = self.op(s, "or", self.op(s, "lt", x, y),
                                self.op(s, "and", self.op(s, "eq", x, y), self.op(s, "lt", i, j)))  # fmt: skip
                return [self.op(s, "select", first, x, y), self.op(s, "select", first, i, j)]

            params = [("x", I64), ("i", I64), ("y", I64), ("j", I64)]
            return [a, pos], self.lam(sc, params, least), [Const(I64, 2**63 - 1), Const(I64, 2**63 - 1)]  # type: ignore[list-item]
        if kind == 1:  # composition of linear functions
            ab = [self.tame(sc, self.atom(sc, array_of(F64, width))) for _ in range(2)]  # type: ignore[arg-type]

            def compose(s: Scope) -> Sequence[Atom]:
                a, b, c, d = s.vars[-4:]
                return [self.op(s, "mul", a, c), self.op(s, "add", self.op(s, "mul", b, c), d)]

            return ab, self.lam(sc, [(n, F64) for n in "abcd"], compose), [Const(F64, 1), Const(F64, 0)]
        if kind == 2:  # a vectorised sum or maximum
            size = self.choose(sc.sizes)
            t = F64 if self.smooth else self.choose([F64, I64])
            op, unit = ("add", 0) if self.smooth or self.chance(0.6) else ("max", -np.inf if t is F64 else -(2**63))
            a = self.atom(sc, array_of(t, width, size))

            def vector(s: Scope) -> Sequence[Atom]:
                x, y = s.vars[-2:]
                lam = self.lam(s, [("u", t), ("v", t)], lambda r: [self.op(r, op, *r.vars[-2:])])
                return [self.let(s, ir.Map(size, (x, y), lam))]

            row = array_of(t, size)
            neutral = self.let(sc, ir.Replicate((size,), Const(t, unit)), "ne")
            return [a], self.lam(sc, [("x", row), ("y", row)], vector), [neutral]  # type: ignore[list-item]
        if t is BOOL:
            op, unit = self.choose([("and", 1), ("or", 0), ("xor", 0)])
        elif t.is_float:
            low = [("add", 0), ("add", 0), ("mul", 1)]
            op, unit = self.choose(low if self.smooth else [*low, ("min", np.inf), ("max", -np.inf)])
        else:
            most = 2 ** (t.bits - 1)
            op, unit = self.choose([("add", 0), ("mul", 1), ("min", most - 1), ("max", -most), ("xor", 0)][: 2 if self.smooth else 5])
        a = self.atom(sc, array_of(t, width))
        assert isinstance(a, Var)
        if t.is_float:
            a = self.tame(sc, a)
        k = self.rng.randint(1, 2)
        lam = self.lam(sc, [("x", t), ("y", t)], lambda s: [self.op(s, op, *s.vars[-2:])])
        if k == 1:
            return [a], lam, [Const(t, unit)]

        def pair(s: Scope) -> Sequence[Atom]:
            x, u, y, v = s.vars[-4:]
            return [self.op(s, op, x, y), self.op(s, "add" if t is not BOOL else "or", u, v)]

        b = self.atom(sc, array_of(t, width))
        return [a, b], self.lam(sc, [(n, t) for n in "xuyv"], pair), [Const(t, unit), Const(t, 0)]  # type: ignore[list-item]

    def reduce(self, sc: Scope, depth: int) -> None:
        width = self.choose(sc.sizes)
        arrays, lam, neutral = self.operator(sc, width)
        self.emit(sc, ir.Reduce(width, tuple(arrays), lam, tuple(neutral)), "r")

    def scan(self, sc: Scope, depth: int) -> None:
        width = self.choose(sc.sizes)
        arrays, lam, neutral = self.operator(sc, width)
        self.emit(sc, ir.Scan(width, tuple(arrays), lam, tuple(neutral)), "s")

    def fused(self, sc: Scope, depth: int) -> None:
        """A scan and a reduction of mapped values in one construct."""
        width, arrays = self.inputs(sc)
        add = self.lam(sc, [("x", F64), ("y", F64)], lambda s: [self.op(s, "add", *s.vars[-2:])])
        top = self.lam(sc, [("x", I64), ("y", I64)], lambda s: [self.op(s, "max", *s.vars[-2:])])

        def body(s: Scope) -> Sequence[Atom]:
            self.fill(s, depth + 1)
            return [self.squash(s, self.atom(s, F64)), *self.results(s, [I64, F64])]

        lam = self.lam(sc, [("x", row_type(a.type)) for a in arrays], body)
        self.emit(sc, ir.Fused(width, tuple(arrays), lam, (add,), ((Const(F64, 0),),), (top,),
                               ((Const(I64, -(2**63)),),), (True,)), "f")  # fmt: skip

    # -- control

    def state(self, sc: Scope) -> list[Atom]:
        """Initial values of loop variables; arrays are given up."""
        out: list[Atom] = []
        for _ in range(self.rng.randint(1, 2)):
            t = self.type(sc)
            a = self.atom(sc, t)
            if isinstance(t, ArrayType):
                a = self.owned(sc, a)
                self.gone(sc, a)
            out.append(a)
        return out

    def turn(self, s: Scope, params: Sequence[Var], index: Atom, depth: int) -> list[Atom]:
        """A loop body's results: each variable stepped, arrays mostly by an update in place."""
        out: list[Atom] = []
        if self.chance(0.5):
            self.fill(s, depth + 1, 2)
        for p in params:
            if p not in s.vars:  # consumed by the filling
                out.append(self.made(s, p.type))
            elif isinstance(p.type, Prim):
                out.append(self.scalar(s, p.type))
            elif self.zero or self.chance(0.2):
                out.append(p)
                self.gone(s, p)
            else:
                u = self.update_of(s, p, index)
                out.append(u)
                self.gone(s, u)
        return out

    def made(self, sc: Scope, t: Type) -> Atom:
        """A fresh array of the type."""
        return self.let(sc, ir.Replicate(shape_of(t), self.atom(sc, elem_of(t))), "new")

    def loop(self, sc: Scope, depth: int) -> None:
        bound: Atom = self.choose([*sc.sizes, i64(3)])
        if self.chance(0.3):
            bound = self.op(sc, "mod", self.atom(sc, I64), i64(4))
        inits = self.state(sc)
        params: list[tuple[str, Type]] = [("i", I64), *[("l", a.type) for a in inits]]
        body = self.lam(sc, params, lambda s: self.turn(s, s.vars[-len(inits) :], s.vars[-len(inits) - 1], depth), True)
        self.emit(sc, ir.For(bound, tuple(inits), body), "o")

    def while_(self, sc: Scope, depth: int) -> None:
        limit = self.choose([i64(3), self.op(sc, "mod", self.atom(sc, I64), i64(4))])
        start = self.op(sc, "lt", i64(0), limit)
        inits = self.state(sc)

        def turn(s: Scope) -> Sequence[Atom]:
            count, *rest = s.vars[-len(inits) - 1 :]
            out = self.turn(s, rest, count, depth)
            nxt = self.op(s, "add", count, i64(1))
            return [self.op(s, "lt", nxt, limit), nxt, *out]

        params: list[tuple[str, Type]] = [("c", BOOL), ("k", I64), *[("l", a.type) for a in inits]]
        self.emit(sc, ir.While((start, i64(0), *inits), self.lam(sc, params, turn, True)), "w")

    def branch(self, sc: Scope, depth: int) -> None:
        types = [self.type(sc) for _ in range(self.rng.randint(1, 2))]
        cond = self.cond(sc)
        roots: list[frozenset[Var]] = [frozenset()] * len(types)

        def body(s: Scope) -> Sequence[Atom]:
            if self.chance(0.7):
                self.fill(s, depth + 1, 2)
            out = self.results(s, types)
            for i, a in enumerate(out):
                if isinstance(a, Var):
                    roots[i] |= self.roots.get(a, frozenset())
            return out

        then, orelse = self.lam(sc, (), body), self.lam(sc, (), body)
        self.emit(sc, ir.If(cond, then, orelse), "b", types=types, roots=roots)

    def unknown_size(self, sc: Scope, depth: int) -> None:
        """A branch whose array sizes differ, summed."""
        one, two = self.choose(sc.sizes), self.op(sc, "add", self.choose(sc.sizes), i64(1))

        def of(n: Atom) -> ir.Lambda:
            return self.lam(sc, (), lambda s: [n, self.atom(s, array_of(F64, n))])

        n = Var("n", I64)
        xs = Var("xs", ArrayType(F64, (n,)))
        sc.b.add(ir.Stm((n, xs), ir.If(self.cond(sc), of(one), of(two))))
        lam = self.lam(sc, [("x", F64), ("y", F64)], lambda s: [self.op(s, "add", *s.vars[-2:])])
        self.let(sc, ir.Reduce(n, (xs,), lam, (Const(F64, 0),)), "total")

    def call(self, sc: Scope, depth: int) -> None:
        if not self.helpers:
            self.helpers.append(self.helper())
        f = self.choose(self.helpers)
        size = self.choose(sc.sizes)
        xs, x = self.atom(sc, array_of(F64, size)), self.atom(sc, F64)
        self.emit(sc, ir.Call(f.name, (size, xs, x)), "u", types=[F64, array_of(F64, size)], roots=[frozenset(), self.roots.get(xs, frozenset())])  # type: ignore[arg-type]

    def helper(self) -> ir.Fun:
        n = Var("n", I64)
        xs, x = Var("xs", ArrayType(F64, (n,))), Var("x", F64)
        sc = Scope(Builder())
        sc.vars, sc.sizes = [n, xs, x], [n]
        self.roots[xs] = frozenset((xs,))
        self.scalars(sc, 2)
        self.map(sc, 2)
        result = (self.scalar(sc, F64), self.atom(sc, xs.type))
        ret = (Var("r", F64), Var("rs", xs.type))
        return ir.Fun("helper", ir.Lambda((n, xs, x), tuple(sc.b.stms), result), 1, ret)

    # -- arrays

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
        lam = self.lam(sc, [("x", elem_of(a.type))], lambda s: [self.op(s, "mul" if other[0].type is not BOOL else "and", s.vars[-1], other[0])])
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
        arrays = [a for a in arrays if a in sc.vars] or [self.atom(sc, array_of(F64, width))]  # type: ignore[list-item]

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

        from futad.core.types import AccType

        lam = sc.b.lambda_([("acc", AccType(elem_of(dest.type), shape_of(dest.type)))], outer)
        self.emit(sc, ir.WithAcc((dest,), "add", lam), "wa", types=[dest.type, array_of(F64, width)])

    # -- whole programs

    def main(self, name: str = "main") -> ir.Fun:
        n, m = Var("n", I64), Var("m", I64)
        types: list[Type] = [
            F64, array_of(F64, n), array_of(F64, n, m), I64, array_of(I64, n),
        ]  # fmt: skip
        if not self.smooth:
            types += [F32, array_of(F32, m), array_of(I32, m, n), array_of(BOOL, n), I32]
        params = [Var(f"p{i}", t) for i, t in enumerate(types)]
        sc = Scope(Builder())
        sc.vars, sc.sizes = [*params, n, m], [n, m, i64(3)]
        for p in params:
            self.roots[p] = frozenset((p,))
        while self.budget > 0:
            self.fill(sc, 0, 4)
        if self.smooth:
            made = [v for v in sc.vars[len(params) + 2 :] if elem_of(v.type) is F64]
            made = [v for v in made if all(s in (n, m) or isinstance(s, Const) for s in shape_of(v.type))]
            unused = [v for v in made if v not in self.used]
            result: list[Atom] = unused[-4:] + self.rng.sample(made, min(2, len(made))) or [self.scalar(sc, F64)]
        else:
            made = sc.vars[len(params) + 2 :]
            unused = [v for v in made if v not in self.used]
            result = unused[-12:] + self.rng.sample(made, min(3, len(made)))
        result = [a for a in dict.fromkeys(result) if not (isinstance(a.type, ArrayType) and a.type.rank > 3)]
        sizes = sorted({s for a in result for s in shape_of(a.type) if isinstance(s, Var) and s not in (n, m)}, key=lambda v: v.id)
        result = [*sizes, *result]
        mapping: dict[Var, Var] = {}
        ret: list[Var] = []
        for a in result:
            t = a.type
            if isinstance(t, ArrayType):
                t = ArrayType(t.elem, tuple([mapping.get(s, s) if isinstance(s, Var) else s for s in t.shape]))
            r = Var("r", t)
            if isinstance(a, Var) and a in sizes:
                mapping[a] = r
            ret.append(r)
        return ir.Fun(name, ir.Lambda((n, m, *params), tuple(sc.b.stms), tuple(result)), 2, tuple(ret))


def arguments(seed: int, fun: ir.Fun, zero: bool) -> list[object]:
    """Random arguments: sizes 1 to 4 (or 0), floats in [-1.5, 1.5], integers in [-9, 9]."""
    rng = np.random.default_rng(seed)
    sizes: dict[Atom, int] = {}
    out: list[object] = []
    for i, p in enumerate(fun.body.params):
        if i < fun.num_sizes:
            sizes[p] = int(rng.integers(0 if zero else 1, 5))
            out.append(np.int64(sizes[p]))
            continue
        elem = elem_of(p.type)
        shape = tuple([s.value if isinstance(s, Const) else sizes[s] for s in shape_of(p.type)])
        if elem.is_float:
            value = rng.uniform(-1.5, 1.5, shape)
        elif elem.is_bool:
            value = rng.integers(0, 2, shape)
        else:
            value = rng.integers(-9, 10, shape)
        out.append(np.asarray(value).astype(elem.dtype)[()])
    return out


def program(seed: int, name: str = "main") -> Sample:
    """A random program using every construct but derivatives."""
    zero = seed % 5 == 0
    gen = Gen(seed, smooth=False, zero=zero)
    fun = gen.main(name)
    for f in gen.helpers:
        f.name = f"{name}_helper" if name != "main" else f.name
        _rename_calls(fun.body, f.name)
    funs = {f.name: f for f in [*gen.helpers, fun]}
    return Sample(seed, ir.Program(funs), arguments(seed, fun, zero))


def _rename_calls(lam: ir.Lambda, to: str) -> None:
    for s in lam.stms:
        if isinstance(s.exp, ir.Call):
            s.exp.name = to
        for inner in s.exp.lambdas():
            _rename_calls(inner, to)


def differentiable(seed: int, name: str = "main") -> Sample:
    """A random smooth program of f64 (with integers on the side)."""
    gen = Gen(seed, smooth=True, zero=False)
    fun = gen.main(name)
    for f in gen.helpers:
        f.name = f"{name}_helper" if name != "main" else f.name
        _rename_calls(fun.body, f.name)
    return Sample(seed, ir.Program({f.name: f for f in [*gen.helpers, fun]}), arguments(seed, fun, False))
