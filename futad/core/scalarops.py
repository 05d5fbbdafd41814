"""The table of scalar operations.

One record per operation; its names in the source, constant folding, printing, checking, the interpreter, emission of C
and CUDA, and differentiation all derive from it; `futad dev --ops` prints the table.  An operation works at every type
of its `types`; a signature is
'a a -> a' (same type), 'a a -> bool', 'bool a a -> a', 'a -> f64' ...

Partial derivatives are functions of expression handles (see `builder.Ex`) `(*args, result)`; they return
a handle, 0 for an identically zero one.  For ties of min and max the first argument takes all (Futhark's convention).
Sources: Abramowitz and Stegun, chapters 4, 6 and 7 (elementary, gamma and error functions).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from futad.core import scalarmath as sm
from futad.core.types import F16, PRIMS, Atom, Const, Prim, prim

INTS = tuple(p for p in PRIMS.values() if p.is_integral)
FLOATS = tuple(p for p in PRIMS.values() if p.is_float)
NUMS = INTS + FLOATS
BOOL_ = (prim("bool"),)
ALL = NUMS + BOOL_

Partial = Callable[..., Any]


Value = Callable[[Prim], Any]


@dataclass(slots=True)
class ScalarOp:
    """One scalar operation.

    `eval` computes on NumPy scalars or arrays of the argument dtype (already under errstate ignore).
    `partials` is None where no derivative exists (integer-valued results have zero derivatives).

    `c` is an expression template over {0}, {1}, ... and {t} (C type), {T} (type name), or a dict from
    type kind or name to one.  The functions `futad_NAME_TYPE` of floats that it calls are made of `define` and `half`
    (see `scalarlib.py`): an expression over x, y and z, or statements that return, with {t} for the type and {s} for
    the suffix of the library's names; by default a call of `library`, a function of the C mathematical library.  Where
    there is neither, `kernels/prelude.h` has them, and those of integers.  `half`, for f16: by default computed in f32.
    `vector`: the version of glibc that has the function for vector lanes, too.

    `passes`: its value is its argument, its partials are not; once derivatives are taken its argument takes its place.

    `source`: the names that it has in the source's numeric modules; NAME@KIND only in those of that kind, NAME~ with
    its arguments in the opposite order.

    `unit(t)`: x op unit is x; `absorber(t)`: x op absorber is the absorber, but for NaN.  `start(t)`: what folds start
    from, where NaN keeps it from being a unit.  `reduction`: OpenMP's name, of those that folds, atomics and AD know.
    """

    name: str
    sig: str
    types: tuple[Prim, ...]
    eval: Callable[..., Any]
    c: str | dict[str, str]
    partials: tuple[Partial, ...] | None = None
    unit: Value | None = None
    absorber: Value | None = None
    start: Value | None = None
    reduction: str = ""
    ufuncs: tuple[np.ufunc, np.ufunc] | None = None  # that reduce integers, and floats; by default `eval`
    commutative: bool = False
    associative: bool = False
    infix: str | None = None
    can_fail: bool = False  # integer division by zero is an error
    cost: int = 1  # rough relative cost, for inlining and duplication decisions
    flop: bool = True  # at floats it counts as a floating-point operation
    source: str = ""
    passes: bool = False
    library: str = ""
    define: str = ""
    half: str | None = None
    vector: str = ""
    results: dict[tuple[Prim, ...], Prim] = field(default_factory=dict, init=False, repr=False, compare=False)

    def neutral(self, t: Prim) -> Any:
        """What folds by this operation start from, at type `t`."""
        value = self.unit or self.start
        assert value is not None, f"{self.name} has no neutral element"
        return value(t)

    def ufunc(self, t: Prim) -> np.ufunc:
        """NumPy's function that reduces arrays of type `t` by it."""
        found = self.ufuncs[t.is_float] if self.ufuncs is not None else self.eval
        assert isinstance(found, np.ufunc)
        return found

    def names(self, t: Prim) -> list[tuple[str, bool]]:
        """Its names in the numeric module of type `t`, and whether the arguments are in the opposite order."""
        found = []
        for word in self.source.split() if t in self.types else ():
            name, _, kind = word.partition("@")
            if not kind or kind == t.kind:
                found.append((name.removesuffix("~"), name.endswith("~")))
        return found

    def swaps(self, t: Prim) -> bool:
        """Whether it is the same with its arguments, of type `t`, in the opposite order; `min` and `max` of floats tell
        equal ones apart, by their zeros and in derivatives."""
        return self.commutative and not (t.is_float and self.start is not None)

    @property
    def arity(self) -> int:
        return len(self.sig.split("->")[0].split())

    def arg_types(self, t: Prim) -> tuple[Prim, ...]:
        """The types of its arguments at type `t`."""
        return tuple([t if n == "a" else PRIMS[n] for n in self.sig.split("->")[0].split()])

    def result_type(self, arg_types: tuple[Prim, ...]) -> Prim:
        """The result's type, or TypeError if the arguments do not fit the signature."""
        found = self.results.get(arg_types)
        if found is None:
            found = self.results[arg_types] = self._result_type(arg_types)
        return found

    def _result_type(self, arg_types: tuple[Prim, ...]) -> Prim:
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

    def partial(self, i: int, args: Sequence[Any], result: Any) -> Any:
        """The partial derivative by argument `i`; at f16 that of a function is computed in f32, as its value is."""
        assert self.partials is not None
        if result.type is not F16 or self.cost == 1:
            return self.partials[i](*args, result)
        wide = [x.op("to_f32") if x.type is F16 else x for x in (*args, result)]
        p = self.partials[i](*wide)
        return p if isinstance(p, int | float) else p.op("to_f16")

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


