"""The types of a pattern's metavariables, as far as constructs and the table of operations say them.

Types are equations: element types are cells with the types they may be, shapes cells with sizes, sizes are atoms that
are found equal.  What the equations leave open is chosen, by `pick`; then they are looked at again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from futad.core import ir
from futad.core.node import Range
from futad.core.scalarops import OPS
from futad.core.types import BOOL, F32, F64, I32, I64, ArrayType, Atom, Const, Prim, Type, Var, elem_of, i64, shape_of
from futad.rewrite.patterns.syntax import ANY, Apply, Hole, Scheme

USUAL = (F64, I64, F32, I32, BOOL)


class NoTypes(Exception):
    """No types fit the pattern, or it has constructs of which none are inferred."""


class Cell:
    """A value that several places share once they are found equal: an element type or a shape, None if unknown."""

    def __init__(self, value: Any = None, some: tuple[Prim, ...] = ()) -> None:
        self.up: Cell | None = None
        self.value = value
        self.some = some  # element types that it may be

    def find(self) -> Cell:
        c = self
        while c.up is not None:
            c = c.up
        return c


class Ty:
    """A type whose parts may be unknown."""

    def __init__(self, elem: Prim | None = None, shape: tuple[Atom, ...] | None = None) -> None:
        self.elem = Cell(elem)
        self.shape = Cell(shape)


class Types:
    """The equations of one side of a rule."""

    def __init__(self, s: Scheme) -> None:
        self.given = s.given
        self.of: dict[Var, Ty] = {}
        self.holes: dict[str, tuple[list[Ty], list[Ty]]] = {}
        self.equal: dict[Atom, Atom] = {}  # sizes
        self.sums: list[tuple[Atom, list[Atom]]] = []  # a size and those that it is the sum of
        self.products: list[tuple[Atom, tuple[Atom, ...]]] = []
        self.waiting: list[tuple[Callable[[], bool], Cell]] = []  # with the shape that is longer than another
        self.changed = False

    # -- equations

    def ty(self, a: Atom) -> Ty:
        if isinstance(a, Const):
            return Ty(a.type, ())
        if a not in self.of:
            t = self.given.get(a)
            if t is not None and not isinstance(t, Prim | ArrayType):
                raise NoTypes("accumulators")
            self.of[a] = Ty() if t is None else Ty(elem_of(t), shape_of(t))
            for n in shape_of(t) if t is not None else ():
                self.size(n)
        return self.of[a]

    def size(self, a: Atom) -> Atom:
        """The atom that stands for all sizes equal to `a`; it is an i64."""
        if type(a) is Var and a not in self.of and a not in self.equal:
            self.elem_is(self.ty(a), I64)
            self.shape_is(self.ty(a), ())
        while a in self.equal:
            a = self.equal[a]
        return a

    def same_size(self, a: Atom, b: Atom) -> None:
        a, b = self.size(a), self.size(b)
        if a is b:
            return
        if isinstance(a, Const):
            a, b = b, a
        if isinstance(a, Const):
            raise NoTypes("sizes")
        if type(b) is Var and not b.name.startswith("?") and a.name.startswith("?"):
            a, b = b, a
        self.equal[a] = b
        self.changed = True

    def same_cell(self, c: Cell, d: Cell) -> None:
        c, d = c.find(), d.find()
        if c is d:
            return
        if c.value is not None and d.value is not None:
            if isinstance(c.value, Prim):
                if c.value is not d.value:
                    raise NoTypes(f"{c.value} and {d.value}")
            else:
                if len(c.value) != len(d.value):
                    raise NoTypes("ranks")
                for x, y in zip(c.value, d.value, strict=True):
                    self.same_size(x, y)
        some = tuple([t for t in c.some if t in d.some]) if c.some and d.some else c.some or d.some
        value = c.value if c.value is not None else d.value
        if isinstance(value, Prim) and some and value not in some or c.some and d.some and not some:
            raise NoTypes("types of an operation")
        c.up, d.value, d.some = d, value, some
        self.changed = True

    def same(self, t: Ty, u: Ty) -> Ty:
        self.same_cell(t.elem, u.elem)
        self.same_cell(t.shape, u.shape)
        return t

    def elem_is(self, t: Ty, *some: Prim) -> Ty:
        self.same_cell(t.elem, Cell(some[0]) if len(some) == 1 else Cell(None, some))
        return t

    def shape_is(self, t: Ty, shape: Sequence[Atom]) -> Ty:
        for n in shape:
            self.size(n)
        self.same_cell(t.shape, Cell(tuple(shape)))
        return t

    def scalar(self, a: Atom, t: Prim | None = None) -> Ty:
        out = self.shape_is(self.ty(a), ())
        return self.elem_is(out, t) if t is not None else out

    def cons(self, outer: Sequence[Atom], row: Ty) -> Ty:
        """The type of arrays of such rows."""
        out = Ty()
        self.same_cell(out.elem, row.elem)

        def step() -> bool:
            inner, whole = row.shape.find().value, out.shape.find().value
            if inner is not None:
                self.shape_is(out, (*outer, *inner))
                return True
            if whole is None:
                return False
            if len(whole) < len(outer):
                raise NoTypes("ranks")
            for a, b in zip(outer, whole, strict=False):
                self.same_size(a, b)
            self.shape_is(row, whole[len(outer) :])
            return True

        if not step():
            self.waiting.append((step, out.shape))
        return out

    # -- constructs

    def fresh(self) -> Var:
        v = Var("size", I64)
        self.of[v] = Ty(I64, ())
        return v

    def exp(self, e: ir.Exp, results: int) -> list[Ty]:
        rule = _RULES.get(type(e))
        if rule is None:
            raise NoTypes(type(e).__name__.lower())
        out = rule(self, e)
        return [Ty() for _ in range(results)] if out is None else out

    def stms(self, stms: Iterable[ir.Stm]) -> None:
        for s in stms:
            if isinstance(s.exp, Apply):
                params, results = self.holes.setdefault(s.exp.name, ([], []))
                self.pairs(params, [self.ty(a) for a in s.exp.args])
                self.pairs(results, [self.ty(v) for v in s.pat])
                continue
            out = self.exp(s.exp, len(s.pat))
            if len(out) != len(s.pat):
                raise NoTypes("results")
            for v, t in zip(s.pat, out, strict=True):
                self.same(self.ty(v), t)

    def pairs(self, known: list[Ty], given: list[Ty]) -> None:
        if not known:
            known += given
        elif len(known) != len(given):
            raise NoTypes("arguments of a scope")
        for t, u in zip(known, given, strict=True):
            self.same(t, u)

    def lam(self, p: ir.Lambda, params: list[Ty], results: int | None = None) -> list[Ty]:
        """The types of a scope's results; of one that is left open, as many as said."""
        if isinstance(p, Hole):
            out = [Ty() for _ in range(1 if results is None else results)]
            known = self.holes.setdefault(p.name, ([], []))
            self.pairs(known[0], params)
            self.pairs(known[1], out)
            return known[1]
        if len(p.params) != len(params):
            raise NoTypes("parameters")
        for v, t in zip(p.params, params, strict=True):
            self.same(self.ty(v), t)
        self.stms(p.stms)
        return [self.ty(a) for a in p.result]

    # -- solutions

    def solve(self, pick: Callable[[Cell], None]) -> None:
        """Choose what is open until nothing is.  `pick` sets the value of a cell."""
        while True:
            self.changed = True
            while self.changed:
                self.changed = False
                self.waiting = [w for w in self.waiting if not w[0]()]
            every = [*self.of.values(), *[t for pair in self.holes.values() for ts in pair for t in ts]]
            cells = [c.find() for t in every for c in (t.elem, t.shape)]
            longer = {id(w[1].find()) for w in self.waiting}
            unknown = min((c for c in cells if c.value is None), key=lambda c: id(c) in longer, default=None)
            if unknown is None:
                if self.waiting:
                    raise NoTypes("ranks")
                return
            elems = {id(t.elem.find()) for t in every}
            if id(unknown) in elems:
                unknown.some = unknown.some or USUAL
            pick(unknown)
            self.changed = True

    def type_of(self, t: Ty) -> Type:
        shape = tuple([self.size(n) for n in t.shape.find().value])
        elem: Prim = t.elem.find().value
        return ArrayType(elem, shape) if shape else elem


