"""What a return sweep would compute again, the forward sweep saves, where that pays (`policy.py`).

The return sweep of a loop executes each iteration's statements again, on the loop variables that the forward sweep has
saved.  Of what it computes so, some is saved, too: products and costly scalars (`scalars.py`), what a loop inside saves
(`loops.py`), folds of rows (`folds.py`), what is made of neighbouring elements (`neighbours.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from futad.core import ir
from futad.core.alias import Aliases, aliases
from futad.core.ir import Lambda, Program, Stm
from futad.core.sweeps import forward_of, return_of
from futad.core.types import Var
from futad.optimise.remat.folds import LEGAL as LEGAL_FOLDS
from futad.optimise.remat.folds import folds
from futad.optimise.remat.legal import BEFORE, LEGAL
from futad.optimise.remat.loops import loops
from futad.optimise.remat.neighbours import LEGAL as LEGAL_NEIGHBOURS
from futad.optimise.remat.neighbours import neighbours
from futad.optimise.remat.policy import Policy
from futad.optimise.remat.scalars import own_scalars, products, scalars
from futad.optimise.remat.sweeps import Sweeps
from futad.optimise.values import NestedValues, Values
from futad.target import Target

# Kinds of values, and how they are compared.  Why two ways: by the finer numbers adaptive.fut and realnvp.fut keep more
# scalars of iterations, and adaptive's gradient takes 0.97 of the time, but 1.06 under a budget of 10 to 64 states.
KINDS: list[tuple[type[Values], list[Callable[[Sweeps, Policy], bool]]]] = [
    (NestedValues, [folds, neighbours, loops]),
    (Values, [products, scalars, loops, own_scalars]),
]


def remat(program: Program, target: Target) -> Program:
    """Let forward sweeps save what return sweeps would compute again."""
    return ir.map_bodies(program, lambda body: _saved(body, Policy(target)))


def _saved(lam: Lambda, policy: Policy) -> Lambda:
    while lam.has(ir.For) and (new := _scope(lam, {}, aliases(lam), policy)) is not lam:
        lam = new
    return lam


def _scope(lam: Lambda, defs: dict[Var, ir.Exp], alias: Aliases, policy: Policy) -> Lambda:
    """The scope with a pair of sweeps rewritten, those in it first.  `defs`: single definitions so far."""
    if not lam.has(ir.For):
        return lam
    defs = defs | {s.pat[0]: s.exp for s in lam.stms if len(s.pat) == 1}
    stms: list[Stm] = []
    for s in lam.stms:
        within = policy.within(s.exp, type(s.exp) is ir.For)
        stms.append(ir.map_scopes(s, partial(_scope, defs=defs, alias=alias, policy=within)))
    if not all(a is b for a, b in zip(stms, lam.stms, strict=True)):
        # What is new in them is not in the aliases: the next round looks at this scope.
        return Lambda(lam.params, tuple(stms), lam.result)
    for j, second in enumerate(stms):
        mark = return_of(second)
        for i in [i for i in range(j - 1, -1, -1) if mark is not None and forward_of(stms[i]) == mark]:
            for numbers, kinds in KINDS:
                pair = Sweeps.of(stms[i], second, numbers, defs, alias)
                done_by = None if pair is None else next((kind for kind in kinds if kind(pair, policy)), None)
                if pair is None or done_by is None:
                    continue
                new = pair.result()
                later = {v for s in stms[i:j] for v in s.pat}
                if BEFORE(not later & Lambda((), tuple(new[:-1]), ()).free().keys()):
                    if done_by is folds:
                        LEGAL_FOLDS.fired()
                    elif done_by is neighbours:
                        LEGAL_NEIGHBOURS.fired()
                    else:
                        LEGAL.fired()
                    done = (*stms[:i], *new[:-1], *stms[i + 1 : j], new[-1], *stms[j + 1 :])
                    return Lambda(lam.params, done, lam.result)
    return lam


__all__ = ["remat"]
