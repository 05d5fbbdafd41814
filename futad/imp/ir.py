"""The imperative IR: C-like statements over scalar variables and typed pointers.

Expressions are immutable and compare by structure, which is how lowering recognises equal sizes and offsets.
Index arithmetic (`Bin`) is on i64 and does not overflow; everything else is a scalar operation of the table.
Statements are mutable where a later step annotates them.

In checked execution (`claims.py`) loads have an `origin`, and statements that write memory say `by` which binding, by
number, they do so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import Annotated, Any

from futad.core.failure import FailureSite
from futad.core.measures import Site
from futad.core.types import BOOL, I64, Prim
from futad.frozen import frozen

from futad.imp.node import (  # isort: skip
    Assigned, Declared, Expr, Modified, Node, Pointed, Read, Static, Stmt, Text, Updated, Used, Written,
)  # fmt: skip


@frozen
class Num(Expr):
    """A constant."""

    value: Static
    type: Prim


@frozen
class Ref(Expr):
    """A scalar variable."""

    name: Used
    type: Prim


@frozen
class Bin(Expr):
    """Index arithmetic on i64, or a comparison of two i64: + - * / (positive operands), < <= == && ||."""

    op: Text
    left: Expr
    right: Expr
    type: Prim = I64


@frozen
class Scalar(Expr):
    """A scalar operation of the table; `arg` is the type it works at, `type` the result's."""

    op: Text
    args: tuple[Expr, ...]
    arg: Prim
    type: Prim


@frozen
class Origin(Node):
    """In checked execution (docs/checking.md), of whose value memory is read: a binding's number, and the variable
    with the time after which nobody has written that memory."""

    binding: int
    limit: Used


@frozen
class Load(Expr):
    """`pointer[index]`."""

    pointer: Read
    index: Expr
    type: Prim
    origin: Origin | None = field(default=None, compare=False)


@frozen
class Guarded(Expr):
    """What a load reads where the condition holds, zero elsewhere."""

    cond: Expr
    load: Load
    type: Prim


@frozen
class Hidden(Expr):
    """An integer, or a bool as an integer, of which the C compiler is not to see how it is computed."""

    value: Expr
    type: Prim


# --- statements ---------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Decl(Stmt):
    """A scalar variable; without `mutable` it is never assigned again."""

    name: Declared
    type: Prim
    init: Expr | None = None
    mutable: bool = False


@dataclass(slots=True, eq=False)
class Assign(Stmt):
    """A mutable scalar variable takes a value."""

    name: Assigned
    value: Expr


@dataclass(slots=True, eq=False)
class Accumulate(Stmt):
    """`name = op(name, value)` for a scalar variable: the step of a reduction."""

    name: Assigned
    op: Text
    value: Expr


@dataclass(slots=True, eq=False)
class Store(Stmt):
    """`pointer[index] = value`, or `pointer[index] op= value`.  `row`: of an accumulator, if it is constant."""

    pointer: Updated
    index: Expr
    value: Expr
    op: Text | None = None
    by: int = 0
    row: Static = None


@dataclass(slots=True, eq=False)
class Pointer(Stmt):
    """Declare a pointer: to `base + offset`, or to nothing yet when `base` is None."""

    name: Declared
    elem: Prim
    base: Pointed | None = None
    offset: Expr = Num(0, I64)
    mutable: bool = False


@dataclass(slots=True, eq=False)
class SetPointer(Stmt):
    """A mutable pointer becomes `base + offset`."""

    name: Assigned
    base: Pointed
    offset: Expr = Num(0, I64)


@dataclass(slots=True, eq=False)
class Stack(Stmt):
    """A small array of constant size on the stack."""

    name: Declared
    elem: Prim
    count: int


@dataclass(slots=True, eq=False)
class SlotRef(Stmt):
    """Declare a variable that names a slot, so that two can be exchanged."""

    name: Declared
    slot: Pointed | int


