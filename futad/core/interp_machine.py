"""The reference semantics of the core IR, on NumPy.

Note [Batched evaluation].  The body of a map is evaluated once for all its iterations: inside k nested maps
every value is an array with up to k leading *batch* dimensions before its own, each of the map's width or of
size 1 where the value does not vary with that map; a value that varies with none may leave them out
altogether (its type gives its own rank, so the number present is known).  Entering a map turns the outer
dimension of its arrays into a batch dimension and leaving one turns it back, both without moving data.
A branch or loop whose condition differs between iterations runs under a mask of the active ones (`Scope`);
checks, writes and work counts see active iterations only.  Where iterations disagree on a size the evaluation
raises `Irregular` and the innermost map that can does its iterations one by one; where temporaries would grow
too large it raises `TooBig` and the map runs in halves.

Because such a second attempt repeats the first, an attempt must not have visible effects: map parameters
are read-only views (an in-place update copies those), and accumulators are saved and restored.
"""

from __future__ import annotations

import io
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np

from futad.core import ir
from futad.core.callgraph import recursive
from futad.core.lastuse import analyse, unique_params
from futad.core.measures import Measured, Site, Sites
from futad.core.records import Records
from futad.core.scalarops import OPS, ScalarOp
from futad.core.showvalue import write_text
from futad.core.text import node_name
from futad.core.types import AccType, ArrayType, Atom, Const, Prim, Type, Var, prim_of, with_true_as_one
from futad.core.work import Tally, Where
from futad.deep import deep, frames
from futad.errors import (
    DIVISION_BY_ZERO,
    EXCEEDS,
    InternalError,
    OutOfMemory,
    TooDeep,
    failed_check,
    negative_size,
)
from futad.registry import registering

T = TypeVar("T")
Value = Any  # a NumPy scalar or array with batch dimensions, or an `Acc`
Values = Sequence[Value]


class Irregular(Exception):
    """Iterations of a map disagree on a size or shape."""


class TooBig(Exception):
    """The batch is too large to evaluate at once."""


class TooLong(Exception):
    """The run takes more statements than were allowed."""


MAX_BATCH = 1 << 22  # elements in one batched temporary
MOST_CALLS = 100_000  # of recursive functions that are under way at once
MOST_SCOPES = 100  # inside each other, for which there is room anyway
MOST_DEPTH = 24  # maps around: NumPy has so many dimensions, and an array's own
FRAMES = 40  # of Python that such a call takes at most, or near that


@dataclass(slots=True)
class Acc:
    """The run-time value of an accumulator: shared, mutable; `depth` batch dimensions, then its shape."""

    data: np.ndarray
    depth: int
    op: str

    def restore(self, data: np.ndarray) -> None:
        """Its elements as they were; what has a part of it sees that."""
        if isinstance(self.data, np.ndarray) and self.data.shape == data.shape:
            self.data[...] = data
        else:
            self.data = data


@dataclass(slots=True)
class Scope:
    """Where evaluation is: the widths of the enclosing maps, a mask over them of the active iterations
    (None: all are) and their number."""

    batch: tuple[int, ...]
    mask: np.ndarray | None
    lanes: int

    @property
    def depth(self) -> int:
        return len(self.batch)

    def enter(self, width: int) -> Scope:
        mask = self.mask
        if mask is not None:
            mask = np.broadcast_to(mask[..., None], (*self.batch, width))
        return Scope((*self.batch, width), mask, self.lanes * width)

    def restrict(self, mask: np.ndarray) -> Scope:
        return Scope(self.batch, mask, int(np.count_nonzero(mask)))

    def full_mask(self) -> np.ndarray:
        return np.ones(self.batch, bool) if self.mask is None else self.mask


TOP = Scope((), None, 1)


def rank_of(t: Type) -> int:
    return len(t.shape) if type(t) is ArrayType else 0


