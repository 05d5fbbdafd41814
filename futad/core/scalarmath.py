"""What scalar operations compute, on NumPy scalars and arrays; functions that NumPy lacks.

Sources: Abramowitz and Stegun, chapters 4, 6 and 7 (elementary, gamma and error functions).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from futad.core.types import Prim


def int_div(x: Any, y: Any) -> Any:
    return x // y if np.asarray(x).dtype.kind != "f" else x / y


def int_quot(x: Any, y: Any) -> Any:
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype.kind == "u":
        return x // y
    q = x // y
    return np.where((x % y != 0) & ((x < 0) != (y < 0)), q + np.asarray(1, x.dtype), q).astype(x.dtype)


def int_rem(x: Any, y: Any) -> Any:
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype.kind == "u":
        return x % y
    return (x - int_quot(x, y) * y).astype(x.dtype)


def mod(x: Any, y: Any) -> Any:
    # Floats: the remainder of floored division; integers: sign of the divisor.
    return np.mod(x, y)


def power(x: Any, y: Any) -> Any:
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


def _rank(x: Any) -> Any:
    """Floats numbered in their order, -0 just below 0, as signed integers of their width; infinities and NaN
    outside."""
    x = np.asarray(x)
    info = np.iinfo(f"i{x.dtype.itemsize}")
    b = x.view(info.dtype)
    return b ^ ((b >> np.asarray(info.bits - 1, info.dtype)) & np.asarray(info.max, info.dtype))


def lost(x: Any, y: Any) -> Any:
    """The low seven bits of the rank of x where y is less than 33 floats away, else -1."""
    r = _rank(x)
    gap = r - _rank(y)  # wraps around, as what `found` adds does
    return np.where((gap >= -32) & (gap <= 32), r & np.asarray(127, r.dtype), np.asarray(-1, r.dtype)).astype(np.int8)


def found(k: Any, y: Any) -> Any:
    """The float next to y whose rank ends in the seven bits k."""
    r = _rank(y)
    low, half = np.asarray(127, r.dtype), np.asarray(64, r.dtype)
    z = r + ((((np.asarray(k).astype(r.dtype) - r) & low) ^ half) - half)
    info = np.iinfo(r.dtype)
    out = z ^ ((z >> np.asarray(info.bits - 1, r.dtype)) & np.asarray(info.max, r.dtype))
    return np.asarray(out, r.dtype).view(np.asarray(y).dtype)


def shift(f: Callable[[Any, Any], Any], fill_sign: bool) -> Callable[[Any, Any], Any]:
    def go(x: Any, y: Any) -> Any:
        x, y = np.asarray(x), np.asarray(y)
        bits = x.dtype.itemsize * 8
        wide = (y < 0) | (y >= bits) if y.dtype.kind == "i" else y >= bits
        r = f(x, np.where(wide, 0, y).astype(y.dtype))
        signed = fill_sign and x.dtype.kind == "i"
        over = np.where(x < 0, -1, 0).astype(x.dtype) if signed else np.zeros_like(x)
        return np.where(wide, over, r).astype(x.dtype)

    return go


def ushr(x: Any, y: Any) -> Any:
    x = np.asarray(x)
    u = np.dtype(f"u{x.dtype.itemsize}")
    return shift(np.right_shift, False)(x.astype(u), np.asarray(y).astype(u)).astype(x.dtype)


def popc(x: Any) -> Any:
    return np.bitwise_count(np.asarray(x).view(f"u{np.asarray(x).dtype.itemsize}")).astype("int32")


def clz(x: Any) -> Any:
    x = np.asarray(x)
    bits = x.dtype.itemsize * 8
    u = x.astype(f"u{x.dtype.itemsize}").astype("uint64")
    out = np.full(x.shape, bits, "int32")
    for i in range(bits):
        out = np.where((u >> np.uint64(i)) & np.uint64(1), bits - 1 - i, out)
    return out.astype("int32")


def ctz(x: Any) -> Any:
    x = np.asarray(x)
    bits = x.dtype.itemsize * 8
    u = x.astype(f"u{x.dtype.itemsize}").astype("uint64")
    out = np.full(x.shape, bits, "int32")
    for i in reversed(range(bits)):
        out = np.where((u >> np.uint64(i)) & np.uint64(1), i, out)
    return out.astype("int32")


def mul_hi(x: Any, y: Any) -> Any:
    x, y = np.asarray(x), np.asarray(y)
    bits = x.dtype.itemsize * 8
    f = np.frompyfunc(lambda a, b: (int(a) * int(b)) >> bits, 2, 1)
    wrapped = np.asarray(f(x, y), dtype=object)
    return wrapped.astype("int64" if x.dtype.kind == "i" else "uint64").astype(x.dtype)


def in_f32(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function of floats which at f16 is computed in f32 and rounded once, as in C."""

    def go(*xs: Any) -> Any:
        arrays = [np.asarray(x) for x in xs]
        if arrays[0].dtype != np.float16:
            return f(*arrays)
        return np.asarray(f(*[a.astype(np.float32) for a in arrays])).astype(np.float16)

    return go


