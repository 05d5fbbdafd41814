"""What a call costs on a device, counted from sizes alone: launches, bytes moved, floating-point operations.

The host code is walked with the sizes in place of arrays; what it launches is estimated by `kernel_cost.py`.  Rules:

- A scalar that is computed on the device is unknown.  Of a branch on it the side that moves more is counted, of a
  loop one iteration; `Account.notes` says so.
- A launch is a kernel, or a copy or fill of memory that the host orders.
- The least bytes are those of the parameters that are used and of the results, each once.  The least operations are
  those of the program after all passes, each done once as it is written there (`work`): kernels that repeat some for
  every thread do more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from futad.backend.kernel_cost import Cost, Known, Place, estimate, is_flop
from futad.backend.kernel_lanes import UNKNOWN, evaluate, index
from futad.core import ir as core
from futad.core.types import ArrayType, Atom, Const, Prim, Var, elem_of, prim_of, shape_of
from futad.errors import UsageError
from futad.flatten import kernel as kir
from futad.flatten.kernel import DeviceModule
from futad.imp import ir
from futad.imp.ir import Expr
from futad.imp.walk import statements
from futad.runtime.device import card_limits, chunks, grid

PROCESSORS = 132
"""Multiprocessors of the card that is counted for (an H100)."""

LIMITS = card_limits(PROCESSORS)
THRESHOLDS = {name.upper(): n for name, n in LIMITS.thresholds._asdict().items()}


Value = Any  # a NumPy scalar or int, UNKNOWN, or a Place


@dataclass(slots=True)
class Row:
    """What all launches of one kernel cost; `blocks` and `threads` are how many the smallest of them has (0: it is no
    kernel)."""

    name: str
    what: str
    line: int
    launches: int = 0
    blocks: int = 0
    threads: int = 0
    cost: Cost = field(default_factory=Cost)


@dataclass(slots=True)
class Account:
    """What a call costs; `least` are bytes and operations."""

    rows: dict[str, Row]
    least: tuple[float, float]
    notes: list[str]

    @property
    def launches(self) -> int:
        return sum(r.launches for r in self.rows.values())

    @property
    def transposes(self) -> int:
        """Launches of copies that only change an array's layout."""
        return sum(r.launches for r in self.rows.values() if r.what.startswith("transpos"))

    @property
    def total(self) -> Cost:
        out = Cost()
        for r in self.rows.values():
            out.add(r.cost)
        return out

    def table(self) -> str:
        """One line a kernel, then the totals beside the least possible."""
        lines = [
            f"{'kernel':<22} {'line':>5} {'launches':>8} {'blocks':>7} {'threads':>8} {'steps':>8} {'read':>10} "
            f"{'written':>10} {'flops':>10} {'traffic':>10} {'strided':>8} {'gathered':>8} {'at once':>8} {'meet':>8}"
            "  what"
        ]
        for r in self.rows.values():
            c = r.cost
            lines.append(
                f"{r.name:<22} {r.line or '':>5} {r.launches:>8} {r.blocks or '-':>7} {r.threads or '-':>8} "
                f"{_short(c.steps):>8} {_short(c.read):>10} {_short(c.written):>10} {_short(c.flops):>10} "
                f"{_short(c.traffic):>10} {_share(c.strided, c.traffic):>8} {_share(c.gathered, c.traffic):>8} "
                f"{_short(c.atomics) if c.atomics else '-':>8} {_short(c.meet) if c.meet else '-':>8}  {r.what}"
            )
        t = self.total
        nbytes, flops = self.least
        lines += [
            "",
            f"launches {self.launches}, of which transposing copies {self.transposes}",
            f"bytes    {_short(t.read + t.written):>10}, parameters and results once {_short(nbytes):>10}: "
            f"{_ratio(t.read + t.written, nbytes)}",
            f"flops    {_short(t.flops):>10}, the program's, each once      {_short(flops):>10}: "
            f"{_ratio(t.flops, flops)}",
            f"traffic  {_short(t.traffic):>10}, of sectors that only strided accesses take "
            f"{_share(t.strided, t.traffic)}, gathered ones {_share(t.gathered, t.traffic)}",
            f"steps    {_short(t.steps):>10} one after another, of the threads that have most of each launch: "
            "accesses, operations, barriers",
            f"at once  {_short(t.atomics):>10} updates, {_short(t.meet)} of one place",
            *[f"note: {n}" for n in self.notes],
        ]
        return "\n".join(lines) + "\n"


