"""Sums of what is zero but at few places: values on every backend, work by the interpreter's counts."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from futad import strategies
from futad.core import ir
from futad.core.interp import Interpreter
from futad.core.parse import parse_program
from futad.core.types import ArrayType
from futad.errors import Error
from futad.pipeline import compile_program
from futad.runtime.device import EmulatedDevice
from futad.source import compile_text
from futad.target import CUDA, INTERP, MULTICORE, C
from futad.testing.build import c_backend, common, device_backend
from tests.support.needs import needs_cxx
from tests.support.paths import ROOT
from tests.support.slow import slow_but

FILE = ROOT / "tests" / "legality" / "onehot.fut"
FEWER = {  # at most so many operations and elements at n = 40, for each of the n results or of the eight places tried
    "bools": 8, "updates": 8, "copies": 8, "scatters": 8, "pieces": 8, "zipped": 8, "rows": 8, "all": 8, "picked": 8,
    "both": 14, "scattered": 8, "loops": 4, "filled": 9, "hand": 2, "gradperm": 6,
    "gradbranch": 6, "gradloopin": 16, "halves": 24, "wrapband": 30, "stencil": 70, "gradgather": 32,
    "hess2": 6, "hist": 10, "gather": 10, "gather3": 22, "gather4": 8, "colsums": 34, "upd2": 13,
    "updsame": 2, "catj": 4, "places": 10, "shifted": 10, "backwards": 12, "scat": 9, "scatk": 9,
    "gather5": 10, "startsat": 10, "bins_next": 15,
}  # fmt: skip
AS_BEFORE = (
    "products", "more", "butone", "other", "product", "scanned", "carried", "permuted", "doubled",
    "small", "scat2", "upd", "cat1", "cat2", "gather2", "gradscan", "gradprod", "gradmax", "gradcarry", "gradpairs",
    "gradupdate", "infinite", "handdot", "overwritten", "asserted", "grows", "inner_index",
    "full_bins", "own_bin",
)  # fmt: skip


@cache
def source() -> ir.Program:
    return compile_text(FILE.read_text())


@cache
def compiled(rules: bool) -> ir.Program:
    schedule = strategies.default() if rules else strategies.default().without("one-hot")
    return compile_program(source(), schedule=schedule, check=True)


def arguments(name: str, n: int) -> list[Any]:
    f = source().funs[name]
    rng = np.random.default_rng(n)
    sizes = {p: n + k for k, p in enumerate(f.body.params[: f.num_sizes])}
    out: list[Any] = [np.int64(s) for s in sizes.values()]
    for p in f.body.params[f.num_sizes :]:
        assert isinstance(p.type, ArrayType)
        shape = [sizes[s] for s in p.type.shape]
        values = rng.normal(size=shape) if p.type.elem.is_float else rng.integers(0, max(n, 1), size=shape)
        out.append(values.astype(p.type.elem.dtype))
    return out


def work(rules: bool, name: str, n: int) -> int:
    run = Interpreter(compiled(rules), count=True)
    run.run(name, arguments(name, n))
    return sum(w.ops + w.read + w.written for w in run.counts.values())


def on(program: ir.Program, backend: str) -> Any:
    """The program, compiled with the rules, on a backend."""
    if backend == "interp":
        return Interpreter(common(program, INTERP))
    if backend == "emulated":
        return device_backend(common(program, CUDA)).on(EmulatedDevice())
    return c_backend(common(program, MULTICORE if backend == "multicore" else C), multicore=backend == "multicore")


def result(run: Any, name: str, n: int) -> Any:
    try:
        return run.run(name, arguments(name, n))
    except Error as error:
        return type(error)


BACKENDS = [
    "interp", pytest.param("c", marks=pytest.mark.slow), pytest.param("multicore", marks=pytest.mark.slow),
    pytest.param("emulated", marks=[pytest.mark.slow, needs_cxx]),
]  # fmt: skip
ENTRIES = [name for name, f in source().funs.items() if f.entry is not None]


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
def test_values_are_those_without_the_rules(backend):
    made = on(source(), backend)
    plain = Interpreter(compiled(False))
    for name in ENTRIES:
        for n in (0, 1, 2, 7):
            with np.errstate(all="ignore"):
                expected, got = result(plain, name, n), result(made, name, n)
            if isinstance(expected, type):
                assert got is expected, (name, n)
                continue
            assert not isinstance(got, type), (name, n, got)
            for a, b in zip(got, expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12, err_msg=f"{name} {n}")


@pytest.mark.slow
@pytest.mark.parametrize("name", slow_but(list(FEWER)[::3], FEWER))
def test_only_the_places_are_computed(name):
    without, with_rules = work(False, name, 40), work(True, name, 40)
    assert with_rules <= FEWER[name] * 40 < without


@pytest.mark.parametrize("name", slow_but(AS_BEFORE[::3], AS_BEFORE))
def test_what_is_not_one_hot_stays(name):
    assert work(True, name, 6) == work(False, name, 6)


def test_a_schedule_without_the_pass_is_quadratic():
    """The operations of a gradient by n forward passes, n doubled: twice as many with the pass, four times without."""
    growth = [work(rules, "bools", 80) / work(rules, "bools", 40) for rules in (True, False)]
    assert growth[0] < 2.1 and growth[1] > 3.5


SPECIAL = r"""
entry source [n] (ys: [n]f64): [n]f64 = tabulate n (\k -> f64.sum (map2 (\y j -> y * f64.bool (j == k)) ys (iota n)))
entry forward [n] (ys: [n]f64): [n]f64 =
  tabulate n (\k -> jvp (\xs -> f64.sum (map2 (*) xs ys)) ys (tabulate n (\j -> f64.bool (j == k))))
