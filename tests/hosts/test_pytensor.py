"""Entries as operations of PyTensor, and in PyMC."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import futad
from futad.api.program import Program

pytensor = pytest.importorskip("pytensor")
pt = pytest.importorskip("pytensor.tensor")

import futad.pytensor  # noqa: E402

SOURCE = """
type params [n] = {w: [n]f64, b: f64}
entry loss [m][n] (p: params [n]) (x: [m][n]f64) (y: [m]f64): f64 =
  f64.sum (map2 (\\r y -> (f64.tanh (f64.sum (map2 (*) r p.w) + p.b) - y) ** 2) x y)
entry pick [n] (k: i64) (x: [n]f64): ([k]f64, i64) = (tabulate k (\\i -> x[i % n] ** 3), k)
entry positive [n] (x: [n]f64): []f64 = filter (> 0) (map (** 3) x)
entry longer [n] (x: [n]f64): [n + 1]f64 = x ++ [1]
entry cleared [n] (x: *[n]f64): *[n]f64 = x with [0] = 0
entry at [n] (x: [n]f64) (i: i64): f64 = x[i]
entry logp [m] (mu: f64) (log_s: f64) (y: [m]f64): f64 =
  let s = f64.exp log_s
  in - f64.sum (map (\\y -> (y - mu) ** 2 / (2 * s * s) + log_s) y)
"""
QUICK = pytensor.compile.mode.Mode(linker="py", optimizer="fast_compile")  # without a C compiler
R = np.random.default_rng(0)
X, Y = R.normal(size=(5, 3)), R.normal(size=5)
P = {"w": np.array([1.0, -0.5, 2.0]), "b": 0.5}


@pytest.fixture(scope="module")
def prog() -> Program:
    return futad.compile(SOURCE, "fit.fut", backend="c")


@pytest.fixture(scope="module")
def applied(prog: Program) -> tuple[Any, Any, Any]:
    """The variables w and b, and the loss of them."""
    w, b = pt.dvector("w"), pt.dscalar("b")
    return w, b, futad.pytensor.op(prog.loss)({"w": w, "b": b}, X, Y)


def run(inputs: list[Any], outputs: Any, *args: Any) -> Any:
    return pytensor.function(inputs, outputs, mode=QUICK)(*args)


def test_derivatives_are_those_of_the_entry(prog: Program, applied: Any) -> None:
    w, b, loss = applied
    value, *slopes = run([w, b], [loss, *pytensor.grad(loss, [w, b])], P["w"], P["b"])
    expected, slope = futad.value_and_grad(prog.loss)(P, X, Y)
    np.testing.assert_allclose(value, expected, rtol=1e-14)
    np.testing.assert_allclose(slopes[0], slope.w, rtol=1e-13)
    np.testing.assert_allclose(slopes[1], slope.b, rtol=1e-13)
    second = run([w, b], pytensor.gradient.hessian(loss, w), P["w"], P["b"])
    np.testing.assert_allclose(second, futad.hessian(prog.loss)(P, X, Y).w.w, rtol=1e-12)
    t = pt.dvector("t")
    direction = np.array([1.0, 2.0, -1.0])
    pushed = pytensor.gradient.pushforward(loss, w, t, use_op_pushforward=True)
    forward = run([w, b, t], pushed, P["w"], P["b"], direction)
    np.testing.assert_allclose(forward, slope.w @ direction, rtol=1e-13)


def test_no_warning_in_the_default_mode(prog: Program) -> None:
    """Of the linker, or of methods with other names."""
    pytest.importorskip("numba")
    program = """
import warnings
warnings.simplefilter("error")
import futad, futad.pytensor
import pytensor, pytensor.tensor as pt
x = pt.dvector("x")
y = futad.pytensor.op(futad.compile("entry f (xs: []f64) = f64.sum (map f64.exp xs)", backend="interp").f)(x)
assert list(pytensor.function([x], pytensor.grad(y, x), mode="NUMBA")([0.0, 0.0])) == [1.0, 1.0]
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr


@pytest.mark.slow
def test_differences_agree(prog: Program) -> None:
    f = futad.pytensor.op(prog.loss)
    pytensor.gradient.verify_grad(lambda w, b: f({"w": w, "b": b}, X, Y), [P["w"], np.array(0.5)], rng=R)


def test_numbers_sizes_and_what_is_overwritten(prog: Program) -> None:
    k, x = pt.lscalar("k"), pt.dvector("x")
    rows, count = futad.pytensor.op(prog.pick)(k, x)
    made = run([k, x], [rows, count, rows.shape, pytensor.grad(rows.sum(), x)], 4, np.arange(3.0))
    for mine, expected in zip(made, ([0, 1, 8, 0], 4, [4], [0, 3, 12]), strict=True):
        np.testing.assert_array_equal(mine, expected)
    with pytest.raises(pytensor.gradient.DisconnectedInputError):
        pytensor.grad(rows.sum(), k)
    found = futad.pytensor.op(prog.positive)(x)
    made = run([x], [found, found.shape, pytensor.grad(found.sum(), x)], np.array([-1.0, 2.0, 3.0]))
    for mine, expected in zip(made, ([8, 27], [2], [0, 12, 27]), strict=True):
        np.testing.assert_array_equal(mine, expected)
    longer = futad.pytensor.op(prog.longer)(x)
    assert run([x], longer.shape, np.ones(3)) == [4]
    given = np.ones(3)
    np.testing.assert_array_equal(run([x], futad.pytensor.op(prog.cleared)(x), given), [0, 1, 1])
    np.testing.assert_array_equal(given, np.ones(3))
    narrow = pt.fvector("narrow")
    assert run([narrow], futad.pytensor.op(prog.at)(narrow, 1), np.arange(3, dtype=np.float32)) == 1


