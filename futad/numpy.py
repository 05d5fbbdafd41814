"""What functions that `futad.function` traces are written with: NumPy's functions, and the language's constructs.

    import futad.numpy as fnp
    from futad.numpy import f64, i64

Values are traced (`Array`): they have a type and sizes, which are numbers or names, but no value.  Functions have
NumPy's names, arguments and rules (broadcasting, dtypes); docs/programs-in-python.md lists the differences.  All raise
`futad.errors.TraceError`, with the place in the user's file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from futad.python import elementwise as _ew
from futad.python import reductions, shaping
from futad.python.arrays import Array
from futad.python.contractions import dot, einsum, matmul, outer
from futad.python.control import (
    cond,
    filter,
    grad,
    hist,
    jvp,
    loop,
    map,
    reduce,
    scan,
    scatter,
    value_and_grad,
    vjp,
    while_loop,
    with_vjp,
)
from futad.python.elementwise import FLOAT_OPERATORS as _F
from futad.python.elementwise import OPERATORS as _O
from futad.python.elementwise import TESTS as _T
from futad.python.elementwise import divide, floor_divide, negative, power
from futad.python.place import fail as _fail
from futad.python.reductions import Axis, argsort, logsumexp, mean, sort, std, var
from futad.python.shaping import (
    arange,
    broadcast_to,
    concatenate,
    diff,
    expand_dims,
    eye,
    flip,
    full,
    linspace,
    ravel,
    repeat,
    reshape,
    roll,
    sized,
    squeeze,
    stack,
    take,
    transpose,
)
from futad.python.types import Elem as _Elem
from futad.python.types import Jaxtyped as _Jaxtyped
from futad.python.values import elem_of as _elem_of

if TYPE_CHECKING:
    # For type checkers a value of each of these types is an Array; `Float64[Array, "n d"]` names sizes.
    from typing import Annotated as Bool
    from typing import Annotated as Float16
    from typing import Annotated as Float32
    from typing import Annotated as Float64
    from typing import Annotated as Int8
    from typing import Annotated as Int16
    from typing import Annotated as Int32
    from typing import Annotated as Int64
    from typing import Annotated as UInt8
    from typing import Annotated as UInt16
    from typing import Annotated as UInt32
    from typing import Annotated as UInt64
    from typing import TypeAlias

    f16: TypeAlias = Array
    f32: TypeAlias = Array
    f64: TypeAlias = Array
    i8: TypeAlias = Array
    i16: TypeAlias = Array
    i32: TypeAlias = Array
    i64: TypeAlias = Array
    u8: TypeAlias = Array
    u16: TypeAlias = Array
    u32: TypeAlias = Array
    u64: TypeAlias = Array
    bool_: TypeAlias = Array
else:
    f16, f32, f64 = _Elem("f16"), _Elem("f32"), _Elem("f64")
    i8, i16, i32, i64 = _Elem("i8"), _Elem("i16"), _Elem("i32"), _Elem("i64")
    u8, u16, u32, u64 = _Elem("u8"), _Elem("u16"), _Elem("u32"), _Elem("u64")
    bool_ = _Elem("bool")
    Float16, Float32, Float64 = _Jaxtyped("f16"), _Jaxtyped("f32"), _Jaxtyped("f64")
    Int8, Int16, Int32, Int64 = _Jaxtyped("i8"), _Jaxtyped("i16"), _Jaxtyped("i32"), _Jaxtyped("i64")
    UInt8, UInt16, UInt32, UInt64 = _Jaxtyped("u8"), _Jaxtyped("u16"), _Jaxtyped("u32"), _Jaxtyped("u64")
    Bool = _Jaxtyped("bool")

pi, e, inf, nan = math.pi, math.e, math.inf, math.nan

# --- element by element ---


def exp(x: Any) -> Array:
    """e to the x."""
    return _ew.floating(_F["exp"], x)


def exp2(x: Any) -> Array:
    """2 to the x."""
    return _ew.floating(_F["exp2"], x)


def expm1(x: Any) -> Array:
    """exp(x) - 1, exact where x is small."""
    return _ew.floating(_F["expm1"], x)


def log(x: Any) -> Array:
    """The natural logarithm."""
    return _ew.floating(_F["log"], x)


def log2(x: Any) -> Array:
    """The logarithm of base 2."""
    return _ew.floating(_F["log2"], x)


def log10(x: Any) -> Array:
    """The logarithm of base 10."""
    return _ew.floating(_F["log10"], x)


def log1p(x: Any) -> Array:
    """log(1 + x), exact where x is small."""
    return _ew.floating(_F["log1p"], x)


def sqrt(x: Any) -> Array:
    """The square root."""
    return _ew.floating(_F["sqrt"], x)


def cbrt(x: Any) -> Array:
    """The cube root."""
    return _ew.floating(_F["cbrt"], x)


def sin(x: Any) -> Array:
    """The sine of x, in radians."""
    return _ew.floating(_F["sin"], x)


def cos(x: Any) -> Array:
    """The cosine of x, in radians."""
    return _ew.floating(_F["cos"], x)


def tan(x: Any) -> Array:
    """The tangent of x, in radians."""
    return _ew.floating(_F["tan"], x)


def arcsin(x: Any) -> Array:
    """The inverse sine."""
    return _ew.floating(_F["arcsin"], x)


def arccos(x: Any) -> Array:
    """The inverse cosine."""
    return _ew.floating(_F["arccos"], x)


def arctan(x: Any) -> Array:
    """The inverse tangent."""
    return _ew.floating(_F["arctan"], x)


def sinh(x: Any) -> Array:
    """The hyperbolic sine."""
    return _ew.floating(_F["sinh"], x)


def cosh(x: Any) -> Array:
    """The hyperbolic cosine."""
    return _ew.floating(_F["cosh"], x)


def tanh(x: Any) -> Array:
    """The hyperbolic tangent."""
    return _ew.floating(_F["tanh"], x)


def arcsinh(x: Any) -> Array:
    """The inverse hyperbolic sine."""
    return _ew.floating(_F["arcsinh"], x)


def arccosh(x: Any) -> Array:
    """The inverse hyperbolic cosine."""
    return _ew.floating(_F["arccosh"], x)


def arctanh(x: Any) -> Array:
    """The inverse hyperbolic tangent."""
    return _ew.floating(_F["arctanh"], x)


def floor(x: Any) -> Array:
    """The largest whole number that is not above x, as a float."""
    return _ew.floating(_F["floor"], x)


def ceil(x: Any) -> Array:
    """The smallest whole number that is not below x, as a float."""
    return _ew.floating(_F["ceil"], x)


def rint(x: Any) -> Array:
    """The nearest whole number, of two the even one, as a float."""
    return _ew.floating(_F["rint"], x)


def trunc(x: Any) -> Array:
    """The whole number towards zero, as a float."""
    return _ew.floating(_F["trunc"], x)


def gammaln(x: Any) -> Array:
    """The logarithm of the absolute value of the gamma function."""
    return _ew.floating(_F["gammaln"], x)


def erf(x: Any) -> Array:
    """The error function."""
    return _ew.floating(_F["erf"], x)


def erfc(x: Any) -> Array:
    """1 - erf(x), exact where x is large."""
    return _ew.floating(_F["erfc"], x)


def digamma(x: Any) -> Array:
    """The derivative of gammaln."""
    return _ew.floating(_F["digamma"], x)


def arctan2(a: Any, b: Any) -> Array:
    """The angle of the point (b, a)."""
    return _ew.floating(_F["arctan2"], a, b)


def hypot(a: Any, b: Any) -> Array:
    """The length of the vector (a, b)."""
    return _ew.floating(_F["hypot"], a, b)


def copysign(a: Any, b: Any) -> Array:
    """a with the sign of b."""
    return _ew.floating(_F["copysign"], a, b)


def nextafter(a: Any, b: Any) -> Array:
    """The next float after a, towards b."""
    return _ew.floating(_F["nextafter"], a, b)


def add(a: Any, b: Any) -> Array:
    """a + b."""
    return _ew.same(_O["add"], a, b)


def subtract(a: Any, b: Any) -> Array:
    """a - b."""
    return _ew.same(_O["subtract"], a, b)


def multiply(a: Any, b: Any) -> Array:
    """a * b."""
    return _ew.same(_O["multiply"], a, b)


def remainder(a: Any, b: Any) -> Array:
    """a - b * floor(a / b), with the sign of b."""
    return _ew.same(_O["remainder"], a, b)


def maximum(a: Any, b: Any) -> Array:
    """The larger one; of NaN and a number the number, as NumPy's fmax."""
    return _ew.same(_O["maximum"], a, b)


