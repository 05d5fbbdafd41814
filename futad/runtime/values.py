"""Between a user's values and the flat arguments of a core function.

A `Signature` is all that calling an entry needs: it is built from a `Fun` and mentions no variables, so a cached
program can be called without its IR.

What the user passes, per parameter type:

- a scalar: a Python or NumPy number, or an array of rank 0.  Python numbers are converted where the type
  holds them (`2` for f64; `0.1` is rounded for f32); a NumPy number must have the parameter's dtype, or one all of
  whose numbers that dtype holds (`widens`: f32 for f64, i32 for f64, u8 for i16; not i64 for f64).
- an array: anything NumPy can view as an array of that dtype, or of one that widens to it (either byte order, any
  strides, read-only is fine), or nested lists of Python numbers.
  Of a bool any byte but 0 is true.
  Arrays of other libraries are viewed without a copy where they lie densely: in CPU memory by `__array__` or DLPack,
  in GPU memory by `__cuda_array_interface__` or DLPack (see `exchange.py`).
- a tuple: a tuple or list of its components.
- a record: a dict, or any object with its fields as attributes.
- a sum: a tuple of a constructor's name and its arguments, ("rbf", 1.3), or the name of one without arguments.
- an array of tuples (records, sums): a tuple (dict) of one array per component, or a list of tuples (dicts), or a
  NumPy structured array; of sums a list, or the record of their parts that results are.

Results come back as NumPy scalars and arrays, tuples, `Record`s (a dict whose items are attributes too) and sums as
they are passed; an array of tuples as a tuple of arrays, one of sums as a Record of the tags '#' and all parts.
Tangents and adjoints of a sum have its constructor.  Results never share memory with arguments or with each other.  If
an array in GPU memory was passed, all results are arrays in GPU memory, scalars ones of rank 0.
"""

from __future__ import annotations

from array import array as Buffer
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from futad.core.entry import Entry, EntryType
from futad.core.types import I64, MOST_SIZE, ArrayType, Const, Prim, Type, Var
from futad.errors import DtypeError, InputError, ShapeError, UsageError
from futad.runtime.exchange import DeviceArray, device_array
from futad.runtime.fast_arguments import Plan, plan
from futad.runtime.structure import (
    Empty,
    build_value,
    count_leaves,
    count_text,
    describe,
    flatten_value,
    leaf_paths,
)

if TYPE_CHECKING:
    from futad.core.ir import Fun

