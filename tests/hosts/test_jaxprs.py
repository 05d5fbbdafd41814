"""Functions of JAX as entries: structures, sizes by name, derivatives, backends, errors."""

from __future__ import annotations

import collections
import dataclasses
import pickle
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from jax import lax  # noqa: E402
from jax import numpy as jnp  # noqa: E402

import futad  # noqa: E402
import futad.jax  # noqa: E402
from futad.core import ir  # noqa: E402
from futad.errors import DtypeError, ShapeError, UsageError  # noqa: E402
from futad.jax import f32, f64, i32  # noqa: E402
from tests.support.jaxprs import agrees, leaves, same  # noqa: E402
from tests.support.needs import needs_cc  # noqa: E402

R = np.random.default_rng(5)


def loss(params: Any, x: Any, y: Any) -> Any:
    hidden = jnp.tanh(x @ params["w"] + params["b"])
    return ((hidden.sum(axis=1) - y) ** 2).mean()


PARAMS = {"w": R.normal(size=(3, 4)), "b": R.normal(size=4)}
DATA = (R.normal(size=(7, 3)), R.normal(size=7))


def compiled(backend: str) -> Any:
    spec = {"w": f64["d", "h"], "b": f64["h"]}
    return futad.jax.compile(loss, spec, f64["n", "d"], "f64[n]", backend=backend)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["interp", pytest.param("c", marks=needs_cc)])
def test_a_loss_with_sizes_by_name(backend: str) -> None:
    f = compiled(backend)
    for n, d, h in ((7, 3, 4), (1, 2, 1), (20, 5, 6)):
        params = {"w": R.normal(size=(d, h)), "b": R.normal(size=h)}
        x, y = R.normal(size=(n, d)), R.normal(size=n)
        with jax.enable_x64(True):
            value, g = jax.value_and_grad(loss)(params, x, y)
            curved = jax.jvp(jax.grad(loss), (params, x, y), (params, 0 * x, 0 * y))[1]
        same(f(params, x, y), value, 1e-14)
        same(futad.grad(f)(params, x, y), g, 1e-12)
        same(futad.hvp(futad.bind(f, x=x, y=y), (params,), (params,)), curved, 1e-11)


def test_other_shapes_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    f = compiled("interp")
    f(PARAMS, *DATA)
    g = futad.grad(f)
    g(PARAMS, *DATA)
    from futad import pipeline

    monkeypatch.setattr(pipeline, "compile_program", None)
    small = {"w": np.ones((2, 5)), "b": np.zeros(5)}
    f(small, np.ones((3, 2)), np.ones(3))
    g(small, np.ones((3, 2)), np.ones(3))


def test_sizes_that_are_expressions() -> None:
    def f(x: Any, y: Any) -> Any:
        joined = jnp.concatenate([x, y])
        return joined, joined.reshape(3, -1).sum(0), jnp.arange(x.shape[0]) + x.shape[0] // 2, x.mean()

    entry = futad.jax.compile(f, f64["n"], f64["2*n"], backend="interp")
    x, y = R.normal(size=4), R.normal(size=8)
    with jax.enable_x64(True):
        same(entry(x, y), f(jnp.asarray(x), jnp.asarray(y)), 1e-15)
    with pytest.raises(futad.errors.Error, match="2\\*n"):
        entry(x, R.normal(size=7))
    with pytest.raises(UsageError, match="'n'"):
        futad.jax.compile(lambda x: x.sum(), f64["2*n"])


def test_symbols_of_jax() -> None:
    n, m = jax.export.symbolic_shape("n, m")
    entry = futad.jax.compile(lambda x, y: x @ y, jax.ShapeDtypeStruct((n, m), "float32"), f32["m"], backend="interp")
    assert entry.entry.params[0][1].text == "[n][m]f32"
    np.testing.assert_allclose(entry(np.ones((2, 3), np.float32), np.ones(3, np.float32)), [3, 3])


class Point(collections.namedtuple("Point", ["x", "y"])):
    pass


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Model:
    w: Any
    b: Any


class Bare:
    pass


jax.tree_util.register_pytree_node(Bare, lambda _: ((1.0,), None), lambda _, parts: Bare())


