"""The table of scalar operations.

One record per operation; constant folding, printing, checking, the interpreter, emission of C and CUDA,
and differentiation all derive from it.  An operation works at every type of its `types`; a signature is
'a a -> a' (same type), 'a a -> bool', 'bool a a -> a', 'a -> f64' ...

Partial derivatives are functions of expression handles (see `builder.Ex`) `(*args, result)`; they return
a handle, 0 for an identically zero one.  Sources: Abramowitz and Stegun, chapters 4, 6 and 7 (elementary,
gamma and error functions); for ties of min and max the first argument takes all (Futhark's convention).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from futad.core.types import PRIMS, Prim, prim

INTS = tuple(p for p in PRIMS.values() if p.is_integral)
FLOATS = tuple(p for p in PRIMS.values() if p.is_float)
NUMS = INTS + FLOATS
BOOL_ = (prim("bool"),)
ALL = NUMS + BOOL_

Partial = Callable[..., Any]


@dataclass(slots=True)
class ScalarOp:
    """One scalar operation.

    `eval` computes on NumPy scalars or arrays of the argument dtype (already under errstate ignore).
    `c` is an expression template over {0}, {1}, ... and {t} (C type), {T} (type name), or a dict from
    type kind or name to one; functions it calls live in `kernels/prelude.h`.
    `partials` is None where no derivative exists (integer-valued results have zero derivatives).
    """

    name: str
    sig: str
    types: tuple[Prim, ...]
    eval: Callable[..., Any]
    c: str | dict[str, str]
    partials: tuple[Partial, ...] | None = None
    unit: float | None = None
    absorber: float | None = None
    commutative: bool = False
    associative: bool = False
    infix: str | None = None
    can_fail: bool = False  # integer division by zero is an error
    cost: int = 1  # rough relative cost, for inlining and duplication decisions

    @property
    def arity(self) -> int:
        return len(self.sig.split("->")[0].split())

    def arg_types(self, t: Prim) -> tuple[Prim, ...]:
        """The types of its arguments at type `t`."""
        return tuple([t if n == "a" else PRIMS[n] for n in self.sig.split("->")[0].split()])

    def result_type(self, arg_types: tuple[Prim, ...]) -> Prim:
        """The result's type, or TypeError if the arguments do not fit the signature."""
        left, right = self.sig.split("->")
        names = left.split()
        if len(names) != len(arg_types):
            raise TypeError(f"{self.name} takes {len(names)} arguments, not {len(arg_types)}")
        var: Prim | None = None
        for n, t in zip(names, arg_types, strict=True):
            if n == "a":
                if var is None:
                    var = t
                if t is not var or t not in self.types:
                    raise TypeError(f"{self.name} does not take {', '.join(map(str, arg_types))}")
            elif PRIMS[n] is not t:
                raise TypeError(f"{self.name} does not take {', '.join(map(str, arg_types))}")
        r = right.strip()
        if r == "a":
            assert var is not None
            return var
        return PRIMS[r]

    def c_template(self, t: Prim) -> str:
        """The C expression template for argument type `t`."""
        if isinstance(self.c, str):
            return self.c
        return self.c.get(t.name) or self.c.get(t.kind) or self.c["*"]


OPS: dict[str, ScalarOp] = {}


def _op(
    name: str,
    sig: str,
    types: tuple[Prim, ...],
    ev: Callable[..., Any],
    c: Any,
    *partials: Partial,
    **kw: Any,
) -> None:
    OPS[name] = ScalarOp(name, sig, types, ev, c, partials or None, **kw)


# --- evaluation helpers (NumPy) --------------------------------------------------------------------


def _int_div(x: Any, y: Any) -> Any:
    return x // y if np.asarray(x).dtype.kind != "f" else x / y


def _int_quot(x: Any, y: Any) -> Any:
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype.kind == "u":
        return x // y
    q = x // y
    return np.where((x % y != 0) & ((x < 0) != (y < 0)), q + np.asarray(1, x.dtype), q).astype(x.dtype)


