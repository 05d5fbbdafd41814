"""Many directions at once: the derivative code of one direction made to compute all of them.

`jmp` and `mjp` differentiate at one point in d directions.  What does not depend on the direction (the primal)
stays as it is and is computed once.  A variable that does gets a new innermost dimension of d elements, so that the
arithmetic on it is a loop over adjacent memory; branches, loops and maps around it stay where they are:

    map (\\x' -> let y = f a
                map2 (\\u v -> y * u * v) us x') xs'   -->   let y = f a
                                                           map2 (\\u v' -> map (\\v -> y * u * v) v') us (transpose xs')

A statement for which this is not possible (an index that depends on the direction) becomes a map over directions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeGuard

from futad.core import ir
from futad.core.builder import Builder
from futad.core.node import Range
from futad.core.types import I64, ONE, ZERO, AccType, ArrayType, Atom, Prim, Type, Var, array_of, elem_of, shape_of

_SCALAR = (ir.Op, ir.At, ir.If)
_MOVES = (
    ir.Op, ir.At, ir.Alias, ir.Iota, ir.Replicate, ir.ArrayLit, ir.Concat, ir.Reshape, ir.Rearrange, ir.Copy,
    ir.Scratch,
)  # fmt: skip


class CannotWiden(Exception):
    """The code has a construct that must stay inside a map over directions."""


# --- what depends on the direction --------------------------------------------------------------------------


def vary(stms: Iterable[ir.Stm], varied: set[Var]) -> None:
    """Add to `varied` what the statements bind that depends on it."""
    for s in stms:
        for v, f in zip(s.pat, _flow(s, varied), strict=True):
            if f:
                varied.add(v)


def in_set(atoms: Iterable[Any], varied: set[Var]) -> list[bool]:
    """Which of the atoms are in the set."""
    return [type(a) is Var and a in varied for a in atoms]


def _body(lam: ir.Lambda, params: Sequence[bool], varied: set[Var]) -> list[bool]:
    varied.update(p for p, f in zip(lam.params, params, strict=True) if f)
    vary(lam.stms, varied)
    return in_set(lam.result, varied)


def _fixed_point(step: Callable[[list[bool]], list[bool]], flags: list[bool]) -> list[bool]:
    while True:
        merged = [f or g for f, g in zip(flags, step(flags), strict=True)]
        if merged == flags:
            return flags
        flags = merged


def _flow(s: ir.Stm, varied: set[Var]) -> list[bool]:
    e = s.exp
    every = [True] * len(s.pat)
    if not any(in_set(ir.stm_free(s), varied)):
        return [False] * len(s.pat)
    match e:
        case ir.Map():
            return _body(e.lam, in_set(e.arrays, varied), varied)
        case ir.If() if not any(in_set((e.cond,), varied)):
            sides = [_body(lam, (), varied) for lam in (e.then, e.orelse)]
            return [a or b for a, b in zip(*sides, strict=True)]
        case ir.Par():
            return [f for lam in e.lambdas() for f in _body(lam, (), varied)]
        case ir.For() if not any(in_set((e.bound,), varied)):
            return _fixed_point(lambda f: _body(e.body, [False, *f], varied), in_set(e.inits, varied))
        case ir.While():
            flags = _fixed_point(lambda f: _body(e.body, f, varied), in_set(e.inits, varied))
            return every if flags[0] else flags
        case ir.Reduce() | ir.Scan():
            return _operator(e.lam, [e.arrays, e.neutral], varied)
        case ir.Hist() if not any(in_set(e.idxs, varied)):
            return _operator(e.lam, [e.dests, e.values, e.neutral], varied)
        case ir.Scatter() if not any(in_set(e.idxs, varied)):
            return [any(in_set(dv, varied)) for dv in zip(e.dests, e.values, strict=True)]
        case ir.WithAcc():
            k = len(e.arrays)
            accs = _fixed_point(lambda f: _body(e.lam, f, varied)[:k], in_set(e.arrays, varied))
            return accs + in_set(e.lam.result[k:], varied)
    return every


def _operator(lam: ir.Lambda, inputs: Sequence[ir.Atoms], varied: set[Var]) -> list[bool]:
    start = [any(in_set(x, varied)) for x in zip(*inputs, strict=True)]
    return _fixed_point(lambda f: _body(lam, f + f, varied), start)


# --- the wide code -----------------------------------------------------------------------------------------


def all_directions(
    b: Builder, d: Atom, lam: ir.Lambda, directions: ir.Atoms
) -> tuple[list[Atom], list[bool]]:
    """Emit `lam`, the code of one direction, for the d directions along dimension 0 of the arrays.

    Returns its results, those that depend on the direction with a new outer dimension, and which do.
    Raises CannotWiden (and emits nothing that matters).
    """
    varied = set(lam.params)
    vary(lam.stms, varied)
    w = _Widener(d, varied)
    for p, x in zip(lam.params, directions, strict=True):
        w.set(p, w.inside(b, x))
    w.stms(b, lam.stms)
    flags = in_set(lam.result, varied)
    return [w.outside(b, r) if f else r for r, f in zip(lam.result, flags, strict=True)], flags


class _Widener:
    def __init__(self, d: Atom, varied: set[Var]) -> None:
        self.d = d
        self.varied = varied
        self.wide: dict[Var, Var] = {}

    # -- variables

    def varies(self, a: object) -> TypeGuard[Var]:
        return type(a) is Var and a in self.varied

    def type(self, t: Type) -> Type:
        if isinstance(t, AccType):
            return AccType(t.elem, (*t.shape, self.d))
        return ArrayType(elem_of(t), (*shape_of(t), self.d))

    def fresh(self, v: Var) -> Var:
        """What stands for `v`: itself, or a wide variable."""
        if v not in self.varied:
            return v
        if any(self.varies(n) for n in shape_of(v.type)):
            raise CannotWiden(f"the size of {v!r} depends on the direction")
        self.wide[v] = Var(v.name, self.type(v.type))
        return self.wide[v]

    def set(self, v: Var, w: Atom) -> None:
        assert isinstance(w, Var)
        self.wide[v] = w

    def inside(self, b: Builder, array: Atom) -> Var:
        """Dimension 0 becomes the innermost one."""
        r = len(shape_of(array.type))
        return b.let(ir.Rearrange(array, (*range(1, r), 0)), "dirs")

    def outside(self, b: Builder, a: Atom) -> Var:
        """The wide array of `a` with the directions outermost."""
        x = self.of(b, a)
        r = len(shape_of(x.type))
        return b.let(ir.Rearrange(x, (r - 1, *range(r - 1))), "dirs")

    def of(self, b: Builder, a: Atom) -> Var:
        """The wide array of `a`; what does not vary is repeated."""
        if self.varies(a):
            return self.wide[a]
        if isinstance(a.type, AccType):
            raise CannotWiden("an accumulator that does not vary")
        many = b.let(ir.Replicate((self.d,), a), "rep")
        return many if isinstance(a.type, Prim) else b.let(ir.Copy(self.inside(b, many)), "rep")

    def maybe(self, b: Builder, a: Atom, wide: bool) -> Atom:
        return self.of(b, a) if wide else a

    # -- statements

    def stms(self, b: Builder, stms: Sequence[ir.Stm]) -> None:
        """Emit the statements; scalar ones of a row make one map over directions."""
        pending: list[ir.Stm] = []
        for s in stms:
            if not any(map(self.varies, ir.stm_free(s))):
                if not isinstance(s.exp, _MOVES):
                    self.flush(b, pending)
                b.add(s)
            elif self.scalar(s):
                pending.append(s)
            else:
                self.flush(b, pending)
                self.stm(b, s)
        self.flush(b, pending)

    def scalar(self, s: ir.Stm) -> bool:
        """Whether the statement can be computed direction by direction among scalars."""
        e = s.exp
        if not isinstance(e, _SCALAR) or not all(isinstance(v.type, Prim) for v in s.pat):
            return False
        if isinstance(e, ir.At):
            return True
        if isinstance(e, ir.If) and not self.varies(e.cond):
            return False
        return all(isinstance(v.type, Prim) for v in ir.stm_free(s) if self.varies(v))

    def flush(self, b: Builder, pending: list[ir.Stm]) -> None:
        if not pending:
            return
        params: list[Var] = []
        inputs: list[Atom] = []
        local: set[Var] = set()
        mapping = ir.Renamer()
        own: Var | None = None

        def take(v: Var, array: Atom, t: Type) -> Var:
            p = Var(v.name, t)
            params.append(p)
            inputs.append(array)
            return p

        body = Builder()
        for s in pending:
            e = s.exp
            for v in ir.stm_free(s):
                if self.varies(v) and v not in local and v not in mapping.mapping and isinstance(v.type, Prim):
                    mapping.mapping[v] = take(v, self.wide[v], v.type)
            if isinstance(e, ir.At) and self.varies(e.array):
                array = self.wide[e.array]
                if any(self.varies(i) for i in e.index):
                    if own is None:
                        own = take(Var("j", I64), b.let(ir.Iota(self.d, ZERO, ONE), "js"), I64)
                    index = tuple([mapping.atom(i) for i in e.index if not isinstance(i, Range)])
                    out = body.let(ir.At(array, (*index, own), e.check), s.pat[0].name)
                    mapping.mapping[s.pat[0]] = out
                else:
                    row = b.let(ir.At(array, e.index, e.check), "row")
                    mapping.mapping[s.pat[0]] = take(s.pat[0], row, s.pat[0].type)
            else:
                body.add(mapping.stm(s))
            local.update(s.pat)
        results = [v for s in pending for v in s.pat]
        if not params:
            raise CannotWiden("nothing to map over")
        lam = ir.Lambda(tuple(params), tuple(body.stms), tuple([mapping.atom(v) for v in results]))
        b.add(ir.Stm(tuple([self.fresh(v) for v in results]), ir.Map(self.d, tuple(inputs), lam)))
        pending.clear()

    def stm(self, b: Builder, s: ir.Stm) -> None:
        e = s.exp
        new = self.exp(b, s, e)
        if new is None:
            self.per_direction(b, s)
        else:
            b.add(ir.Stm(tuple([self.fresh(v) for v in s.pat]), new, s.attrs))

    def lam(self, lam: ir.Lambda, wide: Sequence[bool]) -> ir.Lambda:
        """A scope, its results wide where `wide` says so."""
        params = tuple([self.fresh(p) for p in lam.params])
        inner = Builder()
        self.stms(inner, lam.stms)
        result = tuple([self.maybe(inner, r, f) for r, f in zip(lam.result, wide, strict=True)])
        return ir.Lambda(params, tuple(inner.stms), result)

    def exp(self, b: Builder, s: ir.Stm, e: ir.Exp) -> ir.Exp | None:
        """The expression on wide arrays; None if only a map over directions computes it."""
        flags = [v in self.varied for v in s.pat]
        v = self.varies
        match e:
            case ir.Alias():
                return ir.Alias(self.of(b, e.atom))
            case ir.At() if not any(map(v, e.operands()[1:])):
                return ir.At(self.of(b, e.array), e.index, e.check)
            case ir.Update() if not any(map(v, e.operands()[1:-1])):
                return ir.Update(self.of(b, e.array), e.index, self.of(b, e.value), e.check)
            case ir.Replicate():
                return ir.Replicate(e.shape, self.of(b, e.value))
            case ir.ArrayLit():
                return ir.ArrayLit(tuple([self.of(b, a) for a in e.elems]), self.type(e.type))
            case ir.Concat():
                return ir.Concat(tuple([self.of(b, a) for a in e.arrays]), e.size)
            case ir.Reshape():
                return ir.Reshape(self.of(b, e.array), (*e.shape, self.d))
            case ir.Rearrange():
                return ir.Rearrange(self.of(b, e.array), (*e.perm, len(e.perm)))
            case ir.Copy():
                return ir.Copy(self.of(b, e.array))
            case ir.UpdateAcc():
                if any(map(v, e.index)):
                    raise CannotWiden("an update of an accumulator at a place that depends on the direction")
                return ir.UpdateAcc(self.of(b, e.acc), e.index, self.of(b, e.value))
            case ir.Map():
                arrays = tuple([self.maybe(b, a, v(a)) for a in e.arrays])
                return ir.Map(e.width, arrays, self.lam(e.lam, flags))
            case ir.If() if not v(e.cond):
                return ir.If(e.cond, self.lam(e.then, flags), self.lam(e.orelse, flags))
            case ir.Par():
                k = len(e.first.result)
                return ir.Par(self.lam(e.first, flags[:k]), self.lam(e.second, flags[k:]))
            case ir.For() if not v(e.bound):
                inits = tuple([self.maybe(b, a, f) for a, f in zip(e.inits, flags, strict=True)])
                return ir.For(e.bound, inits, self.lam(e.body, flags))
            case ir.While() if not flags[0]:
                inits = tuple([self.maybe(b, a, f) for a, f in zip(e.inits, flags, strict=True)])
                return ir.While(inits, self.lam(e.body, flags))
            case ir.Reduce():
                arrays, neutral = self.some(b, e.arrays, flags), self.some(b, e.neutral, flags)
                return ir.Reduce(e.width, arrays, self.lam(e.lam, flags), neutral, e.comm)
            case ir.Scan():
                arrays, neutral = self.some(b, e.arrays, flags), self.some(b, e.neutral, flags)
                return ir.Scan(e.width, arrays, self.lam(e.lam, flags), neutral)
            case ir.Hist() if not any(map(v, e.idxs)):
                dests, values = self.some(b, e.dests, flags), self.some(b, e.values, flags)
                lam, neutral = self.lam(e.lam, flags), self.some(b, e.neutral, flags)
                return ir.Hist(e.width, dests, e.idxs, values, lam, neutral)
            case ir.Scatter() if not any(map(v, e.idxs)):
                return ir.Scatter(e.width, self.some(b, e.dests, flags), e.idxs, self.some(b, e.values, flags))
            case ir.WithAcc():
                k = len(e.arrays)
                return ir.WithAcc(self.some(b, e.arrays, flags[:k]), e.op, self.lam(e.lam, flags))
        return None

    def some(self, b: Builder, atoms: ir.Atoms, wide: Sequence[bool]) -> ir.Atoms:
        return tuple([self.maybe(b, a, f) for a, f in zip(atoms, wide, strict=True)])

    def per_direction(self, b: Builder, s: ir.Stm) -> None:
        """The statement in a map over directions."""
        own = set(s.pat)
        free = [v for v in ir.stm_free(s) if v in self.varied]
        if not s.pat or any(isinstance(v.type, AccType) for v in (*free, *s.pat)):
            raise CannotWiden("accumulators")
        if any(n in own or self.varies(n) for v in s.pat for n in shape_of(v.type)):
            raise CannotWiden("a size that depends on the direction")
        mapping = ir.Renamer()
        params: list[Var] = []
        body = Builder()
        eaten = s.exp.consumes()
        for v in free:
            p = Var(v.name, v.type)
            params.append(p)
            mapping.mapping[v] = body.let(ir.Copy(p), p.name) if v in eaten and isinstance(v.type, ArrayType) else p
        for a in eaten:
            if isinstance(a, Var) and isinstance(a.type, ArrayType) and a not in mapping.mapping:
                mapping.mapping[a] = body.let(ir.Copy(a), a.name)
        inputs = tuple([self.outside(b, v) for v in free])
        new = mapping.stm(s)
        body.add(new)
        lam = ir.Lambda(tuple(params), tuple(body.stms), new.pat)
        out = [Var(v.name, array_of(v.type, self.d)) for v in s.pat]
        b.add(ir.Stm(tuple(out), ir.Map(self.d, inputs, lam)))
        for v, x in zip(s.pat, out, strict=True):
            if v in self.varied:
                self.set(v, self.inside(b, x))