def test_trees() -> None:
    def f(p: Any, m: Any, xs: Any, nothing: Any) -> Any:
        a, (b, c) = xs
        return {"sum": p.x + p.y, "pair": (m.w * a, [b, c])}, Point(m.b, a), nothing

    entry = futad.jax.compile(f, Point(f64, f64), Model("f64[3]", f64), (f64, [f64, i32]), None, backend="interp")
    out, point, nothing = entry(Point(1.0, 2.0), Model(np.ones(3), 4.0), (5.0, [6.0, 7]), ())
    assert out["sum"] == 3.0 and out.pair[0].tolist() == [5.0] * 3 and out["pair"][1] == (6.0, 7)
    assert (point.x, point.y) == (4.0, 5.0) and nothing == ()
    assert entry({"x": 1.0, "y": 2.0}, {"w": np.ones(3), "b": 4.0}, (5.0, (6.0, 7)), ())[0].sum == 3.0
    with pytest.raises(UsageError, match="key 3"):
        futad.jax.compile(lambda p: p[3], {3: f64})
    with pytest.raises(UsageError, match="have no names"):
        futad.jax.compile(lambda p: 1.0, Bare())


def test_results_that_are_arguments_or_constants() -> None:
    x = R.normal(size=(2, 3))
    agrees(lambda x: (x, x, x.T, 1.0, jnp.zeros(3), np.arange(6.0).reshape(2, 3) ** 2, x[0]), [x])


def test_large_constants_are_arguments() -> None:
    table, places = R.normal(size=(40, 10)), R.permutation(500)
    entry = agrees(lambda x: (table * x).sum(0)[places % 10], [np.float64(2.0)])
    assert list(entry.__signature__.parameters) == ["x"]
    assert len(entry.executable.core.funs["main"].body.params) == 3
    total = agrees(lambda x: (table * x).sum(), [np.float64(2.0)])
    np.testing.assert_allclose(futad.grad(total)(2.0), table.sum())


def test_float32_without_the_64_bit_mode() -> None:
    entry = futad.jax.compile(lambda x: x.mean() + 0.5, np.ones(3, np.float32), backend="interp")
    assert entry(np.ones(3, np.float32)).dtype == np.float32
    assert not jax.config.jax_enable_x64
    wide = futad.jax.compile(lambda x: (x / 3).sum(), f64["n"], backend="interp")
    assert wide(np.ones(3)) == 1.0 and not jax.config.jax_enable_x64


@jax.custom_vjp
def tripled(x: Any, k: Any) -> Any:
    return x * k


tripled.defvjp(lambda x, k: (x * k, (x, k)), lambda kept, g: (3 * g * kept[1], None))


@jax.custom_jvp
def claimed(x: Any) -> Any:
    return jnp.sin(x)


claimed.defjvp(lambda primals, tangents: (jnp.sin(primals[0]), 7 * tangents[0] * primals[0]))


def test_derivatives_of_ones_own() -> None:
    x = R.normal(size=3)
    f = futad.jax.compile(lambda x: (tripled(x, 2) ** 2).sum(), f64[3], backend="interp")
    np.testing.assert_allclose(futad.grad(f)(x), 2 * (2 * x) * 6)
    g = futad.jax.compile(lambda x: (claimed(x) ** 2).sum(), f64[3], backend="interp")
    np.testing.assert_allclose(futad.grad(g)(x), 2 * np.sin(x) * 7 * x)
    np.testing.assert_allclose(futad.jvp(g, (x,), (x,))[1], (2 * np.sin(x) * 7 * x * x).sum())


@jax.custom_jvp
def softplus(x: Any) -> Any:
    return jnp.log1p(jnp.exp(x))


@softplus.defjvp
def _(primals: Any, tangents: Any) -> Any:
    return softplus(*primals), tangents[0] / (1 + jnp.exp(-primals[0]))


@pytest.mark.slow
def test_second_derivatives_of_ones_own() -> None:
    x = np.array([-1.0, 0.5, 800.0])  # where exp overflows, and its own derivative would be NaN
    f = futad.jax.compile(lambda x: softplus(x).sum(), f64[3], backend="interp")
    np.testing.assert_allclose(futad.grad(f)(x), 1 / (1 + np.exp(-x)))
    y = x[:2]
    g = futad.jax.compile(lambda x: (softplus(x) ** 2).sum(), f64[2], backend="interp")
    with jax.enable_x64(True):
        same(futad.hessian(g)(y), jax.hessian(lambda x: (softplus(x) ** 2).sum())(jnp.asarray(y)), 1e-12)