def _int_rem(x: Any, y: Any) -> Any:
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype.kind == "u":
        return x % y
    return (x - _int_quot(x, y) * y).astype(x.dtype)


def _mod(x: Any, y: Any) -> Any:
    # Floats: the remainder of floored division; integers: sign of the divisor.
    return np.mod(x, y)


def _pow(x: Any, y: Any) -> Any:
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype.kind == "f":
        return np.power(x, y)
    with np.errstate(all="ignore"):
        # By squaring, wrapping around.  A negative exponent, which programs check for, counts as 0.
        shape = np.broadcast_shapes(x.shape, y.shape)
        out = np.ones(shape, x.dtype)
        base = np.broadcast_to(x, shape).copy()
        e = np.broadcast_to(np.where(y < 0, 0, y) if y.dtype.kind == "i" else y, shape).copy()
        while np.any(e):
            out = np.where(e & 1, out * base, out).astype(x.dtype)
            base = (base * base).astype(x.dtype)
            e = e >> np.asarray(1, e.dtype)
        return out


def _shift(f: Callable[[Any, Any], Any], fill_sign: bool) -> Callable[[Any, Any], Any]:
    def go(x: Any, y: Any) -> Any:
        x, y = np.asarray(x), np.asarray(y)
        bits = x.dtype.itemsize * 8
        wide = (y < 0) | (y >= bits) if y.dtype.kind == "i" else y >= bits
        r = f(x, np.where(wide, 0, y).astype(y.dtype))
        signed = fill_sign and x.dtype.kind == "i"
        over = np.where(x < 0, -1, 0).astype(x.dtype) if signed else np.zeros_like(x)
        return np.where(wide, over, r).astype(x.dtype)

    return go


def _ushr(x: Any, y: Any) -> Any:
    x = np.asarray(x)
    u = np.dtype(f"u{x.dtype.itemsize}")
    return _shift(np.right_shift, False)(x.astype(u), np.asarray(y).astype(u)).astype(x.dtype)


def _popc(x: Any) -> Any:
    return np.bitwise_count(np.asarray(x).view(f"u{np.asarray(x).dtype.itemsize}")).astype("int32")


def _clz(x: Any) -> Any:
    x = np.asarray(x)
    bits = x.dtype.itemsize * 8
    u = x.astype(f"u{x.dtype.itemsize}").astype("uint64")
    out = np.full(x.shape, bits, "int32")
    for i in range(bits):
        out = np.where((u >> np.uint64(i)) & np.uint64(1), bits - 1 - i, out)
    return out.astype("int32")


def _ctz(x: Any) -> Any:
    x = np.asarray(x)
    bits = x.dtype.itemsize * 8
    u = x.astype(f"u{x.dtype.itemsize}").astype("uint64")
    out = np.full(x.shape, bits, "int32")
    for i in reversed(range(bits)):
        out = np.where((u >> np.uint64(i)) & np.uint64(1), i, out)
    return out.astype("int32")


def _mul_hi(x: Any, y: Any) -> Any:
    x, y = np.asarray(x), np.asarray(y)
    bits = x.dtype.itemsize * 8
    f = np.frompyfunc(lambda a, b: (int(a) * int(b)) >> bits, 2, 1)
    wrapped = np.asarray(f(x, y), dtype=object)
    return wrapped.astype("int64" if x.dtype.kind == "i" else "uint64").astype(x.dtype)


def _elementwise(f: Callable[..., float]) -> Callable[..., Any]:
    """A Python function of floats over NumPy values (for functions NumPy lacks)."""

    def safe(*xs: Any) -> float:
        try:
            return f(*[float(x) for x in xs])
        except (ValueError, OverflowError):
            return math.nan

    def go(*xs: Any) -> Any:
        dtype = np.asarray(xs[0]).dtype
        return np.asarray(np.frompyfunc(safe, len(xs), 1)(*xs), dtype="float64").astype(dtype)

    return go


