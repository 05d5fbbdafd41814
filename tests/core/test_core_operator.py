"""Operators in all their forms: `futad.core.operator`."""

from __future__ import annotations

import pytest

from futad.core import ir
from futad.core.operator import (
    SUM,
    VECTOR_SUM,
    Operator,
    commutes,
    divisor,
    may_fail,
    operator_of,
    operators_of,
    row_operator,
    scalar_op,
)
from futad.core.parse import parse_program
from futad.core.types import F64, I64, Const, Var

SCALARS = "x_1: f64, y_2: f64"
ROWS = "x_1: [n_9]f64, y_2: [n_9]f64"
PAIRS = "x_1: f64, i_2: i64, y_3: f64, j_4: i64"


def operator(params: str, body: str) -> ir.Lambda:
    """The lambda with these parameters and statements, out of a program; n_9 and c_8 are free in it."""
    k = params.count(":") // 2
    types = [p.split(": ")[1] for p in params.split(", ")][:k]
    arrays = [f"a_{50 + i}: [m_7]{t}" for i, t in enumerate(types)]
    neutral = [f"z_{60 + i}: {t}" for i, t in enumerate(types)]
    names = ", ".join(a.split(":")[0] for a in arrays)
    starts = ", ".join(z.split(":")[0] for z in neutral)
    results = ", ".join(f"r_{70 + i}: {t}" for i, t in enumerate(types))
    pat = ", ".join(f"t_{80 + i}: {t}" for i, t in enumerate(types))
    text = f"""program "p"
fun "f" [m_7: i64, n_9: i64] ({", ".join([*arrays, *neutral])}, c_8: f64) -> ({results}) = {{
  let {pat if k == 1 else f"({pat})"} = reduce(m_7, [{names}], \\({params}) -> {{ {body} }}, [{starts}], False)
  in ({", ".join(f"t_{80 + i}" for i in range(k))}) }}
"""
    (stm,) = parse_program(text).funs["f"].body.stms
    (lam,) = stm.exp.lambdas()
    return lam


@pytest.mark.parametrize(
    ("body", "op"),
    [
        ("let r_3: f64 = add(x_1, y_2) in (r_3)", "add"),
        ("let r_3: f64 = add(y_2, x_1) in (r_3)", "add"),
        ("let r_3: f64 = max(y_2, x_1) in (r_3)", "max"),
        ("let r_3: f64 = sub(x_1, y_2) in (r_3)", "sub"),
        ("let r_3: f64 = add(x_1, y_2) let s_4: f64 = r_3 in (s_4)", "add"),
        ("let u_3: f64 = y_2 let r_4: f64 = mul(u_3, x_1) in (r_4)", "mul"),
        ("let r_3: f64 = sub(y_2, x_1) in (r_3)", None),
        ("let r_3: f64 = add(x_1, x_1) in (r_3)", None),
        ("let r_3: f64 = add(x_1, 1.0f64) in (r_3)", None),
        ("let r_3: f64 = add(x_1, c_8) in (r_3)", None),
        ("let r_3: f64 = neg(x_1) in (r_3)", None),
        ("let r_3: f64 = add(x_1, y_2) let s_4: f64 = add(r_3, y_2) in (s_4)", None),
        ("let r_3: f64 = add(x_1, y_2) let s_4: f64 = div(x_1, y_2) in (r_3)", None),
        ("let r_3: f64 = add(x_1, y_2) in (x_1)", None),
        ("in (x_1)", None),
    ],
)
def test_scalars(body: str, op: str | None) -> None:
    assert scalar_op(operator(SCALARS, body)) == op


def mapped(arrays: str, params: str, body: str, result: str = "m_3") -> str:
    return f"let m_3: [n_9]f64 = map(n_9, [{arrays}], \\({params}) -> {{ {body} }}) in ({result})"


