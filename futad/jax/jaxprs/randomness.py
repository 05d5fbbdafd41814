"""Rules of random keys and bits: the counter-based generator of JAX's default keys.

Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011 (Threefry-2x32, 20 rounds).
What keys are made of, split and folded by is JAX's own code, traced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from futad.core import ir
from futad.core.builder import Builder, Ex
from futad.core.types import ONE, U32, ZERO, Atom, Const
from futad.jax.jaxprs.lifted import Value, pointwise
from futad.jax.jaxprs.table import Site, Unsupported, rule

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def _rotated(x: Ex, k: int) -> Ex:
    return x.op("shl", k).op("or", x.op("ushr", 32 - k))


def threefry(b: Builder, k0: Atom, k1: Atom, x0: Atom, x1: Atom) -> list[Atom]:
    """Two words of 32 bits from two words of key and two of counter."""
    keys = [b.ex(k0), b.ex(k1)]
    keys.append((keys[0].op("xor", keys[1])).op("xor", Ex(b, Const(U32, _PARITY))))
    x, y = b.ex(x0) + keys[0], b.ex(x1) + keys[1]
    for i in range(5):
        for k in _ROTATIONS[i % 2]:
            x = x + y
            y = x.op("xor", _rotated(y, k))
        x = x + keys[(i + 1) % 3]
        y = y + keys[(i + 2) % 3] + (i + 1)
    return [x.atom, y.atom]


@rule("threefry2x32")
def _threefry(s: Site, *values: Value) -> list[Value]:
    return pointwise(s.b, threefry, values, s.shape())


@rule("iota_2x32_shape", result="shape")
def _places(s: Site) -> list[Value]:
    """The number of each place in row-major order, as its upper and its lower 32 bits."""
    shape = s.shape()
    number = Value(ZERO, (), shape)
    for d, n in enumerate(shape):
        places = Value(s.b.let(ir.Iota(n, ZERO, ONE)), (d,), shape)
        number = pointwise(s.b, lambda c, k, i, n=n: [c.op("add", c.op("mul", k, n), i)], [number, places], shape)[0]

    def halves(c: Builder, k: Atom) -> list[Atom]:
        x = c.ex(k)
        return [c.convert(U32, x.op("ushr", 32).atom), c.convert(U32, k)]

    return pointwise(s.b, halves, [number], shape)


def key_type(s: Site) -> Any:
    impl = s.eqn.invars[0].aval.dtype._impl
    if "threefry" not in str(impl.name) and impl.tag != "fry":
        raise Unsupported(f"for keys of the kind {impl.name}; keys of kind threefry2x32 are known")
    return impl


def with_keys(s: Site, f: Callable[..., Any], rank: int, *values: Value) -> list[Value]:
    """JAX's own function of one key's words, for all of an array of keys."""
    for _ in range(rank):
        f = jax.vmap(f)
    avals = [jax.ShapeDtypeStruct(_shape(s, i), _dtype(s, i)) for i in range(len(values))]
    return s.importer.traced(s.b, f, avals, values)


def _shape(s: Site, i: int) -> tuple[Any, ...]:
    from futad.jax.jaxprs.table import shape_of_aval

    return shape_of_aval(s.eqn.invars[i].aval)


def _dtype(s: Site, i: int) -> Any:
    from futad.jax.jaxprs.table import key_shape

    aval = s.eqn.invars[i].aval
    return np.dtype("uint32") if key_shape(aval) else aval.dtype


@rule("random_bits", reads="bit_width shape", hints="out_sharding")
def _random_bits(s: Site, key: Value) -> list[Value]:
    impl, width, shape = key_type(s), s.params["bit_width"], s.params["shape"]
    return with_keys(s, lambda k: impl.random_bits(k, width, shape), len(s.eqn.invars[0].aval.shape), key)


@rule("random_split", reads="shape")
def _random_split(s: Site, key: Value) -> list[Value]:
    impl, shape = key_type(s), s.params["shape"]
    return with_keys(s, lambda k: impl.split(k, shape), len(s.eqn.invars[0].aval.shape), key)


@rule("random_fold_in")
def _random_fold_in(s: Site, key: Value, data: Value) -> list[Value]:
    impl = key_type(s)
    return with_keys(s, lambda k, d: impl.fold_in(k, d.astype("uint32")), len(s.eqn.invars[0].aval.shape), key, data)


@rule("random_seed", reads="impl")
def _random_seed(s: Site, seed: Value) -> list[Value]:
    impl = s.params["impl"]
    aval = s.eqn.invars[0].aval
    f = impl.seed
    for _ in range(len(aval.shape)):
        f = jax.vmap(f)
    return s.importer.traced(s.b, f, [jax.ShapeDtypeStruct(aval.shape, aval.dtype)], [seed])


@rule("random_wrap", "random_unwrap", "random_clone", hints="impl")
def _words(s: Site, key: Value) -> Value:
    return key
