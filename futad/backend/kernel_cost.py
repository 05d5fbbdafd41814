"""What one launch of a kernel costs, estimated from its statements and the sizes it is given.

Bytes are footprints: of each array the elements that a launch reads or writes count once, however many threads read
them, for caches serve the rest.  An access touches the product of the numbers of iterations of the loops (and
dimensions of the space) that its index depends on, and no more than the array has.  Accesses of one array with the same
index are one; those with different indices are taken to be apart.  Of a branch in a kernel both sides' accesses count,
and the dearer side's operations.

Traffic is what the accesses themselves ask for, each time and each warp for itself, in sectors of 32 bytes: the places
of a warp's 32 threads are computed for one warp in the middle of the launch.  Neighbouring elements take the fewest
sectors; what is beyond those is strided, if the places follow from the indices, or gathered, if they follow from data.

Steps are what one thread does one after another: accesses of memory, floating-point operations and barriers.  Of a loop
whose end is not known from sizes one iteration counts.  Updates at once (`Atomic`) are counted one by one, and how many
of them meet at a place, which a card does one after another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from futad.backend.kernel_lanes import (
    LANES,
    SECTOR,
    SOME,
    WARP,
    WHOLE,
    Value,
    any_lanes,
    chosen,
    constant,
    drawn_lanes,
    evaluate,
    index,
    neighbours,
    uniform,
    warp_lanes,
)
from futad.core.scalarops import OPS
from futad.core.types import I64, Prim
from futad.flatten import kernel as kir
from futad.flatten.kernel import Kernel
from futad.imp import ir
from futad.imp.ir import Expr
from futad.imp.views import Mem


@dataclass(slots=True)
class Place:
    """An array's memory: a name, and how many bytes it has."""

    name: str
    bytes: float


Known = Any  # what a kernel is given: a number, UNKNOWN, or a Place


@dataclass(slots=True)
class Cost:
    """Bytes read and written, floating-point operations; bytes of the sectors that warps access, and of those the ones
    that neighbouring elements would not have taken; steps of a thread; updates at once, and those of one place."""

    read: float = 0
    written: float = 0
    flops: float = 0
    traffic: float = 0
    strided: float = 0
    gathered: float = 0
    steps: float = 0
    atomics: float = 0
    meet: float = 0

    def add(self, other: Cost) -> None:
        for f in fields(self):
            setattr(self, f.name, getattr(self, f.name) + getattr(other, f.name))

    def copy(self) -> Cost:
        return replace(self)


def is_flop(op: str, arg: Prim) -> bool:
    """Whether a scalar operation counts: one of floating-point arguments with such a result, but for signs and
    selections.  An exponential counts as one."""
    return arg.is_float and OPS[op].flop


def estimate(k: Kernel, units: float, known: Mapping[str, Known], launched: tuple[int, int]) -> Cost:
    """The cost of a launch over that many units, by so many blocks of so many threads."""
    e = _Estimate(k.kind, units, known, launched)
    e.block(k.body, 1)
    return e.cost()


