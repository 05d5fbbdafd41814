"""Copies where derivative code would use an array after consuming it.

The return sweep reads primal values that the forward sweep may have overwritten, and adjoints may share an
array.  A consuming statement whose array is used later gets a copy of it; a backend would copy there anyway.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from futad.ad.tidy.take_back import take_back
from futad.core import ir
from futad.core.alias import CONSUMING
from futad.core.types import ArrayType, Atom, Var
from futad.legality import Legality

LEGAL = Legality("protect", "what derivative code overwrites is not copied first", fires=False)
DEAD = LEGAL.condition("not read later", "the return sweep reads what was overwritten")
ONCE = LEGAL.condition("overwritten once", "two results are written to one array")
OWN = LEGAL.condition("made in the iteration", "each iteration overwrites what the others start from")


def protect(
    stms: Sequence[ir.Stm], result: Sequence[Atom], put_back: Mapping[Var, Sequence[Var]] = {}
) -> list[ir.Stm]:
    """The statements with copies added; `result` are the atoms used after them, and stay as they are.

    `put_back`: by array, variables that have its value."""
    return _Protector(put_back).scope(stms, (), {a for a in result if isinstance(a, Var)}, None)[0]


def protect_scope(lam: ir.Lambda) -> ir.Lambda:
    """The scope with copies added where derivative code in it, which is protected by itself, overwrites what the
    statements around use: a cotangent, say, that is used again."""
    stms, result = _Protector(None).scope(lam.stms, lam.result, set(), None)
    return ir.Lambda(lam.params, tuple(stms), result)


class _Protector:
    def __init__(self, put_back: Mapping[Var, Sequence[Var]] | None) -> None:
        """`put_back`: see `protect`; None if no update is to be taken back."""
        self.root: dict[Var, Var] = {}
        self.put_back = put_back

    def of(self, v: Var) -> Var:
        return self.root.get(v, v)

    def scope(
        self, stms: Sequence[ir.Stm], result: tuple[Atom, ...], later: set[Var], own: set[Var] | None
    ) -> tuple[list[ir.Stm], tuple[Atom, ...]]:
        """`later`: what is used after the scope and its results on the same path; `own`: inside a scope that
        repeats, the arrays bound in it (None outside of one)."""
        self._look(stms)
        if self.put_back is not None:
            stms, result = take_back(stms, result, later, self.root, self.put_back)
            self._look(stms)
        for s in stms:
            if own is not None:
                own.update(s.pat)
        later = later | {a for a in result if isinstance(a, Var)}
        live = {self.of(v) for v in later}
        out: list[ir.Stm] = []
        for s in reversed(stms):
            exp, copies = self._exp(s.exp, live, own)
            out.append(s if exp is s.exp else ir.Stm(s.pat, exp, s.attrs))
            out += reversed(copies)
            live.update([self.root.get(v, v) for v in ir.stm_free(s)])
        return out[::-1], result

    def _look(self, stms: Sequence[ir.Stm]) -> None:
        """Note which variables are views, and of what."""
        for s in stms:
            if views := s.exp.views():
                self._is(s.pat, views)
            # Which are their functions, once derivatives are taken.
            if isinstance(s.exp, ir.WithVjp | ir.WithJvp | ir.WithInverse):
                self._is(s.exp.lam.params, s.exp.args)
                self._look(s.exp.lam.stms)
                self._is(s.pat, s.exp.lam.result)

    def _is(self, variables: Sequence[Var], sources: Sequence[Atom]) -> None:
        """The first variables are views of these."""
        for v, src in zip(variables, sources, strict=False):
            if isinstance(v.type, ArrayType) and isinstance(src, Var):
                self.root[v] = self.of(src)

    def _exp(self, e: ir.Exp, live: set[Var], own: set[Var] | None) -> tuple[ir.Exp, list[ir.Stm]]:
        copies: list[ir.Stm] = []
        taken: set[Var] = set()

        def guard(a: Atom) -> Atom:
            if not isinstance(a, Var) or not isinstance(a.type, ArrayType):
                return a
            r = self.of(a)
            if DEAD(r not in live) and ONCE(r not in taken) and OWN(own is None or r in own):
                taken.add(r)
                return a
            fresh = Var(a.name, a.type)
            copies.append(ir.Stm((fresh,), ir.Copy(a)))
            return fresh

        def inner(lam: ir.Lambda) -> ir.Lambda:
            if CONSUMING.isdisjoint(lam.inside()):
                return lam
            repeats = bool(e.repeats())
            stms, result = self.scope(
                lam.stms, lam.result, set() if repeats else live, set(lam.params) if repeats else own
            )
            same = len(stms) == len(lam.stms) and all(a is b for a, b in zip(stms, lam.stms, strict=True))
            return lam if same and result == lam.result else ir.Lambda(lam.params, tuple(stms), result)

        if e.scoped:
            e = ir.map_scopes(ir.Stm((), e), inner).exp
        if isinstance(e, ir.WithAcc):
            live = live | {self.of(v) for v in e.lam.free()}
        return e.consuming(guard), copies