def minimum(a: Any, b: Any) -> Array:
    """The smaller one; of NaN and a number the number, as NumPy's fmin."""
    return _ew.same(_O["minimum"], a, b)


def equal(a: Any, b: Any) -> Array:
    """a == b."""
    return _ew.same(_O["equal"], a, b)


def not_equal(a: Any, b: Any) -> Array:
    """a != b."""
    return _ew.same(_O["not_equal"], a, b)


def less(a: Any, b: Any) -> Array:
    """a < b."""
    return _ew.same(_O["less"], a, b)


def less_equal(a: Any, b: Any) -> Array:
    """a <= b."""
    return _ew.same(_O["less_equal"], a, b)


def greater(a: Any, b: Any) -> Array:
    """a > b."""
    return _ew.same(_O["greater"], a, b)


def greater_equal(a: Any, b: Any) -> Array:
    """a >= b."""
    return _ew.same(_O["greater_equal"], a, b)


def absolute(x: Any) -> Array:
    """x without its sign."""
    return _ew.same(_O["absolute"], x)


def sign(x: Any) -> Array:
    """-1, 0 or 1."""
    return _ew.same(_O["sign"], x)


def square(x: Any) -> Array:
    """x * x."""
    return _ew.power(x, 2)


def reciprocal(x: Any) -> Array:
    """1 / x."""
    return _ew.divide(1.0, x)