def _op(c: Types, e: ir.Op) -> list[Ty]:
    record = OPS[e.op]
    args, result = record.sig.split("->")
    a = Ty(None, ())
    c.elem_is(a, *record.types)
    if len(e.args) != record.arity:
        raise TypeError(f"{e.op} takes {record.arity} arguments, not {len(e.args)}")
    for name, x in zip(args.split(), e.args, strict=True):
        c.same(c.scalar(x), a if name == "a" else Ty(_PRIM[name], ()))
    return [a if result.strip() == "a" else Ty(_PRIM[result.strip()], ())]


_PRIM = {t.name: t for op in OPS.values() for t in op.types}


def _index(c: Types, array: Ty, index: ir.Index) -> Ty:
    """The type of what is there at an index."""
    kept: list[Atom] = []
    outer: list[Atom] = []
    for i in index:
        outer.append(c.fresh())
        if isinstance(i, Range):
            for x in (i.start, i.count, i.stride):
                c.scalar(x, I64)
            kept.append(i.count)
        else:
            c.scalar(i, I64)
    rest = Ty()
    c.same(c.cons(outer, rest), array)
    return c.cons(kept, rest) if kept else rest


def _update(c: Types, e: ir.Update) -> list[Ty]:
    c.same(_index(c, c.ty(e.array), e.index), c.ty(e.value))
    return [c.ty(e.array)]