entry reverse [n] (ys: [n]f64): [n]f64 = vjp (\xs -> f64.sum (map2 (*) xs ys)) ys 1
"""


OVERWRITTEN = """
fun main [n_1: i64, m_2: i64] (k_3: i64, xs_4: [m_2][2]f64, is_5: [m_2]i64) -> (r_8: [n_1]f64, r_9: [m_2][2]f64) = {
  let a_10: [m_2][2]f64 = copy(xs_4)
  let b_11: [m_2]f64 = a_10[0i64:m_2:1i64, 1i64]
  let is_12: [m_2]i64 = iota(m_2, 0i64, 1i64)
  let hot_13: [m_2]f64 = map(m_2, [b_11, is_12], \\(x_14: f64, j_15: i64) -> {
    let t_16: bool = eq(j_15, k_3)
    let t_17: f64 = select(t_16, x_14, 0.0f64)
    in (t_17) })
  let row_18: [2]f64 = replicate([2i64], 1.0f64)
  let c_19: [m_2][2]f64 = update(a_10, [0i64], row_18, None)
  let z_20: [n_1]f64 = replicate([n_1], 0.0f64)
  let h_21: [n_1]f64 = hist(m_2, [z_20], [is_5], [hot_13], \\(u_22: f64, v_23: f64) -> {
    let w_24: f64 = add(u_22, v_23) in (w_24) }, [0.0f64])
  in (h_21, c_19) }"""


def test_a_view_of_what_is_overwritten_is_not_read_later():
    """Found by `check_rule` on `hot_hist`."""
    compiled = compile_program(parse_program(OVERWRITTEN), check=True)
    args = [np.int64(2), np.int64(2), np.int64(0), np.full((2, 2), 5.0), np.array([1, 0])]
    np.testing.assert_array_equal(Interpreter(compiled).run("main", args)[0], [0.0, 5.0])


EQUAL = r"""
fun main [n_1: i64] (is_2: [n_1]i64, xs_3: [n_1]f64) -> (r_4: [n_1]f64, r_5: [n_1]f64) = {
  let z_6: [n_1]f64 = replicate([n_1], 0.0f64)
  let ks_7: [n_1]i64 = iota(n_1, 0i64, 1i64)
  let y_8: [n_1]f64 = map(n_1, [ks_7], \(k_9: i64) -> {
    let h_10: [n_1]f64 = map(n_1, [is_2, xs_3], \(i_11: i64, x_12: f64) -> {
      let t_13: bool = eq(i_11, k_9)
      let v_14: f64 = select(t_13, x_12, 0.0f64)
      in (v_14) })
    let s_15: f64 = reduce(n_1, [h_10], \(a_16: f64, b_17: f64) -> { let c_18: f64 = add(a_16, b_17) in (c_18) },
      [0.0f64], False)
    in (s_15) })
  in (z_6, y_8) }"""


@pytest.mark.parametrize("backend", ["interp", "c"])
def test_bins_are_not_an_equal_array(backend):
    """What is added to is new: the zeros beside it stay zeros."""
    program = parse_program(EQUAL)
    assert "hist" in str(compile_program(program, check=True))
    zeros, sums = on(program, backend).run("main", [np.int64(3), np.array([2, 0, 2]), np.array([1.0, 2.0, 4.0])])
    np.testing.assert_array_equal(zeros, [0, 0, 0])
    np.testing.assert_array_equal(sums, [2, 0, 5])


NO_ITERATION = r"""
fun main [n_1: i64, m_2: i64] (b_3: i64, is_4: [m_2]i64, xs_5: [n_1]f64) -> (r_6: [n_1]f64) = {
  let ks_7: [n_1]i64 = iota(n_1, 0i64, 1i64)
  let y_8: [n_1]f64 = map(n_1, [ks_7, xs_5], \(k_9: i64, x_10: f64) -> {
    let d_11: f64 = mul(x_10, 2.0f64) #[["derived"]]
    let s_12: f64 = for(b_3, [0.0f64], \(j_13: i64, a_14: f64) -> {
      let i_15: i64 = is_4[j_13]
      let t_16: bool = eq(i_15, k_9)
      let v_17: f64 = select(t_16, 3.0f64, 0.0f64)
      let c_18: f64 = add(a_14, v_17)
      in (c_18) })
    let r_19: f64 = add(s_12, d_11)
    in (r_19) })
  in (y_8) }"""


@pytest.mark.parametrize(("bound", "sums"), [(3, [0, 3, 6]), (0, [0, 0, 0]), (-4, [0, 0, 0])])
@pytest.mark.parametrize("backend", ["interp", "c"])
def test_bins_of_a_loop_of_no_iteration(backend, bound, sums):
    """A loop's bound may be negative, an array's size not."""
    program = parse_program(NO_ITERATION)
    assert "hist" in str(compile_program(program, check=True))
    args = [np.int64(3), np.int64(3), np.int64(bound), np.array([2, 1, 2]), np.zeros(3)]
    np.testing.assert_array_equal(on(program, backend).run("main", args)[0], sums)


@pytest.mark.parametrize("backend", ["interp", "c"])
def test_infinite_elements(backend):
    """A program's own products with zero are NaN; those of derivatives are what reverse mode has."""
    ys = np.array([1.0, np.inf, np.nan, -2.0])
    run = on(compile_text(SPECIAL), backend)
    with np.errstate(invalid="ignore"):
        assert np.isnan(run.run("source", [np.int64(4), ys])[0]).all()
        np.testing.assert_array_equal(run.run("forward", [np.int64(4), ys])[0], ys)
        np.testing.assert_array_equal(run.run("reverse", [np.int64(4), ys])[0], ys)