ADD = "let r_6: f64 = add(u_4, v_5) in (r_6)"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (mapped("x_1, y_2", "u_4: f64, v_5: f64", ADD), VECTOR_SUM),
        (mapped("y_2, x_1", "u_4: f64, v_5: f64", ADD), VECTOR_SUM),
        (mapped("x_1, y_2", "u_4: f64, v_5: f64", "let r_6: f64 = sub(u_4, v_5) in (r_6)"), Operator("sub", 1)),
        (mapped("y_2, x_1", "u_4: f64, v_5: f64", "let r_6: f64 = sub(u_4, v_5) in (r_6)"), None),
        (mapped("x_1, y_2", "u_4: f64, v_5: f64", ADD, "y_2"), None),
        (mapped("x_1, x_1", "u_4: f64, v_5: f64", ADD), None),
        (mapped("x_1", "u_4: f64", "let r_6: f64 = add(u_4, c_8) in (r_6)"), None),
        (mapped("x_1", "u_4: f64", "let v_5: f64 = y_2[0i64] let r_6: f64 = add(u_4, v_5) in (r_6)"), None),
    ],
)
def test_rows(body: str, found: Operator | None) -> None:
    assert operator_of(operator(ROWS, body)) == found


def test_a_copy_of_the_sum_is_the_sum() -> None:
    add = mapped("x_1, y_2", "u_4: f64, v_5: f64", ADD).removesuffix("in (m_3)")
    lam = operator(ROWS, add + "let c_20: [n_9]f64 = copy(m_3) in (c_20)")
    assert operator_of(lam) == VECTOR_SUM
    assert scalar_op(lam) is None


def test_components_have_operations_of_their_own() -> None:
    both = "let r_5: f64 = max(y_3, x_1) let k_6: i64 = add(i_2, j_4)"
    assert operators_of(operator(PAIRS, both + " in (r_5, k_6)")) == (Operator("max"), SUM)
    assert commutes(operator(PAIRS, both + " in (r_5, k_6)"))
    mixed = "let r_5: f64 = max(y_3, x_1) let k_6: i64 = add(i_2, i_2) in (r_5, k_6)"
    assert operators_of(operator(PAIRS, mixed)) is None
    ordered = "let r_5: f64 = sub(x_1, y_3) let k_6: i64 = add(i_2, j_4) in (r_5, k_6)"
    assert operators_of(operator(PAIRS, ordered)) == (Operator("sub"), SUM)
    assert not commutes(operator(PAIRS, ordered))
    assert operator_of(operator(PAIRS, both + " in (r_5, k_6)")) is None


def test_the_operator_of_rows_has_its_parameters_in_order() -> None:
    lam = operator(ROWS, mapped("y_2, x_1", "u_4: f64, v_5: f64", "let r_6: f64 = sub(v_5, u_4) in (r_6)"))
    row = row_operator(lam)
    assert row is not None
    assert isinstance(row.width, Var) and row.width.name == "n"
    assert [p.name for p in row.lam.params] == ["v", "u"]
    assert scalar_op(row.lam) == "sub"
    assert row_operator(row.lam) is None
    first = row_operator(operator(ROWS, mapped("x_1", "u_4: f64", "let r_6: f64 = neg(u_4) in (r_6)")))
    assert first is not None
    assert [p.name for p in first.lam.params] == ["u", "y"]


def test_rows_that_are_looked_into_are_no_elements() -> None:
    body = mapped("x_1", "u_4: f64", "let v_5: f64 = y_2[0i64] let r_6: f64 = add(u_4, v_5) in (r_6)")
    assert row_operator(operator(ROWS, body)) is None
    assert row_operator(operator(ROWS, mapped("x_1, x_1", "u_4: f64, v_5: f64", ADD))) is None


def test_what_fails_is_division_of_integers() -> None:
    n, x = Var("n", I64), Var("x", F64)
    assert divisor(ir.Op("quot", (n, n))) is n
    assert may_fail(ir.Op("mod", (Const(I64, 7), n)))
    assert may_fail(ir.Op("div", (n, Const(I64, 0))))
    assert not may_fail(ir.Op("div", (n, Const(I64, 2))))
    assert divisor(ir.Op("div", (x, x))) is None
    assert divisor(ir.Op("add", (n, n))) is None