def _iota(c: Types, e: ir.Iota) -> list[Ty]:
    t = c.same(c.scalar(e.start), c.scalar(e.step))
    c.elem_is(t, I64, I32)
    return [c.cons((e.count,), t)]


def _literal(c: Types, e: ir.ArrayLit) -> list[Ty]:
    row = Ty(elem_of(e.type), shape_of(e.type))
    for a in e.elems:
        c.same(c.ty(a), row)
    return [c.cons((i64(len(e.elems)),), row)]


def _concat(c: Types, e: ir.Concat) -> list[Ty]:
    row, sizes = Ty(), [c.fresh() for _ in e.arrays]
    for n, a in zip(sizes, e.arrays, strict=True):
        c.same(c.ty(a), c.cons((n,), row))
    c.scalar(e.size, I64)
    c.sums.append((e.size, list(sizes)))
    return [c.cons((e.size,), row)]


def _reshape(c: Types, e: ir.Reshape) -> list[Ty]:
    n = c.fresh()
    c.shape_is(c.ty(e.array), (n,))
    if len(e.shape) == 1:
        c.same_size(n, e.shape[0])
    else:
        c.products.append((n, e.shape))
    out = c.shape_is(Ty(), e.shape)
    c.same_cell(out.elem, c.ty(e.array).elem)
    return [out]


def _rearrange(c: Types, e: ir.Rearrange) -> list[Ty]:
    shape = [c.fresh() for _ in e.perm]
    t = c.shape_is(c.ty(e.array), shape)
    out = c.shape_is(Ty(), [shape[p] for p in e.perm])
    c.same_cell(out.elem, t.elem)
    return [out]


