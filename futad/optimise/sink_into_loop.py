"""Arrays of matrix products that a loop reads one part of in each iteration are made part by part, in these iterations.

    let zs = map (\\x -> matmul x w) xs           loop y for i < n do let z = matmul xs[i] w
    in loop y for i < n do f y zs[i]       -->                        in f y z

Nothing but the loop reads `zs`, so nothing is computed twice, and what one iteration makes does not leave the caches
before it is read.  Done for few threads: devices rather make of all iterations what they can before the loop.
"""

from __future__ import annotations

from futad.core import ir
from futad.core.alias import Aliases, aliases
from futad.core.ir import Lambda, Program, Stm
from futad.core.types import I64, AccType, Var
from futad.legality import Legality
from futad.optimise.subst import Subst
from futad.optimise.total import total

LEGAL = Legality(
    "sink-into-loop",
    "an array of products is made part by part by the loop that reads it",
    worth="products stay in the cache: LSTM's objective on one thread 3 to 9% less time",
)
CONSTANT = LEGAL.condition("inputs not overwritten", "the iterations make the parts of what was overwritten since")
TOTAL = LEGAL.condition("fails not", "what fails would be reported late, or not at all")
READ_THERE = LEGAL.condition("read there only", "others read the array, which is not made any more")
OF_THE_ITERATION = LEGAL.condition("part of the iteration", "the iteration reads another part than the one it makes")


def sink_into_loop(program: Program) -> Program:
    """Move such products into the loops, in every scope."""
    return ir.map_bodies(program, lambda lam: _scope(lam, aliases(lam, lam.result + lam.params)))


def _scope(lam: Lambda, alias: Aliases) -> Lambda:
    """The scope (and those in it) rewritten; the same object if nothing moved."""
    stms = [ir.map_scopes(s, lambda inner: _scope(inner, alias)) for s in lam.stms]
    if any(type(s.exp) is ir.For for s in stms):
        users: dict[Var, list[int]] = {a: [-1] for a in lam.result if type(a) is Var}
        for k, s in enumerate(stms):
            for v in ir.stm_free(s):
                users.setdefault(v, []).append(k)
        gone = set()
        for k, s in enumerate(stms):
            if _moves(s, alias):
                (at, *others) = users.get(s.pat[0], [-1])
                if READ_THERE(not others) and at > k and (new := _into(s, stms[at])) is not None:
                    LEGAL.fired()
                    stms[at] = new
                    gone.add(k)
        stms = [s for k, s in enumerate(stms) if k not in gone]
    same = len(stms) == len(lam.stms) and all(a is b for a, b in zip(stms, lam.stms, strict=True))
    return lam if same else Lambda(lam.params, tuple(stms), lam.result)


def _moves(s: Stm, alias: Aliases) -> bool:
    """Whether a statement maps to one array by a product, from arrays that nothing overwrites, and cannot fail."""
    e = s.exp
    if type(e) is not ir.Map or len(s.pat) != 1 or s.attrs or not any(type(x.exp) is ir.MatMul for x in e.lam.stms):
        return False
    if any(isinstance(v.type, AccType) for v in (*ir.stm_free(s), *s.pat)):
        return False
    return CONSTANT(not any(alias.mutable(v) for v in (*ir.stm_free(s), *s.pat))) and TOTAL(all(map(total, e.lam.stms)))


def _into(s: Stm, loop: Stm) -> Stm | None:
    """The loop with the elements of the map's result made in its iterations; None unless each iteration reads the one
    of its number, once, and there are as many."""
    e, made = loop.exp, s.exp
    assert isinstance(made, ir.Map)
    if type(e) is not ir.For or e.bound is not made.width:
        return None
    (array,), i = s.pat, e.body.params[0]
    readers = [k for k, x in enumerate(e.body.stms) if array in ir.stm_free(x)]
    if array in e.inits or array in e.body.result or len(readers) != 1 or i.type is not I64:
        return None
    reader = e.body.stms[readers[0]]
    at = reader.exp
    if type(at) is not ir.At or at.array is not array or not OF_THE_ITERATION(at.index == (i,)):
        return None
    (result,), (element,) = made.lam.result, reader.pat
    if type(result) is not Var or result.type != element.type or not any(result in x.pat for x in made.lam.stms):
        return None
    here = [Stm((p,), ir.At(a, (i,))) for a, p in zip(made.arrays, made.lam.params, strict=True)]
    # The result goes under the element's own name, so that its readers see what made it.
    own = Subst({result: element})
    here += [Stm(tuple([element if v is result else v for v in x.pat]), own.exp(x.exp), x.attrs) for x in made.lam.stms]
    stms = (*e.body.stms[: readers[0]], *here, *e.body.stms[readers[0] + 1 :])
    return Stm(loop.pat, ir.For(e.bound, e.inits, Lambda(e.body.params, stms, e.body.result)), loop.attrs)


__all__ = ["sink_into_loop"]
