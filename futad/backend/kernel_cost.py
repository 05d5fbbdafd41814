"""What one launch of a kernel costs, estimated from its statements and the sizes it is given.

Bytes are footprints: of each array the elements that a launch reads or writes count once, however many threads read
them, for caches serve the rest.  An access touches the product of the numbers of iterations of the loops (and
dimensions of the space) that its index depends on, and no more than the array has.  Accesses of one array with the same
index are one; those with different indices are taken to be apart.  Of a branch in a kernel both sides' accesses count,
and the dearer side's operations.

Traffic is what the accesses themselves ask for, each time and each warp for itself, in sectors of 32 bytes: the places
of a warp's 32 threads are computed for one warp in the middle of the launch.  Neighbouring elements take the fewest
sectors; what is beyond those is strided, if the places follow from the indices, or gathered, if they follow from data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from futad.core.scalarops import OPS
from futad.core.types import I64, Prim
from futad.flatten import kernel as kir
from futad.flatten.kernel import Kernel
from futad.imp import ir
from futad.imp.ir import Expr
from futad.imp.views import Mem


class _Unknown:
    def __repr__(self) -> str:
        return "unknown"


UNKNOWN = _Unknown()


@dataclass(slots=True)
class Place:
    """An array's memory: a name, and how many bytes it has."""

    name: str
    bytes: float


Known = Any  # what a kernel is given: a number, UNKNOWN, or a Place


@dataclass(slots=True)
class Cost:
    """Bytes read and written, floating-point operations; bytes of the sectors that warps access, and of those the ones
    that neighbouring elements would not have taken."""

    read: float = 0
    written: float = 0
    flops: float = 0
    traffic: float = 0
    strided: float = 0
    gathered: float = 0

    def add(self, other: Cost) -> None:
        for f in fields(self):
            setattr(self, f.name, getattr(self, f.name) + getattr(other, f.name))

    def copy(self) -> Cost:
        return replace(self)


def is_flop(op: str, arg: Prim) -> bool:
    """Whether a scalar operation counts: one of floating-point arguments with such a result, but for signs and
    selections.  An exponential counts as one."""
    return arg.is_float and OPS[op].flop


_INDEX: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a // b if b else 0,
    "%": lambda a, b: a % b if b else 0,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "in_bounds": lambda a, b: 0 <= a < b,
    "&&": lambda a, b: a and b,
    "||": lambda a, b: a or b,
}


def index(op: str, a: Any, b: Any) -> Any:
    """Index arithmetic on numbers."""
    return _INDEX[op](a, b)


def evaluate(op: str, arg: Prim, args: Sequence[Any]) -> Any:
    """A scalar operation of the table on numbers."""
    with np.errstate(all="ignore"):
        x = OPS[op].eval(*[np.bool_(a) if isinstance(a, (bool, np.bool_)) else arg.dtype.type(a) for a in args])
    return x.item() if hasattr(x, "item") else x


Lanes = Any  # an array of a warp's values, one number for all, or None where data decide
WARP, SECTOR = 32, 32
_LANES = np.arange(WARP, dtype=np.float64)
_SOME = 4096.0  # stands for a number that is the same in all threads, but not known


_LONG = 500  # characters of a value's text


@dataclass(slots=True)
class Value:
    """A scalar in a kernel: its mean over the launch if that is known, whether it is the same everywhere, what loops it
    depends on with their iterations, a text that is the same for equal accesses, and the values in one warp; `drawn`:
    those that data decide, at random."""

    mean: float | None
    deps: dict[str, float]
    key: str
    fixed: bool = False
    lanes: Lanes = _SOME
    drawn: bool = False

    def __post_init__(self) -> None:
        if len(self.key) > _LONG:  # texts of values that are used twice each would double with every operation
            self.key = f"~{hash(self.key):x}"


def _constant(x: Any) -> Value:
    if x is UNKNOWN:
        return Value(None, {}, "?")
    return Value(float(x), {}, f"{float(x):g}", True, float(x))


def _uniform(lanes: Lanes) -> bool:
    return lanes is not None and (isinstance(lanes, float) or bool((lanes == lanes[0]).all()))


def _lanes(op: str, x: Lanes, y: Lanes) -> Lanes:
    """Index arithmetic on a warp's values."""
    if x is None or y is None:
        return None
    with np.errstate(all="ignore"):
        match op:
            case "+":
                return x + y
            case "-":
                return x - y
            case "*":
                return x * y
            case "/":
                return np.floor_divide(x, y) if np.all(y) else 0.0
            case "%":
                return np.mod(x, y) if np.all(y) else 0.0
            case "<" | "lt":
                return (x < y) + 0.0
            case "<=" | "le":
                return (x <= y) + 0.0
            case "==" | "eq":
                return (x == y) + 0.0
            case "!=" | "ne":
                return (x != y) + 0.0
            case "in_bounds":
                return ((x >= 0) & (x < y)) + 0.0
            case "min":
                return np.minimum(x, y)
            case "max":
                return np.maximum(x, y)
            case "&&":
                return x * y
            case "||":
                return np.maximum(x, y)
    return 0.0 if _uniform(x) and _uniform(y) else None