# A dimension of a leaf: the size itself, or the place of the argument or result that names it.
Dim = int | tuple[str, int]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A scalar or array component of a parameter or result: `path` is how messages call it."""

    path: str
    elem: Prim
    dims: tuple[Dim, ...]


@dataclass(slots=True)
class Signature:
    """How an entry is called.

    `size_names` are the explicit size arguments, `params` the leaves after them in order, `results` the
    leaves of the result and `witnesses` the places among the core results of sizes that the result brings
    along (they are not shown to the user).
    """

    entry: Entry
    size_names: tuple[str, ...]
    params: tuple[Leaf, ...]
    results: tuple[Leaf, ...]
    witnesses: frozenset[int] = frozenset()
    docs: dict[str, str] = field(default_factory=dict)
    _plan: Plan | None | Literal[False] = field(default=False, repr=False, compare=False)  # False: not made yet

    @property
    def name(self) -> str:
        return self.entry.name

    def text(self) -> str:
        """The signature in Futhark's notation."""
        return entry_text(self.entry)

    def flatten(self, args: Sequence[Any]) -> list[Any]:
        """The arguments of the core function.

        Raises UsageError (number of arguments), DtypeError, ShapeError, InputError.
        """
        if self._plan is False:
            self._plan = plan(self)
        if self._plan is not None and (bound := self._plan.bind(args)) is not None:
            return bound
        entry = self.entry
        if len(args) != len(entry.params):
            raise UsageError(
                f"{entry.name} takes {count_text(len(entry.params), 'argument')}, not {len(args)}",
                hint=self.text(),
            )
        raw: list[Any] = []
        unique: list[bool] = []
        for i, ((name, etype), value) in enumerate(zip(entry.params, args, strict=True)):
            before = len(raw)
            raw.extend(flatten_value(etype, value, name, entry.name))
            is_unique = i < len(entry.unique) and entry.unique[i]
            unique += [is_unique] * (len(raw) - before)
        return self.bind([_to_leaf(v, leaf, u) for v, leaf, u in zip(raw, self.params, unique, strict=True)])

    def components(self, i: int, value: Any) -> list[Any]:
        """The components of argument `i`, converted.  Raises as `flatten`."""
        name, etype = self.entry.params[i]
        first = sum([count_leaves(t) for _, t in self.entry.params[:i]])
        raw = flatten_value(etype, value, name, self.entry.name)
        return [_to_leaf(v, leaf, False) for v, leaf in zip(raw, self.params[first : first + len(raw)], strict=True)]

    def converted(self, k: int, value: Any) -> Any:
        """Component `k` of the arguments, converted.  Raises as `flatten`."""
        return _to_leaf(value, self.params[k], False)

    def bind(self, leaves: list[Any]) -> list[Any]:
        """Size arguments found from the shapes of exact leaf values, followed by those values."""
        sizes: dict[int, tuple[int, str]] = {}
        first_value = len(self.size_names)
        for i, (leaf, value) in enumerate(zip(self.params, leaves, strict=True)):
            if not leaf.dims and leaf.elem is I64:
                sizes[first_value + i] = (int(value), leaf.path)
        for leaf, value in zip(self.params, leaves, strict=True):
            for axis, (dim, actual) in enumerate(zip(leaf.dims, value.shape, strict=False)):
                if isinstance(dim, int):
                    if actual != dim:
                        raise ShapeError(
                            f"argument '{leaf.path}' of {self.name}: dimension {axis} must be {dim}, "
                            f"but the array has shape {_shape_text(value.shape)}"
                        )
                    continue
                if actual > MOST_SIZE:
                    raise ShapeError(
                        f"argument '{leaf.path}' of {self.name}: dimension {axis} is {actual}; "
                        f"it can be {MOST_SIZE} at most"
                    )
                known = sizes.setdefault(dim[1], (actual, leaf.path))
                if known[0] != actual:
                    raise ShapeError(self._disagreement(leaf, axis, value.shape, dim[1], known))
        for i, name in enumerate(self.size_names):
            if i not in sizes:
                if not any(("arg", i) in leaf.dims for leaf in self.params):
                    raise InputError(f"{self.name}: no argument determines the size {name}")
                sizes[i] = (0, "")
        for leaf, value in zip(self.params, leaves, strict=True):
            if isinstance(value, Empty):
                full = [d if isinstance(d, int) else sizes[d[1]][0] for d in leaf.dims]
                filled = np.zeros((*value.shape, *full[len(value.shape) :]), leaf.elem.dtype)
                leaves = [filled if v is value else v for v in leaves]
        return [sizes[i][0] for i in range(first_value)] + leaves

    def _disagreement(self, leaf: Leaf, axis: int, shape: tuple[int, ...], size: int, known: tuple[int, str]) -> str:
        where = f"argument '{leaf.path}' of {self.name}: dimension {axis} is {shape[axis]}"
        value, path = known
        if size >= len(self.size_names):
            return f"{where}, but must equal argument '{path}', which is {value}"
        name = self.size_names[size]
        if path == leaf.path:
            return f"{where}, but size {name} is {value} by an earlier dimension (shape {_shape_text(shape)})"
        return f"{where}, but size {name} is {value} by argument '{path}'"

    def visible(self, results: Sequence[Any]) -> list[Any]:
        """The core results without the sizes they bring along."""
        if not self.witnesses:
            return results if isinstance(results, list) else list(results)
        return [r for i, r in enumerate(results) if i not in self.witnesses]

    def unflatten(self, results: Sequence[Any], args: Sequence[Any] = (), fresh: bool = False) -> Any:
        """The user's view of the core results.

        `args` are the flat arguments, whose memory is not shared; `fresh`: the results share none anyway.
        """
        own = self.visible(results)
        if fresh and len(own) == 1 and self.entry.result.kind in ("scalar", "array"):
            return own[0]
        return build_value(self.entry.result, iter(own if fresh else _unshared(own, args)))


