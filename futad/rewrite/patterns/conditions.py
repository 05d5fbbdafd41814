"""The conditions that a rule as text may state after `where`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from futad.core import ir
from futad.core.operator import may_fail
from futad.core.scalarops import OPS
from futad.core.types import Const, Var
from futad.rewrite.context import Context
from futad.rewrite.patterns.match import Bindings
from futad.rewrite.ranges import is_index
from futad.rewrite.zeros import Zeros, linear


@dataclass(slots=True)
class Match:
    """A match, and its place."""

    bindings: Bindings
    stm: ir.Stm
    found: list[ir.Exp]
    ctx: Context
    inner: set[Var] = field(init=False)  # what the scopes that matched bind

    def __post_init__(self) -> None:
        stms = [s for e in self.found for lam in e.lambdas() for s in ir.statements(lam.stms)]
        exps = [*self.found, *[s.exp for s in stms]]
        self.inner = {v for s in stms for v in s.pat} | {p for e in exps for lam in e.lambdas() for p in lam.params}


def invariant(m: Match, x: Any) -> bool:
    """Not bound in a scope of the pattern, so the same for all its iterations."""
    atoms = x.free() if isinstance(x, ir.Lambda) else x if isinstance(x, tuple) else (x,)
    return not any(a in m.inner for a in atoms)


def const(m: Match, x: Any) -> bool:
    """A constant."""
    return isinstance(x, Const)


def once(m: Match, x: Any) -> bool:
    """Used nowhere else in the function."""
    return m.ctx.uses(x) <= 1


def iota(m: Match, x: Any) -> bool:
    """`iota n`: 0, 1, 2, ..."""
    return is_index(m.ctx.exp(x))


def pure(m: Match, x: Any) -> bool:
    """A scope without effects and operations that can fail; a variable that is defined by such a construct."""
    if isinstance(x, ir.Lambda):
        return all(_pure(s.exp) for s in ir.statements(x.stms))
    e = m.ctx.exp(x)
    return e is not None and _pure(e) and all(_pure(s.exp) for lam in e.lambdas() for s in ir.statements(lam.stms))


def _pure(e: ir.Exp) -> bool:
    checked = isinstance(e, ir.At | ir.Update) and e.check is not None
    return (e.pure or isinstance(e, ir.Update)) and not checked and not (isinstance(e, ir.Op) and may_fail(e)) \
        and not isinstance(e, ir.While)  # fmt: skip


def within(m: Match, i: Any, n: Any) -> bool:
    """0 <= i < n, provably."""
    return m.ctx.ranges.in_range(i, n)


def vanishes(m: Match, f: Any, p: Any) -> bool:
    """All results of the scope are zero unless its first parameter is `p`, which is from outside (`zeros.py`)."""
    if not isinstance(f, ir.Lambda) or not f.params or p in m.inner:
        return False
    zeros = Zeros(set(f.params), m.ctx.exp)
    zeros.run(f.stms)
    place = linear(p, m.ctx.exp)
    supports = [zeros.of(r) for r in f.result]
    return all(s is not None and all(g.var is f.params[0] and g.place == place for g in s) for s in supports)


def cost(m: Match, x: Any) -> int:
    """The costs of a scope's operations in the table, a construct's 100; of a variable, those of what defines it."""
    if isinstance(x, ir.Lambda):
        return sum([_cost(s.exp) for s in x.stms])
    e = m.ctx.exp(x)
    return 0 if e is None else _cost(e)


def _cost(e: ir.Exp) -> int:
    return OPS[e.op].cost if isinstance(e, ir.Op) else 1 if e.inert and not e.fresh else 100


Test = Callable[..., Any]
# The condition, the number of its arguments, whether it is a number to be compared.
CONDITIONS: dict[str, tuple[Test, int, bool]] = {
    "invariant": (invariant, 1, False),
    "const": (const, 1, False),
    "once": (once, 1, False),
    "iota": (iota, 1, False),
    "pure": (pure, 1, False),
    "within": (within, 2, False),
    "vanishes": (vanishes, 2, False),
    "cost": (cost, 1, True),
}


def holds(m: Match, name: str, args: Sequence[Any], limit: int | None) -> bool:
    """Whether a condition of the rule holds."""
    value = CONDITIONS[name][0](m, *args)
    return bool(value) if limit is None else value < limit


__all__ = ["CONDITIONS", "Match", "holds"]
