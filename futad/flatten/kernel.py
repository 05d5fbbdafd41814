"""Kernels, and the statements that only they and the host code around them have.

The inside of a kernel is imperative IR (`futad/imp/ir.py`) with the statements below; so is the host code, whose
pointers are device addresses and whose parallel work is `Launch`es.

A kernel's `kind` says what its units of work are: 'thread' (one thread each), 'warp' (one warp each, of a block of
several), 'block' (one block each), 'tile' (one block of `TILE_THREADS` each), 'single' (one thread does everything),
'alone' (one block does) or 'alone-wide' (the same, of up to `WIDE_LIMIT` threads).  Units beyond the grid are taken by
stride, so any grid is right, but for 'tile'.

In a kernel of any kind `futad_block` is the number of what does one unit together (a warp where the kind is that) and
`futad_blocks` how many there are; `futad_tid` is a thread's number in it and `futad_width` how many threads it has;
`futad_thread` and `futad_threads` are a thread's number in the grid and their number.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from futad.bindings import Binding, Loop
from futad.core.failure import FailureSite
from futad.core.measures import Site
from futad.core.types import U32, Prim
from futad.imp import ir
from futad.imp.ir import Expr, Ref, Stmt
from futad.imp.node import Declared, Modified, Node, Read, Text, Written
from futad.imp.views import Mem
from futad.imp.walk import parts, statements

# Histograms by way of shared memory.
SUB_BYTES = 16 << 10  # of a sub-histogram in shared memory
ROOM_BYTES = 24 << 10  # of rows beside it
MOST_PASSES = 8  # over a histogram's updates
FEW_BINS = 4  # updates for each bin that make it worth while

MEASURES = "futad_measures"  # where the program tells numbers of its run
PROVIDED = ("futad_block", "futad_blocks", "futad_tid", "futad_width", "futad_thread", "futad_threads")

TILE_THREADS = 256
WARP = 32
BLOCK_LIMIT = 256  # threads of a block, at most
WIDE_LIMIT = 512  # of a block that is alone, and whose threads need few registers
TOGETHER = ("block", "alone", "alone-wide")  # kinds of which a block's threads do a unit together
RADIX_DIGITS = 256  # of a pass of a sort, as in `radix_sort.cuh`


@dataclass(slots=True, eq=False)
class Guarded(Stmt):
    """Statements whose failing checks jump to their end."""

    body: list[Stmt]
    label: Text


@dataclass(slots=True, eq=False)
class RowsOut(Stmt):
    """The rows of a warp's threads, `values` each, are written one after another: that of point i, in a loop over the
    grid's threads, from `pointer[offset + i * len(values)]` on."""

    pointer: Written
    offset: Expr
    values: list[Ref]


@dataclass(slots=True, eq=False)
class Stride(Stmt):
    """`for (var = start; var < bound; var += step)`, start and step being C text (or start an expression).  `after`
    each iteration is what the threads of a warp do together, of the variables that the body declares first."""

    var: Declared
    start: Text | Expr
    bound: Expr
    step: Text
    body: list[Stmt]
    after: list[RowsOut] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Single(Stmt):
    """Done by the first thread of the block only."""

    body: list[Stmt]


@dataclass(slots=True, eq=False)
class Sync(Stmt):
    """All threads of the block meet."""


@dataclass(slots=True, eq=False)
class Stop(Stmt):
    """All threads of the block meet; if a check of one of them has failed, all go to the end of the kernel."""


@dataclass(slots=True, eq=False)
class ByWarps(Stmt):
    """The warps of the block share out `var` below `bound`; inside, a warp is what a block is elsewhere."""

    var: Declared
    bound: Expr
    body: list[Stmt]


@dataclass(slots=True, eq=False)
class LastBlock(Stmt):
    """Done by the block of the grid that gets here last, which sees what all others have written."""

    body: list[Stmt]


@dataclass(slots=True, eq=False)
class Atomic(Stmt):
    """`pointer[index] = op(pointer[index], value)` at once."""

    pointer: Modified
    index: Expr
    value: Expr
    op: Text


@dataclass(frozen=True, slots=True)
class Matrix(Node):
    """A matrix in memory for each batch: its start, which index runs through neighbouring elements (0 the row's, 1 the
    column's), and the steps from one batch, row and column to the next."""

    pointer: Modified
    inner: int
    steps: tuple[Expr, Expr, Expr]


@dataclass(slots=True, eq=False)
class Functor(Stmt):
    """A function that a product calls: of indices, the last of them a value of type `elem` if there is one; `values`
    are what it returns, `inner` as in `Matrix`."""

    args: list[Declared]
    elem: Prim | None
    body: list[Stmt]
    values: list[Expr]
    inner: int = 1


