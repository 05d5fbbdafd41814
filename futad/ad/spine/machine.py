"""Blocks as one loop over a program counter.

An iteration, a tick, runs the block that the counter says, and then whatever blocks are threaded behind it.  A block
reads its cells when it begins and all are written when it ends, so that within one nothing is in the way of anything.
Cells that it does not change are handed on; no two arrays of the state lie in the same memory, so that each can be
updated in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from futad.ad.emit import coerce
from futad.ad.spine.blocks import Block, Edge, Test, blocks_of
from futad.ad.spine.cells import Cell, Cells
from futad.ad.spine.liveness import Liveness
from futad.ad.spine.paths import Path, Threads
from futad.ad.spine.region import LEGAL, Spine
from futad.core import ir
from futad.core.budget import MERGED, PLACE, placed
from futad.core.builder import Builder
from futad.core.roots import Roots
from futad.core.types import BOOL, I64, ZERO, ArrayType, Atom, Type, Var, elem_of, i64, shape_of
from futad.optimise.hoist import hoist_from_loops

State = list[Atom]  # the program counter, then the slots of the cells


class _Names(ir.Renamer):
    """What the variables of a function are called in a block; views are made where they are asked for."""

    def __init__(self, mapping: dict[Var, Atom], views: dict[Var, ir.Stm], b: Builder, roots: Roots) -> None:
        super().__init__(mapping)
        self.views = views
        self.b = b
        self.roots = roots

    def atom(self, a: Atom) -> Atom:
        if isinstance(a, Var) and a not in self.mapping and (view := self.views.get(a)) is not None:
            self.put(self.stm(view))
        return super().atom(a)

    def put(self, stm: ir.Stm) -> None:
        self.b.add(stm)
        self.roots.add(stm)

    def run(self, stms: Sequence[ir.Stm]) -> None:
        for s in stms:
            self.put(self.stm(s))

    def side(self) -> _Names:
        """For one way of two."""
        return _Names(self.mapping, self.views, Builder(), self.roots.copy())


class Machine:
    """Emits the blocks between the first one and the last one as a loop."""

    def __init__(self, first: Block, last: Block, result: ir.Atoms) -> None:
        self.live = Liveness(first, last, result)
        self.threads = Threads(first, last)
        self.blocks = self.threads.numbered
        self.number = {b: k for k, b in enumerate((*self.blocks, last))}
        self.cells = Cells(self.threads, self.live)

    def emit(self, b: Builder, attrs: tuple[Any, ...]) -> _Names:
        """Emit the first block and the loop, with attributes; what the variables are called after it."""
        start = _Block(self, b, None)
        first = self.threads.first
        names = _Names({}, self.live.views, b, Roots())
        for s in first.stms:
            names.put(s)
        inits = start.leave(names, (first,), first.end)
        params, pat = self._state(), self._state()
        inner = Builder()
        results = self._choose(inner, params, 0, len(self.blocks))
        end = i64(len(self.blocks))
        again = inner.op("lt", results[0], end, hint="going")
        body = ir.Lambda((Var("going", BOOL), *params), tuple(inner.stms), (again, *results))
        going = b.op("lt", inits[0], end, hint="going")
        b.add(ir.Stm((Var("going", BOOL), *pat), ir.While((going, *inits), body), attrs))
        return _Block(self, b, pat).enter(self.threads.last)

    def _state(self) -> list[Var]:
        names = ir.Renamer()
        return [Var("pc", I64), *[names.bind(v) for v in self.cells.slots]]

    def _choose(self, b: Builder, params: Sequence[Var], low: int, high: int) -> State:
        """Emit the blocks of these numbers; the state after the one of them that the counter says."""
        if high - low == 1:
            this = self.blocks[low]
            block = _Block(self, b, params)
            names = block.enter(this)
            block.own_consumed(names, this)
            names.run(this.stms)
            return block.leave(names, (this,), this.end)
        middle = (low + high) // 2
        cond = b.op("lt", params[0], i64(middle), hint="low")
        sides: list[tuple[Builder, State]] = []
        for part in ((low, middle), (middle, high)):
            inner = Builder()
            sides.append((inner, self._choose(inner, params, *part)))
        return self.join(b, cond, sides)

    def join(self, b: Builder, cond: Atom, sides: Sequence[tuple[Builder, State]]) -> State:
        """Emit the branch; the state after it, in which what the sides agree on is no result of it."""
        (one, x), (other, y) = sides
        apart = [k for k, (p, q) in enumerate(zip(x, y, strict=True)) if p is not q]
        out = list(x)
        pat: list[Var] = []
        for k in apart:
            slot = Var("pc", I64) if k == 0 else self.cells.slots[k - 1]
            names = {v: out[j + 1] for j, v in enumerate(self.cells.slots[: max(k - 1, 0)])}
            v = ir.Renamer(names).bind(slot)
            out[k] = v
            pat.append(v)
        bodies = [ir.Lambda((), tuple(c.stms), tuple([s[k] for k in apart])) for c, s in sides]
        b.add(ir.Stm(tuple(pat), ir.If(cond, bodies[0], bodies[1])))
        return out


class _Block:
    """One block: its cells on entry (`params`, the counter first; None before the loop), and what it leaves in them."""

    def __init__(self, machine: Machine, b: Builder, params: Sequence[Var] | None) -> None:
        self.machine = machine
        self.b = b
        self.params = params
        self.whole: dict[Atom, Var] = {}  # what is in a cell, by what the block calls it
        self.none: dict[Cell, Atom] = {}

    def enter(self, block: Block) -> _Names:
        """What the block's variables are called."""
        assert self.params is not None
        cells = self.machine.cells
        here = sorted(self.machine.live.at[block], key=lambda v: v.id)
        mapping: dict[Var, Atom] = {}
        arrays = [v for v in here if isinstance(v.type, ArrayType)]
        for v in arrays:
            own = shape_of(self.params[cells.of[v].at + 1].type)
            for n, k in zip(shape_of(v.type), own, strict=True):
                if isinstance(n, Var) and n is not k:
                    mapping.setdefault(n, k)
        names = _Names(mapping, self.machine.live.views, self.b, Roots())
        for v in here:
            x = self.params[cells.of[v].at + 1]
            if v in arrays:
                shape = tuple([mapping.get(n, n) if isinstance(n, Var) else n for n in shape_of(v.type)])
                as_needed: Atom = x
                if shape != shape_of(x.type):
                    as_needed = Var(v.name, ArrayType(elem_of(v.type), shape))
                    names.put(ir.Stm((as_needed,), ir.Reshape(x, shape)))
                mapping[v] = as_needed
                self.whole[as_needed] = x
            else:
                mapping.setdefault(v, x)
        names.mapping.update(mapping)
        return names

    def own_consumed(self, names: _Names, block: Block) -> None:
        """Copy what the block consumes though it was made before the loop: there is one such array for all ticks."""
        roots = Roots(block.stms)
        for s in ir.statements(block.stms):
            for a in s.exp.consumes():
                for r in sorted(roots.of(a) - roots.bound, key=lambda v: v.id):
                    x = names.atom(r)
                    if not self._here(names, x):
                        names.mapping[r] = self._copy(names, x)

    # -- leaving it

    def leave(self, names: _Names, path: Path, edge: Edge | None) -> State:
        """Emit the way out; the state then."""
        assert edge is not None
        if isinstance(edge, Test):
            sides = [names.side(), names.side()]
            cond = names.atom(edge.cond)
            states = [self.leave(n, path, e) for n, e in zip(sides, (edge.then, edge.orelse), strict=True)]
            return self.machine.join(names.b, cond, [(n.b, s) for n, s in zip(sides, states, strict=True)])
        to = edge.target
        needed = self.machine.live.at[to]
        given = {p: names.atom(a) for p, a in zip(to.params, edge.args, strict=True) if p in needed}
        names.mapping.update(given)
        if self.machine.threads.threaded(path, edge):
            names.run(to.stms)
            return self.leave(names, (*path, to), to.end)
        return self._state(names, to)

    def _state(self, names: _Names, to: Block) -> State:
        cells = self.machine.cells
        slots: list[Atom | None] = [None] * len(cells.slots)
        values = {cells.of[v]: names.atom(v) for v in sorted(self.machine.live.at[to], key=lambda v: v.id)}
        values = {c: self.whole.get(a, a) for c, a in values.items()}
        arrays = [c for c in cells.cells if c.sizes or shape_of(cells.slots[c.at].type)]
        taken: set[Var] = set()
        kept = [c for c in arrays if c in values and values[c] is self._own(c)]
        for c in (*kept, *[c for c in arrays if c in values and c not in kept]):
            a = values[c]
            roots = names.roots.of(a)
            if c not in kept and (roots & taken or not self._here(names, a)):
                a = self._copy(names, a)
                roots = {a}
            taken |= roots
            self._put(slots, c, coerce(names.b, a, self._type(c, a.type)))
        for c in cells.cells:
            if c in arrays:
                continue
            value = values.get(c, self._own(c))
            slots[c.at] = Builder().zeros(cells.slots[c.at].type) if value is None else value
        for c in [c for c in arrays if c not in values]:
            a = self._spare(names.roots, c, [c, *[x for x in arrays if x in values and x.kind == c.kind]], taken)
            taken |= names.roots.of(a)
            self._put(slots, c, a)
        assert all(a is not None for a in slots)
        return [i64(self.machine.number[to]), *[a for a in slots if a is not None]]

    def _spare(self, roots: Roots, c: Cell, among: Sequence[Cell], taken: set[Var]) -> Atom:
        """Any array for a cell that nobody needs: what is in one of these cells, or what became of it."""
        for x in among:
            own = self._own(x)
            if own is None or own in taken:
                continue
            if own not in roots.overwritten:
                return own
            for v in roots.successors(own):
                if self.machine.cells.kind(v.type) == c.kind and roots.of(v).isdisjoint(taken):
                    return v
        return self._nothing(c)

    def _own(self, c: Cell) -> Var | None:
        """What was in the cell when the block began."""
        return None if self.params is None else self.params[c.at + 1]

    def _here(self, names: _Names, a: Atom) -> bool:
        """Whether the loop may overwrite the array: it is its own.  Before it, its initial values are."""
        return self.params is None or names.roots.of(a) <= names.roots.bound | set(self.params)

    def _copy(self, names: _Names, a: Atom) -> Var:
        out = Var(a.name if isinstance(a, Var) else "x", a.type)
        names.put(ir.Stm((out,), ir.Copy(a)))
        return out

    def _type(self, c: Cell, t: Type) -> Type:
        """The type of a value for the cell: its own sizes where they may change."""
        elem, shape = c.kind
        return ArrayType(elem, tuple([k if n is None else n for n, k in zip(shape, shape_of(t), strict=True)]))

    def _put(self, slots: list[Atom | None], c: Cell, a: Atom) -> None:
        slots[c.at] = a
        for at, n in zip(c.sizes, shape_of(a.type), strict=True):
            if at is not None:
                slots[at] = n

    def _nothing(self, c: Cell) -> Atom:
        """What an array's cell has while nobody needs it; without elements if its size changes."""
        if c not in self.none:
            elem, shape = c.kind
            t = ArrayType(elem, tuple([ZERO if n is None else n for n in shape]))
            self.none[c] = self.b.zeros(t, "none")
        return self.none[c]


def flatten(lam: ir.Lambda) -> ir.Lambda:
    """The function with its spine as one loop; itself if the spine is no more than that."""
    if not Spine(lam).several:
        return lam
    LEGAL.fired()
    lam = hoist_from_loops(lam)
    spine = Spine(lam)
    first, last = blocks_of(lam, spine)
    b = Builder()
    places = [a for s in ir.statements(lam.stms) if s in spine.loops for a in placed(s) if a[0] == PLACE]
    attrs = (*places[:1], (MERGED, len(spine.loops)))
    names = Machine(first, last, lam.result).emit(b, attrs)
    names.run(last.stms)
    result = tuple([names.atom(a) for a in lam.result])
    return ir.Lambda(lam.params, tuple(b.stms), result)
