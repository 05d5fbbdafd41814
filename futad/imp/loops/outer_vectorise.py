"""Maps around loops that carry scalars or reduce columns, a block of iterations at a time.

    for i: { t = f(i); y = 0; for j: y = y * t + x[j]; s += g(t, y) }
  becomes, for i in steps of some lanes,
    { for l: { t[l] = f(i + l); y[l] = 0 }; for j: for l: y[l] = y[l] * t[l] + x[j]; for l: s += g(t[l], y[l]) }

so that vector lanes have work although each j waits for the one before: it reads a scalar, or an element of a row that
the one before has stored.  An array that an iteration has for itself, such as the values that a reverse sweep needs, or
such a row, lies with the elements of all lanes side by side.  Where the inner loop has much to compute, lanes may
gather what they read and scatter what they write.  Branches that only compute scalars are computed on both sides.  A
loop inside that reduces a column (`for j: s += x[j, i]`) would have to gather it in its own lanes; in those of the
loop around, elements lie side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field
from functools import cache

from futad.fires import refused
from futad.imp import ir
from futad.imp.ir import Expr
from futad.imp.loops.facts import LoopFacts, cost
from futad.imp.loops.if_conversion import can_fail, if_converted
from futad.imp.loops.places import NO_SIZES, Places, Sizes
from futad.imp.walk import has_load, loads_in, refs, statements
from futad.legality import Legality

LEGAL = Legality(
    "outer-loop-vectorisation",
    "iterations of a map around loops that carry scalars, or reduce columns, run together, each in a lane",
    worth="a hidden Markov model 2.3 to 1.1 ms, its gradient 4.7 to 3.4: "
    "`benchmarks/without.py 'no outer-loop-vectorisation' hmm`",
)
ADDED = LEGAL.condition("arrays added to only", "a lane reads, or overwrites, what others are to fold into an array")
OWN_PLACES = LEGAL.condition("places of its own", "two lanes add to one element at once")
UNSEEN = LEGAL.condition("reductions unseen", "an iteration reads what earlier ones have reduced")
SIZES_OUTSIDE = LEGAL.condition("sizes known outside", "the memory of all lanes is had before the first block")
SAME_ITERATIONS = LEGAL.condition("inner loops alike", "the lanes' inner loops have different iterations")
SAME_BRANCH = LEGAL.condition("one branch for all", "lanes take different branches")
FAILS_NOT = LEGAL.condition("fails not", "a failure of one lane stops them all, in another order")

LARGEST = 160  # statements of an inner loop (a step of an integrator's return sweep has about 70)
MUCH = 20  # cost of an inner loop for which lanes may read and write where it suits each of them


def outer_vectorised(
    loop: ir.For, body: list[ir.Stmt], folds: Set[str], asked: bool = False, sizes: Sizes = NO_SIZES
) -> ir.Blocks | None:
    """A map's loop (with this body) in blocks; None unless it has inner loops that carry scalars, which all iterations
    take equally often, and nothing else that could differ between iterations but scalars and places in memory.
    `folds`: pointers to arrays that it folds into, the only ones that one iteration writes and another one reads.
    `asked`: whether it pays or not; `sizes`: what is known of arrays."""
    if loop.step != 1 or not any(isinstance(s, ir.For) for s in body):
        return refused("there is no loop inside")
    body = if_converted(body, folds, is_inside(loop, body, sizes))
    shape = Shape(loop.var, folds, {loop.var}, places_in(loop, body, sizes))
    if not shape.takes(body, inner=False):
        return refused("iterations differ in more than scalars and places in memory")
    columns = _reduces_columns(loop, body)
    if not shape.carried and not columns:
        return refused("no loop inside carries scalars, or reduces what lies side by side for this one's iterations")
    most = max((cost(f.body) for f in statements(body) if isinstance(f, ir.For)), default=0)
    if shape.gathers and not columns and most < MUCH and not asked:
        return refused("lanes would gather and scatter for little to compute")
    return in_blocks(loop, body, shape)


def places_in(loop: ir.For, body: list[ir.Stmt], sizes: Sizes) -> Places:
    """What is known of places in the body, which is the loop's; of integers that it declares, too."""
    made: set[str] = set()
    changed: set[str] = set()
    inits: dict[str, Expr] = {}
    for s in statements(body):
        made.update(s.defines())
        changed.update(s.assigns())
        if isinstance(s, ir.Decl) and not s.mutable and s.init is not None and not s.type.is_float:
            inits[s.name] = s.init
    places = Places(sizes, loop.var, frozenset(made), frozenset(changed))
    places.inits.update((n, e) for n, e in inits.items() if not has_load(e))
    return places


