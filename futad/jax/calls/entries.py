"""Entries on the components of their arguments, as the primitives call them, and other entries made of them."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from futad.api.derivatives import vmap
from futad.api.program import Function
from futad.core.types import I64
from futad.runtime.shapes import Spec
from futad.runtime.structure import count_leaves

Known = tuple[tuple[int, int], ...]  # components that are numbers known when a call is traced, with their values


class Call:
    """An entry on components; one object for an entry.  `pull_of`: the entry that this is the "vjp" of, with the
    arguments that it is taken with respect to."""

    def __init__(self, f: Function, pull_of: tuple[Call, tuple[int, ...]] | None = None) -> None:
        self.f, self.pull_of = f, pull_of
        self.params, self.results = f.signature.params, f.signature.results
        self.owner = [i for i, (_, t) in enumerate(f.entry.params) for _ in range(count_leaves(t))]
        self.floats = [k for k, leaf in enumerate(self.results) if leaf.elem.is_float]
        self.is_loss = len(self.results) == 1 and bool(self.floats) and not self.results[0].dims
        named = f.size_numbers()
        self.sizes = {k for k, leaf in enumerate(self.params) if k in named and not leaf.dims and leaf.elem is I64}
        self.consumed = [i < len(f.entry.unique) and f.entry.unique[i] for i in self.owner]

    def __repr__(self) -> str:
        return self.f.__name__

    @cached_property
    def digest(self) -> str:
        """What tells the entry from all others: the same in every process, if the program's source is known."""
        try:
            program = self.f.executable.digest
        except TypeError:
            program = uuid.uuid4().hex
        return hashlib.sha256(f"{program} {self.f.symbol}".encode()).hexdigest()

    @cached_property
    def recipe(self) -> str:
        """How the entry is made of its program's source: a digest of that, the function's name, the derivatives taken;
        "" if the source is not known."""
        program = self.f.executable
        try:
            source = program.source_digest
        except TypeError:
            return ""
        assert program.origin is not None
        return f"{source} {self.f.symbol} {program.origin.steps!r}"

    def specs(self, leaves: Sequence[Any], known: Known = ()) -> list[Spec]:
        """Shape and dtype of each component of the result.  Raises ShapeError and UsageError."""
        given = list(leaves)
        for k, n in known:
            given[k] = np.int64(n)
        return self.f.shapes_of_leaves(given)

    # -- other entries

    def derivative(self, kind: str, active: tuple[int, ...]) -> Call:
        """That of a derivative, one of `Function.derivative`."""
        pull_of = (self, active) if kind == "vjp" else None
        return call_of(self.f.derivative(kind, active), pull_of)

    def owners(self, leaves: Sequence[int]) -> tuple[int, ...]:
        """The arguments that components belong to."""
        return tuple(sorted({self.owner[k] for k in leaves}))

    def places(self, active: tuple[int, ...]) -> list[int]:
        """The components of arguments."""
        return [k for k, i in enumerate(self.owner) if i in active]

    def pushed(
        self, given: Sequence[int], leaves: Sequence[Any], tangents: Sequence[Any], many: bool
    ) -> tuple[Call, list[Any], dict[int, int]]:
        """The entry of forward mode and its components, from tangents of the components `given`; and where among them
        the tangent of a component is.  `many`: tangents have one more dimension, in front."""
        active = self.owners(given)
        named = dict(zip(given, tangents, strict=True))
        full, places = list(leaves), {}
        outer = jnp.shape(tangents[0])[:1] if many else ()
        for k in self.places(active):
            places[k] = len(full)
            x = leaves[k]
            full.append(named[k] if k in named else jnp.zeros((*outer, *jnp.shape(x)), jax.typeof(x).dtype))
        return self.derivative("jmp" if many else "jvp", active), full, places

    def batched(
        self, dims: Sequence[int | None], leaves: Sequence[Any], size: int
    ) -> tuple[Call, list[Any], tuple[int, ...]]:
        """The entry of a batch; its components, with the batch in front where it is a dimension; the arguments that
        have it.  All components of an argument have it if one has."""
        many = self.owners([k for k, d in enumerate(dims) if d is not None])
        moved = [
            in_front(x, d, size) if i in many else x for i, d, x in zip(self.owner, dims, leaves, strict=True)
        ]
        axes = [0 if i in many else None for i in range(len(self.f.entry.params))]
        return call_of(vmap(self.f, axes)), moved, many


def in_front(x: Any, dim: int | None, size: int) -> Any:
    """An array with the batch as its first dimension."""
    return jnp.broadcast_to(x, (size, *jnp.shape(x))) if dim is None else jnp.moveaxis(x, dim, 0)


def call_of(f: Function, pull_of: tuple[Call, tuple[int, ...]] | None = None) -> Call:
    """The one object of an entry."""
    made = f.derived("jax call", lambda: Call(f, pull_of))
    assert isinstance(made, Call)
    return made


__all__ = ["Call", "Known", "call_of", "in_front"]
