"""What tracing makes: values in scopes, each the result of a statement.

A scope is the body of the function or of a lambda; a statement computes one or several values by an expression, whose
operands are values of this scope or of those around it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from futad.core.types import PRIMS
from futad.python.place import fail, frames, here
from futad.python.sizes import Size, size

if TYPE_CHECKING:
    from futad.python.arrays import Array
    from futad.python.layout import Doc, Written
    from futad.python.writer import Writer

DTYPES = {str(p): p.dtype for p in PRIMS.values()}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}


def elem_of(dtype: Any) -> str:
    """The name of the element type of a NumPy dtype.  Raises TraceError."""
    if isinstance(dtype, str) and dtype in DTYPES:
        return dtype
    if (name := getattr(dtype, "elem", None)) in DTYPES:
        return cast(str, name)
    try:
        return _NAMES[np.dtype(dtype)]
    except (KeyError, TypeError):
        fail(f"there is no element type {dtype!r}", f"element types are {', '.join(DTYPES)}")


class Exp:
    """How values are computed."""

    def operands(self) -> Sequence[Value]:
        """The values that it reads where it stands."""
        return ()

    def inner(self) -> Sequence[Value]:
        """The values that it reads several times, in code of its own: they are bound before."""
        return ()

    def scopes(self) -> Sequence[Scope]:
        """The lambdas in it."""
        return ()

    def doc(self, w: Writer) -> Written:
        """Its text, and how tightly that binds (`layout.py`)."""
        raise NotImplementedError

    def applied(self, w: Writer, params: Sequence[Value]) -> Doc | None:
        """The function that it applies to exactly these values, and to nothing else; None if there is none."""
        return None

    def pattern(self, names: Sequence[str]) -> str:
        """What its values are bound to, of several."""
        return f"({', '.join(names)})"

    flat = True  # several values are a tuple, and not tuples of tuples
    hint = "t"  # what its value is called if the user has no name for it
    trivial = False  # as short as a name: never bound


class Stm:
    """A statement: the values that an expression computes."""

    def __init__(self, exp: Exp, scope: Scope) -> None:
        self.exp, self.scope = exp, scope
        self.results: list[Value] = []
        self.place = here()


class Value:
    """A traced number or array: its element type, its sizes, and where it comes from."""

    made_as: ClassVar[type[Value]]

    def __init__(self, elem: str, dims: Sequence[Size], scope: Scope, stm: Stm | None = None) -> None:
        self.elem, self.dims, self.scope, self.stm = elem, tuple(dims), scope, stm
        self.name: str | None = None
        self.as_size: Size | None = None  # of an i64: what it is, of other sizes
        self.weak: Any = None  # the number of Python's that a loop begins with, while its type is sought

    @property
    def exp(self) -> Exp | None:
        """The expression whose only result it is."""
        return self.stm.exp if self.stm is not None and len(self.stm.results) == 1 else None


class Scope:
    """The body of a function or lambda: parameters, statements in order, and the results."""

    def __init__(self, parent: Scope | None, trace: Trace) -> None:
        self.parent, self.trace = parent, trace
        self.params: list[Value] = []
        self.stms: list[Stm] = []
        self.results: list[Value] = []

    def inside(self, other: Scope) -> bool:
        """Whether it is the other scope, or one inside."""
        scope: Scope | None = self
        while scope is not None and scope is not other:
            scope = scope.parent
        return scope is other


class Trace:
    """One function that is being traced: its open scopes, and what it calls."""

    def __init__(self, calls: Any = None) -> None:
        self.scope = Scope(None, self)
        self.calls = calls
        self.sizes: set[str] = set()  # names of sizes


_state = threading.local()


def traces() -> list[Trace]:
    """The functions that this thread is tracing, the innermost last."""
    made: list[Trace] = _state.__dict__.setdefault("traces", [])
    return made


def current() -> Scope:
    """The scope that operations are added to.  Raises TraceError outside of a traced function."""
    if not traces():
        fail("futad.numpy works on traced values only", "call it inside a function that @futad.function decorates")
    return traces()[-1].scope


@contextmanager
def opened(params: Sequence[tuple[str, Sequence[Size]]]) -> Iterator[tuple[Scope, list[Array]]]:
    """A new scope inside the current one, with parameters of these types."""
    outer = current()
    scope = Scope(outer, outer.trace)
    outer.trace.scope = scope
    made = [parameter(scope, elem, dims) for elem, dims in params]
    try:
        yield scope, made
    finally:
        name_values()
        outer.trace.scope = outer


def parameter(scope: Scope, elem: str, dims: Sequence[Size], name: str | None = None) -> Array:
    """A new parameter of the scope."""
    made = Value.made_as(elem, dims, scope)
    made.name = name
    scope.params.append(made)
    if elem == "i64" and not dims:
        made.as_size = size(made)
    return cast("Array", made)


def bind(exp: Exp, types: Sequence[tuple[str, Sequence[Size]]]) -> list[Array]:
    """The values of a new statement in the current scope, of these element types and sizes."""
    scope = current()
    name_values()
    for v in (*exp.operands(), *exp.inner()):
        check_scope(v)
    stm = Stm(exp, scope)
    stm.results = [Value.made_as(elem, dims, scope, stm) for elem, dims in types]
    for v in stm.results:
        if v.elem == "i64" and not v.dims:
            v.as_size = size(v)
    scope.stms.append(stm)
    return cast("list[Array]", list(stm.results))


def let(exp: Exp, elem: str, dims: Sequence[Size] = ()) -> Array:
    """The value of a new statement in the current scope."""
    return bind(exp, [(elem, dims)])[0]


def check_scope(v: Value) -> None:
    """Raises TraceError unless the value can be read in the current scope."""
    scope = current()
    if v.scope.trace is not scope.trace:
        fail("this value belongs to another call of a traced function", "pass it as an argument")
    if not scope.inside(v.scope):
        what = f"'{v.name}'" if v.name else "a value"
        fail(f"{what} of a lambda is used outside of it", "return it from the lambda")


def identical(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether these are the same objects; `==` of values is an operation of the program."""
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


