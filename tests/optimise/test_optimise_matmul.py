# ruff: noqa: E501 (programs read better unbroken)
"""Map nests that are matrix products are found, whatever surrounds them, and mean the same afterwards."""

from __future__ import annotations

import numpy as np
import pytest

from futad.core import ir
from futad.core.check import check_program
from futad.core.interp import Interpreter
from futad.core.parse import parse_program
from futad.errors import AssertionFailed
from futad.optimise.matmul import matmul
from futad.pipeline import compile_program
from futad.source import compile_text
from futad.testing.build import c_backend
from tests.support.optimise_support import heads, passes, run, same_results

PRELUDE = """
def dot [k] (x: [k]f64) (y: [k]f64): f64 = f64.sum (map2 (*) x y)
def mm [n][k][m] (a: [n][k]f64) (b: [k][m]f64): [n][m]f64 = map (\\r -> map (dot r) (transpose b)) a
"""

A, B, C = (np.random.default_rng(i).standard_normal(s) for i, s in enumerate([(5, 3), (3, 4), (5, 4)]))
V = np.random.default_rng(7).standard_normal(3)
S = np.random.default_rng(9).standard_normal((3, 3))
W = np.random.default_rng(8).standard_normal((2, 4, 3))


def count(lam: ir.Lambda) -> int:
    """The matrix products in a scope."""
    inner = sum(count(x) for s in lam.stms for x in s.exp.lambdas())
    return inner + sum(type(s.exp) is ir.MatMul for s in lam.stms)


AB = "(a: [][]f64) (b: [][]f64) = "

# name, parameters and body, number of products, core arguments, what NumPy says
CASES = [
    ("product", AB + "mm a b", 1, (A, B), A @ B),
    ("around", AB + "map (\\r -> map (\\c -> 2 * dot r c + 1) (transpose b)) (map (map f64.sin) a)",
     1, (A, B), 2 * np.sin(A) @ B + 1),
    ("computed", AB + "map (\\r -> let s = map f64.exp r in f64.sum (map (dot s) (transpose b))) a",
     1, (A, B), (np.exp(A) @ B).sum(1)),
    ("chain", AB + "map (\\r -> let y = map (dot r) (transpose b) in map (dot (map f64.tanh y)) b) a",
     2, (A, B), np.tanh(A @ B) @ B.T),
    ("batched weights", "(w: [][][]f64) (a: [][]f64) = map (\\r -> map (map (dot r)) w) a",
     1, (W, A), np.einsum("gij,bj->bgi", W, A)),
    ("adjoints", "(a: [][]f64) (b: [][]f64) (c: [][]f64) = vjp (\\(a, b) -> mm a b) (a, b) c",
     2, (A, B, C), (C @ B.T, A.T @ C)),
    ("adjoint of one", AB + "vjp (\\b -> f64.sum (map f64.sum (map (map f64.exp) (mm a b)))) b 1",
     2, (A, B), A.T @ np.exp(A @ B)),
    ("adjoint of batched weights", "(w: [][][]f64) (a: [][]f64) = vjp (\\w -> f64.sum (map (\\r -> f64.sum (map "
     "(\\m -> f64.sum (map (\\q -> f64.exp (dot r q)) m)) w)) a)) w 1",
     2, (W, A), np.einsum("bgi,bj->gij", np.exp(np.einsum("gij,bj->bgi", W, A)), A)),
    ("adjoint through a loop",
     "(a: [][]f64) (w: [][]f64) = vjp (\\w -> f64.sum (flatten (loop h = a for _i < 2 do mm h w))) w 1",
     3, (A, S), A.T @ np.ones((5, 3)) @ S.T + (A @ S).T @ np.ones((5, 3))),
    ("one vector", "(a: [][]f64) (v: []f64) = map (dot v) a", 0, (A, V), A @ V),
    ("integers", "(a: [][]i64) (b: [][]i64) = map (\\r -> map (\\c -> i64.sum (map2 (*) r c)) b) a",
     0, (A.astype(int), B.T.astype(int)), A.astype(int) @ B.astype(int)),
    ("not a product", AB + "map (\\r -> map (\\c -> f64.sum (map2 (+) r c)) b) a",
     0, (A, B.T), (A[:, None] + B.T[None]).sum(2)),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=[c[0] for c in CASES])