def isnan(x: Any) -> Array:
    """Whether x is not a number."""
    return _ew.floating(_T["isnan"], x)


def isinf(x: Any) -> Array:
    """Whether x is infinite."""
    return _ew.floating(_T["isinf"], x)


def isfinite(x: Any) -> Array:
    """Whether x is a number and not infinite."""
    return ~(isnan(x) | isinf(x))


def logical_and(a: Any, b: Any) -> Array:
    """Whether both are true, or not 0."""
    return _ew.logical("and", a, b)


def logical_or(a: Any, b: Any) -> Array:
    """Whether one is true, or not 0."""
    return _ew.logical("or", a, b)


def logical_not(x: Any) -> Array:
    """Whether x is false, or 0."""
    return _ew.invert(_ew.convert(_ew.as_value(x), "bool"))


def where(condition: Any, a: Any, b: Any) -> Array:
    """a where the condition is true, else b; both are computed, and of both derivatives are taken."""
    return _ew.where(condition, a, b)


def clip(x: Any, low: Any = None, high: Any = None) -> Array:
    """x, but `low` where it is smaller, and `high` where it is larger."""
    made = _ew.as_value(x) if low is None else maximum(x, low)
    return made if high is None else minimum(made, high)


def logaddexp(a: Any, b: Any) -> Array:
    """log(exp(a) + exp(b)), in range."""
    # At ties `maximum` gives its derivative to the first argument and `minimum` to the other one's negative, so that
    # the sum is half of each; -abs(a - b) would have none.
    top = maximum(b, a)
    return where(isinf(top), top, top + log1p(exp(minimum(subtract(a, b), subtract(b, a)))))


def astype(x: Any, dtype: Any) -> Array:
    """x with elements of another type; floats are cut off to whole numbers."""
    return _ew.convert(_ew.as_value(x), _elem_of(dtype))


