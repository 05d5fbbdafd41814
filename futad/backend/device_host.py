"""The host side of a device program as Python.

Pointers are device addresses, i64 scalars are ints, other scalars NumPy's.  `R` is the runtime (`runtime/host.py`),
`K` the constants.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from futad.core.types import I64, Prim
from futad.flatten import kernel as kir
from futad.imp import ir
from futad.imp.claims import Claim, Doing, EnsureFor, Iteration, Now
from futad.imp.ir import Bin, Expr, Load, Num, Ref, Scalar
from futad.imp.report import Reports
from futad.imp.walk import statements
from futad.runtime.device import Thresholds
from futad.runtime.host import HostOp

_BIN = {"+": "+", "-": "-", "*": "*", "/": "//", "%": "%", "<": "<", "<=": "<=", "==": "==", "!=": "!="}
_WORDS = {"&&": "and", "||": "or"}
_ARITHMETIC = {"add": "+", "sub": "-", "mul": "*"}
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<="}


class HostEmitter:
    """The Python of a module's functions."""

    def __init__(self, numbers: dict[kir.Kernel, int], reports: Reports | None = None, measures: bool = False) -> None:
        """`measures`: the program tells numbers of its run."""
        self.numbers, self.reports, self.measures = numbers, reports, measures
        self.reader = "R.read"  # what reads a scalar of the device
        self.lines: list[str] = []
        self.depth = 0
        self.constants: list[Any] = []
        self.handlers: dict[type, Callable[[Any], None]] = {
            ir.Decl: lambda s: self.line(f"{s.name} = {'None' if s.init is None else self.expr(s.init)}"),
            ir.Assign: lambda s: self.line(f"{s.name} = {self.expr(s.value)}"),
            ir.Pointer: lambda s: self.line(
                f"{s.name} = {'0' if s.base is None else self.address(s.base, s.offset, s.elem)}"
            ),
            ir.SetPointer: self.set_pointer,
            ir.SlotRef: lambda s: self.line(f"{s.name} = {s.slot}"),
            ir.Ensure: lambda s: self.line(
                f"{s.name} = R.ensure({s.slot}, {self.expr(s.count)}, {s.elem.bytes}, {s.name!r})"
            ),
            ir.Swap: lambda s: self.line(f"{s.left}, {s.right} = {s.right}, {s.left}"),
            ir.Copy: self.copy,
            ir.Check: self.check,
            ir.Report: self.report,
            ir.Seq: lambda s: self.block(s.body),
            ir.For: self.for_,
            ir.While: self.while_,
            ir.If: self.if_,
            kir.Zero: lambda s: self.line(f"R.zero({s.pointer}, {self.expr(s.count)} * {s.elem.bytes})"),
            kir.Chunks: lambda s: self.line(
                f"{s.name} = R.chunks({self.expr(s.count)}, {self.expr(s.segments)}, {self.expr(s.ends)})"
            ),
            kir.Launch: self.launch,
            Claim: self.claim,
            Doing: lambda s: self.line(f"R.doing = {s.binding}"),
            Iteration: lambda s: self.line(f"R.iteration({s.loop}, {self.expr(s.number)})"),
        }
        self.handlers[EnsureFor] = self.handlers[ir.Ensure]
        self.elems: dict[str, Prim] = {}

    def function(self, f: ir.Function, name: str) -> None:
        self.elems = {s.name: s.elem for s in statements(f.body) if isinstance(s, (ir.Pointer, ir.Ensure))}
        self.line(f"def {name}({', '.join(['R', 'K', *[p.name for p in f.params]])}):")
        self.depth = 1
        self.line(f"{', '.join(name.upper() for name in Thresholds._fields)} = R.thresholds")
        if self.measures:
            self.line(f"{kir.MEASURES} = R.measures")
        self.block(f.body)
        results = []
        for r in f.results:
            if isinstance(r.value, Load):
                place = self.address(r.value.pointer, r.value.index, r.type)
                results.append(f"R.cell({place}, {self.dtype(r.type)})")
            elif r.value is not None:
                results.append(f"R.scalar({self.expr(r.value)}, {self.dtype(r.type)})")
            else:
                shape = "".join(f"{self.expr(n)}, " for n in r.shape)
                results.append(f"R.array({self.address(r.pointer, r.offset, r.type)}, {self.dtype(r.type)}, ({shape}))")
        self.line(f"return [{', '.join(results)}]")
        self.depth = 0
        self.line("")

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def block(self, body: list[ir.Stmt]) -> None:
        for s in body:
            self.handlers[type(s)](s)

    def nested(self, body: list[ir.Stmt]) -> None:
        self.depth += 1
        before = len(self.lines)
        self.block(body)
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1

    # -- expressions

    def constant(self, value: Any) -> str:
        self.constants.append(value)
        return f"K[{len(self.constants) - 1}]"

    def dtype(self, t: Prim) -> str:
        return self.constant(t.dtype)

    def expr(self, e: Expr) -> str:
        match e:
            case Ref(name):
                return name
            case Now():
                return "R.now()"
            case Num(value, t):
                if t.name == "i64":
                    return f"({int(value)})" if value < 0 else str(int(value))
                return str(bool(value)) if t.is_bool else self.constant(t.dtype.type(value))
            case Bin("in_bounds", a, b):
                return f"(0 <= {self.expr(a)} < {self.expr(b)})"
            case Bin(op, a, b):
                return f"({self.expr(a)} {_WORDS.get(op) or _BIN[op]} {self.expr(b)})"
            case Load(p, i, t):
                return f"{self.reader}({self.address(p, i, t)}, {self.dtype(t)})"
            case Scalar(op, args, arg, result):
                return self.operation(op, [self.expr(a) for a in args], arg, result)
        raise TypeError(e)

    def operation(self, op: str, args: list[str], arg: Prim, result: Prim) -> str:
        if arg is I64:
            if op in _COMPARE:
                return f"({args[0]} {_COMPARE[op]} {args[1]})"
            if op in ("min", "max"):
                return f"{op}({args[0]}, {args[1]})"
            if op in _ARITHMETIC:
                return f"R.wrap({args[0]} {_ARITHMETIC[op]} {args[1]})"
            if op == "to_i64":
                return args[0]
        if op == "select":
            return f"({args[1]} if {args[0]} else {args[2]})"
        if arg.is_bool and op == "not":
            return f"(not {args[0]})"
        return f"{self.constant(HostOp(op, arg, result))}({', '.join(args)})"

    def address(self, base: str, offset: Expr, elem: Prim) -> str:
        return base if offset == ir.ZERO else f"({base} + {self.expr(offset)} * {elem.bytes})"

    # -- statements

    def set_pointer(self, s: ir.SetPointer) -> None:
        self.line(f"{s.name} = {self.address(s.base, s.offset, self.elems[s.name])}")

    def copy(self, s: ir.Copy) -> None:
        to = self.address(s.target, s.offset, s.elem)
        source = self.address(s.source, s.source_offset, s.elem)
        self.line(f"R.copy({to}, {source}, {self.expr(s.count)} * {s.elem.bytes})")

    def check(self, s: ir.Check) -> None:
        values = "".join(f", {self.expr(v)}" for v in s.values[:4])
        self.line(f"if not {self.expr(s.cond)}: R.fail({s.code}, {s.place}{values})")

    def report(self, s: ir.Report) -> None:
        """A report reads the device's memory by itself: it is no value that the host needs to go on."""
        if self.reports is None or not self.reports.wanted(s.number):
            return
        self.reader = "R.reports.peek"
        shape, strides = ["".join(f"{self.expr(e)}, " for e in es) for es in (s.shape, s.strides)]
        dtype = self.dtype(s.elem)
        if s.value is None:
            place = self.address(s.pointer, s.offset, s.elem)
            self.line(f"R.reports.array({s.number}, {place}, {dtype}, ({shape}), ({strides}))")
        elif s.step is None:
            self.line(f"R.reports.one({s.number}, {self.expr(s.value)}, {dtype}, ({shape}))")
        else:
            args = f"{self.expr(s.value)}, {self.expr(s.step)}, {dtype}, {self.expr(s.offset)}"
            self.line(f"R.reports.counted({s.number}, {args}, ({shape}), ({strides}))")
        self.reader = "R.read"

    def claim(self, s: Claim) -> None:
        """In checked execution; see `runtime/checked.py`."""
        a, o = s.array, s.other
        limit, about = (s.origin.limit, s.origin.binding) if s.origin is not None else ("0", s.about)
        there = f"{self.address(o.pointer, o.offset, o.elem)}, {self.tuple(o.strides)}" if o is not None else "0, ()"
        here = f"{self.address(a.pointer, a.offset, a.elem)}, {a.elem.bytes}"
        extent = f"{self.tuple(a.shape)}, {self.tuple(a.strides)}"
        self.line(f"R.claim({s.kind!r}, {s.about}, {about}, {here}, {extent}, {s.since or 0}, {limit}, {there})")

    def tuple(self, exprs: Sequence[Expr]) -> str:
        return f"({''.join(f'{self.expr(e)}, ' for e in exprs)})"

    def for_(self, s: ir.For) -> None:
        self.line(f"for {s.var} in range({self.expr(s.start)}, {self.expr(s.bound)}, {s.step}):")
        self.nested(s.body)

    def while_(self, s: ir.While) -> None:
        self.line(f"while {self.expr(s.cond)}:")
        self.nested(s.body)

    def if_(self, s: ir.If) -> None:
        if not s.then and not s.orelse:
            return
        self.line(f"if {self.expr(s.cond)}:")
        self.nested(s.then)
        if s.orelse:
            self.line("else:")
            self.nested(s.orelse)

    def launch(self, s: kir.Launch) -> None:
        k = s.kernel
        own = {x.name for x in k.scratch}
        args = "".join(f"{'None' if n in own else n}, " for n, _, _ in k.params)
        counts = "".join(f"{self.expr(x.count)}, " for x in k.scratch)
        self.line(
            f"R.launch({self.numbers[k]}, {self.expr(s.units)}, {self.expr(s.inner)}, ({args}), ({counts}))"
        )
