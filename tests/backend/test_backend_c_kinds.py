"""The C backend: every scalar type, the shape of hot loops, threads."""

from __future__ import annotations

import re
import threading

import numpy as np
import pytest

from futad.core.interp import Interpreter
from futad.core.parse import parse_program
from futad.core.types import PRIMS
from futad.errors import AssertionFailed, BoundsError
from futad.testing.build import c_backend

# For each type: an array combined, reduced, scanned, counted into bins and accumulated.
KIND = r"""
fun kind_@ [n_#1: i64] (xs_#2: [n_#1]@, ks_#3: [n_#1]i64)
  -> (r_#4: @, r_#5: @, r_#6: [n_#1]@, r_#7: [3]@, r_#8: [3]@, r_#9: [n_#1]@) = {
  let s_#10: @ = reduce(n_#1, [xs_#2], \(a_#11: @, b_#12: @) -> { let c_#13: @ = ADD(a_#11, b_#12) in (c_#13) },
    [ZERO], True)
  let m_#14: @ = reduce(n_#1, [xs_#2], \(a_#15: @, b_#16: @) -> { let c_#17: @ = MAX(a_#15, b_#16) in (c_#17) },
    [LEAST], True)
  let p_#18: [n_#1]@ = scan(n_#1, [xs_#2], \(a_#19: @, b_#20: @) -> { let c_#21: @ = ADD(a_#19, b_#20) in (c_#21) },
    [ZERO])
  let z_#22: [3]@ = replicate([3i64], ZERO)
  let h_#23: [3]@ = hist(n_#1, [z_#22], [ks_#3], [xs_#2],
    \(a_#24: @, b_#25: @) -> { let c_#26: @ = ADD(a_#24, b_#25) in (c_#26) }, [ZERO])
  let y_#27: [3]@ = replicate([3i64], ONE)
  let w_#28: [3]@ = withacc([y_#27], "add", \(q_#29: acc([3]@)) -> {
    let q_#30: acc([3]@) = map(n_#1, [q_#29, xs_#2, ks_#3], \(q_#31: acc([3]@), x_#32: @, k_#33: i64) -> {
      let q_#34: acc([3]@) = updateacc(q_#31, [k_#33], x_#32) in (q_#34) })
    in (q_#30) })
  let o_#35: [n_#1]@ = map(n_#1, [xs_#2], \(x_#36: @) -> {
    let c_#37: bool = lt(x_#36, ONE)
    let d_#38: @ = if(c_#37, { let e_#39: @ = ADD(x_#36, ONE) in (e_#39) }, { in (x_#36) })
    in (d_#38) })
  in (s_#10, m_#14, p_#18, h_#23, w_#28, o_#35)
}
"""


def least(t):
    if t.is_float:
        return f"-inf{t.name}"
    return "false" if t.is_bool else f"{np.iinfo(t.dtype).min}{t.name}"


def kinds():
    text = ""
    for k, t in enumerate(PRIMS.values(), start=1):
        zero, one = ("false", "true") if t.is_bool else (f"0.0{t}", f"1.0{t}") if t.is_float else (f"0{t}", f"1{t}")
        one_text = KIND.replace("#", str(k)).replace("@", t.name).replace("LEAST", least(t))
        one_text = one_text.replace("ZERO", zero).replace("ONE", one)
        text += one_text.replace("ADD", "or" if t.is_bool else "add").replace("MAX", "or" if t.is_bool else "max")
    return parse_program(text)


@pytest.fixture(scope="module")
def kind_backends():
    program = kinds()
    multicore = c_backend(program, multicore=True, grain=1)
    with pytest.MonkeyPatch.context() as env:
        env.setenv("FUTAD_CFLAGS", "-O1")
        multicore.library.futad_pool_set_threads(3)
    return Interpreter(program), c_backend(program), multicore


@pytest.mark.slow
@pytest.mark.parametrize("name", PRIMS)
def test_every_type(kind_backends, name):
    interp, *backends = kind_backends
    t = PRIMS[name]
    rng = np.random.default_rng(1)
    for n in (0, 1, 40):
        xs = rng.integers(-3 if t.kind in ("int", "float") else 0, 2 if t.is_bool else 9, n).astype(t.dtype)
        args = [np.int64(n), xs, rng.integers(-1, 4, n)]
        want = interp.run(f"kind_{name}", args)
        for b in backends:
            for g, w in zip(b.run(f"kind_{name}", args), want, strict=True):
                assert np.asarray(g).dtype == t.dtype
                np.testing.assert_array_equal(g, w)


