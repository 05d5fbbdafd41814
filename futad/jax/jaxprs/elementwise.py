"""Rules of pointwise primitives: numbers in, a number out.

Where an operation of the core IR differs from XLA's, the difference is made up here: NaN of `max` and `min`, integer
division by zero (which is no error in XLA: a quotient of all bits set, a remainder of the dividend), remainders of the
dividend's sign.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from futad.core.builder import Ex
from futad.core.types import BOOL, I32, PRIMS, U64, Const, Prim
from futad.jax.jaxprs import library
from futad.jax.jaxprs.lifted import Value, pointwise
from futad.jax.jaxprs.table import Site, Unsupported, elem_of_aval, rule

Formula = Callable[..., Ex]


def apply(s: Site, f: Formula, *values: Value) -> Value:
    """A formula over elements at every place of the equation's result."""

    def body(b: Any, *xs: Any) -> list[Any]:
        return [f(*[b.ex(x) for x in xs]).atom]

    return pointwise(s.b, body, values, s.shape())[0]


def define(name: str, f: Formula) -> None:
    """The rule of a primitive without parameters."""

    def made(s: Site, *values: Value) -> Value:
        return apply(s, f, *values)

    rule(name)(made)


def constant(x: Ex, value: Any) -> Ex:
    return x.lift(value)


def choose(cond: Ex, yes: Any, no: Any) -> Ex:
    """`yes` where `cond` holds; one of them is an Ex of a known type."""
    like = yes if isinstance(yes, Ex) else no
    return cond.select(like.lift(yes), no)


def is_nan(x: Ex) -> Ex:
    return x.op("isnan")


def _larger(name: str) -> Formula:
    """Of equal numbers `max` has the derivative of the second one, or of what is no constant, `min` of the other: so
    functions of both that are smooth there (`hypot`, `celu`) have their derivative."""

    def f(x: Ex, y: Ex) -> Ex:
        if not x.type.is_float:
            return x.op({"max": "or", "min": "and"}[name], y) if x.type is BOOL else x.op(name, y)
        # With a constant that is a number only the other one can be NaN.
        if isinstance(y.atom, Const) and not math.isnan(y.atom.value):
            x, y = y, x
        ordered = y.op("lt", x) if name == "max" else x.op("le", y)
        if isinstance(x.atom, Const) and not math.isnan(x.atom.value):
            return choose(ordered, x, y)
        return choose(ordered.op("or", is_nan(x)), x, y)

    return f


def nonzero(y: Ex) -> bool:
    return isinstance(y.atom, Const) and y.atom.value != 0


def quotient(x: Ex, y: Ex) -> Ex:
    if x.type.is_float:
        return x / y
    if nonzero(y):
        return x.op("quot", y)
    none = y.eq(0)
    return choose(none, -1, x.op("quot", choose(none, 1, y)))


def remainder(x: Ex, y: Ex) -> Ex:
    """Of the sign of `x`.  Its derivative is 1 also at 0 and at multiples of y, where those of `abs` and `copysign` are
    0."""
    if x.type.is_float:
        below = x.op("lt", constant(x, 0))
        size = choose(below, -x, x).op("mod", y.op("abs"))
        return choose(x.eq(0) & size.eq(0), x, choose(below, -size, size))
    if nonzero(y):
        return x.op("rem", y)
    none = y.eq(0)
    return choose(none, x, x.op("rem", choose(none, 1, y)))


def _logical(op: str) -> Formula:
    return lambda x, *y: x.op(op, *y)


def _compare(op: str, swap: bool = False) -> Formula:
    return (lambda x, y: y.op(op, x)) if swap else (lambda x, y: x.op(op, y))


def _finite(x: Ex) -> Ex:
    return x.op("abs").op("lt", math.inf)


def _logistic(x: Ex) -> Ex:
    """With no power above 1, which would be infinite and make the derivative NaN."""
    below = x.op("lt", constant(x, 0))
    power = choose(below, x, -x).exp()
    return choose(below, power, 1.0) / (1 + power)


def _power(x: Ex, y: Ex) -> Ex:
    if x.type is not y.type:  # an integer exponent of a float
        y = y.to(x)
    return x.op("pow", y)


def _sign(x: Ex) -> Ex:
    return x.op("sgn")