def test_kinks_have_the_derivatives_of_jax_functions() -> None:
    x = np.array([-1.0, 0.0, 2.0])
    f = futad.jax.compile(lambda x: jax.nn.relu(x).sum(), f64[3], backend="interp")
    np.testing.assert_array_equal(futad.grad(f)(x), [0, 0, 1])
    g = futad.jax.compile(lambda x: jnp.logaddexp(x, -jnp.inf).sum() + jnp.abs(x).sum(), f64[3], backend="interp")
    np.testing.assert_array_equal(futad.grad(g)(x), [0, 1, 2])


def test_stop_gradient() -> None:
    f = futad.jax.compile(lambda x: (x * lax.stop_gradient(x)).sum(), f64["n"], backend="interp")
    x = R.normal(size=4)
    np.testing.assert_array_equal(futad.grad(f)(x), x)
    np.testing.assert_array_equal(futad.jvp(f, (x,), (np.ones(4),))[1], x.sum())


@pytest.mark.slow
def test_second_derivatives_of_solves() -> None:
    a = R.normal(size=(3, 3)) + 4 * np.eye(3)

    def f(s: Any) -> Any:
        return jnp.linalg.solve(a * s[0] + jnp.eye(3) * s[1], jnp.ones(3) * s[0] ** 2).sum()

    s = np.array([1.2, 0.7])
    entry = futad.jax.compile(f, f64[2], backend="interp")
    with jax.enable_x64(True):
        same(futad.hessian(entry)(s), jax.hessian(f)(jnp.asarray(s)), 1e-11)


def test_an_unsupported_primitive_is_named_with_the_line() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        return jnp.linalg.eigvals(y).real.sum()

    line = f.__code__.co_firstlineno + 2
    with pytest.raises(UsageError, match=f"test_jaxprs.py:{line}:.*primitive 'eig' has no rule"):
        futad.jax.compile(f, f64[3, 3])


def test_wrong_input() -> None:
    with pytest.raises(UsageError, match="takes a function"):
        futad.jax.compile(3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="'f99\\[n\\]' is not an element type"):
        futad.jax.compile(jnp.sin, "f99[n]")
    with pytest.raises(UsageError, match="argument 'x' is a object"):
        futad.jax.compile(lambda x: x, object())
    with pytest.raises(DtypeError, match="complex64"):
        futad.jax.compile(jnp.real, jax.ShapeDtypeStruct((3,), jnp.complex64))
    with pytest.raises(UsageError, match="not understood"):
        futad.jax.compile(jnp.sin, f64["n +"])
    f = futad.jax.compile(lambda x, y: x @ y, f64["n", "m"], f64["m"], backend="interp")
    with pytest.raises(ShapeError, match="argument 'y'"):
        f(np.ones((2, 3)), np.ones(4))
    with pytest.raises(AttributeError, match="no attribute 'f128'"):
        _ = futad.jax.f128


@needs_cc
def test_updates_in_loops_are_in_place() -> None:
    """A loop that writes an element an iteration; were the array copied each time, this would take minutes."""

    def f(x: Any) -> Any:
        return lax.fori_loop(0, x.shape[0], lambda i, c: c.at[i].set(c[i - 1] + x[i]), x)

    x = R.normal(size=200_000)
    entry = futad.jax.compile(f, f64["n"], backend="c")
    np.testing.assert_allclose(entry(x), np.cumsum(x) + x[-1], rtol=1e-9, atol=1e-9)


def test_linear_algebra_has_the_derivatives_of_the_library() -> None:
    """From closed forms: no loop that saves a matrix in each iteration."""
    m = R.normal(size=(5, 5))
    a = (m @ m.T + 5 * np.eye(5)).astype(np.float32)
    for f in (jnp.linalg.cholesky, lambda a: jax.scipy.linalg.solve_triangular(a, a, lower=True)):
        entry = futad.jax.compile(f, f32["n", "n"], backend="interp")
        assert any(isinstance(s.exp, ir.WithVjp) for s in entry.executable.core.funs[entry.symbol].body.stms)
        np.testing.assert_allclose(entry(a), f(a), rtol=1e-5, atol=1e-5)
    indefinite = np.eye(5, dtype=np.float32)
    indefinite[3, 3] = -1
    entry = futad.jax.compile(jnp.linalg.cholesky, f32["n", "n"], backend="interp")
    np.testing.assert_array_equal(entry(indefinite), jnp.linalg.cholesky(indefinite))
    assert np.isnan(np.diagonal(entry(indefinite))).all()


