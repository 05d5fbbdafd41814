"""Everyday functions of JAX with parameters that are not the default ones: values, and derivatives, beside JAX."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from jax import lax  # noqa: E402
from jax import numpy as jnp  # noqa: E402

import futad  # noqa: E402
import futad.jax  # noqa: E402
from tests.support.jaxprs import agrees, derivatives_agree, same  # noqa: E402
from tests.support.slow import slow_but  # noqa: E402

R = np.random.default_rng(0)
A, B, V = R.normal(size=(3, 4)), R.normal(size=(4, 5)), R.normal(size=7)
T, K = R.normal(size=(2, 3, 5, 6)), R.normal(size=(4, 3, 2, 3))
I, J = R.integers(-100, 100, (3, 4)).astype(np.int8), R.integers(-100, 100, (4, 5)).astype(np.int8)  # noqa: E741
ODD = np.array([0.5, -1.5, 2.5, -2.5, 0.49999999999999994, 1e300, -0.0, np.nan, 3.2])
PLACES = np.array([0, 7, 2])
MATRIX = (((1,), (0,)), ((), ()))
OIHW = ("NCHW", "OIHW", "NCHW")
Table = dict[str, tuple[Callable[..., Any], list[Any]]]


@jax.custom_jvp
def scaled_slopes(x: Any, y: Any) -> Any:
    return x * y


scaled_slopes.defjvp(lambda p, t: (p[0] * p[1], 5 * t[0] + 7 * t[1]))


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def by_a_number(x: Any, k: Any) -> Any:
    return x * k


by_a_number.defvjp(lambda x, k: (x * k, x), lambda k, r, g: (g * 11 * k,))


SMOOTH: Table = {
    "dot of batches": (lambda t: lax.dot_general(t, t, (((3,), (3,)), ((1, 0), (1, 0)))), [T]),
    "dot with a precision": (lambda a, b: jnp.dot(a, b, precision="highest", preferred_element_type=float), [A, B]),
    "convolution": (lambda x, k: lax.conv_general_dilated(
        x, k, (2, 1), [(1, 2), (-1, 3)], (1, 2), (2, 1), OIHW), [T, K]),
    "transposed": (lambda x, k: lax.conv_transpose(
        x, k.transpose(2, 3, 1, 0), (2, 3), "SAME", (1, 1), ("NCHW", "HWIO", "NCHW")), [T, K]),
    "patches": (lambda x: lax.conv_general_dilated_patches(x, (2, 3), (1, 2), "SAME"), [T]),
    "scan": (lambda x: lax.scan(lambda c, y: (c * 0.5 + jnp.sin(y), c * y), 1.0, x, unroll=3, reverse=True), [V]),
    "scan of no arrays": (lambda x: lax.scan(lambda c, _: (c * 0.9 + 1, c.sum()), x, None, length=5), [V]),
    "running, from behind": (lambda x: [f(x, 0, reverse=True) for f in (
        lax.cumsum, lax.cumprod, lax.cummax, lax.cummin, lax.cumlogsumexp)], [V]),
    "sort by two keys": (lambda x, y: lax.sort((jnp.round(x), y, x * y), dimension=0, num_keys=2), [V, V[::-1].copy()]),
    "sort, unstable": (lambda x: lax.sort(x, is_stable=False), [V]),
    "gather, filled": (lambda x: x.at[jnp.array([0, 2, 5, -4]), jnp.array([9, -1, 1, 2])].get(
        mode="fill", fill_value=7.0), [A]),
    "gather, not wrapped": (lambda x: x.at[jnp.array([-1, 1])].get(
        wrap_negative_indices=False, mode="fill", fill_value=2.0), [A]),
    "take, wrapped": (lambda x: (jnp.take(x, PLACES, mode="wrap"), jnp.take(x, PLACES, axis=1, mode="clip")), [A]),
    **{f"scatter, {op} {mode}": (lambda x, u, op=op, mode=mode: getattr(x.at[PLACES], op)(u, mode=mode), [A, A[::-1]])
       for op in ("set", "add", "min", "max", "subtract", "divide") for mode in ("drop", "clip")},
    "clamps": (lambda x: (lax.clamp(0.0, x, 0.5), jnp.clip(x, None, 0.2), jnp.clip(x, 0.3, 0.1)), [V]),
    "slices outside": (lambda x: (lax.dynamic_slice(x, (5, -3), (2, 2)), lax.dynamic_slice_in_dim(x, -2, 2, 1)), [A]),
    "slices at run time": (lambda x, i: (lax.dynamic_slice(x, (i, i), (2, 2)),
                                         lax.dynamic_update_slice(x, x[:1, :2] * 3, (i, i))), [A, np.int32(-1)]),
    "slices far off": (lambda x, i: lax.dynamic_slice(x, (i, i), (2, 2)), [A, np.uint8(200)]),
    "pad": (lambda x: (lax.pad(x, 1.5, ((-1, 2, 0), (1, -1, 2))), lax.pad(x, 0.0, ((0, 0, 1), (-2, -2, 1)))), [A]),
    "pad in ways": (lambda x: [jnp.pad(x, 2, mode=m) for m in ("edge", "reflect", "symmetric", "wrap", "mean")], [B]),
    "branches by numbers": (lambda x, i: (lax.switch(i, [jnp.sin, jnp.cos, jnp.exp], x),
                                          lax.cond(i, jnp.sin, jnp.cos, x)), [V, np.int64(-5)]),
    "checkpoint": (lambda x: jax.checkpoint(lambda y: jnp.sin(jnp.exp(y)), prevent_cse=False,
                                            policy=jax.checkpoint_policies.nothing_saveable)(x), [V]),
    "jit, static": (lambda x: jax.jit(lambda y, n: y**n, static_argnums=1, inline=True)(x, 3), [V]),
    "powers": (lambda x: (x**-3, x**7, lax.integer_pow(x, 0), jnp.abs(x) ** 2.5, lax.exp2(x), lax.logistic(x)), [V]),
    "largest": (lambda x: (lax.top_k(x, 3), lax.top_k(x, 2, axis=0)), [A]),
    "windows": (lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 3), (2, 1), ((1, 0), (0, 2)), (1, 2), (2, 1)), [A]),
    "folds from a number": (lambda x: (lax.reduce(x, 2.0, lax.add, (0, 1)), lax.reduce(x, 3.0, jnp.multiply, (0, 1)),
                                       lax.reduce(x, 3.0, lax.mul, (0,))), [A]),
    "sums": (lambda x: (x.sum(where=x > 0, initial=2.0), x.prod(axis=0, keepdims=True), x.max(initial=0.1),
                        x.mean(where=x > 0), x.std(ddof=1), x.var(axis=1, correction=1)), [A]),
    "reshape by axes": (lambda x: (lax.reshape(x, (4, 3), dimensions=(1, 0)), x.ravel(order="F"), jnp.rot90(x, 3),
                                   jnp.roll(x, (1, -2), (0, 1))), [A]),
    "einsum": (lambda x: (jnp.einsum("ij->j", x), jnp.einsum("ii", x[:, :3]), jnp.einsum("ij,ij,ik->k", x, x, x)), [A]),
    "triangles": (lambda a, b: [lax.linalg.triangular_solve(
        a @ a.T + 3 * jnp.eye(3), b[:2, :3], left_side=False, lower=low, transpose_a=t, unit_diagonal=not t)
        for low in (True, False) for t in (True, False)], [A, B]),
    "logsumexp, weighted": (lambda x: jax.nn.logsumexp(x, b=jnp.abs(x), axis=1), [A]),
    "softmax, masked": (lambda x: jax.nn.softmax(x, axis=0, where=x > -1), [A]),
    "segments": (lambda x: (jax.ops.segment_sum(x, jnp.array([0, 5, 1, -1, 2, 2, 0]), 3),
                            jax.ops.segment_max(x, jnp.array([0, 0, 1, 1, 2, 2, 3]), 4)), [V]),
    "interpolation": (lambda x: jnp.interp(x, jnp.arange(3.0), jnp.arange(3.0) ** 2, left=-7.0, right=9.0), [V]),
    "transposes": (lambda x: jax.linear_transpose(lambda y: y[::2] * 3, x)(x[::2])[0], [V]),
    "derivatives inside": (lambda x: (jax.vjp(lambda y: jnp.sin(y) * y, x)[1](x)[0], jax.hessian(
        lambda y: jnp.sum(jnp.sin(y) ** 3))(x[:3])), [V]),
    "vmap over axes": (lambda x: jax.vmap(lambda r: jnp.outer(r, r), in_axes=1, out_axes=2)(x), [A]),
    "map in batches": (lambda x: lax.map(lambda r: r.sum() * r, x, batch_size=2), [A]),
    "polynomials": (lambda x: (jnp.polyval(x, 2.0, unroll=4), jnp.convolve(x, x[:3], mode="same"), jnp.diff(x, n=2),
                               jnp.quantile(x, 0.3, method="midpoint")), [V]),
    "matrices": (lambda a: (jnp.linalg.matrix_power(a[:, :3], 3), jnp.linalg.norm(a, ord=1),
                            jnp.linalg.norm(a, axis=1, ord=3)), [A]),
}  # fmt: skip
VALUES: Table = {
    "dots of small integers": (lambda a, b: (lax.dot_general(a, b, MATRIX, preferred_element_type=jnp.int32),
                                             lax.dot_general(a, b, MATRIX)), [I, J]),
    "rounding": (lambda x: (lax.round(x), lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), jnp.round(x, 1)), [ODD]),
    "places": (lambda x: (lax.argmax(x, 0, jnp.int32), lax.argmin(x, 0, jnp.int8), jnp.argmax(x, keepdims=True)),
               [ODD]),
    "iota": (lambda x: (lax.iota(jnp.uint8, 300), lax.iota(jnp.int8, 200) + x[0, 0], jnp.arange(5, 0, -2)), [I]),
    "conversions of integers": (lambda x: (x.astype(jnp.uint8), x.astype(jnp.int16), x.astype(bool)),
                                [np.array([0, -1, 300, 70000, 2**40])]),
    "large integers": (lambda x: x.astype(jnp.float32), [np.array([2**24 + 1, 2**53 + 1, 2**62 + 1])]),
    "filled integers": (lambda x: (x.at[jnp.array([9, 0])].get(mode="fill"),
                                   x.astype(jnp.uint8).at[jnp.array([9, 0])].get(mode="fill")), [I]),
    "choices": (lambda k, x, y: lax.select_n(k, x, y, x * y), [np.int32([0, 1, 2, 1, 0, 2, 1]), V, V[::-1].copy()]),
    "NaN": (lambda x: (lax.clamp(0.0, x, 1.0), lax.max(x, 0.0), jnp.fmax(x, x[::-1]), lax.top_k(x, 4)), [ODD]),
    "while with constants": (lambda x: lax.while_loop(lambda c: c[1] < x.size, lambda c: (
        c[0] + x[c[1]] * x.sum(), c[1] + 1), (0.0, 0))[0], [V]),
    "sums of integers": (lambda x: (x.sum(), x.sum(dtype=jnp.int8), x.mean(), jnp.cumsum(x, dtype=jnp.int8)), [I]),
    "quotients": (lambda x: (x // 3, x % 3, lax.div(x, jnp.int8(3)), lax.rem(x, jnp.int8(3)), x << 2, x >> 1,
                             lax.shift_right_logical(x, jnp.int8(1)), lax.shift_left(x, jnp.int8(9))), [I]),
    "found": (lambda x: (jnp.searchsorted(jnp.sort(x), x, side="right"), jnp.nonzero(x > 0, size=5, fill_value=99),
                         jnp.unique(jnp.round(x), size=5, fill_value=-9.0)), [V]),
    "counts": (lambda x: jnp.bincount(jnp.abs(x).ravel() % 5, weights=jnp.arange(12.0), length=7), [I]),
    "windows from a number": (lambda x: (lax.reduce_window(x, 3.0, lax.add, (2, 2), (1, 1), "SAME", (2, 1), (1, 2)),
                                         lax.reduce_window(x, 3.0, lax.mul, (2, 2), (1, 1), "SAME")), [A]),
    "bools": (lambda x: ((x > 0) ^ (x < 1), (x > 0).sum(), jnp.cumsum(x > 0), lax.reduce_xor(x > 0, (1,))), [A]),
}  # fmt: skip


@pytest.mark.parametrize("name", slow_but(("windows from a number", "dots of small integers", "quotients"), VALUES))
def test_values(name: str) -> None:
    f, args = VALUES[name]
    agrees(f, args)


@pytest.mark.parametrize("name", slow_but(("folds from a number", "slices far off"), SMOOTH))
def test_values_and_derivatives(name: str) -> None:
    f, args = SMOOTH[name]
    agrees(f, args, 1e-12)
    derivatives_agree(f, args, 1e-11)


@pytest.mark.slow
def test_derivatives_of_ones_own_are_taken() -> None:
    """Those here are not the functions' own."""
    for f in (lambda x: (scaled_slopes(x, x[::-1]) ** 2).sum(), lambda x: (by_a_number(x, 3) ** 2).sum()):
        with jax.enable_x64(True):
            entry = futad.jax.compile(f, V, backend="interp")
            same(futad.grad(entry)(V), jax.grad(f)(jnp.asarray(V)), 1e-12)


@pytest.mark.slow
def test_folds_on_threads_begin_once() -> None:
    """A fold from what is not neutral: JAX adds that once, whatever the number of threads."""
    agrees(lambda x: (lax.reduce(x, 2.0, lax.add, (0, 1)), lax.reduce(x, 9.0, jnp.maximum, (0,))),
           [R.normal(size=(70, 1000))], 1e-12, backend="multicore")  # fmt: skip
