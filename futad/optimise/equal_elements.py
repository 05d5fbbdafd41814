"""A map reads what an earlier one has computed of the same elements, where that is dear.

    es = map (\\x -> exp (x - top)) xs
    total = reduce (+) 0 es
    ys = map (\\x -> seed / total * exp (x - top)) xs
      -->
    ys = map (\\e -> seed / total * e) es

Reverse mode makes such maps: its rule for a map executes the body again where derivatives need what it computes.
What an iteration of a loop computes is small beside what there is, and lies in a near cache from one map to the next.
Outside of loops maps are left as they are: their arrays may be as large as memory is, and an outermost map whose rows
turn out to be short computes many of them in vector lanes, with scalars in place of rows.

Equal values are found by value numbers (`values.py`).
"""

from __future__ import annotations

from functools import partial

from futad.core import ir
from futad.core.alias import Aliases, aliases, overwritten
from futad.core.ir import Lambda, Program, Stm
from futad.core.types import Prim, Var
from futad.legality import Legality
from futad.optimise.values import Table, computed

LEGAL = Legality(
    "equal-elements",
    "a map reads what an earlier one has computed of the same elements",
    worth="a hidden Markov model's gradient 9.0 to 6.4 ms: `benchmarks/without.py equal-elements hmm`",
)
THERE = LEGAL.condition("not overwritten", "what the earlier map has computed was overwritten since")

DEAR = 8  # cost of operations that are not done again, for a value that is stored and loaded


def equal_elements(program: Program) -> Program:
    """Maps inside of loops read what earlier ones of their scope have computed."""
    return ir.map_bodies(program, lambda lam: _scope(lam, aliases(lam), False))


def _scope(lam: Lambda, alias: Aliases, inside: bool) -> Lambda:
    """The scope and those in it; `inside` a loop."""
    table = Table()
    made: dict[int, tuple[Var, int]] = {}  # by number: the array with the values, and the place of its statement
    stms: list[Stm] = []
    for s in lam.stms:
        e = s.exp
        if inside and type(e) is ir.Map:
            values = computed(table, e.lam.params, e.arrays, e.lam.stms)
            s = _reading(s, e, values, {k: a for k, (a, at) in made.items() if _there(a, stms[at + 1 :], alias)})
            for array, result in zip(s.pat, e.lam.result, strict=True):
                if isinstance(result, Var) and result in values and isinstance(result.type, Prim):
                    made.setdefault(values[result][0], (array, len(stms)))
        deep = inside or isinstance(e, ir.Loop)
        stms.append(ir.map_scopes(s, partial(_scope, alias=alias, inside=deep)))
    if all(a is b for a, b in zip(stms, lam.stms, strict=True)):
        return lam
    return Lambda(lam.params, tuple(stms), lam.result)


def _there(array: Var, since: list[Stm], alias: Aliases) -> bool:
    return THERE(not overwritten([array], since, alias))


def _reading(s: Stm, e: ir.Map, values: dict[Var, tuple[int, int]], made: dict[int, Var]) -> Stm:
    """The map with dear values read of the arrays that have them."""
    found = {v: made[k] for v, (k, price) in values.items() if k in made and price >= DEAR}
    if not found:
        return s
    LEGAL.fired()
    kept = tuple([t for t in e.lam.stms if not set(t.pat) & found.keys()])
    lam = Lambda((*e.lam.params, *found), kept, e.lam.result)
    return Stm(s.pat, e.over((*e.arrays, *found.values()), lam), s.attrs, s.grid)


__all__ = ["equal_elements"]