@needs_cc
def test_pickled_entries_are_the_same() -> None:
    f = futad.jax.compile(loss, {"w": f64["d", "h"], "b": f64["h"]}, f64["n", "d"], f64["n"], backend="c")
    g = pickle.loads(pickle.dumps(futad.grad(f)))
    for ours, theirs in zip(leaves(g(PARAMS, *DATA)), leaves(futad.grad(f)(PARAMS, *DATA)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def closing(outside: bool) -> Any:
    """A function with a derivative of its own, where both use an array that is no argument."""

    def f(x: Any) -> Any:
        moved = jnp.asarray(TABLE) * 2

        @jax.custom_vjp
        def inner(y: Any) -> Any:
            return (jnp.sin(y) * (moved if outside else jnp.array(TABLE))).sum()

        inner.defvjp(lambda y: (inner(y), y), lambda y, g: (3 * g * y * jnp.array(TABLE),))
        return inner(x) ** 2

    return f


TABLE = R.normal(size=4)


def test_a_custom_derivative_of_what_closes_over_an_array() -> None:
    """JAX does not differentiate what the function closes over."""
    x = R.normal(size=4)
    with jax.enable_x64(True):
        (call,) = [e for e in jax.make_jaxpr(closing(False))(x).eqns if e.primitive.name == "custom_vjp_call"]
        assert call.params["num_consts"] == 1
        entry = futad.jax.compile(closing(False), f64[4], backend="interp")
        same(futad.grad(entry)(x), jax.grad(closing(False))(jnp.asarray(x)), 1e-13)


def test_a_custom_derivative_that_closes_over_what_the_function_computes_is_named() -> None:
    with pytest.raises(UsageError, match=r"(?s)test_jaxprs.py:\d+.*closes over a value that the function computes"):
        futad.jax.compile(closing(True), f64[4], backend="interp")


def test_known_indices_are_not_compared() -> None:
    """Reads at places that are constants, or computed from them, are clipped only where these may be outside."""
    r = np.random.default_rng(7)
    edges, x = r.integers(0, 50, size=(300, 2)), r.normal(size=50)

    def energy(x: Any) -> Any:
        return ((x[edges[:, 0]] - x[edges[:, 1] - 50]) ** 2).sum()  # the second from the end

    entry = agrees(energy, (x,))
    assert not {"min", "max"} & ops_of(entry)
    with jax.enable_x64(True):
        same(futad.grad(entry)(x), jax.grad(energy)(jnp.asarray(x)), 1e-12)

    def beyond(x: Any) -> Any:
        return x[edges[:, 0] + 1] * x.at[edges[:, 1] + 3].get(mode="fill", fill_value=2.0)

    assert {"min", "max"} <= ops_of(agrees(beyond, (x,)))
    columns = np.stack([edges[:, 0] % 5, edges[:, 1] % 10], axis=1)
    table = r.normal(size=(5, 10))
    agrees(lambda t: t[columns[:, 0], columns[:, 1]] + t[columns[:, 0] - 5, -columns[:, 1] - 1], (table,))
    agrees(lambda t: t[columns[:, 1], columns[:, 0]], (table,))  # 9 is not inside
    agrees(lambda t: t[jnp.where(columns[:, 0] > 2, columns[:, 0] * 3, 7)], (table,))
    agrees(lambda t, i: t[jnp.asarray(columns[:, 0]) + i], (table, np.int64(2)))


def ops_of(entry: Any) -> set[str]:
    """The scalar operations of an imported entry, after the simplifier."""
    from futad.pipeline import compile_program

    text = str(compile_program(entry.executable.core))
    return {name for name in ("min", "max") if f" {name}(" in text}


def test_a_size_of_nothing_is_refused() -> None:
    """JAX takes sizes to be positive, and reads `x[-1]` without a check."""
    entry = futad.jax.compile(lambda x: x[-1], "f64[n]", backend="interp")
    assert entry(np.array([1.0, 2.0])) == 2
    with pytest.raises(futad.errors.Error, match="the size n is 0, and has to be positive"):
        entry(np.zeros(0))