def _short(x: float) -> str:
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if x >= size:
            return f"{x / size:.2f} {unit}"
    return f"{x:.0f}"


def _share(x: float, whole: float) -> str:
    return f"{100 * x / whole:.0f}%" if whole else "-"


def _ratio(x: float, least: float) -> str:
    return f"{x / least:.2f} times" if least else "-"


def count(module: DeviceModule, program: core.Program, name: str, sizes: Mapping[str, int]) -> Account:
    """The cost of one call of a function.

    `sizes` names sizes and integer parameters as the source does.  Raises UsageError if one is missing.
    """
    fun = program.funs[name]
    made = next(f for f in module.functions if f.name == name)
    values = _parameters(fun, sizes)
    walker = _Host(module)
    for p, v, x in zip(made.params, fun.body.params, values, strict=True):
        walker.env[p.name] = Place(p.name, _bytes(v, values, fun)) if p.rank else x
    walker.block(made.body)
    env: dict[Var, Value] = dict(zip(fun.body.params, values, strict=True))
    used = _used(fun.body)
    nbytes = sum(_bytes(p, values, fun) for p in fun.body.params if isinstance(p.type, ArrayType) and p in used)
    flops = work(fun.body, env, program)
    for a in fun.body.result:
        nbytes += elem_of(a.type).bytes * _product([_size(s, env) for s in shape_of(a.type)])
    return Account(walker.rows, (nbytes, flops), list(dict.fromkeys(walker.notes)))


def _used(lam: core.Lambda) -> set[Var]:
    out = {a for a in lam.result if isinstance(a, Var)}
    for s in lam.stms:
        out |= set(core.stm_free(s))
    return out


def _parameters(fun: core.Fun, sizes: Mapping[str, int]) -> list[Value]:
    """Values of all parameters: sizes and known integers as numbers, other scalars unknown, arrays None."""
    named = [p for p in fun.body.params[: fun.num_sizes]]
    integers = [p for p in fun.body.params[fun.num_sizes :] if isinstance(p.type, Prim) and p.type.is_integral]
    missing = [p.name for p in named if p.name not in sizes]
    if missing:
        hint = "--size " + ",".join(f"{m}=..." for m in missing)
        raise UsageError(f"sizes are missing: {', '.join(missing)}", hint=hint)
    extra = set(sizes) - {p.name for p in (*named, *integers)}
    if extra:
        there = ", ".join(p.name for p in named)
        raise UsageError(f"nothing has the size {', '.join(sorted(extra))}; there are: {there}")
    out: list[Value] = []
    for p in fun.body.params:
        if isinstance(p.type, ArrayType):
            out.append(None)
        elif p.name in sizes and isinstance(p.type, Prim) and p.type.is_integral:
            out.append(int(sizes[p.name]))
        else:
            out.append(UNKNOWN)
    return out


def _bytes(p: Var, values: Sequence[Value], fun: core.Fun) -> float:
    if not isinstance(p.type, ArrayType):
        return 0
    known = dict(zip(fun.body.params, values, strict=True))
    return p.type.elem.bytes * _product([_size(s, known) for s in p.type.shape])


def _size(a: Atom, env: Mapping[Var, Value]) -> float:
    x = a.value if isinstance(a, Const) else env.get(a, UNKNOWN)
    return 0 if x is UNKNOWN else float(x)


def _product(xs: Sequence[float]) -> float:
    out = 1.0
    for x in xs:
        out *= x
    return out


# --- the least operations ---------------------------------------------------------------------------------------------


