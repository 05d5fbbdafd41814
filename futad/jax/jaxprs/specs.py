"""What a function is compiled for: element types and shapes of its arguments, sizes by name where they vary.

    f64["n", "d"]    f64    i32[3]    f64["2*n"]    "f64[n, d]"

Beside these, whatever has a shape and a dtype (arrays, `jax.ShapeDtypeStruct`, also of symbolic dimensions), and Python
numbers.  Trees of them are those of JAX.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax import export

from futad.core.entry import EntryType
from futad.core.types import PRIMS, Prim
from futad.errors import UsageError

_TEXT = re.compile(r"\s*(\w+)\s*(?:\[(.*)\])?\s*\Z", re.DOTALL)


@dataclass(frozen=True)
class Spec:
    """An element type, by futad's name of it, and sizes: numbers, or texts of symbols (`"n"`, `"2*n"`).  Without sizes
    it is a number, and what it is indexed by are sizes."""

    name: str
    dims: tuple[int | str, ...] = ()

    def __getitem__(self, dims: int | str | tuple[int | str, ...]) -> Spec:
        if self.dims:
            raise UsageError(f"{self} has its sizes already")
        dims = dims if isinstance(dims, tuple) else (dims,)
        for d in dims:
            if not isinstance(d, int | str | np.integer) or isinstance(d, bool) or (not isinstance(d, str) and d < 0):
                raise UsageError(f"a size is a number or a name, not {d!r}")
        return Spec(self.name, tuple([d if isinstance(d, str) else int(d) for d in dims]))

    def __str__(self) -> str:
        return self.name + (f"[{', '.join(map(str, self.dims))}]" if self.dims else "")


SPECS = {name: Spec(name) for name in PRIMS}
i8, i16, i32, i64, u8, u16, u32, u64, f16, f32, f64, bool_ = SPECS.values()
_BY_NAME = {**{name: name for name in PRIMS}, **{p.dtype.name: name for name, p in PRIMS.items()}}


def parsed(text: str) -> Spec:
    """`f64[n, 3]` as a spec; element types by futad's names or NumPy's.  Raises UsageError."""
    m = _TEXT.match(text)
    if m is None or m[1] not in _BY_NAME:
        raise UsageError(f"{text!r} is not an element type with sizes, such as 'f64[n, 3]'",
                         hint=f"element types: {', '.join(PRIMS)}")  # fmt: skip
    spec = SPECS[_BY_NAME[m[1]]]
    if m[2] is None:
        return spec
    dims = [d.strip() for d in m[2].split(",")]
    if not all(dims):
        raise UsageError(f"{text!r}: a size is missing")
    return spec[tuple([int(d) if d.isdigit() else d for d in dims])]


def is_wide(leaf: Any) -> bool:
    """Whether JAX needs its 64-bit mode for an argument."""
    dtype = PRIMS[leaf.name].dtype if isinstance(leaf, Spec) else getattr(leaf, "dtype", None)
    return dtype is not None and str(dtype) in ("float64", "int64", "uint64")


def struct_of(leaf: Any, scope: export.SymbolicScope, path: str) -> jax.ShapeDtypeStruct:
    """An argument's shape and element type as JAX has them."""
    if isinstance(leaf, Spec):
        shape: list[Any] = []
        for d in leaf.dims:
            try:
                shape += [d] if isinstance(d, int) else export.symbolic_shape(d, scope=scope)
            except ValueError as e:
                raise UsageError(f"futad.jax.compile: {path}: the size {d!r} is not understood: {e}") from None
        return jax.ShapeDtypeStruct(tuple(shape), PRIMS[leaf.name].dtype)
    if hasattr(leaf, "shape") and hasattr(leaf, "dtype"):
        return jax.ShapeDtypeStruct(tuple(leaf.shape), leaf.dtype)
    if isinstance(leaf, bool | int | float):
        return jax.ShapeDtypeStruct((), jax.numpy.asarray(leaf).dtype)
    raise UsageError(
        f"futad.jax.compile: {path} is a {type(leaf).__name__}; arguments are told by arrays, shapes such as "
        "futad.jax.f64['n', 3] or 'f64[n, 3]', numbers, and trees of these"
    )


def read_leaf(leaf: Any) -> Any:
    return parsed(leaf) if isinstance(leaf, str) else leaf


# --- entry types -------------------------------------------------------------------------------------------


def leaf_type(elem: Prim, dims: tuple[str | int | None, ...]) -> EntryType:
    scalar = EntryType("scalar", elem.name, elem)
    if not dims:
        return scalar
    text = "".join(f"[{'' if d is None else d}]" for d in dims) + elem.name
    return EntryType("array", text, scalar, dims)


def tree_type(tree: Any, leaves: list[EntryType], path: str) -> EntryType:
    """The entry type of a tree of JAX whose leaves are numbers into `leaves`.

    Dicts, named tuples and registered classes are records, tuples and lists tuples, None the empty tuple.  Raises
    UsageError for a class whose parts have no names."""
    if isinstance(tree, int) and not isinstance(tree, bool):
        return leaves[tree]
    flat = jax.tree_util.default_registry.flatten_one_level_with_keys(tree)
    fields = getattr(tree, "_fields", None) if isinstance(tree, tuple) else None  # of a named tuple
    parts: list[tuple[str, EntryType]] = []
    record = False
    for i, (key, part) in enumerate(flat[0] if flat is not None else ()):
        name = str(i)
        if fields is not None:
            name, record = fields[i], True
        elif isinstance(key, jax.tree_util.DictKey | jax.tree_util.GetAttrKey):
            named = key.key if isinstance(key, jax.tree_util.DictKey) else key.name
            if not isinstance(named, str):
                raise UsageError(f"futad.jax.compile: {path} is a dict with the key {named!r}; keys must be texts")
            name, record = named, True
        elif not isinstance(key, jax.tree_util.SequenceKey):
            raise UsageError(
                f"futad.jax.compile: the parts of {path}, a {type(tree).__name__}, have no names",
                hint="register the class with jax.tree_util.register_dataclass or register_pytree_with_keys",
            )
        parts.append((name, tree_type(part, leaves, f"{path}.{name}")))
    if record:
        return EntryType("record", "{" + ", ".join(f"{n}: {t.text}" for n, t in parts) + "}", None, (), tuple(parts))
    return EntryType("tuple", "(" + ", ".join(t.text for _, t in parts) + ")", None, (), tuple(parts))


def numbered(treedef: Any, first: int = 0) -> Any:
    """A tree with the numbers of its leaves in their places."""
    return jax.tree_util.tree_unflatten(treedef, range(first, first + treedef.num_leaves))

