"""Operators of folds: those with a rule of their own, the independent parts of one on tuples."""

from __future__ import annotations

from futad.core import ir
from futad.core.operator import operator_of
from futad.core.scalarops import OPS
from futad.core.types import Atom, Var


def canonical(lam: ir.Lambda) -> ir.Lambda:
    """The operator with its arguments in order where it takes the minimum or maximum of both.

    Values are the same; of equal ones, the first has the derivative, however the program wrote them.
    """
    k = len(lam.result)
    return _in_order(lam, set(lam.params[:k]), set(lam.params[k:]))


def _in_order(lam: ir.Lambda, left: set[Atom], right: set[Atom]) -> ir.Lambda:
    stms: list[ir.Stm] = []
    for s in lam.stms:
        e = s.exp
        if isinstance(e, ir.Op) and e.op in ("min", "max") and e.args[0] in right and e.args[1] in left:
            s = ir.Stm(s.pat, ir.Op(e.op, e.args[::-1]), s.attrs)
        elif isinstance(e, ir.Map):
            pairs = list(zip(e.arrays, e.lam.params, strict=True))
            inner = _in_order(e.lam, {p for a, p in pairs if a in left}, {p for a, p in pairs if a in right})
            s = ir.Stm(s.pat, ir.Map(e.width, e.arrays, inner), s.attrs)
        stms.append(s)
    return ir.Lambda(lam.params, tuple(stms), lam.result)


def ruled(lam: ir.Lambda) -> str | None:
    """The associative operation that `lam` is, if it has a rule: on scalars, or a sum of values of any rank."""
    found = operator_of(lam)
    if found is None or not OPS[found.op].associative:
        return None
    return found.op if found.op == "add" or found.rank == 0 else None


def needed(stms: tuple[ir.Stm, ...], results: tuple[Atom, ...]) -> tuple[tuple[ir.Stm, ...], set[Var]]:
    """The statements that `results` need, and every variable those use."""
    used: set[Var] = {r for r in results if isinstance(r, Var)}
    kept: list[ir.Stm] = []
    for stm in reversed(stms):
        if any(v in used for v in stm.pat):
            kept.append(stm)
            used.update(ir.stm_free(stm))
    return tuple(reversed(kept)), used


def split_operator(lam: ir.Lambda) -> list[tuple[tuple[int, ...], ir.Lambda]]:
    """An operator on k-tuples as independent operators on parts of the tuple.

    (a + b, max a' b') gives two operators; where results mix components they stay together.
    """
    k = len(lam.result)
    if k == 1:
        return [((0,), lam)]
    group = list(range(k))
    for i, r in enumerate(lam.result):
        _, used = needed(lam.stms, (r,))
        for j in range(k):
            if lam.params[j] in used or lam.params[k + j] in used:
                old, new = group[j], group[i]
                group = [new if g == old else g for g in group]
    parts: list[tuple[tuple[int, ...], ir.Lambda]] = []
    for g in dict.fromkeys(group):
        part = tuple([i for i in range(k) if group[i] == g])
        results = tuple([lam.result[i] for i in part])
        stms, _ = needed(lam.stms, results)
        params = tuple([lam.params[i] for i in part] + [lam.params[k + i] for i in part])
        parts.append((part, ir.Lambda(params, stms, results)))
    return parts
