"""Derivatives of entries, by JAX's conventions.

    y, pull = futad.vjp(prog.f, *args);  adjoints = pull(ybar)
    y, dy = futad.jvp(prog.f, args, tangents)
    futad.grad(prog.f, argnums=0)(*args)

`f` is an entry of a program, or what `grad`, `value_and_grad`, `jacfwd`, `jacrev` or `hessian` return: these
are entries too, so derivatives nest.

Integers and bools.  An argument made of them alone (a count, an index array) is not differentiated, and its
adjoint is None, unless `argnums` names it: then it gets the integer adjoint that the language defines.
Components of that kind inside a tuple or record that is differentiated get their integer adjoints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Unpack

import numpy as np

from futad.api.argnums import Argnums, has_floats, is_single, numbers, with_floats
from futad.api.derive import MOVED, VMAP, lifted
from futad.api.options import takes_budget
from futad.api.program import Function
from futad.core import ir
from futad.core.budget import Budget, Options, chosen
from futad.errors import InputError, ShapeError, UsageError
from futad.runtime.exchange import device_array, device_array_like
from futad.runtime.structure import Empty, build_value, count_leaves, flatten_value, parts_of_sum
from futad.runtime.values import entry_text


@takes_budget("loops")
def vjp(
    f: Function, *args: Any, argnums: Argnums | None = None, **options: Unpack[Options]
) -> tuple[Any, Callable[[Any], Any]]:
    """The value of f at `args`, and the function from a cotangent of the value to the adjoints of `args`.

    The cotangent has the structure, shapes and dtypes of the value; None in it stands for zero.  The
    adjoints are a tuple with one entry an argument, None for arguments of integers or bools.  With
    `argnums`, only those adjoints: a tuple, or for a single number the adjoint itself.  The arguments are
    copied: changing them afterwards does not change what the function returns.
    """
    f = _entry(f, "vjp")
    active = _active(f, argnums)
    kept = tuple([_snapshot(a) for a in args])
    value = f(*kept)
    pullback = _derived(f, "vjp", active, False, *chosen(**options))

    def pull(cotangent: Any) -> Any:
        full = _filled(f.entry.result, cotangent, value, "cotangent")
        return _placed(pullback(*kept, full), active, argnums, len(args))

    return value, pull


def jvp(f: Function, args: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """The value of f at `args` and its derivative along `tangents`, one per argument; None stands for zero.

    Arguments of integers or bools have no tangent: give None, or an integer tangent if that is meant.
    """
    f = _entry(f, "jvp")
    args, tangents, active = _directions(f, "jvp", args, tangents)
    if not active:
        value = f(*args)
        return value, _zeros(f.entry.result, value)
    derivative = _derived(f, "jvp", active, False)
    return derivative(*args, *[_filled_argument(f, i, tangents[i], args[i]) for i in active])


def jmp(f: Function, args: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """The value of f at `args` and its derivatives along many `tangents`, one per argument; None stands for zero.

    Tangents have one more dimension than the arguments, in front, of the same size k in all; and so have the
    derivatives.  The work on f itself is done once for all directions, that of recursive calls for each.
    """
    f = _entry(f, "jmp")
    args, tangents, active = _directions(f, "jmp", args, tangents)
    products = _derived(f, "jmp", active, False)
    given = _many("jmp", "tangents", [(f.entry.params[i][1], tangents[i], args[i]) for i in active])
    made: tuple[Any, Any] = products(*args, *given)
    return made


@takes_budget("loops")
def mjp(
    f: Function, *args: Any, argnums: Argnums | None = None, **options: Unpack[Options]
) -> tuple[Any, Callable[[Any], Any]]:
    """As `vjp` for many cotangents at once: they, and the adjoints, have one more dimension, in front.

    The work on f itself is done once for all of them, that of recursive calls for each.
    """
    f = _entry(f, "mjp")
    active = _active(f, argnums)
    kept = tuple([_snapshot(a) for a in args])
    value = f(*kept)
    pullback = _derived(f, "mjp", active, False, *chosen(**options))

    def pull(cotangents: Any) -> Any:
        (full,) = _many("mjp", "cotangents", [(f.entry.result, cotangents, value)])
        return _placed(pullback(*kept, full), active, argnums, len(args))

    return value, pull


def vmap(f: Function, in_axes: int | None | Sequence[int | None] = 0, out_axes: int | Sequence[int] = 0) -> Function:
    """The entry that computes f for each of a batch, in parallel.

    `in_axes`: for each argument the dimension of its arrays that is the batch's, None if all have the argument in
    common; or the same for all arguments.  `out_axes`: the dimension that the batch is of the results; for each part of
    a tuple, or the same for all.  The batch may have no elements.  Raises UsageError if nothing has a batch, if an
    argument or a result has no such dimension, or if results could differ in shape from one to the next.
    """
    f = _entry(f, "vmap")
    count = len(f.entry.params)
    axes: tuple[Any, ...] = tuple(in_axes) if isinstance(in_axes, tuple | list) else (in_axes,) * count
    wrong: list[Any] = [a for a in axes if a is not None and (type(a) is not int or a < 0)]
    if wrong:
        raise UsageError(f"vmap: in_axes holds dimensions, counted from 0, and None, not {wrong[0]!r}")
    if len(axes) != count:
        raise UsageError(f"vmap: {f.__name__} has {count} arguments, but in_axes has {len(axes)} entries",
                         hint=entry_text(f.entry))  # fmt: skip
    if all(a is None for a in axes):
        raise UsageError("vmap: in_axes names no argument that has a batch")
    batched = _derived(f, VMAP, axes, False)
    moves = _out_axes(f, out_axes)
    return _derived(batched, MOVED, moves, False) if any(moves) else batched


def _out_axes(f: Function, out_axes: int | Sequence[int]) -> tuple[int, ...]:
    """For each component of the result the dimension that is the batch's."""
    result = f.entry.result
    parts = [t for _, t in result.fields] if result.kind == "tuple" else [result]
    given: tuple[Any, ...] = tuple(out_axes) if isinstance(out_axes, tuple | list) else (out_axes,) * len(parts)
    if wrong := [a for a in given if type(a) is not int or a < 0]:
        raise UsageError(f"vmap: out_axes holds dimensions, counted from 0, not {wrong[0]!r}")
    if len(given) != len(parts):
        message = f"vmap: the result of {f.__name__} has {len(parts)} parts, but out_axes has {len(given)} entries"
        raise UsageError(message, hint=entry_text(f.entry))
    return tuple([a for a, t in zip(given, parts, strict=True) for _ in range(count_leaves(t))])


