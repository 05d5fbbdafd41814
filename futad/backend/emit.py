"""Printing the imperative IR as C-like text.

What every C dialect shares is here: expressions, declarations, loops and branches.  A subclass decides how memory
is had, how failure leaves a function, and what annotated loops become.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from futad.core.scalarops import OPS
from futad.core.types import Prim
from futad.imp import ir
from futad.imp.ir import Bin, Expr, Guarded, Hidden, Load, Num, Ref, Scalar, Stmt

C_TYPES = {
    "i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t",
    "u8": "uint8_t", "u16": "uint16_t", "u32": "uint32_t", "u64": "uint64_t",
    "f16": "futad_f16", "f32": "float", "f64": "double", "bool": "bool", "rec": "int64_t",
}  # fmt: skip


def c_type(t: Prim) -> str:
    """The C spelling of a scalar type."""
    return C_TYPES[t.name]


def unsigned(t: Prim) -> str:
    """The unsigned C type of the same width."""
    return f"uint{t.bits}_t" if t.is_integral else c_type(t)


def constant(value: Any, t: Prim) -> str:
    """A C literal of exactly this value."""
    if t.is_bool:
        return "true" if value else "false"
    if t.is_float:
        v = float(value)
        if math.isnan(v):
            text = "FUTAD_NAN"
        elif math.isinf(v):
            text = "FUTAD_INF" if v > 0 else "(-FUTAD_INF)"
        elif t.name == "f64":
            text = repr(v)
            return text if v >= 0 and not text.startswith("-") else f"({text})"
        else:
            text = repr(float(np.float32(v))) + "f"
            text = text if not text.startswith("-") else f"({text})"
            return text if t.name == "f32" else f"((futad_f16){text})"
        return f"(({c_type(t)}){text})" if t.name != "f64" else text
    v = int(value)
    if t.kind == "uint":
        return f"{v}ULL" if t.bits == 64 else f"{v}u" if t.bits == 32 else f"(({c_type(t)}){v})"
    if v == -(1 << 63):
        return "INT64_MIN"
    text = f"{v}LL" if abs(v) >= 1 << 31 else str(v)
    return text if v >= 0 else f"({text})"


class Emitter:
    """Collects lines; `statement` dispatches on the node."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0
        self.handlers: dict[type, Callable[[Any], None]] = {
            ir.Decl: self.decl,
            ir.Assign: lambda s: self.line(f"{s.name} = {self.expr(s.value)};"),
            ir.Accumulate: self.accumulate,
            ir.Store: self.store,
            ir.Pointer: self.pointer,
            ir.SetPointer: lambda s: self.line(f"{s.name} = {self.address(s.base, s.offset)};"),
            ir.Stack: lambda s: self.line(f"{c_type(s.elem)} {s.name}[{s.count}];"),
            ir.SlotRef: self.slot_ref,
            ir.Ensure: self.ensure,
            ir.Swap: self.swap,
            ir.Copy: self.copy,
            ir.Gemm: self.gemm,
            ir.Check: self.check,
            ir.Seq: lambda s: self.block(s.body),
            ir.For: self.for_,
            ir.While: self.while_,
            ir.If: self.if_,
            ir.Invoke: self.invoke,
            ir.Threads: self.threads,
            ir.Parallel: self.parallel,
            ir.PerThread: self.per_thread,
            ir.Publish: lambda s: self.line(f"{s.array}[{s.thread}] = {s.name};"),
            ir.Subscribe: lambda s: self.line(f"{c_type(s.elem)} *const {s.name} = {s.array}[{s.thread}];"),
        }

    # -- text

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def block(self, body: list[Stmt]) -> None:
        for s in body:
            self.handlers[type(s)](s)

    def nested(self, body: list[Stmt]) -> None:
        self.depth += 1
        self.block(body)
        self.depth -= 1

    def iteration(self, body: list[Stmt], endless: bool = False) -> None:
        """What a loop does again and again; `endless`: perhaps for ever."""
        self.nested(body)

    # -- expressions

    def expr(self, e: Expr) -> str:
        if isinstance(e, Ref):
            return e.name
        if isinstance(e, Num):
            return constant(e.value, e.type)
        if isinstance(e, Bin):
            if e.op == "in_bounds":
                return f"((uint64_t){self.expr(e.left)} < (uint64_t){self.expr(e.right)})"
            return f"({self.expr(e.left)} {e.op} {self.expr(e.right)})"
        if isinstance(e, Load):
            return f"{e.pointer}[{self.index(e.index)}]"
        if isinstance(e, Scalar):
            return self.operation(e.op, [self.expr(a) for a in e.args], e.arg, e.type)
        if isinstance(e, Guarded):
            return f"({self.expr(e.cond)} ? {self.expr(e.load)} : {constant(0, e.type)})"
        if isinstance(e, Hidden):
            return f"FUTAD_HIDDEN(({c_type(e.type)}){self.expr(e.value)})"
        raise TypeError(e)

    def index(self, e: Expr) -> str:
        text = self.expr(e)
        return text[1:-1] if isinstance(e, Bin) and e.op != "in_bounds" else text

    def operation(self, op: str, args: list[str], arg: Prim, result: Prim) -> str:
        template = OPS[op].c_template(arg)
        text = template.format(*args, t=c_type(arg), u=unsigned(arg), T=arg.name, r=c_type(result))
        return f"(({c_type(result)}){text})" if result.name == "f16" else text

    def address(self, base: str, offset: Expr) -> str:
        return base if offset == ir.ZERO else f"{base} + {self.index(offset)}"

    # -- statements

    def decl(self, s: ir.Decl) -> None:
        const = "" if s.mutable else "const "
        init = "" if s.init is None else f" = {self.expr(s.init)}"
        self.line(f"{const}{c_type(s.type)} {s.name}{init};")

    def accumulate(self, s: ir.Accumulate) -> None:
        t = s.value.type
        if s.op in ("add", "mul") and t.is_float:
            self.line(f"{s.name} {'+' if s.op == 'add' else '*'}= {self.expr(s.value)};")
        else:
            self.line(f"{s.name} = {self.operation(s.op, [s.name, self.expr(s.value)], t, t)};")

    def store(self, s: ir.Store) -> None:
        place = f"{s.pointer}[{self.index(s.index)}]"
        if s.op is None:
            self.line(f"{place} = {self.expr(s.value)};")
        elif s.op == "add" and s.value.type.is_float:
            self.line(f"{place} += {self.expr(s.value)};")
        else:
            t = s.value.type
            self.line(f"{place} = {self.operation(s.op, [place, self.expr(s.value)], t, t)};")

    def pointer(self, s: ir.Pointer) -> None:
        init = "" if s.base is None else f" = {self.address(s.base, s.offset)}"
        self.line(f"{c_type(s.elem)} *{'' if s.mutable else 'const '}{s.name}{init};")

    def swap(self, s: ir.Swap) -> None:
        t = "struct futad_slot" if s.elem is None else c_type(s.elem)
        self.line(f"{{ {t} *swapped = {s.left}; {s.left} = {s.right}; {s.right} = swapped; }}")

    def copy(self, s: ir.Copy) -> None:
        args = f"{self.address(s.target, s.offset)}, {self.address(s.source, s.source_offset)}"
        self.line(f"{self.copying(s)}({args}, {self.expr(s.count)} * (int64_t)sizeof({c_type(s.elem)}));")

    def copying(self, s: ir.Copy) -> str:
        """The function that makes a copy."""
        return "futad_copy"

    def for_(self, s: ir.For) -> None:
        i = s.var
        step = f"{i}++" if s.step == 1 else f"{i} += {s.step}"
        self.line(f"for (int64_t {i} = {self.expr(s.start)}; {i} < {self.expr(s.bound)}; {step}) {{")
        self.iteration(s.body)
        self.line("}")

    def while_(self, s: ir.While) -> None:
        self.line(f"while ({self.expr(s.cond)}) {{")
        self.iteration(s.body, endless=True)
        self.line("}")

    def if_(self, s: ir.If) -> None:
        self.line(f"if ({self.expr(s.cond)}) {{")
        self.nested(s.then)
        if s.orelse:
            self.line("} else {")
            self.nested(s.orelse)
        self.line("}")

    def slot_ref(self, s: ir.SlotRef) -> None:
        raise NotImplementedError

    def ensure(self, s: ir.Ensure) -> None:
        raise NotImplementedError

    def invoke(self, s: ir.Invoke) -> None:
        raise NotImplementedError

    def gemm(self, s: ir.Gemm) -> None:
        raise NotImplementedError

    def check(self, s: ir.Check) -> None:
        raise NotImplementedError

    def threads(self, s: ir.Threads) -> None:
        raise NotImplementedError

    def parallel(self, s: ir.Parallel) -> None:
        raise NotImplementedError

    def per_thread(self, s: ir.PerThread) -> None:
        raise NotImplementedError