def test_products_are_found_and_right(case: tuple) -> None:
    _, text, products, args, expected = case
    head, body = text.split(" = ", 1)
    program = compile_text(PRELUDE + _entry(head, body, args))
    before = compile_program(program, stop_after="simplify-ad")
    after = matmul(before)
    check_program(after, "matmul")
    assert count(after.funs["main"].body) == products
    if products == 0:
        assert after.funs["main"] is before.funs["main"]
    core = _core_args(program, args)
    expected = expected if isinstance(expected, tuple) else (expected,)
    final = compile_program(program, check=True)
    for got in (Interpreter(after).run("main", core), c_backend(final).run("main", core)):
        for g, e in zip(got, expected, strict=True):
            np.testing.assert_allclose(g, e, rtol=1e-12, atol=1e-12)


def _entry(head: str, body: str, args: tuple) -> str:
    """The entry, with one size name for all dimensions of equal size."""
    arrays = [a for a in args if isinstance(a, np.ndarray)]
    names = dict.fromkeys(n for a in arrays for n in a.shape)
    for size in [n for a in arrays for n in a.shape]:
        head = head.replace("[]", f"[n{size}]", 1)
    return f"entry main {''.join(f'[n{n}]' for n in names)} {head} = {body}"


def _core_args(program: ir.Program, args: tuple) -> list:
    """Sizes in the order the function takes them, then the arrays."""
    fun = program.funs["main"]
    arrays = [a for a in args if isinstance(a, np.ndarray)]
    sizes: dict[ir.Var, int] = {}
    for p, a in zip(fun.body.params[fun.num_sizes :], arrays, strict=True):
        sizes.update(zip(p.type.shape, a.shape, strict=True))
    return [sizes[v] for v in fun.body.params[: fun.num_sizes]] + arrays


@pytest.mark.slow
def test_adjoints_summed_over_a_loop_are_added_in_place() -> None:
    head, body = "(a: [][]f64) (w: [][]f64)", "vjp (\\w -> f64.sum (flatten (loop h = a for _i < 9 do mm h w))) w 1"
    program = compile_program(compile_text(PRELUDE + _entry(head, body, (A, S))), check=True)
    products = [s.exp for s in _statements(program.funs["main"].body) if type(s.exp) is ir.MatMul]
    assert any(p.plus for p in products)
    backend = c_backend(program)
    got = backend.run("main", _core_args(program, (A, S)))
    np.testing.assert_allclose(got[0], Interpreter(program).run("main", _core_args(program, (A, S)))[0], rtol=1e-12)
    assert ", 1))) {" in backend.source  # the kernel adds


def _statements(lam: ir.Lambda) -> list[ir.Stm]:
    return [t for s in lam.stms for t in [s, *[u for x in s.exp.lambdas() for u in _statements(x)]]]


@pytest.mark.slow
def test_products_of_a_loop_are_computed_once_for_both_sweeps() -> None:
    head = "(a: [][]f64) (w: [][]f64)"
    body = "vjp (\\w -> f64.sum (flatten (loop h = a for _i < 4 do map (map f64.sin) (mm h w)))) w 1"
    program = compile_program(compile_text(PRELUDE + _entry(head, body, (A, S))), check=True)
    kinds = [type(s.exp) for s in _statements(program.funs["main"].body)]
    # Forward: h w.  Return: h_bar w^T and h^T h_bar, and no h w again.
    assert kinds.count(ir.MatMul) == 3
    h, history = A, []
    for _ in range(4):
        history.append(h)
        h = np.sin(h @ S)
    h_bar, w_bar = np.ones_like(h), np.zeros_like(S)
    for x in reversed(history):
        y_bar = h_bar * np.cos(x @ S)
        w_bar += x.T @ y_bar
        h_bar = y_bar @ S.T
    args = _core_args(program, (A, S))
    for got in (Interpreter(program).run("main", args), c_backend(program).run("main", args)):
        np.testing.assert_allclose(got[0], w_bar, rtol=1e-11)