@takes_budget("loops")
def grad(f: Function, argnums: Argnums = 0, **options: Unpack[Options]) -> Function:
    """The entry that computes the gradient of f, whose result is one floating-point number.

    `argnums`: the argument differentiated with respect to, or a sequence of them (then the result is a
    tuple).  Raises UsageError if f has another result.
    """
    f = _entry(f, "grad")
    return _derived(f, "grad", numbers(f.entry, argnums), is_single(argnums), *chosen(**options))


@takes_budget("loops")
def value_and_grad(f: Function, argnums: Argnums = 0, **options: Unpack[Options]) -> Function:
    """Like `grad`, but the entry returns (value, gradient)."""
    f = _entry(f, "value_and_grad")
    return _derived(f, "value_and_grad", numbers(f.entry, argnums), is_single(argnums), *chosen(**options))


def jacfwd(f: Function, argnums: Argnums = 0) -> Function:
    """The entry that computes the Jacobian of f by forward mode: good for few inputs.

    The derivative of an array shaped s by an array shaped t is shaped s + t.  A structured result gives its
    structure of such arrays; several `argnums` a tuple of them in each place; a structured argument its
    structure.  An array of tuples counts as a tuple of arrays.
    """
    f = _entry(f, "jacfwd")
    return _derived(f, "jacfwd", numbers(f.entry, argnums), is_single(argnums))


@takes_budget("loops")
def jacrev(f: Function, argnums: Argnums = 0, **options: Unpack[Options]) -> Function:
    """Like `jacfwd`, by reverse mode: good for few outputs."""
    f = _entry(f, "jacrev")
    return _derived(f, "jacrev", numbers(f.entry, argnums), is_single(argnums), *chosen(**options))


