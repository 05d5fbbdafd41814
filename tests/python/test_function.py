"""Functions of Python as entries: calls, derivatives, structures, static arguments, text, constructs, pickling."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
from dataclasses import dataclass
from typing import Annotated, NamedTuple, TypedDict

import numpy as np
import pytest

import futad
import futad.numpy as fnp
from futad.core.interp import Interpreter
from futad.numpy import Array, Float64, Int64, bool_, f32, f64, i64

X = np.array([0.5, -1.0, 2.0])


@futad.function(backend="c")
def cubes(x: f64["n"], scale: f64) -> f64:
    """The sum of cubes."""
    return scale * fnp.sum(x**3)


@pytest.mark.slow
def test_it_is_an_entry():
    assert isinstance(cubes, futad.Function) and cubes.entry.name == "cubes"
    assert cubes(X, 2) == 2 * (X**3).sum() and cubes(scale=1.0, x=X) == (X**3).sum()
    np.testing.assert_allclose(futad.grad(cubes)(X, 2.0), 6 * X**2)
    value, (dx, ds) = futad.value_and_grad(cubes, argnums=(0, 1))(X, 2.0)
    assert value == cubes(X, 2.0) and ds == (X**3).sum() and dx.shape == (3,)
    np.testing.assert_allclose(futad.hvp(cubes, (X, 1.0), (np.ones(3), None))[0], 6 * X)
    y, dy = futad.jvp(cubes, (X, 1.0), (np.ones(3), None))
    v, pull = futad.vjp(cubes, X, 1.0)
    assert y == v and dy == pytest.approx(pull(1.0)[0].sum())
    np.testing.assert_allclose(futad.hessian(cubes)(X, 1.0), np.diag(6 * X))
    np.testing.assert_allclose(futad.vmap(cubes, (0, None))(np.stack([X, X]), 1.0), [cubes(X, 1.0)] * 2)
    np.testing.assert_allclose(futad.bind(cubes, scale=3.0)(X), cubes(X, 3.0))
    assert cubes.shapes((7,), 1.0) == futad.Spec((), np.dtype(float))
    out = np.zeros(())
    assert cubes(X, 2.0, out=out) is out and out == cubes(X, 2.0)


def test_it_looks_like_the_function():
    assert cubes.__name__ == "cubes" and cubes.__doc__ == "The sum of cubes." and cubes.__module__ == __name__
    assert list(inspect.signature(cubes).parameters) == ["x", "scale"]
    assert cubes.source() == cubes.fut == """\
-- The sum of cubes.
entry cubes [n] (x: [n]f64) (scale: f64): f64 =
  scale * f64.sum (map (\\a -> a ** 3) x)
