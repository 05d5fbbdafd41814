"""Which loops are the two sweeps of one: marks that reverse mode leaves at them.

A loop under a derivative has the attribute ("forward_sweep", k), as have all its copies: where a return sweep executes
again what is around it, and where a derivative of the derivative does.  The return sweep's loop has ("return_sweep",
k).  A mark says where to look; it does not say that two loops still compute the same.  Loops that have a
budget have none, so nothing more is saved of them.
"""

from __future__ import annotations

from itertools import count
from typing import Any

from futad.core import ir
from futad.core.budget import Budget

FORWARD, RETURN = "forward_sweep", "return_sweep"
_numbers = count(1)


def _mark(s: ir.Stm, name: str) -> Any:
    return next((a[1] for a in s.attrs if a[0] == name and len(a) > 1), None)


def forward_of(s: ir.Stm) -> Any:
    """The number of the loop, None without one."""
    return _mark(s, FORWARD)


def return_of(s: ir.Stm) -> Any:
    """The number of the loop that this is the return sweep of, None if it is of none."""
    return _mark(s, RETURN)


def return_mark(s: ir.Stm) -> tuple[Any, ...]:
    """The attributes of the return sweep of a loop."""
    number = forward_of(s)
    return () if number is None else ((RETURN, number),)


def forward_mark(s: ir.Stm) -> tuple[Any, ...]:
    """The attributes of another run of a loop."""
    number = forward_of(s)
    return () if number is None else ((FORWARD, number),)


def marked(s: ir.Stm, wanted: bool) -> ir.Stm:
    """The statement with marks at each loop, itself included, that has none yet; without any unless they are `wanted`.
    The same object if nothing changes."""
    s = ir.map_scopes(s, lambda lam: _scope(lam, wanted))
    attrs = s.attrs
    if not wanted:
        attrs = tuple([a for a in attrs if a[0] not in (FORWARD, RETURN)])
    elif isinstance(s.exp, ir.Loop) and forward_of(s) is None and not ((own := Budget.of(attrs)) and own.limits):
        attrs = (*attrs, (FORWARD, next(_numbers)))
    return s if attrs == s.attrs else ir.Stm(s.pat, s.exp, attrs)


def unmarked(lam: ir.Lambda) -> ir.Lambda:
    """The scope without marks; the same object if it has none."""
    return _scope(lam, False)


def _scope(lam: ir.Lambda, wanted: bool) -> ir.Lambda:
    stms = tuple([marked(s, wanted) for s in lam.stms])
    same = all(a is b for a, b in zip(stms, lam.stms, strict=True))
    return lam if same else ir.Lambda(lam.params, stms, lam.result)


__all__ = ["forward_mark", "forward_of", "marked", "return_mark", "return_of", "unmarked"]
