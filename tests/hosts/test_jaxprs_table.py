"""The table of rules: every primitive, at its element types, against JAX; values at edges, and derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from jax import lax  # noqa: E402
from jax import numpy as jnp  # noqa: E402
from jax.ad_checkpoint import checkpoint_name  # noqa: E402

import futad  # noqa: E402
import futad.jax  # noqa: E402
from futad.jax.jaxprs.table import RULES  # noqa: E402
from tests.support.jaxprs import agrees, derivatives_agree, same  # noqa: E402

FLOATS, INTS, UINTS = ("float32", "float64"), ("int32", "int64", "int8"), ("uint32", "uint8")
NUMBERS, WHOLE, BITS = FLOATS + INTS + UINTS, INTS + UINTS, INTS + UINTS + ("bool",)
R = np.random.default_rng(3)


def numbers(dtype: str, count: int = 2) -> list[np.ndarray]:
    """Vectors with all pairs of special values (of one argument: the values)."""
    if dtype == "bool":
        values = np.array([False, True])
    elif dtype.startswith("float"):
        values = np.array([0.0, -0.0, 0.25, -0.75, 1.0, -1.0, 2.5, -3.5, 0.5, 1e3, np.inf, -np.inf, np.nan], dtype)
    else:
        info = np.iinfo(dtype)
        few = [0, 1, 2, 3, 5, 7, info.max, info.min, info.max - 1]
        values = np.array(few + ([-1, -2, -7] if info.min else []), dtype)
    grids = np.meshgrid(*[values] * count, indexing="ij")
    return [g.ravel() for g in grids]


# name of the primitive: element types, number of operands
POINTWISE: dict[str, tuple[Callable[..., Any], tuple[str, ...], int]] = {
    "neg": (lax.neg, NUMBERS, 1), "abs": (lax.abs, FLOATS + INTS, 1), "sign": (lax.sign, NUMBERS, 1),
    "exp": (lax.exp, FLOATS, 1), "exp2": (lax.exp2, FLOATS, 1), "expm1": (lax.expm1, FLOATS, 1),
    "log": (lax.log, FLOATS, 1), "log1p": (lax.log1p, FLOATS, 1), "sqrt": (lax.sqrt, FLOATS, 1),
    "rsqrt": (lax.rsqrt, FLOATS, 1), "cbrt": (lax.cbrt, FLOATS, 1), "sin": (lax.sin, FLOATS, 1),
    "cos": (lax.cos, FLOATS, 1), "tan": (lax.tan, FLOATS, 1), "asin": (lax.asin, FLOATS, 1),
    "acos": (lax.acos, FLOATS, 1), "atan": (lax.atan, FLOATS, 1), "sinh": (lax.sinh, FLOATS, 1),
    "cosh": (lax.cosh, FLOATS, 1), "tanh": (lax.tanh, FLOATS, 1), "asinh": (lax.asinh, FLOATS, 1),
    "acosh": (lax.acosh, FLOATS, 1), "atanh": (lax.atanh, FLOATS, 1), "lgamma": (lax.lgamma, FLOATS, 1),
    "digamma": (lax.digamma, FLOATS, 1), "erf": (lax.erf, FLOATS, 1), "erfc": (lax.erfc, FLOATS, 1),
    "erf_inv": (lax.erf_inv, FLOATS, 1), "logistic": (lax.logistic, FLOATS, 1), "square": (lax.square, NUMBERS, 1),
    "floor": (lax.floor, FLOATS, 1), "ceil": (lax.ceil, FLOATS, 1),
    "round": (lambda x: (lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), lax.round(x)), FLOATS, 1),
    "is_finite": (lax.is_finite, FLOATS, 1), "not": (lax.bitwise_not, BITS, 1),
    "population_count": (lax.population_count, WHOLE, 1), "clz": (lax.clz, WHOLE, 1),
    "integer_pow": (lambda x: (lax.integer_pow(x, 5), lax.integer_pow(x, 2), x**0), NUMBERS, 1),
    "stop_gradient": (lax.stop_gradient, FLOATS, 1),
    "reduce_precision": (lambda x: lax.reduce_precision(x, 5, 10), FLOATS, 1),
    "add": (lax.add, NUMBERS, 2), "sub": (lax.sub, NUMBERS, 2), "mul": (lax.mul, NUMBERS, 2),
    "div": (lax.div, NUMBERS, 2), "rem": (lax.rem, NUMBERS, 2), "max": (lax.max, NUMBERS + ("bool",), 2),
    "min": (lax.min, NUMBERS + ("bool",), 2), "pow": (lax.pow, FLOATS, 2), "atan2": (lax.atan2, FLOATS, 2),
    "nextafter": (lax.nextafter, FLOATS, 2), "and": (lax.bitwise_and, BITS, 2), "or": (lax.bitwise_or, BITS, 2),
    "xor": (lax.bitwise_xor, BITS, 2), "shift_left": (lax.shift_left, WHOLE, 2),
    "shift_right_logical": (lax.shift_right_logical, WHOLE, 2),
    "shift_right_arithmetic": (lax.shift_right_arithmetic, WHOLE, 2),
    "eq": (lax.eq, NUMBERS + ("bool",), 2), "ne": (lax.ne, NUMBERS, 2), "lt": (lax.lt, NUMBERS, 2),
    "le": (lax.le, NUMBERS, 2), "gt": (lax.gt, NUMBERS, 2), "ge": (lax.ge, NUMBERS, 2),
    "select_n": (lambda x, y: (lax.select(x < y, x, y), jnp.where(x == 0, 1, y)), NUMBERS, 2),
    "clamp": (lambda x, y: (lax.clamp(x.dtype.type(1), x, x.dtype.type(2)), lax.clamp(x, y, x)), NUMBERS, 2),
    "sort": (lambda x, y: lax.sort((x, y, y), num_keys=2), NUMBERS + ("bool",), 2),
    "argmax": (lambda x, y: (jnp.argmax(x), lax.argmin(y, 0, "int32"), jnp.argmin(x)), NUMBERS + ("bool",), 2),
    "reduce_max": (lambda x, y: (x.max(), y.min(), (x * 0).max()), NUMBERS + ("bool",), 2),
    "cummax": (lambda x, y: (lax.cummax(x), lax.cummin(y, reverse=True)), NUMBERS, 2),
    "reduce_and": (lambda x, y: ((x == y).all(), (x != x).any(), (x == y).any(0)), NUMBERS, 2),
    "bitwise_folds": (lambda x: [lax.reduce(x, x.dtype.type(0), lax.bitwise_xor, (0,)),
                                 lax.reduce(x, x.dtype.type(0), lax.bitwise_or, (0,)),
                                 lax.reduce(x, x.dtype.type(1), lax.bitwise_and, (0,))], WHOLE, 1),
    "top_k": (lambda x: lax.top_k(x, 4), NUMBERS, 1),
    "mulhi": (lax.mulhi, WHOLE, 2) if hasattr(lax, "mulhi") else (lax.mul, WHOLE, 2),
    "lt_to": (lambda x: jnp.searchsorted(jnp.sort(x), x), NUMBERS, 1),
}  # fmt: skip

# JAX's own errors; of exp2 it makes exp(x log 2), whose error grows with x.
LOOSE = {"digamma": 1e-12, "lgamma": 1e-13, "exp2": 1e-12, "normal f32": 4e-7}


def tolerance(name: str, dtype: str) -> float:
    return max(LOOSE.get(name, 0.0), 4e-6 if dtype == "float32" else 1e-14)


@pytest.mark.parametrize("name", POINTWISE)
def test_pointwise(name: str) -> None:
    f, dtypes, count = POINTWISE[name]
    for dtype in dtypes:
        if name == "sign" and dtype.startswith("float"):
            continue  # test_signs
        args = numbers(dtype, count)
        if name == "digamma":
            args = [x[x != 0] for x in args]  # where it is infinite, with the sign of -x, as in SciPy; in JAX NaN
        agrees(f, args, tolerance(name, dtype))


def test_functions_of_two_numbers_at_edges() -> None:
    a, x = (g.ravel() for g in np.meshgrid([0.5, 1.0, 30.0, -1.0, -1.5, np.nan], [0.0, 0.25, 2.0, 40.0, -0.75]))
    agrees(lambda a, x: (lax.igamma(a, x), lax.igammac(a, x)), [a, x], 1e-13)
    order, y = (g.ravel() for g in np.meshgrid([0.0, 1.0, 2.0, 5.0, 0.5, -1.0], [0.25, 1.0, 2.5, 40.0]))
    agrees(lambda k, y: lax.polygamma(k, y), [order, y], 1e-12)
    x, q = (g.ravel() for g in np.meshgrid([0.5, 1.0, 1.25, 4.0, np.nan], [0.125, 1.0, 50.0]))
    agrees(lambda x, q: lax.zeta(x, q), [x, q], 1e-14)


SLOPES: dict[str, tuple[Callable[[Any], Any], list[float]]] = {
    "logistic": (jax.nn.sigmoid, [-np.inf, -800.0, -100.0, -1.0, 0.0, 3.0, np.inf]),
    "silu": (jax.nn.silu, [-800.0, -100.0, 0.0, 2.0]),
    "rem": (lambda x: lax.rem(x, 1.5), [-3.0, 0.0, 1.5, 3.0, 4.0]),
    "mod": (lambda x: jnp.mod(x, -1.5), [-3.0, -1.0, 0.0, 1.5, 2.0, 3.0]),
    "rem of the divisor": (lambda y: lax.rem(jnp.full_like(y, -7.5), y), [2.0, -2.0, 1.75, np.inf]),
    "integer_pow": (lambda x: x**-2 + x**-1, [0.0, -0.0, 2.0, np.inf, -np.inf]),
    "max and min": (lambda x: (jnp.hypot(x, jnp.full_like(x, 3.0)), jax.nn.celu(x)), [3.0, -3.0, 0.0]),
    "max and min of two": (lambda x: jnp.maximum(x, 2 * x) * 3 + jnp.minimum(x, 2 * x) * 3, [0.0, 1.0]),
}  # fmt: skip


@pytest.mark.parametrize("name", SLOPES)
def test_slopes_where_a_formula_has_none(name: str) -> None:
    """Derivatives at ties, at zero, where a power is infinite: those of JAX, or of the limit."""
    f, places = SLOPES[name]

    def total(x: Any) -> Any:
        return sum([y.sum() for y in jax.tree.leaves(f(x))])

    for dtype in ("float64", "float32"):
        x = np.array(places, dtype)
        with jax.enable_x64(dtype == "float64"):
            wanted = jax.grad(total)(jnp.asarray(x))
        made = futad.grad(futad.jax.compile(total, x, backend="interp"))(x)
        relative = 1e-5 if dtype == "float32" else 1e-12
        np.testing.assert_allclose(made, wanted, rtol=relative, atol=1e-37)  # XLA has no smaller numbers


def test_integer_arguments_of_custom_derivatives() -> None:
    agrees(lambda x: (jnp.ldexp(x, 3), *jnp.frexp(x)), [np.array([0.3, -5.0, 0.0])])


def test_signs() -> None:
    """XLA's sign of -0 is -0, of NaN NaN."""
    agrees(lambda x: lax.sign(x) + 0.0, numbers("float64", 1))