class _Estimate:
    def __init__(self, kind: str, units: float, known: Mapping[str, Known], launched: tuple[int, int]) -> None:
        self.units = units
        blocks, width = launched
        self.all = float(blocks * width)  # threads
        if kind == "warp":
            blocks, width = blocks * width // WARP, WARP
        self.share = {"futad_threads": self.all, "futad_blocks": float(blocks), "futad_width": float(width)}
        self.own = 1.0  # times that one thread does the statements at hand
        self.steps = 0.0
        self.updates: dict[str, list[tuple[float, float]]] = {}  # at once, of an array: how many, at how many places
        self.env: dict[str, Value] = {}
        self.places: dict[str, tuple[Place | None, Value]] = {}
        for name, x in known.items():
            if isinstance(x, Place):
                self.places[name] = x, constant(0)
            else:
                self.env[name] = constant(x)
        unit = Value((units - 1) / 2, {"unit": units}, f"[{units:g}]")
        self.env |= {
            "futad_thread": replace(unit, lanes=neighbours(units)),
            "futad_threads": constant(units),
            "futad_block": unit,
            "futad_tid": replace(constant(0), lanes=LANES),
            "futad_width": replace(constant(1), lanes=float(kir.BLOCK_LIMIT)),
        }
        self.threads = 1.0  # of a warp that do the statements at hand
        self.sectors = Cost()
        self.loops: dict[str, float] = {}
        self.touched: dict[tuple[str, bool], dict[str, float]] = {}
        self.limits: dict[str, float] = {}
        self.elements: dict[str, float] = {}
        self.flops = 0.0

    def cost(self) -> Cost:
        out = replace(self.sectors, flops=self.flops, steps=self.steps)
        for (name, made) in self.updates.items():
            elements = self.elements[name]
            out.atomics += sum(n for n, _ in made)
            out.meet = max(out.meet, sum(n / min(max(1.0, places), elements) for n, places in made))
        for (name, written), accesses in self.touched.items():
            moved = min(sum(accesses.values()), self.limits[name])
            out.add(Cost(0, moved, 0) if written else Cost(moved, 0, 0))
        return out

    def count(self, times: float) -> None:
        """Floating-point operations of all threads, of which one does `own`."""
        self.flops += times
        self.steps += self.own

    @contextmanager
    def repeated(self, iterations: float) -> Iterator[None]:
        """Statements that a thread does that often."""
        before = self.own
        self.own *= iterations
        yield
        self.own = before

    # -- expressions

    def value(self, e: Expr, times: float) -> Value:
        """The value of an expression that is evaluated that often."""
        match e:
            case ir.Num(x):
                return constant(x)
            case ir.Ref(name):
                return self.env.get(name, Value(None, dict(self.loops), name))
            case ir.Bin(op, a, b):
                return self.binary(op, self.value(a, times), self.value(b, times))
            case ir.Load(p, i, t):
                at = self.value(i, times)
                self.access(p, at, t, False, times)
                drawn = not uniform(at.lanes)
                return Value(None, dict(at.deps), f"{p}[{at.key}]", lanes=drawn_lanes(at.lanes), drawn=drawn)
            case ir.Scalar(op, args, arg):
                if is_flop(op, arg):
                    self.count(times)
                xs = [self.value(a, times) for a in args]
                deps = {k: n for x in xs for k, n in x.deps.items()}
                key = f"{op}({', '.join(x.key for x in xs)})"
                if all(x.mean is not None for x in xs) and (all(x.fixed for x in xs) or op in ("min", "max")):
                    kind = I64 if arg is I64 and not all(x.mean == int(x.mean or 0) for x in xs) else arg
                    means = [x.mean for x in xs if x.mean is not None]
                    if kind is I64 and op in ("min", "max"):
                        mean = min(means) if op == "min" else max(means)
                    else:
                        mean = float(evaluate(op, arg, means))
                    fixed = all(x.fixed for x in xs)
                    return Value(mean, deps, key, fixed, mean if fixed else any_lanes(xs))
                if op == "to_i64":
                    return Value(xs[0].mean, deps, xs[0].key, xs[0].fixed, xs[0].lanes, xs[0].drawn)
                if op == "select":
                    return Value(None, deps, key, lanes=chosen(xs), drawn=any(x.drawn for x in xs))
                if arg is I64 and op in WHOLE:
                    lanes = warp_lanes(WHOLE[op], xs[0].lanes, xs[1].lanes)
                    return Value(None, deps, key, lanes=lanes, drawn=xs[0].drawn or xs[1].drawn)
                return Value(None, deps, key, lanes=any_lanes(xs))
        return Value(None, dict(self.loops), "?")

    def binary(self, op: str, x: Value, y: Value) -> Value:
        out = self.mean_of(op, x, y)
        out.lanes = out.mean if out.fixed else warp_lanes(op, x.lanes, y.lanes)
        out.drawn = x.drawn or y.drawn
        return out

    def mean_of(self, op: str, x: Value, y: Value) -> Value:
        deps = x.deps | y.deps
        a, b = sorted((x.key, y.key)) if op in "+*" else (x.key, y.key)
        key = f"({a}{op}{b})"
        if x.mean is None or y.mean is None:
            return Value(None, deps, key)
        if x.fixed and y.fixed:
            return Value(float(index(op, x.mean, y.mean)), deps, f"{float(index(op, x.mean, y.mean)):g}", True)
        split = next(iter(x.deps.items())) if len(x.deps) == 1 and y.fixed and y.mean else None
        if op in "/%" and split is not None and x.key == f"[{split[1]:g}]":
            # One loop as two: the index of a point.
            (name, iterations), n = split, y.mean
            if op == "%":
                n = min(n, iterations)
                return Value((n - 1) / 2, {f"{name}%{n:g}": n}, f"[{n:g}]")
            n = -(-iterations // n)
            return Value((n - 1) / 2, {f"{name}/{n:g}": n}, f"[{n:g}]")
        if op == "/":
            return Value(x.mean / y.mean if y.mean else 0, deps, key)
        if op in "+-*":
            return Value(float(index(op, x.mean, y.mean)), deps, key)
        return Value(None, deps, key)

    # -- memory

    def access(self, pointer: str, at: Value, t: Prim, written: bool, times: float) -> None:
        self.steps += self.own
        place, offset = self.places.get(pointer, (None, constant(0)))
        if place is None:
            return
        at = self.binary("+", offset, at)
        self.touch(place, at, t.bytes, written)
        warps = times / self.threads
        if at.lanes is None:
            taken, least = self.threads, self.threads * t.bytes / SECTOR
        else:
            places = np.unique(np.broadcast_to(at.lanes, WARP) * t.bytes)
            taken, least = float(len(np.unique(places // SECTOR))), len(places) * t.bytes / SECTOR
        self.sectors.traffic += warps * taken * SECTOR
        # One sector more than the fewest is where a row starts in the middle of one.
        beyond = warps * max(0.0, taken - float(np.ceil(least)) - 1) * SECTOR
        if at.lanes is None or at.drawn:
            self.sectors.gathered += beyond
        else:
            self.sectors.strided += beyond

    def whole(self, pointer: str, count: float, t: Prim, written: bool, key: str, repeats: float = 1) -> None:
        """An array read or written by neighbouring threads in order, that often."""
        place, offset = self.places.get(pointer, (None, constant(0)))
        if place is not None:
            at = Value(None, {key: count}, f"{key}[{count:g}]")
            self.touch(place, self.binary("+", offset, at), t.bytes, written)
            self.sectors.traffic += count * t.bytes * repeats

    def at_once(self, pointer: str, at: Value, t: Prim, times: float) -> None:
        """Updates of an array at once."""
        place, offset = self.places.get(pointer, (None, constant(0)))
        if place is not None:
            places = float(np.prod([*self.binary("+", offset, at).deps.values()]))
            self.updates.setdefault(place.name, []).append((times, places))
            self.elements[place.name] = place.bytes / t.bytes if place.bytes else float("inf")

    def touch(self, place: Place, at: Value, size: float, written: bool) -> None:
        count = size
        for n in at.deps.values():
            count *= n
        self.limits[place.name] = place.bytes if place.bytes else float("inf")
        accesses = self.touched.setdefault((place.name, written), {})
        accesses[at.key] = max(accesses.get(at.key, 0), count)

    # -- statements

    def block(self, body: Sequence[ir.Stmt], times: float) -> None:
        for s in body:
            self.stmt(s, times)

    def stmt(self, s: ir.Stmt, times: float) -> None:
        env = self.env
        match s:
            case ir.Decl(name, init=init, mutable=mutable):
                v = Value(None, {}, name) if init is None else self.value(init, times)
                env[name] = Value(None, dict(self.loops), name) if mutable else v
            case ir.Assign(name, value):
                self.value(value, times)
            case ir.Accumulate(name, op, value):
                v = self.value(value, times)
                if s.value.type.is_float:
                    self.count(times)
            case ir.Store(p, i, value, op):
                self.value(value, times)
                at = self.value(i, times)
                self.access(p, at, s.value.type, True, times)
                if op is not None:
                    self.access(p, at, s.value.type, False, times)
                    if s.value.type.is_float:
                        self.count(times)
            case kir.Atomic(p, i, value):
                self.value(value, times)
                at = self.value(i, times)
                self.at_once(p, at, s.value.type, times)
                self.access(p, at, s.value.type, True, times)
                self.access(p, at, s.value.type, False, times)
                if s.value.type.is_float:
                    self.count(times)
            case ir.Pointer(name, base=base, offset=offset):
                if base is None:
                    self.places[name] = None, constant(0)
                    return
                place, before = self.places.get(base, (None, constant(0)))
                self.places[name] = place, self.binary("+", before, self.value(offset, times))
            case ir.SetPointer(name, base):
                self.places[name] = self.places.get(base, (None, constant(0)))
            case ir.Copy(a, i, b, j, n, elem):
                count = self.value(n, times)
                iterations = count.mean or 1
                for p, offset, written in ((b, j, False), (a, i, True)):
                    at = self.value(offset, times)
                    deps = at.deps | {f"copy {id(s)}": iterations}
                    at = Value(at.mean, deps, f"{at.key}+[{iterations:g}]", lanes=at.lanes)
                    self.access(p, at, elem, written, times * iterations)
            case ir.Check(cond):
                self.value(cond, times)
            case ir.For(var, bound, body, start):
                self.loop(var, self.value(start, times), self.value(bound, times), body, times)
            case kir.Stride(var, start, bound, step, body):
                first = constant(0) if isinstance(start, str) else self.value(start, times)
                last = self.value(bound, times)
                if isinstance(start, str) and ("tid" in start or "thread" in start):
                    first.lanes = neighbours(last.mean or WARP)
                outside = self.threads
                if not uniform(first.lanes):
                    self.threads = float(min(WARP, max(1, (last.mean or WARP) - (first.mean or 0))))
                self.loop(var, first, last, body, times, self.share[step])
                self.threads = outside
                for made in s.after:
                    elements = times * (last.mean or 0) * len(made.values)
                    self.whole(made.pointer, elements, made.values[0].type, True, f"rows {made.pointer}")
            case ir.If(cond, then, orelse):
                c = self.value(cond, times)
                if c.fixed:
                    self.block(then if c.mean else orelse, times)
                    return
                flops, steps = self.flops, self.steps
                self.block(then, times)
                one, self.flops, self.steps = (self.flops, self.steps), flops, steps
                self.block(orelse, times)
                self.flops, self.steps = max(one[0], self.flops), max(one[1], self.steps)
            case ir.While(cond, body):
                self.value(cond, times)
                self.block(body, times)
            case kir.Tile():
                self.tile(s, times)
            case kir.ByWarps(var, bound, body):
                width = self.share["futad_width"]
                self.share["futad_width"] = float(WARP)
                self.loop(var, constant(0), self.value(bound, times), body, times, width / WARP)
                self.share["futad_width"] = width
            case kir.Sync() | kir.Stop() | kir.Together():
                self.steps += self.own  # and little beside what is combined
            case kir.Transpose():
                matrix = (self.value(s.rows, times).mean or 0) * (self.value(s.columns, times).mean or 0)
                for p, written in ((s.source, False), (s.target, True)):
                    self.whole(p, matrix, s.elem, written, f"transposition {p}")
            case kir.RadixStep():
                self.radix(s)
            case kir.SubHist():
                self.sub_hist(s)
            case kir.SharedUpdate(_, i, value):
                self.value(i, times)
                self.value(value, times)
                if s.value.type.is_float:
                    self.count(times)
            case kir.ScanAll():
                total = self.value(s.total, times).mean or 0
                for f in (s.element, s.put):
                    self.function(f, total)
                self.block(s.operator.body, 2 * total)
            case ir.Gemm(sizes=sizes, a=a, b=b, c=c):
                rows, columns, depth = [self.value(x, times).mean or 1 for x in sizes]
                self.flops += 2 * rows * columns * depth * times
                self.steps += 2 * rows * columns * depth * self.own
                shapes = ((a, rows * depth, False), (b, depth * columns, False), (c, rows * columns, True))
                for (p, *_), size, written in shapes:
                    at = Value(None, self.loops | {f"gemm {id(s)}": size}, f"{p}[{size:g}]", lanes=None)
                    self.access(p, at, s.elem, written, times * size)
            case _:
                for inner in s.bodies():
                    self.block(inner, times)

    def loop(
        self, var: str, start: Value, bound: Value, body: Sequence[ir.Stmt], times: float, sharers: float = 1
    ) -> None:
        """A loop, whose iterations so many threads share."""
        iterations = 1.0
        mean = None
        if start.mean is not None and bound.mean is not None:
            iterations = max(0.0, bound.mean - start.mean)
            mean = (start.mean + bound.mean - 1) / 2
        if iterations == 0:
            return
        deps = start.deps | {var: iterations}
        key = f"({start.key}+[{iterations:g}])" if start.key != "0" else f"[{iterations:g}]"
        self.env[var] = Value(mean, deps, key, lanes=start.lanes)
        self.loops[var] = iterations
        with self.repeated(max(1.0, iterations / sharers)):
            self.block(body, times * iterations)
        del self.loops[var]

    def radix(self, s: kir.RadixStep) -> None:
        """A step of a sort; elements that are moved go to memory in runs, for a tile has several of a digit."""
        arrays = [x for x in s.args if isinstance(x, Mem)]
        size = next(self.value(x, 1).mean or 0 for x in s.args if not isinstance(x, Mem))
        tiles = size if s.step == "scan" else -(-size // (kir.TILE_THREADS * s.items))
        keys, counts = [x for x in arrays if x.elem is I64], next(x for x in arrays if x.elem is not I64)
        for k, x in enumerate(keys):
            self.whole(x.pointer, size, x.elem, k > 1, "keys")
        for written in {"count": (True,), "scan": (False, True), "scatter": (False,)}[s.step]:
            self.whole(counts.pointer, kir.RADIX_DIGITS * tiles, counts.elem, written, "counts")

    def tile(self, s: kir.Tile, times: float) -> None:
        m, n, k = [self.value(x, times).mean or 0 for x in s.sizes]
        batches = self.value(s.batches, times).mean or 0
        splits = self.value(s.splits, times).mean or 1
        products = m * n * k * batches * times
        with self.repeated(max(1.0, products / self.all)):
            if s.step is None:
                self.count(2 * products)
            else:
                self.block(s.step.body, products)
                for made in s.step.results:
                    self.value(made, products)
        across, down = -(-n // s.shape[1]), -(-m // s.shape[0])
        a, b, c = s.a, s.b, s.c
        for x, rows, columns, repeats in ((a, m, k, across), (b, k, n, down), (c, m, n, splits)):
            if isinstance(x, kir.Functor):
                # Once for each tile that loads it.
                self.functor(x, {x.args[0]: batches, x.args[1]: rows, x.args[2]: columns}, repeats)
                continue
            count = rows * columns * (1 if self.value(x.steps[0], times).mean == 0 else batches)
            key = f"tile {x.pointer}"
            self.whole(x.pointer, count, s.elem, x is c, key, repeats)
            if x is c and s.accumulate:
                self.flops += m * n * batches
                self.whole(x.pointer, count, s.elem, False, key)
        if s.folds is not None:
            self.block(s.folds.operator.body, m * n * batches)
            for made in s.folds.operator.results:
                self.value(made, m * n * batches)
            places = [p.name for p in s.folds.put.params[:3]]
            self.points(s.folds.put.body, (), dict(zip(places, (batches, m, across), strict=True)), places[1], 1)
        if s.sums is not None:
            self.flops += m * k * batches
            self.functor(s.sums, {s.sums.args[0]: batches * splits, s.sums.args[1]: m}, 1)

    def sub_hist(self, s: kir.SubHist) -> None:
        total = self.value(s.total, 1).mean or 0
        if s.rows is None:
            self.function(s.update, total)
        else:
            columns, width = [self.value(x, 1).mean or 0 for x in (s.rows.columns, s.rows.width)]
            self.function(s.rows.before, total)
            for f, across in ((s.rows.load, columns), (s.update, width)):
                i, j = [p.name for p in f.params[:2]]
                self.points(f.body, f.results, {i: total, j: across}, j, 1)
        for bins, target in zip(s.bins, s.targets, strict=True):
            for written in (True, False):
                self.whole(target, self.value(bins, 1).mean or 0, s.neutral.type, written, "bins")

    def function(self, f: kir.Function, iterations: float) -> None:
        """A function that is called with each index once."""
        at = f.params[0].name
        self.env[at] = Value((iterations - 1) / 2, {at: iterations}, f"[{iterations:g}]", lanes=neighbours(iterations))
        self.loops[at] = iterations
        before, self.threads = self.threads, float(min(WARP, max(1.0, iterations)))
        with self.repeated(max(1.0, iterations / self.all)):
            self.block(f.body, iterations)
            for x in f.results:
                self.value(x, iterations)
        self.threads = before
        del self.loops[at]

    def functor(self, f: kir.Functor, iterations: dict[str, float], repeats: float) -> None:
        # Of a result the threads of a warp run along rows.
        self.points(f.body, f.values, iterations, list(iterations)[min(1 + f.inner, len(iterations) - 1)], repeats)

    def points(
        self, body: Sequence[ir.Stmt], values: Sequence[Expr], iterations: dict[str, float], along: str, repeats: float
    ) -> None:
        """Statements at each point of a space, that often, the threads of a warp side by side in one dimension."""
        times = repeats
        for name, n in iterations.items():
            self.env[name] = Value((n - 1) / 2, {name: n}, f"[{n:g}]", lanes=neighbours(n) if name == along else SOME)
            self.loops[name] = n
            times *= n
        before, self.threads = self.threads, float(min(WARP, max(1.0, iterations[along])))
        with self.repeated(max(1.0, times / self.all)):
            self.block(body, times)
            for x in values:
                self.value(x, times)
        self.threads = before
        for name in iterations:
            del self.loops[name]
