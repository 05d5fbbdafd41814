"""Loops that the host meets: run by the host, by one thread of the device, or by one block (Note [One block] in
`narrow_loops.py`).

Where one block runs a loop, all of its threads do, in block mode: they compute the same scalars, so they take the same
branches and meet the same barriers.  A check that fails in a thread lets that go on to the next barrier; what it should
have made is not there, and conditions and places computed from that could be anything.  So at that barrier all threads
learn of it, and go to the end of the kernel.

What the loop begins with is where the host has it, and may be overwritten there if nobody reads it later; results that
are not left there are copied to places of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from futad.core import ir as core
from futad.core.grid import Grid
from futad.core.types import I64, ArrayType, Prim, Var, elem_of
from futad.flatten import kernel as kir
from futad.flatten.barriers import fewer_barriers, stop_at_failures
from futad.flatten.conditions import condition
from futad.flatten.dispatch import in_block, on_host
from futad.flatten.kernel_interface import NotInBlock
from futad.flatten.narrow_loops import ALWAYS, LEGAL, Narrow, Sum, narrow
from futad.flatten.sequential import parallel_inside
from futad.imp import ir
from futad.imp.carried import named_strides
from futad.imp.dispatch import HANDLERS, Destination
from futad.imp.ir import ONE, ZERO, Expr, Num, Ref
from futad.imp.views import Acc, Mem, Root, Value, View, as_scalar, dense_view
from futad.imp.walk import has_load, statements

if TYPE_CHECKING:
    from futad.flatten.lower import DeviceLowerer

ONE_BLOCK, BY_HOST = "one-block", "by-host"
KNOWN = LEGAL.condition("the host knows where", "the host takes for a result another place than its own")
SHORT = 200  # statements of a kernel that need no more registers than each of many threads has


@dataclass(slots=True)
class Alone:
    """What is known while a block's loop is lowered: bounds of sizes that iterations compute, by variable, and by name
    once they have one."""

    bounds: dict[Var, Expr]
    by_name: dict[str, Expr] = field(default_factory=dict)

    def named(self, var: Var, value: Value) -> None:
        if isinstance(value, Ref) and var in self.bounds:
            self.by_name[value.name] = self.bounds[var]


@on_host(core.For, core.While)
def _loop(lo: DeviceLowerer, stm: core.Stm, e: core.Loop, destinations: list[Destination]) -> Sequence[Value]:
    grid = stm.grid
    if grid is not None and grid.template == "one-thread":
        return _by_one_thread(lo, stm, e, destinations)
    if grid is not None and grid.versions[0].level == ONE_BLOCK:
        return _versions(lo, stm, e, grid, destinations)
    if grid is not None and lo.asked is not None:
        lo.asked.was(BY_HOST)
    return HANDLERS[type(e)](lo, stm, e, destinations)


# --- one thread -------------------------------------------------------------------------------------------------------


def _by_one_thread(
    lo: DeviceLowerer, stm: core.Stm, e: core.Loop, destinations: list[Destination]
) -> Sequence[Value]:
    lo.fallback(f"loop for {', '.join(v.name for v in stm.pat)}: nothing parallel inside, one thread")
    places: list[Value] = []
    inner: list[Destination] = []
    for v, w in zip(stm.pat, destinations, strict=True):
        place: Value = lo.scalar_slot(v.type) if isinstance(v.type, Prim) else lo.host_view(v, w)
        places.append(place)
        inner.append(place if isinstance(place, View) else None)
    with lo.single("loop"):
        # An initial value that the host no longer needs may be overwritten, but not exchanged: copy into place.
        values = list(HANDLERS[type(e)](lo, stm, e, inner))
        _apart(lo, values, places)
        for p, x in zip(places, values, strict=True):
            if isinstance(p, View):
                assert isinstance(x, View)
                lo.copy(p, x)
            else:
                assert isinstance(p, ir.Load) and isinstance(x, Expr)
                lo.out.append(ir.Store(p.pointer, ZERO, x))
    return places


def _apart(lo: DeviceLowerer, values: list[Value], places: Sequence[Value | None]) -> None:
    """Copy results that lie where others are to go: variables that change places may each end there."""
    for k, x in enumerate(values):
        others = [p.roots for j, p in enumerate(places) if j != k and isinstance(p, View)]
        if isinstance(x, View) and any(x.roots & roots for roots in others):
            values[k] = lo.materialise(x, heap=True)


# --- one block --------------------------------------------------------------------------------------------------------


def _versions(
    lo: DeviceLowerer, stm: core.Stm, e: core.Loop, grid: Grid, destinations: list[Destination]
) -> Sequence[Value]:
    """The version of one block if there is one, and the host's if sizes decide."""
    found = narrow(stm, lo.program)
    asked = lo.asked
    with lo.block() as taken:
        values = _tried(lo, stm, e, found, destinations) if found is not None else None
    if found is None or values is None:
        if asked is not None:
            asked.was_not(ONE_BLOCK, "the size of an array of an iteration is not known before the loop")
            asked.was(BY_HOST)
        return HANDLERS[type(e)](lo, stm, e, destinations)
    LEGAL.fired()
    when, work = grid.versions[0].when, found.constant()
    certain = "work" not in when or (work is not None and work <= ALWAYS * found.fewest)
    if asked is not None:
        for level in (ONE_BLOCK,) if certain else (ONE_BLOCK, BY_HOST):
            asked.was(level)
    if certain:
        lo.out += taken
        return values
    sizes: dict[str, Sequence[Expr]] = {"points": [ONE], "work": [_sum(lo, (t,)) for t in found.work]}
    with lo.block() as left:
        made = HANDLERS[type(e)](lo, stm, e, destinations)
    return _either(lo, stm, condition(when, sizes), (taken, values), (left, made))