@dataclass(slots=True, eq=False)
class Ensure(Stmt):
    """The slot (a number, or the name of a slot variable) holds at least `count` elements; declares `name`
    as a pointer to them.  The contents are unspecified."""

    name: Declared
    elem: Prim
    slot: Pointed | int
    count: Expr
    mutable: bool = False
    by: int = 0


@dataclass(slots=True, eq=False)
class Swap(Stmt):
    """Exchange two mutable pointers or slot variables."""

    left: Assigned
    right: Assigned
    elem: Prim | None = None


@dataclass(slots=True, eq=False)
class Transpose(Stmt):
    """Element (i, j) of `sizes` at `target` is element (j, i) at `source`; within the rows of each elements are
    adjacent, `stride` and `source_stride` are from row to row.  Source and destination do not overlap."""

    target: Written
    offset: Expr
    stride: Expr
    source: Read
    source_offset: Expr
    source_stride: Expr
    sizes: tuple[Expr, Expr]
    elem: Prim
    by: int = 0


@dataclass(slots=True, eq=False)
class Append(Stmt):
    """Declare `name` as a pointer to `count` elements, of which the first `kept` are those at `source + offset`: where
    they are if that is memory of one of the slot variables `slot` and `spare`, and it has room, else in a larger piece
    of memory.  `slot` is the one that has them afterwards; pointers to where they were are not used again."""

    name: Declared
    elem: Prim
    slot: Assigned
    spare: Assigned
    source: Read
    offset: Expr
    kept: Expr
    count: Expr
    by: int = 0


@dataclass(slots=True, eq=False)
class Spare(Stmt):
    """Exchange the two slot variables if the pointer is to memory of the first."""

    slot: Assigned
    spare: Assigned
    pointer: Pointed


@dataclass(slots=True, eq=False)
class Copy(Stmt):
    """Copy `count` adjacent elements; source and destination do not overlap (or are the same)."""

    target: Written
    offset: Expr
    source: Read
    source_offset: Expr
    count: Expr
    elem: Prim
    by: int = 0


@dataclass(slots=True, eq=False)
class Stream(Stmt):
    """Copy `count` adjacent elements to an array, past the caches.  After the last, `StreamEnd`."""

    target: Written
    offset: Expr
    source: Read
    count: Expr
    elem: Prim


@dataclass(slots=True, eq=False)
class StreamEnd(Stmt):
    """What has been written by `Stream` is there for other threads."""


@dataclass(slots=True, eq=False)
class Gemm(Stmt):
    """The product of an m x k and a k x n matrix into a third; each is a pointer, an offset and two strides.  `rows`
    may be computed by several threads if `parallel`; fails at `place` when packing space runs out.  `packed`: where the
    second matrix is packed, and under which condition it is."""

    elem: Prim
    sizes: tuple[Expr, Expr, Expr]  # m, n, k
    a: tuple[Read, Expr, Expr, Expr]
    b: tuple[Read, Expr, Expr, Expr]
    c: tuple[Modified, Expr, Expr, Expr]
    place: int
    parallel: bool = False
    accumulate: bool = False  # add to the third matrix
    packed: tuple[Read, Expr] | None = None
    by: int = 0


@dataclass(slots=True, eq=False)
class Pack(Stmt):
    """Copy a k x n matrix to `name`, in the order in which products read their second one: the columns from `start` to
    before `end`."""

    name: Written
    elem: Prim
    sizes: tuple[Expr, Expr]  # k, n
    matrix: tuple[Read, Expr, Expr, Expr]
    start: Expr
    end: Expr
    by: int = 0


@dataclass(slots=True, eq=False)
class Check(Stmt):
    """Fail at `place` with `code` unless `cond`; `values` go into the message."""

    cond: Expr
    code: int
    place: int
    values: tuple[Expr, ...] = ()


@dataclass(slots=True, eq=False)
class Trace(Stmt):
    """Print `tag` and a scalar, or the array of that shape which lies row-major at `pointer` and `offset`."""

    tag: Text
    elem: Prim
    value: Expr | None
    pointer: Read = ""
    offset: Expr = Num(0, I64)
    shape: tuple[Expr, ...] = ()