def _chosen(xs: Sequence[Value]) -> Lanes:
    """What a selection gives a warp: nothing is known if data decide."""
    c, x, y = [v.lanes for v in xs]
    if c is None or x is None or y is None:
        return None
    return np.where(c, x, y) if not _uniform(c) else x if np.all(c) else y


_WHOLE = {"add": "+", "sub": "-", "mul": "*", "div": "/", "quot": "/", "mod": "%", "rem": "%",
          **{op: op for op in ("lt", "le", "eq", "ne", "min", "max")}}


def _warp(n: float) -> Lanes:
    """Neighbouring ones of `n` indices, from the middle."""
    return np.minimum(_LANES + WARP * (n // (2 * WARP)), max(n - 1, 0.0))


def _drawn(lanes: Lanes) -> Lanes:
    """What a warp loads from such places: one value from each."""
    return lanes if lanes is None else _SOME if _uniform(lanes) else np.mod(lanes * 1_000_003, 65_521.0) * 64


def _any_lanes(xs: Sequence[Value]) -> Lanes:
    return _SOME if all(_uniform(x.lanes) for x in xs) else None


def estimate(k: Kernel, units: float, known: Mapping[str, Known]) -> Cost:
    """The cost of a launch over that many units."""
    e = _Estimate(units, known)
    e.block(k.body, 1)
    return e.cost()


class _Estimate:
    def __init__(self, units: float, known: Mapping[str, Known]) -> None:
        self.units = units
        self.env: dict[str, Value] = {}
        self.places: dict[str, tuple[Place | None, Value]] = {}
        for name, x in known.items():
            if isinstance(x, Place):
                self.places[name] = x, _constant(0)
            else:
                self.env[name] = _constant(x)
        unit = Value((units - 1) / 2, {"unit": units}, f"[{units:g}]")
        self.env |= {
            "futad_thread": replace(unit, lanes=_warp(units)),
            "futad_threads": _constant(units),
            "futad_block": unit,
            "futad_tid": replace(_constant(0), lanes=_LANES),
            "futad_width": replace(_constant(1), lanes=float(kir.BLOCK_LIMIT)),
        }
        self.threads = 1.0  # of a warp that do the statements at hand
        self.sectors = Cost()
        self.loops: dict[str, float] = {}
        self.touched: dict[tuple[str, bool], dict[str, float]] = {}
        self.limits: dict[str, float] = {}
        self.flops = 0.0

    def cost(self) -> Cost:
        out = replace(self.sectors, flops=self.flops)
        for (name, written), accesses in self.touched.items():
            moved = min(sum(accesses.values()), self.limits[name])
            out.add(Cost(0, moved, 0) if written else Cost(moved, 0, 0))
        return out

    # -- expressions

    def value(self, e: Expr, times: float) -> Value:
        """The value of an expression that is evaluated that often."""
        match e:
            case ir.Num(x):
                return _constant(x)
            case ir.Ref(name):
                return self.env.get(name, Value(None, dict(self.loops), name))
            case ir.Bin(op, a, b):
                return self.binary(op, self.value(a, times), self.value(b, times))
            case ir.Load(p, i, t):
                at = self.value(i, times)
                self.access(p, at, t, False, times)
                drawn = not _uniform(at.lanes)
                return Value(None, dict(at.deps), f"{p}[{at.key}]", lanes=_drawn(at.lanes), drawn=drawn)
            case ir.Scalar(op, args, arg):
                if is_flop(op, arg):
                    self.flops += times
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
                    return Value(mean, deps, key, fixed, mean if fixed else _any_lanes(xs))
                if op == "to_i64":
                    return Value(xs[0].mean, deps, xs[0].key, xs[0].fixed, xs[0].lanes, xs[0].drawn)
                if op == "select":
                    return Value(None, deps, key, lanes=_chosen(xs), drawn=any(x.drawn for x in xs))
                if arg is I64 and op in _WHOLE:
                    lanes = _lanes(_WHOLE[op], xs[0].lanes, xs[1].lanes)
                    return Value(None, deps, key, lanes=lanes, drawn=xs[0].drawn or xs[1].drawn)
                return Value(None, deps, key, lanes=_any_lanes(xs))
        return Value(None, dict(self.loops), "?")

    def binary(self, op: str, x: Value, y: Value) -> Value:
        out = self.mean_of(op, x, y)
        out.lanes = out.mean if out.fixed else _lanes(op, x.lanes, y.lanes)
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
        place, offset = self.places.get(pointer, (None, _constant(0)))
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
        place, offset = self.places.get(pointer, (None, _constant(0)))
        if place is not None:
            at = Value(None, {key: count}, f"{key}[{count:g}]")
            self.touch(place, self.binary("+", offset, at), t.bytes, written)
            self.sectors.traffic += count * t.bytes * repeats

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
                self.flops += times if s.value.type.is_float else 0
            case ir.Store(p, i, value, op):
                self.value(value, times)
                at = self.value(i, times)
                self.access(p, at, s.value.type, True, times)
                if op is not None:
                    self.access(p, at, s.value.type, False, times)
                    self.flops += times if s.value.type.is_float else 0
            case kir.Atomic(p, i, value):
                self.value(value, times)
                at = self.value(i, times)
                self.access(p, at, s.value.type, True, times)
                self.access(p, at, s.value.type, False, times)
                self.flops += times if s.value.type.is_float else 0
            case ir.Pointer(name, base=base, offset=offset):
                if base is None:
                    self.places[name] = None, _constant(0)
                    return
                place, before = self.places.get(base, (None, _constant(0)))
                self.places[name] = place, self.binary("+", before, self.value(offset, times))
            case ir.SetPointer(name, base):
                self.places[name] = self.places.get(base, (None, _constant(0)))
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
            case kir.Stride(var, start, bound, _, body):
                first = _constant(0) if isinstance(start, str) else self.value(start, times)
                last = self.value(bound, times)
                if isinstance(start, str) and ("tid" in start or "thread" in start):
                    first.lanes = _warp(last.mean or WARP)
                outside = self.threads
                if not _uniform(first.lanes):
                    self.threads = float(min(WARP, max(1, (last.mean or WARP) - (first.mean or 0))))
                self.loop(var, first, last, body, times)
                self.threads = outside
                for made in s.after:
                    elements = times * (last.mean or 0) * len(made.values)
                    self.whole(made.pointer, elements, made.values[0].type, True, f"rows {made.pointer}")
            case ir.If(cond, then, orelse):
                c = self.value(cond, times)
                if c.fixed:
                    self.block(then if c.mean else orelse, times)
                    return
                start_flops = self.flops
                self.block(then, times)
                one, self.flops = self.flops, start_flops
                self.block(orelse, times)
                self.flops = max(one, self.flops)
            case ir.While(cond, body):
                self.value(cond, times)
                self.block(body, times)
            case kir.Tile():
                self.tile(s, times)
            case kir.ByWarps(var, bound, body):
                self.loop(var, _constant(0), self.value(bound, times), body, times)
            case kir.Together():
                pass  # little beside what is combined
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
                self.flops += times if s.value.type.is_float else 0
            case kir.ScanAll():
                total = self.value(s.total, times).mean or 0
                for f in (s.element, s.put):
                    self.function(f, total)
                self.block(s.operator.body, 2 * total)
            case ir.Gemm(sizes=sizes, a=a, b=b, c=c):
                rows, columns, depth = [self.value(x, times).mean or 1 for x in sizes]
                self.flops += 2 * rows * columns * depth * times
                shapes = ((a, rows * depth, False), (b, depth * columns, False), (c, rows * columns, True))
                for (p, *_), size, written in shapes:
                    at = Value(None, self.loops | {f"gemm {id(s)}": size}, f"{p}[{size:g}]", lanes=None)
                    self.access(p, at, s.elem, written, times * size)
            case _:
                for inner in s.bodies():
                    self.block(inner, times)

    def loop(self, var: str, start: Value, bound: Value, body: Sequence[ir.Stmt], times: float) -> None:
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
        if s.step is None:
            self.flops += 2 * products
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
        self.env[at] = Value((iterations - 1) / 2, {at: iterations}, f"[{iterations:g}]", lanes=_warp(iterations))
        self.loops[at] = iterations
        before, self.threads = self.threads, float(min(WARP, max(1.0, iterations)))
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
            self.env[name] = Value((n - 1) / 2, {name: n}, f"[{n:g}]", lanes=_warp(n) if name == along else _SOME)
            self.loops[name] = n
            times *= n
        before, self.threads = self.threads, float(min(WARP, max(1.0, iterations[along])))
        self.block(body, times)
        for x in values:
            self.value(x, times)
        self.threads = before
        for name in iterations:
            del self.loops[name]