Parameter = Annotated[Ref, "defines"]


@dataclass(slots=True, eq=False)
class Function(Stmt):
    """A function of a kernel: parameters, statements, results."""

    params: list[Parameter]
    body: list[Stmt]
    results: list[Expr]


@dataclass(slots=True, eq=False)
class RowFolds(Stmt):
    """What a product makes of the rows of its tiles: what `c` returns for each element, combined by an operator (of
    left values, then right ones), is passed to `put(batch, row, tile, ...)`."""

    operator: Function
    neutral: list[Expr]
    commutes: bool
    put: Function


@dataclass(slots=True, eq=False)
class Tile(Stmt):
    """A tile of a matrix product: `futad_gemm` with that tile shape.  `folds` are those of its rows, `sums` gets the
    sums of the left operand's; `step` makes the next sum of one (at first `start`) and an element of each operand,
    else their product is added.  The sums are cut into `splits` parts; the result and `sums` then have so many, one
    after the other, for each batch."""

    elem: Prim
    shape: tuple[int, int, int, int, int]
    sizes: tuple[Expr, Expr, Expr]
    batches: Expr
    a: Matrix | Functor
    b: Matrix | Functor
    c: Matrix | Functor
    accumulate: bool = False
    folds: RowFolds | None = None
    sums: Functor | None = None
    step: Function | None = None
    start: Expr | None = None
    splits: Expr = ir.ONE

    @property
    def matrices(self) -> list[Matrix]:
        return [x for x in (self.a, self.b, self.c) if isinstance(x, Matrix)]

    @property
    def functors(self) -> list[Stmt]:
        given = (self.a, self.b, self.c, self.folds, self.sums, self.step)
        return [x for x in given if isinstance(x, (Functor, Function, RowFolds))]


@dataclass(slots=True, eq=False)
class Together(Stmt):
    """All threads of a block combine their values `parts` by an operator (of left values, then right ones).  Of a
    reduction all get the result in `parts`.  Of a scan each gets the combination of `carry` and the values up to its
    own, and `carry` becomes that of all."""

    operator: Function
    neutral: list[Expr]
    parts: list[Ref]
    carry: list[Ref] | None = None


@dataclass(slots=True, eq=False)
class ScanAll(Stmt):
    """The whole grid scans what `element(i)` gives for i below `total`, and passes each result to `put(i, ...)`; each
    thread has `items` of a tile of `TILE_THREADS * items`."""

    operator: Function
    neutral: list[Expr]
    element: Function
    put: Function
    total: Expr
    state: Modified
    items: int


@dataclass(slots=True, eq=False)
class Transpose(Stmt):
    """The whole grid: `target` is the transposed matrix `source`, both dense."""

    elem: Prim
    target: Written
    source: Read
    rows: Expr
    columns: Expr


@dataclass(slots=True, eq=False)
class RadixStep(Stmt):
    """The whole grid: a step of a pass of a radix sort, `futad_radix_{step}` with tiles of `TILE_THREADS * items`."""

    step: Text
    items: int
    args: list[Expr | Mem]


@dataclass(slots=True, eq=False)
class SharedUpdate(Stmt):
    """An update within `SubHist`: of a place of one of its accumulators."""

    which: int
    index: Expr
    value: Expr


@dataclass(slots=True, eq=False)
class StagedRows(Stmt):
    """Rows that a block has in shared memory, of as many points as there is room for: row i's elements are `load(i, j)`
    for j below `columns`, and `before(i, row)` makes of it what the updates of the point, `width` of them, need."""

    load: Function
    before: Function
    columns: Expr
    width: Expr
    room: int


@dataclass(slots=True, eq=False)
class SubHist(Stmt):
    """The whole grid does `update(i)` for i below `total`, `SharedUpdate`s of accumulators with so many `bins` from
    `targets`: by way of sub-histograms of `cells` bins in shared memory.  With `rows` it is `update(i, j, row, ...)`,
    what `before` has made last."""

    op: Text
    neutral: Expr
    update: Function
    total: Expr
    bins: list[Expr]
    targets: list[Modified]
    cells: int
    rows: StagedRows | None = None


@dataclass(slots=True, eq=False)
class Locked(Stmt):
    """Statements that only one thread at a time does for a lock."""

    locks: Modified
    index: Expr
    body: list[Stmt]


@dataclass(slots=True, eq=False)
class Zero(Stmt):
    """Host: `count` elements become zero bytes."""

    pointer: Written
    elem: Prim
    count: Expr


