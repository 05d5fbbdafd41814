"""Arrays that cost more to store and to read than to compute again.

    let (q, r) = map (map (\\x -> let a = f x in (a, 2 * a))) xs in ... map (map g) r ...
        -->   let q = map (map f) xs in ... map (map (\\a -> g (2 * a))) q ...

A result of a nest of maps that is a cheap function of another of its results, element by element, and that one
statement alone uses, element by element as well, is computed there.
"""

from __future__ import annotations

from collections.abc import Sequence

from futad.core import ir
from futad.core.alias import aliases
from futad.core.builder import Builder
from futad.core.ir import Lambda, Stm
from futad.core.operator import divisor
from futad.core.scope import uses_in
from futad.core.types import AccType, Atom, Prim, Var, row_type
from futad.legality import Legality
from futad.optimise.remat.policy import Policy

LEGAL = Legality(
    "rematerialise",
    "a cheap function of another array is computed where it is used",
    worth="GMM's gradient on a device: 0.3% fewer bytes",
)
CONSTANT = LEGAL.condition("sources not overwritten", "what it is computed from has changed since")
FAILS_NOT = LEGAL.condition("fails not", "a failure is reported at another place, or not at all")
BY_ELEMENTS = LEGAL.condition("used by elements", "the user looks at other elements than its own")


def rematerialise(lam: Lambda, policy: Policy) -> Lambda:
    """A function's body with such arrays computed where they are used; the same object if there are none.

    What they are computed from must still be there: arrays that may be overwritten somewhere are left alone.
    """
    alias = aliases(lam)
    uses = uses_in(lam.stms)
    final = {a for a in lam.result if isinstance(a, Var)}
    stms = list(lam.stms)
    changed = False
    for at, s in enumerate(lam.stms):
        e = s.exp
        if not isinstance(e, ir.Mapping):
            continue
        for k in range(e.first_mapped, len(s.pat)):
            r = s.pat[k]
            if r in final or uses.get(r, 0) != 1 or isinstance(r.type, AccType):
                continue
            found = _derived(policy, e.lam, e.lam.result[k], e.first_mapped)
            if found is None:
                continue
            q = s.pat[found[0]]
            if not CONSTANT(not alias.mutable(q) and not any(alias.mutable(v) for v in found[1].free())):
                continue
            for j in range(at + 1, len(stms)):
                if r in ir.stm_free(stms[j]):
                    new = _instead(stms[j], r, q, found[1])
                    if new is not None:
                        LEGAL.fired()
                        stms[j] = new
                        changed = True
                    break
    return Lambda(lam.params, tuple(stms), lam.result) if changed else lam


def _derived(policy: Policy, lam: Lambda, r: Atom, first: int) -> tuple[int, Lambda] | None:
    """Which other result `r` is a function of, element by element, and that function of scalars."""
    if not isinstance(r, Var):
        return None
    bound = {*lam.params, *(v for s in lam.stms for v in s.pat)}
    made = {v: s for s in lam.stms for v in s.pat}
    if r not in made:
        return None
    if isinstance(r.type, Prim):
        found = _function(policy, r, made, [a for a in lam.result[first:] if a is not r], bound)
        source = found[0] if found is not None else None
    else:
        s = made[r]
        if not isinstance(s.exp, ir.Mapping):
            return None
        start, k = s.exp.first_mapped, s.pat.index(r)
        inner = _derived(policy, s.exp.lam, s.exp.lam.result[k], start) if k >= start else None
        found = (s.pat[inner[0]], inner[1]) if inner is not None else None
        source = found[0] if found is not None else None
    if found is None or source not in lam.result[first:] or set(found[1].free()) & bound:
        return None
    return first + list(lam.result[first:]).index(source), found[1]


def _function(
    policy: Policy, r: Var, made: dict[Var, Stm], sources: Sequence[Atom], bound: set[Var]
) -> tuple[Var, Lambda] | None:
    """A scalar as a function of one of some others, by cheap operations that cannot fail."""
    chosen: dict[Stm, None] = {}
    inputs: set[Var] = set()
    todo = [r]
    while todo:
        v = todo.pop()
        if v is not r and v in sources:
            inputs.add(v)
            continue
        if v not in bound:
            continue
        s = made.get(v)
        if s is None or not isinstance(s.exp, ir.Op):
            return None
        if not FAILS_NOT(divisor(s.exp) is None):
            return None
        chosen[s] = None
        if not policy.again(chosen):
            return None
        todo += [a for a in s.exp.args if isinstance(a, Var)]
    if len(inputs) != 1:
        return None
    (q,) = inputs
    order = [s for s in dict.fromkeys(made.values()) if s in chosen]
    return q, Lambda((q,), tuple(order), (r,))


def _instead(s: Stm, r: Var, q: Var, f: Lambda) -> Stm | None:
    """The statement with `f` of `q`'s elements where it uses `r`'s; None if it uses `r` in another way."""
    e = s.exp
    if isinstance(e, ir.WithAcc):
        if r in e.arrays:
            return None
        lam = _inside(e.lam, r, q, f)
        return None if lam is None else Stm(s.pat, ir.WithAcc(e.arrays, e.op, lam), s.attrs)
    if not isinstance(e, ir.Mapping) or not BY_ELEMENTS(not any(r in lam.free() for lam in e.lambdas())):
        return None
    if list(e.operands()).count(r) != 1 or r not in e.arrays:
        return None
    at = e.arrays.index(r)
    p = e.lam.params[at]
    x = Var(q.name, row_type(q.type))
    params = (*e.lam.params[:at], x, *e.lam.params[at + 1 :])
    if isinstance(p.type, Prim):
        b = Builder()
        (value,) = b.inline(f, (x,))
        b.add(Stm((p,), ir.Alias(value)))
        inner: Lambda | None = Lambda(params, (*b.stms, *e.lam.stms), e.lam.result)
    else:
        inner = _inside(Lambda(params, e.lam.stms, e.lam.result), p, x, f)
    if inner is None:
        return None
    return Stm(s.pat, e.over((*e.arrays[:at], q, *e.arrays[at + 1 :]), inner), s.attrs)


def _inside(lam: Lambda, r: Var, q: Var, f: Lambda) -> Lambda | None:
    """A scope whose one statement that uses `r` does so element by element."""
    users = [i for i, s in enumerate(lam.stms) if r in ir.stm_free(s)]
    if len(users) != 1 or r in lam.result:
        return None
    (at,) = users
    new = _instead(lam.stms[at], r, q, f)
    if new is None:
        return None
    return Lambda(lam.params, (*lam.stms[:at], new, *lam.stms[at + 1 :]), lam.result)


__all__ = ["rematerialise"]
