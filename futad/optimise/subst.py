"""Substitution of free variables in statements that keep their own binders.

`ir.Renamer` makes copies; this moves: bound variables stay (unless a size in their type is replaced), and
statements and scopes that do not mention a replaced variable stay the same objects.
"""

from __future__ import annotations

from collections.abc import Iterable

from futad.core import ir
from futad.core.ir import Lambda, Stm
from futad.core.types import Atom, Var, subst_type


class Subst:
    """A substitution that grows when a binder has to be renewed."""

    def __init__(self, mapping: dict[Var, Atom] | None = None) -> None:
        self.mapping: dict[Var, Atom] = mapping if mapping is not None else {}

    def atom(self, a: Atom) -> Atom:
        return self.mapping.get(a, a) if type(a) is Var else a

    def bind(self, v: Var) -> Var:
        t = subst_type(v.type, self.mapping)
        if t is v.type:
            return v
        fresh = Var(v.name, t, v.at)
        self.mapping[v] = fresh
        return fresh

    def exp(self, e: ir.Exp) -> ir.Exp:
        mapping = self.mapping
        if not any(a in mapping for a in e.operands()) and not any(
            v in mapping for lam in e.lambdas() for v in lam.free()
        ):
            if type(e) is ir.ArrayLit:
                t = subst_type(e.type, mapping)
                return e if t is e.type else ir.ArrayLit(e.elems, t)
            return e
        out = e.rebuild(self.atom, self.lam)
        if type(out) is ir.ArrayLit:
            out.type = subst_type(out.type, mapping)
        return out

    def stm(self, s: Stm) -> Stm:
        exp = self.exp(s.exp)
        pat = tuple([self.bind(v) for v in s.pat])
        return s if exp is s.exp and pat == s.pat else Stm(pat, exp, s.attrs)

    def stms(self, stms: Iterable[Stm]) -> list[Stm]:
        return [self.stm(s) for s in stms] if self.mapping else list(stms)

    def lam(self, lam: Lambda) -> Lambda:
        if not any(v in self.mapping for v in lam.free()):
            return lam
        params = tuple([self.bind(p) for p in lam.params])
        stms = tuple([self.stm(s) for s in lam.stms])
        return Lambda(params, stms, tuple([self.atom(a) for a in lam.result]))


__all__ = ["Subst"]
