"""The table of rules: what each primitive of JAX is in the core IR.

    @rule("transpose")
    def _transpose(s: Site, x: Value) -> Value:
        return transposed(s.b, x, s.params["permutation"])

A rule takes the equation, the statements that are being built (`s.b`), and the operands; it returns the result, or a
list of the results where there are several.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import jax

from futad.core.builder import Builder
from futad.core.types import BOOL, PRIMS, U32, Atom, Const, Prim
from futad.errors import DtypeError, Span
from futad.jax.jaxprs.lifted import Shape, Value

_PRIMS = {p.dtype.name: p for p in PRIMS.values()}


class Unsupported(Exception):
    """What an equation asks for cannot be had; the text continues `primitive 'NAME' `."""


class Importer(Protocol):
    """What rules ask of what imports a program (`importer.py`)."""

    jaxpr: Any
    within_derivative: bool

    def derivative(self) -> AbstractContextManager[None]: ...

    def size(self, dim: Any) -> Atom: ...
    def run(self, b: Builder, closed: Any, args: Sequence[Value]) -> list[Value]: ...
    def traced(self, b: Builder, f: Callable[..., Any], avals: Sequence[Any], args: Sequence[Value]) -> list[Value]: ...
    def constant(self, value: Any) -> Value: ...


class Site:
    """An equation and where it is imported."""

    def __init__(self, importer: Importer, b: Builder, eqn: Any, place: Span | None) -> None:
        self.importer, self.b, self.eqn, self.place = importer, b, eqn, place
        self.params: dict[str, Any] = eqn.params
        self.name: str = eqn.primitive.name

    def shape(self, i: int = 0) -> Shape:
        """The shape of result i."""
        return self.sizes(shape_of_aval(self.eqn.outvars[i].aval))

    def elem(self, i: int = 0) -> Prim:
        """The element type of result i."""
        return elem_of_aval(self.eqn.outvars[i].aval)

    def sizes(self, dims: Sequence[Any]) -> Shape:
        return tuple([self.importer.size(d) for d in dims])

    def const(self, value: Any, i: int = 0) -> Const:
        return Const(self.elem(i), value)


def key_shape(aval: Any) -> tuple[int, ...]:
    """The dimensions of a random key as an array of u32; () for other element types."""
    impl = getattr(aval.dtype, "_impl", None)
    return tuple(impl.key_shape) if impl is not None else ()


def shape_of_aval(aval: Any) -> tuple[Any, ...]:
    """JAX's sizes, with the dimensions that a random key has."""
    return (*aval.shape, *key_shape(aval))


def elem_of_aval(aval: Any) -> Prim:
    """Raises DtypeError for an element type that futad does not have."""
    if key_shape(aval):
        return U32
    if aval.dtype == jax.dtypes.float0:  # of tangents that JAX does not have
        return BOOL
    name = str(aval.dtype)
    if name not in _PRIMS:
        raise DtypeError(f"element type {name} is not one of futad's: {', '.join(_PRIMS)}")
    return _PRIMS[name]


Rule = Callable[..., Value | Sequence[Value]]
RULES: dict[str, Rule] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """The rule of primitives of these names."""

    def register(f: Rule) -> Rule:
        for name in names:
            assert name not in RULES, name
            RULES[name] = f
        return f

    return register