def lift_value(v: Value, rank: int, depth: int) -> Value:
    """`v` with batch dimensions of size 1 added up to `depth`."""
    have = v.ndim - rank
    if have == depth:
        return v
    out = v[(slice(None),) * have + (None,) * (depth - have)]
    out.flags.writeable = False
    return out


def _nested(program: ir.Program) -> bool:
    """Whether more scopes lie inside each other than Python has room for by itself."""
    scopes, depth = [f.body for f in program.funs.values()], 0
    while scopes and depth < MOST_SCOPES:
        scopes = [lam for scope in scopes for s in scope.stms if s.exp.scoped for lam in s.exp.lambdas()]
        depth += 1
    return bool(scopes)


Handler = Callable[["Interpreter", Any, ir.Stm, Scope], Values]
HANDLERS: dict[type, Handler] = {}
handler = registering(HANDLERS)  # the evaluation of classes of nodes


class Interpreter:
    """Runs the functions of a program.

    `tally` (with `count`): work since construction, `counts` that by kind of construct.  `in_place=False` copies on
    every update: the semantics without any trust in alias analysis.  `batched=False` runs maps one iteration after the
    other.  `limit`: statements after which a run is given up with `TooLong`, one over a batch counting as one.
    """

    limit: float = math.inf
    fresh = False  # results may share memory with arguments and with each other
    handlers: ClassVar[dict[type, Handler]] = HANDLERS

    def __init__(
        self, program: ir.Program, count: bool = False, *, in_place: bool = True, batched: bool = True
    ) -> None:
        self.program = program
        self.counting = count
        self.batched = batched
        self.tally = Tally()
        self.counts = self.tally.counts
        self.env: dict[Var, Value] = {}
        self.one_by_one: set[tuple[int, int]] = set()  # (id of lambda, depth) that were irregular
        self._consts: dict[Const, Any] = {}
        self.steps = 0
        self.traces: list[str] = []  # lines printed by an attempt that may have to be repeated
        self.sites = Sites()
        self.told: list[tuple[Site, int, list[tuple[int, int]]]] = []  # by the measures of this call
        self._mutate = in_place
        self._in_place: set[ir.Stm] = set()
        self.loop_copies: dict[ir.Stm, tuple[int, ...]] = {}
        self.recursive = recursive(program)
        self.nested = _nested(program)
        self.calls = 0  # of these that are under way
        self.records = Records()
        if in_place or count:
            for uses in analyse(program).values():
                self._in_place.update(uses.in_place_stms())
                self.loop_copies.update(uses.all_loop_copies())

    def run(self, name: str, args: Sequence[Any]) -> list[Any]:
        """The results of function `name` on all its parameters (sizes first), as NumPy scalars and arrays.

        Raises ExecutionError and its subclasses for failures of the program.
        """
        return self.deeply(self._run)(name, args)

    def deeply(self, f: Callable[..., T]) -> Callable[..., T]:
        """The function with a stack for as many calls as may be under way, if functions call themselves, or for scopes
        that lie deep inside each other."""
        if not self.recursive and self.nested:
            return deep(f)

        def run(*args: Any) -> T:
            with frames(FRAMES * MOST_CALLS):
                return deep(f)(*args)

        return run if self.recursive else f

    def _run(self, name: str, args: Sequence[Any]) -> list[Any]:
        fun = self.program.funs[name]
        params = fun.body.params
        if len(args) != len(params):
            raise InternalError(f"{name} takes {len(params)} arguments, not {len(args)}")
        unique = unique_params(fun)
        self.steps = self.calls = 0
        self.told.clear()
        self.records.clear()
        with np.errstate(all="ignore"):
            for p, a in zip(params, args, strict=True):
                self.env[p] = self._input(p, a, p in unique)
            try:
                results = self.exec(fun.body, TOP)
            finally:
                self.show_traces()
        out, seen = [], set()
        for r in results:
            if isinstance(r, np.ndarray):
                if id(r) in seen or not (r.flags.c_contiguous and r.flags.writeable and r.flags.owndata):
                    r = r.copy()
                seen.add(id(r))
            out.append(r)
        self.env.clear()
        return out

    def measured(self) -> list[Measured]:
        """What the measures of the last call told."""
        out = {site: Measured(site.facts) for site in self.sites.all()}
        for site, times, numbers in self.told:
            out[site].add(times, [(name, *pair) for name, pair in zip(site.names, numbers, strict=True)])
        return [m for m in out.values() if m.times]

    def print_trace(self, tag: str, value: Value) -> None:
        """A line `tag: value`, to be shown when what prints it is done."""
        out = io.StringIO()
        write_text(value, out)
        self.traces.append(f"{tag}: {out.getvalue()}\n")

    def show_traces(self) -> None:
        """Write the lines printed so far to standard error."""
        sys.stderr.write("".join(self.traces))
        self.traces.clear()

    def _input(self, p: Var, a: Any, unique: bool) -> Value:
        t = p.type
        if isinstance(t, ArrayType):
            a = np.asarray(a)
            if a.dtype != t.elem.dtype or a.ndim != t.rank:
                raise InternalError(f"argument {p.name} must be a rank-{t.rank} array of {t.elem}")
            a = with_true_as_one(a)
            if not unique:
                a = a.view()
                a.flags.writeable = False
            return a
        return t.elem.dtype.type(a) if isinstance(t, AccType) else t.dtype.type(a)

    # -- scopes and values

    def exec(self, lam: ir.Lambda, sc: Scope) -> list[Value]:
        """Evaluates the statements of a scope whose parameters are bound; its results."""
        env = self.env
        self.steps += len(lam.stms)
        if self.steps > self.limit:
            raise TooLong
        for stm in lam.stms:
            values = self.handlers[type(stm.exp)](self, stm.exp, stm, sc)
            for v, x in zip(stm.pat, values, strict=True):
                env[v] = x
        return [self.value(a) for a in lam.result]

    def apply(self, lam: ir.Lambda, args: Values, sc: Scope) -> list[Value]:
        env = self.env
        for p, a in zip(lam.params, args, strict=True):
            env[p] = a
        return self.exec(lam, sc)

    def value(self, a: Atom) -> Value:
        if type(a) is Var:
            return self.env[a]
        assert type(a) is Const
        out = self._consts.get(a)
        if out is None:
            out = self._consts[a] = a.type.dtype.type(a.value)
        return out

    def lift(self, a: Atom, depth: int) -> Value:
        """The value with all `depth` batch dimensions present (scalars that have none stay as they are)."""
        v = self.value(a)
        r = rank_of(a.type)
        return v if r == 0 and v.ndim == 0 else lift_value(v, r, depth)

    def common(self, atoms: Sequence[Atom], sc: Scope) -> tuple[int, list[np.ndarray]]:
        """The values at one depth (0 if none varies, else the scope's), their batch dimensions broadcast."""
        values = [self.value(a) for a in atoms]
        ranks = [rank_of(a.type) for a in atoms]
        depth = sc.depth if any(v.ndim > r for v, r in zip(values, ranks, strict=True)) else 0
        lifted = [lift_value(v, r, depth) for v, r in zip(values, ranks, strict=True)]
        batch = np.broadcast_shapes(*[v.shape[:depth] for v in lifted])
        return depth, [np.broadcast_to(v, batch + v.shape[depth:]) for v in lifted]

    def size(self, a: Atom, sc: Scope) -> int:
        """A size: the value all active iterations agree on.  Raises Irregular."""
        if type(a) is Const:
            return a.value
        v = self.plain(self.value(a))
        if v.ndim == 0:
            return int(v)
        if sc.mask is not None:
            v = np.broadcast_to(lift_value(v, 0, sc.depth), sc.batch)[sc.mask]
        first = v.flat[0]
        if (v != first).any():
            raise Irregular
        return int(first)

    def sizes(self, atoms: Sequence[Atom], sc: Scope) -> tuple[int, ...]:
        """Sizes of a new array, none negative, not too many elements for the batch."""
        out = tuple([self.size(a, sc) for a in atoms])
        for n in out:
            if n < 0:
                raise negative_size(n)
        if math.prod(out) >= 1 << 60:
            raise OutOfMemory(EXCEEDS)
        return out

    def empty(self, t: Type, sc: Scope) -> Value:
        """An array of the given type with no batch dimensions (used where it has no elements)."""
        if isinstance(t, ArrayType):
            return np.zeros(self.sizes(t.shape, sc), t.elem.dtype)
        raise InternalError("a scalar where an empty array is expected")

    def unwritten(self, shape: tuple[int, ...], elem: Prim) -> np.ndarray:
        """An array of unspecified elements: poison, so that a read of one shows."""
        poison = math.nan if elem.is_float else True if elem.is_bool else np.iinfo(elem.dtype).max
        return np.full(shape, poison, elem.dtype)

    def count(self, kind: str, ops: int = 0, read: int = 0, written: int = 0) -> None:
        if self.counting:
            self.tally.add(kind, ops, read, written)

    def operation(self, where: Where, name: str, t: Prim, times: int) -> None:
        """Counts a scalar operation of the table (see `Tally`)."""
        if self.counting:
            self.tally.add("op", times, 0, 0)
            self.tally.operation(where, name, t, times)

    def evaluate(self, record: ScalarOp, args: Sequence[Value]) -> Value:
        """A scalar operation's result; with `total`, where floats are rounded."""
        return record.eval(*args)

    def total(self, op: str, out: Value, size: Callable[[], Value], terms: int) -> Value:
        """What so many floats came to by `op`, in some order; `size()` is the sum of their magnitudes."""
        return out

    # What values of another kind (those with derivatives, `futad/dual/`) do otherwise.

    def plain(self, v: Value) -> Value:
        """The value as conditions, sizes and positions take it: NumPy's."""
        return v

    def folds(self, op: str | None, values: Values) -> bool:
        """Whether NumPy folds such values by the operation."""
        return op is not None

    def store(self, array: Value, at: Any, value: Value) -> Value:
        """The array, which may be overwritten, with the value at an index."""
        array[at] = value
        return array

    def add_at(self, ufunc: np.ufunc, array: Value, at: Any, value: Value) -> Value:
        """The array, which may be overwritten, with the value combined at an index, at each as often as it is there."""
        ufunc.at(array, at, value)
        return array

    def in_place(self, stm: ir.Stm) -> bool:
        """Whether alias analysis lets `stm` overwrite the arrays it consumes."""
        return stm in self._in_place

    def mutable(self, v: np.ndarray, stm: ir.Stm) -> np.ndarray:
        """`v` itself if it may be overwritten, else a copy."""
        if self._mutate and v.flags.writeable and self.in_place(stm):
            return v
        return v.copy()


