"""Jump threading: which blocks have a number, and which are made part of those that jump to them.

A block of few scalar operations is put where the jumps to it are, so that an iteration which does not end the loop
around it is one tick.  A cycle of such blocks has one with a number, and so has a block that much would follow in this
way; it is put where one jumps to it nevertheless, but not behind another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from futad.ad.spine.blocks import Block, Edge, Goto, Test, gotos
from futad.ad.spine.grain import cost
from futad.core.types import Atom, Prim, Var

LIGHT = 100  # scalar operations of a block that is copied
COPIED = 300  # and with what is copied behind it

Path = tuple[Block, ...]


@dataclass(slots=True, eq=False)
class Leaf:
    """Where a path of a block ends: the block with a number that it jumps to, and what the parameters of that one and
    of the blocks on the way are, as far as these are variables or constants."""

    target: Block
    given: dict[Var, Atom]


class Threads:
    """`numbered`: the blocks with a number that can be reached, without the last one."""

    def __init__(self, first: Block, last: Block) -> None:
        self.first, self.last = first, last
        self._copied: dict[Block, float] = {}  # of light blocks without a number: the operations copied
        self._heavy: set[Block] = {last}
        self._cut: set[Block] = set()  # light ones with a number
        self._visit(first, set())
        found: dict[Block, None] = {}
        todo = [first]
        while todo:
            for leaf in self.leaves(todo.pop()):
                if leaf.target is not last and leaf.target not in found:
                    found[leaf.target] = None
                    todo.append(leaf.target)
        self.numbered = list(found)

    def _visit(self, b: Block, above: set[Block]) -> None:
        """Classify the blocks from `b` on; light ones `above` it lead here."""
        if b in above:
            self._cut.add(b)
        if b in above or b in self._copied or b in self._heavy:
            return
        light = b is not self.first and _light(b)
        if not light:
            self._heavy.add(b)
        for g in gotos(b.end):
            self._visit(g.target, above | {b} if light else set())
        if light:
            total = cost(b.stms) + sum(self._behind(g.target) for g in gotos(b.end))
            self._copied[b] = total
            if total > COPIED:
                self._cut.add(b)

    def _behind(self, b: Block) -> float:
        return 1 if b in self._cut else self._copied.get(b, 1)

    def threaded(self, path: Path, goto: Goto) -> bool:
        """Whether the block jumped to becomes a part of the path's first one."""
        to = goto.target
        if to in self._heavy:
            return False
        return to not in self._cut or to not in path and self._cut.isdisjoint(path[1:])

    def leaves(self, b: Block) -> Iterator[Leaf]:
        """The ends of all paths from a block."""
        yield from self._leaves((b,), b.end, {})

    def _leaves(self, path: Path, edge: Edge | None, given: dict[Var, Atom]) -> Iterator[Leaf]:
        if isinstance(edge, Test):
            yield from self._leaves(path, edge.then, given)
            yield from self._leaves(path, edge.orelse, given)
        elif edge is not None:
            args = [given.get(a, a) if isinstance(a, Var) else a for a in edge.args]
            now = given | dict(zip(edge.target.params, args, strict=True))
            if self.threaded(path, edge):
                yield from self._leaves((*path, edge.target), edge.target.end, now)
            else:
                yield Leaf(edge.target, now)


def _light(b: Block) -> bool:
    return cost(b.stms) <= LIGHT and all(
        not s.exp.lambdas() and (s.exp.views() or all(isinstance(v.type, Prim) for v in s.pat)) for s in b.stms
    )
