"""Rows that each iteration of a loop reads and then overwrites, of an array that nobody needs after the loop, are read
where the array was before it.

    loop (s, a) = (s0, xs) for i < n do let x = a[i] in (f s x, a with [i] = 0)
        -->   loop s = s0 for i < n do let x = xs[i] in f s x

The return sweep of a loop that yields a row in each iteration has such an array: the rows' adjoints.
"""

from __future__ import annotations

from collections import Counter

from futad.core import ir
from futad.core.ir import Lambda, Stm
from futad.core.scope import uses_in
from futad.core.types import I64, Atom, Var
from futad.legality import Legality

LEGAL = Legality(
    "own-rows",
    "a row that an iteration overwrites, for nobody, is read where it was before the loop",
    worth="return sweeps of loops that yield a row a step, as of recurrent networks in JAX: a launch less a step",
)
NOT_NEEDED = LEGAL.condition("not needed after the loop", "who reads the array then gets what was before the loop")
OWN = LEGAL.condition("rows its own", "an iteration reads a row that another one has written")
BEFORE = LEGAL.condition("read before it is written", "the iteration reads what it has written")
APART = LEGAL.condition("a row for each iteration", "two iterations have one row")


def own_rows(lam: Lambda) -> Lambda:
    """A scope, and all in it, without such arrays; the same object if there are none."""
    uses = uses_in(lam.stms, lam.result)
    stms = tuple([_loop(ir.map_scopes(s, own_rows), uses) for s in lam.stms])
    same = all(a is b for a, b in zip(stms, lam.stms, strict=True))
    return lam if same else Lambda(lam.params, stms, lam.result)


def _loop(s: Stm, uses: Counter[Atom]) -> Stm:
    """A loop without the variables that are such arrays."""
    e = s.exp
    if type(e) is not ir.For or e.body.params[0].type is not I64:
        return s
    inside = uses_in(e.body.stms, e.body.result)
    gone = [k for k, v in enumerate(s.pat) if _own(e, k, uses[v] == 0, inside)]
    if not gone:
        return s
    LEGAL.fired()
    stay = [k for k in range(len(s.pat)) if k not in gone]
    params, updates = e.body.params[1:], {e.body.result[k] for k in gone}
    stms = tuple([x for x in e.body.stms if updates.isdisjoint(x.pat)])
    body = Lambda((e.body.params[0], *[params[k] for k in stay]), stms, tuple([e.body.result[k] for k in stay]))
    body = ir.rename(body, {params[k]: e.inits[k] for k in gone})
    return Stm(tuple([s.pat[k] for k in stay]), ir.For(e.bound, tuple([e.inits[k] for k in stay]), body), s.attrs)


def _own(e: ir.For, k: int, dead: bool, inside: Counter[Atom]) -> bool:
    """Whether that variable is such an array; `dead`: nobody uses it after the loop."""
    p, r = e.body.params[1 + k], e.body.result[k]
    users = [s for s in e.body.stms if p in ir.stm_free(s)]
    update = next((s.exp for s in users if s.pat == (r,)), None)
    if not isinstance(update, ir.Update) or update.array is not p or update.value is p or update.check is not None:
        return False
    reads = [s.exp for s in users if s.exp is not update]
    if len(e.body.result) == 1 or not all(isinstance(x, ir.At) and x.array is p and x.check is None for x in reads):
        return False
    at = update.index[0]
    if not isinstance(at, Var) or not APART(_apart(e.body, at)):
        return False
    own = all(isinstance(x, ir.At) and x.index[0] is at for x in reads)
    return OWN(own) and BEFORE(inside[r] == 1) and NOT_NEEDED(dead)


def _apart(body: Lambda, at: Var) -> bool:
    """Whether an index is the iteration's number, or that from some end."""
    iteration = body.params[0]
    if at is iteration:
        return True
    e = next((s.exp for s in body.stms if s.pat == (at,)), None)
    local = {*body.params, *[v for s in body.stms for v in s.pat]}
    return isinstance(e, ir.Op) and e.op == "sub" and e.args[1] is iteration and e.args[0] not in local


__all__ = ["own_rows"]
