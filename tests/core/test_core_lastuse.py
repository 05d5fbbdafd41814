"""In-place decisions and last uses, as decisions and as work done."""

from __future__ import annotations

import numpy as np

from futad.core import ir
from futad.core.check import check_program
from futad.core.interp import Interpreter
from futad.core.lastuse import analyse
from futad.core.parse import parse_program


def analysed(
    body: str,
    params: str = "[n_1: i64] (xs_2: [n_1]f64, i_3: i64)",
    ret: str = "(r_9: [n_1]f64)",
    entry: str = "",
):
    p = parse_program(f"fun main {params} -> {ret} {entry} = {{ {body} }}")
    check_program(p)
    return p, analyse(p)["main"]


def find(p: ir.Program, cls: type) -> list[ir.Stm]:
    out: list[ir.Stm] = []

    def walk(lam: ir.Lambda) -> None:
        for s in lam.stms:
            if isinstance(s.exp, cls):
                out.append(s)
            for inner in s.exp.lambdas():
                walk(inner)

    walk(p.funs["main"].body)
    return out


def flags(p, uses, cls=ir.Update):
    return [uses.in_place(s) for s in find(p, cls)]


def test_parameter_is_copied_once():
    p, u = analysed("let a_4: [n_1]f64 = update(xs_2, [i_3], 1.0f64, None) "
                    "let b_5: [n_1]f64 = update(a_4, [0i64], 2.0f64, None) in (b_5)")  # fmt: skip
    assert flags(p, u) == [False, True]


def test_unique_parameter_is_not_copied():
    scalar = 'EntryType("scalar", "f64", f64, [], [])'
    array = f'EntryType("array", "*[n]f64", {scalar}, ["n"], [])'
    index = 'EntryType("scalar", "i64", i64, [], [])'
    entry = f'entry Entry("main", [["xs", {array}], ["i", {index}]], {array}, [True, False], "")'
    p, u = analysed("let a_4: [n_1]f64 = update(xs_2, [i_3], 1.0f64, None) in (a_4)", entry=entry)
    assert flags(p, u) == [True]
    xs = np.zeros(3)
    (r,) = Interpreter(p).run("main", [3, xs, 1])
    assert r[1] == 1 and xs[1] == 1


def test_live_alias_forbids():
    p, u = analysed("let a_4: [n_1]f64 = replicate([n_1], 0.0f64) "
                    "let v_5: [2]f64 = a_4[0i64:2i64:1i64] "
                    "let b_6: [n_1]f64 = if(true, { let c_7: [n_1]f64 = copy(a_4) "
                    "let d_8: [n_1]f64 = update(c_7, [i_3], 1.0f64, None) in (d_8) }, { in (a_4) }) "
                    "let e_10: [n_1]f64 = copy(b_6) "
                    "let f_11: [n_1]f64 = update(e_10, [0i64:2i64:1i64], v_5, None) in (f_11)")  # fmt: skip
    assert flags(p, u) == [True, True]
    b = next(s for s in find(p, ir.If)).pat[0]
    a = find(p, ir.Replicate)[0].pat[0]
    assert u.blocks(a) & u.blocks(b)


def test_value_from_the_same_array_forbids():
    p, u = analysed("let a_4: [n_1]f64 = replicate([n_1], 0.0f64) "
                    "let v_5: [2]f64 = a_4[0i64:2i64:1i64] "
                    "let b_6: [n_1]f64 = update(a_4, [1i64:2i64:1i64], v_5, None) in (b_6)")  # fmt: skip
    assert flags(p, u) == [False]


LOOP = """let r_4: [n_1]f64 = for({bound}, [{init}], \\(j_5: i64, a_6: [n_1]f64) -> {{
    let x_7: f64 = a_6[j_5]
    let y_8: f64 = add(x_7, 1.0f64)
    let b_10: [n_1]f64 = update(a_6, [j_5], y_8, None) in (b_10) }}) in (r_4)"""


def test_loop_over_a_parameter_copies_once():
    p, u = analysed(LOOP.format(bound="n_1", init="xs_2"))
    assert flags(p, u) == [True]
    assert u.loop_copies(find(p, ir.For)[0]) == (0,)
    xs = np.zeros(1000)
    m = Interpreter(p, count=True)
    (r,) = m.run("main", [1000, xs, 0])
    assert (r == 1).all() and (xs == 0).all()
    assert m.counts["update"].written == 1000 and m.counts["for"].written == 1000


