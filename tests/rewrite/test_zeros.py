"""Where values vanish: supports of the values of a scope over an index j, with k and x from outside."""

from __future__ import annotations

import pytest

from futad.core import ir
from futad.core.parse import parse_program
from futad.rewrite.zeros import Linear, Zeros

HEAD = (
    "fun main (n_1: i64, k_2: i64, x_3: f64, xs_4: [n_1]f64) -> (r_9: [n_1]f64) = "
    "{ let is_5: [n_1]i64 = iota(n_1, 0i64, 1i64) "
)
HOT = "let c_20: bool = eq(j_10, k_2) let h_21: f64 = select(c_20, x_3, 0.0f64) "
PLUS = "\\(a_90: f64, b_91: f64) -> { let t_92: f64 = add(a_90, b_91) in (t_92) }"
DERIVED = '#[["derived"]] '


def support(body: str, result: str = "v_30") -> list[str] | None:
    """The places j where the result may differ from zero; None if that is not known."""
    text = HEAD + f"let m_8: [n_1]f64 = map(n_1, [is_5], \\(j_10: i64) -> {{ {body} in ({result}) }}) in (m_8) }}"
    scope = parse_program(text).funs["main"].body.stms[-1].exp
    assert isinstance(scope, ir.Map)
    (j,) = scope.lam.params
    zeros = Zeros({j}, lambda a: None)
    zeros.run(scope.lam.stms)
    found = zeros.of(scope.lam.result[0])
    if found is None:
        return None
    return sorted(f"{g.var.name} = {_sum(g.place)}" for g in found)


def _sum(place: Linear) -> str:
    return " + ".join([*sorted(f"{c}{v.name}" for v, c in place.terms), str(place.offset)])


@pytest.mark.parametrize(
    ("body", "places"),
    [
        ("let v_30: f64 = mul(h_21, 2.0f64)", ["j = 1k + 0"]),
        ("let v_30: f64 = mul(h_21, inff64)", None),
        ("let v_30: f64 = mul(h_21, x_3)", None),
        ("let v_30: f64 = mul(h_21, x_3) " + DERIVED, ["j = 1k + 0"]),
        ("let v_30: f64 = div(h_21, x_3)", None),
        ("let v_30: f64 = div(h_21, 2.0f64)", ["j = 1k + 0"]),
        ("let v_30: f64 = add(h_21, x_3)", None),
        ("let v_30: f64 = sin(h_21)", ["j = 1k + 0"]),
        ("let v_30: f64 = cos(h_21)", None),
        ("let d_31: bool = ne(j_10, k_2) let v_30: f64 = select(d_31, 0.0f64, x_3)", ["j = 1k + 0"]),
        ("let d_31: bool = ne(j_10, k_2) let v_30: f64 = select(d_31, x_3, 0.0f64)", None),
        ("let v_30: f64 = select(c_20, x_3, 1.0f64)", None),
        ("let i_35: i64 = add(j_10, 3i64) let d_2: bool = eq(i_35, k_2) let v_30: f64 = to_f64(d_2)", ["j = 1k + -3"]),
        ("let i_31: i64 = sub(n_1, j_10) let d_32: bool = eq(i_31, k_2) let e_33: f64 = to_f64(d_32) "
         "let v_30: f64 = add(e_33, h_21)", ["j = -1k + 1n + 0", "j = 1k + 0"]),
        ("let i_31: i64 = mul(j_10, 2i64) let d_33: bool = eq(i_31, k_2) let v_30: f64 = to_f64(d_33)", ["i = 1k + 0"]),
        ("let i_31: i64 = add(j_10, j_10) let d_32: bool = eq(i_31, j_10) let v_30: f64 = to_f64(d_32)", ["j = 0"]),
        ("let m_31: [n_1]f64 = replicate([n_1], h_21) "
         "let v_30: f64 = reduce(n_1, [m_31], " + PLUS + ", [0.0f64], True)",
         ["j = 1k + 0"]),
        ("let v_30: f64 = for(n_1, [0.0f64], \\(l_3: i64, s_32: f64) -> { let t_34: f64 = add(s_32, h_21) in (t_34) })",
         ["j = 1k + 0"]),
        ("let v_30: f64 = for(n_1, [0.0f64], \\(l_31: i64, s_32: f64) -> { let t_3: f64 = add(s_32, x_3) in (t_3) })",
         None),
        ("let v_30: f64 = if(c_20, { in (x_3) }, { in (0.0f64) })", ["j = 1k + 0"]),
        ("let v_30: f64 = if(c_20, { in (0.0f64) }, { in (x_3) })", None),
    ],
)  # fmt: skip
def test_supports(body, places):
    assert support(HOT + body) == places


def test_the_sum_of_zeros_is_what_it_starts_from():
    body = HOT + "let m_31: [n_1]f64 = replicate([n_1], h_21) "
    assert support(body + "let v_30: f64 = reduce(n_1, [m_31], " + PLUS + ", [1.0f64], True)") is None
