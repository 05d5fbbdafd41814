"""Which statements of a scope its results need: to find what a return sweep reads before saving it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from futad.ad.registry import current
from futad.core import ir
from futad.core.types import AccType, Atom, Var, shape_of
from futad.legality import Legality

LEGAL = Legality("sweeps", "a sweep executes only what its results need", fires=False)
NO_EFFECT = LEGAL.condition("no effect", "assertions are there for themselves")
ALL_NEEDED = LEGAL.condition("variables needed by others", "a loop's variable is needed for the next value of another")


def live(stms: Sequence[ir.Stm], result: Iterable[Atom]) -> tuple[list[ir.Stm], set[Var]]:
    """The statements (pruned of unneeded results) that `result` needs, and every variable they use.

    Statements that check or print something are kept.
    """
    used: set[Var] = {a for a in result if isinstance(a, Var)}
    kept: list[ir.Stm] = []
    for stm in reversed(stms):
        if used.isdisjoint(stm.pat) and NO_EFFECT(not _checks(stm.exp)):
            continue
        stm = prune(stm, used)
        kept.append(stm)
        used.update(ir.stm_free(stm))
    return kept[::-1], used


def _checks(e: ir.Exp) -> bool:
    """Whether `e` contains an assertion or prints, or calls a function that does."""
    if not e.scoped or not any(c.effect or c is ir.Call for lam in e.lambdas() for c in lam.inside()):
        return e.effect or isinstance(e, ir.Call) and current().checks(e.name)
    inside = (s.exp for lam in e.lambdas() for s in ir.statements(lam.stms))
    return any(x.effect or isinstance(x, ir.Call) and current().checks(x.name) for x in (e, *inside))


def live_lambda(lam: ir.Lambda, result: tuple[Atom, ...]) -> ir.Lambda:
    stms, _ = live(lam.stms, result)
    same = len(stms) == len(lam.stms) and all(a is b for a, b in zip(stms, lam.stms, strict=True))
    return lam if same and result == lam.result else ir.Lambda(lam.params, tuple(stms), result)


def _sized(stm: ir.Stm, keep: list[bool]) -> list[bool]:
    """Sizes bound by a pattern are kept with the arrays that mention them."""
    for v, k in zip(stm.pat, list(keep), strict=True):
        if k:
            for n in shape_of(v.type):
                if n in stm.pat:
                    keep[stm.pat.index(n)] = True
    return keep


def _pick(xs: Sequence[Atom], keep: Sequence[bool]) -> tuple[Atom, ...]:
    return tuple([x for x, k in zip(xs, keep, strict=True) if k])


def prune(stm: ir.Stm, used: set[Var]) -> ir.Stm:
    """The statement without results outside `used`, where that is possible."""
    e = stm.exp
    if not e.scoped:
        return stm
    keep = _sized(stm, [v in used or isinstance(v.type, AccType) for v in stm.pat])
    pat = tuple([v for v, k in zip(stm.pat, keep, strict=True) if k])
    match e:
        case ir.Map():
            lam = live_lambda(e.lam, _pick(e.lam.result, keep))
            inside = _used_in(lam)
            on = [p in inside or isinstance(p.type, AccType) for p in lam.params]
            params = tuple([p for p, o in zip(lam.params, on, strict=True) if o])
            if lam is e.lam and len(params) == len(lam.params):
                return stm
            return ir.Stm(pat, ir.Map(e.width, _pick(e.arrays, on), ir.Lambda(params, lam.stms, lam.result)), stm.attrs)
        case ir.If():
            then = live_lambda(e.then, _pick(e.then.result, keep))
            orelse = live_lambda(e.orelse, _pick(e.orelse.result, keep))
            if then is e.then and orelse is e.orelse:
                return stm
            return ir.Stm(pat, ir.If(e.cond, then, orelse), stm.attrs)
        case ir.Par():
            k = len(e.first.result)
            first = live_lambda(e.first, _pick(e.first.result, keep[:k]))
            second = live_lambda(e.second, _pick(e.second.result, keep[k:]))
            return ir.Stm(pat, ir.Par(first, second), stm.attrs)
        case ir.Loop():
            return _prune_loop(stm, e, keep)
        case ir.WithAcc():
            k = len(e.arrays)
            keep[:k] = [True] * k
            pat = tuple([v for v, f in zip(stm.pat, keep, strict=True) if f])
            lam = live_lambda(e.lam, _pick(e.lam.result, keep))
            return ir.Stm(pat, ir.WithAcc(e.arrays, e.op, lam), stm.attrs)
    return stm


def _used_in(lam: ir.Lambda) -> set[Var]:
    out = {r for r in lam.result if isinstance(r, Var)}
    for s in lam.stms:
        out.update(ir.stm_free(s))
    for p in lam.params:
        out.update(n for n in shape_of(p.type) if isinstance(n, Var))
    return out


def _prune_loop(stm: ir.Stm, e: ir.Loop, keep: list[bool]) -> ir.Stm:
    if isinstance(e, ir.While):
        keep[0] = True
    own = e.variables
    while True:
        body = live_lambda(e.body, _pick(e.body.result, keep))
        inside = _used_in(body)
        more = [k or p in inside for k, p in zip(keep, own, strict=True)]
        if ALL_NEEDED(more == keep):
            break
        # A kept body mentions every parameter in scope; only those it reads are carried.
        keep = more
    params = e.body.params[: len(e.body.params) - len(own)] + tuple([p for p, k in zip(own, keep, strict=True) if k])
    body = ir.Lambda(params, body.stms, body.result)
    inits = _pick(e.inits, keep)
    pat = tuple([v for v, k in zip(stm.pat, keep, strict=True) if k])
    new: ir.Exp = e.remade(inits, body)
    return ir.Stm(pat, new, stm.attrs)