@pytest.mark.parametrize("to", ["float32", "float64", "float16", "int32", "int8", "uint8", "uint32", "bool"])
def test_conversions(to: str) -> None:
    for dtype in ("float64", "float32", "int64", "int32", "uint8", "bool"):
        x = numbers(dtype, 1)[0]
        if dtype.startswith("float") and not to.startswith("float") and to != "bool":
            x = np.array([0.0, -0.0, 0.75, 1.5, 100.0], dtype)  # others have no defined result
        agrees(lambda x: x.astype(to), [x], 1e-15)


def test_bits_of_numbers() -> None:
    for x, to in (("float32", "uint32"), ("float64", "int64"), ("float64", "uint64"), ("uint32", "float32")):
        agrees(lambda v, to=to: lax.bitcast_convert_type(v, to), [numbers(x, 1)[0]])


X, Y, V = R.normal(size=(3, 4)), R.normal(size=(3, 4)), R.normal(size=5)
T = R.normal(size=(2, 3, 4))
A = R.normal(size=(4, 4))
S = A @ A.T + 4 * np.eye(4)
I = np.array([2, 0, -1, 7, 1, 1])  # noqa: E741


def scan(x: Any) -> Any:
    def step(carry: Any, row: Any) -> Any:
        return carry * 0.5 + jnp.sin(row).sum(), (carry + row[0], row * carry)

    return lax.scan(step, 1.0, x, reverse=True), lax.scan(step, 0.5, x)


