"""`#[true_dep]` on an array loop parameter: no element is overwritten after it was read.

Then the return sweep finds in the loop's final array whatever an iteration read, and nothing need be saved.  Where the
dependence analysis cannot prove it, the promise is checked as the loop runs: a flag per element says whether it was
read.  The loop's own statements, those of its branches and of inner loops set flags one after the other; those of
maps, which only read, by an accumulator.  An array that is handed on in another way (it changes places with another
loop variable, is read by the operator of a reduction, or read from a copy after it has changed) is saved as one
without the attribute.  Source: Schenck et al., SC 2022, section 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from futad.ad.emit import add_to_acc
from futad.ad.tidy.live import live
from futad.core import ir
from futad.core.builder import Builder
from futad.core.node import Range
from futad.core.type_rules import index_type
from futad.core.types import BOOL, FALSE, MOST_SHOWN, TRUE, AccType, ArrayType, Atom, Prim, Type, Var, shape_of
from futad.errors import Span
from futad.legality import Legality

LEGAL = Legality(
    "true-dep",
    "#[true_dep]: the promise that nothing read is overwritten is checked as the loop runs",
    worth="the attribute #[true_dep] of the language: its promise is checked, as a wrong one gives wrong gradients",
)
NOT_STALE = LEGAL.condition("newest version read", "a read of an older version sets the flags of the newer one")
BOTH_SIDES = LEGAL.condition(
    "same results of both branches", "after the branch it is not known which array is the loop's"
)


def promised(stm: ir.Stm) -> dict[str, Span | None]:
    """The loop parameters with the attribute, by name, and where it stands."""
    found = [a for a in stm.attrs if a[0] == "true_dep" and len(a) > 1]
    return {str(a[1]): a[-1] if isinstance(a[-1], Span) else None for a in found}


class _Unseen(Exception):
    """The array is used in a way that is not checked."""


def with_checks(stm: ir.Stm, q: int, place: Span | None) -> list[ir.Stm] | None:
    """Statements for the loop `stm` that check the promise for loop variable q, the loop last; None if uses of the
    array are not seen.  The loop gets one more variable, the flags."""
    e = stm.exp
    assert isinstance(e, ir.Loop)
    x = e.variables[q]
    assert isinstance(x.type, ArrayType)
    read = Var("read", ArrayType(BOOL, x.type.shape))
    names = {x}
    try:
        stms, flags = _Check(x.name, place).scope(e.body.stms, names, read)
    except _Unseen:
        return None
    if e.body.result[q] not in names:
        return None
    b = Builder()
    LEGAL.fired()
    none = b.let(ir.Replicate(x.type.shape, FALSE), "read")
    body = ir.Lambda((*e.body.params, read), tuple(stms), (*e.body.result, flags))
    inits = (*e.inits, none)
    new: ir.Exp = e.remade(inits, body)
    return [*b.stms, ir.Stm((*stm.pat, Var("read", read.type)), new, stm.attrs)]


@dataclass
class _Check:
    name: str
    place: Span | None
    stale: set[Var] = field(default_factory=set)

    def scope(self, stms: Sequence[ir.Stm], names: set[Var], flags: Var) -> tuple[list[ir.Stm], Var]:
        """`names` are the variables that stand for the array now; the scope adds to them."""
        b = Builder()
        for s in stms:
            e = s.exp
            free = ir.stm_free(s)
            if not NOT_STALE(not any(v in self.stale for v in free)):
                raise _Unseen
            if not any(v in names for v in free):
                b.add(s)
                continue
            match e:
                case ir.Alias() | ir.Copy():
                    b.add(s)
                    names.add(s.pat[0])
                case ir.At():
                    b.add(s)
                    part = index_type(flags.type, e.index)
                    flags = b.let(ir.Update(flags, e.index, _all(b, part)), "read")
                case ir.Update() if e.array in names and e.value not in names:
                    self.write(b, e, flags)
                    b.add(s)
                    self.replace(names, s.pat)
                case ir.If():
                    flags = self.branch(b, s, e, names, flags)
                case ir.Loop():
                    flags = self.iterations(b, s, e, names, flags)
                case _:
                    b.add(s)
                    acc = Var("acc", AccType(BOOL, shape_of(flags.type)))
                    inner = Builder()
                    end = _reads(inner, s, names, acc)
                    marks, _ = live(inner.stms, (end,))
                    lam = ir.Lambda((acc,), tuple(marks), (end,))
                    flags = b.let(ir.WithAcc((flags,), "add", ir.rename(lam)), "read")
        return b.stms, flags

    def replace(self, names: set[Var], new: Sequence[Var]) -> None:
        """The array has changed: its old values, copies for instance, are not to be used."""
        self.stale |= names
        names.clear()
        names.update(new)

    def write(self, b: Builder, e: ir.Update, flags: Var) -> None:
        old: Atom = b.let(ir.At(flags, e.index, e.check), "read")
        if not isinstance(old.type, Prim):
            n = b.size_mul(shape_of(old.type))
            row = b.let(ir.Reshape(old, (n,)), "read")
            either = b.lambda_([("x", BOOL), ("y", BOOL)], lambda q, x, y: [q.op("or", x, y)])
            (old,) = b.emit(ir.Reduce(n, (row,), either, (FALSE,), True), "read")
        message = f"the attribute true_dep of {self.name} is wrong: an element is overwritten after it was read"
        places = tuple([i for i in e.index if not isinstance(i, Range)])[: MOST_SHOWN]
        if places:
            message += " (at " + ", ".join("{}" for _ in places) + ")"
        b.add(ir.Stm((), ir.Assert(b.op("not", old), message, places, e.check or self.place)))

    def branch(self, b: Builder, s: ir.Stm, e: ir.If, names: set[Var], flags: Var) -> Var:
        sides: list[ir.Lambda] = []
        same: list[set[int]] = []
        stale = self.stale
        for lam in (e.then, e.orelse):
            inner = set(names)
            self.stale = set(stale)
            stms, after = self.scope(lam.stms, inner, flags)
            same.append({k for k, r in enumerate(lam.result) if r in inner})
            sides.append(ir.Lambda((), tuple(stms), (*lam.result, after)))
            if not same[-1] and inner.isdisjoint(names):
                raise _Unseen
        if not BOTH_SIDES(same[0] == same[1]):
            raise _Unseen
        self.stale = stale
        return self.bound(b, s, ir.If(e.cond, *sides), names, same[0], flags.type)

    def iterations(self, b: Builder, s: ir.Stm, e: ir.Loop, names: set[Var], flags: Var) -> Var:
        own = [q for q, a in enumerate(e.inits) if a in names]
        if len(own) > 1:
            raise _Unseen
        read = Var("read", flags.type)
        inner = {e.variables[q] for q in own} or set(names)
        before = set(inner)
        if own:
            self.stale |= names
        stms, after = self.scope(e.body.stms, inner, read)
        if own and e.body.result[own[0]] not in inner or not own and inner.isdisjoint(before):
            raise _Unseen
        body = ir.Lambda((*e.body.params, read), tuple(stms), (*e.body.result, after))
        inits = (*e.inits, flags)
        new: ir.Exp = e.remade(inits, body)
        return self.bound(b, s, new, names, set(own), flags.type)

    def bound(self, b: Builder, s: ir.Stm, e: ir.Exp, names: set[Var], same: set[int], t: Type) -> Var:
        flags = Var("read", t)
        b.add(ir.Stm((*s.pat, flags), e, s.attrs))
        if same:
            self.replace(names, [s.pat[k] for k in same])
        return flags


def _all(b: Builder, t: Type) -> Atom:
    """Flags that are all set."""
    return TRUE if isinstance(t, Prim) else b.let(ir.Replicate(shape_of(t), TRUE), "read")


def _reads(b: Builder, s: ir.Stm, names: set[Var], acc: Var) -> Var:
    """Emit updates of the flags' accumulator for what the statement reads; its own results are not needed."""
    e = s.exp
    if isinstance(e, ir.Alias | ir.Copy):
        names.add(s.pat[0])
        return acc
    if isinstance(e, ir.At):
        return add_to_acc(b, acc, e.index, _all(b, index_type(acc.type, e.index)))
    if any(a in names for a in e.consumes()):
        raise _Unseen
    if any(a in names for a in e.operands()):
        acc = b.let(ir.UpdateAcc(acc, (), _all(b, ArrayType(BOOL, shape_of(acc.type)))), "acc")
    if not any(v in names for lam in e.lambdas() for v in lam.free()):
        return acc
    if isinstance(e, ir.Map):
        mine = Var("acc", acc.type)
        lam = _marking(e.lam, names, mine)
        lam = ir.Lambda((mine, *lam.params), lam.stms, lam.result[-1:])
        return b.let(ir.Map(e.width, (acc, *e.arrays), ir.rename(lam)), "acc")
    if isinstance(e, ir.If):
        sides = [_marking(lam, names, acc) for lam in (e.then, e.orelse)]
        sides = [ir.rename(_last(lam)) for lam in sides]
        return b.emit(ir.If(e.cond, *sides), "acc", types=[acc.type])[0]
    if isinstance(e, ir.Par):
        for lam in e.lambdas():
            end = b.inline(_last(_marking(lam, names, acc)), ())[0]
            assert isinstance(end, Var)
            acc = end
        return acc
    if isinstance(e, ir.Loop):
        mine = Var("acc", acc.type)
        lam = _marking(e.body, names, mine)
        lam = ir.rename(ir.Lambda((*lam.params, mine), lam.stms, lam.result))
        inits = (*e.inits, acc)
        copy = ir.Renamer()
        pat = tuple([copy.bind(v) for v in (*s.pat, mine)])
        b.add(ir.Stm(pat, e.remade(inits, lam)))
        return pat[-1]
    raise _Unseen


def _last(lam: ir.Lambda) -> ir.Lambda:
    """The scope with its last result alone."""
    return ir.Lambda(lam.params, lam.stms, lam.result[-1:])


def _marking(lam: ir.Lambda, names: set[Var], acc: Var) -> ir.Lambda:
    """The scope with updates of the accumulator for its reads, which is one more result."""
    b = Builder()
    names = set(names)
    for s in lam.stms:
        b.add(s)
        if any(v in names for v in ir.stm_free(s)):
            acc = _reads(b, s, names, acc)
    if any(r in names for r in lam.result):
        acc = b.let(ir.UpdateAcc(acc, (), _all(b, ArrayType(BOOL, shape_of(acc.type)))), "acc")
    return ir.Lambda(lam.params, tuple(b.stms), (*lam.result, acc))