def _lgamma(x: float) -> float:
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    try:
        return math.lgamma(x)
    except OverflowError:
        return math.inf


def _gamma(x: float) -> float:
    if x == 0:
        return math.copysign(math.inf, x)
    try:
        return math.gamma(x)
    except OverflowError:
        return math.copysign(math.inf, x)  # gamma(x) is near 1/x where it overflows at the small end


def _fma(x: Any, y: Any, z: Any) -> Any:
    # The product in a wider type, so that it is neither rounded nor overflows before the sum.
    x = np.asarray(x)
    wide = {"e": "float32", "f": "float64", "d": "longdouble"}[x.dtype.char]
    return (x.astype(wide) * np.asarray(y) + np.asarray(z)).astype(x.dtype)


def digamma(x: float) -> float:
    """psi(x) by reflection, recurrence to x >= 10 and the asymptotic series (A&S 6.3.7, 6.3.5, 6.3.18)."""
    if math.isnan(x) or x == -math.inf:
        return math.nan
    if x == math.inf:
        return x
    if x <= 0 and x == math.floor(x):
        return math.nan
    if x < 0:
        return digamma(1 - x) - math.pi / math.tan(math.pi * x)
    acc = 0.0
    while x < 10:
        acc -= 1 / x
        x += 1
    r = 1 / (x * x)
    tail = r * (1 / 12 - r * (1 / 120 - r * (1 / 252 - r * (1 / 240 - r * (1 / 132 - r * 691 / 32760)))))
    return acc + math.log(x) - 0.5 / x - tail


def trigamma(x: float) -> float:
    """psi'(x), in the manner of `digamma` (A&S 6.4.7, 6.4.6, 6.4.12)."""
    if math.isnan(x) or x == -math.inf or (x <= 0 and x == math.floor(x)):
        return math.nan
    if x == math.inf:
        return 0.0
    if x < 0:
        s = math.pi / math.sin(math.pi * x)
        return s * s - trigamma(1 - x)
    acc = 0.0
    while x < 10:
        acc += 1 / x / x
        x += 1
    r = 1 / (x * x)
    tail = r * (1 / 6 - r * (1 / 30 - r * (1 / 42 - r * (1 / 30 - r * (5 / 66 - r * 691 / 2730)))))
    return acc + 0.5 * r + (1 + tail) / x


BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)  # B_2, B_4, ...
MAX_POLYGAMMA = 170  # from 171 on the factorial is more than a double


def polygamma(x: float, n: float) -> float:
    """The n-th derivative of psi (A&S 6.4.9, 6.4.6, 6.4.11), 1 <= n <= 170; NaN for other n and at the poles.

    (-1)^(n+1) n! zeta(n+1, x).  Left of 0 by reflection: the n-th derivative of the cotangent is a sum over all
    integers, and so two such functions more.
    """
    if math.isnan(x) or x == -math.inf or not 1 <= n <= MAX_POLYGAMMA or (x <= 0 and x == math.floor(x)):
        return math.nan
    n = int(n)
    sign = 1.0 if n % 2 else -1.0
    if x > 0:
        return sign * _zeta(x, n)
    f = x - math.floor(x + 0.5)
    return sign * (_over_power(f, n) + _zeta(1 + f, n) + sign * _zeta(1 - f, n)) - _zeta(1 - x, n)


def _over_power(y: float, n: int) -> float:
    """n! / y^(n+1)"""
    out = 1 / y
    for i in range(1, n + 1):
        out *= i / y
    return out


def _zeta(y: float, n: int) -> float:
    """n! zeta(n+1, y) for y > 0: by recurrence to y >= n + 12 and the asymptotic series."""
    acc = 0.0
    while y < n + 12:
        acc += _over_power(y, n)
        y += 1
    r = 1 / (y * y)
    tail = 1 + 0.5 * n / y
    term = 1.0
    for k, bernoulli in enumerate(BERNOULLI, 1):
        term *= (2 * k + n - 2) * (2 * k + n - 1) * r / ((2 * k - 1) * (2 * k))
        tail += bernoulli * term
    return acc + _over_power(y, n - 1) * tail


