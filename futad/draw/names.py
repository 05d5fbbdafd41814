"""How variables, formulas and types look in a picture: short names, constants without their types, infix operators."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from futad.core import ir
from futad.core.operator import scalar_op
from futad.core.scalarops import OPS
from futad.core.text import Printer, node_name
from futad.core.types import AccType, ArrayType, Atom, Const, Type, Var, shape_of

WIDEST = 44  # characters of a line


class Names(Printer):
    """Prints with the names of a picture: a variable's own, numbered from the second one of that name on."""

    def __init__(self) -> None:
        super().__init__()
        self.given: dict[Var, str] = {}
        self.taken: set[str] = set()
        self.counts: dict[str, int] = {}

    def var(self, v: Var) -> str:
        if v not in self.given:
            while (name := self.next(v.name)) in self.taken:
                pass
            self.taken.add(name)
            self.given[v] = name
        return self.given[v]

    def next(self, name: str) -> str:
        count = self.counts[name] = self.counts.get(name, 0) + 1
        return name if count == 1 else f"{name}_{count}"

    def data(self, x: Any, indent: str = "") -> str:
        if isinstance(x, Const):
            return f"{x.value:g}" if x.type.is_float else str(x.value).lower()
        return super().data(x, indent)

    def lam(self, scope: ir.Lambda, indent: str = "") -> str:
        return "λ"

    def shape(self, t: Type) -> str:
        """An array's sizes, `[n][3]`; nothing for a scalar."""
        if not isinstance(t, ArrayType | AccType):
            return ""
        return "".join([f"[{self.data(n)}]" for n in shape_of(t)])

    def labelled(self, v: Var) -> str:
        """A variable with its sizes."""
        return " ".join([x for x in (self.var(v), self.shape(v.type)) if x])

    # -- expressions

    def leaf(self, s: ir.Stm) -> list[str]:
        """The text of a statement without its results, in lines."""
        e = s.exp
        match e:
            case ir.MatMul(a, b, plus):
                text = f"{self.data(a)} · {self.data(b)}" + "".join([f" + {self.data(p)}" for p in plus])
            case ir.Rearrange(a, perm):
                text = f"transpose {self.data(a)}" if perm == (1, 0) else f"rearrange {self.data(a)} {perm}"
            case ir.Reshape(a):
                text = f"reshape {self.data(a)}"
            case ir.Copy(a):
                text = f"copy {self.data(a)}"
            case ir.Alias(a):
                text = self.data(a)
            case ir.Replicate(_, a):
                text = f"replicate {self.data(a)}"
            case ir.At(a, index):
                text = self.data(a) + self.index(index)
            case ir.Update(a, index, value):
                text = f"{self.data(a)} with {self.index(index)} = {self.data(value)}"
            case ir.UpdateAcc(acc, index, value):
                text = f"{self.data(acc)}{self.index(index)} += {self.data(value)}"
            case ir.Assert(cond):
                text = f"assert {self.data(cond)}"
            case ir.Iota(count):
                text = f"iota {self.data(count)}"
            case ir.Concat(arrays):
                text = " ++ ".join([self.data(a) for a in arrays])
            case ir.ArrayLit(elems):
                text = self.data(elems)
            case ir.Scratch():
                text = "scratch"
            case ir.Op():
                text = self.formula(e, {})
            case _:
                fields = [f for f in type(e).kinds if not isinstance(getattr(e, f), ir.Lambda)]
                text = f"{node_name(type(e))}({', '.join([self.data(getattr(e, f)) for f in fields])})"
        return wrapped(text)

    def index(self, index: ir.Index) -> str:
        """An index in brackets; a range as first:count, with its stride unless that is 1."""
        parts = []
        for i in index:
            if isinstance(i, ir.Range):
                stride = self.data(i.stride)
                parts.append(f"{self.data(i.start)}:{self.data(i.count)}" + (f":{stride}" if stride != "1" else ""))
            else:
                parts.append(self.data(i))
        return f"[{', '.join(parts)}]"

    def formula(self, e: ir.Exp, inlined: Mapping[Var, ir.Exp], inside: bool = False) -> str:
        """A scalar expression, with those of `inlined` variables in their place."""

        def atom(a: Atom) -> str:
            return self.formula(inlined[a], inlined, True) if isinstance(a, Var) and a in inlined else self.data(a)

        if isinstance(e, ir.Alias):
            return atom(e.atom)
        if not isinstance(e, ir.Op):
            return "".join(self.leaf(ir.Stm((), e)))
        args = [atom(a) for a in e.args]
        infix = OPS[e.op].infix
        if infix is not None:
            text = f"{args[0]} {infix} {args[1]}"
        elif e.op == "select":
            text = f"{args[0]} ? {args[1]} : {args[2]}"
        elif e.op == "neg":
            return f"-{args[0]}"
        else:
            return f"{e.op}({', '.join(args)})"
        return f"({text})" if inside else text

    def lines(self, stms: Sequence[ir.Stm], outside: Collection[Atom]) -> list[str]:
        """Scalar statements as formulas, a line for each variable that is used `outside`, or more than once."""
        uses: dict[Atom, int] = {}
        for s in stms:
            for a in s.exp.operands():
                uses[a] = uses.get(a, 0) + 1
        inlined = {
            v: s.exp for s in stms for v in s.pat
            if uses.get(v) == 1 and v not in outside and isinstance(s.exp, ir.Op | ir.Alias)
        }  # fmt: skip
        kept = [s for s in stms if s.pat[0] not in inlined]
        return [x for s in kept for x in wrapped(f"{self.var(s.pat[0])} = {self.formula(s.exp, inlined)}")]

    def operator(self, lam: ir.Lambda) -> str:
        """The sign of a fold's operator if it is one operation on its parameters, else nothing."""
        op = scalar_op(lam)
        return "" if op is None else OPS[op].infix or op


def wrapped(text: str) -> list[str]:
    """The text in lines of bearable length, broken after blanks."""
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + len(word) + 1 > WIDEST:
            lines.append("    " + word)
        else:
            lines[-1] += (" " if lines[-1] else "") + word
    return lines


__all__ = ["Names", "wrapped"]