@dataclass(slots=True, eq=False)
class Measure(Stmt):
    """Tell numbers of the run, those of the site whose words begin at `at` (`core/measures.py`)."""

    at: int
    values: tuple[Expr, ...]


@dataclass(slots=True, eq=False)
class Report(Stmt):
    """Show binding number `number` to whoever checks the run: a scalar `value`; an array in memory (`pointer`), of one
    value everywhere, or that counts from `value` on by `step`.  It reads, and changes nothing."""

    number: int
    elem: Prim
    value: Expr | None
    pointer: Read = ""
    offset: Expr = Num(0, I64)
    shape: tuple[Expr, ...] = ()
    strides: tuple[Expr, ...] = ()
    step: Expr | None = None


@dataclass(slots=True, eq=False)
class Seq(Stmt):
    """Statements in the enclosing scope (a place to fill in later)."""

    body: list[Stmt] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Partial(Node):
    """A scalar that a loop reduces: a mutable variable, its operation and that operation's unit."""

    name: Assigned
    type: Prim
    op: Text
    unit: Expr


@dataclass(slots=True, eq=False)
class For(Stmt):
    """`for var` from `start` to below `bound`.  `map`: a map's loop, whose iterations could run in any order apart from
    additions to memory and folds of scalars.  `independent`: no iteration reads or writes what another writes, apart
    from `partials`, so the iterations may be vectorised.  `lanes`: the bytes of the smallest element if that is to be
    done whatever the C compiler thinks of it, and 0 if it may choose.  `flat`: it is two loops of the program."""

    var: Declared
    bound: Expr
    body: list[Stmt]
    start: Expr = Num(0, I64)
    independent: bool = False
    partials: list[Partial] = field(default_factory=list)
    map: bool = False
    step: int = 1
    lanes: int = 0
    flat: bool = False


Memory = Annotated[dict[str, frozenset[Any]], "static"]


@dataclass(slots=True, eq=False)
class VectorisedFor(Stmt):
    """A map's `loop` around one `fold`, with its iterations in vector lanes.  `partials`: what the map reduces."""

    loop: For
    partials: list[Partial]

    @property
    def fold(self) -> For:
        """The loop inside."""
        (fold,) = [s for s in self.loop.body if isinstance(s, For)]
        return fold


@dataclass(slots=True, eq=False)
class Blocks(Stmt):
    """A map's `loop` around loops that carry scalars or reduce, some iterations at a time in lanes.  Of an iteration's
    own `arrays`: the `sizes` in bytes; `same`: scalars that all have in common; `until`: the first that is left."""

    loop: For
    arrays: frozenset[Pointed] = frozenset()
    sizes: tuple[Expr, ...] = ()
    same: frozenset[Used] = frozenset()
    until: Assigned = ""


@dataclass(slots=True, eq=False)
class Pieces(Stmt):
    """A map of scalars over `width`: loops over parts of it that together are the whole.  `memory`: for each pointer
    they use, what tells it from others; two that share nothing are apart."""

    width: Expr
    body: list[Stmt]
    memory: Memory


@dataclass(slots=True, eq=False)
class Threads(Stmt):
    """Declare `name`: how many threads to use for that many steps that cost `work` scalar operations in all, and
    need `extra` elements of memory each."""

    name: Declared
    steps: Expr
    work: Expr
    extra: Expr


@dataclass(slots=True, eq=False)
class Parallel(Stmt):
    """Run `body`, which is so many `maps`, on `threads` threads at once, thread number `thread`, each for its part
    [start, end) of the steps: one contiguous part each, or if `dynamic` smaller parts as they become free."""

    threads: Used
    thread: Declared
    start: Declared
    end: Declared
    steps: Expr
    body: list[Stmt]
    dynamic: bool
    maps: int = 1


