"""Scalars that loops of the host carry and kernels compute: they stay on the device.

A loop's variable that no size, bound or condition needs is a pair of elements in device memory, this iteration's and
the next's, whose pointers change places at the end of an iteration.  What only the host computes, a counter, stays a
variable of the host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from futad.core import ir as core
from futad.core.types import Atom, Prim, Var
from futad.imp import ir
from futad.imp.carried import Cell
from futad.imp.ir import ONE, ZERO, Expr, Load, num

if TYPE_CHECKING:
    from futad.flatten.lower import DeviceLowerer


class DeviceCell(Cell):
    """Such a variable."""

    def __init__(self, lo: DeviceLowerer, p: Var, init: Expr) -> None:
        elem = init.type
        self.lo, self.elem = lo, elem
        memory, self.cur, self.next = lo.name("cells"), lo.name(p.name), lo.name("next")
        self.root = lo.new_root(elem)
        assert self.root.slot is not None
        self.root.pinned += 1  # the next iteration's value is written when this one's may be used no more
        lo.emit(ir.Ensure(memory, elem, self.root.slot, num(2)))
        lo.emit(ir.Pointer(self.cur, elem, memory, ZERO, mutable=True))
        lo.emit(ir.Pointer(self.next, elem, memory, ONE, mutable=True))
        lo.scalar_roots[self.cur] = (self.root,)
        self.put(self.cur, init)
        lo.bind(p, self.value())

    def value(self) -> Load:
        return Load(self.cur, ZERO, self.elem)

    def put(self, pointer: str, value: Expr) -> None:
        if isinstance(value, Load):
            self.lo.emit(ir.Copy(pointer, ZERO, value.pointer, value.index, ONE, self.elem))
            return
        with self.lo.single("carried"):
            self.lo.emit(ir.Store(pointer, ZERO, value))

    def collect(self, v: Expr) -> None:
        self.put(self.next, v)

    def iteration(self) -> None:
        self.lo.emit(ir.Swap(self.cur, self.next))

    def finish(self) -> Load:
        self.root.pinned -= 1
        return self.value()


def host_reads(program: core.Program, forced: set[Var]) -> set[Var]:
    """The scalars that the host must know, and those that it computes them from: a loop's variable among these would
    be read in every iteration."""
    made: dict[Var, core.Exp] = {}
    iterations: dict[Var, Atom] = {}  # a loop's variable: its next value

    def walk(lam: core.Lambda) -> None:
        for s in lam.stms:
            made.update((v, s.exp) for v in s.pat)
            if isinstance(s.exp, core.For):
                iterations.update(zip(s.exp.body.params[1:], s.exp.body.result, strict=True))
            elif isinstance(s.exp, core.While):
                iterations.update(zip(s.exp.body.params, s.exp.body.result, strict=True))
                out.add(s.exp.body.params[0])
            for inner in s.exp.lambdas():
                walk(inner)

    out = set(forced)
    for f in program.funs.values():
        walk(f.body)
    todo = list(out)
    while todo:
        v = todo.pop()
        e = made.get(v)
        sources = e.operands() if isinstance(e, (core.Op, core.Alias)) else [iterations[v]] if v in iterations else []
        new = [a for a in sources if isinstance(a, Var) and isinstance(a.type, Prim) and a not in out]
        out.update(new)
        todo += new
    return out


def scalar_only(lam: core.Lambda) -> bool:
    """Whether a body is one that the host runs by itself: operations, branches and loops of scalars."""
    return all(
        isinstance(s.exp, (core.Op, core.Alias, core.If, core.Loop))
        and all(isinstance(v.type, Prim) for v in s.pat)
        and all(map(scalar_only, s.exp.lambdas()))
        for s in lam.stms
    )


def from_kernels(body: core.Lambda, result: Atom) -> bool:
    """Whether a scalar result of a loop's body is, after some iterations, more than the host computes by itself from
    scalars outside."""
    made = {v: s.exp for s in body.stms for v in s.pat}
    iterations = dict(zip(body.params[-len(body.result) :], body.result, strict=True))
    todo, seen = [result], set[Atom]()
    while todo:
        a = todo.pop()
        if a in seen or not isinstance(a, Var):
            continue
        seen.add(a)
        if a in iterations:
            todo.append(iterations[a])
        if a not in made:
            continue
        e = made[a]
        plain = isinstance(e, (core.Op, core.Alias, core.If, core.Loop))
        if not plain or not all(map(scalar_only, e.lambdas())):
            return True
        todo += [*e.operands(), *[v for lam in e.lambdas() for v in lam.free()]]
    return False


def loop_cell(lo: DeviceLowerer, p: Var, init: Expr, body: core.Lambda, result: Atom) -> DeviceCell | None:
    """A loop's variable on the device, None if it is the host's."""
    if lo.mode != "host" or p in lo.read or not isinstance(p.type, Prim) or not from_kernels(body, result):
        return None
    return DeviceCell(lo, p, init)