def _convert(to: Prim) -> Callable[[Any], Any]:
    def go(x: Any) -> Any:
        x = np.asarray(x)
        if to.is_bool:
            return x != 0
        if to.is_integral and x.dtype.kind == "f":
            # Truncates and wraps around; infinities and NaN give 0.  No step rounds.
            t = np.trunc(np.where(np.isfinite(x), x, 0).astype("float64"))
            r = t - np.trunc(t / 2.0**64) * 2.0**64
            r = np.where(r >= 2.0**63, r - 2.0**64, np.where(r < -(2.0**63), r + 2.0**64, r))
            return r.astype("int64").astype(to.dtype)
        return x.astype(to.dtype)

    return go


def _min(x: Any, y: Any) -> Any:
    # Futhark's fmin/fmax: a NaN argument loses to a number.
    return np.fmin(x, y) if np.asarray(x).dtype.kind == "f" else np.minimum(x, y)


def _max(x: Any, y: Any) -> Any:
    return np.fmax(x, y) if np.asarray(x).dtype.kind == "f" else np.maximum(x, y)


def _sgn(x: Any) -> Any:
    return np.sign(x).astype(np.asarray(x).dtype)


def _reciprocal(y: Any) -> Any:
    """1 / y, truncated for integers."""
    return 1 / y if y.type.is_float else y.lift(1).op("quot", y)


def _unless(cond: Any, x: Any, f: Any) -> Any:
    """f(x), but 0 where `cond`; f sees 1 there, so that its own derivative is no 0 * inf."""
    return cond.select(x.lift(0), f(cond.select(x.lift(1), x)))


def _over_square(a: Any, x: Any, y: Any) -> Any:
    """a / (x^2 + y^2), where a is x or y; the squares alone may leave the range of the type."""
    r = x.op("hypot", y)
    return a / r / r


def _if_bool(x: Any) -> Any:
    return x if x.type.is_bool else 0


# --- arithmetic ------------------------------------------------------------------------------------

# {u}: the unsigned type of the same width, so overflow wraps; 1u keeps products of 16-bit numbers unsigned.
_INT_WRAP = "({t})(({u})({0}) %s ({u})({1}))"
_op("add", "a a -> a", NUMS, np.add, {"float": "({0} + {1})", "*": _INT_WRAP % "+"},
    lambda x, y, r: 1, lambda x, y, r: 1, unit=0, commutative=True, associative=True, infix="+")
_op("sub", "a a -> a", NUMS, np.subtract, {"float": "({0} - {1})", "*": _INT_WRAP % "-"},
    lambda x, y, r: 1, lambda x, y, r: -1, infix="-")
_op("mul", "a a -> a", NUMS, np.multiply,
    {"float": "({0} * {1})", "*": "({t})(1u * ({u})({0}) * ({u})({1}))"},
    lambda x, y, r: y, lambda x, y, r: x, unit=1, absorber=0, commutative=True, associative=True, infix="*")
_op("div", "a a -> a", NUMS, _int_div, {"float": "({0} / {1})", "*": "futad_div_{T}({0}, {1})"},
    lambda x, y, r: _reciprocal(y), lambda x, y, r: -(r / y), infix="/", can_fail=True, cost=4)
_op("mod", "a a -> a", NUMS, _mod, "futad_mod_{T}({0}, {1})",
    lambda x, y, r: 1, lambda x, y, r: -(x / y).floor(), infix="%", can_fail=True, cost=4)
_op("quot", "a a -> a", INTS, _int_quot, "futad_quot_{T}({0}, {1})",
    lambda x, y, r: _reciprocal(y), lambda x, y, r: -(r / y), can_fail=True, cost=4)
_op("rem", "a a -> a", INTS, _int_rem, "futad_rem_{T}({0}, {1})",
    lambda x, y, r: 1, lambda x, y, r: -x.op("quot", y), can_fail=True, cost=4)
