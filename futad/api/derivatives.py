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

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Unpack

import numpy as np

from futad.api.derive import derive
from futad.api.options import takes_budget
from futad.api.program import Executable, Function
from futad.core import ir
from futad.core.budget import Budget, Options, chosen
from futad.errors import InputError, ShapeError, UsageError
from futad.runtime.exchange import device_array, device_array_like
from futad.runtime.values import build_value, entry_text, flatten_value

Argnums = int | Sequence[int]


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


@takes_budget("loops")
def grad(f: Function, argnums: Argnums = 0, **options: Unpack[Options]) -> Function:
    """The entry that computes the gradient of f, whose result is one floating-point number.

    `argnums`: the argument differentiated with respect to, or a sequence of them (then the result is a
    tuple).  Raises UsageError if f has another result.
    """
    f = _entry(f, "grad")
    return _derived(f, "grad", _numbers(f, argnums), _is_single(argnums), *chosen(**options))


@takes_budget("loops")
def value_and_grad(f: Function, argnums: Argnums = 0, **options: Unpack[Options]) -> Function:
    """Like `grad`, but the entry returns (value, gradient)."""
    f = _entry(f, "value_and_grad")
    return _derived(f, "value_and_grad", _numbers(f, argnums), _is_single(argnums), *chosen(**options))


def jacfwd(f: Function, argnums: Argnums = 0) -> Function:
    """The entry that computes the Jacobian of f by forward mode: good for few inputs.

    The derivative of an array shaped s by an array shaped t is shaped s + t.  A structured result gives its
    structure of such arrays; several `argnums` a tuple of them in each place; a structured argument its
    structure.  An array of tuples counts as a tuple of arrays.
    """
    f = _entry(f, "jacfwd")
    return _derived(f, "jacfwd", _numbers(f, argnums), _is_single(argnums))


@takes_budget("loops")
def jacrev(f: Function, argnums: Argnums = 0, **options: Unpack[Options]) -> Function:
    """Like `jacfwd`, by reverse mode: good for few outputs."""
    f = _entry(f, "jacrev")
    return _derived(f, "jacrev", _numbers(f, argnums), _is_single(argnums), *chosen(**options))


@takes_budget("loops")
def hvp(f: Function, args: Sequence[Any], tangents: Sequence[Any], **options: Unpack[Options]) -> tuple[Any, ...]:
    """The Hessian of f at `args` times `tangents`: forward mode over reverse mode, no Hessian is formed.

    `tangents` has one entry an argument; the arguments whose tangent is None are constants, and so is their
    place in the result, a tuple with one entry an argument.  Raises UsageError if f is not scalar.
    """
    f = _entry(f, "hvp")
    args, tangents, active = _directions(f, "hvp", args, tangents)
    if not active:
        return (None,) * len(args)
    _, product = jvp(grad(f, active, **options), args, tangents)
    return tuple(_placed(product, active, None, len(args)))


@takes_budget("loops")
def hessian(f: Function, argnums: Argnums = 0, **options: Unpack[Options]) -> Function:
    """The entry that computes the Hessian of f: forward mode over reverse mode.  Shapes as in `jacfwd`."""
    return jacfwd(grad(f, argnums, **options), argnums)


# --- pieces -----------------------------------------------------------------------------------------------


def _entry(f: Any, what: str) -> Function:
    if isinstance(f, Function):
        return f
    raise UsageError(
        f"{what} takes an entry of a program, not {type(f).__name__}",
        hint="pass prog.name itself; choose the arguments to differentiate with argnums",
    )


def _derived(
    f: Function, kind: str, active: tuple[int, ...], single: bool, engine: str = "", budget: Budget | None = None
) -> Function:
    """The entry of a new program; a budget of its own is for the derivative that is taken here.  `engine`: how
    derivatives are taken in it, by default as in the program of f."""
    of = f.executable
    engine = engine or of.engine

    def make() -> Function:
        core, name = derive(of.core, f.symbol, kind, active, single, budget)
        origin = of.origin and of.origin.then(f.symbol, kind, active, single, budget)
        made = Executable(core, of.requested, of.check, of.texts, of.budget, of.schedule, engine, origin)
        return Function(made, name)

    made = f.derived((kind, active, single, engine, budget), make)
    assert isinstance(made, Function)
    return made


def _is_single(argnums: Argnums) -> bool:
    return not isinstance(argnums, Iterable)


def _numbers(f: Function, argnums: Argnums) -> tuple[int, ...]:
    """The arguments named, counted from 0; negative numbers count from the end."""
    count = len(f.entry.params)
    wrong = UsageError(f"argnums must be an int or a sequence of ints, not {argnums!r}")
    try:
        numbers = tuple(argnums) if isinstance(argnums, Iterable) else (argnums,)
    except TypeError:
        raise wrong from None
    if not numbers:
        raise UsageError("argnums is empty: there is nothing to differentiate with respect to")
    out = []
    for n in numbers:
        if not isinstance(n, int | np.integer) or isinstance(n, bool):
            raise wrong
        n = int(n)
        if not -count <= n < count:
            raise UsageError(
                f"argnums {n} is out of range: {f.__name__} has {count} arguments", hint=entry_text(f.entry)
            )
        out.append(n % count)
    if len(set(out)) != len(out):
        raise UsageError(f"argnums names an argument twice: {argnums!r}")
    return tuple(out)


def _active(f: Function, argnums: Argnums | None) -> tuple[int, ...]:
    if argnums is not None:
        return _numbers(f, argnums)
    active: tuple[int, ...] = f.derived(
        "floats", lambda: tuple([i for i, (_, t) in enumerate(f.entry.params) if has_floats(t)])
    )
    if not active:
        raise UsageError(
            f"no argument of {f.__name__} holds floating-point numbers; name the integers meant with argnums",
            hint=entry_text(f.entry),
        )
    return active


def has_floats(t: ir.EntryType) -> bool:
    """Whether any component is floating-point."""
    if t.kind in ("tuple", "record"):
        return any(has_floats(ft) for _, ft in t.fields)
    return has_floats(t.elem) if isinstance(t.elem, ir.EntryType) else bool(t.elem and t.elem.is_float)


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
        return adjoints[0] if _is_single(argnums) else adjoints
    out: list[Any] = [None] * count
    for i, adjoint in zip(active, adjoints, strict=True):
        out[i] = adjoint
    return tuple(out)


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
    return build_value(t, iter([np.zeros(_shape(x), elem.dtype)[()] for elem, x in leaves]))


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