"""


def test_the_text_is_the_program():
    again = futad.compile(cubes.source(), backend="c")
    assert again.cubes(X, 2.0) == cubes(X, 2.0)


def test_sizes_of_all_calls_are_one_compilation():
    calls = []

    @futad.function(backend="interp")
    def total(x: f64["n"]) -> f64:
        calls.append(x)
        return fnp.sum(x)

    assert [total(np.ones(n)) for n in (0, 1, 5)] == [0, 1, 5] and len(calls) == 1


@pytest.mark.slow
def test_it_pickles_in_another_process():
    gradient = futad.grad(cubes)
    code = "import pickle, sys, numpy; print(pickle.load(sys.stdin.buffer)(numpy.ones(2), 1.0).tolist())"
    for f, expected in ((cubes, "2.0"), (gradient, "[3.0, 3.0]")):
        made = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(f), capture_output=True, check=True)
        assert made.stdout.decode().strip() == expected
    assert pickle.loads(pickle.dumps(gradient)) is gradient


@dataclass
class Layer:
    weights: f64["m", "n"]
    bias: f64["m"]


class Pair(NamedTuple):
    one: f64["n"]
    other: f64


class Options(TypedDict):
    rate: f64
    steps: i64


@futad.function(backend="c")
def layered(layer: Layer, pair: Pair, options: Options, both: tuple[f64["n"], f64], more: {"a": f64}):
    made = fnp.tanh(layer.weights @ (pair.one + both[0]) + layer.bias) * options["rate"]
    state = fnp.loop(options["steps"], lambda i, y: y * 0.5, made)
    layer = Layer(layer.weights * pair.other, state)
    return {"layer": layer, "pair": Pair(pair.one, both[1]), "both": (more["a"], state[0])}


@pytest.mark.slow
def test_structures_go_in_and_out():
    layer, pair = Layer(np.ones((2, 3)), np.zeros(2)), Pair(X, 2.0)
    made = layered(layer, pair, {"rate": 2.0, "steps": 1}, (X, 3.0), {"a": 5.0})
    assert type(made["layer"]) is Layer and type(made["pair"]) is Pair and set(made) == {"layer", "pair", "both"}
    expected = np.tanh(np.ones((2, 3)) @ (2 * X))
    np.testing.assert_allclose(made["layer"].bias, expected)
    np.testing.assert_array_equal(made["layer"].weights, 2 * np.ones((2, 3)))
    assert made["pair"].other == 3.0 and made["both"][0] == 5.0 and made["both"][1] == made["layer"].bias[0]
    assert "(layer: {weights: [m][n]f64, bias: [m]f64})" in layered.source()

    @futad.function(backend="c")
    def loss(layer: Layer, x: f64["n"]) -> f64:
        return fnp.sum((layer.weights @ x + layer.bias) ** 2)

    gradient = futad.grad(loss)(layer, X)
    np.testing.assert_allclose(gradient.bias, 2 * np.ones((2, 3)) @ X)
    np.testing.assert_allclose(gradient.weights, np.outer(2 * np.ones((2, 3)) @ X, X))


def test_static_arguments():
    @futad.function(backend="interp", static=("degree", "kind"))
    def poly(x: f64["n"], degree, kind="sum") -> f64:
        made = fnp.zeros_like(x)
        for k in range(degree):
            made = made + x**k
        return fnp.sum(made) if kind == "sum" else fnp.max(made)

    assert poly(X, 3) == sum((X**k).sum() for k in range(3))
    assert poly(X, degree=2, kind="max") == (1 + X).max()
    assert poly.at(degree=3) is poly.at(degree=3) and list(inspect.signature(poly.at(degree=3)).parameters) == ["x"]
    np.testing.assert_allclose(futad.grad(poly.at(degree=3))(X), 1 + 2 * X)
    with pytest.raises(futad.UsageError, match=r"poly.at\(degree=...\)"):
        futad.grad(poly)(X)
    with pytest.raises(futad.UsageError, match="not one of the static arguments"):
        poly.at(power=2)


@futad.function
def sqdist(p: f64["d"], c: f64["d"]) -> f64:
    return fnp.sum((p - c) ** 2)


@futad.function
def nearest(p: f64["d"], centres: f64["k", "d"]):
    all_of_them = fnp.map(lambda c: sqdist(p, c), centres)
    return {"place": fnp.argmin(all_of_them), "distance": fnp.min(all_of_them)}


@futad.function(backend="c")
def cost(points: f64["n", "d"], centres: f64["k", "d"]):
    found = fnp.map(lambda p: nearest(p, centres), points)
    return fnp.sum(found["distance"]), found["place"]


@pytest.mark.slow
def test_functions_that_are_called_are_definitions():
    text = cost.source()
    assert text.index("def sqdist [d]") < text.index("def nearest [d][k]") < text.index("entry cost [n][d][k]")
    points, centres = np.random.default_rng(0).normal(size=(2, 5, 3))
    centres = centres[:2]
    value, places = cost(points, centres)
    distances = ((points[:, None] - centres) ** 2).sum(2)
    np.testing.assert_allclose(value, distances.min(1).sum())
    np.testing.assert_array_equal(places, distances.argmin(1))


def test_a_function_whose_sizes_its_body_knows_is_traced_in_its_caller():
    @futad.function
    def counted(n: i64):
        return fnp.arange(n) * 2

    @futad.function(backend="interp")
    def total(n: i64):
        return fnp.sum(counted(n + 1))

    assert total(3) == 12 and "def counted" not in total.source()


def test_spellings_of_types():
    @futad.function(backend="interp")
    def f(
        a: Float64[Array, "n d"], b: Annotated[Array, f64["d"]], c: Int64[Array, "n"], d: float, e: int, g: bool,
        h: np.float32,
    ):  # fmt: skip
        return fnp.sum(a @ b) + fnp.sum(c) + d + e + g + h

    head = "entry f [n][d] (a: [n][d]f64) (b: [d]f64) (c: [n]i64) (d: f64) (e: i64) (g: bool) (h: f32)"
    assert " ".join(f.source().split()).startswith(head.replace("(d: f64)", "(d1: f64)"))
    assert f(np.ones((2, 3)), np.ones(3), [1, 2], 0.5, 1, True, 0.25) == 6 + 3 + 0.5 + 1 + 1 + 0.25


def test_sizes_that_are_expressions():
    @futad.function(backend="interp")
    def f(x: f64["n", 3], y: f64["n + 1"], z: f64["2 * n"]) -> f64["n"]:
        return fnp.sum(x, axis=1) + fnp.diff(y) + z[: x.shape[0]] + fnp.reshape(z, (x.shape[0], 2))[:, 1]

    x, y, z = np.ones((2, 3)), np.array([1.0, 3.0, 6.0]), np.arange(4.0)
    np.testing.assert_allclose(f(x, y, z), [3 + 2 + 0 + 1, 3 + 3 + 1 + 3])
    with pytest.raises(futad.ExecutionError, match="invalid sizes: one has size 2, but its type says 3"):
        f(x, y[:2], z)


@futad.function(backend="c")
def constructs(x: f64["n"], places: i64["n"], m: i64):
    top, at = fnp.reduce(
        lambda a, b: (fnp.where(b[0] > a[0], b[0], a[0]), fnp.where(b[0] > a[0], b[1], a[1])),
        (-fnp.inf, -1), (x, fnp.arange(x.shape[0])),
    )  # fmt: skip
    bins = fnp.hist(lambda a, b: a + b, 0.0, m, places, x)
    written = fnp.scatter(fnp.zeros(m), places, x)
    updated = bins.at[0].set(9.0).at[places].add(1.0).at[fnp.arange(1)].set(x[:1])
    root = fnp.while_loop(lambda r: r * r > 2.0, lambda r: r * 0.9, 8.0)
    a, b = fnp.loop(m, lambda i, a, b: (b, a + b), (0, 1))
    big = fnp.cond(top > 1.0, lambda: (x, 1), lambda: (x * 2, 2))
    kept = fnp.filter(lambda v: v > 0, x)
    return {
        "top": top, "at": at, "bins": bins, "written": written, "updated": updated, "root": root, "fib": (a, b),
        "big": big, "kept": kept, "count": kept.shape[0], "running": fnp.scan(fnp.maximum, -fnp.inf, x),
        "many": fnp.map(lambda v, i: (v, i, v + 1, i + 1, v + 2, i + 2, v * v), x, places),
        "six": fnp.map(lambda a, b, c, d, e, f: a + b * c - d + e * f, x, x, x, places, x, x),
        "two": x.at[1].add(5.0), "outer": fnp.map(lambda v: fnp.map(lambda w: v * w, x), x),
    }  # fmt: skip


@pytest.mark.slow
def test_constructs():
    x, places, m = np.array([0.5, -1.0, 2.0, 0.0]), np.array([1, 1, 7, 0]), 3
    made = constructs(x, places, m)
    for backend in ("interp", "multicore", "emulated"):
        other = futad.compile(constructs.source(), backend=backend).constructs(x, places, m)
        np.testing.assert_equal({**other, "fib": tuple(other["fib"])}, made)
    assert made["top"] == 2.0 and made["at"] == 2 and made["fib"] == (2, 3)
    np.testing.assert_allclose(made["bins"], [0.0, -0.5, 0.0])
    np.testing.assert_allclose(made["updated"], [0.5, 1.5, 0.0])
    assert made["written"][0] == 0.0 and made["written"][2] == 0.0 and made["written"][1] in (0.5, -1.0)
    assert made["root"] < 2**0.5 < made["root"] / 0.9
    assert made["big"][1] == 1 and made["count"] == 2
    np.testing.assert_array_equal(made["kept"], [0.5, 2.0])
    np.testing.assert_array_equal(made["running"], np.maximum.accumulate(x))
    np.testing.assert_allclose(made["two"], [0.5, 4.0, 2.0, 0.0])
    np.testing.assert_allclose(made["many"][6], x * x)
    np.testing.assert_allclose(made["many"][5], places + 2)
    np.testing.assert_allclose(made["six"], x + x * x - places + x * x)
    np.testing.assert_allclose(made["outer"], np.outer(x, x))


@pytest.mark.slow
def test_derivatives_inside():
    @futad.function(backend="c")
    def newton(x: f64["n"], y: f64):
        def f(v, w):
            return fnp.sum(v**3) * w

        value, (dx, dy) = fnp.value_and_grad(f, (0, 1))(x, y)
        along = fnp.jvp(fnp.grad(f), (x, y), (fnp.ones_like(x), 0.0))
        special = fnp.grad(lambda v: fnp.with_vjp(lambda u: u * u, lambda r, bar: 100 * bar, v))(y)
        _, (back,) = fnp.vjp(lambda v: v[::-1] * 2, (x,), x)
        return value, dx, dy, along[1], special, back

    value, dx, dy, along, special, back = newton(X, 2.0)
    assert value == pytest.approx(2 * (X**3).sum()) and dy == pytest.approx((X**3).sum()) and special == 100
    np.testing.assert_allclose(dx, 6 * X**2)
    np.testing.assert_allclose(along, 12 * X)
    np.testing.assert_allclose(back, 2 * X[::-1])


@pytest.mark.slow
def test_derivatives_of_loops_and_branches():
    @futad.function(backend="c")
    def steps(x: f64, n: i64) -> f64:
        y = fnp.loop(n, lambda i, y: fnp.sin(y) + x * 0.1, x, attributes="stripmine(1)")
        return fnp.while_loop(lambda y: y > 0.3, lambda y: y * y, fnp.cond(y > 0.5, lambda: y, lambda: y * 2))

    assert "#[stripmine(1)]" in steps.source()
    for x in (0.3, 0.9, 1.2):
        d = 1e-6
        difference = (steps(x + d, 5) - steps(x - d, 5)) / (2 * d)
        assert futad.grad(steps)(x, 5) == pytest.approx(difference, rel=1e-6)


def test_types_of_states_follow_the_body():
    @futad.function(backend="interp")
    def f(x: f32["n"], n: i64):
        total = fnp.loop(n, lambda i, s: s + x[i], 0)
        count = fnp.cond(n > 2, lambda: 0, lambda: total)
        return total, count

    total, count = f(np.ones(2, np.float32), 2)
    assert (total, count) == (2, 2) and total.dtype == count.dtype == np.float32


def test_options_of_programs():
    f = futad.function(backend="interp", checkpoint=2)(lambda x: x)
    assert f.options == {"backend": "interp", "checkpoint": 2}


def test_names_are_the_users():
    @futad.function
    def scores(x: f64["n"], map: f64) -> f64["n"]:
        shifted = x - fnp.max(x)
        weights = fnp.exp(shifted)
        total = fnp.sum(weights)
        return map * weights / total

    assert scores.source() == """\
