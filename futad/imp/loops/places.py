"""Places in arrays, in iterations that run in lanes: those that a lane at rest may read (see `masked_lanes.py`).

Integers that are affine in the map's own index are computed again by each loop over the lanes that uses them rather
than kept for each lane: so the C compiler sees how far the places of lanes are from each other.  Nobody assigns to what
they are made of while they are used, and they fail nowhere.

A lane at rest may read a place that is in its array whatever the lane does.  An array with the extents n and m has
element (a, b) at a * m + b.  A place that is such a sum, with 0 <= a < n and 0 <= b < m, is in the array: as a
polynomial over variables it is divided by the strides, the largest one first, and the quotients are what has to be in
range.  That is so of a loop's variable whose bound is the extent, of what has been checked for all lanes, and of
numbers.  Since the quotients are, the sum does not leave 64 bits; and no extent is 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from futad.core.types import I64, Prim, Var
from futad.imp import ir
from futad.imp.ir import Expr, Num, Ref
from futad.imp.regions import ARITHMETIC, split
from futad.imp.walk import refs
from futad.rewrite.ranges import Poly, constant, plus, times

LONGEST = 8  # terms of a place
MEMORY = 48  # bits of the number of an array's elements, at most
FAR = 1 << 58  # with the few lanes of a block, still less than there are integers
AGAIN = 4  # operations that are done once more rather than kept for each lane


@dataclass(frozen=True, slots=True)
class Sizes:
    """What lowering knows of variables and memory: the extents of `arrays`, by their pointers, which fill their memory;
    what loop variables range over, from 0 on; and what variables stand for that nobody assigns to."""

    arrays: Mapping[str, tuple[Expr, ...]] = field(default_factory=dict)
    ranges: Mapping[str, Expr] = field(default_factory=dict)
    lets: Mapping[str, Expr] = field(default_factory=dict)


NO_SIZES = Sizes()


class Places:
    """What is known of places in the body of a loop over `var`.  `own`: the names that it declares; `changing`: the
    scalars that it assigns to, of which nothing is known."""

    def __init__(self, sizes: Sizes, var: str, own: frozenset[str], changing: frozenset[str]) -> None:
        self.sizes, self.var, self.own, self.changing = sizes, var, own, changing
        self.again: dict[str, int] = {}  # integers that are computed again, and by how many operations
        self.inits: dict[str, Expr] = {}  # of its own variables, those that are computed in all lanes
        self.passed: list[tuple[Expr, Expr]] = []  # checks: indices and sizes
        self.vars: dict[str, Var] = {}

    def declare(self, n: str, t: Prim, init: Expr, varying: Set[str]) -> None:
        """A variable that nobody assigns to; `varying`: those that differ between lanes."""
        self.inits[n] = init
        cost = self.cost(init, varying)
        if t is I64 and cost <= AGAIN and refs(init) & (self.again.keys() | {self.var}):
            self.again[n] = cost

    def cost(self, e: Expr, varying: Set[str]) -> int:
        """The operations by which a lane computes an integer from the map's own index and what all lanes share; more
        than `AGAIN` where it cannot, or is to keep it."""
        match e:
            case Num():
                return 0
            case Ref(n):
                return 0 if n == self.var or n not in varying else self.again.get(n, AGAIN + 1)
            case ir.Bin("+" | "-" | "*", a, b) | ir.Scalar("add" | "sub" | "mul", (a, b)):
                return 1 + self.cost(a, varying) + self.cost(b, varying)
        return AGAIN + 1

    def computed_again(self, used: Set[str]) -> list[ir.Stmt]:
        """Declarations of those that are used, and of what they are made of."""
        out: list[ir.Stmt] = []
        for n in reversed(self.again):
            if n in used:
                out.append(ir.Decl(n, I64, self.inits[n]))
                used = used | refs(self.inits[n])
        return out[::-1]

    def check(self, cond: Expr) -> None:
        """The condition holds for all lanes from here on, until `passed` is cut."""
        if isinstance(cond, ir.Bin) and cond.op == "in_bounds":
            self.passed.append((cond.left, cond.right))

    def inside(self, x: ir.Load) -> bool:
        """Whether what is read is of the array, whatever the lane does."""
        shape = self.sizes.arrays.get(x.pointer)
        if shape is None:
            return False
        kept = {s.name for s in shape if isinstance(s, Ref)}
        rest = self.poly(x.index, kept)
        for d, size in enumerate(shape):
            stride = self.poly(ir.product(shape[d + 1 :]), kept)
            if rest is None or stride is None or len(stride) != 1:
                return False
            ((mono, c),) = stride.items()
            if c < 1:
                return False
            at, rest = split(rest, mono, c)
            if not self.below(at, size, kept):
                return False
        return rest == {}

    def apart(self, pointer: str, index: Expr, varying: Set[str]) -> bool:
        """Whether iterations that differ in `varying` have places of their own in the array, as far as these are in
        range: they move with the map's own index by a constant, or by that many rows of the array, which are not empty
        then; and what else they are made of is the same for all."""
        shape = self.sizes.arrays.get(pointer, ())
        place = self.poly(index, {s.name for s in shape if isinstance(s, Ref)})
        if place is None:
            return False
        own = self.vars.get(self.var)
        if own is None:
            return False
        names = {v: n for n, v in self.vars.items()}
        moving = [(m, c) for m, c in place.items() if own in m]
        if len(moving) != 1 or any(names[v] in varying for m in place for v in m if v is not own):
            return False
        ((mono, c),) = moving
        rest = Counter(mono)
        rest.subtract([own])
        extents = Counter(s.name for s in shape if isinstance(s, Ref))
        if any(k > extents[names[v]] for v, k in rest.items()):
            return False
        return abs(c) << (MEMORY if +rest else 0) < FAR  # so that it does not come back to where it was

    def below(self, at: Poly, size: Expr, kept: set[str]) -> bool:
        """Whether 0 <= at < size."""
        if not set(at) - {()} and isinstance(size, Num):
            return 0 <= at.get((), 0) < size.value
        end = self.poly(size, kept)
        names = [n for n, v in self.vars.items() if at == {(v,): 1} and n in self.sizes.ranges]
        if end is None:
            return False
        if any(self.poly(self.sizes.ranges[n], kept) == end for n in names):
            return True
        return any(self.poly(i, kept) == at and self.poly(n, kept) == end for i, n in self.passed)

    def poly(self, e: Expr, kept: set[str]) -> Poly | None:
        """An i64 expression as a polynomial over variables that stay as they are, `kept` among them; None if it is
        something else."""
        match e:
            case Num(value, t) if t is I64:
                return constant(value)
            case Ref(name, t) if t is I64 and name not in self.changing:
                init = None if name in kept else (self.inits if name in self.own else self.sizes.lets).get(name)
                got = None if init is None else self.poly(init, kept)
                return {(self.vars.setdefault(name, Var("x", I64)),): 1} if got is None else got
            case ir.Bin(op, a, b) if op in ARITHMETIC:
                return self.combined(ARITHMETIC[op], a, b, kept)
            case ir.Scalar(op, (a, b), t) if op in ARITHMETIC.values() and t is I64:
                return self.combined(op, a, b, kept)
        return None

    def combined(self, op: str, a: Expr, b: Expr, kept: set[str]) -> Poly | None:
        p, q = self.poly(a, kept), self.poly(b, kept)
        if p is None or q is None or len(p) * len(q) > LONGEST:
            return None
        return times(p, q) if op == "mul" else plus(p, q, 1 if op == "add" else -1)


__all__ = ["NO_SIZES", "Places", "Sizes"]
