"""The table of rules: what each primitive of JAX is in the core IR.

    @rule("transpose")
    def _transpose(s: Site, x: Value) -> Value:
        return transposed(s.b, x, s.params["permutation"])

A rule takes the equation, the statements that are being built (`s.b`), and the operands; it returns the result, or a
list of the results where there are several.

Note [Parameters]
~~~~~~~~~~~~~~~~~
A rule declares every parameter of its primitives:

    reads    the rule honours it; `s.params` has these and no others
    result   the result's shape or element type, which the rule reads, follows from it
    hints    it does not change what is computed; HINTS has the reason
    only     the values for which the rule is right

An equation with any other value of a parameter is refused, unless it is None, JAX's word for unset.  So a parameter
that a version of JAX adds is an error that names it, never ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
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
        self.name: str = eqn.primitive.name
        self.params = RULES[self.name].read(eqn.params)

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


def elem_of_aval(aval: Any, what: str = "") -> Prim:
    """Raises DtypeError for an element type that futad does not have; `what` it is of."""
    if key_shape(aval):
        return U32
    if aval.dtype == jax.dtypes.float0:  # of tangents that JAX does not have
        return BOOL
    name = str(aval.dtype)
    if name not in _PRIMS:
        raise DtypeError(f"{what and what + ': '}element type {name} is not one of futad's: {', '.join(_PRIMS)}")
    return _PRIMS[name]


Make = Callable[..., Value | Sequence[Value]]

HINTS = {
    name: reason
    for names, reason in (
        ("sharding out_sharding in_shardings out_shardings context_mesh ctx_mesh layout in_layouts out_layouts axes "
         "unconstrained_dims devices srcs copy_semantics donated_invars", "where arrays lie"),
        ("name version attributes", "a label: the meaning is the code that comes with it"),
        ("inline keep_unused prevent_cse differentiated policy concrete unroll linear _split_transpose use_magma "
         "algorithm branches_platforms", "how, where or when it is computed, not what"),
        ("indices_are_sorted unique_indices", "a promise that is not relied on"),
        ("is_stable sort_eigenvalues", "what is computed keeps the order even if it need not"),
        ("jvp_jaxpr_fun fwd_jaxpr_thunk bwd out_trees symbolic_zeros num_consts",
         "JAX differentiates the equation, with all its parameters"),
        ("callback effect partitioned fmt ordered in_tree static_args np_printoptions has_placeholders logging_record",
         "left out, with a warning"),
        ("conjugate_a", "elements are real"),
        ("computation", "`jaxpr` is the same, traced"),
        ("update_jaxpr", "the primitive's name says which operation"),
        ("weak_type", "of use while a function is traced"),
        ("impl", "the type of the keys has it"),
    )
    for name in names.split()
}  # fmt: skip


@dataclass(frozen=True)
class Rule:
    """What a primitive is in the core IR, and its parameters (Note [Parameters])."""

    make: Make
    reads: frozenset[str]
    free: frozenset[str]  # `result` and `hints`
    only: Mapping[str, Callable[[Any], bool]]

    def read(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters that the rule honours."""
        return {name: value for name, value in params.items() if name in self.reads}

    def check(self, params: Mapping[str, Any]) -> None:
        """Raises Unsupported for a parameter that the rule does not honour."""
        for name, value in params.items():
            if value is None or name in self.reads or name in self.free:
                continue
            if name not in self.only or not self.only[name](value):
                text = getattr(value, "__name__", None) or str(value)
                text = text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
                raise Unsupported(f"with {name}={text} is not supported")


SHOWN = 80  # characters of a parameter's value
RULES: dict[str, Rule] = {}


def rule(
    *names: str,
    reads: str = "",
    result: str = "",
    hints: str = "",
    only: Mapping[str, Callable[[Any], bool]] | None = None,
) -> Callable[[Make], Make]:
    """The rule of primitives of these names.  `reads`, `result`, `hints`: names of parameters, with spaces between."""
    assert all(name in HINTS for name in hints.split()), hints

    def register(f: Make) -> Make:
        made = Rule(f, frozenset(reads.split()), frozenset((result + " " + hints).split()), only or {})
        for name in names:
            assert name not in RULES, name
            RULES[name] = made
        return f

    return register


def is_one_of(*values: Any) -> Callable[[Any], bool]:
    return lambda value: value in values


def full_precision(value: Any) -> bool:
    """Whether a product may be computed in the precision of its elements: `Precision` says how many bits a device has
    to keep at least, other algorithms have fewer."""
    return all(isinstance(v, jax.lax.Precision) for v in (value if isinstance(value, tuple) else (value,)))