def asarray(x: Any, dtype: Any = None) -> Array:
    """A number, array or list of the Python program as a traced value; its elements stand in the program's text."""
    made = _ew.as_value(x)
    return made if dtype is None else astype(made, dtype)


array = asarray

# --- along dimensions ---


def sum(x: Any, axis: Axis = None, keepdims: bool = False) -> Array:
    """The sum; of bools and small integers as i64 or u64, as NumPy's."""
    return reductions.total("sum", x, axis, keepdims)


def prod(x: Any, axis: Axis = None, keepdims: bool = False) -> Array:
    """The product; of no elements it is 1."""
    return reductions.total("product", x, axis, keepdims)


def max(x: Any, axis: Axis = None, keepdims: bool = False) -> Array:
    """The largest element; NaN does not count, and of no elements it is the smallest number there is."""
    return reductions.total("maximum", x, axis, keepdims)


def min(x: Any, axis: Axis = None, keepdims: bool = False) -> Array:
    """The smallest element; NaN does not count, and of no elements it is the largest number there is."""
    return reductions.total("minimum", x, axis, keepdims)


def any(x: Any, axis: Axis = None, keepdims: bool = False) -> Array:
    """Whether an element is true."""
    return reductions.either("or", x, axis, keepdims)


def all(x: Any, axis: Axis = None, keepdims: bool = False) -> Array:
    """Whether all elements are true."""
    return reductions.either("and", x, axis, keepdims)


def argmax(x: Any, axis: int | None = None, keepdims: bool = False) -> Array:
    """The place of the largest element, of several the first; NaN does not count, and of no elements it is -1."""
    return reductions.place_of("maximum", x, axis, keepdims)


def argmin(x: Any, axis: int | None = None, keepdims: bool = False) -> Array:
    """The place of the smallest element, of several the first; NaN does not count, and of no elements it is -1."""
    return reductions.place_of("minimum", x, axis, keepdims)


def cumsum(x: Any, axis: int | None = None) -> Array:
    """Running sums; without an axis those of all elements in order."""
    return reductions.cumulate("add", x, axis)


def cumprod(x: Any, axis: int | None = None) -> Array:
    """Running products; without an axis those of all elements in order."""
    return reductions.cumulate("multiply", x, axis)


def cummax(x: Any, axis: int | None = None) -> Array:
    """Running maxima; without an axis those of all elements in order."""
    return reductions.cumulate("maximum", x, axis)


def cummin(x: Any, axis: int | None = None) -> Array:
    """Running minima; without an axis those of all elements in order."""
    return reductions.cumulate("minimum", x, axis)


def count_nonzero(x: Any, axis: Axis = None) -> Array:
    """How many elements are not 0."""
    return sum(_ew.convert(_ew.as_value(x), "bool"), axis)


def norm(x: Any, axis: Axis = None, keepdims: bool = False) -> Array:
    """The root of the sum of squares; its derivative at 0 is not a number."""
    v = reductions.floats(x)
    return sqrt(sum(v * v, axis, keepdims))


def ptp(x: Any, axis: Axis = None) -> Array:
    """The difference of the largest and the smallest element."""
    return max(x, axis) - min(x, axis)


# --- new arrays ---


def zeros(shape: Any, dtype: Any = "f64") -> Array:
    """An array of zeros; sizes are numbers, or sizes of arrays."""
    return full(shape, 0, dtype)


def ones(shape: Any, dtype: Any = "f64") -> Array:
    """An array of ones."""
    return full(shape, 1, dtype)


def zeros_like(x: Any) -> Array:
    """Zeros of the type and shape of x."""
    v = _ew.as_value(x)
    return full(v.shape, 0, v.elem)


def ones_like(x: Any) -> Array:
    """Ones of the type and shape of x."""
    v = _ew.as_value(x)
    return full(v.shape, 1, v.elem)


def full_like(x: Any, value: Any) -> Array:
    """`value` everywhere, in the type and shape of x."""
    v = _ew.as_value(x)
    return full(v.shape, value, v.elem)