def _zero(t: Prim) -> Any:
    return t.dtype.type(0).item()


def _one(t: Prim) -> Any:
    return t.dtype.type(1).item()


def _ones(t: Prim) -> Any:
    """All bits set."""
    return True if t.is_bool else -1 if t.kind == "int" else int(np.iinfo(t.dtype).max)


def _lowest(t: Prim) -> Any:
    return False if t.is_bool else -math.inf if t.is_float else int(np.iinfo(t.dtype).min)


def _highest(t: Prim) -> Any:
    return True if t.is_bool else math.inf if t.is_float else int(np.iinfo(t.dtype).max)


def _reciprocal(y: Any) -> Any:
    """1 / y, truncated for integers."""
    return 1 / y if y.type.is_float else y.lift(1).op("quot", y)


def _whole_quotient(x: Any, y: Any, r: Any) -> Any:
    """The quotient that leaves the remainder r; that of floats alone may be rounded up to the next whole number."""
    return ((x - r) / y).op("round") if x.type.is_float else x / y


def _unless(cond: Any, x: Any, f: Any) -> Any:
    """f(x), but 0 where `cond`; f sees 1 there, so that its own derivative is no 0 * inf."""
    return cond.select(x.lift(0), f(cond.select(x.lift(1), x)))


def _over_square(a: Any, b: Any) -> Any:
    """a / (a^2 + b^2); the squares alone may leave the range of the type."""
    return a.op("cosine", b) / a.op("hypot", b)


def _bent(c: Any, s: Any, x: Any, y: Any) -> Any:
    """c s / hypot(x, y), and 0 at (0, 0)."""
    h = x.op("hypot", y)
    return _unless(h.eq(0), h, lambda z: c * s / z)


def _inverse_root(x: Any) -> Any:
    """1 / sqrt(1 - x^2)"""
    return x.op("one_minus_square").op("rsqrt")


def _if_bool(x: Any) -> Any:
    return x if x.type.is_bool else 0


# --- arithmetic ------------------------------------------------------------------------------------

