"""Which variables each block of a function needs from those before it.

A view of an array is not handed on from block to block: who needs it makes it again from its operands, which costs
nothing and keeps arrays apart in memory.  That is right because nobody overwrites an array that a view of it is still
to be read of.
"""

from __future__ import annotations

from collections.abc import Iterable

from futad.ad.spine.blocks import Block, conditions, gotos
from futad.core import ir
from futad.core.types import ArrayType, Var, shape_of


class Liveness:
    """`at[block]`: the variables needed where a block begins, its own parameters included.

    `outer`: the variables bound before all jumps, which every block sees.
    """

    def __init__(self, first: Block, last: Block, result: ir.Atoms) -> None:
        self.blocks = reachable(first)
        self.last = last
        self.bound = {v for b in self.blocks[1:] for v in (*b.params, *[x for s in b.stms for x in s.pat])}
        self.views: dict[Var, ir.Stm] = {}
        for b in self.blocks[1:]:
            for s in b.stms:
                if s.exp.views() and not s.exp.effect and isinstance(s.pat[0].type, ArrayType):
                    self.views[s.pat[0]] = s
        self._result = result
        self.at: dict[Block, set[Var]] = {b: set() for b in self.blocks}
        changed = True
        while changed:
            changed = False
            for b in reversed(self.blocks):
                new = self._needs(b)
                changed = changed or new != self.at[b]
                self.at[b] = new

    def _needs(self, b: Block) -> set[Var]:
        used: set[Var] = set()
        for s in b.stms:
            used.update(ir.stm_free(s))
        used.update(a for a in conditions(b.end) if isinstance(a, Var))
        for g in gotos(b.end):
            now = self.at[g.target]
            used |= now - set(g.target.params)
            used.update(a for p, a in zip(g.target.params, g.args, strict=True) if p in now and isinstance(a, Var))
        if b is self.last:
            used.update(a for a in self._result if isinstance(a, Var))
        own = {v for s in b.stms for v in s.pat}
        return self._closed(used, own)

    def _closed(self, used: Iterable[Var], own: set[Var]) -> set[Var]:
        """What has to be handed on for these variables: sizes with arrays, and for a view its operands."""
        out: set[Var] = set()
        todo = list(used)
        while todo:
            v = todo.pop()
            if v in out or v in own or v not in self.bound:
                continue
            if (view := self.views.get(v)) is not None:
                todo += ir.stm_free(view)
            else:
                out.add(v)
                todo += [n for n in shape_of(v.type) if isinstance(n, Var)]
        return out


def reachable(first: Block) -> list[Block]:
    """The blocks that control can reach, in an order in which most come after those that jump to them."""
    out: dict[Block, None] = {}
    todo = [first]
    while todo:
        b = todo.pop()
        if b not in out:
            out[b] = None
            todo += [g.target for g in gotos(b.end)][::-1]
    return list(out)


__all__ = ["Liveness", "reachable"]
