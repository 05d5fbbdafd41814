"""Code of single elements."""

from __future__ import annotations

from futad.core import ir
from futad.core.alias import aliases
from futad.core.types import F64, I64, ONE, ArrayType, Const, Var
from futad.rewrite.context import Context
from futad.rewrite.elements import Elements


def test_pieces_of_zeros_in_two_dimensions() -> None:
    """`[row] ++ replicate n (replicate k 0)`: a replication may have several of the array's dimensions."""
    n, m, k, i, j = (Var(name, I64) for name in "nmkij")
    row, zeros, whole = (Var("a", ArrayType(F64, (size, k))) for size in (ONE, n, m))
    zero = Const(F64, 0.0)
    fill = ir.Stm((zeros,), ir.Replicate((n, k), zero))
    both = ir.Stm((whole,), ir.Concat((row, zeros), m))
    body = ir.Lambda((n, m, k, i, j, row), (fill, both), (whole,))
    code = Elements(Context(aliases(body), False, None))
    code.add(fill)
    code.add(both)
    element = code.at(whole, (i, j))
    chosen, made = code.stms[-1], {v: s for s in code.stms for v in s.pat}
    assert chosen.pat == (element,) and isinstance(chosen.exp, ir.Op) and chosen.exp.op == "select"
    there, read, other = chosen.exp.args
    assert i in ir.stm_free(made[there]) and other is zero
    assert isinstance(read, Var) and not {row, j}.isdisjoint(ir.stm_free(made[read]))