def test_loop_over_a_fresh_array_copies_nothing():
    p, u = analysed("let z_20: [n_1]f64 = copy(xs_2) " + LOOP.format(bound="n_1", init="z_20"))
    assert flags(p, u) == [True]
    assert u.loop_copies(find(p, ir.For)[0]) == ()
    m = Interpreter(p, count=True)
    m.run("main", [1000, np.zeros(1000), 0])
    assert m.counts["update"].written == 1000 and "for" not in m.counts


def test_loop_inside_map_and_loop():
    p, u = analysed(
        "let rs_30: [3][n_1]f64 = replicate([3i64], xs_2) "
        "let rs_31: [3][n_1]f64 = map(3i64, [rs_30], \\(row_32: [n_1]f64) -> { "
        + LOOP.format(bound="n_1", init="row_32") + " }) "
        "in (rs_31)", ret="(r_9: [3][n_1]f64)")  # fmt: skip
    assert flags(p, u) == [True]
    assert u.loop_copies(find(p, ir.For)[0]) == (0,)
    m = Interpreter(p, count=True)
    (r,) = m.run("main", [4, np.zeros(4), 0])
    assert (r == 1).all() and m.counts["update"].written == 12


def test_swap_in_a_loop():
    body = """let z_10: [n_1]f64 = copy(xs_2)
      let w_11: [n_1]f64 = copy(xs_2)
      let (p_12: [n_1]f64, q_13: [n_1]f64) = for(3i64, [z_10, w_11],
        \\(j_14: i64, a_15: [n_1]f64, b_16: [n_1]f64) -> {
        let x_17: f64 = b_16[0i64]
        let c_18: [n_1]f64 = update(a_15, [j_14], x_17, None)
        in (b_16, c_18) })
      in (p_12)"""
    p, u = analysed(body)
    assert flags(p, u) == [True]
    assert u.loop_copies(find(p, ir.For)[0]) == ()


def test_same_init_twice_is_copied():
    body = """let z_10: [n_1]f64 = copy(xs_2)
      let (p_12: [n_1]f64, q_13: [n_1]f64) = for(3i64, [z_10, z_10],
        \\(j_14: i64, a_15: [n_1]f64, b_16: [n_1]f64) -> {
        let c_18: [n_1]f64 = update(a_15, [j_14], 1.0f64, None)
        in (c_18, b_16) })
      in (q_13)"""
    p, u = analysed(body)
    m = Interpreter(p)
    (r,) = m.run("main", [3, np.zeros(3), 0])
    assert (r == 0).all()
    assert u.loop_copies(find(p, ir.For)[0]) == (0,) or flags(p, u) == [False]


def test_outer_array_as_result_of_the_body_is_not_overwritten():
    body = """let z_10: [n_1]f64 = copy(xs_2)
      let k_11: [n_1]f64 = copy(xs_2)
      let p_12: [n_1]f64 = for(3i64, [z_10], \\(j_14: i64, a_15: [n_1]f64) -> {
        let c_18: [n_1]f64 = update(a_15, [j_14], 1.0f64, None)
        let x_19: f64 = c_18[0i64]
        in (k_11) })
      in (p_12)"""
    p, u = analysed(body)
    assert flags(p, u) == [False]
    (r,) = Interpreter(p).run("main", [3, np.zeros(3), 0])
    assert (r == 0).all()


def test_call_results_may_alias_arguments():
    p = parse_program("""
      fun f [n_1: i64] (a_2: [n_1]f64, b_3: [n_1]f64) -> (r_4: [n_1]f64, s_5: [n_1]f64) = {
        let c_6: [n_1]f64 = copy(b_3) in (a_2, c_6) }
      fun main [n_11: i64] (xs_12: [n_11]f64) -> (r_14: [n_11]f64, t_9: [n_11]f64, w_7: [n_11]f64) = {
        let z_15: [n_11]f64 = copy(xs_12)
        let (u_16: [n_11]f64, v_17: [n_11]f64) = call("f", [n_11, z_15, z_15])
        let g_18: [n_11]f64 = update(v_17, [0i64], 1.0f64, None)
        let h_19: [n_11]f64 = update(u_16, [0i64], 1.0f64, None)
        in (g_18, h_19, z_15) }""")
    u = analyse(p)["main"]
    assert flags(p, u) == [True, False]


