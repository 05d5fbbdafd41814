"""The interpreter: semantics of every construct, batched and one by one."""
# ruff: noqa: E501  (programs as text)

from __future__ import annotations

import numpy as np
import pytest

from futad.core.interp import Interpreter
from futad.core.parse import parse_program
from futad.errors import AssertionFailed, BoundsError, ExecutionError, InternalError
from tests.support.core_programs import MATMUL


def both(text: str, *args, name: str = "main"):
    """The results of the batched evaluation, which must equal those one by one, and so the counts."""
    p = parse_program(text)
    fast, slow = Interpreter(p, count=True), Interpreter(p, count=True, batched=False, in_place=True)
    a, b = fast.run(name, list(args)), slow.run(name, list(args))
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-13, atol=1e-13)
        assert np.asarray(x).dtype == np.asarray(y).dtype
    assert fast.counts == slow.counts and fast.tally.operations == slow.tally.operations
    return a


@pytest.mark.parametrize("n,k,m", [(3, 4, 5), (1, 1, 1), (0, 3, 2), (2, 0, 2), (2, 3, 0)])
def test_matmul(n, k, m):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(n, k)), rng.normal(size=(k, m))
    (r,) = both(MATMUL, n, k, m, a, b)
    np.testing.assert_allclose(r, a @ b, rtol=1e-12, atol=1e-13)
    assert r.shape == (n, m)


def run(body: str, ret: str, params: str, *args):
    return both(f"fun main {params} -> ({ret}) = {{ {body} }}", *args)


def test_divergent_branches_and_loops():
    """Iterations of one map that take different branches and iteration different numbers of times."""
    (r, t) = run(
        """let (r_5: [n_1]f64, t_6: [n_1]i64) = map(n_1, [xs_2, ks_3], \\(x_7: f64, k_8: i64) -> {
             let c_9: bool = lt(x_7, 0.0f64)
             let y_10: f64 = if(c_9, { let z_11: f64 = neg(x_7) in (z_11) }, {
               let s_12: f64 = for(k_8, [x_7], \\(i_13: i64, a_14: f64) -> { let b_15: f64 = add(a_14, 1.0f64)
                 in (b_15) }) in (s_12) })
             let g_20: bool = lt(0i64, k_8)
             let (w_16: bool, u_17: i64) = while([g_20, k_8], \\(d_18: bool, e_19: i64) -> {
               let f_21: i64 = quot(e_19, 2i64) let h_22: bool = lt(0i64, f_21) in (h_22, f_21) })
             in (y_10, u_17) }) in (r_5, t_6)""",
        "r_30: [n_1]f64, t_31: [n_1]i64",
        "[n_1: i64] (xs_2: [n_1]f64, ks_3: [n_1]i64)",
        4,
        np.array([-1.0, 2.0, 3.0, -4.0]),
        np.array([5, 0, 7, 0]),
    )
    assert r.tolist() == [1, 2, 10, 4] and t.tolist() == [0, 0, 0, 0]


def test_inactive_iterations_do_not_fail():
    """A guard protects its branch from bad indices and division by zero."""
    (r,) = run(
        """let r_5: [n_1]i64 = map(n_1, [is_2], \\(i_7: i64) -> {
             let low_8: bool = le(0i64, i_7) let high_9: bool = lt(i_7, n_1) let ok_10: bool = and(low_8, high_9)
             let y_11: i64 = if(ok_10, {
               let z_12: i64 = is_2[i_7]@"a.fut:1:2-1:3"
               let q_13: i64 = if(low_8, { in (z_12) }, { let d_14: i64 = div(1i64, 0i64) in (d_14) })
               in (q_13) }, { in (-1i64) })
             in (y_11) }) in (r_5)""",
        "r_30: [n_1]i64",
        "[n_1: i64] (is_2: [n_1]i64)",
        4,
        np.array([1, -5, 9, 0]),
    )
    assert r.tolist() == [-5, -1, -1, 1]