def newton(x: Any) -> Any:
    """Cube roots: a loop whose number of iterations depends on the data."""

    def goes(state: Any) -> Any:
        return (jnp.abs(state**3 - x) > 1e-13 * x).any()

    return lax.while_loop(goes, lambda y: y - (y**3 - x) / (3 * y * y), x)


# What smooth (almost everywhere) functions of X and the like do: values, and derivatives.
SMOOTH: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "broadcast_in_dim": (lambda x: x[:, None, :] * x[None, :, :] + jnp.broadcast_to(x[0], (2, 3, 4))[0], [X]),
    "reshape": (lambda x: (x.reshape(2, 6), x.reshape(-1)[::-1], x.reshape(1, 3, 1, 4) + x.reshape(3, 1, 4)), [X]),
    "transpose": (lambda x: x.transpose(2, 0, 1) * 2, [T]),
    "squeeze": (lambda x: jnp.squeeze(x[:, :1], 1) + jnp.expand_dims(x, 1)[:, 0, 1], [X]),
    "concatenate": (lambda x: (jnp.concatenate([x, x * 2], 1), jnp.hstack([x, jnp.ones((3, 2))])), [X]),
    "stack": (lambda x: (jnp.stack([x, x * 2], 1), jnp.stack([jnp.zeros((3, 4)), x], 2)), [X]),
    "split": (lambda x: jnp.split(x, [1, 3], axis=1), [X]),
    "tile": (lambda x: jnp.tile(x, (2, 3)), [X]),
    "pad": (lambda x: (jnp.pad(x, ((1, 2), (0, 1))), lax.pad(x, 0.5, ((1, -1, 1), (-1, 0, 2)))), [X]),
    "rev": (lambda x: lax.rev(x, (0, 1)) * jnp.arange(4.0), [X]),
    "slice": (lambda x: (x[1:, ::2], lax.slice(x, (0, 1), (3, 4), (2, 3))), [X]),
    "unstack": (lambda x: jnp.unstack(x, axis=1), [X]),
    "scatter-sub": (lambda x, i: x.at[i].subtract(jnp.cos(x[i % 3])), [X, I]),
    "gradients": (lambda x: jax.grad(lambda y: (jnp.sin(y) * y).sum())(x), [X]),
    "permutation of pivots": (lambda a, p: a[lax.linalg.lu_pivots_to_permutation(p, 4)], [A, np.int32([2, 3, 2])]),
    "iota": (lambda x: x * lax.broadcasted_iota(jnp.float64, (3, 4), 1), [X]),
    "dynamic_slice": (lambda x, i: [lax.dynamic_slice(x, at, n) for at, n in (((i, 9), (2, 2)), ((-5, i), (1, 4)))],
                      [X, 1]),
    "dynamic_update_slice": (lambda x, i: lax.dynamic_update_slice(x, x[:2, :2] * 2, (i, 9)), [X, 1]),
    "dot_general": (lambda x, y: (x @ y.T, jnp.einsum("ij,ik->kj", x, y), jnp.einsum("ij,kl->ikjl", x, y)), [X, Y]),
    "dot_general of bools": (lambda x, y: ((x > 0) @ (y > 0).T, (x > 0) @ jnp.ones((4, 2), bool),
                                           jnp.broadcast_to(x[:1] > 9, (2, 4)).T @ jnp.ones((2, 3), bool)), [X, Y]),
    "dot_general batch": (lambda t, x: (jnp.einsum("bij,bkj->bik", t, t), jnp.einsum("bij,ij->b", t, x)), [T, X]),
    "dot_general of several axes": (
        lambda t, x: [jnp.einsum(e, a, b) for e, a, b in (
            ("vb,bij->vij", x.T, t.transpose(1, 0, 2)), ("ghd,tbd->tgbh", t, 2 * t), ("vb,bij->vij", x.T[:, :0], t[:0]),
            ("ib,jkb->ijk", jnp.broadcast_to(x[:1], (5, 4)), jnp.broadcast_to(x[None], (2, 3, 4))))], [T, X]),
    "reduce_sum": (lambda t: (t.sum(1), t.sum((0, 2)), t.sum(), jnp.broadcast_to(t[:1], (5, 3, 4)).sum(0)), [T]),
    "reduce_prod": (lambda x: (x.prod(0), x.prod()), [X]),
    "extremes": (lambda x: (x.max(0), x.min(1), x.max()), [X]),
    "reduce": (lambda x: lax.reduce(x, 0.5, lambda p, q: p + q, (0,)), [X]),
    "cumsum": (lambda x: (jnp.cumsum(x, 0), lax.cumsum(x, 1, reverse=True), jnp.cumprod(x, 1)), [X]),
    "cumlogsumexp": (lambda x: (lax.cumlogsumexp(x, 0), lax.cumlogsumexp(x, 1, reverse=True)), [X]),
    "cummax": (lambda x: (lax.cummax(x, 1), lax.cummin(x, 0, reverse=True)), [X]),
    "gather": (lambda x, i: (x[i % 3], x[:, i % 4], x[i % 3, i % 4], x[1, -i % 4]), [X, I]),
    "gather fill": (lambda x, i: jnp.nan_to_num(jnp.take(x, i, axis=1, mode="fill"), nan=3.0), [X, I]),
    "gather fill value": (lambda x, i: jnp.take(x, i, axis=0, mode="fill", fill_value=2.5), [X, I]),
    "gather clip": (lambda x, i: jnp.take(x, i, axis=1, mode="clip"), [X, I]),
    "gather batch": (lambda x, i: jnp.take_along_axis(x, jnp.abs(i)[None, :3] % 4 * jnp.ones((3, 1), int), 1), [X, I]),
    "scatter": (lambda x, i: x.at[jnp.array([0, 2])].set(x[:2] * 2), [X, I]),
    "scatter drop": (lambda x, i: x.at[jnp.array([1, 10])].set(jnp.sin(x[:2]), mode="drop"), [X, I]),
    "scatter clip": (lambda x, i: x.at[jnp.array([0, 10])].set(jnp.sin(x[:2]), mode="clip"), [X, I]),
    "scatter one": (lambda x: (x.at[1, 1:3].set(x[0, :2]), x.at[7].set(0.0), x.at[-1, 0].add(x[0, 0])), [X]),
    "scatter-add": (lambda x, i: x.at[i].add(jnp.cos(x[i])), [X, I]),
    "scatter-add columns": (lambda x, i: x.at[:, i].add(x[:, :1] ** 2), [X, I]),
    "scatter-mul": (lambda x, i: x.at[jnp.array([2, 0])].multiply(x[:2], unique_indices=True), [X, I]),
    "scatter-max": (lambda x, i: (x.at[i % 3, i % 4].max(x[0, i % 4]), x.at[i % 3].min(x[1])), [X, I]),
    "scatter windows": (lambda x, i: jax.vmap(lambda r, k: lax.dynamic_update_slice(r, r[:2] ** 2, (k,)))(x, i[:3]),
                        [X, I]),
    "segment_sum": (lambda x, i: jax.ops.segment_sum(x.ravel()[:6], i % 3, num_segments=3), [X, I]),
    "sort": (lambda x: (jnp.sort(x, 0), jnp.sort(x, 1, descending=True)), [X]),
    "sort pairs": (lambda x: lax.sort((x, jnp.sin(x)), dimension=1, num_keys=1), [X]),
    "top_k": (lambda x: lax.top_k(x, 2), [X]),
    "cond": (lambda x, i: lax.cond(i > 2, lambda y: y * 2, lambda y: y.at[0].set(jnp.sin(y[0])), x), [X, 3]),
    "switch": (lambda x, i: lax.switch(i, [jnp.sin, jnp.cos, lambda y: y * y], x), [X, 9]),
    "scan": (scan, [X]),
    "scan without carry": (lambda x: lax.map(lambda r: jnp.outer(r, r), x), [X]),
    "fori_loop": (lambda x: lax.fori_loop(0, 3, lambda i, c: c * x[i] + i, jnp.ones(4)), [X]),
    "associative_scan": (lambda x: lax.associative_scan(lambda p, q: p * q + p, x), [np.abs(V)]),
    "convolution": (lambda x: lax.conv_general_dilated(x[None, None], x[None, None, :2, :2], (1, 2), "SAME"), [X]),
    "convolution groups": (lambda x: lax.conv_general_dilated(
        x.reshape(1, 2, 6), x.reshape(-1)[:8].reshape(4, 1, 2), (1,), [(1, 2)], (2,), (2,), feature_group_count=2),
        [X]),
    "convolution batches": (lambda x: lax.conv_general_dilated(
        x.reshape(2, 2, 3), x.reshape(-1)[:8].reshape(2, 2, 2), (1,), [(0, 0)], batch_group_count=2), [X]),
    "reduce_window": (lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 2), (1, 1), "SAME", (2, 1), (1, 2)), [X]),
    "reduce_window_max": (lambda x: (
        lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (1, 1), "VALID"),
        lax.reduce_window(x, jnp.inf, lax.min, (2, 1), (1, 1), "SAME")), [X]),
    "chosen of windows": (lambda x: (
        jax.grad(lambda y: lax.reduce_window(y, -jnp.inf, lax.max, (2, 3), (1, 2), "SAME").prod())(x),
        jax.grad(lambda y: lax.reduce_window(y, jnp.inf, lax.min, (2, 2), (2, 1), "VALID").prod())(x),
        jax.jvp(lambda y: lax.reduce_window(y, -jnp.inf, lax.max, (2, 2), (1, 1), "SAME", (2, 1)),
                (x,), (jnp.sin(x),))[1]), [X]),
    "names and devices": (lambda x: checkpoint_name(jnp.sin(x), "s") + jax.device_put(x * 2), [X]),
    "tridiagonal_solve": (lambda a, y: lax.linalg.tridiagonal_solve(
        a.at[:, 0].set(0.0)[:3], a[:3] * 0.1, a.at[:, -1].set(0.0)[1:], y), [A, np.stack([X.T, Y.T, X.T])]),
    "cholesky": (lambda s: jnp.linalg.cholesky(s), [S]),
    "cholesky batch": (lambda s: jax.vmap(jnp.linalg.cholesky)(s * jnp.array([1.0, 2.0])[:, None, None]), [S]),
    "triangular_solve": (lambda s, y: [jax.scipy.linalg.solve_triangular(s, y, lower=low, trans=t, unit_diagonal=u)
                                       for low, t, u in ((True, 0, False), (False, 1, False), (True, 1, True))],
                         [S, X.T]),
    "triangular_solve right": (lambda s, y: lax.linalg.triangular_solve(s, y, left_side=False, lower=True), [S, X]),
    "solve": (lambda s, y: jnp.linalg.solve(s, y), [S, X.T]),
    "det": (lambda a: (jnp.linalg.det(a), jnp.linalg.slogdet(a)[1], jnp.linalg.inv(a)), [A]),
    "qr": (lambda a: (jnp.linalg.qr(a), jnp.linalg.qr(a[:, :2])), [A]),
    "qr batch": (lambda t: jnp.linalg.qr(t.transpose(0, 2, 1), mode="r"), [T]),
    "eigh": (lambda s: (jnp.linalg.eigvalsh(s), jnp.linalg.eigh(s)[1] ** 2, lax.linalg.eigh(s, lower=False)[0] ** 2),
             [S]),
    "svd": (lambda a: [jnp.linalg.svd(m, full_matrices=False)[k] ** 2 for m in (a, a[:3], a[:, :3]) for k in range(3)]
            + [jnp.linalg.norm(a[:, :2], 2), jnp.linalg.pinv(a[:2])], [A]),
    "logsumexp": (lambda x: (jax.scipy.special.logsumexp(x, axis=1), jax.nn.softmax(x, axis=0)), [X]),
    "activations": (lambda x: (jax.nn.relu(x), jax.nn.gelu(x), jax.nn.silu(x), jax.nn.softplus(x), jax.nn.elu(x)), [X]),
    "special": (lambda x: (jax.scipy.special.erfinv(jnp.tanh(x)), lax.lgamma(x * x), lax.digamma(1 + x * x)), [X]),
    "special of two": (lambda x: [f(1.0 + x * x, jnp.exp(2 * x)) for f in (lax.igamma, lax.igammac)], [X]),
    "incomplete beta": (lambda x: lax.betainc(1.5, 2.5, jax.nn.sigmoid(x)), [X]),
    "bessel": (lambda x: [f(4 * x) for f in (lax.bessel_i0e, lax.bessel_i1e, jax.scipy.special.i0)], [X]),
    "polygamma": (lambda x: [lax.polygamma(jnp.full_like(x, k), 1 + x * x) for k in (0, 1, 3)], [X]),
    "elementary": (lambda x: (jnp.arctan2(x, 2.0), jnp.cbrt(x * x), jnp.exp2(x), jnp.sinc(x), lax.erfc(x), x**3), [X]),
    "moments": (lambda x: (x.var(0), jnp.median(x), jnp.linalg.norm(x), jnp.trace(x @ x.T)), [X]),
    "interpolation": (lambda x: jnp.interp(x, jnp.arange(4.0), jnp.arange(4.0) ** 2), [X]),
    "remat": (lambda x: jax.checkpoint(lambda y: jnp.sin(jnp.sin(y)))(x), [X]),
}  # fmt: skip


