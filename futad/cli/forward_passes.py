"""Warnings of gradients by n forward passes that stay quadratic (`futad check`).

A `jvp` of a function with scalar results, in a map or loop or in many directions, is looked at by itself: its tangents
are one-hot if more sums that compare indices are left after the pass `one-hot` than with the arguments as tangents.
"""

from __future__ import annotations

from collections.abc import Iterator

from futad.core import ir
from futad.core.budget import place_of
from futad.core.types import ArrayType, Atom, Prim, Var
from futad.deep import deep
from futad.errors import Error, Lint
from futad.pipeline import compile_program
from futad.rewrite.terms import compares, seeded

MESSAGE = "these are n forward passes, each of which takes as long as the function"
HINT = "'vjp' takes one pass for the whole gradient; see docs/ad.md, gradients by forward mode"


@deep
def forward_passes(program: ir.Program) -> list[Lint]:
    """A warning for each such derivative, at its place."""
    return list(_warnings(program))


def _warnings(program: ir.Program) -> Iterator[Lint]:
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
        made = compile_program(ir.Program({f.name: one}), passes=["invert", "ad", "simplify-ad", "one-hot"])
    except Error:
        return 0
    return _sums(made.funs[f.name])


class _Look:
    """Where a function sums what may be hot."""

    def __init__(self) -> None:
        self.made: dict[Atom, tuple[ir.Exp, int]] = {}
        self.seeds: dict[Atom, bool] = {}

    def maker(self, a: Atom) -> tuple[ir.Exp, int] | None:
        """What binds a variable."""
        return self.made.get(a) if isinstance(a, Var) else None

    def mapped(self, a: Atom) -> bool:
        """Whether a map makes the array, which may be hot."""
        found = self.maker(a)
        return found is not None and isinstance(found[0], ir.Map) and seeded(self, a)

    def scope(self, lam: ir.Lambda) -> int:
        """How many statements of a scope, and of those nested in it, are or have such a sum."""
        found = 0
        for s in lam.stms:
            e = s.exp
            for k, v in enumerate(s.pat):
                self.made[v] = e, k
            found += sum(map(self.scope, e.lambdas()))
            match e:
                case ir.Scan():
                    found += any(seeded(self, a) for a in e.arrays)
                case ir.Reduce() | ir.Hist():
                    found += any(seeded(self, a) for a in e.operands())
                case ir.For():
                    found += _combines(e) and compares(self, e.body)
                case ir.At():
                    found += self.mapped(e.array)
                case ir.Map():
                    rows = zip(e.arrays, e.lam.params, strict=True)
                    found += any(isinstance(p.type, ArrayType) and self.mapped(a) for a, p in rows)
        return found


def _combines(e: ir.For) -> bool:
    """Whether a variable of the loop is added to, or left alone by a choice."""
    variables = set(e.variables)
    made: dict[Atom, ir.Exp] = {v: s.exp for s in e.body.stms for v in s.pat}
    for r in e.body.result:
        x = made.get(r)
        if isinstance(x, ir.If | ir.Map) or isinstance(x, ir.Op) and not variables.isdisjoint(x.args):
            return True
    return False


def _sums(f: ir.Fun) -> int:
    """How many statements of the function sum what compares indices, or read one place of an array."""
    return _Look().scope(f.body)


__all__ = ["forward_passes"]
