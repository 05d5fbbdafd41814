"""futad: nested-parallel array programs in Futhark's language, compiled and differentiated.

    prog = futad.load("gmm.fut")
    value, gradient = futad.value_and_grad(prog.objective, argnums=(0, 1, 2))(*args)

Everything is imported on first use, so that `import futad` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from futad import testing
    from futad.api import Function, Program, compile, load
    from futad.api_ad import grad, hessian, hvp, jacfwd, jacrev, jvp, value_and_grad, vjp
    from futad.errors import (
        AssertionError_,
        BackendError,
        BoundsError,
        ConsumptionError,
        DtypeError,
        Error,
        FileError,
        FutadWarning,
        InternalError,
        MemoryError_,
        NameError_,
        ParseError,
        RuntimeError_,
        ShapeError,
        SourceError,
        TypeError_,
        UnsupportedError,
        UsageError,
        ValueError_,
    )
    from futad.runtime.deviceprogram import synchronise
    from futad.runtime.values import Record

__version__ = "0.1.0"

_ERRORS = (
    "AssertionError_", "BackendError", "BoundsError", "ConsumptionError", "DtypeError", "Error", "FileError",
    "InternalError", "MemoryError_", "NameError_", "ParseError", "RuntimeError_", "ShapeError", "SourceError",
    "TypeError_", "UnsupportedError", "UsageError", "ValueError_",
)  # fmt: skip
_PLACES = {
    **dict.fromkeys(("Function", "Program", "compile", "load"), "futad.api"),
    **dict.fromkeys(("grad", "hessian", "hvp", "jacfwd", "jacrev", "jvp", "value_and_grad", "vjp"), "futad.api_ad"),
    **dict.fromkeys(_ERRORS, "futad.errors"),
    "FutadWarning": "futad.errors",
    "synchronise": "futad.runtime.deviceprogram",
    "Record": "futad.runtime.values",
}


def __getattr__(name: str) -> Any:
    if name in ("testing", "errors"):
        return import_module(f"futad.{name}")
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'futad' has no attribute {name!r}")
    value = getattr(import_module(place), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_PLACES, "testing", "errors"])


__all__ = [
    "AssertionError_",
    "BackendError",
    "BoundsError",
    "ConsumptionError",
    "DtypeError",
    "Error",
    "FileError",
    "Function",
    "FutadWarning",
    "InternalError",
    "MemoryError_",
    "NameError_",
    "ParseError",
    "Program",
    "Record",
    "RuntimeError_",
    "ShapeError",
    "SourceError",
    "TypeError_",
    "UnsupportedError",
    "UsageError",
    "ValueError_",
    "compile",
    "grad",
    "hessian",
    "hvp",
    "jacfwd",
    "jacrev",
    "jvp",
    "load",
    "synchronise",
    "testing",
    "value_and_grad",
    "vjp",
]
