# ruff: noqa: E501 (programs read better unbroken)
"""Costly scalars and products that both sweeps of a loop compute are saved by the first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import futad
from futad.core import ir
from futad.core.budget import budget_of, budgeted
from futad.core.parse import parse_program
from futad.fires import counting
from futad.optimise.remat.iterations import remat
from futad.optimise.remat.policy import Policy
from futad.pipeline import compile_program, pass_names
from futad.source import compile_text, load_program
from futad.target import C
from tests.support.optimise_support import heads, passes, same_results
from tests.support.paths import BENCHMARK_PROGRAMS as PROGRAMS

TEXT = """
def layer [b] (w: [b]f64) (x: [b]f64): [b]f64 = map2 (\\w x -> f64.tanh (w * x) + f64.exp (-x * x)) w x
def net [n][l][b] (ws: [l][b]f64) (xs: [n][b]f64): f64 =
  f64.sum (loop y = replicate b 1 for t < n do
             map2 (+) xs[t] (loop y for i < l do layer ws[i] y))
entry value [n][l][b] (ws: [l][b]f64) (xs: [n][b]f64): f64 = net ws xs
entry gradient [n][l][b] (ws: [l][b]f64) (xs: [n][b]f64): [l][b]f64 = vjp (\\ws -> net ws xs) ws 1
entry once [l][b] (ws: [l][b]f64) (x: [b]f64): [l][b]f64 =
  vjp (\\ws -> f64.sum (loop y = x for i < l do layer ws[i] y)) ws 1
entry cheap [n][l][b] (ws: [l][b]f64) (xs: [n][b]f64): [l][b]f64 =
  vjp (\\ws -> f64.sum (loop y = replicate b 1 for t < n do
                         map2 (+) xs[t] (loop y for i < l do map2 (\\w y -> w * y * y) ws[i] y))) ws 1
"""


def costly(core: Any, name: str) -> int:
    """Exponentials and hyperbolic tangents in a function's text."""

    def count(lam: ir.Lambda) -> int:
        here = sum(isinstance(s.exp, ir.Op) and s.exp.op in ("exp", "tanh") for s in lam.stms)
        return here + sum(count(inner) for s in lam.stms for inner in s.exp.lambdas())

    return count(core.funs[name].body)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("saved") / "saved.fut"
    file.write_text(TEXT)
    return file


@pytest.mark.slow
def test_only_sweeps_that_go_forward_compute_them(file: Path) -> None:
    """Forward, and again in each iteration of the outer loop's return sweep; not in the inner return sweep."""
    core = compile_program(load_program(str(file)))
    before = compile_program(load_program(str(file)), stop_after="simplify-matmul")
    assert (costly(before, "gradient"), costly(core, "gradient")) == (6, 4)
    assert costly(before, "once") == costly(core, "once") == 4
    assert costly(before, "cheap") == costly(core, "cheap") == 0


@pytest.mark.slow
@pytest.mark.parametrize(("iterations", "saved"), [(100, 2), (8192, 1), (8193, 0)])
def test_an_outermost_loop_saves_what_stays_in_a_cache(iterations: int, saved: int) -> None:
    """An array of 16 in each iteration: a MiB in 8192 of them."""
    core = compile_text(f"""
        entry back (w: [16]f64) (x: [16]f64): [16]f64 =
          vjp (\\w -> f64.sum (loop y = x for _i < {iterations} do
                               map2 (\\w y -> f64.tanh (w * y) * f64.exp (-y)) w y)) w 1""")
    before = compile_program(core, stop_after="simplify-matmul")
    assert costly(before, "back") - costly(compile_program(core), "back") == saved


@pytest.mark.slow
def test_the_gates_of_dlstm() -> None:
    core = compile_program(load_program(str(PROGRAMS / "dlstm.fut")))
    without = [name for name in pass_names() if name != "remat"]
    before = compile_program(load_program(str(PROGRAMS / "dlstm.fut")), passes=without)
    assert costly(before, "gradient") - costly(core, "gradient") == 5


