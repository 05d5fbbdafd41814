"""Entries as functions of JAX arrays.

    loss = futad.jax.function(prog.loss)
    jax.jit(jax.value_and_grad(loss))(w, x, y)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from futad.api.bind import Bound
from futad.api.program import Function
from futad.errors import DtypeError, ShapeError, UsageError
from futad.jax.calls import handler
from futad.jax.calls.entries import Known, call_of
from futad.jax.calls.primitives import bind
from futad.runtime.structure import build_value, flatten_value
from futad.runtime.values import Leaf, leaf_text, widens

_I64 = np.dtype("int64")
_WIDE = (_I64, np.dtype("uint64"))  # integers that JAX may have 32-bit ones in place of


def function(f: Function) -> JaxFunction:
    """The entry f as a function of JAX: its arguments are arrays and numbers, tuples, dicts and Records of these.

    Results are JAX arrays of the entry's dtypes and structure; a record is a `futad.Record`, a pytree.  It may be
    traced by jit, differentiated any number of times in both modes, batched by vmap.  Components of integers and bools
    are constants of derivatives.  A number of type i64 that a shape of the result depends on has to be known when it is
    traced: a Python or NumPy number, or a concrete array.  Arguments that are bound (`futad.bind`) are constants.

    Raises as f does: DtypeError and ShapeError name the argument, errors of the program have their place.  From
    compiled code the latter come with the same text as what JAX raises for custom calls: a JaxRuntimeError, or, from a
    jitted function that has succeeded before, a ValueError.
    """
    if not isinstance(f, Function):
        raise UsageError(f"futad.jax.function takes an entry of a program, not {type(f).__name__}",
                         hint="pass prog.name itself")  # fmt: skip
    made = f.derived("jax", lambda: JaxFunction(f))
    assert isinstance(made, JaxFunction)
    return made


class JaxFunction:
    """An entry as a function of JAX arrays; see `function`."""

    def __init__(self, f: Function) -> None:
        self.f = f
        self.__name__, self.__qualname__, self.__doc__ = f.__name__, f.__qualname__, f.__doc__
        self.__signature__ = f.__signature__
        self._call = call_of(f.of if isinstance(f, Bound) else f)
        self._complete = f.all_leaves if isinstance(f, Bound) else None
        handler.know(self._call)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return function, (self.f,)

    def __repr__(self) -> str:
        return f"<futad.jax function of {self.f!r}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        f, call = self.f, self._call
        if kwargs or len(args) != len(f.entry.params):
            args = f.positional(args, kwargs)
        if _narrow(_I64) != _I64:
            self._check_types()
        leaves: list[Any] = []
        for (name, t), value in zip(f.entry.params, args, strict=True):
            leaves += flatten_value(t, value, name, self.__name__)
        given = [self._given(leaf, k, x) for k, (leaf, x) in enumerate(zip(f.signature.params, leaves, strict=True))]
        if self._complete is not None:
            given = self._complete(given)
        known: Known = ()
        if call.sizes:
            told = [k for k in sorted(call.sizes) if not isinstance(given[k], jax.core.Tracer)]
            known = tuple([(k, int(given[k])) for k in told])
        made = bind(call, [_operand(leaf, x) for leaf, x in zip(call.params, given, strict=True)], known)
        return build_value(f.entry.result, iter(made))

    def _given(self, leaf: Leaf, k: int, x: Any) -> Any:
        """A component that a caller gives: one of JAX, or what `call_leaves` takes.  Raises DtypeError, ShapeError."""
        if isinstance(x, list | tuple) and any(isinstance(part, jax.core.Tracer) for part in jax.tree.leaves(x)):
            x = jnp.asarray(x)
        if not isinstance(x, jax.Array):
            made = self.f.signature.converted(k, x)
            if not isinstance(made, np.ndarray | np.generic):
                message = f"argument '{leaf.path}': of an empty list the shape is not known"
                raise ShapeError(message, hint="give an array")
            return made
        if x.ndim != len(leaf.dims):
            raise ShapeError(
                f"argument '{leaf.path}': expected {leaf_text(leaf)}, which has rank {len(leaf.dims)}, got an array of "
                f"shape {tuple(x.shape)}"
            )
        want = leaf.elem.dtype
        if x.dtype == want or x.dtype == _narrow(want):
            return x
        traced_number = jax.typeof(x).weak_type and want.kind == "f" and x.dtype.kind in "iuf"  # Python's
        if not traced_number and not widens(x.dtype, want):
            raise DtypeError(
                f"argument '{leaf.path}': expected {leaf_text(leaf)} ({want.name}), got an array of {x.dtype.name}",
                hint=f"convert it yourself if that is meant: {leaf.path.split('.')[-1]}.astype(jnp.{want.name})",
            )
        return x.astype(want)

    def _check_types(self) -> None:
        """Raises UsageError where JAX would make other types of the entry's."""
        s = self.f.signature
        wide = [leaf for leaf in (*s.params, *s.results) if leaf.elem.name == "f64"]
        wide += [leaf for leaf in s.results if leaf.elem.dtype in _WIDE]
        if wide:
            raise UsageError(
                f"'{wide[0].path}' of {self.__name__} is of {wide[0].elem}, but JAX has 64-bit types switched off",
                hint='jax.config.update("jax_enable_x64", True), or write the program for 32 bits',
            )


def _narrow(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """What JAX has in place of a dtype."""
    return np.dtype(jax.dtypes.canonicalize_dtype(dtype)) if dtype in _WIDE else dtype


def _operand(leaf: Leaf, x: Any) -> Any:
    """A component as an operand."""
    if isinstance(x, jax.Array):
        return x
    narrow = _narrow(x.dtype)
    if narrow != x.dtype:
        if np.any(x.astype(narrow) != x):
            raise DtypeError(
                f"argument '{leaf.path}' does not fit {narrow}, but JAX has 64-bit types switched off",
                hint='jax.config.update("jax_enable_x64", True)',
            )
        x = x.astype(narrow)
    return jnp.asarray(x)


__all__ = ["JaxFunction", "function"]
