"""Transposes that the turns of a loop or map multiply by are made once, for backends on processors with caches.

    let t = transpose b in loop ... do ... matmul x t   -->   let c = copy (transpose b) in loop ... do ... matmul x c

A transpose is a view, and a product that reads it puts it in order first, block by block.  The attribute "in order"
says that the copy is row-major in memory, even if nobody reads `b` later.
"""

from __future__ import annotations

from futad.core import ir
from futad.core.builder import Builder
from futad.core.ir import Lambda, Program, Stm
from futad.core.types import Atom, Var

TURNS = (ir.For, ir.While, ir.Map, ir.Fused)


def copy_transposes(program: Program) -> Program:
    """Rewrite such products in every function."""
    return ir.map_bodies(program, lambda lam: _scope(lam, set()))


def _scope(lam: Lambda, views: set[Var]) -> Lambda:
    """The scope rewritten; `views`: transposes of matrices from around it."""
    views = views | {s.pat[0] for s in lam.stms if type(s.exp) is ir.Rearrange and s.exp.perm == (1, 0)}
    out: list[Stm] = []
    changed = False
    for s in lam.stms:
        kept = s
        if s.exp.lambdas():
            copies: dict[Atom, Var] = {}
            if isinstance(s.exp, TURNS):
                b = Builder()
                for m in _factors(s):
                    if m in views and m not in copies:
                        copies[m] = Var(m.name, m.type)  # type: ignore[union-attr]
                        b.add(Stm((copies[m],), ir.Copy(m), ("in order",)))
                out += b.stms
                kept = _with(s, copies) if copies else s
            kept = ir.map_scopes(kept, lambda inner: _scope(inner, views))
        changed |= kept is not s
        out.append(kept)
    return Lambda(lam.params, tuple(out), lam.result) if changed else lam


def _factors(s: Stm) -> list[Atom]:
    """The right factors of the products in the statement's scopes."""
    out: list[Atom] = []
    for lam in s.exp.lambdas():
        for t in lam.stms:
            out += [t.exp.b] if type(t.exp) is ir.MatMul else _factors(t)
    return out


def _with(s: Stm, copies: dict[Atom, Var]) -> Stm:
    """The statement with those right factors replaced."""
    if type(s.exp) is ir.MatMul and s.exp.b in copies:
        return Stm(s.pat, ir.MatMul(s.exp.a, copies[s.exp.b], s.exp.plus), s.attrs)

    def inside(lam: Lambda) -> Lambda:
        return Lambda(lam.params, tuple([_with(t, copies) for t in lam.stms]), lam.result)

    return ir.map_scopes(s, inside) if s.exp.lambdas() else s


__all__ = ["copy_transposes"]
