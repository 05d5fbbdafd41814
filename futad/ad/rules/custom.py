"""`with_vjp`, `with_vjp_tape`: a function that brings its own reverse-mode derivative.

Forward mode differentiates the function itself.  In reverse mode the given derivative replaces it; what it saved
(the results without adjoints) is differentiated as it stands, for derivatives of derivatives.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from futad.ad.table import RULES, Rule
from futad.core import ir
from futad.core.builder import Builder

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


class Plain(ir.Renamer):
    """Replaces every `WithVjp` and `WithInverse` by its function: what remains of it after differentiation."""

    def stms(self, stms: Iterable[ir.Stm]) -> list[ir.Stm]:
        b = Builder()
        for stm in stms:
            e = stm.exp
            if isinstance(e, ir.WithVjp | ir.WithInverse):
                self.mapping.update(zip(e.lam.params, map(self.atom, e.args), strict=True))
                b.extend(self.stms(e.lam.stms))
                self.mapping.update(zip(stm.pat, map(self.atom, e.lam.result), strict=True))
            else:
                b.add(self.stm(stm))
        return b.stms

    def lam(self, scope: ir.Lambda) -> ir.Lambda:
        params = tuple([self.bind(p) for p in scope.params])
        stms = tuple(self.stms(scope.stms))
        return ir.Lambda(params, stms, tuple([self.atom(a) for a in scope.result]))


RULES[ir.WithVjp] = Rule(_custom_jvp, _custom_vjp)