def test_irregular_widths():
    """Sums over 0, 1, ... n-1 inside a map."""
    text = """let r_5: [n_1]i64 = map(n_1, [is_2], \\(k_7: i64) -> {
         let a_8: [k_7]i64 = iota(k_7, 0i64, 1i64)
         let s_9: i64 = reduce(k_7, [a_8], \\(x_10: i64, y_11: i64) -> { let z_12: i64 = add(x_10, y_11)
           in (z_12) }, [0i64], False)
         in (s_9) }) in (r_5)"""
    (r,) = run(text, "r_30: [n_1]i64", "[n_1: i64] (is_2: [n_1]i64)", 5, np.arange(5))
    assert r.tolist() == [0, 0, 1, 3, 6]


def test_slices():
    (a, b, c, d) = run(
        """let a_5: [3]f64 = xs_2[4i64:3i64:-2i64] let b_6: [2]f64 = xs_2[1i64:2i64:3i64]
           let c_7: [2]f64 = xs_2[3i64:2i64:0i64] let e_8: [n_1]f64 = copy(xs_2)
           let d_9: [n_1]f64 = update(e_8, [4i64:3i64:-2i64], a_5, None) in (a_5, b_6, c_7, d_9)""",
        "a_30: [3]f64, b_31: [2]f64, c_32: [2]f64, d_33: [n_1]f64",
        "[n_1: i64] (xs_2: [n_1]f64)",
        5,
        np.arange(5.0),
    )
    assert a.tolist() == [4, 2, 0] and b.tolist() == [1, 4] and c.tolist() == [3, 3]
    assert d.tolist() == [0, 1, 2, 3, 4]


def test_scatter_and_hist_ignore_what_is_out_of_range():
    (a, b) = run(
        """let d_5: [n_1]i64 = replicate([n_1], 0i64) let e_6: [n_1]i64 = replicate([n_1], 0i64)
           let a_7: [n_1]i64 = scatter(m_3, [d_5], [is_2], [is_2])
           let b_8: [n_1]i64 = hist(m_3, [e_6], [is_2], [is_2], \\(x_9: i64, y_10: i64) -> {
             let z_11: i64 = add(x_9, y_10) let w_12: i64 = max(z_11, x_9) in (w_12) }, [0i64]) in (a_7, b_8)""",
        "a_30: [n_1]i64, b_31: [n_1]i64",
        "[n_1: i64, m_3: i64] (is_2: [m_3]i64)",
        3,
        5,
        np.array([2, -1, 3, 1, 2]),
    )
    assert a.tolist() == [0, 1, 2] and b.tolist() == [0, 1, 4]


def test_integers_wrap():
    (a, b, c) = run(
        "let a_5: i8 = add(x_2, x_2) let b_6: i64 = mul(y_3, y_3) let c_7: i8 = neg(x_2) in (a_5, b_6, c_7)",
        "a_30: i8, b_31: i64, c_32: i8",
        "(x_2: i8, y_3: i64)",
        -128,
        2**62 + 1,
    )
    assert (a, b, c) == (
        0,
        (2**124 + 2**63 + 1) % 2**64 - 2**64 * ((2**124 + 2**63 + 1) % 2**64 >= 2**63),
        -128,
    )


INDEX = "[n_1: i64] (xs_2: [n_1]f64, i_3: i64) -> (r_4: f64) = {{ let r_5: f64 = {} in (r_5) }}"


@pytest.mark.parametrize("body,error,message,args", [
    ('xs_2[i_3]@"a.fut:7:2-7:3"', BoundsError, "a.fut:7:2: Error: Index [5] out of bounds for array of shape [3]", (5,)),
    ('xs_2[i_3]@"a.fut:7:2-7:3"', BoundsError, "Index [-1] out of bounds for array of shape [3]", (-1,)),
    ("xs_2[i_3]", InternalError, "unchecked: Index [3] out of bounds for array of shape [3]", (3,)),
])  # fmt: skip
def test_bounds(body, error, message, args):
    with pytest.raises(error) as e:
        Interpreter(parse_program("fun main " + INDEX.format(body))).run("main", [3, np.zeros(3), *args])
    assert message in str(e.value)