@pytest.mark.parametrize("name", SMOOTH)
def test_smooth(name: str) -> None:
    f, args = SMOOTH[name]
    agrees(f, args, 1e-12)


# The others' derivatives take a second or more of processor time together with compiling.
EVERYDAY = ("broadcast_in_dim", "dot_general", "extremes", "gather", "scatter-add", "scatter clip", "cond", "scan",
            "sort", "fori_loop", "triangular_solve", "activations")  # fmt: skip


@pytest.mark.parametrize("name", [n if n in EVERYDAY else pytest.param(n, marks=pytest.mark.slow) for n in SMOOTH])
def test_derivatives(name: str) -> None:
    f, args = SMOOTH[name]
    derivatives_agree(f, args, 1e-11)


@pytest.mark.slow
def test_where_jax_has_no_derivative() -> None:
    """Duplicate places of products, products of windows; places outside, which JAX reads clipped but drops in reverse.
    """
    for f, args in (
        (lambda x, i: x.at[i % 3].multiply(x[0]), [X, I]),
        (lambda x: lax.reduce_window(x, 1.0, lax.mul, (2, 2), (1, 2), "VALID"), [X]),
        (lambda x, i: (x[i], x[1, i]), [X, I]),
        (lambda x: lax.zeta(3 + jnp.tanh(x), 1 + x * x), [X]),
        (lambda x: lax.betainc(1 + x * x, 2.5, 0.4), [X]),
    ):
        agrees(f, args, 1e-12)
        derivatives_agree(f, args, jax_can=False)