def _sine(x: Any) -> Any:
    """sin(pi x) for |x| <= 1/2."""
    return np.sin(np.asarray(math.pi, x.dtype) * x)


def _turn(x: Any) -> Any:
    """|x| modulo 2, exactly."""
    a = np.abs(x)
    return a - 2 * np.floor(a / 2)


def _sinpi(x: Any) -> Any:
    b = _turn(x)
    return np.copysign(x.dtype.type(1), x) * _sine(np.where(b <= 0.5, b, np.where(b < 1.5, 1 - b, b - 2)))


def _cospi(x: Any) -> Any:
    b = _turn(x)
    return _sine(0.5 - np.where(b <= 1, b, 2 - b))


sinpi, cospi, tanpi = in_f32(_sinpi), in_f32(_cospi), in_f32(lambda x: _sinpi(x) / _cospi(x))


@in_f32
def sech_squared(x: Any) -> Any:
    u = np.exp(-np.abs(x))
    v = 2 * u / (1 + u * u)
    return v * v


@in_f32
def cosine(x: Any, y: Any) -> Any:
    """x / hypot(x, y); 0 where both are 0, the sign of an infinite x."""
    one, h = x.dtype.type(1), np.hypot(x, y)
    return np.where(np.isinf(x), np.copysign(one, x), x / np.where(h == 0, one, h))


def elementwise(f: Callable[..., float]) -> Callable[..., Any]:
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


def lgamma(x: float) -> float:
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    try:
        return math.lgamma(x)
    except OverflowError:
        return math.inf


def gamma(x: float) -> float:
    if x == 0:
        return math.copysign(math.inf, x)
    try:
        return math.gamma(x)
    except OverflowError:
        return math.copysign(math.inf, x)  # gamma(x) is near 1/x where it overflows at the small end


def fma(x: Any, y: Any, z: Any) -> Any:
    # The product in a wider type, so that it is neither rounded nor overflows before the sum.
    x = np.asarray(x)
    wide = {"e": "float32", "f": "float64", "d": "longdouble"}[x.dtype.char]
    return (x.astype(wide) * np.asarray(y) + np.asarray(z)).astype(x.dtype)


def digamma(x: float) -> float:
    """psi(x) by reflection, recurrence to x >= 10 and the asymptotic series (A&S 6.3.7, 6.3.5, 6.3.18).

    Multiples of pi are taken of the distance to the nearest whole number: near poles pi x would lose all digits."""
    if math.isnan(x) or x == -math.inf:
        return math.nan
    if x == math.inf:
        return x
    if x == 0:
        return math.copysign(math.inf, -x)
    if x <= 0 and x == math.floor(x):
        return math.nan
    if x < 0:
        return digamma(1 - x) - math.pi / math.tan(math.pi * (x - math.floor(x + 0.5)))
    acc = 0.0
    while x < 10:
        acc -= 1 / x
        x += 1
    r = 1 / (x * x)
    tail = r * (1 / 12 - r * (1 / 120 - r * (1 / 252 - r * (1 / 240 - r * (1 / 132 - r * 691 / 32760)))))
    return acc + math.log(x) - 0.5 / x - tail


