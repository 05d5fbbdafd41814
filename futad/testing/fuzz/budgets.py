"""Budgets of what reverse mode keeps, drawn for random programs: attributes of their loops and derivatives, which must
not change a result.  The interpreter's program, with which they are compared, is without them."""

from __future__ import annotations

import random
import re

from futad.ad.inverse.returned import MISSED
from futad.core import ir
from futad.core.budget import ATTRIBUTE

# Memory is a hundred times what a program's largest state takes, and more: the error of a budget that is too small is
# no finding.  Loops are not required to be undone, which most cannot; where they are undone, 1e-12 is allowed.
ATTRIBUTES = (
    "checkpoint", "checkpoint(0)", "checkpoint(1)", "checkpoint(2)", "checkpoint(7)", "checkpoint(reruns=1)",
    "checkpoint(reruns=3)", "checkpoint(method=bisection)", "checkpoint(2, method=bisection)",
    'checkpoint(memory="200kB")', "checkpoint(1, nest=false)", "reversible(exact)", "reversible(false)",
)  # fmt: skip
OF_DERIVATIVES = (*ATTRIBUTES, "reversible(1e-12)", 'checkpoint(memory="1MB")] #[reversible(1e-12)')
SHARE = 0.2  # of programs
_LOOP = re.compile(r"(?<![\w\]])(?<!\] )loop(?= )")
# What a program with a budget may say instead of having a result.
ALLOWED = (MISSED, "bytes is too small: a state of the loop")


def drawn(kind: str, seed: int, always: bool) -> random.Random | None:
    """Choices for that program, if it is one of those that have budgets."""
    rng = random.Random(f"budgets {kind} {seed}")
    return rng if rng.random() < SHARE or always else None


def attribute(rng: random.Random, of: tuple[str, ...] = OF_DERIVATIVES) -> str:
    return f"#[{rng.choice(of)}] "


def of_loops(rng: random.Random, text: str) -> str:
    """The program with budgets of some loops that have no attribute."""
    return _LOOP.sub(lambda m: attribute(rng, ATTRIBUTES) + m[0] if rng.random() < 0.3 else m[0], text)


def without(program: ir.Program) -> ir.Program:
    """The program without any budget."""

    def scope(lam: ir.Lambda) -> ir.Lambda:
        return ir.Lambda(lam.params, tuple([plain(s) for s in lam.stms]), lam.result)

    def plain(s: ir.Stm) -> ir.Stm:
        s = ir.map_scopes(s, scope)
        return ir.Stm(s.pat, s.exp, tuple([a for a in s.attrs if not (type(a) is tuple and a[0] == ATTRIBUTE)]))

    return ir.map_bodies(program, scope)
