"""Functions that bring their own derivative.

`with_vjp`, `with_vjp_tape`: forward mode differentiates the function itself.  In reverse mode the given derivative
replaces it; what it saved (the results without adjoints) is differentiated as it stands, for derivatives of
derivatives.

`WithJvp`: in forward mode the given derivative is what is made, in reverse mode its transpose.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from futad.ad.table import RULES, Rule
from futad.core import ir
from futad.core.builder import Builder
from futad.core.scalarops import OPS

if TYPE_CHECKING:
    from futad.ad.forward import Tangents
    from futad.ad.reverse import Scope


def _custom_jvp(t: Tangents, stm: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.WithVjp)
    copy = ir.Renamer(dict(zip(e.lam.params, e.args, strict=True)))
    t.run(copy.stms(e.lam.stms))
    for v, r in zip(stm.pat, e.lam.result, strict=True):
        now = copy.atom(r)
        t.b.add(ir.Stm((v,), ir.Alias(now)))
        d = t.of(now)
        if d is not None:
            t.set(v, d)


def _custom_vjp(s: Scope, stm: ir.Stm, emitted: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.WithVjp)
    seeds = [s.take(v) for v in stm.pat]
    n = len(stm.pat)
    saved = 2 * n - len(e.pull.params)
    if any(y is not None for y in seeds[:saved]):
        only = [*seeds[:saved], *[None] * (n - saved)]
        for a, d in zip(e.args, s.inline(e.lam, e.args, [True] * len(e.args), only), strict=True):
            if d is not None:
                s.add(a, d)
    if all(y is None for y in seeds[saved:]):
        return
    adjoints = [
        s.b.zeros(v.type) if y is None else s.coerce(y, v.type)
        for v, y in zip(stm.pat[saved:], seeds[saved:], strict=True)
    ]
    for a, d in zip(e.args, s.b.inline(e.pull, [*stm.pat, *adjoints]), strict=True):
        s.add(a, d)


def _tangents_jvp(t: Tangents, stm: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.WithJvp)
    t.b.add(stm)
    given = [t.of(a) for a in e.args]
    if all(d is None for d in given):
        return
    moves = [t.b.zeros(a.type) if d is None else d for a, d in zip(e.args, given, strict=True)]
    for v, d in zip(stm.pat, t.b.inline(e.push, [*e.args, *moves]), strict=True):
        t.set(v, d)


def _tangents_vjp(s: Scope, stm: ir.Stm, emitted: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.WithJvp)
    seeds = [s.take(v) for v in stm.pat]
    if all(y is None for y in seeds):
        return
    n = len(e.args)
    nothing = [s.b.zeros(a.type) for a in e.args]
    adjoints = s.inline(e.push, [*e.args, *nothing], [False] * n + [True] * n, seeds)[n:]
    for a, d in zip(e.args, adjoints, strict=True):
        if d is not None:
            s.add(a, d)


def told(f: ir.Lambda) -> bool:
    """Whether it says anything that is for derivatives alone."""
    if f.has(ir.WithVjp, ir.WithJvp, ir.WithInverse):
        return True
    return any(isinstance(s.exp, ir.Op) and OPS[s.exp.op].passes for s in ir.statements(f.stms))


class Plain(ir.Renamer):
    """Replaces what is for derivatives alone: every `WithVjp`, `WithJvp` and `WithInverse` by its function, operations
    that pass their argument (see `ScalarOp`) by this."""

    def stms(self, stms: Iterable[ir.Stm]) -> list[ir.Stm]:
        b = Builder()
        for stm in stms:
            e = stm.exp
            if isinstance(e, ir.WithVjp | ir.WithJvp | ir.WithInverse):
                self.mapping.update(zip(e.lam.params, map(self.atom, e.args), strict=True))
                b.extend(self.stms(e.lam.stms))
                self.mapping.update(zip(stm.pat, map(self.atom, e.lam.result), strict=True))
            elif isinstance(e, ir.Op) and OPS[e.op].passes:
                self.mapping[stm.pat[0]] = self.atom(e.args[0])
            else:
                b.add(self.stm(stm))
        return b.stms

    def lam(self, scope: ir.Lambda) -> ir.Lambda:
        params = tuple([self.bind(p) for p in scope.params])
        stms = tuple(self.stms(scope.stms))
        return ir.Lambda(params, stms, tuple([self.atom(a) for a in scope.result]))


RULES[ir.WithVjp] = Rule(_custom_jvp, _custom_vjp)
RULES[ir.WithJvp] = Rule(_tangents_jvp, _tangents_vjp)
