"""Arrays from arrays: transposes, reshapes, joins, and new ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from futad.core.types import PRIMS
from futad.python.calls import Call, Coerce, Soac
from futad.python.elementwise import as_value, common, convert, is_weak, shape_text
from futad.python.indexing import a_size, index, quotient
from futad.python.layout import ATOM, LET, Written, application, enclosed
from futad.python.place import fail
from futad.python.sizes import Size, parse_size, size
from futad.python.values import Value, elem_of, let, of_size, opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from futad.python.arrays import Array
    from futad.python.writer import Writer


def axis_of(axis: Any, rank: int) -> int:
    """A dimension's number from 0.  Raises TraceError."""
    if not isinstance(axis, int | np.integer) or isinstance(axis, bool) or not -rank <= axis < rank:
        fail(f"axis {axis!r} of an array of rank {rank}")
    return int(axis) % rank


def mapped(f: Callable[[Array], Array], x: Array) -> Array:
    """f of each row."""
    with opened([(x.elem, x.dims[1:])]) as (scope, params):
        scope.results = [made := f(params[0])]
    return let(Soac("map", scope, [], [x]), made.elem, (x.dims[0], *made.dims))


def swap(x: Array, at: int) -> Array:
    """Dimensions `at` and `at + 1` exchanged."""
    if at:
        return mapped(lambda row: swap(row, at - 1), x)
    return let(Call("transpose", x), x.elem, (x.dims[1], x.dims[0], *x.dims[2:]))


def transpose(x: Any, axes: Sequence[int] | None = None) -> Array:
    """The dimensions in the order `axes`; by default in reverse order."""
    made = as_value(x)
    rank = len(made.dims)
    order = [axis_of(a, rank) for a in axes] if axes is not None else list(range(rank))[::-1]
    if sorted(order) != list(range(rank)):
        fail(f"axes {tuple(order)} are no order of the {rank} dimensions")
    for i in range(rank):  # the dimension wanted at i is moved there
        at = order[i]
        for j in range(at, i, -1):
            made = swap(made, j - 1)
        order = [o + 1 if i <= o < at else o for o in order]
    return made


def moved(x: Any, source: int, target: int) -> Array:
    """A dimension at another place."""
    v = as_value(x)
    order = list(range(len(v.dims)))
    order.insert(target, order.pop(source))
    return transpose(v, order)


def expand_dims(x: Any, axis: int) -> Array:
    """With a dimension of one element at `axis`."""
    v = as_value(x)
    at = axis_of(axis, len(v.dims) + 1)
    return index(v, (*[slice(None)] * at, None))


def squeeze(x: Any, axis: int) -> Array:
    """Without the dimension `axis`, which has one element."""
    v = as_value(x)
    at = axis_of(axis, len(v.dims))
    if v.dims[at].known != 1:
        fail(f"squeeze: dimension {at} has {v.dims[at]} elements")
    return index(v, (*[slice(None)] * at, 0))


def sized(x: Any, *sizes: Any) -> Array:
    """The array, of which the sizes are said to be these; running the program checks it."""
    v = as_value(x)
    dims = [parse_size(s) if isinstance(s, str) else a_size(s, "a size") for s in sizes]
    if len(dims) > len(v.dims):
        fail(f"{len(dims)} sizes for an array of rank {len(v.dims)}")
    known = v.scope.trace.sizes
    if bad := [a for d in dims for a in d.atoms() if isinstance(a, str) and a not in known]:
        fail(f"there is no size {bad[0]!r}", f"the sizes are {', '.join(sorted(known)) or 'none'}")
    wanted = (*dims, *v.dims[len(dims) :])
    return v if wanted == v.dims else let(Coerce(v, wanted), v.elem, wanted)


def reshape(x: Any, shape: Any) -> Array:
    """The elements in another shape; one size may be -1 where the others tell it."""
    v = as_value(x)
    wanted = list(shape) if isinstance(shape, tuple | list) else [shape]
    total = product(v.dims)
    dims: list[Size] = []
    if sum(_is_rest(s) for s in wanted) > 1:
        fail("one size of a reshape is -1 at most")
    for s in wanted:
        dims.append(size(1) if _is_rest(s) else a_size(s, "a size"))
    for i, s in enumerate(wanted):
        if _is_rest(s):
            dims[i] = total.divided(product(dims))
    if (made := product(dims)) != total and made.known is not None and total.known is not None:
        fail(f"an array of shape {shape_text(v.dims)} has no shape {shape_text(dims)}")
    if tuple(dims) == v.dims:
        return v
    flat = v
    while len(flat.dims) > 1:
        k = min(len(flat.dims), 4)
        head = "flatten" if k == 2 else f"flatten_{k}d"
        flat = let(Call(head, flat), v.elem, (product(flat.dims[:k]), *flat.dims[k:]))
    if not flat.dims:
        flat = let(Call("replicate", size(1), flat), v.elem, [size(1)])
    if not dims:
        return index(flat, 0)
    return _unflattened(flat, dims)


