"""Nests of maps: their levels, and the parts of arrays that they read (`futad.core.nest`)."""

from __future__ import annotations

from collections.abc import Sequence

from futad.core import ir
from futad.core.nest import Nest, nest_in, nest_of
from futad.core.parse import parse_program
from futad.core.types import F64, Var

SIGNATURE = "[n_1: i64, m_2: i64, k_3: i64] (a_4: [n_1][m_2]f64, b_5: [m_2][n_1]f64, x_6: [m_2]f64, k_7: [n_1]i64)"


def statement(text: str, result: str) -> ir.Stm:
    """The statement that binds r_9 in a function of two matrices a and b, a vector x and sizes k."""
    program = parse_program(f'program "p"\nfun "f" {SIGNATURE} -> (o_99: {result}) = {{\n  {text}\n  in (r_9) }}\n')
    return program.funs["f"].body.stms[-1]


def nest(text: str, result: str = "[n_1][m_2]f64", between: object = None) -> Nest:
    found = nest_of(statement(f"let r_9: {result} = {text}", result), between=between or (lambda stms: not stms))  # type: ignore[arg-type]
    assert found is not None
    return found


def named(n: Nest) -> dict[str, tuple[str, Sequence[int], Sequence[int], Sequence[int]]]:
    return {v.name: (r.array.name, r.levels, r.dims, r.rest) for v, r in n.reads().items()}


PERFECT = """map(n_1, [a_4], \\(row_10: [m_2]f64) -> {
    let s_11: [m_2]f64 = map(m_2, [row_10, x_6], \\(e_12: f64, v_13: f64) -> {
      let t_14: f64 = mul(e_12, v_13) in (t_14) }) in (s_11) })"""


def test_levels_and_reads() -> None:
    n = nest(PERFECT)
    assert n.depth == 2
    assert [m.width.name for m in n.maps if isinstance(m.width, Var)] == ["m"]
    assert [s.pat[0].name for s in n.body.stms] == ["t"]
    assert n.before == []
    assert n.in_order
    assert named(n) == {
        "row": ("a", (0,), (0,), (1,)),
        "e": ("a", (0, 1), (0, 1), ()),
        "v": ("x", (1,), (0,), ()),
    }


def test_at_most_so_many_levels() -> None:
    n = nest_of(statement(f"let r_9: [n_1][m_2]f64 = {PERFECT}", "[n_1][m_2]f64"), 1)
    assert n is not None
    assert n.depth == 1
    assert n.inner == []


def test_a_transposition_is_read_by_its_dimensions() -> None:
    text = """map(m_2, [x_6], \\(v_10: f64) -> {
        let t_11: [n_1][m_2]f64 = rearrange(b_5, [1, 0])
        let s_12: [n_1]f64 = map(n_1, [t_11], \\(row_13: [m_2]f64) -> {
          let e_14: f64 = row_13[0i64] in (e_14) }) in (s_12) })"""
    views = nest(text, "[m_2][n_1]f64", lambda stms: all(isinstance(s.exp, ir.Rearrange) for s in stms))
    assert views.depth == 2
    assert [s.pat[0].name for s in views.before] == ["t"]
    assert named(views) == {"v": ("x", (0,), (0,), ()), "t": ("b", (), (), (1, 0)), "row": ("b", (1,), (1,), (0,))}
    assert nest(text, "[m_2][n_1]f64").depth == 1


def test_a_transposed_row_is_a_part_of_the_array() -> None:
    text = """let c_20: [n_1][m_2][n_1]f64 = replicate([n_1], b_5)
      let r_9: [n_1][n_1]f64 = map(n_1, [c_20], \\(q_10: [m_2][n_1]f64) -> {
        let t_11: [n_1][m_2]f64 = rearrange(q_10, [1, 0])
        let s_12: [n_1]f64 = map(n_1, [t_11], \\(row_13: [m_2]f64) -> {
          let e_14: f64 = row_13[0i64] in (e_14) }) in (s_12) })"""
    n = nest_of(statement(text, "[n_1][n_1]f64"), between=lambda stms: True)
    assert n is not None
    assert named(n) == {
        "q": ("c", (0,), (0,), (1, 2)),
        "t": ("c", (0,), (0,), (2, 1)),
        "row": ("c", (0, 1), (0, 2), (1,)),
    }


def test_a_width_of_the_nest_ends_it() -> None:
    text = """map(n_1, [k_7], \\(i_10: i64) -> {
        let z_11: [m_2]f64 = map(m_2, [x_6], \\(v_12: f64) -> {
          let t_14: f64 = neg(v_12) in (t_14) }) in (z_11) })"""
    assert nest(text).depth == 2
    made = "let m_15: i64 = add(i_10, 1i64) let y_16: [m_15]f64 = replicate([m_15], 0.0f64) "
    inside = text.replace("let z_11", made + "let z_11")
    inside = inside.replace("map(m_2, [x_6]", "map(m_15, [y_16]").replace("z_11: [m_2]", "z_11: [m_15]")
    (stm,) = [statement(f"let r_9: [n_1][m_2]f64 = {inside}", "[n_1][m_2]f64")]
    found = nest_of(stm, between=lambda stms: True)
    assert found is not None
    assert found.depth == 1


SWAPPED = """let (p_20: [n_1][m_2]f64, r_9: [n_1][m_2]f64) = map(n_1, [a_4], \\(row_10: [m_2]f64) -> {
    let (s_11: [m_2]f64, u_12: [m_2]f64) = map(m_2, [row_10], \\(e_13: f64) -> {
      let t_14: f64 = neg(e_13) in (t_14, e_13) }) in (u_12, s_11) })"""


def test_results_in_another_order() -> None:
    stm = statement(SWAPPED, "[n_1][m_2]f64")
    plain = nest_of(stm)
    assert plain is not None
    assert plain.depth == 1
    (lam,) = stm.exp.lambdas()
    loose = nest_in(lam, rows=True)
    assert loose.depth == 2
    assert not loose.in_order


def test_the_path_of_an_array() -> None:
    n = nest(PERFECT)
    assert [v.name for v in n.path(0) or ()] == ["row", "e"]
    twice = nest(PERFECT.replace("[row_10, x_6]", "[row_10, row_10]"))
    assert twice.path(0) is None
    unused = nest(PERFECT.replace("[row_10, x_6]", "[x_6, x_6]"))
    assert [v.name for v in unused.path(0) or ()] == ["row"]


def test_no_map_is_no_nest() -> None:
    assert nest_of(statement("let r_9: f64 = x_6[0i64]", "f64")) is None


def test_another_body_of_a_nest() -> None:
    stm = statement(f"let r_9: [n_1][m_2]f64 = {PERFECT}", "[n_1][m_2]f64")
    n = nest_of(stm)
    assert n is not None
    matrix, e = n.reads()[n.body.params[0]].array, n.body.params[0]
    more, y, made, out = [Var(w, t) for w, t in (("c", matrix.type), ("y", F64), ("t", F64), ("out", matrix.type))]
    leaf = ir.Lambda((*n.body.params, y), (ir.Stm((made,), ir.Op("add", (e, y))),), (made,))
    new = n.around(stm, leaf, [out], [more])
    assert new.pat == (out,)
    found = nest_of(new)
    assert found is not None
    assert found.depth == 2
    # x, which the new body does not use, is no input any more; the elements of c are.
    assert {(r.array, r.levels) for v, r in found.reads().items() if v in found.body.params} == {
        (matrix, (0, 1)),
        (more, (0, 1)),
    }
    assert not found.bound & n.bound  # variables of its own
