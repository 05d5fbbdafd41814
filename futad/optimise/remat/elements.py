"""Which elements maps hand to one another as arrays, and which they compute again (`policy.py`).

Where arrays may be added the choice is the cheapest one of all values (`cut.py`); elsewhere cheap functions of arrays
are computed where they are used (`derived.py`).
"""

from __future__ import annotations

from futad.core import ir
from futad.core.ir import Program
from futad.optimise.remat.cut import element_cut
from futad.optimise.remat.derived import rematerialise
from futad.optimise.remat.policy import Policy
from futad.target import Target


def remat_elements(program: Program, target: Target) -> Program:
    """The maps of every scope, with what they hand to one another chosen anew."""
    policy = Policy(target)
    return ir.map_bodies(program, lambda lam: (element_cut if policy.adds_arrays else rematerialise)(lam, policy))


__all__ = ["remat_elements"]