def _matmul(c: Types, e: ir.MatMul) -> list[Ty]:
    m, k, n = c.fresh(), c.fresh(), c.fresh()
    a, b, out = c.shape_is(c.ty(e.a), (m, k)), c.shape_is(c.ty(e.b), (k, n)), c.shape_is(Ty(), (m, n))
    for t in (a, b):
        c.same_cell(c.elem_is(out, F64, F32).elem, t.elem)
    for p in e.plus if e.plus is not ANY else ():
        c.same(c.ty(p), out)
    return [out]


def _rows(c: Types, width: Atom, arrays: ir.Atoms) -> list[Ty]:
    c.scalar(width, I64)
    rows = [Ty() for _ in arrays]
    for a, r in zip(arrays, rows, strict=True):
        c.same(c.ty(a), c.cons((width,), r))
    return rows


def _map(c: Types, e: ir.Map) -> list[Ty]:
    return [c.cons((e.width,), t) for t in c.lam(e.lam, _rows(c, e.width, e.arrays))]


def _fold(c: Types, lam: ir.Lambda, neutral: ir.Atoms, values: list[Ty]) -> list[Ty]:
    for a, t in zip(neutral, values, strict=True):
        c.same(c.ty(a), t)
    for t, u in zip(c.lam(lam, values * 2, len(values)), values, strict=True):
        c.same(t, u)
    return values


def _reduce(c: Types, e: ir.Reduce) -> list[Ty]:
    return _fold(c, e.lam, e.neutral, _rows(c, e.width, e.arrays))


def _scan(c: Types, e: ir.Scan) -> list[Ty]:
    return [c.cons((e.width,), t) for t in _fold(c, e.lam, e.neutral, _rows(c, e.width, e.arrays))]


def _if(c: Types, e: ir.If) -> list[Ty]:
    c.scalar(e.cond, BOOL)
    then, orelse = c.lam(e.then, []), c.lam(e.orelse, [])
    return [c.same(t, u) for t, u in zip(then, orelse, strict=True)]


def _for(c: Types, e: ir.For) -> list[Ty]:
    c.scalar(e.bound, I64)
    values = [c.ty(a) for a in e.inits]
    for t, u in zip(c.lam(e.body, [Ty(I64, ()), *values], len(values)), values, strict=True):
        c.same(t, u)
    return values


def _scatter(c: Types, e: ir.Scatter | ir.Hist) -> list[Ty]:
    c.scalar(e.width, I64)
    for i in e.idxs:
        c.same(c.ty(i), Ty(I64, (e.width,)))
    outer = [c.fresh() for _ in e.idxs]
    rows = _rows(c, e.width, e.values)
    for d, r in zip(e.dests, rows, strict=True):
        c.same(c.ty(d), c.cons(outer, r))
    if isinstance(e, ir.Hist):
        _fold(c, e.lam, e.neutral, rows)
    return [c.ty(d) for d in e.dests]


_RULES: dict[type, Callable[[Types, Any], list[Ty] | None]] = {
    ir.Op: _op,
    ir.Alias: lambda c, e: [c.ty(e.atom)],
    ir.Copy: lambda c, e: [c.ty(e.array)],
    ir.At: lambda c, e: [_index(c, c.ty(e.array), e.index)],
    ir.Update: _update,
    ir.Iota: _iota,
    ir.Replicate: lambda c, e: [c.cons(e.shape, c.ty(e.value))],
    ir.ArrayLit: _literal,
    ir.Concat: _concat,
    ir.Reshape: _reshape,
    ir.Rearrange: _rearrange,
    ir.MatMul: _matmul,
    ir.Map: _map,
    ir.Reduce: _reduce,
    ir.Scan: _scan,
    ir.If: _if,
    ir.For: _for,
    ir.Scatter: _scatter,
    ir.Hist: _scatter,
}


def types_of(s: Scheme, pick: Callable[[Cell], None]) -> Types:
    """Types of all metavariables on the left side.  Raises NoTypes."""
    out = Types(s)
    out.stms(s.before)
    out.solve(pick)
    return out


__all__ = ["USUAL", "Cell", "NoTypes", "Ty", "Types", "types_of"]