def is_inside(loop: ir.For, body: list[ir.Stmt], sizes: Sizes) -> Callable[[ir.Load], bool]:
    """Whether what the body reads is there, whatever an iteration does; what that takes is found once it is asked."""
    places = cache(lambda: places_in(loop, body, sizes))
    return lambda x: places().inside(x)


def _reduces_columns(loop: ir.For, body: list[ir.Stmt]) -> bool:
    """Whether loops inside reduce elements that lie side by side for neighbouring iterations of the loop, and nothing
    inside reads or writes elsewhere but at one place for all.  Lanes of the loops inside would have to gather them."""
    facts = LoopFacts(loop.var, statements(body))
    reduced = False
    for f in facts.inner:
        places = [x.index for s in f.body for x in loads_in(s)] + [s.index for s in f.body if isinstance(s, ir.Store)]
        if not all(facts.beside(index) or facts.invariant(index) for index in places):
            return False
        reduced |= bool(f.partials) and any(facts.beside(index) for index in places)
    return reduced


def in_blocks(loop: ir.For, body: list[ir.Stmt], shape: Shape) -> ir.Blocks | None:
    """The loop in blocks, if nothing but what the body is forbids that."""
    if not ADDED(not shape.added & shape.read):
        return None
    # What the map itself reduces is seen by nothing inside.
    if not UNSEEN(not shape.partials & shape.mentioned):
        return None
    # The sizes are needed before the first block.
    if not SIZES_OUTSIDE(not any(refs(n) & shape.made for n in shape.sizes)):
        return None
    own = {n: k for n, k in shape.scatter_adds.items() if n not in shape.added}
    body = _scalar_adds(body, own)  # the others one lane after the other (`backend/c_blocks.py`)
    plain = ir.For(loop.var, loop.bound, body, loop.start, map=True)
    return ir.Blocks(plain, frozenset(shape.arrays), tuple(shape.sizes), frozenset(shape.made - shape.varying))


