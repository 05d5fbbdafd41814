"""Lowering core functions to kernels and host code.

Note [Modes]
~~~~~~~~~~~~
The lowering of `futad/imp` is written once and used at three levels.

- 'host': arrays are memory of the device, scalars are values on the host.  Second-order constructs, copies and
  stores become kernels; loops, branches and the planning of memory are those of the sequential lowering.
- 'thread': the inside of one thread, which is the sequential lowering as it is.
- 'block': all threads of a block run the same code on the same scalars.  Maps, folds and copies are shared out
  between the threads, with a barrier before and after each; stores are done by the first thread.

Loops and branches in block mode depend on scalars that all threads have computed alike, so barriers are met by all.

Note [Scalars on the device]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The scalar a kernel computes stays in a piece of memory of its own.  On the host its value is the expression that
loads it, and small scalar operations on it are put around that expression; used in a kernel it is loaded there, and
only what the host must know (sizes, conditions, results) is ever read back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from futad.core import ir as core
from futad.core.measures import Site
from futad.core.types import ArrayType, Atom, Prim, Var, elem_of
from futad.fires import asking
from futad.flatten import (
    device_scalars,
    folds,  # noqa: F401  (it registers its handlers, as do the next ones)
    host_code,  # noqa: F401
    loop_versions,  # noqa: F401
    sort,  # noqa: F401
)
from futad.flatten import kernel as kir
from futad.flatten.device_choices import BY_NAME, permitted
from futad.flatten.dispatch import BLOCK, HOST, SharedAcc
from futad.flatten.fused_products import Deferred, Product, arrange
from futad.flatten.kernel import Kernel, Launch
from futad.flatten.kernel_interface import with_interface
from futad.flatten.known import known_on_host
from futad.flatten.layouts import Order, layouts
from futad.flatten.products import consumed
from futad.imp import ir
from futad.imp.assemble import find_parts, places_first
from futad.imp.dispatch import HANDLERS, TAKE_DESTINATIONS, Destination
from futad.imp.ir import Expr, Ref
from futad.imp.lower import Lowerer, Scope
from futad.imp.placement import short_circuit
from futad.imp.soacs import SoacLoop
from futad.imp.views import Acc, Fill, Mem, Root, Sequence_, Value, View, is_transposed, permuted
from futad.imp.walk import has_load, loads_in, parts
from futad.target import CUDA, Target

if TYPE_CHECKING:
    from futad.flatten.loop_versions import Alone
    from futad.imp.carried import Cell
    from futad.rewrite.choices import Nest

T = TypeVar("T")
LAZY_SIZE = 24  # nodes of an expression of device scalars that is computed again wherever it is used


class DeviceLowerer(Lowerer):
    """Lowers a program for a device; see Note [Modes]."""

    def __init__(self, program: core.Program, target: Target = CUDA) -> None:
        self.mode = "host"
        self.atomic = False  # additions to memory are other threads' too
        self.alone: Alone | None = None  # a loop that one block runs is lowered
        self.captured: dict[str, int] = {}  # memory whose updates are in shared memory: the accumulators' numbers
        self.kernels: list[Kernel] = []
        self.why: list[str] = []
        self.given: dict[core.Stm, Expr] = {}
        self.turned: dict[core.Atom, View] = {}  # matrices that have a copy by columns, for rows that threads fold
        self.scalar_roots: dict[str, tuple[Root, ...]] = {}  # the memory that a scalar of the device may be in
        self.thread_slots: set[int] = set()
        self.warp_slots: set[int] = set()
        self.function_name = ""
        self.line = 0  # of the source: the nearest place that is known
        self.deferred: dict[core.Stm, None] = {}
        self.products: dict[core.Stm, Product] = {}
        self.layouts: dict[Var, Order] = {}  # of arrays that are not row-major
        self.in_order: dict[str, tuple[Expr, ...]] = {}  # the strides with which their memory is without gaps
        self.factors: dict[Expr, tuple[Expr, Expr]] = {}  # of numbers that are products
        self.asked: Nest | None = None  # the nest that is lowered at host level, if a schedule asks
        super().__init__(program, target)
        self.forced = known_on_host(program)
        self.read = device_scalars.host_reads(program, self.forced)
        self.separate = set()

    def device_module(self) -> kir.DeviceModule:
        """All functions with their kernels."""
        functions = []
        for f in self.program.funs.values():
            if f.entry is not None or self.calls.get(f.name, 0) == 0:
                self.function_name = f.name
                self.line = f.span.line if f.span is not None else 0
                functions.append(self.function(f))
                # Results that are operations on scalars of the device are computed there, not read one by one.
                deferred = [(r, e) for r in functions[-1].results if (e := r.value) is not None and has_load(e)]
                deferred = [(r, e) for r, e in deferred if not isinstance(e, ir.Load)]
                if deferred:
                    for (r, _), cell in zip(deferred, self.in_a_cell([e for _, e in deferred], "results"), strict=True):
                        r.value = cell
        why = list(dict.fromkeys(self.why))
        named = tuple(self.bindings), tuple(self.loops)
        return kir.DeviceModule(functions, self.kernels, self.places, why, *named, self.sites.all())

    # -- schedules

    def nest(self, stm: core.Stm) -> Nest | None:
        return None  # no transformations of loops are chosen in kernels

    def asked_of(self, stm: core.Stm) -> Nest | None:
        """What a schedule asks of a statement at host level, and is told of it; None if there is none that asks."""
        return None if self.target.choices is None else self.target.choices.nests.get(stm)

    def tried(self, name: str, make: Callable[[], T | None]) -> T | None:
        """What `make` gives by a choice of the nest that is lowered (`device_choices.py`), None if a schedule forbids
        it.  The nest is told what became of it."""
        nest = self.asked
        if nest is None:
            return make()
        if not permitted(nest, name):
            return None
        with asking() as told:
            made = make()
        if made is None:
            nest.was_not(name, told.why or BY_NAME[name].otherwise)
        else:
            nest.was(name)
        return made

    def in_one_loop(self, e: core.Fused) -> bool:
        return False  # the map may be a kernel, the folds others

    # -- dispatch

    def stm(self, stm: core.Stm, sc: Scope) -> None:
        self.place_parts(stm, sc)
        short_circuit(self, stm, sc, TAKE_DESTINATIONS)
        if self.mode == "host":
            self.line = line_of(stm) or self.line
        destinations = [sc.destinations.get(v) for v in stm.pat]
        values = self.lower(stm, destinations)
        if isinstance(stm.exp, core.Op) and stm.exp.op == "mul" and isinstance(values[0], Ref):
            self.factors[values[0]] = self.expr(stm.exp.args[0]), self.expr(stm.exp.args[1])
        for var, value in zip(stm.pat, values, strict=True):
            if self.mode == "host" and isinstance(value, Expr) and var in self.forced and has_load(value):
                value = self.let(value, var.name)
            self.define(var, value, stm.exp)
        if sc.reports:
            self.reports.done(self, stm)
        if sc.owned:
            self.sweep()

    def find_parts(self, sc: Scope, born: dict[Var, int]) -> None:
        if self.mode == "host":
            find_parts(sc, born, TAKE_DESTINATIONS)
            sc.literals.clear()
            sc.parts = {v: s for v, s in sc.parts.items() if isinstance(s.exp, core.Concat | core.Reshape)}

    def lower(self, stm: core.Stm, destinations: list[Destination]) -> Sequence[Value]:
        if self.mode != "host" or self.target.choices is None:
            return self._lowered(stm, destinations)
        around, self.asked = self.asked, self.asked_of(stm)
        try:
            return self._lowered(stm, destinations)
        finally:
            self.asked = around

    def _lowered(self, stm: core.Stm, destinations: list[Destination]) -> Sequence[Value]:
        e = stm.exp
        if self.mode == "host":
            early = self.lower_deferred(stm, destinations)
            if early is not None:
                return early
        if stm in self.given:
            n = SoacLoop(self, stm, destinations)
            n.elements(n.inputs, self.given[stm])
            return n.results([])
        table = HOST if self.mode == "host" else BLOCK if self.mode == "block" else None
        if table is not None and type(e) in table:
            return table[type(e)](self, stm, e, destinations)
        if isinstance(e, core.UpdateAcc):
            self.atomic = isinstance(self.value(e.acc), SharedAcc)
            values = HANDLERS[core.UpdateAcc](self, stm, e, destinations)
            self.atomic = False
            return values
        if isinstance(e, core.Op) and e.op == "quot" and e.place is None and (index := self.quotient(e)) is not None:
            return [self.let(index, stm.pat[0].name)]
        return HANDLERS[type(e)](self, stm, e, destinations)

    def quotient(self, e: core.Op) -> Expr | None:
        """A loop's variable divided by a factor of the loop's bound, which is not zero then, as an index; None for any
        other quotient.  Of those that the program has none is given: they have a place, and divide by what may be
        negative."""
        i, n = [self.expr(a) for a in e.args]
        todo = [self.ranges[i.name]] if isinstance(i, Ref) and i.name in self.ranges else []
        while todo and todo[-1] != n:
            todo += self.factors.get(todo.pop(), ())
        return ir.Bin("/", i, n) if todo else None

    def on_host(self, lam: core.Lambda, destinations: Sequence[Destination] = ()) -> list[Value]:
        """Lower a scope that stands for a statement."""
        self.forced |= known_on_host(core.Program({"": core.Fun("", lam, 0, ())}))
        return self.scope(lam, destinations)

    # -- deferred arrays

    def ordered(self, lam: core.Lambda) -> core.Lambda:
        if self.mode == "host":
            lam = places_first(lam)
            found = arrange(lam, self.asked_of)
            self.deferred |= found.deferred
            self.products |= found.products
            if found.products:
                lam = core.Lambda(lam.params, tuple(found.stms), lam.result)
            self.layouts |= layouts(lam, self.asked_of)
        return lam

    def open_scope(self, lam: core.Lambda, destinations: Sequence[Destination], repeats: bool) -> Scope:
        sc = super().open_scope(lam, destinations, repeats)
        if self.mode == "host":
            # What a deferred array is made from is used where it is made in the end.
            for stm in reversed(lam.stms):
                if stm in self.deferred or isinstance(stm.exp, core.Rearrange):
                    at = max(sc.last.get(v, -1) for v in stm.pat)
                    for v in core.stm_free(stm):
                        sc.last[v] = max(sc.last[v], at)
        return sc

    def spread_destinations(self, stm: core.Stm, sc: Scope, born: dict[Var, int]) -> None:
        if isinstance(stm.exp, core.Alias) and isinstance(stm.exp.atom, Var):
            # One array under two names: it can be in the wanted place from the start, whoever else reads it.
            v, a = stm.pat[0], stm.exp.atom
            if v in sc.destinations and a in born and a not in sc.destinations:
                sc.destinations[a] = sc.destinations[v]
            return
        if isinstance(stm.exp, core.ArrayLit):
            destination = sc.destinations.get(stm.pat[0])
            for i, x in enumerate(stm.exp.elems):
                if isinstance(destination, View) and destination.rank > 1 and x in born and sc.uses[x] == 1:
                    sc.destinations.setdefault(x, destination.row((ir.num(i),)))
            return
        super().spread_destinations(stm, sc, born)

    def lower_deferred(self, stm: core.Stm, destinations: list[Destination]) -> Sequence[Value] | None:
        """The values of a statement that is deferred, or that a product takes along; None for any other."""
        if stm in self.deferred:
            return [self.deferred_array(stm, k) for k in range(len(stm.pat))]
        taken = self.products.get(stm)
        if taken is not None and taken.consumer is not None and taken.consumer.stm is stm:
            with self.block() as body:
                values = consumed(self, taken, destinations)
            if values is not None:
                self.out += body
                self.taken_along(stm)
                return values
        sums = next((p for p in self.products.values() if p.sums is stm), None)
        if sums is not None:
            # The product that follows at once puts them there.
            self.reports.skip(stm.pat[0], "sums that the product after them takes")
            self.taken_along(stm)
            return [self.host_view(stm.pat[0], destinations[0])]
        if taken is None and not isinstance(stm.exp, core.Rearrange):
            self.materialise_all(core.stm_free(stm))
        return None

    def taken_along(self, stm: core.Stm) -> None:
        """Tell the nest that is lowered that a product does what it does."""
        nest = self.asked_of(stm)
        if nest is not None:
            nest.refused |= {c.name: "a matrix product takes it along" for c in nest.done}
            nest.done.clear()

    def deferred_array(self, stm: core.Stm, k: int) -> Value:
        t = stm.pat[k].type
        assert isinstance(t, ArrayType)
        strides = tuple([Ref(self.name("late"), ir.ZERO.type) for _ in t.shape])
        return View(Deferred(t.elem, stm, k, strides), ir.ZERO, strides, self.shape(t))

    def deferred_view(self, a: core.Atom) -> View:
        """An array's view, deferred or not."""
        assert isinstance(a, Var), a
        v = self.env[a]
        assert isinstance(v, View), (a, v)
        return v

    def view(self, a: core.Atom) -> View:
        assert isinstance(a, Var), a
        self.materialise_all([a])
        return super().view(a)

    def value(self, a: core.Atom) -> Value:
        if isinstance(a, Var):
            self.materialise_all([a])
        return super().value(a)

    def materialise_all(self, vars_: Iterable[Var]) -> None:
        """Make deferred arrays after all, for they are needed in memory."""
        for v in list(vars_):
            x = self.env.get(v)
            if isinstance(x, View) and isinstance(x.base, Deferred):
                self.materialise_deferred(x.base)

    def materialise_deferred(self, deferred: Deferred) -> None:
        assert self.mode == "host", deferred.stm
        del self.deferred[deferred.stm]
        values = self.lower(deferred.stm, [None] * len(deferred.stm.pat))
        whole = values[deferred.result]
        assert isinstance(whole, View)
        steps: dict[Expr, Expr] = dict(zip(deferred.strides, whole.strides, strict=True))
        for v in deferred.vars:
            old = self.env[v]
            assert isinstance(old, View) and old.offset == ir.ZERO
            strides = tuple([steps[s] for s in old.strides])
            self.bind(v, View(whole.base, whole.offset, strides, old.shape, whole.dense and strides == whole.strides))
        self.deferred[deferred.stm] = None  # for the statement may be lowered again

    def taking(self, stm: core.Stm) -> Product | None:
        """What a product takes along besides the nest over it."""
        return self.products.get(stm)

    # -- emitting

    def emit(self, stmt: ir.Stmt) -> None:
        if self.atomic and isinstance(stmt, ir.Store) and stmt.op is not None:
            if stmt.pointer in self.captured:
                self.out.append(kir.SharedUpdate(self.captured[stmt.pointer], stmt.index, stmt.value))
                return
            stmt = kir.Atomic(stmt.pointer, stmt.index, stmt.value, stmt.op)
        if self.mode == "host":
            if isinstance(stmt, ir.Store) or (isinstance(stmt, ir.Check) and has_load(stmt.cond)):
                with self.single(""):
                    self.out.append(stmt)
                return
        elif self.mode == "block" and isinstance(stmt, ir.Store):
            self.out += [kir.Sync(), kir.Single([stmt]), kir.Sync()]
            return
        self.out.append(stmt)

    def measure(self, site: Site, values: tuple[Expr, ...]) -> None:
        """Added to memory of the program's own, so that the host need not know them."""
        numbers = [(values[i // 2], op) for i, op in enumerate(("add", "max") * len(values))]
        told = [
            kir.Atomic(kir.MEASURES, ir.num(site.at + i), value, op)
            for i, (value, op) in enumerate([(ir.ONE, "add"), *numbers])
        ]
        if self.mode == "host":
            with self.single("measures"):
                self.out += told
        elif self.mode == "block":
            self.out.append(kir.Single([*told]))
        else:
            self.out += told

    def alloc(
        self, elem: Prim, shape: Sequence[Expr], destination: Destination = None, hint: str = "a", heap: bool = False
    ) -> View:
        return super().alloc(elem, shape, destination, hint, heap or self.mode != "thread")

    def copy(self, dst: View, src: View) -> None:
        if self.mode == "thread":
            super().copy(dst, src)
            return
        if dst.same_place(src):
            return
        assert isinstance(dst.base, Mem)
        if self.mode == "host" and dst.dense and src.dense and isinstance(src.base, Mem):
            self.emit(ir.Copy(dst.base.pointer, dst.offset, src.base.pointer, src.offset, dst.count(), dst.elem))
            return

        def element(index: Sequence[Expr]) -> None:
            self.store(dst, index, src.load(index))

        if self.mode == "host" and dst.dense and is_transposed(src):
            self.transpose(dst, src)
        elif self.mode == "host":
            with self.kernel() as body, self.space(dst.shape) as (index, total):
                element(index)
            self.launch(body, "thread", total, "copy" if isinstance(src.base, Mem) else "fill")
        else:
            with self.shared_out(dst.shape) as index:
                element(index)

    def transpose(self, dst: View, src: View) -> None:
        """Copy a transposed matrix, tile by tile."""
        assert isinstance(dst.base, Mem) and isinstance(src.base, Mem)
        rows, columns = src.shape[1], src.shape[0]
        names = []
        for v in (src, dst):
            names.append(self.name("m"))
            assert isinstance(v.base, Mem)
            self.out.append(ir.Pointer(names[-1], v.elem, v.base.pointer, v.offset))
        with self.kernel("block") as body:
            self.out.append(kir.Transpose(src.elem, names[1], names[0], rows, columns))
        tiles = [ir.Bin("/", ir.add(x, ir.num(31)), ir.num(32)) for x in (rows, columns)]
        self.launch(body, "tile", ir.mul(*tiles), "transposition")

    # -- kernels

    @contextmanager
    def inside(self, mode: str) -> Iterator[None]:
        """Lower in another mode, with memory of that mode's own."""
        saved = self.mode, self.free_slots, self.on_stack
        self.mode, self.free_slots, self.on_stack = mode, {}, self.alone is None or mode != "block"
        self.scopes.append(Scope(core.Lambda((), (), ()), {}, {}, False))
        first = self.slots
        try:
            yield
        finally:
            if mode == "thread":
                self.thread_slots.update(range(first, self.slots))
            self.scopes.pop()
            self.mode, self.free_slots, self.on_stack = saved

    @contextmanager
    def kernel(self, mode: str = "thread") -> Iterator[list[ir.Stmt]]:
        """Lower the inside of a kernel."""
        with self.block() as body, self.inside(mode):
            yield body

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """What fails inside goes on after it."""
        with self.block() as body:
            yield
        self.out.append(kir.Guarded(body, self.name("failed")))

    @contextmanager
    def space(self, sizes: Sequence[Expr], unit: str = "thread") -> Iterator[tuple[list[Expr], Expr]]:
        """Inside a kernel: the points of a space, shared out over the grid's threads or blocks; yields the indices
        and the number of points (an expression of the host's)."""
        total = ir.product(list(sizes))
        start, step = {
            "thread": ("futad_thread", "futad_threads"),
            "block": ("futad_block", "futad_blocks"),
            "in block": ("futad_tid", "futad_width"),
        }[unit]
        var = self.name("p")
        if len(sizes) == 1:
            self.ranges[var] = sizes[0]
        with self.block() as body, self.guarded():
            yield self.unflatten(Ref(var, ir.ZERO.type), sizes), total
        self.out.append(kir.Stride(var, start, total, step, body))

    def unflatten(self, flat: Expr, sizes: Sequence[Expr]) -> list[Expr]:
        """The indices of a point; the last runs fastest."""
        if len(sizes) == 1:
            return [flat]
        out: list[Expr] = []
        for n in reversed(sizes[1:]):
            rest = self.let(ir.Bin("/", flat, n), "i")
            i = self.let(ir.Bin("%", flat, n), "i")
            assert isinstance(i, Ref)
            self.ranges[i.name] = n
            out.append(i)
            flat = rest
        assert isinstance(flat, Ref)
        self.ranges[flat.name] = sizes[0]
        return [flat, *reversed(out)]

    @contextmanager
    def shared_out(self, sizes: Sequence[Expr]) -> Iterator[list[Expr]]:
        """In block mode: a space shared out over the block's threads."""
        sizes = [self.let(n, "n") for n in sizes]
        self.out.append(kir.Sync())
        with self.inside("thread"), self.space(sizes, "in block") as (index, _):
            yield index
        self.out.append(kir.Sync())

    def launch(self, body: list[ir.Stmt], kind: str, units: Expr, what: str, inner: Expr = ir.ONE) -> Kernel:
        """On the host: run a kernel's inside; `inner` is how much parallel work a unit has."""
        made = with_interface(self, body, kind, what)
        self.kernels.append(made)
        self.out.append(Launch(made, units, inner))
        return made

    @contextmanager
    def single(self, what: str) -> Iterator[None]:
        """On the host: what one thread of the device does."""
        with self.kernel() as body, self.guarded():
            yield
        self.launch(body, "single", ir.ONE, what)

    def fallback(self, reason: str) -> None:
        """Note that something parallel is done by one thread, or in iterations."""
        self.why.append(f"{self.function_name}: {reason}")

    # -- scalars of the device

    def scalar_slot(self, elem: Prim) -> ir.Load:
        """Memory for one scalar; the expression that loads it."""
        name = self.name("cell")
        root = self.new_root(elem)
        assert root.slot is not None
        self.emit(ir.Ensure(name, elem, root.slot, ir.ONE))
        self.scalar_roots[name] = (root,)
        return ir.Load(name, ir.ZERO, elem)

    def bind(self, var: Var, value: Value) -> None:
        super().bind(var, value)
        if self.alone is not None:
            self.alone.named(var, value)
        if isinstance(value, View) and isinstance(value.base, Deferred):
            value.base.vars.append(var)
        for root in self.cells(value):
            root.vars.append(var)

    def cells(self, value: Value) -> list[Root]:
        """The device scalars a value depends on."""
        if isinstance(value, Acc):
            return []
        exprs: list[Expr] = []
        if isinstance(value, View):
            match value.base:
                case Fill(_, x):
                    exprs = [x]
                case Sequence_(_, a, b):
                    exprs = [a, b]
        else:
            exprs = [value]
        return [r for e in exprs for x in loads_in(e) for r in self.scalar_roots.get(x.pointer, ())]

    def close_scope(self, sc: Scope, values: Sequence[Value]) -> None:
        cells = {r for v in values for r in self.cells(v)}
        for r in [r for r in sc.owned if r in cells]:
            sc.owned.remove(r)
            self.scopes[-1].owned.append(r)
        super().close_scope(sc, values)

    def loop_cell(self, p: Var, init: Expr, body: core.Lambda, result: Atom) -> Cell | None:
        return device_scalars.loop_cell(self, p, init, body, result)

    def in_a_cell(self, values: Sequence[Expr], what: str) -> list[ir.Load]:
        """Expressions computed on the device, together."""
        cells = [self.scalar_slot(v.type) for v in values]
        with self.single(what):
            for cell, v in zip(cells, values, strict=True):
                self.emit(ir.Store(cell.pointer, ir.ZERO, v))
        return cells

    def small(self, e: Expr) -> bool:
        """Whether an expression may be computed again at each use."""
        return sum(1 for _ in parts(e)) <= LAZY_SIZE

    def result_of(self, v: Var, shape: Sequence[Expr], destination: Destination) -> View:
        order = self.layouts.get(v) if self.mode == "host" and destination is None else None
        if order is None:
            return super().result_of(v, shape, destination)
        made = self.alloc(elem_of(v.type), [shape[d] for d in order], None, v.name)
        assert isinstance(made.base, Mem)
        self.in_order[made.base.pointer] = made.strides
        return permuted(made, [order.index(d) for d in range(len(order))])

    def permuted(self, v: View, perm: Sequence[int]) -> View:
        """A view with its dimensions in another order."""
        out = permuted(v, perm)
        there = isinstance(v.base, Mem) and self.in_order.get(v.base.pointer) == out.strides
        return replace(out, dense=True) if there and v.offset == ir.ZERO else out

    def host_view(self, var: Var, destination: Destination) -> View:
        """Memory for an array result of a kernel."""
        assert isinstance(var.type, ArrayType)
        return self.alloc(var.type.elem, self.shape(var.type), destination, var.name)


def line_of(stm: core.Stm) -> int:
    """The first source line that a statement names, 0 if none."""
    e = stm.exp
    span = getattr(e, "check", None) or getattr(e, "place", None)
    if span is not None:
        return int(span.line)
    for inner in e.lambdas():
        for s in inner.stms:
            line = line_of(s)
            if line:
                return line
    return 0