def test_what_another_variable_began_with_is_copied():
    """The second iteration overwrites what the first variable began with, which is read after the loop."""
    loop = """
      let b_4: [n_1]f64 = copy(xs_2)
      let c_5: [n_1]f64 = copy(xs_2)
      let (d_6: [n_1]f64, e_7: [n_1]f64) = for(i_3, [b_4, c_5], \\(j_10: i64, p_11: [n_1]f64, q_12: [n_1]f64) -> {
        let u_13: [n_1]f64 = update(q_12, [0i64], 7.0f64, None)
        in (u_13, p_11)
      })
      in (b_4)"""
    p, u = analysed(loop)
    (stm,) = find(p, ir.For)
    assert u.loop_copies(stm) == (0,)
    (r,) = Interpreter(p).run("main", [2, np.ones(2), 2])
    assert r.tolist() == [1, 1]


def random_loop(r: np.random.Generator) -> str:
    """A loop over two to four arrays, which it updates and hands to each other; all that was before is used after."""
    k = int(r.integers(2, 5))
    lines = [f"let c_{20 + i}: [2]f64 = copy(xs_2)" for i in range(k)]
    before = ["xs_2", *[f"c_{20 + i}" for i in range(k)]]
    inits = [before[r.integers(len(before))] for _ in range(k)]
    params = [f"p_{30 + i}" for i in range(k)]
    body, now = [], list(params)
    for i in range(k):
        if r.random() < 0.5:
            x = now[r.integers(k)]
            body.append(f"let e_{40 + i}: f64 = {x}[0i64]")
            body.append(f"let s_{50 + i}: f64 = add(e_{40 + i}, {i + 1}.0f64)")
            body.append(f"let u_{60 + i}: [2]f64 = update({now[i]}, [0i64], s_{50 + i}, None)")
            now[i] = f"u_{60 + i}"
    pool = [*now, "xs_2"]
    ends = [now[j] for j in r.permutation(k)] if r.random() < 0.6 else [pool[r.integers(len(pool))] for _ in range(k)]
    pattern = ", ".join(f"r_{70 + i}: [2]f64" for i in range(k))
    variables = ", ".join(f"{v}: [2]f64" for v in params)
    lines.append(f"let ({pattern}) = for(i_3, [{', '.join(inits)}], \\(j_10: i64, {variables}) -> {{")
    lines += [*body, f"in ({', '.join(ends)})", "})"]
    after = [v for v in before if r.random() < 0.5]
    last = int(r.integers(k))
    lines.append(f"let w_80: [2]f64 = update(r_{70 + last}, [1i64], 9.0f64, None)")
    shown = ["w_80", *after, *[f"r_{70 + i}" for i in range(k) if i != last and r.random() < 0.7]]
    lines.append("let t_90: f64 = 0.0f64")
    for i, v in enumerate(shown):
        for j in (0, 1):
            at = 100 + 4 * i + 2 * j
            lines.append(f"let t_{at}: f64 = mul({f't_{at - 1}' if at > 100 else 't_90'}, 3.0f64)")
            lines.append(f"let x_{at + 1000}: f64 = {v}[{j}i64]")
            lines.append(f"let t_{at + 1}: f64 = add(t_{at}, x_{at + 1000})")
    lines.append(f"let o_99: [1]f64 = replicate([1i64], t_{100 + 4 * (len(shown) - 1) + 3})")
    return "\n".join([*lines, "in (o_99)"])


def test_random_loops_that_hand_arrays_on():
    r = np.random.default_rng(5)
    for _ in range(80):
        p, _ = analysed(random_loop(r), "(xs_2: [2]f64, i_3: i64)", "(r_9: [1]f64)")
        for n in range(4):
            got = [Interpreter(p, in_place=flag).run("main", [np.array([0.25, 0.5]), n])[0] for flag in (True, False)]
            assert got[0] == got[1]