def vstack(arrays: Sequence[Any]) -> Array:
    """Vectors or matrices below each other."""
    parts = [_ew.as_value(a) for a in arrays]
    return concatenate([expand_dims(p, 0) if p.ndim == 1 else p for p in parts])


def swapaxes(x: Any, a: int, b: int) -> Array:
    """Two dimensions exchanged."""
    v = _ew.as_value(x)
    order = list(range(v.ndim))
    a, b = shaping.axis_of(a, v.ndim), shaping.axis_of(b, v.ndim)
    order[a], order[b] = order[b], order[a]
    return transpose(v, order)


def moveaxis(x: Any, source: int, destination: int) -> Array:
    """A dimension at another place."""
    v = _ew.as_value(x)
    return shaping.moved(v, shaping.axis_of(source, v.ndim), shaping.axis_of(destination, v.ndim))


def diag(x: Any) -> Array:
    """The diagonal of a square matrix, or a matrix with this diagonal."""
    v = _ew.as_value(x)
    n = v.shape[0]
    if v.ndim == 2:
        if v.dims[0] != v.dims[1]:
            _fail(f"a matrix of shape {_ew.shape_text(v.dims)} is not known to be square", "slice it, or x.sized(...)")
        return v[arange(n), arange(n)]
    return where(eye(n, dtype=bool_), v[:, None], 0)


def trace(x: Any) -> Array:
    """The sum of the diagonal of a square matrix."""
    return sum(diag(x))


def tril(x: Any) -> Array:
    """A matrix with zeros above its diagonal."""
    v = _ew.as_value(x)
    return where(arange(v.shape[0])[:, None] >= arange(v.shape[1]), v, 0)


def triu(x: Any) -> Array:
    """A matrix with zeros below its diagonal."""
    v = _ew.as_value(x)
    return where(arange(v.shape[0])[:, None] <= arange(v.shape[1]), v, 0)


abs, true_divide, mod = absolute, divide, remainder

__all__ = [
    "Array", "Bool", "Float16", "Float32", "Float64", "Int16", "Int32", "Int64", "Int8", "UInt16", "UInt32", "UInt64",
    "UInt8", "abs", "absolute", "add", "all", "any", "arange", "arccos", "arccosh", "arcsin", "arcsinh", "arctan",
    "arctan2", "arctanh", "argmax", "argmin", "argsort", "array", "asarray", "astype", "bool_", "broadcast_to",
    "cbrt", "ceil", "clip", "concatenate", "cond", "copysign", "cos", "cosh", "count_nonzero", "cummax", "cummin",
    "cumprod", "cumsum", "diag", "diff", "digamma", "divide", "dot", "e", "einsum", "equal", "erf", "erfc", "exp",
    "exp2", "expand_dims", "expm1", "eye", "f16", "f32", "f64", "filter", "flip", "floor", "floor_divide", "full",
    "full_like", "gammaln", "grad", "greater", "greater_equal", "hist", "hypot", "i16", "i32", "i64", "i8", "inf",
    "isfinite", "isinf", "isnan", "jvp", "less", "less_equal", "linspace", "log", "log10", "log1p", "log2",
    "logaddexp", "logical_and", "logical_not", "logical_or", "logsumexp", "loop", "map", "matmul", "max", "maximum",
    "mean", "min", "minimum", "mod", "moveaxis", "multiply", "nan", "negative", "nextafter", "norm",
    "not_equal", "ones", "ones_like", "outer", "pi", "power", "prod", "ptp", "ravel", "reciprocal", "reduce",
    "remainder", "repeat", "reshape", "rint", "roll", "scan", "scatter", "sign", "sin", "sinh", "sized", "sort",
    "sqrt", "square", "squeeze", "stack", "std", "subtract", "sum", "swapaxes", "take", "tan", "tanh", "trace",
    "transpose", "tril", "triu", "true_divide", "trunc", "u16", "u32", "u64", "u8", "value_and_grad", "var", "vjp",
    "vstack", "where", "while_loop", "with_vjp", "zeros", "zeros_like",
]  # fmt: skip