def select_lanes(sc: Scope, cond: Value) -> np.ndarray | bool:
    """The active iterations where `cond` (batched bool) holds: a mask, or True/False if all/none."""
    if cond.ndim == 0:
        return bool(cond)
    full = np.broadcast_to(lift_value(cond, 0, sc.depth), sc.batch)
    held = full if sc.mask is None else full & sc.mask
    n = int(np.count_nonzero(held))
    if n == 0 or n == sc.lanes:
        return n > 0
    return held


def merge(sc: Scope, mask: np.ndarray, types: Sequence[Type], new: Values, old: Values) -> list[Value]:
    """`new` on the iterations of `mask`, `old` elsewhere.  Raises Irregular if shapes differ."""
    out: list[Value] = []
    for t, a, b in zip(types, new, old, strict=True):
        if a is b or isinstance(a, Acc):
            out.append(a)
            continue
        r = rank_of(t)
        x, y = lift_value(a, r, sc.depth), lift_value(b, r, sc.depth)
        if x.shape[sc.depth :] != y.shape[sc.depth :]:
            raise Irregular
        out.append(np.where(mask.reshape(mask.shape + (1,) * r), x, y))
    return out


# --- scalars and control ------------------------------------------------------------------------------------


@handler(ir.Alias)
def _alias(m: Interpreter, e: ir.Alias, stm: ir.Stm, sc: Scope) -> Values:
    return (m.value(e.atom),)


