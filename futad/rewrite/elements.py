"""Elements of arrays by themselves: the code of `xs[i]` for an array that need not be made for it.

    let xs = map f ys in .. xs[i] ..                 f ys[i]
    (ys with [k] = v)[i]                             if i == k then v else ys[i]

Maps, what fills, moves or repeats arrays, updates of one place, and rows of all these are looked through; any other
array is read from memory, where nothing may have overwritten it in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from futad.core import ir
from futad.core.ir import Lambda, Renamer, Stm
from futad.core.node import Range
from futad.core.operator import may_fail
from futad.core.scalarops import OPS, folded
from futad.core.types import I64, ONE, ZERO, AccType, ArrayType, Atom, Prim, Var, prim_of, row_type, shape_of
from futad.legality import Legality
from futad.rewrite.context import Context, is_const
from futad.rewrite.ranges import is_index

LEGAL = Legality("elements", "an element is computed by itself, without the array", fires=False)
UNWRITTEN = LEGAL.condition("memory never overwritten", "it is read after what was there was overwritten")
WRITE_FAILS_NOT = LEGAL.condition("write fails not", "a write beyond the array is no longer reported")
SAME_REST = LEGAL.condition("other pieces equal", "the element is one of another piece")

MOST = 400  # statements of an element


class Stuck(Exception):
    """There is no code for the element."""


class Elements:
    """The code of elements; `stms` are what they need."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self.stms: list[Stm] = []
        self.defs: dict[Atom, tuple[ir.Exp, int]] = {}
        self.made: dict[Any, Atom] = {}
        self.consuming = False

    # -- code

    def add(self, s: Stm) -> None:
        """A statement of the code."""
        if len(self.stms) > MOST:
            raise Stuck
        self.stms.append(s)
        for k, v in enumerate(s.pat):
            self.defs[v] = s.exp, k

    def let(self, e: ir.Exp, t: Any, name: str = "e", attrs: tuple[Any, ...] = ()) -> Var:
        """Bind the result of `e`."""
        v = Var(name, t)
        self.add(Stm((v,), e, attrs))
        return v

    def op(self, name: str, *args: Atom) -> Atom:
        """A scalar operation on places; equal ones are computed once."""
        c = folded(name, args)
        if c is not None:
            return c
        if name in ("add", "sub") and is_const(args[1], 0):
            return args[0]
        if name in ("add", "mul") and args[0] is (ZERO if name == "add" else ONE):
            return args[1]
        key = (name, args, False)
        got = self.made.get(key)
        if got is None:
            t = OPS[name].result_type(tuple([prim_of(a) for a in args]))
            got = self.made[key] = self.let(ir.Op(name, args), t, "t")
        return got

    def exp(self, a: Atom) -> tuple[ir.Exp, int] | None:
        """What makes an array, and which of its results it is."""
        return self.defs.get(a) or self.ctx.maker(a)

    def define(self, a: Atom) -> ir.Exp | None:
        """The expression that makes a scalar by itself."""
        found = self.defs.get(a)
        return self.ctx.exp(a) if found is None else found[0]

    # -- elements

    def at(self, array: Atom, index: tuple[Atom, ...]) -> Atom:
        """The element at an index that is in range, of a place for each dimension."""
        key = (array, index)
        got = self.made.get(key)
        if got is None:
            got = self.made[key] = self.element(array, index)
        return got

    def element(self, array: Atom, index: tuple[Atom, ...]) -> Atom:
        found = self.exp(array)
        if found is None:
            return self.memory(array, index)
        e, k = found
        i, *rest = index
        match e:
            case ir.Map():
                (value,) = self.body(e, (k,), i)
                return self.at(value, tuple(rest)) if rest else value
            case ir.Replicate(shape, value):
                return self.at(value, index[len(shape) :]) if len(shape) < len(index) else value
            case ir.Iota() if is_index(e):
                return i
            case ir.ArrayLit((x,)):
                return self.at(x, tuple(rest)) if rest else x
            case ir.Copy(x):
                return self.at(x, index)
            case ir.Rearrange(x, perm):
                by = dict(zip(perm, index, strict=True))
                return self.at(x, tuple([by[d] for d in range(len(perm))]))
            case ir.At(x, outer) if e.check is None or array in self.defs:
                inner = list(index)
                whole = [self.step(p, inner.pop(0)) if isinstance(p, Range) else p for p in outer]
                return self.at(x, (*whole, *inner))
            case ir.Update() if not any(isinstance(p, Range) for p in e.index):
                return self.updated(e, index)
            case ir.Scatter() if e.width is ONE:
                place, new = self.at(e.idxs[k], (ZERO,)), self.at(e.values[k], (ZERO, *rest))
                return self.op("select", self.op("eq", i, place), new, self.before(e.dests[k], index))
            case ir.Concat():
                return self.piece(e, index)
            case ir.Reshape(x, shape) if len(shape_of(x.type)) == 1:
                flat: Atom = ZERO
                for p, n in zip(index, shape, strict=True):
                    flat = self.op("add", self.op("mul", flat, n), p)
                return self.at(x, (flat,))
        return self.memory(array, index)

    def step(self, r: Range, i: Atom) -> Atom:
        return self.op("add", r.start, self.op("mul", i, r.stride))

    def memory(self, array: Atom, index: tuple[Atom, ...]) -> Atom:
        """The element read from memory."""
        assert isinstance(array.type, ArrayType)
        own = array in self.defs
        if not UNWRITTEN(not (self.consuming if own else self.ctx.overwritten(array))):
            raise Stuck
        if len(index) != array.type.rank:
            raise Stuck
        return self.let(ir.At(array, index, None), array.type.elem)

    def before(self, array: Atom, index: tuple[Atom, ...]) -> Atom:
        """The element of an array that is overwritten: of one that repeats a scalar, or of none."""
        found = self.exp(array)
        if found is None or not isinstance(found[0], ir.Replicate | ir.Map | ir.Update | ir.Copy | ir.Scatter):
            raise Stuck
        return self.at(array, index)

    def updated(self, e: ir.Update, index: tuple[Atom, ...]) -> Atom:
        """Of an array with a place written, what was written, or what was there."""
        if not WRITE_FAILS_NOT(e.check is None):
            raise Stuck
        there: Atom | None = None
        for p, q in zip(index, e.index, strict=False):
            assert not isinstance(q, Range)
            same = self.op("eq", p, q)
            there = same if there is None else self.op("and", there, same)
        rest = index[len(e.index) :]
        assert there is not None
        return self.op("select", there, self.at(e.value, rest) if rest else e.value, self.before(e.array, index))

    def piece(self, e: ir.Concat, index: tuple[Atom, ...]) -> Atom:
        """Of an array in pieces: an equal element of all is the others'; else a branch for each piece."""
        i, *rest = index
        start: Atom = ZERO
        single: list[tuple[Atom, Atom]] = []
        other: list[tuple[Atom, Atom]] = []
        for x in e.arrays:
            n = shape_of(x.type)[0]
            (single if n is ONE else other).append((start, x))
            start = self.op("add", start, n)
        fills = [self.exp(x) for _, x in other]
        equal = [f[0] for f in fills if f is not None and isinstance(f[0], ir.Replicate)]
        if other and len(equal) == len(other) and SAME_REST(all(r.value is equal[0].value for r in equal)):
            inner = tuple(index[len(equal[0].shape) :])
            value = self.at(equal[0].value, inner) if inner else equal[0].value
            for place, x in single:
                value = self.op("select", self.op("eq", i, place), self.at(x, (ZERO, *rest)), value)
            return value
        if len(e.arrays) != 2:
            raise Stuck
        (first, second), n = e.arrays, shape_of(e.arrays[0].type)[0]
        then, orelse = self.inside(), self.inside()
        x, y = then.at(first, index), orelse.at(second, (orelse.op("sub", i, n), *rest))
        branches = Lambda((), tuple(then.stms), (x,)), Lambda((), tuple(orelse.stms), (y,))
        return self.let(ir.If(self.op("lt", i, n), *branches), x.type)

    def inside(self) -> Elements:
        """The code of a branch."""
        made = Elements(self.ctx)
        made.defs, made.made, made.consuming = dict(self.defs), dict(self.made), self.consuming
        return made

    # -- bodies

    def body(self, e: ir.Map, wanted: Sequence[int], i: Atom) -> list[Atom]:
        """The results of iteration i of a map."""
        given: dict[Var, Atom] = {}
        for a, p in zip(e.arrays, e.lam.params, strict=True):
            if isinstance(a.type, AccType):
                raise Stuck
            given[p] = self.at(a, (i,)) if isinstance(p.type, Prim) else self.row(a, i)
        return self.scope(e.lam, given, [e.lam.result[k] for k in wanted])

    def row(self, array: Atom, i: Atom) -> Atom:
        key = ("row", array, i)
        if key not in self.made:
            self.made[key] = self.let(ir.At(array, (i,), None), row_type(array.type), "row")
        return self.made[key]

    def scope(self, lam: Lambda, given: Mapping[Var, Atom], wanted: Sequence[Atom]) -> list[Atom]:
        """Values of a scope, whose parameters are `given`: a copy of the statements that they need."""
        needed = {a for a in wanted if isinstance(a, Var)}
        stms: list[Stm] = []
        for s in reversed(lam.stms):
            if s.exp.effect:
                raise Stuck
            if needed.intersection(s.pat):
                needed.update(ir.stm_free(s))
                stms.append(s)
        copy = Renamer(dict(given))
        for s in reversed(stms):
            self.consuming |= bool(s.exp.consumes())
            self.copied(s, copy)
        return [copy.atom(a) for a in wanted]

    def needed(self, wanted: Sequence[Atom]) -> None:
        """Leave out what the values do not need."""
        needed = {a for a in wanted if isinstance(a, Var)}
        kept: list[Stm] = []
        for s in reversed(self.stms):
            if needed.intersection(s.pat):
                needed.update(ir.stm_free(s))
                kept.append(s)
        self.stms = kept[::-1]

    def copied(self, s: Stm, copy: Renamer) -> None:
        """A copy of a statement of a body; what computes the same was copied already."""
        e = s.exp
        if isinstance(e, ir.Op):
            key = (e.op, tuple([copy.atom(a) for a in e.args]), ir.DERIVED in s.attrs)
            if key not in self.made:
                made = copy.stm(s)
                self.made[key] = made.pat[0]
                self.add(made)
            copy.mapping[s.pat[0]] = self.made[key]
            return
        if isinstance(e, ir.At) and isinstance(s.pat[0].type, Prim):
            array, index = copy.atom(e.array), tuple([copy.atom(p) for p in e.index if not isinstance(p, Range)])
            if e.check is None:
                copy.mapping[s.pat[0]] = self.at(array, index)
                return
            if ir.DERIVED in s.attrs and len(index) == 1 and self.exp(array) is not None:
                n = shape_of(array.type)[0]
                iota = self.let(ir.Iota(n, ZERO, ONE), ArrayType(I64, (n,)), "iota")
                checked = self.let(ir.At(iota, index, e.check), I64, "i", s.attrs)
                copy.mapping[s.pat[0]] = self.at(array, (checked,))
                return
        if type(e) is ir.If:
            self.branches(s, e, copy)
            return
        made = copy.stm(s)
        for v in ir.stm_free(made):
            if isinstance(v.type, ArrayType) and v not in self.defs and not UNWRITTEN(not self.ctx.overwritten(v)):
                raise Stuck
        self.add(made)

    def branches(self, s: Stm, e: ir.If, copy: Renamer) -> None:
        """A copy of a branch, in whose scopes arrays are looked through, too."""
        scopes = []
        for lam in (e.then, e.orelse):
            made = self.inside()
            result = tuple(made.scope(lam, copy.mapping, lam.result))
            made.needed(result)
            scopes.append(Lambda((), tuple(made.stms), result))
        self.add(Stm(tuple([copy.bind(v) for v in s.pat]), ir.If(copy.atom(e.cond), *scopes), s.attrs))

    def may_fail(self) -> bool:
        """Whether some of the code fails for some places."""
        return any(self._fails(s.exp) for s in ir.statements(self.stms))

    def _fails(self, e: ir.Exp) -> bool:
        if isinstance(e, ir.Op):
            return may_fail(e)
        if isinstance(e, ir.At | ir.Update):
            return e.check is not None
        if isinstance(e, ir.Iota | ir.Replicate):
            counts = (e.count,) if isinstance(e, ir.Iota) else e.shape
            return not all(map(self.ctx.ranges.nonneg, counts))
        return e.fails


__all__ = ["Elements", "Stuck"]
