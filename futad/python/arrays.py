"""Traced values as users have them: operators, indexing, and the errors of what only numbers can do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from math import prod
from typing import Any, NoReturn

import numpy as np

from futad.python import contractions, reductions, shaping
from futad.python import elementwise as ew
from futad.python.elementwise import OPERATORS
from futad.python.indexing import At, index
from futad.python.instead import has, instead
from futad.python.place import fail, here, line_at
from futad.python.sizes import size
from futad.python.values import DTYPES, Value, elem_of, of_size

_SAME = """add subtract multiply remainder equal not_equal less less_equal greater greater_equal left_shift
    right_shift""".split()
_BY_NUMPY: dict[str, Callable[..., Array]] = {
    **{name: (lambda a, b, op=op: ew.same(op, a, b)) for name, op in OPERATORS.items() if name in _SAME},
    "divide": ew.divide, "floor_divide": ew.floor_divide, "power": ew.power, "matmul": contractions.matmul,
    **{f"bitwise_{name}": (lambda a, b, name=name: ew.bitwise(name, a, b)) for name in ("and", "or", "xor")},
}  # fmt: skip


class Array(Value):
    """A number or array of a function that is being traced; it has a type and sizes, but no value.

    Operators and methods are NumPy's.  What needs a value (`if x > 0`, `float(x)`, a loop over it) is a TraceError that
    says what to write.
    """

    __array_priority__ = 1000
    __hash__ = object.__hash__

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes: Python's numbers where they are known, else traced i64."""
        return tuple([d.known if d.known is not None else of_size(d) for d in self.dims])

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return len(self.dims)

    @property
    def size(self) -> Any:
        """How many elements it has: Python's number if that is known, else a traced i64."""
        n = prod(self.dims, start=size(1))
        return n.known if n.known is not None else of_size(n)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Its elements' type, NumPy's."""
        return DTYPES[self.elem]

    @property
    def T(self) -> Array:
        """The dimensions in reverse order."""
        return shaping.transpose(self)

    @property
    def at(self) -> At:
        """`x.at[i].set(v)`, `x.at[i].add(v)`: x with another value in a place."""
        return At(self)

    def __add__(self, other: Any) -> Array:
        return ew.same(OPERATORS["add"], self, other)

    def __radd__(self, other: Any) -> Array:
        return ew.same(OPERATORS["add"], other, self)

    def __sub__(self, other: Any) -> Array:
        return ew.same(OPERATORS["subtract"], self, other)

    def __rsub__(self, other: Any) -> Array:
        return ew.same(OPERATORS["subtract"], other, self)

    def __mul__(self, other: Any) -> Array:
        return ew.same(OPERATORS["multiply"], self, other)

    def __rmul__(self, other: Any) -> Array:
        return ew.same(OPERATORS["multiply"], other, self)

    def __truediv__(self, other: Any) -> Array:
        return ew.divide(self, other)

    def __rtruediv__(self, other: Any) -> Array:
        return ew.divide(other, self)

    def __floordiv__(self, other: Any) -> Array:
        return ew.floor_divide(self, other)

    def __rfloordiv__(self, other: Any) -> Array:
        return ew.floor_divide(other, self)

    def __mod__(self, other: Any) -> Array:
        return ew.same(OPERATORS["remainder"], self, other)

    def __rmod__(self, other: Any) -> Array:
        return ew.same(OPERATORS["remainder"], other, self)

    def __pow__(self, other: Any) -> Array:
        return ew.power(self, other)

    def __rpow__(self, other: Any) -> Array:
        return ew.power(other, self)

    def __and__(self, other: Any) -> Array:
        return ew.bitwise("and", self, other)

    def __rand__(self, other: Any) -> Array:
        return ew.bitwise("and", other, self)

    def __or__(self, other: Any) -> Array:
        return ew.bitwise("or", self, other)

    def __ror__(self, other: Any) -> Array:
        return ew.bitwise("or", other, self)

    def __xor__(self, other: Any) -> Array:
        return ew.bitwise("xor", self, other)

    def __rxor__(self, other: Any) -> Array:
        return ew.bitwise("xor", other, self)

    def __lshift__(self, other: Any) -> Array:
        return ew.same(OPERATORS["left_shift"], self, other)

    def __rlshift__(self, other: Any) -> Array:
        return ew.same(OPERATORS["left_shift"], other, self)

    def __rshift__(self, other: Any) -> Array:
        return ew.same(OPERATORS["right_shift"], self, other)

    def __rrshift__(self, other: Any) -> Array:
        return ew.same(OPERATORS["right_shift"], other, self)

    def __matmul__(self, other: Any) -> Array:
        return contractions.matmul(self, other)

    def __rmatmul__(self, other: Any) -> Array:
        return contractions.matmul(other, self)

    def __lt__(self, other: Any) -> Array:
        return ew.same(OPERATORS["less"], self, other)

    def __le__(self, other: Any) -> Array:
        return ew.same(OPERATORS["less_equal"], self, other)

    def __gt__(self, other: Any) -> Array:
        return ew.same(OPERATORS["greater"], self, other)

    def __ge__(self, other: Any) -> Array:
        return ew.same(OPERATORS["greater_equal"], self, other)

    def __eq__(self, other: object) -> Any:
        return ew.same(OPERATORS["equal"], self, other)

    def __ne__(self, other: object) -> Any:
        return ew.same(OPERATORS["not_equal"], self, other)

    def __neg__(self) -> Array:
        return ew.negative(self)

    def __pos__(self) -> Array:
        return self

    def __abs__(self) -> Array:
        return ew.same(OPERATORS["absolute"], self)

    def __invert__(self) -> Array:
        return ew.invert(self)

    def __getitem__(self, key: Any) -> Array:
        return index(self, key)

    # --- methods ---

    def astype(self, dtype: Any) -> Array:
        """With elements of another type: `f32`, or a dtype of NumPy's."""
        return ew.convert(self, elem_of(dtype))

    def sized(self, *sizes: Any) -> Array:
        """The array, of which the sizes are said to be these (names or numbers); running the program checks it."""
        return shaping.sized(self, *sizes)

    def sum(self, axis: reductions.Axis = None, keepdims: bool = False) -> Array:
        """See `fnp.sum`."""
        return reductions.total("sum", self, axis, keepdims)

    def prod(self, axis: reductions.Axis = None, keepdims: bool = False) -> Array:
        """See `fnp.prod`."""
        return reductions.total("product", self, axis, keepdims)

    def max(self, axis: reductions.Axis = None, keepdims: bool = False) -> Array:
        """See `fnp.max`."""
        return reductions.total("maximum", self, axis, keepdims)

    def min(self, axis: reductions.Axis = None, keepdims: bool = False) -> Array:
        """See `fnp.min`."""
        return reductions.total("minimum", self, axis, keepdims)

    def mean(self, axis: reductions.Axis = None, keepdims: bool = False) -> Array:
        """See `fnp.mean`."""
        return reductions.mean(self, axis, keepdims)

    def var(self, axis: reductions.Axis = None, keepdims: bool = False, ddof: int = 0) -> Array:
        """See `fnp.var`."""
        return reductions.var(self, axis, keepdims, ddof)

    def std(self, axis: reductions.Axis = None, keepdims: bool = False, ddof: int = 0) -> Array:
        """See `fnp.std`."""
        return reductions.std(self, axis, keepdims, ddof)

    def any(self, axis: reductions.Axis = None, keepdims: bool = False) -> Array:
        """See `fnp.any`."""
        return reductions.either("or", self, axis, keepdims)

    def all(self, axis: reductions.Axis = None, keepdims: bool = False) -> Array:
        """See `fnp.all`."""
        return reductions.either("and", self, axis, keepdims)

    def argmax(self, axis: int | None = None) -> Array:
        """See `fnp.argmax`."""
        return reductions.place_of("maximum", self, axis)

    def argmin(self, axis: int | None = None) -> Array:
        """See `fnp.argmin`."""
        return reductions.place_of("minimum", self, axis)

    def cumsum(self, axis: int | None = None) -> Array:
        """See `fnp.cumsum`."""
        return reductions.cumulate("add", self, axis)

    def dot(self, other: Any) -> Array:
        """See `fnp.dot`."""
        return contractions.dot(self, other)

    def ravel(self) -> Array:
        """See `fnp.ravel`."""
        return shaping.ravel(self)

    def reshape(self, *shape: Any) -> Array:
        """See `fnp.reshape`."""
        return shaping.reshape(self, shape[0] if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape)

    def transpose(self, *axes: int) -> Array:
        """See `fnp.transpose`."""
        return shaping.transpose(self, axes or None)

    # --- what needs a value ---

    def __bool__(self) -> bool:
        fail(
            "whether a traced value is true is not known while the function is traced",
            "instead of `if` write fnp.cond(test, lambda: a, lambda: b), or fnp.where(test, a, b) for elements; "
            "instead of `while` fnp.while_loop; instead of `and`, `or`, `not` &, |, ~; instead of Python's max and min "
            "fnp.maximum and fnp.minimum",
        )

    def __float__(self) -> float:
        self._no_number("float")

    def __int__(self) -> int:
        self._no_number("int")

    def __complex__(self) -> complex:
        self._no_number("complex")

    def __round__(self, digits: int = 0) -> Array:
        fail("Python's round makes a number of Python's, which a traced value is not", "write fnp.rint(x)")

    def _no_number(self, kind: str) -> NoReturn:
        called = [n for n in re.findall(r"math\.(\w+)\(", line_at(here()) or "") if has(n)]
        if called:
            fail(f"math.{called[0]} got a traced value, of which only futad.numpy knows what to do",
                 f"write fnp.{called[0]}")  # fmt: skip
        fail(f"the value of a traced value is not known while the function is traced, so there is no {kind}() of it",
             "x.astype(f64) or x.astype(i64) converts it in the program; Python's own functions do not take traced "
             "values, those of futad.numpy do")  # fmt: skip

    def __index__(self) -> int:
        fail("the value of a traced value is not known while the function is traced, so it is no index, size or count "
             "for Python",
             "instead of `for i in range(n)` write fnp.loop(n, lambda i, state: ..., initial), fnp.map over "
             "fnp.arange(n), or make n an argument that static= names")  # fmt: skip

    def __len__(self) -> int:
        if self.dims and (known := self.dims[0].known) is not None:
            return known
        if not self.dims:
            fail("a number has no length")
        fail(f"the size {self.dims[0]} is not known while the function is traced, so there is no len() of the array",
             "write x.shape[0]")  # fmt: skip

    def __iter__(self) -> Iterator[Array]:
        if self.dims and (known := self.dims[0].known) is not None:
            return iter([index(self, i) for i in range(known)])
        if not self.dims:
            fail("a number cannot be iterated over", "to make one traced value of several, return a tuple of them")
        fail(f"the size {self.dims[0]} is not known while the function is traced, so Python cannot iterate over the "
             "array",
             "instead of `for row in x` write fnp.map(lambda row: ..., x), or fnp.loop(n, lambda i, state: ..., "
             "initial) with x[i]; instead of Python's sum and sorted fnp.sum and fnp.sort")  # fmt: skip

    def __contains__(self, item: object) -> bool:
        fail("whether a traced array has an element is not known while the function is traced",
             "write fnp.any(x == value)")  # fmt: skip

    def __setitem__(self, key: Any, value: Any) -> None:
        fail("traced arrays do not change", "write y = x.at[i].set(value), or x.at[i].add(value) instead of +=")

    def __array__(self, *_: Any, **__: Any) -> Any:
        fail("NumPy got a traced value, of which only futad.numpy knows what to do", "write fnp. instead of np.")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **_: Any) -> Any:
        made = _BY_NUMPY.get(ufunc.__name__)  # an operator whose left operand is NumPy's
        if method != "__call__" or made is None:
            fail(f"np.{ufunc.__name__} got a traced value, of which only futad.numpy knows what to do",
                 instead(ufunc.__name__))  # fmt: skip
        return made(*inputs)

    def __array_function__(self, function: Callable[..., Any], *_: Any) -> Any:
        name = getattr(function, "__name__", "the function")
        module = getattr(function, "__module__", None) or "numpy"
        shown = f"{module.replace('numpy', 'np', 1) if module.startswith('numpy') else 'np'}.{name}"
        fail(f"{shown} got a traced value, of which only futad.numpy knows what to do", instead(name))

    def __format__(self, spec: str) -> str:
        return format(repr(self), "" if spec else spec)

    def __repr__(self) -> str:
        sizes = "".join([f"[{d}]" for d in self.dims])
        return f"<traced {sizes}{self.elem}{f' {self.name}' if self.name else ''}>"


Value.made_as = Array

__all__ = ["Array"]
