"""Sparse Jacobians and Hessians as matrices of SciPy."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import futad
from futad.api.program import Program
from futad.errors import AssertionFailed, BoundsError, DtypeError, ShapeError, UsageError
from tests.support.slow import slow_but

pytest.importorskip("scipy")
from futad.testing.sparse import dense_hessian, dense_jacobian, difference, found  # noqa: E402

SOURCE = """
entry chain [n] (x: [n]f64): f64 =
  f64.sum (tabulate (n - 1) (\\i -> 100 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2))
entry arrow [n] (x: [n]f64): f64 = f64.sum (map (\\y -> x[0] * y * y) x)
entry torus [n][m] (a: [n][m]f64): [n][m]f64 =
  tabulate_2d n m (\\i j -> a[i, j] * (a[(i + 1) % n, j] + a[i, (j + 1) % m] + a[(i + n - 1) % n, j]) - a[i, j] ** 3)
entry mixed [n][k] (w: {a: [n]f64, b: f64, c: i64}) (is: [k]i64) (s: f32): ([k]f64, {z: f64, q: i64}, f32) =
  (map (\\i -> w.a[i] ** 2 * w.b) is, {z = f64.sum w.a, q = w.c}, s * s)
entry chosen [n] (x: [n]f64): [n]f64 = map2 (\\a b -> if a < 0 then a * b else b) x (reverse x)
entry narrow [n] (x: *[n]f32): [n]f32 = map2 (*) x (rotate 1 x)
entry rows [n] (x: [n]f64) (y: [n]f64): [2]f64 = [f64.sum (map2 (*) x y), f64.sum x]
entry positive (x: []f64): [1]f64 = [assert (x[0] > 0) x[1]]
entry counts (k: i64) (x: f64): i64 = k
entry empty [n] (x: [n]f64) (y: f64): [n]f64 = map (* y) x
entry constant (x: []f64): [2]f64 = [1, 2]
"""


@pytest.fixture(scope="module")
def prog() -> Program:
    return futad.compile(SOURCE, backend="interp")


@pytest.mark.slow
def test_a_chain_has_three_colours_however_long_it_is() -> None:
    chain = futad.compile(SOURCE, backend="c").chain
    made = futad.sparse_hessian(chain)
    x = np.random.default_rng(0).normal(size=300)
    assert not difference(made(x), made.pattern(x), dense_hessian(chain, (0,), (x,)))
    assert made.pattern(x).nnz == 3 * 300 - 2
    x = np.random.default_rng(0).normal(size=50_000)
    h = made(x)
    assert h.nnz == 149_998 and made.report == "3 colours, forward over reverse"
    v = np.random.default_rng(1).normal(size=50_000)
    assert np.allclose(h @ v, futad.hvp(chain, (x,), (v,))[0], rtol=1e-12, atol=1e-9)


@pytest.mark.slow
def test_a_dense_row_of_a_hessian_is_found_in_its_column(prog: Program) -> None:
    made = futad.sparse_hessian(prog.arrow)
    x = np.arange(1.0, 80.0)
    assert not difference(made(x), made.pattern(x), dense_hessian(prog.arrow, (0,), (x,)))
    assert made.report == "2 colours, forward over reverse" and made(x).nnz == 3 * 79 - 2


@pytest.mark.slow
def test_a_stencil_takes_as_many_directions_as_it_reads(prog: Program) -> None:
    made = futad.sparse_jacobian(prog.torus)
    a = np.random.default_rng(0).normal(size=(12, 8))
    j = made(a)
    assert j.nnz == 4 * 96 and j.has_canonical_format
    assert not difference(j, made.pattern(a), dense_jacobian(prog.torus, (0,), (a,)))
    assert not difference(made(2 * a), made.pattern(a), dense_jacobian(prog.torus, (0,), (2 * a,)))


def test_records_tuples_and_integers_have_the_order_of_the_types(prog: Program) -> None:
    made = futad.sparse_jacobian(prog.mixed, (2, 0))
    a, s = np.array([1.0, 2, 3, 4]), np.float32(1.5)
    w = {"a": a, "b": 0.5, "c": 7}
    for indices in ([2, 0, 2], [3, 3, 1], []):
        j = made(w, np.array(indices, np.int64), s)
        assert j.dtype == np.float64 and j.shape == (len(indices) + 2, 6)
        want = np.zeros(j.shape)
        for row, i in enumerate(indices):
            want[row, 1 + i], want[row, 5] = 2 * a[i] * 0.5, a[i] ** 2
        want[-2, 1:5], want[-1, 0] = 1, 3
        assert np.array_equal(j.toarray(), want) and j.nnz == 2 * len(indices) + 5
    assert np.array_equal(made(w=w, s=s, is_=[1, 1, 1]).toarray()[0], [0, 0, 2, 0, 0, 4])
    with pytest.raises(BoundsError):
        made(w, np.array([4]), s)


@pytest.mark.slow
def test_where_comparisons_decide_the_pattern_is_found_again(prog: Program) -> None:
    made = futad.sparse_jacobian(prog.chosen)
    for x in ([-1.0, 2, 3, -4], [1.0, -2, -3, 4], [-1.0, 2, 3, -4]):
        assert not difference(made(x), made.pattern(x), dense_jacobian(prog.chosen, (0,), (x,)))
    assert made.report == "blocks of each iteration, 2 elements a row"
    made = futad.sparse_jacobian(prog.chosen, blocks=False)
    for x in ([-1.0, 2, 3, -4], [1.0, -2, -3, 4], [-1.0, 2, 3, -4]):
        assert not difference(made(x), made.pattern(x), dense_jacobian(prog.chosen, (0,), (x,)))
    assert "found at each point" in made.report


@pytest.mark.slow
def test_few_dense_rows_are_taken_in_reverse(prog: Program) -> None:
    made = futad.sparse_jacobian(prog.rows, (0, 1))
    x, y = np.random.default_rng(0).normal(size=(2, 700))
    assert not difference(made(x, y), made.pattern(x, y), dense_jacobian(prog.rows, (0, 1), (x, y)))
    assert made.report == "2 colours, reverse" and made(x, y).nnz == 3 * 700


def test_single_precision_and_arguments_that_are_consumed(prog: Program) -> None:
    made = futad.sparse_jacobian(prog.narrow)
    x = np.array([1, 2, 3, 5], np.float32)
    j = made(x)
    assert j.dtype == np.float32 and x.tolist() == [1, 2, 3, 5]
    assert j.toarray().tolist() == [[2, 1, 0, 0], [0, 3, 2, 0], [0, 0, 5, 3], [5, 0, 0, 1]]


def test_matrices_without_rows_or_elements(prog: Program) -> None:
    assert futad.sparse_jacobian(prog.empty)(np.zeros(0), 2.0).shape == (0, 0)
    assert futad.sparse_jacobian(prog.empty, 1)(np.zeros(0), 2.0).shape == (0, 1)
    j = futad.sparse_jacobian(prog.constant)(np.ones(5))
    assert j.shape == (2, 5) and j.nnz == 0


def test_a_pattern_that_is_known(prog: Program) -> None:
    x = np.array([-1.0, 2, 3, -4])
    full = futad.sparse_jacobian(prog.chosen, pattern=np.eye(4) + np.eye(4)[::-1])
    assert not difference(full(x), full.pattern(x), dense_jacobian(prog.chosen, (0,), (x,)))
    assert full.report == "2 colours, forward; the pattern was given"
    with pytest.raises(ShapeError, match=r"shape \(4, 4\), but the pattern that was given for it \(3, 3\)"):
        futad.sparse_jacobian(prog.chosen, pattern=np.eye(3))(x)
    with pytest.raises(UsageError, match="sparse matrix of SciPy"):
        futad.sparse_jacobian(prog.chosen, pattern="dense")
    with pytest.raises(UsageError, match="symmetric"):
        futad.sparse_hessian(prog.chain, pattern=np.triu(np.ones((3, 3))))


def test_what_comes_back_is_the_callers(prog: Program) -> None:
    made = futad.sparse_jacobian(prog.narrow)
    x = np.array([1, 2, 3, 5], np.float32)
    j, p = made(x), made.pattern(x)
    with pytest.raises(ValueError, match="read-only"):
        j.indices[:] = 0
    j.data[:] = p.indices[:] = 0
    assert made(x).toarray().tolist() == [[2, 1, 0, 0], [0, 3, 2, 0], [0, 0, 5, 3], [5, 0, 0, 1]]
    x[0] = 7  # nor is it the pattern's point
    assert made(x).toarray()[0].tolist() == [2, 7, 0, 0]


def test_bound_arguments_and_pickles(prog: Program) -> None:
    f = futad.bind(prog.empty, y=3.0)
    made = futad.sparse_jacobian(f)
    assert made([1.0, 2.0]).toarray().tolist() == [[3, 0], [0, 3]]
    again = pickle.loads(pickle.dumps(made))
    assert again([1.0, 2.0]).toarray().tolist() == [[3, 0], [0, 3]]
    h = pickle.loads(pickle.dumps(futad.sparse_hessian(prog.chain, pattern=np.ones((2, 2)))))
    assert h([0.0, 0.0]).nnz == 4 and "given" in h.report


def test_what_cannot_be_done_is_said(prog: Program) -> None:
    with pytest.raises(UsageError, match="takes an entry of a program, not function"):
        futad.sparse_jacobian(lambda x: x)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="the result of counts holds no floating-point numbers"):
        futad.sparse_jacobian(prog.counts, 1)
    with pytest.raises(UsageError, match="argument 'k' of counts holds no floating-point numbers"):
        futad.sparse_jacobian(prog.counts, (1, 0))
    with pytest.raises(UsageError, match="one floating-point number as result"):
        futad.sparse_hessian(prog.torus)
    with pytest.raises(UsageError, match="argnums 3 is out of range"):
        futad.sparse_jacobian(prog.torus, 3)
    made = futad.sparse_jacobian(prog.positive)
    assert made.report == "not called yet"
    with pytest.raises(AssertionFailed):
        made([-1.0, 1.0])
    with pytest.raises(DtypeError, match="'x'"):
        made(["a"])
    with pytest.raises(UsageError, match="takes 1 argument, not 2"):
        made([1.0], 2)


@pytest.mark.slow
@pytest.mark.parametrize("seed", slow_but(range(12), range(200)))
def test_random_programs(seed: int) -> None:
    assert found(seed) == ""