# {u}: the unsigned type of the same width, so overflow wraps; 1u keeps products of 16-bit numbers unsigned.
_INT_WRAP = "({t})(({u})({0}) %s ({u})({1}))"
_op("add", "a a -> a", NUMS, np.add, {"float": "({0} + {1})", "*": _INT_WRAP % "+"},
    lambda x, y, r: 1, lambda x, y, r: 1, unit=_zero, commutative=True, associative=True, infix="+",
    source="+", reduction="+")
_op("sub", "a a -> a", NUMS, np.subtract, {"float": "({0} - {1})", "*": _INT_WRAP % "-"},
    lambda x, y, r: 1, lambda x, y, r: -1, infix="-", source="-")
_op("mul", "a a -> a", NUMS, np.multiply,
    {"float": "({0} * {1})", "*": "({t})(1u * ({u})({0}) * ({u})({1}))"},
    lambda x, y, r: y, lambda x, y, r: x, unit=_one, absorber=_zero, commutative=True, associative=True, infix="*",
    source="*", reduction="*")
# A product that no sum contracts with.
_op("rounded_mul", "a a -> a", FLOATS, np.multiply, "futad_rounded_mul_{T}({0}, {1})",
    lambda x, y, r: y, lambda x, y, r: x, commutative=True, define="FUTAD_ROUNDED_MUL{s}(x, y)")
_op("div", "a a -> a", NUMS, sm.int_div, {"float": "({0} / {1})", "*": "futad_div_{T}({0}, {1})"},
    lambda x, y, r: _reciprocal(y), lambda x, y, r: -(r / y), infix="/", can_fail=True, cost=4, source="/")
_op("mod", "a a -> a", NUMS, sm.mod, "futad_mod_{T}({0}, {1})",
    lambda x, y, r: 1, lambda x, y, r: -_whole_quotient(x, y, r), infix="%", can_fail=True, cost=4,
    source="% mod@float", library="fmod",
    define="{t} r = fmod{s}(x, y); if (r == 0) return FUTAD_MATH(copysign{s})(({t})0, y); "
           "return (r < 0) != (y < 0) ? r + y : r;")
_op("quot", "a a -> a", INTS, sm.int_quot, "futad_quot_{T}({0}, {1})",
    lambda x, y, r: _reciprocal(y), lambda x, y, r: -(r / y), can_fail=True, cost=4, source="//")
_op("rem", "a a -> a", INTS, sm.int_rem, "futad_rem_{T}({0}, {1})",
    lambda x, y, r: 1, lambda x, y, r: -x.op("quot", y), can_fail=True, cost=4, source="%%")
# d/dx x**y: 0 where y = 0, also at x = 0, where y x**(y-1) is not; d/dy: x**y log x, and 0 for x <= 0 and for integers.
_op("pow", "a a -> a", NUMS, sm.power, "futad_pow_{T}({0}, {1})",
    lambda x, y, r: _unless(y.eq(0) & x.eq(0), x, lambda z: y * z.op("pow", y - 1)),
    lambda x, y, r: _unless(x.op("le", x.lift(0)), x, lambda z: r * z.log()) if x.type.is_float else 0, cost=20,
    source="**", library="pow", vector="2.22")
_op("neg", "a -> a", NUMS, np.negative,
    {"int": "({t})(0 - ({u})({0}))", "uint": "({t})(0 - ({0}))", "*": "(-({0}))"},
    lambda x, r: -1, source="neg", flop=False)
_op("abs", "a -> a", NUMS, np.abs, {"uint": "({0})", "*": "futad_abs_{T}({0})"},
    lambda x, r: x.op("sgn"), source="abs", define="FUTAD_MATH(fabs{s})(x)", flop=False)
_op("sgn", "a -> a", NUMS, sm.sgn, "futad_sgn_{T}({0})", lambda x, r: 0,
    source="sgn", define="x != x ? x : ({t})((x > 0) - (x < 0))")