def signature_of(fun: Fun) -> Signature:
    """The calling convention of an entry function."""
    entry = fun.entry
    assert entry is not None, f"{fun.name} is not an entry"
    params = fun.body.params
    arg_place = {v: i for i, v in enumerate(params)}
    paths = [p for name, etype in entry.params for p in leaf_paths(etype, name)]
    leaves = [
        Leaf(path, *_elem_dims(v.type, {}, arg_place)) for path, v in zip(paths, params[fun.num_sizes :], strict=True)
    ]
    witnesses = witnesses_of(fun.ret, entry.result)
    ret_place = {v: i for i, v in enumerate(fun.ret)}
    shown = [v for i, v in enumerate(fun.ret) if i not in witnesses]
    results = [
        Leaf(path, *_elem_dims(v.type, ret_place, arg_place))
        for path, v in zip(leaf_paths(entry.result, "result"), shown, strict=True)
    ]
    return Signature(
        entry,
        tuple([v.name for v in params[: fun.num_sizes]]),
        tuple(leaves),
        tuple(results),
        frozenset(witnesses),
    )


def _elem_dims(t: Type, ret: dict[Var, int], arg: dict[Var, int]) -> tuple[Prim, tuple[Dim, ...]]:
    if isinstance(t, Prim):
        return t, ()
    assert isinstance(t, ArrayType), t
    dims: list[Dim] = []
    for s in t.shape:
        if isinstance(s, Const):
            dims.append(int(s.value))
        elif s in ret:
            dims.append(("res", ret[s]))
        else:
            dims.append(("arg", arg[s]))
    return t.elem, tuple(dims)


def witnesses_of(ret: Sequence[Var], shown: EntryType) -> set[int]:
    """Which results are sizes that come along with an array of unknown size.

    There are as many as results exceed the components shown; they are i64 and named by a later result.
    """
    surplus = len(ret) - count_leaves(shown)
    if surplus == 0:
        return set()
    named = {s for v in ret if isinstance(v.type, ArrayType) for s in v.type.shape if isinstance(s, Var)}
    candidates = [i for i, v in enumerate(ret) if v.type is I64 and v in named]
    return set(candidates[:surplus])


def _unshared(results: list[Any], args: Sequence[Any]) -> list[Any]:
    seen = [a for a in args if isinstance(a, np.ndarray)]
    out = []
    for r in results:
        if isinstance(r, np.ndarray):
            if not r.flags.c_contiguous or any(np.may_share_memory(r, s) for s in seen):
                r = r.copy(order="C")
            seen.append(r)
        out.append(r)
    return out


# --- leaves ---------------------------------------------------------------------------------------------


def _to_leaf(value: Any, leaf: Leaf, own: bool) -> Any:
    """`value` as a NumPy scalar or C-contiguous array of exactly the leaf's dtype; a copy if `own`."""
    want = leaf.elem.dtype
    if type(value) is np.ndarray and value.dtype is want and not own and value.ndim == len(leaf.dims) > 0:
        flags = value.flags
        if flags.c_contiguous and flags.aligned:
            return value
    if isinstance(value, np.ndarray | np.generic):
        array = _exact_array(value, leaf)
    elif isinstance(value, bool | int | float):
        array = np.asarray(_exact_number(value, leaf))
    elif isinstance(value, list | tuple):
        made = _from_list(value, leaf)
        if isinstance(made, Empty):
            return made
        array = made
    elif isinstance(value, Empty):
        return value
    elif isinstance(value, complex):
        raise DtypeError(f"argument '{leaf.path}': expected {leaf_text(leaf)}, got a complex number")
    elif (there := device_array(value, leaf.path)) is not None:
        return _device_leaf(value, there, leaf, own)
    else:
        array = _exact_array(_foreign(value, leaf), leaf, type(value))
    if array.ndim != len(leaf.dims):
        raise ShapeError(
            f"argument '{leaf.path}': expected {leaf_text(leaf)}, which has rank {len(leaf.dims)}, got "
            + (f"an array of shape {_shape_text(array.shape)}" if array.ndim else "a scalar")
        )
    if not leaf.dims:
        return want.type(array[()])
    if array.dtype != want or not array.flags.c_contiguous or own or not array.flags.aligned:
        array = np.array(array, dtype=want, order="C", copy=True)
    return array


