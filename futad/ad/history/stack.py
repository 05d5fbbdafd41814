"""The stack of states that a loop keeps which is run again: variables of the loops around it, in this order.

    top      how many states there are                       places   the iterations that they precede
    rows     of each variable whose size stays: one array, a row a state
    begins   and elements, of each element type of the variables whose sizes change from iteration to iteration: the
             states one after the other in a flat array, and where each begins (and the last one ends)

So a push, and a pop (top - 1), cost what the state takes; dropping states moves those above.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from futad.ad.emit import coerce
from futad.core import ir
from futad.core.builder import Builder
from futad.core.node import Range
from futad.core.types import I64, ONE, ZERO, ArrayType, Atom, Prim, Var, elem_of, i64, shape_of

Values = Sequence[Atom]


class Layout:
    """How states lie in the stack: `vars` are the variables of one, sizes before what has them."""

    def __init__(self, vs: Sequence[Var]) -> None:
        self.vars = tuple(vs)
        self.changing = [any(n in self.vars for n in shape_of(v.type)) for v in vs]
        elems = [elem_of(v.type) for v, c in zip(vs, self.changing, strict=True) if c]
        self.elems = [*dict.fromkeys(elems)]
        self.rows = self.changing.count(False)
        self.names = ["top", "places", *["kept"] * self.rows, *["begins", "kept"] * len(self.elems)]

    def empty(self, b: Builder, slots: Atom, room: Mapping[Prim, Atom]) -> list[Atom]:
        """A stack for so many states, with room for so many elements of each type of those whose sizes change."""
        types = [v.type for v, c in zip(self.vars, self.changing, strict=True) if not c]
        rows = [b.let(ir.Scratch(elem_of(t), (slots, *shape_of(t))), "kept") for t in types]
        out: list[Atom] = [ZERO, b.let(ir.Scratch(I64, (slots,)), "places"), *rows]
        for t in self.elems:
            begins = b.let(ir.Scratch(I64, (b.op("add", slots, ONE),)), "begins")
            begins = b.let(ir.Update(begins, (ZERO,), ZERO), "begins")
            out += [begins, b.let(ir.Scratch(t, (room[t],)), "kept")]
        return out

    # -- bytes

    def fixed(self, b: Builder) -> Atom:
        """Bytes that each state takes, its position among them."""
        size: Atom = i64(8 + 8 * len(self.elems))
        for v, c in zip(self.vars, self.changing, strict=True):
            if not c:
                row = b.op("mul", b.size_mul(shape_of(v.type)), i64(elem_of(v.type).bytes))
                size = b.op("add", size, row, hint="size")
        return size

    def elements(self, b: Builder, state: Values) -> dict[Prim, Atom]:
        """How many elements of each type a state has in its variables whose sizes change."""
        out: dict[Prim, Atom] = {}
        for x, c in zip(state, self.changing, strict=True):
            if c:
                n, t = b.size_mul(shape_of(x.type)), elem_of(x.type)
                out[t] = b.op("add", out[t], n) if t in out else n
        return out

    def size(self, b: Builder, fixed: Atom, state: Values) -> Atom:
        """Bytes of a state."""
        for t, n in self.elements(b, state).items():
            fixed = b.op("add", fixed, b.op("mul", n, i64(t.bytes)), hint="size")
        return fixed

    def used(self, b: Builder, fixed: Atom, stack: Values) -> Atom:
        """Bytes of all states."""
        used: Atom = b.op("mul", stack[0], fixed, hint="used")
        for t, begins in zip(self.elems, stack[2 + self.rows :: 2], strict=True):
            used = b.op("add", used, b.op("mul", b.at(begins, stack[0]), i64(t.bytes)), hint="used")
        return used

    # -- states

    def pushed(self, b: Builder, stack: Values, at: Atom, state: Values) -> list[Atom]:
        """The stack, which has room, with one more state."""
        top, places, *arrays = stack
        rows = [x for x, c in zip(state, self.changing, strict=True) if not c]
        more: list[Atom] = []
        more += [b.let(ir.Update(r, (top,), x), "kept") for r, x in zip(arrays, rows, strict=False)]
        for k, t in enumerate(self.elems):
            begins, flat = arrays[self.rows + 2 * k :][:2]
            begin: Atom = b.at(begins, top, hint="begin")
            for x, c in zip(state, self.changing, strict=True):
                if c and elem_of(x.type) == t:
                    n = b.size_mul(shape_of(x.type))
                    row = b.let(ir.Reshape(x, (n,)), "row")
                    flat = b.let(ir.Update(flat, (Range(begin, n, ONE),), row), "kept")
                    begin = b.op("add", begin, n, hint="begin")
            more += [b.let(ir.Update(begins, (b.op("add", top, ONE),), begin), "begins"), flat]
        return [b.op("add", top, ONE), b.let(ir.Update(places, (top,), at), "places"), *more]

    def taken(self, b: Builder, stack: Values, at: Atom) -> list[Atom]:
        """The state of this number, copied out of the stack.

        The copy is what the IR's rule of consumption asks for: the stack is overwritten while the state is in use.  It
        is no condition of `rerun`: backends copy by themselves what they would overwrite too early, and leave out a
        copy that nobody needs, so no mutant drops it.
        """
        names = ir.Renamer()
        rows = iter(stack[2:])
        begin = {t: b.at(x, at, hint="begin") for t, x in zip(self.elems, stack[2 + self.rows :: 2], strict=True)}
        flats = dict(zip(self.elems, stack[3 + self.rows :: 2], strict=True))
        for v, c in zip(self.vars, self.changing, strict=True):
            if not c:
                names.mapping[v] = _row(b, next(rows), at)
                continue
            shape = tuple([names.atom(n) for n in shape_of(v.type)])
            n, t = b.size_mul(shape), elem_of(v.type)
            row = b.let(ir.Copy(b.let(ir.At(flats[t], (Range(begin[t], n, ONE),)), "row")), "state")
            begin[t] = b.op("add", begin[t], n, hint="begin")
            names.mapping[v] = coerce(b, row, ArrayType(t, shape))
        return [names.mapping[v] for v in self.vars]

    def moved(self, b: Builder, arrays: Values, to: Atom, source: Atom) -> list[Atom]:
        """The stack without its top, with state `source` also as state `to`, which is none above it; those below `to`
        have been moved."""
        out: list[Atom] = []
        out += [b.let(ir.Update(r, (to,), _row(b, r, source)), "kept") for r in arrays[: 1 + self.rows]]
        for k in range(len(self.elems)):
            begins, flat = arrays[1 + self.rows + 2 * k :][:2]
            begin, end = b.at(begins, source, hint="begin"), b.at(begins, b.op("add", source, ONE), hint="end")
            n = b.op("sub", end, begin, hint="elements")
            row = b.let(ir.Copy(b.let(ir.At(flat, (Range(begin, n, ONE),)), "row")), "row")
            new = b.at(begins, to, hint="begin")
            after = b.op("add", to, ONE)
            begins = b.let(ir.Update(begins, (after,), b.op("add", new, n)), "begins")
            out += [begins, b.let(ir.Update(flat, (Range(new, n, ONE),), row), "kept")]
        return out


def _row(b: Builder, rows: Atom, at: Atom) -> Var:
    row = b.at(rows, at, hint="state")
    return row if isinstance(row.type, Prim) else b.let(ir.Copy(row), "state")


@dataclass(slots=True)
class Room:
    """How much may be kept: at most `states`; if they share `memory` bytes, as their sizes change, so many too.
    `fixed`: bytes that each takes; `size`: of one, of the largest if they differ.  `working`: the stack has a place for
    one more, the state of the iteration that is reversed, which is made and read where it lies."""

    layout: Layout
    states: Atom
    fixed: Atom
    size: Atom
    memory: Atom | None = None
    working: bool = False

    def free(self, b: Builder, stack: Values, size: Atom) -> Atom:
        """How many more states of `size` bytes there is room for."""
        free = b.op("sub", self.states, stack[0], hint="free")
        if self.memory is None:
            return free
        left = b.op("sub", self.memory, self.layout.used(b, self.fixed, stack), hint="left")
        return b.op("min", free, b.op("quot", left, b.op("max", size, ONE)), hint="free")

    def size_of(self, b: Builder, state: Values) -> Atom:
        """Bytes of a state as far as `free` needs them."""
        return self.size if self.memory is None else self.layout.size(b, self.fixed, state)

    def held(self, b: Builder, stack: Values) -> Atom:
        """What the stack takes: states; bytes if their sizes change."""
        return self.layout.used(b, self.fixed, stack) if self.layout.elems else stack[0]


__all__ = ["Layout", "Room"]
