"""Static values: what an expression evaluates to while lowering.

Tuples, records and functions exist only here.  A value is a tree whose leaves are core atoms; an array of
records is a record of core arrays that share their outer dimensions (structure of arrays).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from futad.core.types import AccType, ArrayType, Atom, Var, elem_of
from futad.source.types import Binding, Size, SType

if TYPE_CHECKING:
    from futad.source.ast import ELambda, FunDef


@dataclass(slots=True, eq=False)
class Leaf:
    """A core atom: a scalar, or inside an `Arr` a core array whose leading dimensions are the Arr's."""

    atom: Atom


@dataclass(slots=True, eq=False)
class Arr:
    """An array: sizes outermost first, and the element, never an `Arr` itself.

    The leaves of `elem` are core arrays that carry all enclosing dimensions.
    """

    dims: tuple[Atom, ...]
    elem: Value


@dataclass(slots=True, eq=False)
class Rec:
    """A record or a tuple (fields '0', '1', ...)."""

    fields: dict[str, Value]


class Frame:
    """What the bindings of one activation stand for: values, and instances of type parameters.

    A frame is filled as its code is lowered; a closure keeps the frame it was made in.
    """

    __slots__ = ("parent", "types", "vals")

    def __init__(self, parent: Frame | None) -> None:
        self.parent = parent
        self.vals: dict[Binding, Value] = {}
        self.types: dict[Binding, tuple[SType, Frame]] = {}

    def lookup(self, b: Binding) -> Value | None:
        fr: Frame | None = self
        while fr is not None:
            v = fr.vals.get(b)
            if v is not None:
                return v
            fr = fr.parent
        return None

    def lookup_type(self, b: Binding) -> tuple[SType, Frame] | None:
        fr: Frame | None = self
        while fr is not None:
            t = fr.types.get(b)
            if t is not None:
                return t
            fr = fr.parent
        return None


@dataclass(slots=True, eq=False)
class Inst:
    """How one use of a polymorphic name instantiates it; types and sizes are read in `frame`."""

    targs: dict[Binding, SType]
    sargs: dict[Binding, Size]
    frame: Frame


@dataclass(slots=True, eq=False)
class Fn:
    """A function value: code, the frame it closes over, and the arguments applied so far.

    `code` is a lambda, a function definition, or the name of an intrinsic.
    """

    code: ELambda | FunDef | str
    frame: Frame
    args: tuple[Value, ...] = ()
    inst: Inst | None = None
    arity: int = 1


Value = Leaf | Arr | Rec | Fn
T = TypeVar("T")

UNIT = Rec({})


# Stands for a function in a payload of a constructor that is not the one meant.
MISSING = Fn("#missing", Frame(None))


def in_order(fields: dict[str, T]) -> dict[str, T]:
    """The fields of a record in the one order all values of its type have (`{a, b}` and `{b, a}` are one)."""
    if list(fields) == [str(i) for i in range(len(fields))]:
        return fields
    return {n: fields[n] for n in sorted(fields)}


def tuple_value(*vs: Value) -> Rec:
    return Rec({str(i): v for i, v in enumerate(vs)})


def leaves(v: Value, out: list[Atom] | None = None) -> list[Atom]:
    """The core atoms of a value, left to right.  Functions have none."""
    if out is None:
        out = []
    while type(v) is Arr:
        v = v.elem
    if type(v) is Leaf:
        out.append(v.atom)
    elif type(v) is Rec:
        for f in v.fields.values():
            leaves(f, out)
    return out


def dims_of(v: Value, out: list[Atom] | None = None) -> list[Atom]:
    """The sizes of all arrays in a value, in the order of `rebuild`."""
    if out is None:
        out = []
    if type(v) is Arr:
        out.extend(v.dims)
        dims_of(v.elem, out)
    elif type(v) is Rec:
        for f in v.fields.values():
            dims_of(f, out)
    return out


def rebuild(v: Value, atoms: Iterator[Atom], dims: Iterator[Atom] | None = None) -> Value:
    """The same tree over other leaves (and, if given, other sizes)."""
    if type(v) is Leaf:
        return Leaf(next(atoms))
    if type(v) is Arr:
        ds = v.dims if dims is None else tuple([next(dims) for _ in v.dims])
        return Arr(ds, rebuild(v.elem, atoms, dims))
    if type(v) is Rec:
        return Rec({n: rebuild(f, atoms, dims) for n, f in v.fields.items()})
    return v


def substitute(v: Value, m: dict[Var, Atom]) -> Value:
    """`v` with variables in leaves and sizes replaced."""

    def go(a: Atom) -> Atom:
        return m.get(a, a) if type(a) is Var else a

    return rebuild(v, iter([go(a) for a in leaves(v)]), iter([go(d) for d in dims_of(v)]))


def inner(v: Arr, levels: int = 1) -> Value:
    """The tree of an element after `levels` outer dimensions; its leaves are still the whole arrays."""
    return Arr(v.dims[levels:], v.elem) if len(v.dims) > levels else v.elem


def outer(dims: tuple[Atom, ...], v: Value) -> Arr:
    """The tree of an array of such elements; its leaves are still those of `v`."""
    return Arr(dims + v.dims, v.elem) if type(v) is Arr else Arr(dims, v)


def walk_shapes(v: Value, prefix: tuple[Atom, ...] = ()) -> Iterator[tuple[Atom, tuple[Atom, ...]]]:
    """Each leaf with the full shape that the tree gives it."""
    if type(v) is Leaf:
        yield v.atom, prefix
    elif type(v) is Arr:
        yield from walk_shapes(v.elem, prefix + v.dims)
    elif type(v) is Rec:
        for f in v.fields.values():
            yield from walk_shapes(f, prefix)


def typed_vars(v: Value, name: str, dims: list[Atom]) -> tuple[Value, list[Var]]:
    """Fresh variables in the shape of `v` with the given sizes: the new tree and its variables."""
    shaped = rebuild(v, iter(leaves(v)), iter(dims))
    fresh: list[Var] = []
    for atom, shape in walk_shapes(shaped):
        elem = elem_of(atom.type)
        accumulates = type(atom.type) is AccType
        fresh.append(Var(name, atom.type if accumulates else ArrayType(elem, shape) if shape else elem))
    return rebuild(shaped, iter(fresh)), fresh


def scalar(v: Value) -> Atom:
    assert type(v) is Leaf, v
    return v.atom


def has_function(v: Value) -> bool:
    if type(v) is Fn:
        return True
    if type(v) is Rec:
        return not is_accumulator(v) and any(has_function(f) for f in v.fields.values())
    return False


def is_accumulator(v: Value) -> bool:
    """Note [Accumulators in the source] in `accs.py`."""
    return type(v) is Rec and "acc:" in v.fields


Apply = Callable[..., Any]