@pytest.mark.parametrize("body,error,message", [
    ("let a_5: i64 = div(i_3, 0i64)", ExecutionError, "division by zero"),
    ("let a_5: i64 = rem(i_3, 0i64)", ExecutionError, "division by zero"),
    ("let k_6: i64 = sub(n_1, 9i64) let a_5: [k_6]i64 = iota(k_6, 0i64, 1i64)", ExecutionError, "negative size"),
    ("let k_6: i64 = sub(n_1, 9i64) let a_5: [k_6]i64 = replicate([k_6], 0i64)", ExecutionError,
     "negative size"),
    ('assert(false, "size {} is not {}", [n_1, i_3], @"b.fut:3:1-3:2")', AssertionFailed,
     "b.fut:3:1: Error: size 3 is not 7"),
    ('let a_5: [2]f64 = xs_2[i_3:2i64:1i64]@"b.fut:3:1-3:2"', BoundsError, "Index [7:9] out of bounds for array"),
    ('let a_5: [2]f64 = xs_2[2i64:2i64:1i64]@"b.fut:3:1-3:2"', BoundsError, "Index [2:4] out of bounds for array"),
    ('let a_5: [n_1]f64 = map(n_1, [xs_2], \\(x_6: f64) -> { let k_7: i64 = to_i64(x_6)'
     ' let y_8: f64 = xs_2[k_7]@"c.fut:1:1-1:2" in (y_8) })', BoundsError, "c.fut:1:1: Error: Index [4] out of bounds"),
    ('let a_5: [n_1]i64 = map(n_1, [xs_2], \\(x_6: f64) -> { let k_7: i64 = to_i64(x_6)'
     ' let y_8: bool = lt(k_7, 4i64) assert(y_8, "{} is large", [k_7], None) in (k_7) })', AssertionFailed, "4 is large"),
])  # fmt: skip
@pytest.mark.parametrize("batched", [True, False])
def test_failures(body, error, message, batched):
    p = parse_program(f"fun main [n_1: i64] (xs_2: [n_1]f64, i_3: i64) -> () = {{ {body} in () }}")
    with pytest.raises(error) as e:
        Interpreter(p, batched=batched).run("main", [3, np.array([0.0, 2.0, 4.0]), 7])
    assert message in str(e.value)


def test_derivatives_must_be_expanded():
    p = parse_program("fun main (x_1: f64) -> () = { let (y_2: f64, d_3: f64) = jvp(\\(a_4: f64) -> { in (a_4) },"
                      " [x_1], [1.0f64], []) in () }")  # fmt: skip
    with pytest.raises(InternalError, match="run the ad pass first"):
        Interpreter(p).run("main", [1.0])


def test_arguments_are_not_overwritten_and_results_are_not_shared():
    p = parse_program("""fun main [n_1: i64] (xs_2: [n_1]f64) -> (a_3: [n_1]f64, b_4: [n_1]f64, c_5: [n_1]f64) = {
      let r_6: [n_1]f64 = update(xs_2, [0i64], 5.0f64, None) in (xs_2, xs_2, r_6) }""")
    xs = np.zeros(2)
    a, b, c = Interpreter(p).run("main", [2, xs])
    assert xs[0] == 0 and a[0] == 0 and c[0] == 5
    a[0] = 9
    assert xs[0] == 0 and b[0] == 0


def test_large_batches_run_in_parts(monkeypatch):
    from futad.core import interp_soacs

    monkeypatch.setattr(interp_soacs, "MAX_BATCH", 16)
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(9, 5)), rng.normal(size=(5, 7))
    (r,) = both(MATMUL, 9, 5, 7, a, b)
    np.testing.assert_allclose(r, a @ b, rtol=1e-12, atol=1e-13)


def test_batched_evaluation_is_fast():
    """A product of 60 x 60 matrices is one batch of array operations, not 216 000 Python steps."""
    p = parse_program(MATMUL)
    a = np.random.default_rng(0).normal(size=(60, 60))
    m = Interpreter(p, count=True)
    steps = 0
    run_scope = m.exec

    def exec_(lam, sc):
        nonlocal steps
        steps += 1
        return run_scope(lam, sc)

    m.exec = exec_  # type: ignore[method-assign]
    (r,) = m.run("main", [60, 60, 60, a, a])
    np.testing.assert_allclose(r, a @ a, rtol=1e-12, atol=1e-13)
    assert steps < 10
    assert m.counts["op"].ops == 2 * 60**3