def _device_leaf(value: Any, array: DeviceArray, leaf: Leaf, own: bool) -> Any:
    """An array in device memory as an argument: as it is, for a scalar parameter read by its own library."""
    if array.dtype != leaf.elem.dtype:
        raise DtypeError(
            f"argument '{leaf.path}': expected {leaf_text(leaf)} ({leaf.elem.dtype.name}), got an array in GPU memory "
            f"of {array.dtype}"
        )
    if array.ndim != len(leaf.dims):
        raise ShapeError(
            f"argument '{leaf.path}': expected {leaf_text(leaf)}, which has rank {len(leaf.dims)}, got an array of "
            f"shape {_shape_text(array.shape)}"
        )
    if not leaf.dims:
        return leaf.elem.dtype.type(value.item())
    return replace(array, path=leaf.path, own=own)


def _foreign(value: Any, leaf: Leaf) -> np.ndarray[Any, Any]:
    """An array of another library, viewed by NumPy."""
    try:
        if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
            return np.asarray(value)
        if hasattr(value, "__dlpack__"):
            return np.from_dlpack(value)
        if isinstance(value, memoryview | Buffer):
            return np.asarray(value)
    except Exception as e:  # the other library's own complaint is what the user needs
        hint = "futad.torch.function(f) takes tensors with gradients" if hasattr(value, "requires_grad") else None
        if type(value).__module__.partition(".")[0] == "jax":
            hint = "futad.jax.function(f) takes what JAX traces"
        message = f"argument '{leaf.path}': {type(value).__name__} cannot be viewed as an array: {e}"
        raise DtypeError(message, hint=hint) from None
    raise DtypeError(f"argument '{leaf.path}': expected {leaf_text(leaf)}, got {describe(value)}")


def _exact_array(value: Any, leaf: Leaf, given: type = np.ndarray) -> np.ndarray[Any, Any]:
    """`value` as an array, if the leaf's dtype holds its numbers; `given`: the type of what it is a view of."""
    if isinstance(value, np.ma.MaskedArray):
        raise DtypeError(f"argument '{leaf.path}': masked arrays are not accepted; fill the array first")
    array = np.asarray(value)
    want = leaf.elem.dtype
    if array.dtype != want and array.dtype.newbyteorder("=") != want and not widens(array.dtype, want):
        what = "an array of" if array.ndim else "a NumPy scalar of"
        convert = f"{leaf.path.split('.')[-1]}.astype(np.{want.name})"
        if not array.ndim:
            convert = f"np.{want.name}({leaf.path.split('.')[-1]})"
        elif given.__module__.partition(".")[0] == "torch":
            convert = f"{leaf.path.split('.')[-1]}.to(torch.{want.name})"
        numeric = array.dtype.kind in "biuf" and want.kind in "biuf"
        raise DtypeError(
            f"argument '{leaf.path}': expected {leaf_text(leaf)} ({want.name}), got {what} {array.dtype}",
            hint=f"convert it yourself if that is meant: {convert}" if numeric else None,
        )
    return array


def widens(given: np.dtype[Any], want: np.dtype[Any]) -> bool:
    """Whether all numbers of one type are numbers of the other; bools are none."""
    if given.kind not in "iuf" or want.kind not in "iuf":
        return False
    if given.kind in "iu" and want.kind == "f":
        return bool(np.iinfo(given).bits - (given.kind == "i") <= np.finfo(want).nmant + 1)
    return np.can_cast(given, want, "safe")