@pytest.mark.slow
def test_loops_that_jax_does_not_reverse() -> None:
    x = np.array([0.5, 2.0, 30.0])
    agrees(newton, [x], 1e-12)
    derivatives_agree(newton, [x], jax_can=False)
    derivatives_agree(lambda x: jax.vmap(newton)(x), [x], jax_can=False)


def test_batches_of_loops_end_apart() -> None:
    def grown(r: Any) -> Any:
        return lax.while_loop(lambda c: c[0].sum() < 5, lambda c: (c[0] + jnp.abs(r), c[1] + 1), (r, 0))

    agrees(lambda x: jax.vmap(grown)(x), [X])
    derivatives_agree(lambda x: jax.vmap(grown)(x)[0], [X], jax_can=False)


RANDOM: dict[str, Callable[[Any], Any]] = {
    "uniform": lambda k: jax.random.uniform(k, (3, 5)), "normal": lambda k: jax.random.normal(k, (7,)),
    "normal f32": lambda k: jax.random.normal(k, (7,), "float32"), "split": lambda k: jax.random.split(k, 3),
    "fold_in": lambda k: jax.random.fold_in(k, 5), "randint": lambda k: jax.random.randint(k, (9,), -3, 100),
    "permutation": lambda k: jax.random.permutation(k, 10), "bits": lambda k: jax.random.bits(k, (3,), "uint8"),
    "categorical": lambda k: jax.random.categorical(k, jnp.log(jnp.arange(1.0, 6))),
    "gumbel": lambda k: jax.random.gumbel(k, (3,)), "gamma": lambda k: jax.random.gamma(k, jnp.array([0.5, 1.0, 9.0])),
    "beta": lambda k: jax.random.beta(k, 2.0, jnp.array([0.5, 4.0])),
    "keys": lambda k: jax.vmap(jax.random.uniform)(jax.random.split(k, 4)),
    "seed": lambda k: jax.random.uniform(jax.random.key(k[0].astype(int))),
    "loop": lambda k: lax.fori_loop(0, 3, lambda i, s: jax.random.split(s)[0], jax.random.wrap_key_data(k)),
}  # fmt: skip


