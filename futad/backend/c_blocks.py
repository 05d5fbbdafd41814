"""C for maps around loops that carry scalars (`imp/blocks.py`): each scalar is an array of lanes, each run of
statements a loop over the lanes that the C compiler vectorises; and the iterations that are left, one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from futad.backend.emit import c_type
from futad.core.types import I64, Prim
from futad.imp import ir
from futad.imp.ir import Expr, Load, Num, Ref
from futad.imp.vectorise import count_refs, expressions, unit_of

if TYPE_CHECKING:
    from futad.backend.c import CEmitter

LANES = (32, 16, 8)  # iterations of a block: the first number, or the first that a constant number of iterations allows
LANE = Ref("lane", I64)


def emit(em: CEmitter, s: ir.Blocks) -> None:
    """The loop in blocks, and its last iterations."""
    loop = s.loop
    i = loop.var
    known = loop.bound.value if isinstance(loop.bound, Num) else LANES[0]
    lanes = next((n for n in LANES if n <= known), 0)
    if not lanes:
        em.for_(loop)
        return
    em.line(f"int64_t {i} = {em.expr(loop.start)};")
    em.line(f"for (; {i} + {lanes} <= {em.expr(loop.bound)}; {i} += {lanes}) {{")
    em.depth += 1
    em.line(f"const int64_t block_{i} = {i};")
    _Block(em, i, loop.body, lanes).emit()
    em.depth -= 1
    em.line("}")
    em.line(f"for (; {i} < {em.expr(loop.bound)}; {i}++) {{")
    em.nested(loop.body)
    em.line("}")


class _Block:
    """The statements of some iterations at a time."""

    def __init__(self, em: CEmitter, var: str, body: list[ir.Stmt], count: int) -> None:
        self.em, self.var, self.body, self.count = em, var, body, count
        self.arrays: dict[str, tuple[Prim, bool]] = {}
        """Scalars with an array of lanes: their type and whether they are assigned to."""

    def emit(self) -> None:
        self.arrays_of(self.body)
        for part in _parts(self.body):
            if isinstance(part, ir.For):
                self.inner(part)
            else:
                self.lanes(part)

    def inner(self, loop: ir.For) -> None:
        em = self.em
        j = loop.var
        em.line(f"for (int64_t {j} = {em.expr(loop.start)}; {j} < {em.expr(loop.bound)}; {j}++) {{")
        em.depth += 1
        outer = dict(self.arrays)
        self.arrays_of(loop.body)
        for part in _parts(loop.body):
            assert isinstance(part, list)
            self.lanes(part)
        self.arrays = outer
        em.depth -= 1
        em.line("}")

    def arrays_of(self, body: list[ir.Stmt]) -> None:
        """Declare arrays for the scalars that other parts need."""
        parts = _parts(body)
        for k, part in enumerate(parts):
            if isinstance(part, ir.For):
                continue
            for s in part:
                if isinstance(s, ir.Decl) and any(s.name in _mentioned(p) for j, p in enumerate(parts) if j != k):
                    self.arrays[s.name] = (s.type, s.mutable)
                    self.em.line(f"{c_type(s.type)} lanes_{s.name}[{self.count}];")

    def lanes(self, part: list[ir.Stmt]) -> None:
        """A loop over the lanes."""
        if len(part) == 1 and isinstance(part[0], ir.Store) and part[0].op is not None:
            # All lanes add to one place.
            store = part[0]
            t = store.value.type
            self.em.line("{")
            self.em.depth += 1
            self.em.decl(ir.Decl("total", t, unit_of("add", t), mutable=True))
            self.lanes([ir.Accumulate("total", "add", store.value)])
            self.em.store(ir.Store(store.pointer, store.index, Ref("total", t), "add"))
            self.em.depth -= 1
            self.em.line("}")
            return
        made = {s.name for s in part if isinstance(s, ir.Decl)}
        used = _mentioned(part)
        changed = {s.name for s in part if isinstance(s, (ir.Assign, ir.Accumulate))}
        body: list[ir.Stmt] = []
        if self.var in used:
            body.append(ir.Decl(self.var, I64, ir.add(Ref(f"block_{self.var}", I64), LANE)))
        for name, (t, mutable) in self.arrays.items():
            if name in used and name not in made:
                body.append(ir.Decl(name, t, Load(f"lanes_{name}", LANE, t), mutable=mutable))
        body += part
        for name, (t, _) in self.arrays.items():
            if name in made or name in changed:
                body.append(ir.Store(f"lanes_{name}", LANE, Ref(name, t)))
        partials = [
            ir.Partial(s.name, s.value.type, s.op, unit_of(s.op, s.value.type))
            for s in part
            if isinstance(s, ir.Accumulate) and s.name not in self.arrays and s.name not in made
        ]
        self.em.for_(ir.For(LANE.name, Num(self.count, I64), body, independent=True, partials=partials))


def _parts(body: list[ir.Stmt]) -> list[list[ir.Stmt] | ir.For]:
    """Runs of statements that one loop over the lanes can do; inner loops and additions to memory are by themselves."""
    out: list[list[ir.Stmt] | ir.For] = []
    run: list[ir.Stmt] = []
    for s in body:
        alone = isinstance(s, ir.For) or (isinstance(s, ir.Store) and s.op is not None)
        if alone:
            out += [run] if run else []
            run = []
            out.append(s if isinstance(s, ir.For) else [s])
        else:
            run.append(s)
    return [*out, run] if run else out


def _mentioned(part: list[ir.Stmt] | ir.For) -> set[str]:
    """The names that statements mention, those they assign to included."""
    uses: dict[str, int] = {}
    exps: list[Expr] = []
    names: set[str] = set()
    stms = part
    if isinstance(part, ir.For):
        exps += [part.start, part.bound]
        stms = part.body
    assert isinstance(stms, list)
    for s in stms:
        exps += expressions(s)
        if isinstance(s, (ir.Assign, ir.Accumulate)):
            names.add(s.name)
    for e in exps:
        count_refs(e, uses)
    return names | uses.keys()