@handler(ir.Op)
def _op(m: Interpreter, e: ir.Op, stm: ir.Stm, sc: Scope) -> Values:
    m.operation(stm, e.op, prim_of(e.args[-1]), sc.lanes)
    return (scalar_op(m, e.op, [m.lift(a, sc.depth) for a in e.args], sc, e.place),)


def scalar_op(m: Interpreter, name: str, args: list[Value], sc: Scope, place: Any = None) -> Value:
    """One scalar operation over a batch."""
    record = OPS[name]
    if record.can_fail and args[1].dtype.kind in "iu" and select_lanes(sc, m.plain(args[1]) == 0) is not False:
        raise failed_check(DIVISION_BY_ZERO, DIVISION_BY_ZERO, place)
    out = m.evaluate(record, args)
    return out[()] if out.ndim == 0 else out


@handler(ir.Assert)
def _assert(m: Interpreter, e: ir.Assert, stm: ir.Stm, sc: Scope) -> Values:
    failed = select_lanes(sc, np.logical_not(m.plain(m.value(e.cond))))
    if failed is False:
        return [m.value(a) for a in e.of]
    lane: tuple[int, ...] = ()
    if sc.depth:
        bad = sc.full_mask() if failed is True else failed
        lane = tuple([int(c[0]) for c in np.nonzero(bad)])
    text, *rest = e.message.split("{}")
    for a, part in zip(e.values, rest, strict=True):
        text += str(at_lane(m.plain(m.lift(a, sc.depth)), lane)) + part
    raise failed_check(e.message, text, e.place)


