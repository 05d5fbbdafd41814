"""C for maps around loops that carry scalars or reduce (`imp/loops/outer_vectorise.py`): each scalar an array,
each run of statements a loop over the lanes that the C compiler vectorises; what is left, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from futad.backend import c_sums
from futad.backend.emit import c_type
from futad.core.scalarops import OPS
from futad.core.types import I64, Prim
from futad.imp import ir
from futad.imp.ir import Expr, Load, Num, Ref
from futad.imp.loops.facts import LoopFacts
from futad.imp.units import unit_of
from futad.imp.walk import loads_in, refs, rewritten, statements
from futad.imp.walk import parts as expressions

if TYPE_CHECKING:
    from futad.backend.c_emit import CEmitter

LANES = (32, 16, 8)  # iterations of a block: the first number, or the first that a constant number of iterations allows
LANE = Ref("lane", I64)
FEW = 4  # fewer iterations than these, left over, are done one by one
DEAR = 15  # cost of an operation that is a call
MEMORY = 1 << 24  # bytes of the arrays that all iterations of a block have for themselves


def emit(em: CEmitter, s: ir.Blocks) -> None:
    """The loop in blocks, and its last iterations: in a block that is not full, or one by one, if these are not left to
    what follows."""
    loop = s.loop
    i = loop.var
    known = loop.bound.value if isinstance(loop.bound, Num) else None
    lanes = next((n for n in LANES if known is None or n <= known), 0)
    if not lanes:
        em.for_(loop)
        return
    bound = em.expr(loop.bound)
    sizes = [n for n in s.sizes if not isinstance(n, Num)]
    fits = "".join([f" && {em.expr(n)} <= {MEMORY // lanes}" for n in sizes])
    em.line(f"int64_t {i} = {em.expr(loop.start)};")
    em.line(f"for (; {i} + {lanes} <= {bound}{fits}; {i} += {lanes}) {{")
    _Block(em, s, lanes, Num(lanes, I64)).emit()
    em.line("}")
    if known is None or known % lanes >= FEW:
        em.line(f"if ({bound} - {i} >= {FEW}{fits}) {{")
        em.line(f"  const int64_t left_{i} = {bound} - {i};")
        _Block(em, s, lanes, Ref(f"left_{i}", I64)).emit()
        em.line(f"  {i} = {bound};")
        em.line("}")
    if s.until:
        em.line(f"{s.until} = {i};")
        return
    em.line(f"for (; {i} < {bound}; {i}++) {{")
    em.nested(loop.body)
    em.line("}")


class _Block:
    """The statements of some iterations at a time: `lanes` that have room, `used` of them."""

    def __init__(self, em: CEmitter, s: ir.Blocks, lanes: int, used: Expr) -> None:
        self.em, self.s, self.var, self.count, self.used = em, s, s.loop.var, lanes, used
        self.arrays: dict[str, tuple[Prim, bool]] = {}
        """Scalars with an array of lanes: their type and whether they are assigned to."""
        self.made = {d.name for d in statements(s.loop.body) if isinstance(d, ir.Decl)} - s.same
        self.again: dict[str, ir.Decl] = {}
        """Places that each part computes again: of one that is read from an array GCC does not see the stride."""

    def emit(self) -> None:
        self.em.depth += 1
        self.em.line(f"const int64_t block_{self.var} = {self.var};")
        self.statements(self.s.loop.body)
        self.em.depth -= 1

    def statements(self, body: list[ir.Stmt]) -> None:
        outer, again = dict(self.arrays), dict(self.again)
        parts = self.parts(body)
        self.arrays_of(parts)
        for part in parts:
            match part:
                case ir.For(i, bound, inside, start):
                    self.em.line(f"for (int64_t {i} = {self.em.expr(start)}; {i} < {self.em.expr(bound)}; {i}++) {{")
                    self.branch(inside)
                    self.em.line("}")
                case ir.If(cond, then, orelse):
                    self.em.line(f"if ({self.em.expr(cond)}) {{")
                    self.branch(then)
                    self.em.line("} else {")
                    self.branch(orelse)
                    self.em.line("}")
                case ir.Ensure(count=count):
                    self.em.ensure(replace(part, count=self.all_lanes(count)))
                case ir.Copy():
                    places = [self.all_lanes(e) for e in (part.offset, part.source_offset, part.count)]
                    self.em.copy(replace(part, offset=places[0], source_offset=places[1], count=places[2]))
                case ir.Stack(count=count):
                    self.em.stack(replace(part, count=count * self.count))
                case ir.Stmt():
                    self.em.block([part])
                case _ if any(s not in self.again.values() for s in part):
                    self.lanes(part)
        self.arrays, self.again = outer, again

    def branch(self, body: list[ir.Stmt]) -> None:
        self.em.depth += 1
        self.statements(body)
        self.em.depth -= 1

    def all_lanes(self, e: Expr) -> Expr:
        """That many elements for every lane that is used."""
        return ir.mul(e, self.used)

    def parts(self, body: list[ir.Stmt]) -> list[list[ir.Stmt] | ir.Stmt]:
        """Runs of statements that one loop over the lanes can do, none of them past a (then empty) group.  Inner loops
        and additions to memory are by themselves; what is the same for all lanes goes before the run it is in."""
        out: list[list[ir.Stmt] | ir.Stmt] = []
        run: list[ir.Stmt] = []
        for s in body:
            if isinstance(s, (ir.Ensure, ir.Stack, ir.Pointer, ir.Check)):
                out.append(s)
            elif isinstance(s, ir.Decl) and s.name in self.s.same:
                out.append(s)
            elif isinstance(s, ir.Seq):
                out += [run] if run else []
                run = []
            elif isinstance(s, (ir.For, ir.If, ir.Copy, ir.Swap)) or (isinstance(s, ir.Store) and s.op is not None):
                out += [run] if run else []
                run = []
                out.append([s] if isinstance(s, ir.Store) else s)
            else:
                run.append(s)
        out += [run] if run else []
        return [x for part in out for x in (self.staged(part) if isinstance(part, list) else [part])]

    def staged(self, run: list[ir.Stmt]) -> list[list[ir.Stmt]]:
        """The run; if it calls functions, and memory of its lanes is not side by side, its loads, its operations and
        its stores.  GCC vectorises no loop that stores at a distance: it would call the functions lane by lane."""
        dear = any(isinstance(x, ir.Scalar) and OPS[x.op].cost >= DEAR for s in run for x in expressions(s))
        if not dear:
            return [run]
        stores = [s for s in run if isinstance(s, ir.Store)]
        computed = {name for s in run for name in s.assigns()}
        if any(computed & refs(s) for s in stores):
            return [run]  # a variable's value then is not its last one
        loads: list[ir.Stmt] = []
        for s in run:
            if isinstance(s, ir.Decl) and not refs(s) & computed and (self.is_place(s) or isinstance(s.init, Load)):
                loads.append(s)
            elif isinstance(s, ir.Decl):
                computed.add(s.name)
        first = next((k for k, s in enumerate(run) if isinstance(s, ir.Store)), len(run))
        late = any(isinstance(x, Load) for s in run[first:] for x in expressions(s))
        if late or not all(isinstance(s.value, Ref) and s.pointer not in self.s.arrays for s in stores):
            return [run]
        facts = LoopFacts(self.var, [*self.again.values(), *run])
        places = [s.index for s in stores]
        places += [s.init.index for s in loads if isinstance(s, ir.Decl) and isinstance(s.init, Load)]
        if all(facts.invariant(e) or facts.beside(e) for e in places):
            return [run]
        left = [s for s in run if s not in loads and not isinstance(s, ir.Store)]
        return [part for part in (loads, left, list[ir.Stmt](stores)) if part]

    def arrays_of(self, parts: list[list[ir.Stmt] | ir.Stmt]) -> None:
        """Declare arrays for the scalars that other parts need."""
        mentioned = [_mentioned(part if isinstance(part, list) else [part]) for part in parts]
        for k, part in enumerate(parts):
            for s in part if isinstance(part, list) else ():
                if isinstance(s, ir.Decl) and self.is_place(s):
                    self.again[s.name] = s
                elif isinstance(s, ir.Decl) and any(s.name in m for j, m in enumerate(mentioned) if j != k):
                    self.arrays[s.name] = (s.type, s.mutable)
                    self.em.line(f"{c_type(s.type)} lanes_{s.name}[{self.count}];")

    def is_place(self, s: ir.Decl) -> bool:
        """Whether it is arithmetic on the loop's variable, such places, and what is the same for all lanes: the same
        value in each part, as none of these changes within an iteration, and no memory is read."""
        if s.mutable or s.type is not I64 or s.init is None:
            return False
        if not all(isinstance(e, Ref | Num | ir.Bin) for e in expressions(s)):
            return False
        return all(name == self.var or name in self.again or name not in self.made for name in refs(s.init))

    def of_lane(self, s: ir.Stmt) -> ir.Stmt:
        """The statement with the lane's elements of arrays that each iteration has for itself."""

        def at(index: Expr) -> Expr:
            return ir.add(self.all_lanes(index), LANE)

        def load(e: Expr) -> Expr:
            return Load(e.pointer, at(e.index), e.type) if isinstance(e, Load) and e.pointer in self.s.arrays else e

        own = isinstance(s, ir.Store) and s.pointer in self.s.arrays
        s = s.map_exprs(lambda e: rewritten(e, load))
        return replace(s, index=at(s.index)) if own and isinstance(s, ir.Store) else s

    def lanes(self, part: list[ir.Stmt]) -> None:
        """A loop over the lanes."""
        added = part[0] if len(part) == 1 and isinstance(part[0], ir.Store) and part[0].op is not None else None
        if added is not None and self.differs(added.index):
            self.lane_loop(part, apart=False)
            return
        if added is not None:
            # All lanes add to one place.
            store = added
            t = store.value.type
            self.em.line("{")
            self.em.depth += 1
            self.em.decl(ir.Decl("total", t, unit_of("add", t), mutable=True))
            self.lanes([ir.Accumulate("total", "add", store.value)])
            self.em.store(ir.Store(store.pointer, store.index, Ref("total", t), "add"))
            self.em.depth -= 1
            self.em.line("}")
            return
        part, alike = self.alike(part)
        if alike:
            self.em.line("{")
            self.em.depth += 1
            self.em.block(alike)
        self.lane_loop(part)
        if alike:
            self.em.depth -= 1
            self.em.line("}")

    def alike(self, part: list[ir.Stmt]) -> tuple[list[ir.Stmt], list[ir.Stmt]]:
        """The part, and the reads of it that are the same for all lanes, if lanes write to arrays of their own: a C
        compiler does not see that these are others, and makes no vectors of a loop that may write what it reads in one
        place."""
        stores = [s for s in part if isinstance(s, ir.Store)]
        if not stores or not all(s.pointer in self.s.arrays for s in stores):
            return part, []
        made = {s.name for s in part if isinstance(s, ir.Decl)} | self.arrays.keys() | self.again.keys() | {self.var}
        alike: list[ir.Stmt] = [
            s
            for s in part
            if isinstance(s, ir.Decl)
            and isinstance(s.init, Load)
            and not s.mutable
            and s.name not in self.arrays
            and s.init.pointer not in self.s.arrays
            and not refs(s.init) & made
        ]
        return [s for s in part if s not in alike], alike

    def differs(self, e: Expr) -> bool:
        """Whether an expression is another one in each lane."""
        own = {self.var, *self.arrays, *self.again}
        return bool(refs(e) & own) or any(x.pointer in self.s.arrays for x in loads_in(e))

    def lane_loop(self, part: list[ir.Stmt], apart: bool = True) -> None:
        """`apart`: no two lanes write to one place."""
        made = {s.name for s in part if isinstance(s, ir.Decl)}
        used = _mentioned(part)
        changed = {s.name for s in part if isinstance(s, (ir.Assign, ir.Accumulate))}
        body: list[ir.Stmt] = []
        again: list[ir.Stmt] = []
        for d in reversed(self.again.values()):
            if d.name in used and d.name not in made:
                used |= refs(d)
                again.insert(0, d)
        if self.var in used:
            body.append(ir.Decl(self.var, I64, ir.add(Ref(f"block_{self.var}", I64), LANE)))
        body += again
        for name, (t, mutable) in self.arrays.items():
            if name in used and name not in made:
                body.append(ir.Decl(name, t, Load(f"lanes_{name}", LANE, t), mutable=mutable))
        body += [self.of_lane(s) for s in part]
        for name, (t, _) in self.arrays.items():
            if name in made or name in changed:
                body.append(ir.Store(f"lanes_{name}", LANE, Ref(name, t)))
        partials = LoopFacts(LANE.name, part, self.arrays).partials()
        loop = ir.For(LANE.name, self.used, body, independent=apart, partials=partials)
        if c_sums.in_lanes(loop):
            c_sums.emit_lanes(self.em, loop)
        else:
            self.em.for_(loop)


def _mentioned(body: Sequence[ir.Stmt]) -> set[str]:
    """The names that statements mention, those they assign to included."""
    return {name for s in statements(body) for name in (*s.uses(), *s.assigns())}