NESTS = r"""
fun matvec [n_1: i64, m_2: i64] (a_3: [n_1][m_2]f64, x_4: [m_2]f64) -> (r_5: [n_1]f64) = {
  let y_6: [n_1]f64 = map(n_1, [a_3], \(row_7: [m_2]f64) -> {
    let s_8: f64 = fused(m_2, [row_7, x_4], \(u_9: f64, v_10: f64) -> {
      let t_11: f64 = mul(u_9, v_10) in (t_11) }, [],
      [Fold(\(p_12: f64, q_13: f64) -> { let r_14: f64 = add(p_12, q_13) in (r_14) }, [0.0f64], False)])
    in (s_8) })
  in (y_6) }
fun outer_sum [n_21: i64, m_22: i64] (a_23: [n_21][m_22]f64) -> (r_24: [m_22][m_22]f64) = {
  let z_25: [m_22][m_22]f64 = replicate([m_22, m_22], 0.0f64)
  let is_26: [m_22]i64 = iota(m_22, 0i64, 1i64)
  let w_27: [m_22][m_22]f64 = withacc([z_25], "add", \(c_28: acc([m_22][m_22]f64)) -> {
    let c_29: acc([m_22][m_22]f64) = map(n_21, [c_28, a_23], \(c_30: acc([m_22][m_22]f64), row_31: [m_22]f64) -> {
      let c_32: acc([m_22][m_22]f64) = map(m_22, [c_30, is_26, row_31],
        \(c_33: acc([m_22][m_22]f64), i_34: i64, u_35: f64) -> {
          let c_36: acc([m_22][m_22]f64) = map(m_22, [c_33, is_26, row_31],
            \(c_37: acc([m_22][m_22]f64), j_38: i64, v_39: f64) -> {
              let t_40: f64 = mul(u_35, v_39)
              let c_41: acc([m_22][m_22]f64) = updateacc(c_37, [i_34, j_38], t_40)
              in (c_41) })
          in (c_36) })
      in (c_32) })
    in (c_29) })
  in (w_27) }
fun wave [n_51: i64] (xs_52: [n_51]f64) -> (r_53: [n_51]f64) = {
  let ys_54: [n_51]f64 = map(n_51, [xs_52], \(x_55: f64) -> {
    let c_56: bool = lt(x_55, 0.0f64)
    let y_57: f64 = if(c_56, { let e_58: f64 = exp(x_55) in (e_58) }, { let e_59: f64 = sin(x_55) in (e_59) })
    in (y_57) })
  in (ys_54) }
fun pick [n_61: i64] (xs_62: [n_61]f64, ks_63: [n_61]i64) -> (r_64: [n_61]f64, r_65: f64) = {
  let ys_66: [n_61]f64 = map(n_61, [ks_63], \(k_67: i64) -> {
    let c_68: bool = lt(k_67, 1000i64)
    assert(c_68, "{} is too large", [k_67], @"p.fut:2:1-2:5")
    let x_69: f64 = xs_62[k_67]@"p.fut:3:1-3:5"
    in (x_69) })
  let s_70: f64 = reduce(n_61, [ys_66], \(p_71: f64, q_72: f64) -> { let r_73: f64 = add(p_71, q_72) in (r_73) },
    [0.0f64], False)
  in (ys_66, s_70) }
"""


@pytest.fixture(scope="module")
def nests():
    program = parse_program(NESTS)
    multicore = c_backend(program, multicore=True, grain=1)
    multicore.library.futad_pool_set_threads(4)
    return c_backend(program), multicore


def function(source, name):
    return source[source.index(f"futad_entry_{name}(") :].split("\n}\n")[0]


@pytest.mark.slow
def test_dot_products_share_loads(nests):
    """Four rows at a time; and the rest one by one."""
    text = function(nests[0].source, "matvec")
    sums = re.findall(r"futad_wide_f64 (\w+ = \{0\}(?:, \w+ = \{0\})*);", text)
    assert "+= 4" in text and [len({v.split("_w")[0] for v in s.split(", ")}) for s in sums] == [4, 1]


@pytest.mark.slow
def test_sums_of_outer_products_stay_in_registers(nests):
    text = function(nests[0].source, "outer_sum")
    assert "+= 8" in text
    main = text[text.index("+= 8") :]
    assert main.split("}")[0].count("] = (") == 1


def test_branches_vectorise(nests):
    text = function(nests[0].source, "wave")
    assert "FUTAD_INDEPENDENT" in text and "?" in text and "if (x" not in text


@pytest.mark.parametrize("n,m", [(0, 3), (1, 1), (3, 5), (4, 4), (9, 2), (23, 17)])
def test_nests(nests, n, m):
    rng = np.random.default_rng(n)
    a, x = rng.standard_normal((n, m)), rng.standard_normal(m)
    for b in nests:
        np.testing.assert_allclose(b.run("matvec", [n, m, a, x])[0], a @ x, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(b.run("outer_sum", [n, m, a])[0], a.T @ a, rtol=1e-13, atol=1e-13)


def test_a_thread_that_fails(nests):
    xs = np.arange(100.0)
    for b in nests:
        for at in (0, 50, 99):
            ks = np.arange(100)
            ks[at] = 100
            with pytest.raises(BoundsError, match=r"Index \[100\] out of bounds for array of shape \[100\]") as e:
                b.run("pick", [100, xs, ks])
            assert e.value.span.line == 3
            ks[at] = 5000
            with pytest.raises(AssertionFailed, match="5000 is too large"):
                b.run("pick", [100, xs, ks])
        assert b.run("pick", [100, xs, np.arange(100)])[1] == xs.sum()


def test_threads_give_one_answer(nests):
    xs = np.random.default_rng(0).standard_normal(10_000)
    first = nests[1].run("pick", [10_000, xs, np.arange(10_000) % 1000])
    held = nests[1].memory()[0]
    for _ in range(5):
        again = nests[1].run("pick", [10_000, xs, np.arange(10_000) % 1000])
        assert again[1] == first[1] and (again[0] == first[0]).all()
    assert nests[1].memory()[0] == held


def test_calls_from_several_threads(nests):
    """A program has one memory; calls at the same time wait for one another."""
    rng = np.random.default_rng(0)
    data = [(rng.standard_normal((40, 30)), rng.standard_normal(30)) for _ in range(8)]
    failures = []

    def work(a, x):
        for _ in range(20):
            (y,) = nests[0].run("matvec", [40, 30, a, x])
            if not np.allclose(y, a @ x, rtol=1e-12):
                failures.append(y)

    threads = [threading.Thread(target=work, args=d) for d in data]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures
