"""Random well-typed core programs with inputs, reproducible from a seed.

`program(seed)` gives a `Sample`: a program whose entry `main` uses most constructs, and arguments for it.
`differentiable(seed)` gives one of smooth f64 code only, to be wrapped by `with_vjp` and `with_jvp`.

Floating-point values stay bounded (every operation is a contraction or nearly), and decisions compare with
thresholds that no exact value hits, so that reassociation changes results by rounding only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

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
    i64,
    shape_of,
)
from futad.testing.programs.core_arrays import Arrays
from futad.testing.programs.core_base import Scope
from futad.testing.programs.core_soacs import Soacs


@dataclass(slots=True)
class Sample:
    """A program and arguments for all parameters of its main function."""

    seed: int
    program: ir.Program
    args: list[object]

    def describe(self) -> str:
        return f"seed {self.seed}\n{self.program!r}\nargs {self.args!r}"


class Gen(Soacs, Arrays):
    """Control, and whole programs."""

    def __init__(self, seed: int, smooth: bool, zero: bool, nested: bool = False) -> None:
        super().__init__(seed, smooth, zero)
        self.helpers: list[ir.Fun] = []
        kinds: list[tuple[int, Callable[[Scope, int], None]]] = [
            *[(6, self.scalars), (8, self.map), (4, self.reduce), (3, self.scan), (1, self.fused)],
            *[(4, self.loop), (2, self.while_), (4, self.branch), (1, self.unknown_size), (1, self.call)],
            *[(4, self.update), (2, self.layout), (2, self.concat), (2, self.slice), (2, self.build)],
            *[(2, self.scatter), (3, self.hist), (3, self.accumulate), (2, self.index)],
            *[
                (1, self.scatter_2d),
                (1, self.hist_2d),
                (1, self.argsort),
                (0 if smooth else 1, self.growing),
                (8 if nested else 0, self.derive),
            ],
        ]
        if zero:
            kinds = [(w, k) for w, k in kinds if k not in (self.index, self.update, self.slice)]
        if smooth:
            kinds = [(w, k) for w, k in kinds if k != self.fused]
        self.kinds = [k for w, k in kinds for _ in range(w)]
        self.quiet = [self.scalars, self.scalars, self.layout, self.build]

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

    def iteration(self, s: Scope, params: Sequence[Var], index: Atom, depth: int) -> list[Atom]:
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
        count = len(inits)
        body = self.lam(sc, params, lambda s: self.iteration(s, s.vars[-count:], s.vars[-count - 1], depth), True)
        self.emit(sc, ir.For(bound, tuple(inits), body), "o")

    def while_(self, sc: Scope, depth: int) -> None:
        limits: list[Atom] = [i64(3), self.op(sc, "mod", self.atom(sc, I64), i64(4))]
        limit = self.choose(limits)
        start = self.op(sc, "lt", i64(0), limit)
        inits = self.state(sc)

        def iteration(s: Scope) -> Sequence[Atom]:
            count, *rest = s.vars[-len(inits) - 1 :]
            out = self.iteration(s, rest, count, depth)
            nxt = self.op(s, "add", count, i64(1))
            return [self.op(s, "lt", nxt, limit), nxt, *out]

        params: list[tuple[str, Type]] = [("c", BOOL), ("k", I64), *[("l", a.type) for a in inits]]
        self.emit(sc, ir.While((start, i64(0), *inits), self.lam(sc, params, iteration, True)), "w")

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

    def growing(self, sc: Scope, depth: int) -> None:
        """A loop whose array grows a little each iteration, summed."""
        n = self.choose(sc.sizes)
        k, xs = Var("k", I64), Var("xs", ArrayType(F64, (n,)))
        grown = Var("xs", ArrayType(F64, (k,)))

        def iteration(b: Builder, i: Var) -> Sequence[Atom]:
            s = Scope(b, sc)
            s.vars += [i, k, grown]
            self.roots[grown] = frozenset((grown,))
            more = self.let(s, ir.ArrayLit((self.scalar(s, F64),), F64))
            size = self.op(s, "add", k, i64(1))
            return [size, self.let(s, ir.Concat((grown, more), size), "cat")]

        body = sc.b.lambda_([("i", I64)], iteration)
        body = ir.Lambda((*body.params, k, grown), body.stms, body.result)
        m = Var("m", I64)
        out = Var("ys", ArrayType(F64, (m,)))
        inits = (n, self.atom(sc, xs.type))
        sc.b.add(ir.Stm((m, out), ir.For(self.few(sc), inits, body)))
        lam = self.lam(sc, [("x", F64), ("y", F64)], lambda s: [self.op(s, "add", *s.vars[-2:])])
        self.let(sc, ir.Reduce(m, (out,), lam, (Const(F64, 0),)), "total")

    def few(self, sc: Scope) -> Atom:
        """How often an array grows."""
        return i64(self.rng.randint(0, 3))

    def derive(self, sc: Scope, depth: int) -> None:
        """A derivative taken inside the program, of a scope with free variables."""
        args = [self.atom(sc, F64), self.atom(sc, array_of(F64, self.choose(sc.sizes)))]
        t = self.choose([F64, args[1].type])

        def body(s: Scope) -> Sequence[Atom]:
            s.own = set()
            self.fill(s, depth + 1, 2)
            return [self.scalar(s, F64), self.atom(s, t)]

        lam = self.lam(sc, [("x", a.type) for a in args], body)
        types = [F64, t]
        if self.chance(0.5):
            tangents = tuple([self.atom(sc, a.type) for a in args])
            self.emit(sc, ir.Jvp(lam, tuple(args), tangents), "j", types=types * 2)
        else:
            adjoints = tuple([self.atom(sc, u) for u in types])
            self.emit(sc, ir.Vjp(lam, tuple(args), adjoints), "v", types=[*types, *[a.type for a in args]])

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
        self.emit(
            sc,
            ir.Call(f.name, (size, xs, x)),
            "u",
            types=[F64, array_of(F64, size)],
            roots=[frozenset(), self.roots.get(xs, frozenset()) if isinstance(xs, Var) else frozenset()],
        )

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
            found = unused[-4:] + self.rng.sample(made, min(2, len(made))) or [self.scalar(sc, F64)]
        else:
            made = sc.vars[len(params) + 2 :]
            unused = [v for v in made if v not in self.used]
            found = unused[-12:] + self.rng.sample(made, min(3, len(made)))
        found = [v for v in dict.fromkeys(found) if not (isinstance(v.type, ArrayType) and v.type.rank > 3)]
        result: list[Atom] = list(found)
        sizes = sorted(
            {s for a in result for s in shape_of(a.type) if isinstance(s, Var) and s not in (n, m)},
            key=lambda v: v.id,
        )
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
    """Random arguments: sizes 1 to 4 (or 0; 5 to 19 for one seed in six), floats in [-1.5, 1.5], integers in
    [-9, 9]."""
    rng = np.random.default_rng(seed)
    sizes: dict[Atom, int] = {}
    out: list[object] = []
    for i, p in enumerate(fun.body.params):
        if i < fun.num_sizes:
            low, high = (5, 20) if seed % 6 == 1 else (0 if zero else 1, 5)
            sizes[p] = int(rng.integers(low, high))
            out.append(np.int64(sizes[p]))
            continue
        elem = elem_of(p.type)
        shape = tuple([s.value if isinstance(s, Const) else sizes[s] for s in shape_of(p.type)])
        if elem.is_float:
            value: np.ndarray = rng.uniform(-1.5, 1.5, shape)
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


def differentiable(seed: int, name: str = "main", nested: bool = False) -> Sample:
    """A random smooth program of f64 (with integers on the side); `nested`: with derivatives inside."""
    gen = Gen(seed, smooth=True, zero=False, nested=nested)
    fun = gen.main(name)
    for f in gen.helpers:
        f.name = f"{name}_helper" if name != "main" else f.name
        _rename_calls(fun.body, f.name)
    return Sample(seed, ir.Program({f.name: f for f in [*gen.helpers, fun]}), arguments(seed, fun, False))
