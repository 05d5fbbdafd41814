"""Inputs on which both sides of a rule are run, and what is equal among results."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from futad.core import ir
from futad.core.types import ArrayType, Const, Prim, Var, elem_of

SIZES = (0, 1, 2, 7)
HUGE = 1e30  # floats from here on may leave the range of a type on one side alone
TOLERANCE = 1e-9


def specials(t: Prim) -> list[Any]:
    """Values at which rules go wrong."""
    if t.is_bool:
        return [False, True]
    if t.is_float:
        top = float(np.finfo(t.dtype).max)
        return [0.0, -0.0, 1.0, -1.0, 2.0, np.nan, np.inf, -np.inf, top, -top]
    info = np.iinfo(t.dtype)
    return [0, 1, 2, 3, int(info.min), int(info.max), *([-1, -2] if info.min < 0 else [])]


def scalar(rng: random.Random, t: Prim, special: float) -> Any:
    """A random value: with that probability a special one, else a number of moderate size."""
    if t.is_bool:
        return rng.random() < 0.5
    if rng.random() < special:
        return rng.choice(specials(t))
    return rng.uniform(-2, 2) if t.is_float else rng.randrange(0, 4)


def arguments(rng: random.Random, fun: ir.Fun, special: float, sizes: Sequence[int] = SIZES) -> list[Any]:
    """Arguments for all parameters, sizes first."""
    env: dict[Any, int] = {}
    out: list[Any] = []
    for k, p in enumerate(fun.body.params):
        if k < fun.num_sizes:
            env[p] = rng.choice(sizes)
            out.append(np.int64(env[p]))
            continue
        elem = elem_of(p.type)
        if isinstance(p.type, ArrayType):
            shape = tuple([s.value if isinstance(s, Const) else env[s] for s in p.type.shape])
            values = [scalar(rng, elem, special) for _ in range(int(np.prod(shape, dtype=int)))]
            out.append(np.array(values, elem.dtype).reshape(shape))
        else:
            out.append(elem.dtype.type(scalar(rng, elem, special)))
    return out


def differ(a: Any, b: Any, exact: bool, zeros: bool = True, wild: bool = False, over: bool = False) -> bool:
    """Whether two results are different: of unlike types or shapes, or values.

    Floats agree to `TOLERANCE` of the largest of them (a few roundings of narrower types); with `exact`, to the last
    bit, but for which NaN it is, and with `zeros` for the sign of zero.  `wild`: numbers were infinite or huge, so what
    is not finite on one side may be another such value on the other, or have left the range.
    """
    x, y = np.asarray(a), np.asarray(b)
    if x.dtype != y.dtype or x.shape != y.shape:
        return True
    if x.dtype.kind != "f":
        return not np.array_equal(x, y)
    eps = float(np.finfo(x.dtype).eps)
    x, y = x.astype(np.float64), y.astype(np.float64)
    nan = np.isnan(x) & np.isnan(y)
    if exact:
        same = (x == y) & (zeros | (np.signbit(x) == np.signbit(y)))
        return not bool(np.all(nan | same))
    finite = np.isfinite(x) & np.isfinite(y)
    if over:
        other = np.ones(x.shape, bool)
    elif wild:
        other = ~np.isfinite(x) & ~np.isfinite(y)
    else:
        other = nan | (x == y)
    with np.errstate(all="ignore"):
        scale = max([1e-300, *np.abs(x[finite]).tolist(), *np.abs(y[finite]).tolist()])
        close = np.abs(x / scale - y / scale) <= max(TOLERANCE, 16 * eps)
    return not bool(np.all(np.where(finite, close, other)))


def infinite(args: Sequence[Any]) -> bool:
    return any(not np.isfinite(np.asarray(a)).all() for a in args if np.asarray(a).dtype.kind == "f")


def huge(args: Sequence[Any]) -> bool:
    """Whether arguments have numbers whose products and sums leave the range of their type."""
    with np.errstate(all="ignore"):
        return any((np.abs(x[np.isfinite(x)]) > (HUGE if x.dtype.itemsize > 2 else 100)).any()
                   for x in map(np.asarray, args) if x.dtype.kind == "f")  # fmt: skip


def shown(params: Sequence[Var], args: Sequence[Any]) -> str:
    """Arguments as text, a line each."""
    return "\n".join(f"  {p.name} = {np.asarray(a).tolist()}" for p, a in zip(params, args, strict=True))


__all__ = ["SIZES", "arguments", "differ", "huge", "infinite", "scalar", "shown", "specials"]
