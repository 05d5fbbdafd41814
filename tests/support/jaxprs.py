"""Functions of JAX through futad beside JAX itself (imported by tests that have asked whether JAX is there)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax import numpy as jnp

import futad
import futad.jax


def leaves(tree: Any) -> list[Any]:
    """The components of a result, of JAX or of futad (whose records are dicts)."""
    if isinstance(tree, dict):
        return [leaf for name in sorted(tree) for leaf in leaves(tree[name])]
    if isinstance(tree, tuple | list):
        return [leaf for part in tree for leaf in leaves(part)]
    return [] if tree is None else [tree]


def same(ours: Any, theirs: Any, tolerance: float) -> None:
    """Equal structures of arrays of equal dtypes; floats within a tolerance, relative to the largest one."""
    ours, theirs = leaves(ours), jax.tree_util.tree_leaves(theirs)
    assert len(ours) == len(theirs)
    for x, y in zip(ours, theirs, strict=True):
        x, y = np.asarray(x), np.asarray(y)
        assert (x.dtype, x.shape) == (y.dtype, y.shape)
        if x.dtype.kind == "f":
            finite = np.abs(y[np.isfinite(y)])
            scale = max(1.0, float(finite.max())) if finite.size else 1.0
            np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * scale)
        else:
            np.testing.assert_array_equal(x, y)


def imported(f: Callable[..., Any], args: Sequence[Any], backend: str = "interp") -> Any:
    """The entry for arguments of the shapes of `args`; the IR is checked."""
    return futad.jax.compile(f, *args, backend=backend)


def agrees(f: Callable[..., Any], args: Sequence[Any], tolerance: float = 1e-13, backend: str = "interp") -> Any:
    """The entry, after its result has been compared with JAX's."""
    with jax.enable_x64(True):
        entry = imported(f, args, backend)
        same(entry(*map(np.asarray, args)), f(*map(jnp.asarray, args)), tolerance)
    return entry


def weighted(f: Callable[..., Any], args: Sequence[Any], seed: int = 0) -> Callable[..., Any]:
    """The sum of all floating-point elements of f's result, each with a weight of its own."""
    r = np.random.default_rng(seed)
    shapes = jax.tree_util.tree_leaves(jax.eval_shape(f, *args))
    weights = [r.normal(size=s.shape) for s in shapes]

    def total(*xs: Any) -> Any:
        parts = jax.tree_util.tree_leaves(f(*xs))
        floats = [(p, w) for p, w in zip(parts, weights, strict=True) if jnp.issubdtype(p.dtype, jnp.floating)]
        return sum([(p.astype(float) * w).sum() for p, w in floats], jnp.zeros(()))

    return total


def derivatives_agree(
    f: Callable[..., Any], args: Sequence[Any], tolerance: float = 1e-12, jax_can: bool = True, seed: int = 0
) -> None:
    """The gradient with respect to the first argument is JAX's (where JAX has one), is the transpose of the forward
    derivative, and agrees with central differences."""
    with jax.enable_x64(True):
        arrays = [jnp.asarray(a) for a in args]
        total = weighted(f, arrays, seed)
        entry = imported(total, args)
        plain = [np.asarray(a) for a in args]
        value, g = futad.value_and_grad(entry)(*plain)
        if jax_can:
            same(g, jax.grad(total)(*arrays), tolerance)
        along = np.random.default_rng(seed + 1).normal(size=np.shape(plain[0]))
        bound = entry if len(plain) == 1 else futad.bind(entry, ..., *plain[1:])
        y, tangent = futad.jvp(bound, (plain[0],), (along,))
        scale = max(1.0, float(np.abs(np.asarray(g) * along).sum()))
        assert abs(y - value) <= 1e-12 * max(1.0, abs(float(value)))
        assert abs(tangent - (np.asarray(g) * along).sum()) <= 1e-11 * scale
        h = 1e-6
        difference = (entry(plain[0] + h * along, *plain[1:]) - entry(plain[0] - h * along, *plain[1:])) / (2 * h)
        assert abs(difference - tangent) <= 1e-5 * max(scale, abs(float(value)))
