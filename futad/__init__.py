"""futad: nested-parallel array programs in Futhark's language, compiled and differentiated.

    prog = futad.load("gmm.fut")
    value, gradient = futad.value_and_grad(prog.objective, argnums=(0, 1, 2))(*args)

Everything is imported on first use, so that `import futad` costs next to nothing.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from futad import distributed as distributed
    from futad import jax as jax
    from futad import numpy, strategies, testing
    from futad import scipy as scipy
    from futad import torch as torch
    from futad.api.bind import bind
    from futad.api.derivatives import grad, hessian, hvp, jacfwd, jacrev, jmp, jvp, mjp, value_and_grad, vjp, vmap
    from futad.api.program import Function, Program, compile, load
    from futad.errors import (
        AssertionFailed,
        BackendError,
        BoundsError,
        ConsumptionError,
        DtypeError,
        Error,
        ExecutionError,
        FileError,
        FutadWarning,
        InputError,
        InternalError,
        OutOfMemory,
        ParseError,
        ScopeError,
        ShapeError,
        SourceError,
        TypeCheckError,
        UnsupportedError,
        UsageError,
    )
    from futad.python.function import function
    from futad.runtime.deviceprogram import synchronise
    from futad.runtime.shapes import Spec
    from futad.runtime.structure import Record
    from futad.sparse import sparse_hessian, sparse_jacobian

__version__ = "0.1.0"

if not os.path.isdir(os.path.join(__path__[0], "datasets")):
    __path__.append(os.path.dirname(__path__[0]))  # a checkout, where `futad.datasets` lies beside the package

_NAMES = {
    "futad.api.program": ("Function", "Program", "compile", "load"),
    "futad.api.bind": ("bind",),
    "futad.api.derivatives": (
        "grad", "hessian", "hvp", "jacfwd", "jacrev", "jmp", "jvp", "mjp", "value_and_grad", "vjp", "vmap",
    ),
    "futad.ipython": ("load_ipython_extension",),
    "futad.errors": (
        "AssertionFailed", "BackendError", "BoundsError", "ConsumptionError", "DtypeError", "Error", "ExecutionError",
        "FileError", "FutadWarning", "InputError", "InternalError", "OutOfMemory", "ParseError", "ScopeError",
        "ShapeError", "SourceError", "TypeCheckError", "UnsupportedError", "UsageError",
    ),
    "futad.python.function": ("function",),
    "futad.runtime.deviceprogram": ("synchronise",),
    "futad.runtime.shapes": ("Spec",),
    "futad.runtime.structure": ("Record",),
    "futad.sparse": ("sparse_hessian", "sparse_jacobian"),
}  # fmt: skip
_MODULES = ("distributed", "errors", "jax", "numpy", "scipy", "strategies", "testing", "torch")
_PLACES = {name: place for place, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"futad.{name}")
    place = _PLACES.get(name)
    if place is None:
        from futad.errors import former

        return former(__name__, name)
    value = getattr(import_module(place), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_PLACES, *_MODULES])


__all__ = [
    "AssertionFailed", "BackendError", "BoundsError", "ConsumptionError", "DtypeError", "Error", "ExecutionError",
    "FileError", "Function", "FutadWarning", "InputError", "InternalError", "OutOfMemory", "ParseError", "Program",
    "Record", "ScopeError", "ShapeError", "SourceError", "Spec", "TypeCheckError", "UnsupportedError", "UsageError",
    "bind", "compile", "function", "grad", "hessian", "hvp", "jacfwd", "jacrev", "jmp", "jvp", "load", "mjp", "numpy",
    "sparse_hessian", "sparse_jacobian", "strategies", "synchronise", "testing", "value_and_grad", "vjp", "vmap",
]  # fmt: skip