# Two choices by one comparison each, the first of what a fold does not carry.  Of `x < y || y != y ? x : y` GCC finds
# in `min x (min y z)` whether the inner one is NaN on the way to y and to z, and it has no vectors of chosen bools.
_op("min", "a a -> a", NUMS, sm.smaller, "futad_min_{T}({0}, {1})",
    lambda x, y, r: r.eq(x).to(r), lambda x, y, r: (~r.eq(x)).to(r), commutative=True, associative=True,
    source="min", define="{t} z = y == y ? y : x; return x < z ? x : z;", start=_highest, reduction="min",
    ufuncs=(np.minimum, np.fmin))
_op("max", "a a -> a", NUMS, sm.larger, "futad_max_{T}({0}, {1})",
    lambda x, y, r: r.eq(x).to(r), lambda x, y, r: (~r.eq(x)).to(r), commutative=True, associative=True,
    source="max", define="{t} z = y == y ? y : x; return x > z ? x : z;", start=_lowest, reduction="max",
    ufuncs=(np.maximum, np.fmax))

# --- bits and bools --------------------------------------------------------------------------------

_BITS = INTS + BOOL_
# Bools: the other argument decides whether a change shows.  Integers: bits have no derivative.
_op("and", "a a -> a", _BITS, np.bitwise_and, "(({t})({0} & {1}))",
    lambda x, y, r: _if_bool(y), lambda x, y, r: _if_bool(x),
    unit=_ones, absorber=_zero, commutative=True, associative=True, infix="&",
    source="& &&@bool", reduction="&")
_op("or", "a a -> a", _BITS, np.bitwise_or, "(({t})({0} | {1}))",
    lambda x, y, r: _if_bool(~y), lambda x, y, r: _if_bool(~x),
    unit=_zero, absorber=_ones, commutative=True, associative=True, infix="|", source="| ||@bool", reduction="|")
_op("xor", "a a -> a", _BITS, np.bitwise_xor, "(({t})({0} ^ {1}))",
    lambda x, y, r: int(x.type.is_bool), lambda x, y, r: int(x.type.is_bool),
    unit=_zero, commutative=True, associative=True, infix="^", source="^", reduction="^")
_op("not", "a -> a", _BITS, np.bitwise_not, {"bool": "(!({0}))", "*": "(({t})(~({0})))"},
    lambda x, r: 1 if x.type.is_bool else -1, source="not !@bool")
_op("shl", "a a -> a", INTS, sm.shift(np.left_shift, False), "futad_shl_{T}({0}, {1})",
    lambda x, y, r: x.lift(1).op("shl", y), lambda x, y, r: 0, source="<<")
_op("shr", "a a -> a", INTS, sm.shift(np.right_shift, True), "futad_shr_{T}({0}, {1})",
    source=">>")  # arithmetic if signed
_op("ushr", "a a -> a", INTS, sm.ushr, "futad_ushr_{T}({0}, {1})", source=">>>")
_op("popc", "a -> i32", INTS, sm.popc, "futad_popc_{T}({0})", source="popc")
_op("clz", "a -> i32", INTS, sm.clz, "futad_clz_{T}({0})", source="clz")
_op("ctz", "a -> i32", INTS, sm.ctz, "futad_ctz_{T}({0})", source="ctz")
_op("mul_hi", "a a -> a", INTS, sm.mul_hi, "futad_mul_hi_{T}({0}, {1})", source="mul_hi")

# --- comparison and choice -------------------------------------------------------------------------