# d/dx x**y: 0 where y = 0, also at x = 0, where y x**(y-1) is not; d/dy: x**y log x, and 0 for x <= 0 and for integers.
_op("pow", "a a -> a", NUMS, _pow, "futad_pow_{T}({0}, {1})",
    lambda x, y, r: _unless(y.eq(0) & x.eq(0), x, lambda z: y * z.op("pow", y - 1)),
    lambda x, y, r: _unless(x.op("le", x.lift(0)), x, lambda z: r * z.log()) if x.type.is_float else 0, cost=20)
_op("neg", "a -> a", NUMS, np.negative,
    {"int": "({t})(0 - ({u})({0}))", "uint": "({t})(0 - ({0}))", "*": "(-({0}))"},
    lambda x, r: -1)
_op("abs", "a -> a", NUMS, np.abs, {"uint": "({0})", "*": "futad_abs_{T}({0})"},
    lambda x, r: x.op("sgn"))
_op("sgn", "a -> a", NUMS, _sgn, "futad_sgn_{T}({0})", lambda x, r: 0)
_op("min", "a a -> a", NUMS, _min, "futad_min_{T}({0}, {1})",
    lambda x, y, r: r.eq(x).to(r), lambda x, y, r: (~r.eq(x)).to(r), commutative=True, associative=True)
_op("max", "a a -> a", NUMS, _max, "futad_max_{T}({0}, {1})",
    lambda x, y, r: r.eq(x).to(r), lambda x, y, r: (~r.eq(x)).to(r), commutative=True, associative=True)

# --- bits and bools --------------------------------------------------------------------------------

_BITS = INTS + BOOL_
# Bools: the other argument decides whether a change shows.  Integers: bits have no derivative.
_op("and", "a a -> a", _BITS, np.bitwise_and, "(({t})({0} & {1}))",
    lambda x, y, r: _if_bool(y), lambda x, y, r: _if_bool(x), commutative=True, associative=True, infix="&")
_op("or", "a a -> a", _BITS, np.bitwise_or, "(({t})({0} | {1}))",
    lambda x, y, r: _if_bool(~y), lambda x, y, r: _if_bool(~x),
    unit=0, commutative=True, associative=True, infix="|")
_op("xor", "a a -> a", _BITS, np.bitwise_xor, "(({t})({0} ^ {1}))",
    lambda x, y, r: int(x.type.is_bool), lambda x, y, r: int(x.type.is_bool),
    unit=0, commutative=True, associative=True, infix="^")
_op("not", "a -> a", _BITS, np.bitwise_not, {"bool": "(!({0}))", "*": "(({t})(~({0})))"},
    lambda x, r: 1 if x.type.is_bool else -1)
_op("shl", "a a -> a", INTS, _shift(np.left_shift, False), "futad_shl_{T}({0}, {1})",
    lambda x, y, r: x.lift(1).op("shl", y), lambda x, y, r: 0)
_op("shr", "a a -> a", INTS, _shift(np.right_shift, True), "futad_shr_{T}({0}, {1})")  # arithmetic if signed
_op("ushr", "a a -> a", INTS, _ushr, "futad_ushr_{T}({0}, {1})")
_op("popc", "a -> i32", INTS, _popc, "futad_popc_{T}({0})")
_op("clz", "a -> i32", INTS, _clz, "futad_clz_{T}({0})")
_op("ctz", "a -> i32", INTS, _ctz, "futad_ctz_{T}({0})")
_op("mul_hi", "a a -> a", INTS, _mul_hi, "futad_mul_hi_{T}({0}, {1})")

# --- comparison and choice -------------------------------------------------------------------------

_op("eq", "a a -> bool", ALL, np.equal, "({0} == {1})", commutative=True, infix="==")
_op("ne", "a a -> bool", ALL, np.not_equal, "({0} != {1})", commutative=True, infix="!=")
_op("lt", "a a -> bool", ALL, np.less, "({0} < {1})", infix="<")
_op("le", "a a -> bool", ALL, np.less_equal, "({0} <= {1})", infix="<=")
_op("select", "bool a a -> a", ALL, np.where, "({0} ? {1} : {2})",
    lambda c, x, y, r: 0, lambda c, x, y, r: c.to(r), lambda c, x, y, r: (~c).to(r))

