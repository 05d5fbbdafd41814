"""Two primitives and their rules.

`futad` is a call of an entry.  `futad_linear` is its derivative at a point along tangents, linear in these: forward
mode computes it, the transpose is reverse mode.  Both are calls of entries that futad makes, whose derivatives are
entries again, so that derivatives nest.

Note [Losses]
~~~~~~~~~~~~~
The tangent of an entry whose result is one floating-point number is the inner product of its gradient and the tangents.
So such a call becomes one of "value_and_grad", and the rest is JAX's: its transpose is the gradient times a number.
Value and gradient are computed at once, where `futad_linear` would compute the value twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from futad.errors import Error
from futad.jax.calls import handler
from futad.jax.calls.entries import Call, Known, in_front
from futad.runtime.shapes import Spec

call_p = Primitive("futad")
linear_p = Primitive("futad_linear")
call_p.multiple_results = linear_p.multiple_results = True


def bind(call: Call, leaves: Sequence[Any], known: Known = ()) -> list[Any]:
    """The components of the result of a call."""
    made: list[Any] = call_p.bind(*_aligned(leaves), call=call, known=known)
    return made


def bind_linear(
    call: Call, given: Sequence[int], leaves: Sequence[Any], tangents: Sequence[Any], known: Known, many: bool = False
) -> list[Any]:
    """The tangents of the floating-point components of the result, along tangents of the components `given`, all others
    being constant.  `many`: along many at once, which have one more dimension in front, as have the results."""
    operands = _aligned([*leaves, *tangents])
    made: list[Any] = linear_p.bind(*operands, call=call, given=tuple(given), known=known, many=many)
    return made


# -- types


def _varying(aval: Any) -> frozenset[Any]:
    """The axes of a mesh along which a value differs, inside of `shard_map`."""
    kind = getattr(aval, "manual_axis_type", None)  # `vma` before JAX 0.10
    found: frozenset[Any] = getattr(aval, "vma", frozenset()) if kind is None else kind.varying
    return found


def _aligned(leaves: Sequence[Any]) -> list[Any]:
    """Inside of `shard_map` all operands differ along the same axes; the transpose of this is a sum over them."""
    axes = [_varying(jax.typeof(x)) for x in leaves]
    every = frozenset().union(*axes)
    if not every:
        return list(leaves)
    pairs = zip(leaves, axes, strict=True)
    return [jax.lax.pcast(x, tuple(every - own), to="varying") if every - own else x for x, own in pairs]


def _avals(specs: Sequence[Spec], like: Sequence[Any]) -> list[Any]:
    """Types of results, which differ along the axes that operands differ along."""
    if not like:
        return [jax.core.ShapedArray(s.shape, s.dtype) for s in specs]
    sharding = jax.sharding.NamedSharding(jax.sharding.get_abstract_mesh(), jax.sharding.PartitionSpec())
    return [like[0].update(shape=s.shape, dtype=s.dtype, weak_type=False, sharding=sharding) for s in specs]


def _call_avals(*avals: Any, call: Call, known: Known) -> list[Any]:
    return _avals(call.specs(avals, known), avals)


def _linear_avals(*avals: Any, call: Call, given: tuple[int, ...], known: Known, many: bool) -> list[Any]:
    count = len(call.params)
    outer = avals[count].shape[:1] if many else ()
    specs = call.specs(avals[:count], known)
    return _avals([Spec((*outer, *specs[k].shape), specs[k].dtype) for k in call.floats], avals)


call_p.def_abstract_eval(_call_avals)
linear_p.def_abstract_eval(_linear_avals)


# -- running


def _linear(
    *operands: Any, call: Call, given: tuple[int, ...], known: Known, many: bool
) -> list[Any]:
    """What `futad_linear` computes."""
    count = len(call.params)
    push, full, _ = call.pushed(given, operands[:count], operands[count:], many)
    made = bind(push, full, known)[len(call.results) :]
    return [made[k] for k in call.floats]


@lru_cache(maxsize=1024)
def _jitted(call: Call, known: Known) -> Callable[..., Any]:
    return jax.jit(lambda *leaves: call_p.bind(*leaves, call=call, known=known))


def _run(*leaves: Any, call: Call, known: Known) -> list[Any]:
    """Outside of `jit`: called at once where arrays lie in one place of CPU memory, so that errors are futad's own and
    results may be of shapes that are not known before."""
    arrays = [x for x in leaves if isinstance(x, jax.Array)]
    devices = {d for x in arrays for d in (x.devices() if x.is_fully_addressable else (None, None))}
    if len(devices) > 1 or any(d is None or d.platform != "cpu" for d in devices):
        return list(_jitted(call, known)(*leaves))
    given = [handler.exact(leaf, x, own) for leaf, x, own in zip(call.params, leaves, call.consumed, strict=True)]
    made = call.f.call_leaves(given)
    home = next(iter(devices)) if any(x.committed for x in arrays) else None
    return [jax.device_put(np.asarray(y), home) for y in made]


call_p.def_impl(_run)
linear_p.def_impl(_linear)
mlir.register_lowering(linear_p, mlir.lower_fun(_linear, multiple_results=True))


def _by_callback(*leaves: Any, call: Call, known: Known) -> list[Any]:
    """A call by way of Python: for other devices, and code that is not C."""
    specs = [jax.ShapeDtypeStruct(s.shape, s.dtype) for s in call.specs(leaves, known)]

    def host(*arrays: Any) -> list[Any]:
        pairs = zip(call.params, arrays, call.consumed, strict=True)
        try:
            return [np.asarray(y) for y in call.f.call_leaves([handler.exact(leaf, x, own) for leaf, x, own in pairs])]
        except Error as e:
            raise e.with_traceback(None) from None  # JAX shows where it was raised

    return list(jax.pure_callback(host, specs, *leaves, vmap_method="sequential"))


_lowered_callback = mlir.lower_fun(_by_callback, multiple_results=True)


def _lower(ctx: Any, *operands: Any, call: Call, known: Known) -> Any:
    if not handler.offers(call):
        return _lowered_callback(ctx, *operands, call=call, known=known)
    told = {"entry": call.digest, "name": call.f.__name__, "recipe": call.recipe}
    return jax.ffi.ffi_lowering(handler.TARGET)(ctx, *operands, **told)


def _lower_elsewhere(ctx: Any, *operands: Any, call: Call, known: Known) -> Any:
    handler.warn(call, "JAX runs on another device than the CPU")
    return _lowered_callback(ctx, *operands, call=call, known=known)


mlir.register_lowering(call_p, _lower_elsewhere)
mlir.register_lowering(call_p, _lower, platform="cpu")


# -- derivatives


def _given(call: Call, tangents: Sequence[Any]) -> tuple[int, ...]:
    """The components that have a tangent."""
    pairs = enumerate(zip(call.params, tangents, strict=True))
    return tuple([k for k, (leaf, t) in pairs if leaf.elem.is_float and type(t) is not ad.Zero])


def _no_tangent(y: Any) -> Any:
    return ad.Zero(jax.typeof(y).to_tangent_aval())


def _call_jvp(leaves: Sequence[Any], tangents: Sequence[Any], *, call: Call, known: Known) -> tuple[Any, Any]:
    given = _given(call, tangents)
    if not given or not call.floats:
        made = bind(call, leaves, known)
        return made, [_no_tangent(y) for y in made]
    if call.is_loss:  # see Note [Losses]
        active = call.owners(given)
        made = bind(call.derivative("value_and_grad", active), leaves, known)
        bars = dict(zip(call.places(active), made[1:], strict=True))
        dots = [jnp.sum(bars[k] * tangents[k]) for k in given]
        return made[:1], [sum(dots[1:], dots[0])]
    made = bind(call, leaves, known)
    along = iter(bind_linear(call, given, leaves, [tangents[k] for k in given], known))
    return made, [next(along) if k in call.floats else _no_tangent(y) for k, y in enumerate(made)]


def _linear_jvp(
    operands: Sequence[Any], tangents: Sequence[Any], *, call: Call, given: tuple[int, ...], known: Known, many: bool
) -> tuple[Any, Any]:
    count = len(call.params)
    leaves, ts = operands[:count], operands[count:]
    made = bind_linear(call, given, leaves, ts, known, many)
    moved = _given(call, tangents[:count])
    turned = [i for i, t in enumerate(tangents[count:]) if type(t) is not ad.Zero]
    if not moved:  # linear in what is left
        subset = [given[i] for i in turned]
        return made, bind_linear(call, subset, leaves, [tangents[count + i] for i in turned], known, many)
    push, full, places = call.pushed(given, leaves, ts, many)
    inner = [*moved, *[places[given[i]] for i in turned]]
    along = [*[tangents[k] for k in moved], *[tangents[count + i] for i in turned]]
    return made, bind_linear(push, inner, full, along, known)[-len(call.floats) :]


def _linear_transpose(
    bars: Sequence[Any], *operands: Any, call: Call, given: tuple[int, ...], known: Known, many: bool
) -> list[Any]:
    count = len(call.params)
    leaves, ts = operands[:count], operands[count:]
    wanted = [i for i, t in enumerate(ts) if ad.is_undefined_primal(t)]
    outer = ts[wanted[0]].aval.shape[:1] if many else ()
    named = dict(zip(call.floats, map(ad.instantiate_zeros, bars), strict=True))
    specs = call.specs(leaves, known)
    full = [named[k] if k in named else jnp.zeros((*outer, *s.shape), s.dtype) for k, s in enumerate(specs)]
    active = call.owners([given[i] for i in wanted])
    made = bind(call.derivative("mjp" if many else "vjp", active), [*leaves, *full], known)
    found = dict(zip(call.places(active), made, strict=True))
    return [None] * count + [found[given[i]] if i in wanted else None for i in range(len(ts))]


ad.primitive_jvps[call_p] = _call_jvp
ad.primitive_jvps[linear_p] = _linear_jvp
ad.primitive_transposes[linear_p] = _linear_transpose


# -- batches


def _size(operands: Sequence[Any], dims: Sequence[int | None]) -> int:
    return next(jnp.shape(x)[d] for x, d in zip(operands, dims, strict=True) if d is not None)


def _left(call: Call, many: tuple[int, ...], known: Known) -> Known:
    """What is still a number when arguments have become batches."""
    return tuple([(k, n) for k, n in known if call.owner[k] not in many])


def _call_batch(
    leaves: Sequence[Any], dims: Sequence[int | None], *, call: Call, known: Known
) -> tuple[list[Any], list[int]]:
    size = _size(leaves, dims)
    if call.pull_of is not None:
        of, active = call.pull_of
        count = len(of.params)
        if all(d is None for d in dims[:count]):  # many cotangents at one point
            bars = [in_front(x, d, size) for x, d in zip(leaves[count:], dims[count:], strict=True)]
            made = bind(of.derivative("mjp", active), [*leaves[:count], *bars], known)
            return made, [0] * len(made)
    batched, moved, many = call.batched(dims, leaves, size)
    made = bind(batched, moved, _left(call, many, known))
    return made, [0] * len(made)


def _linear_batch(
    operands: Sequence[Any],
    dims: Sequence[int | None],
    *,
    call: Call,
    given: tuple[int, ...],
    known: Known,
    many: bool,
) -> tuple[list[Any], list[int]]:
    count, size = len(call.params), _size(operands, dims)
    leaves, ts = operands[:count], [in_front(x, d, size) for x, d in zip(operands[count:], dims[count:], strict=True)]
    if all(d is None for d in dims[:count]):  # many tangents at one point
        if many:
            flat = [jnp.reshape(t, (-1, *jnp.shape(t)[2:])) for t in ts]
            split = jnp.shape(ts[0])[:2]
            flat_made = bind_linear(call, given, leaves, flat, known, True)
            made = [jnp.reshape(y, (*split, *jnp.shape(y)[1:])) for y in flat_made]
        else:
            made = bind_linear(call, given, leaves, ts, known, True)
        return made, [0] * len(made)
    own = call.owners(given)  # the batch is a dimension of all that have tangents
    dims = [d if d is not None else -1 if call.owner[k] in own else None for k, d in enumerate(dims[:count])]
    leaves = [in_front(x, None, size) if d == -1 else x for x, d in zip(leaves, dims, strict=True)]
    batched, moved, axes = call.batched([0 if d == -1 else d for d in dims], leaves, size)
    if many:
        ts = [jnp.moveaxis(t, 0, 1) for t in ts]
    made = bind_linear(batched, given, moved, ts, _left(call, axes, known), many)
    return made, [1 if many else 0] * len(made)


batching.primitive_batchers[call_p] = _call_batch
batching.primitive_batchers[linear_p] = _linear_batch


__all__ = ["bind"]