@dataclass(slots=True)
class Shape:
    """What the body of a map does that folds into the arrays `folds`.  `varying`: scalars that differ between
    iterations; `made`: all that the body declares; `arrays`: what an iteration has for itself, and `sizes` in bytes;
    `gathers`: in an innermost loop arrays are read or written at places that differ between iterations;
    `scatter_adds`: how often others than its own are added to there, each iteration at a place of its own (`places`).
    Where that is not known, lanes add one after the other to what is `added` to; pointers that are `read`."""

    var: str
    folds: Set[str]
    varying: set[str]
    places: Places
    made: set[str] = field(default_factory=set)
    arrays: set[str] = field(default_factory=set)
    sizes: list[Expr] = field(default_factory=list)
    partials: set[str] = field(default_factory=set)
    gathers: bool = False
    scatter_adds: dict[str, int] = field(default_factory=dict)
    mentioned: set[str] = field(default_factory=set)
    carried: bool = False
    innermost: bool = False
    added: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)

    def takes(self, body: list[ir.Stmt], inner: bool) -> bool:
        """Whether the statements (of an inner loop, or the map's own) can be done for several iterations at a time."""
        return all(self.statement(s, inner) and self.expressions(s, inner) for s in body)

    def statement(self, s: ir.Stmt, inner: bool) -> bool:
        match s:
            case ir.Decl(name, init=init, mutable=mutable):
                self.made.add(name)
                if mutable or init is None or has_load(init) or self.differs(init):
                    self.varying.add(name)
            case ir.Assign(name):
                self.carried |= inner
                return name in self.made
            case ir.Accumulate(name):
                if name not in self.made:
                    assert not inner, "a loop folds into variables that are declared before it"
                    self.partials.add(name)
            case ir.Store(pointer, index, value, op):
                gathers = self.differs(index)
                if pointer in self.folds and not ADDED(op is not None and not gathers):
                    return False
                self.gathers |= self.innermost and gathers
                if pointer in self.arrays:
                    return op is None
                if not inner:
                    return op is None
                if op is None:
                    return gathers
                if gathers and not OWN_PLACES(self.places.apart(pointer, index, self.varying)):
                    self.added.add(pointer)
                elif gathers:
                    self.scatter_adds[pointer] = self.scatter_adds.get(pointer, 0) + 1
                return op == "add" and value.type.is_float
            case ir.For(var, bound, inside, start, step=step):
                self.made.add(var)
                if step != 1 or len(inside) > LARGEST:
                    return False
                if not SAME_ITERATIONS(not self.differs(bound) and not self.differs(start)):
                    return False
                around, self.innermost = self.innermost, not any(isinstance(t, ir.For) for t in statements(inside))
                if not self.takes(inside, inner=True):
                    return False
                self.innermost = around
                self.carried |= not (s.map or s.independent) and bool(self.carriers(inside))
            case ir.Ensure(name, elem, slot, count):
                self.arrays.add(name)
                self.sizes.append(ir.mul(count, ir.num(elem.bits // 8)))
                return isinstance(slot, int)
            case ir.Stack(name, elem, count):
                self.arrays.add(name)
                self.sizes.append(ir.num(count * elem.bits // 8))
            case ir.Pointer(name, base=base, offset=offset):
                self.arrays.add(name)
                return base in self.arrays and offset == ir.ZERO
            case ir.Copy(target, offset, source, source_offset, count):
                return {target, source} <= self.arrays and not any(map(self.differs, (offset, source_offset, count)))
            case ir.Swap(left, right, elem):  # all lanes' at once
                return elem is not None and {left, right} <= self.arrays
            case ir.If(cond, then, orelse):
                alike = SAME_BRANCH(not has_load(cond) and not self.differs(cond))
                return alike and self.takes(then, inner) and self.takes(orelse, inner)
            case ir.Check(cond, values=values):
                return not any(self.differs(e) or has_load(e) for e in (cond, *values))
            case _:
                return False
        return True

    def carriers(self, inside: list[ir.Stmt]) -> set[str]:
        """The arrays of its own by which an iteration of a loop inside hands values to the next one: a row of a table,
        of which each element needs the one before."""
        stored = {s.pointer for s in inside if isinstance(s, ir.Store)}
        return stored & self.arrays & {x.pointer for s in inside for x in loads_in(s)}

    def expressions(self, s: ir.Stmt, inner: bool) -> bool:
        """Whether all iterations can compute the statement's expressions together; notes what they mention."""
        for e in s.exprs():
            self.mentioned |= refs(e)
            if inner and not FAILS_NOT(not can_fail(e)):
                return False
            for x in loads_in(e):
                self.read.add(x.pointer)
                if x.pointer in self.folds and not ADDED(False):
                    return False
                self.gathers |= self.innermost and self.differs(x.index)
        return True

    def differs(self, e: Expr) -> bool:
        """Whether the expression is another one in each iteration."""
        return bool(refs(e) & self.varying) or any(x.pointer in self.arrays for x in loads_in(e))


def _scalar_adds(body: list[ir.Stmt], scatter_adds: dict[str, int]) -> list[ir.Stmt]:
    """The statements with what is added to at a place of each iteration's own read and stored by it.  All lanes make
    such an addition before they make the next one to the same array (`Seq` is between), which may go where another
    lane has added to."""
    out: list[ir.Stmt] = []
    for s in body:
        if isinstance(s, ir.Store) and s.op is not None and s.pointer in scatter_adds:
            t = s.value.type
            add = ir.Store(s.pointer, s.index, ir.Scalar("add", (ir.Load(s.pointer, s.index, t), s.value), t, t))
            out += [ir.Seq(), add, ir.Seq()] if scatter_adds[s.pointer] > 1 else [add]
        else:
            out.append(s.map_bodies(lambda inside: _scalar_adds(inside, scatter_adds)))
    return out
