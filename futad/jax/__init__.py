"""futad inside JAX programs, and functions of JAX as programs of futad.

    loss = futad.jax.function(prog.loss)             an entry as a function of JAX arrays (`calls/`)
    entry = futad.jax.compile(f, f64["n", 3])        a function of JAX as an entry (`jaxprs/`)

`futad.jax.f64`, `i32` and the like are element types, which sizes index.

Everything is imported on first use; raises ImportError then if there is no JAX.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from futad.jax.calls.function import JaxFunction, function
    from futad.jax.jaxprs.program import compile
    from futad.jax.jaxprs.specs import Spec

    i8: Spec
    i16: Spec
    i32: Spec
    i64: Spec
    u8: Spec
    u16: Spec
    u32: Spec
    u64: Spec
    f16: Spec
    f32: Spec
    f64: Spec

_TYPES = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "f32", "f64")
_PLACES = {"function": "futad.jax.calls.function", "JaxFunction": "futad.jax.calls.function",
           "compile": "futad.jax.jaxprs.program", **dict.fromkeys(_TYPES, "futad.jax.jaxprs.specs")}  # fmt: skip


def __getattr__(name: str) -> Any:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        import_module("jax")
    except ImportError as e:
        raise ImportError("futad.jax needs JAX: pip install 'futad[jax]'") from e
    value = getattr(import_module(place), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_PLACES])


__all__ = ["JaxFunction", "compile", "function"]
