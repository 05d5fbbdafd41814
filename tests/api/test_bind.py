"""Entries with arguments bound."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import futad
from futad.api.program import Program
from futad.errors import DtypeError, ShapeError, UsageError
from futad.testing import check_grads

SOURCE = """
entry loss [n] (w: {a: [n]f64, b: f64}) (x: [n]f64) (k: i64): f64 =
  f64.sum (map2 (\\a x -> (a * x + w.b) ** f64.i64 k) w.a x)
entry put [n] (xs: *[n]f64) (i: i64): [n]f64 = xs with [i] = 0
entry flatten [n][m] (xss: [n][m]f64) (y: [m]f64): [m]f64 = map2 (+) y (map f64.sum (transpose xss))
"""
X = np.array([3.0, -1.0, 0.5])
W = {"a": np.array([1.0, 2.0, -1.0]), "b": 0.25}


@pytest.fixture(scope="module", params=["interp", "c"])
def prog(request: pytest.FixtureRequest) -> Program:
    return futad.compile(SOURCE, backend=request.param)


@pytest.mark.slow
def test_values_and_derivatives_are_those_of_the_whole(prog: Program) -> None:
    f = futad.bind(prog.loss, x=X, k=3)
    assert f(W) == f(w=W) == prog.loss(W, X, 3)
    assert str(futad.grad(f)(W)) == str(futad.grad(prog.loss)(W, X, 3))
    value, pull = futad.vjp(f, W)
    assert value == f(W) and pull(2.0)[0].b == pytest.approx(2 * futad.grad(f)(W).b)
    v = {"a": np.ones(3), "b": -1.0}
    (product,) = futad.hvp(f, (W,), (v,))
    assert str(product) == str(futad.hvp(prog.loss, (W, X, 3), (v, None, None))[0])
    assert futad.jvp(f, (W,), (v,))[1] == futad.jvp(prog.loss, (W, X, 3), (v, None, None))[1]
    check_grads(f, W, order=2)


@pytest.mark.slow
def test_argnums_count_free_arguments(prog: Program) -> None:
    f = futad.bind(prog.loss, W)
    assert [name for name, _ in f.entry.params] == ["x", "k"] and "loss (x: [n]f64) (k: i64): f64" in repr(f)
    assert futad.grad(f)(X, 2).tolist() == futad.grad(prog.loss, 1)(W, X, 2).tolist()
    g = futad.bind(futad.bind(prog.loss, ..., X), k=2)
    assert g(W) == prog.loss(W, X, 2) and g.of is prog.loss
    assert futad.bind(prog.loss) is prog.loss


@pytest.mark.slow
def test_batches_have_bound_arguments_in_common(prog: Program) -> None:
    f = futad.bind(prog.loss, x=X, k=2)
    many = futad.vmap(f)({"a": np.stack([W["a"], X]), "b": np.array([0.25, 1.0])})
    assert many.tolist() == [f(W), f({"a": X, "b": 1.0})]


def test_it_pickles_and_tells_shapes(prog: Program) -> None:
    f = futad.bind(prog.loss, x=X, k=2)
    again = pickle.loads(pickle.dumps(f))
    assert again(W) == f(W) and again.of is prog.loss
    assert futad.grad(f).shapes({"a": (3,), "b": ()}).a.shape == (3,)
    with pytest.raises(ShapeError):
        f.shapes({"a": (4,), "b": ()})
    out = np.zeros(())
    assert f(W, out=out) is out and out == f(W)


def test_bound_arrays_are_seen_as_they_are_and_never_changed(prog: Program) -> None:
    x = X.copy()
    f = futad.bind(prog.loss, x=x, k=2)
    before = f(W)
    x[:] = 0
    assert f(W) == prog.loss(W, x, 2) != before
    xs = np.ones(3)
    put = futad.bind(prog.put, xs)
    assert put(1).tolist() == [1, 0, 1] and put.call_leaves([np.int64(0)])[0].tolist() == [0, 1, 1]
    assert xs.tolist() == [1, 1, 1]
    assert futad.bind(prog.flatten, [])(np.ones(2)).tolist() == [1, 1]


def test_wrong_bindings(prog: Program) -> None:
    with pytest.raises(UsageError, match="bind: loss has no argument 'z'"):
        futad.bind(prog.loss, z=1)
    with pytest.raises(UsageError, match="bind: argument 'w' of loss is given twice"):
        futad.bind(prog.loss, W, w=W)
    with pytest.raises(UsageError, match="bind: loss takes 3 arguments, not 4"):
        futad.bind(prog.loss, 1, 2, 3, 4)
    with pytest.raises(UsageError, match="bind takes an entry of a program, not function"):
        futad.bind(lambda x: x)
    with pytest.raises(DtypeError, match="argument 'x'"):
        futad.bind(prog.loss, x=np.arange(3))
    f = futad.bind(prog.loss, x=X, k=2)
    with pytest.raises(UsageError, match="loss takes 1 argument, not 2"):
        f(W, X)
    with pytest.raises(ShapeError, match="argument 'x' of loss: dimension 0 is 3, but size n is 1 by argument 'w.a'"):
        f({"a": [1.0], "b": 0.0})


def test_calls_of_plain_arguments_look_at_those_that_are_free() -> None:
    prog = futad.compile(
        """
        entry f [n] (x: [n]f64) (y: [n]f64) (k: i64) (zs: *[k]f64) (u: [2]f64): [k]f64 =
          zs with [0] = f64.sum x * f64.sum y + u[1]
        """,
        backend="c",
    )
    x, z, u = np.array([1.0, 2.0]), np.zeros(3), np.array([0.5, 7.0])
    f = futad.bind(prog.f, x=x, k=3, zs=z, u=u)
    for _ in range(2):
        assert f(np.array([1.0, 10.0])).tolist() == [40, 0, 0]
    assert z.tolist() == [0, 0, 0]  # what is consumed is copied for each call
    x[0] = 2
    assert f(np.array([[1.0, 0], [10.0, 0]])[:, 0]).tolist() == [51, 0, 0]  # not in order: converted
    assert f([1, 10]).tolist() == [51, 0, 0]
    with pytest.raises(ShapeError, match="argument 'y' of f: dimension 0 is 3, but size n is 2 by argument 'x'"):
        f(np.ones(3))
    with pytest.raises(DtypeError, match="argument 'y'"):
        f(np.ones(2, np.int64))
    sizes = futad.bind(prog.f, x, x, zs=z, u=u)
    assert sizes(3).tolist() == [23, 0, 0]
    with pytest.raises(ShapeError, match="'zs' of f: dimension 0 is 3, but must equal argument 'k', which is 2"):
        sizes(2)
    for wrong in ({"y": np.ones(3)}, {"u": np.ones(3)}):
        with pytest.raises(ShapeError):
            futad.bind(prog.f, **{"x": x, "y": x, "k": 3, "zs": z} | wrong)(*([] if "u" in wrong else [u]))
    everything = futad.bind(prog.f, x, x, 3, z, u)
    assert everything().tolist() == [23, 0, 0]
    with pytest.raises(UsageError, match="takes 0 arguments"):
        everything(u)
    none = futad.bind(prog.f, x=np.ones(0), zs=z, u=u)
    assert none(np.ones(0), 3).tolist() == [7, 0, 0]