@pytest.mark.slow
@pytest.mark.parametrize("n,l,b", [(0, 2, 3), (1, 0, 2), (1, 1, 1), (3, 4, 5), (2, 3, 0)])
def test_answers(file: Path, n: int, l: int, b: int) -> None:  # noqa: E741
    rng = np.random.default_rng(n + l)
    ws, xs = rng.standard_normal((l, b)), rng.standard_normal((n, b))
    programs = [futad.load(file, backend=backend) for backend in ("interp", "c", "multicore")]
    expected = [f(*args) for f, args in ((programs[0].gradient, (ws, xs)), (programs[0].once, (ws, np.ones(b))))]
    for p in programs[1:]:
        for a, e in zip((p.gradient(ws, xs), p.once(ws, np.ones(b))), expected, strict=True):
            np.testing.assert_allclose(a, e, rtol=1e-12, atol=1e-12)
    step = 1e-6
    for i in range(l):
        for j in range(b):
            up, down = ws.copy(), ws.copy()
            up[i, j] += step
            down[i, j] -= step
            slope = (programs[1].value(up, xs) - programs[1].value(down, xs)) / (2 * step)
            assert abs(slope - expected[0][i, j]) < 1e-6 * max(1, abs(slope))


FEWER = """
def f [n][m] (k: i64) (a: [n]f64) (b: [m]f64): f64 =
  let r = loop s = copy b for i < n do
    let t = map (* a[i]) s
    in loop t for j < k do map2 (\\x y -> f64.exp (-x * y) * f64.tanh (x + y + f64.i64 j)) t b
  in f64.sum r
-- Iterations counted in another type than sizes.
def g [n][m] (k: i32) (a: [n]f64) (b: [m]f64): f64 =
  let r = loop s = copy b for i < n do
    loop t = map (* a[i]) s for j < k do map2 (\\x y -> f64.exp (-x * y) * f64.tanh (x + y + f64.i32 j)) t b
  in f64.sum r
entry along_f [n][m] (k: i64) (a: [n]f64) (b: [m]f64) (u: [n]f64) (v: [m]f64) =
  jvp (\\(a, b) -> f k a b) (a, b) (u, v)
entry back_f [n][m] (k: i64) (a: [n]f64) (b: [m]f64) = vjp (\\(a, b) -> f k a b) (a, b) 1
entry along_g [n][m] (k: i32) (a: [n]f64) (b: [m]f64) (u: [n]f64) (v: [m]f64) =
  jvp (\\(a, b) -> g k a b) (a, b) (u, v)
entry back_g [n][m] (k: i32) (a: [n]f64) (b: [m]f64) = vjp (\\(a, b) -> g k a b) (a, b) 1
"""


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["interp", "c", "emulated"])
@pytest.mark.parametrize("name", ["f", "g"])
def test_a_negative_number_of_iterations_is_none(backend: str, name: str) -> None:
    """What is saved has room for no iteration, not for less than none."""
    p = futad.compile(FEWER, backend=backend, check=True)
    rng = np.random.default_rng(3)
    for k in (-3, -1, 0, 1, 4):
        for n, m in ((2, 3), (1, 1), (0, 2)):
            a, b, u, v = rng.uniform(0, 1, n), rng.uniform(0, 1, m), rng.standard_normal(n), rng.standard_normal(m)
            da, db = p[f"back_{name}"](k, a, b)
            assert abs(da @ u + db @ v - p[f"along_{name}"](k, a, b, u, v)) < 1e-12, (k, n, m)