def is_in(v: object, among: Iterable[object]) -> bool:
    """Whether one of these is the object."""
    return any(v is x for x in among)


def name_values() -> None:
    """Give the values that the user's code has in variables these variables' names."""
    for frame in reversed(list(frames())):
        for name, value in frame.f_locals.items():
            if isinstance(value, Value) and value.name is None and not name.startswith((".", "__")):
                value.name = name


class OfSize(Exp):
    """A size as a number."""

    def __init__(self, size: Size) -> None:
        self.size = size
        self.trivial = size.known is not None or isinstance(size.atom, str)

    def inner(self) -> Sequence[Value]:
        return values_in(self.size)

    def doc(self, w: Writer) -> Written:
        return w.size(self.size)


class LengthOf:
    """The outer size of an array that only running the program tells."""

    def __init__(self, array: Value | None = None) -> None:
        self.array = array
        self.name = "length"


def values_in(*sizes: Size) -> list[Value]:
    """The values that sizes are made of."""
    atoms = [a for s in sizes for a in s.atoms()]
    out = [a.array if isinstance(a, LengthOf) else a for a in atoms]
    return [v for v in out if isinstance(v, Value)]


def of_size(s: Size) -> Array:
    """A size as an i64."""
    if isinstance(s.atom, Value):
        return cast("Array", s.atom)
    made = let(OfSize(s), "i64")
    made.as_size = s
    return made


__all__ = [
    "DTYPES", "Exp", "LengthOf", "OfSize", "Scope", "Stm", "Trace", "Value", "bind", "check_scope", "current",
    "elem_of", "identical", "is_in", "let", "name_values", "of_size", "opened", "parameter", "traces", "values_in",
]  # fmt: skip