@takes_budget("loops")
def hvp(
    f: Function,
    args: Sequence[Any],
    tangents: Any,
    argnums: Argnums | None = None,
    **options: Unpack[Options],
) -> Any:
    """The Hessian of f at `args` times `tangents`: forward mode over reverse mode, no Hessian is formed.

    `tangents` has one entry an argument; the arguments whose tangent is None, and those without floating-point numbers,
    are constants, and their place in the result, a tuple with one entry an argument, is None.  With `argnums` it has
    one entry, or for a single number is the tangent, for those arguments alone, and so has the result.  Raises
    UsageError if f is not scalar.
    """
    f = _entry(f, "hvp")
    if argnums is not None:
        active = numbers(f.entry, argnums)
        given = dict(zip(active, (tangents,) if is_single(argnums) else tangents, strict=False))
        if not is_single(argnums) and len(tangents) != len(active):
            raise UsageError(f"hvp: argnums names {len(active)} arguments, but tangents has {len(tangents)} entries")
        every = [given.get(i) for i in range(len(f.entry.params))]
        args, every, _ = _directions(f, "hvp", args, every)
        product = _hvp(f, args, every, active, options)
        return product[0] if is_single(argnums) else product
    args, tangents, named = _directions(f, "hvp", args, tangents)
    active = tuple([i for i in named if has_floats(f.entry.params[i][1])])
    if not active:
        return (None,) * len(args)
    return tuple(_placed(_hvp(f, args, tangents, active, options), active, None, len(args)))


def _hvp(
    f: Function, args: Sequence[Any], tangents: Sequence[Any], active: tuple[int, ...], options: Options
) -> tuple[Any, ...]:
    """A tuple with one entry for each of `active`, whose tangents may be None for zero."""
    gradient = _derived(f, "grad", active, False, *chosen(**options))
    along = _derived(gradient, "jvp", active, False)
    made: tuple[Any, ...] = along(*args, *[_filled_argument(f, i, tangents[i], args[i]) for i in active])[1]
    return made


@takes_budget("loops")
def hessian(f: Function, argnums: Argnums = 0, **options: Unpack[Options]) -> Function:
    """The entry that computes the Hessian of f: forward mode over reverse mode.  Shapes as in `jacfwd`."""
    return jacfwd(grad(f, argnums, **options), argnums)


# --- pieces -----------------------------------------------------------------------------------------------


def _entry(f: Any, what: str) -> Function:
    if isinstance(f, Function):
        return f
    hint = "pass prog.name itself; choose the arguments to differentiate with argnums"
    if callable(f) and not isinstance(f, type):
        hint = "make it one: f = futad.function(f), with types on its parameters (def f(x: f64) ...); a lambda has none"
    raise UsageError(f"{what} takes an entry of a program, not {type(f).__name__}", hint=hint)


def _derived(
    f: Function, kind: str, active: tuple[int, ...], single: bool, engine: str = "", budget: Budget | None = None
) -> Function:
    return f._derive(kind, active, single, engine, budget)


def _active(f: Function, argnums: Argnums | None) -> tuple[int, ...]:
    if argnums is not None:
        return numbers(f.entry, argnums)
    active: tuple[int, ...] = f.derived("floats", lambda: with_floats(f.entry))
    return active


def _directions(
    f: Function, what: str, args: Sequence[Any], tangents: Sequence[Any]
) -> tuple[list[Any], list[Any], tuple[int, ...]]:
    """Checked arguments and tangents, and the arguments that have a tangent."""
    count = len(f.entry.params)
    for name, given in (("args", args), ("tangents", tangents)):
        if not isinstance(given, tuple | list):
            raise UsageError(f"{what}: {name} must be a tuple with one entry an argument")
        if len(given) != count:
            raise UsageError(
                f"{what}: {f.__name__} has {count} arguments, but {name} has {len(given)} entries",
                hint=entry_text(f.entry),
            )
    return list(args), list(tangents), tuple([i for i, t in enumerate(tangents) if t is not None])


def _placed(adjoints: Any, active: tuple[int, ...], argnums: Argnums | None, count: int) -> Any:
    """The adjoints of the active arguments in the form asked for."""
    if argnums is not None:
        return adjoints[0] if is_single(argnums) else adjoints
    out: list[Any] = [None] * count
    for i, adjoint in zip(active, adjoints, strict=True):
        out[i] = adjoint
    return tuple(out)


def _many(what: str, name: str, pairs: Sequence[tuple[ir.EntryType, Any, Any]]) -> list[Any]:
    """Of each (type, value given with one more dimension, value of the type) the one given, with zeros for None."""
    lifts = [lifted(t) for t, _, _ in pairs]
    first = next((x for t, (_, given, _) in zip(lifts, pairs, strict=True) for x in _told(t, given)), None)
    if first is None:
        raise UsageError(f"{what}: all {name} are None, so their number is not known")
    if not (shape := _shape(first)):
        raise UsageError(f"{what}: {name} have one more dimension than what they belong to, in front")
    out = []
    for t, (plain, given, like) in zip(lifts, pairs, strict=True):
        leaves = zip(_elems(plain), flatten_value(plain, like, name, ""), strict=True)
        zeros = [np.broadcast_to(np.zeros((), elem.dtype), (shape[0], *_shape(x))) for elem, x in leaves]
        out.append(_filled(t, given, build_value(t, iter(zeros)), name))
    return out