def erf_inv(y: float) -> float:
    """The x at which erf is y: Winitzki's approximation, then Halley steps, for |y| > 1/2 on erfc, which loses no
    digits there."""
    a = abs(y)
    if math.isnan(y) or a > 1:
        return math.nan
    if a == 1:
        return math.copysign(math.inf, y)
    c = 0.147  # Winitzki, "A handy approximation for the error function and its inverse", 2008
    logs = math.log1p(-a * a)
    first = 2 / (math.pi * c) + 0.5 * logs
    x = math.sqrt(max(0.0, math.sqrt(first * first - logs / c) - first))
    for _ in range(3):
        miss = math.erf(x) - a if a <= 0.5 else (1 - a) - math.erfc(x)
        step = miss * (0.5 * math.sqrt(math.pi)) * math.exp(x * x)
        x -= step / (1 + x * step)
    return math.copysign(x, y)


def trigamma(x: float) -> float:
    """psi'(x), in the manner of `digamma` (A&S 6.4.7, 6.4.6, 6.4.12)."""
    if math.isnan(x) or x == -math.inf or (x < 0 and x == math.floor(x)):
        return math.nan
    if x in (0, math.inf):
        return 0.0 if x else math.inf
    if x < 0:
        s = math.pi / math.sin(math.pi * (x - math.floor(x + 0.5)))
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
    """The n-th derivative of psi (A&S 6.4.9, 6.4.6, 6.4.11), 1 <= n <= 170; NaN for other n and at the poles, but for
    0, which has a sign.

    (-1)^(n+1) n! zeta(n+1, x).  Left of 0 by reflection: the n-th derivative of the cotangent is a sum over all
    integers, and so two such functions more.
    """
    if math.isnan(x) or x == -math.inf or not 1 <= n <= MAX_POLYGAMMA or (x < 0 and x == math.floor(x)):
        return math.nan
    n = int(n)
    if x == 0:
        return math.inf if n % 2 else math.copysign(math.inf, -x)
    sign = 1.0 if n % 2 else -1.0
    if x > 0:
        return sign * zeta(x, n)
    f = x - math.floor(x + 0.5)
    return sign * (over_power(f, n) + zeta(1 + f, n) + sign * zeta(1 - f, n)) - zeta(1 - x, n)


def over_power(y: float, n: int) -> float:
    """n! / y^(n+1)"""
    out = 1 / y
    for i in range(1, n + 1):
        out *= i / y
    return out


def zeta(y: float, n: int) -> float:
    """n! zeta(n+1, y) for y > 0: by recurrence to y >= n + 12 and the asymptotic series."""
    acc = 0.0
    while y < n + 12:
        acc += over_power(y, n)
        y += 1
    r = 1 / (y * y)
    tail = 1 + 0.5 * n / y
    term = 1.0
    for k, bernoulli in enumerate(BERNOULLI, 1):
        term *= (2 * k + n - 2) * (2 * k + n - 1) * r / ((2 * k - 1) * (2 * k))
        tail += bernoulli * term
    return acc + over_power(y, n - 1) * tail


def convert(to: Prim) -> Callable[[Any], Any]:
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


def smaller(x: Any, y: Any) -> Any:
    """The smaller one; a NaN loses to a number, and of equal numbers it is the second: of zeros that shows."""
    if np.asarray(x).dtype.kind != "f":
        return np.minimum(x, y)
    z = np.where(y == y, y, x)
    return np.where(x < z, x, z)


def larger(x: Any, y: Any) -> Any:
    """As `smaller`, of the larger one."""
    if np.asarray(x).dtype.kind != "f":
        return np.maximum(x, y)
    z = np.where(y == y, y, x)
    return np.where(x > z, x, z)


def sgn(x: Any) -> Any:
    return np.sign(x).astype(np.asarray(x).dtype)
