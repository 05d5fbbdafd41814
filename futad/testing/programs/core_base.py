"""The ground of `core.py`: scopes, choosing values and types, scalar code."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

from futad.core import ir
from futad.core.builder import Builder
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
    prim_of,
    row_type,
    shape_of,
)
from futad.errors import Span

SPAN = Span("gen.fut", 1, 1, 1, 2)
MAX_RANK = 3
T = TypeVar("T")
Body = Callable[["Scope"], Sequence[Atom]]


class Scope:
    """Variables and sizes that may be used; `own` are the arrays that may be consumed here."""

    def __init__(self, b: Builder, parent: Scope | None = None) -> None:
        self.b = b
        self.vars: list[Var] = list(parent.vars) if parent else []
        self.sizes: list[Atom] = list(parent.sizes) if parent else []
        self.own: set[Var] = set()


class Base:
    """Random choices and the simple statements; `kinds` are the statements to choose from."""

    kinds: list[Callable[[Scope, int], None]]
    quiet: list[Callable[[Scope, int], None]]  # those without nested scopes

    def __init__(self, seed: int, smooth: bool, zero: bool) -> None:
        self.rng = random.Random(seed)
        self.smooth = smooth
        self.zero = zero  # sizes may be 0, so nothing is indexed
        self.budget = self.rng.randint(6, 22)
        self.roots: dict[Var, frozenset[Var]] = {}
        self.used: set[Var] = set()
        self.prims: list[Prim] = [F64, F64, F64, I64] if smooth else [F64, F64, F32, I64, I64, I32, BOOL]

    # -- choosing and making values

    def choose(self, xs: Sequence[T]) -> T:
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
            # Not f64 from f32: that would be as exact as f32 is.
            others = [v for v in sc.vars if isinstance(v.type, Prim) and not (t is F64 and v.type is F32)]
            if others and self.chance(0.3) and not self.smooth:
                x = self.choose(others)
                if prim_of(x).is_float and not t.is_float:
                    x = self.op(sc, "mul", x, Const(prim_of(x), 7.123))
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
        found = [
            v
            for v in sc.vars
            if isinstance(v.type, ArrayType) and v.type.rank <= max_rank and elem in (None, v.type.elem)
        ]
        if found and self.chance(0.9):
            return self.prefer(found)
        return self.array_like(sc, array_of(elem or self.prim(), self.choose(sc.sizes)))

    def array_like(self, sc: Scope, t: Type) -> Var:
        """A value of an array type: one in scope, or made."""
        a = self.atom(sc, t)
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
                self.choose(self.quiet)(sc, depth)
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

    def inputs(self, sc: Scope, most: int = 3) -> tuple[Atom, list[Var]]:
        """A width and arrays of that width."""
        first = self.array(sc)
        width = shape_of(first.type)[0]
        arrays = [first]
        for _ in range(self.rng.randint(0, most - 1)):
            rank = self.choose([0, 0, 1])
            t = array_of(self.prim(), width, *[self.choose(sc.sizes) for _ in range(rank)])
            arrays.append(self.array_like(sc, t))
        return width, arrays

    def results(self, sc: Scope, types: Sequence[Type]) -> list[Atom]:
        return [self.scalar(sc, t) if isinstance(t, Prim) and self.chance(0.6) else self.atom(sc, t) for t in types]