def _told(t: ir.EntryType, value: Any) -> Iterator[Any]:
    """The components of a value that are not None."""
    if value is None or t.kind in ("scalar", "array"):
        yield from [] if value is None else [value]
        return
    parts = value if isinstance(value, tuple | list) else [_field_or_none(value, n) for n, _ in t.fields]
    for (_, ft), part in zip(t.fields, parts, strict=False):
        yield from _told(ft, part)


def _field_or_none(record: Any, name: str) -> Any:
    return record.get(name) if isinstance(record, Mapping) else getattr(record, name, None)


def _filled_argument(f: Function, i: int, tangent: Any, arg: Any) -> Any:
    name, t = f.entry.params[i]
    return _filled(t, tangent, arg, f"{name}_tangent")


def _filled(t: ir.EntryType, value: Any, like: Any, path: str) -> Any:
    """`value` with each None replaced by zeros shaped as in `like`."""
    if value is None:
        return _zeros(t, like)
    if t.kind == "array" and isinstance(t.elem, ir.EntryType) and t.elem.kind != "scalar":
        return _filled(t.elem, value, like, path) if isinstance(value, tuple | Mapping) else value
    if t.kind == "tuple" and isinstance(value, tuple | list) and isinstance(like, tuple | list):
        if len(value) != len(t.fields):
            raise ShapeError(f"{path}: expected a tuple of {len(t.fields)}, got {len(value)}")
        parts = zip(t.fields, value, like, strict=True)
        return tuple([_filled(ft, v, w, f"{path}.{n}") for (n, ft), v, w in parts])
    if t.kind == "record" and isinstance(value, Mapping):
        names = [n for n, _ in t.fields]
        if unknown := [n for n in value if n not in names]:
            raise InputError(f"{path}: there is no field '{unknown[0]}'; the fields are {', '.join(names)}")
        like = parts_of_sum(t, like) if t.constructors else like
        return {n: _filled(ft, value.get(n), _field(like, n), f"{path}.{n}") for n, ft in t.fields}
    if isinstance(value, np.ndarray | np.generic | list | int | float) and not isinstance(like, tuple | Mapping):
        _check_shape(value, like, path)
    return value


def _field(record: Any, name: str) -> Any:
    return record[name] if isinstance(record, Mapping) else getattr(record, name)


def _check_shape(value: Any, like: Any, path: str) -> None:
    if isinstance(value, (float, np.ndarray)) and isinstance(like, (np.generic, np.ndarray)):
        if (() if isinstance(value, float) else value.shape) == like.shape:
            return
    try:
        got, want = np.shape(value), np.shape(like)
    except ValueError:  # ragged lists: the conversion to come says so
        return
    if got != want and not (0 in got and 0 in want):  # a list without elements may be short of dimensions
        raise ShapeError(f"{path}: expected shape {want}, got {got}")


def _zeros(t: ir.EntryType, like: Any) -> Any:
    """Zeros of type `t`, shaped as `like`, which is something of that type as callers may give it."""
    leaves = zip(_elems(t), flatten_value(t, like, "cotangent", ""), strict=True)
    return build_value(t, iter([_zeros_like(x, elem) for elem, x in leaves]))


def _zeros_like(x: Any, elem: ir.Prim) -> Any:
    return x if isinstance(x, Empty) else np.zeros(_shape(x), elem.dtype)[()]


def _elems(t: ir.EntryType) -> Iterator[ir.Prim]:
    """The element types of the flat components."""
    if t.fields:
        for _, ft in t.fields:
            yield from _elems(ft)
    elif isinstance(t.elem, ir.EntryType):
        yield from _elems(t.elem)
    elif t.elem is not None:
        yield t.elem


def _shape(value: Any) -> tuple[int, ...]:
    if (there := device_array(value, "cotangent")) is not None:
        return tuple(there.shape)
    try:
        return np.shape(value)
    except ValueError:  # ragged: the conversion to come says so
        return ()


def _snapshot(value: Any) -> Any:
    """A copy that later changes to the user's arrays do not reach."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if device_array_like(value):
        return value.clone() if hasattr(value, "clone") else value.copy()  # torch's word, everybody else's
    if isinstance(value, dict):
        return {k: _snapshot(v) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)([_snapshot(v) for v in value])
    return value
