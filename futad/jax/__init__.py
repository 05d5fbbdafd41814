"""futad inside JAX programs.

    loss = futad.jax.function(prog.loss)        an entry as a function of JAX arrays (`calls/`)

Everything is imported on first use; raises ImportError then if there is no JAX.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from futad.jax.calls.function import JaxFunction, function

_PLACES = {"function": "futad.jax.calls.function", "JaxFunction": "futad.jax.calls.function"}


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


__all__ = ["JaxFunction", "function"]
