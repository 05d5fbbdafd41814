"""The program's own assertions: those whose value is used become checks, the others go.

`assert c x` is an `Assert` before `x` that binds true, and one after it of that and the parts of `x`, which it binds
again: so both are dead code where no part is used, as in Futhark.  After inlining no more of them can become unused;
from then on each is an `Assert` that binds nothing and stays, and `x` is plain to see for other passes.
"""

from __future__ import annotations

from futad.core import ir
from futad.core.ir import Lambda, Program, Stm
from futad.rewrite.dce import asserting_functions, dead_code


def bind_assertions(program: Program) -> Program:
    """The program without assertions that bind something; the same object if there are none."""
    if ir.map_bodies(program, _bound) is program:
        return program
    asserting = asserting_functions(program)
    return ir.map_bodies(program, lambda body: _bound(dead_code(body, asserting)[0]))


def _bound(lam: Lambda) -> Lambda:
    out: list[Stm] = []
    for s in lam.stms:
        e = s.exp
        if isinstance(e, ir.Assert) and e.of:
            out.append(Stm((), ir.Assert(e.cond, e.message, e.values, e.place)))
            out += [Stm((v,), ir.Alias(a)) for v, a in zip(s.pat, e.of, strict=True)]
        else:
            out.append(ir.map_scopes(s, _bound))
    same = len(out) == len(lam.stms) and all(a is b for a, b in zip(out, lam.stms, strict=True))
    return lam if same else Lambda(lam.params, tuple(out), lam.result)


__all__ = ["bind_assertions"]
