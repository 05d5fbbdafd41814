"""Barriers of kernels of one block: those after which all threads go on or none, and those that nothing needs.

A construct that a block shares out has a barrier before it and one after it.  Where a check of a thread may have
failed, the barrier that follows is a `Stop`.  Between two barriers with nothing that touches memory one is as good as
both.  And what the first thread alone does before a barrier and after it, it does in the order of the program without
that: others neither read nor write in between.
"""

from __future__ import annotations

from futad.flatten import kernel as kir
from futad.imp import ir
from futad.imp.ir import Stmt
from futad.imp.walk import has_load, statements
from futad.legality import Legality

LEGAL = Legality("barriers", "threads of a block meet no more often than they need to", fires=False)
UNREAD = LEGAL.condition("nothing read since", "a thread writes what another one has not yet read")

_DECLARED = (ir.Decl, ir.Pointer, ir.SlotRef, ir.Ensure)
_LOCAL = (*_DECLARED, ir.Assign, ir.SetPointer, ir.Swap)


def stop_at_failures(body: list[Stmt]) -> bool:
    """Rewrite the barriers that follow checks of single threads; whether one is left that no barrier follows."""
    out: list[Stmt] = []
    open_ = False
    for s in body:
        match s:
            case kir.Sync() if open_:
                s, open_ = kir.Stop(), False
            case ir.Seq(inside) | kir.Guarded(inside):
                open_ = stop_at_failures(inside) or open_
            case ir.If(_, then, orelse):
                sides = [stop_at_failures(side) for side in (then, orelse)]
                open_ = any(sides) or open_
            case ir.For(body=inside) | ir.While(body=inside):
                if stop_at_failures(inside):
                    inside.append(kir.Stop())
            case kir.Single() | kir.Stride() | kir.ByWarps() | kir.Together():
                open_ = open_ or any(isinstance(x, (ir.Check, ir.Ensure)) for x in statements([s]))
        out.append(s)
    body[:] = out
    return open_


def fewer_barriers(body: list[Stmt]) -> None:
    """Rewrite statements that all threads of a block do together, those nested in them too."""
    _Walk(True).scope(body, False)


def _local(s: Stmt, kinds: tuple[type, ...] = _LOCAL) -> bool:
    """Whether a statement of these kinds touches nothing that other threads do."""
    return isinstance(s, kinds) and UNREAD(not any(has_load(e) for e in s.exprs()))


class _Walk:
    """`writes`: whether statements are changed, or only looked at."""

    def __init__(self, writes: bool) -> None:
        self.writes = writes

    def scope(self, body: list[Stmt], met: bool) -> bool:
        """Leave out barriers, where since the last one nothing has touched memory (`met`) or may have; whether that
        holds at the end."""
        out: list[Stmt] = []
        for s in body:
            if isinstance(s, kir.Single):
                _single(out, s)
                met = False
                continue
            if isinstance(s, kir.Stop):
                _none_before(out)
            if not (isinstance(s, kir.Sync) and met):
                out.append(s)
            met = self.statement(s, met)
        if self.writes:
            body[:] = out
        return met

    def statement(self, s: Stmt, met: bool) -> bool:
        match s:
            case kir.Sync() | kir.Stop():
                return True
            case ir.Seq(body):
                return self.scope(body, met)
            case kir.Guarded(body):
                self.scope(body, met)
                return False  # a check that failed anywhere goes here
            case kir.ByWarps(body=body):
                self.scope(body, False)
                return False
            case ir.If(cond, then, orelse):
                met = met and UNREAD(not has_load(cond))
                ends = [self.scope(side, met) for side in (then, orelse)]
                return all(ends)
            case ir.For(body=body) | ir.While(body=body):
                # A loop begins as it ends, or as what is before it.
                met = met and _Walk(False).scope(body, True)
                return self.scope(body, met) and met
        return met and _local(s)


def _none_before(out: list[Stmt]) -> None:
    """Where threads are to meet, they need not meet just before."""
    at = len(out) - 1
    while at >= 0 and _local(out[at]):
        at -= 1
    if at >= 0 and isinstance(out[at], kir.Sync):
        del out[at]


def _single(out: list[Stmt], s: kir.Single) -> None:
    """Append what the first thread does, to what it did before the last barrier if there is nothing else between."""
    at = len(out) - 1
    while at > 0 and _local(out[at], _DECLARED):
        at -= 1
    if at > 0 and isinstance(out[at], kir.Sync) and isinstance(before := out[at - 1], kir.Single):
        del out[at - 1 : at + 1]
        s = kir.Single([*before.body, *s.body])
    out.append(s)


__all__ = ["fewer_barriers", "stop_at_failures"]
