"""The C backend: what fails says where; memory in steady state; updates that cost O(1)."""

from __future__ import annotations

import numpy as np
import pytest

import futad
from futad.core.parse import parse_program
from futad.errors import AssertionFailed, BoundsError, ExecutionError, OutOfMemory, UsageError
from futad.testing.build import c_backend
from tests.support.processor_time import within

SOURCE = r"""
fun read [n_1: i64] (xs_2: [n_1]f64, i_3: i64) -> (r_4: f64) = {
  let e_5: f64 = xs_2[i_3]@"a.fut:3:5-3:10"
  in (e_5) }
fun slice [n_11: i64] (xs_12: [n_11]f64, i_13: i64, k_14: i64, s_15: i64) -> (r_16: [k_14]f64) = {
  let e_17: [k_14]f64 = xs_12[i_13:k_14:s_15]@"a.fut:4:5-4:10"
  in (e_17) }
fun write [n_21: i64] (xs_22: [n_21]f64, i_23: i64) -> (r_24: [n_21]f64) = {
  let e_25: [n_21]f64 = update(xs_22, [i_23], 1.0f64, @"a.fut:5:5-5:10")
  in (e_25) }
fun inner [n_31: i64] (xs_32: [n_31]f64, ks_33: [n_31]i64) -> (r_34: [n_31]f64) = {
  let ys_35: [n_31]f64 = map(n_31, [ks_33], \(k_36: i64) -> {
    let e_37: f64 = xs_32[k_36]@"a.fut:6:5-6:10"
    in (e_37) })
  in (ys_35) }
fun check [] (a_41: i64, b_42: f64) -> (r_43: i64) = {
  let c_44: bool = eq(a_41, 3i64)
  assert(c_44, "a is {}, b is {}", [a_41, b_42], @"a.fut:7:1-7:2")
  in (a_41) }
fun divide [] (a_51: i32, b_52: i32) -> (r_53: i32) = {
  let c_54: i32 = div(a_51, b_52)
  in (c_54) }
fun huge [] (n_61: i64) -> (r_62: [n_61][n_61]f64) = {
  let z_63: [n_61][n_61]f64 = replicate([n_61, n_61], 0.0f64)
  in (z_63) }
fun walk [n_71: i64] (xs_72: [n_71]f64) -> (r_73: [n_71]f64) = {
  let (ys_74: [n_71]f64) = for(n_71, [xs_72], \(i_75: i64, ys_76: [n_71]f64) -> {
    let e_77: f64 = ys_76[i_75]
    let f_78: f64 = add(e_77, 1.0f64)
    let zs_79: [n_71]f64 = update(ys_76, [i_75], f_78, None)
    in (zs_79) })
  in (ys_74) }
fun walk_rows [n_81: i64] (xs_82: [n_81][4]f64) -> (r_83: [n_81][4]f64) = {
  let (ys_84: [n_81][4]f64) = for(n_81, [xs_82], \(i_85: i64, ys_86: [n_81][4]f64) -> {
    let row_87: [4]f64 = ys_86[i_85]
    let new_88: [4]f64 = map(4i64, [row_87], \(x_89: f64) -> { let y_90: f64 = add(x_89, 1.0f64) in (y_90) })
    let c_91: bool = lt(i_85, 10i64)
    let zs_92: [n_81][4]f64 = if(c_91, {
      let as_93: [n_81][4]f64 = update(ys_86, [i_85], new_88, None) in (as_93) }, { in (ys_86) })
    in (zs_92) })
  in (ys_84) }
fun sums [n_101: i64] (xs_102: [n_101]f64, k_103: i64) -> (r_104: f64) = {
  let (s_105: f64) = for(k_103, [0.0f64], \(i_106: i64, s_107: f64) -> {
    let ys_108: [n_101]f64 = map(n_101, [xs_102], \(x_109: f64) -> { let y_110: f64 = mul(x_109, s_107) in (y_110) })
    let zs_111: [n_101]f64 = scan(n_101, [ys_108], \(a_112: f64, b_113: f64) -> {
      let c_114: f64 = add(a_112, b_113) in (c_114) }, [0.0f64])
    let t_115: f64 = reduce(n_101, [zs_111], \(a_116: f64, b_117: f64) -> {
      let c_118: f64 = max(a_116, b_117) in (c_118) }, [0.0f64], False)
    let u_119: f64 = min(t_115, 1.0f64)
    in (u_119) })
  in (s_105) }
"""


@pytest.fixture(scope="module")
def backend():
    return c_backend(parse_program(SOURCE))


XS = np.arange(5.0)