def _exact_number(value: bool | int | float, leaf: Leaf) -> Any:
    t = leaf.elem
    if isinstance(value, bool):
        if not t.is_bool:
            raise DtypeError(f"argument '{leaf.path}': expected {leaf_text(leaf)}, got the bool {value}")
    elif t.is_bool:
        raise DtypeError(f"argument '{leaf.path}': expected {leaf_text(leaf)}, got the number {value!r}")
    elif t.is_integral:
        if isinstance(value, float):
            raise DtypeError(
                f"argument '{leaf.path}': expected {leaf_text(leaf)}, got the float {value!r}",
                hint="pass an int",
            )
        info = np.iinfo(t.dtype)
        if not info.min <= value <= info.max:
            raise DtypeError(f"argument '{leaf.path}': {value} does not fit {t} ({info.min} to {info.max})")
    else:
        return _float_of(value, leaf)
    return t.dtype.type(value)


def _float_of(value: int | float, leaf: Leaf) -> Any:
    with np.errstate(all="ignore"):
        try:
            made = leaf.elem.dtype.type(value)
        except OverflowError:
            made = leaf.elem.dtype.type(np.inf)
    if isinstance(value, int) and (np.isinf(made) or int(made) != value):
        raise DtypeError(f"argument '{leaf.path}': the int {value} is not exact in {leaf.elem}", hint="pass a float")
    if isinstance(value, float) and np.isinf(made) and not np.isinf(value):
        raise DtypeError(f"argument '{leaf.path}': {value!r} is too large for {leaf.elem}")
    return made


def _from_list(value: Sequence[Any], leaf: Leaf) -> np.ndarray[Any, Any] | Empty:
    t = leaf.elem
    try:
        array = np.asarray(value)
    except ValueError:
        raise ShapeError(f"argument '{leaf.path}': the rows of the nested list differ in length") from None
    except OverflowError:
        array = np.asarray(value, dtype=object)
    if array.size == 0 and array.ndim < len(leaf.dims):
        return Empty(array.shape)
    if array.size == 0:
        return np.zeros(array.shape, t.dtype)
    if _holds_arrays(value):
        return _exact_array(array, leaf)
    if array.dtype.kind == "f" and (t.is_integral or (np.abs(array) >= 2.0**53).any()):
        array = np.asarray(value, dtype=object)  # NumPy makes floats of integers that no type of its own holds together
    if array.dtype.kind not in "biuf":
        flat = array.ravel().tolist()
        bad = [x for x in flat if not isinstance(x, bool | int | float)]
        if bad:
            raise DtypeError(f"argument '{leaf.path}': expected {leaf_text(leaf)}, got a list of {bad[0]!r}")
        numbers = [_exact_number(x, leaf) for x in flat]
        return np.array(numbers, t.dtype).reshape(array.shape)
    exact = array.dtype.kind == "b" and t.is_bool
    with np.errstate(all="ignore"):
        made = array.astype(t.dtype)
        if array.dtype.kind == "f" and t.is_float:
            exact = bool(np.all(np.isinf(made) == np.isinf(array)))
        elif array.dtype.kind in "iu" and not t.is_bool:
            exact = bool(np.all(made == array)) and bool(np.all(made.astype(array.dtype) == array))
    if not exact:
        for x in array.ravel().tolist():
            _exact_number(x, leaf)
    return made


def _holds_arrays(value: Any) -> bool:
    """Whether a nested list has NumPy values in it: then their dtype counts."""
    if isinstance(value, list | tuple):
        return any(_holds_arrays(v) for v in value)
    return isinstance(value, np.ndarray | np.generic)


# --- texts ------------------------------------------------------------------------------------------------


def leaf_text(leaf: Leaf) -> str:
    """The leaf's type as messages show it; unnamed sizes are empty brackets."""
    return "".join(f"[{d}]" if isinstance(d, int) else "[]" for d in leaf.dims) + leaf.elem.name


def entry_text(entry: Entry) -> str:
    """`main (xs: [n]f64) (k: i64): f64`."""
    params = "".join(f" ({name}: {t.text})" for name, t in entry.params)
    return f"{entry.name}{params}: {entry.result.text}"


def _shape_text(shape: Sequence[int]) -> str:
    return "(" + ", ".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"