@dataclass(slots=True, eq=False)
class Chunks(Stmt):
    """Host: declare `name`, into how many parts (one block each) the `count` steps of each of `segments` are cut, where
    each part `ends` with as many updates."""

    name: Declared
    count: Expr
    segments: Expr
    ends: Expr


@dataclass(frozen=True, slots=True)
class Scratch:
    """Memory that so many `threads` of a kernel have together, 0: all that do a unit of work.  The parameter, and
    elements for each."""

    name: str
    elem: Prim
    slot: int
    count: Expr
    threads: int


@dataclass(slots=True, eq=False)
class Kernel:
    """A kernel: `params` are (name, type, whether a pointer) in order, `what` describes it in the report, `line` is the
    source line it is from as far as that is known (0: not at all)."""

    name: str
    kind: str
    body: list[Stmt]
    what: str
    params: list[tuple[str, Prim, bool]] = field(default_factory=list)
    scratch: list[Scratch] = field(default_factory=list)
    fails: bool = False
    local_slots: list[int] = field(default_factory=list)
    line: int = 0


Launched = Annotated[Kernel, "static"]


@dataclass(slots=True, eq=False)
class Launch(Stmt):
    """Run a kernel over that many units."""

    kernel: Launched
    units: Expr
    inner: Expr


@dataclass(slots=True)
class DeviceModule:
    """A program for a device: host functions, kernels, places of failure, what stayed sequential and why; what checked
    execution can name, if it is for that; the places that tell numbers."""

    functions: list[ir.Function]
    kernels: list[Kernel]
    places: list[FailureSite]
    why: list[str]
    bindings: tuple[Binding, ...] = ()
    loops: tuple[Loop, ...] = ()
    sites: tuple[Site, ...] = ()


def after_failures(module: DeviceModule) -> set[Kernel]:
    """The kernels before which, in the same call, one may have failed."""
    out: set[Kernel] = set()

    def scope(body: list[Stmt], failed: bool) -> bool:
        for s in body:
            if isinstance(s, Launch):
                if failed:
                    out.add(s.kernel)
                failed = failed or s.kernel.fails
            elif isinstance(s, ir.Invoke):
                failed = True  # whatever that function does
            else:
                inside = s.bodies()
                again = inside if isinstance(s, (ir.For, ir.While)) else ()
                failed = any([scope(b, failed) for b in inside]) or failed
                failed = any([scope(b, failed) for b in again]) or failed
        return failed

    for f in module.functions:
        scope(f.body, f.local)
    return out


def free_names(body: list[Stmt]) -> list[tuple[str, Prim, bool]]:
    """What statements use and do not declare, with types and whether each is a pointer, in order of first use."""
    found: dict[str, tuple[Prim, bool]] = {}
    own: set[str] = set()

    def use(name: str, elem: Prim, pointer: bool) -> None:
        if pointer or name not in found:
            found[name] = (elem, pointer)

    elems: dict[str, Prim] = {}
    for s in statements(body):
        own.update(s.defines())
        if isinstance(s, (ir.Pointer, ir.Ensure)):
            elems[s.name] = s.elem
    for s in statements(body):
        for x in parts(s):
            if isinstance(x, ir.Ref):
                use(x.name, x.type, False)
            elif isinstance(x, ir.Load):
                use(x.pointer, x.type, True)
        match s:
            case ir.Store(p, _, v) | Atomic(p, _, v):
                use(p, v.type, True)
            case ir.Pointer(_, elem, base) if base is not None:
                use(base, elem, True)
            case ir.SetPointer(name, base):
                use(base, elems[name], True)
            case ir.Copy(a, _, b, _, _, elem):
                use(a, elem, True)
                use(b, elem, True)
            case ir.Gemm(elem=elem, a=a, b=b, c=c):
                for p in (a[0], b[0], c[0]):
                    use(p, elem, True)
            case Tile(elem=elem):
                for m in s.matrices:
                    use(m.pointer, elem, True)
            case RowsOut(target, _, values):
                use(target, values[0].type, True)
            case Locked(locks):
                use(locks, U32, True)
            case ScanAll(state=state):
                use(state, U32, True)
            case Transpose(elem, target, source):
                use(target, elem, True)
                use(source, elem, True)
            case RadixStep(args=args):
                for array in args:
                    if isinstance(array, Mem):
                        use(array.pointer, array.elem, True)
            case SubHist(neutral=x, targets=targets):
                for target in targets:
                    use(target, x.type, True)
    return [(n, t, p) for n, (t, p) in found.items() if n not in own]