@pytest.mark.parametrize("name,args,index,size,line", [
    ("read", [5, XS, 5], 5, 5, 3),
    ("read", [5, XS, -1], -1, 5, 3),
    ("read", [0, XS[:0], 0], 0, 0, 3),
    ("slice", [5, XS, 2, 4, 1], 5, 5, 4),
    ("slice", [5, XS, 1, 3, -1], -1, 5, 4),
    ("slice", [5, XS, 9, 1, 1], 9, 5, 4),
    ("write", [5, XS, 7], 7, 5, 5),
    ("inner", [3, XS[:3], np.array([0, 9, 1])], 9, 3, 6),
])  # fmt: skip
def test_bounds(backend, name, args, index, size, line):
    with pytest.raises(BoundsError, match=rf"Index \[{index}\] out of bounds for array of shape \[{size}\]") as e:
        backend.run(name, args)
    assert str(e.value).startswith(f"a.fut:{line}:5: Error: ")
    np.testing.assert_array_equal(backend.run("read", [5, XS, 2])[0], 2.0)


def test_slices(backend):
    np.testing.assert_array_equal(backend.run("slice", [5, XS, 4, 3, -2])[0], [4, 2, 0])
    np.testing.assert_array_equal(backend.run("slice", [5, XS, 2, 3, 0])[0], [2, 2, 2])
    assert backend.run("slice", [5, XS, 5, 0, 1])[0].shape == (0,)


def test_assert(backend):
    assert backend.run("check", [3, 0.5])[0] == 3
    with pytest.raises(AssertionFailed, match=r"a is 4, b is 0.5") as e:
        backend.run("check", [4, 0.5])
    assert e.value.span.line == 7


def test_division(backend):
    assert backend.run("divide", [-7, 2])[0] == -4
    with pytest.raises(ExecutionError, match="division by zero"):
        backend.run("divide", [1, 0])


@pytest.mark.parametrize("n", [1 << 40, 1 << 19, -1])
def test_memory_runs_out(backend, n):
    with pytest.raises(OutOfMemory, match="memory|address space|negative"):
        backend.run("huge", [n])
    assert backend.run("huge", [2])[0].shape == (2, 2)


def test_unknown_entry(backend):
    with pytest.raises(UsageError, match="no entry is called 'nothing'"):
        backend.run("nothing", [])


def test_updates_cost_constant_time(backend):
    """A loop over 30,000 elements, one updated an iteration: copying would take seconds."""
    n = 30_000
    assert within(0.2, lambda: backend.run("walk", [n, np.zeros(n)]))
    (ys,) = backend.run("walk", [n, np.zeros(n)])
    np.testing.assert_array_equal(ys, np.ones(n))
    assert within(0.2, lambda: backend.run("walk_rows", [n, np.zeros((n, 4))]))
    (ys,) = backend.run("walk_rows", [n, np.zeros((n, 4))])
    assert ys.sum() == 40


def test_steady_state_allocates_nothing(backend):
    backend.run("sums", [1000, np.ones(1000), 1])
    held, grown = backend.memory()
    for k in (1, 1000):
        backend.run("sums", [1000, np.ones(1000), k])
        assert backend.memory() == (held, grown)


def test_results_belong_to_the_caller(backend):
    n = 100_000
    first = backend.run("walk", [n, np.zeros(n)])[0]
    second = backend.run("walk", [n, np.ones(n)])[0]
    first[:] = 7
    assert (second == 2).all() and (first == 7).all()
    xs = np.zeros(n)
    assert backend.run("walk", [n, xs])[0] is not xs and not xs.any()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["c", "multicore", "emulated"])
@pytest.mark.parametrize(("source", "shape"), [
    ("entry main [a][b][c] (x: [a][b][c]f64): [a][c][b]f64 = x :> [a][c][b]f64", (2, 1, 3)),
    ("entry main [a][b][c] (x: [a][b][c]f64) = unflatten_4d (flatten_3d x :> [b * a * c * 2]f64)", (2, 1, 3)),
    ("entry main [n] (x: [n]f64) = map (\\v -> (x :> [n * n * n]f64)[0] + v) x", (2,)),
])  # fmt: skip
def test_messages_are_whole(backend: str, source: str, shape: tuple[int, ...]) -> None:
    """Whatever the rank, no value is missing in them."""
    said = []
    for b in ("interp", backend):
        with pytest.raises(AssertionFailed) as e:
            futad.compile(source, backend=b).main(np.ones(shape))
        said.append(str(e.value))
    assert said[0] == said[1] and "{" not in said[0]