def _is_rest(s: Any) -> bool:
    return isinstance(s, int | np.integer) and s == -1


def _unflattened(flat: Array, dims: Sequence[Size]) -> Array:
    if len(dims) == 1:
        return flat if flat.dims == tuple(dims) else let(Coerce(flat, dims), flat.elem, dims)
    if len(dims) > 4:
        made = _unflattened(flat, [*dims[:3], product(dims[3:])])
        return _below(made, 3, lambda row: _unflattened(row, dims[3:]))
    return let(Unflatten(flat, dims), flat.elem, dims)


def _below(x: Array, levels: int, f: Callable[[Array], Array]) -> Array:
    return f(x) if levels == 0 else mapped(lambda row: _below(row, levels - 1, f), x)


def product(dims: Sequence[Size]) -> Size:
    """How many elements an array of that shape has."""
    made = size(1)
    for d in dims:
        made = made * d
    return made


def ravel(x: Any) -> Array:
    """All elements, as an array of rank 1."""
    return reshape(x, -1)


def _alike(xs: Any, what: str) -> list[Array]:
    if isinstance(xs, Value):
        return list(as_value(xs))
    parts = [x if is_weak(x) else as_value(x) for x in xs]
    if not parts:
        fail(f"{what} takes one array at least")
    elem = common(parts)
    return [convert(x, elem) for x in parts]


def concatenate(arrays: Any, axis: int = 0) -> Array:
    """Arrays one after the other, of equal sizes in all other dimensions."""
    parts = _alike(arrays, "concatenate")
    rank = len(parts[0].dims)
    if not rank:
        fail("concatenate takes arrays, not numbers", "fnp.stack makes an array of numbers")
    at = axis_of(axis, rank)
    if at:
        parts = [moved(p, at, 0) for p in parts]
    if bad := [p for p in parts if p.dims[1:] != parts[0].dims[1:]]:
        shown = f"{shape_text(parts[0].dims)} and {shape_text(bad[0].dims)}"
        fail(f"concatenate: shapes {shown} differ in another dimension")
    made = parts[0]
    for p in parts[1:]:
        made = let(Call("concat", made, p), made.elem, (made.dims[0] + p.dims[0], *made.dims[1:]))
    return moved(made, 0, at) if at else made


def stack(arrays: Any, axis: int = 0) -> Array:
    """Arrays or numbers of equal shapes as the rows of a new array; `axis` is the place of the new dimension."""
    parts = _alike(arrays, "stack")
    if bad := [p for p in parts if p.dims != parts[0].dims]:
        fail(f"stack: shapes {shape_text(parts[0].dims)} and {shape_text(bad[0].dims)} differ")
    dims = (size(len(parts)), *parts[0].dims)
    made = let(Rows(parts), parts[0].elem, dims)
    at = axis_of(axis, len(dims))
    return moved(made, 0, at) if at else made


def flip(x: Any, axis: int | Sequence[int] | None = None) -> Array:
    """Some dimensions in reverse order, by default all."""
    v = as_value(x)
    some = range(len(v.dims)) if axis is None else axis if isinstance(axis, Sequence) else (axis,)
    for at in [axis_of(a, len(v.dims)) for a in some]:
        v = index(v, (*[slice(None)] * at, slice(None, None, -1)))
    return v


def roll(x: Any, shift: Any, axis: int | None = None) -> Array:
    """Elements moved `shift` places on along a dimension, those beyond the end to the beginning; without an axis all
    elements in order."""
    v = as_value(x)
    if axis is None and len(v.dims) > 1:
        return reshape(roll(ravel(v), shift, 0), [of_size(d) for d in v.dims])
    at = axis_of(0 if axis is None else axis, len(v.dims))
    by = a_size(shift, "a shift")
    return _below(v, at, lambda row: let(Call("rotate", size(0) - by, row), row.elem, row.dims))


def take(x: Any, places: Any, axis: int | None = None) -> Array:
    """The elements in the places along a dimension; without an axis those of all elements in order."""
    v, i = as_value(x), as_value(places)
    if axis is None:
        return index(ravel(v), i)
    at, k = axis_of(axis, len(v.dims)), len(i.dims)
    rows = index(moved(v, at, 0), i)
    return transpose(rows, [*range(k, k + at), *range(k), *range(k + at, len(rows.dims))])


def diff(x: Any, n: int = 1, axis: int = -1) -> Array:
    """The differences of elements and those before them along a dimension, which has n elements at least, n times."""
    v = as_value(x)
    before = (slice(None),) * axis_of(axis, len(v.dims))
    for _ in range(n):
        v = index(v, (*before, slice(1, None))) - index(v, (*before, slice(None, -1)))
    return v


