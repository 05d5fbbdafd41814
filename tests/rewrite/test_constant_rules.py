"""Rules on operations on a constant, which are not tried on others."""

from __future__ import annotations

import pytest

from futad.core import ir
from futad.core.alias import Aliases
from futad.core.ir import Stm
from futad.core.scalarops import OPS
from futad.core.types import BOOL, F64, I32, I64, Const, Var
from futad.rewrite.context import Context
from futad.rewrite.rules.shipped import ENTER
from futad.rewrite.strategy import Rules

CONSTANT = [r for r in ENTER if r.constant]


@pytest.mark.parametrize("name", [r.name for r in CONSTANT])
def test_without_a_constant_they_do_nothing(name: str) -> None:
    (r,) = [r for r in CONSTANT if r.name == name]
    for op in r.ops or OPS:
        for t in (F64, I64, I32, BOOL):
            n = OPS[op].arity
            x, y, b = Var("x", t), Var("y", t), Var("b", BOOL)
            ctx = Context(Aliases())
            ctx.defs[y] = ir.Op(f"to_{t.name}", (b,))
            for args in ((x,) * n, (y,) * n, (x, y, x)[:n], (y, x, y)[:n]):
                stm = Stm((Var("r", t),), ir.Op(op, args))
                assert r.fn(stm, ctx) is None, (op, t, args)


def test_which_rules_are_tried() -> None:
    rules = Rules(ENTER)
    assert set(rules.by_op["add"]) - set(rules.of_variables["add"]) == {r for r in rules.by_op["add"] if r.constant}
    ctx = Context(Aliases())
    x = Var("x", F64)
    assert rules(Stm((Var("r", F64),), ir.Op("add", (x, Const(F64, 0.0)))), ctx) is not None
    assert rules(Stm((Var("r", F64),), ir.Op("add", (x, Var("y", F64)))), ctx) is None
