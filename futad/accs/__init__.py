"""Accumulators turned into maps, reductions and products where every update's place is known.

Section 6.1 of "AD for an Array Language with Nested Parallelism" (Schenck, Rønning, Henriksen, Oancea, SC 2022):
an update whose place does not vary with the map around it is a reduction of its contributions; one whose place
is the map's own index is the mapped contributions themselves.

It is the last of the passes for the C backends, so that what is added to an accumulator is not fused with its
neighbours by the passes before.  Devices have their own (`flatten/prepare.py`): they sum columns where a thread sums
rows.
"""

from futad.accs.reduce import accs
from futad.core.ir import Program


def without_accs(program: Program) -> Program:
    """The program after all passes with such accumulators gone; the same object if there are none."""
    out = accs(program)
    if out is program:
        return program
    from futad.optimise.fusion import fuse
    from futad.rewrite.simplify import simplify

    return simplify(fuse(simplify(out)))


__all__ = ["accs", "without_accs"]