def _erf_inv(x: Ex) -> Ex:
    return x.op("erf_inv")


def _clz(op: str) -> Formula:
    return lambda x: Ex(x.b, x.b.convert(x.type, x.op(op).atom))


_SAME = (
    "exp exp2 expm1 log log1p sqrt rsqrt cbrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh "
    "lgamma digamma erf erfc floor ceil neg abs not nextafter atan2"
)
for _name in _SAME.split():
    define(_name, _logical(_name))
_FORMULAS: dict[str, Formula] = {
    "add": lambda x, y: x.op("or", y) if x.type is BOOL else x + y,
    "add_any": lambda x, y: x + y, "sub": lambda x, y: x - y,
    "div": quotient, "rem": remainder, "max": _larger("max"), "min": _larger("min"), "pow": _power,
    "and": _logical("and"), "or": _logical("or"), "xor": _logical("xor"),
    "mulhi": _logical("mul_hi"),
    "shift_left": _logical("shl"), "shift_right_logical": _logical("ushr"),
    "population_count": _clz("popc"), "clz": _clz("clz"),
    "lt": _compare("lt"), "le": _compare("le"), "gt": _compare("lt", True), "ge": _compare("le", True),
    "eq": _compare("eq"), "ne": _compare("ne"),
    "is_finite": _finite, "logistic": _logistic, "sign": _sign, "square": lambda x: x * x, "erf_inv": _erf_inv,
    "clamp": lambda low, x, high: _larger("min")(_larger("max")(low, x), high),
    "stop_gradient": lambda x: x.op("stop_gradient") if x.type.is_float else x,
}  # fmt: skip
for _name, _f in _FORMULAS.items():
    define(_name, _f)


def _shift_right(x: Ex, y: Ex) -> Ex:
    """With the sign, also of unsigned integers."""
    if x.type.kind != "uint":
        return x.op("shr", y)
    signed = PRIMS[f"i{x.type.bits}"]
    return converted(converted(x, signed).op("shr", converted(y, signed)), x.type)


define("shift_right_arithmetic", _shift_right)


@rule("mul", result="out_dtype")
def _mul(s: Site, x: Value, y: Value) -> Value:
    """The product of both factors as what the result is."""
    to = s.elem()
    return apply(s, lambda p, q: p.op("and", q) if to is BOOL else converted(p, to) * converted(q, to), x, y)


@rule("integer_pow", reads="y")
def _integer_pow(s: Site, x: Value) -> Value:
    """By squaring (Knuth, The Art of Computer Programming, volume 2, section 4.6.3).  A negative power is one of 1 / x,
    whose derivative is a number also where x is infinite."""
    k = int(s.params["y"])

    def f(x: Ex) -> Ex:
        out, square, left = None, 1 / x if k < 0 else x, abs(k)
        while left:
            if left & 1:
                out = square if out is None else out * square
            left >>= 1
            square = square * square if left else square
        return constant(x, 1) if out is None else out

    return apply(s, f, x)


def converted(x: Ex, to: Prim) -> Ex:
    return Ex(x.b, x.b.convert(to, x.atom))


@rule("convert_element_type", result="new_dtype", hints="weak_type sharding")
def _convert(s: Site, x: Value) -> Value:
    to = s.elem()
    return x if to is x.elem else apply(s, lambda e: converted(e, to), x)


@rule("reduce_precision", reads="exponent_bits mantissa_bits")
def _reduce_precision(s: Site, x: Value) -> Value:
    sizes = {PRIMS["f16"]: (5, 10), PRIMS["f32"]: (8, 23), PRIMS["f64"]: (11, 52)}
    wanted = (s.params["exponent_bits"], s.params["mantissa_bits"])
    to = next((t for t, bits in sizes.items() if bits == wanted), None)
    if to is None:
        raise Unsupported(f"to {wanted[0]} bits of exponent and {wanted[1]} of mantissa")
    return apply(s, lambda e: converted(converted(e, to), e.type), x)


@rule("round", reads="rounding_method")
def _round(s: Site, x: Value) -> Value:
    if int(s.params["rounding_method"]):
        return apply(s, lambda e: e.op("round"), x)
    # Away from zero: adding a half would round numbers just below one up.
    def away(e: Ex) -> Ex:
        whole = e.op("trunc")
        return choose((e - whole).op("abs").op("lt", 0.5), whole, whole + e.op("sgn"))

    return apply(s, away, x)


