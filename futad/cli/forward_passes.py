"""Warnings of gradients by n forward passes that stay quadratic (`futad check`).

A `jvp` of a function with scalar results, in a map or loop or in many directions, is looked at by itself: its tangents
are one-hot if more sums that compare indices are left after the pass `one-hot` than with the arguments as tangents.
"""

from __future__ import annotations

from collections.abc import Iterator

from futad.core import ir
from futad.core.budget import place_of
from futad.core.types import Prim, Var
from futad.errors import Error, Lint
from futad.pipeline import compile_program
from futad.rewrite.onehot import sums_one_hot

MESSAGE = "these are n forward passes, each of which takes as long as the function"
HINT = "'vjp' takes one pass for the whole gradient; see docs/ad.md, gradients by forward mode"


def forward_passes(program: ir.Program) -> Iterator[Lint]:
    """A warning for each such derivative, at its place."""
    if not any(f.body.has(ir.Jvp) for f in program.funs.values()):
        return
    try:
        program = compile_program(program, stop_after="views")
    except Error:
        return  # whoever compiles it is told
    for f in program.funs.values():
        found = list(_gradients(f.body, False))
        left = _left(f, None) if found else 0
        for s in found:
            place = place_of(s.attrs)
            if place is not None and _left(f, s) > left:
                yield Lint(MESSAGE, place, hint=HINT)


def _gradients(lam: ir.Lambda, repeated: bool) -> Iterator[ir.Stm]:
    """The derivatives of scalars that are taken many times."""
    for s in lam.stms:
        e = s.exp
        if isinstance(e, ir.Jvp) and (repeated or e.many):
            if all(isinstance(r.type, Prim) for r in e.lam.result):
                yield s
        for inner in e.lambdas():
            yield from _gradients(inner, repeated or isinstance(e, ir.Map | ir.Loop))


def _left(f: ir.Fun, kept: ir.Stm | None) -> int:
    """How many sums that compare indices are left, if of the derivatives only the one `kept` has its tangents, and the
    others the arguments."""

    def scope(lam: ir.Lambda) -> ir.Lambda:
        return ir.Lambda(lam.params, tuple([x for s in lam.stms for x in statements(s)]), lam.result)

    def statements(s: ir.Stm) -> list[ir.Stm]:
        e = s.exp
        if not isinstance(e, ir.Jvp) or s is kept:
            return [ir.map_scopes(s, scope)]
        if not e.many:
            return [ir.Stm(s.pat, ir.Jvp(e.lam, e.args, e.args), s.attrs)]
        given = [Var("d", d.type) for d in e.tangents]
        fills = [ir.Stm((v,), ir.Replicate(e.many, a)) for v, a in zip(given, e.args, strict=True)]
        return [*fills, ir.Stm(s.pat, ir.Jvp(e.lam, e.args, tuple(given), e.many), s.attrs)]

    one = ir.Fun(f.name, scope(f.body), f.num_sizes, f.ret, f.entry, f.attrs, f.span)
    try:
        made = compile_program(ir.Program({f.name: one}), passes=["ad", "simplify-ad", "one-hot"])
    except Error:
        return 0
    return sums_one_hot(made.funs[f.name])


__all__ = ["forward_passes"]