# --- floating-point functions ----------------------------------------------------------------------


def _fun(name: str, ev: Callable[..., Any], *partials: Partial, arity: int = 1, cost: int = 15) -> None:
    sig = " ".join(["a"] * arity) + " -> a"
    args = ", ".join(f"{{{i}}}" for i in range(arity))
    _op(name, sig, FLOATS, ev, f"futad_{name}_{{T}}({args})", *partials, cost=cost)


_PI = math.pi


def _pi(x: Any) -> Any:
    """pi in the dtype of `x`."""
    return np.asarray(_PI, np.asarray(x).dtype)


_fun("sqrt", np.sqrt, lambda x, r: 0.5 / r, cost=5)
_fun("rsqrt", lambda x: 1 / np.sqrt(x), lambda x, r: -0.5 * r / x, cost=6)
_fun("cbrt", np.cbrt, lambda x, r: 1 / (3 * r * r))
_fun("exp", np.exp, lambda x, r: r)
_fun("exp2", np.exp2, lambda x, r: r * math.log(2))
_fun("exp10", lambda x: np.power(np.asarray(10, np.asarray(x).dtype), x), lambda x, r: r * math.log(10))
_fun("expm1", np.expm1, lambda x, r: r + 1)
_fun("log", np.log, lambda x, r: 1 / x)
_fun("log2", np.log2, lambda x, r: 1 / (x * math.log(2)))
_fun("log10", np.log10, lambda x, r: 1 / (x * math.log(10)))
_fun("log1p", np.log1p, lambda x, r: 1 / (1 + x))
_fun("sin", np.sin, lambda x, r: x.cos())
_fun("cos", np.cos, lambda x, r: -x.sin())
_fun("tan", np.tan, lambda x, r: 1 + r * r)
_fun("asin", np.arcsin, lambda x, r: 1 / (1 - x * x).sqrt())
_fun("acos", np.arccos, lambda x, r: -1 / (1 - x * x).sqrt())
_fun("atan", np.arctan, lambda x, r: 1 / (1 + x * x))
_fun("sinh", np.sinh, lambda x, r: x.op("cosh"))
_fun("cosh", np.cosh, lambda x, r: x.op("sinh"))
_fun("tanh", np.tanh, lambda x, r: 1 - r * r)
_fun("asinh", np.arcsinh, lambda x, r: 1 / (x * x + 1).sqrt())
_fun("acosh", np.arccosh, lambda x, r: 1 / ((x - 1).sqrt() * (x + 1).sqrt()))
_fun("atanh", np.arctanh, lambda x, r: 1 / (1 - x * x))
_fun("sinpi", lambda x: np.sin(x * _pi(x)), lambda x, r: _PI * x.op("cospi"))
_fun("cospi", lambda x: np.cos(x * _pi(x)), lambda x, r: -_PI * x.op("sinpi"))
_fun("tanpi", lambda x: np.tan(x * _pi(x)), lambda x, r: _PI * (1 + r * r))
_fun("asinpi", lambda x: np.arcsin(x) / _pi(x), lambda x, r: 1 / (_PI * (1 - x * x).sqrt()))
_fun("acospi", lambda x: np.arccos(x) / _pi(x), lambda x, r: -1 / (_PI * (1 - x * x).sqrt()))
_fun("atanpi", lambda x: np.arctan(x) / _pi(x), lambda x, r: 1 / (_PI * (1 + x * x)))
_fun("atan2", np.arctan2, lambda y, x, r: _over_square(x, x, y), lambda y, x, r: _over_square(-y, x, y), arity=2)
_fun("atan2pi", lambda y, x: np.arctan2(y, x) / _pi(x),
     lambda y, x, r: _over_square(x, x, y) / _PI, lambda y, x, r: _over_square(-y, x, y) / _PI, arity=2)