def _tried(
    lo: DeviceLowerer, stm: core.Stm, e: core.Loop, found: Narrow, destinations: list[Destination]
) -> list[Value] | None:
    """The loop by one block; None if it has what no block does."""
    depth, kernels = len(lo.scopes), len(lo.kernels)
    pinned = {r: r.pinned for sc in lo.scopes for r in sc.owned}
    try:
        return _by_one_block(lo, stm, e, found, destinations)
    except NotInBlock:
        del lo.scopes[depth:], lo.kernels[kernels:]
        for r, n in pinned.items():
            r.pinned = n
        return None


@contextmanager
def _alone(lo: DeviceLowerer, known: Alone) -> Iterator[None]:
    lo.alone = known
    try:
        yield
    finally:
        lo.alone = None


def _by_one_block(
    lo: DeviceLowerer, stm: core.Stm, e: core.Loop, found: Narrow, destinations: list[Destination]
) -> list[Value]:
    """Raises NotInBlock."""
    bounds = {v: _most([_sum(lo, s) for s in sums]) for v, sums in found.bounds.items()}
    known = Alone({v: b for v, b in bounds.items() if not has_load(b)})
    with _alone(lo, known), lo.kernel("block") as body, lo.guarded():
        values = list(HANDLERS[type(e)](lo, stm, e, [None] * len(stm.pat)))
    (whole,) = [s for s in body if isinstance(s, kir.Guarded)]
    own = {n for s in statements(body) for n in s.defines()}
    results: list[Value] = []
    places: list[Value | None] = []
    for v, w, x in zip(stm.pat, destinations, values, strict=True):
        if isinstance(x, Acc):
            results.append(x)
        elif isinstance(x, View) and _there(x, own):
            results.append(dense_view(x.base, lo.shape(v.type), x.offset))
        else:
            made: Value = lo.scalar_slot(v.type) if isinstance(v.type, Prim) else lo.host_view(v, w)
            results.append(made)
            places.append(made)
            continue
        places.append(None)
    for k, p in enumerate(places):  # where another result lies already nothing goes
        if isinstance(p, View) and any(
            isinstance(r, View) and r.roots & p.roots for j, r in enumerate(results) if j != k and places[j] is None
        ):
            results[k] = places[k] = lo.host_view(stm.pat[k], None)
    with _alone(lo, known), lo.block() as copies, lo.inside("block"):
        _apart(lo, values, places)
        for p, x in zip(places, values, strict=True):
            if isinstance(p, View):
                assert isinstance(x, View)
                lo.copy(p, x)
            elif isinstance(p, ir.Load):
                lo.emit(ir.Store(p.pointer, ZERO, as_scalar(x)))
    whole.body += copies
    stop_at_failures(body)
    fewer_barriers(body)
    width: Expr = ONE
    for s in found.widths:
        width = lo.let(_most([width, _sum(lo, s)]), "width")
    names = ", ".join(v.name for v in stm.pat)
    wide = sum(1 for _ in statements(body)) <= SHORT
    with _alone(lo, known):
        lo.launch(body, "alone-wide" if wide else "alone", ONE, f"loop for {names}, by one block", width)
    return results


def _there(x: View, own: set[str]) -> bool:
    """Whether a result lies where the host knows."""
    outside = isinstance(x.base, Mem) and x.base.pointer not in own and not own & {*x.offset.uses()}
    return isinstance(x.base, Mem) and x.dense and KNOWN(outside and not has_load(x.offset))


@in_block(core.For, core.While)
def _loop_in_block(lo: DeviceLowerer, stm: core.Stm, e: core.Loop, destinations: list[Destination]) -> Sequence[Value]:
    sequential = e.body.has(core.Update, core.UpdateAcc) and not parallel_inside(e.body, lo.program)
    if lo.alone is not None and sequential:
        return _by_first_thread(lo, stm, e)
    return HANDLERS[type(e)](lo, stm, e, destinations)


