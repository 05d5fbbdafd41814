"""Lowering core functions to the imperative IR: scopes, liveness, memory.

Note [Memory]
~~~~~~~~~~~~~
Every array that is stored lives in a `Root`.  A root is the caller's array, a small array on the stack, or a
growable *slot* that belongs to the running program and persists, so that an allocation inside a loop costs one
comparison from the second iteration on, and a second call allocates nothing but its results.

Values leave a scope in one of two ways: the scope's user names a destination for a result (`destinations`), where the
statement that computes it writes it if it can; or the result's root is handed to the enclosing scope.  A scope that
repeats (the body of a loop or a map) always gets destinations for what it keeps, so all its roots are free again for
the next iteration.

Note [Liveness]
~~~~~~~~~~~~~~~
An update happens in place iff the array's roots are writable and no variable that may live in one of them is
used later.  "Later" is decided on the stack of scopes being lowered: in each, uses after the current statement
count, and in one that repeats every free variable does.  Because each variable's roots are known exactly here,
this needs no alias analysis.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from futad.core import ir as core
from futad.core.failure import FailureSite
from futad.core.measures import Site, Sites
from futad.core.types import I64, AccType, ArrayType, Atom, Const, Prim, Type, Var, elem_of, shape_of
from futad.errors import Span
from futad.imp import (
    arrays,  # noqa: F401  (it registers its handlers, as do the next ones)
    branches,  # noqa: F401
    contraction,  # noqa: F401
    control,  # noqa: F401
    ir,
    parallel,
    records,
    soacs,  # noqa: F401
    sort,  # noqa: F401
    tasks,  # noqa: F401
)
from futad.imp.assemble import destination_of, find_parts, places_first
from futad.imp.claims import Unchecked
from futad.imp.dispatch import HANDLERS, MEMORY, STACK_LIMIT, TAKE_DESTINATIONS, Destination
from futad.imp.ir import Expr, Num, Ref, Stmt, is_leaf
from futad.imp.loops.overlapped_tiling import tiled
from futad.imp.outline import lower_outlined, separate_functions
from futad.imp.placement import short_circuit
from futad.imp.report import NO_REPORTS, Reports
from futad.imp.sharing import DEAD, FREE, HELD, ONCE, OURS, UNREAD, consumed_vars, fitting, saved, unread
from futad.imp.transpose import merged, transpose, transposition
from futad.imp.views import Acc, AccumulateInto, Fill, Hint, Joined, Mem, Root, SlotDestination, Value, View, dense_view
from futad.target import Target

if TYPE_CHECKING:
    from futad.imp.carried import Cell
    from futad.imp.loops.schedule import Before
    from futad.imp.rows import RowProduct
    from futad.rewrite.choices import Nest


@dataclass(slots=True, eq=False)
class Scope:
    """A lambda being lowered: the last use of each variable it uses, and the roots allocated in it.

    `placed`: for the results of updates whose values are computed in place: the array, and the place in it.
    `parts`: what arrays made here are put together into, or viewed as, and used for nothing else; `whole`: arrays that
    are being put together, and `pieces`: theirs, where they lie already.  `literals`: arrays of scalars written out.
    `deferred`: products that the map that reads them makes.
    """

    lam: core.Lambda
    last: dict[Atom, int]
    uses: dict[Var, int]
    repeats: bool
    index: int = -1
    owned: list[Root] = field(default_factory=list)
    destinations: dict[Var, Destination] = field(default_factory=dict)
    placed: dict[Var, tuple[View, View]] = field(default_factory=dict)
    parts: dict[Var, core.Stm] = field(default_factory=dict)
    whole: dict[Var, View] = field(default_factory=dict)
    pieces: dict[Atom, View] = field(default_factory=dict)
    literals: dict[Var, core.ArrayLit] = field(default_factory=dict)
    deferred: dict[Atom, RowProduct] = field(default_factory=dict)
    reports: bool = False  # what is bound here is reported


class Lowerer(Unchecked):
    """Lowers a program that all passes of a target have seen."""

    reports: Reports = NO_REPORTS  # of what is bound
    on_stack = True  # whether small arrays can be on a stack

    def __init__(self, program: core.Program, target: Target) -> None:
        self.program, self.target, self.consumed = program, target, consumed_vars(program)
        self.calls, self.separate, self.recursive = separate_functions(program)
        self.places: list[FailureSite] = []
        self.sites, self.slots, self.names = Sites(), 0, 0
        self.nests = self.parts = 0  # maps and folds around this, and loops over parts of their rows among these
        self.extents: dict[int, int] = {}  # about how many elements each slot has room for
        self.pieces: dict[ir.Pieces, Nest] = {}  # of nests that a schedule asks of
        self.reset()

    def reset(self) -> None:
        """Forget one function's state."""
        self.env: dict[Var, Value] = {}
        self.defs: dict[Var, core.Exp] = {}  # of what has been lowered
        self.scopes: list[Scope] = []
        self.free_slots: dict[str, list[int]] = {}
        self.out: list[Stmt] = []
        self.ranges: dict[str, Expr] = {}  # loop variables: 0 <= name < bound
        self.lets: dict[str, Expr] = {}  # what variables that `let` made stand for
        self.shapes: dict[str, tuple[Expr, ...]] = {}  # the extents of arrays that fill their memory, by their pointers
        self.guesses: dict[str, int] = {}  # about how large sizes are
        self.sizes: set[Expr] = set()  # known not to be negative
        self.checked: dict[tuple[Expr, Expr], None] = {}  # checks passed: index and size, divisor and condition
        self.packed: dict[Atom, tuple[str, Expr]] = {}  # right factors that are packed: where, and if what holds
        self.before: Before = {}  # loops, before they were scheduled
        self.in_parallel = self.in_frame = False  # in a function whose arrays lie in slots of each activation

    @property
    def shares(self) -> bool:
        """Whether what is lowered now may be cut into parts for a thread pool."""
        return self.target.pool and not self.in_parallel and not self.in_frame

    def nest(self, stm: core.Stm) -> Nest | None:
        """What a schedule asks of a map or fold, and is told of it; None if there is no schedule that asks."""
        return None if self.target.choices is None else self.target.choices.nests.get(stm)

    # -- emitting

    def emit(self, stmt: Stmt) -> None:
        self.out.append(stmt)

    def measure(self, site: Site, values: tuple[Expr, ...]) -> None:
        """Tell the numbers of a site."""
        self.emit(ir.Measure(site.at, values))

    @contextmanager
    def block(self) -> Iterator[list[Stmt]]:
        """Emit into a new list for a while."""
        saved, self.out = self.out, []
        passed = len(self.checked)
        try:
            yield self.out
        finally:
            self.out = saved
            while len(self.checked) > passed:
                self.checked.popitem()

    def seq(self) -> list[Stmt]:
        """A place here that later statements can be put into."""
        s = ir.Seq()
        self.emit(s)
        return s.body

    def name(self, hint: str) -> str:
        self.names += 1
        return f"{re.sub('[^A-Za-z0-9]', '', hint) or 't'}_{self.names}"

    def let(self, e: Expr, hint: str = "t") -> Expr:
        """`e` in a variable, unless it is one."""
        if is_leaf(e):
            return e
        name = self.name(hint)
        self.emit(ir.Decl(name, e.type, e))
        self.lets[name] = e
        return Ref(name, e.type)

    def place(self, span: Span | None, message: str = "", types: tuple[Prim, ...] = ()) -> int:
        self.places.append(FailureSite(span, message, types))
        return len(self.places) - 1

    @contextmanager
    def loop(
        self, size: Expr, hint: str = "i", start: Expr = ir.ZERO, bound: Expr | None = None
    ) -> Iterator[tuple[Ref, ir.For]]:
        """A for loop around what is emitted inside, over all of `size` or a part of it."""
        name = self.name(hint)
        self.ranges[name] = size
        with self.block() as body:
            loop = ir.For(name, size if bound is None else bound, body, start)
            yield Ref(name, I64), loop
        self.emit(loop)

    # -- values

    def expr(self, a: Atom) -> Expr:
        """A scalar atom's expression."""
        v = Num(a.value, a.type) if isinstance(a, Const) else self.env[a]
        assert isinstance(v, Expr), (a, v)
        return v

    def view(self, a: Atom) -> View:
        assert isinstance(a, Var), a
        v = self.env[a]
        assert isinstance(v, View), (a, v)
        return v

    def value(self, a: Atom) -> Value:
        return self.expr(a) if isinstance(a, Const) else self.env[a]

    def shape(self, t: Type) -> tuple[Expr, ...]:
        return tuple([self.expr(s) for s in shape_of(t)])

    def bind(self, var: Var, value: Value) -> None:
        self.env[var] = value
        view = value.view if isinstance(value, Acc) else value
        if isinstance(view, View):
            for r in view.roots:
                r.vars.append(var)

    def unbind(self, var: Var) -> None:
        """Nothing lies in memory any more because of this variable."""
        value = self.env[var]
        view = value.view if isinstance(value, Acc) else value
        if isinstance(view, View):
            for r in view.roots:
                r.vars = [v for v in r.vars if v is not var]

    def in_range(self, index: Expr, size: Expr) -> bool:
        """Whether 0 <= index < size is evident."""
        if isinstance(index, Ref) and self.ranges.get(index.name) == size or (index, size) in self.checked:
            return True
        return isinstance(index, Num) and isinstance(size, Num) and 0 <= index.value < size.value

    def size(self, a: Atom) -> Expr:
        """The size of a new array; emits the check that it is not negative unless that is known."""
        n = self.expr(a)
        if not (isinstance(n, Num) and n.value >= 0) and n not in self.sizes:
            self.emit(ir.Check(ir.compare("<=", ir.ZERO, n), MEMORY, -1, (n,)))
        return n

    # -- liveness and memory

    def is_live(self, var: Var) -> bool:
        """Whether `var` may be used after the current statement."""
        for sc in self.scopes:
            last = sc.last.get(var)
            if last is not None and (last > sc.index or (sc.repeats and var in sc.lam.free())):
                return True
        return False

    def roots_live(self, roots: Iterable[Root]) -> bool:
        return any(self.is_live(v) for r in roots for v in r.vars)

    def can_overwrite(self, view: View, also_used: Iterable[Atom] = ()) -> bool:
        """Whether the view's memory may be written now: nobody reads it later, nor through `also_used`."""
        roots = view.roots
        if not roots or not ONCE(view.injective) or not OURS(all(r.writable for r in roots)):
            return False
        for a in also_used:
            v = self.env.get(a) if isinstance(a, Var) else None
            if isinstance(v, Acc):
                v = v.view
            if not UNREAD(not (isinstance(v, View) and v.roots & roots)):
                return False
        return DEAD(not self.roots_live(roots))

    def new_root(self, elem: Prim, count: Expr | None = None, *, stack: bool = False, fresh: bool = False) -> Root:
        """A root owned by the current scope; `fresh`: in a slot that nothing emitted so far uses."""
        root = Root(None, True, elem, stack)
        if not stack:
            root.slot = fitting(self, self.free_slots.setdefault(elem.name, []), count, fresh)
        self.scopes[-1].owned.append(root)
        return root

    def alloc(
        self, elem: Prim, shape: Sequence[Expr], destination: Destination = None, hint: str = "a", heap: bool = False
    ) -> View:
        """Memory for an array of that shape: the wanted place, the stack if small (not if `heap`), or a slot."""
        if isinstance(destination, View):
            return destination
        if isinstance(destination, Hint):
            return destination.view
        name = self.name(hint)
        shape = tuple([self.let(s, "n") for s in shape])
        count = ir.product(shape)
        if isinstance(destination, SlotDestination):
            root = destination.root
            self.emit(ir.Ensure(name, elem, destination.slot, count))
        elif isinstance(count, Num) and count.value <= STACK_LIMIT and not heap:
            root = self.new_root(elem, stack=True)
            self.emit(ir.Stack(name, elem, max(1, count.value)))
        else:
            root = self.new_root(elem, count)
            assert root.slot is not None
            self.emit(ir.Ensure(name, elem, root.slot, count))
        return self.whole(name, root, shape)

    def whole(self, name: str, root: Root, shape: tuple[Expr, ...]) -> View:
        """The row-major array that fills the memory at a pointer."""
        self.shapes[name] = shape
        v = dense_view(Mem(name, root.elem, frozenset((root,))), shape)
        return View(v.base, v.offset, tuple([self.let(s, "s") for s in v.strides]), v.shape, True)

    def result_of(self, v: Var, shape: Sequence[Expr], destination: Destination) -> View:
        """Memory for what a map makes."""
        return self.alloc(elem_of(v.type), shape, destination, v.name)

    def loop_cell(self, p: Var, init: Expr, body: core.Lambda, result: Atom) -> Cell | None:
        """Memory for a scalar that a loop carries as `p`, from `init` to the body's `result`; None: a variable."""
        return None

    def free_root(self, root: Root) -> None:
        """Give the root's slot back."""
        if root.slot is not None:
            self.free_slots.setdefault(root.elem.name, []).append(root.slot)
            root.slot = None

    def sweep(self) -> None:
        """Free the current scope's roots that no live variable uses."""
        sc = self.scopes[-1]
        kept = []
        for r in sc.owned:
            if HELD(not r.pinned) and FREE(not any(self.is_live(v) for v in r.vars)):
                self.free_root(r)
            else:
                kept.append(r)
        sc.owned = kept

    # -- scopes

    def scope(
        self, lam: core.Lambda, destinations: Sequence[Destination] = (), *, repeats: bool = False
    ) -> list[Value]:
        """Lower the statements of `lam` (its parameters are bound) and return its results.

        An array result with a view as its want is in that place afterwards.  With a soft want or a slot it is there
        only if that was convenient.  In a scope that repeats, the caller must copy an array result that has no place
        of its own before it emits anything else.
        """
        given, lam = lam, self.ordered(lam)
        sc = self.open_scope(lam, destinations, repeats)
        self.scopes.append(sc)
        self.reports.open(self, given, lam.stms)
        for i, stm in enumerate(lam.stms):
            sc.index = i
            self.stm(stm, sc)
        sc.index = len(lam.stms) - 1
        values = [self.value(a) for a in lam.result]
        places = [w if isinstance(w, View) else None for w in destinations[: len(values)]]
        places += [None] * (len(values) - len(places))
        moved = [
            w if isinstance(v, View) and w is not None and not v.same_place(w) else None
            for v, w in zip(values, places, strict=True)
        ]
        values = [
            self.move(v, w) if isinstance(v, View) and w is not None else v
            for v, w in zip(saved(self, values, moved), places, strict=True)
        ]
        self.scopes.pop()
        self.close_scope(sc, values)
        return values

    def ordered(self, lam: core.Lambda) -> core.Lambda:
        """The scope with its statements in the order in which they are lowered."""
        return places_first(lam) if self.target.builds_in_place else lam

    def open_scope(self, lam: core.Lambda, destinations: Sequence[Destination], repeats: bool) -> Scope:
        last: dict[Atom, int] = {}
        uses: dict[Var, int] = {}
        born: dict[Var, int] = {}
        for i, stm in enumerate(lam.stms):
            for v in stm.exp.operands():
                if isinstance(v, Var):
                    uses[v] = uses.get(v, 0) + 1
            for v in core.stm_free(stm):
                last[v] = i
            for inner in stm.exp.lambdas():
                for v in inner.free():
                    uses[v] = uses.get(v, 0) + 1
            for v in stm.pat:
                born[v] = i
                if v in self.env:
                    # The scope was lowered before, for another version: what that made is not there in this one.
                    self.unbind(v)
                    del self.env[v]
        for a in lam.result:
            if isinstance(a, Var):
                last[a] = len(lam.stms)
                uses[a] = uses.get(a, 0) + 1
        sc = Scope(lam, last, uses, repeats)
        for a, destination in zip(lam.result, destinations, strict=False):
            if destination is not None and a in born and a not in sc.destinations:
                sc.destinations[a] = destination
        for stm in reversed(lam.stms):
            self.spread_destinations(stm, sc, born)
        self.find_parts(sc, born)
        return sc

    def in_one_loop(self, e: core.Fused) -> bool:
        """Whether the folds beside a map read its inputs when the map does.  Threads scan in two passes."""
        return not e.scans

    def find_parts(self, sc: Scope, born: dict[Var, int]) -> None:
        """Find the arrays that are made to be put together."""
        if self.target.builds_in_place:
            find_parts(sc, born, TAKE_DESTINATIONS)

    def spread_destinations(self, stm: core.Stm, sc: Scope, born: dict[Var, int]) -> None:
        """What consumes an array made here, for a wanted result, wants that array in the same place."""
        results: Sequence[Var] = stm.pat
        match stm.exp:
            case core.Update(a) | core.Alias(a) | core.Copy(a):
                # Nothing else uses the array afterwards; whether it is overwritten is seen then.
                destination = sc.destinations.get(stm.pat[0])
                if a in born and sc.last[a] < len(sc.lam.stms) and sc.lam.stms[sc.last[a]] is stm:
                    if destination is not None:
                        sc.destinations.setdefault(a, destination)
                return
            case core.Scatter() | core.Hist() | core.WithAcc():
                sources: tuple[Atom, ...] = stm.exp.consumes()
            case core.Reshape(a):
                destination = sc.destinations.get(stm.pat[0])
                known = all(n in self.env for n in shape_of(a.type) if isinstance(n, Var))
                if isinstance(destination, View) and destination.dense and known and a in born and sc.uses[a] == 1:
                    place = dense_view(destination.base, self.shape(a.type), destination.offset)
                    sc.destinations.setdefault(a, place)
                return
            case core.For(_, inits):
                # What the loop fills; other arrays stay where they were made until an iteration changes them.
                sources = tuple([a for a in inits if a in born and isinstance(sc.lam.stms[born[a]].exp, core.Scratch)])
                results = [v for v, a in zip(stm.pat, inits, strict=True) if a in sources]
            case _:
                return
        for v, a in zip(results, sources, strict=False):
            destination = sc.destinations.get(v)
            if destination is not None and a in born and a not in sc.destinations and sc.uses[a] == 1:
                sc.destinations[a] = destination

    def close_scope(self, sc: Scope, values: Sequence[Value]) -> None:
        """Hand the roots of results to the enclosing scope and free the others."""
        kept = {r for v in values if isinstance(v, View) for r in v.roots}
        for r in sc.owned:
            if r in kept and self.scopes:
                self.scopes[-1].owned.append(r)
            elif r not in kept:
                self.free_root(r)

    def stm(self, stm: core.Stm, sc: Scope) -> None:
        e = stm.exp
        self.place_parts(stm, sc)
        short_circuit(self, stm, sc, TAKE_DESTINATIONS)
        values = HANDLERS[type(e)](self, stm, e, [sc.destinations.get(v) for v in stm.pat])
        if len(stm.pat) == 1:
            self.defs[stm.pat[0]] = e
        for var, value in zip(stm.pat, values, strict=True):
            self.define(var, value, e)
        if sc.reports:
            self.reports.done(self, stm)
        if sc.owned:
            self.sweep()

    def place_parts(self, stm: core.Stm, sc: Scope) -> None:
        """Let the statement's arrays be computed where they are put together with others."""
        if sc.parts and isinstance(stm.exp, TAKE_DESTINATIONS):
            for v in stm.pat:
                if v in sc.parts and v not in sc.destinations and (place := destination_of(self, v, sc)) is not None:
                    sc.destinations[v] = place

    def move(self, v: View, destination: Destination) -> View:
        """The array in the wanted place."""
        if isinstance(destination, SlotDestination):
            if v.roots == frozenset((destination.root,)) and v.dense:
                return v
            dst = self.alloc(v.elem, v.shape, destination)
        else:
            assert destination is not None and not isinstance(destination, AccumulateInto)
            dst = destination.view if isinstance(destination, Hint) else destination
        self.copy(dst, v)
        return dst

    def materialise(self, v: View, destination: Destination = None, *, heap: bool = False) -> View:
        """A copy of the array in memory of its own."""
        dst = self.alloc(v.elem, v.shape, unread(self, destination, [v]), heap=heap)
        self.copy(dst, v)
        return dst

    def dense(self, v: View) -> View:
        """The array row-major in memory: itself, or a copy."""
        return v if v.dense and isinstance(v.base, Mem) else self.materialise(v)

    def copy(self, dst: View, src: View) -> None:
        """Copy between arrays of one shape that do not overlap, unless they are the same."""
        if dst.same_place(src):
            return
        assert isinstance(dst.base, Mem)
        if isinstance(src.base, Joined) and src.offset == ir.ZERO and src.strides[0] == ir.ONE:
            for at, part in zip(src.base.starts, src.base.views, strict=True):
                self.copy(View(dst.base, dst.place((at,)), dst.strides, part.shape, dst.dense), part)
            return
        if self.target.transposes and isinstance(src.base, Mem) and not (dst.dense and src.dense):
            dst, src = merged(dst, src, self.lets)
        if not (self.shares and self.nests == 0 and parallel.copy(self, dst, src)):
            self.copy_here(dst, src)

    def copy_here(self, dst: View, src: View) -> None:
        """Copy on one thread."""
        assert isinstance(dst.base, Mem)
        if dst.dense and src.dense and isinstance(src.base, Mem):
            self.emit(ir.Copy(dst.base.pointer, dst.offset, src.base.pointer, src.offset, dst.count(), dst.elem))
            return
        if dst.dense and isinstance(src.base, Fill):
            flat = dense_view(dst.base, (self.let(dst.count(), "n"),), dst.offset)
            self.copy_loops(flat, dense_view(src.base, flat.shape), [0], [ir.ZERO])
            return
        order = list(range(dst.rank))
        unit = [d for d in order if dst.strides[d] == ir.ONE]
        if unit and unit[-1] != dst.rank - 1:
            order.remove(unit[-1])
            order.append(unit[-1])
        index: list[Expr] = [ir.ZERO] * dst.rank
        self.copy_loops(dst, src, order, index)

    def copy_loops(self, dst: View, src: View, order: list[int], index: list[Expr]) -> None:
        if self.target.transposes and (permuted := transposition(dst, src, order)) is not None:
            order = permuted
            if len(order) == 2:
                self.emit(transpose(dst, src, order, index))
                return
        if not order:
            assert isinstance(dst.base, Mem)
            self.emit(ir.Store(dst.base.pointer, dst.place(index), src.load(index)))
            return
        with self.loop(dst.shape[order[0]]) as (i, loop):
            index[order[0]] = i
            loop.independent = len(order) == 1
            self.copy_loops(dst, src, order[1:], index)

    def store(self, dst: View, index: Sequence[Expr], value: Expr) -> None:
        assert isinstance(dst.base, Mem)
        self.emit(ir.Store(dst.base.pointer, dst.place(index), value))

    # -- functions

    def module(self) -> ir.Module:
        """Entries and what nothing calls, and the functions that are not lowered where they are called."""
        functions = []
        for f in self.program.funs.values():
            if f.name in self.separate:
                functions.append(lower_outlined(self, f))
            if f.entry is not None or self.calls.get(f.name, 0) == 0:
                functions.append(self.function(f))
        return ir.Module(functions, self.slots, self.places, self.sites.all())

    def function(self, fun: core.Fun, local: bool = False, in_frame: bool = False) -> ir.Function:
        """A function for the outside, or one that others call: that puts its arrays into the caller's slots."""
        self.reset()
        self.in_frame = in_frame
        params = []
        self.reports.begin(self, fun, local)
        self.scopes.append(Scope(core.Lambda((), (), ()), {}, {}, False))
        for p in fun.body.params:
            name = self.name(p.name)
            if isinstance(p.type, ArrayType):
                shape = self.shape(p.type)
                params.append(ir.Param(name, p.type.elem, p.type.rank, ir.product(shape)))
                if not local:
                    self.receive(params[-1], shape)
                self.bind(p, self.whole(name, Root(None, False, p.type.elem), shape))
            elif isinstance(p.type, AccType):
                self.bind(p, records.parameter(self, name, p.type, params))
            else:
                assert isinstance(p.type, Prim)
                params.append(ir.Param(name, p.type))
                self.bind(p, Ref(name, p.type))
                if len(params) <= fun.num_sizes:
                    self.sizes.add(Ref(name, p.type))
        destinations: list[Destination] = []
        for a in fun.body.result:
            is_array = local and isinstance(a.type, ArrayType)
            root = Root(None, True, elem_of(a.type))
            destinations.append(SlotDestination(self.name("slot"), root) if is_array else None)
        results = []
        values = self.scope(fun.body, destinations)
        slots = [w.root if isinstance(w, SlotDestination) else None for w in destinations]
        moved = [r if isinstance(v, View) and v.roots != {r} else None for v, r in zip(values, slots, strict=True)]
        for v, destination in zip(saved(self, values, moved), destinations, strict=True):
            if isinstance(v, View):
                if destination is not None:
                    v = self.move(v, destination)
                elif not v.dense or not isinstance(v.base, Mem) or any(r.stack for r in v.roots):
                    v = self.materialise(v, heap=True)
                assert isinstance(v.base, Mem)
                slot = destination.slot if isinstance(destination, SlotDestination) else ""
                results.append(ir.Result(v.elem, None, v.base.pointer, v.offset, slot, v.shape))
            elif isinstance(v, Expr):  # accumulators are where they were
                results.append(ir.Result(v.type, v))
        made = ir.Function(fun.name, params, self.out, results, local, same_bits=core.SAME_BITS in fun.attrs)
        for r in tiled(made, self.pieces) if self.target.tiles else ():
            self.reports.skip(self.reports.numbers[r.number], "an array that is made and read in tiles")
        return made
