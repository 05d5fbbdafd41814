"""Calls, which are there where functions are recursive: calls of the functions' derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from futad.ad.registry import Flags, current
from futad.ad.rules.records import call_with_record
from futad.ad.table import RULES, Rule
from futad.core import ir
from futad.core.types import Atom, Const, Prim, Var, subst_type, zero
from futad.legality import Legality

if TYPE_CHECKING:
    from futad.ad.forward import Tangents
    from futad.ad.reverse import Scope

SLOPES = Legality(
    "slopes",
    "scopes around calls return the derivatives of a result as well, which the return sweep multiplies",
    worth="the gradient of the tree of `benchmarks/tasks.py`, 2^18 leaves on c, 7.7 to 6.3 ms: FUTAD_MUTANT=slopes",
)
ONE_ADJOINT = SLOPES.condition("one adjoint", "the derivatives of one result are multiplied, and the others' are lost")
NUMBERS = SLOPES.condition("numbers of its type", "what is added to an array is no number times an adjoint")


def _call_jvp(t: Tangents, stm: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.Call)
    params = current().marked(e, t.active)
    fun, results = current().jvp(e.name, params)
    tangents = [t.dense(a) for a, f in zip(e.args, params, strict=True) if f]
    pat = [*stm.pat, *[t.fresh(v) for v, f in zip(stm.pat, results, strict=True) if f]]
    t.b.add(ir.Stm(tuple(pat), ir.Call(fun.name, (*e.args, *tangents)), stm.attrs))


def _call_vjp(s: Scope, stm: ir.Stm, emitted: ir.Stm) -> None:
    e = stm.exp
    assert isinstance(e, ir.Call)
    params = current().marked(e, s.ctx.active)
    adjoints = [s.take(v) for v in stm.pat]
    if not any(params) or all(y is None for y in adjoints):
        return
    found = current().gradient(e.name, params, s.ctx.how.keeps)
    if found is not None and adjoints[found[1]] is not None:
        _with_gradient(s, emitted, params, *found, adjoints[found[1]])
        return
    if call_with_record(s, stm, emitted, params, adjoints):
        return
    fun, values = current().vjp(e.name, params, tuple([y is not None for y in adjoints]))
    given: list[Atom] = [*e.args, *[stm.pat[k] for k in values]]
    given += [s.coerce(y, v.type) for v, y in zip(stm.pat, adjoints, strict=True) if y is not None]
    mapping: dict[Var, Atom] = dict(zip(fun.body.params, given, strict=True))
    types = [subst_type(v.type, mapping) for v in fun.ret]
    names = [v.name for v in fun.ret]
    out = iter(s.b.emit(ir.Call(fun.name, tuple(given)), *names, types=types))
    for a, f in zip(e.args, params, strict=True):
        if f:
            s.add(a, next(out))


def _with_gradient(s: Scope, emitted: ir.Stm, params: Flags, fun: ir.Fun, at: int, adjoint: Atom | None) -> None:
    """The forward sweep's call returns the derivatives, too; the return sweep multiplies them."""
    e = emitted.exp
    assert isinstance(e, ir.Call) and adjoint is not None
    marked = [a for a, f in zip(e.args, params, strict=True) if f]
    slopes = [Var(f"d_{a.name}" if type(a) is Var else "d", a.type) for a in marked]
    s.replace(emitted, [ir.Stm((*emitted.pat, *slopes), ir.Call(fun.name, e.args), emitted.attrs)])
    for a, d in zip(marked, slopes, strict=True):
        s.add(a, s.b.op("mul", adjoint, d, hint=f"{d.name}_bar"))


def branch_with_gradient(s: Scope, emitted: ir.Stm, adjoints: Sequence[Atom | None]) -> bool:
    """A branch around calls, of which one float alone has an adjoint: as a call that returns its derivatives (Note
    [Gradients in one pass] in `calls.py`).  False where that is not so, or another variable than floats is involved."""
    e = emitted.exp
    at = [k for k, y in enumerate(adjoints) if y is not None]
    if not isinstance(e, ir.If) or not at or not any(lam.has(ir.Call) for lam in (e.then, e.orelse)):
        return False
    if not ONE_ADJOINT(len(at) == 1):
        return False
    t = emitted.pat[at[0]].type
    if not isinstance(t, Prim) or not t.is_float:
        return False
    sides: list[tuple[Scope, ir.Atoms]] = []
    for lam in (e.then, e.orelse):
        lam = ir.rename(lam)
        side = s.isolated()
        swept = side.forward(lam.stms)
        side.add(lam.result[at[0]], Const(t, 1.0))
        side.back(swept)
        sides.append((side, lam.result))
    changed = list(dict.fromkeys(v for side, _ in sides for v in side.outside()))
    if not NUMBERS(all(v.type is t for v in changed)):
        return False
    SLOPES.fired()
    bodies = []
    for side, results in sides:
        slopes = [side.adj.get(v, zero(t)) for v in changed]
        bodies.append(ir.Lambda((), tuple(side.code()), (*results, *slopes)))
    own = [Var(f"d_{v.name}", t) for v in changed]
    s.replace(emitted, [ir.Stm((*emitted.pat, *own), ir.If(e.cond, *bodies), emitted.attrs)])
    adjoint = adjoints[at[0]]
    assert adjoint is not None
    for v, d in zip(changed, own, strict=True):
        s.add(v, s.b.op("mul", adjoint, d, hint=f"{d.name}_bar"))
    return True


def slopes(s: Scope, lam: ir.Lambda, at: int) -> tuple[ir.Lambda, list[Var]] | None:
    """A scope without parameters that calls functions, with the derivatives of its result `at` as further results: by
    which variables from outside.  None if it calls none, or some other variable than a float of that type matters."""
    t = lam.result[at].type
    if not isinstance(t, Prim) or not t.is_float or not lam.has(ir.Call):
        return None
    lam = ir.rename(lam)
    side = s.isolated()
    swept = side.forward(lam.stms)
    side.add(lam.result[at], Const(t, 1.0))
    side.back(swept)
    changed = side.outside()
    if not NUMBERS(all(v.type is t for v in changed)):
        return None
    made = [side.adj.get(v, zero(t)) for v in changed]
    return ir.Lambda((), tuple(side.code()), (*lam.result, *made)), changed


RULES[ir.Call] = Rule(_call_jvp, _call_vjp)
