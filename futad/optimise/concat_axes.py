"""Concatenations along other dimensions than the first, which programs say by transpositions.

    transpose (concat (transpose a) (transpose b))
      -->
    let c = scratch; c[0:n, 0:k] = a; c[0:n, k:k+l] = b in c

The pieces lie as they did, and so does what reads the whole: row by row, not across all of them.
"""

from __future__ import annotations

from functools import partial

from futad.core import ir
from futad.core.builder import Builder
from futad.core.ir import Lambda, Program, Stm
from futad.core.node import Range
from futad.core.scope import uses_in
from futad.core.types import ONE, ZERO, Atom, Prim, Var, elem_of, shape_of
from futad.legality import Legality

LEGAL = Legality(
    "concat-axes",
    "pieces are put together along another dimension than the first, without transposing",
    worth="jnp.roll and jnp.pad along the second axis in programs imported from JAX: maps over the whole run in lanes",
)
READ_ALIKE = LEGAL.condition("read in one order", "others read the concatenation, which is not made any more")


def concat_axes(program: Program) -> Program:
    """Rewrite such concatenations in every scope."""
    return ir.map_bodies(program, partial(_scope, around={}))


def _scope(lam: Lambda, around: dict[Var, ir.Exp]) -> Lambda:
    """The scope and those in it; `around`: single definitions outside."""
    defs = around | {s.pat[0]: s.exp for s in lam.stms if len(s.pat) == 1}
    views: dict[Var, list[ir.Rearrange]] = {}
    for s in lam.stms:
        if isinstance(s.exp, ir.Rearrange) and isinstance(s.exp.array, Var):
            views.setdefault(s.exp.array, []).append(s.exp)
    uses = uses_in(lam.stms, lam.result)
    made: dict[Atom, Var] = {}
    out: list[Stm] = []
    for s in lam.stms:
        e = s.exp
        if isinstance(e, ir.Rearrange) and e.array in made:
            out.append(Stm(s.pat, ir.Alias(made[e.array]), s.attrs))
            continue
        if isinstance(e, ir.Concat):
            (v,) = s.pat
            perm = _order(e, views.get(v, []), defs)
            if perm is not None and READ_ALIKE(uses[v] == len(views[v])):
                LEGAL.fired()
                made[v] = _along(e, perm, v, out)
                continue
        out.append(ir.map_scopes(s, partial(_scope, around=defs)))
    if all(a is b for a, b in zip(out, lam.stms, strict=False)) and len(out) == len(lam.stms):
        return lam
    return Lambda(lam.params, tuple(out), lam.result)


def _order(e: ir.Concat, views: list[ir.Rearrange], defs: dict[Var, ir.Exp]) -> tuple[int, ...] | None:
    """The order of dimensions in which all views show a concatenation, if its pieces lie in this order, too; one value
    everywhere lies in any order."""
    if not views or any(r.perm != views[0].perm for r in views):
        return None
    perm = views[0].perm
    pieces = [defs.get(a) if isinstance(a, Var) else None for a in e.arrays]
    turned = [d.perm for d in pieces if isinstance(d, ir.Rearrange)]
    fills = [d for d in pieces if isinstance(d, ir.Replicate) and isinstance(d.value.type, Prim)]
    lie = len(turned) + len(fills) == len(pieces) and all([q[p] for p in perm] == sorted(perm) for q in turned)
    return perm if perm[0] != 0 and lie and turned else None


def _along(e: ir.Concat, perm: tuple[int, ...], v: Var, out: list[Stm]) -> Var:
    """The pieces put together along the dimension that is the first one of the concatenation."""
    shape = [shape_of(v.type)[p] for p in perm]
    axis = perm.index(0)
    b = Builder()
    whole = b.let(ir.Scratch(elem_of(v.type), tuple(shape)), v.name)
    start: Atom = ZERO
    for a in e.arrays:
        count = shape_of(a.type)[0]
        piece = b.let(ir.Rearrange(a, perm), "piece")
        place = [Range(start if d == axis else ZERO, count if d == axis else n, ONE) for d, n in enumerate(shape)]
        whole = b.let(ir.Update(whole, tuple(place), piece, None), v.name)
        start = b.op("add", start, count)
    out += b.stms
    return whole


__all__ = ["concat_axes"]