_fun("hypot", np.hypot, lambda x, y, r: x / r, lambda x, y, r: y / r, arity=2)
_fun("gamma", _elementwise(_gamma), lambda x, r: r * x.op("digamma"), cost=40)
_fun("lgamma", _elementwise(_lgamma), lambda x, r: x.op("digamma"), cost=40)
_fun("digamma", _elementwise(digamma), lambda x, r: x.op("trigamma"), cost=60)
_fun("trigamma", _elementwise(trigamma), lambda x, r: x.i32(2).op("polygamma", x), cost=60)
_op("polygamma", "i32 a -> a", FLOATS, lambda n, x: _elementwise(polygamma)(x, n), "futad_polygamma_{T}({1}, {0})",
    lambda n, x, r: 0, lambda n, x, r: (n + 1).op("polygamma", x), cost=200)
_fun("erf", _elementwise(math.erf), lambda x, r: (2 / math.sqrt(_PI)) * (-(x * x)).exp(), cost=20)
_fun("erfc", _elementwise(math.erfc), lambda x, r: (-2 / math.sqrt(_PI)) * (-(x * x)).exp(), cost=20)
_fun("floor", np.floor, lambda x, r: 0, cost=1)
_fun("ceil", np.ceil, lambda x, r: 0, cost=1)
_fun("round", np.rint, lambda x, r: 0, cost=1)  # ties to even
_fun("trunc", np.trunc, lambda x, r: 0, cost=1)
_fun("copysign", np.copysign, lambda x, y, r: x.op("sgn") * r.op("sgn"), lambda x, y, r: 0, arity=2, cost=1)
# The exponent is an integer, and as such has no derivative.
_op("ldexp", "i32 a -> a", FLOATS, lambda n, x: np.ldexp(x, np.asarray(n, np.int32)), "futad_ldexp_{T}({1}, {0})",
    lambda n, x, r: 0, lambda n, x, r: n.op("ldexp", x.lift(1)), cost=10)
_fun("nextafter", np.nextafter, lambda x, y, r: 1, lambda x, y, r: 0, arity=2, cost=3)
_fun("fma", _fma, lambda x, y, z, r: y, lambda x, y, z, r: x, lambda x, y, z, r: 1, arity=3, cost=1)
_op("isnan", "a -> bool", FLOATS, np.isnan, "futad_isnan_{T}({0})")
_op("isinf", "a -> bool", FLOATS, np.isinf, "futad_isinf_{T}({0})")
_op("signbit", "a -> bool", FLOATS, np.signbit, "futad_signbit_{T}({0})")
for _t, _b in (("f16", "u16"), ("f32", "u32"), ("f64", "u64")):
    _op(f"bits_{_t}", f"{_t} -> {_b}", (prim(_t),),
        lambda x, b=_b: np.asarray(x).view(prim(b).dtype), f"futad_bits_{_t}({{0}})")
    _op(f"from_bits_{_t}", f"{_b} -> {_t}", (prim(_b),),
        lambda x, t=_t: np.asarray(x).view(prim(t).dtype), f"futad_from_bits_{_t}({{0}})")

# --- conversions: to_T, from every type.  The derivative converts the adjoint back. ----------------
for _p in PRIMS.values():
    _cast = "(({r}){0})"
    _op(f"to_{_p.name}", f"a -> {_p.name}", ALL, _convert(_p),
        {"float": f"futad_{{T}}_to_{_p.name}({{0}})" if _p.is_integral else _cast, "*": _cast})


def op(name: str) -> ScalarOp:
    """The record of that name (KeyError if there is none)."""
    return OPS[name]


def evaluate(name: str, *args: Any) -> Any:
    """The operation on NumPy scalars or arrays, warnings off, result in the declared dtype."""
    record = OPS[name]
    with np.errstate(all="ignore"):
        return record.eval(*args)
