"""Maps of which only a slice is read make that slice.

    let ys = map f xs in .. ys[a : b] ..          -->          let ys' = map f xs[a : b] in .. ys' ..

Slices of the inputs are views, so that this costs nothing.  It comes before differentiation: in reverse mode elements
that nobody reads have the adjoint 0, which times an infinite derivative is NaN.  What would fail in such an element
goes with it, as dead code does.

Maps of the same width run together.  So scopes stay as they are that reverse mode does not meet, or whose derivatives
are finite wherever they are taken.
"""

from __future__ import annotations

from functools import cached_property, partial

from futad.core import ir
from futad.core.alias import Aliases, aliases
from futad.core.ir import Lambda, Program, Stm
from futad.core.node import Range
from futad.core.scalarops import FINITE, OPS
from futad.core.types import ONE, ZERO, AccType, ArrayType, Const, Prim, Type, Var
from futad.legality import Legality
from futad.rewrite.dce import asserting_functions, asserts

LEGAL = Legality(
    "narrow",
    "a map of which only a slice is read makes that slice, where it is read",
    worth="right derivatives: of an element that is not read an infinite one times 0 would be NaN",
)
UNWRITTEN = LEGAL.condition("inputs unwritten", "the map would read what was overwritten since")
SILENT = LEGAL.condition("asserts nothing", "an assertion about an element that nobody reads would not be made")
ONLY = LEGAL.condition("one slice only", "other elements would be missing")


def narrow(program: Program, everywhere: bool = False) -> Program:
    """The program with such maps, where reverse mode may meet infinite derivatives, or `everywhere`; functions
    without them stay the same objects.  What a derivative is taken of calls nothing by now (`optimise/inline.py`)."""
    asserting = asserting_functions(program)

    def body(lam: Lambda) -> Lambda:
        return _Narrow(lam, asserting).scope(lam, everywhere)

    return ir.map_bodies(program, body)


class _Narrow:
    """Narrows the maps of one function."""

    def __init__(self, body: Lambda, asserting: set[str]) -> None:
        self.body = body
        self.asserting = asserting

    @cached_property
    def alias(self) -> Aliases:
        return aliases(self.body, self.body.result + self.body.params)

    def scope(self, lam: Lambda, reverse: bool) -> Lambda:
        """`reverse`: it is differentiated in reverse mode."""
        inside = [partial(self.scope, reverse=reverse or type(s.exp) is ir.Vjp) for s in lam.stms]
        stms = [ir.map_scopes(s, f) for s, f in zip(lam.stms, inside, strict=True)]
        # From the last one: what a map no longer reads is then seen at what makes it.
        for k in range(len(stms) - 1, -1, -1) if reverse and any(map(_infinite, stms)) else ():
            s = stms[k]
            if type(s.exp) is ir.Map and s.exp.arrays and (found := _slice(s, stms[k + 1 :], lam)) is not None:
                touched = (*ir.stm_free(s), *s.pat)
                if UNWRITTEN(not any(map(self.alias.mutable, touched))) and SILENT(
                    not asserts(s.exp.lam, self.asserting)
                ):
                    _narrowed(stms, k, found, self.alias)
        same = len(stms) == len(lam.stms) and all(a is b for a, b in zip(stms, lam.stms, strict=True))
        return lam if same else Lambda(lam.params, tuple(stms), lam.result)


def _infinite(s: Stm) -> bool:
    """Whether a derivative inside the statement, where it may be that of an element, may be infinite."""
    return any(_infinite(t) or _infinite_op(t) for lam in s.exp.lambdas() for t in lam.stms)


def _infinite_op(s: Stm) -> bool:
    e = s.exp
    if type(e) is not ir.Op:
        return False
    t = s.pat[0].type
    if e.op == "div" and type(e.args[1]) is Const and e.args[1].value != 0:
        return False
    return isinstance(t, Prim) and t.is_float and OPS[e.op].partials is not None and e.op not in FINITE


def _slice(s: Stm, later: list[Stm], lam: Lambda) -> Range | None:
    """The slice of a map's results that the later statements read, in this scope; None if they read anything else."""
    made = set(s.pat)
    users = [x for x in later if made & ir.stm_free(x).keys()]
    slices = [x.exp.index[0] if type(x.exp) is ir.At and x.exp.check is None else None for x in users]
    first = slices[0] if slices else None
    if type(first) is not Range or type(first.stride) is not Const or first.stride.value == 0:
        return None
    alone = all(x == first for x in slices) and not made & set(lam.result)
    return first if ONLY(alone and not any(isinstance(a.type, AccType) for a in s.exp.operands())) else None


def _narrowed(stms: list[Stm], k: int, r: Range, alias: Aliases) -> None:
    """Put in place of map k one of the slice, before the first statement that reads it."""
    LEGAL.fired()
    s = stms.pop(k)
    e = s.exp
    assert isinstance(e, ir.Map)
    now = {v: Var(v.name, _rows(v.type, r)) for v in s.pat}
    users = [j for j in range(k, len(stms)) if now.keys() & ir.stm_free(stms[j]).keys()]
    for j in users:
        x = stms[j].exp
        assert isinstance(x, ir.At) and isinstance(x.array, Var)
        v, rest = now[x.array], x.index[1:]
        read: ir.Exp = ir.At(v, (Range(ZERO, r.count, ONE), *rest), None) if rest else ir.Alias(v)
        stms[j] = Stm(stms[j].pat, read, stms[j].attrs)
    before: list[Stm] = []
    parts: list[Var] = []
    for a in e.arrays:
        part = Var(getattr(a, "name", "part"), _rows(a.type, r))
        alias.join(a, part)
        before.append(Stm((part,), ir.At(a, (r,), None)))
        parts.append(part)
    stms[users[0] : users[0]] = [*before, Stm(tuple(now.values()), ir.Map(r.count, tuple(parts), e.lam), s.attrs)]


def _rows(t: Type, r: Range) -> ArrayType:
    """The type of a slice of rows."""
    assert isinstance(t, ArrayType)
    return ArrayType(t.elem, (r.count, *t.shape[1:]))


__all__ = ["narrow"]