def test_batches(prog: Program, applied: Any) -> None:
    from pytensor.graph.replace import vectorize_graph

    w, b, loss = applied
    ws, bs = R.normal(size=(4, 3)), R.normal(size=(2, 4))
    each = np.array([prog.loss({"w": row, "b": 0.5}, X, Y) for row in ws])
    slopes = np.array([futad.grad(prog.loss)({"w": row, "b": 0.5}, X, Y).w for row in ws])
    many = pt.dmatrix("many")
    values, bars = vectorize_graph([loss, pytensor.grad(loss, w)], {w: many})
    values, bars = pytensor.function([many, b], [values, bars], mode=QUICK)(ws, 0.5)
    np.testing.assert_allclose(values, each, rtol=1e-13)
    np.testing.assert_allclose(bars, slopes, rtol=1e-12)
    wide, two = pt.tensor("wide", dtype="float64", shape=(1, None, None)), pt.dmatrix("two")
    [grid] = vectorize_graph([loss], {w: wide, b: two})
    expected = [[prog.loss({"w": ws[j], "b": bs[i, j]}, X, Y) for j in range(4)] for i in range(2)]
    np.testing.assert_allclose(run([wide, two], grid, ws[None], bs), expected, rtol=1e-13)
    total = vectorize_graph([loss], {w: many})[0].sum()
    np.testing.assert_allclose(run([many, b], pytensor.grad(total, many), ws, 0.5), slopes, rtol=1e-12)
    x = pt.dvector("x")
    [rows] = vectorize_graph([futad.pytensor.op(prog.positive)(x)], {x: many})  # PyTensor's own loop
    np.testing.assert_array_equal(run([many], rows, np.ones((2, 3))), np.ones((2, 3)))


def test_errors(prog: Program, applied: Any) -> None:
    w, b, loss = applied
    f, x, i = futad.pytensor.op(prog.loss), pt.dvector("x"), pt.lscalar("i")
    with pytest.raises(futad.ShapeError, match=r"argument 'p\.b': expected f64, which has rank 0, got .* rank 1"):
        f({"w": w, "b": w}, X, Y)
    with pytest.raises(futad.DtypeError, match=r"argument 'i': expected i64 \(int64\), got a variable of float64"):
        futad.pytensor.op(prog.at)(x, b)
    with pytest.raises(futad.InputError, match="field 'b' is missing"):
        f({"w": w}, X, Y)
    with pytest.raises(futad.UsageError, match="loss: missing a required argument"):
        f({"w": w, "b": b})
    with pytest.raises(futad.UsageError, match="takes an entry of a program, not function"):
        futad.pytensor.op(test_errors)  # type: ignore[arg-type]
    with pytest.raises(futad.ShapeError, match=r"argument 'x' of loss: dimension 1 is 3, but size n is 2"):
        run([w, b], loss, np.ones(2), 0.5)
    with pytest.raises(IndexError, match=r"fit\.fut:9:42: Error: Index \[7\] out of bounds for array of shape \[3\]"):
        run([x, i], futad.pytensor.op(prog.at)(x, i), np.ones(3), 7)


def test_pickled_functions_run(prog: Program, applied: Any) -> None:
    w, b, loss = applied
    f = pytensor.function([w, b], pytensor.grad(loss, w), mode=QUICK)
    there = pickle.loads(pickle.dumps(f))
    np.testing.assert_array_equal(there(P["w"], P["b"]), f(P["w"], P["b"]))
    assert pickle.loads(pickle.dumps(futad.pytensor.op(prog.loss))) is futad.pytensor.op(prog.loss)


@pytest.mark.slow
def test_pymc(prog: Program) -> None:
    pm = pytest.importorskip("pymc")
    y = np.random.default_rng(1).normal(2.0, 0.5, size=100)
    logp = futad.pytensor.op(prog.logp)
    with pm.Model():
        mu, log_s = pm.Normal("mu", 0, 10), pm.Normal("log_s", 0, 10)
        pm.Potential("points", logp(mu, log_s, y))
        best = pm.find_MAP(progressbar=False)
        drawn = pm.sample(200, tune=200, chains=2, cores=2, progressbar=False, random_seed=1).posterior
    assert abs(best["mu"] - y.mean()) < 0.01 and abs(np.exp(best["log_s"]) - y.std()) < 0.01
    assert abs(float(drawn["mu"].mean()) - y.mean()) < 0.05
    assert abs(float(np.exp(drawn["log_s"]).mean()) - y.std()) < 0.05