_op("eq", "a a -> bool", ALL, np.equal, "({0} == {1})", commutative=True, infix="==", source="==", flop=False)
_op("ne", "a a -> bool", ALL, np.not_equal, "({0} != {1})", commutative=True, infix="!=", source="!=", flop=False)
_op("lt", "a a -> bool", ALL, np.less, "({0} < {1})", infix="<", source="< >~", flop=False)
_op("le", "a a -> bool", ALL, np.less_equal, "({0} <= {1})", infix="<=", source="<= >=~", flop=False)
_op("select", "bool a a -> a", ALL, np.where, "({0} ? {1} : {2})",
    lambda c, x, y, r: 0, lambda c, x, y, r: c.to(r), lambda c, x, y, r: (~c).to(r), flop=False)

# A number that counts as a constant for derivatives.
_op("stop_gradient", "a -> a", FLOATS, np.positive, "({0})", lambda x, r: 0, flop=False, passes=True)

# y, which is linear in the tangent x: 0 where x is, though y is 0 times infinity there.  For derivatives it is y.
_op("unless_zero", "a a -> a", FLOATS, lambda x, y: np.where(x == 0, y.dtype.type(0), y),
    "futad_unless_zero_{T}({0}, {1})", lambda x, y, r: 0, lambda x, y, r: 1, flop=False,
    half="futad_from_bits_f16(x == 0 ? 0 : futad_bits_f16(y))")

# --- floating-point functions ----------------------------------------------------------------------


def _fun(name: str, ev: Callable[..., Any], *partials: Partial, arity: int = 1, cost: int = 15, **kw: Any) -> None:
    sig = " ".join(["a"] * arity) + " -> a"
    args = ", ".join(f"{{{i}}}" for i in range(arity))
    _op(name, sig, FLOATS, ev, f"futad_{name}_{{T}}({args})", *partials, cost=cost, **{"source": name, **kw})


_PI = math.pi


# Multiples of pi: of b, which is |x| modulo 2 without rounding, folded to where the sine is between -1 and 1.
_TURN = "const {t} a = FUTAD_MATH(fabs{s})(x), b = a - 2 * FUTAD_MATH(floor{s})(a / 2);"
_SINPI = ("FUTAD_MATH(copysign{s})(({t})1, x) * "
          "sin{s}(FUTAD_PI({t}) * (b <= ({t})0.5 ? b : b < ({t})1.5 ? 1 - b : b - 2))")
_COSPI = "sin{s}(FUTAD_PI({t}) * (({t})0.5 - (b <= 1 ? b : 2 - b)))"


def _pi(x: Any) -> Any:
    """pi in the dtype of `x`."""
    return np.asarray(_PI, np.asarray(x).dtype)


_fun("sqrt", np.sqrt, lambda x, r: 0.5 / r, cost=5, define="FUTAD_MATH(sqrt{s})(x)")
_fun("rsqrt", sm.in_f32(lambda x: 1 / np.sqrt(x)), lambda x, r: -0.5 * r / x, cost=6,
     define="1 / FUTAD_MATH(sqrt{s})(x)")
_fun("cbrt", np.cbrt, lambda x, r: (1 / r) * (1 / r) * (1 / 3), library="cbrt", vector="2.35")
_fun("exp", np.exp, lambda x, r: r, library="exp", vector="2.22")
_fun("exp2", np.exp2, lambda x, r: r * math.log(2), library="exp2", vector="2.35")
_fun("exp10", sm.in_f32(lambda x: np.power(np.asarray(10, x.dtype), x)), lambda x, r: r * math.log(10),
     define="pow{s}(({t})10, x)", vector="2.22")