@handler(ir.Trace)
def _trace(m: Interpreter, e: ir.Trace, stm: ir.Stm, sc: Scope) -> Values:
    v = m.plain(m.value(e.value))
    rank = rank_of(e.value.type)
    if sc.depth == 0:
        m.print_trace(e.tag, v)
        m.show_traces()
        return ()
    v = np.broadcast_to(lift_value(v, rank, sc.depth), sc.batch + np.shape(v)[np.ndim(v) - rank :])
    for row in v[sc.full_mask()]:
        m.print_trace(e.tag, row)
    return ()


@handler(ir.Measure)
def _measure(m: Interpreter, e: ir.Measure, stm: ir.Stm, sc: Scope) -> Values:
    values = [m.plain(m.value(a)) for a in e.values]
    site = m.sites.of(e.facts, e.names)
    if sc.depth == 0:
        m.told.append((site, 1, [(int(v), int(v)) for v in values]))
        return ()
    active = sc.full_mask()
    rows = [np.broadcast_to(lift_value(v, 0, sc.depth), sc.batch)[active] for v in values]
    if times := int(active.sum()):
        m.told.append((site, times, [(int(row.sum()), int(row.max())) for row in rows]))
    return ()


def at_lane(v: Value, lane: tuple[int, ...]) -> Value:
    """A batched scalar's value in one iteration."""
    if v.ndim == 0:
        return v
    return v[tuple([0 if n == 1 else i for n, i in zip(v.shape, lane, strict=True)])]