@dataclass(slots=True, eq=False)
class PerThread(Stmt):
    """Declare an array with one scalar (or, if `pointer`, one pointer) for every thread."""

    name: Declared
    elem: Prim
    pointer: bool = False


@dataclass(slots=True, eq=False)
class Publish(Stmt):
    """`array[thread]` is this thread's pointer `name`."""

    array: Written
    thread: Used
    name: Pointed


@dataclass(slots=True, eq=False)
class Subscribe(Stmt):
    """Declare pointer `name` to be what thread `thread` published in `array`."""

    name: Declared
    elem: Prim
    array: Read
    thread: Used


@dataclass(slots=True, eq=False)
class While(Stmt):
    """Loop while `cond` (a mutable variable's value) holds."""

    cond: Expr
    body: list[Stmt]


@dataclass(slots=True, eq=False)
class If(Stmt):
    """A branch."""

    cond: Expr
    then: list[Stmt]
    orelse: list[Stmt]


@dataclass(slots=True, eq=False)
class Invoke(Stmt):
    """Call a function of the module; results go to mutable variables and, with their slots, pointers."""

    name: Text
    args: list[Expr | Modified]
    results: list[tuple[Assigned, int | None]]


# --- functions -------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Result(Node):
    """A result: a scalar's expression, or an array's pointer, shape, and the parameter that names its slot."""

    type: Prim
    value: Expr | None = None
    pointer: Read = ""
    offset: Expr = Num(0, I64)
    slot: Pointed = ""
    shape: tuple[Expr, ...] = ()


@dataclass(slots=True)
class Param(Node):
    """A parameter: a scalar, or a dense array's pointer; `count` is how many elements the array has."""

    name: Declared
    type: Prim
    rank: int = 0
    count: Expr | None = None


@dataclass(slots=True)
class Function(Node):
    """A function: parameters, statements, results.  A `local` one is called by others only, and puts its arrays
    into slots of the caller.  One that is `recursive` has as many slots of its own in each activation, and the place of
    the failure that there is no room for another one.  `same_bits`: it computes the same bits wherever it is called."""

    name: Text
    params: list[Param]
    body: list[Stmt]
    results: list[Result]
    local: bool = False
    recursive: tuple[int, int] | None = None
    same_bits: bool = False


@dataclass(slots=True)
class Module:
    """All functions, the number of memory slots they use, the places that can fail, and those that tell numbers."""

    functions: list[Function]
    slots: int
    places: list[FailureSite]
    sites: tuple[Site, ...] = ()


# --- index arithmetic ---------------------------------------------------------------------------------------

ZERO = Num(0, I64)
ONE = Num(1, I64)
TRUE = Num(True, BOOL)


def num(n: int) -> Num:
    """An i64 constant."""
    return Num(n, I64)


def add(a: Expr, b: Expr) -> Expr:
    """a + b on indices, folded."""
    if isinstance(a, Num) and isinstance(b, Num):
        return num(a.value + b.value)
    return b if a == ZERO else a if b == ZERO else Bin("+", a, b)


def sub(a: Expr, b: Expr) -> Expr:
    """a - b on indices, folded."""
    if isinstance(a, Num) and isinstance(b, Num):
        return num(a.value - b.value)
    return a if b == ZERO else ZERO if a == b else Bin("-", a, b)


def mul(a: Expr, b: Expr) -> Expr:
    """a * b on indices, folded."""
    if isinstance(a, Num) and isinstance(b, Num):
        return num(a.value * b.value)
    return ZERO if ZERO in (a, b) else b if a == ONE else a if b == ONE else Bin("*", a, b)


def product(sizes: tuple[Expr, ...] | list[Expr]) -> Expr:
    """The product of sizes."""
    one: Expr = ONE
    return reduce(mul, sizes, one)


def compare(op: str, a: Expr, b: Expr) -> Expr:
    """A comparison of two indices."""
    return Bin(op, a, b, BOOL)


def is_leaf(e: Expr) -> bool:
    """Whether using `e` twice costs nothing."""
    return isinstance(e, (Num, Ref))