# Two loops that multiply by a matrix what the first saves.
PRODUCTS = r"""fun main [n_1: i64, m_2: i64, t_3: i64] (x_4: [n_1][m_2]f64, w_5: [m_2][m_2]f64) -> (r_901: f64, r_902: [t_3]f64) = {
  let h_6: [t_3][n_1][m_2]f64 = scratch(f64, [t_3, n_1, m_2])
  let last_40: i64 = sub(t_3, 1i64)
  let (k_7: i64, y_8: [k_7][m_2]f64, h_9: [t_3][k_7][m_2]f64) = for(t_3, [n_1, x_4, h_6],
      \(i_10: i64, l_11: i64, x_12: [l_11][m_2]f64, s_13: [t_3][l_11][m_2]f64) -> {
    let u_14: [t_3][l_11][m_2]f64 = update(s_13, [i_10], x_12, None)
    let p_15: [l_11][m_2]f64 = matmul(x_12, w_5, []) in (l_11, p_15, u_14) }) #[["forward_sweep", 1]]
  let z_20: [t_3]f64 = replicate([t_3], 0.0f64)
  let q_21: [t_3]f64 = for(t_3, [z_20], \(j_41: i64, q_23: [t_3]f64) -> {
    let i_22: i64 = sub(last_40, j_41) let x_24: [k_7][m_2]f64 = h_9[i_22] let p_25: [k_7][m_2]f64 = matmul(x_24, w_5, [])
    let v_26: [m_2]f64 = p_25[0i64] let e_27: f64 = v_26[0i64]
    let u_28: [t_3]f64 = update(q_23, [i_22], e_27, None) in (u_28) }) #[["return_sweep", 1]]
  let v_30: [m_2]f64 = y_8[0i64] let e_31: f64 = v_30[0i64] in (e_31, q_21) }"""


@pytest.mark.parametrize("carried", [False, True])
def test_products_with_as_many_rows_as_the_loop_carries(carried: bool) -> None:
    """The memory for them is had before the loop, which knows a size that it carries only within."""
    text = PRODUCTS
    if not carried:
        text = text.replace(", l_11: i64", "").replace("l_11, p_15", "p_15").replace("[n_1, x_4", "[x_4")
        text = text.replace("l_11", "n_1").replace("k_7: i64, ", "").replace("k_7", "n_1")
    p = parse_program(text)
    q = passes(p, lambda p: remat(p, C))
    assert heads(q)["MatMul"] == (2 if carried else 1)
    rng = np.random.default_rng(2)
    for n, m, iterations in ((3, 2, 4), (1, 1, 1), (2, 3, 0)):
        same_results(p, q, [n, m, iterations, rng.normal(size=(n, m)), rng.normal(size=(m, m))])


# Two sweeps inside a loop, of maps whose width each iteration computes.
WIDTH = r"""fun main [n_1: i64, m_2: i64] (ws_3: [n_1][m_2]f64, x_4: [m_2]f64) -> (r_901: f64) = {
  let k_5: i64 = mul(m_2, 2i64)
  let vs_6: [n_1][k_5]f64 = map(n_1, [ws_3], \(w_7: [m_2]f64) -> { let c_8: [k_5]f64 = concat([w_7, x_4], k_5) in (c_8) })
  let last_9: i64 = sub(n_1, 1i64) let b_10: [k_5]f64 = concat([x_4, x_4], k_5)
  let z_11: [k_5]f64 = for(2i64, [b_10], \(s_12: i64, b_13: [k_5]f64) -> {
    let y_14: [k_5]f64 = for(n_1, [b_13], \(i_15: i64, y_16: [k_5]f64) -> {
      let v_17: [k_5]f64 = vs_6[i_15] WIDTH
      let m_19: [k_5]f64 = map(l_18, [v_17, y_16], \(p_20: f64, q_21: f64) -> {
        let e_22: f64 = exp(p_20) let f_23: f64 = mul(e_22, 0.5f64) let g_24: f64 = add(f_23, q_21) in (g_24) })
      in (m_19) }) #[["forward_sweep", 1]]
    let g_30: [k_5]f64 = for(n_1, [y_14], \(j_31: i64, g_32: [k_5]f64) -> {
      let i_33: i64 = sub(last_9, j_31) let v_34: [k_5]f64 = vs_6[i_33] HERE
      let m_36: [k_5]f64 = map(l_35, [v_34, g_32], \(p_37: f64, q_38: f64) -> {
        let e_39: f64 = exp(p_37) let f_40: f64 = mul(e_39, q_38) in (f_40) })
      in (m_36) }) #[["return_sweep", 1]]
    in (g_30) })
  let r_41: f64 = reduce(k_5, [z_11], \(a_42: f64, b_43: f64) -> { let d_44: f64 = add(a_42, b_43) in (d_44) }, [0.0f64], False)
  in (r_41) }"""