def work(lam: core.Lambda, env: dict[Var, Value], program: core.Program) -> float:
    """Floating-point operations of a scope done once as written.  Of a branch the dearer side counts, of a loop whose
    iterations are unknown one iteration; a product of m x k and k x n matrices counts 2 m k n."""
    total = 0.0
    for stm in lam.stms:
        e = stm.exp
        match e:
            case core.Op(op):
                if is_flop(op, prim_of(e.args[0])):
                    total += 1
                if prim_of(stm.pat[0]).is_integral:
                    env[stm.pat[0]] = _integer(e, env)
            case core.MatMul():
                (m, k), (_, n) = shape_of(e.a.type), shape_of(e.b.type)
                total += 2 * _size(m, env) * _size(k, env) * _size(n, env)
                total += _size(m, env) * _size(n, env) if e.plus else 0
            case core.Alias(a):
                if isinstance(stm.pat[0].type, Prim):
                    env[stm.pat[0]] = a.value if isinstance(a, Const) else env.get(a, UNKNOWN)
            case core.If():
                total += max(work(inner, env, program) for inner in e.lambdas())
            case core.For(bound):
                total += _size(bound, env) * work(e.body, env, program)
            case core.Hist():
                total += _size(e.width, env) * _product([_size(s, env) for s in shape_of(e.values[0].type)[1:]])
            case core.UpdateAcc():
                total += _product([_size(s, env) for s in shape_of(e.value.type)])
            case core.Call(name):
                callee = program.funs[name]
                known = {p: _known(a, env) for p, a in zip(callee.body.params, e.args, strict=True)}
                total += work(callee.body, known, program)
            case _:
                width = _size(e.width, env) if isinstance(e, core.Soac) else 1
                total += width * sum(work(inner, env, program) for inner in e.lambdas())
    return total


def _known(a: Atom, env: Mapping[Var, Value]) -> Value:
    return a.value if isinstance(a, Const) else env.get(a, UNKNOWN)


def _integer(e: core.Op, env: Mapping[Var, Value]) -> Value:
    args = [_known(a, env) for a in e.args]
    return UNKNOWN if any(x is UNKNOWN for x in args) else evaluate(e.op, prim_of(e.args[-1]), args)


# --- the host code ----------------------------------------------------------------------------------------------------

