"""Parts of arrays: `x[i]`, `x[a:b, :, None]`, gathers, and arrays with other values in places."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from futad.python.calls import Call, Coerce, Index, Place, Soac, Update, is_whole
from futad.python.elementwise import ArrayLiteral, Expand, as_value, broadcast, convert, shape_text, where
from futad.python.place import fail
from futad.python.sizes import Size, size
from futad.python.values import Value, identical, is_in, let, of_size, opened

if TYPE_CHECKING:
    from futad.python.arrays import Array


def a_size(x: Any, what: str) -> Size:
    """A number of Python's, or a traced i64, as a size.  Raises TraceError."""
    if isinstance(x, int | np.integer) and not isinstance(x, bool):
        return size(int(x))
    if isinstance(x, Value) and not x.dims and x.elem != "bool" and x.elem[0] in "iu":
        made = convert(x, "i64")
        return made.as_size if made.as_size is not None else size(made)
    shown = f"of shape {shape_text(x.dims)}" if isinstance(x, Value) and x.dims else getattr(x, "elem", repr(x))
    fail(f"{what} is a whole number, not {shown}")


def number(x: Any, what: str) -> Array:
    """The same as a value."""
    if isinstance(x, Value):
        a_size(x, what)
        return convert(x, "i64")
    return of_size(a_size(x, what))


def index(x: Array, key: Any) -> Array:
    """`x[key]`, by NumPy's rules but for slices, whose ends must be in the array."""
    keys = list(key) if isinstance(key, tuple) else [key]
    real = [k for k in keys if k is not None and k is not Ellipsis]
    if sum(k is Ellipsis for k in keys) > 1:
        fail("an index has one '...' at most")
    if len(real) > len(x.dims):
        fail(f"an array of rank {len(x.dims)} has no {len(real)} indices")
    if not is_in(Ellipsis, keys):
        keys.append(Ellipsis)
    at = next(i for i, k in enumerate(keys) if k is Ellipsis)
    keys[at : at + 1] = [slice(None)] * (len(x.dims) - len(real))
    gathers = [k for k in keys if isinstance(k, list | np.ndarray) or (isinstance(k, Value) and k.dims)]
    if gathers:
        return _gather(x, keys)
    places: list[Place] = []
    dims: list[Size] = []
    inserted: list[int] = []
    axis = 0
    for k in keys:
        if k is None:
            inserted.append(len(dims))
            dims.append(size(1))
            continue
        place, left = _place(k, x.dims[axis])
        places.append(place)
        dims += left
        axis += 1
    plain = [d for i, d in enumerate(dims) if i not in inserted]
    if not all(is_whole(p) for p in places):
        x = let(Index(x, places), x.elem, plain)
        if any(isinstance(p, tuple) and not _told(p) for p in places):
            x = let(Coerce(x, plain), x.elem, plain)
    return let(Expand(x, tuple(inserted)), x.elem, dims) if inserted else x


def _told(p: tuple[Size | None, Size | None, int | None]) -> bool:
    """Whether the language tells the size of a slice: of one with a step, if that only turns an array round."""
    low, high, step = p
    return step is None or (step == -1 and low is None and high is None)


def _place(k: Any, n: Size) -> tuple[Place, list[Size]]:
    """An index of a dimension of size n as the text has it, and the sizes that are left."""
    if isinstance(k, slice):
        return _slice(k, n)
    if isinstance(k, Value) and k.elem == "bool":
        fail("an index by bools is not supported", "write fnp.where(mask, x, 0), or fnp.filter")
    s = a_size(k, "an index")
    if s.known is not None:
        if n.known is not None and not -n.known <= s.known < n.known:
            fail(f"index {s.known} is out of bounds for size {n.known}")
        return (n + s if s.known < 0 else s), []
    return (s if not isinstance(s.atom, Value) else s.atom), []


def _slice(k: slice, n: Size) -> tuple[Place, list[Size]]:
    step = 1 if k.step is None else k.step
    if not isinstance(step, int) or step == 0:
        fail("the step of a slice is a number of Python's, not 0")
    if step == 1 and k.start is None and k.stop is None:
        return (None, None, None), [n]
    low, high = [None if e is None else a_size(e, "an end of a slice") for e in (k.start, k.stop)]
    low, high = [n + e if e is not None and e.known is not None and e.known < 0 else e for e in (low, high)]
    if step > 0:
        count = (high if high is not None else n) - (low if low is not None else 0)
    elif high is None:
        count = (low if low is not None else n - 1) + 1
    else:
        count = (low if low is not None else n - 1) - high
    if abs(step) > 1:
        count = quotient(count, abs(step))
    if (known := count.known) is not None and known < 0:
        fail("a slice whose end is before its beginning")
    return (low, high, None if step == 1 else step), [count]


def quotient(count: Size, step: int) -> Size:
    """`(count + step - 1) / step`, rounded down."""
    return (count + (step - 1)).divided(step)