entry scores [n] (x: [n]f64) (map_: f64): [n]f64 =
  let maximum = f64.maximum x
  let shifted = map (\\a -> a - maximum) x
  let weights = map f64.exp shifted
  let total = f64.sum weights
  in map (\\a -> map_ * a / total) weights
"""


def test_the_core_is_what_the_text_says():
    core = futad.compile(cubes.source()).core
    assert Interpreter(core).run("cubes", [np.int64(3), X, np.float64(2.0)])[0] == pytest.approx(cubes(X, 2.0))


def test_bools_and_arrays_of_constants():
    table = np.array([[1, 2], [3, 4]])

    @futad.function(backend="interp")
    def f(b: bool_["n"], i: i64):
        product = table @ fnp.stack([i, i])
        return fnp.asarray(table)[i] * 2, product, ~b & True, fnp.asarray([[0.5]]) + 1, fnp.zeros((0, 2))

    made = f([True, False], 1)
    np.testing.assert_array_equal(made[0], [6, 8])
    np.testing.assert_array_equal(made[1], [3, 7])
    np.testing.assert_array_equal(made[2], [False, True])
    assert made[3] == 1.5 and made[4].shape == (0, 2)


@dataclass
class Scaled(Layer):
    scale: f64


def test_fields_that_a_class_inherits():
    @futad.function(backend="interp")
    def f(p: Scaled) -> f64:
        return fnp.sum(p.bias @ p.weights) * p.scale

    p = Scaled(np.ones((2, 2)), np.ones(2), 3.0)
    assert f(p) == 12.0 and list(futad.grad(f)(p)) == ["weights", "bias", "scale"]


def test_methods_of_arrays():
    @futad.function(backend="interp")
    def f(x: f64["n", "m"]):
        y = x.sum(axis=0, keepdims=True).std() + x.cumsum().dot(x.ravel()) + x.var(axis=1, ddof=1).max()
        return y, (x > 0).any(axis=1).all(), x.argmax(), x.argmin(axis=1), x.mean(axis=1, keepdims=True)

    x = np.random.default_rng(0).normal(size=(3, 4))
    want = x.sum(axis=0, keepdims=True).std() + x.cumsum().dot(x.ravel()) + x.var(axis=1, ddof=1).max()
    y, positive, top, least, means = f(x)
    np.testing.assert_allclose(y, want)
    assert positive == (x > 0).any(axis=1).all() and top == x.argmax()
    np.testing.assert_array_equal(least, x.argmin(axis=1))
    np.testing.assert_allclose(means, x.mean(axis=1, keepdims=True))