def repeat(x: Any, n: Any, axis: int | None = None) -> Array:
    """Each element n times, along a dimension; without an axis all elements in order."""
    v, k = as_value(x), a_size(n, "a size")
    if axis is None:
        v = ravel(v)
    at = axis_of(0 if axis is None else axis, len(v.dims))
    rows = moved(v, at, 0)
    many = swap(let(Call("replicate", k, rows), v.elem, (k, *rows.dims)), 0)
    return moved(reshape(many, [of_size(d) for d in (product(many.dims[:2]), *many.dims[2:])]), 0, at)


def full(shape: Any, value: Any, dtype: Any = None) -> Array:
    """An array all of whose elements are `value`."""
    v = as_value(value) if dtype is None else convert(value, elem_of(dtype))
    dims = [a_size(s, "a size") for s in (shape if isinstance(shape, tuple | list) else (shape,))]
    if v.dims:
        fail("full takes a number", "fnp.broadcast_to repeats an array")
    for d in reversed(dims):
        v = let(Call("replicate", d, v, hint="filled"), v.elem, (d, *v.dims))
    return v


def broadcast_to(x: Any, shape: Any) -> Array:
    """The array in a larger shape, by NumPy's rules."""
    v = as_value(x)
    dims = [a_size(s, "a size") for s in (shape if isinstance(shape, tuple | list) else (shape,))]

    def grown(row: Array, wanted: Sequence[Size]) -> Array:
        if not wanted:
            return row
        if len(row.dims) < len(wanted) or (row.dims[0].known == 1 and wanted[0].known != 1):
            inner = grown(row if len(row.dims) < len(wanted) else index(row, 0), wanted[1:])
            return let(Call("replicate", wanted[0], inner), row.elem, (wanted[0], *inner.dims))
        if row.dims[0] != wanted[0]:
            fail(f"broadcast_to: shape {shape_text(v.dims)} does not fit {shape_text(dims)}")
        return row if tuple(row.dims) == tuple(wanted) else mapped(lambda r: grown(r, wanted[1:]), row)

    if len(v.dims) > len(dims):
        fail(f"broadcast_to: shape {shape_text(v.dims)} does not fit {shape_text(dims)}")
    return grown(v, dims)


def arange(start: Any, stop: Any = None, step: int = 1, dtype: Any = None) -> Array:
    """Whole numbers from `start` (by default 0) to before `stop`, as i64 unless `dtype` is given."""
    low, high = (size(0), start) if stop is None else (a_size(start, "an end of a range"), stop)
    if not isinstance(step, int) or step == 0:
        fail("the step of arange is a number of Python's, not 0")
    span = a_size(high, "an end of a range") - low
    n = span if step == 1 else quotient(span if step > 0 else size(0) - span, abs(step))
    if n.known is not None and n.known < 0:
        n = size(0)
    made = let(Call("iota", n, hint="places"), "i64", [n])
    if step != 1:
        made = made * step
    if low.known != 0:
        made = made + of_size(low)
    return made if dtype is None else convert(made, elem_of(dtype))


def linspace(start: Any, stop: Any, num: Any, dtype: Any = "f64") -> Array:
    """`num` numbers from start to stop, both of them included, at equal distances."""
    k = a_size(num, "the number of points")
    elem = elem_of(dtype)
    if not PRIMS[elem].is_float:
        fail("linspace makes floats")
    a, b = convert(start, elem), convert(stop, elem)
    places = convert(let(Call("iota", k), "i64", [k]), elem)
    if k.known == 1:
        return places * 0 + a
    return a + places * ((b - a) / convert(of_size(k - 1), elem))


def eye(n: Any, m: Any = None, dtype: Any = "f64") -> Array:
    """1 on the diagonal of an n by m array (n by n), else 0."""
    rows = arange(n)
    columns = rows if m is None else arange(m)
    return convert(expand_dims(rows, 1) == columns, elem_of(dtype))


class Unflatten(Coerce):
    """`unflatten (xs :> [n * m]t) :> [n][m]t`; which factor is which size is told by their order."""

    def doc(self, w: Writer) -> Written:
        factors = " * ".join([f"({t})" if " " in t else t for t in [d.text(w.atom_name) for d in self.dims]])
        flat = ("(", w.use(self.array, LET + 1), f" :> [{factors}]{self.array.elem})")
        head = "unflatten" if len(self.dims) == 2 else f"unflatten_{len(self.dims)}d"
        return ("(", application(head, [flat]), " :> ", w.type(self.array.elem, self.dims), ")"), ATOM


class Rows(Call):
    """`[a, b, c]`."""

    def __init__(self, parts: Sequence[Value]) -> None:
        super().__init__("", *parts, hint="rows")

    def doc(self, w: Writer) -> Written:
        return enclosed([w.use(a, LET) for a in self.operands()], "[", "]"), ATOM

    def applied(self, w: Writer, params: Sequence[Value]) -> None:
        return None


__all__ = [
    "arange", "axis_of", "broadcast_to", "concatenate", "expand_dims", "eye", "flip", "full", "linspace", "mapped",
    "moved", "product", "ravel", "repeat", "reshape", "roll", "sized", "squeeze", "stack", "swap", "transpose",
]  # fmt: skip