def bits_of(x: Ex) -> Ex:
    """The bits of a number as an unsigned integer of its width."""
    if x.type.is_float:
        return x.op(f"bits_{x.type.name}")
    return converted(x, PRIMS[f"u{8 if x.type is BOOL else x.type.bits}"])


@rule("bitcast_convert_type", result="new_dtype")
def _bitcast(s: Site, x: Value) -> Value:
    to = elem_of_aval(s.eqn.outvars[0].aval)
    if to.bits != x.elem.bits:
        raise Unsupported(f"from {x.elem} to {to}, which are of different width")

    def f(e: Ex) -> Ex:
        if e.type is to:
            return e
        bits = bits_of(e)
        return bits.op(f"from_bits_{to.name}") if to.is_float else converted(bits, to)

    return apply(s, f, x)


def total_bits(x: Ex) -> Ex:
    """An unsigned integer that orders as IEEE 754 orders totally: -NaN, -inf, ..., -0, 0, ..., inf, NaN."""
    raw = bits_of(x)
    top = Const(raw.type, 1 << (raw.type.bits - 1))
    if x.type.is_float:
        return choose(raw.op("lt", Ex(x.b, top)), raw.op("xor", Ex(x.b, top)), raw.op("not"))
    return raw.op("xor", Ex(x.b, top)) if x.type.kind == "int" else raw


define("lt_to", lambda x, y: total_bits(x).op("lt", total_bits(y)))
define("le_to", lambda x, y: total_bits(x).op("le", total_bits(y)))
define("eq_to", lambda x, y: total_bits(x).eq(total_bits(y)))


def ordered_bits(x: Ex) -> Ex:
    """A u64 that orders as JAX sorts numbers: -0 as 0, NaN last."""
    if x.type.is_float:
        x = choose(is_nan(x), math.nan, choose(x.eq(0), 0.0, x))
    return converted(total_bits(x), U64)


def _polygamma(order: Ex, x: Ex) -> Ex:
    """Of orders that are no whole numbers NaN, as JAX has it."""
    made = order.op("eq", constant(order, 0)).select(x.op("digamma"), converted(order, I32).op("polygamma", x))
    whole_order = order.op("floor").op("eq", order).op("and", constant(order, 0).op("le", order))
    return whole_order.select(made, constant(x, math.nan))


define("polygamma", _polygamma)


def _incomplete_gamma(function: str) -> Formula:
    def f(a: Ex, x: Ex) -> Ex:
        return x.op("lt", constant(x, 0)).select(constant(x, math.nan), library.of_numbers(function, a, x))

    return f


define("igamma", _incomplete_gamma("gamma_p"))
define("igammac", _incomplete_gamma("gamma_q"))
define("regularized_incomplete_beta", lambda a, b, x: library.of_numbers("beta_inc", a, b, x))
define("zeta", lambda x, q: library.of_numbers("zeta", x, q))


def _gamma_slope(a: Ex, x: Ex) -> Ex:
    """How a gamma number x of shape a changes with a; 0 stays."""
    safe = choose(x.eq(0), 1.0, x)
    return choose(x.eq(0), 0.0, safe * library.of_numbers("gamma_log_slope", a, safe.log()))


define("random_gamma_grad", _gamma_slope)


@rule("select_n")
def _select(s: Site, which: Value, *cases: Value) -> Value:
    def f(k: Ex, *xs: Ex) -> Ex:
        if k.type is BOOL:
            return xs[0] if len(xs) == 1 else k.select(xs[1], xs[0])
        out = xs[-1]
        for i in range(len(xs) - 2, -1, -1):  # an index out of range is the nearest one
            out = k.op("le", i).select(xs[i], out)
        return out

    return apply(s, f, which, *cases)


@rule("copy", "copy_p", "device_put", "name", "optimization_barrier", "pvary", "sharding_constraint",
      hints="devices srcs copy_semantics name sharding layout context_mesh unconstrained_dims axes")  # fmt: skip
def _same(s: Site, *values: Value) -> list[Value]:
    return list(values)