def _gather(x: Array, keys: Sequence[Any]) -> Array:
    """`x[..., is, ...]` with arrays of indices, in the first dimensions."""
    used = [k for k in keys if not (isinstance(k, slice) and k == slice(None))]
    if not identical(keys[: len(used)], used):
        fail("arrays of indices stand in the first places", "transpose the array before, or use fnp.map")
    if any(isinstance(k, slice) or k is None for k in used):
        fail("arrays of indices do not mix with slices and None", "index twice: x[is][:, a:b]")
    places = [_counted(as_value(k, "an index"), n) for k, n in zip(used, x.dims, strict=False)]
    if any(p.elem == "bool" for p in places):
        fail("an index by bools is not supported", "write fnp.where(mask, x, 0), or fnp.filter")
    if any(p.elem[0] not in "iu" for p in places):
        fail("indices are whole numbers", "convert them: i.astype(i64)")
    shape = broadcast([p.dims for p in places], "indices")

    def at(level: int, at_level: Sequence[Array]) -> Array:
        if level == len(shape):
            return index(x, tuple(at_level))
        mapped = [p for p in at_level if len(p.dims) == len(shape) - level and p.dims[0] == shape[level]]
        with opened([(p.elem, p.dims[1:]) for p in mapped]) as (scope, params):
            by = dict(zip(map(id, mapped), params, strict=True))
            rows = [by.get(id(p)) if id(p) in by else p for p in at_level]
            rows = [index(r, 0) if r is not None and len(r.dims) == len(shape) - level else r for r in rows]
            made = at(level + 1, [r for r in rows if r is not None])
            scope.results = [made]
        return let(Soac("map", scope, [], mapped), made.elem, (shape[level], *made.dims))

    return at(0, places)


def _counted(places: Array, n: Size) -> Array:
    """Indices that are known, those from the end counted from the beginning."""
    known = places.exp.value if isinstance(places.exp, ArrayLiteral) else None
    if known is None or known.dtype.kind != "i" or known.min(initial=0) >= 0:
        return places
    return where(places < 0, places + of_size(n), places)


class At:
    """`x.at[key]`: the array with other values in a place."""

    def __init__(self, array: Array, key: Any = None) -> None:
        self._array, self._key = array, key

    def __getitem__(self, key: Any) -> At:
        return At(self._array, key)

    def set(self, value: Any) -> Array:
        """x with `value` in the place; of the same place twice, either value.  Indices out of range are an error of
        numbers, and ignored in arrays of them."""
        return self._changed(value, lambda old, new: new, "scatter")

    def add(self, value: Any) -> Array:
        """x with `value` added to the place, once for each time that it is named."""
        return self._changed(value, lambda old, new: old + new, "reduce_by_index")

    def _changed(self, value: Any, new: Callable[[Any, Any], Any], head: str) -> Array:
        x, keys = self._array, self._key if isinstance(self._key, tuple) else (self._key,)
        if any(isinstance(k, list | np.ndarray) or (isinstance(k, Value) and k.dims) for k in keys):
            return self._at_many(keys, value, head)
        if any(isinstance(k, slice) or k is None or k is Ellipsis for k in keys):
            fail("x.at[...] takes numbers, or one array of numbers",
                 "use fnp.concatenate, or fnp.where with fnp.arange")  # fmt: skip
        if len(keys) > len(x.dims):
            fail(f"an array of rank {len(x.dims)} has no {len(keys)} indices")
        places = [_place(k, n)[0] for k, n in zip(keys, x.dims, strict=False)]
        made = convert(new(index(x, tuple(keys)), value), x.elem)
        if made.dims != x.dims[len(keys) :]:
            fail(f"a value of shape {shape_text(made.dims)} for a place of shape {shape_text(x.dims[len(keys):])}")
        at = [p for p in places if not isinstance(p, tuple)]
        return let(Update(x, at, made), x.elem, x.dims)

    def _at_many(self, keys: Sequence[Any], value: Any, head: str) -> Array:
        x = self._array
        places = as_value(keys[0], "an index")
        if len(keys) > 1 or len(places.dims) != 1 or places.elem[0] not in "iu":
            fail("x.at[is] takes one array of whole numbers, of rank 1", "use fnp.scatter or fnp.hist of flat arrays")
        places = convert(places, "i64")
        values = convert(value, x.elem)
        wanted = (places.dims[0], *x.dims[1:])
        for n in reversed(wanted if not values.dims else ()):
            values = let(Call("replicate", n, values), x.elem, (n, *values.dims))
        if values.dims != wanted:
            fail(f"values of shape {shape_text(values.dims)} for places of shape {shape_text(wanted)}")
        copied = let(Call("copy", x), x.elem, x.dims)
        if head == "scatter":
            return let(Call("scatter", copied, places, values, hint="updated"), x.elem, x.dims)
        if len(x.dims) != 1:
            fail("x.at[is].add adds to arrays of rank 1", "use fnp.hist")
        from_zero = convert(0, x.elem)
        return let(Call("reduce_by_index", copied, "(+)", from_zero, places, values, hint="updated"), x.elem, x.dims)


__all__ = ["At", "a_size", "index", "number", "quotient"]