def words(made: Any) -> Any:
    """Keys as their words."""
    return jax.random.key_data(made) if jnp.issubdtype(made.dtype, jax.dtypes.prng_key) else made


@pytest.mark.parametrize("name", RANDOM)
def test_random(name: str) -> None:
    agrees(lambda k: words(RANDOM[name](k)), [np.array([3, 0xFFFFFFFF], np.uint32)], LOOSE.get(name, 1e-13))


def test_reparametrised_samples_have_derivatives() -> None:
    def f(mean: Any, key: Any) -> Any:
        return jnp.exp(mean + 0.5 * jax.random.normal(key, (4,))).sum()

    derivatives_agree(f, [np.float64(0.3), np.array([1, 2], np.uint32)])


@pytest.mark.slow
def test_samples_of_gamma_numbers_have_derivatives() -> None:
    def f(shape: Any, key: Any) -> Any:
        return (jax.random.gamma(key, shape) + jax.random.loggamma(key, 2 * shape)).sum()

    key = np.array([1, 2], np.uint32)
    shape = np.array([0.3, 1.0, 20.0])
    with jax.enable_x64(True):
        entry = futad.jax.compile(f, shape, key, backend="interp")
        same(futad.grad(entry)(shape, key), jax.grad(f)(jnp.asarray(shape), jnp.asarray(key)), 1e-8)