@handler(ir.If)
def _if(m: Interpreter, e: ir.If, stm: ir.Stm, sc: Scope) -> Values:
    held = select_lanes(sc, m.plain(m.value(e.cond)))
    if held is True:
        return m.exec(e.then, sc)
    if held is False:
        return m.exec(e.orelse, sc)
    assert isinstance(held, np.ndarray)
    then = m.exec(e.then, sc.restrict(held))
    orelse = m.exec(e.orelse, sc.restrict(sc.full_mask() & ~held))
    return merge(sc, held, [v.type for v in stm.pat], then, orelse)


@handler(ir.Par)
def _par(m: Interpreter, e: ir.Par, stm: ir.Stm, sc: Scope) -> Values:
    return [*m.exec(e.first, sc), *m.exec(e.second, sc)]


def _initial(m: Interpreter, inits: ir.Atoms, stm: ir.Stm, sc: Scope) -> list[Value]:
    """The initial values of a loop, those copied that its body overwrites and others still need."""
    state = [m.value(a) for a in inits]
    for i in m.loop_copies.get(stm, ()):
        v = state[i] = state[i].copy()
        n = math.prod(v.shape[v.ndim - rank_of(inits[i].type) :]) * sc.lanes
        m.count(node_name(type(stm.exp)), read=n, written=n)
    return state


@handler(ir.For)
def _for(m: Interpreter, e: ir.For, stm: ir.Stm, sc: Scope) -> Values:
    bound = m.plain(m.lift(e.bound, sc.depth))
    dtype = bound.dtype.type
    types = [v.type for v in stm.pat]
    state: Values = _initial(m, e.inits, stm, sc)
    if bound.ndim == 0:
        for i in range(int(bound)):
            state = m.apply(e.body, [dtype(i), *state], sc)
        return state
    i = 0
    while True:
        active = select_lanes(sc, dtype(i) < bound)
        if active is False:
            return state
        if active is True:
            state = m.apply(e.body, [dtype(i), *state], sc)
        else:
            assert isinstance(active, np.ndarray)
            state = merge(sc, active, types, m.apply(e.body, [dtype(i), *state], sc.restrict(active)), state)
        i += 1


@handler(ir.While)
def _while(m: Interpreter, e: ir.While, stm: ir.Stm, sc: Scope) -> Values:
    types = [v.type for v in stm.pat]
    state: Values = _initial(m, e.inits, stm, sc)
    while True:
        active = select_lanes(sc, m.plain(state[0]))
        if active is False:
            return state
        if active is True:
            state = m.apply(e.body, state, sc)
        else:
            assert isinstance(active, np.ndarray)
            state = merge(sc, active, types, m.apply(e.body, state, sc.restrict(active)), state)


@handler(ir.Call)
def _call(m: Interpreter, e: ir.Call, stm: ir.Stm, sc: Scope) -> Values:
    fun = m.program.funs[e.name]
    args = [m.value(a) for a in e.args]
    if e.name not in m.recursive:
        return m.apply(fun.body, args, sc)
    if m.calls >= MOST_CALLS:
        raise TooDeep(f"recursion is deeper than {MOST_CALLS} calls", fun.span)
    outer, m.env = m.env, {}
    m.calls += 1
    try:
        return m.apply(fun.body, args, sc)
    finally:
        m.env = outer
        m.calls -= 1


@handler(ir.Jvp)
@handler(ir.Vjp)
@handler(ir.Invert)
def _derivative(m: Interpreter, e: ir.Exp, stm: ir.Stm, sc: Scope) -> Values:
    first = "invert" if isinstance(e, ir.Invert) else "ad"
    raise InternalError(f"{type(e).__name__} reached the interpreter: run the {first} pass first")


@handler(ir.WithVjp)
@handler(ir.WithJvp)
@handler(ir.WithInverse)
def _custom(m: Interpreter, e: ir.WithVjp | ir.WithJvp | ir.WithInverse, stm: ir.Stm, sc: Scope) -> Values:
    return m.apply(e.lam, [m.value(a) for a in e.args], sc)
