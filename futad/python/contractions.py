"""Products of matrices and their generalisation, sums of products over named dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from futad.python.calls import Call, Soac
from futad.python.elementwise import as_value, common, convert, shape_text
from futad.python.place import fail
from futad.python.shaping import moved
from futad.python.values import let, opened

if TYPE_CHECKING:
    from futad.python.arrays import Array


def einsum(form: str, *arrays: Any) -> Array:
    """Sums of products of elements: "ij,jk->ik" is a product of matrices.

    Each letter is a dimension; those that the result has not are summed over.  Without "->" the result has the letters
    that occur once, in alphabetical order.
    """
    parts = [as_value(a) for a in arrays]
    left, arrow, out = form.replace(" ", "").partition("->")
    names = left.split(",")
    if not arrow:
        out = "".join(sorted(c for c in set(left) - {","} if left.count(c) == 1))
    if len(names) != len(parts) or not all(n.isalpha() or n == "" for n in [*names, out]):
        fail(f"einsum: {form!r} does not describe {len(parts)} arrays", 'such as "ij,jk->ik"; there is no "..."')
    if any(len(set(n)) != len(n) for n in [*names, out]):
        fail(f"einsum: a dimension is named twice in one array of {form!r}", "fnp.map over fnp.arange takes diagonals")
    if bad := [c for c in out if c not in left]:
        fail(f"einsum: the result of {form!r} has a dimension {bad[0]!r} that no array has")
    for n, p in zip(names, parts, strict=True):
        if len(n) != len(p.dims):
            fail(f"einsum: {n!r} names {len(n)} dimensions of an array of shape {shape_text(p.dims)}")
    sizes: dict[str, Any] = {}
    for n, p in zip(names, parts, strict=True):
        for c, d in zip(n, p.dims, strict=True):
            if sizes.setdefault(c, d) != d:
                fail(f"einsum: dimension {c!r} has sizes {sizes[c]} and {d}")
    elem = common(parts)
    summed = [c for c in dict.fromkeys(left.replace(",", "")) if c not in out]
    return _nest(list(out), summed, names, [convert(p, elem) for p in parts])


def _nest(out: Sequence[str], summed: Sequence[str], names: Sequence[str], parts: Sequence[Array]) -> Array:
    """A map for the first letter of the result, or a sum for the first letter that is summed over."""
    if not out and not summed:
        made = parts[0]
        for p in parts[1:]:
            made = made * p
        return made
    letter = out[0] if out else summed[0]
    has = [letter in n for n in names]
    rows = [moved(p, n.index(letter), 0) if h else p for p, n, h in zip(parts, names, has, strict=True)]
    over = [p for p, h in zip(rows, has, strict=True) if h]
    with opened([(p.elem, p.dims[1:]) for p in over]) as (scope, params):
        left = iter(params)
        inner = [next(left) if h else p for p, h in zip(rows, has, strict=True)]
        made = _nest(out[1:], summed if out else summed[1:], [n.replace(letter, "") for n in names], inner)
        scope.results = [made]
    mapped = let(Soac("map", scope, [], over), made.elem, (over[0].dims[0], *made.dims))
    total = "or" if made.elem == "bool" else f"{made.elem}.sum"
    return mapped if out else let(Call(total, mapped, hint="sum"), made.elem)


def matmul(a: Any, b: Any) -> Array:
    """The product of matrices, or of vectors and matrices; dimensions before the last two are common to both."""
    x, y = as_value(a), as_value(b)
    if not x.dims or not y.dims:
        fail("a product of matrices of a number", "write a * b")
    p, q = len(x.dims), len(y.dims)
    batch = "abcdefgh"[: max(p, q) - 2] if max(p, q) > 2 else ""
    left = batch[len(batch) - max(p - 2, 0) :] + ("ij" if p > 1 else "j")
    right = batch[len(batch) - max(q - 2, 0) :] + ("jk" if q > 1 else "j")
    return einsum(f"{left},{right}->{batch}{'i' if p > 1 else ''}{'k' if q > 1 else ''}", x, y)


def dot(a: Any, b: Any) -> Array:
    """The sum of products over the last dimension of `a` and the last but one of `b` (of a vector its only one)."""
    x, y = as_value(a), as_value(b)
    if not x.dims or not y.dims:
        return x * y
    if len(x.dims) > 2 or len(y.dims) > 2:
        fail("dot takes vectors and matrices", "fnp.einsum says which dimensions are summed over")
    return matmul(x, y)


def outer(a: Any, b: Any) -> Array:
    """The products of all pairs of elements of two vectors."""
    return einsum("i,j->ij", a, b)


__all__ = ["dot", "einsum", "matmul", "outer"]
