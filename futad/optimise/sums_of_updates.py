"""Accumulators that are only added to as a whole become sums.

    with_acc a (\\acc -> let acc1 = acc += x in acc1 += y)   -->   a + x + y
"""

from __future__ import annotations

from futad.core import ir
from futad.core.builder import Builder
from futad.core.ir import Lambda, Stm
from futad.core.types import Atom, Var
from futad.legality import Legality

LEGAL = Legality("sums-of-updates", "accumulators that are only added to as a whole become sums")
ALL_WHOLE = LEGAL.condition("only whole updates", "updates of parts of the accumulator are no terms of the sum")
WHOLE = LEGAL.condition("update of the whole", "a part is no term of the sum")
WAS_ZERO = LEGAL.condition("was zero", "what was in the array is not in the sum")


def sums_of_updates(s: Stm, e: ir.WithAcc, scope: Lambda, zeros: set[Var]) -> list[Stm]:
    """The construct; accumulators whose updates are all of the whole array become sums."""
    before, s = emptied(s, e, scope)
    assert type(s.exp) is ir.WithAcc
    e = s.exp
    lam = e.lam
    n = len(e.arrays)
    b = Builder()
    b.extend(before)
    keep: list[int] = []
    sums: dict[int, list[Var]] = {}
    stms = list(lam.stms)
    for k in range(n):
        acc: Atom = lam.params[k]
        chain: list[int] = []
        values: list[Var] = []
        for i, t in enumerate(stms):
            if type(t.exp) is not ir.UpdateAcc or t.exp.acc is not acc or type(t.exp.value) is not Var:
                continue
            if WHOLE(not t.exp.index):
                chain.append(i)
                values.append(t.exp.value)
                acc = t.pat[0]
        if ALL_WHOLE(acc is lam.result[k]):
            stms = [t for i, t in enumerate(stms) if i not in chain]
            sums[k] = values
        else:
            keep.append(k)
    if keep or stms:
        inner = Lambda(tuple([lam.params[k] for k in keep]), tuple(stms), tuple([lam.result[k] for k in keep]))
        inner.result += lam.result[n:]
        pat = (*[s.pat[k] for k in keep], *s.pat[n:])
        b.add(Stm(pat, ir.WithAcc(tuple([e.arrays[k] for k in keep]), e.op, inner), s.attrs))
    for k, values in sums.items():
        LEGAL.fired()
        total = e.arrays[k]
        for value in values:
            total = value if WAS_ZERO(total in zeros) else b.plus(total, value)
        b.add(Stm((s.pat[k],), ir.Alias(total)))
    return b.stms


def emptied(s: Stm, e: ir.WithAcc, lam: Lambda) -> tuple[list[Stm], Stm]:
    """What can go before a WithAcc whose scope is `lam`, and the WithAcc without it.

    Nothing can depend on an accumulator but its updates, so all else goes.
    """
    inside: set[Var] = set(lam.params)
    before: list[Stm] = []
    rest: list[Stm] = []
    for t in lam.stms:
        if any(v in inside for v in ir.stm_free(t)):
            inside.update(t.pat)
            rest.append(t)
        else:
            before.append(t)
    n = len(e.arrays)
    kept: list[tuple[Var, Atom]] = []
    for v, r in zip(s.pat[n:], lam.result[n:], strict=True):
        if r in inside:
            kept.append((v, r))
        else:
            before.append(Stm((v,), ir.Alias(r)))
    inner = Lambda(lam.params, tuple(rest), (*lam.result[:n], *[r for _, r in kept]))
    return before, Stm((*s.pat[:n], *[v for v, _ in kept]), ir.WithAcc(e.arrays, e.op, inner), s.attrs)


__all__ = ["emptied", "sums_of_updates"]