_fun("expm1", np.expm1, lambda x, r: x.exp(), library="expm1", vector="2.35")
_fun("log", np.log, lambda x, r: 1 / x, library="log", vector="2.22")
_fun("log2", np.log2, lambda x, r: (1 / math.log(2)) / x, library="log2", vector="2.35")
_fun("log10", np.log10, lambda x, r: (1 / math.log(10)) / x, library="log10", vector="2.35")
_fun("log1p", np.log1p, lambda x, r: 1 / (1 + x), library="log1p", vector="2.35")
_fun("sin", np.sin, lambda x, r: x.cos(), library="sin", vector="2.22")
_fun("cos", np.cos, lambda x, r: -x.sin(), library="cos", vector="2.22")
_fun("tan", np.tan, lambda x, r: 1 + r * r, library="tan", vector="2.35")
_fun("asin", np.arcsin, lambda x, r: _inverse_root(x), library="asin", vector="2.35")
_fun("acos", np.arccos, lambda x, r: -_inverse_root(x), library="acos", vector="2.35")
_fun("atan", np.arctan, lambda x, r: x.op("inverse_quadratic"), library="atan", vector="2.35")
_fun("sinh", np.sinh, lambda x, r: x.op("cosh"), library="sinh", vector="2.35")
_fun("cosh", np.cosh, lambda x, r: x.op("sinh"), library="cosh", vector="2.35")
_fun("tanh", np.tanh, lambda x, r: x.op("sech_squared"), library="tanh", vector="2.35")
_fun("asinh", np.arcsinh, lambda x, r: 1 / x.op("hypot", 1), library="asinh", vector="2.35")
_fun("acosh", np.arccosh, lambda x, r: (x - 1).op("rsqrt") * (x + 1).op("rsqrt"), library="acosh", vector="2.35")
_fun("atanh", np.arctanh, lambda x, r: 1 / x.op("one_minus_square"), library="atanh", vector="2.35")
_fun("sinpi", sm.sinpi, lambda x, r: _PI * x.op("cospi"), define=f"{_TURN} return {_SINPI};", cost=20)
_fun("cospi", sm.cospi, lambda x, r: -_PI * x.op("sinpi"), define=f"{_TURN} return {_COSPI};", cost=20)
_fun("tanpi", sm.tanpi, lambda x, r: _PI * (1 + r * r), define=f"{_TURN} return {_SINPI} / {_COSPI};", cost=40)
_fun("asinpi", sm.in_f32(lambda x: np.arcsin(x) / _pi(x)), lambda x, r: _inverse_root(x) * (1 / _PI),
     define="asin{s}(x) / FUTAD_PI({t})")
_fun("acospi", sm.in_f32(lambda x: np.arccos(x) / _pi(x)), lambda x, r: _inverse_root(x) * (-1 / _PI),
     define="acos{s}(x) / FUTAD_PI({t})")
_fun("atanpi", sm.in_f32(lambda x: np.arctan(x) / _pi(x)), lambda x, r: x.op("inverse_quadratic") * (1 / _PI),
     define="atan{s}(x) / FUTAD_PI({t})")
_fun("atan2", np.arctan2, lambda y, x, r: _over_square(x, y), lambda y, x, r: -_over_square(y, x), arity=2,
     library="atan2", vector="2.35")
_fun("atan2pi", sm.in_f32(lambda y, x: np.arctan2(y, x) / _pi(x)),
     lambda y, x, r: _over_square(x, y) * (1 / _PI), lambda y, x, r: -_over_square(y, x) * (1 / _PI), arity=2,
     define="atan2{s}(x, y) / FUTAD_PI({t})")
_fun("hypot", np.hypot, lambda x, y, r: x.op("cosine", y), lambda x, y, r: y.op("cosine", x), arity=2,
     library="hypot", vector="2.35", define="FUTAD_HYPOT{s}(x, y)")

# Derivatives that formulas of other operations lose digits of, or whose own derivatives are 0 * inf at infinity.
_fun("one_minus_square", sm.in_f32(lambda x: (1 - x) * (1 + x)), lambda x, r: -2 * x, cost=2, source="",
     define="(1 - x) * (1 + x)")
_fun("inverse_quadratic", sm.in_f32(lambda x: 1 / (1 + x * x)),
     lambda x, r: _unless(r.eq(0), x, lambda z: -2 * z * r * r), cost=5, source="", define="1 / (1 + x * x)")