class _Host:
    """Walks the host code."""

    def __init__(self, module: DeviceModule) -> None:
        self.env: dict[str, Value] = dict(THRESHOLDS)
        self.rows: dict[str, Row] = {}
        self.notes: list[str] = []
        self.seen: dict[Any, Cost] = {}
        self.module = module

    def value(self, e: Expr) -> Value:
        match e:
            case ir.Num(v):
                return v
            case ir.Ref(name):
                return self.env.get(name, UNKNOWN)
            case ir.Bin(op, a, b):
                x, y = self.value(a), self.value(b)
                return UNKNOWN if x is UNKNOWN or y is UNKNOWN else index(op, x, y)
            case ir.Scalar(op, args, arg):
                xs = [self.value(a) for a in args]
                return UNKNOWN if any(x is UNKNOWN for x in xs) else evaluate(op, arg, xs)
        return UNKNOWN

    def number(self, e: Expr, what: str) -> float:
        x = self.value(e)
        if x is UNKNOWN:
            self.notes.append(f"{what} depends on a value computed on the device: counted as 1")
            return 1
        return x

    def row(self, key: str, what: str, line: int) -> Row:
        return self.rows.setdefault(key, Row(key, what, line))

    def block(self, body: Sequence[ir.Stmt]) -> None:
        for s in body:
            self.stmt(s)

    def stmt(self, s: ir.Stmt) -> None:
        env = self.env
        match s:
            case ir.Decl(name, init=init):
                env[name] = UNKNOWN if init is None else self.value(init)
            case ir.Assign(name, value):
                env[name] = self.value(value)
            case ir.Pointer(name, base=base):
                env[name] = Place("", 0) if base is None else env[base]
            case ir.SetPointer(name, base):
                env[name] = env[base]
            case ir.SlotRef(name, slot):
                env[name] = slot
            case ir.Ensure(name, elem, slot, n):
                slot = env.get(slot, slot) if isinstance(slot, str) else slot
                env[name] = Place(f"slot {slot}", elem.bytes * self.number(n, f"the size of {name}"))
            case ir.Swap(left, right):
                env[left], env[right] = env[right], env[left]
            case ir.Copy(a, _, b, _, n, elem):
                if env[a].name != env[b].name:
                    size = elem.bytes * self.number(n, "a copy")
                    r = self.row("copy", "copies of memory as it lies", 0)
                    r.launches += 1
                    r.cost.add(Cost(size, size, 0))
            case kir.Zero(_, elem, n):
                r = self.row("zero", "memory set to zero", 0)
                r.launches += 1
                r.cost.add(Cost(0, elem.bytes * self.number(n, "a fill"), 0))
            case kir.Chunks(name, n, segments, ends):
                count, many = int(self.number(n, "a width")), int(self.number(segments, "a number of folds"))
                env[name] = chunks(LIMITS, count, many, int(self.number(ends, "a number of bins")))
            case ir.Seq(body):
                self.block(body)
            case ir.For(var, bound, body, start):
                for i in range(int(self.number(start, "a loop")), int(self.number(bound, "a loop")), s.step):
                    env[var] = i
                    self.block(body)
            case ir.While(cond, body):
                while (more := self.value(cond)) is not UNKNOWN and more:
                    self.block(body)
                if more is UNKNOWN:
                    self.notes.append("a loop stops on a value computed on the device: one iteration counted")
                    self.block(body)
            case ir.If(cond, then, orelse):
                self.branch(self.value(cond), then, orelse)
            case kir.Launch():
                self.launch(s)
            case ir.Check():
                pass
            case _:
                raise TypeError(s)

    def branch(self, cond: Value, then: list[ir.Stmt], orelse: list[ir.Stmt]) -> None:
        if cond is not UNKNOWN:
            self.block(then if cond else orelse)
            return
        self.notes.append("a branch depends on a value computed on the device: the side that moves more counts")
        before, best = self.rows, None
        for side in (then, orelse):
            self.rows = {k: replace(r, cost=r.cost.copy()) for k, r in before.items()}
            self.block(side)
            moved = sum(r.cost.read + r.cost.written for r in self.rows.values())
            if best is None or moved > best[0]:
                best = moved, self.rows
        assert best is not None
        self.rows = best[1]

    def launch(self, s: kir.Launch) -> None:
        units = self.number(s.units, "the size of a kernel")
        if units <= 0:
            return
        k = s.kernel
        known: dict[str, Known] = {}
        own = {x.name: x for x in k.scratch}
        for name, _, _ in k.params:
            if name in own:
                each = own[name]
                known[name] = Place(f"scratch {name}", each.elem.bytes * units * self.number(each.count, "scratch"))
            else:
                known[name] = self.env[name]
        inner = self.number(s.inner, "the depth of a grid")
        blocks, width = grid(LIMITS, k.kind, int(units), int(inner))
        blocks *= int(inner) if k.kind == "tile" else 1
        given = [(v.name, v.bytes) if isinstance(v, Place) else repr(v) for v in known.values()]
        key = (id(k), units, blocks, width, *given)
        if key not in self.seen:
            self.seen[key] = estimate(k, units, known, (blocks, width))
            if k.kind in kir.TOGETHER and any(isinstance(x, ir.While) for x in statements(k.body)):
                self.notes.append("a loop stops on a value computed on the device: one iteration counted")
        r = self.row(k.name, k.what, k.line)
        r.launches += 1
        threads = int(min(units, blocks * width)) if k.kind == "thread" else blocks * width
        r.blocks, r.threads = min(r.blocks or blocks, blocks), min(r.threads or threads, threads)
        r.cost.add(self.seen[key])


__all__ = ["Account", "count", "work"]