def _by_first_thread(lo: DeviceLowerer, stm: core.Stm, e: core.Loop) -> Sequence[Value]:
    """A loop without anything parallel inside, in a loop that one block runs: the others wait."""
    with lo.block() as body, lo.inside("thread"), lo.guarded():
        values = list(HANDLERS[type(e)](lo, stm, e, [None] * len(stm.pat)))
    (whole,) = [s for s in body if isinstance(s, kir.Guarded)]
    own = {n for s in statements(body) for n in s.defines()}
    results: list[Value] = []
    places: list[View | None] = []
    for v, x in zip(stm.pat, values, strict=True):
        place: View | None = None
        if isinstance(x, Acc):
            results.append(x)
        elif isinstance(x, View) and _there(x, own):
            results.append(dense_view(x.base, lo.shape(v.type), x.offset))
        else:
            scalar = isinstance(v.type, Prim)
            place = lo.alloc(elem_of(v.type), (ONE,) if scalar else lo.shape(v.type), None, v.name, heap=True)
            results.append(place)
        places.append(place)
    with lo.block() as copies, lo.inside("thread"):
        _apart(lo, values, places)
        for p, x in zip(places, values, strict=True):
            if p is not None and isinstance(x, View):
                lo.copy(p, x)
            elif p is not None:
                lo.store(p, (ZERO,), as_scalar(x))
    whole.body += copies
    lo.out += [kir.Sync(), kir.Single(body), kir.Sync()]
    return [
        lo.let(r.load((ZERO,)), v.name) if isinstance(v.type, Prim) and isinstance(r, View) else r
        for v, r in zip(stm.pat, results, strict=True)
    ]


# --- both versions ----------------------------------------------------------------------------------------------------

Side = tuple[list[ir.Stmt], Sequence[Value]]


def _either(lo: DeviceLowerer, stm: core.Stm, when: Expr, block: Side, host: Side) -> list[Value]:
    """The results of whichever version is run: scalars that the host needs in variables, all else where a pointer
    says."""
    out: list[Value] = []
    for v, a, b in zip(stm.pat, block[1], host[1], strict=True):
        if isinstance(a, Acc):
            out.append(b)
        elif isinstance(v.type, ArrayType):
            assert isinstance(a, View) and isinstance(b, View)
            out.append(_array(lo, v, v.type, (block[0], a), (host[0], b)))
        else:
            out.append(_scalar(lo, v, (block[0], as_scalar(a)), (host[0], as_scalar(b))))
    lo.out.append(ir.If(when, block[0], host[0]))
    return out


@contextmanager
def _more(lo: DeviceLowerer, body: list[ir.Stmt]) -> Iterator[None]:
    """Go on with a version."""
    saved, lo.out = lo.out, body
    try:
        yield
    finally:
        lo.out = saved


def _array(
    lo: DeviceLowerer, v: Var, t: ArrayType, block: tuple[list[ir.Stmt], View], host: tuple[list[ir.Stmt], View]
) -> View:
    if block[1].same_place(host[1]):
        return host[1]
    name = lo.name(v.name)
    lo.out.append(ir.Pointer(name, t.elem, mutable=True))
    roots = block[1].roots | host[1].roots
    for body, x in (block, host):
        with _more(lo, body):
            if not x.dense or not isinstance(x.base, Mem):
                x = lo.materialise(x, heap=True)
                roots |= x.roots
            assert isinstance(x.base, Mem)
            lo.emit(ir.SetPointer(name, x.base.pointer, x.offset))
    return named_strides(lo, dense_view(Mem(name, t.elem, roots), lo.shape(t)))


def _scalar(
    lo: DeviceLowerer, v: Var, block: tuple[list[ir.Stmt], Expr], host: tuple[list[ir.Stmt], Expr]
) -> Expr:
    t = v.type
    assert isinstance(t, Prim)
    if v in lo.forced:
        name = lo.name(v.name)
        lo.out.append(ir.Decl(name, t, Num(0, t), mutable=True))
        for body, x in (block, host):
            body.append(ir.Assign(name, x))
        return Ref(name, t)
    name = lo.name("cell")
    lo.out.append(ir.Pointer(name, t, mutable=True))
    roots: list[Root] = []
    for body, x in (block, host):
        with _more(lo, body):
            if not isinstance(x, ir.Load) or x.pointer not in lo.scalar_roots:
                (x,) = lo.in_a_cell([x], v.name)
            roots += lo.scalar_roots[x.pointer]
            lo.emit(ir.SetPointer(name, x.pointer, x.index))
    lo.scalar_roots[name] = tuple(roots)
    return ir.Load(name, ZERO, t)


def _sum(lo: DeviceLowerer, terms: Sum) -> Expr:
    out: Expr = ZERO
    for term in terms:
        out = ir.add(out, ir.product([lo.expr(a) for a in term]))
    return out


def _most(sizes: Sequence[Expr]) -> Expr:
    """The largest of some sizes."""
    least = max([int(x.value) for x in sizes if isinstance(x, Num)], default=1)
    out: Expr = ir.num(least)
    for x in dict.fromkeys([x for x in sizes if not isinstance(x, Num)]):
        out = ir.Scalar("max", (out, x), I64, I64)
    return out


__all__: list[str] = []
