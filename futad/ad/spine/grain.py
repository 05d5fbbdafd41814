"""What code costs, in scalar operations, and how many iterations of a cheap loop are taken at a time.

Running to a point of the execution again, and the choice of the block that is next, cost the same for a step of any
size: a step takes at least `GRAIN` operations, where the loop has so many.  Costs are known while compiling: an array
whose size is not counts as large.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from futad.core import ir
from futad.core.scalarops import OPS
from futad.core.types import Atom, Const, Type, shape_of

LEAST = 2000  # scalar operations of a step


def stretch(e: ir.Loop) -> int:
    """How many iterations of a loop are one step."""
    own = cost(e.body.stms)
    return 1 if own >= LEAST else math.ceil(LEAST / max(own, 1))


def cost(stms: Iterable[ir.Stm]) -> float:
    """Scalar operations of the statements; infinite where a number of iterations or elements is not a constant."""
    return sum(_one(s) for s in stms)


def _one(s: ir.Stm) -> float:
    e = s.exp
    inner = [cost(lam.stms) for lam in e.lambdas()]
    match e:
        case ir.Op():
            return OPS[e.op].cost
        case ir.If():
            return 1 + max(inner)
        case ir.Soac():
            return _number(e.width) * (1 + sum(inner))
        case ir.For():
            return _number(e.bound) * (1 + sum(inner))
        case ir.While() | ir.Call():
            return math.inf
        case ir.WithAcc() | ir.WithVjp() | ir.Par():
            return sum(inner)
        case ir.WithInverse() | ir.WithJvp():
            return inner[0]
        case ir.MatMul() | ir.Contraction():
            return math.inf
        case ir.Update():
            return _elements(e.value.type)
    return _elements(s.pat[0].type) if s.pat and e.fresh else 1


def _number(a: Atom) -> float:
    return max(0, a.value) if isinstance(a, Const) else math.inf


def _elements(t: Type) -> float:
    return math.prod([_number(n) for n in shape_of(t)], start=1.0)