def test_what_is_only_said_is_left_out() -> None:
    def f(x: Any) -> Any:
        jax.debug.print("{}", x[0])
        jax.debug.callback(lambda y: None, x)
        return x * 2

    with pytest.warns(futad.errors.FutadWarning, match=r"test_jaxprs_table.py:\d+.*leaves out debug_"):
        entry = futad.jax.compile(f, V, backend="interp")
    np.testing.assert_array_equal(entry(V), V * 2)


@pytest.mark.parametrize(
    "f, text",
    [
        (lambda a: jnp.linalg.qr(a, mode="complete"), "'qr' with full_matrices=True"),
        (lambda a: jnp.linalg.svd(a), "'svd' with full_matrices=True"),
        (lambda a: jnp.fft.fft(a), "complex128"),
        (lambda a: jnp.fft.rfft(a), "'fft' has no rule"),
        (lambda a: a.astype("bfloat16"), "bfloat16"),
        (lambda a: a.at[0].apply(jnp.sin), "'scatter' by a function of the elements"),
        (lambda a: jax.pure_callback(lambda y: y, a, a), "'pure_callback' has no rule"),
    ],
)
def test_what_cannot_be_had_is_named_with_its_line(f: Any, text: str) -> None:
    with jax.enable_x64(True), pytest.raises(futad.errors.Error, match=rf"(?s)test_jaxprs_table.py:\d+.*{text}"):
        futad.jax.compile(f, X.T, backend="interp")


