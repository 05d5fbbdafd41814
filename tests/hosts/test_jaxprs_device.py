"""Gradients of imported functions of JAX on devices: launches are few, no thread does much by itself, and the results
are JAX's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax")

from jax import lax  # noqa: E402
from jax import numpy as jnp  # noqa: E402

import futad  # noqa: E402
import futad.jax  # noqa: E402
from futad.backend.device_cost import Account, count  # noqa: E402
from futad.flatten import flatten  # noqa: E402
from futad.pipeline import compile_program  # noqa: E402
from futad.target import CUDA  # noqa: E402
from tests.support.jaxprs import agrees, leaves  # noqa: E402
from tests.support.needs import needs_cxx  # noqa: E402

R = np.random.default_rng(11)


def conv(x: Any, k: Any, strides: tuple[int, int] = (1, 1), padding: Any = "SAME", **more: Any) -> Any:
    names = more.pop("names", ("NCHW", "OIHW", "NCHW"))
    y = lax.conv_general_dilated(x, k, strides, padding, dimension_numbers=names, **more)
    return (jnp.tanh(y) ** 2).mean()


def scanned(a: Any, b: Any) -> Any:
    """A recurrence by an associative scan."""
    _, h = lax.associative_scan(lambda p, q: (q[0] * p[0], q[0] * p[1] + q[1]), (jax.nn.sigmoid(a), b))
    return (h**2).mean()


def normalised(x: Any, g: Any) -> Any:
    mean = x.mean((0, 2, 3), keepdims=True)
    scale = ((x - mean) ** 2).mean((0, 2, 3), keepdims=True)
    return (jnp.tanh((x - mean) / jnp.sqrt(scale + 1e-5) * g[:, None, None]) ** 2).mean()


def heads(x: Any, w: Any) -> Any:
    """Attention of several heads."""
    b, n, d = x.shape
    q, k, v = [a.reshape(b, n, 4, d // 4).transpose(0, 2, 1, 3) for a in jnp.split(x @ w, 3, -1)]
    s = jax.nn.softmax(jnp.einsum("bhid,bhjd->bhij", q, k))
    return (jnp.einsum("bhij,bhjd->bhid", s, v) ** 2).mean()


def messages(x: Any, w: Any, e: Any) -> Any:
    return (jnp.zeros_like(x).at[e[:, 1]].add(jnp.tanh(x[e[:, 0]] @ w)) ** 2).mean()


Arrays = tuple[Any, ...]
# name: (function, shapes on a card and in the emulator, launches, steps, updates that meet in one place, at most)
CASES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]], list[tuple[int, ...]], int, int, int]] = {
    "plain": (conv, [(16, 8, 32, 32), (16, 8, 3, 3)], [(2, 3, 6, 5), (4, 3, 3, 3)], 14, 1100, 10),
    "strides": (lambda x, k: conv(x, k, (2, 2), "VALID"), [(16, 8, 33, 33), (16, 8, 3, 3)],
                [(2, 3, 7, 9), (4, 3, 3, 3)], 7, 600, 5),
    "dilation": (lambda x, k: conv(x, k, rhs_dilation=(2, 2)), [(8, 4, 32, 32), (8, 4, 3, 3)],
                 [(2, 2, 7, 6), (3, 2, 3, 3)], 14, 450, 10),
    "transposed": (lambda x, k: conv(x, k, padding=[(1, 1), (1, 1)], lhs_dilation=(2, 2)),
                   [(8, 8, 16, 16), (4, 8, 3, 3)], [(2, 3, 4, 5), (4, 3, 3, 3)], 12, 600, 10),
    "groups": (lambda x, k: conv(x, k, feature_group_count=4), [(8, 16, 16, 16), (32, 4, 3, 3)],
               [(2, 8, 5, 4), (8, 2, 3, 3)], 14, 300, 60),
    "one channel a group": (lambda x, k: conv(x, k, feature_group_count=x.shape[1]), [(8, 32, 16, 16), (32, 1, 3, 3)],
                            [(2, 6, 5, 4), (6, 1, 3, 3)], 14, 200, 10),
    "channels last": (lambda x, k: conv(x, k, names=("NHWC", "HWIO", "NHWC")), [(16, 28, 28, 3), (5, 5, 3, 8)],
                      [(2, 6, 7, 3), (5, 5, 3, 4)], 15, 650, 25),
    "one dimension": (lambda x, k: (lax.conv_general_dilated(x, k, (1,), "SAME") ** 2).mean(),
                      [(32, 4, 128), (8, 4, 5)], [(3, 2, 12), (4, 2, 5)], 12, 300, 10),
    "maxima of windows": (lambda x: (lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), "SAME")
                                     ** 2).mean(), [(16, 8, 32, 32)], [(2, 3, 7, 6)], 10, 300, 5),
    "associative scan": (scanned, [(512, 16), (512, 16)], [(21, 3), (21, 3)], 160, 1000, 5),
    "batch normalisation": (normalised, [(16, 8, 16, 16), (8,)], [(3, 4, 5, 2), (4,)], 20, 400, 40),
    "heads": (heads, [(2, 64, 64), (64, 192)], [(2, 7, 8), (8, 24)], 40, 3500, 0),
}  # fmt: skip


def arrays(shapes: list[tuple[int, ...]]) -> list[Any]:
    return [R.normal(size=s) / (3 if k else 1) for k, s in enumerate(shapes)]


def cost(f: Callable[..., Any], args: list[Any]) -> Account:
    """Of the value and the gradient."""
    with jax.enable_x64(True):
        entry = futad.jax.compile(f, *args, backend="interp")
    gradient = entry.derivative("value_and_grad")
    program = compile_program(gradient.executable.core, target=CUDA)
    return count(flatten(program), program, gradient.symbol, {})


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_no_thread_does_much(name: str) -> None:
    f, shapes, _, launches, steps, meet = CASES[name]
    a = cost(f, arrays(shapes))
    assert a.launches <= launches and a.total.steps <= steps and a.total.meet <= meet, a.table()


@pytest.mark.slow
@needs_cxx
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_jax(name: str) -> None:
    f, _, shapes, *_ = CASES[name]
    args = arrays(shapes)
    with jax.enable_x64(True):
        entry = futad.jax.compile(f, *args, backend="emulated")
        expected = jax.value_and_grad(f, argnums=tuple(range(len(args))))(*map(jnp.asarray, args))
    got = futad.value_and_grad(entry, argnums=tuple(range(len(args))))(*args)
    for x, y in zip(leaves(got), jax.tree_util.tree_leaves(expected), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_weights_of_messages_are_long_sums() -> None:
    """A product of few tiles whose sum is over all edges is in parts."""
    args = [R.normal(size=(500, 32)), R.normal(size=(32, 32)), R.integers(0, 500, (5000, 2))]
    a = cost(messages, args)
    assert any("sums in parts" in r.what for r in a.rows.values()) and a.total.steps <= 1500, a.table()


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_padding_between_elements(n: int) -> None:
    for low in (-3, -1, 0, 2):
        for high in (-2, 0, 1):
            for between in (0, 1, 2):
                if max(0, (n - 1) * (between + 1) + 1) + low + high >= 0:
                    agrees(lambda x, c=(low, high, between): lax.pad(x, np.array(7.0), [c]), [np.arange(1.0, n + 1)])