@pytest.mark.parametrize("within", [False, True])
def test_scalars_of_a_width_that_the_iteration_computes(within: bool) -> None:
    """The memory for them is had before the loop."""
    text = WIDTH.replace("WIDTH", "let l_18: i64 = mul(m_2, 2i64)" if within else "")
    text = text.replace("HERE", "let l_35: i64 = mul(m_2, 2i64)" if within else "")
    p = parse_program(text if within else text.replace("l_18", "k_5").replace("l_35", "k_5"))
    q = passes(p, lambda p: remat(p, C))
    assert heads(q)["exp"] == (2 if within else 1)
    rng = np.random.default_rng(3)
    for n, m in ((3, 2), (1, 1), (0, 2), (2, 0)):
        same_results(p, q, [n, m, rng.normal(size=(n, m)), rng.normal(size=m)])


@pytest.mark.parametrize(
    ("cost", "saved", "room", "worth"), [(8, 1, 1, True), (7, 1, 1, False), (8, 8, 1, True), (8, 9, 1, False), (8, 9, 2, True), (99, 0, 1, False), (99, 1, 0, False)]
)  # fmt: skip
def test_what_pays(cost: int, saved: int, room: int, worth: bool) -> None:
    assert Policy(C).saves(cost, saved, room) is worth


# The inner loop's integers are undone, so that it saves nothing, and its sweeps are the loops that they are without a budget.
UNDONE = """
entry gradient [n][l][b] (ws: [l][b]f64) (xs: [n][b]f64): [l][b]f64 =
  vjp (\\ws -> loop t = 1 for i < n do
         let (s, _) = loop (s, k) = (replicate b 0, 7u32) for j < l do
           let c = f64.u32 k / 4e9
           in (map3 (\\s w x -> s + c * f64.exp (w * x)) s ws[j] xs[i], k * 1664525 + 1013904223)
         in f64.sin (t * f64.sum s)) ws 1
"""


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"memory": "4kB"}, {"checkpoints": 3, "nest": False}])
def test_nothing_more_is_saved_under_a_budget(options: dict[str, Any]) -> None:
    """The budget is what all of the loops keep.  Marks of sweeps are gone after the pass."""
    program = budgeted(compile_text(UNDONE), budget_of(**options))
    with counting() as counts:
        core = compile_program(program, target=C, check=True)
    assert counts["remat"] == (0 if options else 1)
    before = compile_program(program, target=C, stop_after="simplify-matmul")
    assert ("forward_sweep" in str(before), "_sweep" in str(core)) == (not options, False)
    rng = np.random.default_rng(1)
    same_results(before, core, [2, 3, 4, rng.normal(size=(2, 3)), rng.normal(size=(4, 3))], name="gradient")


ITERATIONS = """
def path [m] (zs: [m]f64) (x: f64): f64 = loop y = x for i < m do f64.exp (-y * zs[i]) + y
entry mapped [n][m] (xs: [n]f64) (zs: [m]f64): ([n]f64, [m]f64) =
  vjp (\\(xs, zs) -> f64.sum (map (path zs) xs)) (xs, zs) 1
entry outermost [m] (x: f64) (zs: [m]f64): (f64, [m]f64) = vjp (\\(x, zs) -> path zs x) (x, zs) 1
"""


@pytest.mark.parametrize(("name", "left"), [("mapped", 1), ("outermost", 2)])
def test_scalars_of_iterations_in_a_map(name: str, left: int) -> None:
    """Each element's loop has memory that the next one uses again; that of one loop would be added to what there is."""
    program = compile_text(ITERATIONS)
    assert costly(compile_program(program, target=C, stop_after="simplify-matmul"), name) == 2
    assert costly(compile_program(program, target=C), name) == left
    assert costly(compile_program(program), name) == 2


@pytest.mark.parametrize(("n", "m"), [(0, 2), (1, 0), (1, 1), (20, 5)])
def test_answers_of_iterations_in_a_map(n: int, m: int) -> None:
    args = [np.int64(n), np.int64(m), np.linspace(0.1, 1, n), np.linspace(-1, 1, m)]
    program = compile_text(ITERATIONS)
    same_results(compile_program(program), compile_program(program, target=C), args, "mapped")