_fun("sech_squared", sm.sech_squared, lambda x, r: -2 * r * x.op("tanh"), cost=20, source="",
     define="const {t} u = exp{s}(-FUTAD_MATH(fabs{s})(x)), v = 2 * u / (1 + u * u); return v * v;")
_fun("gaussian", sm.in_f32(lambda x: np.exp(-(x * x))), lambda x, r: _unless(r.eq(0), x, lambda z: -2 * z * r),
     cost=16, source="", define="exp{s}(-(x * x))")
# x / hypot(x, y): 0 at (0, 0), where the hypotenuse has a kink, and the sign of an infinite x.
_fun("cosine", sm.cosine, lambda x, y, r: _bent(y.op("cosine", x), y.op("cosine", x), x, y),
     lambda x, y, r: -_bent(r, y.op("cosine", x), x, y), arity=2, cost=20, source="",
     define="const {t} h = FUTAD_HYPOT{s}(x, y), q = x / (h == 0 ? 1 : h); "
            "return FUTAD_MATH(fabs{s})(x) == ({t})FUTAD_INF ? FUTAD_MATH(copysign{s})(({t})1, x) : q;")

_fun("gamma", sm.elementwise(sm.gamma), lambda x, r: r * x.op("digamma"), cost=40,
     library="tgamma", define="({t})tgamma((double)x)")
_fun("lgamma", sm.elementwise(sm.lgamma), lambda x, r: x.op("digamma"), cost=40,
     define="({t})FUTAD_LGAMMA((double)x)")
_fun("digamma", sm.elementwise(sm.digamma), lambda x, r: x.op("trigamma"), cost=60)
_fun("trigamma", sm.elementwise(sm.trigamma), lambda x, r: x.i32(2).op("polygamma", x), cost=60)
_op("polygamma", "i32 a -> a", FLOATS, lambda n, x: sm.elementwise(sm.polygamma)(x, n), "futad_polygamma_{T}({1}, {0})",
    lambda n, x, r: 0, lambda n, x, r: (n + 1).op("polygamma", x), cost=200, half="")
_fun("erf", sm.elementwise(math.erf), lambda x, r: (2 / math.sqrt(_PI)) * x.op("gaussian"), cost=20,
     library="erf", vector="2.35")
_fun("erfc", sm.elementwise(math.erfc), lambda x, r: (-2 / math.sqrt(_PI)) * x.op("gaussian"), cost=20,
     library="erfc", vector="2.35")
_fun("erf_inv", sm.elementwise(sm.erf_inv), lambda x, r: (math.sqrt(_PI) / 2) * (r * r).exp(), cost=60, source="",
     define="({t})futad_inverse_erf((double)x)")
_fun("floor", np.floor, lambda x, r: 0, cost=1, define="FUTAD_MATH(floor{s})(x)")
_fun("ceil", np.ceil, lambda x, r: 0, cost=1, define="FUTAD_MATH(ceil{s})(x)")
_fun("round", np.rint, lambda x, r: 0, cost=1, define="FUTAD_MATH(rint{s})(x)")  # ties to even
_fun("trunc", np.trunc, lambda x, r: 0, cost=1, define="FUTAD_MATH(trunc{s})(x)")
_fun("copysign", np.copysign, lambda x, y, r: x.op("sgn") * r.op("sgn"), lambda x, y, r: 0, arity=2, cost=1,
     define="FUTAD_MATH(copysign{s})(x, y)", flop=False)
# The exponent is an integer, and as such has no derivative.
_op("ldexp", "i32 a -> a", FLOATS, lambda n, x: np.ldexp(x, np.asarray(n, np.int32)), "futad_ldexp_{T}({1}, {0})",
    lambda n, x, r: 0, lambda n, x, r: n.op("ldexp", x.lift(1)), cost=10, source="ldexp~", half="")
