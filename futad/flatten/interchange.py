"""Loops out of maps, on devices (`optimise/interchange.py`).

A block a point is few blocks where points are few; where what is parallel in an iteration is wide, a launch an
iteration is better.
"""

from __future__ import annotations

from futad.core import ir
from futad.core.ir import Stm
from futad.flatten.fission import distribute, wide
from futad.optimise import interchange


def loop_out(stm: Stm) -> list[Stm] | None:
    """A map around a loop as a loop around a map; None if the loop is not the same for all points, is not all that the
    map does, or has nothing wide inside."""
    e = stm.exp
    if not isinstance(e, ir.Map):
        return None
    loops = [s for s in e.lam.stms if isinstance(s.exp, ir.For)]
    if len(loops) != 1 or e.lam.stms[-1] is not loops[0] or not all(a in loops[0].pat for a in e.lam.result):
        return None
    f = loops[0].exp
    assert isinstance(f, ir.For)
    if not wide(f.body):
        return None
    return interchange.loop_out(stm, len(e.lam.stms) - 1, lambda each: distribute(each) or [each])


__all__ = ["loop_out"]