@pytest.mark.slow
def test_every_rule_is_in_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """What tests of this file import, counted by primitive: nothing in the table of rules is untried."""
    from futad.jax.jaxprs.importer import JaxprImporter

    met: set[str] = set()
    plain = JaxprImporter.equation

    def counted(self: Any, b: Any, eqn: Any, *args: Any) -> Any:
        met.add(eqn.primitive.name)
        return plain(self, b, eqn, *args)

    monkeypatch.setattr(JaxprImporter, "equation", counted)
    with jax.enable_x64(True):
        for f, dtypes, count in POINTWISE.values():
            futad.jax.compile(f, *numbers(dtypes[0], count), backend="interp")
        for f, args in SMOOTH.values():
            futad.jax.compile(f, *args, backend="interp")
        for f in RANDOM.values():
            futad.jax.compile(lambda k, f=f: words(f(k)), np.zeros(2, np.uint32), backend="interp")
    rest = {
        # Other names of what is there, and what only transformations of JAX or other versions make.
        "pjit", "closed_call", "core_call", "checkpoint", "remat", "expand_dims", "copy_p", "scatter_add",
        "scatter_mul", "eq_to", "optimization_barrier",
        "scatter_min", "scatter_max", "custom_vjp_call_jaxpr", "platform_index", "pvary", "sharding_constraint",
        "composite", "empty", "empty2", "random_clone", "debug_callback", "debug_print", "random_gamma_grad",
    }  # fmt: skip
    assert len(met & set(RULES)) >= 90
    # Tested elsewhere: above, or derivatives of one's own and sizes in symbols in test_jaxprs.py.
    assert set(RULES) - met - rest == {"custom_vjp_call", "dim_as_value", "reduce_window", "zeta"}