_fun("nextafter", np.nextafter, lambda x, y, r: 1, lambda x, y, r: 0, arity=2, cost=3, library="nextafter", half="")
_fun("fma", sm.fma, lambda x, y, z, r: y, lambda x, y, z, r: x, lambda x, y, z, r: 1, arity=3, cost=1,
     half="(futad_f16)((float)x * (float)y + (float)z)")
_op("isnan", "a -> bool", FLOATS, np.isnan, "futad_isnan_{T}({0})", source="isnan", define="x != x", half="x != x")
_op("isinf", "a -> bool", FLOATS, np.isinf, "futad_isinf_{T}({0})",
    source="isinf", define="FUTAD_MATH(fabs{s})(x) == ({t})FUTAD_INF", half="(futad_bits_f16(x) & 0x7fff) == 0x7c00")
_op("signbit", "a -> bool", FLOATS, np.signbit, "futad_signbit_{T}({0})",
    define="FUTAD_SIGNBIT(x)", half="futad_bits_f16(x) >> 15")
for _t, _b in (("f16", "u16"), ("f32", "u32"), ("f64", "u64")):
    _op(f"bits_{_t}", f"{_t} -> {_b}", (prim(_t),),
        lambda x, b=_b: np.asarray(x).view(prim(b).dtype), f"futad_bits_{_t}({{0}})")
    _op(f"from_bits_{_t}", f"{_b} -> {_t}", (prim(_b),),
        lambda x, t=_t: np.asarray(x).view(prim(t).dtype), f"futad_from_bits_{_t}({{0}})", flop=False)

# What an inverse loses of x (`ad/inverse/lost_bits.py`), and the float next to y that has it.
_op("lost", "a a -> i8", (prim("f32"), prim("f64")), sm.lost, "futad_lost_{T}({0}, {1})", cost=4, flop=False)
_op("found", "i8 a -> a", (prim("f32"), prim("f64")), sm.found, "futad_found_{T}({0}, {1})", cost=4, flop=False)

# --- conversions: to_T, from every type.  The derivative converts the adjoint back. ----------------
for _p in PRIMS.values():
    _cast = "(({r}){0})"
    _op(f"to_{_p.name}", f"a -> {_p.name}", ALL, sm.convert(_p),
        {"float": f"futad_{{T}}_to_{_p.name}({{0}})" if _p.is_integral else _cast, "*": _cast}, flop=False)


# Operations with finite derivatives at all finite arguments, and results that are finite unless they grow beyond all
# floats by sums and products.
FINITE = frozenset(
    """add sub mul fma neg abs sgn min max select copysign floor ceil round trunc sin cos sinpi cospi tanh atan atanpi
    asinh erf erfc hypot unless_zero one_minus_square inverse_quadratic sech_squared gaussian""".split()
)
# Operations whose results, and so derivatives of products with them, overflow at ordinary arguments.
STEEP = frozenset("exp exp2 exp10 expm1 sinh cosh pow".split())
SHIPPED = dict(OPS)  # without those that others have added
REDUCTIONS = tuple([name for name, record in OPS.items() if record.reduction])


def op(name: str) -> ScalarOp:
    """The record of that name (KeyError if there is none)."""
    return OPS[name]


def evaluate(name: str, *args: Any) -> Any:
    """The operation on NumPy scalars or arrays, warnings off, result in the declared dtype."""
    record = OPS[name]
    with np.errstate(all="ignore"):
        return record.eval(*args)


def folded(name: str, args: Sequence[Atom]) -> Const | None:
    """The value of an operation on constants; None if some are not, or if it fails."""
    consts: list[Const] = []
    for a in args:
        if type(a) is not Const:
            return None
        consts.append(a)
    record = OPS[name]
    if record.can_fail and consts[-1].type.is_integral and not consts[-1].value:
        return None
    value = evaluate(name, *[c.type.dtype.type(c.value) for c in consts])
    return Const(record.result_type(tuple([c.type for c in consts])), value.item())