OUTER = r"""
fun main [n_54: i64, m_55: i64, k_56: i64] (xs_57: [n_54][m_55]f64, ys_58: [n_54][k_56]f64) -> (r_1: [k_56][m_55]f64, r_2: [k_56]f64) = {
  let b_223: [k_56]f64 = replicate([k_56], 0.0f64)
  let t_224: [k_56][m_55]f64 = replicate([k_56, m_55], 0.0f64)
  let is_187: [k_56]i64 = iota(k_56, 0i64, 1i64)
  let is_214: [m_55]i64 = iota(m_55, 0i64, 1i64)
  let (b_229: [k_56]f64, t_230: [k_56][m_55]f64) = withacc([b_223, t_224], "add", \(b_225: acc([k_56]f64), t_226: acc([k_56][m_55]f64)) -> {
    let (b_227: acc([k_56]f64), t_228: acc([k_56][m_55]f64)) = map(n_54, [b_225, t_226, xs_57, ys_58],
        \(b_191: acc([k_56]f64), t_221: acc([k_56][m_55]f64), x_152: [m_55]f64, y_153: [k_56]f64) -> {
      let e_117: f64 = x_152[0i64]
      let c_118: bool = lt(e_117, 2.0f64)
      assert(c_118, "too large", [], @"t.fut:1:1-1:2")
      let b_192: acc([k_56]f64) = map(k_56, [b_191, y_153, is_187], \(b_189: acc([k_56]f64), y_184: f64, i_188: i64) -> {
        let b_190: acc([k_56]f64) = updateacc(b_189, [i_188], y_184) in (b_190) })
      let t_222: acc([k_56][m_55]f64) = map(k_56, [t_221, is_187, y_153], \(t_219: acc([k_56][m_55]f64), i_208: i64, y_209: f64) -> {
        let t_220: acc([k_56][m_55]f64) = map(m_55, [t_219, is_214, x_152], \(t_217: acc([k_56][m_55]f64), i_215: i64, x_212: f64) -> {
          let t_216: f64 = mul(y_209, x_212)
          let t_218: acc([k_56][m_55]f64) = updateacc(t_217, [i_208, i_215], t_216)
          in (t_218) })
        in (t_220) })
      in (b_192, t_222) })
    in (b_227, t_228) })
  in (t_230, b_229) }
"""


def test_assertions_beside_outer_products_stay() -> None:
    """Whether the map updates one accumulator or two, which become maps of their own."""
    p = parse_program(OUTER)
    q = passes(p, matmul)
    assert heads(q)["MatMul"] == 1, q
    rng = np.random.default_rng(1)
    for n in (0, 1, 5):
        xs, ys = rng.uniform(-1, 1, (n, 3)), rng.uniform(-1, 1, (n, 2))
        same_results(p, q, [n, 3, 2, xs, ys])
        if n > 0:
            xs[n - 1, 0] = 3
            for program in (p, q):
                with pytest.raises(AssertionFailed):
                    run(program, [n, 3, 2, xs, ys])


def test_the_same_product_for_every_row_is_none_with_the_rows() -> None:
    """A map need not use what it is given."""
    p = parse_program(r"""
    fun main [n_1: i64, m_2: i64, k_3: i64] (xs_4: [n_1][m_2]f64, b_5: [m_2]f64, a_6: [k_3][m_2]f64) -> (r_7: [n_1][k_3]f64) = {
      let y_8: [n_1][k_3]f64 = map(n_1, [xs_4], \(x_9: [m_2]f64) -> {
        let z_10: [k_3]f64 = map(k_3, [a_6], \(row_11: [m_2]f64) -> {
          let p_12: [m_2]f64 = map(m_2, [x_9, b_5], \(u_13: f64, v_14: f64) -> { let w_15: f64 = mul(u_13, v_14) in (w_15) })
          let s_16: f64 = reduce(m_2, [p_12], \(u_17: f64, v_18: f64) -> { let w_19: f64 = add(u_17, v_18) in (w_19) }, [0.0f64], True)
          in (s_16) })
        in (z_10) })
      in (y_8) }""")
    q = passes(p, matmul)
    rng = np.random.default_rng(1)
    for n, m, k in ((4, 3, 2), (0, 3, 2), (2, 0, 3), (3, 3, 3)):
        same_results(p, q, [n, m, k, *[rng.standard_normal(s) for s in ((n, m), (m,), (k, m))]])
